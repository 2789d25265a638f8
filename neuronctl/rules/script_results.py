"""NC651: what is lost when a job ends."""

from __future__ import annotations

import re
from typing import Iterator, Optional

from neuronctl.common.rule_codes import WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_commands import SHORT
from neuronctl.scripts.shell_text import Command

_LONG_SLEEP = re.compile(r"inf(inity)?|\d+[dh]|\d{2,}m|\d{4,}s?")


@script_rule(WARNING, "NC651", "nothing waits for the program", "by_absence")
def nothing_waits(facts: ScriptFacts) -> Iterator[Violation]:
    """As Slurm does it: with the batch shell, it ends everything that the shell started."""
    commands = facts.shell.uncaptured
    beside = [at for at, command in enumerate(commands) if _goes_on(facts, command)]
    if not beside or re.search(r"\b(wait|fg)\b|(?m:(^|[;&|{])[ \t]*exec[ \t])", facts.text):
        return
    last = commands[beside[-1]]
    if any(loop.place.line > last.place.line for loop in facts.shell.loops):
        return
    after = [command for command in commands[beside[-1] + 1 :] if _keeps_alive(command)]
    found: Optional[Command] = last
    if after:
        # Of a server and its client, the client ends the job; of two of a kind, the last one.
        started = [(_program(command), command) for command in map(commands.__getitem__, beside)]
        names = {_program(command) for command in after} - {""}
        found = next((command for name, command in started if name in names), None)
    if found is not None:
        what = "this ends when the job does, which is at once: nothing waits for it"
        if after:
            what = f"this ends when line {after[-1].place.line} has: nothing waits for it"
        hint = "write wait as the last line; wait %1 && wait %2 fails where one of two has"
        if not found.background:
            hint = "start the program itself, in the foreground"
        yield Violation(what, hint, place=found.place)


def _goes_on(facts: ScriptFacts, command: Command) -> bool:
    """Whether a program goes on when the shell has gone to the next line."""
    if command.name in ("tmux", "screen"):
        words = " ".join(word.raw for word in command.words[1:])
        return re.search(r"(^| )-d|new.* -d", words) is not None
    return command.background and bool(command.words) and command.name not in SHORT


def _keeps_alive(command: Command) -> bool:
    if command.background or not command.words:
        return False
    if command.name == "sleep":
        return any(value is None or _LONG_SLEEP.fullmatch(value) for value in command.arguments)
    return command.name not in SHORT


def _program(command: Command) -> str:
    """The script that a command of Python's runs."""
    words = [word.value or "" for word in command.words]
    return next((word for word in words if word.endswith(".py")), "")


OF_THE_NODE = re.compile(
    r"(/tmp|/var/tmp|/dev/shm|/local(_?scratch)?|\$\{?(SLURM_)?TMPDIR\b\}?"
    r"|\$\{?LOCAL_?SCRATCH\b\}?)(/|$)"
)
"""Directories of a node, or of a job on it: other nodes have none of their files."""
