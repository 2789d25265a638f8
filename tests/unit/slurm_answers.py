"""A small cluster as Slurm tells it, and what the gate says of a job there."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional, Sequence, Set, Tuple

from plan_builders import NO_POLICY, cluster, plan_of

from neuronctl.catalog.cluster import Catalog, Policy
from neuronctl.judgement.judgement import Judgement, judge
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.records.bad_nodes import NodeFault
from neuronctl.rules import RuleContext
from neuronctl.rules.base import LocalFacts
from neuronctl.slurm.figures import ClusterFigures
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import Limit, Scope, read_limits
from neuronctl.slurm.sacctmgr import Association, LimitedGroup, SlurmQos
from neuronctl.slurm.scontrol import NodeGroup, Reservation, SiteConfig, SitePartition
from neuronctl.slurm.squeue import QueueJob

NOW = 1_800_000_000
PARTITION = SitePartition(
    "gpu", "UP", "n[1-4]", 4, 48 * 3600, 3600, None, "p_gpu", False, 1000, (), (), ()
)
OTHER = dataclasses.replace(PARTITION, name="cpu", qos="", node_list="c1", nodes=1)
LIMITED = {"MaxSubmitPU": "4", "MaxJobsPU": "3", "MaxTRESPU": "gres/gpu=16"}
QOS = SlurmQos("p_gpu", (), read_limits(LIMITED, Scope.QOS, "p_gpu"))
NORMAL = SlurmQos("normal", ())
MINE = Association("lab", "", ("normal",), "normal", is_default=True)
CONFIG = SiteConfig("toy", "22.05.8", ("associations", "limits", "qos"), True)


def node(name: str, used: int = 0, **fields: Any) -> NodeGroup:
    """A node of 64 cores and 8 GPUs, ``used`` of them."""
    return dataclasses.replace(
        NodeGroup(
            (name,), "IDLE", ("gpu",), 64, used * 8, 512000, 0, 8, used, "a100", "x86_64", ()
        ),
        **fields,
    )


NODES = tuple(node(f"n{number}") for number in range(1, 5))
LIMITS = ClusterFigures(CONFIG, (PARTITION, OTHER), NODES, (NORMAL, QOS), (MINE,))


def job(number: int, gpus: int = 0, state: str = "RUNNING", **fields: Any) -> QueueJob:
    """A row of squeue; tres: what it holds besides GPUs."""
    values: Dict[str, Any] = dict.fromkeys((each.name for each in dataclasses.fields(QueueJob)), "")
    values.update(id=JobId(number), job_id=number, user="kim", partition="gpu", account="lab")
    values.update(qos="normal", state=state, nodes=1, gpus_per_node=None, end=NOW + number)
    values.update(priority=None, time_used=None, time_limit=None, submit=None, start=None)
    values.update({"exit": None, **fields})
    values["tres"] = {"gres/gpu": gpus, **fields.get("tres", {})}
    return QueueJob(**values)


def live(
    jobs: Tuple[QueueJob, ...] = (), limits: ClusterFigures = LIMITS, **fields: Any
) -> Snapshot:
    return dataclasses.replace(Snapshot(limits, jobs, limits.nodes, {}, NOW), **fields)


def judged(
    snapshot: Optional[Snapshot],
    *,
    unasked_because: str = "",
    site: Policy = NO_POLICY,
    bad_nodes: Sequence[str] = (),
    **request: Any,
) -> Judgement:
    made = plan_of(cluster(site), **request)
    catalog = Catalog({"toy": made.cluster}, "toy", ())
    faults = {node: NodeFault(node, 7, NOW, "no GPU") for node in bad_nodes}
    local = LocalFacts(bad_nodes=faults)
    return judge(RuleContext(made, catalog, local), snapshot, unasked_because)


def with_partition(**fields: Any) -> ClusterFigures:
    changed = dataclasses.replace(PARTITION, **fields)
    return dataclasses.replace(LIMITS, partitions=(changed, OTHER))


def reserved(nodes: str, **fields: Any) -> Reservation:
    """All of these nodes, from an hour before NOW to an hour after it."""
    base = Reservation("course", NOW - 3600, NOW + 3600, nodes, None, ())
    return dataclasses.replace(base, **fields)


def with_more(*more: str) -> ClusterFigures:
    """Further limits of the partition's QOS, as ``"MaxTRES cpu=8"``; they replace its own."""
    kinds = [text.partition(" ")[0] for text in more]
    own = {kind: text for kind, text in LIMITED.items() if kind not in kinds}
    qos = qos_with({**own, **fields_of(more)})
    return dataclasses.replace(LIMITS, qos=(NORMAL, qos))


def qos_with(fields: Dict[str, str]) -> SlurmQos:
    """The partition's QOS with these limits, by sacctmgr's fields."""
    return dataclasses.replace(QOS, limits=read_limits(fields, Scope.QOS, "p_gpu"))


def with_mine(*more: str) -> ClusterFigures:
    """Limits of the user's association."""
    mine = dataclasses.replace(MINE, limits=read_limits(fields_of(more), Scope.ASSOCIATION, "lab"))
    return dataclasses.replace(LIMITS, associations=(mine,))


def with_accounts(*associations: Association) -> ClusterFigures:
    """A user of these accounts, on a cluster that has their QOS."""
    more = tuple(SlurmQos(name, ()) for name in ("fast", "long"))
    return dataclasses.replace(LIMITS, associations=associations, qos=(NORMAL, QOS, *more))


def fields_of(texts: Sequence[str]) -> Dict[str, str]:
    """``"MaxTRES cpu=8"`` by kind, as sacctmgr's fields are."""
    return {kind: figures for kind, _, figures in (text.partition(" ") for text in texts)}


def shared(scope: str, name: str, parent: str = "", **limits: Tuple[int, ...]) -> LimitedGroup:
    """Limits of a group, each with what is held of it."""
    found = []
    for key, (figure, *held) in limits.items():
        kind, tres = GROUP[key]
        found.append(Limit(kind, tres, figure, scope, name, *held))
    return LimitedGroup(scope, name, parent, "", tuple(found))


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


BUSY = tuple(job(number, 1) for number in (1, 2, 3))
FULL = tuple(node(f"n{number}", 8) for number in range(1, 5))
WAITING = job(9, state="PENDING", id=JobId(9, tasks="1-3"))

NEW = dataclasses.replace(LIMITS, partitions=(PARTITION, dataclasses.replace(OTHER, name="new")))


def codes(result: Judgement) -> Set[str]:
    return {one.code for one in result.findings}
