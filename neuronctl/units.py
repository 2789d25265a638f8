"""Slurm's own grammars: time, memory, host lists, log-file patterns, arrays, dependencies, mail.

Pure; raises ValueError.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import Dict, Iterable, List, Optional, Tuple

UNLIMITED = -1
"""A wall time without limit, in place of a number of seconds."""

TIME_FORMS = "MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED"
MEMORY_FORMS = "a whole number of MB, or one with K, M, G or T"

MAX_HOSTS = 65536
"""A host list that stands for more names than this is an error, not a hang."""

_MAX_SECONDS = 2**31 - 1  # Slurm keeps a time limit in a C int
_MAX_MEMORY_MB = 2**53
_NO_VAL = 0xFFFFFFFE


# ---------------------------------------------------------------------------- time


def parse_time(text: str) -> int:
    """Seconds of a wall time as ``--time`` reads it, or UNLIMITED.

    A bare number is minutes, two numbers are minutes and seconds; zero is no limit. Raises
    ValueError naming the forms. Note that Slurm itself rounds up to whole minutes.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return UNLIMITED
    return parse_duration(text) or UNLIMITED


def parse_duration(text: str) -> int:
    """Seconds of a span of time in Slurm's forms, where zero is zero (``squeue``'s ``0:00``)."""
    # re.ASCII: int() would take other scripts' digits, Slurm does not.
    number = r"(\d{1,10})"
    form = f"(?:{number}-{number}|{number})(?::{number})?(?::{number})?"
    match = re.fullmatch(form, text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not a time; Slurm knows {TIME_FORMS}")
    days, hours, first, second, third = (int(group or 0) for group in match.groups())
    if match[1] is not None:
        seconds = ((days * 24 + hours) * 60 + second) * 60 + third
    elif match[5] is not None:
        seconds = (first * 60 + second) * 60 + third
    else:
        seconds = first * 60 + second
    if seconds > _MAX_SECONDS:
        raise ValueError(f"{text!r} is longer than the {_MAX_SECONDS} seconds Slurm can count")
    return seconds


def format_time(seconds: int) -> str:
    """A time as squeue prints a limit: ``2-00:00:00``, ``08:00:00``, ``UNLIMITED``."""
    if seconds == UNLIMITED:
        return "UNLIMITED"
    if seconds < 0:
        raise ValueError(f"{seconds} seconds is no span of time")
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02d}:{minute:02d}:{second:02d}"
    return f"{days}-{clock}" if days else clock


def format_elapsed(seconds: Optional[int]) -> str:
    """A duration as squeue prints time used: ``5:00``, ``1:02:03``, ``2-00:00:00``; ``-``: None."""
    if seconds is None:
        return "-"
    if seconds == UNLIMITED:
        return "unlimited"
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 24:
        return format_time(seconds)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


_SINCE_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_since(text: str, now: int) -> int:
    """Epoch seconds of ``--since``: ``7d`` before ``now``, or the start of a day in local time.

    Raises ValueError naming the forms.
    """
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text.strip(), re.ASCII)
    if match:
        return now - int(match[1]) * _SINCE_UNITS[match[2]]
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"):
        with contextlib.suppress(ValueError, OverflowError):
            return int(time.mktime(time.strptime(text.strip(), form)))
    raise ValueError(f"{text!r} is not a time; use 12h, 7d, 2w or a day such as 2026-11-01")


# -------------------------------------------------------------------------- memory


