"""From a plan to the text of a script."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from neuronctl.console import printable
from neuronctl.errors import TemplateError
from neuronctl.frozen import dataclass, replace
from neuronctl.planning import Directive, JobPlan
from neuronctl.rendering import template_environment
from neuronctl.rendering.launch_command import launch_parts, launch_text
from neuronctl.rendering.preflight import checks
from neuronctl.rendering.template_errors import refuse_what_vanishes, reported
from neuronctl.shell import quote

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]*^&|!?~()<>-]+\Z")


def render_job(plan: JobPlan, *, template: Optional[str] = None) -> str:
    """The batch script of ``plan``; ``template`` is a file in place of job.sh.j2.

    Raises TemplateError with file and line.
    """
    starts = (
        printable(plan.starts) if plan.nodes * plan.ntasks_per_node * plan.processes > 1 else ""
    )
    return _render("job.sh.j2", plan, template, steps=_steps(plan), starts=starts)


def render_shell(
    plan: JobPlan, *, command: Optional[str] = None, template: Optional[str] = None
) -> str:
    """What the shell on the first node of an interactive allocation reads at its start.

    command: shell text of the command that the text ends by running, in place of a shell.
    """
    return _render("salloc.sh.j2", plan, template, command=command)


def render_run(plan: JobPlan) -> str:
    """The shell text that launches ``plan`` from the allocation it stands in."""
    return _render("run.sh.j2", plan)


def _render(name: str, plan: JobPlan, asked: Optional[str] = None, **more: Any) -> str:
    """Fill in a template: a shipped one's name, which the user's own of that name replaces.

    asked: a file, by a path with a slash, or the name of one of the user's, in its place.
    ``shipped/NAME`` is always the shipped one, for the user's to extend. What lies in the working
    directory never counts by its name alone: a template is a program.
    """
    directories = template_environment.directories()
    shipped = template_environment.shipped_directory()
    first = []
    if asked is not None:
        name = asked
        if os.sep in asked and not asked.startswith("shipped/"):
            if not os.path.exists(asked):
                raise TemplateError(f"there is no template '{asked}'", "name an existing file")
            first = [os.path.dirname(os.path.abspath(asked))]
            name = os.path.basename(asked)
    parts = launch_parts(plan)
    context: Dict[str, Any] = {
        "plan": plan,
        "directives": directive_lines(plan),
        "exports": export_lines(plan),
        "before": parts.before,
        "launch": launch_text(plan, parts),
        "checks": checks(plan, parts),
        **more,
    }
    environment = template_environment.for_scripts(*first)
    with reported(name, (*directories, *first)):
        template = environment.get_template(name)
        text = template.render(context)
        if os.path.dirname(str(template.filename)) != shipped:
            refuse_what_vanishes(environment, name)
        return text


@dataclass(frozen=True)
class Run:
    """A launch as a job's script has it.

    says: what is started how often. lines: what comes before the launch.
    """

    says: str
    lines: Tuple[str, ...]
    launch: str


@dataclass(frozen=True)
class StepText:
    """A step as a job's script has it: what runs side by side, or one run."""

    runs: Tuple[Run, ...]
    allow_failure: bool = False


def _steps(plan: JobPlan) -> List[StepText]:
    return [
        StepText(
            tuple(_run(plan, launch, index) for index, launch in enumerate(step.launches)),
            step.allow_failure,
        )
        for step in plan.steps
    ]


def _run(job: JobPlan, plan: JobPlan, beside: int) -> Run:
    """beside: how many others were started just before, at the same time."""
    parts = launch_parts(plan)
    changed = [export for export in plan.exports if export not in job.exports]
    lines = export_lines(replace(plan, exports=tuple(changed)))
    if plan.rendezvous and plan.nodes == 1 and job.nodes > 1:
        lines.append("export MASTER_ADDR=127.0.0.1")
    if plan.rendezvous and beside:
        lines.append(f"export MASTER_PORT=$((MASTER_PORT + {beside}))")
    return Run(printable(plan.starts), (*lines, *parts.before), launch_text(plan, parts))


def directive_lines(plan: JobPlan) -> List[str]:
    """The ``#SBATCH`` lines of a plan, with remarks on what was derived."""
    return _with_remarks(
        [(f"#SBATCH {option_text(directive)}", directive.remark) for directive in plan.directives]
    )


def export_lines(plan: JobPlan) -> List[str]:
    """The lines that set the job's variables; a secret is only checked to be there."""
    lines = []
    before = "launch" if plan.hosts else "submit"
    for variable in plan.exports:
        if variable.value is None:
            text = f': "${{{variable.name}:?is a secret: export it before you {before}}}"'
        else:
            text = f"export {variable.name}={quote(variable.value)}"
        lines.append((text, variable.remark))
    return _with_remarks(lines)


def option_text(directive: Directive) -> str:
    """``--option=value`` as it stands in a ``#SBATCH`` line."""
    if directive.value is None:
        return f"--{directive.option}"
    return f"--{directive.option}={quote_directive(directive.value)}"


def quote_directive(value: str) -> str:
    """``value`` as sbatch reads it in a ``#SBATCH`` line, in quotes only where it must be.

    sbatch takes a backslash as an escape anywhere, and a blank or ``#`` outside quotes as the
    end of the value.
    """
    if _PLAIN.match(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _with_remarks(lines: Sequence[Tuple[str, str]]) -> List[str]:
    """Lines of (text, remark) pairs, with the remarks in one column, each on its line."""
    width = max((len(text) for text, remark in lines if remark and len(text) < 60), default=0)
    return [f"{text:<{width}}  # {printable(remark)}" if remark else text for text, remark in lines]
