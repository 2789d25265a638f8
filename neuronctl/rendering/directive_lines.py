"""The ``#SBATCH`` and ``export`` lines of a script."""

from __future__ import annotations

import re
from typing import List, Sequence, Tuple

from neuronctl.console import printable
from neuronctl.planning import Directive, JobPlan
from neuronctl.shell import quote

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]*^&|!?~()<>-]+\Z")


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
