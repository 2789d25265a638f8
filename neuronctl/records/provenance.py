"""Where the code of a job comes from: its program, and the commit and files of its directory.

git runs no program that the repository's settings name (``core.fsmonitor``, hooks), fetches nothing
that a partial clone lacks, and gets none of the caller's ``GIT_*`` variables. It refuses other
users' repositories by itself.
"""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import NeuronctlError, UsageError
from neuronctl.common.files import file_sha256

_PATIENCE = 3.0
"""Seconds to wait for git on a slow file system before doing without its answer."""

_LISTING = 60.0
"""Seconds to wait for git if its answer is needed."""


def read_state(directory: str) -> Tuple[str, Optional[bool]]:
    """Return the commit of the repository around a directory, and whether tracked files differ.

    The commit is "" outside a repository, and before its first commit. The difference is None if
    git does not say in a few seconds. Submodules are not entered.
    """
    if not _is_in_repository(directory):
        return "", None
    status = ["status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        lines = git(directory, *status, "--ignore-submodules=all", timeout=_PATIENCE).splitlines()
    except NeuronctlError:
        try:
            return git(directory, "rev-parse", "HEAD", timeout=_PATIENCE).strip(), None
        except NeuronctlError:
            return "", None
    label, before_first_commit = "# branch.oid ", "(initial)"
    commits = (line[len(label) :] for line in lines if line.startswith(label))
    commit = next(commits, before_first_commit)
    if commit == before_first_commit:
        return "", None
    return commit, any(not line.startswith("#") for line in lines)


def _is_in_repository(directory: str) -> bool:
    """Return True if .git is in the directory or above it; asking git takes longer."""
    above = os.path.realpath(directory)
    while not os.path.lexists(os.path.join(above, ".git")):
        above, below = os.path.dirname(above), above
        if above == below:
            return False
    return True


@dataclass(frozen=True)
class Provenance:
    """The program and repository of a job.

    git_commit: "" outside a repository of the user's. git_dirty: None if unknown. program: the
    absolute path of the program, "" if there is no such file. program_sha256: of the whole file.
    """

    git_commit: str = ""
    git_dirty: Optional[bool] = None
    program: str = ""
    program_sha256: str = ""


def read_provenance(script: Optional[str], cwd: str, content: bytes = b"") -> Provenance:
    """Return the current provenance of a job that runs ``script`` and is submitted from ``cwd``.

    content: the script's, if it was read already.
    """
    commit, dirty = read_state(cwd)
    path = os.path.join(cwd, script) if script else ""
    if not os.path.isfile(path):
        return Provenance(commit, dirty)
    import hashlib

    digest = hashlib.sha256(content).hexdigest() if content else file_sha256(path)
    return Provenance(commit, dirty, path, digest)


def drift(then: Provenance, now: Provenance) -> Tuple[str, ...]:
    """Return what has changed in a job's code from ``then`` to ``now``, one line each."""
    lines: List[str] = []
    if then.git_commit not in ("", now.git_commit):
        now_at = f" and is now at {now.git_commit[:12]}"
        after = now_at if now.git_commit else "; its current commit is unknown"
        lines.append(f"the working directory was at git commit {then.git_commit[:12]}{after}")
    if then.git_dirty:
        lines.append("the working directory had uncommitted changes at that time")
    if now.git_dirty and not then.git_dirty:
        lines.append("the working directory now has uncommitted changes")
    if "" not in (then.program, now.program) and then.program_sha256 != now.program_sha256:
        lines.append(f"{now.program} has changed since: it runs as it is now")
    return tuple(lines)


def git(directory: str, *words: str, timeout: float = _LISTING, index: str = "") -> str:
    """Return what a git command prints; raise NeuronctlError if it fails.

    index: the file to use instead of the repository's index.
    """
    from neuronctl.slurm.process import run

    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env.update(LC_ALL="C", GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", GIT_ALLOW_PROTOCOL="")
    if index:
        env["GIT_INDEX_FILE"] = index
    settings = ["-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}"]
    result = run(["git", *settings, *words], timeout=timeout, cwd=directory, env=env)
    if result.returncode:
        raise UsageError(result.words or f"git {words[0]} failed")
    return os.fsdecode(result.raw)
