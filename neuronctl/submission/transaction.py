"""Call sbatch between two writes of the job's record, and submit one job for each ``--key``.

The links HASH.1, HASH.2 … in the records' directory ``keys`` lead from a key to its records. Link
N + 1 is made only if Slurm refused the job of link N.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from typing import Callable, Iterator, Mapping, Optional, Tuple, Union

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import RecordError, SlurmError
from neuronctl.common.files import open_own_directory
from neuronctl.common.secrets import hide_in_words
from neuronctl.common.shell import join
from neuronctl.common.units import expand_log_pattern
from neuronctl.common.users import login_name
from neuronctl.common.words import moment
from neuronctl.planning.software import WANDB_RUN
from neuronctl.records.provenance import Provenance, read_provenance
from neuronctl.records.recovery import await_outcome
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.process import installed
from neuronctl.slurm.sbatch import Submitted, sbatch, sbatch_existing

Notify = Callable[[str], None]
"""Receives a message for the user, with its hint."""


@dataclass(frozen=True)
class Submission:
    """A job that Slurm has accepted.

    output, error: the log files, the same if standard error goes into ``output``; for an array,
    patterns of the tasks' files. record: None if it could not be written. warnings: messages for
    the user, with sbatch's warnings.

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

    @classmethod
    def of_record(cls, record: JobRecord) -> Submission:
        """Return the submission that a job's record describes."""
        assert record.job_id is not None
        return cls.of_job(record.job_id, record, record)

    @classmethod
    def of_job(
        cls,
        job_id: int,
        job: Union[RecordDraft, JobRecord],
        record: Optional[JobRecord],
        warnings: Tuple[str, ...] = (),
    ) -> Submission:
        """Return the submission of the job that a draft or a record describes."""
        is_array = job.array is not None
        output, error = (
            expand_log_pattern(
                pattern,
                job_id=job_id,
                job_name=job.job_name,
                user=login_name(),
                node="%N",
                any_task=is_array,
            )
            for pattern in (job.output, job.error or job.output)
        )
        return cls(job_id, job.partition, output, error, is_array, record, warnings)


class Recording:
    """Writes a job's record before and after sbatch. key: of the record; "": there is none."""

    def __init__(self, draft: RecordDraft, warn: Notify, *, cluster: Optional[str] = None) -> None:
        """Write the intent, with the state of the job's directory. cluster: None: this one."""
        self.key = ""
        self._warn = warn
        self._store = RecordStore.default()
        self._cluster = cluster or local_cluster()
        if draft.surroundings == Provenance():  # otherwise the code of a snapshot runs again
            # The text of a user's own script has been read before.
            content = draft.script.encode("utf-8", "surrogateescape") if draft.sbatch else b""
            surroundings = read_provenance(draft.request.get("script"), draft.cwd, content)
            draft = replace(draft, surroundings=surroundings)
        with self._tolerant():
            self.key = self._store.begin(draft, self._cluster)

    def accepted(self, submitted: Submitted) -> Optional[JobRecord]:
        """Complete the record with the job's id and return it; None: that failed."""
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
    draft: RecordDraft,
    notify: Notify,
    *,
    variables: Mapping[str, str],
    cluster: Optional[str] = None,
    key: str = "",
) -> Submission:
    """Submit the job that a draft describes, and record it; a failure to record is a warning.

    A user's own script is submitted by its own command line, any other with the key of its record.
    variables: for sbatch's environment. cluster: the Slurm cluster; None: this machine's. key: of
    --key; if another process has submitted its job, that job is returned. Raises SlurmRefusedError,
    and SlurmUnavailableError if it is not known whether Slurm has the job.
    """
    warnings = []

    def warn(text: str) -> None:
        warnings.append(text)
        notify(text)

    place = draft.submit_dir or draft.cwd
    recording = Recording(draft, warn, cluster=cluster)
    if key and (other := _take_key(key, recording, notify)):
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
        # Unless this is certain, there may be a job, and the intent remains.
        certain = error.certain or not installed()
        recording.failed(error.message if certain else "", certain=certain)
        raise
    # Write the record first: a closed terminal must not prevent it.
    record = recording.accepted(submitted)
    if submitted.warnings:
        warn(f"sbatch: {submitted.warnings}")
    return Submission.of_job(submitted.job_id, draft, record, tuple(warnings))


def find_submitted_job(key: str, notify: Notify) -> Optional[Submission]:
    """Return the job that was submitted with a key, or None; notify hears the job's command.

    Waits while another process submits it. Raises SlurmUnavailableError while it is not known
    whether Slurm took the job, and RecordError.
    """
    _, record = _last_link(key)
    record = record and await_outcome(record, notify, _OTHER_KEY)
    if record is None:
        return None
    command = join(hide_in_words(record.draft.command_line))
    notify(
        f"job {record.job_id} is this submission, made at {moment(record.begun_at)}: nothing else "
        f"was submitted; its command: {command}"
    )
    return Submission.of_record(record)


_OTHER_KEY = "another key submits another job"


def _take_key(key: str, recording: Recording, notify: Notify) -> Optional[Submission]:
    """Give a key to a record; if another process was faster, return its job instead."""
    if not recording.key:
        raise RecordError("without a record there is no key: nothing was submitted")
    has_key = False
    try:
        while not has_key:
            link, record = _last_link(key)
            if record is None or record.status == "failed":
                os.close(open_own_directory(os.path.dirname(link)))  # makes the directory
                with contextlib.suppress(FileExistsError):
                    os.symlink(recording.key, link)
                has_key = os.readlink(link) == recording.key
            elif job := await_outcome(record, notify, _OTHER_KEY):
                return Submission.of_record(job)
    finally:
        if not has_key:
            recording.failed("another submission has its key", certain=True)
    return None


def _last_link(key: str) -> Tuple[str, Optional[JobRecord]]:
    """Return a key's first free link, and the record of the link before it, or None."""
    store = RecordStore.default()
    name = ""
    words = f"{local_cluster()} {key}".encode("utf-8", "surrogateescape")
    for number in itertools.count(1):
        link = f"{store.directory}/keys/{hashlib.sha256(words).hexdigest()}.{number}"
        if not os.path.islink(link):
            break
        name = os.readlink(link)
    record = store.find_submission(name) if name else None
    if name and record is None:
        raise RecordError(f"the record of key {key!r} is missing or damaged", "use another key")
    return link, record
