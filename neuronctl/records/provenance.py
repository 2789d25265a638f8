"""Where a job came from: its program's text and git commit at submission time.

``read_provenance`` reads the current ones; ``drift`` lists what has changed since then.
"""

from __future__ import annotations

import contextlib
import os
from typing import List, Optional, Tuple

from neuronctl.common.files import open_regular
from neuronctl.common.frozen import dataclass
from neuronctl.records.repository import read_state

_LONGEST = 64 * 1024 * 1024  # the largest program, in bytes, that is hashed


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

    content: the script's, where it was read already.
    """
    commit, dirty = read_state(cwd)
    path = os.path.join(cwd, script) if script else ""
    data = (content or _content(path)) if path else None
    if data is None:
        return Provenance(commit, dirty)
    import hashlib

    return Provenance(commit, dirty, path, hashlib.sha256(data).hexdigest())


def drift(then: Provenance, now: Provenance) -> Tuple[str, ...]:
    """Return what has changed, one line each."""
    lines: List[str] = []
    if then.git_commit not in ("", now.git_commit):
        known = f" and is now at {now.git_commit[:12]}"
        after = known if now.git_commit else "; its current commit is unknown"
        lines.append(f"the working directory was at git commit {then.git_commit[:12]}{after}")
    if then.git_dirty:
        lines.append("the working directory had uncommitted changes at that time")
    if now.git_dirty and not then.git_dirty:
        lines.append("the working directory now has uncommitted changes")
    if "" not in (then.program, now.program) and then.program_sha256 != now.program_sha256:
        lines.append(f"{now.program} has changed since: it runs as it is now")
    return tuple(lines)


def _content(path: str) -> Optional[bytes]:
    with contextlib.suppress(OSError, ValueError), open_regular(path) as file:
        data = file.read(_LONGEST + 1)
        return data if len(data) <= _LONGEST else None
    return None
