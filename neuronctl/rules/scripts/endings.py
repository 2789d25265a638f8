"""NC635 and NC646: signals without a handler, and lost exit codes."""

from __future__ import annotations

import re
import signal as signals
from typing import Dict, Iterator, Optional, Sequence, Tuple

from neuronctl.common.rule_codes import WARNING
from neuronctl.common.units import split_signal
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.scripts.script_facts import ScriptFacts, script_rule
from neuronctl.scripts.launches import Launch
from neuronctl.scripts.shell_text import Command
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES


@script_rule(WARNING, "NC635", "signal that nothing handles", Trait.ABSENCE)
def check_unhandled_signal(facts: ScriptFacts) -> Iterator[Finding]:
    """Find a --signal that ends the batch shell, waits behind the program, or reaches nothing.

    With B:, Slurm sends it to the batch shell; without, to what srun starts.
    """
    given = facts.given("signal")
    works = [launch for launch in facts.launches if launch.is_work]
    if given is None or not works:
        return
    flags, name, _ = split_signal(given.value or "")
    if name.isdigit():
        name = next((each.name[3:] for each in signals.Signals if each == int(name)), "")
    program, command = works[-1].word.raw, works[-1].command.words[0].raw
    beside = facts.shell.calls("wait", "exec") or any(run.command.background for run in works)
    traps = facts.shell.traps(name.upper())
    if "B" in flags:
        if not traps and not facts.shell.calls("exec") and not facts.reads_more:
            message = f"bash has no trap for the signal {name}, which ends it and the job"
            hint = f"write a trap for {name}, or remove B:, and start the program with srun"
            yield Finding(message, hint, place=given.place)
        elif traps and not beside:
            message = f"bash runs this trap only when {program} has ended: a command in the "
            message += "foreground holds it back"
            hint = f"start it in the background: {command} … & wait $!"
            yield Finding(message, hint, place=traps[0].place)
    elif traps and name.upper() not in ("TERM", "INT"):
        message = f"without B:, Slurm sends {name} to what srun starts, not to this shell's trap"
        yield Finding(message, f"write --signal=B:{name}@…", place=given.place)
    elif not any(each.is_srun or _may_be_srun(each) for each in facts.every_launch):
        message = "Slurm sends this signal to what srun starts, and here srun starts nothing"
        yield Finding(message, f"write srun before {program}", place=given.place)


def _may_be_srun(launch: Launch) -> bool:
    """Return True unless a launch is surely not srun, mpirun, or the like."""
    return not launch.certain or (launch.is_launcher and not launch.launcher.starts_processes())


_FILTERS = frozenset("head tee ts grep sed awk cat gzip pigz xz zstd sort tail".split())  # noqa: SIM905
"""Programs that read a program's output and hide its exit code."""


@script_rule(WARNING, "NC646", "exit code that is hidden")
def check_hidden_exit_code(facts: ScriptFacts) -> Iterator[Finding]:
    if facts.unreadable is None or facts.unreadable.warning:
        yield from _behind_a_pipe(facts)
        yield from _followed_by_success(facts)


def _works(facts: ScriptFacts) -> Dict[int, str]:
    """Return the commands that do the job's work, by identity, with the program's name."""
    return {id(run.command): run.word.raw for run in reversed(facts.launches) if run.is_work}


_TELLS = r"notif|slack|telegram|mail|stats"
"""Parts of the names of commands that report the end of a job."""
_ASKS = ("--version", "-version", "-V", "--help", "-h")


def _wraps_up(command: Command) -> bool:
    """Return True if a command after the work only reports or moves files."""
    name, words = command.name, command.arguments
    if name in ("conda", "mamba", "micromamba", "source", "."):
        return words[:1] == ("deactivate",)
    if name in ("eval", "exec", "sbatch"):
        return False
    sends = name == "wandb" and words[:1] == ("sync",)
    asks = bool(words) and words[-1] in _ASKS
    return name in LOOKS_OR_PREPARES or sends or asks or re.search(_TELLS, name) is not None


