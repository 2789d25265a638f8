"""NC4xx: what can be seen on this machine: the program, its software, the log directory."""

from __future__ import annotations

import re
from functools import partial
from typing import Iterator, Tuple

from neuronctl.rule_codes import ERROR, WARNING
from neuronctl.rules.base import RuleContext, Violation, rule
from neuronctl.words import verb


def _found(context: RuleContext, code: str) -> Iterator[Violation]:
    """What ``gate/local_facts`` found already."""
    if code in context.local.problems:
        message, hint = context.local.problems[code]
        # A setup line may change the directory, or make the program.
        unsure = code == "NC401" and context.plan.request.setup
        if unsure:
            message += ", unless a setup line provides it"
        yield Violation(message, hint, severity=WARNING if context.reviewed or unsure else ERROR)


for _code in ("NC401", "NC403", "NC406", "NC411", "NC412"):
    rule(_code)(partial(_found, code=_code))


def _has_directives(body: str) -> bool:
    if "#SBATCH " not in body:
        return False
    from neuronctl.batchscript.shell_text import read_shell

    lines = body.split("\n")
    # Those of a here-document are the text of another script.
    return any(lines[number - 1].startswith("#SBATCH ") for number in read_shell(body).comments)


@rule("NC402")
def batch_script(context: RuleContext) -> Iterator[Violation]:
    here, request = context.local, context.plan.request
    if request.body is not None and _has_directives(request.body):
        yield Violation(
            "the shell text has #SBATCH lines, which Slurm does not read there",
            "give these options to neuronctl, and remove the lines",
        )
    if here.has_directives:
        yield Violation(
            f"{request.script} is a batch script: Slurm ignores the #SBATCH lines of a program",
            f"'neuronctl submit {request.script}' submits it as it is; or give its options to "
            "neuronctl, and the program that it starts as SCRIPT",
        )


@rule("NC407")
def broken_shell_text(context: RuleContext) -> Iterator[Violation]:
    for problem in context.local.broken_texts:
        yield Violation(
            problem,
            "look for an open quote, bracket, block, or here-document at or before that line",
        )


@rule("NC404")
def architecture(context: RuleContext) -> Iterator[Violation]:
    partition = context.plan.partition
    for what, arch in context.local.built_for:
        if arch != partition.arch:
            yield Violation(
                f"{what} is built for {arch}; nodes in {partition.name} are {partition.arch}: it "
                "would not run there",
                f"build it on a node of {partition.name}, or use another partition",
                context.cite_partition("arch"),
            )


def _version(module: str) -> Tuple[str, Tuple[int, ...]]:
    """A module's name up to its version, and the version: ``gcc/``, (10, 2, 0)."""
    match = re.match(r"(.*?[/_:-])v?(\d{1,9}(?:\.\d{1,9})*)", module, re.ASCII)
    return (match[1], tuple(map(int, match[2].split(".")))) if match else (module, ())


@rule("NC408")
def old_module(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    older = {}
    for module in plan.request.modules:
        name, version = _version(module)
        known = [one for one in plan.cluster.modules if _version(one)[0] == name]
        if version and known and all(version < _version(one)[1] for one in known):
            older[module] = known
    if older:
        words = ", ".join(f"{one} (known: {', '.join(known)})" for one, known in older.items())
        yield Violation(
            f"{words} {verb(len(older))} older than every version that {plan.cluster.name} "
            "is known to have: 'module load' may fail",
            "see what there is now with 'module avail', and rebuild what was built with it",
            context.cite("modules"),
            word=next(iter(older)),
        )


@rule("NC405")
def module_prefix(context: RuleContext) -> Iterator[Violation]:
    plan, prefix = context.plan, context.plan.partition.module_prefix
    others = [one for one in plan.request.modules if not one.startswith(prefix)]
    if others:
        yield Violation(
            f"modules for the nodes of {plan.partition.name} begin with {prefix}; these do not: "
            f"{', '.join(others)}",
            f"list them with 'module avail {prefix}' on such a node",
            context.cite_partition("module_prefix"),
            word=others[0],
        )
