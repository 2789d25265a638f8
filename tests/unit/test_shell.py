"""Quoting, judged by a real bash: every word arrives byte for byte."""

from __future__ import annotations

import re
import subprocess
from string import Template
from typing import List, Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronctl.common.shell import Shell, expanded, is_reference, join, quote, references
from neuronctl.launch.launchers import not_a_macro

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


@settings(deadline=None, database=None, max_examples=150)
@given(WORDS)
def test_words_arrive_byte_for_byte(words: List[str]) -> None:
    # The first word is there so that printf has one to print even for an empty list.
    assert through_bash(join(["first", *words])) == ["first", *words]


def test_plain_words_stay_plain() -> None:
    assert join(["python", "train.py", "--lr=0.1", "-p"]) == "python train.py --lr=0.1 -p"


def test_an_option_is_quoted_where_its_value_is() -> None:
    assert quote("--name=two words") == "--name='two words'"


def test_shell_text_is_evaluated() -> None:
    assert through_bash(join(["x", Shell('"$((1 + 1))"')])) == ["x", "2"]


NAMES = st.sampled_from(["A", "B2", "_c", "unset"])
VALUE = TEXT | NASTY | st.sampled_from(["$A", "$$", "${local_rank}", "$local_rank", "&", "\\$"])
# Pieces of a word, each with what it comes to: text as it is, or the name of a variable.
PIECES = st.lists(
    st.one_of(
        st.tuples(st.just("text"), TEXT.map(lambda text: text.replace("$", "")) | st.sampled_from(
            ["`id`", "(id)", "'", '"', "\\", "\r\n", "[0]", "x", "9", ":", "\n", "{A}", "!"]
        )),
        st.tuples(st.just("plain"), NAMES),
        st.tuples(st.just("braced"), NAMES),
        st.tuples(st.just("dollar"), st.just("$")),
    ),
    max_size=8,
)  # fmt: skip


@settings(deadline=None, database=None, max_examples=300)
@given(PIECES, VALUE, VALUE, VALUE)
def test_variables_are_replaced_and_nothing_else(
    pieces: List[Tuple[str, str]], a: str, b: str, c: str
) -> None:
    """As the words of a command, as the value of an export, and through a launcher's macros."""
    pieces = [piece for piece in pieces if piece[1]]
    values = {"A": a, "B2": b, "_c": c}
    typed, wanted, names = "", "", []
    for position, (kind, text) in enumerate(pieces):
        after = pieces[position + 1 :]
        if kind == "plain" and after and after[0][0] == "text" and re.match(r"(?a)\w", after[0][1]):
            kind = "braced"
        if kind in ("plain", "braced"):
            names.append(text)
        typed += {"plain": f"${text}", "braced": f"${{{text}}}", "dollar": "$$"}.get(kind, text)
        wanted += values.get(text, "") if kind in ("plain", "braced") else text
    assert references(typed) == tuple(dict.fromkeys(names))
    assert is_reference(typed) == ([kind for kind, _ in pieces] in (["plain"], ["braced"]))
    word = expanded(typed)
    macros = expanded(typed, dollar="$$") if names else not_a_macro(str(word))
    script = (
        f"unset unset\nexport X={quote(word)}\nprintf '%s\\0' \"$X\" {quote(word)} {quote(macros)}"
    )
    env = {"PATH": "/usr/bin:/bin", **values}
    out = subprocess.run(["bash", "-c", script], env=env, stdout=subprocess.PIPE, check=True).stdout
    export, argument, macro = out.decode("utf-8").split("\0")[:-1]
    assert (export, argument) == (wanted, wanted)
    assert Template(macro).safe_substitute(local_rank="0") == wanted


@pytest.mark.parametrize("text", ["$", "$1", "$(id)", "${A:-x}", "${", "a$", "$?", "$-", "$\u00e9"])
def test_other_dollars_stand_for_themselves(text: str) -> None:
    assert references(text) == () and expanded(text) == text


def test_expanded_text_is_what_a_person_would_write() -> None:
    assert expanded("/opt/x/bin:$PATH") == '"/opt/x/bin:$PATH"'
    assert expanded("${A}b$C/d") == '"${A}b$C/d"'


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")
