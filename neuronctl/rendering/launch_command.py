"""Render the launch with its launcher's template, which never sees the program's words."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import TemplateError
from neuronctl.common.shell import CommandWord, Shell, quote
from neuronctl.launch.launchers import LAUNCHER, PROGRAM
from neuronctl.planning import JobPlan, Launch
from neuronctl.rendering import template_environment

WIDTH = 101
"""Columns after which a command is continued on the next line."""


@dataclass(frozen=True)
class LaunchParts:
    """The blocks of a launcher's template, rendered as shell text for one launch.

    before: lines that the batch shell runs first. once: words that the batch shell evaluates,
    such as srun and its options. exports: NAME=value words that each task evaluates, outside its
    container. task: the words of the command that each task evaluates, in the container.
    """

    before: Tuple[Shell, ...] = ()
    once: Tuple[Shell, ...] = ()
    exports: Tuple[Shell, ...] = ()
    task: Tuple[Shell, ...] = ()

    @property
    def differs_by_task(self) -> bool:
        """Return True if each task must evaluate something."""
        return bool(self.exports) or any(
            re.search(r"[$`]", re.sub(r"'[^']*'|\\.", "", word)) for word in self.task
        )


class _PlanOfLaunch:
    """The name ``plan`` in a launcher's template: the launch, and values of its job."""

    def __init__(self, job: JobPlan, launch: Launch) -> None:
        self._job, self._launch = job, launch

    def __getattr__(self, name: str) -> object:
        return getattr(self._launch if hasattr(self._launch, name) else self._job, name)


def launch_parts(job: JobPlan, launch: Launch) -> LaunchParts:
    """Render the launcher's template; raise TemplateError with the launcher's file and line."""
    file = launch.launcher.file
    blocks = _render_blocks(file, {"plan": _PlanOfLaunch(job, launch)})
    once, exports, task = (
        _shell_words(blocks.get(name, ""), file, name) for name in ("once", "exports", "task")
    )
    if not {*map(quote, launch.launcher_options)} <= {*once, *task}:
        raise TemplateError(
            f"{file}: the template has no place for --launcher-option",
            "write a loop over plan.launcher_options in block 'once' or 'task'",
        )
    lines = (Shell(line) for line in blocks.get("before", "").splitlines() if line.strip())
    return LaunchParts(tuple(lines), once, exports, task)


def _render_blocks(file: str, values: Dict[str, object]) -> Dict[str, str]:
    """Return the text of each block of a launcher's template; raise TemplateError."""
    environment = template_environment.launcher_templates()
    directories = (*template_environment.directories(), os.path.dirname(file))
    with template_environment.report_errors(file, directories):
        template = environment.get_template(template_environment.name_of(file))
        context = template.new_context(values)
        try:
            return {name: "".join(render(context)) for name, render in template.blocks.items()}
        except Exception:
            return environment.handle_exception()  # raises the error with the template's lines


# Matches white space, a word of shell text with its quotes and substitutions, or a stray character.
_TOKEN = r"""(?xs)
    \s+
    | (?P<word> (?:
        [^\s'"`$\\]
      | \\.
      | '[^']*'
      | "(?: [^"\\$] | \\. | \$\((?:[^()]|\([^()]*\))*\) | \$(?!\() )*"
      | \$\((?:[^()]|\([^()]*\))*\)     # $(command) and $((arithmetic))
      | \$(?!\()
      )+ )
    | (?P<stray> . )"""


def _shell_words(text: str, file: str, block: str) -> Tuple[Shell, ...]:
    """Split shell text into words, each with its quotes."""
    words: List[Shell] = []
    for token in re.finditer(_TOKEN, text):
        if token["stray"]:
            raise TemplateError(f"{file}: block '{block}': unexpected {token['stray']}")
        if token["word"]:
            words.append(Shell(token["word"]))
    return tuple(words)


def launch_words(job: JobPlan, launch: Launch, parts: LaunchParts) -> Tuple[str, ...]:
    """Return the command that starts the program, as words of shell text.

    If each task must evaluate something, the command is a bash that becomes the launcher or the
    program; the program's words are its arguments: ``srun … bash -c 'exec torchrun … "$@"'``.
    """
    marked = _marked(job, launch)
    once = [*parts.once, *map(quote, launch.wrapping.srun)]
    node_mark = [_NODE_MARK] if marked == LAUNCHER else []
    command = [*map(quote, launch.wrapping.prefix), *node_mark, *parts.task]
    program = [*([_MARK] if marked == PROGRAM else []), *map(quote, launch.program)]
    # srun and mpirun start another command at a lone colon: the text of the bash hides it.
    hides_colon = bool(once) and ":" in launch.program
    if not (parts.differs_by_task or hides_colon or node_mark):
        return (*once, *command, *program)
    commands = [["export", *parts.exports]] if parts.exports else []
    commands.append(["exec", *command, *(program if hides_colon else ['"$@"'])])
    # The commands are indented, and followed by a quote and the program.
    text = "\n    ".join(wrap_command(words, "        ", WIDTH - 12) for words in commands)
    bash = f"bash -c {quote(text)}"
    if hides_colon:
        return (*once, bash)
    name = launch.launcher.name if parts.task else "bash"  # in messages of that bash
    return (*once, bash, name, *program)


_MARK = 'env NEURONCTL_LAUNCH="$SLURM_JOB_ID"'
"""Marks the processes behind it as this launch's; templates/passing.j2 looks for the mark."""
_NODE_MARK = 'env NEURONCTL_LAUNCH="$SLURM_JOB_ID.$SLURM_STEP_ID.$SLURMD_NODENAME"'
"""The same if each node has one process of the launch; two slurmds may run on one machine."""


def _marked(job: JobPlan, launch: Launch) -> str:
    """Return what gets a mark, LAUNCHER or PROGRAM, so that signals reach it; "": nothing."""
    passes = launch.passes_signal or job.until_done is not None
    return launch.launcher.marks if passes else ""


def contained_launch(plan: JobPlan, words: Sequence[str]) -> str:
    """Return the command that runs ``words`` once, on this node, in the container of ``plan``."""
    launch = replace(plan.launches[0], program=tuple(words))
    once: Tuple[CommandWord, ...] = ()
    if launch.wrapping.srun:
        once = ("srun", "--nodes=1", "--ntasks=1", f"--cpus-per-task={plan.cores_per_node}")
        once += plan.cluster.policy.srun_options
    parts = LaunchParts(once=tuple(Shell(quote(word)) for word in once))
    return wrap_command(launch_words(plan, launch, parts))


def wrap_command(words: Sequence[str], indent: str = "    ", width: int = WIDTH) -> str:
    """Join quoted words into a command; continue long ones with a backslash."""
    text = ""
    for word in words:
        column = len(text.rpartition("\n")[2])
        if text and column + 1 + len(word.split("\n", 1)[0]) > width - 2:
            text += f" \\\n{indent}{word}"
        else:
            text += f" {word}" if text else word
    return text
