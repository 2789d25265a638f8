"""What a record of a job holds, and its form as JSON data; the store is store.py."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl.frozen import dataclass
from neuronctl.here.surroundings import Surroundings, look
from neuronctl.here.surroundings import from_data as surroundings_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.plan import JobPlan
    from neuronctl.rules import Finding

SCHEMA = 1
"""Raised by whatever an older neuronctl could not read."""


@dataclass(frozen=True)
class RecordDraft:
    """What is known before sbatch. Times in seconds; rows of strings, as they are shown.

    request: JobRequest as plain JSON data. decisions: (name, value, source, why). findings:
    (code, severity, title, message, source, hint). output, error: log patterns as sbatch takes
    them, absolute; error None where standard error goes to output.
    """

    cwd: str
    command_line: Tuple[str, ...]
    script: str
    request: Mapping[str, Any]
    job_name: str
    partition: str
    output: str
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
    surroundings: Surroundings = dataclasses.field(default_factory=Surroundings)


@dataclass(frozen=True)
class SeenState:
    """A state as Slurm named it, and when (epoch seconds) it was first seen.

    exit: ``code:signal`` of an ended job, "" where not known.
    """

    at: int
    state: str
    reason: str = ""
    exit: str = ""


@dataclass(frozen=True)
class JobRecord:
    """A record as read. status: ``"intent"``, ``"submitted"`` or ``"failed"``.

    begun_at, submitted_at: epoch seconds. cluster: Slurm's ClusterName, None where not known.
    tasks: of an array, the state in which each task that has ended was seen last, by its index.
    draft.script and draft.command_line are masked. user, host, pid: who submitted, from where, and
    the process. stdout, stderr: the logs' paths, "" for an array; ``%N`` stays.
    """

    key: str
    status: str
    begun_at: int
    draft: RecordDraft
    script_sha256: str
    user: str
    host: str
    version: str
    job_id: Optional[int] = None
    cluster: Optional[str] = None
    submitted_at: Optional[int] = None
    failure: str = ""
    pid: int = 0
    stdout: str = ""
    stderr: str = ""
    states: Tuple[SeenState, ...] = ()
    tasks: Mapping[int, SeenState] = dataclasses.field(default_factory=dict)

    def log_path(
        self,
        task: Optional[int] = None,
        *,
        own_id: Optional[int] = None,
        node_list: str = "",
        err: bool = False,
    ) -> str:
        """The log file of the job, or of one task of an array (``own_id``: the task's own number).

        Standard error's where ``err`` and it has a file of its own. node_list: where it runs, for
        ``%N``, which stays as it is until that is known.
        """
        from neuronctl.units import expand_hostlist, expand_log_pattern

        pattern = self.draft.error if err and self.draft.error is not None else self.draft.output
        assert self.job_id is not None
        return expand_log_pattern(
            pattern,
            job_id=self.job_id if own_id is None else own_id,
            array_job_id=self.job_id,
            array_task_id=task,
            job_name=self.draft.job_name,
            user=self.user,
            node=expand_hostlist(node_list)[0] if node_list else "%N",
        )


def draft_of(
    plan: JobPlan,
    *,
    script: str,
    command_line: Sequence[str],
    cwd: str,
    findings: Sequence[Finding] = (),
    forced: bool = False,
    verdict: str = "",
) -> RecordDraft:
    """The draft of a plan's record. script: as submitted. command_line: the user's argv."""
    error = plan.error
    request = dataclasses.asdict(dataclasses.replace(plan.request, origins={}))
    del request["origins"]
    return RecordDraft(
        cwd=cwd,
        command_line=tuple(command_line),
        script=script,
        request={name: value for name, value in request.items() if value not in (None, ())},
        job_name=plan.job_name,
        partition=plan.partition.name,
        output=os.path.join(cwd, plan.output or "slurm-%j.out"),
        error=None if error is None else os.path.join(cwd, error),
        array=plan.request.array,
        nodes=plan.nodes,
        gpus_per_node=plan.gpus_per_node,
        time_limit=plan.time_limit,
        catalog_cluster=plan.cluster.name,
        catalog_date=plan.cluster.date,
        decisions=tuple(
            (decision.name, decision.value, decision.source.value, decision.why)
            for decision in plan.decisions
        ),
        findings=tuple(
            (f.code, f.severity, f.title, f.message, f.source, f.hint) for f in findings
        ),
        forced=forced,
        verdict=verdict,
        surroundings=look(plan.request.script, cwd),
    )


def without_secrets(draft: RecordDraft) -> RecordDraft:
    from neuronctl.records.masking import Masker, secret_values

    env = draft.request.get("env", ())
    known = secret_values(draft.command_line, {name: value for name, value in env})
    known |= secret_values(draft.request.get("args", ()), {})
    masker = Masker(known)
    surroundings = draft.surroundings
    text = surroundings.program_text
    if text is not None and masker.text(text) != text:
        surroundings = dataclasses.replace(surroundings, program_text=None)
    return dataclasses.replace(
        draft,
        command_line=masker.words(draft.command_line),
        script=masker.text(draft.script),
        request=masker.data(draft.request),
        decisions=tuple(masker.words(row) for row in draft.decisions),
        findings=tuple(masker.words(row) for row in draft.findings),
        surroundings=surroundings,
    )


def to_data(record: JobRecord) -> Dict[str, Any]:
    """The record as it is stored."""
    return {"schema": SCHEMA, **dataclasses.asdict(record)}


_DRAFT_FIELDS = tuple(field.name for field in dataclasses.fields(RecordDraft))
_FIELDS = tuple(field.name for field in dataclasses.fields(JobRecord))

# What each value has to be; the rest is looked into one by one.
_DRAFT_KINDS: Tuple[Tuple[Tuple[str, ...], Tuple[type, ...]], ...] = (
    (("cwd", "script", "job_name", "partition", "output", "verdict"), (str,)),
    (("nodes", "gpus_per_node", "time_limit"), (int, type(None))),
    (("error", "array"), (str, type(None))),
    (("request",), (dict,)),
)
_KINDS: Tuple[Tuple[Tuple[str, ...], Tuple[type, ...]], ...] = (
    (("key", "status", "script_sha256", "user", "host", "version", "failure"), (str,)),
    (("stdout", "stderr"), (str,)),
    (("begun_at", "pid"), (int,)),
    (("job_id", "submitted_at"), (int, type(None))),
    (("cluster",), (str, type(None))),
    (("tasks",), (dict,)),
)


def from_data(data: Dict[str, Any]) -> JobRecord:
    """A record from its JSON data; KeyError or TypeError where it is of another shape."""
    values = {"pid": 0, "stdout": "", "stderr": "", "tasks": {}, **data}
    values = {name: values[name] for name in _FIELDS}
    # Records of before there was a verdict are read all the same.
    inner = {"verdict": "", "surroundings": {}, **data["draft"]}
    inner = {name: inner[name] for name in _DRAFT_FIELDS}
    inner["command_line"] = _strings(inner["command_line"])
    for name in ("decisions", "findings"):
        inner[name] = tuple([_strings(row) for row in inner[name]])
    _check(inner, _DRAFT_KINDS)
    _check(values, _KINDS)
    inner["surroundings"] = surroundings_from(inner["surroundings"])
    values["draft"] = RecordDraft(**inner)
    values["states"] = tuple([_seen(state) for state in values["states"]])
    values["tasks"] = {int(task): _seen(state) for task, state in values["tasks"].items()}
    return JobRecord(**values)


def _seen(data: Dict[str, Any]) -> SeenState:
    seen = SeenState(**data)
    if not (
        isinstance(seen.at, int)
        and isinstance(seen.state, str)
        and isinstance(seen.reason, str)
        and isinstance(seen.exit, str)
    ):
        raise TypeError(f"a state is {data!r}")
    return seen


def _check(
    data: Mapping[str, Any], kinds: Sequence[Tuple[Tuple[str, ...], Tuple[type, ...]]]
) -> None:
    for names, allowed in kinds:
        for name in names:
            if not isinstance(data[name], allowed):
                raise TypeError(f"{name} is {data[name]!r}")


def _strings(row: Sequence[Any]) -> Tuple[str, ...]:
    if not isinstance(row, list) or not all([isinstance(item, str) for item in row]):
        raise TypeError(f"{row!r} is not a list of strings")
    return tuple(row)
