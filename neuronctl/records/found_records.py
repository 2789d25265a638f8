"""Recorded jobs: the record of one, its request to plan from, and what differs in two plans."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Tuple

from neuronctl.common.errors import NoSuchJobError
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.request.job import JobRequest, Layer, Origin, Source, StepRequest

Change = Tuple[str, str, str]
"""Name, first value, second value; "" if one has no value."""


def record_of(store: RecordStore, job_id: int) -> JobRecord:
    """Return the newest record of a job on this cluster; raises NoSuchJobError if there is none."""
    from neuronctl.catalog.local_cluster import local_cluster

    record = store.get(job_id, local_cluster())
    if record is None:
        raise NoSuchJobError(
            f"no record of job {job_id}",
            # A record that cannot be read may be this job's.
            "; ".join(store.warnings)
            or "only jobs submitted with neuronctl have records; 'neuronctl history' lists them",
        )
    return record


def stored_layer(request: Mapping[str, Any], where: str) -> Layer:
    """Return a stored request as a layer. where: it was stored, for messages."""
    origin = Origin(Source.ASKED, where)
    known = JobRequest.__annotations__.keys() - {"origins", "amounts"}
    values = {name: _restored_value(request[name]) for name in request if name in known}
    return Layer(values, dict.fromkeys(values, origin))


def changed_decisions(
    first: Iterable[Tuple[str, ...]], second: Iterable[Tuple[str, ...]]
) -> List[Change]:
    """Return the values that differ between two plans; rows begin with a name and a value."""
    before, after = ({name: value for name, value, *_ in rows} for rows in (first, second))
    return [
        (name, before.get(name, ""), after.get(name, ""))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def _restored_value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored_value(item) for item in value)
    if isinstance(value, dict):  # nothing else of a request is one
        known = StepRequest.__annotations__
        return StepRequest(**{k: _restored_value(v) for k, v in value.items() if k in known})
    return value
