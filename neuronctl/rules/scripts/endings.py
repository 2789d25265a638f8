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
    launches = [launch for launch in facts.launches if launch.is_work]
    if given is None or not launches:
        return
    flags, name, _ = split_signal(given.value or "")
    if name.isdigit():  # a signal's number: take its name, without SIG
        name = next((each.name[3:] for each in signals.Signals if each == int(name)), "")
    traps = facts.shell.traps(name.upper())
    if "B" in flags:
        is_delayed = not any(launch.command.background for launch in launches)
        # exec puts a program in the shell's place; a file that the shell reads may set a trap.
        may_be_handled = traps or facts.shell.calls("exec") or facts.reads_more
        if not may_be_handled:
            message = f"bash has no trap for the signal {name}, which ends it and the job"
            hint = f"write a trap for {name}, or remove B:, and start the program with srun"
            yield Finding(message, hint, place=given.place)
        elif traps and is_delayed and not facts.shell.calls("wait", "exec"):
            message = f"bash runs this trap only when {launches[-1].word.raw} has ended: a command "
            hint = f"start it in the background: {launches[-1].command.words[0].raw} … & wait $!"
            yield Finding(f"{message}in the foreground holds it back", hint, place=traps[0].place)
    elif traps and name.upper() not in ("TERM", "INT"):
        message = f"without B:, Slurm sends {name} to what srun starts, not to this shell's trap"
        yield Finding(message, f"write --signal=B:{name}@…", place=given.place)
    elif not any(map(_may_be_srun, facts.every_launch)):
        message = "Slurm sends this signal to what srun starts, and here srun starts nothing"
        hint = f"write srun before {launches[-1].word.raw}"
        yield Finding(message, hint, place=given.place)


def _may_be_srun(launch: Launch) -> bool:
    """Return True if a launch is, or may be, srun, mpirun, or the like."""
    return not launch.certain or (launch.is_launcher and not launch.launcher.starts_processes())


_FILTERS = frozenset("head tee ts grep sed awk cat gzip pigz xz zstd sort tail".split())  # noqa: SIM905
"""Programs that read a program's output and hide its exit code."""


@script_rule(WARNING, "NC646", "exit code that is hidden")
def check_hidden_exit_code(facts: ScriptFacts) -> Iterator[Finding]:
    if facts.unreadable is None or facts.unreadable.warning:
        yield from _behind_a_pipe(facts)
        yield from _followed_by_success(facts)


def _name_programs(facts: ScriptFacts) -> Dict[int, str]:
    """Return the first program of each command that does the job's work, by the command's id()."""
    # Reversed, the first program of a command replaces the others.
    return {id(run.command): run.word.raw for run in reversed(facts.launches) if run.is_work}


_TELLS = r"notif|slack|telegram|mail|stats"
"""Parts of the names of commands that report the end of a job."""
_ASKS = ("--version", "-version", "-V", "--help", "-h")


def _wraps_up(command: Command) -> bool:
    """Return True if a command after the work only reports or moves files."""
    name, arguments = command.name, command.arguments
    if name in ("conda", "mamba", "micromamba", "source", "."):
        return arguments[:1] == ("deactivate",)
    if name in ("eval", "exec", "sbatch"):
        return False
    uploads = name == "wandb" and arguments[:1] == ("sync",)
    asks = bool(arguments) and arguments[-1] in _ASKS
    return name in LOOKS_OR_PREPARES or uploads or asks or re.search(_TELLS, name) is not None


