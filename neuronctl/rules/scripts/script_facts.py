"""The facts that a rule on a batch script's text may use."""

from __future__ import annotations

import re
from functools import cached_property
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
    """A program that the script starts, where, and how often.

    nodes: how many it starts on. per_node: how often on each of them. Both None if not known.
    outer: what starts it, from the outside; empty for what the batch shell starts.
    """

    launch: Launch
    nodes: Optional[int] = 1
    per_node: Optional[int] = 1
    outer: Tuple[Launch, ...] = ()

    @property
    def gets_rank(self) -> bool:
        """Return True if a launcher that sets ranks starts it; srun does not."""
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

    plan: what its directives ask for, None if they cannot be read. text: the file's, as far as it
    is read. unreadable: what bash cannot read of it. left_out: the first line that is not read, 0
    if all are. name: the file's. release: Slurm's, such as (22, 5); empty if it is not known.
    read_program: returns the text of a Python file that the job starts, "" if it is not here.
    """

    text: str
    header: Header
    shell: ShellText
    plan: Optional[JobPlan]
    unreadable: Optional[SyntaxProblem] = None
    left_out: int = 0
    name: str = ""
    release: Tuple[int, ...] = ()
    read_program: Callable[[str], str] = field(default=lambda name: "", compare=False)

    @cached_property
    def lines(self) -> Tuple[str, ...]:
        """Return the lines of the file."""
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
        """Return the programs that its commands start."""
        return launches(self.shell.commands)

    @cached_property
    def every_launch(self) -> Tuple[Launch, ...]:
        """Return the programs that it starts and those that they start in turn."""
        return tuple(start.launch for start in self.starts)

    @cached_property
    def strict(self) -> bool:
        """Return True if the shell exits when a command fails."""
        given = [word or "" for each in self.shell.calls("set") for word in each.arguments]
        option = re.compile(r"-[a-zA-Z]*e[a-zA-Z]*|errexit")
        return any(map(option.fullmatch, (*self.header.shebang.split()[1:], *given)))

    @cached_property
    def starts(self) -> Tuple[Start, ...]:
        """Return each of these with its place and how often it starts, in the same order."""
        return tuple(start for launch in self.launches for start in self._starts(Start(launch)))

    def _starts(self, start: Start) -> Iterator[Start]:
        yield start
        launch, times = start.launch, (start.nodes, start.per_node)
        if launch.is_launcher:
            times = self.count_processes(launch) or (None, None)
            if launch.launcher.starts_processes() and start.nodes is not None:
                total = launch.count(*launch.launcher.processes)
                each = None if total is None else total // start.nodes
                each = launch.count(*launch.launcher.processes_per_node) or each
                times = start.nodes, each or None
        for inner in launch.inside:
            yield from self._starts(Start(inner, *times, (*start.outer, launch)))

    @cached_property
    def ranks_are_given(self) -> bool:
        """Return True if launchers that set ranks start all Python programs."""
        launchers = any(start.launch.launcher.starts_processes() for start in self.starts)
        programs = (start for start in self.starts if start.launch.kind == PYTHON)
        return launchers and all(start.gets_rank for start in programs)

    @cached_property
    def uses_launcher(self) -> bool:
        """Return True if anything in it is or may be a launcher, such as an unknown command."""
        unknown = any(command.words and not command.name for command in self.shell.commands)
        return unknown or any(
            (launch.is_launcher or not launch.certain)
            and not (launch.command.captured and launch.is_srun)  # it asks a node for something
            for launch in self.every_launch
        )

    def given(self, *names: str) -> Optional[GivenOption]:
        """Return the first of these options that the script gives, or None."""
        found = [self.header.options[name] for name in names if self.has(name)]
        return next((option for option in found if option.source == SCRIPT), None)

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
        words = (own for command in self.shell.commands for own in command.words[1:])
        return next((own.place for own in words if own.value == word), None)

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
        each_task = launch.launcher.uncounted == ALL and launch.certain and self.has(*TASKS)
        if total is None and each_task and self.fixed_nodes:
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
        unknown = any(launch.has(name) and count is None for name, count in counts.items())
        if self.plan is None or not launch.certain or unknown or launch.has("ntasks_per_gpu"):
            return None
        nodes, tasks, each = counts.values()
        if tasks is None and self.has("ntasks", "ntasks-per-node"):
            if nodes not in (None, self.plan.nodes):
                return None  # an error, or a share: it depends on the release
            tasks = self.tasks
        if tasks is None:
            by_gpu = self.has("ntasks-per-gpu")
            return None if by_gpu else (nodes or self.plan.nodes, each or 1)
        if tasks == 0:
            return None  # srun refuses it
        nodes = nodes or min(self.plan.nodes, tasks)
        return nodes, -(-tasks // nodes)


SCRIPT_RULES: Registry[ScriptFacts] = Registry()
script_rule = SCRIPT_RULES.rule
