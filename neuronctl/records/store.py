"""One record for each job: what was asked, decided and submitted, and every state seen.

How it is used::

    store = RecordStore.default()
    key = store.begin(draft)               # before sbatch: an intent
    store.complete(key, job_id, cluster)   # after sbatch took it
    store.failed(key, "sbatch's words")    # or after it did not
    store.get(4711) / store.find(ids) / store.recent(100, since=…) / store.iter()
    store.saw(record, "RUNNING")           # a state seen later; saw_tasks: how an array's ended

``draft_of(plan, script=…, command_line=…, cwd=…, findings=…)`` makes a plan's draft. Every method
raises RecordError (exit 9) where the directory cannot be read or written; the caller decides
whether that is worth more than a warning. Files that are not whole, not ours or newer than this
program are left where they are, skipped, and named in ``store.warnings``.

On disk: ``KEY.intent.json`` becomes ``KEY.CLUSTER.JOBID.json`` or ``KEY.failed.json``. The key
begins with the time, so names alone answer "the newest" and "job 4711", and no file is read that
is not asked for. Each file is written aside, synced and renamed, which is safe on NFS and Lustre
and between login nodes. An intent that is still there belongs to a submission that was cut off:
its job, if there is one, carries the key (recovery.py).

Secrets are masked in what is stored (masking.py); ``script_sha256`` is of the script as submitted.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from neuronctl.errors import RecordError
from neuronctl.files import write_private
from neuronctl.frozen import dataclass, replace
from neuronctl.records.job_record import (
    JobRecord,
    RecordDraft,
    SeenState,
    decode,
    draft_of,
    encode,
    without_secrets,
)
from neuronctl.slurm.fields import epoch

__all__ = ["JobRecord", "RecordDraft", "RecordStore", "SeenState", "draft_of"]

_NAME = re.compile(
    r"(?P<key>(?P<time>[0-9]{8}T[0-9]{9})Z-[0-9a-f]{8})"
    r"\.(?:(?P<open>intent|failed)|(?P<cluster>[A-Za-z0-9_-]+)\.(?P<job>[0-9]+))\.json"
)

_INTENT = ".intent.json"
_SETTLED = 2.0  # seconds after a change from when on a directory's time tells of the next


@dataclass(frozen=True)
class _Entry:
    """A file of the store, as far as its name tells."""

    name: str
    key: str
    begun_at: int
    job_id: Optional[int]
    cluster: str


class RecordStore:
    """The records in one directory, which is made (0700) at the first write."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.warnings: List[str] = []
        self._listed: Optional[Tuple[float, List[str]]] = None

    @classmethod
    def default(cls) -> RecordStore:
        """The user's own: ``$XDG_STATE_HOME/neuronctl/jobs``."""
        from neuronctl.paths import state_dir

        return cls(os.path.join(state_dir(), "jobs"))

    # ------------------------------------------------------------------ writing

    def begin(self, draft: RecordDraft) -> str:
        """Write the intent to submit; the key by which to complete it."""
        import hashlib

        from neuronctl.version import __version__

        now = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
        key = f"{stamp}{int(now * 1000) % 1000:03d}Z-{os.urandom(4).hex()}"
        record = JobRecord.of(
            without_secrets(draft),
            key=key,
            status="intent",
            begun_at=int(now),
            script_sha256=hashlib.sha256(
                draft.script.encode("utf-8", "surrogateescape")
            ).hexdigest(),
            user=_login_name(),
            host=os.uname().nodename,
            version=__version__,
            pid=os.getpid(),
        )
        self._write(f"{key}.intent.json", record)
        return key

    def complete(
        self,
        key: str,
        job_id: int,
        cluster: Optional[str] = None,
        *,
        submitted_at: Optional[int] = None,
    ) -> JobRecord:
        """sbatch took it: the intent becomes the job's record. Once is enough, twice no harm."""
        name = f"{key}.{_file_word(cluster)}.{job_id}.json"
        if not os.path.exists(self._file(f"{key}.intent.json")):
            done = self._read(name)
            if done is not None:
                return done
        record = replace(
            self._intent(key),
            status="submitted",
            job_id=job_id,
            cluster=cluster,
            submitted_at=submitted_at or int(time.time()),
        )
        if record.array is None:
            record = replace(record, stdout=record.log_path(), stderr=record.log_path(err=True))
        self._write(name, record)
        self._forget(f"{key}.intent.json")
        return record

    def failed(self, key: str, error: str) -> None:
        """sbatch did not take it; ``error``: its words."""
        from neuronctl.masking import Masker

        record = replace(self._intent(key), status="failed", failure=Masker().text(error))
        self._write(f"{key}.failed.json", record)
        self._forget(f"{key}.intent.json")

    def saw(self, record: JobRecord, state: str, reason: str = "", exit: str = "") -> JobRecord:
        """Add a state to a submitted job's record, unless it is the last one seen."""
        assert record.job_id is not None
        if _is_last(record, state, exit):
            return record
        name = f"{record.key}.{_file_word(record.cluster)}.{record.job_id}.json"
        # Another neuronctl may have seen more meanwhile.
        fresh = self._read(name) or record
        if _is_last(fresh, state, exit):
            return fresh
        seen = SeenState(int(time.time()), state, reason, exit)
        fresh = replace(fresh, states=(*fresh.states, seen))
        self._write(name, fresh)
        return fresh

    def saw_tasks(self, record: JobRecord, ends: Mapping[int, Tuple[str, str]]) -> JobRecord:
        """Keep how tasks of an array ended: (state, exit) by index, as ``saw`` takes them."""
        if _all_kept(record, ends):
            return record
        name = f"{record.key}.{_file_word(record.cluster)}.{record.job_id}.json"
        fresh = self._read(name) or record
        if _all_kept(fresh, ends):
            return fresh
        now = int(time.time())
        new = {task: SeenState(now, state, "", exit) for task, (state, exit) in ends.items()}
        fresh = replace(fresh, tasks={**fresh.tasks, **new})
        self._write(name, fresh)
        return fresh

    # ------------------------------------------------------------------ reading

    def get(self, job_id: int, cluster: Optional[str] = None) -> Optional[JobRecord]:
        """The newest record of this job id (ids are used again when a controller is set up anew).

        cluster: only one of this cluster, or one whose cluster is not known.
        """
        return self.find((job_id,), cluster).get(job_id)

    def find(self, job_ids: Iterable[int], cluster: Optional[str] = None) -> Dict[int, JobRecord]:
        """As ``get``, for many job ids; those without a record are left out."""
        wanted = {str(job_id): job_id for job_id in job_ids}
        found: Dict[int, JobRecord] = {}
        for name in self._names() if wanted else ():
            # Of thousands of names, only those of these jobs are worth a closer look.
            word = name[:-5].rpartition(".")[2]
            entry = _entry(name) if word in wanted else None
            if entry is None or not _same_cluster(entry.cluster, cluster):
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

        An older record of an id that was used again on the same cluster is left out.
        """
        found: List[JobRecord] = []
        ids = set()
        for entry in self._entries():
            if entry.begun_at < since or (limit is not None and len(found) >= limit):
                break
            name = (entry.cluster, entry.job_id)
            if entry.job_id is None or name in ids or not _same_cluster(entry.cluster, cluster):
                continue
            record = self._read(entry.name)
            if record is not None:
                ids.add(name)
                found.append(record)
        return found

    def open_intents(self) -> List[JobRecord]:
        """Submissions of which it is not recorded what became of them, newest first."""
        names = self._names()
        intents = []
        for name in names:
            if not name.endswith(_INTENT) or _entry(name) is None:
                continue
            key = name[: -len(_INTENT)]
            # Cut off between writing the record and removing the intent: the record counts.
            if not any(other.startswith(f"{key}.") and other != name for other in names):
                record = self._read(name)
                intents += [record] if record is not None else []
        return intents

    def iter(self) -> Iterator[JobRecord]:
        """Every record, newest first: intents and failed submissions too."""
        for entry in self._entries():
            record = self._read(entry.name)
            if record is not None:
                yield record

    def _names(self) -> List[str]:
        """The files' names, the newest record's first."""
        try:
            changed = os.stat(self.directory).st_mtime
            if self._listed is None or self._listed[0] != changed:
                listed_at = time.time()
                names = sorted(os.listdir(self.directory), reverse=True)
                if listed_at - changed < _SETTLED:  # a clock tick may hide one more change
                    return names
                self._listed = (changed, names)
            return self._listed[1]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RecordError(
                f"the job records in {self.directory} cannot be read: {error.strerror}",
                "set XDG_STATE_HOME to a directory of your own",
            ) from None

    def _entries(self) -> Iterator[_Entry]:
        """The records by their names, newest first; no further than the caller looks."""
        held: Optional[_Entry] = None
        for name in self._names():
            entry = _entry(name)
            if entry is None:
                if not name.startswith("."):
                    self._warn(name, "not a record of neuronctl's")
                continue
            if held is not None and held.key != entry.key:
                yield held
            # Cut off between writing the record and removing the intent: the record counts.
            elif held is not None and name.endswith(_INTENT):
                continue
            held = entry
        if held is not None:
            yield held

    def _intent(self, key: str) -> JobRecord:
        record = self._read(f"{key}.intent.json")
        if record is None:
            raise RecordError(f"the record {key} in {self.directory} is gone or damaged")
        return record

    def _file(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _read(self, name: str) -> Optional[JobRecord]:
        try:
            with open(self._file(name), "rb", buffering=0) as file:
                content = file.readall()
            return decode(content)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(name, error.strerror or "cannot be read")
        except ValueError as error:
            self._warn(name, str(error))
        return None

    def _warn(self, name: str, why: str) -> None:
        warning = f"record {self._file(name)} skipped: {why}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _write(self, name: str, record: JobRecord) -> None:
        try:
            if os.path.isdir(self.directory) and os.stat(self.directory).st_mode & 0o077:
                os.chmod(self.directory, 0o700)
            write_private(self._file(name), encode(record), sync=True)
        except OSError as error:
            raise RecordError(
                f"the job's record cannot be written to {self.directory}: {error.strerror}",
                "make room there, or set XDG_STATE_HOME to a directory of your own",
            ) from None

    def _forget(self, name: str) -> None:
        with contextlib.suppress(OSError):  # a stale intent beside its record counts for nothing
            os.unlink(self._file(name))


def _entry(name: str) -> Optional[_Entry]:
    """What a file's name tells; None where it is no record's."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return _Entry(
        name,
        match["key"],
        _moment(match["time"]),
        None if match["job"] is None else int(match["job"]),
        match["cluster"] or "",
    )


def _is_last(record: JobRecord, state: str, exit: str) -> bool:
    last = record.states[-1] if record.states else None
    return last is not None and last.state == state and (not exit or last.exit == exit)


def _all_kept(record: JobRecord, ends: Mapping[int, Tuple[str, str]]) -> bool:
    for task, (state, exit) in ends.items():
        kept = record.tasks.get(task)
        if kept is None or kept.state != state or (exit and kept.exit != exit):
            return False
    return True


def _same_cluster(word: str, asked: Optional[str]) -> bool:
    return asked is None or word in ("-", _file_word(asked))


def _file_word(cluster: Optional[str]) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", cluster) if cluster else "-"


def _moment(stamp: str) -> int:
    """``20261121T003400123`` as whole seconds since the epoch."""
    date, _, clock = stamp.partition("T")
    return epoch(
        int(date[:4]), int(date[4:6]), int(date[6:]), int(clock[:2]), int(clock[2:4]),
        int(clock[4:6]),
    )  # fmt: skip


def _login_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
