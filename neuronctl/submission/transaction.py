"""sbatch between two writes of the job's record."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, Optional, Tuple

from neuronctl.catalog.local_cluster import local_cluster
from neuronctl.common.errors import RecordError, SlurmError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.units import expand_log_pattern
from neuronctl.common.users import login_name
from neuronctl.records.provenance import read_provenance
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.scripts.script_search import MAX_BYTES
from neuronctl.slurm.process import installed
from neuronctl.slurm.sbatch import Submitted, sbatch, sbatch_existing

if TYPE_CHECKING:
    from neuronctl.submission.existing_script import ExistingScript

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


class Recording:
    """A job's record before and after sbatch; one that cannot be kept is only a warning.

    key: "" where there is no record. draft: may be known better by the time sbatch answers.
    """

    def __init__(
        self,
        draft: RecordDraft,
        warn: Notify,
        *,
        cluster: Optional[str] = None,
        ask_slurm: bool = True,
    ) -> None:
        """Write the intent, with what the job's directory is like now.

        cluster: Slurm's, where it is not this machine's. ask_slurm: whether to look first for the
        jobs of submissions that were cut off.
        """
        self.key = ""
        self.store: Optional[RecordStore] = None
        self.cluster = cluster or local_cluster()
        self._warn = warn
        # Somebody's own script was read already, unless it is too long.
        content = draft.script.encode("utf-8", "surrogateescape") if draft.sbatch else b""
        content = b"" if len(content) > MAX_BYTES else content
        surroundings = read_provenance(draft.request.get("script"), draft.cwd, content)
        self.draft = self._begun = replace(draft, surroundings=surroundings)
        with self._tolerant():
            self.store = RecordStore.default()
            if ask_slurm and self._has_open_intents(self.store):
                from neuronctl.records.recovery import recover

                for note in recover(self.store):
                    warn(note)
            self.key = self.store.begin(self._begun, self.cluster)

    def _has_open_intents(self, store: RecordStore) -> bool:
        try:
            return bool(store.open_intents())
        except RecordError as error:
            self._warn(error.message)
            return False

    def taken(self, submitted: Submitted) -> Optional[JobRecord]:
        """Write the job's record; None where that cannot be."""
        if self.store is not None and self.key:
            with self._tolerant():
                cluster = submitted.cluster or self.cluster
                draft = None if self.draft is self._begun else self.draft
                return self.store.complete(self.key, submitted.job_id, cluster, draft=draft)
        return None

    def failed(self, error: str, *, certain: bool) -> None:
        """Record how sbatch failed. certain: there is no job; otherwise the intent stays."""
        if self.store is not None and self.key:
            with self._tolerant():
                self.store.failed(self.key, error, certain=certain)

    @contextlib.contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            yield
        except RecordError as error:
            hint = f"\n  hint: {error.hint}" if error.hint else ""
            self._warn(f"warning: {error.message}{hint}")


def submit_draft(
    draft: RecordDraft,
    notify: Notify,
    *,
    existing: Optional[ExistingScript] = None,
    variables: Mapping[str, str] = {},
    cluster: Optional[str] = None,
) -> Submission:
    """Submit a draft's script. A record that cannot be kept is only a warning.

    existing: the script, where it is somebody's own: it is submitted by its own command line, and
    otherwise with the key of its record. variables: as for Submittable. cluster: as for
    Recording. Raises SlurmRefusedError, and SlurmUnavailableError, after which it may not be known
    whether Slurm has the job.
    """
    warnings = []

    def warn(text: str) -> None:
        warnings.append(text)
        notify(text)

    recording = Recording(draft, warn, cluster=cluster)
    place = draft.submit_dir or draft.cwd
    try:
        if existing is not None:
            submitted = sbatch_existing(
                draft.sbatch, existing.stdin, cwd=place, environment=variables
            )
        else:
            submitted = sbatch(draft.script, mark=recording.key, cwd=place, environment=variables)
    except KeyboardInterrupt:
        warn(
            "interrupted while sbatch was running: the job may be in the queue "
            "('neuronctl status' shows it)"
        )
        raise
    except SlurmError as error:
        # Only then is it certain that there is no job; any other error leaves the intent.
        if error.certain or not installed():
            recording.failed(error.message, certain=True)
        raise
    # First of all: a terminal that is gone must not keep the job out of its record.
    record = recording.taken(submitted)
    if existing is not None and existing.has_changed:
        warn(
            f"warning: {existing.name} was changed while it was submitted: the record may have "
            "another text than the job"
        )
    if submitted.warnings:
        warn(f"sbatch: {submitted.warnings}")
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
