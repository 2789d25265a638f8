"""Find and compare recorded jobs: a job's record, its request to plan from, and differences."""

from __future__ import annotations

import dataclasses
import difflib
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


def request_layer(record: JobRecord) -> Layer:
    """The recorded request, as the lowest layer of a new one, without its secret variables."""
    origin = Origin(Source.ASKED, f"record of job {record.job_id}")
    known = {field.name for field in dataclasses.fields(JobRequest)} - {"origins", "amounts"}
    values = {
        name: _restored_value(value)
        for name, value in record.draft.request.items()
        if name in known
    }
    return Layer(values, dict.fromkeys(values, origin))


def changed_decisions(
    first: Iterable[Tuple[str, ...]], second: Iterable[Tuple[str, ...]]
) -> List[Change]:
    """Return the values that differ between two plans; rows begin with a name and a value."""
    return differences({row[0]: row[1] for row in first}, {row[0]: row[1] for row in second})


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> List[Change]:
    """Return the values that are not the same in both."""
    return [
        (name, before.get(name, ""), after.get(name, ""))
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def text_diff(first: str, second: str, first_name: str, second_name: str) -> List[str]:
    """Return a unified diff, line by line; empty if the texts are equal."""
    lines = difflib.unified_diff(
        first.splitlines(), second.splitlines(), first_name, second_name, lineterm=""
    )
    return list(lines)


def _restored_value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored_value(item) for item in value)
    if isinstance(value, dict):  # nothing else of a request is one
        known = StepRequest.__annotations__
        return StepRequest(**{k: _restored_value(v) for k, v in value.items() if k in known})
    return value
