"""Parse single fields of Slurm's output: times, counts, GPUs, exit codes. Pure."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from datetime import datetime
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, field, fields
from neuronctl.common.units import UNLIMITED, parse_duration

SEPARATOR = "\x1f"
"""Separates fields: a control character that occurs in no state, host list, or time."""

CLOCK_SKEW = 300
"""Seconds by which a login node's clock may be ahead of slurmctld's."""

Columns = Mapping[str, Tuple[str, Callable[[str], Any]]]
"""The field of a dataclass -> Slurm's name of the column, and the function that reads its text."""


def column(name: str, read: Callable[[str], Any] = str, **default: Any) -> Any:
    """Declare a field of a dataclass with Slurm's name for it, and the function that reads it."""
    return field(metadata={"column": (name, read)}, **default)


@functools.cache
def columns_of(kind: type) -> Columns:
    """Return the columns that the fields of a dataclass declare, in their order."""
    declared = (field for field in fields(kind) if field.metadata)
    return {field.name: field.metadata["column"] for field in declared}


def names_of(columns: Columns) -> Tuple[str, ...]:
    """Return Slurm's names of the columns."""
    return tuple(name for name, _ in columns.values())


def read_columns(columns: Columns, texts: Mapping[str, str]) -> Dict[str, Any]:
    """Return the values of the fields. texts: Slurm's, by the names of the columns."""
    return {name: read(texts[title]) for name, (title, read) in columns.items()}


def read_rows(rows: Iterable[Sequence[str]], columns: Columns) -> Iterator[Dict[str, Any]]:
    """Yield the values in each row of squeue or sacct, by field; skip rows without a job id."""
    names = list(columns)
    parsers = [(name, parse) for name, (_, parse) in columns.items() if parse is not str]
    for texts in rows:
        if len(texts) == len(names):
            values: Dict[str, Any] = dict(zip(names, texts))
            for name, parse in parsers:
                values[name] = parse(values[name])
            if values["id"] is not None and values["job_id"] is not None:
                yield values


def text_or_nothing(text: str) -> str:
    """Return a text, or "" for the words that Slurm prints for nothing."""
    return "" if text in ("None", "N/A", "(null)") else text


# Even thousands of rows have few distinct values per column.
_remembered = functools.lru_cache(maxsize=2048)


@_remembered
def parse_timestamp(text: str) -> Optional[int]:
    """Parse ``2026-08-12T09:30:00`` (UTC) as epoch seconds; None for N/A, Unknown, NONE."""
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", text.strip(), re.ASCII):
        with contextlib.suppress(ValueError):  # a month 13
            return int(datetime.fromisoformat(f"{text.strip()}+00:00").timestamp())
    return None


@_remembered
def parse_seconds(text: str) -> Optional[int]:
    """Parse ``1-02:03:04``, ``5:00``, or minutes (``10``) as seconds; UNLIMITED; None for N/A."""
    text = text.strip()
    if text == "UNLIMITED":
        return UNLIMITED
    try:
        return parse_duration(text)
    except ValueError:
        return None


