r"""Print tables, text, and JSON; the only module that imports rich, for Markdown.

On a terminal, a table is fitted to its width and styled. In a pipe or a file it is plain aligned
text, never cut and never folded unless $COLUMNS says how wide.

Text from files, job names, and Slurm cannot steer the terminal: control characters are written out
as ``\x1b``. NO_COLOR, else FORCE_COLOR, decides on colors; without both, only a terminal has them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, TextIO

from neuronctl.common.spelling import spelled

GAP = 2
"""Blanks between two columns."""


class Column(NamedTuple):
    """One column of a table.

    style has one or several words of ``_CODES`` (``"bold red"``); styles maps the text of a cell to
    its own style. min_width is in character cells. If a table is wider than the terminal, the
    columns with the highest priority number are left out first and a line under the table names
    them; those with priority 0 always stay. Then columns that are not ``no_wrap`` are folded at
    blanks.
    """

    header: str
    justify: str = "left"
    style: str = ""
    min_width: Optional[int] = None
    no_wrap: bool = False
    priority: int = 0
    styles: Mapping[str, str] = {}

    def cell_style(self, text: str) -> str:
        """Return the style of a cell with this text."""
        return self.styles.get(text.strip(), self.style)


def figures(header: str, priority: int = 0) -> Column:
    """Return a column of figures."""
    return Column(header, justify="right", no_wrap=True, priority=priority)


_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
"""Styles, and what ECMA-48 (SGR) calls them."""


def _styled(text: str, style: str) -> str:
    """Return a text with a style around it; without colors if NO_COLOR is set."""
    codes = [_CODES[word] for word in style.split()]
    if os.environ.get("NO_COLOR"):
        codes = [code for code in codes if code < 30]  # colors begin there
    if not codes or not text.strip():
        return text
    bare = text.rstrip()
    return f"\x1b[{';'.join(map(str, codes))}m{bare}\x1b[0m{text[len(bare) :]}"


def is_terminal(file: Optional[TextIO] = None) -> bool:
    """Return True if ``file`` (by default standard output) is a terminal."""
    return (file or sys.stdout).isatty()


def has_styles(file: Optional[TextIO] = None) -> bool:
    """Return True if ``file`` (by default standard output) gets colors or bold text."""
    forced = bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")
    return forced or (is_terminal(file) and os.environ.get("TERM") not in ("dumb", "unknown"))


def draws_blocks(file: Optional[TextIO] = None) -> bool:
    """Return True if ``file`` (by default standard output) is a terminal whose locale is UTF-8.

    LC_CTYPE does not count: Python itself sets it to UTF-8 if LANG is C (PEP 538).
    """
    locale = os.environ.get("LC_ALL") or os.environ.get("LANG", "")
    return is_terminal(file) and locale.lower().replace("-", "").endswith("utf8")


def bar(full: int, width: int) -> str:
    """Return a bar of ``width`` cells, ``full`` of them filled: ``███░░░``, or ``###...``."""
    used, left = "█░" if draws_blocks() else "#."
    return used * full + left * (width - full)


def terminal_width() -> int:
    """Return the terminal's width in columns: $COLUMNS, what the terminal says, or 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


def printable(text: str) -> str:
    """Return the text with every character that could steer a terminal written out as an escape."""
    if text.isprintable():
        return text
    return "".join(char if _harmless(char) else ascii(char)[1:-1] for char in text)


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], *, file: Optional[TextIO] = None
) -> None:
    """Print rows under their headers; each row has as many cells as there are columns."""
    out = file or sys.stdout
    must_fit = is_terminal(out) or os.environ.get("COLUMNS", "").isdecimal()
    width = terminal_width() if must_fit else sys.maxsize
    texts = [[printable(cell) for cell in row] for row in rows]
    indices = _shown(columns, texts, width) if must_fit else range(len(columns))

    shown_columns = [columns[n] for n in indices]
    headers = [column.header for column in shown_columns]
    lines = [headers, *([row[n] for n in indices] for row in texts)]
    widths = _fitted(shown_columns, lines, width)
    folded_lines: Iterable[Sequence[str]] = _fold(lines, widths) if must_fit else lines
    for number, cells in enumerate(_aligned(shown_columns, folded_lines, widths)):
        if has_styles(out):
            is_header = number == 0
            cells = [
                _styled(cell, "bold" if is_header else column.cell_style(cell))
                for column, cell in zip(shown_columns, cells)
            ]
        _write(out, "".join(cells).rstrip() + "\n")

    hidden = [column.header for n, column in enumerate(columns) if n not in indices]
    if hidden:
        import textwrap

        note = f"hidden to fit the terminal: {', '.join(hidden)}"
        print_text(textwrap.fill(note, terminal_width()), "dim", file=out)


asked_json: set[str] = set()
"""Has the command's name as long as the command is to print JSON and has not done so."""


def print_json(schema: str, data: Mapping[str, Any]) -> None:
    """Print ``data`` as a JSON object whose first key, ``schema``, names its shape and version."""
    import json

    asked_json.clear()  # an error that follows must not print a second document

    # Only ASCII: an invalid path or name must not break the whole answer.
    parts = json.JSONEncoder(indent=2).iterencode({"schema": schema, **data})
    # Written as a whole, a long answer would take three times the memory.
    while text := "".join(itertools.islice(parts, 10_000)):
        sys.stdout.write(text)
    sys.stdout.write("\n")


