"""Slurm's pending reasons in plain words, and what to do about them. Pure."""

from __future__ import annotations

import re
from typing import Dict, Tuple

from neuronctl.frozen import dataclass

_USER_LIMIT = "it starts by itself when jobs of yours end"
_SHARED_LIMIT = "it starts by itself when jobs of others who share it end"
_NEVER = "cancel it and submit it again with less"
_ADMIN = "ask the administrators if it lasts"
_PARTITIONS = "'neuronctl partitions --live' shows the others"

# reason: (plain words, what to do)
REASONS: Dict[str, Tuple[str, str]] = {
    "AccountNotAllowed": (
        "its account may not use the partition",
        "'scontrol update jobid=ID account=NAME' with one that may",
    ),
    "AssocGrpCpuLimit": ("your account holds all the cores it may", _SHARED_LIMIT),
    "AssocGrpGRES": ("your account holds all the GPUs it may", _SHARED_LIMIT),
    "AssocGrpJobsLimit": ("your account runs as many jobs as it may", _SHARED_LIMIT),
    "AssocGrpMemLimit": ("your account holds all the memory it may", _SHARED_LIMIT),
    "AssocGrpNodeLimit": ("your account holds all the nodes it may", _SHARED_LIMIT),
    "AssocGrpSubmitJobsLimit": ("your account has submitted all the jobs it may", _SHARED_LIMIT),
    "AssocGrpCPUMinutesLimit": ("your account's core time is used up", _ADMIN),
    "AssocGrpGRESMinutes": ("your account's GPU time is used up", _ADMIN),
    "AssocMaxGRESPerJob": ("never starts: more GPUs than a job of your account may", _NEVER),
    "AssocMaxJobsLimit": ("you run as many jobs as you may", _USER_LIMIT),
    "AssocMaxWallDurationPerJobLimit": (
        "never starts: more time than your account may",
        "'scontrol update jobid=ID timelimit=TIME' with less",
    ),
    "BadConstraints": ("never starts: no node has what it asks for", _NEVER),
    "BeginTime": (
        "waits for its --begin time, or two minutes after a requeue",
        "'scontrol update jobid=ID starttime=now' begins it at once",
    ),
    "BurstBufferStageIn": ("its data is being staged in", ""),
    "Cleaning": ("its former run is being cleaned up", ""),
    "Dependency": ("waits for another job", "'neuronctl why ID' says for which"),
    "DependencyNeverSatisfied": (
        "never starts: the job it depends on failed",
        "cancel it, mend the job it depends on, submit both again",
    ),
    "FrontEndDown": ("the front end is down", _ADMIN),
    "InactiveLimit": ("its allocation was idle for too long", ""),
    "InvalidAccount": ("never starts: there is no such account", _NEVER),
    "InvalidQOS": ("never starts: there is no such QOS for you", _NEVER),
    "JobArrayTaskLimit": (
        "waits for tasks of its own array",
        "'scontrol update jobid=ID arraytaskthrottle=N' lets more run at once",
    ),
    "JobHeldAdmin": ("held by the administrators", "ask them"),
    "JobHeldUser": ("held", "'scontrol release ID' lets it go"),
    "JobHoldMaxRequeue": (
        "held: requeued too often",
        "see its log, then 'scontrol release ID'",
    ),
    "launch_failed_requeued_held": (
        "held: it could not be launched and went back to the queue",
        "see 'neuronctl why ID', then 'scontrol release ID'",
    ),
    "job_requeued_in_held_state": ("held after a requeue", "'scontrol release ID' lets it go"),
    "Licenses": ("waits for a licence", "'scontrol show licenses' shows who has them"),
    "MaxMemPerLimit": ("never starts: more memory than a node or core may give", _NEVER),
    "NodeDown": ("a node it needs is down", _ADMIN),
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "its nodes are down, drained or kept for others",
        _PARTITIONS,
    ),
    "PartitionConfig": ("the partition's own settings keep it from starting", _PARTITIONS),
    "PartitionDown": ("its partition is down", _PARTITIONS),
    "PartitionInactive": ("its partition is switched off", _PARTITIONS),
    "PartitionNodeLimit": ("never starts: more nodes than the partition gives", _NEVER),
    "PartitionTimeLimit": (
        "never starts: more time than the partition gives",
        "'scontrol update jobid=ID timelimit=TIME' with less",
    ),
    "Priority": ("others are before it", "a shorter --time may let it start in a gap"),
    "Prolog": ("its nodes are being made ready", ""),
    "QOSGrpGRES": ("all the GPUs of its QOS are taken", _SHARED_LIMIT),
    "QOSGrpNodeLimit": ("all the nodes of its QOS are taken", _SHARED_LIMIT),
    "QOSGrpCpuLimit": ("all the cores of its QOS are taken", _SHARED_LIMIT),
    "QOSGrpJobsLimit": ("its QOS runs as many jobs as it may", _SHARED_LIMIT),
    "QOSJobLimit": ("its QOS runs as many jobs as it may", _SHARED_LIMIT),
    "QOSMaxCpuPerUserLimit": ("you hold all the cores you may", _USER_LIMIT),
    "QOSMaxGRESPerJob": ("never starts: more GPUs than a job may", _NEVER),
    "QOSMaxGRESPerUser": ("you hold all the GPUs you may", _USER_LIMIT),
    "QOSMaxJobsPerUserLimit": ("you run as many jobs as you may", _USER_LIMIT),
    "QOSMaxMemoryPerUser": ("you hold all the memory you may", _USER_LIMIT),
    "QOSMaxNodePerJobLimit": ("never starts: more nodes than a job may", _NEVER),
    "QOSMaxNodePerUserLimit": ("you hold all the nodes you may", _USER_LIMIT),
    "QOSMaxSubmitJobPerUserLimit": ("you have submitted as many jobs as you may", _USER_LIMIT),
    "QOSMaxWallDurationPerJobLimit": (
        "never starts: more time than the QOS gives",
        "'scontrol update jobid=ID timelimit=TIME' with less",
    ),
    "QOSMinGRES": ("never starts: fewer GPUs than the QOS wants", "ask for more GPUs"),
    "QOSNotAllowed": ("its QOS may not use the partition", _PARTITIONS),
    "QOSTimeLimit": ("the time of its QOS is used up", _ADMIN),
    "ReqNodeNotAvail": (
        "a node it asks for is not available",
        "'scontrol show reservation' may tell until when",
    ),
    "Reservation": ("waits for its reservation", "'scontrol show reservation' says when it is"),
    "ReservationDeleted": ("never starts: its reservation is gone", _NEVER),
    "Resources": ("waits for free nodes or GPUs", "it is the next whose turn it is"),
    "SchedDefer": ("the scheduler starts jobs only now and then", ""),
    "TimeLimit": ("it reached its time limit", ""),
}

