"""NC646: an exit code that says COMPLETED of a program that has failed."""

from __future__ import annotations

import re
from typing import Dict, Iterator

from neuronctl.common.rule_codes import WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.model import SourceSpan
from neuronctl.scripts.shell_text import Command
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES

_FILTERS = frozenset("head tee ts grep sed awk cat gzip pigz xz zstd sort tail".split())  # noqa: SIM905
_LOOKS_BACK = re.compile(r"\|\||&&|\$\?|PIPESTATUS|\btrap\b|\b(if|while|until)\b")


@script_rule(WARNING, "NC646", "exit code that is hidden")
def hidden_exit_code(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.unreadable is None or facts.unreadable.warning:
        yield from _behind_a_pipe(facts)
        yield from _thrown_away(facts)
        yield from _success_behind_a_complaint(facts)
        yield from _code_of_echo(facts)


def _works(facts: ScriptFacts) -> Dict[int, str]:
    """Return the commands that do the job's work, by their identity, with the program's name."""
    return {id(run.command): run.word.raw for run in reversed(facts.launches) if run.works}


_TELLS = re.compile(r"notif|slack|telegram|mail|stats")
_ASKS = ("--version", "-version", "-V", "--help", "-h")


def _wraps_up(command: Command) -> bool:
    """Return True if a command behind the work only reports, or moves files."""
    name, words = command.name, command.arguments
    if name in ("conda", "mamba", "micromamba", "source", "."):
        return words[:1] == ("deactivate",)
    if name in ("eval", "exec", "sbatch"):
        return False
    sends = name == "wandb" and words[:1] == ("sync",)
    asks = bool(words) and words[-1] in _ASKS
    return name in LOOKS_OR_PREPARES or sends or asks or _TELLS.search(name) is not None


def _behind_a_pipe(facts: ScriptFacts) -> Iterator[Violation]:
    if re.search(r"pipefail|PIPESTATUS", facts.text):
        return
    works, commands = _works(facts), facts.shell.uncaptured
    for at, (command, beside) in enumerate(zip(commands, commands[1:])):
        filters = beside.piped and beside.name in _FILTERS and not command.background
        if not filters or id(command) not in works:
            continue
        last = all(each.piped or _wraps_up(each) for each in commands[at + 2 :])
        if facts.strict or last:
            ends = "the job ends as COMPLETED" if last else "the script goes on"
            yield Violation(
                f"the exit code here is that of {beside.name}: {works[id(command)]} may fail, and "
                f"{ends}",
                f"write set {'-o' if facts.strict or at + 2 == len(commands) else '-eo'} pipefail "
                "before it",
                place=beside.place,
            )
            return


def _thrown_away(facts: ScriptFacts) -> Iterator[Violation]:
    """Find ``|| true`` behind the last program, and ``exit 0`` at the end."""
    works, commands = _works(facts), facts.shell.uncaptured
    at = max((at for at, each in enumerate(commands) if id(each) in works), default=-1)
    rest = commands[at + 1 :]
    if at < 0 or not rest or commands[at].background or not all(map(_wraps_up, rest)):
        return
    last, name = rest[-1], works[id(commands[at])]
    text = "\n".join(facts.lines[commands[at].place.line - 1 : last.place.line])
    exits = last.name == "exit" and last.arguments == ("0",) and last.sure
    forgives = rest[0].joined == "||" and rest[0].name in ("true", ":")
    forgives = forgives and "[" not in facts.lines[rest[0].place.line - 1]
    if forgives or (exits and not facts.strict and not _LOOKS_BACK.search(text)):
        hides = f"|| {rest[0].name}" if forgives else "exit 0"
        yield Violation(
            f"the job ends as COMPLETED, even if {name} fails: {hides} hides its exit code",
            "remove it: the script ends with the exit code of its last command",
            place=rest[0].place if forgives else last.place,
        )


_COMPLAINS = re.compile(
    r"(?i)\b(error|fail(ed|s|ure)?|missing|cannot|can't|could not|invalid|unknown|required?|must"
    r"|need|(not|n't|no) (find|found|exist|such|set|specified|given|provided))\b|\?$"
)
_GOES_ON = re.compile(r"(?i)already|skip|nothing|finished|complete|done|array|task")


def _success_behind_a_complaint(facts: ScriptFacts) -> Iterator[Violation]:
    """Find ``echo "Error: no data"; exit``, which reports success."""
    commands = facts.shell.uncaptured if facts.header.given else ()
    for before, command in zip(commands, commands[1:]):
        succeeds = command.name == "exit" and command.arguments in ((), ("0",))
        lines = command.place.line - before.place.line
        if not succeeds or command.sure or before.name not in ("echo", "printf") or lines > 2:
            continue
        said = " ".join(word.text for word in before.words)[:300]
        above = "\n".join(facts.lines[max(0, command.place.line - 6) : command.place.line])
        usage = re.search("(?i)usage", said) and re.search(r"\$#|\$\{?1\b", above)
        if (_COMPLAINS.search(said) or usage) and not _GOES_ON.search(said) and "-h" not in above:
            yield Violation(
                f"exit {'0' if command.arguments else 'without a number'} reports success: the job "
                "ends as COMPLETED, though it has done nothing",
                "write exit 1",
                place=command.place,
            )
            return


_ASKS_BEHIND_ECHO = re.compile(
    r"^[ \t]*(?:echo|printf)\b[^\n|&;]*\n(?:[ \t]*(?:#[^\n]*)?\n)*"
    r"[ \t]*((?:if[ \t]+)?(?:\[|\(\(|exit|echo|\w+=)[^\n']*\$\?)",
    re.MULTILINE,
)


def _code_of_echo(facts: ScriptFacts) -> Iterator[Violation]:
    """Find ``$?`` behind an echo, whose exit code it is."""
    plain = {number for number, _ in facts.plain_lines}
    for match in _ASKS_BEHIND_ECHO.finditer(facts.text):
        number = facts.text.count("\n", 0, match.start(1)) + 1
        column = match.start(1) - facts.text.rfind("\n", 0, match.start(1))
        if number in plain:
            yield Violation(
                "$? is the exit code of the echo before it, and not of the program",
                "keep it first: code=$? before the echo",
                place=SourceSpan(number, column, column + len(match[1])),
            )
            return
