"""Slurm's pending reasons in plain English, and what to do about them. Pure."""

from __future__ import annotations

import re
from typing import Dict, Tuple

from neuronctl.frozen import dataclass

_USER_LIMIT = "it starts when other jobs of yours end"
_SHARED_LIMIT = "it starts when other jobs that share the limit end"
_NEVER = "cancel it and resubmit it with a smaller request"
_ADMIN = "if this persists, ask your administrators"
_PARTITIONS = "'neuronctl partitions --live' shows other partitions"

# reason: (plain words, what to do)
REASONS: Dict[str, Tuple[str, str]] = {
    "AccountNotAllowed": (
        "its account may not use the partition",
        "use 'scontrol update jobid=ID account=NAME' with an allowed account",
    ),
    "AssocGrpCpuLimit": ("your account has reached its core limit", _SHARED_LIMIT),
    "AssocGrpGRES": ("your account has reached its GPU limit", _SHARED_LIMIT),
    "AssocGrpJobsLimit": ("your account has reached its limit on running jobs", _SHARED_LIMIT),
    "AssocGrpMemLimit": ("your account has reached its memory limit", _SHARED_LIMIT),
    "AssocGrpNodeLimit": ("your account has reached its node limit", _SHARED_LIMIT),
    "AssocGrpSubmitJobsLimit": (
        "your account has reached its limit on submitted jobs",
        _SHARED_LIMIT,
    ),
    "AssocGrpCPUMinutesLimit": ("your account has used up its core minutes", _ADMIN),
    "AssocGrpGRESMinutes": ("your account has used up its GPU minutes", _ADMIN),
    "AssocMaxGRESPerJob": ("will never start: exceeds your account's GPUs per job", _NEVER),
    "AssocMaxJobsLimit": ("you have reached your limit on running jobs", _USER_LIMIT),
    "AssocMaxWallDurationPerJobLimit": (
        "will never start: exceeds your account's time limit",
        "use 'scontrol update jobid=ID timelimit=TIME' with a shorter time",
    ),
    "BadConstraints": ("will never start: no node meets its constraints", _NEVER),
    "BeginTime": (
        "waiting for its --begin time, or two minutes after a requeue",
        "use 'scontrol update jobid=ID starttime=now' to make it eligible now",
    ),
    "BurstBufferStageIn": ("its data is being staged in", ""),
    "Cleaning": ("its previous run is being cleaned up", ""),
    "Dependency": ("waiting for another job", "'neuronctl why ID' shows which one"),
    "DependencyNeverSatisfied": (
        "will never start: its dependency cannot be satisfied",
        "cancel it, fix the job that it depends on, and resubmit both",
    ),
    "FrontEndDown": ("the front-end node is down", _ADMIN),
    "InactiveLimit": ("its allocation was idle for too long", ""),
    "InvalidAccount": (
        "will never start: its account does not exist",
        "cancel it and resubmit it with another --account",
    ),
    "InvalidQOS": (
        "will never start: its QOS does not exist or is not yours",
        "cancel it and resubmit it with another --qos",
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
        "check 'neuronctl why ID', then use 'scontrol release ID'",
    ),
    "job_requeued_in_held_state": (
        "held after a requeue",
        "release it with 'scontrol release ID'",
    ),
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
    "PartitionTimeLimit": (
        "will never start: exceeds the partition's time limit",
        "use 'scontrol update jobid=ID timelimit=TIME' with a shorter time",
    ),
    "Priority": (
        "jobs with higher priority are ahead",
        "with a shorter --time, it may start earlier by backfill",
    ),
    "Prolog": ("its nodes are being prepared", ""),
    "QOSGrpGRES": ("its QOS has reached its GPU limit", _SHARED_LIMIT),
    "QOSGrpNodeLimit": ("its QOS has reached its node limit", _SHARED_LIMIT),
    "QOSGrpCpuLimit": ("its QOS has reached its core limit", _SHARED_LIMIT),
    "QOSGrpJobsLimit": ("its QOS has reached its limit on running jobs", _SHARED_LIMIT),
    "QOSJobLimit": ("its QOS has reached its limit on running jobs", _SHARED_LIMIT),
    "QOSMaxCpuPerUserLimit": ("you have reached your core limit", _USER_LIMIT),
    "QOSMaxGRESPerJob": ("will never start: exceeds the QOS's GPUs per job", _NEVER),
    "QOSMaxGRESPerUser": ("you have reached your GPU limit", _USER_LIMIT),
    "QOSMaxJobsPerUserLimit": ("you have reached your limit on running jobs", _USER_LIMIT),
    "QOSMaxMemoryPerUser": ("you have reached your memory limit", _USER_LIMIT),
    "QOSMaxNodePerJobLimit": ("will never start: exceeds the QOS's nodes per job", _NEVER),
    "QOSMaxNodePerUserLimit": ("you have reached your node limit", _USER_LIMIT),
    "QOSMaxSubmitJobPerUserLimit": ("you have reached your limit on submitted jobs", _USER_LIMIT),
    "QOSMaxWallDurationPerJobLimit": (
        "will never start: exceeds the QOS's time limit",
        "use 'scontrol update jobid=ID timelimit=TIME' with a shorter time",
    ),
    "QOSMinGRES": ("will never start: fewer GPUs than its QOS requires", "request more GPUs"),
    "QOSNotAllowed": ("its QOS may not use the partition", _PARTITIONS),
    "QOSTimeLimit": ("its QOS has used up its time", _ADMIN),
    "ReqNodeNotAvail": (
        "a node that it requests is not available",
        "'scontrol show reservation' may show until when",
    ),
    "Reservation": ("waiting for its reservation", "'scontrol show reservation' shows its start"),
    "ReservationDeleted": (
        "will never start: its reservation was deleted",
        "cancel it and resubmit it without that reservation",
    ),
    "Resources": ("waiting for free nodes or GPUs", "it is next in line"),
    "SchedDefer": ("the scheduler has deferred it", ""),
    "TimeLimit": ("it reached its time limit", ""),
}

