"""Slurm's limits; each is one Limit, made when Slurm's answer is parsed. Pure.

To support another limit, add it to the table: sacctmgr is then asked for it, and all code that
reads limits gets it.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import dataclass
from neuronctl.slurm.fields import count, parse_seconds, parse_tres
from neuronctl.slurm.job_states import HOLDING, LEAVING

if TYPE_CHECKING:
    from neuronctl.slurm.squeue import QueueJob


class Per:
    """What a limit applies to; a group is all jobs of a QOS, an account, or an association."""

    JOB, NODE, USER, ACCOUNT, GROUP = "job", "node", "user", "account", "group"


class Counts:
    """What a limit counts.

    TRES: cores, GPUs, and the like. TRES_MINUTES: a TRES multiplied by the minutes that jobs may
    still run. SPENT: minutes, of a TRES or of wall time, that jobs have used. RUNNING: jobs that
    run. SUBMITTED: jobs in the queue. TIME: wall time in seconds.
    """

    TRES, TRES_MINUTES, SPENT = "TRES", "minutes", "spent"
    RUNNING, SUBMITTED, TIME = "running", "submitted", "time"


class Scope:
    """Who sets a limit. An association is the user's own, in one account."""

    QOS, ASSOCIATION, ACCOUNT = "QOS", "association", "account"
    PARTITION = "partition"


TRES_NAMES = {"cpu": "core", "node": "node", "gres/gpu": "GPU", "mem": "MB of memory"}
"""TRES -> what messages call one of it."""

# Slurm's names of a pending reason differ between a QOS and an association in these parts.
_QOS_PARTS = {"user": "PerUser", "mem": "Memory"}
_ASSOCIATION_PARTS = {"user": "", "mem": "Mem"}


@dataclass(frozen=True)
class LimitKind:
    """One of Slurm's limits.

    name: sacctmgr's name for it in a QOS, or scontrol's in a partition. association: sacctmgr's
    name for it in an association, "" if there is none. assoc_mgr: its name in ``scontrol show
    assoc_mgr`` (of an association, if associations have it), which also has its use; "" if it is
    not read there. reasons: TRES ("" if it does not count any) -> Slurm's pending reason
    (job_reason_string in Slurm's source), without the prefix "QOS" or "Assoc". minimum: jobs must
    request at least as much. bare: its reasons have no prefix. of_partition: partitions have it.
    """

    name: str
    per: str
    counts: str
    association: str
    assoc_mgr: str
    reasons: Mapping[str, str]
    minimum: bool
    bare: bool
    of_partition: bool


# Of each kind, the first line has the fields of LimitKind up to assoc_mgr, "-" for none, and the
# names of those that are True. The indented lines have its reason, or one each for cores, memory,
# nodes, and GPUs. If a job waits for several limits, Slurm gives the reason that is first here.
_TABLE = """
MaxSubmitPU user submitted MaxSubmit MaxSubmitJobs
    MaxSubmitJob{user}Limit
MaxJobsPU user running MaxJobs MaxJobs
    MaxJobs{user}Limit
GrpJobs group running - GrpJobs
    GrpJobsLimit
MaxTRESPU user TRES - -
    MaxCpuPerUserLimit MaxMemoryPerUser MaxNodePerUserLimit MaxGRESPerUser
GrpTRESRunMins group minutes - GrpTRESRunMins
    GrpCPURunMinutesLimit Grp{mem}RunMinutes GrpNodeRunMinutes GrpGRESRunMinutes
GrpTRES group TRES - GrpTRES
    GrpCpuLimit GrpMemLimit GrpNodeLimit GrpGRES
MaxTime job time - - of_partition
    PartitionTimeLimit
MaxNodes job TRES - - of_partition
    - - PartitionNodeLimit -
MaxCPUsPerNode node TRES - - of_partition
    - - - -
MaxMemPerNode node TRES - - of_partition
    - MaxMemPerLimit - -
MaxTRES job TRES MaxTRES MaxTRESPJ
    MaxCpuPerJobLimit Max{mem}PerJob MaxNodePerJobLimit MaxGRESPerJob
MaxWall job time MaxWall MaxWallPJ
    MaxWallDurationPerJobLimit
MaxTRESPerNode node TRES MaxTRESPerNode MaxTRESPN
    MaxCpuPerNode Max{mem}PerNode - MaxGRESPerNode
MinTRES job TRES - - minimum
    MinCpuNotSatisfied MinMemory MinNode MinGRES
MaxTRESPA account TRES - MaxTRESPA bare
    MaxCpuPerAccount MaxMemoryPerAccount MaxNodePerAccount MaxGRESPerAccount
MaxTRESRunMinsPU user minutes - MaxTRESRunMinsPU bare
    MaxCpuRunMinsPerUser MaxMemoryRunMinsPerUser MaxNodeRunMinsPerUser MaxGRESRunMinsPerUser
MaxTRESRunMinsPA account minutes - MaxTRESRunMinsPA bare
    MaxCpuRunMinsPerAccount MaxMemoryRunMinsPerAccount MaxNodeRunMinsPerAccount
    MaxGRESRunMinsPerAccount
MaxJobsPA account running - MaxJobsPA bare
    MaxJobsPerAccount
MaxSubmitPA account submitted - MaxSubmitJobsPA bare
    MaxSubmitJobsPerAccount
MaxTRESMins job minutes MaxTRESMins MaxTRESMinsPJ
    MaxCpuMinutesPerJobLimit Max{mem}MinutesPerJob MaxNodeMinutesPerJob MaxGRESMinutesPerJob
GrpSubmitJobs group submitted - GrpSubmitJobs
    GrpSubmitJobsLimit
GrpWall group spent - GrpWall
    GrpWallLimit
GrpTRESMins group spent - GrpTRESMins
    GrpCPUMinutesLimit Grp{mem}Minutes GrpNodeMinutes GrpGRESMinutes
"""


