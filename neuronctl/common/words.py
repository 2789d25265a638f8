"""Numbers, durations and moments in sentences, times in JSON."""

from __future__ import annotations

import time
from typing import Optional, Sequence, Tuple

from neuronctl.common.units import UNLIMITED


def counted(number: int, thing: str) -> str:
    """Return ``1 node``, ``2 nodes``, ``2 processes``."""
    if number == 1:
        return f"{number} {thing}"
    return f"{number} {thing}{'es' if thing.endswith('s') else 's'}"


def clipped(text: str, most: int) -> str:
    """Return the text; cut the middle out of one with more than ``most`` characters."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def verb(number: int, one: str = "is", several: str = "are") -> str:
    """Return ``is`` for 1, otherwise ``are``; or another verb."""
    return one if number == 1 else several


def percent(share: float) -> str:
    """Return a share of 1 as ``40%``."""
    return f"{100 * share:.0f}%"


def amount(size: float) -> str:
    """Return bytes as ``512 KiB``, ``1.5 GiB``."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = next(units)
    while size >= 1024 and unit != "PiB":
        size, unit = size / 1024, next(units)
    return f"{size:.0f} {unit}" if size >= 100 or unit == "B" else f"{size:.1f} {unit}"


def utc(moment: Optional[int]) -> Optional[str]:
    """Return a time in JSON's form (ISO 8601, UTC); None stays None."""
    return None if moment is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def moment(epoch: float, *, seconds: bool = False) -> str:
    """Return local time: ``2026-08-12 09:30``; with seconds: ``2026-08-12 09:30:05``."""
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(epoch))


def duration(seconds: Optional[int]) -> str:
    """Return ``45 s``, ``5 min``, ``1 h 20 min``, ``3 d 4 h``: at most two figures."""
    if seconds is None:
        return "an unknown time"
    if seconds == UNLIMITED:
        return "unlimited length"
    steps: Sequence[Tuple[int, str]] = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts = []
    seconds_left = max(0, seconds)  # the clock may have been set back
    for size, name in steps:
        count, seconds_left = divmod(seconds_left, size)
        if count:
            parts.append(f"{count} {name}")
        elif parts:  # a gap: 3 d, not 3 d 5 min
            break
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


DASHES = tuple("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d")
"""What looks like ASCII's ``-``."""


def other_dash(text: str) -> str:
    """Return the first dash that is not ASCII's ``-``, such as ``an en dash (U+2013)``, or ""."""
    import unicodedata

    dash = next((character for character in text if character in DASHES), "")
    if not dash:
        return ""
    name = unicodedata.name(dash).lower()
    return f"{'an' if name[0] == 'e' else 'a'} {name} (U+{ord(dash):04X})"


def replace_other_dashes(text: str) -> str:
    """Return ``text`` with each dash of a word processor as it was meant: ``--nodes``."""
    name = text.lstrip("".join(("-", *DASHES)))
    if name != text:
        text = ("--" if len(name.partition("=")[0]) > 1 else "-") + name
    return text.translate(dict.fromkeys(map(ord, DASHES), "-"))
