"""What a running job's nodes use now, and the stacks of its processes (templates/stacks.j2)."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import NeuronctlError
from neuronctl.monitoring.samples import mean
from neuronctl.slurm.fields import count, parse_number
from neuronctl.slurm.nvidia_smi import SURVEYED, gpu_columns, query
from neuronctl.slurm.srun import on_each_node, split_by_task
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import nodes_of

# What a node reports about itself: one fact per line, "KIND<tab>values". The tool may exist and
# find no GPU. Load, cores, and memory are those of the whole node; GPU memory is in MiB.
_SURVEY = r"""
printf '@node\t%s\n' "${SLURMD_NODENAME:-$(hostname -s)}"
read_gpus "$1" 2>/dev/null | while IFS= read -r line; do printf '@gpu\t%s\n' "$line"; done
read -r load rest </proc/loadavg
printf '@load\t%s\n' "$load"
printf '@cores\t%s\n' "$(getconf _NPROCESSORS_ONLN)"
while read -r name value unit; do
    case $name in MemTotal: | MemAvailable:) printf '@%s\t%s\n' "${name%:}" "$value" ;; esac
done </proc/meminfo
"""

_AT_ONCE = 8
"""How many jobs are surveyed at the same time, each by one srun."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as its vendor's tool reports it; None if unknown. use: percent. memory: MiB."""

    index: str
    name: str
    use: Optional[float]
    memory_used: Optional[float]
    memory: Optional[float]
    power: Optional[float]
    temperature: Optional[float]


@dataclass(frozen=True)
class NodeUsage:
    """A node of a job. load: average of the last minute. cores, memory (MiB): of the whole node."""

    node: str
    gpus: Tuple[Gpu, ...] = ()
    load: Optional[float] = None
    cores: Optional[int] = None
    memory_used: Optional[float] = None
    memory: Optional[float] = None


@dataclass(frozen=True)
class JobUsage:
    """A running job and its nodes now.

    silent: the nodes that did not answer. problem: why no node could be asked; "" otherwise.
    """

    status: JobStatus
    nodes: Tuple[NodeUsage, ...] = ()
    silent: Tuple[str, ...] = ()
    problem: str = ""

    @property
    def gpus(self) -> Tuple[Gpu, ...]:
        """Return the GPUs of all nodes."""
        return tuple(gpu for node in self.nodes for gpu in node.gpus)

    @property
    def use(self) -> Optional[float]:
        """Return the mean use of its GPUs in percent; None if unknown."""
        return mean([gpu.use for gpu in self.gpus if gpu.use is not None])


def parse_node_usage(text: str) -> Tuple[NodeUsage, ...]:
    """Parse the nodes' reports (_SURVEY), in task order; skip other lines."""
    usages = []
    for lines in split_by_task(text).values():
        facts = re.findall(r"(?m)^@(\w+)\t(.*)", "\n".join(lines))
        if not facts:
            continue
        values = dict(facts)
        total = parse_number(values.get("MemTotal", ""))
        free = parse_number(values.get("MemAvailable", ""))
        usage = NodeUsage(
            node=values.get("node", ""),
            gpus=_gpus([text for kind, text in facts if kind == "gpu"]),
            load=parse_number(values.get("load", "")),
            cores=count(values.get("cores", "")),
            memory_used=None if total is None or free is None else (total - free) / 1024,
            memory=None if total is None else total / 1024,
        )
        usages.append(usage)
    return tuple(usages)


def _gpus(lines: Sequence[str]) -> Tuple[Gpu, ...]:
    """Return the GPUs in lines of nvidia-smi: a header, then one line per GPU."""
    places = gpu_columns(lines[0]) if lines else {}
    if not set(SURVEYED) <= set(places):
        return ()
    gpus = []
    for line in lines[1:]:
        row = [text.strip() for text in line.split(",")]
        if len(row) > max(places.values()):  # a complete line
            index, name, *figures = (row[places[figure]] for figure in SURVEYED)
            gpus.append(Gpu(index, name, *map(parse_number, figures)))
    return tuple(gpus)