def _read_table(table: str) -> Iterator[LimitKind]:
    """Yield the kinds of limits in _TABLE."""
    for entry in re.split(r"\n(?=\S)", table.strip()):
        line, _, reasons = entry.partition("\n")
        name, per, counts, association, assoc_mgr, *traits = line.split()
        yield LimitKind(
            name=name,
            per=per,
            counts=counts,
            association=association.strip("-"),
            assoc_mgr=assoc_mgr.strip("-"),
            reasons=_reasons_by_tres(reasons.split()),
            minimum="minimum" in traits,
            bare="bare" in traits,
            of_partition="of_partition" in traits,
        )


def _reasons_by_tres(reasons: Sequence[str]) -> Mapping[str, str]:
    """Return a kind's reasons in the table by TRES; "" is the key of a single one."""
    if len(reasons) == 1:
        return {"": reasons[0]}
    by_tres = dict(zip(("cpu", "mem", "node", "gres/gpu"), reasons))
    # Slurm names the reasons of billing as it names those of GRES.
    by_tres["billing"] = by_tres["gres/gpu"].replace("GRES", "Billing")
    return {tres: reason for tres, reason in by_tres.items() if reason != "-"}


KINDS: Mapping[str, LimitKind] = {kind.name: kind for kind in _read_table(_TABLE)}
"""The kinds of limits by name."""

QOS_FIELDS = tuple(
    kind.name for kind in KINDS.values() if kind.per != Per.GROUP and not kind.of_partition
)
"""The fields of a QOS that sacctmgr is asked for."""

ASSOCIATION_FIELDS: Mapping[str, str] = {
    kind.association: kind.name for kind in KINDS.values() if kind.association
}
"""The field of an association that sacctmgr is asked for -> its kind."""


@dataclass(frozen=True)
class Limit:
    """One limit.

    kind: a key of ``KINDS``. tres: Slurm's name for what it counts, "" for jobs and time. figure:
    memory in MB, wall time in seconds. scope, name: who sets it (the name of the QOS, account, or
    partition). used: how much of a group's limit its jobs hold now, or have used. promised: how
    much of ``GrpTRESMins`` the running jobs may still use.
    """

    kind: str
    tres: str
    figure: int
    scope: str
    name: str
    used: int = 0
    promised: int = 0

    @property
    def about(self) -> LimitKind:
        """Return the properties that all limits of this kind share."""
        return KINDS[self.kind]

    @property
    def grows_with_nodes(self) -> bool:
        """Return True if a job on more nodes may take more of it."""
        return self.tres != "" and self.about.per != Per.NODE and self.kind != "MaxNodes"

    def allows(self, wanted: int) -> bool:
        """Return True if a job that takes this much may ever start, whatever else runs."""
        return wanted >= self.figure if self.about.minimum else wanted <= self.figure

    def taken(self, amounts: Mapping[str, int], seconds: Optional[int]) -> Optional[int]:
        """Return what a job with these TRES and time limit takes of it; None: not known.

        amounts: one node's if the limit is per node. seconds: the time limit; None: the job has
        none, or it is not known.
        """
        counts = self.about.counts
        if counts == Counts.TIME:
            return seconds
        amount = amounts.get(self.tres) if self.tres else 1
        if counts in (Counts.TRES, Counts.RUNNING) or amount is None:
            return amount
        return None if seconds is None else amount * math.ceil(seconds / 60)

    def taken_by(self, job: QueueJob) -> int:
        """Return what one job of a queue row takes of it while it runs; 0 if unknown."""
        return 1 if self.about.counts == Counts.RUNNING else job.holds(self.tres) or 0

    def held_by(self, jobs: Iterable[QueueJob]) -> int:
        """Return how much of it these unfinished jobs take now."""
        if self.about.counts == Counts.SUBMITTED:
            return sum(job.count for job in jobs if job.state not in LEAVING)
        return sum(job.count * self.taken_by(job) for job in jobs if job.state in HOLDING)

    @property
    def reason(self) -> str:
        """Return Slurm's reason for a job that waits for it; "" if Slurm has none."""
        text = self.about.reasons.get(self.tres.partition(":")[0], "")
        if not text or self.scope == Scope.PARTITION or self.about.bare:
            return text
        if self.scope == Scope.QOS:
            return f"QOS{text.format_map(_QOS_PARTS)}"
        return f"Assoc{text.format_map(_ASSOCIATION_PARTS)}"

    @property
    def command(self) -> str:
        """Return the command that shows it."""
        if self.scope == Scope.PARTITION:
            return f"scontrol show partition {self.name}"
        if self.about.per == Per.GROUP:
            return "scontrol show assoc_mgr"
        if self.scope == Scope.QOS:
            return f"sacctmgr show qos {self.name}"
        return "sacctmgr show associations"

    @property
    def holder(self) -> str:
        """Return who has the limit, as messages name it: ``QOS normal``."""
        if self.scope == Scope.ASSOCIATION:
            return "your association"
        return f"{self.scope} {self.name}"

    @property
    def named(self) -> str:
        """Return Slurm's name and the figure: ``GrpTRES cpu=8``."""
        name = self.about.association if self.scope == Scope.ASSOCIATION else ""
        tres = f"{self.tres}=" if self.tres else ""
        return f"{name or self.kind} {tres}{self.figure}"

    def things(self, figure: int = 2) -> str:
        """Return our word for what it counts, or else Slurm's; the plural unless figure is 1."""
        counts, tres = self.about.counts, self.tres
        if tres and tres not in TRES_NAMES:
            return tres
        if tres == "mem":
            return TRES_NAMES[tres] if counts == Counts.TRES else "MB-minutes of memory"
        name = TRES_NAMES.get(tres, "job" if counts in (Counts.RUNNING, Counts.SUBMITTED) else "")
        if counts in (Counts.TRES_MINUTES, Counts.SPENT):
            name = f"{name}-minute".lstrip("-")
        return name if figure == 1 else f"{name}s"

    def amount(self, figure: int) -> str:
        """Return a figure in its unit: ``1 GPU``, ``2 GPUs``, ``8:00:00``."""
        if self.about.counts == Counts.TIME:
            return units.format_time(figure)
        return f"{figure} {self.things(figure)}"


