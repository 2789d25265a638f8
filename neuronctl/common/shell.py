"""Words of a shell command: literal text to quote, or shell text to evaluate."""

from __future__ import annotations

import re
import shlex
from typing import NoReturn, Sequence, Tuple, Union


class Shell(str):
    """Text for the shell to evaluate, such as ``"$MASTER_ADDR"``; a plain str is a literal."""

    __slots__ = ()

    def __mul__(self, other: object) -> NoReturn:
        """Refuse to repeat the text; raise TypeError."""
        raise TypeError(f"{self} is known when the job runs: let bash multiply, in $((...))")

    __rmul__ = __mul__


CommandWord = Union[str, Shell]

BASHS_OWN = frozenset(
    ("UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "BASHPID", "FUNCNAME")
    + ("GROUPS", "DIRSTACK", "RANDOM", "SRANDOM", "LINENO", "EPOCHSECONDS", "EPOCHREALTIME")
    + ("BASH_COMMAND", "BASH_ARGC", "BASH_ARGV", "BASH_LINENO", "BASH_SOURCE", "BASH_ALIASES")
    + ("BASH_CMDS", "HISTCMD", "_")
)
"""Variables that no script can set: in bash 5.2, exporting any of the first six fails, and the
others always read as bash's own value, or as empty."""


def quote(word: CommandWord) -> str:
    """Return ``word`` as a script spells it: a literal is quoted, shell text is unchanged.

    Newlines, quotes, Unicode, and the empty string are preserved byte for byte. No argument can
    contain a NUL byte; callers reject it first, and ValueError here is the last line of defense.
    """
    if isinstance(word, Shell):
        return str(word)
    if "\0" in word:
        raise ValueError("a program argument cannot contain a NUL byte")
    # --option='the value' is easier to read than '--option=the value'.
    name, equals, value = word.partition("=")
    if equals and name.startswith("--") and shlex.quote(name) == name and value:
        return f"{name}={_literal(value)}"
    return _literal(word)


def _literal(word: str) -> str:
    if "'" in word and re.fullmatch(r"[^\x00-\x1f\x7f\"$`\\!]*", word):
        return f'"{word}"'  # "it's" is easier to read than 'it'"'"'s'
    # sbatch rejects a script that contains CR LF.
    return shlex.quote(word).replace("\r", "'$'\\r''")


_REFERENCE = r"(?a)\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})"


def references(text: str) -> Tuple[str, ...]:
    """Return the names of the variables that ``text`` refers to: ``$NAME`` and ``${NAME}``."""
    if "$" not in text:
        return ()
    names = (match[1] or match[2] for match in re.finditer(_REFERENCE, text))
    return tuple(dict.fromkeys(name for name in names if name))


def join(words: Sequence[CommandWord]) -> str:
    """Join quoted words into a command line."""
    return " ".join(quote(word) for word in words)


def sets_errexit(text: str) -> bool:
    """Return True if shell text begins with ``set -e`` or ``set +e``."""
    return re.match(r"(\s*(#.*)?\n)*\s*set [-+][a-z]*e", text) is not None
