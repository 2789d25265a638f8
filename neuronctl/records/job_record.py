"""The content of a job record and its JSON form. store.py stores the files."""

from __future__ import annotations

import json
import time
from typing import Any, Dict, Mapping, Optional, Tuple

from neuronctl.common.datatypes import asdict, dataclass
from neuronctl.common.errors import RecordError
from neuronctl.common.restoring import NOT_RESTORED, restore
from neuronctl.common.units import expand_log_pattern, first_host
from neuronctl.records.provenance import Provenance
from neuronctl.slurm.fields import CLOCK_SKEW

SCHEMA = 3
"""Increased by every change that other versions cannot read."""


@dataclass(frozen=True)
class RecordDraft:
    """What is known before sbatch runs. Times are in seconds.

    request: JobRequest as plain JSON data. decisions, findings: rows of text, as displayed: (name,
    value, source, why), and (code, severity, title, message, source, hint). output, error: absolute
    log patterns for sbatch; error is None if standard error goes to output. cwd: the job's
    directory. submit_dir: where sbatch runs, "" if in cwd. sbatch: the command that submits a
    user's own script, () for a script that neuronctl has written. exported: the names of secret
    variables that the job gets from the submitting environment; their values are not stored. runs:
    whether the job continues, run after run (--until-done). of_sweep: whether the job takes tasks
    of the sweep of its name. pipeline: NAME/ID of its pipeline, or "". first_job: the id of the job
    that was submitted again unchanged; None for a new job. snapshot: the directory with the copy of
    its code, or "".
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
    of_sweep: bool = False
    pipeline: str = ""
    first_job: Optional[int] = None


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
    host, pid: who submitted the job, on which host, in which process. cwd to time_limit, runs: as
    in RecordDraft. rest: the other values of the draft, which a table of jobs does not need.

    >>> record = neuronctl.history()[0]
    >>> record.draft.request["nodes"]
    2
    """

    key: str
    status: str
    begun_at: int
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
    rest: Mapping[str, Any]
    job_id: Optional[int] = None
    cluster: Optional[str] = None
    submitted_at: Optional[int] = None
    failure: str = ""
    pid: int = 0
    states: Tuple[SeenState, ...] = ()
    runs: bool = False

    @property
    def age(self) -> float:
        """Return the seconds since the submission began."""
        return time.time() - self.begun_at

    @property
    def earliest(self) -> int:
        """Return the earliest time that Slurm may report for the job; 0 if a clock was ahead."""
        return 0 if self.begun_at > time.time() + CLOCK_SKEW else self.begun_at - CLOCK_SKEW

    @property
    def draft(self) -> RecordDraft:
        """Return what was known before sbatch ran; raise RecordError if the record is damaged."""
        shared = {name: getattr(self, name) for name in _SHARED}
        try:
            return restore(RecordDraft, {**self.rest, **shared})
        except NOT_RESTORED as error:
            raise RecordError(
                f"the record {self.key} ({self.job_name}) is damaged: {error!r}",
                "its script and plan are lost, but you can still follow the job",
            ) from None

    def json_data(self) -> Dict[str, Any]:
        """Return the record as stored."""
        data = asdict(self)
        rest = data.pop("rest")
        return {"schema": SCHEMA, **data, "draft": rest}

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


_SHARED = tuple(name for name in RecordDraft.__annotations__ if name in JobRecord.__annotations__)


def draft_fields(draft: RecordDraft) -> Dict[str, Any]:
    """Return a draft's values by the names of JobRecord's fields."""
    rest = asdict(draft)
    shared = {name: rest.pop(name) for name in _SHARED}
    return {**shared, "rest": rest}


def encode(record: JobRecord) -> bytes:
    """Return the content of a record's file."""
    return json.dumps(record.json_data()).encode("ascii") + b"\n"


def decode(content: bytes) -> JobRecord:
    """Return the record in a file's content; raise ValueError with the reason if it is invalid."""
    try:
        data = json.loads(content.decode("utf-8"))
    except (RecursionError, ValueError):
        raise ValueError("incomplete record") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"not a record of this version of neuronctl (schema {schema})")
    try:
        data["rest"] = data["draft"]  # stored as ``draft``
        values = {name: data[name] for name in JobRecord.__annotations__ if name in data}
        return restore(JobRecord, values)
    except NOT_RESTORED as error:
        raise ValueError(f"not a neuronctl record ({error!r})") from None
