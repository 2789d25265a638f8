"""Records of jobs, for commands that look back at them."""

from __future__ import annotations

from typing import Any

from neuronctl.records.store import JobRecord, RecordDraft, RecordStore


def draft(**given: Any) -> RecordDraft:
    values = {
        "cwd": "/scratch/kim", "command_line": (), "script": "", "request": {}, "nodes": 1,
        "job_name": "train", "partition": "cpu", "output": "/scratch/kim/%x-%j.out",
        "time_limit": 600, **given,
    }  # fmt: skip
    return RecordDraft(**values)


def record(job_id: int, **given: Any) -> JobRecord:
    """The record of a job that was submitted."""
    store = RecordStore.default()
    return store.complete(store.begin(draft(**given)), job_id)
