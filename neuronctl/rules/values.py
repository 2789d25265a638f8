"""NC338 to NC342: secrets and variables in the values of a request."""

from __future__ import annotations

import re
from typing import Iterator, List, Sequence, Tuple

from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.common.secrets import find_secrets, hide_in_words
from neuronctl.common.shell import references
from neuronctl.common.words import verb
from neuronctl.rules.base import RuleContext, Violation, rule

_READ_DOLLARS = r"(?:ba|da|z|k|c|tc|fi)?sh|[gmn]?awk|perl|envsubst|sed|make"
"""Programs that replace variables in their arguments, or have a $ of their own."""

_TASKS = (
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASK_PID"),
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
)
"""Variables that differ in each task, or are set in tasks only."""


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"${name}" for name in names)


@rule(WARNING, "NC338", "secret that others can read")
def exposed_secret(context: RuleContext) -> Iterator[Violation]:
    request = context.plan.request
    places: List[Tuple[str, Tuple[str, ...]]] = [
        ("--setup contains", request.setup),
        ("--sbatch contains", request.sbatch),
        ("--container-option contains", request.container_options),
    ]
    for launch in context.plan.launches:
        body = (launch.request.body or "").split("\n")
        places.append((f"{launch.prefix}the shell text contains", tuple(body)))
        args = launch.request.args
        places.append((f"{launch.prefix}the program's arguments contain", args))
        options = launch.launcher_options
        places.append((f"{launch.prefix}--launcher-option contains", options))
    for where, words in places:
        if find_secrets("\n".join(words)) or hide_in_words(words) != words:
            yield Violation(
                f"{where} a secret: it is written into the script, and everybody on the node can "
                "see the command lines of what runs there",
                "export it, pass it on with --env NAME, and let the program read the variable",
            )
    for name in context.local.typed_secrets:
        yield Violation(
            f"--env {name}=… on the command line: everybody on this machine sees command lines, "
            "and your shell's history keeps them",
            f"export {name}, and pass it on with --env {name}",
        )


@rule(WARNING, "NC341", "variable that is not replaced", "of_launch")
def stands_literally(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.request.expand:
        return
    hint = "--expand replaces it when the job starts, in --env and the arguments; $$ is a dollar "
    hint += "sign then"
    for name, value in plan.request.env:
        linkers = ("ORIGIN", "LIB", "PLATFORM") if name.startswith("LD_") else ()
        names = [one for one in references(value) if one not in linkers]
        if names and name not in plan.secrets:
            to_itself = name in names
            what = f"--env {name} refers to itself, and" if to_itself else f"--env {name}:"
            yield Violation(
                f"{what} {_named(names)} {verb(len(names))} passed on as typed, without the value",
                hint,
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
            yield Violation(
                f"{launch.prefix}{_named(told)} in the program's arguments {verb(len(told))} "
                "passed on as typed, without the value",
                hint,
            )


@rule(ERROR, "NC342", "variable that cannot be replaced as meant", "of_launch")
def cannot_be_expanded(context: RuleContext) -> Iterator[Violation]:
    plan, request = context.plan, context.plan.request
    if not request.expand:
        return
    most = max(launch.processes for launch in plan.launches)
    places = [(f"--env {name}", name, value, most) for name, value in request.env]
    places += [
        (f"{launch.prefix}argument {index}", "", arg, launch.processes)
        for launch in plan.launches
        for index, arg in enumerate(launch.request.args, 1)
    ]
    for place, name, value, processes in places:
        names = references(value)
        by_task = [one for one in names if one in _TASKS]
        if name in plan.secrets and names:
            yield Violation(
                f"{place} is a secret, which the script must not contain: no variable in it is "
                "replaced",
                f"export the whole value before you submit, and pass it on with --env {name}",
            )
        elif by_task and processes > 1:
            yield Violation(
                f"{place}: {_named(by_task)} {verb(len(by_task), 'differs', 'differ')} in "
                f"each of the {processes} processes, and --expand replaces it once, before they "
                "start",
                "let the program read the variable, or a shell in each task: bash -c "
                f"'exec PROGRAM $${by_task[0]}'",
            )