def count(text: str) -> Optional[int]:
    """Return a whole number of at most 64 bits; None for other text, such as ``UNLIMITED``."""
    # isdigit() accepts ², and int() any length.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def parse_number(text: str) -> Optional[float]:
    """Return a decimal number; None for anything else, such as ``[N/A]`` or ``nan``."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


@_remembered
def parse_count(text: str) -> Optional[int]:
    """Return a whole number, or the lower end of a range (squeue's ``1-4`` nodes), or None."""
    match = re.match(r"[0-9]+", text.strip())
    return count(match[0]) if match else None


@_remembered
def parse_resources(text: str) -> Mapping[str, Dict[str, int]]:
    """Return resources by name and type, such as ``{"gpu": {"a100": 4}, "shard": {"": 8}}``.

    squeue, scontrol, and sacct write ``gpu:a100:4(S:0-1),gres:gpu:2,gres/gpu=4``.
    """
    resources: Dict[str, Dict[str, int]] = {}
    for item in re.split(r",(?![^()]*\))", text_or_nothing(text)):
        name, kind, number = _parse_resource(item)
        if name:
            kinds = resources.setdefault(name, {})
            kinds[kind] = kinds.get(kind, 0) + number
    return resources


def _parse_resource(item: str) -> Tuple[str, str, int]:
    """Return the name, the type ("": none is named), and the number of ``gres:gpu:a100:4(S:0-1)``.

    A type may begin with a digit (``gpu:3090:4``, MIG's ``gpu:1g.5gb:7``); it is ``(null)`` if
    Slurm names none, and ``no_consume`` may follow it. Slurm writes 2048 as ``2K``.
    """
    plain = item.replace("(null)", "").partition("(")[0]
    name, *details = re.split("[:=/]", re.sub("^gres[:=/]", "", plain))
    details = [detail for detail in details if detail not in ("", "no_consume")]
    number = parse_size(details[-1].upper()) if details else None
    if number is None:
        number = 1  # "gpu:a100" means one
    else:
        details.pop()
    return name, details[0] if details else "", int(number)


def parse_gres_gpus(text: str) -> Optional[int]:
    """Return the GPUs per node, of any type; None without GPUs."""
    types = parse_resources(text).get("gpu")
    return sum(types.values()) if types else None


@_remembered
def parse_tres(text: str) -> Mapping[str, int]:
    """Parse ``cpu=8,mem=2G,gres/gpu:a100=4`` by TRES: memory in MB; sum up types of GPUs."""
    amounts: Dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        size = parse_size(value, "M") if name == "mem" else None
        figure = count(value) if size is None else round(size / 1024**2)
        if figure is not None:
            amounts[name] = figure
    gpus_of_types = sum(figure for name, figure in amounts.items() if name.startswith("gres/gpu:"))
    if gpus_of_types:
        amounts.setdefault("gres/gpu", gpus_of_types)
    return amounts


def parse_tres_gpus(text: str) -> Optional[int]:
    """Parse a job's GPUs in sacct's ``cpu=8,gres/gpu:a100=4,gres/gpu=4``; None without GPUs."""
    return parse_tres(text).get("gres/gpu")


def parse_size(text: str, unit: str = " ") -> Optional[float]:
    """Parse ``114168K``, ``1.5G`` as bytes, or None. unit: for text without one (" ": bytes)."""
    number = text.rstrip("KMGTP")
    unit = text[len(number) :] or unit
    # Only digits and a point: float() would read 1e9 and nan.
    if len(unit) > 1 or None in map(count, number.split(".", 1)):
        return None
    return float(number) * 1024.0 ** " KMGTP".index(unit)


def submission_mark(command: str) -> str:
    """Return the mark that sbatch() gave a job, from its Command or SubmitLine, or ""."""
    match = re.search(r"/dev/stdin neuronctl-(\S+)", command)
    return "" if match is None else match[1]


@dataclass(frozen=True)
class ExitCode:
    """Slurm's ``code:signal``: how the batch script ended."""

    code: int
    signal: int

    @classmethod
    def parse(cls, text: str) -> Optional[ExitCode]:
        """Parse ``1:0``, or a wait status as squeue 22.05 prints it: 34560 is 135:0, 9 is 0:9.

        Slurm stores its own error numbers in the same field and decodes them in the same way: 4021
        (the log could not be opened) is 0:53.
        """
        match = re.fullmatch(r"(?P<code>[0-9]{1,10}):(?P<signal>[0-9]{1,10})", text.strip())
        if match is not None:
            return cls(int(match["code"]), int(match["signal"]))
        status = count(text)
        if status is None:
            return None
        signal = status & 0x7F
        return cls(0, signal) if signal else cls(status >> 8 & 0xFF, 0)

    def __str__(self) -> str:
        return f"{self.code}:{self.signal}"
