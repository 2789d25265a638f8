"""What goes wrong if several processes or tasks do the same: NC314 and NC315."""

from __future__ import annotations

from typing import Iterator, Sequence

from neuronctl.common.rule_codes import WARNING
from neuronctl.planning.software import python_file
from neuronctl.rules.base import Finding, RuleContext, Trait, job_rule

RANK_0_ONLY = "let rank 0 alone call it: if int(os.environ.get('RANK', 0)) == 0:"


@job_rule(WARNING, "NC314", "every rank starts a W&B run", Trait.LAUNCH | Trait.STEP)
def every_rank_logs(context: RuleContext) -> Iterator[Finding]:
    launch, line = context.launch, context.local.wandb_line
    if line:
        yield Finding(
            f"{python_file(launch.request)}:{line} calls wandb.init in each of the "
            f"{launch.processes} processes: they write into one W&B run, or make one each",
            RANK_0_ONLY,
        )


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
def uv_in_tasks(context: RuleContext) -> Iterator[Finding]:
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
