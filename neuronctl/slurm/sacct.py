"""sacct: jobs that slurmctld no longer knows."""

from __future__ import annotations

import re
from typing import List, Optional, Sequence, Tuple

from neuronctl.errors import UsageError
from neuronctl.frozen import dataclass
from neuronctl.slurm.fields import (
    SEPARATOR,
    ExitCode,
    mark_of,
    parse_count,
    parse_minutes,
    parse_timestamp,
    parse_tres_gpus,
)
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import failure, run, unreachable

# Fields that every release since 20.02 has; free text comes last.
_FIELDS = [
    "JobID",
    "JobIDRaw",
    "User",
    "Partition",
    "QOS",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "NNodes",
    "NodeList",
    "AllocTRES",
    "ReqTRES",
    "WorkDir",
    "JobName",
]

_WITH_MARKS = [*_FIELDS[:-1], "SubmitLine", "JobName"]  # since 21.08

_ROW = rf"\d[^{SEPARATOR}]*{SEPARATOR}\d+{SEPARATOR}"

_SWITCHED_OFF = "accounting is disabled on this cluster"
_OFF = r"(?i)accounting storage is disabled|not running accounting"
_DATABASE = r"(?i)slurmdbd|talking to the database|persist|dbd"


@dataclass(frozen=True)
class AccountingJob:
    """One allocation in the accounting database (the latest run of a requeued job).

    Times are seconds since the epoch, durations are seconds, None: unknown. state: as printed,
    without the ``by UID`` of CANCELLED, which is ``cancelled_by``. gpus: of the whole job. mark: as
    given to sbatch, "" if there is none or it was not requested.
    """

    id: JobId
    job_id: int
    user: str
    partition: str
    qos: str
    state: str
    cancelled_by: Optional[int]
    exit: Optional[ExitCode]
    submit: Optional[int]
    start: Optional[int]
    end: Optional[int]
    elapsed: Optional[int]
    time_limit: Optional[int]
    nodes: Optional[int]
    node_list: str
    gpus: Optional[int]
    work_dir: str
    name: str
    mark: str = ""


@dataclass(frozen=True)
class Accounting:
    """sacct's answer. ``off``: why there is none (disabled, database down), otherwise ""."""

    jobs: Tuple[AccountingJob, ...] = ()
    off: str = ""

    @property
    def switched_off(self) -> bool:
        """Whether accounting is disabled on the cluster."""
        return self.off == _SWITCHED_OFF


def sacct_argv(
    job_ids: Sequence[JobId] = (),
    user: Optional[str] = None,
    since: Optional[int] = None,
    *,
    marks: bool = False,
    duplicates: bool = False,
) -> List[str]:
    """One sacct for all ``job_ids``, or for a user's jobs since a time (epoch seconds).

    duplicates: include the runs before a requeue, and other jobs that had the same job id.
    """
    argv = ["sacct", "--allocations", "--noheader", "--parsable2", f"--delimiter={SEPARATOR}"]
    if duplicates:
        argv.append("--duplicates")
    argv.append("--format=" + ",".join(_WITH_MARKS if marks else _FIELDS))
    if job_ids:
        asked = (
            f"{job.job}_{job.task}" if job.task is not None else str(job.job) for job in job_ids
        )
        argv.append("--jobs=" + ",".join(dict.fromkeys(asked)))
    if user is not None:
        argv.append("--user=" + user)
    if since is not None:
        from datetime import datetime, timezone

        moment = datetime.fromtimestamp(since, timezone.utc)
        argv.append("--starttime=" + moment.strftime("%Y-%m-%dT%H:%M:%S"))
    return argv


