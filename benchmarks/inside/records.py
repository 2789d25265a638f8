"""Writes job records as neuronctl itself would have, for years of submissions.

Reads {"stores": {DIRECTORY: count}, "job_ids": [ids in the queue], "cluster": NAME} from standard
input. Each directory gets records of jobs in the queue, submitted in the last hour. If that is not
enough, older records are of jobs that ended, one every two hours. Runs with the measured neuronctl.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from unittest import mock

from neuronctl.catalog.loader import load
from neuronctl.planning import plan
from neuronctl.records.store import RecordDraft, RecordStore
from neuronctl.request.job import JobRequest
from neuronctl.submission.pipeline import JudgedJob
from neuronctl.submission.planned_job import PlannedJob

OLD_FIRST = 1_000_000
"""The first id of a job that is over: an earlier numbering, so that no two jobs have the same."""


def main() -> None:
    """Write the requested number of records."""
    wanted = json.load(sys.stdin)
    request = JobRequest(
        script="train.py",
        args=("--epochs", "20"),
        partition="cas_v100nv_8",
        nodes=2,
        gpus_per_node=4,
        time_limit="60",
        field="misc",
        appl="pytorch",
        launcher="torchrun",
    )
    catalog = load()
    job_plan = plan(request, catalog.cluster(wanted["cluster"]))
    job = PlannedJob(job_plan, catalog)
    draft = replace(
        JudgedJob(job_plan, findings=()).add_to_draft(job.draft),
        script=job.script,
        command_line=("neuronctl", "submit", "-p", "cas_v100nv_8", "train.py"),
    )
    now = time.time()
    for directory, count in wanted["stores"].items():
        store = RecordStore(os.path.join(directory, "neuronctl", "jobs"))
        queued_ids = wanted["job_ids"][:count]
        for number in range(count - len(queued_ids)):
            submitted = now - 2 * 86400 - 7200 * number
            write_record(store, draft, OLD_FIRST + number, wanted["cluster"], submitted, ended=True)
        for number, job_id in enumerate(queued_ids):
            submitted = now - 3600 + number
            write_record(store, draft, job_id, wanted["cluster"], submitted, ended=False)


def write_record(
    store: RecordStore,
    draft: RecordDraft,
    job_id: int,
    cluster: str,
    submitted: float,
    *,
    ended: bool,
) -> None:
    """Write the record of a job that was submitted, and perhaps ended, at that time."""
    with mock.patch("time.time", return_value=submitted):
        record = store.complete(store.begin(draft), job_id, cluster)
        if ended:
            store.saw(record, "COMPLETED", "", "0:0")


if __name__ == "__main__":
    main()
