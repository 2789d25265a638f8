"""Copies of code as it was when a job was submitted: one directory for each state of a repository.

What git tracks, and what is new and not ignored, is copied; what is ignored (data, outputs,
environments) and submodules are linked to where they are, and logs of jobs are left out. Jobs with
the same code share a copy, which each of them copies again when it starts (``runs``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from typing import List, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.common.errors import NeuronctlError, RecordError, UsageError
from neuronctl.common.files import file_sha256, is_own_directory, write_private
from neuronctl.common.paths import cache_dir
from neuronctl.common.users import login_name
from neuronctl.common.words import amount
from neuronctl.planning.job_plan import CodeSnapshot
from neuronctl.records.job_record import RecordDraft
from neuronctl.records.provenance import git
from neuronctl.slurm.process import run

LARGEST = 500 << 20
"""Bytes of new files that are copied at most."""

_LOGS = tuple(f":(exclude)*.{kind}" for kind in ("out", "err", "log", "runs", "stacks"))
_SUBMODULE = "160000 "  # the mode of a submodule in git's index


def plan_snapshot(directory: str, cluster: Cluster) -> CodeSnapshot:
    """Return the snapshot of the code around a directory; nothing is copied yet.

    Raises UsageError outside a repository, and if new files are too large.
    """
    directory = os.path.realpath(directory)
    try:
        root = git(directory, "rev-parse", "--show-toplevel").rstrip("\n")
    except NeuronctlError as error:
        raise UsageError(
            f"{directory} is in no git repository of yours, which says what its code is",
            f"git says: {error.message.splitlines()[0]}",
        ) from None
    new_files = _list_files(root, "--others", "--exclude-standard", "--", ".", *_LOGS)
    sizes = {name: os.lstat(os.path.join(root, name)).st_size for name in new_files}
    if sum(sizes.values()) > LARGEST:
        largest = max(sizes, key=lambda name: sizes[name])
        raise UsageError(
            f"--snapshot copies at most {amount(LARGEST)} that git does not know, and {root} has "
            f"{amount(sum(sizes.values()))}; the largest: {largest} ({amount(sizes[largest])})",
            "list what is no code in .gitignore: it is then linked, and not copied",
        )
    with tempfile.TemporaryDirectory(prefix="neuronctl-") as scratch:
        index = os.path.join(scratch, "index")
        own_index = git(root, "rev-parse", "--git-path", "index").strip()
        with contextlib.suppress(OSError):  # a repository without a commit has none
            shutil.copy2(os.path.join(root, own_index), index)
        git(root, "add", "--all", "--", ".", *_LOGS, index=index)
        tree = git(root, "write-tree", index=index).strip()
    store, purge_days = _store(cluster)
    state = hashlib.sha256(os.fsencode(f"{tree} {root}")).hexdigest()[:16]
    below = directory[len(root) + 1 :]  # from the repository's root
    return CodeSnapshot(root, below, tree, os.path.join(store, state), purge_days)


def _list_files(root: str, *options: str, index: str = "") -> List[str]:
    """Return what ``git ls-files`` lists. index: as for git()."""
    return git(root, "ls-files", "-z", *options, index=index).split("\0")[:-1]


def _store(cluster: Cluster) -> Tuple[str, Optional[int]]:
    """Return the directory of snapshots, and after how many days the site deletes files there.

    A scratch directory in which others can write is not used: a job will run the code.
    """
    scratch = (cluster.scratch or "").replace("{user}", login_name())
    if scratch and is_own_directory(scratch):
        return os.path.join(scratch, ".neuronctl", "snapshots"), cluster.scratch_days
    return os.path.join(cache_dir(), "snapshots"), None


def make_snapshot(snapshot: CodeSnapshot) -> None:
    """Copy the code, or what the copy still lacks; raise RecordError if it cannot be written."""
    try:
        modules = _copy_files(snapshot)
        _link_others(snapshot, modules)
    except (OSError, NeuronctlError) as error:
        raise RecordError(f"the snapshot cannot be written to {snapshot.place}: {error}") from None


def _copy_files(snapshot: CodeSnapshot) -> List[str]:
    """Copy the files of the snapshot's tree, write their sums, and return the submodules' names."""
    root, code = snapshot.root, snapshot.code
    os.makedirs(os.path.join(code, snapshot.below), mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="neuronctl-") as scratch:
        index = os.path.join(scratch, "index")
        git(root, "read-tree", snapshot.tree, index=index)
        staged = [line.split("\t", 1) for line in _list_files(root, "--stage", index=index)]
        names = [name for _, name in staged]
        modules = [name for mode, name in staged if mode.startswith(_SUBMODULE)]
        if not all(os.path.lexists(os.path.join(code, name)) for name in names):
            prefix = f"--prefix={code}/"
            git(root, "checkout-index", "--all", "--force", "--quiet", prefix, index=index)
    sums = []
    for name in names:
        path = os.path.join(code, name)
        # A line of sums cannot hold a name with a line break.
        if os.path.isfile(path) and not os.path.islink(path) and "\n" not in name:
            sums.append(f"{file_sha256(path)}  {name}\n")
    write_private(os.path.join(snapshot.place, "sums"), "".join(sums))
    return modules


def _link_others(snapshot: CodeSnapshot, modules: Sequence[str]) -> None:
    """Link submodules and what git ignores, apart from Python's caches."""
    options = ("--others", "--ignored", "--exclude-standard", "--directory")
    for name in (*modules, *_list_files(snapshot.root, *options)):
        path = os.path.join(snapshot.code, name.rstrip("/"))
        if name in modules:
            with contextlib.suppress(OSError):  # git has made an empty directory for it
                os.rmdir(path)
        if not name.endswith(("__pycache__/", ".pyc")) and not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # another submission has linked it
                os.symlink(os.path.join(snapshot.root, name.rstrip("/")), path)


def compare_snapshots(first: RecordDraft, second: RecordDraft, names: Sequence[str]) -> List[str]:
    """Return a unified diff of two jobs' copies of the code; raise UsageError if one is missing.

    names: how messages call the two jobs.
    """
    places = first.snapshot, second.snapshot
    for name, place in zip(names, places):
        if not os.path.exists(os.path.join(place, "sums")):
            problem = f"the snapshot of {name} is gone" if place else f"{name} has no snapshot"
            commits = [draft.surroundings.git_commit[:12] for draft in (first, second)]
            hint = "--snapshot keeps a copy of the code of the next jobs"
            if all(commits) and commits[0] != commits[1]:
                hint = f"compare their commits: git diff {' '.join(commits)}"
            raise UsageError(f"{problem}: its code cannot be compared", hint)
    words = ["git", "diff", "--no-index", "--no-ext-diff", "--no-textconv", "--no-color"]
    copies = [os.path.join(place, "code") for place in places]
    return run([*words, "--", *copies], timeout=300).stdout.splitlines()


def is_whole(place: str) -> bool:
    """Return True if the copy in ``place`` exists and is unchanged."""
    code = os.path.join(place, "code")
    if not os.path.isdir(code):
        return False
    check = ["sha256sum", "--check", "--quiet", "../sums"]
    return run(check, cwd=code, timeout=300).returncode == 0
