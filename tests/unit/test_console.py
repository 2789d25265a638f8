"""Tables, text and JSON: on a terminal, elsewhere, narrow, wide characters, hostile text."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from typing import List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronctl.common import console
from neuronctl.common.console import Column


class Terminal(io.StringIO):
    """Standard output that is a terminal which knows UTF-8."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


COLUMNS = [
    Column("NAME", style="bold", no_wrap=True),
    Column("N", "right", no_wrap=True),
    Column("REMARK", priority=1),
    Column("EXTRA", priority=2, no_wrap=True),
]
ROWS = [["first", "7", "a remark of several words", "x"], ["학습작업", "12", "", "yy"]]


def plain(columns: List[Column], rows: List[List[str]]) -> List[str]:
    out = io.StringIO()
    console.print_table(columns, rows, file=out)
    return out.getvalue().splitlines()


def on_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int, rows: List[List[str]] = ROWS
) -> List[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    console.print_table(COLUMNS, rows, file=out)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())  # bold and dim
    assert "\x1b" not in text
    return [line.rstrip() for line in text.splitlines()]


def test_elsewhere_a_table_is_plain_aligned_text(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "word " * 100 + "end"
    assert long in plain(COLUMNS, [["a", "1", long, "x"]])[1]
    lines = [
        "NAME       N  REMARK                     EXTRA",
        "first      7  a remark of several words  x",
        "학습작업  12                             yy",
    ]
    assert plain(COLUMNS, ROWS) == on_terminal(monkeypatch, 80) == lines


def test_a_narrower_one_folds_at_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = on_terminal(monkeypatch, 40)
    assert lines[0].split() == ["NAME", "N", "REMARK", "EXTRA"]
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "first 7 a remark of several x", "words", "학습작업 12 yy",
    ]  # fmt: skip
    assert all(console.cell_width(line) <= 40 for line in lines)


def test_the_least_important_columns_go_first_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = on_terminal(monkeypatch, 24)
    assert lines[0].split() == ["NAME", "N", "REMARK"]
    assert lines[-2:] == ["hidden to fit the", "terminal: EXTRA"]
    lines = on_terminal(monkeypatch, 15)
    assert lines[0].split() == ["NAME", "N"]
    assert "".join(lines[3:]).endswith("REMARK, EXTRA")


def test_markup_and_control_characters_are_only_text(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["[red]x[/red] :smile:", "\x1b[31m", "a\nb\tc\r\x07", "\u202egnp.exe\udc80"]]
    lines = plain(COLUMNS, rows)
    assert "[red]x[/red] :smile:  \\x1b[31m  a\\nb\\tc\\r\\x07" in lines[1]
    assert lines[1].endswith("\\u202egnp.exe\\udc80")
    shown = on_terminal(monkeypatch, 120, rows)
    assert shown == lines


def test_styles_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out, pipe = Terminal(), io.StringIO()
    for file in (out, pipe):
        console.print_text("[b]done[/b]", "red", file=file)
    assert pipe.getvalue() == "[b]done[/b]\n"
    assert out.getvalue() == "\x1b[31m[b]done[/b]\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    grey = Terminal()
    console.print_text("done", "red", file=grey)
    assert "31m" not in grey.getvalue()


def test_text_keeps_its_lines_but_not_its_escapes() -> None:
    out = io.StringIO()
    console.print_text("one\n\ttwo \x1b]0;x\x07", file=out)
    assert out.getvalue() == "one\n\\ttwo \\x1b]0;x\\x07\n"


def test_json_names_its_schema_first_and_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json("neuronctl.test/1", {"name": "학습", "bad": "\udc80", "n": None})
    out = capsys.readouterr().out
    assert out.isascii()
    assert [*json.loads(out).items()] == [
        *[("schema", "neuronctl.test/1"), ("name", "학습"), ("bad", "\udc80"), ("n", None)]
    ]


def test_an_output_that_knows_no_unicode_gets_escapes() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, "ascii", write_through=True)
    console.print_table([Column("A")], [["학습"]], file=file)
    assert raw.getvalue() == b"A\n\\ud559\\uc2b5\n"


def test_a_table_with_styles_does_not_import_rich() -> None:
    code = (
        "import sys; from neuronctl.common import console;"
        "console.print_table([console.Column('A', style='bold red')], [['학']]);"
        "sys.exit('rich' in sys.modules)"
    )
    env = {**os.environ, "FORCE_COLOR": "1", "NO_COLOR": "", "PYTHONUTF8": "1"}
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", env=env)
    assert (done.returncode, done.stdout) == (0, "\x1b[1mA\x1b[0m\n\x1b[1;31m학\x1b[0m\n")


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), min_size=1, max_size=5))
def test_columns_stay_aligned_whatever_is_in_them(rows: List[object]) -> None:
    cells = [[str(a), str(b), "|"] for a, b in rows]  # type: ignore[misc]
    lines = plain([Column("A"), Column("B", "right"), Column("|")], cells)
    assert len(lines) == len(cells) + 1
    assert len({console.cell_width(line) for line in lines}) == 1
