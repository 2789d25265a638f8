"""NC4xx: what can be seen on this machine: the program, its software, the log directory."""

from __future__ import annotations

from typing import Iterator

from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.common.shell import quote
from neuronctl.launch.environments import CONDA_PLACES
from neuronctl.rules.base import Fault, Kind, RuleContext, Violation, rule


@rule(ERROR, "NC412", "directory cannot be entered", "of_machine only_now", about="chdir")
def job_directory(context: RuleContext) -> Iterator[Violation]:
    fault, directory = context.local.chdir, context.plan.request.chdir
    if fault is None or directory is None:
        return
    words = f"there is no directory '{directory}': Slurm would run the job in /tmp"
    if fault.kind == Kind.DENIED:
        words = f"you cannot enter the directory '{directory}': permission denied"
    hint = f"create it first: mkdir -p {quote(directory)}; or name another"
    if fault.kind == Kind.MISSING and "~" in directory.split("/"):
        hint = "Slurm takes ~ as a name: write the home directory out"
    yield Violation(words, hint)


@rule(ERROR, "NC401", "program cannot be run", "of_machine of_launch of_step first")
def program(context: RuleContext) -> Iterator[Violation]:
    fault, request = context.local.program, context.plan.request
    for name in context.local.not_on_path:
        yield Violation(
            f"no program '{name}' on PATH, which the job inherits: the job would fail at once",
            "name the environment that has it: --conda NAME, --venv DIR, or --module NAME",
            severity=WARNING,
        )
    if fault is None:
        return
    script = request.script or ""
    where = request.chdir or "this directory"
    words = {
        Kind.DIRECTORY: f"'{script}' is a directory, not a program",
        Kind.NOT_ON_PATH: f"no program '{script}' in {where} or on PATH",
        Kind.MISSING: f"no file '{script}' in {request.chdir or context.local.directory}",
        Kind.NO_FILE: f"'{script}' is not a file",
        Kind.UNREADABLE: f"cannot read '{script}': {fault.more}",
        Kind.NOT_EXECUTABLE: f"'{script}' is not executable",
    }[fault.kind]
    hint = "give a path that is valid on the nodes, relative to the job's directory"
    if fault.kind == Kind.NOT_EXECUTABLE:
        hint = f"chmod +x {quote(script)}, or run it with bash: bash {quote(script)}"
    if request.setup:  # such a line may change the directory, or make the program
        yield Violation(f"{words}, unless a setup line provides it", hint, severity=WARNING)
    else:
        yield Violation(words, hint)


@rule(ERROR, "NC403", "container image cannot be used", "of_machine of_launch")
def image(context: RuleContext) -> Iterator[Violation]:
    fault, directories = context.local.image, context.plan.cluster.containers.image_dirs
    if fault is not None:
        words = f"no container image '{fault.path}'"
        if fault.kind == Kind.DENIED:
            words = f"cannot read the container image '{fault.path}': permission denied"
        yield Violation(
            words, f"the site's images are in {', '.join(directories)}" if directories else ""
        )


@rule(ERROR, "NC406", "environment cannot be activated", "of_machine")
def environment(context: RuleContext) -> Iterator[Violation]:
    fault, request = context.local.environment, context.plan.request
    if fault is None:
        return
    if fault.kind == Kind.NO_VENV:
        yield Violation(
            f"'{fault.path}' is not a virtual environment: it has no bin/activate",
            "name the directory that 'python3 -m venv' created",
        )
    elif fault.kind == Kind.NO_CONDA:
        yield Violation(
            "--conda needs 'conda', which is neither on PATH (the job inherits it) nor in "
            f"{', '.join(CONDA_PLACES)}",
            "load the module that provides it (--module NAME), or name the environment by its path",
        )
    elif fault.path == request.conda:
        yield Violation(
            f"no conda environment '{fault.path}'", "name another; 'conda env list' lists yours"
        )
    else:
        yield Violation(
            f"no virtual environment '{fault.path}'",
            f"create it first: python3 -m venv {quote(fault.path)}; or name another",
        )


@rule(ERROR, "NC411", "log file cannot be written", "of_machine", about="output error")
def log(context: RuleContext) -> Iterator[Violation]:
    fault = context.local.log
    if fault is not None and fault.kind == Kind.FULL:
        words = f"{log_words(fault)}; what the job writes would be lost"
        yield Violation(words, "free some space there, or choose another with -o", severity=WARNING)
    elif fault is not None:
        hint = "choose another with -o"
        if fault.kind == Kind.NAMED_BY_ID:
            hint = "put the id into the file name, as in -o %x_%j.out"
        elif fault.kind == Kind.MISSING:
            hint = f"create it first: mkdir -p {quote(fault.path)}; or {hint}"
        fails = "the job would fail at start (exit code 0:53), without a log"
        yield Violation(f"{log_words(fault)}; {fails}", hint)


def log_words(fault: Fault) -> str:
    """Return why a log cannot be written."""
    return {
        Kind.NAMED_BY_ID: f"the log directory '{fault.path}' cannot exist yet: it is named after "
        "the job id",
        Kind.DIRECTORY: f"the log file '{fault.path}' is a directory",
        Kind.MISSING: f"the log directory '{fault.path}' does not exist",
        Kind.DENIED: f"you cannot write to the log directory '{fault.path}'",
        Kind.FULL: f"the file system of the log directory '{fault.path}' is full",
    }[fault.kind]


def _has_directives(body: str) -> bool:
    if "#SBATCH " not in body:
        return False
    from neuronctl.scripts.shell_reader import read_shell

    texts = read_shell(body).documents  # the text of another script
    lines = enumerate(body.split("\n"), 1)
    return any(line.startswith("#SBATCH ") and number not in texts for number, line in lines)


@rule(ERROR, "NC402", "program is a batch script itself", "of_launch of_step")
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


@rule(ERROR, "NC407", "shell text that cannot be read")
def broken_shell_text(context: RuleContext) -> Iterator[Violation]:
    for step, text, problem in context.local.broken_texts:
        where = f"line {problem.place.line}, column {problem.place.column}"
        yield Violation(
            f"{step}bash cannot read {text}, {where}: {problem.message}",
            "look for an open quote, bracket, block, or here-document at or before that line",
        )


@rule(WARNING, "NC405", "modules of another architecture", about="")
def module_prefix(context: RuleContext) -> Iterator[Violation]:
    plan, prefix = context.plan, context.plan.partition.module_prefix
    others = [module for module in plan.request.modules if not module.startswith(prefix)]
    if others:
        yield Violation(
            f"modules for the nodes of {plan.partition.name} begin with {prefix}; these do not: "
            f"{', '.join(others)}",
            f"list them with 'module avail {prefix}' on such a node",
            context.cite_partition("module_prefix"),
            word=others[0],
        )
