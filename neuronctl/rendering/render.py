"""Render a plan as a script."""

from __future__ import annotations

import json
import os
import re
from typing import Any, List, Optional, Tuple

from neuronctl.common.console import printable
from neuronctl.common.errors import TemplateError
from neuronctl.common.words import duration
from neuronctl.launch.launchers import LAUNCHER
from neuronctl.planning import JobPlan
from neuronctl.planning.job_plan import has_trap
from neuronctl.planning.software import runs_shell
from neuronctl.rendering import script_lines, template_environment
from neuronctl.rendering.launch_command import launch_parts, launch_words, wrap_command
from neuronctl.rendering.preflight import NO_MEMORY, list_checks, once_on_each, once_per_node


def render_job(plan: JobPlan, *, template: Optional[str] = None, steps: str = "") -> str:
    """Return the batch script of ``plan``; raise TemplateError with file and line.

    template: the template to use instead of job.sh.j2. steps: shell text that defines the function
    ``work``, which runs instead of the plan's launches; "": the launches run.
    """
    # A template of the user's may have lines after the launch, which `exec` would skip.
    users_directory, _ = template_environment.directories()
    is_users = template is not None or os.path.exists(os.path.join(users_directory, "job.sh.j2"))
    before, launch = ([steps], "work") if steps else _launch(plan, is_last=not is_users)
    first = plan.launches[0]
    starts_several = plan.nodes * plan.ntasks_per_node * first.processes > 1 and not plan.steps
    preflight = list_checks(plan)
    has_environment = plan.request.venv is not None or plan.request.conda is not None
    text = _render(
        "job.sh.j2",
        plan,
        template,
        exports=script_lines.variable_lines(plan),
        fail="exit 1",
        before=before,
        launch=launch,
        background=_is_in_background(plan),
        in_function=_is_function(plan) and not steps,
        tells="program" if steps else signal_receiver(plan),
        is_sweep=bool(steps),
        starts=printable(first.starts) if starts_several else "",
        checks=preflight,
        looks=plan.preflight and (has_environment or any(preflight.values())),
        several_nodes=plan.most_nodes > 1,
        each_node=once_per_node(plan) + NO_MEMORY,
        monitor=plan.request.monitor,
        stall=duration(plan.stall) if plan.stall else "",
    )
    _check_options_kept(plan, text)
    return re.sub(r"\n{3,}", "\n\n", text)


def _check_options_kept(plan: JobPlan, text: str) -> None:
    """Raise TemplateError if a template of the user's has dropped the lines of an option."""
    for option, is_used, line in (
        ("until-done", plan.until_done is not None, "no other run follows"),
        ("stall", bool(plan.stall), "watch_log"),
        ("snapshot", plan.code is not None, "NEURONCTL_SUBMIT_DIR="),
    ):
        if is_used and line not in text:
            raise TemplateError(
                f"the template lacks the lines of --{option}", "let it extend shipped/job.sh.j2"
            )


def _launch(plan: JobPlan, *, is_last: bool) -> Tuple[List[str], str]:
    """Return the lines before the launch, and the launch. is_last: no line follows it."""
    first = plan.launches[0]
    if plan.steps or first.inline:
        return [], _inline_text(plan)
    parts = launch_parts(plan, first)
    words = launch_words(plan, first, parts)
    # srun would end its tasks at once if it received the batch shell's signals instead.
    by_srun = first.launcher.by_srun or first.wrapping.srun or words[0] == "srun"
    keeps_shell = by_srun or _is_in_background(plan) or has_trap("\n".join(plan.request.setup))
    command = wrap_command(("exec", *words) if is_last and not keeps_shell else words)
    is_interrupt = plan.signal is not None and plan.signal.name == "INT"
    if is_interrupt and _is_in_background(plan):  # where bash ignores it
        return list(parts.before), f"(trap - INT; exec {command})"
    return list(parts.before), command


def _inline_text(plan: JobPlan) -> str:
    """Return the steps or the user's shell text, indented if it is the body of a function."""
    body = plan.request.body or ""
    if plan.steps:
        text = "\n".join(script_lines.step_lines(plan))
    elif _is_function(plan):
        text = script_lines.function_body(body)
    else:
        text = script_lines.shell_text_lines(body)
    return (script_lines.indent_text(text) or text) if _is_function(plan) else text


def _is_function(plan: JobPlan) -> bool:
    """Return True if the batch shell starts steps or shell text as a function, to wait for it."""
    return _is_in_background(plan) and (bool(plan.steps) or plan.launches[0].inline)


