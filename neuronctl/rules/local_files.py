"""NC314, NC315, NC4xx: what this machine shows: the program, its software, the log directory."""

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
    if fault is not None and context.plan.request.setup:
        # Such a line may change the directory or create the program.
        message = f"{fault.message}, unless a setup line provides it"
        fault = replace(fault, message=message, severity=WARNING)
    yield from filter(None, [fault])


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
    effect = "the job would fail at start (exit code 0:53), without a log"
    late = "; a mkdir in the script comes too late" if context.batch_script else ""
    if fault.severity == WARNING:
        effect, late = "what the job writes would be lost", ""
    yield replace(fault, message=f"{fault.message}; {effect}", hint=fault.hint + late)


@job_rule(WARNING, "NC413", "quota nearly used up", Trait.ONLY_NOW, about="")
def check_quota(context: RuleContext) -> Iterator[Finding]:
    for one in context.local.quotas:
        if one.is_low:
            yield Finding(
                f"{one.words}; the job writes there: {', '.join(one.holds)}",
                "use the options named, or free some space: du -xh -d 1 DIR | sort -h shows what "
                "takes it, and du --inodes where the files are",
            )


def _has_directives(body: str) -> bool:
    if "#SBATCH " not in body:
        return False
    from neuronctl.scripts.shell_reader import read_shell

    texts = read_shell(body).documents  # the text of another script
    lines = enumerate(body.split("\n"), 1)
    return any(line.startswith("#SBATCH ") and number not in texts for number, line in lines)


@job_rule(ERROR, "NC402", "program is a batch script itself", Trait.LAUNCH | Trait.STEP)
def check_batch_script(context: RuleContext) -> Iterator[Finding]:
    here, request = context.local, context.plan.request
    if request.body is not None and _has_directives(request.body):
        message = "the shell text has #SBATCH lines, which Slurm does not read there"
        yield Finding(message, "give these options to neuronctl, and remove the lines")
    if here.has_directives:
        yield Finding(
            f"{request.script} is a batch script: Slurm ignores the #SBATCH lines of a program",
            f"'neuronctl submit {request.script}' submits it as it is; or give its options to "
            "neuronctl, and the program that it starts as SCRIPT",
        )


@job_rule(ERROR, "NC407", "shell text that cannot be read")
def check_broken_shell_text(context: RuleContext) -> Iterator[Finding]:
    for step, text, problem in context.local.broken_texts:
        message = f"{step}bash cannot read {text}, line {problem.place.line}: {problem.message}"
        hint = "look for an open quote, bracket, block, or here-document at or before that line"
        yield Finding(message, hint)


@job_rule(WARNING, "NC405", "modules of another architecture", about="")
def check_module_prefix(context: RuleContext) -> Iterator[Finding]:
    plan, prefix = context.plan, context.plan.partition.module_prefix
    others = [module for module in plan.request.modules if not module.startswith(prefix)]
    if others:
        yield Finding(
            f"modules for the nodes of {plan.partition.name} begin with {prefix}; these do not: "
            f"{', '.join(others)}",
            f"list them with 'module avail {prefix}' on such a node",
            context.cite_partition("module_prefix"),
            word=others[0],
        )


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
    own = words[names.index("uv") + 1 :]
    call = next((word for word in own if not word.startswith("-")), "")
    if call not in ("run", "sync", "add") or {"--no-sync", "--no-project", "--isolated"} & set(own):
        return ""
    return f"uv {call}"


SYNC_ONCE = "run 'uv sync' once on the login node, and write uv run --no-sync or .venv/bin/python"


@job_rule(WARNING, "NC315", "uv changes one environment in several tasks", Trait.STEP)
def check_uv_in_tasks(context: RuleContext) -> Iterator[Finding]:
    launch, request = context.launch, context.launch.request
    variables = {*context.local.variables, *dict(request.env)}
    if variables & {"UV_NO_SYNC", "UV_PROJECT_ENVIRONMENT"}:
        return
    program = uv_changes((request.script or "", *request.args))
    line = next(filter(None, (uv_changes(line.split()) for line in request.setup)), "")
    array = "each task of the array" if request.array else ""
    tasks = f"each of {launch.processes} processes" if program and launch.processes > 1 else array
    if tasks and (program or line):
        message = f"'{program or line}' in {tasks} changes .venv while the others use it"
        yield Finding(f"{message}, and can break it", SYNC_ONCE)
