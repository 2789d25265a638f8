"""Recorded jobs: the record of one, its request to plan from, and what differs in two plans."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Tuple

from neuronctl.common.errors import NoSuchJobError
from neuronctl.common.secrets import hide_in_words
from neuronctl.common.shell import join
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.request.job import OPTIONS, JobRequest, Layer, Origin, Source, StepRequest
from neuronctl.slurm.conf import local_cluster

Change = Tuple[str, str, str]
"""Name, first value, second value; "" if one has no value."""


def newest_record(store: RecordStore, job_id: int) -> JobRecord:
    """Return the newest record of a job on this cluster; raise NoSuchJobError without one."""
    record = store.get(job_id, local_cluster())
    if record is None:
        raise NoSuchJobError(
            f"no record of job {job_id}",
            # An unreadable record may be this job's.
            "; ".join(store.warnings)
            or "only jobs submitted with neuronctl have records; 'neuronctl history' lists them",
        )
    return record


def stored_layer(request: Mapping[str, Any], where: str) -> Layer:
    """Return a stored request as a layer. where: its origin, for messages."""
    origin = Origin(Source.ASKED, where)
    fields = JobRequest.__annotations__.keys() - {"origins", "amounts"}
    values = {name: _restored_value(request[name]) for name in request if name in fields}
    return Layer(values, dict.fromkeys(values, origin))


def recorded_code(draft: RecordDraft) -> Dict[str, str]:
    """Return the code that a job runs, by name; unknown values are ""."""
    around = draft.surroundings
    dirty = " with uncommitted changes" if around.git_dirty else ""
    return {
        "git": around.git_commit and f"{around.git_commit}{dirty}",
        "program": around.program and f"{around.program} (sha256 {around.program_sha256[:12]})",
        "snapshot": draft.snapshot,
    }


def is_code_known(draft: RecordDraft) -> bool:
    """Return True if ``recorded_code`` describes all of a job's code."""
    around = draft.surroundings
    return bool(draft.snapshot or (around.git_commit and around.git_dirty is False))


def changed_values(first: RecordDraft, second: RecordDraft, *, code: bool) -> List[Change]:
    """Return the values that differ between two jobs. code: compare their code, too."""
    before, after = _values(first, code=code), _values(second, code=code)
    return [
        (name, before.get(name, ""), after.get(name, ""))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def _values(draft: RecordDraft, *, code: bool) -> Dict[str, str]:
    """Return a job's values by name: requested and decided ones, and with ``code`` its code."""
    decided = {name: value for name, value, *_ in draft.decisions}
    return {**_requested(draft), **decided, **(recorded_code(draft) if code else {})}


def _requested(draft: RecordDraft) -> Dict[str, str]:
    """Return the request as text, by option name, with secrets hidden."""
    lists = {**draft.request, "command": draft.sbatch}
    lists["arguments"] = lists.pop("args", ())
    lists["env"] = ["=".join(pair) for pair in lists.get("env", ())]
    texts_by_name = {}
    long_names = {option.field: option.long for option in OPTIONS}
    for name, value in lists.items():
        words = value if isinstance(value, (list, tuple)) else [value]
        texts = [word if isinstance(word, str) else json.dumps(word) for word in words]
        texts_by_name[long_names.get(name, name.replace("_", "-"))] = join(hide_in_words(texts))
    return texts_by_name


def _restored_value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored_value(item) for item in value)
    if isinstance(value, dict):  # only steps are mappings
        fields = StepRequest.__annotations__.keys() & value
        return StepRequest(**{name: _restored_value(value[name]) for name in fields})
    return value
