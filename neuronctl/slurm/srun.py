"""srun inside a running job, alongside its steps: a shell, or a survey of its nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from neuronctl.common.units import compress_hostlist
from neuronctl.slurm.fields import count, parse_number
from neuronctl.slurm.nvidia_smi import SURVEYED, gpu_columns, query
from neuronctl.slurm.process import failure, run

# What a node reports about itself: one fact per line, "KIND<tab>values". nvidia-smi may exist and
# find no GPU. Load, cores, and memory are those of the whole node; GPU memory is in MiB.
_SURVEY = r"""printf '@node\t%s\n' "${SLURMD_NODENAME:-$(hostname -s)}"
if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu="$1" --format=csv,nounits 2>/dev/null |
        while IFS= read -r line; do printf '@gpu\t%s\n' "$line"; done
fi
read -r load rest </proc/loadavg
printf '@load\t%s\n' "$load"
printf '@cores\t%s\n' "$(getconf _NPROCESSORS_ONLN)"
while read -r name value unit; do
    case $name in MemTotal: | MemAvailable:) printf '@%s\t%s\n' "${name%:}" "$value" ;; esac
done </proc/meminfo
"""


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi reports it; None if unknown. use: percent. memory: MiB."""

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


def overlap_argv(
    job_id: int, nodes: Sequence[str], program: Sequence[str], *, pty: bool = False
) -> List[str]:
    """Run one task per node in the job's own allocation, alongside its steps."""
    argv = ["srun", f"--jobid={job_id}", "--overlap"]
    argv += [f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--ntasks-per-node=1"]
    argv.append(f"--nodelist={compress_hostlist(nodes)}")
    if pty:
        argv.append("--pty")
    return [*argv, *program]


def parse_node_usage(text: str) -> Tuple[NodeUsage, ...]:
    """Parse the nodes' reports, in task order; other lines are skipped."""
    each = ("\n".join(lines) for lines in of_each_task(text).values())
    told = [re.findall(r"(?m)^@(\w+)\t(.*)", lines) for lines in each]
    return tuple(_node(facts) for facts in told if facts)


def _node(facts: Sequence[Tuple[str, str]]) -> NodeUsage:
    told = dict(facts)
    total, free = (parse_number(told.get(name, "")) for name in ("MemTotal", "MemAvailable"))
    return NodeUsage(
        node=told.get("node", ""),
        gpus=_gpus([text for kind, text in facts if kind == "gpu"]),
        load=parse_number(told.get("load", "")),
        cores=count(told.get("cores", "")),
        memory_used=None if total is None or free is None else (total - free) / 1024,
        memory=None if total is None else total / 1024,
    )


def _gpus(lines: Sequence[str]) -> Tuple[Gpu, ...]:
    """nvidia-smi's answer: a header, and one line a GPU."""
    places = gpu_columns(lines[0]) if lines else {}
    if not set(SURVEYED) <= set(places):
        return ()
    gpus = []
    for line in lines[1:]:
        row = [text.strip() for text in line.split(",")]
        if len(row) > max(places.values()):
            index, name, *figures = (row[places[figure]] for figure in SURVEYED)
            gpus.append(Gpu(index, name, *map(parse_number, figures)))
    return tuple(gpus)


def read_node_usage(job_id: int, nodes: Sequence[str]) -> Tuple[NodeUsage, ...]:
    """Survey every node of a running job with one srun; raise as on_each_node()."""
    survey = ["bash", "-c", _SURVEY, "bash", query(*SURVEYED)]
    return parse_node_usage(on_each_node(job_id, nodes, survey, timeout=30))


def on_each_node(job_id: int, nodes: Sequence[str], program: Sequence[str], timeout: float) -> str:
    """Return what a program prints on each node of a running job, with the task before each line.

    Raises SlurmUnavailableError, and SlurmRefusedError with Slurm's message if no node answers.
    """
    argv = overlap_argv(job_id, nodes, program)
    result = run([argv[0], "--label", *argv[1:]], timeout=timeout)
    if result.returncode != 0 and not result.stdout:
        raise failure(result)
    return result.stdout


def of_each_task(text: str) -> Dict[int, List[str]]:
    """Return the lines that srun --label prints, by task, in order; skip other lines."""
    said: Dict[int, List[str]] = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9]{1,9}): (.*)", line)
        if match:
            said.setdefault(int(match[1]), []).append(match[2])
    return {task: said[task] for task in sorted(said)}
