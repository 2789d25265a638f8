"""NC635, NC636, NC652: signals that miss the program, late traps, and lost results."""

from __future__ import annotations

import re
import signal as signals
from typing import Iterator

from neuronctl.common.rule_codes import WARNING
from neuronctl.common.units import split_signal
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.launches import PYTHON, Launch


@script_rule(WARNING, "NC635", "signal that nothing handles", "by_absence")
def nobody_gets_it(facts: ScriptFacts) -> Iterator[Finding]:
    given = facts.given("signal")
    works = [launch for launch in facts.launches if launch.works]
    if given is None or not works:
        return
    flags, name, _ = split_signal(given.value or "")
    traps = facts.shell.traps(name.upper())
    if "B" in flags:
        if not traps and not facts.shell.calls("exec") and not facts.reads_more:
            message = (
                f"bash ends at the signal {name}, as it has no trap for it, and so does the job"
            )
            hint = f"write a trap for {name}, or remove B:, and start the program with srun"
            yield Finding(message, hint, place=given.place)
    elif traps and name.upper() not in ("TERM", "INT"):
        message = (
            f"without B:, Slurm sends {name} to what srun starts, and not to this shell's trap"
        )
        yield Finding(message, f"write --signal=B:{name}@…", place=given.place)
    elif not any(each.is_srun or _may_be_srun(each) for each in facts.every_launch):
        message = "Slurm sends this signal to what srun starts, and here srun starts nothing"
        yield Finding(message, f"write srun before {works[-1].word.raw}", place=given.place)


def _may_be_srun(launch: Launch) -> bool:
    """Return True if a launch is not known to be none of srun, mpirun, and their like."""
    return not launch.certain or (launch.is_launcher and not launch.launcher.starts_processes())


@script_rule(WARNING, "NC636", "trap that waits for the program's end", "by_absence")
def trap_waits(facts: ScriptFacts) -> Iterator[Finding]:
    given = facts.given("signal")
    flags, name, _ = split_signal((given.value if given is not None else "") or "")
    if name.isdigit():
        name = next((each.name[3:] for each in signals.Signals if each == int(name)), "")
    traps = facts.shell.traps(name.upper()) if name and "B" in flags else ()
    works = [launch for launch in facts.launches if launch.works]
    beside = facts.shell.calls("wait", "exec") or any(run.command.background for run in works)
    if traps and works and not beside:
        program = works[-1]
        yield Finding(
            f"bash runs this trap only when {program.word.raw} has ended: a command in the "
            "foreground holds it back",
            f"start it in the background: {program.command.words[0].raw} … & wait $!",
            place=traps[0].place,
        )


_OF_THE_NODE = re.compile(r"(/tmp|/var/tmp|/dev/shm|\$\{?(SLURM_)?TMPDIR\}?)/")
_RESULTS = re.compile(
    r"--?(\w+[_-])?(out(put)?|save|ckpt|checkpoint|result)s?([_-]?(dir|path|file|folder|to))?"
)
_NOT_WANTED = re.compile(r"(?i)log|err|test|debug|dummy|cache|/\W*$")
_TAKES_AWAY = re.compile(
    r"\b(cp|mv|rsync|tar|scp|rclone|zip|install|gsutil|aws|find|sgather|dd|cat|upload|trap)\b"
    r"|(?i:hub|wandb|mlflow|s3:|gs:)"
)


@script_rule(WARNING, "NC652", "results on the node alone", "by_absence")
def left_on_the_node(facts: ScriptFacts) -> Iterator[Finding]:
    if facts.reads_more or facts.shell.assigned("TMPDIR") or _TAKES_AWAY.search(facts.text):
        return
    for launch in facts.every_launch:
        command = launch.command
        if launch.kind != PYTHON or command.captured or command.looped:
            continue
        options = (pair.value for pair in launch.pairs if _RESULTS.fullmatch(pair.name))
        for word in (*command.writes, *options):
            path = word.text.strip("\"'")
            head = _OF_THE_NODE.match(path)
            later = "\n".join(facts.lines[command.words[-1].place.line :])
            if head is None or _NOT_WANTED.search(path):
                continue
            if not any(part in later for part in (head[1].strip("${}"), *word.names)):
                yield Finding(
                    f"{path} is on the node alone, and nothing copies it from there: when the job "
                    "has ended, it is out of reach, or deleted",
                    "write to a directory that all nodes share",
                    place=word.place,
                )
                return
