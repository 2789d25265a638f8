"""From a plan to the text of a script."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any, Dict, List, Optional, Sequence, Tuple

from neuronctl.common.console import printable
from neuronctl.common.errors import TemplateError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.shell import quote
from neuronctl.common.words import RUN_ENDED, duration
from neuronctl.planning import Directive, JobPlan
from neuronctl.planning.model import Ending
from neuronctl.rendering import template_environment
from neuronctl.rendering.launch_command import LaunchCommand, launch_of, launch_parts
from neuronctl.rendering.preflight import (
    NO_MEMORY,
    checks,
    measures,
    once_on_each,
    once_per_node,
)
from neuronctl.rendering.template_errors import refuse_what_vanishes, reported
from neuronctl.slurm.bad_nodes import OF_THE_NODE

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]*^&|!?~()<>-]+\Z")


def render_job(plan: JobPlan, *, template: Optional[str] = None) -> str:
    """The batch script of ``plan``; ``template`` is a file in place of job.sh.j2.

    Raises TemplateError with file and line.
    """
    parts = launch_parts(plan)
    checked = checks(plan, parts)
    steps = _steps(plan)
    launch = LaunchCommand(()) if steps or plan.inline else launch_of(plan, parts)
    launches = [run.launch for step in steps for run in step.runs] or [launch]
    helpers = {helper for each in launches for helper in each.helpers}
    own = os.path.exists(os.path.join(template_environment.directories()[0], "job.sh.j2"))
    ending = plan.ending
    if ending == Ending.EXEC and (own or template is not None):
        ending = Ending.TELLS  # what such a template adds behind the launch is to run
    ends = plan.signal is None or plan.signal.of_shell != "TERM"
    in_background = plan.in_background or ending == Ending.TELLS
    by_srun = plan.launcher.by_srun or bool(plan.wrapping.srun)
    tells = ending == Ending.TELLS or plan.passes_signal
    own_processes = bool(steps) or (tells and not by_srun)
    marked = "pass_on" in helpers
    helpers |= {"wait_for_process"} if in_background else set()
    helpers |= {"pass_on", "to_processes"} if own_processes else set()
    helpers |= {"told_all"} if ends and ending == Ending.TELLS else set()
    looks = plan.preflight and any(
        (checked.srun, checked.programs, checked.files, checked.binds, checked.gpus)
        + (plan.request.venv is not None, plan.request.conda is not None)
    )
    meets = plan.rendezvous and plan.most_nodes > 1
    until_done = plan.until_done
    begin = 'begin_run "$@"' if until_done and until_done.chain else "begin_run"
    calls = [begin, "launched=yes"] if until_done else []
    calls += ["meet_on_first_node"] if meets else []
    calls += ["check_nodes || exit 1"] if looks else []
    calls += ["measure_nodes"] if plan.measures else []
    monitor = plan.monitor_interval
    stall = duration(plan.stall) if plan.stall else ""
    calls += ["monitor_nodes"] if monitor else []
    calls += ["watch_for_stall"] if stall else []
    calls += [step.call for step in steps]
    calls_later = in_background or bool(launch.helpers)
    inside = _inside(
        runs=until_done,
        rendezvous=meets,
        preflight=plan.measures or (looks and (checked.srun or calls_later or monitor or stall)),
        monitor=monitor or stall,
        launch=calls_later,
    )
    functions = [text for step in steps for run in step.runs for text in run.functions]
    command = launch.command("    " if inside else "")
    if plan.inline and inside:
        command = "shell_text"
        functions = [_function("shell_text", *_of_body(plan))]
    elif plan.inline:
        command = (plan.request.body or "").strip("\n")
    elif launch.function:
        functions = [launch.function]
    setup = plan.request.setup
    starts = (
        printable(plan.starts) if plan.nodes * plan.ntasks_per_node * plan.processes > 1 else ""
    )
    text = _render(
        "job.sh.j2",
        plan,
        template,
        before=parts.before,
        runs_file=_runs_file(plan) if until_done else "",
        of_the_node=OF_THE_NODE,
        run_ended=RUN_ENDED,
        checks=checked,
        looks=looks,
        measures=measures(plan, checked) if plan.measures else None,
        meets=meets,
        monitor=monitor,
        monitor_srun=once_per_node(plan) + NO_MEMORY if plan.most_nodes > 1 else "",
        stall=stall,
        inside=inside,
        calls=calls,
        setup=_users_lines(setup) if setup and "environment" in inside else setup,
        launch=command,
        functions=functions,
        helpers=helpers,
        ending=ending,
        ends=ends,
        own_processes=own_processes,
        marked=marked,
        steps=steps,
        starts=starts,
    )
    for asked, helper, name in (
        (until_done, "end_run", "until-done"),
        (stall, "watch_log", "stall"),
        (plan.measures, "measure_nodes", "preflight deep"),
        (plan.code, "NEURONCTL_SUBMIT_DIR=", "snapshot"),
    ):
        if asked and helper not in text:
            raise TemplateError(
                f"the template lacks the lines of --{name}", "let it extend shipped/job.sh.j2"
            )
    return text


def render_batch_shell(interval: Optional[int], before: Optional[str], folder: str) -> str:
    """What bash reads before a batch script.

    interval: seconds between the samples of somebody's own script; None without. before: the
    user's own BASH_ENV. folder: where the job says what it runs with.
    """
    template = template_environment.for_scripts().get_template("shipped/batch_shell.sh.j2")
    program = template_environment.shipped_program("environment.py")
    each = once_on_each('"$SLURM_JOB_NUM_NODES"') + NO_MEMORY
    return template.render(
        interval=interval, before=before, srun=each, folder=folder, program=program
    )


def render_shell(
    plan: JobPlan,
    *,
    command: Optional[str] = None,
    launch: Optional[LaunchCommand] = None,
    template: Optional[str] = None,
) -> str:
    """What the shell on the first node of an interactive allocation reads at its start.

    command: shell text of the command that the text ends by running, in place of a shell. launch:
    the same as a launch.
    """
    return _render(
        "salloc.sh.j2",
        plan,
        template,
        command=command if launch is None else launch.command(),
        functions=[launch.function] if launch and launch.function else [],
    )


def render_run(plan: JobPlan) -> str:
    """The shell text that launches ``plan`` from the allocation it stands in."""
    parts = launch_parts(plan)
    launch = launch_of(plan, parts)
    meets = plan.rendezvous and plan.most_nodes > 1
    inside = _inside(rendezvous=meets, launch=bool(launch.helpers))
    return _render(
        "run.sh.j2",
        plan,
        before=parts.before,
        inside=inside,
        launch=launch.command("    " if inside else ""),
        functions=[launch.function] if launch.function else [],
        helpers=launch.helpers,
    )


def _render(
    name: str,
    plan: JobPlan,
    asked: Optional[str] = None,
    calls: Sequence[str] = (),
    **more: Any,
) -> str:
    """Fill in a template: a shipped one's name, which the user's own of that name replaces.

    calls: the lines that call helpers, whose remarks share a column with those of the variables.
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
    width = max(_width(_export_lines(plan)), *map(len, calls), 0)
    context: Dict[str, Any] = {
        "plan": plan,
        "directives": directive_lines(plan),
        "exports": _with_remarks(_export_lines(plan), width),
        "aligned": lambda text, remark: _with_remarks([(text, remark)], width)[0],
        **more,
    }
    environment = template_environment.for_scripts(*first)
    with reported(name, (*directories, *first)):
        template = environment.get_template(name)
        text = template.render(context)
        if os.path.dirname(str(template.filename)) != shipped:
            refuse_what_vanishes(environment, name)
        return text


