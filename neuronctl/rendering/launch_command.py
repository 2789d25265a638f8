"""The command that starts the program, from the launcher's template.

What a launcher's template gives is shell text; the program and its arguments never pass through
it, but are quoted word by word behind it.
"""

from __future__ import annotations

import os
import re
from typing import List, Optional, Sequence, Tuple

from neuronctl.common.errors import TemplateError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.shell import CommandWord, Shell, positional, quote
from neuronctl.planning import JobPlan
from neuronctl.planning.model import Signal
from neuronctl.rendering import template_environment
from neuronctl.rendering.template_errors import refuse_what_vanishes, reported

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


@dataclass(frozen=True)
class LaunchCommand:
    """The launch of a plan, as shell text.

    words: the command that starts the program. function: what each task runs, where that is more
    than a command. helpers: the functions of helpers.j2 that it calls.
    """

    words: Tuple[str, ...]
    function: str = ""
    helpers: Tuple[str, ...] = ()

    def command(self, indent: str = "") -> str:
        """The command, with its further lines indented, where it stands in a function."""
        return _wrap(self.words, indent + "    ")


def launch_of(plan: JobPlan, parts: LaunchParts, step: str = "") -> LaunchCommand:
    """The command that starts the program.

    What has to be evaluated on each node, and the program's words with it, is a function that a
    bash of each task is given. step: the name of the function that the launch stands in.
    """
    wrapping = plan.wrapping
    once = [*parts.once, *map(quote, wrapping.srun)]
    command = [*map(quote, wrapping.prefix), *parts.task]
    program = list(map(quote, plan.program))
    signal = _of_processes(plan)
    # srun and mpirun start another command at a lone colon.
    colon = once and ":" in plan.program
    if not (parts.differs_by_task or signal or colon):
        return LaunchCommand((*once, *command, *program))
    several = plan.most_nodes * plan.ntasks_per_node > 1
    stays = signal is not None or (parts.differs_by_task and several)
    name = "on_each_node" if plan.launcher.one_task_per_node else "each_task"
    name = f"{step}_{name}" if step else name
    helpers: Tuple[str, ...] = ()
    helpers += ("supervise", "told_all") if stays else ()
    helpers += ("pass_on",) if signal else ()
    call = [*helpers[:1], *([plan.launcher.marks] if signal else []), name]
    given: Tuple[CommandWord, ...] = ()
    if sum(map(len, map(os.fsencode, program))) > _LONGEST or any(
        isinstance(word, Shell) for word in plan.program
    ):
        # As arguments of bash: what the batch shell expands, and what is too long for one word.
        arguments, given = positional(plan.program)
        program = ['"$@"']
        call.append(re.sub(r'(["$])', r"\\\1", arguments))
    with reported("task.j2", template_environment.directories()):
        text = (
            template_environment.for_scripts()
            .get_template("task.j2")
            .render(
                name=name,
                # One line each: a shell expands all words of an 'export' before it sets the first.
                exports=[list(parts.exports)] if parts.exports else [],
                command=[*command, *program],
                wrap=lambda words: _wrap(words, "        "),
            )
        )
    shell = f'"$(declare -f {" ".join((name, *helpers))}); {" ".join(call)}"'
    words = (*once, f"bash -c {shell}", *(["bash"] if given else []), *map(quote, given))
    return LaunchCommand(words, text.rstrip("\n"), helpers)


_LONGEST = 120_000
"""Bytes of a program's words in a function: Linux takes 131072 in a word, the helpers' included."""


def _of_processes(plan: JobPlan) -> Optional[Signal]:
    """The requested signal that a launcher's processes have to get in its place."""
    signal, launcher = plan.signal, plan.launcher
    if signal is None or signal.trapped_by_setup or not (launcher.marks and launcher.by_srun):
        return None
    return signal


def contained_launch(plan: JobPlan, words: Sequence[str]) -> LaunchCommand:
    """The launch that runs ``words`` once, on this node, in the container of ``plan``."""
    once: Tuple[CommandWord, ...] = ()
    if plan.wrapping.srun:
        once = ("srun", "--nodes=1", "--ntasks=1", f"--cpus-per-task={plan.cores_per_node}")
        once += plan.cluster.policy.srun_options
    parts = LaunchParts(once=tuple(Shell(quote(word)) for word in once))
    return launch_of(replace(plan, program=tuple(words)), parts)


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