def parse_sacct(text: str, *, marks: bool = False) -> List[AccountingJob]:
    """Parse sacct's rows; any other line continues the text of the previous row."""
    fields = len(_WITH_MARKS if marks else _FIELDS)
    jobs: List[AccountingJob] = []
    rows: List[str] = []
    begins = re.compile(_ROW).match  # there may be 50,000 lines
    for line in text.split("\n"):
        if begins(line):
            rows.append(line)
        elif rows and line:
            rows[-1] += "\n" + line
    for row in rows:
        values = row.split(SEPARATOR, fields - 1)
        if len(values) != fields:
            continue
        mark = mark_of(values.pop(-2)) if marks else ""
        job = _job(values, mark)
        if job is not None:
            jobs.append(job)
    return jobs


def _job(fields: Sequence[str], mark: str) -> Optional[AccountingJob]:
    (id, own, user, partition, qos, state, exit, submit, start, end) = fields[:10]
    (elapsed, limit, nodes, node_list, alloc_tres, req_tres, work_dir, name) = fields[10:]
    try:
        job_id = JobId.parse(id)
    except UsageError:
        return None
    cancelled = re.fullmatch(r"(CANCELLED) by (\d+)", state)
    gpus = parse_tres_gpus(alloc_tres)
    return AccountingJob(
        id=job_id,
        job_id=int(own) if own.isdigit() else job_id.job,
        user=user,
        partition=partition,
        qos=qos,
        state=cancelled[1] if cancelled else state,
        cancelled_by=int(cancelled[2]) if cancelled else None,
        exit=ExitCode.parse(exit),
        submit=parse_timestamp(submit),
        start=parse_timestamp(start),
        end=parse_timestamp(end),
        elapsed=parse_count(elapsed),
        time_limit=parse_minutes(limit),
        nodes=parse_count(nodes),
        node_list="" if node_list == "None assigned" else node_list,
        gpus=gpus if gpus is not None else parse_tres_gpus(req_tres),
        work_dir=work_dir,
        name=name,
        mark=mark,
    )


def sacct(
    job_ids: Sequence[JobId] = (),
    *,
    user: Optional[str] = None,
    since: Optional[int] = None,
    marks: bool = False,
    duplicates: bool = False,
    timeout: float = 10.0,
) -> Accounting:
    """Query the accounting database; jobs that it does not know (yet) are missing.

    job_ids: only these jobs. user, since (epoch seconds): that user's jobs since then. marks:
    include each job's mark, if this Slurm stores it. duplicates: as for ``sacct_argv``. If
    accounting is disabled or its database is down, that is an answer, not an error; if sacct does
    not exist or does not respond, SlurmUnavailableError is raised.
    """
    argv = sacct_argv(job_ids, user, since, marks=marks, duplicates=duplicates)
    result = run(argv, timeout=timeout)
    if marks and result.returncode != 0 and "invalid field" in result.words.lower():
        return sacct(job_ids, user=user, since=since, timeout=timeout)
    if result.returncode == 0:
        return Accounting(tuple(parse_sacct(result.stdout, marks=marks)))
    if re.search(_OFF, result.stderr):
        return Accounting(off=_SWITCHED_OFF)
    if re.search(_DATABASE, result.stderr) or unreachable(result.words):
        return Accounting(off="cannot reach the accounting database (slurmdbd)")
    raise failure(result)


def sacct_logs(job: JobId, *, timeout: float = 10.0) -> Optional[Tuple[str, str]]:
    """The files of a job's standard output and error, as sacct tells them since Slurm 24.05.

    None where it does not tell them. A path may be relative to the job's directory. Raises
    SlurmUnavailableError.
    """
    fields = [f"--delimiter={SEPARATOR}", "--expand-patterns", "--format=StdOut,StdErr"]
    asked = f"{job.job}_{job.task}" if job.task is not None else str(job.job)
    argv = ["sacct", "--allocations", "--noheader", "--parsable2", *fields, f"--jobs={asked}"]
    result = run(argv, timeout=timeout)
    paths = result.stdout.partition("\n")[0].split(SEPARATOR)
    if result.returncode != 0 or len(paths) != 2 or not paths[0]:
        return None
    return paths[0], paths[1] or paths[0]
