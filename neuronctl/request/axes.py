"""What a sweep varies, as the command line, a job file, a table, and a list of commands say it."""

from __future__ import annotations

import csv
import io
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_named
from neuronctl.common.words import counted

Row = Tuple[Tuple[str, str], ...]
"""Parameters, each with its value, in their order."""

Axis = Tuple[Row, ...]
"""Rows of the same parameters; a sweep combines each row of one axis with each of the others."""

NAME = r"[^\W\d](?:[\w.-]*\w)?"
"""A parameter's name, such as ``lr``, ``optimizer.lr``, and ``gpus-per-node``."""

MOST = 100_000
"""Tasks of a sweep."""

COMMAND = "command"
"""The parameter that a file of commands sets."""

SHELL_COMMAND = ("bash", "-c", f"{{{COMMAND}}}")
"""What a sweep over a file of commands runs where no program is named."""

SOURCES = ("params", "zip", "list", "table", "commands")
"""Keys of ``sweep:`` in a job file."""

_LARGEST = 64 * 1024 * 1024
"""Bytes of a table, or of a file of commands."""

_EXAMPLE = "expected parameters with values, such as lr: [0.1, 0.01] or seed: 1..5"


def given_axes(
    params: Sequence[str], *, together: bool, **files: Optional[str]
) -> Tuple[Axis, ...]:
    """Return what --param, --zip (together), and files for --table and --commands say.

    Raises UsageError.
    """
    values: Dict[str, str] = {}
    for param in params:
        name, equals, text = param.partition("=")
        if not equals:
            raise UsageError(f"--param: '{param}' is not NAME=VALUES, such as lr=0.1,0.01")
        if name in values:
            raise UsageError(f"--param: {name} is there twice", "separate its values by commas")
        values[name] = text
    axes: List[Axis] = []
    option = "zip" if together else "param"
    try:
        if values or together:
            axes.extend(make_axes("zip" if together else "params", values))
        for option, file in files.items():
            axes.extend(make_axes(option, file) if file is not None else ())
    except ValueError as error:
        raise UsageError(f"--{option}: {error}") from None
    return tuple(axes)


def make_axes(source: str, data: Any) -> Tuple[Axis, ...]:
    """Return what one of SOURCES says, with texts for all values; raises ValueError."""
    if source in ("table", "commands"):
        if not isinstance(data, str):
            raise ValueError("expected the name of a file")
        return (_read_table(data) if source == "table" else _read_commands(data),)
    if source == "list":
        if not data or not isinstance(data, list) or not isinstance(data[0], dict):
            raise ValueError("expected one entry per task, such as '- {lr: 0.1, seed: 1}'")
        names = tuple(data[0])
        for number, entry in enumerate(data, 1):
            if not isinstance(entry, dict) or entry.keys() != set(names):
                raise ValueError(
                    f"entry {number} does not set {', '.join(names)}, as the first does"
                )
        return (_axis(names, [[entry[name] for name in names] for entry in data]),)
    if not data or not isinstance(data, dict):
        raise ValueError(_EXAMPLE)
    columns = {
        name: _read_values(values) if isinstance(values, str) else values
        for name, values in data.items()
    }
    if not all(isinstance(values, list) for values in columns.values()):
        raise ValueError(_EXAMPLE)
    if source == "params":
        return tuple(_axis((name,), [[v] for v in values]) for name, values in columns.items())
    if len({len(values) for values in columns.values()}) > 1:
        shown = ", ".join(f"{name} has {len(values)}" for name, values in columns.items())
        raise ValueError(f"values that advance together must be equally many: {shown}")
    return (_axis(tuple(columns), list(zip(*columns.values()))),)


def _axis(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Axis:
    for index, name in enumerate(names):
        if not re.fullmatch(NAME, name):
            raise ValueError(
                f"'{name}' is no name: use letters, digits, and _, with . and - between"
            )
        if name in names[:index]:
            raise ValueError(f"{name} is there twice")
    if not rows:
        raise ValueError(f"{', '.join(names)} has no values")
    for row in rows:
        for name, value in zip(names, row):
            if not isinstance(value, str) or not value.strip() or "\0" in value:
                raise ValueError(f"a value of {name} is empty, or no text or number")
    return tuple(tuple(zip(names, row)) for row in rows)


def _read_values(text: str) -> List[str]:
    """Return the values in ``0.1,0.01`` or ``1..5``."""
    values: List[str] = []
    for part in text.split(","):
        span = re.fullmatch(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})", part)
        if span is None:
            values.append(part)
            continue
        first, last = int(span[1]), int(span[2])
        if abs(last - first) >= MOST:
            raise ValueError(f"'{part}' has more than {MOST} values")
        padded = any(re.match("-?0[0-9]", end) for end in span.groups())  # as in bash
        width = max(map(len, span.groups())) if padded else 0
        step = 1 if last >= first else -1
        values.extend(f"{number:0{width}d}" for number in range(first, last + step, step))
    return values


def _read_table(file: str) -> Axis:
    """Return the rows of a CSV file, whose first line names the parameters."""
    reader = csv.reader(io.StringIO(_read(file), newline=""), skipinitialspace=True, strict=True)
    try:
        names, *rows = filter(None, reader)
    except (csv.Error, ValueError) as error:
        problem = error if isinstance(error, csv.Error) else "it is empty"
        raise ValueError(f"'{file}', line {reader.line_num}: {problem}") from None
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise ValueError(
                f"'{file}', row {number}: {counted(len(row), 'value')} for "
                f"{counted(len(names), 'parameter')} ({', '.join(names)})"
            )
    return _axis([name.strip() for name in names], rows)


def _read_commands(file: str) -> Axis:
    """Return the shell commands in a file, one a line."""
    lines = (line.strip() for line in _read(file).split("\n"))
    return _axis((COMMAND,), [[line] for line in lines if line and not line.startswith("#")])


def _read(file: str) -> str:
    try:
        with open_named(file) as stream:
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST >> 20} MiB")
        return content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        unicode = isinstance(error, UnicodeDecodeError)
        problem = "it is not UTF-8 text" if unicode else getattr(error, "strerror", "") or error
        raise ValueError(f"cannot read '{file}': {problem}") from None
