"""NC314, NC315, NC4xx: the program, its software, and its log directory on this machine."""

from __future__ import annotations

from typing import Iterator, Sequence

from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.planning.software import python_file
from neuronctl.rules.base import Finding, RuleContext, Trait, job_rule


@job_rule(
    ERROR, "NC412", "directory cannot be entered", Trait.MACHINE | Trait.ONLY_NOW, about="chdir"
)
def check_job_directory(context: RuleContext) -> Iterator[Finding]:
    return filter(None, [context.local.chdir])


@job_rule(
    ERROR, "NC401", "program cannot be run", Trait.MACHINE | Trait.LAUNCH | Trait.STEP | Trait.FIRST
)
def check_program(context: RuleContext) -> Iterator[Finding]:
    fault = context.local.program
    for name in context.local.not_on_path:
        message = f"no program '{name}' on PATH, which the job inherits: the job would fail at once"
        hint = "name the environment that has it: --conda NAME, --venv DIR, or --module NAME"
        yield Finding(message, hint, severity=WARNING)
    if fault is None:
        return
    if context.plan.request.setup:  # it may change the directory or create the program
        message = f"{fault.message}, unless a setup line provides it"
        yield replace(fault, message=message, severity=WARNING)
    else:
        yield fault


@job_rule(ERROR, "NC403", "container image cannot be used", Trait.MACHINE | Trait.LAUNCH)
def check_image(context: RuleContext) -> Iterator[Finding]:
    return filter(None, [context.local.image])


@job_rule(ERROR, "NC406", "environment cannot be activated", Trait.MACHINE)
def check_environment(context: RuleContext) -> Iterator[Finding]:
    return filter(None, [context.local.environment])


@job_rule(ERROR, "NC411", "log file cannot be written", Trait.MACHINE, about="output error")
def check_log(context: RuleContext) -> Iterator[Finding]:
    fault = context.local.log
    if fault is None:
        return
    if fault.severity == WARNING:  # the file system is full
        yield replace(fault, message=f"{fault.message}; what the job writes would be lost")
        return
    message = f"{fault.message}; the job would fail at start (exit code 0:53), without a log"
    remark = "; a mkdir in the script comes too late" if context.batch_script else ""
    yield replace(fault, message=message, hint=fault.hint + remark)


@job_rule(WARNING, "NC413", "quota nearly used up", Trait.ONLY_NOW, about="")
def check_quota(context: RuleContext) -> Iterator[Finding]:
    for quota in context.local.quotas:
        if quota.is_low:
            message = f"{quota.words}; the job writes there: {', '.join(quota.holds)}"
            hint = "use the options named, or free some space: du -xh -d 1 DIR | sort -h shows "
            hint += "what takes it, and du --inodes where the files are"
            yield Finding(message, hint)


def _has_directives(body: str) -> bool:
    """Return True if shell text has #SBATCH lines that are not those of a script that it writes."""
    if "#SBATCH " not in body:
        return False
    from neuronctl.scripts.shell_reader import read_shell

    documents = read_shell(body).documents
    lines = enumerate(body.split("\n"), 1)
    return any(line.startswith("#SBATCH ") and number not in documents for number, line in lines)


@job_rule(ERROR, "NC402", "program is a batch script itself", Trait.LAUNCH | Trait.STEP)
def check_batch_script(context: RuleContext) -> Iterator[Finding]:
    here, request = context.local, context.plan.request
    if request.body is not None and _has_directives(request.body):
        message = "the shell text has #SBATCH lines, which Slurm does not read there"
        yield Finding(message, "give these options to neuronctl, and remove the lines")
    if here.has_directives:
        script = request.script
        message = f"{script} is a batch script: Slurm ignores the #SBATCH lines of a program"
        hint = f"'neuronctl submit {script}' submits it as it is; or give its options to "
        yield Finding(message, f"{hint}neuronctl, and the program that it starts as SCRIPT")


@job_rule(ERROR, "NC407", "shell text that cannot be read")
def check_broken_shell_text(context: RuleContext) -> Iterator[Finding]:
    for prefix, name, problem in context.local.broken_texts:
        message = f"{prefix}bash cannot read {name}, line {problem.place.line}: {problem.message}"
        hint = "look for an open quote, bracket, block, or here-document at or before that line"
        yield Finding(message, hint)


@job_rule(WARNING, "NC405", "modules of another architecture", about="")
def check_module_prefix(context: RuleContext) -> Iterator[Finding]:
    plan, prefix = context.plan, context.plan.partition.module_prefix
    others = [module for module in plan.request.modules if not module.startswith(prefix)]
    if others:
        message = f"modules for the nodes of {plan.partition.name} begin with {prefix}; these do "
        message += f"not: {', '.join(others)}"
        hint = f"list them with 'module avail {prefix}' on such a node"
        yield Finding(message, hint, context.cite_partition("module_prefix"), word=others[0])


RANK_0_ONLY = "let rank 0 alone call it: if int(os.environ.get('RANK', 0)) == 0:"


@job_rule(WARNING, "NC314", "every rank starts a W&B run", Trait.LAUNCH | Trait.STEP)
def check_every_rank_logs(context: RuleContext) -> Iterator[Finding]:
    launch, line = context.launch, context.local.wandb_line
    if line:
        message = f"{python_file(launch.request)}:{line} calls wandb.init in each of the "
        message += f"{launch.processes} processes: they write into one W&B run, or make one each"
        yield Finding(message, RANK_0_ONLY)


def uv_changes(words: Sequence[str]) -> str:
    """Return the uv call that changes the project's environment, such as ``uv run``, or ""."""
    names = [word.rpartition("/")[2] for word in words]
    if "uv" not in names:
        return ""
    arguments = words[names.index("uv") + 1 :]
    command = next((word for word in arguments if not word.startswith("-")), "")
    keeps_environment = {"--no-sync", "--no-project", "--isolated"} & {*arguments}
    return f"uv {command}" if command in ("run", "sync", "add") and not keeps_environment else ""


SYNC_ONCE = "run 'uv sync' once on the login node, and write uv run --no-sync or .venv/bin/python"


@job_rule(WARNING, "NC315", "uv changes one environment in several tasks", Trait.STEP)
def check_uv_in_tasks(context: RuleContext) -> Iterator[Finding]:
    launch, request = context.launch, context.launch.request
    variables = {*context.local.variables, *dict(request.env)}
    if variables & {"UV_NO_SYNC", "UV_PROJECT_ENVIRONMENT"}:
        return
    program = uv_changes((request.script or "", *request.args))
    calls = [program, *(uv_changes(line.split()) for line in request.setup)]
    call = next(filter(None, calls), "")
    tasks = "each task of the array" if request.array else ""
    if program and launch.processes > 1:
        tasks = f"each of {launch.processes} processes"
    if tasks and call:
        message = f"'{call}' in {tasks} changes .venv while the others use it, and can break it"
        yield Finding(message, SYNC_ONCE)