def parse_memory(text: str) -> int:
    """MB (2**20 bytes) of a memory size as ``--mem`` reads it; KB are rounded up."""
    match = re.fullmatch(r"(\d{1,18})(?:([KMGT])B?)?", text, re.ASCII | re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is not a memory size; Slurm knows {MEMORY_FORMS}")
    number, unit = int(match[1]), (match[2] or "M").upper()
    megabytes = -(-number // 1024) if unit == "K" else number * 1024 ** "MGT".index(unit)
    if megabytes > _MAX_MEMORY_MB:
        raise ValueError(f"{text!r} is more memory than Slurm can count")
    return megabytes


# ----------------------------------------------------------------------- host lists


def expand_hostlist(text: str) -> List[str]:
    """Host names of a Slurm host list, in its order: ``gpu[01-03,07],cpu1`` gives five names.

    A name may carry several brackets (``r[1-2]n[01-04]``), of which the last runs fastest, and
    may go on after them (which Slurm 22.05 does not read). Raises ValueError for what is no host
    list, and beyond MAX_HOSTS names.
    """
    names: List[str] = []
    for item in _split_outside_brackets(text):
        # [literal, inside, literal, inside, …, literal]
        pieces = re.split(r"\[([^\[\]]*)\]", item)
        literals = pieces[::2]
        if not item or not all(re.fullmatch(r"[A-Za-z0-9._-]*", part) for part in literals):
            raise ValueError(f"host list {text!r}: {item!r} is no host name")
        found = [literals[0]]
        for inside, literal in zip(pieces[1::2], literals[1:]):
            numbers = _expand_ranges(inside, text)
            if len(found) * len(numbers) > MAX_HOSTS:
                raise _too_many(text)
            found = [name + number + literal for name in found for number in numbers]
        if len(names) + len(found) > MAX_HOSTS:
            raise _too_many(text)
        names += found
    return names


def compress_hostlist(names: Iterable[str]) -> str:
    """The host list of the names, as squeue prints it: ``cpu1,gpu[01-03,07]``.

    Sorted, without doubles; only numbers that a range would write equally are folded, so that
    expanding gives the same names again.
    """
    groups: Dict[Tuple[str, int], List[int]] = {}
    folded: List[Tuple[str, int, str]] = []
    for name in sorted(set(names)):
        match = re.fullmatch(r"(.*?)(\d{1,15})", name, re.ASCII)
        if match is None:
            folded.append((name, -1, name))
            continue
        # Width 0 means "as short as can be": gpu9 and gpu10 are one range, gpu09 is another.
        padded = match[2].startswith("0") and len(match[2]) > 1
        groups.setdefault((match[1], len(match[2]) if padded else 0), []).append(int(match[2]))
    for (prefix, width), numbers in groups.items():
        unpadded = groups.get((prefix, 0), [])
        if width:
            # gpu10 carries no zero of its own, but goes with gpu09.
            same_width = [number for number in unpadded if len(str(number)) == width]
            numbers += same_width
            unpadded[:] = [number for number in unpadded if number not in same_width]
    for (prefix, width), numbers in groups.items():
        if numbers:
            folded.append((prefix, min(numbers), prefix + _fold(width, sorted(numbers))))
    return ",".join(text for _, _, text in sorted(folded))


def _too_many(whole: str) -> ValueError:
    return ValueError(f"host list {whole[:60]!r} stands for more than {MAX_HOSTS} names")


def _split_outside_brackets(text: str) -> List[str]:
    items, inside, start = [], False, 0
    for position, char in enumerate(text):
        if (char == "[" and inside) or (char == "]" and not inside):
            raise ValueError(f"host list {text!r} has brackets that do not pair")
        inside = char == "[" or (inside and char != "]")
        if char == "," and not inside:
            items.append(text[start:position])
            start = position + 1
    if inside:
        raise ValueError(f"host list {text!r} has a bracket that is not closed")
    return [*items, text[start:]]


def _expand_ranges(inside: str, whole: str) -> List[str]:
    numbers: List[str] = []
    for piece in inside.split(","):
        match = re.fullmatch(r"(\d{1,15})(?:-(\d{1,15}))?", piece, re.ASCII)
        if match is None:
            raise ValueError(f"host list {whole!r}: {piece!r} is no number and no range")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise ValueError(f"host list {whole!r}: the range {piece!r} runs backwards")
        if len(numbers) + high - low >= MAX_HOSTS:
            raise _too_many(whole)
        numbers += [str(number).zfill(len(match[1])) for number in range(low, high + 1)]
    return numbers


def _fold(width: int, numbers: List[int]) -> str:
    """Sorted numbers as ``07`` or ``[01-03,07]``."""
    ranges: List[List[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [
        str(low).zfill(width) + (f"-{str(high).zfill(width)}" if high > low else "")
        for low, high in ranges
    ]
    return texts[0] if len(numbers) == 1 else f"[{','.join(texts)}]"


# ------------------------------------------------------------------------ log files


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
    """The file name sbatch makes of an ``--output`` pattern (man sbatch, "filename pattern").

    ``%%`` is a percent sign, ``%A`` the array's job id (the job's own outside an array), ``%a``
    the array index, ``%j`` the job id, ``%J`` the same for a batch script, ``%n`` and ``%t`` the
    node and task number (0 for a batch script), ``%N`` the short host name, ``%s`` the step,
    ``%u`` and ``%x`` the user and job name. ``%5j`` pads numbers with zeros, to at most ten
    digits. A backslash anywhere switches all replacement off, and stands for the character
    after it; what Slurm does not know stays as it stands.

    any_task: the answer is a pattern for the tasks of an array, in which what is not the same for
    all of them, and ``%%``, stay as they stand.
    """
    if "\\" in pattern:
        return re.sub(r"\\(.?)", r"\1", pattern, flags=re.DOTALL)
    # Outside an array Slurm prints its "no value" for the index.
    numbers = {
        "A": job_id if array_job_id is None else array_job_id,
        "a": _NO_VAL if array_task_id is None else array_task_id,
        "b": (_NO_VAL if array_task_id is None else array_task_id) % 10,
        "j": job_id,
        "J": job_id,
        "n": 0,
        "t": 0,
    }
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


# ------------------------------------------------- arrays, dependencies, mail types

MAIL_TYPES = ("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT",
              "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50",
              "ARRAY_TASKS")  # fmt: skip
DEPENDENCIES = (
    *("after", "afterany", "afternotok", "afterok", "aftercorr", "afterburstbuffer"),
    "singleton",
)


def check_array(text: str) -> None:
    """ValueError unless ``--array`` can read ``text``: ``0-9``, ``1,3,8-16:4``, ``0-9%2``.

    Slurm drops what stands behind a ``%`` that is no number, and the indexes behind it too;
    here that is an error.
    """
    indexes, percent, most = text.partition("%")
    if percent and not re.fullmatch(r"0*[1-9]\d{0,8}", most, re.ASCII):
        raise ValueError(f"'{most}' behind the % is no number of tasks; it ends the list")
    for item in indexes.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::0*[1-9]\d{0,8})?)?", item, re.ASCII)
        if match is None:
            raise ValueError(f"'{item}' is no index and no range of indexes")
        if match[2] is not None and int(match[2]) < int(match[1]):
            raise ValueError(f"the range '{item}' runs backwards")


def check_dependency(text: str) -> None:
    """ValueError unless ``--dependency`` can read ``text``.

    TYPE:JOB[:JOB…] or ``singleton``, several behind ``,`` (all of them) or ``?`` (any of them);
    a job may have a delay in minutes (``after:17+5``), be one task of an array (``17_3``), or
    stand alone, as afterany.
    """
    if "," in text and "?" in text:
        raise ValueError("it is either , (all of them) or ? (any of them), not both")
    job = r" ?\d{1,10}(?:_\d{1,9}|_\*)?(?:\+\d{1,9})?"
    for item in re.split("[,?]", text):
        kind, colon, jobs = item.partition(":")
        if not colon and (kind.lower() == "singleton" or re.fullmatch(job, item, re.ASCII)):
            continue
        if kind.lower() not in DEPENDENCIES:
            raise ValueError(
                f"'{kind}' is no kind of dependency; Slurm knows {', '.join(DEPENDENCIES)}"
            )
        if kind.lower() == "singleton":
            raise ValueError("singleton stands alone: it waits for jobs of the same name")
        if not jobs:
            raise ValueError(f"'{item}' names no job id")
        for one in jobs.split(":"):
            if not re.fullmatch(job, one, re.ASCII):
                raise ValueError(f"'{one}' in '{item}' is no job id")


def check_mail_type(text: str) -> None:
    """ValueError unless ``--mail-type`` can read ``text``: names of MAIL_TYPES and commas.

    Slurm passes over a name that it does not know behind one that it does; here it is an error.
    """
    names = [one.strip().upper() for one in text.split(",")]
    for name in names:
        if name not in MAIL_TYPES:
            raise ValueError(
                f"'{name}' is no occasion for mail; Slurm knows {', '.join(MAIL_TYPES)}"
            )
    if "NONE" in names and len(names) > 1:
        raise ValueError("NONE stands alone")
