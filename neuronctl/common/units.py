"""Slurm's own grammars: time, memory, host lists, log-file patterns, arrays.

Pure functions; invalid input raises ValueError.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import Dict, Iterable, List, Optional, Tuple

UNLIMITED = -1
"""An unlimited wall time, used in place of a number of seconds."""

TIME_FORMS = "MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, or UNLIMITED"
MEMORY_FORMS = "a whole number of MB, or a whole number with the suffix K, M, G, or T"

MAX_HOSTS = 65536
"""A host list that expands to more names than this is an error, not a hang."""

_MAX_SECONDS = 2**31 - 1  # Slurm keeps a time limit in a C int
_MAX_MEMORY_MB = 2**53
_NO_VAL = 0xFFFFFFFE


def parse_time(text: str) -> int:
    """Return the seconds of a wall time as ``--time`` reads it, or UNLIMITED.

    A bare number is minutes; two numbers are minutes and seconds; zero means no limit. Raises
    ValueError with the accepted forms. Slurm itself rounds up to whole minutes.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return UNLIMITED
    return parse_duration(text) or UNLIMITED


def parse_duration(text: str) -> int:
    """Return the seconds of a duration in Slurm's forms (``0:00`` is 0)."""
    # re.ASCII: int() accepts the digits of other scripts; Slurm does not.
    form = r"(?:(?P<days>\d{1,10})-)?(?P<clock>(?:\d{1,10}(?::\d{1,10}){0,2})?)"
    match = re.fullmatch(form, text, re.ASCII)
    if match is None or not text:
        raise ValueError(f"{text!r} is not a valid time; use {TIME_FORMS}")
    figures = [int(figure) for figure in match["clock"].split(":") if figure]
    if match["days"] is None and len(figures) < 3:
        figures = [0, *figures]  # MM or MM:SS; after days, hours come first
    seconds = int(match["days"] or 0) * 86400
    for figure, unit in zip(figures, (3600, 60, 1)):
        seconds += figure * unit
    if seconds > _MAX_SECONDS:
        raise ValueError(f"{text!r} exceeds Slurm's maximum of {_MAX_SECONDS} seconds")
    return seconds


def format_time(seconds: int) -> str:
    """Return a time as squeue prints a limit: ``2-00:00:00``, ``08:00:00``, ``UNLIMITED``."""
    if seconds == UNLIMITED:
        return "UNLIMITED"
    if seconds < 0:
        raise ValueError(f"a time limit cannot be negative: {seconds} seconds")
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02d}:{minute:02d}:{second:02d}"
    return f"{days}-{clock}" if days else clock


