"""squeue: pending, running, and recently ended jobs that slurmctld still knows."""

from __future__ import annotations

import os
from typing import List, Mapping, Optional, Sequence, Tuple

from neuronctl.errors import UsageError
from neuronctl.frozen import dataclass
from neuronctl.slurm.fields import (
    SEPARATOR,
    ExitCode,
    mark_of,
    parse_count,
    parse_gres_gpus,
    parse_seconds,
    parse_timestamp,
    parse_tres,
)
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import Asked, failure

# Free text (directory, name) comes last. Explicit fields, because --json takes ten times as long;
# with --Format, because --format has no letter for the exit code.
_FIELDS = (
    "JobArrayID",
    "JobID",
    "UserName",
    "Partition",
    "Account",
    "QOS",
    "State",
    "Reason",
    "NumNodes",
    "tres-alloc",
    "tres-per-node",
    "NodeList",
    "TimeUsed",
    "TimeLimit",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "exit_code",
    "Command",
    "WorkDir",
    "Name",
)


@dataclass(frozen=True)
class QueueJob:
    """One row of squeue. Times are seconds since the epoch, durations are seconds, None: unknown.

    id: as shown (``4711_[1-5%2]`` for folded pending tasks). job_id: the task's own job id. tres:
    what it has or requests in all, by TRES (memory in MB). gpus_per_node: from ``--gres`` or
    ``--gpus-per-node``, for a Slurm that does not count GPUs; else None. start, end: the expected
    times of a pending or running job. mark: as given to sbatch, or "". exit: the exit code of the
    batch script, 0:0 until it ends; None if this squeue does not print it.
    """

    id: JobId
    job_id: int
    user: str
    partition: str
    account: str
    qos: str
    state: str
    reason: str
    nodes: Optional[int]
    tres: Mapping[str, int]
    gpus_per_node: Optional[int]
    node_list: str
    time_used: Optional[int]
    time_limit: Optional[int]
    submit: Optional[int]
    start: Optional[int]
    end: Optional[int]
    exit: Optional[ExitCode]
    mark: str
    work_dir: str
    name: str


def squeue_argv(
    job_ids: Sequence[JobId] = (), user: Optional[str] = None, *, end: str = "\x1e"
) -> List[str]:
    """One squeue for all ``job_ids``, for one user, or for everybody, including ended jobs.

    end: the text after each row.
    """
    argv = ["squeue", "--noheader", "--states=all"]
    fields = (f"{name}:{SEPARATOR}" for name in _FIELDS[:-1])
    argv.append(f"--Format={','.join(fields)},{_FIELDS[-1]}:{end}")
    if job_ids:
        argv.append("--jobs=" + ",".join(dict.fromkeys(_asked(job) for job in job_ids)))
    if user is not None:
        argv.append("--user=" + user)
    return argv


def _asked(job: JobId) -> str:
    return f"{job.job}_{job.task}" if job.task is not None else str(job.job)


def parse_squeue(text: str, *, end: str = "\x1e") -> List[QueueJob]:
    """Parse squeue's rows; other lines (messages of a site's wrapper) are skipped."""
    jobs = []
    for row in text.split(end + "\n"):
        fields = row.split(SEPARATOR, len(_FIELDS) - 1)
        if len(fields) == len(_FIELDS):
            job = _job(fields)
            if job is not None:
                jobs.append(job)
    return jobs


def _job(fields: Sequence[str]) -> Optional[QueueJob]:
    (id, own, user, partition, account, qos, state, reason, nodes, tres, gres) = fields[:11]
    (node_list, used, limit, submit, start, end, exit, command, work_dir, name) = fields[11:]
    try:
        # What a site's wrapper prints before the rows precedes the first row's id.
        job_id = JobId.parse(id.rpartition("\n")[2])
    except UsageError:
        return None
    return QueueJob(
        id=job_id,
        job_id=int(own) if own.isdigit() else job_id.job,
        user=user,
        partition=partition,
        account=account,
        qos=qos,
        state=state,
        reason="" if reason == "None" else reason,
        nodes=parse_count(nodes),
        tres=parse_tres(tres),
        gpus_per_node=parse_gres_gpus(gres),
        node_list=node_list,
        time_used=parse_seconds(used),
        time_limit=parse_seconds(limit),
        submit=parse_timestamp(submit),
        start=parse_timestamp(start),
        end=parse_timestamp(end),
        exit=_exit_code(exit),
        mark=mark_of(command),
        work_dir=work_dir,
        name=name,
    )


def _exit_code(text: str) -> Optional[ExitCode]:
    """Parse a wait status (Slurm 22.05) or ``17:0`` (Slurm 24.11)."""
    if text.isdecimal():
        return ExitCode.of_wait_status(int(text))
    return ExitCode.parse(text)


class Queue:
    """A running squeue, with the arguments of ``squeue``; ``close`` it when done."""

    def __init__(
        self, job_ids: Sequence[JobId] = (), user: Optional[str] = None, timeout: float = 10.0
    ) -> None:
        self._by_id = bool(job_ids)
        # A job's name may contain any character, so each row ends with an unguessable marker.
        self._end = "\x1e" + os.urandom(8).hex()
        self._asked = Asked(squeue_argv(job_ids, user, end=self._end), timeout=timeout)

    def rows(self) -> Tuple[QueueJob, ...]:
        """Wait for the rows; raises SlurmUnavailableError and SlurmRefusedError."""
        result = self._asked.result()
        if result.returncode != 0:
            # squeue exits with 1 for a single unknown id, and omits it silently among several.
            if self._by_id and "invalid job id" in result.stderr.lower():
                return ()
            raise failure(result)
        return tuple(parse_squeue(result.stdout, end=self._end))

    def close(self) -> None:
        """Kill squeue if it is still running."""
        self._asked.close()


def squeue(
    job_ids: Sequence[JobId] = (), *, user: Optional[str] = None, timeout: float = 10.0
) -> Tuple[QueueJob, ...]:
    """Query slurmctld; jobs that it does not know (any longer) are missing from the answer.

    job_ids: only these jobs. user: only the jobs of this login name or uid. timeout: seconds. An
    array's pending tasks are one row. Raises SlurmUnavailableError and SlurmRefusedError.
    """
    queue = Queue(job_ids, user, timeout)
    try:
        return queue.rows()
    finally:
        queue.close()
