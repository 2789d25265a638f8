"""The content of a job record and its JSON form. store.py stores the files.

The first line of a file has everything that a table of jobs needs; the second line has the rest
(the script, the program's text, the decisions) and is read only on request. Together they are one
JSON object.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl.errors import RecordError
from neuronctl.frozen import asdict, dataclass, field, replace
from neuronctl.units import UNLIMITED, check_array, expand_log_pattern, first_host

if TYPE_CHECKING:
    from neuronctl.records.provenance import Provenance

SCHEMA = 2
"""Increased by every change that older versions cannot read; in 1 the whole draft was "draft"."""


def _unknown_surroundings() -> Provenance:
    from neuronctl.records.provenance import Provenance

    return Provenance()


@dataclass(frozen=True)
class RecordDraft:
    """What is known before sbatch runs. Times are in seconds; rows are strings, as displayed.

    request: JobRequest as plain JSON data. decisions: (name, value, source, why). findings:
    (code, severity, title, message, source, hint). output, error: absolute log patterns for
    sbatch; error is None if standard error goes to output. cwd: the job's directory. submit_dir:
    where sbatch runs, "" where that is the same. sbatch: the command that submits somebody's own
    script, () for a script that neuronctl has written.
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
    surroundings: Provenance = field(default_factory=_unknown_surroundings)
    submit_dir: str = ""
    sbatch: Tuple[str, ...] = ()


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

    begun_at, submitted_at: epoch seconds. cluster: Slurm's ClusterName, None if unknown. tasks:
    for an array, the last state seen of each ended task, by index. user, host, pid: who submitted
    the job, on which host, in which process. stdout, stderr: the log paths, "" for an array;
    ``%N`` is left in place. cwd to time_limit: as in RecordDraft. details: the rest of the draft,
    masked, as JSON.
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
    tasks: Mapping[int, SeenState] = field(default_factory=dict)

    @classmethod
    def of(cls, draft: RecordDraft, **given: Any) -> JobRecord:
        """Make a record from a draft; ``given`` has the other fields."""
        return cls(**_of_draft(draft), **given)

    def planned(self, draft: RecordDraft) -> JobRecord:
        """The record with another draft of the same submission, which is known better by now."""
        return replace(self, **_of_draft(draft))

    @property
    def draft(self) -> RecordDraft:
        """What was known before sbatch ran; ``script`` and ``command_line`` are masked.

        Raises RecordError if that part of the file is damaged.
        """
        try:
            return _draft(self, json.loads(self.details))
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise self._damaged(error) from None

    def to_data(self) -> Dict[str, Any]:
        """The record as stored; raises RecordError as ``draft`` does."""
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
        """The log file of the job, or of one array task (``own_id``: the task's own job id).

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


def _of_draft(draft: RecordDraft) -> Dict[str, Any]:
    rest = asdict(draft)
    own = {name: rest.pop(name) for name in _SHARED}
    return {"details": _json(rest), **own}


def without_secrets(draft: RecordDraft) -> RecordDraft:
    from neuronctl.masking import Masker, secret_values
    from neuronctl.shell import is_reference

    env = draft.request.get("env", ())
    known = secret_values(draft.command_line, {name: value for name, value in env})
    known |= secret_values(draft.request.get("args", ()), {}) | secret_values(draft.sbatch, {})
    known |= secret_values(draft.request.get("sbatch", ()), {})  # SBATCH_EXPORT, a job file's
    expand = draft.request.get("expand")
    # What only names a variable gives nothing away.
    masker = Masker({value for value in known if not (expand and is_reference(value))})
    request = masker.data(draft.request)
    if expand and env:
        pairs = zip(env, request["env"])
        request["env"] = [pair if is_reference(pair[1]) else masked for pair, masked in pairs]
    surroundings = draft.surroundings
    text = surroundings.program_text
    if text is not None and masker.text(text) != text:
        surroundings = replace(surroundings, program_text=None)
    return replace(
        draft,
        command_line=masker.words(draft.command_line),
        script=masker.text(draft.script),
        request=request,
        decisions=tuple(masker.words(row) for row in draft.decisions),
        findings=tuple(masker.words(row) for row in draft.findings),
        verdict=masker.text(draft.verdict),
        surroundings=surroundings,
        sbatch=masker.words(draft.sbatch),
    )


def encode(record: JobRecord) -> bytes:
    head = asdict(record)
    del head["details"]
    return _json({"schema": SCHEMA, **head})[:-1] + _BETWEEN + record.details + b"}\n"


def decode(content: bytes) -> JobRecord:
    """Decode the content of a record file; raises ValueError that says why it is not a record."""
    head, between, details = content.partition(_BETWEEN)
    try:
        # Decode first: json would detect the encoding of bytes, which doubles the time.
        data = json.loads((head + b"}" if between else content).decode("utf-8"))
    except (RecursionError, ValueError):
        raise ValueError("incomplete record") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, int):
        raise ValueError("not a neuronctl record")
    if schema > SCHEMA:
        raise ValueError(f"written by a newer version of neuronctl (schema {schema})")
    if between and not details.endswith(b"}}\n"):
        raise ValueError("incomplete record")
    try:
        if not between:  # written by an earlier neuronctl or another JSON program
            rest = data["draft"]
            data.update({name: rest.pop(name) for name in _SHARED if name in rest})
            details = _json(rest) + b"}\n"
        return _record(data, details[:-2])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a neuronctl record ({error!r})") from None


_BETWEEN = b',\n"draft": '

# The draft's fields in the first line.
_SHARED = tuple(name for name in RecordDraft.__annotations__ if name in JobRecord.__annotations__)

_LATEST = 253_402_300_799  # the end of the year 9999, the last that datetime supports
_LARGEST = 2**31 - 1  # of a process id, a job id, a count, and of seconds

_TYPES: Mapping[str, Tuple[type, ...]] = {
    **{"str": (str,), "int": (int,), "bool": (bool,), "Mapping[str, Any]": (dict,)},
    **{f"Optional[{kind.__name__}]": (kind, type(None)) for kind in (str, int, bool)},
}


def _kinds(model: type, *but: str) -> Mapping[str, Tuple[type, ...]]:
    """The types of a dataclass's fields, without those of a structure of their own."""
    annotations = model.__annotations__.items()
    return {name: _TYPES[kind] for name, kind in annotations if kind in _TYPES and name not in but}


