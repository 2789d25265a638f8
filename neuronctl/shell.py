"""Words of a shell command: literal text to be quoted, or shell text to be evaluated."""

from __future__ import annotations

import shlex
from typing import Sequence, Union


class Shell(str):
    """Text the shell shall evaluate, such as ``"$MASTER_ADDR"``; everything else is a literal."""

    __slots__ = ()


Word = Union[str, Shell]


def quote(word: Word) -> str:
    """``word`` as it stands in a script: a literal quoted, shell text as it is.

    Newlines, quotes, Unicode and the empty string arrive byte for byte. A NUL byte cannot be an
    argument of any program; callers refuse it (ValueError here, as the last line of defence).
    """
    if isinstance(word, Shell):
        return str(word)
    if "\0" in word:
        raise ValueError("an argument of a program cannot hold a NUL byte")
    # --option=value reads better as --option='the value' than as '--option=the value'.
    name, equals, value = word.partition("=")
    if equals and name.startswith("--") and shlex.quote(name) == name and value:
        return f"{name}={shlex.quote(value)}"
    return shlex.quote(word)


def join(words: Sequence[Word]) -> str:
    """A command line of quoted words."""
    return " ".join(quote(word) for word in words)
