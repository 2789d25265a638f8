"""The record of each job: what was requested, decided, and submitted, and every state seen.

Usage::

    store = RecordStore.default()
    key = store.begin(draft, cluster)      # before sbatch: an intent
    store.complete(key, job_id, cluster)   # after sbatch accepted the job
    store.failed(key, "sbatch's message")  # or after sbatch rejected it
    store.get(4711) / store.find(ids) / store.recent(100, since=…) / store.iter()
    store.saw(record, "RUNNING")           # a state seen later

A job that is submitted makes its draft (submission/). Every method raises RecordError (exit 9) if
the directory cannot be read or written; the caller decides whether that is more than a warning.
Files that are incomplete, foreign, or newer than this program are left alone, skipped, and named
in ``store.warnings``.

On disk, ``KEY.intent.json`` becomes ``KEY.CLUSTER.JOBID.json`` or ``KEY.failed.json``. The key
begins with the time, so that file names alone answer "the newest" and "job 4711", and no other
file is read. Each file is written to a temporary file, synced, and renamed, which is safe on NFS
and Lustre and across login nodes; there are no locks. A remaining intent belongs to an interrupted
submission; its job, if any, carries the key (recovery.py). Where login nodes disagree about a
submission, a job's record counts for most, and an intent for least.

Records hold what was submitted, byte for byte. A secret taken from the environment
(`--env HF_TOKEN`) is not stored; one that was typed stands in the command line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from typing import Dict, Iterable, Iterator, List, Match, Optional

from neuronctl.common.errors import RecordError
from neuronctl.common.files import read_private, write_private
from neuronctl.common.frozen import replace
from neuronctl.records.job_record import (
    JobRecord,
    RecordDraft,
    SeenState,
    decode,
    encode,
)

__all__ = ["JobRecord", "RecordDraft", "RecordStore", "SeenState"]

_NAME = (
    r"(?P<key>[0-9]{8}T[0-9]{9}Z-[0-9a-f]{8})"
    r"\.(?:(?P<open>intent|failed)|(?P<cluster>[A-Za-z0-9_-]+)\.(?P<job>[0-9]+))\.json"
)

_INTENT = ".intent.json"
_WORTH = {"intent": 0, "failed": 1}  # of the files of one submission; that of a job is worth more
_STAMP = "%Y%m%dT%H%M%S"  # the beginning of a key, in UTC


class RecordStore:
    """The records in one directory, which is created (0700) on the first write."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.warnings: List[str] = []

    @classmethod
    def default(cls) -> RecordStore:
        """Return the user's own store: ``$XDG_STATE_HOME/neuronctl/jobs``."""
        from neuronctl.common.paths import state_dir

        return cls(os.path.join(state_dir(), "jobs"))

    # ------------------------------------------------------------------ writing

    def begin(self, draft: RecordDraft, cluster: Optional[str] = None) -> str:
        """Write the intent to submit to a cluster, and return the key to complete it with."""
        now = time.time()
        stamp = time.strftime(_STAMP, time.gmtime(now))
        key = f"{stamp}{int(now * 1000) % 1000:03d}Z-{os.urandom(4).hex()}"
        record = JobRecord.intent(
            draft, key=key, begun_at=int(now), cluster=cluster, pid=os.getpid()
        )
        self._write(f"{key}{_INTENT}", record)
        return key

    def complete(
        self,
        key: str,
        job_id: int,
        cluster: Optional[str] = None,
        *,
        submitted_at: Optional[int] = None,
        draft: Optional[RecordDraft] = None,
    ) -> JobRecord:
        """Turn the intent into the job's record after sbatch accepted the job. Idempotent.

        Also where another login node has given the submission up meanwhile. draft: in place of the
        one that it was begun with, of the same script.
        """
        name, intent, failed = _name(key, cluster, job_id), f"{key}{_INTENT}", _failed(key)
        record = self._first(name, intent, failed)
        if record.status != "submitted":
            record = replace(
                record,
                status="submitted",
                job_id=job_id,
                cluster=cluster,
                submitted_at=submitted_at or int(time.time()),
                failure="",
            )
            if draft is not None:
                record = record.planned(draft)
            if record.array is None:
                record = replace(record, stdout=record.log_path(), stderr=record.log_path(err=True))
            self._write(name, record)
        self._forget(intent)
        self._forget(failed)
        return record

    def failed(self, key: str, error: str) -> None:
        """Mark the intent as failed, unless it is settled; ``error`` is sbatch's message."""
        intent = self._open_intent(key)
        if intent is not None:
            self._write(_failed(key), replace(intent, status="failed", failure=error))
            self._forget(f"{key}{_INTENT}")

    def doubted(self, key: str, error: str) -> None:
        """Note in the intent how sbatch failed where it may have submitted the job all the same."""
        intent = self._open_intent(key)
        if intent is not None:
            self._write(f"{key}{_INTENT}", replace(intent, failure=error))

    def saw(
        self,
        record: JobRecord,
        state: str,
        reason: str = "",
        exit: str = "",
        *,
        final: bool = False,
    ) -> JobRecord:
        """Add a state to a submitted job's record, unless it was also the last one seen.

        record: as it was before Slurm was asked. Where another process has added states since, it
        may have asked later: then only a final state is added.
        """
        if record.states and _tells(record.states[-1], state, exit):
            return record
        assert record.job_id is not None
        name = _name(record.key, record.cluster, record.job_id)
        known = self._read(name) or record  # another process may have added states meanwhile
        if known.states and _tells(known.states[-1], state, exit):
            return known
        if known.states != record.states and not final:
            return known
        fresh = replace(
            known, states=(*known.states, SeenState(int(time.time()), state, reason, exit))
        )
        self._write(name, fresh)
        return fresh

    # ------------------------------------------------------------------ reading

    def get(self, job_id: int, cluster: Optional[str] = None) -> Optional[JobRecord]:
        """Return the newest record with this job id (a reinstalled controller reuses job ids).

        cluster: consider only records of this cluster or of an unknown cluster.
        """
        return self.find((job_id,), cluster).get(job_id)

    def find(self, job_ids: Iterable[int], cluster: Optional[str] = None) -> Dict[int, JobRecord]:
        """Like ``get`` for many job ids; ids without a record are omitted."""
        wanted = {str(job_id): job_id for job_id in job_ids}
        found: Dict[int, JobRecord] = {}
        for name in self._names() if wanted else ():
            # Of thousands of names, parse only those of these jobs.
            word = name[:-5].rpartition(".")[2]
            entry = re.fullmatch(_NAME, name) if word in wanted else None
            if entry is None or not _same_cluster(entry["cluster"], cluster):
                continue
            record = self._read(name)
            if record is not None:
                found[wanted.pop(word)] = record
                if not wanted:
                    break
        return found

    def recent(
        self, limit: Optional[int] = None, *, since: int = 0, cluster: Optional[str] = None
    ) -> List[JobRecord]:
        """Submitted jobs, newest first: at most ``limit``, begun at or after ``since`` (epoch).

        If a job id was reused on the same cluster, its older records are omitted.
        """
        found: List[JobRecord] = []
        ids = set()
        first = time.strftime(_STAMP, time.gmtime(max(0, since)))
        for entry in self._entries():
            if entry["key"] < first or (limit is not None and len(found) >= limit):
                break
            id = entry.group("cluster", "job")
            if entry["job"] is None or id in ids or not _same_cluster(entry["cluster"], cluster):
                continue
            record = self._read(entry.string)
            if record is not None:
                ids.add(id)
                found.append(record)
        return found

    def open_intents(self) -> List[JobRecord]:
        """Submissions whose outcome was not recorded, newest first."""
        names = self._names()
        intents = []
        for name in names:
            if not name.endswith(_INTENT) or re.fullmatch(_NAME, name) is None:
                continue
            key = name[: -len(_INTENT)]
            # Interrupted between writing the record and removing the intent: the record counts.
            if not any(other.startswith(f"{key}.") and other != name for other in names):
                record = self._read(name)
                intents += [record] if record is not None else []
        return intents

    def iter(self) -> Iterator[JobRecord]:
        """Yield every record, newest first, including intents and failed submissions."""
        for entry in self._entries():
            record = self._read(entry.string)
            if record is not None:
                yield record

    def _names(self) -> List[str]:
        """Return the file names, newest record first."""
        try:
            return sorted(os.listdir(self.directory), reverse=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RecordError(
                f"cannot read the job records in {self.directory}: {error.strerror}",
                "set XDG_STATE_HOME to a directory that you own",
            ) from None

    def _entries(self) -> Iterator[Match[str]]:
        """Yield the records' file names, newest first; lists no more than the caller consumes."""
        held: Optional[Match[str]] = None
        for name in self._names():
            entry = re.fullmatch(_NAME, name)
            if entry is None:
                if not name.startswith("."):
                    self._warn(name, "not a neuronctl record")
            elif held is not None and held["key"] == entry["key"]:
                # Interrupted between two writes, or two login nodes disagree.
                held = max(held, entry, key=lambda entry: _WORTH.get(entry["open"], 2))
            else:
                if held is not None:
                    yield held
                held = entry
        if held is not None:
            yield held

    def _open_intent(self, key: str) -> Optional[JobRecord]:
        """Return the intent; None if another login node has meanwhile recorded what became of it.

        Raises RecordError if there is no record of this key at all.
        """
        record = self._read(f"{key}{_INTENT}")
        if record is None and not any(name.startswith(f"{key}.") for name in self._names()):
            raise self._missing(f"{key}{_INTENT}")
        return record

    def _missing(self, name: str) -> RecordError:
        return RecordError(f"record {name} in {self.directory} is missing or damaged")

    def _first(self, *names: str) -> JobRecord:
        """Return the first of these records that is there; raises RecordError if none is."""
        record = next(filter(None, map(self._read, names)), None)
        if record is None:
            raise self._missing(names[-1])
        return record

    def _file(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _read(self, name: str) -> Optional[JobRecord]:
        try:
            try:
                content = read_private(self._file(name))
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                content = read_private(self._file(name))  # another machine has replaced it
            record = decode(content)
            # The name is what this record's file is written and removed by.
            if not name.startswith(f"{record.key}."):
                raise ValueError(f"its key is {record.key!r}")
            return record
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(name, error.strerror or "cannot read it")
        except ValueError as error:
            self._warn(name, str(error))
        return None

    def _warn(self, name: str, problem: str) -> None:
        warning = f"skipped record {self._file(name)}: {problem}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _write(self, name: str, record: JobRecord) -> None:
        try:
            write_private(self._file(name), encode(record), sync=True)
        except OSError as error:
            raise RecordError(
                f"cannot write the job's record to {self.directory}: {error.strerror}",
                "free some space there, or set XDG_STATE_HOME to a directory that you own",
            ) from None

    def _forget(self, name: str) -> None:
        with contextlib.suppress(OSError):  # a stale intent beside its record is ignored
            os.unlink(self._file(name))


def _name(key: str, cluster: Optional[str], job_id: int) -> str:
    return f"{key}.{file_word(cluster)}.{job_id}.json"


def _failed(key: str) -> str:
    return f"{key}.failed.json"


def _tells(seen: Optional[SeenState], state: str, exit: str) -> bool:
    """Return True if a state that was seen is this one, with this exit code if it is known."""
    return seen is not None and seen.state == state and (not exit or seen.exit == exit)


def _same_cluster(word: str, asked: Optional[str]) -> bool:
    return asked is None or word in ("-", file_word(asked))


def file_word(cluster: Optional[str]) -> str:
    """Return how the name of a job's file has its cluster."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", cluster) if cluster else "-"
