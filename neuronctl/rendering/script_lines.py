"""Script lines of every kind of job: directives, variables, shell text, steps."""

from __future__ import annotations

import re
import shlex
from typing import Iterable, List, Optional, Sequence, Tuple, Union

from neuronctl.common.console import printable
from neuronctl.common.datatypes import replace
from neuronctl.common.shell import Shell, quote, sets_errexit
from neuronctl.planning import Directive, Export, JobPlan, Launch
from neuronctl.planning.software import WANDB_RUN
from neuronctl.rendering.launch_command import launch_parts, launch_words, wrap_command

RemarkedLine = Tuple[str, str]
"""A line of a script, and a remark on it or ""."""

_PLAIN = r"[A-Za-z0-9_@%+=:,./\[\]*^&|!?~()<>-]+\Z"
"""Matches a value that needs no quotes after #SBATCH."""


def directive_lines(plan: JobPlan) -> List[str]:
    """Return the ``#SBATCH`` lines of a plan, with remarks on derived values."""
    return add_remarks(
        [(f"#SBATCH {option_text(directive)}", directive.remark) for directive in plan.directives]
    )


def option_text(directive: Directive) -> str:
    """Return ``--option=value`` as a ``#SBATCH`` line has it."""
    if directive.value is None:
        return f"--{directive.option}"
    return f"--{directive.option}={quote_directive(directive.value)}"


