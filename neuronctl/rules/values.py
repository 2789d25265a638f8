"""NC338 to NC343: secrets, dashes, variables, and shell text in the values of a request."""

from __future__ import annotations

import re
from typing import Iterator, List, Sequence, Tuple

from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.common.secrets import find_secrets, hide_in_words
from neuronctl.common.shell import BASHS_OWN, references
from neuronctl.common.words import other_dash, verb, with_plain_dashes
from neuronctl.planning import JobPlan
from neuronctl.rules.base import RuleContext, Violation, rule

_DOLLAR = "$$ is a dollar sign"

# ld.so replaces these itself.
_LINKERS = ("ORIGIN", "LIB", "PLATFORM")

# Programs that replace variables in their arguments, or have a $ of their own.
_READ_DOLLARS = r"(?:ba|da|z|k|c|tc|fi)?sh|[gmn]?awk|perl|envsubst|sed|make"

# Different in each task, or set in tasks only.
_TASKS = (
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASK_PID"),
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
)
_LAUNCHS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_BASHS = {*BASHS_OWN, "HOSTNAME", "PWD", "SECONDS", "BASH_VERSION"}


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
    exposed = []
    for launch in context.plan.launches:
        step, text = launch.prefix, launch.request.body or ""
        places.append((f"{step}the program's arguments contain", launch.request.args))
        places.append((f"{step}--launcher-option contains", launch.launcher_options))
        if find_secrets(text):
            exposed.append(f"{step}the shell text contains")
    exposed += [where for where, words in places if hide_in_words(words) != words]
    for where in exposed:
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


@rule(WARNING, "NC339", "argument with a dash that is not ASCII's", "of_launch of_step")
def dash_in_argument(context: RuleContext) -> Iterator[Violation]:
    for word in context.plan.request.args:
        dash = other_dash(word[:1])
        if dash and len(word) > 1:
            yield Violation(
                f"the program's argument '{word}' begins with {dash}, not with '-'; it is passed "
                "on as it is",
                f"did you mean {with_plain_dashes(word)}?",
            )


@rule(WARNING, "NC341", "variable that is not replaced", "of_launch")
def stands_literally(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    if plan.request.expand:
        return
    for name, value in plan.request.env:
        linkers = _LINKERS if name.startswith("LD_") else ()
        names = [reference for reference in references(value) if reference not in linkers]
        if not names or name in plan.secrets:
            continue
        to_itself = name in names
        what = f"--env {name} refers to itself, and" if to_itself else f"--env {name}:"
        yield Violation(
            f"{what} {_named(names)} {verb(len(names))} passed on as typed, without the value",
            f"--expand replaces it when the job starts, in --env and the arguments; {_DOLLAR} then",
            severity=ERROR if to_itself else WARNING,
        )
    for launch in plan.launches:
        words = launch.request.args
        if not any("$" in word for word in words):
            continue
        programs = (word.rpartition("/")[2] for word in (launch.request.script or "", *words))
        if any(re.fullmatch(_READ_DOLLARS, program) for program in programs):
            continue
        names = [
            reference
            for reference in dict.fromkeys(
                reference for word in words for reference in references(word)
            )
            if reference in context.local.variables
            or reference.startswith(("SLURM_", "SLURMD_", "MASTER_"))
        ]
        if names:
            yield Violation(
                f"{launch.prefix}{_named(names)} in the program's arguments {verb(len(names))} "
                "passed on as typed, without the value",
                "--expand replaces it when the job starts, in the arguments and --env; "
                f"{_DOLLAR} then",
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
    unset: List[str] = []
    for place, name, value, processes in places:
        names = references(value)
        if name in plan.secrets:
            if names:
                yield Violation(
                    f"{place} is a secret, which the script must not contain: no variable in it "
                    "is replaced",
                    f"export the whole value before you submit, and pass it on with --env {name}",
                )
            continue
        by_task = [name for name in names if name in _TASKS]
        if by_task and processes > 1:
            yield Violation(
                f"{place}: {_named(by_task)} {verb(len(by_task), 'differs', 'differ')} in "
                f"each of the {processes} processes, and --expand replaces it once, before they "
                "start",
                "let the program read the variable, or a shell in each task: bash -c "
                f"'exec PROGRAM $${by_task[0]}'",
            )
        elif not _may_be_set(plan):
            unset += [other for other in names if other != name and not _is_set(context, other)]
        if re.search(r"`|\$\(|\$\{(?![A-Za-z_]\w*\})", value):
            yield Violation(
                f"{place}: --expand replaces $NAME and ${{NAME}} only; $(…), `…` and other forms "
                "stand as typed",
                "set a variable in a line of shell: --setup 'NAME=$(…)', and refer to it",
                severity=WARNING,
            )
    if unset:
        names = tuple(dict.fromkeys(unset))
        yield Violation(
            f"{_named(names)} {verb(len(names))} not set here, and nothing in the job sets it: it "
            "would be empty",
            f"correct the name, or give a value: --env {names[0]}=VALUE",
            severity=WARNING,
        )


def _may_be_set(plan: JobPlan) -> bool:
    """Whether lines of the user's or of the site's may set any variable."""
    request = plan.request
    lines: Tuple[object, ...] = (request.modules, request.setup)
    return any((*lines, request.conda, request.venv, plan.cluster.policy.login_shell))


def _is_set(context: RuleContext, name: str) -> bool:
    """Whether the batch shell has the variable, as far as is known."""
    plan = context.plan
    if name in _BASHS or any(export.name == name for export in plan.exports):
        return True
    if name in _LAUNCHS:
        return plan.rendezvous and name.startswith("MASTER_")
    if name.startswith("SLURM_ARRAY_"):
        return plan.request.array is not None
    if name.startswith(("SLURM_", "SLURMD_")):
        return True
    if name == "CUDA_VISIBLE_DEVICES":
        return plan.gpus_per_node > 0
    return not context.local.directory or name in context.local.variables


@rule(ERROR, "NC343", "return in a setup line")
def return_in_setup(context: RuleContext) -> Iterator[Violation]:
    request = context.plan.request
    options = (("--setup", request.setup),)
    for option, lines in options:
        text = "\n".join(lines)
        if "return" not in text:
            continue
        from neuronctl.scripts.statements import returns  # here, as few jobs have one

        if returns(text):
            yield Violation(
                f"{option}: 'return' outside a function does not end a script, and in some jobs "
                "it would end the job with exit code 0 before the program starts",
                "write 'exit 1' to end the job, or 'if …; then …; fi' to leave lines out",
            )
