"""Each partition as a person wants to see it: what is free, what is mine, how long I would wait.

Pure.
"""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

from neuronctl.catalog.model import Catalog, Cluster
from neuronctl.common import units
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.words import counted
from neuronctl.forecast.limits import usage
from neuronctl.forecast.snapshot import Snapshot, is_up
from neuronctl.judgement.judgement import judge
from neuronctl.judgement.verdict import CAN_START, WILL_WAIT, Verdict
from neuronctl.planning import plan
from neuronctl.request.job import JobRequest
from neuronctl.rules import RuleContext
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
        """Used, free and down, each as its sign of the three; whatever there is shows."""
        total = self.free + self.used + self.down
        if not total:
            return " " * width
        text = ""
        for sign, count in zip(signs, (self.used, self.free, self.down)):
            text += sign * (max(1, round(width * count / total)) if count else 0)
        # Rounding may have made it one too long or too short: the longest part can bear it.
        longest = max(signs, key=text.count)
        while len(text) > width:
            text = text.replace(longest, "", 1)
        return text.replace(longest, longest * (width - len(text) + 1), 1)

    @property
    def free_words(self) -> str:
        """``1 GPU``, ``12 cores``."""
        return counted(self.free, self.unit)

    @property
    def word(self) -> str:
        """``now``, ``waits``, ``refused`` or ``not known``."""
        return {CAN_START: "now", WILL_WAIT: "waits"}.get(self.next.kind, self.next.kind)

    def wait(self, now: int) -> str:
        """``now``, or for what it waits and for how long at most."""
        if self.next.kind == CAN_START:
            return "now"
        if self.next.kind != WILL_WAIT:
            return f"{self.next.kind}: {self.next.cause}" if self.next.cause else self.next.kind
        text = self.next.cause or "limit"
        if self.next.until is not None:
            text += f", at most {units.format_time(max(0, self.next.until - now))}"
        return text

    def explained_wait(self, now: int) -> str:
        """The same with the verdict's own words; "" where it starts now."""
        if self.next.kind == CAN_START:
            return ""
        return f"{self.wait(now)}: {self.next.words}" if self.next.words else self.wait(now)


def partitions_now(
    names: Sequence[str], cluster: Cluster, catalog: Catalog, snapshot: Snapshot
) -> Tuple[PartitionNow, ...]:
    """Those of the named partitions, or of all that Slurm has."""
    shown = names or [partition.name for partition in snapshot.limits.partitions]
    return tuple(_partition_now(name, cluster, catalog, snapshot) for name in shown)


def _partition_now(
    name: str, cluster: Cluster, catalog: Catalog, snapshot: Snapshot
) -> PartitionNow:
    groups = [group for group in snapshot.nodes if name in group.partitions]
    gpus = any(group.gpus for group in groups)
    request = JobRequest(script="job", partition=name, gpus_per_node=1 if gpus else None)
    judgement = judge(RuleContext(plan(request, cluster), catalog), snapshot)
    # How it is asked for is not the matter here, only whether there is a place for it.
    each = judgement.refusals, judgement.warnings
    refusals, warnings = (
        tuple(found for found in some if found.rule.closes_partition) for some in each
    )
    judgement = replace(judgement, refusals=refusals, warnings=warnings)
    assert judgement.forecast is not None
    on_cluster = judgement.forecast.on_cluster

    def share(kind: str, tres: str = "") -> LimitUse:
        limit = on_cluster.limit(kind, tres)
        unlimited = Limit(kind, tres, 0, Scope.CATALOG, name)
        used = usage(limit or unlimited, on_cluster).used
        return LimitUse(used, None if limit is None else limit.figure)

    free = used = down = 0
    for group in groups:
        total, held = (group.gpus, group.gpus_used) if gpus else (group.cores, group.cores_used)
        used += len(group.names) * held
        if not is_up(group) or "MAINT" in group.state:
            down += len(group.names) * (total - held)
        else:
            free += len(group.names) * (total - held)
    return PartitionNow(
        partition=name,
        unit="GPU" if gpus else "core",
        free=free,
        used=used,
        down=down,
        my_gpus=share("MaxTRESPU", "gres/gpu"),
        my_running=share("MaxJobsPU"),
        my_jobs=share("MaxSubmitPU"),
        next=judgement.verdict,
    )
