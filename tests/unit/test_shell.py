"""Quoting, judged by a real bash: every word arrives byte for byte."""

from __future__ import annotations

import subprocess
from typing import List, Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronctl.common.shell import Shell, join, quote, references

# Everything an argument can hold: no NUL, no lone surrogate.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NASTY = st.sampled_from(
    [
        *["", " ", "-", "--", "-rf", "$HOME", "${HOME}", "$(id)", "`id`", "'", '"', "\\", "\\\\"],
        *["'\"'\"'", "\n", "a\nb\n", "\r\n", "\t", ";", "&", "|", "*", "?", "[a-z]", "~", "!", "#"],
        *["--name=", "--name=two words", "--na'me=x", "=x", "a=b c", "실험", "😀", "\u2028"],
        *["{1..3}", "%s", "\x1b[0m", "<(id)", "x" * 5000],
    ]
)
WORDS = st.lists(TEXT | NASTY, max_size=12)


def through_bash(text: str) -> List[str]:
    script = f"printf '%s\\0' {text}"
    out = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, check=True).stdout
    return out.decode("utf-8").split("\0")[:-1]


@settings(deadline=None, database=None, max_examples=30)
@given(WORDS)
def test_words_arrive_byte_for_byte(words: List[str]) -> None:
    # The first word is there so that printf has one to print even for an empty list.
    assert through_bash(join(["first", *words])) == ["first", *words]


def test_shell_text_is_evaluated() -> None:
    assert through_bash(join(["x", Shell('"$((1 + 1))"')])) == ["x", "2"]


@pytest.mark.parametrize(
    ("text", "names"),
    [("$A:${B2}/$A", ("A", "B2")), ("$x_y", ("x_y",)), *((text, ()) for text in
     ("$", "$1", "$(id)", "${A:-x}", "${", "a$", "$?", "$-", "$\u00e9"))],
)  # fmt: skip
def test_references(text: str, names: Tuple[str, ...]) -> None:
    assert references(text) == names


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")


def test_what_only_the_job_knows_is_not_multiplied() -> None:
    nodes = Shell('"$SLURM_JOB_NUM_NODES"')
    for multiply in (lambda: nodes * 2, lambda: 2 * nodes):
        with pytest.raises(TypeError, match="let bash multiply"):
            multiply()
