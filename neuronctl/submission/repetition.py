"""A submission that is made again: its job is found, and no second one is submitted.

It is the same one if the caller gives the same key (``--key``); or, while it is not known whether
Slurm took it, if its script and directory are the same. The links HASH.1, HASH.2 … in the records'
directory ``keys`` lead from a key to its records: link N + 1 follows only if Slurm refused N.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import time
from dataclasses import replace
from typing import List, Optional, Sequence, Tuple

from neuronctl.common.errors import RecordError, SlurmUnavailableError
from neuronctl.common.files import open_own_directory
from neuronctl.common.secrets import hide_in_words
from neuronctl.common.shell import join
from neuronctl.common.words import moment
from neuronctl.records.recovery import Recovery, is_in_flight, recover
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.submission.transaction import Notify, Recording, Submission, Submittable


def find_submitted_job(
    key: str, notify: Notify, command_line: Sequence[str] = ()
) -> Optional[Submission]:
    """Return the job that was submitted with a key; None if there is none.

    command_line: what the user calls now; notify hears whether it differs from that of the job.
    Waits while another process submits it. Raises SlurmUnavailableError while it is not known
    whether Slurm took the job, and RecordError.
    """
    _, record = _last(key)
    done = _job_of(record, notify, "another key submits another job") if record else None
    if done is not None and record is not None:
        begun = moment(record.begun_at)
        notify(f"job {done.job_id} is this submission, made at {begun}: nothing else was submitted")
        before = record.draft.command_line
        if command_line and _without_views(before) != _without_views(command_line):
            command = join(hide_in_words(before))
            notify(f"job {done.job_id} has other arguments; it was submitted with: {command}")
    return done


def _without_views(words: Sequence[str]) -> List[str]:
    return [word for word in words if word not in ("--json", "--wait", "--follow")]


def take_key(key: str, recording: Recording, notify: Notify) -> Optional[Submission]:
    """Give a key to a record; return the job of another process that was faster."""
    if not recording.key:
        raise RecordError("without a record there is no key: nothing was submitted")
    done, taken = None, False
    try:
        while not (done or taken):
            link, record = _last(key)
            if record is not None and record.status != "failed":
                done = _job_of(record, notify, "another key submits another job")
                continue
            os.close(open_own_directory(os.path.dirname(link)))
            with contextlib.suppress(FileExistsError):
                os.symlink(recording.key, link)
            taken = os.readlink(link) == recording.key
    finally:
        if not taken:
            recording.failed("another submission has its key", certain=True)
    return done


def lost_job(
    job: Submittable, command_line: Sequence[str], notify: Notify, *, anyway: bool
) -> Optional[Submission]:
    """Return the job of the same submission if its answer was lost; raise as for a key.

    anyway: whether to submit another one; the records of lost ones are completed all the same.
    """
    store, done = RecordStore.default(), None
    with contextlib.suppress(RecordError):  # the submission itself warns about it
        lost = list(Recovery(store).open.values())
        for note in recover(store) if lost else ():
            notify(note)
        for record in () if anyway else lost:
            draft = replace(job.draft, script=job.script, command_line=tuple(command_line))
            if done is None and _is_same(record.draft, draft):
                done = _job_of(record, notify, "--force submits another job")
    if done is not None:
        words = "is this submission, whose answer was lost: nothing else was submitted"
        notify(f"job {done.job_id} {words}; type it again to submit another job")
    return done


def _last(key: str) -> Tuple[str, Optional[JobRecord]]:
    """Return a key's first free link and the record of the link before it."""
    store, name = RecordStore.default(), ""
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


def _is_same(one: RecordDraft, other: RecordDraft) -> bool:
    """Return True if two drafts are the same; -p auto may choose another partition each time."""
    scripts = {one.script, other.script}
    if one.command_line == other.command_line:
        scripts = {re.sub("(?m)^#SBATCH --(partition|exclude)=.*", "", text) for text in scripts}
    places = {(draft.sbatch, draft.cwd, draft.submit_dir) for draft in (one, other)}
    return len(scripts) == len(places) == 1


def _job_of(record: JobRecord, notify: Notify, way_out: str) -> Optional[Submission]:
    """Return a record's job once it is known; None if Slurm did not take it."""
    store = RecordStore.default()
    while record.status == "intent" and is_in_flight(record):
        time.sleep(0.5)
        record = store.find_submission(record.key) or record
    if record.status == "intent":
        for note in recover(store):
            notify(note)
        record = store.find_submission(record.key) or record
    if record.status == "intent":
        begun = moment(record.begun_at, seconds=True)
        raise SlurmUnavailableError(
            f"whether Slurm took the same submission at {begun} is not known yet",
            f"type it again in some minutes; {way_out}",
        )
    if record.job_id is None:
        return None
    paths = record.log_path(), record.log_path(err=True)
    if record.array is not None:
        paths = record.output, record.error or record.output
    return Submission(record.job_id, record.partition, *paths, record.array is not None, record)
