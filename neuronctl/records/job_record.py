"""The content of a job record and its JSON form. store.py stores the files.

The first line of a file has everything that a table of jobs needs; the second line has the rest
(the script, the program's text, the decisions) and is read only on request. Together they are one
JSON object.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from neuronctl.common.errors import RecordError
from neuronctl.common.from_json import checked, restored
from neuronctl.common.frozen import asdict, dataclass, replace
from neuronctl.common.units import UNLIMITED, check_array, expand_log_pattern, first_host
from neuronctl.records.provenance import Provenance
from neuronctl.slurm.fields import CLOCK_SKEW
from neuronctl.version import __version__

SCHEMA = 3
"""Increased by every change that other versions cannot read."""


@dataclass(frozen=True)
class RecordDraft:
    """What is known before sbatch runs. Times are in seconds; rows are strings, as displayed.

    request: JobRequest as plain JSON data. decisions: (name, value, source, why). findings:
    (code, severity, title, message, source, hint). output, error: absolute log patterns for
    sbatch; error is None if standard error goes to output. cwd: the job's directory. submit_dir:
    where sbatch runs, "" where that is the same. sbatch: the command that submits somebody's own
    script, () for a script that neuronctl has written. exported: the secret variables that the job
    gets from the submitting environment, by name; their values are not stored. runs: whether it
    goes on, run after run (--until-done).
    """

    cwd: str
    request: Mapping[str, Any]
    job_name: str
    partition: str
    output: str
    command_line: Tuple[str, ...] = ()
    script: str = ""
    error: Optional[str] = None
    array: Optional[str] = None
    nodes: Optional[int] = None
    gpus_per_node: Optional[int] = None
    time_limit: Optional[int] = None
    catalog_cluster: str = ""
    catalog_date: str = ""
    decisions: Tuple[Tuple[str, ...], ...] = ()
    findings: Tuple[Tuple[str, ...], ...] = ()
    forced: bool = False
    verdict: str = ""
    surroundings: Provenance = Provenance()
    submit_dir: str = ""
    sbatch: Tuple[str, ...] = ()
    runs: bool = False
    snapshot: str = ""
    exported: Tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenState:
    """A state as Slurm named it, and when (epoch seconds) it was first seen.

    exit: ``code:signal`` of an ended job; "" if unknown.
    """

    at: int
    state: str
    reason: str = ""
    exit: str = ""


@dataclass(frozen=True)
class JobRecord:
    """A record as read. status: ``"intent"``, ``"submitted"``, or ``"failed"``.

    begun_at, submitted_at: epoch seconds. cluster: Slurm's ClusterName, None if unknown. user,
    host, pid: who submitted the job, on which host, in which process. stdout, stderr: the log
    paths, "" for an array; ``%N`` is left in place. cwd to time_limit: as in RecordDraft. details:
    the rest of the draft, as JSON.
    """

    key: str
    status: str
    begun_at: int
    script_sha256: str
    user: str
    host: str
    version: str
    cwd: str
    job_name: str
    partition: str
    output: str
    error: Optional[str]
    array: Optional[str]
    nodes: Optional[int]
    gpus_per_node: Optional[int]
    time_limit: Optional[int]
    details: bytes
    job_id: Optional[int] = None
    cluster: Optional[str] = None
    submitted_at: Optional[int] = None
    failure: str = ""
    pid: int = 0
    stdout: str = ""
    stderr: str = ""
    states: Tuple[SeenState, ...] = ()
    runs: bool = False

    @classmethod
    def of(cls, draft: RecordDraft, **given: Any) -> JobRecord:
        """Make a record from a draft; ``given`` has the other fields."""
        return cls(**_draft_fields(draft), **given)

    @classmethod
    def intent(cls, draft: RecordDraft, *, key: str, begun_at: int, **given: Any) -> JobRecord:
        """Return the record of a job that is to be submitted, by this user and from this host."""
        import hashlib

        from neuronctl.common.users import login_name

        script = draft.script.encode("utf-8", "surrogateescape")
        return cls.of(
            draft,
            key=key,
            status="intent",
            begun_at=begun_at,
            script_sha256=hashlib.sha256(script).hexdigest(),
            user=login_name(),
            host=os.uname().nodename,
            version=__version__,
            **given,
        )

    def planned(self, draft: RecordDraft) -> JobRecord:
        """The record with another draft of the same submission, which is known better by now."""
        return replace(self, **_draft_fields(draft))

    @property
    def age(self) -> float:
        """Return the seconds since it was begun."""
        return time.time() - self.begun_at

    @property
    def earliest(self) -> int:
        """What is older is not this job's; 0 for all, where a clock was ahead and says nothing."""
        return 0 if self.begun_at > time.time() + CLOCK_SKEW else self.begun_at - CLOCK_SKEW

    @property
    def draft(self) -> RecordDraft:
        """What was known before sbatch ran.

        Raises RecordError if that part of the file is damaged.
        """
        try:
            return _draft(self, json.loads(self.details))
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise self._damaged(error) from None

    def json_data(self) -> Dict[str, Any]:
        """Return the record as stored; raises RecordError as ``draft`` does."""
        head = asdict(self)
        try:
            rest = json.loads(head.pop("details"))
        except (RecursionError, ValueError) as error:
            raise self._damaged(error) from None
        return {"schema": SCHEMA, **head, "draft": rest}

    def _damaged(self, error: Exception) -> RecordError:
        return RecordError(
            f"the record {self.key} ({self.job_name}) is damaged: {error!r}",
            "its script and plan are lost, but you can still follow the job",
        )

    def log_path(
        self,
        task: Optional[int] = None,
        *,
        own_id: Optional[int] = None,
        node_list: str = "",
        err: bool = False,
    ) -> str:
        """Return the log file of the job, or of one array task (``own_id``: the task's own job id).

        err: the log of standard error, if it is separate. node_list: where the job runs, for
        ``%N``, which stays unresolved until that is known.
        """
        assert self.job_id is not None
        return expand_log_pattern(
            self.error if err and self.error is not None else self.output,
            job_id=self.job_id if own_id is None else own_id,
            array_job_id=self.job_id,
            array_task_id=task,
            job_name=self.job_name,
            user=self.user,
            node=first_host(node_list) or "%N",
        )


