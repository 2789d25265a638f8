"""NC4xx: what can be seen on this machine: the program, the log directory."""

from __future__ import annotations

from typing import Iterator

from neuronctl.rules.base import ERROR, WARNING, Subject, Violation, rule


@rule("NC401", "program cannot be run")
def program(subject: Subject) -> Iterator[Violation]:
    here = subject.situation
    if here is not None and here.script_problem:
        yield Violation(
            here.script_problem,
            here.script_hint
            or "give a path that holds on the nodes, from the directory you stand in",
            severity=WARNING if subject.reviewed else ERROR,
        )


@rule("NC402", "program is a batch script itself")
def batch_script(subject: Subject) -> Iterator[Violation]:
    here = subject.situation
    if here is not None and here.has_directives:
        yield Violation(
            f"{subject.plan.request.script} is a batch script: its #SBATCH lines are not read when "
            "it is started as a program, and what it launches would be launched in every task",
            f"'sbatch {subject.plan.request.script}' runs it as it is; or give its options to "
            "neuronctl, and the program that it starts as SCRIPT",
        )


@rule("NC403", "container image cannot be used")
def image(subject: Subject) -> Iterator[Violation]:
    here = subject.situation
    if here is not None and here.image_problem:
        directories = subject.plan.cluster.containers.image_dirs
        yield Violation(
            here.image_problem,
            f"the site's images lie in {', '.join(directories)}" if directories else "",
            severity=WARNING if subject.reviewed else ERROR,
        )


@rule("NC406", "environment cannot be activated")
def environment(subject: Subject) -> Iterator[Violation]:
    here = subject.situation
    if here is not None and here.environment_problem:
        yield Violation(
            here.environment_problem,
            here.environment_hint,
            severity=WARNING if subject.reviewed else ERROR,
        )


@rule("NC404", "software of another architecture")
def architecture(subject: Subject) -> Iterator[Violation]:
    here, partition = subject.situation, subject.plan.partition
    for what, arch in here.built_for if here is not None else ():
        if arch != partition.arch:
            yield Violation(
                f"{what} is built for {arch}, the nodes of {partition.name} are {partition.arch}: "
                "nothing of it would run there",
                f"build it on a node of {partition.name}, or take another partition",
                subject.cite_partition("arch"),
            )


@rule("NC405", "modules of another architecture", WARNING)
def module_prefix(subject: Subject) -> Iterator[Violation]:
    plan, prefix = subject.plan, subject.plan.partition.module_prefix
    others = [one for one in plan.request.modules if not one.startswith(prefix)]
    if others:
        yield Violation(
            f"modules for the nodes of {plan.partition.name} begin with {prefix}, and these do "
            f"not: {', '.join(others)}",
            f"look with 'module avail {prefix}' on such a node",
            subject.cite_partition("module_prefix"),
        )


@rule("NC411", "log file cannot be written")
def log_file(subject: Subject) -> Iterator[Violation]:
    here = subject.situation
    if here is not None and here.log_problem:
        yield Violation(
            f"{here.log_problem}; the job would fail at its start (exit code 0:53) without a log",
            here.log_hint,
            severity=WARNING if subject.reviewed else ERROR,
        )
