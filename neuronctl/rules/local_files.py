"""NC4xx: what can be seen on this machine: the program, its software, the log directory."""

from __future__ import annotations

from typing import Iterator

from neuronctl.rule_codes import ERROR, WARNING
from neuronctl.rules.base import RuleContext, Violation, rule


@rule("NC401")
def program(context: RuleContext) -> Iterator[Violation]:
    here = context.local
    if here is not None and here.script_problem:
        yield Violation(
            here.script_problem,
            here.script_hint
            or "give a path that is valid on the nodes, relative to the current directory",
            severity=WARNING if context.reviewed else ERROR,
        )


@rule("NC402")
def batch_script(context: RuleContext) -> Iterator[Violation]:
    here = context.local
    if here is not None and here.has_directives:
        yield Violation(
            f"{context.plan.request.script} is a batch script: as a program its #SBATCH lines are "
            "ignored, and what it launches would be launched in every task",
            f"'sbatch {context.plan.request.script}' runs it as it is; or give its options to "
            "neuronctl, and the program that it starts as SCRIPT",
        )


@rule("NC403")
def image(context: RuleContext) -> Iterator[Violation]:
    here = context.local
    if here is not None and here.image_problem:
        directories = context.plan.cluster.containers.image_dirs
        yield Violation(
            here.image_problem,
            f"the site's images are in {', '.join(directories)}" if directories else "",
            severity=WARNING if context.reviewed else ERROR,
        )


@rule("NC406")
def environment(context: RuleContext) -> Iterator[Violation]:
    here = context.local
    if here is not None and here.environment_problem:
        yield Violation(
            here.environment_problem,
            here.environment_hint,
            severity=WARNING if context.reviewed else ERROR,
        )


@rule("NC404")
def architecture(context: RuleContext) -> Iterator[Violation]:
    here, partition = context.local, context.plan.partition
    for what, arch in here.built_for if here is not None else ():
        if arch != partition.arch:
            yield Violation(
                f"{what} is built for {arch}; nodes in {partition.name} are {partition.arch}: it "
                "would not run there",
                f"build it on a node of {partition.name}, or use another partition",
                context.cite_partition("arch"),
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
        )


@rule("NC411")
def log_file(context: RuleContext) -> Iterator[Violation]:
    here = context.local
    if here is not None and here.log_problem:
        yield Violation(
            f"{here.log_problem}; the job would fail at start (exit code 0:53), without a log",
            here.log_hint,
            severity=WARNING if context.reviewed else ERROR,
        )
