"""Script lines that run a job's steps, one after the other or side by side."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import List, Sequence, Tuple, Union

from neuronctl.common.console import printable
from neuronctl.common.shell import Shell, quote
from neuronctl.planning import JobPlan, Launch
from neuronctl.planning.software import WANDB_RUN
from neuronctl.rendering.launch_command import launch_parts, launch_words, wrapped
from neuronctl.rendering.script_lines import add_remarks, export_lines, function_body, indented

_FAILED = 'echo "step {number} failed with exit code $code; the job {then}" >&2'
_SIDE_BY_SIDE = 'code=0; for process in "${processes[@]}"; do wait "$process" || code=$?; done'


def step_lines(plan: JobPlan) -> List[str]:
    """Return the lines that run a job's steps, each in its own shell."""
    lines: List[str] = []
    for number, step in enumerate(plan.steps, 1):
        several = len(step) > 1
        lines += [""] if lines else []
        if several:
            lines += [f"# Step {number}, side by side.", "processes=()"]
        for beside, launch in enumerate(step):
            says = printable(launch.starts)
            lines += [f"# {says}." if several else f"# Step {number}: {says}.", "{"]
            lines += [*_launch_lines(plan, launch, beside), "} &"]
            lines += ['processes+=("$!")'] if several else []
        lines.append(_SIDE_BY_SIDE if several else 'code=0; wait "$!" || code=$?')
        may_fail = step[0].allow_failure
        then = "goes on" if may_fail else "ends with it"
        says = _FAILED.format(number=number, then=then)
        ends = says if may_fail else f'{{ {says}; exit "$code"; }}'
        lines.append(f'[ "$code" -eq 0 ] || {ends}')
    return lines


_PROOF = 'sh -c "$NEURONCTL_PROVE" sh'
"""What srun starts in place of a task; the text is in neuronctl/sweeping/worker/files.py."""


def task_launch(plan: JobPlan) -> Tuple[str, bool]:
    """Return the text that launches a sweep's task (``$@``), or "", and whether srun does."""
    first, *others = plan.steps[0]
    beside = "NEURONCTL_SLOT" if others else ""
    # A task has its own.
    exports = tuple(export for export in first.exports if export.name != WANDB_RUN)
    first = replace(first, exports=exports)
    launch = replace(first, program=(Shell('"$@"'),))
    words = launch_words(plan, launch, launch_parts(plan, launch))
    by_srun = words[0] == "srun"
    if by_srun:  # srun would take a lone colon
        launch = replace(first, program=(Shell('"${@/#/=}"'),))
    *lines, last = _launch_lines(plan, launch, beside, _PROOF if by_srun else "")
    if not lines and words == ('"$@"',):
        return "", by_srun
    return "\n".join([*lines, f"    exec {last.strip()}"]), by_srun


def _launch_lines(
    job: JobPlan, launch: Launch, beside: Union[int, str], proof: str = ""
) -> Sequence[str]:
    """Return the lines of one launch.

    beside: how many others start just before it, or a variable that tells it. proof: what srun
    starts in place of the command, with the command's words.
    """
    parts = launch_parts(job, launch)
    changed = [export for export in launch.exports if export not in job.exports]
    lines = add_remarks(export_lines(changed, "submit"))
    if launch.rendezvous and launch.nodes == 1 and job.nodes > 1:
        lines.append("export MASTER_ADDR=127.0.0.1")
    if launch.rendezvous and beside:
        lines.append(f"export MASTER_PORT=$((MASTER_PORT + {beside}))")
    lines += parts.before
    if not launch.inline:
        once = (*parts.once, *map(quote, launch.wrapping.srun))
        words = launch_words(job, launch, parts)
        words = (*once, proof, *words[len(once) :]) if proof else words
        lines.append(wrapped(words))
        return [re.sub("(?m)^", "    ", line) for line in lines]
    body = function_body(launch.request.body or "")
    return [*(f"    {line}" for line in lines), indented(body) or body]
