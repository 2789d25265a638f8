"""NC651 and NC665: programs that do not start, or that the end of the job kills."""

from __future__ import annotations

import re
from itertools import dropwhile
from typing import Iterator, Optional, Tuple

from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.launches import PROGRAM, PYTHON, Launch
from neuronctl.scripts.shell_text import Command
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES, names_python

_TOOLS = """
build compileall ensurepip http ipykernel json jupyter mpi4py nltk notebook pip pytest site spacy
timeit unittest venv virtualenv wheel zipfile
""".split()  # noqa: SIM905


def is_own_program(launch: Launch) -> bool:
    """Return True if a launch is a Python program of the user's, and starts no other by name."""
    script = launch.options.get("script", "script")
    known = launch.kind == PYTHON and not re.fullmatch(r"(\$(\w+|\{.*\}))?", script)
    # One Python file that is given another may well be a launcher: python launch.py train.py
    files = [word for word in launch.own_words[1:] if word.basename.endswith(".py")]
    tool = launch.options.get("m", "").partition(".")[0] in _TOOLS
    return known and len(files) < 2 and not (tool or launch.has("c") or launch.command.captured)


def is_trifle(launch: Launch) -> bool:
    """Return True if a launch does none of the job's work."""
    return launch.name in LOOKS_OR_PREPARES


@script_rule(ERROR, "NC665", "program that is no program")
def no_program(facts: ScriptFacts) -> Iterator[Finding]:
    for launch in facts.every_launch:
        found = _not_started(facts, launch)
        if found is not None:
            yield Finding(found[0], found[1], place=launch.place, severity=found[2])


def _not_started(facts: ScriptFacts, launch: Launch) -> Optional[Tuple[str, str, str]]:
    """Return what is wrong, how to write it, and a severity; tried with srun of Slurm 22.05."""
    variable = re.match(r"[A-Za-z_]\w*=", launch.word.raw)
    if launch.kind == PROGRAM and variable and launch.word != launch.command.words[0]:
        return (
            f"{launch.word.raw} is taken for the name of a program",
            f"write env {variable[0]}…, or set it before the command",
            ERROR,
        )
    module = launch.options.get("m", "")
    if launch.kind != PYTHON or launch.command.captured:
        return None
    if module.endswith(".py"):
        return (
            f"python -m takes the name of a module, which {module} is not",
            f"write python {module}, or python -m {module[:-3]}",
            ERROR,
        )
    if launch.options.get("script") in ("python", "python3"):
        return "the first python runs a file named python", "write python once", WARNING
    line = facts.lines[launch.place.line - 1]
    bare = len(launch.own_words) == 1 and names_python(launch.word.value or "")
    fed = launch.command.piped or facts.has("input") or "<" in line
    if bare and not fed:
        return (
            f"{launch.word.raw} gets no program, and a job has no standard input: it ends at once",
            f"name the program: {launch.word.raw} main.py",
            WARNING,
        )
    return None


@script_rule(WARNING, "NC651", "nothing waits for the program", "by_absence")
def nothing_waits(facts: ScriptFacts) -> Iterator[Finding]:
    """As Slurm does it: with the batch shell, it ends everything that the shell started."""
    commands = facts.shell.uncaptured
    beside = [at for at, command in enumerate(commands) if _goes_on(command)]
    if not beside or re.search(r"\b(wait|fg)\b|(?m:(^|[;&|{])[ \t]*exec[ \t])", facts.text):
        return
    later = commands[beside[-1] + 1 :]
    if commands[beside[-1]].in_loop:
        later = tuple(dropwhile(lambda each: each.in_loop, later))
    if any(each.in_loop for each in later):  # such as one that asks whether it still runs
        return
    found: Optional[Command] = commands[beside[-1]]
    until = "at once"
    after = [command for command in commands[beside[-1] + 1 :] if _keeps_alive(command)]
    if after:
        # Of a server and its client, the client ends the job; of two of a kind, the last one.
        names = {_python_file(command) for command in after} - {""}
        started = [commands[at] for at in beside]
        found = next((each for each in started if _python_file(each) in names), None)
        until = f"when line {after[-1].place.line} is done"
    if found is not None:
        yield Finding(
            f"nothing waits for this: it is killed with the job, which ends {until}",
            "write wait as the last line"
            if found.background
            else "start the program itself, in the foreground",
            place=found.place,
        )


def _goes_on(command: Command) -> bool:
    """Return True if a program goes on when the shell has gone to the next line."""
    if command.name in ("tmux", "screen"):
        words = " ".join(word.raw for word in command.words[1:])
        return re.search(r"(^| )-d|new.* -d", words) is not None
    return command.background and bool(command.words) and command.name not in LOOKS_OR_PREPARES


_LONG_SLEEP = re.compile(r"inf(inity)?|\d+[dh]|\d{2,}m|\d{4,}s?")


def _keeps_alive(command: Command) -> bool:
    if command.name == "sleep":
        return any(value is None or _LONG_SLEEP.fullmatch(value) for value in command.arguments)
    return not command.background and bool(command.words) and command.name not in LOOKS_OR_PREPARES


def _python_file(command: Command) -> str:
    """Return the Python file that a command runs, "" if none."""
    words = [word.value or "" for word in command.words]
    return next((word for word in words if word.endswith(".py")), "")
