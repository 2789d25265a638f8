"""Each partition as a person wants to see it: what is free, what is mine, how long I would wait.

Pure.
"""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Catalog, Cluster
from neuronctl.common import units
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.words import counted
from neuronctl.judgement.judgement import judge
from neuronctl.judgement.limit_checks import counted_jobs
from neuronctl.judgement.snapshot import Snapshot, is_reserved, is_up
from neuronctl.judgement.verdict import CAN_START, WILL_WAIT, Verdict
from neuronctl.planning import plan
from neuronctl.request.job import JobRequest
from neuronctl.rules import RuleContext, Trait
from neuronctl.slurm.limits import Limit, Scope


@dataclass(frozen=True)
class LimitUse:
    """How much of a limit one user holds. figure: None if there is no limit, or it is unknown."""

    used: int
    figure: Optional[int]

    def __str__(self) -> str:
        return str(self.used) if self.figure is None else f"{self.used}/{self.figure}"


@dataclass(frozen=True)
class PartitionNow:
    """One partition now. Counts are GPUs, or cores where its nodes have no GPUs.

    next: what would happen to a job of one GPU (one core) now.
    """

    partition: str
    unit: str
    free: int
    used: int
    down: int
    my_gpus: LimitUse
    my_running: LimitUse
    my_jobs: LimitUse
    next: Verdict

    def bar(self, width: int, *, signs: str = "#.x") -> str:
        """Return a bar of used, free, and down, each with its own character."""
        total = max(1, self.free + self.used + self.down)
        used = round(width * self.used / total)
        down = round(width * self.down / total)
        free = max(0, width - used - down)
        return (signs[0] * used + signs[1] * free + signs[2] * down)[:width]

    @property
    def free_words(self) -> str:
        """Return ``1 GPU``, ``12 cores``."""
        return counted(self.free, self.unit)

    def wait(self, now: int) -> str:
        """Return ``now``, or what it waits for and for how long at most."""
        if self.next.kind == CAN_START:
            return "now"
        kind = "" if self.next.kind == WILL_WAIT else self.next.kind
        text = ": ".join(filter(None, (kind, self.next.cause))) or "limit"
        if self.next.until is not None:
            text += f", at most {units.format_time(max(0, self.next.until - now))}"
        return text

    def explained_wait(self, now: int) -> str:
        """Return the wait in the verdict's words; "" if it starts now."""
        if self.next.kind == CAN_START:
            return ""
        return f"{self.wait(now)}: {self.next.words}" if self.next.words else self.wait(now)


def partitions_now(
    names: Sequence[str], cluster: Cluster, catalog: Catalog, snapshot: Snapshot
) -> Tuple[PartitionNow, ...]:
    """Return the named partitions, or all that Slurm has."""
    shown = names or [partition.name for partition in snapshot.limits.partitions]
    return tuple(_partition_now(name, cluster, catalog, snapshot) for name in shown)


def _partition_now(
    name: str, cluster: Cluster, catalog: Catalog, snapshot: Snapshot
) -> PartitionNow:
    groups = [group for group in snapshot.nodes if name in group.partitions]
    gpus = any(group.gpus for group in groups)
    request = JobRequest(script="job", partition=name, gpus_per_node=1 if gpus else None)
    judgement = judge(RuleContext(plan(request, cluster), catalog), snapshot)
    # Only whether there is room matters, not how it is requested.
    closing = tuple(found for found in judgement.findings if found.has(Trait.CLOSES_PARTITION))
    judgement = replace(judgement, findings=closing)
    assert judgement.nodes is not None
    on_cluster = judgement.nodes.on_cluster

    def share(kind: str, tres: str = "") -> LimitUse:
        limit = on_cluster.limit(kind, tres)
        counting = limit or Limit(kind, tres, 0, Scope.PARTITION, name)
        used = counting.held_by(counted_jobs(counting, on_cluster))
        return LimitUse(used, None if limit is None else limit.figure)

    free = used = down = 0
    for group in groups:
        total, held = (group.gpus, group.gpus_used) if gpus else (group.cores, group.cores_used)
        rest = len(group.names) * (total - held)
        used += len(group.names) * held
        if is_up(group) and not is_reserved(group):
            free += rest
        else:
            down += rest
    return PartitionNow(
        *(name, "GPU" if gpus else "core", free, used, down),
        *(share("MaxTRESPU", "gres/gpu"), share("MaxJobsPU"), share("MaxSubmitPU")),
        judgement.verdict,
    )
