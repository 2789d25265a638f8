"""The facts that a rule on a batch script's text may use."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import chain
from typing import Callable, Iterator, Optional, Tuple

from neuronctl.common.datatypes import dataclass, field
from neuronctl.launch.launchers import ALL
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Registry
from neuronctl.scripts.bash_grammar import SyntaxProblem
from neuronctl.scripts.header import SCRIPT, GivenOption, Header, SourceSpan
from neuronctl.scripts.launches import PYTHON, Launch, launches
from neuronctl.scripts.shell_text import ShellText, reads_more

TASKS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-core")
"""Options that give a job or a step its number of tasks."""


@dataclass(frozen=True)
class Start:
    """A program that the script starts, and how often.

    nodes: how many it starts on. per_node: how often on each of them. None if not known. outer: the
    launches that start it, the outermost first; () if the batch shell starts it.
    """

    launch: Launch
    nodes: Optional[int] = 1
    per_node: Optional[int] = 1
    outer: Tuple[Launch, ...] = ()

    @property
    def gets_rank(self) -> bool:
        """Return True if a launcher that sets ranks starts the program; srun does not."""
        return any(launch.is_launcher and not launch.is_srun for launch in self.outer)


def asks_for(name: str, line: str) -> bool:
    """Return True if a line sets a variable, gives it a default, or tests whether it is set."""
    forms = (
        rf"(^|[;&|]|\b(do|then|else|export))\s*{name}\+?=",
        rf"\$\{{{name}:?[-=+?]",
        rf"-v {name}\b",
        rf"(\[|\btest) [^\]]*\$\{{?{name}\b",
        rf"(?<!\$)\(\([^)]*\b{name}\b",
    )
    return any(re.search(form, line) for form in forms)


@dataclass(frozen=True)
class ScriptFacts:
    """A script as it was read.

    text: of the file, as far as it is read. plan: of the job that the directives request; None if
    they cannot be read. unreadable: what bash cannot read. left_out: the first line that is not
    read, 0 if all are. release: Slurm's, such as (22, 5); () if not known. read_program: returns
    the text of a Python file that the job starts, "" if it is not here.
    """

    text: str
    header: Header
    shell: ShellText
    plan: Optional[JobPlan]
    unreadable: Optional[SyntaxProblem] = None
    left_out: int = 0
    release: Tuple[int, ...] = ()
    read_program: Callable[[str], str] = field(default=lambda name: "", compare=False)

    @cached_property
    def lines(self) -> Tuple[str, ...]:
        """Return the lines of the text."""
        return tuple(self.text.split("\n"))

    @cached_property
    def plain_lines(self) -> Tuple[Tuple[int, str], ...]:
        """Return the lines, with numbers, that are neither comments nor in here-documents."""
        documents = self.shell.documents
        return tuple(
            (number, line)
            for number, line in enumerate(self.lines, 1)
            if number not in documents and not line.lstrip().startswith("#")
        )

    @cached_property
    def reads_more(self) -> bool:
        """Return True if the script reads text (a file, eval) that may set any variable."""
        return any(reads_more(command.words) for command in self.shell.commands)

    @cached_property
    def launches(self) -> Tuple[Launch, ...]:
        """Return the programs that the commands start."""
        return launches(self.shell.commands)

    @cached_property
    def every_launch(self) -> Tuple[Launch, ...]:
        """Return the programs that the script starts, and those that they start in turn."""
        return tuple(start.launch for start in self.starts)

    @cached_property
    def strict(self) -> bool:
        """Return True if the shell exits when a command fails."""
        _, *words = self.header.shebang.split() or [""]
        for command in self.shell.calls("set"):
            words += [word or "" for word in command.arguments]
        return any(re.fullmatch(r"-[a-zA-Z]*e[a-zA-Z]*|errexit", word) for word in words)

    @cached_property
    def starts(self) -> Tuple[Start, ...]:
        """Return every_launch with how often each starts, in the same order."""
        return tuple(chain.from_iterable(self._starts(Start(each)) for each in self.launches))

    def _starts(self, start: Start) -> Iterator[Start]:
        """Yield a start, and those of the programs that it starts in turn."""
        yield start
        launch, launcher = start.launch, start.launch.launcher
        nodes, per_node = start.nodes, start.per_node
        if launcher.starts_processes() and nodes is not None:  # torchrun stays on its node
            total = launch.count(*launcher.processes) or 0
            per_node = launch.count(*launcher.processes_per_node) or total // nodes or None
        elif launch.is_launcher:
            nodes, per_node = self.count_processes(launch) or (None, None)
        for inner in launch.inside:
            yield from self._starts(Start(inner, nodes, per_node, (*start.outer, launch)))

    @cached_property
    def ranks_are_given(self) -> bool:
        """Return True if launchers that set ranks start all Python programs."""
        has_launcher = any(start.launch.launcher.starts_processes() for start in self.starts)
        programs = (start for start in self.starts if start.launch.kind == PYTHON)
        return has_launcher and all(start.gets_rank for start in programs)

    @cached_property
    def uses_launcher(self) -> bool:
        """Return True if a command is or may be a launcher; an unknown command may be one."""
        if any(command.words and not command.name for command in self.shell.commands):
            return True
        # An srun whose output is captured only asks a node for something.
        launches = [
            each for each in self.every_launch if not (each.is_srun and each.command.captured)
        ]
        return any(launch.is_launcher or not launch.certain for launch in launches)

    def given(self, *names: str) -> Optional[GivenOption]:
        """Return the first of these options that the script gives, or None."""
        options = [self.header.options[name] for name in names if self.has(name)]
        return next((option for option in options if option.source == SCRIPT), None)

    def has(self, *names: str) -> bool:
        """Return True if one of these options is given, in the script or elsewhere."""
        return any(name in self.header.options for name in names)

    @property
    def top(self) -> SourceSpan:
        """Return the place of the first directive, for findings about missing lines."""
        first = next((given.place.line for given in self.header.given if given.place.line), 1)
        return SourceSpan(first, 1, len(self.lines[first - 1]) + 1)

    def argument_place(self, word: str) -> Optional[SourceSpan]:
        """Return the place of the first argument with this value, or None."""
        arguments = chain.from_iterable(command.words[1:] for command in self.shell.commands)
        return next((argument.place for argument in arguments if argument.value == word), None)

    @property
    def tasks(self) -> int:
        """Return the job's tasks; 1 if the directives cannot be read."""
        return 1 if self.plan is None else self.plan.nodes * self.plan.ntasks_per_node

    @property
    def fixed_nodes(self) -> bool:
        """Return True if the number of nodes is known; for tasks alone, Slurm chooses it."""
        return self.has("nodes") or not self.has("ntasks", "gpus", "nodelist", "gpus-per-task")

    def count_processes(self, launch: Launch) -> Optional[Tuple[int, int]]:
        """Return (nodes, tasks per node) that a launcher starts in the job, None if not known."""
        if launch.is_srun:
            return self._count_srun_tasks(launch)
        total = launch.count(*launch.launcher.processes)
        takes_tasks = launch.launcher.uncounted == ALL and launch.certain and self.has(*TASKS)
        if total is None and takes_tasks and self.fixed_nodes:
            total = self.tasks
        if total is None or launch.has(*launch.launcher.places):
            return None
        # Over ssh, it uses the nodes that its options name, or this one.
        nodes = 1 if self.plan is None or launch.launcher.ssh else self.plan.nodes
        return (nodes, total // nodes) if total > nodes else (total, 1)

    def _count_srun_tasks(self, launch: Launch) -> Optional[Tuple[int, int]]:
        """Return (nodes, tasks per node) of an srun, None if not known.

        If the job has a number of tasks, each srun has the same (SLURM_NTASKS) and ignores
        ``--ntasks-per-node`` (tried with Slurm 22.05 and 24.11).
        """
        counts = {name: launch.count(name) for name in ("nodes", "ntasks", "ntasks_per_node")}
        has_unknown = any(launch.has(name) and count is None for name, count in counts.items())
        if self.plan is None or not launch.certain or has_unknown or launch.has("ntasks_per_gpu"):
            return None
        nodes, tasks, per_node = counts.values()
        if tasks is None and self.has("ntasks", "ntasks-per-node"):
            if nodes not in (None, self.plan.nodes):
                return None  # an error, or a share of the tasks: it depends on the release
            tasks = self.tasks
        if tasks is None:
            by_gpu = self.has("ntasks-per-gpu")
            return None if by_gpu else (nodes or self.plan.nodes, per_node or 1)
        if tasks == 0:
            return None  # srun refuses it
        nodes = nodes or min(self.plan.nodes, tasks)
        return nodes, -(-tasks // nodes)  # rounded up


SCRIPT_RULES: Registry[ScriptFacts] = Registry()
script_rule = SCRIPT_RULES.rule
