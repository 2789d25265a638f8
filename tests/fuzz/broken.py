"""Valid documents with a few things wrong in them, which reach further than random bytes."""

from __future__ import annotations

import copy
import re
from random import Random
from typing import Any, Iterator, List, Sequence, Tuple

from hypothesis import strategies as st

WORDS: Tuple[str, ...] = (
    # Numbers, and what some of Python's functions take for one.
    *("", "0", "-1", "1", "²", "٣", "1²", "9" * 5000, "1" * 20, "2147483648", "4294967296"),
    *("NaN", "nan", "inf", "-inf", "1e400", "1.5", "0x10", "1_000", "+1", "1:0", "0:" + "9" * 5000),
    # Slurm's words.
    *("UNLIMITED", "(null)", "N/A", "Unknown", "None", "N", "INVALID", "Partition_Limit"),
    *("99999-00:00:00", "0000-00-00T00:00:00", "9999-99-99T99:99:99", "2026-02-30T25:61:61"),
    *("4711_[0-99999999999]", "4711_[9-1:0]", "4711_[0-" + "9" * 5000 + "]", "4711+" + "9" * 5000),
    *("0-99999999999", "1-9999999999:1", "0-4000000:1%0", "[0-999999999]", "1-", "-", ",", ",,,"),
    *("gpu[1-3", "n[1-99999999]", "n[3-1]", "n[1-2][1-2]", "n[01-" + "9" * 100 + "]", "gpu:a100:²"),
    *("gpu:" + "9" * 5000, "cpu=²,mem=9999999P,gres/gpu=" + "9" * 5000, "mem=1" + "0" * 400 + "P"),
    *("CANCELLED by ²", "CANCELLED by " + "9" * 5000, "%" + "9" * 9 + "j", "%A%a%N%x%u%%%", "\\%j"),
    # YAML, JSON.
    *("~", "true", "{}", "[]", "[1, 2]", "{a: 1}", "{a: {b: {c: []}}}", "&a x", "*a", "!!binary x"),
    *("[" * 5000, "{" * 5000, '{"a":' * 2000, "- " * 500, "? x", "---", "...", "%YAML 9.9", ">"),
    *("'", '"', ":", "#", "\t", "  ", "\n", "\r", "\r\n", "\n\n", ": ", "- ", "= ", "|", "/"),
    # Control characters, separators, directions, surrogates, and what looks like something else.
    *("\0", "\x07", "\x1b[2J", "\x1b]0;x\x07", "\x1b", "\x1e", "\x1e\n", "\x1f", "\x1f" * 30),
    *("\x85", "\x9b2J", "\u2028", "\u2029", "\u202e", "\u2066", "\ufeff", "\ufffe", "\U0010ffff"),
    *("\ud800", "\udcff", "K", "İ", "ß", "\u0301" * 50, "한글", "　"),
    # Long ones.
    *("x" * 100_000, "a " * 20_000, "\n" * 20_000, "\r" * 20_000, "(" * 20_000, "\x1b[" * 20_000),
    *("api_key-" * 8000, "token=" * 8000, "://" * 10_000, "a@" * 10_000, "1," * 20_000),
    *("curl -u " * 4000, "Bearer " * 4000, "=" * 20_000, "-----BEGIN PRIVATE KEY-----" * 500),
    # Places, and what a shell would run.
    *("..", "../../x", "/", "/dev/zero", "/proc/self/mem", "~", "$(id)", "`id`", "$X", "-x", "--"),
    *("{{ 1 }}", "{% for %}", "{0}", "%s", "%n"),
)  # fmt: skip

VALUES: Tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**20, 10**400, 1.5, -0.0),
    *(float("nan"), float("inf"), 1e308, [], {}, [[]], [None], {"": None}, {"a": {"b": []}}),
    *([0] * 1000, ["x"] * 1000, [["a", "b"]], [[1, 2]], {"x": "y"}, {str(n): n for n in range(99)}),
)

words = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))
values = st.one_of(st.sampled_from(VALUES), words)

_TOKEN = re.compile(r"[\w.]+|\s|[^\w\s]")
_DEEDS = ("replace", "replace", "insert", "delete", "repeat", "swap", "cut")

# One number that everything follows from is drawn ten times as fast as each choice by itself.
_seeds = st.integers(0, 2**64 - 1)


def texts(samples: Sequence[str], most: int = 4) -> st.SearchStrategy[str]:
    """One of the samples, in which up to ``most`` words or lines are others."""
    return st.builds(_text, st.sampled_from(samples), st.integers(1, most), _seeds)


def _text(text: str, changes: int, seed: int) -> str:
    draw = Random(seed)
    for _ in range(changes):
        deed = draw.choice(_DEEDS)
        # Some changes are to lines, most are to words.
        if deed in ("repeat", "swap") or (deed == "delete" and draw.random() < 0.3):
            parts = text.splitlines(keepends=True)
        else:
            parts = _TOKEN.findall(text)
        if not parts:
            text += draw.choice(WORDS)
            continue
        spot, other = draw.randrange(len(parts)), draw.randrange(len(parts))
        if deed == "replace":
            parts[spot] = draw.choice(WORDS)
        elif deed == "insert":
            parts.insert(spot, draw.choice(WORDS))
        elif deed == "repeat":
            parts.insert(other, parts[spot])
        elif deed == "swap":
            parts[spot], parts[other] = parts[other], parts[spot]
        elif deed == "cut" and draw.random() < 0.3:
            parts = parts[:spot]
        else:
            del parts[spot]
        text = "".join(parts)
    return text


def data(samples: Sequence[Any], most: int = 3) -> st.SearchStrategy[Any]:
    """One of the samples, plain JSON data, in which up to ``most`` values or keys are others."""
    return st.builds(_data, st.sampled_from(samples), st.integers(1, most), _seeds)


def _data(sample: Any, changes: int, seed: int) -> Any:
    draw = Random(seed)
    whole = {"": copy.deepcopy(sample)}
    for _ in range(changes):
        holder, key = draw.choice(list(_places(whole)))
        deed = draw.choice(("replace", "replace", "delete", "add"))
        value = copy.deepcopy(draw.choice(draw.choice((VALUES, WORDS))))
        if deed == "replace" or key == "":
            holder[key] = value
        elif deed == "delete":
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw.choice(WORDS)] = value
        else:
            holder.insert(key, value)
    return whole[""]


def _places(data: Any) -> Iterator[Tuple[Any, Any]]:
    keys: List[Any] = []
    if isinstance(data, dict):
        keys = list(data)
    elif isinstance(data, list):
        keys = list(range(min(len(data), 20)))
    for key in keys:
        yield data, key
        yield from _places(data[key])


def content(text: str) -> bytes:
    """The text as a file may have it; lone surrogates become bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogatepass")
