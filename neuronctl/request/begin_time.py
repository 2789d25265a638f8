"""The ``--begin`` times that neuronctl reads; Slurm reads more. Pure."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Optional

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


def moment(text: str, now: int) -> Optional[int]:
    """Return the epoch seconds of ``now+2hours`` or ``2026-12-01T10:00``; None: left to Slurm."""
    after = re.fullmatch(r"(?ai)now(?:\+(\d{1,9})(second|minute|hour|day|week)?s?)?", text)
    if after is not None:
        return now + int(after[1] or 0) * _SECONDS[(after[2] or "second").lower()]
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"):
        with contextlib.suppress(ValueError, OverflowError):
            return int(time.mktime(time.strptime(text, form)))
    return None