def _runs_file(plan: JobPlan) -> str:
    """The file in which the runs are noted, as the script names it: it may change its directory."""
    assert plan.until_done is not None
    id = "%A_%a" if plan.request.array else "%j"
    head, _, tail = plan.until_done.runs_file.partition(id)
    before = "$PWD" if plan.code is None else "$NEURONCTL_SUBMIT_DIR"
    here = "" if head.startswith("/") else f"{before}/"
    job = "$chain" if plan.until_done.chain else plan.this_job
    return f"{here}{quote(head)}{job}{tail}"


_BLOCKS = ("runs", "rendezvous", "environment", "preflight", "monitor", "launch")


def _inside(**calls_helpers: object) -> Tuple[str, ...]:
    """The blocks of a script from the first on that calls a helper."""
    first = next((block for block in _BLOCKS if calls_helpers.get(block)), None)
    return () if first is None else _BLOCKS[_BLOCKS.index(first) :]


@dataclass(frozen=True)
class Run:
    """A launch as a step of a job's script has it: a function, or two.

    says: what is started how often.
    """

    name: str
    says: str
    launch: LaunchCommand
    functions: Tuple[str, ...]


@dataclass(frozen=True)
class StepText:
    """A step as a job's script has it: what runs side by side, or one run."""

    number: int
    runs: Tuple[Run, ...]
    allow_failure: bool = False

    @property
    def call(self) -> str:
        """The line that runs it."""
        names = " ".join(run.name for run in self.runs)
        return f"{'try' if self.allow_failure else 'run'}_step {self.number} {names}"

    @property
    def says(self) -> str:
        return "side by side" if len(self.runs) > 1 else self.runs[0].says