def quote_directive(value: str) -> str:
    """Quote a value for ``#SBATCH``, where a backslash escapes and ``#`` ends the line."""
    if re.match(_PLAIN, value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def variable_lines(plan: JobPlan, port_number: str = "SLURM_JOB_ID") -> List[str]:
    """Return the lines that set where the processes meet, and the job's variables.

    port_number: a shell expression, of different values for launches that share a node.
    """
    before = "launch" if plan.launches[0].hosts else "submit"
    meeting = _meeting_lines(plan, plan.launches[0], port_number)
    return add_remarks([*meeting, *export_lines(plan.exports, before)])


def _meeting_lines(plan: JobPlan, launch: Launch, port_number: str) -> List[RemarkedLine]:
    """Return the lines that set MASTER_ADDR and MASTER_PORT, or those that unset them."""
    # The port is below the range that the kernel uses for outgoing connections.
    port = f"MASTER_PORT=$((10000 + {port_number} % 20000))"
    if plan.rendezvous and plan.most_nodes > 1:
        if launch.hosts:
            host = quote(launch.hosts[0])
        else:
            host = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
        suffix = plan.cluster.network.host_suffix
        return [
            (f"MASTER_ADDR={host}{suffix}", "the processes meet on the first node"),
            (f"export MASTER_ADDR {port}", "on a port derived from the job's id"),
        ]
    if plan.rendezvous:
        return [(f"export MASTER_ADDR=127.0.0.1 {port}", "where the processes meet")]
    starts_none = bool(plan.steps) or not launch.launcher.distributed
    starts_one = launch.processes == 1 and not launch.launcher.starts_processes()
    if not plan.interactive and (starts_none or starts_one):
        names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"
        return [(f"unset {names}", "in case a training set them")]
    return []


def export_lines(exports: Iterable[Export], before: str) -> List[RemarkedLine]:
    """Return the lines that set variables; a secret must already be set.

    before: what the user does after exporting a secret: ``"submit"`` or ``"launch"``.
    """
    lines = []
    for variable in exports:
        if variable.value is None:
            line = f': "${{{variable.name}:?is a secret: export it before you {before}}}"'
        else:
            line = f"export {variable.name}={quote(variable.value)}"
        if variable.name == WANDB_RUN and variable.remark:  # without a remark, it is the user's own
            line = f"[[ ${{WANDB_SWEEP_ID-}}${{WANDB_RUN_ID-nc-}} != nc-* ]] || {line}"
        lines.append((line, variable.remark))
    return lines


def add_remarks(lines: Sequence[RemarkedLine]) -> List[str]:
    """Return lines with their remarks aligned."""
    width = max((len(text) for text, remark in lines if remark and len(text) < 60), default=0)
    return [f"{text:<{width}}  # {printable(remark)}" if remark else text for text, remark in lines]


def shell_text_lines(text: str) -> str:
    """Return the user's shell text, changed so that it ends at the first line that fails."""
    lines = text.strip("\n")
    return lines if "\n" not in lines or sets_errexit(lines) else f"set -e\n{lines}"


def function_body(text: str) -> str:
    """Return the user's shell text as the body of a function."""
    lines = shell_text_lines(text)
    # bash parses a function at once; some text must be parsed line by line, as in a script.
    by_line = re.search(r"\b(extglob|expand_aliases)\b|\\\Z", lines)
    return f"eval {quote(lines)}" if by_line else lines


def indent_text(text: str) -> Optional[str]:
    """Return shell text indented by four columns; None if that would change what it does."""
    try:
        for line in text.split("\n"):
            shlex.split(line)
    except ValueError:  # a quotation continues on the next line
        return None
    return None if "<<" in text else re.sub("(?m)^(?=.)", "    ", text)


_WAIT = 'code=0; wait "$!" || code=$?'
_WAIT_FOR_ALL = 'code=0; for process in "${processes[@]}"; do wait "$process" || code=$?; done'


def step_lines(plan: JobPlan) -> List[str]:
    """Return the lines that run a job's steps, each in its own shell."""
    lines: List[str] = []
    for number, step in enumerate(plan.steps, 1):
        lines += [""] if lines else []
        if len(step) > 1:
            lines += [f"# Step {number}, side by side.", "processes=()"]
            for earlier, launch in enumerate(step):
                lines += [f"# {printable(launch.starts)}.", "{"]
                lines += [*_launch_lines(plan, launch, earlier), "} &", 'processes+=("$!")']
            lines.append(_WAIT_FOR_ALL)
        else:
            lines += [f"# Step {number}: {printable(step[0].starts)}.", "{"]
            lines += [*_launch_lines(plan, step[0]), "} &", _WAIT]
        lines.append(_failure_line(number, may_fail=step[0].allow_failure))
    return lines


def _failure_line(number: int, *, may_fail: bool) -> str:
    """Return the line that reports a failed step, and ends the job unless the step may fail."""
    then = "goes on" if may_fail else "ends with it"
    report = f'echo "step {number} failed with exit code $code; the job {then}" >&2'
    on_failure = report if may_fail else f'{{ {report}; exit "$code"; }}'
    return f'[ "$code" -eq 0 ] || {on_failure}'


_PROOF = 'sh -c "$NEURONCTL_PROVE" sh'
"""What srun starts instead of a task: the text in neuronctl/sweeping/worker/files.py runs it."""


def task_launch(plan: JobPlan) -> Tuple[str, bool]:
    """Return the text that launches a sweep's task (``$@``), and whether srun launches it.

    The text is "" if the task's command needs no launch around it.
    """
    launch, *others = plan.steps[0]  # one launch for each task that runs side by side
    # Each task has a W&B run of its own.
    exports = tuple(export for export in launch.exports if export.name != WANDB_RUN)
    program = Shell('"$@"')
    task = replace(launch, exports=exports, program=(program,))
    words = launch_words(plan, task, launch_parts(plan, task))
    adds_nothing = words == (program,)
    by_srun = words[0] == "srun"
    if by_srun:
        # srun begins another command at a word ":". _PROOF removes the "=" before each word.
        task = replace(task, program=(Shell('"${@/#/=}"'),))
    # The worker numbers the tasks side by side, and each gets a MASTER_PORT of its own.
    earlier = "NEURONCTL_SLOT" if others else ""
    *lines, command = _launch_lines(plan, task, earlier, _PROOF if by_srun else "")
    if adds_nothing and not lines:
        return "", by_srun
    return "\n".join([*lines, f"    exec {command.strip()}"]), by_srun


def _launch_lines(
    job: JobPlan, launch: Launch, earlier: Union[int, str] = 0, proof: str = ""
) -> Sequence[str]:
    """Return the lines that start one launch of a step.

    earlier: how many launches of the step start before this one, or the shell variable that has
    the number. proof: what srun starts instead, with the command as arguments; "": nothing.
    """
    parts = launch_parts(job, launch)
    changed = [export for export in launch.exports if export not in job.exports]
    lines = add_remarks(export_lines(changed, "submit"))
    if launch.rendezvous and launch.nodes == 1 and job.nodes > 1:
        lines.append("export MASTER_ADDR=127.0.0.1")
    if launch.rendezvous and earlier:
        lines.append(f"export MASTER_PORT=$((MASTER_PORT + {earlier}))")
    lines += parts.before
    if launch.inline:
        body = function_body(launch.request.body or "")
        return [*map(_indent, lines), indent_text(body) or body]
    words = list(launch_words(job, launch, parts))
    if proof:
        words.insert(
            len(parts.once) + len(launch.wrapping.srun), proof
        )  # it follows srun's own words
    command = wrap_command(words)
    if not _has_several_lines(launch):
        command = "\n".join(map(_indent, command.split("\n")))
    return [*map(_indent, lines), command]


def _has_several_lines(launch: Launch) -> bool:
    """Return True if a word of the user's has several lines, which indentation would change."""
    request = launch.request
    options = (*request.launcher_options, *request.container_options, *request.binds)
    return any("\n" in word for word in (*launch.program, *options))


def _indent(line: str) -> str:
    """Return a line indented by four columns; quoted text of several lines stays as it is."""
    return line if "\n" in line else f"    {line}"
