"""Everything that is printed as rows, as text or as JSON; the only module that imports rich.

On a terminal rows become a rich table that fits its width. Anywhere else (a pipe, a file) they
become plain aligned lines, never cut and never folded, and rich is not even imported.

Text that came from a file, a job name or Slurm cannot steer the terminal: markup is off, and
control characters are shown as ``\\x1b`` instead of being sent. NO_COLOR is respected.
"""

from __future__ import annotations

import sys
from typing import Any, Iterator, List, Mapping, Optional, Sequence, TextIO

from neuronctl.frozen import dataclass

GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    style is rich's (``"bold"``, ``"green"``); min_width is in character cells. A column that is
    not ``no_wrap`` may be folded on a narrow terminal, at blanks, down to its longest word.
    priority 0 is always shown; where even folding does not make a table fit, the columns with
    the highest number are left out first, and a line under the table says which.
    """

    header: str
    justify: str = "left"
    style: str = ""
    min_width: Optional[int] = None
    no_wrap: bool = False
    priority: int = 0


def is_terminal(file: Optional[TextIO] = None) -> bool:
    """Whether ``file`` (standard output) is a terminal."""
    return (file or sys.stdout).isatty()


def draws_blocks(file: Optional[TextIO] = None) -> bool:
    """Whether ``file`` (standard output) is a terminal that the user's locale says knows Unicode.

    Python turns LANG=C into UTF-8 for itself (PEP 538 sets LC_CTYPE to C.UTF-8), which says
    nothing of the terminal: tmux, for one, shows an underscore for each such character then.
    """
    import os

    out = file or sys.stdout
    said = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or ""
    if said in ("", "C.UTF-8", "C.utf8", "UTF-8") and not os.environ.get("LC_ALL"):
        said = os.environ.get("LANG", "")

    def utf8(name: str) -> bool:
        return name.lower().replace("-", "").endswith("utf8")

    return is_terminal(out) and utf8(out.encoding or "") and utf8(said.partition("@")[0])


def terminal_width() -> int:
    """Columns of the terminal: $COLUMNS, or its own answer, or 80."""
    import shutil

    return shutil.get_terminal_size().columns


def printable(text: str) -> str:
    """The text with every character that could steer a terminal written out as an escape."""
    if text.isprintable():
        return text
    return "".join(char if _harmless(char) else ascii(char)[1:-1] for char in text)


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    file: Optional[TextIO] = None,
) -> None:
    """Print rows under their headers; each row has as many cells as there are columns."""
    out = file or sys.stdout
    cells = [[printable(cell) for cell in row] for row in rows]
    if title:
        print_text(title, "bold", file=out)
    if not is_terminal(out):
        _write(out, "".join(line + "\n" for line in _plain_lines(columns, cells)))
        return
    width = terminal_width()
    shown = _columns_that_fit(columns, cells, width)
    _rich_table(columns, cells, shown, width, out)
    left_out = [column.header for n, column in enumerate(columns) if n not in shown]
    if left_out:
        import textwrap

        note = f"left out for lack of width: {', '.join(left_out)}"
        print_text(textwrap.fill(note, width), "dim", file=out)


def print_json(schema: str, data: Mapping[str, Any], *, file: Optional[TextIO] = None) -> None:
    """Print ``data`` as a JSON object whose first key, ``schema``, names its shape and version."""
    import json

    # ASCII only: a path or name that is not valid text must not break the whole answer.
    _write(file or sys.stdout, json.dumps({"schema": schema, **data}, indent=2) + "\n")


def print_text(text: str, style: str = "", *, file: Optional[TextIO] = None) -> None:
    """Print text and a newline; ``style`` is rich's, and only shows on a terminal."""
    out = file or sys.stdout
    safe = "\n".join(printable(line) for line in text.split("\n"))
    if not style or not is_terminal(out):
        _write(out, safe + "\n")
        return
    from rich.text import Text

    _rich_console(out, terminal_width()).print(Text(safe, style), soft_wrap=True)


def cell_width(text: str) -> int:
    """Character cells a terminal gives the text: two for a Hangul syllable, none for an accent."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def shortened(text: str, width: int) -> str:
    """The text, printable, or as much of it as fits into so many cells of a terminal."""
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
    # A terminal that knows no Unicode gets escapes rather than an error.
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _plain_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> List[str]:
    table = [[column.header for column in columns], *rows]
    widths = [max(cell_width(row[n]) for row in table) for n in range(len(columns))]
    lines = []
    for row in table:
        padded = []
        for column, cell, width in zip(columns, row, widths):
            blanks = " " * (width - cell_width(cell))
            padded.append(blanks + cell if column.justify == "right" else cell + blanks)
        lines.append((" " * GAP).join(padded).rstrip())
    return lines


def _columns_that_fit(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> List[int]:
    """Numbers of the columns to show, leaving out the least important until the rest fits."""

    def least(number: int) -> int:
        column = columns[number]
        texts = [column.header, *(row[number] for row in rows)]
        parts = texts if column.no_wrap else [word for text in texts for word in text.split()]
        return max([column.min_width or 0, *(cell_width(part) for part in parts)])

    shown = list(range(len(columns)))
    while sum(least(number) + GAP for number in shown) - GAP > width:
        # The last of several that matter equally little.
        victim = max(shown, key=lambda number: (columns[number].priority, number))
        if columns[victim].priority == 0:
            break
        shown.remove(victim)
    return shown


def _rich_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    shown: Sequence[int],
    width: int,
    out: TextIO,
) -> None:
    from rich.cells import cell_len
    from rich.measure import Measurement
    from rich.padding import Padding
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

    class Cell:
        """A text with the gap behind it, which is drawn as it stands where it fits.

        rich looks at each word of a Text, which takes longer than all the rest.
        """

        def __init__(self, text: str, column: Column, gap: int) -> None:
            self.text, self.column, self.gap = text.rstrip(), column, gap
            self.width = cell_len(self.text)

        def __rich_measure__(self, console: Any, options: Any) -> Measurement:
            words = [self.text] if self.column.no_wrap else self.text.split()
            least = max(map(cell_len, words), default=0)
            return Measurement(least + self.gap, self.width + self.gap)

        def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
            blanks = " " * (options.max_width - self.gap - self.width)
            if self.width + self.gap > options.max_width:
                yield Padding(Text(self.text), (0, self.gap, 0, 0))
            elif self.column.justify == "right":
                yield Segment(blanks + self.text)
            else:
                yield Segment(self.text)

    table = Table(box=None, padding=0, header_style="bold")
    gaps = [GAP] * (len(shown) - 1) + [0]
    for number, gap in zip(shown, gaps):
        column = columns[number]
        table.add_column(
            Cell(column.header, column, gap),
            justify="right" if column.justify == "right" else "left",
            style=column.style,
            min_width=None if column.min_width is None else column.min_width + gap,
            no_wrap=column.no_wrap,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Cell(row[n], columns[n], gap) for n, gap in zip(shown, gaps)))
    _rich_console(out, width).print(table)


def _rich_console(out: TextIO, width: int) -> Any:
    from rich.console import Console

    return Console(file=out, width=width, markup=False, highlight=False, emoji=False)
