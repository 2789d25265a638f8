"""Convert jobs, verdicts, and findings to the JSON of docs/reference/json.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from neuronctl.common.rule_codes import ROW
from neuronctl.common.units import UNLIMITED
from neuronctl.common.words import utc
from neuronctl.tracking.wandb_runs import wandb_url

if TYPE_CHECKING:
    from neuronctl.judgement.snapshot import Snapshot
    from neuronctl.judgement.verdict import Verdict
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.rules import Finding
    from neuronctl.scripts.header import SourceSpan
    from neuronctl.submission.existing_script import JudgedScript
    from neuronctl.submission.pipeline import JudgedJob
    from neuronctl.submission.transaction import Submission
    from neuronctl.tracking.job_status import JobStatus


_PLAIN = (
    *("name", "user", "partition", "qos", "state", "reason", "ended", "cancelled_by", "elapsed"),
    *("nodes", "node_list", "gpus", "work_dir", "stdout", "stderr", "source"),
)
"""Fields of JobStatus that stay unchanged in JSON."""


def status_data(status: JobStatus) -> Dict[str, Any]:
    """Convert a job: times in ISO 8601 (UTC), durations in seconds."""
    unlimited = status.time_limit == UNLIMITED
    explained = status.explained
    return {
        "job_id": str(status.id),
        "own_id": status.job_id,
        **{key: getattr(status, key) for key in _PLAIN},
        "reason": status.stated_reason,  # replaces the plain one: if Slurm gives none, says why
        "reason_words": explained.words,
        "advice": "" if status.ended else explained.advice,
        "exit_code": None if status.exit is None else status.exit.code,
        "signal": None if status.exit is None else status.exit.signal,
        **{key: utc(getattr(status, key)) for key in ("submit", "start", "end")},
        "expected_start": utc(status.expected),
        "time_limit": None if unlimited else status.time_limit,
        "unlimited": unlimited,
        "record": status.key,
        "wandb_url": wandb_url(status) or None,
    }


def verdict_data(verdict: Optional[Verdict]) -> Optional[Dict[str, Any]]:
    """Convert a verdict; None, of a job that was not judged, stays None."""
    if verdict is None:
        return None
    data = {key: getattr(verdict, key) for key in ("kind", "words", "cause", "judged_by")}
    return {**data, "until": utc(verdict.until)}


def budget_rows(snapshot: Snapshot) -> List[Dict[str, Any]]:
    """Return the user's budgets of minutes, the tightest first."""
    from neuronctl.slurm.figures import minutes_left

    return [
        {
            "holder": budget.holder,
            "limit": budget.kind,
            "tres": budget.tres,
            "minutes": budget.figure,
            "used": budget.used,
            "promised": budget.promised,
            "left": minutes_left(budget),
        }
        for budget in snapshot.budgets
    ]


def submission_data(
    draft: RecordDraft,
    job: Optional[JudgedJob],
    submission: Optional[Submission],
    verdict: Optional[Verdict],
) -> Dict[str, Any]:
    """Convert a job that is, or would be, submitted.

    job: None if a recorded script is submitted again unchanged. submission: None for a dry run, or
    a refused job. "choice" lists the partitions of ``-p auto``, best first.
    """
    plan = None if job is None else job.plan
    findings = () if job is None else job.findings
    candidates = () if job is None or job.choice is None else job.choice.candidates
    launcher = None
    if plan is not None and not draft.sbatch:
        # With steps, each has its own launcher.
        launcher = "none" if plan.steps else plan.launches[0].launcher.name
    logs: Union[RecordDraft, Submission] = submission or draft
    draft_keys = ("partition", "job_name", "nodes", "gpus_per_node", "time_limit")
    plan_keys = ("ntasks_per_node", "cpus_per_task")
    decision_keys = ("name", "value", "source", "why")
    return {
        "job_id": None if submission is None else str(submission.job_id),
        "cluster": draft.catalog_cluster,
        **{key: getattr(draft, key) for key in draft_keys},
        **{key: getattr(plan, key, None) for key in plan_keys},
        "launcher": launcher,
        "logs": {"output": logs.output, "error": logs.error or logs.output},
        "decisions": [dict(zip(decision_keys, decision)) for decision in draft.decisions],
        "verdict": verdict_data(verdict),
        "choice": [
            {
                "partition": candidate.name,
                "verdict": verdict_data(candidate.verdict) if candidate.fits else None,
                "free_nodes": candidate.judgement.free_nodes,
                "why_not": candidate.exclusion,
            }
            for candidate in candidates
        ],
        "findings": [dict(zip(ROW, finding.row)) for finding in findings],
        "script": draft.script or None,
    }


def check_data(script: JudgedScript) -> Dict[str, Any]:
    """Convert a script and its findings to JSON data."""
    return {"file": script.name, "findings": [*map(_finding_data, script.findings)]}


def _finding_data(finding: Finding) -> Dict[str, Any]:
    edits = [{**_columns(edit.place), "text": edit.text} for edit in finding.edits]
    return {**dict(zip(ROW, finding.row)), **_columns(finding.place), "edits": edits}


def _columns(place: SourceSpan) -> Dict[str, int]:
    return {"line": place.line, "column": place.column, "end_column": place.end}
