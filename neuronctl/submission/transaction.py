"""sbatch between two writes of the job's record, and one job for each key (``--key``).

The links HASH.1, HASH.2 … in the records' directory ``keys`` lead from a key to its records: link
N + 1 follows only if Slurm refused N.
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
"""Receives a message for the user, with its hint, while the work is done."""


@dataclass(frozen=True)
class Submission:
    """A job that Slurm has taken.

    output, error: the log files, the same if standard error goes into ``output``; of an array,
    patterns of its tasks' files. record: None if it could not be written. warnings: messages for
    the user, sbatch's own warnings too.

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
        described: Union[RecordDraft, JobRecord],
        record: Optional[JobRecord],
        warnings: Tuple[str, ...] = (),
    ) -> Submission:
        """Return the submission of a job as its draft or record describes it."""
        is_array = described.array is not None
        output, error = (
            expand_log_pattern(
                pattern or described.output,
                job_id=job_id,
                job_name=described.job_name,
                user=login_name(),
                node="%N",
                any_task=is_array,
            )
            for pattern in (described.output, described.error)
        )
        return cls(job_id, described.partition, output, error, is_array, record, warnings)


class Recording:
    """A job's record before and after sbatch; one that cannot be kept is only a warning.

    key: "" if there is no record.
    """

    def __init__(self, draft: RecordDraft, warn: Notify, *, cluster: Optional[str] = None) -> None:
        """Write the intent, with what the job's directory is like now.

        cluster: Slurm's, if it is not this machine's.
        """
        self.key = ""
        self._warn = warn
        self._store = RecordStore.default()
        self._cluster = cluster or local_cluster()
        # A user's own script was already read.
        content = draft.script.encode("utf-8", "surrogateescape") if draft.sbatch else b""
        surroundings = draft.surroundings
        if surroundings == Provenance():  # otherwise the code of a snapshot runs again
            surroundings = read_provenance(draft.request.get("script"), draft.cwd, content)
        with self._tolerant():
            self.key = self._store.begin(replace(draft, surroundings=surroundings), self._cluster)

    def accepted(self, submitted: Submitted) -> Optional[JobRecord]:
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
    draft: RecordDraft,
    notify: Notify,
    *,
    variables: Mapping[str, str],
    cluster: Optional[str] = None,
    key: str = "",
) -> Submission:
    """Submit a job, as its draft describes it. A record that cannot be kept is only a warning.

    A user's own script is submitted by its own command line, any other with the key of its record.
    variables: what sbatch needs in its environment. cluster: Slurm's, if not this machine's.
    key: as for find_submitted_job(); if another process was faster, its job is returned. Raises
    SlurmRefusedError, and SlurmUnavailableError if it is not known whether Slurm has the job.
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
        # Only then is there surely no job; after any other error, the intent remains.
        certain = error.certain or not installed()
        recording.failed(error.message if certain else "", certain=certain)
        raise
    # Write the record first: a closed terminal must not prevent it.
    record = recording.accepted(submitted)
    if submitted.warnings:
        warn(f"sbatch: {submitted.warnings}")
    return Submission.of_job(submitted.job_id, draft, record, tuple(warnings))


def find_submitted_job(key: str, notify: Notify) -> Optional[Submission]:
    """Return the job that was submitted with a key, or None; notify hears its command line.

    Waits while another process submits it. Raises SlurmUnavailableError while it is not known
    whether Slurm took the job, and RecordError.
    """
    _, record = _last(key)
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
    """Give a key to a record; return the job of a faster process, None if there is none."""
    if not recording.key:
        raise RecordError("without a record there is no key: nothing was submitted")
    faster: Optional[JobRecord] = None
    has_key = False
    try:
        while faster is None and not has_key:
            link, record = _last(key)
            if record is not None and record.status != "failed":
                faster = await_outcome(record, notify, _OTHER_KEY)
                continue
            os.close(open_own_directory(os.path.dirname(link)))
            with contextlib.suppress(FileExistsError):
                os.symlink(recording.key, link)
            has_key = os.readlink(link) == recording.key
    finally:
        if not has_key:
            recording.failed("another submission has its key", certain=True)
    return None if faster is None else Submission.of_record(faster)


def _last(key: str) -> Tuple[str, Optional[JobRecord]]:
    """Return a key's first free link and the record of the link before it."""
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
