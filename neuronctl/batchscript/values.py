"""What sbatch itself refuses of an option's value, before slurmctld sees the job."""

from __future__ import annotations

import re
from functools import partial
from typing import Callable, Dict, Optional, Tuple

from neuronctl import units
from neuronctl.request.begin_time import moment
from neuronctl.words import other_dash

ACCUMULATED = ("mail-type", "verbose")
"""Each of these adds to those before it; of any other option the last holds."""

_EXCLUDING = (
    ("exclusive", "oversubscribe"),
    ("requeue", "no-requeue"),
    ("nodelist", "nodefile"),
    ("core-spec", "thread-spec"),
)


def excluding(name: str) -> Tuple[str, ...]:
    """The options that set what ``name`` sets too."""
    return next((tuple(set(group) - {name}) for group in _EXCLUDING if name in group), ())


def whole_number(text: str, least: int = 1) -> int:
    """A number as C's strtol reads it, with nothing behind it; raises ValueError."""
    match = re.fullmatch(r"[ \t\n\v\f\r]*\+?([0-9]{1,18})", text)
    if match is None or int(match[1]) < least:
        raise ValueError(f"'{text}' is not a whole number of at least {least}")
    return int(match[1])


def digits(text: Optional[str]) -> Optional[int]:
    """A number in at most nine ASCII digits; None for anything else."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,9}", text) else None


def node_count(text: str) -> Tuple[int, int]:
    """The least and the most nodes of ``--nodes``: ``4``, ``2-4``, ``1k``; raises ValueError.

    Of a list of sizes (``1,2,4``, since Slurm 23.02), the least and the most.
    """
    if re.fullmatch(r"[0-9]+(?:-[0-9]+(?::[0-9]+)?)?(?:,[0-9]+(?:-[0-9]+(?::[0-9]+)?)?)*", text):
        numbers = [int(one) for one in re.findall(r"(?<!:)\b[0-9]+", text)]
        if "," in text or ":" in text:
            return min(numbers), max(numbers)
    low_text, dash, high_text = text.partition("-")
    low = _nodes(low_text)
    high = _nodes(high_text) if dash else low
    if low is None and dash and not low_text.strip():
        low = 1
    if low is None or high is None:
        raise ValueError(f"'{text}' is not a number of nodes")
    if high and high < low:
        raise ValueError(f"'{text}': {high} nodes at most are fewer than {low} at least")
    return low, high


def _nodes(text: str) -> Optional[int]:
    match = re.fullmatch(r"\s*\+?([0-9]{1,9})([kK]?)([mM]?)\s*", text, re.ASCII)
    if match is None:
        return None
    return int(match[1]) * (1024 if match[2] else 1) * (1024**2 if match[3] else 1)


def _memory(text: str) -> None:
    units.parse_memory(text.lstrip(" \t").lstrip("+"))


def _signal(text: str) -> None:
    _, name, seconds = units.split_signal(text)
    number = int(name) if re.fullmatch("[0-9]{1,5}", name) else 0
    if name.upper() not in (*units.SIGNALS, "CHLD", "PIPE") and not 0 < number <= 0xFFFF:
        what = f"'{name}' is not a signal" if name else "it names no signal"
        raise ValueError(f"{what}; use a number or {', '.join(units.SIGNALS)}")
    if not re.fullmatch(r"([ \t]*\+?[0-9]{1,9})?", seconds) or int(seconds or 0) > 0xFFFF:
        raise ValueError(f"'{seconds}' after @ is not a number of seconds up to 65535")


def _mail_type(text: str) -> None:
    names = [name.upper() for name in text.split(",") if name]
    if not any(name in units.MAIL_TYPES for name in names):
        raise ValueError(f"'{text}' has no mail type; use {', '.join(units.MAIL_TYPES)}")


def _exclusive(text: str) -> None:
    kinds = ("exclusive", "oversubscribe", "user", "mcs", "topo")
    if text.lower() not in kinds:
        raise ValueError(f"'{text}' is not one of {', '.join(kinds[2:])}")


def _nice(text: str) -> None:
    match = re.match(r"\s*([+-]?[0-9]+)", text)
    if match and abs(int(match[1])) > 0x80000000 - 3:
        raise ValueError(f"'{text}' is out of range")


def _open_mode(text: str) -> None:
    if text[:1].lower() not in ("a", "t"):
        raise ValueError(f"'{text}' is neither append nor truncate")


def _kill_on_invalid_dep(text: str) -> None:
    if text.lower() not in ("yes", "no"):
        raise ValueError(f"'{text}' is neither yes nor no")


_HINTS = ("compute_bound", "memory_bound", "multithread", "nomultithread")


def _hint(text: str) -> None:
    for one in text.split(","):
        if one.lower() not in _HINTS:
            raise ValueError(f"'{one}' is not one of {', '.join(_HINTS)}")


def _gres(text: str) -> None:
    if text.lower() in ("help", "list"):
        raise ValueError(f"'{text}' lists the resources instead of submitting the job")


def _ranges(text: str) -> None:
    dash = other_dash(text)
    if dash:
        raise ValueError(f"'{text}' contains {dash}, not '-'")


_COUNTS = """
ntasks ntasks-per-node ntasks-per-core ntasks-per-socket ntasks-per-gpu ntasks-per-tres
cpus-per-task cpus-per-gpu cores-per-socket sockets-per-node threads-per-core thread-spec mincpus
"""

_CHECKS: Dict[str, Callable[[str], object]] = {
    **{name: whole_number for name in _COUNTS.split()},
    "core-spec": partial(whole_number, least=0),
    "nodes": node_count,
    "time": units.parse_time,
    "time-min": units.parse_time,
    **{name: _memory for name in ("mem", "mem-per-cpu", "mem-per-gpu", "tmp")},
    "signal": _signal,
    "mail-type": _mail_type,
    "exclusive": _exclusive,
    "nice": _nice,
    "open-mode": _open_mode,
    "begin": partial(moment, now=0),
    "kill-on-invalid-dep": _kill_on_invalid_dep,
    "hint": _hint,
    **{name: _ranges for name in ("array", "nodelist", "exclude")},
    "gres": _gres,
}


def check_value(name: str, value: Optional[str]) -> None:
    """Raise ValueError where sbatch itself refuses ``value``; of other options nothing is known."""
    if value is not None and name in _CHECKS:
        _CHECKS[name](value)
