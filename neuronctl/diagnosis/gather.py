"""Gather the evidence of a job: its logs, its partition's queue, its earlier runs."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Cluster, Partition
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import NeuronctlError, SlurmError
from neuronctl.common.rule_codes import WARNING
from neuronctl.common.secrets import hide_secrets
from neuronctl.common.shell import quote
from neuronctl.diagnosis.ended import diagnose
from neuronctl.diagnosis.evidence import Diagnosis, JobEvidence, began
from neuronctl.diagnosis.log_text import LogTail, read_tail
from neuronctl.diagnosis.signs import EXCEPTION
from neuronctl.diagnosis.waiting import earlier_runs
from neuronctl.slurm.job_control import show_reservations
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import COMPLETED, FAILED, GOOD, PENDING, UNKNOWN
from neuronctl.slurm.sacct import AccountingJob, read_steps, sacct
from neuronctl.slurm.scontrol import Reservation
from neuronctl.slurm.squeue import QueueJob, squeue
from neuronctl.tracking.endings import canceller, is_launch_failure, why_left_out
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import log_paths
from neuronctl.tracking.runs import Runs, failed_tasks, read_chain, runs_of


def examine(status: JobStatus) -> Tuple[JobEvidence, Diagnosis]:
    """Gather the evidence of a job or a task and diagnose it; what it cites has no secrets."""
    evidence = gather(status)
    diagnosis = diagnose(evidence)
    # Another environment may have the module, or a python.
    if diagnosis.entry == "missing-module" or "'python' is not on" in diagnosis.cause:
        diagnosis = _advise_environment(status, diagnosis)
    if diagnosis.line is None:
        return evidence, diagnosis
    return evidence, replace(
        diagnosis,
        cause=hide_secrets(diagnosis.cause),
        remedy=hide_secrets(diagnosis.remedy),
        line=replace(diagnosis.line, text=hide_secrets(diagnosis.line.text)),
        where=hide_secrets(diagnosis.where),
        around=tuple(hide_secrets(text) for text in diagnosis.around),
    )


def _advise_environment(status: JobStatus, diagnosis: Diagnosis) -> Diagnosis:
    """Let the remedy name an environment beside the program, or one that uv would make there."""
    from neuronctl.launch.environments import find_venv

    request = {} if status.record is None else status.record.rest.get("request") or {}
    has_other = any(request.get(name) for name in ("venv", "conda", "container"))
    if has_other or not status.work_dir:
        return diagnosis
    script = str(request.get("script") or "")
    venv, lock = find_venv(script if script.endswith(".py") else "", status.work_dir)
    directory = os.path.normpath(os.path.join(status.work_dir, venv or os.path.dirname(lock)))
    if venv:
        advice = f"use the environment that is there: --venv {quote(directory)}"
    elif lock:
        advice = f"{directory} has a uv.lock and no .venv: run 'uv sync' there on the login node"
    else:
        return diagnosis
    return replace(diagnosis, remedy=f"{advice}; or {diagnosis.remedy}")


@dataclass(frozen=True)
class JobGroup:
    """Jobs or tasks that ended for the same reason, with the first one's evidence and diagnosis."""

    jobs: List[JobStatus]
    evidence: JobEvidence
    diagnosis: Diagnosis


_MOST_READ, _MOST_ASKED = 100, 5
"""How many tasks per state have their logs read; the second if Slurm must be asked for them."""


def examine_groups(jobs: Sequence[JobStatus]) -> List[JobGroup]:
    """Diagnose the tasks of an array or the components of a job, bad ends first."""
    alike: Dict[Tuple[Any, ...], List[JobStatus]] = {}
    for status in jobs:
        has_failed_tasks = bool(failed_tasks([status]))
        ending = (status.state, status.exit, status.stated_reason, has_failed_tasks)
        alike.setdefault(ending, []).append(status)
    groups: List[JobGroup] = []
    for tasks in sorted(alike.values(), key=_rank_tasks):
        groups += _split_by_cause(tasks)
    return groups


def _rank_tasks(tasks: Sequence[JobStatus]) -> Tuple[bool, bool]:
    """Return the key that sorts bad ends first, then jobs that have not ended, then good ends."""
    return tasks[0].state in GOOD, not tasks[0].ended


