"""Spell a command as the caller types it: with ``--on NAME`` on another machine."""

from __future__ import annotations

from typing import Collection

_remote = ""
_commands: Collection[str] = ()
_has_code = False


def set_remote(name: str, commands: Collection[str], *, has_code: bool) -> None:
    """Note the caller's name for this machine, and the commands that can follow ``--on NAME``.

    has_code: whether the job's code was sent from there, and may be sent again before it starts.
    """
    global _remote, _commands, _has_code
    _remote, _commands, _has_code = name, commands, has_code


def caller_name() -> str:
    """Return the name by which the caller's machine knows this one; "" for a caller on it."""
    return _remote


def has_sent_code() -> bool:
    """Return True if the code of the job was sent from the caller's machine."""
    return _has_code


def spelled(text: str) -> str:
    """Return the text with each command as the caller's machine spells it."""
    if not _remote or "neuronctl " not in text:
        return text
    import re

    commands = "|".join(map(re.escape, _commands))
    return re.sub(rf"\bneuronctl (?=(?:{commands})\b)", f"neuronctl --on {_remote} ", text)
