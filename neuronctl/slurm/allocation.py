"""The allocation a process stands in, as Slurm's variables tell it. Pure."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Tuple

from neuronctl import units
from neuronctl.errors import UsageError
from neuronctl.frozen import dataclass


@dataclass(frozen=True)
class Allocation:
    """What a job has; counts are per node, None where its variables do not say.

    partition: its name, or "". cores: of the node with the fewest.
    """

    job_id: int
    nodes: Tuple[str, ...]
    partition: str
    gpus: Optional[int]
    cores: int
    ntasks_per_node: Optional[int]


def from_environment(environ: Mapping[str, str]) -> Allocation:
    """The allocation that ``environ`` describes; raises UsageError where there is none."""
    job_id, nodes = environ.get("SLURM_JOB_ID"), environ.get("SLURM_JOB_NODELIST")
    if not job_id or not nodes:
        raise UsageError(
            "this is no allocation: SLURM_JOB_ID and SLURM_JOB_NODELIST are not set",
            "open one with 'neuronctl salloc', or submit a batch job with 'neuronctl submit'",
        )
    try:
        return Allocation(
            job_id=int(job_id),
            nodes=tuple(units.expand_hostlist(nodes)),
            partition=environ.get("SLURM_JOB_PARTITION", ""),
            gpus=_gpus(environ),
            cores=min(_counts(environ.get("SLURM_JOB_CPUS_PER_NODE", "1"))),
            ntasks_per_node=_number(environ.get("SLURM_NTASKS_PER_NODE")),
        )
    except ValueError as error:
        raise UsageError(
            f"the allocation's variables cannot be read: {error}",
            "they are Slurm's (env | grep SLURM_): open a shell with 'neuronctl salloc' again",
        ) from None


def _gpus(environ: Mapping[str, str]) -> Optional[int]:
    """GPUs a node; None in the shell that a bare salloc leaves on the login node, as a rule."""
    if "SLURM_GPUS" in environ and environ.get("SLURM_JOB_NUM_NODES") != "1":
        return None  # so many in all: the nodes may differ
    count = _number(environ.get("SLURM_GPUS_ON_NODE"))
    if count is not None:
        return count
    each = environ.get("SLURM_GPUS_PER_NODE")  # "4", "a100:4" or "a100:2,h100:2"
    if each:
        return sum(int(one.rpartition(":")[2]) for one in each.split(","))
    visible = environ.get("SLURM_JOB_GPUS")
    if not visible and environ.get("SLURMD_NODENAME"):
        visible = environ.get("CUDA_VISIBLE_DEVICES")  # elsewhere it is not the job's
    return len([one for one in visible.split(",") if one]) if visible else None


def _number(text: Optional[str]) -> Optional[int]:
    # "2(x3)" where all nodes are alike.
    match = re.match(r"\d+", text or "")
    return int(match.group()) if match else None


def _counts(text: str) -> Tuple[int, ...]:
    """``16(x2),8`` -> (16, 8): the different counts of a per-node list."""
    return tuple(int(count) for count in re.findall(r"(\d+)(?:\(x\d+\))?", text))