# Slurm builds the names of limits from parts; this pattern covers those that the table lacks.
_FAMILY = (
    r"(?P<whose>QOS|Assoc)(?P<kind>Grp|Max|Min)(?P<what>[A-Za-z]+?)(?P<minutes>(?:Run)?Minutes)?"
    r"(?:Per(?P<per>Job|Node|User))?(?:Limit|NotSatisfied)?"
)
_WHAT = {
    "Billing": "billing units", "BB": "burst buffer", "CPU": "cores", "Cpu": "cores",
    "Energy": "energy", "GRES": "GPUs", "Jobs": "jobs", "Job": "jobs", "License": "licenses",
    "Mem": "memory", "Memory": "memory", "Node": "nodes", "SubmitJob": "submitted jobs",
    "SubmitJobs": "submitted jobs", "WallDuration": "time", "Wall": "time",
}  # fmt: skip


@dataclass(frozen=True)
class Explained:
    """A reason in plain English, and what to do ("" if there is nothing to do)."""

    words: str
    advice: str = ""


def explain(reason: str, job: str = "ID") -> Explained:
    """Explain a reason; an unknown one stays as Slurm gave it. job: its id, for the advice."""
    name, _, rest = reason.partition(",")
    known = REASONS.get(reason) or REASONS.get(name)
    if known is None:
        words, advice = _family(name)
        return Explained(f"{words} ({reason})" if words else reason, advice)
    words, advice = known
    # "ReqNodeNotAvail, UnavailableNodes:gpu30"
    if rest.strip() and reason not in REASONS:
        words = f"{words} ({rest.strip()})"
    return Explained(words, re.sub(r"\bID\b", job, advice))


def reason_words(reason: str) -> str:
    """A reason in plain English, or as Slurm gave it if unknown."""
    return explain(reason).words


def _family(name: str) -> Tuple[str, str]:
    match = re.fullmatch(_FAMILY, name)
    what = "" if match is None else _WHAT.get(match["what"], "")
    if match is None or not what:
        return "", ""
    whose = "its QOS" if match["whose"] == "QOS" else "your account"
    if match["minutes"]:
        what = f"minutes of {what}"
    if match["kind"] == "Min":
        return f"will never start: {whose} requires more {what}", "request more"
    if match["per"] == "User" or name == "AssocMaxSubmitJobLimit":
        return f"you have reached the limit of {whose} on {what} per user", _USER_LIMIT
    if match["kind"] == "Max":
        each = (match["per"] or "Job").lower()
        return f"will never start: exceeds the limit of {whose} on {what} per {each}", _NEVER
    # A running job returns its unused minutes when it ends; used minutes are gone until a reset.
    if match["minutes"] == "Minutes" or what == "time":
        return f"{whose} has used up its {what}", _ADMIN
    return f"{whose} has reached its limit on {what}", _SHARED_LIMIT