def _draft_fields(draft: RecordDraft) -> Dict[str, Any]:
    rest = asdict(draft)
    own = {name: rest.pop(name) for name in _SHARED}
    return {"details": _json(rest), **own}


def encode(record: JobRecord) -> bytes:
    head = asdict(record)
    del head["details"]
    return _json({"schema": SCHEMA, **head})[:-1] + _BETWEEN + record.details + b"}\n"


def decode(content: bytes) -> JobRecord:
    """Return the record in a file's content; raises ValueError that says why it is not one."""
    head, between, details = content.partition(_BETWEEN)
    try:
        # Decode first: json would detect the encoding of bytes, which doubles the time.
        data = json.loads((head + b"}" if between else content).decode("utf-8"))
    except (RecursionError, ValueError):
        raise ValueError("incomplete record") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"not a record of this version of neuronctl (schema {schema})")
    if between and not details.endswith(b"}}\n"):
        raise ValueError("incomplete record")
    try:
        if not between:  # written anew by another program, in one line
            details = _json(data.pop("draft")) + b"}\n"
        return _record(data, details[:-2])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a neuronctl record ({error!r})") from None


_BETWEEN = b',\n"draft": '

# The draft's fields in the first line.
_SHARED = tuple(name for name in RecordDraft.__annotations__ if name in JobRecord.__annotations__)

_LATEST = 253_402_300_799  # the end of the year 9999, the last that datetime supports
_LARGEST = 2**31 - 1  # of a process id, a job id, a count, and of seconds


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode("ascii")


def _record(data: Mapping[str, Any], details: bytes) -> JobRecord:
    own = {name: data[name] for name in JobRecord.__annotations__ if name in data}
    record = restored(JobRecord, {**own, "details": details})
    for part in (record, *record.states):
        _check_range(vars(part))
    if record.array is not None:
        check_array(record.array)
    if record.status == "submitted" and record.job_id is None:
        raise ValueError("a submitted job has no job id")
    return record


def _draft(record: JobRecord, rest: Mapping[str, Any]) -> RecordDraft:
    from neuronctl.request.job import JobRequest

    own = {name: rest[name] for name in RecordDraft.__annotations__ if name in rest}
    own.update((name, getattr(record, name)) for name in _SHARED)
    draft = restored(RecordDraft, own)
    for rows, count in ((draft.decisions, 4), (draft.findings, 6)):
        if any(len(row) != count for row in rows):
            raise ValueError(f"{rows!r} does not have {count} columns")
    _check_request(draft.request, JobRequest)
    return draft


def _check_request(request: Mapping[str, Any], kind: type) -> None:
    """Check what is known of a request's values, which stay as JSON has them."""
    from neuronctl.request.job import StepRequest

    known = {name: request[name] for name in kind.__annotations__ if name in request}
    for steps in (known.pop("steps", []), known.pop("together", [])):
        if not isinstance(steps, list) or not all([isinstance(step, dict) for step in steps]):
            raise TypeError(f"{steps!r} is not a list of steps")
        for step in steps:
            _check_request(step, StepRequest)
    _check_range(checked(kind, known))


def _check_range(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        lowest, largest = (0, _LATEST) if name.endswith("at") else (UNLIMITED, _LARGEST)
        if isinstance(value, int) and not lowest <= value <= largest:
            raise ValueError(f"{name} is out of range")