def _split_by_cause(tasks: List[JobStatus]) -> List[JobGroup]:
    """Group tasks that ended alike by what their logs say, the largest group first.

    The largest group also gets the tasks whose logs are not read.
    """
    first = tasks[0]
    limit = 1  # one stands for all tasks that did not fail
    if _has_failed(first):
        limit = _MOST_READ if first.record is not None else _MOST_ASKED
    groups: Dict[Tuple[str, str], JobGroup] = {}
    for status in tasks[:limit]:
        evidence, diagnosis = examine(status)
        # A sweep's jobs count their failed tasks together.
        if status.state == COMPLETED and len(tasks) > 1:
            diagnosis = replace(diagnosis, cause=failed_tasks(tasks) or diagnosis.cause)
        exception = ""
        if diagnosis.line is not None and diagnosis.kind == EXCEPTION:
            exception = diagnosis.line.text.partition(":")[0]
        key = (diagnosis.kind, exception)
        groups.setdefault(key, JobGroup([], evidence, diagnosis)).jobs.append(status)
    largest_first = sorted(groups.values(), key=lambda group: -len(group.jobs))
    largest_first[0].jobs.extend(tasks[limit:])
    return largest_first


def _has_failed(status: JobStatus) -> bool:
    return status.ended and status.state not in GOOD


def gather(status: JobStatus) -> JobEvidence:
    """Return the evidence of a job: read its logs, and ask Slurm for its partition's queue."""
    paths, guessed = _list_log_paths(status)
    runs = runs_of(status.record, status.id.task) or Runs(())
    tails = _read_logs(status, paths, runs)
    logs = [tail for tail in tails if not tail.problem]
    fault = None
    if _has_failed(status):
        logs = [*_read_named_logs(logs, paths), *logs]
        from neuronctl.rules.local_facts import log_fault

        fault = None if guessed else next(filter(None, map(log_fault, paths)), None)
    partition = _partition(status)
    return JobEvidence(
        status=status,
        now=int(time.time()),
        canceller=canceller(status),
        left_out=why_left_out(status),
        logs=tuple(logs),
        unread=tuple(tail for tail in tails if tail.problem),
        log_guessed=guessed,
        log_problem="" if fault is None else fault.message,
        log_full=fault is not None and fault.severity == WARNING,  # others are errors
        queue=_ask_queue(status),
        reservations=_ask_reservations(status),
        failed_tasks=failed_tasks([status]),
        earlier=_find_earlier_runs(status),
        more_memory=_advise_more_memory(status),
        most_time=None if partition is None else partition.wall_time.maximum,
        runs=runs,
        steps=read_steps(status.id) if status.state in _WITH_STEPS and began(status) else (),
    )


_WITH_STEPS = (COMPLETED, FAILED)
"""States that do not say whether Slurm ended a step."""


def _list_log_paths(status: JobStatus) -> Tuple[List[str], bool]:
    """Return a job's log files, and whether they are a guess: sbatch's default.

    The first is the output; the second is that of errors if they have a file of their own.
    """
    if status.id.tasks is not None:
        return [], False  # pending tasks have no logs yet
    out, err, guessed = log_paths(status)
    # A path with %N is several files, one for each node.
    return [path for path in dict.fromkeys((out, err)) if path and "%N" not in path], guessed


def _read_logs(status: JobStatus, paths: Sequence[str], runs: Runs) -> List[LogTail]:
    """Return the ends of a job's logs, without what its earlier runs wrote."""
    if is_launch_failure(status) or not (began(status) or status.state == UNKNOWN):
        return []  # a log of that name would be another job's
    begin = runs.runs[-1].begin if runs.runs else 0
    output = [read_tail(path, begin=begin) for path in paths[:1]]
    errors = [_without_earlier_runs(read_tail(path), runs) for path in paths[1:]]
    return [*output, *errors]


_SRUN_REPORT = re.compile(
    r"srun: error: (?:\S+: tasks? \S+: Exited with exit code (?P<code>\d+)|Unable to )"
)
_NOT_STARTED = 121
"""The exit code of an srun that starts nothing (templates/until_done.j2)."""


