"""From a plan to the text of a script; the only module that imports jinja2."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Sequence, Tuple

from neuronctl.errors import TemplateError
from neuronctl.paths import data_path
from neuronctl.plan import Directive, JobPlan
from neuronctl.shell import Shell, quote

WIDTH = 96
"""Columns after which a command is continued on the next line."""

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]*^&|!?~()<>-]+\Z")


def quote_directive(value: str) -> str:
    """``value`` as sbatch reads it in a ``#SBATCH`` line, in quotes only where it must be.

    sbatch takes a backslash as an escape anywhere, and a blank or ``#`` outside quotes as the
    end of the value.
    """
    if _PLAIN.match(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _with_remarks(lines: Sequence[Tuple[str, str]]) -> List[str]:
    """(text, remark) -> lines with the remarks in one column."""
    width = max((len(text) for text, remark in lines if remark and len(text) < 60), default=0)
    return [f"{text:<{width}}  # {remark}" if remark else text for text, remark in lines]


def option_text(directive: Directive) -> str:
    """``--option=value`` as it stands in a ``#SBATCH`` line."""
    if directive.value is None:
        return f"--{directive.option}"
    return f"--{directive.option}={quote_directive(directive.value)}"


def directive_lines(plan: JobPlan) -> List[str]:
    """The ``#SBATCH`` lines of a plan, with remarks on what was derived."""
    return _with_remarks([(f"#SBATCH {option_text(one)}", one.remark) for one in plan.directives])


def export_lines(plan: JobPlan) -> List[str]:
    """The lines that set the job's variables; a secret is only checked to be there."""
    lines = []
    for one in plan.exports:
        if one.value is None:
            demand = f': "${{{one.name}:?is a secret: export it before you submit}}"'
            lines.append((demand, one.remark))
        else:
            lines.append((f"export {one.name}={quote(one.value)}", one.remark))
    return _with_remarks(lines)


def _wrap(texts: Sequence[str], indent: str) -> str:
    """Quoted words as one command line, continued with a backslash where it gets long."""
    lines: List[str] = []
    current = ""
    for text in texts:
        if current and len(current) + 1 + len(text.split("\n", 1)[0]) > WIDTH - 2:
            lines.append(current)
            current = indent + text
        else:
            current = f"{current} {text}" if current else text
    lines.append(current)
    return " \\\n".join(lines)


def launch_text(plan: JobPlan) -> str:
    """The command that starts the program.

    What has to be evaluated on each node goes into a ``bash -c`` of each task; the program's
    own words are handed to it as arguments, so that no second shell ever reads them.
    """
    launch = plan.launch
    outer = [quote(word) for word in launch.outer]
    program = [quote(word) for word in plan.program]
    per_task = bool(launch.exports) or any(isinstance(word, Shell) for word in launch.inner)
    if not per_task:
        return _wrap([*outer, *map(quote, launch.inner), *program], "    ")
    inner: List[str] = []
    if launch.exports:
        pairs = [f"{name}={value}" for name, value in launch.exports]
        inner.append("  " + _wrap(["export", *pairs], "      "))
    inner.append("  " + _wrap(["exec", *map(quote, launch.inner), '"$@"'], "      "))
    task = quote("\n" + "\n".join(inner))
    name = launch.inner[0] if launch.inner else "task"
    head = _wrap([*outer, "bash", "-c"], "    ")
    return head + " " + task + " " + _wrap([quote(name), *program], "    ")


def render_job(plan: JobPlan) -> str:
    """The batch script of ``plan``; raises TemplateError."""
    signal = plan.signal
    background = signal is not None and signal.to_batch_shell
    trap = signal.name if signal and background and not signal.trapped_by_setup else None
    return _render("job.sh.j2", plan, background=background, trap=trap)


def render_shell(plan: JobPlan, *, command: bool) -> str:
    """What the shell on the first node of an interactive allocation reads at its start.

    command
        For a command instead of a shell: the text ends by running its arguments.
    """
    return _render("salloc.sh.j2", plan, command=command)


def _render(name: str, plan: JobPlan, **more: Any) -> str:
    import jinja2

    directory = str(data_path("templates"))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["q"] = quote
    context: Dict[str, Any] = {
        "plan": plan,
        "directives": directive_lines(plan),
        "exports": export_lines(plan),
        "launch": launch_text(plan),
        **more,
    }
    try:
        return environment.get_template(name).render(context)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"{error.filename}:{error.lineno}: {error.message}") from None
    except jinja2.TemplateNotFound as error:
        raise TemplateError(f"template '{error.name}' is not in {directory}") from None
    except jinja2.UndefinedError as error:
        raise TemplateError(f"{_place(error, directory)}: {error.message}") from None


def _place(error: BaseException, directory: str) -> str:
    """file:line of the template that an error was raised in."""
    place = directory
    trace = error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if filename.startswith(directory + os.sep):
            place = f"{filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
