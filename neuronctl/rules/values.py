"""NC338, NC341, and NC344: secrets and variables in a request, and jobs of several runs."""

from __future__ import annotations

import re
from typing import Iterator, List, Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.common.secrets import find_secrets, hide_in_words
from neuronctl.common.shell import references
from neuronctl.common.words import verb
from neuronctl.planning.model import SAVE, has_trap
from neuronctl.request.job import BY_NAME, UNTIL_DONE
from neuronctl.rules.base import Finding, RuleContext, Trait, job_rule

_READ_DOLLARS = r"(?:ba|da|z|k|c|tc|fi)?sh|[gmn]?awk|perl|envsubst|sed|make"
"""Programs that replace variables in their arguments, or have a $ of their own."""


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"${name}" for name in names)


@job_rule(WARNING, "NC338", "secret that others can read")
def exposed_secret(context: RuleContext) -> Iterator[Finding]:
    request = context.plan.request
    places: List[Tuple[str, Tuple[str, ...]]] = [
        ("--setup contains", request.setup),
        ("--sbatch contains", request.sbatch),
        ("--container-option contains", request.container_options),
    ]
    exposed: List[str] = []
    for launch in context.plan.launches:
        if find_secrets(launch.request.body or ""):
            exposed.append(f"{launch.prefix}the shell text contains")
        args = launch.request.args
        places.append((f"{launch.prefix}the program's arguments contain", args))
        options = launch.launcher_options
        places.append((f"{launch.prefix}--launcher-option contains", options))
    for where, words in places:
        if find_secrets("\n".join(words)) or hide_in_words(words) != words:
            exposed.append(where)
    for where in exposed:
        yield Finding(
            f"{where} a secret: it is written into the script, and everybody on the node can "
            "see the command lines of what runs there",
            "export it, pass it on with --env NAME, and let the program read the variable",
        )


@job_rule(WARNING, "NC341", "variable that is not replaced", Trait.LAUNCH)
def stands_literally(context: RuleContext) -> Iterator[Finding]:
    plan = context.plan
    for name, value in plan.request.env:
        linkers = ("ORIGIN", "LIB", "PLATFORM") if name.startswith("LD_") else ()
        names = [one for one in references(value) if one not in linkers]
        if names and name not in plan.secrets:
            to_itself = name in names
            what = f"--env {name} refers to itself, and" if to_itself else f"--env {name}:"
            yield Finding(
                f"{what} {_named(names)} {verb(len(names))} passed on as typed, without the value",
                f"set it in a line of shell: --setup 'export {name}=…'",
                severity=ERROR if to_itself else WARNING,
            )
    for launch in plan.launches:
        words = launch.request.args
        programs = (word.rpartition("/")[2] for word in (launch.request.script or "", *words))
        if any(re.fullmatch(_READ_DOLLARS, program) for program in programs):
            continue
        found = dict.fromkeys(name for word in words for name in references(word))
        known = context.local.variables
        told = [name for name in found if name in known or name.startswith(("SLURM", "MASTER_"))]
        if told:
            yield Finding(
                f"{launch.prefix}{_named(told)} in the program's arguments {verb(len(told))} "
                "passed on as typed, without the value",
                "write the launch as shell text: 'run:' in a job file, or --body FILE",
            )


@job_rule(ERROR, "NC344", "a job that cannot go on until it is done")
def until_done(context: RuleContext) -> Iterator[Finding]:
    plan, request = context.plan, context.plan.request
    if not request.until_done:
        given = [name for name in UNTIL_DONE if getattr(request, BY_NAME[name].field) is not None]
        if given and not plan.interactive:
            words = f"--{given[0]} is for a job with several runs; this job has one"
            yield Finding(words, "add --until-done, or leave it out")
        return
    if plan.until_done is None:
        return
    if request.requeue is False and request.array:
        words = "--no-requeue forbids what an array needs to go on: its tasks requeue themselves"
        yield Finding(words, "leave --no-requeue out, or submit a job for each task")
    lines = "\n".join(request.setup)
    if any(has_trap(lines, name) for name in ("TERM", "EXIT", SAVE)):
        yield Finding(
            f"a --setup line sets a trap for TERM, EXIT, or {SAVE}: with --until-done, the batch "
            "shell needs its own",
            "move the trap into the program, or into the shell text of --body",
        )
    if request.resume_with and request.script is None:
        yield Finding(
            "--resume-with has no program to which its words could be added",
            "let the shell text look for the checkpoint itself",
        )
    before, limit, signal = plan.until_done.before_end, plan.time_limit, plan.signal
    problem, longer = "", ""
    if signal is not None and signal.name in units.NEVER_HANDLED:
        problem = f"the program is to save at {signal.name}, which no program can handle"
    elif before <= 0:
        problem = "the program is to save 0 s before the end, which leaves no time to save"
    elif limit is not None and 0 <= limit <= before:
        problem = f"the program is to save {before} s before the end, and a run has {limit} s"
        longer = ", or a longer --time"
    if problem:
        seconds = 300 if limit is None or limit < 0 else max(1, min(300, limit // 4))
        yield Finding(problem, f"use --signal TERM@{seconds}{longer}")