_KINDS, _DRAFT_KINDS = _kinds(JobRecord), _kinds(RecordDraft, *_SHARED)
_SEEN_KINDS = _kinds(SeenState)


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode("ascii")


def _record(data: Mapping[str, Any], details: bytes) -> JobRecord:
    values = _checked(data, _KINDS)
    if values["array"] is not None:
        check_array(values["array"])
    if values["status"] == "submitted" and values["job_id"] is None:
        raise ValueError("a submitted job has no job id")
    return JobRecord(
        details=details,
        states=tuple([_seen(state) for state in data["states"]]),
        tasks={int(task): _seen(state) for task, state in data["tasks"].items()},
        **values,
    )


def _draft(record: JobRecord, rest: Mapping[str, Any]) -> RecordDraft:
    from neuronctl.records.provenance import Provenance
    from neuronctl.request.job import JobRequest

    surroundings = Provenance(**rest["surroundings"])
    _checked(vars(surroundings), _kinds(Provenance))
    _check_request(rest["request"], JobRequest.__annotations__)
    return RecordDraft(
        command_line=_strings(rest["command_line"]),
        decisions=tuple([_strings(row, 4) for row in rest["decisions"]]),
        findings=tuple([_strings(row, 6) for row in rest["findings"]]),
        surroundings=surroundings,
        sbatch=_strings(rest.get("sbatch", [])),  # older records lack it
        **_checked({"submit_dir": "", **rest}, _DRAFT_KINDS),  # and this
        **{name: getattr(record, name) for name in _SHARED},
    )


def _check_request(request: Any, annotations: Mapping[str, str]) -> None:
    from neuronctl.request.job import StepRequest

    if not isinstance(request, dict):
        raise TypeError(f"{request!r} is not a mapping")
    kinds = {name: kind for name, kind in annotations.items() if name in request}
    _checked(request, {name: _TYPES[kind] for name, kind in kinds.items() if kind in _TYPES})
    for name, kind in kinds.items():
        if not kind.startswith("Tuple["):
            continue
        if not isinstance(request[name], list):
            raise TypeError(f"{name} is {request[name]!r}")
        for item in request[name]:
            if kind == "Tuple[StepRequest, ...]":
                _check_request(item, StepRequest.__annotations__)
            elif kind == "Tuple[Tuple[str, str], ...]":
                _strings(item, 2)
            else:
                _strings([item])


def _checked(data: Mapping[str, Any], kinds: Mapping[str, Tuple[type, ...]]) -> Dict[str, Any]:
    values = {name: data[name] for name in kinds}
    for name, value in values.items():
        if not isinstance(value, kinds[name]):
            raise TypeError(f"{name} is {value!r}")
        lowest, largest = (0, _LATEST) if name.endswith("at") else (UNLIMITED, _LARGEST)
        if isinstance(value, int) and not lowest <= value <= largest:
            raise ValueError(f"{name} is out of range")
    return values


def _seen(data: Dict[str, Any]) -> SeenState:
    seen = SeenState(**data)
    _checked(vars(seen), _SEEN_KINDS)
    return seen


def _strings(row: Sequence[Any], count: Optional[int] = None) -> Tuple[str, ...]:
    if not isinstance(row, list) or not all([isinstance(item, str) for item in row]):
        raise TypeError(f"{row!r} is not a list of strings")
    if count is not None and len(row) != count:
        raise ValueError(f"{row!r} does not have {count} strings")
    return tuple(row)
