"""squeue: pending, running, and recently ended jobs that slurmctld still knows."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common import cache
from neuronctl.common.datatypes import asdict, dataclass
from neuronctl.common.files import file_state
from neuronctl.common.restoring import NOT_RESTORED, restore
from neuronctl.slurm import fields
from neuronctl.slurm.conf import config_file
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import ACTIVE, WAITING
from neuronctl.slurm.process import TIMEOUT, failure, run, whole_output


@dataclass(frozen=True)
class QueueJob:
    """One row of squeue. Times are seconds since the epoch, durations are seconds, None: unknown.

    id: as shown (``4711_[1-5%2]`` for folded pending tasks). job_id: the task's own job id. tres:
    what it has or requests in all, by TRES (memory in MB). gpus_per_node: from ``--gres`` or
    ``--gpus-per-node``, for a Slurm that does not count GPUs; else None. start, end: the expected
    times of a pending or running job. planned_nodes: the host list on which Slurm expects a pending
    job to start. priority: Slurm's number. dependency: what remains of it
    (``afterok:12(unfulfilled)``). command: the script, and before Slurm 24 its arguments. exit:
    the exit code of the batch script, 0:0 until it ends; None if this squeue does not print it.
    """

    # Free text (directory, name) comes last. --json takes ten times as long as these columns, and
    # --format has no letter for the exit code.
    # A site's wrapper may print lines before the rows: they precede the first row's id.
    id: JobId = fields.column("JobArrayID", lambda text: JobId.read(text.rpartition("\n")[2]))
    job_id: int = fields.column("JobID", fields.count)
    user: str = fields.column("UserName")
    partition: str = fields.column("Partition")
    account: str = fields.column("Account")
    qos: str = fields.column("QOS")
    state: str = fields.column("State")
    reason: str = fields.column("Reason", fields.text_or_nothing)
    nodes: Optional[int] = fields.column("NumNodes", fields.parse_count)
    tres: Mapping[str, int] = fields.column("tres-alloc", fields.parse_tres)
    gpus_per_node: Optional[int] = fields.column("tres-per-node", fields.parse_gres_gpus)
    node_list: str = fields.column("NodeList")
    planned_nodes: str = fields.column("SchedNodes", fields.text_or_nothing)
    priority: Optional[int] = fields.column("PriorityLong", fields.parse_count)
    dependency: str = fields.column("Dependency", fields.text_or_nothing)
    time_used: Optional[int] = fields.column("TimeUsed", fields.parse_seconds)
    time_limit: Optional[int] = fields.column("TimeLimit", fields.parse_seconds)
    submit: Optional[int] = fields.column("SubmitTime", fields.parse_timestamp)
    start: Optional[int] = fields.column("StartTime", fields.parse_timestamp)
    end: Optional[int] = fields.column("EndTime", fields.parse_timestamp)
    exit: Optional[fields.ExitCode] = fields.column("exit_code", fields.ExitCode.parse)
    command: str = fields.column("Command")
    work_dir: str = fields.column("WorkDir")
    name: str = fields.column("Name")

    @property
    def mark(self) -> str:
        """Return the mark given to sbatch, or ""."""
        return fields.submission_mark(self.command)

    @property
    def count(self) -> int:
        """Return the number of jobs in the row: the tasks of an array, or 1."""
        return self.id.count

    @property
    def partitions(self) -> Sequence[str]:
        """Return the partitions that it waits for, or the one that it is in."""
        return self.partition.split(",")

    def holds(self, tres: str) -> Optional[int]:
        """Return how much of a TRES one of its jobs has on all its nodes; None: unknown."""
        nodes = self.nodes or 1
        if tres == "node":
            return nodes
        if tres == "gres/gpu" and self.gpus_per_node is not None:
            return self.tres.get(tres, self.gpus_per_node * nodes)
        return self.tres.get(tres)


_COLUMNS = fields.columns_of(QueueJob)


def squeue_argv(
    job_ids: Sequence[JobId] = (),
    user: Optional[str] = None,
    partition: Optional[str] = None,
    *,
    end: str = "\x1e",
) -> List[str]:
    """Return the command of one squeue for all ``job_ids``, a user, or a partition.

    Its answer includes ended jobs. partition: one or more, separated by commas. end: the text after
    each row. Without --local, squeue also asks slurmctld for the federation (22.05).
    """
    argv = ["squeue", "--noheader", "--local", "--all", "--states=all"]
    # NAME:TEXT prints a column, and TEXT after it.
    argv.append("--Format=" + f":{fields.SEPARATOR},".join(fields.names_of(_COLUMNS)) + f":{end}")
    if job_ids:
        argv.append("--jobs=" + ",".join(dict.fromkeys(job.job_or_task for job in job_ids)))
    if user is not None:
        argv.append("--user=" + user)
    if partition is not None:
        argv.append("--partition=" + partition)
    return argv


def unguessable_end() -> str:
    """Return an unguessable end of rows; a job's name may contain any character."""
    return "\x1e" + os.urandom(8).hex()


