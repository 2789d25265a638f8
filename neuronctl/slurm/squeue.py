"""squeue: pending, running, and recently ended jobs that slurmctld still knows.

Of one partition also what is ahead of a pending job, what it depends on, and what ends next.
"""

from __future__ import annotations

import contextlib
import os
from typing import Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.slurm.fields import (
    SEPARATOR,
    Columns,
    ExitCode,
    count,
    mark_of,
    parse_count,
    parse_gres_gpus,
    parse_seconds,
    parse_timestamp,
    parse_tres,
    read_rows,
)
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import TIMEOUT, RunningCommand, answer, failure, whole


def _first_id(text: str) -> Optional[JobId]:
    # What a site's wrapper prints before the rows precedes the first row's id.
    return JobId.read(text.rpartition("\n")[2])


def _exit_code(text: str) -> Optional[ExitCode]:
    """Parse a wait status (Slurm 22.05) or ``17:0`` (Slurm 24.11)."""
    status = count(text)
    return ExitCode.parse(text) if status is None else ExitCode.of_wait_status(status)


# Free text (directory, name) comes last. Explicit fields, because --json takes ten times as long;
# with --Format, because --format has no letter for the exit code.
_COLUMNS: Columns = {
    "JobArrayID": ("id", _first_id),
    "JobID": ("job_id", count),
    "UserName": ("user", str),
    "Partition": ("partition", str),
    "Account": ("account", str),
    "QOS": ("qos", str),
    "State": ("state", str),
    "Reason": ("reason", lambda text: "" if text == "None" else text),
    "NumNodes": ("nodes", parse_count),
    "tres-alloc": ("tres", parse_tres),
    "tres-per-node": ("gpus_per_node", parse_gres_gpus),
    "NodeList": ("node_list", str),
    "TimeUsed": ("time_used", parse_seconds),
    "TimeLimit": ("time_limit", parse_seconds),
    "SubmitTime": ("submit", parse_timestamp),
    "StartTime": ("start", parse_timestamp),
    "EndTime": ("end", parse_timestamp),
    "exit_code": ("exit", _exit_code),
    "Command": ("command", str),
    "WorkDir": ("work_dir", str),
    "Name": ("name", str),
}


