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
            "give a path that holds on the nodes, from the directory you submit in",
            severity=WARNING if subject.reviewed else ERROR,
        )


@rule("NC402", "program is a batch script itself", WARNING)
def batch_script(subject: Subject) -> Iterator[Violation]:
    here = subject.situation
    if here is not None and here.has_directives:
        yield Violation(
            f"{subject.plan.request.script} has #SBATCH lines of its own, which are not read when "
            "it is started as a program",
            "give their options to neuronctl, and the program they start as SCRIPT",
        )


@rule("NC411", "log file cannot be written")
def log_file(subject: Subject) -> Iterator[Violation]:
    here = subject.situation
    if here is not None and here.log_problem:
        yield Violation(
            f"{here.log_problem}; the job would fail at its start (exit code 0:53) without a log",
            "make the directory first, or choose another with -o",
            severity=WARNING if subject.reviewed else ERROR,
        )
