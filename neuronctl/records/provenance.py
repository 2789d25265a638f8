"""What stood around a job when it was submitted: its program's text, the git commit it came from.

``look`` sees them as they are now; ``drift`` tells what has changed since they were recorded.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, List, Mapping, Optional, Tuple

from neuronctl.frozen import dataclass

LARGEST = 128 * 1024
"""Bytes up to which a program's text is kept in a record."""

_LONGEST = 64 * 1024 * 1024  # bytes up to which a program's digest is taken
_PATIENCE = 3.0  # seconds for git on a slow file system


@dataclass(frozen=True)
class Provenance:
    """git_commit: "" where the directory is in no repository; git_dirty: None where not known.

    program: the absolute path of the program, "" where it is no file here. program_sha256: of the
    file as it is. program_text: None where it is too long, no text, or held a secret.
    """

    git_commit: str = ""
    git_dirty: Optional[bool] = None
    program: str = ""
    program_sha256: str = ""
    program_text: Optional[str] = None


def look(script: Optional[str], cwd: str) -> Provenance:
    """The surroundings of a job whose program is ``script``, submitted from ``cwd``, now."""
    commit, dirty = _git(cwd)
    path = os.path.join(cwd, script) if script else ""
    data = _content(path) if path else None
    if data is None:
        return Provenance(commit, dirty)
    import hashlib

    return Provenance(commit, dirty, path, hashlib.sha256(data).hexdigest(), _text(data))


def drift(then: Provenance, now: Provenance) -> Tuple[str, ...]:
    """What is different now, one line each; the program's own change is not among them."""
    lines: List[str] = []
    if then.git_commit and now.git_commit and then.git_commit != now.git_commit:
        lines.append(
            f"the working directory was at git commit {then.git_commit[:12]} and is at "
            f"{now.git_commit[:12]} now"
        )
    elif then.git_commit and not now.git_commit:
        lines.append(
            f"the working directory was at git commit {then.git_commit[:12]}; what it is at now "
            "is not known"
        )
    if then.git_dirty:
        lines.append("the working directory had uncommitted changes at the time")
    if now.git_dirty and not then.git_dirty:
        lines.append("the working directory has uncommitted changes now")
    return tuple(lines)


def program_changed(then: Provenance, now: Provenance) -> bool:
    """Whether the program is known to be another one than it was; a missing one is."""
    return bool(then.program_sha256) and then.program_sha256 != now.program_sha256


def from_data(data: Mapping[str, Any]) -> Provenance:
    """From a record; TypeError where it is of another shape."""
    made = Provenance(**data)
    texts = (made.git_commit, made.program, made.program_sha256, made.program_text or "")
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"surroundings are {data!r}")
    return made


def _content(path: str) -> Optional[bytes]:
    with contextlib.suppress(OSError, ValueError):
        if os.path.isfile(path) and os.path.getsize(path) <= _LONGEST:
            with open(path, "rb") as file:
                return file.read(_LONGEST)
    return None


def _text(data: bytes) -> Optional[str]:
    from neuronctl.masking import Masker

    if len(data) > LARGEST or b"\0" in data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    # Half a program is of no use, and a secret is not to be kept.
    return text if Masker().text(text) == text else None


def _git(cwd: str) -> Tuple[str, Optional[bool]]:
    """The commit of the repository around ``cwd``, and whether tracked files differ from it."""
    from neuronctl.errors import NeuronctlError
    from neuronctl.slurm.process import run

    if not _in_repository(cwd):
        return "", None
    argv = ["git", "--no-optional-locks", "status", "--porcelain=v2", "--branch"]
    try:
        result = run([*argv, "--untracked-files=no"], timeout=_PATIENCE, cwd=cwd)
    except NeuronctlError:
        return "", None
    if result.returncode != 0:
        return "", None
    lines = result.stdout.splitlines()
    head = "# branch.oid "
    commit = next((line[len(head) :] for line in lines if line.startswith(head)), "")
    if commit.startswith("("):  # "(initial)": no commit yet
        commit = ""
    return commit, any(not line.startswith("#") for line in lines)


def _in_repository(cwd: str) -> bool:
    place = os.path.abspath(cwd)
    while not os.path.exists(os.path.join(place, ".git")):
        above = os.path.dirname(place)
        if above == place:
            return False
        place = above
    return True
