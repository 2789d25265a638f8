"""What a script starts: where, how often, and with how many GPUs."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.launch.launchers import ALL, ONE
from neuronctl.rules.script_base import ScriptFacts, Start
from neuronctl.scripts.launches import PYTHON, Launch
from neuronctl.scripts.model import GPU_OPTIONS
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES


@dataclass(frozen=True)
class Started:
    """One line of the table. None: not known.

    what: the launchers, from the outside, and the program. tasks: Slurm's, of which each starts it.
    processes: in all.
    """

    line: int
    what: str
    nodes: Optional[int]
    tasks: Optional[int]
    processes: Optional[int]
    gpus_each: str
    looped: bool
    background: bool


def started(facts: ScriptFacts) -> Tuple[Started, ...]:
    """The programs that a script starts, in the order of its lines."""
    return tuple(_rows(facts))


def _rows(facts: ScriptFacts) -> Iterator[Started]:
    for start in facts.starts:
        launch = start.launch
        works = launch.is_launcher or launch.kind == PYTHON or launch.name not in LOOKS_OR_PREPARES
        if launch.inside or launch.command.captured or not works:
            continue
        tasks_each, processes_each = _per_node(facts, start)
        nodes = start.nodes
        whole = [each for each in start.outer if _starts_all(each)]
        if nodes is None and whole and facts.plan:
            nodes = facts.plan.nodes
        if launch.is_launcher and launch.is_srun:
            nodes, tasks_each = facts.times(launch) or (None, None)
            processes_each = tasks_each
        yield Started(
            launch.place.line,
            " ".join(_name(each) for each in (*start.outer, launch)),
            nodes,
            _times(nodes, tasks_each),
            _times(nodes, processes_each),
            _gpus(facts, start, processes_each),
            launch.command.looped,
            launch.command.background,
        )


def _times(nodes: Optional[int], each: Optional[int]) -> Optional[int]:
    return None if nodes is None or each is None else nodes * each


def _per_node(facts: ScriptFacts, start: Start) -> Tuple[Optional[int], Optional[int]]:
    """(tasks, processes) on each node."""
    launchers = [launch for launch in (*start.outer, start.launch) if launch.is_launcher]
    tasks: Optional[int] = 1
    processes: Optional[int] = 1
    for launch in launchers:
        if launch.launcher.starts_processes():
            processes = _processes(facts, launch, start.nodes)
        else:
            tasks = (facts.times(launch) or (None, None))[1]
            if tasks is None and _starts_all(launch) and facts.plan:
                tasks = facts.plan.ntasks_per_node
    return tasks, None if tasks is None or processes is None else tasks * processes


def _starts_all(launch: Launch) -> bool:
    """Whether it starts one process for each task of the job, as mpirun does without a number."""
    uncounted = launch.launcher.uncounted == ALL and not launch.is_srun
    return uncounted and not launch.has(*launch.launcher.counts, *launch.launcher.places)


def _processes(facts: ScriptFacts, launch: Launch, nodes: Optional[int]) -> Optional[int]:
    """How many processes a launcher starts on its node."""
    gpus = facts.plan.gpus_per_node if facts.plan else None
    for name in launch.launcher.processes_per_node:
        if launch.options.get(name.lstrip("-").replace("-", "_")) in ("gpu", "auto"):
            return gpus or None
    each = launch.count(*launch.launcher.processes_per_node)
    total = launch.count(*launch.launcher.processes)
    if total is not None:
        return total // max(1, launch.count(*launch.launcher.nodes) or nodes or 1)
    if (
        each is None
        and not launch.has(*launch.launcher.counts)
        and launch.launcher.uncounted == ONE
    ):
        return 1
    return each


def _gpus(facts: ScriptFacts, start: Start, processes: Optional[int]) -> str:
    """The GPUs that a process has to itself; ``1/2`` if two share one."""
    if facts.plan is None:
        return "?"
    has = facts.plan.gpus_per_node
    for variable in start.launch.command.assigned:
        if variable.name == "CUDA_VISIBLE_DEVICES" and variable.word.raw:
            return str(variable.word.raw.count(",") + 1)
    srun = next((launch for launch in (start.launch, *start.outer) if launch.is_srun), None)
    if srun is not None and srun.has(*GPU_OPTIONS):
        own = srun.count("gpus_per_task", "gpus_per_node", "gpus")
        return "?" if own is None else str(own)
    if not has or not processes:
        return "0" if not has else "?"
    whole, rest = divmod(has, processes)
    return str(whole) if not rest else f"{has}/{processes}"


def _name(launch: Launch) -> str:
    if launch.kind == PYTHON and not launch.has("c"):
        module = launch.options.get("m", "")
        script = launch.options.get("script") or launch.word.value or launch.word.raw
        return f"-m {module}" if module else script.rpartition("/")[2].replace("\0", "…")
    if launch.is_launcher:
        return launch.kind
    return (launch.word.value or launch.word.raw).rpartition("/")[2]
