"""sacctmgr, and scontrol's association manager: what users, accounts and QOS may have, as Slurm
itself has it.
"""

from __future__ import annotations

import re
from typing import Iterator, List, Optional, Tuple

from neuronctl.frozen import dataclass
from neuronctl.slurm.fields import parse_seconds, parse_tres_gpus
from neuronctl.slurm.scontrol import count, words


@dataclass(frozen=True)
class Qos:
    """Limits of a QOS that hold for one user (``max_gpus_per_job``, ``max_wall``: for one job).

    more: others by sacctmgr's names, each as ``"MaxTRESPU cpu=64"``.
    """

    name: str
    flags: Tuple[str, ...]
    max_submit_jobs: Optional[int]
    max_running_jobs: Optional[int]
    max_gpus: Optional[int]
    max_gpus_per_job: Optional[int]
    max_wall: Optional[int]
    more: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Association:
    """What the accounting database knows of a user in an account; qos: the names allowed.

    more: as in Qos.
    """

    account: str
    partition: str
    max_submit_jobs: Optional[int]
    max_running_jobs: Optional[int]
    qos: Tuple[str, ...]
    default_qos: str
    max_wall: Optional[int] = None
    more: Tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupLimit:
    """How much of something a group may have, and has now.

    kind: sacctmgr's name (``GrpTRES``, ``GrpTRESMins``, ``GrpTRESRunMins``, ``GrpWall``,
    ``GrpJobs``, ``GrpSubmitJobs``). thing: of what (``cpu``, ``gres/gpu``, ``mem`` in MB), "" for
    jobs and minutes. running: of ``GrpTRESMins``, the minutes that running jobs may still take.
    """

    kind: str
    thing: str
    most: int
    held: int
    running: int = 0


@dataclass(frozen=True)
class Shared:
    """What all jobs of a QOS, an account or an association may have together, and have now.

    kind: ``"QOS"``, ``"account"`` or ``"user"`` (the user's own association in the account
    ``name``). parent: the account above an account, or "".
    """

    kind: str
    name: str
    parent: str
    partition: str
    limits: Tuple[GroupLimit, ...] = ()


_QOS_FIELDS = (
    "Name,Flags,MaxSubmitPU,MaxJobsPU,MaxTRESPU,MaxTRES,MaxWall,MaxTRESPerNode,MinTRES,MaxTRESPA,"
    "MaxJobsPA,MaxSubmitPA,MaxTRESMins"
)
_ASSOCIATION_FIELDS = (
    "Account,Partition,MaxSubmit,MaxJobs,QOS,DefaultQOS,MaxWall,MaxTRES,MaxTRESPerNode,MaxTRESMins"
)


def sacctmgr_questions(user: str, cluster: str) -> Tuple[List[str], str]:
    """argv and standard input of one sacctmgr: all QOS, and the user's associations."""
    of_user = f" cluster={cluster}" if cluster else ""
    return (
        ["sacctmgr", "--noheader", "--parsable2"],
        f"show qos format={_QOS_FIELDS}\n"
        f"show associations user={user}{of_user} format={_ASSOCIATION_FIELDS}\n",
    )


def parse_shared(text: str, user: str) -> Tuple[Shared, ...]:
    """Those of ``scontrol --oneliner show assoc_mgr`` that hold for a user."""
    found = []
    for line in text.splitlines():
        if line.startswith("QOS="):
            kind, name, parent, partition = "QOS", _before_id(line, "QOS"), "", ""
        elif line.startswith("ClusterName="):
            who = _before_id(line, "UserName")
            if who not in ("", user):
                continue
            kind, name = "user" if who else "account", _before_id(line, "Account")
            parent, partition = _before_id(line, "ParentAccount"), _before_id(line, "Partition")
        else:
            continue
        found.append(Shared(kind, name, parent, partition, tuple(_group_limits(line))))
    return tuple(found)


def _before_id(line: str, key: str) -> str:
    """``UserName=kim(1000)`` -> kim."""
    match = re.search(rf"(?:^| ){key}=([^ (]*)", line)
    return "" if match is None else match[1]


def _group_limits(line: str) -> Iterator[GroupLimit]:
    """``GrpJobs=30(2) GrpTRES=cpu=N(4),gres/gpu=8(1)``: 30 jobs and 8 GPUs; ``N`` is no limit."""
    for kind, text in re.findall(r" (Grp(?:SubmitJobs|Jobs|Wall))=(\S*)", line):
        for most, held in re.findall(r"^(\d+)\(([\d.]+)\)", text):
            yield GroupLimit(kind, "", int(most), round(float(held)))
    running = {}
    # Behind the others in Slurm's answer, and of use before.
    for kind, text in sorted(re.findall(r" (GrpTRES(?:Mins|RunMins)?)=(\S*)", line), reverse=True):
        for one in text.split(","):
            thing, _, figures = one.rpartition("=")
            match = re.fullmatch(r"(\d+|N)\((\d+)\)", figures)
            if match is None:
                continue
            if kind == "GrpTRESRunMins":
                running[thing] = int(match[2])
            if match[1] != "N":
                left = running.get(thing, 0) if kind == "GrpTRESMins" else 0
                yield GroupLimit(kind, thing, int(match[1]), int(match[2]), left)


def parse_qos(text: str) -> Tuple[Qos, ...]:
    """sacctmgr's rows on QOS; rows of another length are the associations'."""
    return tuple(
        Qos(
            name=row[0],
            flags=words(row[1]),
            max_submit_jobs=count(row[2]),
            max_running_jobs=count(row[3]),
            max_gpus=parse_tres_gpus(row[4]),
            max_gpus_per_job=parse_tres_gpus(row[5]),
            max_wall=parse_seconds(row[6]) if row[6] else None,
            more=_more(_QOS_FIELDS, row, "MaxTRESPU", "MaxTRES", *_QOS_FIELDS.split(",")[7:]),
        )
        for row in _rows(text, _QOS_FIELDS)
    )


def parse_associations(text: str) -> Tuple[Association, ...]:
    """sacctmgr's rows on the user's associations."""
    return tuple(
        Association(
            account=row[0],
            partition=row[1],
            max_submit_jobs=count(row[2]),
            max_running_jobs=count(row[3]),
            qos=words(row[4]),
            default_qos=row[5],
            max_wall=parse_seconds(row[6]) if row[6] else None,
            more=_more(_ASSOCIATION_FIELDS, row, "MaxTRES", "MaxTRESPerNode", "MaxTRESMins"),
        )
        for row in _rows(text, _ASSOCIATION_FIELDS)
    )


def _more(fields: str, row: List[str], *names: str) -> Tuple[str, ...]:
    told = dict(zip(fields.split(","), row))
    return tuple(f"{name} {one}" for name in names for one in told[name].split(",") if one)


def _rows(text: str, fields: str) -> List[List[str]]:
    length = fields.count(",") + 1
    rows = [line.split("|") for line in text.splitlines()]
    return [row for row in rows if len(row) == length and row[0]]