def format_elapsed(seconds: Optional[int]) -> str:
    """Return a duration as squeue prints the time used: ``5:00``; ``-`` for None."""
    if seconds is None:
        return "-"
    return re.sub("^(?:00:)?0?", "", format_time(seconds).lower())


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_timeout(text: str) -> int:
    """Return the seconds of ``90s``, ``10m``, ``8h``, ``2d``, ``1w``.

    A bare number is refused: Slurm would read minutes, and timeout(1) seconds. Raises ValueError.
    """
    match = re.fullmatch(r"([0-9]{1,8})([smhdw])", text.strip(), re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not a time; use 90s, 10m, 8h or 2d")
    return int(match[1]) * _SECONDS[match[2]]


def parse_since(text: str, now: int, name: str = "--since") -> int:
    """Return the epoch time of ``--since``: ``7d`` before ``now``, or the start of a local day.

    Raises UsageError naming the forms; name: the option's, for the message.
    """
    with contextlib.suppress(ValueError):
        return now - parse_timeout(text)
    with contextlib.suppress(ValueError, OverflowError):
        return int(time.mktime(time.strptime(text.strip(), "%Y-%m-%d")))
    from neuronctl.common.errors import UsageError

    raise UsageError(f"{name}: {text!r} is not a time; use 12h, 7d, 2w or a day such as 2026-11-01")


def parse_begin(text: str, now: int) -> Optional[int]:
    """Return the epoch time of ``now+2hours`` or ``2026-12-01T10:00``; None: left to Slurm."""
    after = re.fullmatch(r"(?ai)now(?:\+(\d{1,9})(second|minute|hour|day|week)?s?)?", text)
    if after is not None:
        return now + int(after[1] or 0) * _SECONDS[(after[2] or "s")[0].lower()]
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"):
        with contextlib.suppress(ValueError, OverflowError):
            return int(time.mktime(time.strptime(text, form)))
    return None


def parse_memory(text: str) -> int:
    """Return the MB (2**20 bytes) of a memory size as ``--mem`` reads it; KB are rounded up."""
    match = re.fullmatch(r"(\d{1,18})(?:([KMGT])B?)?", text, re.ASCII | re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is not a valid memory size; use {MEMORY_FORMS}")
    number, unit = int(match[1]), (match[2] or "M").upper()
    megabytes = -(-number // 1024) if unit == "K" else number * 1024 ** "MGT".index(unit)
    if megabytes > _MAX_MEMORY_MB:
        raise ValueError(f"{text!r} exceeds the largest memory size that Slurm accepts")
    return megabytes


def expand_hostlist(text: str) -> List[str]:
    """Return the host names in a Slurm host list, in order: ``gpu[01-02],cpu1`` gives three.

    A name may have several brackets (``r[1-2]n[01-04]``); the last one varies fastest. Text after
    a bracket is accepted too, although Slurm 22.05 does not read it. Raises ValueError for an
    invalid host list and for more than MAX_HOSTS names.
    """
    names: List[str] = []
    # A comma inside brackets separates no items.
    items = re.findall(r"((?:[^,\[\]]|\[[^\[\]]*\])*),", f"{text},")
    if ",".join(items) != text:
        raise ValueError(f"host list {text!r} has unbalanced brackets")
    for item in items:
        # [literal, inside, literal, inside, …, literal]
        pieces = re.split(r"\[([^\[\]]*)\]", item)
        literals = pieces[::2]
        if not item or not all(re.fullmatch(r"[A-Za-z0-9._-]*", part) for part in literals):
            raise ValueError(f"host list {text!r}: {item!r} is not a host name")
        expanded = [literals[0]]
        for inside, literal in zip(pieces[1::2], literals[1:]):
            numbers = _expand_ranges(inside, text)
            if len(expanded) * len(numbers) > MAX_HOSTS:
                raise _too_many(text)
            expanded = [name + number + literal for name in expanded for number in numbers]
        if len(names) + len(expanded) > MAX_HOSTS:
            raise _too_many(text)
        names += expanded
    return names


def hosts(text: Optional[str]) -> List[str]:
    """Return the names in a host list; none for a file or an invalid list."""
    with contextlib.suppress(ValueError):
        return expand_hostlist(text) if text and "/" not in text else []
    return []


def first_host(text: str) -> str:
    """Return the first name in a host list; "" if it is empty or not a host list."""
    return next(iter(hosts(text)), "")


def compress_hostlist(names: Iterable[str]) -> str:
    """Return the host list for these names, as squeue prints it: ``cpu1,gpu[01-03,07]``.

    Sorted, without duplicates. Numbers of the same width are folded together.
    """
    groups: Dict[Tuple[str, int], List[int]] = {}
    folded: List[Tuple[str, int, str]] = []  # prefix and first number, to sort by, and the text
    for name in sorted(set(names)):
        match = re.fullmatch(r"(.*?)(\d{1,15})", name, re.ASCII)
        if match is None:
            folded.append((name, -1, name))  # sorted before the numbered names
        else:
            groups.setdefault((match[1], len(match[2])), []).append(int(match[2]))
    for (prefix, width), numbers in groups.items():
        inside = fold_ranges(numbers, width)
        text = inside if len(numbers) == 1 else f"[{inside}]"
        folded.append((prefix, numbers[0], prefix + text))
    return ",".join(text for _, _, text in sorted(folded))


def _too_many(whole: str) -> ValueError:
    return ValueError(f"host list {whole[:60]!r} expands to more than {MAX_HOSTS} names")


def _expand_ranges(inside: str, whole: str) -> List[str]:
    numbers: List[str] = []
    for piece in inside.split(","):
        match = re.fullmatch(r"(\d{1,15})(?:-(\d{1,15}))?", piece, re.ASCII)
        if match is None:
            raise ValueError(f"host list {whole!r}: {piece!r} is neither a number nor a range")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise ValueError(f"host list {whole!r}: the range {piece!r} runs backward")
        if len(numbers) + high - low >= MAX_HOSTS:
            raise _too_many(whole)
        numbers += [str(number).zfill(len(match[1])) for number in range(low, high + 1)]
    return numbers


def fold_ranges(numbers: Iterable[int], width: int = 0) -> str:
    """Fold ascending numbers, padded to ``width`` digits: ``01-03,07``."""
    ranges: List[List[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(
        str(low).zfill(width) + (f"-{str(high).zfill(width)}" if high > low else "")
        for low, high in ranges
    )


def expand_log_pattern(
    pattern: str,
    *,
    job_id: int,
    array_job_id: Optional[int] = None,
    array_task_id: Optional[int] = None,
    job_name: str = "",
    user: str = "",
    node: str = "",
    any_task: bool = False,
) -> str:
    """Return the file name that sbatch makes of an ``--output`` pattern (man sbatch).

    ``%5j`` pads numbers with zeros, to at most ten digits. A backslash anywhere disables all
    replacements and escapes the next character. Slurm leaves unknown symbols unchanged.

    any_task: return a pattern for the tasks of an array, in which symbols that differ between
    tasks, and ``%%``, are left unchanged.
    """
    if "\\" in pattern:
        return re.sub(r"\\(.?)", r"\1", pattern, flags=re.DOTALL)
    # Outside an array, Slurm prints its NO_VAL constant for the index.
    index = _NO_VAL if array_task_id is None else array_task_id
    # The batch script is task 0 (%t) on node 0 (%n) of the job.
    numbers = {"a": index, "b": index % 10, "j": job_id, "J": job_id, "n": 0, "t": 0}
    numbers["A"] = job_id if array_job_id is None else array_job_id
    words = {"%": "%", "s": "batch", "N": node.split(".")[0], "u": user, "x": job_name}
    if any_task:
        numbers = {key: number for key, number in numbers.items() if key not in "abjJ"}
        words = {key: word for key, word in words.items() if key not in "%N"}

    def replace(match: re.Match[str]) -> str:
        width, key = match[1], match[2]
        if key in numbers:
            return str(numbers[key]).zfill(min(int(width or 0), 10))
        if key == "%" and width:
            return match[0]
        return words.get(key, match[0])

    return re.sub(r"%(\d{0,9})(.)", replace, pattern, flags=re.ASCII | re.DOTALL)


SIGNALS = (
    *("HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2"),
    *("URG", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "XCPU", "CHLD", "PIPE"),
)
"""The signals that sbatch accepts by name (Slurm 22.05, which was tried, lacks the last two)."""
NEVER_HANDLED = ("KILL", "STOP")
"""Signals that no program can handle."""


def split_signal(text: str) -> Tuple[str, str, str]:
    """Split ``--signal`` as sbatch does, unchecked: ``b:SIGusr1@120`` is ``("B", "usr1", "120")``.

    The first part may also have R; the last one is empty if no time is given.
    """
    match = re.match(r"(?is)(R?B?R?):?\s*(?:SIG)?([^@]*)@?(.*)", text)
    assert match is not None
    return match[1].upper(), match[2].strip(), match[3]