# Slurm makes the names of limits from parts; these are the ones that no table holds.
_FAMILY = (
    r"(?P<whose>QOS|Assoc)(?P<kind>Grp|Max|Min)(?P<what>[A-Za-z]+?)(?P<minutes>(?:Run)?Minutes)?"
    r"(?:Per(?P<per>Job|Node|User))?(?:Limit|NotSatisfied)?"
)
_WHAT = {
    "Billing": "billing units", "BB": "burst buffer", "CPU": "cores", "Cpu": "cores",
    "Energy": "energy", "GRES": "GPUs", "Jobs": "jobs", "Job": "jobs", "License": "licences",
    "Mem": "memory", "Memory": "memory", "Node": "nodes", "SubmitJob": "submitted jobs",
    "SubmitJobs": "submitted jobs", "WallDuration": "time", "Wall": "time",
}  # fmt: skip


@dataclass(frozen=True)
class Explained:
    """A reason for a person: words, and what to do ("" where there is nothing to do)."""

    words: str
    advice: str = ""


def explain(reason: str, job: str = "ID") -> Explained:
    """A reason in plain words; as Slurm gave it where nobody has any. job: its id, for advice."""
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
    """A reason in plain words where there are any, else as Slurm gave it."""
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
        return f"never starts: {whose} wants more {what}", "ask for more"
    if match["per"] == "User" or name == "AssocMaxSubmitJobLimit":
        return f"{whose} gives you no more {what}", _USER_LIMIT
    if match["kind"] == "Max":
        each = (match["per"] or "Job").lower()
        return f"never starts: more {what} than {whose} gives a {each}", _NEVER
    # What runs gives its minutes back as it ends; what was used is gone until they are reset.
    if match["minutes"] == "Minutes" or what == "time":
        return f"{whose} has used up its {what}", _ADMIN
    return f"{whose} gives no more {what}", _SHARED_LIMIT