def _without_earlier_runs(errors: LogTail, runs: Runs) -> LogTail:
    """Return an error log from the end of the last run but one, if srun has reported that end.

    Only the output has lines that say where a run begins.
    """
    if not runs.runs:
        return errors
    *earlier, last = runs.runs
    # A report with the last run's code may be about the last run.
    earlier_codes = {run.code for run in earlier} - {last.code}
    for place in range(len(errors.lines), 0, -1):
        report = _SRUN_REPORT.match(errors.lines[place - 1])
        if report and int(report["code"] or _NOT_STARTED) in earlier_codes:
            return replace(errors, lines=errors.lines[place:], head=())
    return errors


def _ask_queue(status: JobStatus) -> Tuple[QueueJob, ...]:
    """Return the queue of a pending job's partition; () for another job, or without an answer."""
    if status.state == PENDING and status.source == "squeue" and status.partition:
        # Without the queue, the job's reason is still known.
        with contextlib.suppress(SlurmError):
            return squeue(partition=status.partition)
    return ()


def _ask_reservations(status: JobStatus) -> Tuple[Reservation, ...]:
    """Return the reservations if a pending job waits for one; otherwise ()."""
    if status.state == PENDING and "reserv" in status.reason.lower():
        with contextlib.suppress(SlurmError):
            return show_reservations()
    return ()


_NAMES_LOG = re.compile(
    r"(?:[Ss]ee (?:the )?(?:full )?log(?: file)?|error_file *:|[Ll]ogs?(?: file)?(?: is| are)?"
    r" (?:at|in|to|written to|saved to)|[Cc]heck (?:the )?log(?: file)?)[: ]+['\"]?(/[^\s'\",;]+)"
)
"""What a program writes before the path of its error log."""
_MOST_NAMED, _LAST_LINES = 2, 400
"""How many logs that other logs name are read, and how many last lines may name them."""


def _read_named_logs(logs: Sequence[LogTail], paths: Sequence[str]) -> List[LogTail]:
    """Read the user's own files that a log's last lines name as logs of an error."""
    names: Dict[str, None] = {}
    for log in logs:
        for line in log.lines[-_LAST_LINES:]:
            names.update(dict.fromkeys(_NAMES_LOG.findall(line)))
    tails: List[LogTail] = []
    for path in names:
        with contextlib.suppress(OSError):
            if path in paths or os.stat(path).st_uid != os.getuid():
                continue
            tail = read_tail(path)
            if path.endswith(".json"):  # torchrun's file has the traceback as one text
                text = "\n".join(tail.lines).replace("\\n", "\n").replace('\\"', '"')
                tail = replace(tail, lines=tuple(text.split("\n")))
            if not tail.problem:
                tails.append(tail)
    return tails[:_MOST_NAMED]


@functools.cache  # the same for all tasks of an array
def _cluster() -> Optional[Cluster]:
    from neuronctl.request.job_file import own_cluster

    with contextlib.suppress(NeuronctlError):
        return own_cluster()
    return None


def _partition(status: JobStatus) -> Optional[Partition]:
    cluster = _cluster()
    return None if cluster is None else cluster.partitions.get(status.partition)


def _advise_more_memory(status: JobStatus) -> str:
    """Return how to request more memory on this cluster, according to its catalog."""
    cluster, partition = _cluster(), _partition(status)
    if cluster is None or partition is None or "mem" not in cluster.policy.forbidden_options:
        return JobEvidence.more_memory
    or_gpus = ", or more GPUs" if partition.gpus_per_node else ""
    return (
        f"request more cores with --cpus-per-task{or_gpus}: memory comes with the cores, --mem is "
        f"not meant to be used in {partition.name}"
    )


def _find_earlier_runs(status: JobStatus) -> Tuple[AccountingJob, ...]:
    """Return the runs before a requeue, or the earlier jobs of a chain; newest first."""
    if status.ended or status.source != "squeue" or status.id.tasks is not None:
        return ()
    chain = read_chain(status.record)
    with contextlib.suppress(SlurmError):
        if chain is None:
            return earlier_runs(status, sacct([status.id], duplicates=True).jobs)
        earlier_jobs = [JobId(job) for job in sorted(chain.jobs) if job < status.job_id]
        rows = sacct(earlier_jobs).jobs if earlier_jobs else ()
        return tuple(sorted(rows, key=lambda row: -row.job_id))
    return ()
