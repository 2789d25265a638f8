"""The parameters of a sweep, from the command line, a job file, a table, or a list of commands."""

from __future__ import annotations

import csv
import io
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_named
from neuronctl.common.words import counted

Row = Tuple[Tuple[str, str], ...]
"""(parameter, value) pairs, in the order of the parameters."""

Axis = Tuple[Row, ...]
"""Rows of the same parameters; a sweep combines each row of one axis with each of the others."""

NAME = r"[^\W\d](?:[\w.-]*\w)?"
"""A parameter's name, such as ``lr``, ``optimizer.lr``, and ``gpus-per-node``."""

MOST = 100_000
"""The most tasks that a sweep may have."""

COMMAND = "command"
"""The parameter that a file of commands sets."""

SHELL_COMMAND = ("bash", "-c", f"{{{COMMAND}}}")
"""What a sweep over a file of commands runs if no program is named."""

SOURCES = ("params", "zip", "list", "table", "commands")
"""Keys of ``sweep:`` in a job file."""


def given_axes(
    params: Sequence[str], *, together: bool, **files: Optional[str]
) -> Tuple[Axis, ...]:
    """Return the axes of --param, --zip, --table, and --commands; raise UsageError.

    together: --zip. files: those of --table and --commands; None: the option is not given.
    """
    values: Dict[str, str] = {}
    for param in params:
        name, equals, text = param.partition("=")
        if not equals:
            raise UsageError(f"--param: '{param}' is not NAME=VALUES, such as lr=0.1,0.01")
        if name in values:
            raise UsageError(f"--param: {name} is there twice", "separate its values by commas")
        values[name] = text
    sources = {"zip" if together else "params": values or None, **files}
    axes: List[Axis] = []
    for source, data in sources.items():
        if data is None:
            continue
        try:
            axes += make_axes(source, data)
        except ValueError as error:
            option = f"--{source}" if source in files else "--param"
            raise UsageError(f"{option}: {error}") from None
    return tuple(axes)


def make_axes(source: str, data: Any) -> Tuple[Axis, ...]:
    """Return the axes that a source, one of SOURCES, describes by its data; raise ValueError."""
    if source == "table":
        return (_read_table(data),)
    if source == "commands":
        return (_read_commands(data),)
    columns = _read_list(data) if source == "list" else _read_columns(data)
    if source == "params":  # all combinations: each parameter is an axis
        return tuple(_axis((name,), [[value] for value in columns[name]]) for name in columns)
    if len({len(values) for values in columns.values()}) > 1:
        shown = ", ".join(f"{name} has {len(values)}" for name, values in columns.items())
        raise ValueError(f"values that advance together must be equally many: {shown}")
    rows = list(zip(*columns.values()))
    return (_axis(tuple(columns), rows),)


def _read_list(data: Any) -> Dict[str, List[Any]]:
    """Return the values of each parameter in ``[{lr: 0.1, seed: 1}, {lr: 0.2, seed: 2}]``."""
    entries = data if isinstance(data, list) else [data]
    if not entries or not all(isinstance(entry, dict) and entry for entry in entries):
        raise ValueError("expected one entry per task, such as '- {lr: 0.1, seed: 1}'")
    for entry in entries:
        if entry.keys() != entries[0].keys():
            first, other = ", ".join(entries[0]), ", ".join(entry)
            raise ValueError(f"one entry sets {other}, the first {first}")
    return {name: [entry[name] for entry in entries] for name in entries[0]}


def _read_columns(data: Any) -> Dict[str, List[Any]]:
    """Return the values of each parameter in ``{lr: [0.1, 0.01], seed: "1..5"}``."""
    columns = {}
    for name, values in data.items() if isinstance(data, dict) else ():
        columns[name] = _read_values(values) if isinstance(values, str) else values
    if not columns or not all(isinstance(values, list) for values in columns.values()):
        raise ValueError("expected parameters with values, such as lr: [0.1, 0.01] or seed: 1..5")
    return columns


def _axis(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Axis:
    """Return the axis of these parameters; raise ValueError for a wrong name or value."""
    for name in names:
        if not re.fullmatch(NAME, name):
            raise ValueError(
                f"'{name}' is no name: use letters, digits, and _, with . and - between"
            )
    if not rows:
        raise ValueError(f"{', '.join(names) or 'the table'} has no values")
    for row in rows:
        for name, value in zip(names, row):
            if not isinstance(value, str) or not value.strip() or "\0" in value:
                raise ValueError(f"a value of {name} is empty, or no text or number")
    return tuple(tuple(zip(names, row)) for row in rows)


def _read_values(text: str) -> List[str]:
    """Return the values in ``0.1,0.01`` or ``1..5``."""
    values: List[str] = []
    for part in text.split(","):
        bounds = re.fullmatch(r"(?P<first>-?[0-9]{1,18})\.\.(?P<last>-?[0-9]{1,18})", part)
        if bounds is not None:
            values += _count(bounds["first"], bounds["last"])
        elif re.fullmatch(r"[-+0-9.]+\.\.[-+0-9.]+", part):
            raise ValueError(f"'{part}': a range has whole numbers; list others: 0.1,0.3,0.5")
        else:
            values.append(part)
    return values


def _count(first: str, last: str) -> List[str]:
    """Return the numbers from first to last; from 01 on, with two digits each, as in bash."""
    distance = int(last) - int(first)
    if abs(distance) >= MOST:
        raise ValueError(f"'{first}..{last}' has more than {MOST} values")
    width = len(first) if re.match("-?0[0-9]", first) else 0
    step = 1 if distance >= 0 else -1
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + step, step)]


def _read_table(file: Any) -> Axis:
    """Return the rows of a CSV file; its first line names the parameters."""
    reader = csv.reader(io.StringIO(_read(file), newline=""), skipinitialspace=True, strict=True)
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        raise ValueError(f"'{file}', line {reader.line_num}: {error}") from None
    names, *rows = lines or [[]]  # an empty file names no parameter
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            columns = f"{counted(len(names), 'parameter')} ({', '.join(names)})"
            raise ValueError(f"'{file}', row {number}: {counted(len(row), 'value')} for {columns}")
    return _axis([name.strip() for name in names], rows)


def _read_commands(file: Any) -> Axis:
    """Return the shell commands in a file, one per line."""
    lines = (line.strip() for line in _read(file).split("\n"))
    return _axis((COMMAND,), [[line] for line in lines if line and not line.startswith("#")])


def _read(file: Any) -> str:
    if not isinstance(file, str):
        raise ValueError("expected the name of a file")
    try:
        with open_named(file) as stream:
            return stream.read().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", "") or "it is not UTF-8 text"
        raise ValueError(f"cannot read '{file}': {problem}") from None
