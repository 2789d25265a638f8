"""The git commit of a directory, read so that nothing of the repository can run.

A repository's own configuration can name programs that git starts (``core.fsmonitor``, filters,
hooks), and a directory on a shared machine may be anybody's. So HEAD is read here, and git compares
the files in a repository of ours, without any configuration, that borrows objects and index.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from typing import Optional, Tuple

from neuronctl.errors import NeuronctlError
from neuronctl.files import open_regular

_PATIENCE = 3.0  # seconds to wait for git on a slow file system
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
        shared = own
        with contextlib.suppress(FileNotFoundError):  # a worktree keeps most of it elsewhere
            shared = os.path.join(own, _line(os.path.join(own, "commondir")))
        commit = _head(own, shared)
        return commit, _differs(commit, work_tree, own, shared) if commit else None
    return "", None


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
    from neuronctl.slurm.process import run

    with tempfile.TemporaryDirectory(prefix="neuronctl-git-") as ours:
        os.mkdir(os.path.join(ours, "refs"))
        kind = "sha1" if len(commit) == 40 else "sha256"
        version = "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat"
        for name, text in (("HEAD", commit), ("config", f"{version} = {kind}\n")):
            with open(os.path.join(ours, name), "w", encoding="ascii") as file:
                file.write(text)
        environment = {
            "GIT_DIR": ours,
            "GIT_WORK_TREE": work_tree,
            "GIT_INDEX_FILE": os.path.join(own, "index"),
            "GIT_OBJECT_DIRECTORY": os.path.join(shared, "objects"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        argv = ["git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]
        try:
            result = run(
                [*argv, "--ignore-submodules=all"],
                timeout=_PATIENCE,
                cwd=work_tree,
                environment=environment,
            )
        except NeuronctlError:
            return None
    return bool(result.stdout) if result.returncode == 0 else None


def _line(path: str) -> str:
    return _text(path).rstrip("\n")


def _text(path: str) -> str:
    with open_regular(path) as file:
        return file.read(_LARGEST).decode()
