"""The times of ``--begin`` that neuronctl reads; Slurm reads more. Pure."""

from __future__ import annotations

import re
import time
from typing import Optional

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_HOURS = {"midnight": 0, "noon": 12, "teatime": 16}
_AFTER = r"(?ai)now\s*(?:\+\s*(\d{1,9})\s*(second|minute|hour|day|week)?s?)?"
_DAY = r"(?ai)(?:(\d{4})-(\d\d)-(\d\d)|(today|tomorrow))"
_CLOCK = r"(?ai)(?:(\d\d?):(\d\d)(?::(\d\d))?|(midnight|noon|teatime))"


def moment(text: str, now: int) -> Optional[int]:
    """Return the time (epoch seconds) in this machine's time zone; ``now`` is the current time.

    A time of day that has passed means tomorrow. None: a form that neuronctl does not read, which
    Slurm may take or refuse.
    """
    after = re.fullmatch(_AFTER, text)
    if after is not None:
        return now + int(after[1] or 0) * _SECONDS[(after[2] or "second").lower()]
    both = re.fullmatch(rf"{_DAY}(?:[T ](.*))?", text)
    day, clock_text = (None, text) if both is None else (both, both[5] or "midnight")
    clock = re.fullmatch(_CLOCK, clock_text)
    if clock is None:
        return None
    at = time.localtime(now)
    hour = _HOURS[clock[4].lower()] if clock[4] else int(clock[1])
    minute, second = int(clock[2] or 0), int(clock[3] or 0)
    year, month, number = at.tm_year, at.tm_mon, at.tm_mday
    if day is None:
        number += (hour, minute) <= (at.tm_hour, at.tm_min)
    elif day[4]:
        number += day[4].lower() == "tomorrow"
    else:
        year, month, number = int(day[1]), int(day[2]), int(day[3])
    if hour > 23 or minute > 59 or second > 59 or month > 12:
        return None
    try:
        return int(time.mktime((year, month, number, hour, minute, second, 0, 0, -1)))
    except (OverflowError, ValueError):
        return None
