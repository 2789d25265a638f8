"""A job whose log no longer changes: for how long, and what to do about a hang. Pure."""

from __future__ import annotations

from neuronctl.diagnosis.evidence import JobEvidence, is_of_slurm
from neuronctl.tracking.job_status import JobStatus

_QUIET = 300
"""Seconds without a line that are told."""


def quiet_words(evidence: JobEvidence) -> str:
    """Return ``13 of 14 min``: for how long its program has written nothing; "" if under 5 min.

    What Slurm adds at the end of a job makes a log new, and one with lines of both says nothing.
    """
    status, elapsed = evidence.status, evidence.status.elapsed or 0
    end = (status.end or 0) if status.ended else evidence.now
    logs = [log for log in evidence.logs if not log.lines or not is_of_slurm(log.lines[0])]
    last = max((log.changed for log in logs), default=end - elapsed)
    quiet = min(end - last, elapsed)
    if quiet < _QUIET or evidence.log_guessed or not evidence.logs:
        return ""
    unit, name = (60, "min") if elapsed < 36_000 else (3600, "h")
    return f"{quiet // unit:.0f} of {elapsed // unit} {name}"


def hang_remedy(status: JobStatus) -> str:
    """Return what to do about a hang, which more time does not end."""
    stacks = f"while it runs, 'neuronctl why --stacks {status.id.job}' shows where it stands"
    if status.record is None or status.record.rest.get("sbatch"):
        return f"more time does not help if it hangs: {stacks}"
    again = f"neuronctl resubmit {status.id.job} --stall 10m"
    return f"more time does not help if it hangs: '{again}' ends such a run early; {stacks}"