def read_limits(fields: Mapping[str, str], scope: str, name: str) -> Tuple[Limit, ...]:
    """Read the limits in sacctmgr's fields, by kind; skip empty and unreadable ones."""
    limits = []
    for kind, text in fields.items():
        for tres, figure in _read_figures(KINDS[kind].counts, text).items():
            if figure is not None and figure >= 0:
                limits.append(Limit(kind, tres, figure, scope, name))
    return tuple(limits)


def _read_figures(counts: str, text: str) -> Mapping[str, Optional[int]]:
    """Return the figures of a limit by TRES; None: no limit, or unreadable."""
    if counts in (Counts.RUNNING, Counts.SUBMITTED):
        return {"": count(text)}
    if counts == Counts.TIME:
        return {"": parse_seconds(text)}
    # Leave out the total of the GPU types, which parse_tres() adds: it is no limit.
    return {tres: figure for tres, figure in parse_tres(text).items() if f"{tres}=" in text}


def read_group_limits(line: str, scope: str, name: str) -> Tuple[Limit, ...]:
    """Read the limits in a line of ``scontrol --oneliner show assoc_mgr``.

    ``GrpJobs=30(2) GrpTRES=cpu=N(4),gres/gpu=8(1)`` means 30 jobs, of which 2 run, and 8 GPUs;
    ``N`` means no limit. A limit that associations have is read only of the user's own: it inherits
    that of its account, and sacctmgr reports that of a QOS.
    """
    words = (word.partition("=") for word in line.split())
    texts = {name: text for name, _, text in words}
    running_minutes = {tres: used for tres, _, used in _read_uses(texts.get("GrpTRESRunMins", ""))}
    limits = []
    for kind in KINDS.values():
        associations_have_it = kind.association != ""
        if not kind.assoc_mgr or (associations_have_it and scope != Scope.ASSOCIATION):
            continue
        factor = 60 if kind.counts == Counts.TIME else 1  # slurmctld prints minutes
        for tres, figure, used in _read_uses(texts.get(kind.assoc_mgr, "")):
            if figure is not None:
                promised = running_minutes.get(tres, 0) if kind.name == "GrpTRESMins" else 0
                limits.append(Limit(kind.name, tres, figure * factor, scope, name, used, promised))
    return tuple(limits)


def _read_uses(text: str) -> Iterator[Tuple[str, Optional[int], int]]:
    """Yield (TRES, figure, used) of ``cpu=N(4),gres/gpu=8(1)``, ``30(2)``, or ``30``; N is None."""
    for part in text.split(","):
        tres, _, figures = part.rpartition("=")
        match = re.fullmatch(r"(?P<figure>[^(]*)(?:\((?P<used>[0-9]+)(?:\..*)?\))?", figures)
        if match is not None and "(" not in tres:
            yield tres, count(match["figure"]), count(match["used"] or "0") or 0
