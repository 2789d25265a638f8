"""The records of jobs: what was requested, decided, and submitted, and every state seen.

Before sbatch runs, ``begin`` writes an intent, ``KEY.intent.json``. Afterwards ``complete`` makes
``KEY.CLUSTER.JOBID.json`` of it, or ``failed`` makes ``KEY.failed.json``. The key begins with the
time: file names alone answer "the newest" and "job 4711". Each file is written to a temporary file,
synced, and renamed, which is safe on NFS and Lustre and across login nodes; there are no locks. An
intent that remains belongs to an interrupted submission, whose job carries the key (recovery.py).
If login nodes disagree about a submission, a job's record counts most, and an intent least.

Every method raises RecordError if the directory cannot be read or written; the caller decides
whether that is more than a warning. Files that are incomplete, foreign, or newer than this program
are left alone, skipped, and named in ``store.warnings``.

Records hold what was submitted, byte for byte. A secret taken from the environment
(`--env HF_TOKEN`) is not stored; one that was typed is in the recorded command line.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from typing import Dict, Iterable, Iterator, List, Match, Optional

from neuronctl.common.datatypes import replace
from neuronctl.common.errors import RecordError
from neuronctl.common.files import read_private, write_private
from neuronctl.common.paths import state_dir
from neuronctl.common.users import login_name
from neuronctl.records.job_record import (
    JobRecord,
    RecordDraft,
    SeenState,
    decode,
    draft_fields,
    encode,
)
from neuronctl.version import __version__

__all__ = ["JobRecord", "RecordDraft", "RecordStore", "SeenState"]

_NAME = (
    r"(?P<key>[0-9]{8}T[0-9]{9}Z-[0-9a-f]{8})"
    r"\.(?:(?P<open>intent|failed)|(?P<cluster>[A-Za-z0-9_-]+)\.(?P<job>[0-9]+))\.json"
)

_INTENT, _FAILED = ".intent.json", ".failed.json"
_WORTH = {"intent": 0, "failed": 1, None: 2}  # of one submission's files; None: a job's record
_STAMP = "%Y%m%dT%H%M%S"  # the beginning of a key, in UTC


class RecordStore:
    """The records in one directory, which is created (0700) on the first write."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.warnings: List[str] = []

    @classmethod
    def default(cls) -> RecordStore:
        """Return the user's own store: ``$XDG_STATE_HOME/neuronctl/jobs``."""
        return cls(os.path.join(state_dir(), "jobs"))

    def begin(
        self, draft: RecordDraft, cluster: Optional[str] = None, *, at: Optional[float] = None
    ) -> str:
        """Write the intent to submit to a cluster, and return the key to complete it with.

        at: when the job was submitted (epoch seconds); None: it is submitted now.
        """
        now = time.time() if at is None else at
        stamp = time.strftime(_STAMP, time.gmtime(now))
        key = f"{stamp}{int(now * 1000) % 1000:03d}Z-{os.urandom(4).hex()}"
        record = JobRecord(
            **draft_fields(draft),
            key=key,
            status="intent",
            begun_at=int(now),
            user=login_name(),
            host=os.uname().nodename,
            pid=os.getpid(),
            version=__version__,
            cluster=cluster,
        )
        self._write(key + _INTENT, record)
        return key

    def complete(
        self,
        key: str,
        job_id: int,
        cluster: Optional[str] = None,
        *,
        submitted_at: Optional[int] = None,
    ) -> JobRecord:
        """Turn the intent into the job's record after sbatch accepted the job. Idempotent.

        The job also gets its record if another login node has given up the submission meanwhile.
        """
        name = _name(key, cluster, job_id)
        names = (name, key + _INTENT, key + _FAILED)
        record = next(filter(None, map(self._read, names)), None)
        if record is None:
            raise RecordError(f"record {key} in {self.directory} is missing or damaged")
        if record.status != "submitted":
            record = replace(
                record,
                status="submitted",
                job_id=job_id,
                cluster=cluster,
                submitted_at=submitted_at or int(time.time()),
                failure="",
            )
            self._write(name, record)
        self._forget(key + _INTENT)
        self._forget(key + _FAILED)
        return record

    def failed(self, key: str, error: str, *, certain: bool = True) -> None:
        """Record sbatch's error, unless another login node has settled the submission meanwhile.

        certain: whether there is surely no job; otherwise the submission stays an intent, on which
        no process works any more.
        """
        intent = self._read(key + _INTENT)
        if intent is None:
            return
        status, ending = ("failed", _FAILED) if certain else ("intent", _INTENT)
        self._write(key + ending, replace(intent, status=status, failure=error, pid=0))
        if certain:
            self._forget(key + _INTENT)

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

        record: as it was before Slurm was asked. If another process has added states since, it may
        have asked later: then only a final state is added.
        """
        if _last_is(record, state, exit):
            return record
        assert record.job_id is not None
        name = _name(record.key, record.cluster, record.job_id)
        latest = self._read(name) or record
        if _last_is(latest, state, exit) or (latest.states != record.states and not final):
            return latest
        new_state = SeenState(int(time.time()), state, reason, exit)
        changed = replace(latest, states=(*latest.states, new_state))
        self._write(name, changed)
        return changed

    def get(self, job_id: int, cluster: Optional[str] = None) -> Optional[JobRecord]:
        """Return the newest record with this job id (a reinstalled controller reuses job ids).

        cluster: consider only records of this cluster or of an unknown cluster.
        """
        return self.find((job_id,), cluster).get(job_id)

    def find_submission(self, key: str) -> Optional[JobRecord]:
        """Return the record of a submission, whatever its state."""
        names = (entry.string for entry in self._entries() if entry["key"] == key)
        return next(filter(None, map(self._read, names)), None)

    def find(self, job_ids: Iterable[int], cluster: Optional[str] = None) -> Dict[int, JobRecord]:
        """Return the newest record of each job, as ``get`` does; omit jobs without a record."""
        missing = {str(job_id): job_id for job_id in job_ids}
        records: Dict[int, JobRecord] = {}
        if not missing:
            return records  # do not read the directory
        for name in self._names():
            _, _, id_text = name[: -len(".json")].rpartition(".")
            # Parse only the names of these jobs: there may be thousands of others.
            entry = re.fullmatch(_NAME, name) if id_text in missing else None
            if entry is None or not _same_cluster(entry["cluster"], cluster):
                continue
            record = self._read(name)
            if record is not None:
                records[missing.pop(id_text)] = record
                if not missing:
                    break
        return records

    def recent(
        self, limit: Optional[int] = None, *, since: int = 0, cluster: Optional[str] = None
    ) -> List[JobRecord]:
        """Return submitted jobs, newest first: at most ``limit``, begun at or after ``since``.

        If a job id was reused on the same cluster, its older records are omitted.
        """
        records: List[JobRecord] = []
        jobs = set()
        earliest_key = time.strftime(_STAMP, time.gmtime(max(0, since)))
        for entry in self._entries():
            if entry["key"] < earliest_key or (limit is not None and len(records) >= limit):
                break
            job = entry.group("cluster", "job")
            was_submitted = entry["job"] is not None
            if not was_submitted or job in jobs or not _same_cluster(entry["cluster"], cluster):
                continue
            record = self._read(entry.string)
            if record is not None:
                jobs.add(job)
                records.append(record)
        return records

    def open_intents(self) -> List[JobRecord]:
        """Return the submissions without a recorded outcome, newest first."""
        names = self._names()
        intents = [name for name in names if name.endswith(_INTENT)]
        if not intents:
            return []  # the usual case, in which thousands of names need not be split
        # An interruption between record and intent leaves both; the record counts.
        settled = {_key(name) for name in names if not name.endswith(_INTENT)}
        records = (self._read(name) for name in intents if _key(name) not in settled)
        return list(filter(None, records))

    def iter(self) -> Iterator[JobRecord]:
        """Yield every record, newest first, including intents and failed submissions."""
        return filter(None, (self._read(entry.string) for entry in self._entries()))

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
        """Yield the records' file names, newest first, one for each submission."""
        entries = filter(None, map(re.compile(_NAME).fullmatch, self._names()))
        for _, of_submission in itertools.groupby(entries, key=lambda entry: entry["key"]):
            # There are several after an interrupted write, or if two login nodes disagree.
            yield max(of_submission, key=lambda entry: _WORTH[entry["open"]])

    def _read(self, name: str) -> Optional[JobRecord]:
        """Return a file's record; None without one, with a warning if it is unreadable."""
        try:
            record = decode(read_private(f"{self.directory}/{name}"))
            # Later changes are written under the name that the key makes.
            if not name.startswith(f"{record.key}."):
                raise ValueError(f"its key is {record.key!r}")
            return record
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or error
            warning = f"skipped record {self.directory}/{name}: {problem}"
            if warning not in self.warnings:
                self.warnings.append(warning)
            return None

    def _write(self, name: str, record: JobRecord) -> None:
        try:
            write_private(f"{self.directory}/{name}", encode(record), sync=True)
        except OSError as error:
            raise RecordError(
                f"cannot write the job's record to {self.directory}: {error.strerror}",
                "free some space there, or set XDG_STATE_HOME to a directory that you own",
            ) from None

    def _forget(self, name: str) -> None:
        with contextlib.suppress(OSError):  # a stale intent beside its record is ignored
            os.unlink(f"{self.directory}/{name}")


def _name(key: str, cluster: Optional[str], job_id: int) -> str:
    return f"{key}.{_file_word(cluster)}.{job_id}.json"


def _key(name: str) -> str:
    return name.partition(".")[0]


def _last_is(record: JobRecord, state: str, exit: str) -> bool:
    """Return True if this state was the last one seen, with this exit code if known."""
    if not record.states:
        return False
    last = record.states[-1]
    return last.state == state and (not exit or last.exit == exit)


def _same_cluster(word: str, cluster: Optional[str]) -> bool:
    """Return True if a file name's word stands for this cluster, or for an unknown one."""
    return cluster is None or word in ("-", _file_word(cluster))


def _file_word(cluster: Optional[str]) -> str:
    """Return the cluster's part of a job's file name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", cluster) if cluster else "-"
