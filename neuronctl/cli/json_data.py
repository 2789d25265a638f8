"""Jobs, verdicts and findings as in docs/reference/json.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Union

from neuronctl.frozen import asdict
from neuronctl.rule_codes import ROW
from neuronctl.slurm.pending_reasons import Explained, explain
from neuronctl.units import UNLIMITED
from neuronctl.words import utc

if TYPE_CHECKING:
    from neuronctl.gate.verdict import Verdict
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.submission.prepare import PreparedJob
    from neuronctl.submission.transaction import Submission
    from neuronctl.tracking.job_status import JobStatus


_PLAIN = (
    *("name", "user", "partition", "qos", "state", "reason", "ended", "cancelled_by", "elapsed"),
    *("nodes", "node_list", "gpus", "work_dir", "stdout", "stderr", "source"),
)
"""What is in JSON as it is in a JobStatus."""


def status_data(status: JobStatus, limit: Optional[Explained] = None) -> Dict[str, Any]:
    """A job: times in ISO 8601 (UTC), durations in seconds. limit: the one it waits for."""
    unlimited = status.time_limit == UNLIMITED
    reason = limit or explain(status.reason, str(status.id.job))
    return {
        "job_id": str(status.id),
        "own_id": status.job_id,
        **{key: getattr(status, key) for key in _PLAIN},
        "reason_words": reason.words,
        "advice": "" if status.ended else reason.advice,
        "exit_code": None if status.exit is None else status.exit.code,
        "signal": None if status.exit is None else status.exit.signal,
        **{key: utc(getattr(status, key)) for key in ("submit", "start", "end")},
        "expected_start": utc(status.expected),
        "time_limit": None if unlimited else status.time_limit,
        "unlimited": unlimited,
        "record": status.key,
    }


def verdict_data(verdict: Optional[Verdict]) -> Optional[Dict[str, Any]]:
    """A verdict; None stays None."""
    if verdict is None:
        return None
    return {**asdict(verdict), "until": utc(verdict.until)}


def submission_data(
    draft: RecordDraft,
    job: Optional[PreparedJob],
    submission: Optional[Submission],
    verdict: Optional[Verdict],
) -> Dict[str, Any]:
    """A job to be submitted; job: None where a recorded script is, byte for byte.

    "choice" are the partitions of ``-p auto``, best first.
    """
    plan, choice = (None, None) if job is None else (job.plan, job.choice)
    logs: Union[RecordDraft, Submission] = submission or draft
    return {
        "job_id": None if submission is None else submission.job_id,
        "cluster": draft.catalog_cluster,
        "partition": draft.partition,
        "job_name": draft.job_name,
        "nodes": draft.nodes,
        "ntasks_per_node": None if plan is None else plan.ntasks_per_node,
        "cpus_per_task": None if plan is None else plan.cpus_per_task,
        "gpus_per_node": draft.gpus_per_node,
        "time_limit": draft.time_limit,
        "launcher": None if plan is None or draft.sbatch else plan.launcher.name,
        "logs": {"output": logs.output, "error": logs.error or logs.output},
        "decisions": [dict(zip(("name", "value", "source", "why"), d)) for d in draft.decisions],
        "verdict": verdict_data(verdict),
        "choice": [
            {
                "partition": candidate.name,
                "verdict": None if candidate.why_not else verdict_data(candidate.verdict),
                "start": utc(candidate.start),
                "free_nodes": candidate.free,
                "why_not": candidate.why_not,
            }
            for candidate in (() if choice is None else choice.candidates)
        ],
        "findings": [dict(zip(ROW, one.row)) for one in (job.findings if job is not None else ())],
        "script": draft.script or None,
    }
