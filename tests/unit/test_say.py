"""What is said on standard error: folded for a terminal, whole for anything else."""

from __future__ import annotations

import io
import os
import sys
from typing import List

import pytest

from neuronctl.cli.say import print_script, say
from neuronctl.common.console import cell_width

LONG = "  hint: give a path that holds on the nodes, from the directory /scratch/a-b you submit in"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


def shown(monkeypatch: pytest.MonkeyPatch, text: str, columns: int) -> List[str]:
    """What a terminal of this width gets."""
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        patch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((columns, 24)))
        say(text)
    return terminal.getvalue().splitlines()


def test_a_terminal_gets_long_lines_folded_at_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, LONG, 40)
    assert len(lines) > 2
    assert all(len(line) <= 40 for line in lines)
    assert all(line.startswith("    ") for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == LONG.strip()


def test_hangul_takes_two_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "  hint: " + "노드당 GPU 수를 줄이거나 노드 수를 늘리세요 " * 4
    lines = shown(monkeypatch, text, 40)
    assert all(30 <= cell_width(line) <= 40 for line in lines[:-1])
    assert " ".join(line.strip() for line in lines) == text.strip()


def test_a_word_that_is_too_long_is_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    word = "/scratch/" + "x" * 60
    assert f"  {word}" in shown(monkeypatch, f"neuronctl: {word} is no directory", 40)


def test_anything_else_gets_lines_whole(capsys: pytest.CaptureFixture[str]) -> None:
    say(LONG + "\nand a second line")
    assert capsys.readouterr().err == LONG + "\nand a second line\n"


def test_nothing_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("no such file: '\x1b[31m\r\x07'\nsecond\tline \uc2e4\ud5d8")
    text = capsys.readouterr().err
    assert text == "no such file: '\\x1b[31m\\r\\x07'\nsecond  line \uc2e4\ud5d8\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_script_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8")
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    script = "echo a\n\techo \x1b[2K\x9b2K \u202eb \uc2e4\n"
    print_script(script)
    shown = raw.getvalue().decode()
    if terminal:
        assert shown == "echo a\n        echo \\x1b[2K\\x9b2K \\u202eb \uc2e4\n"
    else:
        assert shown == script