@dataclass(frozen=True)
class QueueJob:
    """One row of squeue. Times are seconds since the epoch, durations are seconds, None: unknown.

    id: as shown (``4711_[1-5%2]`` for folded pending tasks). job_id: the task's own job id. tres:
    what it has or requests in all, by TRES (memory in MB). gpus_per_node: from ``--gres`` or
    ``--gpus-per-node``, for a Slurm that does not count GPUs; else None. start, end: the expected
    times of a pending or running job. command: the script, and before Slurm 24 its arguments. exit:
    the exit code of the batch script, 0:0 until it ends; None if this squeue does not print it.
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
    command: str
    work_dir: str
    name: str

    @property
    def mark(self) -> str:
        """The mark given to sbatch, or ""."""
        return mark_of(self.command)


def squeue_argv(
    job_ids: Sequence[JobId] = (), user: Optional[str] = None, *, end: str = "\x1e"
) -> List[str]:
    """One squeue for all ``job_ids``, for one user, or for everybody, including ended jobs.

    end: the text after each row.
    """
    argv = ["squeue", "--noheader", "--states=all"]
    argv.append("--Format=" + f":{SEPARATOR},".join(_COLUMNS) + f":{end}")
    if job_ids:
        argv.append("--jobs=" + ",".join(dict.fromkeys(job.asked for job in job_ids)))
    if user is not None:
        argv.append("--user=" + user)
    return argv


def parse_squeue(text: str, *, end: str = "\x1e") -> List[QueueJob]:
    """Parse squeue's rows; other lines (messages of a site's wrapper) are skipped."""
    lines = text.split(end + "\n")
    rows = (line.split(SEPARATOR, len(_COLUMNS) - 1) for line in lines)
    return [QueueJob(**row) for row in read_rows(rows, _COLUMNS)]


def parse_names(text: str, *, end: str) -> Iterator[Tuple[str, str, str]]:
    """The number, name, and state of each job in squeue's rows, and nothing else of them.

    Quick for thousands: a row in which a text has the separator is left out.
    """
    state = list(_COLUMNS).index("State")
    for line in text.split(end + "\n"):
        if line.count(SEPARATOR) == len(_COLUMNS) - 1:
            cells = line.split(SEPARATOR, state + 1)
            number = cells[0].rpartition("\n")[2].partition("_")[0].partition("+")[0]
            if number.isdigit():
                yield number, line.rpartition(SEPARATOR)[2], cells[state]


class Queue:
    """A running squeue, with the arguments of ``squeue``; ``close`` it when done."""

    def __init__(
        self, job_ids: Sequence[JobId] = (), user: Optional[str] = None, *, timeout: float = TIMEOUT
    ) -> None:
        self._by_id = bool(job_ids)
        # A job's name may contain any character, so each row ends with an unguessable marker.
        self.end = "\x1e" + os.urandom(8).hex()
        self._asked = RunningCommand(squeue_argv(job_ids, user, end=self.end), timeout=timeout)
        self._rows: Optional[Tuple[QueueJob, ...]] = None

    def rows(self) -> Tuple[QueueJob, ...]:
        """Wait for the rows; raises SlurmError."""
        if self._rows is None:
            self._rows = tuple(parse_squeue(self.text(), end=self.end))
        return self._rows

    def text(self) -> str:
        """Wait for what squeue prints, each row with ``end`` behind it; raises SlurmError."""
        result = self._asked.result()
        if result.returncode != 0:
            # squeue exits with 1 for a single unknown id, and omits it silently among several.
            if self._by_id and "invalid job id" in result.stderr.lower():
                return ""
            raise failure(result)
        return whole(result)

    def close(self) -> None:
        self._asked.close()


def squeue(job_ids: Sequence[JobId] = (), *, user: Optional[str] = None) -> Tuple[QueueJob, ...]:
    """Query slurmctld; jobs that it does not know (any longer) are missing from the answer.

    job_ids: only these jobs. user: only the jobs of this login name or uid. An array's pending
    tasks are one row. Raises SlurmError.
    """
    with contextlib.closing(Queue(job_ids, user)) as queue:
        return queue.rows()


# ----------------------------------------------------------------- one partition's queue

_OF_PARTITION: Columns = {
    "%i": ("id", JobId.read),
    "%A": ("job_id", count),
    "%T": ("state", str),
    "%Q": ("priority", parse_count),
    "%e": ("end", parse_timestamp),
    "%u": ("user", str),
    "%E": ("dependency", lambda text: "" if text == "(null)" else text),
    "%r": ("reason", str),
    "%S": ("start", parse_timestamp),
    "%Y": ("planned_nodes", lambda text: "" if text == "(null)" else text),
}


@dataclass(frozen=True)
class PartitionJob:
    """One job of the partition.

    priority: Slurm's number. start, end: also the expected ones, epoch seconds. dependency: what
    remains of it (``afterok:12(unfulfilled)``), "" if there is none. planned_nodes: the host list
    on which Slurm expects a pending job to start.
    """

    id: JobId
    job_id: int
    state: str
    priority: Optional[int]
    end: Optional[int]
    user: str
    dependency: str
    reason: str = ""
    start: Optional[int] = None
    planned_nodes: str = ""


def partition_queue_argv(partition: str) -> List[str]:
    """The pending and running jobs of a partition (or several, separated by commas)."""
    states = "--states=PENDING,RUNNING,COMPLETING"
    form = "--format=" + SEPARATOR.join(_OF_PARTITION)
    return ["squeue", "--noheader", states, f"--partition={partition}", form]


def parse_partition_queue(text: str) -> List[PartitionJob]:
    """Parse squeue's rows; other lines are skipped."""
    rows = (line.split(SEPARATOR) for line in text.splitlines())
    return [PartitionJob(**row) for row in read_rows(rows, _OF_PARTITION)]


def partition_queue(partition: str, *, timeout: float = TIMEOUT) -> Tuple[PartitionJob, ...]:
    """Query slurmctld. timeout: seconds. Raises SlurmError."""
    return tuple(parse_partition_queue(answer(partition_queue_argv(partition), timeout=timeout)))
