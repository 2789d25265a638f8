"""The git commit and the files of a directory, read so that nothing of the repository can run.

A repository's own configuration can name programs that git starts (``core.fsmonitor``, filters,
hooks), and a directory on a shared machine may be anybody's. So HEAD is read here, and git compares
the files in a repository of ours, without any configuration, that borrows objects and index.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from typing import TYPE_CHECKING, Dict, FrozenSet, Iterator, List, Optional, Tuple

from neuronctl.common.errors import NeuronctlError, UsageError
from neuronctl.common.files import open_regular
from neuronctl.common.frozen import dataclass

if TYPE_CHECKING:
    from neuronctl.slurm.process import Result

_PATIENCE = 3.0  # seconds to wait for git on a slow file system
_LISTING = 60.0  # the same where its answer is needed
_LARGEST = 64 * 1024 * 1024  # bytes of a file in .git that is read
_NESTED = 5  # symbolic references that lead to one another
_COMMIT = r"[0-9a-f]{40}|[0-9a-f]{64}"


def state(directory: str) -> Tuple[str, Optional[bool]]:
    """The commit of the repository around a directory, and whether tracked files differ from it.

    "" outside a repository, in one that belongs to another user, and before its first commit. None
    if git cannot tell in a few seconds. Submodules are not entered.
    """
    with contextlib.suppress(OSError, ValueError):
        work_tree, own = _find(os.path.abspath(directory))
        shared = _shared(own)
        commit = _head(own, shared)
        return commit, _differs(commit, work_tree, own, shared) if commit else None
    return "", None


@dataclass(frozen=True)
class Code:
    """The files of a repository, by their paths in it, as git lists them.

    root: the root of its working tree. files: tracked ones that are there, and new ones that no
    .gitignore names. new: these. ignored: what one names, a directory of nothing else as one entry.
    """

    root: str
    files: Tuple[str, ...]
    new: FrozenSet[str]
    ignored: Tuple[str, ...]


def code_of(directory: str) -> Code:
    """The code around a directory, submodules and other nested repositories too.

    Raises UsageError outside a repository of the user's, and where git cannot list it.
    """
    try:
        root, own = _find(os.path.abspath(directory))
    except (OSError, ValueError):
        words = f"{directory} is in no git repository of yours, which says what its code is"
        raise UsageError(words, "make it one: git init") from None
    shared, commit = _shared(own), ""
    with contextlib.suppress(OSError, ValueError):
        commit = _head(own, shared)
    listed: List[List[str]] = []
    with _without_its_configuration(commit, root, own, shared) as environment:
        for which in (["-t", "--cached", "--others"], ["--others", "--ignored", "--directory"]):
            argv = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "ls-files"]
            argv += ["-z", "--exclude-standard", *which]
            try:
                result = _run(argv, _LISTING, root, environment)
                said = "" if result.returncode == 0 else result.words
            except NeuronctlError as error:
                said = error.message
            if said:
                raise UsageError(f"git cannot list the files of {root}: {said}")
            listed.append(sorted(filter(None, os.fsdecode(result.raw).split("\0"))))
    files, ignored = [], [name.rstrip("/") for name in listed[1]]
    new = {line[2:] for line in listed[0] if line.startswith("? ")}
    for name in sorted({line[2:] for line in listed[0]}):
        if name.startswith("/") or ".." in name.split("/"):  # git itself makes no such index
            raise UsageError(f"the index of {root} names a file outside of it: {name}")
        path = os.path.join(root, name)
        if os.path.islink(path) or os.path.isfile(path):
            files.append(name)
        elif os.path.lexists(os.path.join(path, ".git")):
            inner = code_of(path)
            below = name.rstrip("/")
            files += [f"{below}/{file}" for file in inner.files]
            new |= {f"{below}/{file}" for file in inner.new}
            ignored += [f"{below}/{file}" for file in inner.ignored]
    return Code(root, tuple(files), frozenset(new), tuple(ignored))


def _find(place: str) -> Tuple[str, str]:
    """The root of the working tree and its git directory; OSError if there is none."""
    while not os.path.lexists(os.path.join(place, ".git")):
        above = os.path.dirname(place)
        if above == place:
            raise FileNotFoundError
        place = above
    git = os.path.join(place, ".git")
    if not os.path.isdir(git):
        git = os.path.join(place, _line(git).partition("gitdir: ")[2])
    if os.stat(git).st_uid != os.geteuid():
        raise PermissionError
    return place, git


def _shared(own: str) -> str:
    """Where a worktree keeps most of its git directory; elsewhere that is its own."""
    with contextlib.suppress(OSError, ValueError):
        return os.path.join(own, _line(os.path.join(own, "commondir")))
    return own


def _head(own: str, shared: str) -> str:
    name = "HEAD"
    for _ in range(_NESTED):
        place = own if name == "HEAD" else shared
        try:
            line = _line(os.path.join(place, name))
        except FileNotFoundError:
            packed = _text(os.path.join(shared, "packed-refs"))
            found = re.search(rf"(?m)^({_COMMIT}) {re.escape(name)}$", packed)
            return found[1] if found else ""
        if re.fullmatch(_COMMIT, line):
            return line
        name = line.partition("ref: ")[2]
        if not name.startswith("refs/") or ".." in name:
            return ""
    return ""


def _differs(commit: str, work_tree: str, own: str, shared: str) -> Optional[bool]:
    argv = ["git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]
    with _without_its_configuration(commit, work_tree, own, shared) as environment:
        environment["GIT_CONFIG_GLOBAL"] = os.devnull
        try:
            result = _run([*argv, "--ignore-submodules=all"], _PATIENCE, work_tree, environment)
        except NeuronctlError:
            return None
    return bool(result.stdout) if result.returncode == 0 else None


def _run(argv: List[str], timeout: float, cwd: str, environment: Dict[str, str]) -> Result:
    from neuronctl.slurm.process import run

    return run(argv, timeout=timeout, cwd=cwd, environment=environment)


@contextlib.contextmanager
def _without_its_configuration(
    commit: str, work_tree: str, own: str, shared: str
) -> Iterator[Dict[str, str]]:
    """The variables with which git looks at a repository through one of ours."""
    with tempfile.TemporaryDirectory(prefix="neuronctl-git-") as ours:
        os.makedirs(os.path.join(ours, "refs"))
        kind = "sha256" if len(commit) == 64 else "sha1"
        version = "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat"
        head = commit or "ref: refs/heads/main"
        for name, text in (("HEAD", f"{head}\n"), ("config", f"{version} = {kind}\n")):
            with open(os.path.join(ours, name), "w", encoding="ascii") as file:
                file.write(text)
        with contextlib.suppress(OSError, ValueError):
            excluded = _text(os.path.join(shared, "info", "exclude"))
            os.makedirs(os.path.join(ours, "info"))
            with open(os.path.join(ours, "info", "exclude"), "w", encoding="utf-8") as file:
                file.write(excluded)
        yield {
            "GIT_DIR": ours,
            "GIT_WORK_TREE": work_tree,
            "GIT_INDEX_FILE": os.path.join(own, "index"),
            "GIT_OBJECT_DIRECTORY": os.path.join(shared, "objects"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }


def _line(path: str) -> str:
    return _text(path).rstrip("\n")


def _text(path: str) -> str:
    with open_regular(path) as file:
        return file.read(_LARGEST).decode()
