"""The command that starts the program, from the launcher's template.

What a launcher's template gives is shell text; the program and its arguments never pass through
it, but are quoted word by word behind it.
"""

from __future__ import annotations

import os
import re
from typing import List, Optional, Sequence, Tuple

from neuronctl.errors import TemplateError
from neuronctl.frozen import dataclass, replace
from neuronctl.planning import JobPlan
from neuronctl.planning.model import Signal
from neuronctl.rendering import template_environment
from neuronctl.rendering.template_errors import refuse_what_vanishes, reported
from neuronctl.shell import CommandWord, Shell, positional, quote

WIDTH = 96
"""Columns after which a command is continued on the next line."""

BLOCKS = ("before", "once", "exports", "task")
"""The blocks of a launcher's template, in the order of the fields of LaunchParts."""


@dataclass(frozen=True)
class LaunchParts:
    """What a launcher's template comes to for one plan, as shell text.

    before: lines that the batch shell runs first. once: words that the batch shell evaluates,
    such as srun and its options. exports, task: NAME=value words and the words of a command that
    each task evaluates. A container stands between the exports and the task's command.
    """

    before: Tuple[Shell, ...] = ()
    once: Tuple[Shell, ...] = ()
    exports: Tuple[Shell, ...] = ()
    task: Tuple[Shell, ...] = ()

    @property
    def differs_by_task(self) -> bool:
        """Whether something has to be evaluated in each task."""
        return bool(self.exports) or any(
            re.search(r"[$`]", re.sub(r"'[^']*'|\\.", "", word)) for word in self.task
        )


def launch_parts(plan: JobPlan) -> LaunchParts:
    """The launch of a plan. Raises TemplateError with the launcher's file and line."""
    environment = template_environment.for_launchers()
    file, name = plan.launcher.file, template_environment.name_of(plan.launcher.file)
    directory, shipped = os.path.dirname(file), template_environment.shipped_directory()
    with reported(file, (*template_environment.directories(), directory)):
        template = environment.get_template(name)
        if os.path.dirname(directory) != shipped:
            refuse_what_vanishes(environment, name, BLOCKS)
        context = template.new_context({"plan": plan})
        texts = {}
        try:
            for block, render in template.blocks.items():
                texts[block] = "".join(render(context))
        except Exception:
            environment.handle_exception()  # gives the traceback the template's own lines
    words = [_shell_words(texts.get(block, ""), plan.launcher.file, block) for block in BLOCKS[1:]]
    given = set(map(quote, plan.launcher_options))
    if not given <= {*words[0], *words[2]}:
        raise TemplateError(
            f"{file}: the template has no place for --launcher-option",
            "write a loop over plan.launcher_options in block 'once' or 'task'",
        )
    lines = (Shell(line) for line in texts.get("before", "").splitlines() if line.strip())
    return LaunchParts(tuple(lines), *words)


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
    """The words of shell text, each as it stands there, with its quotes."""
    words: List[Shell] = []
    if not any(sign in text for sign in "'\"`$\\"):
        return tuple(map(Shell, text.split()))
    for token in re.finditer(_TOKEN, text):
        if token["stray"]:
            raise TemplateError(f"{file}: block '{block}': unexpected {token['stray']}")
        if token["word"]:
            words.append(Shell(token["word"]))
    return tuple(words)


def launch_text(plan: JobPlan, parts: LaunchParts) -> str:
    """The command that starts the program.

    What has to be evaluated on each node goes into a ``bash -c`` of each task; the program's
    own words are handed to it as arguments, so that no second shell ever reads them.
    """
    if plan.inline:
        return (plan.request.body or "").strip("\n")
    wrapping = plan.wrapping
    once = [*parts.once, *map(quote, wrapping.srun)]
    command = [*map(quote, wrapping.prefix), *parts.task]
    arguments, words = positional(plan.program)
    forwarded = _forwarded(plan, parts)
    split = once and words != plan.program
    signal = _of_processes(plan)
    stays = parts.differs_by_task or signal is not None
    if not forwarded and not stays and not split:
        return _wrap([*once, *command, *map(quote, plan.program)], "    ")
    with reported("task.j2", template_environment.directories()):
        text = (
            template_environment.for_scripts()
            .get_template("task.j2")
            .render(
                # One line each: a shell expands all words of an 'export' before it sets the first.
                exports=[list(group) for group in (parts.exports, forwarded) if group],
                command=[*command, arguments],
                stays=stays,
                launcher=plan.launcher,
                signal=signal,
                wrap=lambda words: _wrap(words, "      "),
            )
        )
    head = _wrap([*once, "bash", "-c"], "    ")
    task_name = parts.task[0] if parts.task else "task"
    task = quote("\n" + text.rstrip("\n"))
    return f"{head} {task} {_wrap([task_name, *map(quote, words)], '    ')}"


def _of_processes(plan: JobPlan) -> Optional[Signal]:
    """The requested signal that a launcher's processes have to get in its place."""
    signal, launcher = plan.signal, plan.launcher
    if signal is None or signal.trapped_by_setup or not (launcher.marks and launcher.by_srun):
        return None
    return signal


def contained_command(plan: JobPlan, words: Sequence[str]) -> str:
    """The command that runs ``words`` once, on this node, in the container of ``plan``."""
    once: Tuple[CommandWord, ...] = ()
    if plan.wrapping.srun:
        once = ("srun", "--nodes=1", "--ntasks=1", f"--cpus-per-task={plan.cores_per_node}")
        once += plan.cluster.policy.srun_options
    parts = LaunchParts(once=tuple(Shell(quote(word)) for word in once))
    return launch_text(replace(plan, program=tuple(words)), parts)


def _forwarded(plan: JobPlan, parts: LaunchParts) -> List[str]:
    """NAME=value words that set the variables a clean container environment would lose."""
    if not plan.wrapping.forward:
        return []
    names = [variable.name for variable in plan.exports]
    names += [word.partition("=")[0] for word in parts.exports]
    names += ["MASTER_ADDR", "MASTER_PORT"] if plan.rendezvous else []
    names += ["CUDA_VISIBLE_DEVICES"] if plan.gpus_per_node else []
    words = [f'{prefix}_{name}="${name}"' for prefix in plan.wrapping.forward for name in names]
    # Otherwise a shell in the container would evaluate the values. A variable, since versions that
    # lack the option ignore it.
    return words + [f"{prefix[:-3]}_NO_EVAL=1" for prefix in plan.wrapping.forward]


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