def _steps(plan: JobPlan) -> List[StepText]:
    steps = []
    for number, step in enumerate(plan.steps, 1):
        names = [f"step_{number}"]
        if len(step.launches) > 1:
            names = [f"step_{number}_{part}" for part in range(1, len(step.launches) + 1)]
        runs = (
            _run(plan, launch, name, beside)
            for beside, (launch, name) in enumerate(zip(step.launches, names))
        )
        steps.append(StepText(number, tuple(runs), step.allow_failure))
    return steps


def _run(job: JobPlan, plan: JobPlan, name: str, beside: int) -> Run:
    """beside: how many others were started just before, at the same time."""
    parts = launch_parts(plan)
    changed = [export for export in plan.exports if export not in job.exports]
    lines = _with_remarks(_export_lines(replace(plan, exports=tuple(changed))))
    if plan.rendezvous and plan.nodes == 1 and job.nodes > 1:
        lines.append("export MASTER_ADDR=127.0.0.1")
    if plan.rendezvous and beside:
        lines.append(f"export MASTER_PORT=$((MASTER_PORT + {beside}))")
    lines = [f"    {line}" for line in (*lines, *parts.before)]
    says = printable(plan.starts)
    if plan.inline:
        return Run(
            name, says, LaunchCommand(()), (_function(name, *lines, *_of_body(plan), says=says),)
        )
    launch = launch_of(plan, parts, name)
    text = _function(name, *lines, f"    {launch.command('    ')}", says=says)
    return Run(name, says, launch, (text, *filter(None, [launch.function])))


def _function(name: str, *lines: str, says: str = "") -> str:
    return "\n".join([f"{name}() {{{says and f'  # {says}'}", *lines, "}"])


def _of_body(plan: JobPlan) -> Tuple[str, ...]:
    """The lines of a shell text, as the body of a function."""
    body = (plan.request.body or "").strip("\n")
    return (f"eval {quote(body)}" if re.search(_READ_BY_LINE, body) else body, _EXIT)


_EXIT = "exit  # in here, where a trap of EXIT finds the variables of these lines"


def _users_lines(lines: Tuple[str, ...]) -> Tuple[str, ...]:
    """The user's lines as a function has them, indented unless that would alter a word."""
    text = "\n".join(lines)
    if re.search(_READ_BY_LINE, text):
        return (f"    eval {quote(text)}",)
    try:
        for line in text.split("\n"):
            shlex.split(line)
    except ValueError:  # a quotation goes on in the next line
        return lines
    return lines if "<<" in text else tuple(f"    {line}" for line in text.split("\n"))


_READ_BY_LINE = r"\b(extglob|expand_aliases)\b|\\\Z"
"""What bash, which reads a function as a whole, would not read as it reads a script."""


def directive_lines(plan: JobPlan) -> List[str]:
    """The ``#SBATCH`` lines of a plan, with remarks on what was derived."""
    return _with_remarks(
        [(f"#SBATCH {option_text(directive)}", directive.remark) for directive in plan.directives]
    )


def _export_lines(plan: JobPlan) -> List[_Line]:
    """The lines that set the job's variables; a secret is only checked to be there."""
    lines = []
    before = "launch" if plan.hosts else "submit"
    for variable in plan.exports:
        if variable.value is None:
            text = f': "${{{variable.name}:?is a secret: export it before you {before}}}"'
        else:
            text = f"export {variable.name}={quote(variable.value)}"
        lines.append((text, variable.remark))
    return lines


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


_Line = Tuple[str, str]
"""A line of a script, and a remark on it or ""."""


def _with_remarks(lines: Sequence[_Line], width: Optional[int] = None) -> List[str]:
    """Lines with their remarks, by default in one column."""
    width = _width(lines) if width is None else width
    return [f"{text:<{width}}  # {printable(remark)}" if remark else text for text, remark in lines]


def _width(lines: Sequence[_Line]) -> int:
    return max((len(text) for text, remark in lines if remark and len(text) < 60), default=0)
