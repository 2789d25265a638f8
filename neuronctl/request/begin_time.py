"""Parse the times that ``--begin`` accepts the way Slurm does. Pure."""

from __future__ import annotations

import re
import time
from typing import Optional, Tuple

EXAMPLES = "now+1hour, tomorrow, noon, 16:00, 2026-12-01 or 2026-12-01T10:00"
"""Forms that Slurm accepts."""

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_HOURS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_DAYS = {"today": 0, "tomorrow": 1}

# Slurm treats T as the separator between date and time wherever it occurs.
_RELATIVE = r"(?ai)now[ \t]*(?:([+-])\s*(\d[\d\s]*)(seconds?|minutes?|hours?|days?|weeks?)?)?"
_BETWEEN = " \tT-"
_PARTS = {
    "word": r"(?i)(?:today|tomorrow|midnight|noon|fika|teatime)",
    "clock": r"(?ai)(\d\d?):(\d\d)(?::(\d\d))?(?:\s*([ap])m)?",
    "year first": r"(?a)(\d{4})-(\d\d)-(\d\d?)",
    "month first": r"(?a)(\d\d|\d(?!\d))[./]?(\d\d|\d(?!\d))[./]?(?:(\d\d)|(?!\d))",
}

Day = Tuple[int, int, int]


def moment(text: str, now: int) -> Optional[int]:
    """The time (epoch seconds) in this machine's time zone; ``now`` is the current time.

    A time of day that has passed means tomorrow; a date without a year that has passed means next
    year. None: Slurm versions disagree. Raises ValueError for what Slurm rejects.
    """
    relative = re.match(_RELATIVE, text)
    if relative is not None:
        return _after(relative, text, now)
    if re.match(r"\s|uts|.*(?:elevenses|now)", text, re.IGNORECASE):
        return None
    clock, day = _parts(text, now)
    if clock is None and day is None:
        raise ValueError(text)
    today = time.localtime(now)
    if day is None:
        assert clock is not None
        passed = clock[:2] <= (today.tm_hour, today.tm_min)
        day = _day(now + 86400 if passed else now)
    hour, minute, second = clock or (0, 0, 0)
    year, month, number = day
    if year < 0:
        passed = (month, number, hour, minute) <= today[1:5]
        year = today.tm_year + passed
    try:
        return int(time.mktime((year, month, number, hour, minute, second, 0, 0, -1)))
    except (OverflowError, ValueError):
        return None


def _after(match: re.Match[str], text: str, now: int) -> Optional[int]:
    sign, count, unit = match.groups()
    rest = text[match.end() :]
    if rest:
        if unit:
            return None  # a second time follows
        raise ValueError(text)
    if count is None:
        return now
    seconds = int("".join(count.split())[:18])
    seconds *= _SECONDS[unit.lower().rstrip("s")] if unit else 1
    return now + (-seconds if sign == "-" else seconds)


def _day(moment: int) -> Day:
    at = time.localtime(moment)
    return at.tm_year, at.tm_mon, at.tm_mday


def _parts(text: str, now: int) -> Tuple[Optional[Day], Optional[Day]]:
    """Read a time into ((hour, minute, second), (year, month, day)), each None if not given.

    Of several, the last counts. The year is -1 if not given.
    """
    clock: Optional[Day] = None
    day: Optional[Day] = None
    rest = text.lstrip(_BETWEEN)
    while rest:
        kind, match = _part(rest)
        rest = rest[match.end() :].lstrip(_BETWEEN)
        if kind == "word":
            word = match[0].lower()
            if word in _DAYS:
                day = _day(now + 86400 * _DAYS[word])
            else:
                clock = _HOURS[word], 0, 0
        elif kind == "clock":
            clock = _clock(match)
        elif kind == "year first":
            day = _checked(int(match[1]), int(match[2]), int(match[3]))
        else:
            year = 2000 + int(match[3]) if match[3] and int(match[3]) else -1
            day = _checked(year, int(match[1]), int(match[2]))
    return clock, day


def _part(text: str) -> Tuple[str, re.Match[str]]:
    for kind, pattern in _PARTS.items():
        match = re.match(pattern, text)
        if match is not None:
            return kind, match
    raise ValueError(text)


def _clock(match: re.Match[str]) -> Day:
    hour, minute, second = (int(figure or 0) for figure in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(match[0])
    half = (match[4] or "").lower()
    if half and hour > 12:
        raise ValueError(match[0])
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return hour, minute, second


def _checked(year: int, month: int, day: int) -> Day:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"{month}/{day}")
    return year, month, day