def folded(text: str, first: str = "", later: str = "") -> str:
    """Fold a paragraph at blanks. first, later: the beginnings of its first and other lines."""
    import re
    import textwrap

    width = min(terminal_width(), 100) if sys.stderr.isatty() or is_terminal() else 80
    fold = textwrap.TextWrapper(width, first, later, break_on_hyphens=False, break_long_words=False)
    # textwrap counts characters; double one that takes two cells, such as a Hangul syllable.
    doubled = re.sub("[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uff01-\uff60]", "\\g<0>\0", text)
    return fold.fill(doubled).replace("\0", "")


def print_text(text: str, style: str = "", *, file: Optional[TextIO] = None) -> None:
    """Print text and a newline; ``style`` is as a column's and only shows on a terminal."""
    out = file or sys.stdout
    lines = [printable(line) for line in spelled(text).split("\n")]
    if has_styles(out):
        lines = [_styled(line, style) for line in lines]
    _write(out, "\n".join(lines) + "\n")


def print_markdown(text: str) -> None:
    """Print Markdown as it is; on a terminal, formatted and folded."""
    if not is_terminal():
        print_text(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    shown = Markdown("\n".join(map(printable, text.split("\n"))), hyperlinks=False)
    # rich 13 treats an empty NO_COLOR as one that is set.
    no_color = bool(os.environ.get("NO_COLOR"))
    # Without a height, rich reads LINES and COLUMNS, and takes ² for a number.
    Console(width=min(terminal_width(), 100), height=25, no_color=no_color).print(shown)


def clear() -> None:
    """Clear the screen of a terminal."""
    if is_terminal():
        sys.stdout.write("\x1b[H\x1b[2J")


def print_line(line: str = "", style: str = "") -> None:
    """Print one line on standard output; escape line breaks in it."""
    print_text(printable(line), style)


def print_rows(rows: Sequence[tuple[str, str]], first_style: str = "") -> None:
    """Print rows of a name and a text."""
    width = max(len(name) for name, _ in rows)
    for number, (name, text) in enumerate(rows):
        print_line(f"  {name:<{width}}  {text}", "" if number else first_style)


def print_diff(lines: Sequence[str], file: Optional[TextIO] = None) -> None:
    """Print a unified diff; in color on a terminal."""
    styles = (("---", "bold"), ("+++", "bold"), ("@@", "cyan"), ("-", "red"), ("+", "green"))
    for line in lines:
        style = next((style for start, style in styles if line.startswith(start)), "")
        print_text(line, style, file=file)


def cell_width(text: str) -> int:
    """Return the cells that the text takes on a terminal: two for a Hangul syllable."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    # The second and third Jamo of a syllable are drawn into the cells of the first.
    drawn = (
        c for c in text if category(c) not in ("Mn", "Me", "Cf") and not "\u1160" <= c <= "\u11ff"
    )
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in drawn)


def shortened(text: str, width: int) -> str:
    """Return the printable text, cut with an ellipsis at ``width`` cells."""
    text = printable(text)
    if cell_width(text) <= width:
        return text
    while cell_width(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _harmless(char: str) -> bool:
    import unicodedata

    return char.isprintable() or unicodedata.category(char) == "Zs"


def _write(out: TextIO, text: str) -> None:
    encoding = out.encoding or "utf-8"
    # Escape what the terminal's encoding cannot show.
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _least_width(column: Column, texts: Sequence[str]) -> int:
    """Return a column's least width: its longest text, or its longest word if it may be folded."""
    parts = texts if column.no_wrap else [word for text in texts for word in text.split()]
    return max(column.min_width or 0, *map(cell_width, parts))


def _shown(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the indices of the columns that fit."""
    least = [
        _least_width(column, [column.header, *cells]) for column, *cells in zip(columns, *rows)
    ]
    shown = list(range(len(columns)))
    while sum(least[n] + GAP for n in shown) - GAP > width:
        last = max(shown, key=lambda n: (columns[n].priority, n))
        if columns[last].priority == 0:
            break
        shown.remove(last)
    return shown


def _fitted(columns: Sequence[Column], lines: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns' widths, narrowing the widest foldable ones."""
    texts = list(zip(*lines))
    widths = [max(map(cell_width, cells)) for cells in texts]
    if width == sys.maxsize:
        return widths
    least = [_least_width(column, cells) for column, cells in zip(columns, texts)]
    while sum(widths) + GAP * (len(widths) - 1) > width:
        wide = [n for n in range(len(widths)) if widths[n] > least[n]]
        if not wide:
            break
        widths[max(wide, key=lambda n: widths[n])] -= 1
    return widths


def _fold(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[Sequence[str]]:
    """Yield the lines of each row, folding cells at blanks if they are too wide."""
    import textwrap

    for row in rows:
        parts = [
            [cell] if cell_width(cell) <= width else textwrap.wrap(cell, width)
            for cell, width in zip(row, widths)
        ]
        yield from itertools.zip_longest(*parts, fillvalue="")


def _aligned(
    columns: Sequence[Column], lines: Iterable[Sequence[str]], widths: Sequence[int]
) -> Iterator[list[str]]:
    """Yield the cells of each line, padded to one width per column with the gap."""
    gaps = [" " * GAP] * (len(columns) - 1) + [""]
    for line in lines:
        padded = []
        for column, cell, width, gap in zip(columns, line, widths, gaps):
            blanks = " " * (width - cell_width(cell))
            padded.append((blanks + cell if column.justify == "right" else cell + blanks) + gap)
        yield padded