def _behind_a_pipe(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first program whose exit code is lost to a filter: ``program | tee log``."""
    if re.search(r"pipefail|PIPESTATUS", facts.text):
        return
    programs, commands = _name_programs(facts), facts.shell.uncaptured
    for number, (command, reader) in enumerate(zip(commands, commands[1:])):
        program = programs.get(id(command))
        is_filtered = reader.piped and reader.name in _FILTERS and not command.background
        if program is None or not is_filtered:
            continue
        after_reader = commands[number + 2 :]
        # Those that are piped may belong to the same pipeline: program | grep loss | tee log.
        is_last_work = all(each.piped or _wraps_up(each) for each in after_reader)
        if not facts.strict and not is_last_work:
            continue  # without -e, the script continues whatever the exit code is
        effect = "the job ends as COMPLETED" if is_last_work else "the script goes on"
        message = f"the exit code here is that of {reader.name}: {program} may fail, and {effect}"
        # pipefail alone suffices if -e is set, or if the pipeline's exit code is the script's.
        flags = "-o" if facts.strict or not after_reader else "-eo"
        yield Finding(message, f"write set {flags} pipefail before it", place=reader.place)
        return


_SUCCEED = frozenset(
    ": conda date deactivate df echo module nvidia-smi printf sacct seff sleep true wait".split()  # noqa: SIM905
)
_READS = (
    r"\|\||&&|PIPESTATUS|\b(if|while|until|case|scancel|false|test|trap)\b|\[|\(\("
    r"|\b(exit|return) +[^\s;#]"
)
"""Text that may look at an exit code."""


def _followed_by_success(facts: ScriptFacts) -> Iterator[Finding]:
    """Find ``|| true``, ``wait`` without a process id, and a last command that always succeeds."""
    programs = _name_programs(facts)
    commands = [each for each in facts.shell.uncaptured if each.words]
    while commands and commands[-1].name == "exit" and not commands[-1].arguments:
        commands.pop()  # it exits with the code of the command before it
    for index, command in enumerate(commands[:-1]):
        program, following = programs.get(id(command)), commands[index + 1 :]
        is_lost_in_pipe = following[0].piped and "pipefail" not in facts.text
        if program is None or is_lost_in_pipe:
            continue
        hiding, hint = _find_hiding(facts, command, following)
        if hiding is not None:
            message = f"{hiding.name} hides the exit code of {program}: the job may end as "
            message += f"COMPLETED, even if {program} fails"
            yield Finding(message, hint, place=hiding.place)
            return


def _find_hiding(
    facts: ScriptFacts, command: Command, following: Sequence[Command]
) -> Tuple[Optional[Command], str]:
    """Return which of the following commands hides a command's exit code, or None; and a hint."""
    alternative, last = following[0], following[-1]
    waits = [each for each in following if each.name == "wait"]
    if alternative.joined == "||":
        hiding = alternative if _ignores_failure(facts, following) else None
        return hiding, "remove it: the job then fails if the program does"
    if command.background and waits and not waits[0].arguments:
        hiding = None if _reads_code(facts, command) else waits[0]
        return hiding, "write wait PID for each program, and exit with its code"
    exits = last.name == "exit" and last.arguments == ("0",) and last.sure
    removes = facts.lines[last.place.line - 1].lstrip().startswith("rm -")
    waits_for_it = last.name == "wait" and last.arguments
    succeeds = (exits or removes or last.name in _SUCCEED) and not waits_for_it
    is_left_alone = command.background and not waits  # NC651 reports this
    if facts.strict or is_left_alone or not succeeds or not all(map(_wraps_up, following)):
        return None, ""
    if _reads_code(facts, command, last if exits else None):
        return None, ""
    return last, "write set -e above it: the job then ends at its first failure"


def _ignores_failure(facts: ScriptFacts, following: Sequence[Command]) -> bool:
    """Return True for ``|| true`` after the job's work, and not as a part of a condition."""
    line = facts.lines[following[0].place.line - 1]
    is_intended = "[" in line or any(command.joined for command in following[1:2])
    is_work = all(map(_wraps_up, following)) or re.search("train|tune", line)
    return following[0].name in _SUCCEED and not is_intended and bool(is_work)


def _reads_code(facts: ScriptFacts, command: Command, end: Optional[Command] = None) -> bool:
    """Return True if the script may look at a command's exit code.

    It may do so in a trap, before the command on its line, or below it. end: the command above
    which to stop looking; None: at the end of the script.
    """
    if re.search(r"\btrap\b.*\b(ERR|EXIT|(SIG)?CHLD)\b", facts.text):
        return True
    first, last = command.place, command.words[-1].place
    before = facts.lines[first.line - 1][: first.column - 1]
    until = len(facts.lines) if end is None else end.place.line - 1
    after = [facts.lines[last.line - 1][last.end - 1 :], *facts.lines[last.line : until]]
    # Leave out quoted texts and comments.
    text = re.sub(r"(?m)'[^'\n]*'|\"[^\"\n]*\"|(^|\s)#.*", "_", "\n".join(after))
    return bool(re.search(r"\b(if|while|until)\b|!", before) or re.search(_READS, text))
