"""Slurm's pending reasons in plain English, and what to do about them. Pure."""

from __future__ import annotations

import re
from typing import Dict, Iterator, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.slurm.limits import KINDS, TRES_NAMES, Counts, Limit, Per, Scope

_OWN_JOBS = "it starts when other jobs of yours end"
_SHARED_LIMIT = "it starts when other jobs that share the limit end"
_NEVER = "cancel it and resubmit it with a smaller request"

_ADMIN = "if this persists, ask your administrators"
_SHORTER = "use 'scontrol update jobid=ID timelimit=TIME' with a shorter time"
_SHORTER_GAP = "with a shorter --time, it may start earlier by backfill"
_PARTITIONS = "'neuronctl partitions --live' shows other partitions"

REASONS: Dict[str, Tuple[str, str]] = {
    "AccountNotAllowed": (
        "its account may not use the partition",
        "use 'scontrol update jobid=ID account=NAME' with an allowed account",
    ),
    "BadConstraints": ("will never start: no node meets its constraints", _NEVER),
    # An earlier start after a requeue makes the steps of the new run fail to launch.
    "BeginTime": ("waiting for its --begin time, or two minutes after a requeue", ""),
    "Dependency": ("waiting for another job", "'neuronctl why ID' shows which one"),
    "DependencyNeverSatisfied": (
        "will never start: its dependency cannot be satisfied",
        "cancel it, fix the job that it depends on, and resubmit both",
    ),
    "JobArrayTaskLimit": (
        "waiting for other tasks of its array",
        "use 'scontrol update jobid=ID arraytaskthrottle=N' to run more at once",
    ),
    "JobHeldAdmin": ("held by an administrator", "ask your administrators"),
    "JobHeldUser": ("held by its user", "release it with 'scontrol release ID'"),
    "JobHoldMaxRequeue": (
        "held: requeued too many times",
        "check its log, then use 'scontrol release ID'",
    ),
    "launch_failed_requeued_held": (
        "held: its launch failed and it was requeued",
        "use 'scontrol release ID'; if it fails again, tell your administrators",
    ),
    "job_requeued_in_held_state": ("held after a requeue", "release it with 'scontrol release ID'"),
    "Licenses": ("waiting for a license", "'scontrol show licenses' shows their use"),
    "MaxMemPerLimit": ("will never start: exceeds the memory per node or core", _NEVER),
    "NodeDown": ("a node that it needs is down", _ADMIN),
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "its nodes are down, drained, or reserved",
        _PARTITIONS,
    ),
    "PartitionConfig": ("the partition's configuration does not allow it", _PARTITIONS),
    "PartitionDown": ("its partition is down", _PARTITIONS),
    "PartitionInactive": ("its partition is inactive", _PARTITIONS),
    "PartitionNodeLimit": ("will never start: exceeds the partition's node limit", _NEVER),
    "PartitionTimeLimit": ("will never start: exceeds the partition's time limit", _SHORTER),
    "Priority": ("jobs with higher priority are ahead", _SHORTER_GAP),
    "Prolog": ("its nodes are being prepared", ""),
    "QOSNotAllowed": ("its QOS may not use the partition", _PARTITIONS),
    "ReqNodeNotAvail": (
        "the nodes that it may have are not available",
        "'scontrol show node NODE' and 'scontrol show reservation' show why",
    ),
    "ReqNodeNotAvail,_May_be_reserved_for_other_job": (
        "its nodes may be planned for other jobs, which are ahead",
        _SHORTER_GAP,
    ),
    "ReqNodeNotAvail,_Reserved_for_maintenance": (
        "it may still run when maintenance begins",
        "'scontrol show reservation' shows when that is",
    ),
    "Reservation": ("waiting for its reservation", "'scontrol show reservation' shows its start"),
    "ReservationDeleted": (
        "held until you act: its reservation was deleted",
        "use 'scontrol update jobid=ID reservationname=' and 'scontrol release ID', or cancel it",
    ),
    "Resources": ("waiting for free nodes or GPUs", "it is next in line"),
}
"""Reason -> (plain words, what to do); LIMIT_REASONS has the reasons that are limits."""