def parse_squeue(text: str, *, end: str = "\x1e") -> List[QueueJob]:
    """Parse squeue's rows; other lines (messages of a site's wrapper) are skipped."""
    lines = text.split(end + "\n")
    rows = (line.split(fields.SEPARATOR, len(_COLUMNS) - 1) for line in lines)
    return [QueueJob(**row) for row in fields.read_rows(rows, _COLUMNS)]


def runs_of(rows: Iterable[QueueJob]) -> Dict[int, int]:
    """Return when each job that is on nodes now began (0: unknown), by its own job id."""
    return {row.job_id: row.start or 0 for row in rows if row.state in ACTIVE - WAITING}


def read_queue(argv: Sequence[str], *, timeout: float = TIMEOUT) -> str:
    """Return squeue's output, "" for unknown jobs; raise SlurmError."""
    result = run(argv, timeout=timeout)
    # squeue exits with 1 for a single unknown id, and omits it silently among several.
    if result.returncode != 0 and "invalid job id" in result.stderr.lower():
        return ""
    if result.returncode != 0:
        raise failure(result)
    return whole_output(result)


def squeue(
    job_ids: Sequence[JobId] = (),
    *,
    user: Optional[str] = None,
    partition: Optional[str] = None,
    timeout: float = TIMEOUT,
) -> Tuple[QueueJob, ...]:
    """Query slurmctld; jobs that it does not know (any longer) are missing from the answer.

    job_ids: only these jobs. user: only the jobs of this login name or uid. partition: only the
    jobs of these partitions. An array's pending tasks are one row. Raises SlurmError.
    """
    end = unguessable_end()
    text = read_queue(squeue_argv(job_ids, user, partition, end=end), timeout=timeout)
    return tuple(parse_squeue(text, end=end))


_KIND = "queue"
"""The kind of cache entry that holds the user's jobs, for other commands within some seconds."""

_PATIENCE = 3.0
"""Seconds to wait for another command that asks at the same moment."""


@dataclass(frozen=True)
class OwnQueue:
    """The user's jobs at ``asked_at`` (epoch seconds): squeue's answer, and what ends its rows."""

    asked_at: float
    end: str
    text: str

    @property
    def rows(self) -> Tuple[QueueJob, ...]:
        """Return the parsed rows."""
        return tuple(parse_squeue(self.text, end=self.end))

    @property
    def age(self) -> float:
        """Return the age in seconds; infinite if the clock was set back since."""
        age = time.time() - self.asked_at
        return age if age >= 0 else float("inf")


def ask_own_queue(oldest: float = 0.0, *, timeout: float = TIMEOUT) -> OwnQueue:
    """Return the user's own jobs, at most ``oldest`` seconds old; raise SlurmError."""
    deadline = time.monotonic() + _PATIENCE
    name, _ = _cache_place()
    while oldest > 0:
        answer = _read()
        if answer is not None and answer.age <= oldest:
            return answer
        with cache.working_out(_KIND, name) as is_first:
            # Of several commands at the same moment, only the first asks squeue.
            if is_first or time.monotonic() > deadline:
                return _ask(timeout)
        time.sleep(0.1)
    return _ask(timeout)


def _ask(timeout: float) -> OwnQueue:
    asked_at = time.time()
    end = unguessable_end()
    argv = squeue_argv(user=str(os.getuid()), end=end)
    answer = OwnQueue(asked_at, end, read_queue(argv, timeout=timeout))
    _write(answer)
    return answer


def forget() -> None:
    """Remove the user's jobs from the cache, because they have just changed."""
    _write(None)


def _cache_place() -> Tuple[str, str]:
    """Return the answer's name in the cache (machine, user, Slurm), and slurm.conf's version."""
    conf = config_file() or ""
    name = "\0".join((os.uname().nodename, str(os.getuid()), conf, os.environ.get("PATH", "")))
    return name, str(file_state(conf))


def _write(answer: Optional[OwnQueue]) -> None:
    name, version = _cache_place()
    cache.write(_KIND, name, None if answer is None else asdict(answer), version)


def _read() -> Optional[OwnQueue]:
    try:
        return restore(OwnQueue, cache.read(_KIND, *_cache_place()))
    except NOT_RESTORED:
        return None
