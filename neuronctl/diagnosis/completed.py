"""What failed in a job that Slurm calls COMPLETED. Pure."""

from __future__ import annotations

import signal
from typing import Callable, Optional

from neuronctl.common.words import duration
from neuronctl.diagnosis.evidence import Diagnosis, JobEvidence
from neuronctl.diagnosis.signs import EXCEPTION, Sign
from neuronctl.tracking import endings

_IDLE = "serve: nobody used it for "
"""The beginning of the line that a server with --idle writes before it ends (programs/server)."""

_SCRIPT = "/slurm_script: "
"""The name of the batch script in messages of bash."""

_LAST_LINES = range(1, 6)
"""An error in one of these last lines means that a job was not done, though it exited with 0."""

_EXPECTED = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)  # they end what runs beside a program

_SET_E = "add 'set -e' to a script to end it at the first error"

LESS_MEMORY = "{memory}, or use less: fewer processes and workers on a node, less data at a time"


def diagnose_completed(evidence: JobEvidence) -> Diagnosis:
    """Return what failed in a job that ended with exit code 0; usually, nothing did."""
    what = f"completed with exit code 0 after {duration(evidence.status.elapsed)}"
    if evidence.failed_tasks:
        remedy = "fix the cause, then 'neuronctl sweep retry {name} --failed' runs them again"
        return Diagnosis("tasks-failed", what, evidence.failed_tasks, remedy)
    return (
        diagnose_killed_step(evidence, f"{what}, though not all of it")
        or _diagnose_idle_server(evidence, what)
        or _diagnose_failed_step(evidence, what)
        or _diagnose_continued(evidence, what, _is_failed_command)
        or _diagnose_asked(evidence, what)
        or _diagnose_signaled_step(evidence, what)
        or _diagnose_continued(evidence, what, _is_error_at_end)
        or Diagnosis("completed", what)
    )


def diagnose_killed_step(evidence: JobEvidence, what: str) -> Optional[Diagnosis]:
    """Return Slurm's report of a step that used up its memory; None if there is none.

    what: how the job itself ended.
    """
    for step in evidence.steps:
        if step.name and step.state == "OUT_OF_MEMORY":
            cause = f"Slurm ended its step '{step.name}', which used up its memory"
            line = evidence.line_of_slurm("oom") or evidence.last_line()
            return Diagnosis("out-of-memory", what, cause, LESS_MEMORY, line=line)
    return None


def _diagnose_idle_server(evidence: JobEvidence, what: str) -> Optional[Diagnosis]:
    """Return the diagnosis of a server that --idle ended; None for another job."""
    for line in evidence.lines_backwards():
        if line.text.startswith(_IDLE):
            sentence = line.text.partition(": ")[2]
            cause = f"--idle ended it: {sentence.partition(',')[0]}"
            return Diagnosis("idle", what, cause, line=line)
    return None


def _diagnose_failed_step(evidence: JobEvidence, what: str) -> Optional[Diagnosis]:
    """Return Slurm's report of a step that failed; None if none did, or if it is not known."""
    if len(evidence.runs.runs) > 1:
        return None  # Slurm keeps the exit code of an earlier run that saved
    # The step without a name is the job itself, with the exit code of its worst step.
    exit = next((step.exit for step in evidence.steps if step.name == "" and step.exit), None)
    if exit is None or not exit.code:
        return None
    step = evidence.failed_step() or f"a step ended with exit code {exit.code}"
    cause = f"{step}, and the script went on"
    sign = evidence.sign
    if sign is None or not sign.cause or sign.exit:
        return Diagnosis("completed", what, cause, _SET_E, line=evidence.last_line())
    cause += f"; likely, {sign.cause}"
    return Diagnosis("completed", what, cause, sign.remedy or _SET_E, line=sign.log_line)


def _diagnose_asked(evidence: JobEvidence, what: str) -> Optional[Diagnosis]:
    """Return the diagnosis of a job whose last run was asked to save; None for another."""
    runs = evidence.runs.runs
    if not runs or not runs[-1].asked:
        return None
    remedy = (
        "if it only left when it was asked to save, with work undone, let it end with 75 then, "
        "and 'neuronctl resubmit {id}'"
    )
    return Diagnosis("completed", f"{what}, and after it was told to save", remedy=remedy)


def _diagnose_signaled_step(evidence: JobEvidence, what: str) -> Optional[Diagnosis]:
    """Return Slurm's report of a step that a signal ended; None if there is none."""
    for step in evidence.steps:
        is_job_itself = step.name == ""
        number = 0 if step.exit is None or is_job_itself else step.exit.signal
        if number and number not in _EXPECTED:
            how = f"was ended by {endings.signal_name(number)}, and the script went on"
            cause = f"its step '{step.name}' {how}"
            return Diagnosis("completed", what, cause, _SET_E, line=evidence.last_line())
    return None


def _is_failed_command(sign: Sign) -> bool:
    """Return True if a command of the script failed; the sign may be anywhere in the log."""
    return sign.kind == EXCEPTION or (sign.kind == "command-not-found" and _SCRIPT in sign.line)


def _is_error_at_end(sign: Sign) -> bool:
    """Return True if a known error is among a log's last lines.

    A command that is not found does not count: a program may try several.
    """
    is_known = sign.entry.name and sign.kind != "command-not-found"
    return bool(is_known and sign.number in _LAST_LINES)


def _diagnose_continued(
    evidence: JobEvidence, what: str, is_failure: Callable[[Sign], bool]
) -> Optional[Diagnosis]:
    """Return the diagnosis of a script that continued after a failure; None without one."""
    sign = evidence.sign
    if sign is None or not is_failure(sign):
        return None
    cause = f"its log shows an error, after which the script continued: {sign.cause}"
    remedy = "; ".join(filter(None, (sign.remedy, _SET_E)))
    return Diagnosis("completed", what, cause, remedy, certain=False, line=sign.log_line)