# "" is the reason of a job that Slurm has not looked at yet.
_PLANNED = (
    *("", "BeginTime", "Priority", "ReqNodeNotAvail", "Reservation", "Resources"),
    "Nodes_required_for_job_are_DOWN",
)


@dataclass(frozen=True)
class Explained:
    """A reason in plain English, and what to do ("" if there is nothing to do)."""

    words: str
    advice: str = ""


def explain(reason: str, job: str = "ID") -> Explained:
    """Return a pending reason explained, an unknown one as it is. job: the id for the advice."""
    name, details = _split_reason(reason)
    entry = REASONS.get(name) or LIMIT_REASONS.get(name)
    if entry is None:
        return Explained(reason)
    words, advice = entry
    if details:
        words = f"{words} ({details})"
    return Explained(words, re.sub(r"\bID\b", job, advice))


def _split_reason(reason: str) -> Tuple[str, str]:
    """Return the name and the details of ``ReqNodeNotAvail, UnavailableNodes:gpu30``."""
    # squeue and scontrol print the longest names with blanks or with underscores.
    underscored = reason.replace(" ", "_")
    if underscored in REASONS:
        return underscored, ""
    name, _, details = reason.partition(",")
    return name, details.strip()


def is_planned(reason: str) -> bool:
    """Return True if Slurm keeps the expected start of jobs with this reason up to date."""
    return reason.partition(",")[0].replace(" ", "_") in _PLANNED


def _limit_reason(limit: Limit) -> Tuple[str, str]:
    """Return what a limit's reason means, in plain words, and what to do."""
    kind = limit.about
    whose = "its QOS" if limit.scope == Scope.QOS and kind.per != Per.ACCOUNT else "your account"
    if kind.counts == Counts.TIME:
        return f"will never start: exceeds the time limit of {whose}", _SHORTER
    if kind.minimum:
        return f"will never start: fewer {limit.things()} than {whose} requires", "request more"
    if kind.per == Per.USER:
        return f"you have reached your {_limit_words(limit)}", _OWN_JOBS
    if kind.per in (Per.JOB, Per.NODE):
        words = f"{_limit_words(limit)} per {kind.per} of {whose}"
        return f"will never start: exceeds the {words}", _NEVER
    if kind.counts == Counts.SPENT:
        # Only an administrator resets used minutes.
        return f"{whose} has used up its {limit.things()}", _ADMIN
    return f"{whose} has reached its {_limit_words(limit)}", _SHARED_LIMIT


def _limit_words(limit: Limit) -> str:
    """Return ``GPU limit``, ``limit on running jobs``, or ``limit on GPU-minutes``."""
    if limit.about.counts in (Counts.RUNNING, Counts.SUBMITTED):
        return f"limit on {limit.about.counts} jobs"
    if limit.about.counts != Counts.TRES:
        return f"limit on {limit.things()}"
    name = "memory" if limit.tres == "mem" else TRES_NAMES.get(limit.tres, limit.tres)
    return f"{name} limit"


def _limits_with_reasons() -> Iterator[Limit]:
    """Yield one limit of each kind, TRES, and scope for which Slurm has a reason."""
    for kind in KINDS.values():
        scopes = [] if kind.of_partition else [Scope.QOS]
        if kind.association or kind.per == Per.GROUP:
            scopes.append(Scope.ASSOCIATION)
        for scope in scopes:
            yield from (Limit(kind.name, tres, 1, scope, "any") for tres in kind.reasons)


LIMIT_REASONS: Dict[str, Tuple[str, str]] = {
    limit.reason: _limit_reason(limit) for limit in _limits_with_reasons()
}
"""Reason -> (plain words, what to do), for the limits of QOS, associations, and accounts."""
