"""plan(request, cluster) -> JobPlan: every value a script needs, each with its reason. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from neuronctl.catalog.model import Cluster, Partition
from neuronctl.job import JobRequest, Source
from neuronctl.rules import Finding


@dataclass(frozen=True)
class Directive:
    """One ``#SBATCH --option=value`` line; ``value`` None for a flag."""

    option: str
    value: Optional[str] = None


@dataclass(frozen=True)
class Decision:
    """One value of the plan and why it is that: the rows of ``--explain``."""

    name: str
    value: str
    source: Source
    why: str = ""


@dataclass(frozen=True)
class JobPlan:
    """A job whose every value is settled; what render(), the rules and the records work from."""

    request: JobRequest
    cluster: Cluster
    partition: Partition
    job_name: str
    nodes: int
    ntasks_per_node: int
    cpus_per_task: int
    gpus_per_node: int
    processes_per_node: int
    """Training processes a node: ntasks_per_node, or what torchrun starts in its one task."""
    time_limit: Optional[int]
    """Seconds, units.UNLIMITED, or None where neither the user nor the catalog says."""
    comment: Optional[str]
    output: str
    """Log file pattern as sbatch takes it."""
    error: Optional[str]
    """None where standard error goes to ``output`` too."""
    launcher: str
    directives: Tuple[Directive, ...] = ()
    decisions: Tuple[Decision, ...] = ()
    findings: Tuple[Finding, ...] = ()
