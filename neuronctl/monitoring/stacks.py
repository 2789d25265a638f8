"""The stacks of a running job's processes, which templates/stacks.j2 prints on each node."""

from __future__ import annotations

import re
from typing import Dict, List, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.slurm.srun import on_each_node, split_by_task

_PATIENCE = 120.0  # seconds; a node stops asking py-spy after 60


@dataclass(frozen=True)
class ProcessStack:
    """A process of a job."""

    node: str
    pid: int
    rank: str  # of torchrun or srun; "" for what is none
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
    told = split_by_task(on_each_node(job_id, nodes, ["bash", "-c", text], _PATIENCE))
    return [stack for lines in told.values() for stack in parse_stacks(lines)]


_PROCESS = re.compile(r"@process\t([\w.-]+)\t([0-9]{1,9})\t([0-9]*)\t(\w?)\t(.*)\t([a-z -]*)")


def parse_stacks(lines: Sequence[str]) -> List[ProcessStack]:
    """Parse the output of show_stacks on one or several nodes."""
    found: List[ProcessStack] = []
    for line in lines:
        fields = _PROCESS.fullmatch(line)
        if fields is not None:
            node, pid, rank, state, name, tool = fields.groups()
            found.append(ProcessStack(node, int(pid), rank, state, name, tool))
        elif found:
            found[-1] = replace(found[-1], lines=(*found[-1].lines, line.rstrip()))
    return found


def alike(stacks: Sequence[ProcessStack]) -> List[List[ProcessStack]]:
    """Group processes with the same stacks: small groups and those with ranks first."""
    groups: Dict[Tuple[str, str], List[ProcessStack]] = {}
    for stack in stacks:
        # Ignore what differs between processes that do the same.
        text = re.sub(r"(?m)^Thread (0x)?[0-9A-Fa-f]+( \(\w+\))?", "Thread", "\n".join(stack.lines))
        groups.setdefault((stack.name, text), []).append(stack)
    return sorted(
        groups.values(),
        key=lambda same: (not same[0].rank, same[0].tool != "py-spy", len(same)),
    )
