"""The allocation that a process runs in, from Slurm's environment variables. Pure."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import UsageError
from neuronctl.slurm.fields import parse_count


@dataclass(frozen=True)
class Allocation:
    """A job's resources per node; cores: of the node with the fewest. None: unknown."""

    job_id: int
    nodes: Tuple[str, ...]
    partition: str
    gpus: Optional[int]
    cores: int
    ntasks_per_node: Optional[int]


def from_environment(environ: Mapping[str, str]) -> Allocation:
    """Return the allocation that ``environ`` describes; raise UsageError if there is none."""
    job_id, nodes = environ.get("SLURM_JOB_ID"), environ.get("SLURM_JOB_NODELIST")
    if not job_id or not nodes:
        raise UsageError(
            "not inside an allocation: SLURM_JOB_ID and SLURM_JOB_NODELIST are not set",
            "open one with 'neuronctl salloc', or submit a batch job with 'neuronctl submit'",
        )
    try:
        return Allocation(
            job_id=int(job_id),
            nodes=tuple(units.expand_hostlist(nodes)),
            partition=environ.get("SLURM_JOB_PARTITION", ""),
            gpus=_gpus_per_node(environ),
            cores=min(_counts(environ.get("SLURM_JOB_CPUS_PER_NODE", "1"))),
            # "2(x3)" if all nodes are alike.
            ntasks_per_node=parse_count(environ.get("SLURM_NTASKS_PER_NODE", "")),
        )
    except ValueError as error:
        raise UsageError(
            f"cannot read the allocation from Slurm's variables: {error}",
            "check them with 'env | grep SLURM_', or open a new shell with 'neuronctl salloc'",
        ) from None


def _gpus_per_node(environ: Mapping[str, str]) -> Optional[int]:
    """Return the GPUs per node; usually None in the shell that salloc opens on the login node."""
    if "SLURM_GPUS" in environ and environ.get("SLURM_JOB_NUM_NODES") != "1":
        return None  # a total: the nodes may differ
    on_this_node = parse_count(environ.get("SLURM_GPUS_ON_NODE", ""))
    per_node = environ.get("SLURM_GPUS_PER_NODE")  # "4", "a100:4" or "a100:2,h100:2"
    if on_this_node is None and per_node:
        return sum(int(part.rpartition(":")[2]) for part in per_node.split(","))
    return on_this_node


def _counts(text: str) -> Tuple[int, ...]:
    """Parse ``16(x2),8`` into (16, 8): the distinct counts of a per-node list."""
    return tuple(int(count) for count in re.findall(r"(\d+)(?:\(x\d+\))?", text))
