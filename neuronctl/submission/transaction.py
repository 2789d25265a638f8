"""sbatch between two writes of the job's record."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Callable, Iterator, Mapping, Optional, Sequence, Tuple

from neuronctl.errors import RecordError, SlurmRefusedError, SlurmUnavailableError
from neuronctl.frozen import dataclass
from neuronctl.gate.local_facts import working_directory
from neuronctl.records.provenance import look
from neuronctl.records.recovery import recover
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.slurm.cluster import local_cluster
from neuronctl.slurm.process import installed
from neuronctl.slurm.sbatch import sbatch
from neuronctl.submission.prepare import PreparedJob
from neuronctl.units import expand_log_pattern
from neuronctl.users import login_name

Notify = Callable[[str], None]
"""Is told, while the work is done, what a person should hear of: one message, with its hint."""


@dataclass(frozen=True)
class Submission:
    """A job that Slurm has taken.

    output, error: the log files, the same where standard error goes into ``output``; of an array,
    patterns of its tasks' files. record: None where it could not be written. warnings: what a
    person should hear of, sbatch's own warnings too.
    """

    job_id: int
    partition: str
    output: str
    error: str
    is_array: bool
    record: Optional[JobRecord] = None
    warnings: Tuple[str, ...] = ()


def draft(
    job: PreparedJob, script: str, *, command_line: Sequence[str], submit_dir: str = ""
) -> RecordDraft:
    """The record of a prepared job as it is before sbatch.

    command_line: what the user called. submit_dir: where to submit from, by default this directory.
    """
    plan = job.plan
    submit_dir = submit_dir or working_directory()
    cwd = plan.request.chdir or submit_dir
    request = dataclasses.asdict(dataclasses.replace(plan.request, origins={}))
    del request["origins"]
    return RecordDraft(
        cwd=cwd,
        command_line=tuple(command_line),
        script=script,
        request={name: value for name, value in request.items() if value not in (None, ())},
        job_name=plan.job_name,
        partition=plan.partition.name,
        output=os.path.join(cwd, plan.output or "slurm-%j.out"),
        error=None if plan.error is None else os.path.join(cwd, plan.error),
        array=plan.request.array,
        nodes=plan.nodes,
        gpus_per_node=plan.gpus_per_node,
        time_limit=plan.time_limit,
        catalog_cluster=plan.cluster.name,
        catalog_date=plan.cluster.date,
        decisions=tuple((one.name, one.value, one.source.value, one.why) for one in plan.decisions),
        findings=tuple(
            (f.code, f.severity, f.title, f.message, f.source, f.hint) for f in job.findings
        ),
        forced=bool(job.errors),
        verdict="" if job.verdict is None else str(job.verdict),
        surroundings=look(plan.request.script, cwd),
        submit_dir="" if submit_dir == cwd else submit_dir,
    )


def submit_draft(
    draft: RecordDraft, secrets: Mapping[str, str], notify: Optional[Notify] = None
) -> Submission:
    """Submit a draft's script. A record that cannot be kept is only a warning.

    secrets: variables that the job gets and no record holds. Raises SlurmRefusedError, and
    SlurmUnavailableError, after which it may not be known whether Slurm has the job.
    """
    warnings = []

    def warn(text: str) -> None:
        warnings.append(text)
        if notify is not None:
            notify(text)

    @contextlib.contextmanager
    def recording() -> Iterator[None]:
        try:
            yield
        except RecordError as error:
            hint = f"\n  hint: {error.hint}" if error.hint else ""
            warn(f"warning: {error.message}{hint}")

    key: Optional[str] = None
    store: Optional[RecordStore] = None
    with recording():
        store = RecordStore.default()
        for note in recover(store):
            warn(note)
        key = store.begin(draft)
    try:
        place = draft.submit_dir or draft.cwd
        submitted = sbatch(draft.script, mark=key or "", cwd=place, environment=secrets)
    except KeyboardInterrupt:
        warn(
            "interrupted while sbatch was running: the job may be in the queue "
            "('neuronctl status' shows it)"
        )
        raise
    except (SlurmRefusedError, SlurmUnavailableError) as error:
        # Only then is it certain that there is no job; any other error leaves the intent.
        certain = isinstance(error, SlurmRefusedError) or not installed()
        if certain and store is not None and key is not None:
            with recording():
                store.failed(key, error.message)
        raise
    if submitted.warnings:
        warn(f"sbatch: {submitted.warnings}")
    record: Optional[JobRecord] = None
    if store is not None and key is not None:
        with recording():
            cluster = submitted.cluster or local_cluster()
            record = store.complete(key, submitted.job_id, cluster)
    return Submission(
        job_id=submitted.job_id,
        partition=draft.partition,
        output=_log_path(draft, draft.output, submitted.job_id),
        error=_log_path(draft, draft.error or draft.output, submitted.job_id),
        is_array=draft.array is not None,
        record=record,
        warnings=tuple(warnings),
    )


def _log_path(draft: RecordDraft, pattern: str, job_id: int) -> str:
    return expand_log_pattern(
        pattern,
        job_id=job_id,
        job_name=draft.job_name,
        user=login_name(),
        node="%N",
        any_task=draft.array is not None,
    )
