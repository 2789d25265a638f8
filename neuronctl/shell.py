"""Words of a shell command: literal text to be quoted, or shell text to be evaluated."""

from __future__ import annotations

import shlex
from typing import List, Sequence, Tuple, Union


class Shell(str):
    """Text the shell shall evaluate, such as ``"$MASTER_ADDR"``; everything else is a literal."""

    __slots__ = ()


Word = Union[str, Shell]

BASHS_OWN = frozenset(
    ("UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "BASHPID", "FUNCNAME")
    + ("GROUPS", "DIRSTACK", "RANDOM", "SRANDOM", "LINENO", "EPOCHSECONDS", "EPOCHREALTIME")
    + ("BASH_COMMAND", "BASH_ARGC", "BASH_ARGV", "BASH_LINENO", "BASH_SOURCE", "BASH_ALIASES")
    + ("BASH_CMDS", "HISTCMD", "_")
)
"""Variables that no script can set: with bash 5.2 an export of the first six fails, and the others
have a value of bash's own whenever they are read, or none."""


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
        return f"{name}={_literal(value)}"
    return _literal(word)


def _literal(word: str) -> str:
    # sbatch refuses a script with CR LF anywhere in it.
    return shlex.quote(word).replace("\r", "'$'\\r''")


def join(words: Sequence[Word]) -> str:
    """A command line of quoted words."""
    return " ".join(quote(word) for word in words)


def positional(words: Sequence[Word]) -> Tuple[str, Tuple[Word, ...]]:
    """Shell text that stands for ``words``, and the arguments that the shell is to be given.

    srun, salloc and mpirun begin another command at an argument ``:``, wherever it stands; such a
    word goes into the text and not among the arguments.
    """
    if ":" not in words:
        return '"$@"', tuple(words)
    parts: List[str] = []
    given: List[Word] = []
    start = 1
    for word in [*words, ":"]:
        if word != ":":
            given.append(word)
            continue
        if len(given) >= start:
            parts.append(f'"${{@:{start}:{len(given) - start + 1}}}"')
            start = len(given) + 1
        parts.append(":")
    return " ".join(parts[:-1]), tuple(given)
