"""squeue: jobs that wait, run, or ended so lately that the controller still knows them."""

from __future__ import annotations

import os
from typing import List, Optional, Sequence, Tuple

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
)
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import Asked, failure

# Free text (the name, the directory) last. Explicit fields, since --json costs ten times as much,
# by --Format, since --format has no letter for the exit code.
_FIELDS = (
    "JobArrayID",
    "JobID",
    "UserName",
    "Partition",
    "QOS",
    "State",
    "Reason",
    "NumNodes",
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
    """One row of squeue. Times are seconds since the epoch, durations seconds, None: not known.

    id: as shown (``4711_[1-5%2]`` for folded waiting tasks). job_id: the task's own number.
    gpus_per_node: from ``--gres`` or ``--gpus-per-node``; None where GPUs were asked otherwise or
    not at all. start, end: expected ones for a job that waits or runs.
    mark: as given to sbatch, or "". exit: as the batch script's parent saw it, 0:0 until then; None
    where this squeue prints none.
    """

    id: JobId
    job_id: int
    user: str
    partition: str
    qos: str
    state: str
    reason: str
    nodes: Optional[int]
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
    """One squeue for all ``job_ids``, for one user, or for everybody; ended jobs included.

    end: what stands after each row.
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
    """Rows of squeue; a row of another shape (a message of a site's wrapper) is left out."""
    jobs = []
    for row in text.split(end + "\n"):
        fields = row.split(SEPARATOR, len(_FIELDS) - 1)
        if len(fields) == len(_FIELDS):
            job = _job(fields)
            if job is not None:
                jobs.append(job)
    return jobs


def _job(fields: Sequence[str]) -> Optional[QueueJob]:
    (id, own, user, partition, qos, state, reason, nodes, gres, node_list) = fields[:10]
    (used, limit, submit, start, end, exit, command, work_dir, name) = fields[10:]
    try:
        # What a site's wrapper prints before the rows stands before the first one's id.
        job_id = JobId.parse(id.rpartition("\n")[2])
    except UsageError:
        return None
    return QueueJob(
        id=job_id,
        job_id=int(own) if own.isdigit() else job_id.job,
        user=user,
        partition=partition,
        qos=qos,
        state=state,
        reason="" if reason == "None" else reason,
        nodes=parse_count(nodes),
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
    """A wait status, as Slurm 22.05 prints it, or ``17:0``, as 24.11 does."""
    if text.isdecimal():
        return ExitCode.of_wait_status(int(text))
    return ExitCode.parse(text)


class Queue:
    """A squeue under way, as ``squeue`` would ask; ``close`` it in the end."""

    def __init__(
        self, job_ids: Sequence[JobId] = (), user: Optional[str] = None, timeout: float = 10.0
    ) -> None:
        self._by_id = bool(job_ids)
        # Slurm lets any character into a job's name: a mark that nobody can guess ends each row.
        self._end = "\x1e" + os.urandom(8).hex()
        self._asked = Asked(squeue_argv(job_ids, user, end=self._end), timeout=timeout)

    def rows(self) -> Tuple[QueueJob, ...]:
        """Its answer; raises SlurmUnavailableError, SlurmRefusedError."""
        result = self._asked.result()
        if result.returncode != 0:
            # squeue exits 1 for one unknown id, and drops it silently among several.
            if self._by_id and "invalid job id" in result.stderr.lower():
                return ()
            raise failure(result)
        return tuple(parse_squeue(result.stdout, end=self._end))

    def close(self) -> None:
        """End it where it still runs."""
        self._asked.close()


def squeue(
    job_ids: Sequence[JobId] = (), *, user: Optional[str] = None, timeout: float = 10.0
) -> Tuple[QueueJob, ...]:
    """Ask the controller; jobs it does not know (any more) are simply absent.

    job_ids: these only. user: a login name or uid; its jobs only. timeout: seconds. An array's
    waiting tasks are one row. Raises SlurmUnavailableError, SlurmRefusedError.
    """
    queue = Queue(job_ids, user, timeout)
    try:
        return queue.rows()
    finally:
        queue.close()