def read_job_usage(status: JobStatus) -> JobUsage:
    """Survey every node of a running job with one srun; raise as on_each_node()."""
    from neuronctl.rendering.template_environment import gpu_reader

    nodes = nodes_of(status)
    survey = ["bash", "-c", f"{gpu_reader()}{_SURVEY}", "bash", query(*SURVEYED)]
    usages = parse_node_usage(on_each_node(status.job_id, nodes, survey, timeout=30))
    return JobUsage(status, usages, tuple(sorted(set(nodes) - {usage.node for usage in usages})))


def read_each_usage(statuses: Sequence[JobStatus]) -> List[JobUsage]:
    """Survey running jobs at the same time; a job that cannot be asked gets a problem.

    The idlest come first, unknown ones last.
    """

    def survey(status: JobStatus) -> JobUsage:
        try:
            return read_job_usage(status)
        except NeuronctlError as error:
            return JobUsage(status, problem=error.message)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        usages = list(pool.map(survey, statuses))
    return sorted(usages, key=lambda job: (job.use is None, job.use or 0.0))


_PATIENCE = 120.0  # seconds; a node stops asking py-spy after 60


@dataclass(frozen=True)
class ProcessStack:
    """A process of a job."""

    node: str
    pid: int
    rank: str  # of torchrun or srun; "" for a process without one
    state: str  # as ps has it
    name: str
    tool: str  # "py-spy"; of the kernel's stacks, "no py-spy" on PATH, "py-spy failed", or ""
    lines: Tuple[str, ...] = ()  # its stacks


def read_stacks(job_id: int, nodes: Sequence[str]) -> List[ProcessStack]:
    """Ask every node of a running job with one srun, beside the job's own steps.

    Raises SlurmUnavailableError, and SlurmRefusedError with Slurm's message.
    """
    from neuronctl.rendering.template_environment import script_templates

    template = script_templates().get_template("shipped/stacks.j2")
    text = f"{template.module.show_stacks()}\nshow_stacks"  # type: ignore[attr-defined]
    answers = split_by_task(on_each_node(job_id, nodes, ["bash", "-c", text], _PATIENCE))
    return [stack for lines in answers.values() for stack in parse_stacks(lines)]


_PROCESS = re.compile(r"@process\t([\w.-]+)\t([0-9]{1,9})\t([0-9]*)\t(\w?)\t(.*)\t([a-z -]*)")
"""The line before a process's stacks: node, pid, rank, state, name, and tool."""


def parse_stacks(lines: Sequence[str]) -> List[ProcessStack]:
    """Parse the output of show_stacks on one or several nodes."""
    stacks: List[ProcessStack] = []
    for line in lines:
        fields = _PROCESS.fullmatch(line)
        if fields is not None:
            node, pid, rank, state, name, tool = fields.groups()
            stacks.append(ProcessStack(node, int(pid), rank, state, name, tool))
        elif stacks:
            stacks[-1] = replace(stacks[-1], lines=(*stacks[-1].lines, line.rstrip()))
    return stacks


def alike(stacks: Sequence[ProcessStack]) -> List[List[ProcessStack]]:
    """Group processes with the same stacks.

    The order of the groups: with ranks first, then those that py-spy read, then small ones.
    """
    groups: Dict[Tuple[str, str], List[ProcessStack]] = {}
    for stack in stacks:
        # Ignore the ids of threads, which differ between processes that do the same.
        text = re.sub(r"(?m)^Thread (0x)?[0-9A-Fa-f]+( \(\w+\))?", "Thread", "\n".join(stack.lines))
        groups.setdefault((stack.name, text), []).append(stack)
    return sorted(
        groups.values(),
        key=lambda group: (not group[0].rank, group[0].tool != "py-spy", len(group)),
    )
