"""A small cluster as Slurm tells it, and what the gate says of a job there."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Set, Tuple

from making import cluster, plan_of

from neuronctl.catalog.model import Catalog
from neuronctl.forecast.facts import Live
from neuronctl.gate.judge import Judged, judge
from neuronctl.rules import RuleContext
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.sacctmgr import Association, GroupLimit, Qos, Shared
from neuronctl.slurm.scontrol import Reservation, SiteConfig, SiteNode, SitePartition
from neuronctl.slurm.snapshot import Limits, MyJob

NOW = 1_800_000_000
PARTITION = SitePartition(
    "gpu", "UP", "n[1-4]", 4, 48 * 3600, 3600, None, "p_gpu", False, 1000, (), (), ()
)
OTHER = dataclasses.replace(PARTITION, name="cpu", qos="", node_list="c1", nodes=1)
QOS = Qos("p_gpu", (), 4, 3, 16, None, None)
NORMAL = Qos("normal", (), None, None, None, None, None)
MINE = Association("lab", "", None, None, ("normal",), "normal")
CONFIG = SiteConfig("toy", "22.05.8", 101, ("associations", "limits", "qos"), True)


def node(name: str, used: int = 0, **fields: Any) -> SiteNode:
    """A node of 64 cores and 8 GPUs, ``used`` of them."""
    return dataclasses.replace(
        SiteNode(name, "IDLE", ("gpu",), 64, used * 8, 512000, 0, 8, used, "a100", "x86_64", ()),
        **fields,
    )


NODES = tuple(node(f"n{number}") for number in range(1, 5))
LIMITS = Limits(CONFIG, (PARTITION, OTHER), NODES, (NORMAL, QOS), (MINE,))


def job(number: int, gpus: int = 0, state: str = "RUNNING", **fields: Any) -> MyJob:
    base = MyJob(JobId(number), ("gpu",), "lab", "normal", state, "", 1, gpus, NOW + number)
    return dataclasses.replace(base, **fields)


def live(jobs: Tuple[MyJob, ...] = (), limits: Limits = LIMITS, **fields: Any) -> Live:
    return dataclasses.replace(Live(limits, NOW, jobs, limits.nodes, {}, NOW), **fields)


def judged(look: Optional[Live], *, why_not: str = "", **request: Any) -> Judged:
    made = plan_of(cluster(), **request)
    catalog = Catalog({"toy": made.cluster}, "toy", (), {})
    return judge(RuleContext(made, catalog), look, why_not)


def with_partition(**fields: Any) -> Limits:
    changed = dataclasses.replace(PARTITION, **fields)
    return dataclasses.replace(LIMITS, partitions=(changed, OTHER))


def reserved(nodes: str, **fields: Any) -> Reservation:
    """All of these nodes, for the user lee, from an hour before NOW to an hour after it."""
    base = Reservation("course", NOW - 3600, NOW + 3600, nodes, None, (), ("lee",), ())
    return dataclasses.replace(base, **fields)


def with_more(*more: str) -> Limits:
    """Limits of the partition's QOS that are not of GPUs a user holds."""
    return dataclasses.replace(LIMITS, qos=(NORMAL, dataclasses.replace(QOS, more=more)))


def with_mine(*more: str, **fields: Any) -> Limits:
    return dataclasses.replace(
        LIMITS, associations=(dataclasses.replace(MINE, more=more, **fields),)
    )


def shared(kind: str, name: str, parent: str = "", **limits: Tuple[int, ...]) -> Shared:
    """Limits of a group, each with what is held of it."""
    found = []
    for key, figures in limits.items():
        found.append(GroupLimit(*GROUP[key], *figures))  # type: ignore[call-arg]
    return Shared(kind, name, parent, "", tuple(found))


GROUP = {
    "submit": ("GrpSubmitJobs", ""),
    "running": ("GrpJobs", ""),
    "gpus": ("GrpTRES", "gres/gpu"),
    "cores": ("GrpTRES", "cpu"),
    "nodes": ("GrpTRES", "node"),
    "memory": ("GrpTRES", "mem"),
    "billing": ("GrpTRES", "billing"),
    "core_minutes": ("GrpTRESRunMins", "cpu"),
    "memory_minutes": ("GrpTRESRunMins", "mem"),
    "spent": ("GrpTRESMins", "cpu"),
    "wall": ("GrpWall", ""),
}


FULL_LAB = shared("account", "lab", cores=(9, 9))
BUSY = tuple(job(number, 1) for number in (1, 2, 3))
FULL = tuple(node(f"n{number}", 8) for number in range(1, 5))
WAITING = job(9, state="PENDING", id=JobId(9, tasks="1-3"), count=3)
ASK_ARRAY = {"gpus_per_node": 1, "array": "0-100"}

NEW = dataclasses.replace(LIMITS, partitions=(PARTITION, dataclasses.replace(OTHER, name="new")))


def codes(result: Judged) -> Set[str]:
    return {one.code for one in result.findings}


def with_qos(**fields: Any) -> Limits:
    return dataclasses.replace(LIMITS, qos=(NORMAL, dataclasses.replace(QOS, **fields)))