def _behind_a_pipe(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first program whose exit code is lost to a filter: ``program | tee log``."""
    if re.search(r"pipefail|PIPESTATUS", facts.text):
        return
    works, commands = _works(facts), facts.shell.uncaptured
    for number, (command, reader) in enumerate(zip(commands, commands[1:]), 2):
        is_filtered = reader.piped and reader.name in _FILTERS and not command.background
        if not is_filtered or id(command) not in works:
            continue
        is_last_work = all(each.piped or _wraps_up(each) for each in commands[number:])
        if facts.strict or is_last_work:
            effect = "the job ends as COMPLETED" if is_last_work else "the script goes on"
            # Without -e, only the exit code of the last command counts.
            flags = "-o" if facts.strict or number == len(commands) else "-eo"
            yield Finding(
                f"the exit code here is that of {reader.name}: {works[id(command)]} may fail, and "
                f"{effect}",
                f"write set {flags} pipefail before it",
                place=reader.place,
            )
            return


_SUCCEED = frozenset(
    ": conda date deactivate df echo module nvidia-smi printf sacct seff sleep true wait".split()  # noqa: SIM905
)
_READS = (
    r"\|\||&&|PIPESTATUS|\b(if|while|until|case|scancel|false|test|trap)\b|\[|\(\("
    r"|\b(exit|return) +[^\s;#]"
)
"""What a text has that may look at an exit code."""


def _followed_by_success(facts: ScriptFacts) -> Iterator[Finding]:
    """Find ``|| true``, ``wait`` without a process id, and a last command that always succeeds."""
    works, commands = _works(facts), [each for each in facts.shell.uncaptured if each.words]
    while commands and commands[-1].name == "exit" and not commands[-1].arguments:
        commands.pop()  # has the code of the one before it
    for at, command in enumerate(commands[:-1]):
        name, rest = works.get(id(command)), commands[at + 1 :]
        if name is None or (rest[0].piped and "pipefail" not in facts.text):
            continue
        hidden_by, hint = _hides(facts, command, rest)
        if hidden_by is not None:
            message = f"{hidden_by.name} hides the exit code of {name}: the job may end as "
            message += f"COMPLETED, even if {name} fails"
            yield Finding(message, hint, place=hidden_by.place)
            return


def _hides(
    facts: ScriptFacts, command: Command, rest: Sequence[Command]
) -> Tuple[Optional[Command], str]:
    """Return which of ``rest``, the commands after a command, hides its exit code, and a hint.

    None: none of them does.
    """
    following, end = rest[0], rest[-1]
    only_wraps_up = all(map(_wraps_up, rest))
    if following.joined == "||":
        line = facts.lines[following.place.line - 1]
        is_intended = "[" in line or any(each.joined for each in rest[1:2])
        is_work = only_wraps_up or re.search("train|tune", line)
        hides = following.name in _SUCCEED and not is_intended and is_work
        return following if hides else None, "remove it: the job then fails if the program does"
    waits = [each for each in rest if each.name == "wait"]
    if command.background and waits and not waits[0].arguments:
        hint = "write wait PID for each program, and exit with its code"
        return None if _reads_code(facts, command, None) else waits[0], hint
    last_line = facts.lines[end.place.line - 1].lstrip()
    exits = end.name == "exit" and end.arguments == ("0",) and end.sure
    succeeds = exits or end.name in _SUCCEED or last_line.startswith("rm -")
    awaited = (end.name == "wait" and end.arguments) or (command.background and not waits)
    if facts.strict or awaited or not (only_wraps_up and succeeds):
        return None, ""
    if _reads_code(facts, command, end if exits else None):
        return None, ""
    return end, "write set -e above it: the job then ends at its first failure"


def _reads_code(facts: ScriptFacts, command: Command, end: Optional[Command]) -> bool:
    """Return True if the text around or after a command, up to the end, may look at its code."""
    first, last = command.place, command.words[-1].place
    before = facts.lines[first.line - 1][: first.column - 1]
    until = len(facts.lines) if end is None else end.place.line - 1
    behind = [facts.lines[last.line - 1][last.end - 1 :], *facts.lines[last.line : until]]
    # Leave out quoted texts and comments.
    text = re.sub(r"(?m)'[^'\n]*'|\"[^\"\n]*\"|(^|\s)#.*", "_", "\n".join(behind))
    own_trap = re.search(r"\btrap\b.*\b(ERR|EXIT|(SIG)?CHLD)\b", facts.text)
    return bool(own_trap or re.search(r"\b(if|while|until)\b|!", before) or re.search(_READS, text))
