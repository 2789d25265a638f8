"""Plan, judge, render, and submit jobs from a program, and ask about them.

The package offers the same functions: ``import neuronctl; neuronctl.submit(...)``. They print
nothing. The ``warnings`` of a submission hold what its user should know; errors are raised as
NeuronctlError, with ``message``, ``hint``, and ``exit_code``.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from neuronctl.catalog.loader import load
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import (
    CatalogError,
    JobFileError,
    NeuronctlError,
    NoSuchJobError,
    PolicyError,
    RecordError,
    SlurmRefusedError,
    SlurmUnavailableError,
    TemplateError,
    UsageError,
)
from neuronctl.common.units import parse_since
from neuronctl.diagnosis.evidence import Diagnosis
from neuronctl.judgement.judgement import JudgeBy, Judgement, judge_plan
from neuronctl.planning import JobPlan
from neuronctl.records.found_records import newest_record
from neuronctl.records.job_record import JobRecord
from neuronctl.records.store import RecordStore
from neuronctl.remote.python_remote import Remote
from neuronctl.request.job import Body
from neuronctl.request.job_file import parse_steps
from neuronctl.request.typed_options import program_words, texts_of
from neuronctl.request.values import shell_text
from neuronctl.rules import Finding
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import find_worst
from neuronctl.submission.pipeline import Reporter, submit_job
from neuronctl.submission.planned_job import PlannedJob, plan_job
from neuronctl.submission.transaction import Submission
from neuronctl.sweeping.parameters import TaskState
from neuronctl.sweeping.python_sweep import Sweep, sweep
from neuronctl.tracking import follow
from neuronctl.tracking.cancellation import cancel, known_jobs, scancel_targets
from neuronctl.tracking.job_names import is_name, newest
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import first_run, look_up, mine, no_such_job

__all__ = ["CatalogError", "Diagnosis", "Finding", "Job", "JobFileError", "JobPlan", "JobRecord",
           "JobStatus", "Judgement", "NeuronctlError", "NoSuchJobError", "PolicyError",
           "RecordError", "Remote", "SlurmRefusedError", "SlurmUnavailableError", "Submission",
           "Sweep", "TaskState", "TemplateError", "UsageError", "history", "judge", "plan",
           "render", "resubmit", "status", "submit", "sweep", "wait_any"]  # fmt: skip


class Job:
    """A job in Slurm: ``Job(4711)``, ``Job("4711_3")`` for an array task, or what submit() returns.

    ``Job("prep")`` is the newest job of that name that neuronctl submitted.

    submission: its id, logs, and warnings, if submit() or resubmit() made this object; else None.
    The methods raise NoSuchJobError if nobody knows the job, and SlurmUnavailableError.

    >>> job = neuronctl.Job(70)
    >>> job.wait(), job.state, job.log()
    (0, 'COMPLETED', '')
    """

    def __init__(self, id: Union[int, str], submission: Optional[Submission] = None) -> None:
        self._id = _job_id(id)
        self.submission = submission

    def __str__(self) -> str:
        return str(self._id)

    def __repr__(self) -> str:
        return f"Job({str(self)!r})"

    @property
    def state(self) -> str:
        """Return the job's state in Slurm's word; for an array, that of a task in the worst state.

        A task that failed is worse than one that has not ended, and a completed one is best.
        """
        return self._worst().state

    def wait(self, timeout: Optional[float] = None) -> int:
        """Wait until the job ends; return its exit code, for an array the highest of its tasks.

        The code is the batch script's own, 124 for a time limit, 137 for memory, 143 for a
        cancelled job, and 128 + N for signal N. timeout: in seconds; raises TimeoutError.
        """
        (watch,) = follow.wait_for([follow.JobWatch(self._id)], timeout=timeout)
        return watch.exit_status

    def cancel(self) -> None:
        """Cancel the job, unless it has ended. Raises SlurmRefusedError."""
        matches, _ = known_jobs([self._id], RecordStore.default())
        jobs = matches[self._id]
        if not jobs:
            raise no_such_job([self._id])
        targets = scancel_targets(self._id, jobs, None)
        refused = cancel(targets) if targets else {}
        if refused:
            first_message = next(iter(refused.values()))
            raise SlurmRefusedError(f"scancel refused the request: {first_message}")

    def log(self, *, err: bool = False) -> str:
        """Return what the job has written so far; "" if there is no log yet.

        err: return standard error, if it has its own file. Raises UsageError for an array, of
        which each task has its own log.
        """
        from neuronctl.tracking.log_files import read_log

        return read_log(self._id, err=err)

    def why(self) -> Diagnosis:
        """Return why the job waits, or how it ended; for an array, explain its worst task."""
        from neuronctl.diagnosis.gather import examine

        _, diagnosis = examine(self._worst())
        return diagnosis

    def _worst(self) -> JobStatus:
        tasks = status(self)
        return tasks[find_worst([task.state for task in tasks])]


def wait_any(jobs: Sequence[Job], *, timeout: Optional[float] = None) -> Job:
    """Wait until one of the jobs has ended, an array with all its tasks; return that job.

    timeout: in seconds; raises TimeoutError.

    >>> neuronctl.wait_any([job, neuronctl.Job("train")], timeout=60)
    Job('70')
    """
    watches = [follow.JobWatch(JobId.parse(str(job))) for job in jobs]
    ended = follow.wait_for(watches, any_of_them=True, timeout=timeout)[0].job
    return next(job for job in jobs if str(job) == str(ended))


def plan(
    script: Union[str, os.PathLike[str], None] = None,
    args: Sequence[str] = (),
    *,
    body: Optional[str] = None,
    steps: Sequence[Mapping[str, Any]] = (),
    job_file: Optional[str] = None,
    catalog: Optional[str] = None,
    **options: Any,
) -> JobPlan:
    """Plan a job: every value that its script needs, each with its reason.

    script, args: the program. Instead of them, body is shell text that starts once, or steps is a
    list as in a job file: ``[{"run": "python prepare.py"}, {"script": "train.py"}]``.

    options: those of ``neuronctl submit`` by their long names, with ``_`` for ``-``:
    ``gpus_per_node=2``, ``time="8:00:00"``, ``env={"LR": "0.1"}``, ``module=["cuda/12.4"]``,
    ``requeue=True``. They override the job file, which overrides the user's configuration.
    ``partition="auto"`` asks Slurm. Raises UsageError, JobFileError, CatalogError, and PolicyError.

    >>> plan = neuronctl.plan("train.py", ["--lr", "0.1"], nodes=2, gpus_per_node=1, time="8:00:00")
    >>> plan.nodes, plan.time_limit
    (2, 28800)
    """
    words = program_words(script, args)
    if not isinstance(body, (str, type(None))):
        raise UsageError(f"body: expected text, got {body!r}")
    try:
        text = None if body is None else Body(shell_text(body))
    except ValueError as error:
        raise UsageError(f"body {error}") from None
    return plan_job(
        texts_of(options),
        words=words,
        body=text,
        steps=parse_steps(list(steps)) if steps else (),
        catalog_file=catalog,
        job_file=job_file,
    ).plan


def judge(plan: JobPlan, *, catalog: Optional[str] = None) -> Judgement:
    """Judge a plan by the catalog and what Slurm says now: findings and a verdict.

    If Slurm does not answer, the catalog alone judges, and the verdict says so. Raises
    CatalogError.

    >>> neuronctl.judge(plan).verdict.kind
    'not known'
    """
    return judge_plan(plan, JudgeBy(load(catalog)))


def render(plan: JobPlan, *, template: Optional[str] = None) -> str:
    """Return the job script of a plan; raises TemplateError.

    >>> neuronctl.render(plan).splitlines()[0]
    '#!/bin/bash'
    """
    from neuronctl.rendering.render import render_job

    return render_job(plan, template=template)


def submit(
    plan: JobPlan,
    *,
    force: bool = False,
    template: Optional[str] = None,
    catalog: Optional[str] = None,
    key: str = "",
) -> Job:
    """Judge a plan, submit its script with sbatch from this directory, and record it.

    key: if a job was submitted with it, return that one. force: override errors of the rules, which
    otherwise raise PolicyError. Also raises CatalogError, TemplateError, SlurmRefusedError, and
    SlurmUnavailableError, after which the job may be in the queue nevertheless.

    >>> job = neuronctl.submit(plan)
    >>> job, job.submission.is_array
    (Job('70'), False)
    """
    from neuronctl.submission.transaction import find_submitted_job

    reporter = _reporter()
    done = find_submitted_job(key, reporter.tell) if key else None
    if done is None:
        planned = PlannedJob(plan, load(catalog), template=template)
        done = submit_job(planned, reporter, force=force, key=key)
    assert done is not None  # only a dry run returns None
    return Job(done.job_id, done)


def resubmit(
    job: Union[int, str, Job],
    args: Optional[Sequence[str]] = None,
    *,
    same_code: bool = False,
    force: bool = False,
    catalog: Optional[str] = None,
    key: str = "",
    **options: Any,
) -> Job:
    """Submit a recorded job again, from its own directory.

    args: the program's arguments, in place of the recorded ones. same_code: run the job's snapshot
    of its code. options: as for plan(); they override the recorded ones. force, key: as for
    submit(). The ``warnings`` of the submission say what has changed since. Raises NoSuchJobError
    if the job has no record, and the errors of submit().

    >>> again = neuronctl.resubmit(job, ["--lr", "0.01"], time="16:00:00")
    >>> again.submission.record.time_limit
    57600
    """
    from neuronctl.submission.resubmission import plan_resubmission
    from neuronctl.submission.transaction import find_submitted_job

    remarks: List[str] = []
    directory = os.getcwd()
    done = find_submitted_job(key, remarks.append) if key else None
    if done is None:
        store = RecordStore.default()
        id = _job_id(job)
        # A later run of a job has no record of its own.
        record = newest_record(store, first_run(id, store) or id.job)
        try:
            planned = plan_resubmission(
                record,
                texts_of(options),
                tell=remarks.append,
                args=args,
                same_code=same_code,
                catalog_file=catalog,
            )
            done = submit_job(planned, _reporter(), force=force, key=key)
        finally:
            os.chdir(directory)  # plan_resubmission() changes to the job's directory
    assert done is not None  # only a dry run returns None
    return Job(done.job_id, replace(done, warnings=(*remarks, *done.warnings)))


def _reporter() -> Reporter:
    reporter = Reporter()
    reporter.command_line = ["python", *sys.argv]
    return reporter


def status(*jobs: Union[int, str, Job], since: Optional[str] = None) -> Tuple[JobStatus, ...]:
    """Return the states of jobs; without any, those of the user's own jobs.

    An array has a status for each task that Slurm tells apart. Without jobs, since selects the
    user's jobs from then on: ``"7d"``, ``"12h"``, or a day; by default, those in the queue and of
    the last 24 hours. Raises NoSuchJobError if nobody knows a job, and SlurmUnavailableError.

    >>> [status.state for status in neuronctl.status(70)]
    ['COMPLETED']
    """
    if jobs and since is not None:
        raise UsageError("job ids cannot be combined with since")
    ids = [_job_id(job) for job in jobs]
    answer = (look_up(ids) if ids else mine(since=_moment(since))).sure()
    if answer.missing:
        raise no_such_job(answer.missing)
    return answer.jobs


def history(
    name: str = "*",
    *,
    since: Optional[str] = None,
    failed: bool = False,
    limit: Optional[int] = None,
) -> List[JobRecord]:
    """Return the recorded submissions, newest first; also those that Slurm refused.

    name: a job's name, or a pattern such as ``"train*"``. failed: only those that Slurm refused, or
    whose job failed according to Slurm. since: as for status(). Damaged records are left out.
    Raises RecordError if the records cannot be read.

    >>> [(record.job_id, record.job_name) for record in neuronctl.history("tr*", limit=1)]
    [(70, 'train')]
    """
    from neuronctl.tracking.job_names import MOST, failed_ones, named_since, states_of

    store = RecordStore.default()
    records = named_since(store, name, _moment(since) or 0)
    if failed:
        recent = list(itertools.islice(records, MOST))  # as many as Slurm is asked about
        states, _ = states_of(recent, store)
        records = iter(failed_ones(recent, states))
    return list(itertools.islice(records, limit))


def _job_id(job: Union[int, str, Job]) -> JobId:
    """Return the id of a job; for a name, that of the newest job that neuronctl submitted."""
    word = str(job)
    return newest(word, RecordStore.default()) if is_name(word) else JobId.parse(word)


def _moment(since: Optional[str]) -> Optional[int]:
    """Return the seconds since the epoch that ``"7d"`` or a day means; None stays None."""
    return None if since is None else parse_since(since, int(time.time()), "since")
