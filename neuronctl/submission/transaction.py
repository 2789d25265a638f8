"""sbatch between two writes of the job's record."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, Optional, Protocol, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import RecordError, SlurmError
from neuronctl.common.units import expand_log_pattern
from neuronctl.common.users import login_name
from neuronctl.planning.software import WANDB_RUN
from neuronctl.records.provenance import Provenance, read_provenance
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.process import installed
from neuronctl.slurm.sbatch import Submitted, sbatch, sbatch_existing

if TYPE_CHECKING:
    from neuronctl.submission.judged_job import JudgedJob

Notify = Callable[[str], None]
"""Is told, while the work is done, what a person should hear of: one message, with its hint."""


class Submittable(Protocol):
    """A job that can be submitted, whoever wrote its script.

    variables: those that the job inherits beside the user's environment, secrets among them.
    slurm_cluster: None: this one. draft: its record as far as it is known before it is judged.
    script: what sbatch gets; raises TemplateError.
    """

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the variables that sbatch needs in its environment."""

    @property
    def slurm_cluster(self) -> Optional[str]:
        """Return the cluster that --clusters names, or None."""

    @property
    def draft(self) -> RecordDraft:
        """Return what to record."""

    @property
    def script(self) -> str:
        """Return the script."""

    def judge(self) -> Optional[JudgedJob]:
        """Judge the job; None if it is submitted unchanged."""


@dataclass(frozen=True)
class Submission:
    """A job that Slurm has taken.

    output, error: the log files, the same where standard error goes into ``output``; of an array,
    patterns of its tasks' files. record: None where it could not be written. warnings: what a
    person should hear of, sbatch's own warnings too.

    >>> job.submission.job_id, job.submission.warnings
    (70, ())
    """

    job_id: int
    partition: str
    output: str
    error: str
    is_array: bool
    record: Optional[JobRecord] = None
    warnings: Tuple[str, ...] = ()


class Recording:
    """A job's record before and after sbatch; one that cannot be kept is only a warning.

    key: "" where there is no record.
    """

    def __init__(self, draft: RecordDraft, warn: Notify, *, cluster: Optional[str] = None) -> None:
        """Write the intent, with what the job's directory is like now.

        cluster: Slurm's, where it is not this machine's.
        """
        self.key = ""
        self._warn = warn
        self._store = RecordStore.default()
        self._cluster = cluster or local_cluster()
        # Somebody's own script was already read.
        content = draft.script.encode("utf-8", "surrogateescape") if draft.sbatch else b""
        surroundings = draft.surroundings
        if surroundings == Provenance():  # otherwise the code of a snapshot runs again
            surroundings = read_provenance(draft.request.get("script"), draft.cwd, content)
        with self._tolerant():
            self.key = self._store.begin(replace(draft, surroundings=surroundings), self._cluster)

    def taken(self, submitted: Submitted) -> Optional[JobRecord]:
        """Write the job's record; return None if that fails."""
        with self._tolerant():
            if self.key:
                cluster = submitted.cluster or self._cluster
                return self._store.complete(self.key, submitted.job_id, cluster)
        return None

    def failed(self, error: str, *, certain: bool) -> None:
        """Record how sbatch failed. certain: there is no job; otherwise the intent remains."""
        with self._tolerant():
            if self.key:
                self._store.failed(self.key, error, certain=certain)

    @contextlib.contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            yield
        except RecordError as error:
            hint = f"\n  hint: {error.hint}" if error.hint else ""
            self._warn(f"warning: {error.message}{hint}")


def submit_draft(
    job: Submittable,
    draft: RecordDraft,
    notify: Notify,
    claim: Optional[Callable[[Recording], Optional[Submission]]] = None,
) -> Submission:
    """Submit a job, as its draft describes it. A record that cannot be kept is only a warning.

    Somebody's own script is submitted by its own command line, any other with the key of its
    record. claim: called before sbatch; if it returns another process's job, that is the result.
    Raises SlurmRefusedError, and SlurmUnavailableError, after which it may not be known whether
    Slurm has the job.
    """
    warnings = []

    def warn(text: str) -> None:
        warnings.append(text)
        notify(text)

    variables, place = job.variables, draft.submit_dir or draft.cwd
    recording = Recording(draft, warn, cluster=job.slurm_cluster)
    other = claim and claim(recording)
    if other:
        return other
    try:
        if draft.sbatch:  # sbatch reads standard input only without a file
            submitted = sbatch_existing(
                draft.sbatch, draft.script, cwd=place, environment=variables
            )
        else:
            submitted = sbatch(
                draft.script,
                mark=recording.key,
                first_job=draft.first_job if WANDB_RUN in draft.script else None,
                cwd=place,
                environment=variables,
            )
    except KeyboardInterrupt:
        recording.failed("", certain=False)
        warn("interrupted while sbatch was running: the job may be in the queue ('status' tells)")
        raise
    except SlurmError as error:
        # Only then is there surely no job; after any other error, the intent remains.
        certain = error.certain or not installed()
        recording.failed(error.message if certain else "", certain=certain)
        raise
    # Write the record first: a closed terminal must not prevent it.
    record = recording.taken(submitted)
    if submitted.warnings:
        warn(f"sbatch: {submitted.warnings}")
    id, is_array = submitted.job_id, draft.array is not None
    output, error_log = (
        _log(draft, log, id) for log in (draft.output, draft.error or draft.output)
    )
    return Submission(id, draft.partition, output, error_log, is_array, record, tuple(warnings))


def _log(draft: RecordDraft, pattern: str, job_id: int) -> str:
    """Return a log file of a job; for an array, a pattern of its tasks' files."""
    return expand_log_pattern(
        pattern,
        job_id=job_id,
        job_name=draft.job_name,
        user=login_name(),
        node="%N",
        any_task=draft.array is not None,
    )