def _is_in_background(plan: JobPlan) -> bool:
    """Return True if the batch shell starts the launch and waits, so that it gets signals."""
    signal = plan.signal
    if plan.until_done is not None:
        return True
    if signal is None or signal.trapped == "body":
        return False
    if plan.passes_signal:
        # A program that replaces the shell gets the signal itself.
        return signal_receiver(plan) != "program"
    return signal.to_batch_shell


def signal_receiver(plan: JobPlan) -> str:
    """Return to whom the batch shell passes a signal on, in the terms of templates/passing.j2."""
    first, launcher = plan.launches[0], plan.launches[0].launcher
    if plan.steps and any(launch.launcher.marks == LAUNCHER for launch in plan.launches):
        return "steps"
    if plan.steps or first.inline or (not launcher.distributed and runs_shell(plan.request)):
        return "shells"
    if launcher.marks:
        return "ranks"
    if launcher.by_srun or first.wrapping.srun:
        return "tasks"
    return "program"


def render_batch_shell(before: Optional[str], *, monitor: bool, idle: int) -> str:
    """Return what bash reads before a user's own script: the sampler, and the watch of --idle.

    before: the user's own BASH_ENV. idle: seconds; 0: without --idle.
    """
    template = template_environment.script_templates().get_template("shipped/batch_shell.sh.j2")
    srun = once_on_each('"$SLURM_JOB_NUM_NODES"') + NO_MEMORY
    job = "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"
    text = template.render(before=before, srun=srun, monitor=monitor, idle=idle, this_job=job)
    return re.sub(r"\n\s*\n+", "\n", text)


def render_shell(
    plan: JobPlan, *, command: Optional[str] = None, template: Optional[str] = None
) -> str:
    """Return what the shell on the first node of an interactive allocation reads at its start.

    command: shell text of a command that runs instead of the shell; None: the shell is interactive.
    """
    lines = script_lines.variable_lines(plan)
    srun = once_per_node(plan) + NO_MEMORY if plan.most_nodes > 1 else ""
    text = _render("salloc.sh.j2", plan, template, exports=lines, command=command, each_node=srun)
    return text.lstrip("\n")


def render_sweep(plan: JobPlan, code: str, folder: str, **options: Any) -> str:
    """Return the function ``work`` of a sweep's job, which runs the sweep's worker.

    code: the directory of the worker's package. folder: the sweep's. options: the worker's.
    """
    assert plan.until_done is not None
    before_end = plan.until_done.before_end
    limit = max(0, plan.time_limit or 0)  # 0: unlimited, or unknown
    launch, by_srun = script_lines.task_launch(plan)
    options.update(
        slots=len(plan.steps[0]),
        nodes=plan.most_nodes,
        launch=bool(launch),
        by_srun=by_srun,
        margin=before_end + min(60, limit // 8),  # Slurm may signal up to a minute early
        save=max(before_end - 20, before_end // 2 - 1),  # just before the batch shell stops waiting
        snapshot=plan.code.place if plan.code else "",
    )
    text = json.dumps(options)
    words = {"code": code, "folder": folder, "options": text, "launch": launch}
    return _render("sweep.j2", plan, **words).strip()


def render_pipeline_job(**words: object) -> str:
    """Return sbatch's script for a pipeline's job, without the directives."""
    template = template_environment.script_templates().get_template("shipped/pipeline.j2")
    return template.render(**words)


def render_run(plan: JobPlan) -> str:
    """Return the shell text that launches ``plan`` in the current allocation."""
    parts = launch_parts(plan, plan.launches[0])
    launch = wrap_command(launch_words(plan, plan.launches[0], parts))
    lines = script_lines.variable_lines(plan, "(SLURM_JOB_ID + $$)")
    return _render("run.sh.j2", plan, exports=lines, before=parts.before, launch=launch)


def _render(shipped: str, plan: JobPlan, requested: Optional[str] = None, **values: Any) -> str:
    """Fill in the requested template, or else the one called ``shipped``, the user's own first.

    shipped: the name of a shipped template. requested: a path with a slash, or the name of one of
    the user's own. ``shipped/NAME`` is always the shipped one, so that the user's can extend it. A
    file in the working directory never counts by its name alone: a template is a program.
    """
    name, beside = _locate(shipped if requested is None else requested)
    environment = template_environment.script_templates(*beside)
    with template_environment.report_errors(name, (*template_environment.directories(), *beside)):
        template = environment.get_template(name)
        return template.render(plan=plan, directives=script_lines.directive_lines(plan), **values)


def _locate(template: str) -> Tuple[str, Tuple[str, ...]]:
    """Return a template's name and, if it is given as a path, its directory."""
    if os.sep not in template or template.startswith("shipped/"):
        return template, ()
    if not os.path.exists(template):
        raise TemplateError(f"there is no template '{template}'", "name an existing file")
    return os.path.basename(template), (os.path.dirname(os.path.abspath(template)),)
