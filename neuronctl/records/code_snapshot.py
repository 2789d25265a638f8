"""Copies of code as it was when a job was submitted: one directory for each state of a tree.

What git tracks, and what is new and not ignored, is copied, read-only; what is ignored (data,
outputs, environments) is linked to where it is, and logs of jobs are left out. A state is known by
its digest, and jobs with the same code share a copy. A copy that no job has used for 90 days, and
into which none has written, is removed when the next one is made.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import time
from typing import Optional, Tuple

from neuronctl.catalog.model import Cluster
from neuronctl.common.errors import RecordError, UsageError
from neuronctl.common.files import is_own_directory, open_regular, sha256_of, write_private
from neuronctl.common.paths import cache_dir
from neuronctl.common.users import login_name
from neuronctl.common.words import amount, counted
from neuronctl.planning.code_copy import CodeFile, CodeSnapshot
from neuronctl.records.provenance import list_code

LARGEST = 500 << 20
"""Bytes that are copied at most."""

_KEPT = 90 * 86400
"""Seconds for which a copy is kept after it was last used."""

_LOG = re.compile(r".*[-_.]\d+(_\d+)?\.(out|err|log|runs)(\.stacks)?")


def plan_snapshot(directory: str, cluster: Cluster) -> CodeSnapshot:
    """Return the snapshot of the code around a directory; nothing is copied yet.

    Raises UsageError if there is no repository, a file cannot be read, or it is too much.
    """
    directory = os.path.realpath(directory)
    code = list_code(directory)
    copied = [path for path in code.files if not (path in code.new and _LOG.fullmatch(path))]
    sizes = {path: os.lstat(os.path.join(code.root, path)).st_size for path in copied}
    total = sum(sizes.values())
    if total > LARGEST:
        largest = max(sizes, key=lambda path: sizes[path])
        raise UsageError(
            f"--snapshot copies at most {amount(LARGEST)}, and {code.root} has {amount(total)} in "
            f"{counted(len(sizes), 'file')}; the largest: {largest} ({amount(sizes[largest])})",
            "list what is no code in .gitignore: it is then linked, and not copied",
        )
    links = {
        path: os.path.join(code.root, path)
        for path in code.ignored
        if "__pycache__" not in path.split("/") and not path.endswith(".pyc")
    }
    files = []
    for path in copied:
        whole = os.path.join(code.root, path)
        if os.path.islink(whole):
            links[path] = _link_target(code.root, whole)
            continue
        content, executable = _read(whole), os.access(whole, os.X_OK)
        files.append(CodeFile(path, len(content), hashlib.sha256(content).hexdigest(), executable))
    names = [[file.path, file.sha256, file.executable] for file in files]
    state = json.dumps([names, sorted(links.items())]).encode("ascii")
    store, purge_days = _store(cluster)
    return CodeSnapshot(
        root=code.root,
        below=directory[len(code.root) + 1 :],
        place=os.path.join(store, hashlib.sha256(state).hexdigest()[:16]),
        files=tuple(files),
        links=links,
        purge_days=purge_days,
    )


def _store(cluster: Cluster) -> Tuple[str, Optional[int]]:
    """Return where snapshots are, and after how many days the site deletes files there.

    A scratch directory in which others can write is none for code that a job will run.
    """
    scratch = (cluster.scratch or "").replace("{user}", login_name())
    if scratch and is_own_directory(scratch):
        return os.path.join(scratch, ".neuronctl", "snapshots"), cluster.scratch_days
    return os.path.join(cache_dir(), "snapshots"), None


def _link_target(root: str, link: str) -> str:
    """Return where a link of the tree leads from its place in a copy: to what is copied, if so."""
    target = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
    inside = target == root or target.startswith(f"{root}/")
    return os.path.relpath(target, os.path.dirname(link)) if inside else target


def _read(path: str) -> bytes:
    """Return a file's content; raises UsageError if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read()
    except OSError as error:
        raise UsageError(
            f"--snapshot cannot read {path}: {error.strerror}",
            "make it readable, or list it in .gitignore: it is then linked, and not copied",
        ) from None


def make_snapshot(snapshot: CodeSnapshot) -> None:
    """Make the copy, or what is missing of it, and remove copies that have expired.

    Raises UsageError if the code has changed since it was planned, RecordError if the copy cannot
    be written.
    """
    code = snapshot.code
    try:
        for file in snapshot.files:
            path = os.path.join(code, file.path)
            if sha256_of(path) == file.sha256:
                continue
            content = _read(os.path.join(snapshot.root, file.path))
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise UsageError(f"{file.path} was changed while its snapshot was made")
            write_private(path, content, mode=0o555 if file.executable else 0o444)
        for name, target in snapshot.links.items():
            path = os.path.join(code, name)
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                with contextlib.suppress(FileExistsError):  # another submission's
                    os.symlink(target, path)
        os.makedirs(os.path.join(code, snapshot.below), mode=0o700, exist_ok=True)
        sums = (_sum(file.path, file.sha256) for file in snapshot.files)
        write_private(os.path.join(snapshot.place, "sums"), "".join(sums))
    except OSError as error:
        raise RecordError(
            f"the snapshot cannot be written to {snapshot.place}: {error.strerror}",
            "free some space there",
        ) from None
    _remove_expired(os.path.dirname(snapshot.place))


def _sum(path: str, sha256: str) -> str:
    """Return a line as sha256sum writes it and reads it."""
    name = path.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{'' if name == path else chr(92)}{sha256}  {name}\n"


def keep_snapshot(place: str) -> bool:
    """Return True if a copy is as it was made; it then counts as used."""
    from neuronctl.slurm.process import run

    with contextlib.suppress(OSError):
        os.utime(os.path.join(place, "sums"))
        check = ["sha256sum", "--check", "--quiet", "../sums"]
        return run(check, cwd=os.path.join(place, "code"), timeout=300).returncode == 0
    return False


def _remove_expired(store: str) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(store):
            place = os.path.join(store, name)
            with contextlib.suppress(OSError):
                used = os.stat(os.path.join(place, "sums")).st_mtime
                if time.time() - used > _KEPT and not _has_results(place):
                    shutil.rmtree(place)


def _has_results(place: str) -> bool:
    """Return True if a job has written files into a copy, whose own files are read-only."""
    for folder, _, names in os.walk(os.path.join(place, "code")):
        modes = [os.lstat(os.path.join(folder, name)).st_mode for name in names]
        written = any(stat.S_ISREG(mode) and mode & stat.S_IWUSR for mode in modes)
        if written and not folder.endswith("__pycache__"):
            return True
    return False
