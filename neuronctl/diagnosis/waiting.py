"""Why a job is pending, and how a running job is doing. Pure; ended.py covers ended jobs."""

from __future__ import annotations

from typing import Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.units import UNLIMITED
from neuronctl.common.words import counted, duration, moment, verb
from neuronctl.diagnosis.evidence import Diagnosis, JobEvidence, is_of_slurm
from neuronctl.diagnosis.signs import MESSAGE
from neuronctl.slurm.job_states import LEAVING, PENDING, RUNNING, STATES
from neuronctl.slurm.sacct import AccountingJob
from neuronctl.slurm.squeue import QueueJob
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import GOES_ON


def diagnose_running(evidence: JobEvidence) -> Diagnosis:
    """Return where a job runs, for how long, and what its log shows so far."""
    status = evidence.status
    quiet = quiet_words(evidence) if status.state == RUNNING else ""
    changed = f"its log has not changed for {quiet}" if quiet else ""
    facts = (_run_words(status), _earlier_words(evidence), changed)
    what = "; ".join(filter(None, facts))
    sign = evidence.sign
    if sign is not None and sign.kind != MESSAGE:
        cause = f"its log already shows an error: {sign.cause}"
        return Diagnosis("running", what, cause, sign.remedy, certain=False, line=sign.log_line)
    remedy = "see where it stands: 'neuronctl why --stacks {job}'" if quiet else ""
    return Diagnosis("running", what, remedy=remedy, line=evidence.last_line())


def _run_words(status: JobStatus) -> str:
    """Return where a job runs, and for how long: ``RUNNING on gpu36 for 3 min; 57 min left``."""
    is_requeued = status.state == "REQUEUED"
    place = f" on {status.node_list}" if status.node_list else ""
    words = f"{'ran' if is_requeued else status.state}{place} for {duration(status.elapsed)}"
    if status.time_limit == UNLIMITED:
        words += ", with no time limit"
    elif status.state in LEAVING:
        words += "; it has ended, and Slurm waits for its nodes"
    elif is_requeued:
        words += "; then Slurm put it back into the queue, and does not list it there now"
    elif status.time_limit is not None and status.elapsed is not None:
        words += f"; {duration(max(0, status.time_limit - status.elapsed))} left"
    if status.state in ("SUSPENDED", "STOPPED"):
        words += "; it stands still, and goes on when Slurm or an administrator resumes it"
    return words


def diagnose_waiting(evidence: JobEvidence) -> Diagnosis:
    """Return why a job is pending, and when it may start."""
    status = evidence.status
    reason = status.explained.words or "Slurm has not considered it yet"
    what = f"pending{_since_words(evidence)}: {reason}"
    kind = "dependency" if status.reason.startswith("Dependency") else "waiting"
    cause, remedy = _explain_reason(evidence)
    causes = filter(None, (_earlier_words(evidence), cause, _expected_words(evidence)))
    return Diagnosis(kind, what, "; ".join(causes), remedy)


def _explain_reason(evidence: JobEvidence) -> Tuple[str, str]:
    """Return what the queue and the reservations show about the reason to wait, and the remedy."""
    status = evidence.status
    advice = status.explained.advice
    name = status.reason.partition(",")[0]
    queue_row = next((row for row in evidence.queue if row.job_id == status.job_id), None)
    if name.startswith("Dependency"):
        cause = _dependency_words(queue_row.dependency if queue_row is not None else "")
        if name != "DependencyNeverSatisfied":
            return cause, ""  # the usual advice is to run the very command that asks for it
        return cause, (
            f"it will never start: run 'neuronctl cancel {status.id.job}', fix the job that it "
            "depends on, then resubmit both"
        )
    if "maintenance" in status.reason:
        cause, remedy = _describe_maintenance(evidence)
        return cause, remedy or advice
    if "reserv" in status.reason.lower():
        return _describe_reserved(evidence), advice
    if queue_row is not None and name in ("Priority", "Resources"):
        return _describe_turn(evidence, queue_row, name), advice
    return "", advice


def _expected_words(evidence: JobEvidence) -> str:
    """Return when Slurm expects a job to start; "" if it says nothing, or a time that is past."""
    start = evidence.status.expected
    if start is None or start <= evidence.now:
        return ""
    return f"Slurm expects it to start at {moment(start)} (in {duration(start - evidence.now)})"


def _since_words(evidence: JobEvidence) -> str:
    """Return how long a job has been pending: `` for 10 min since it was requeued``."""
    submit = evidence.status.submit
    words = ""
    if submit is not None and evidence.now > submit:
        words = f" for {duration(evidence.now - submit)}"
    if evidence.earlier:
        words += " since it was requeued"
    return words


def _earlier_words(evidence: JobEvidence) -> str:
    """Return how the last run ended: ``its previous run on gpu36 ended after 3 s: …``."""
    if not evidence.earlier:
        return ""
    last = evidence.earlier[0]
    place = f" on {last.node_list}" if last.node_list else ""
    words = f"its previous run{place} ended after {duration(last.elapsed)}"
    # The last run may already be the one that waits.
    last_runs = evidence.runs.runs[-2:]
    how = next((run.how for run in reversed(last_runs) if run.cause == GOES_ON), "")
    if how and last.state not in _LOST:
        return f"{words}: it {how}, to go on in another run"
    ending = STATES[last.state].ending if last.state in STATES else ""
    cause = f": {ending}" if ending else ""
    return f"{words}{cause} ({last.state})"


_LOST = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "TIMEOUT")
"""How Slurm ended a run that could not end by itself."""

_REQUEUE_TAKES = 60
"""Maximum seconds between the end of a run and its resubmission by a requeue."""


def earlier_runs(status: JobStatus, rows: Sequence[AccountingJob]) -> Tuple[AccountingJob, ...]:
    """Return the runs after which a job was requeued, newest first.

    rows: sacct's rows with duplicates. A requeue is a new submission at the time the run ended;
    other rows with the same job id belong to another job.
    """
    runs = []
    next_submit = status.submit  # when the run after the current row was submitted
    for row in sorted(rows, key=lambda row: row.end or 0, reverse=True):
        if row.id != status.id or row.end is None or row.start is None or next_submit is None:
            continue
        if row.submit is None or row.submit >= next_submit:
            continue  # the row of the later run itself
        if abs(next_submit - row.end) <= _REQUEUE_TAKES:
            runs.append(row)
            next_submit = row.submit
    return tuple(runs)


def _dependency_words(dependency: str) -> str:
    """Return what a job must wait for, from squeue's ``afterok:12(unfulfilled),…``."""
    parts = []
    meaning = {
        "after": "start",
        "afterany": "end",
        "afterok": "complete successfully",
        "afternotok": "fail",
        "aftercorr": "complete the corresponding task",
    }
    for part in dependency.replace("?", ",").split(","):
        kind, _, job_and_state = part.partition(":")
        job, _, state = job_and_state.partition("(")
        if kind in meaning and job:
            failed = " but did not" if state.startswith("failed") else ""
            parts.append(f"job {job} must {meaning[kind]} first{failed}")
        elif part.startswith("singleton"):
            parts.append("other jobs of its user with the same name must end first")
        elif part:
            parts.append(part)
    return "; ".join(parts)


def _describe_maintenance(evidence: JobEvidence) -> Tuple[str, str]:
    """Return the maintenance that a job could run into, and how the job can start before it.

    Both are "" if no maintenance is planned; the second is "" if it has begun.
    """
    now = evidence.now
    planned = [
        reservation
        for reservation in evidence.reservations
        if "MAINT" in reservation.flags and reservation.end > now
    ]
    if not planned:
        return "", ""
    first = min(planned, key=lambda reservation: reservation.start)
    words = f"maintenance of {first.node_list} ({first.name})"
    if first.start <= now:
        return f"{words} lasts until {moment(first.end)}", ""
    words += f" lasts from {moment(first.start)} until {moment(first.end)}"
    # Slurm counts a limit in whole minutes; one is to spare.
    limit = units.format_time(max(60, (first.start - now) // 60 * 60 - 60))
    return words, (
        f"with a time limit of {limit} or less it can start before that: "
        f"'scontrol update jobid={{job}} timelimit={limit}', or resubmit it with -t"
    )


def _describe_reserved(evidence: JobEvidence) -> str:
    """Return the first two reservations to end and the number of others; "" if there are none."""
    now = evidence.now
    current = [reservation for reservation in evidence.reservations if reservation.end > now]
    current.sort(key=lambda reservation: reservation.end)
    words = []
    for reservation in current[:2]:
        begin = "" if reservation.start <= now else f"from {moment(reservation.start)} "
        period = f"{begin}until {moment(reservation.end)}"
        words.append(f"{reservation.name} reserves {reservation.node_list} {period}")
    if len(current) > 2:
        words.append(f"and {len(current) - 2} more")
    return "; ".join(words)


def _describe_turn(evidence: JobEvidence, job: QueueJob, reason: str) -> str:
    """Return how many jobs are ahead of a pending one, and when the first running one ends.

    reason: Priority or Resources.
    """
    partition = evidence.status.partition
    ahead = sum(_is_ahead(other, job) for other in evidence.queue)
    running = [row for row in evidence.queue if row.state == RUNNING]
    # A job waits with Resources for running jobs, and with Priority for jobs ahead of it.
    is_explained = len(running) > 0 if reason == "Resources" else ahead > 0
    sees_others = any(row.user != job.user for row in evidence.queue)
    if not is_explained and not sees_others:
        return (
            f"you can see only your own jobs in {partition}: other users' jobs may be hidden "
            "(PrivateData) or in another partition with the same nodes, or nodes may be down"
        )

    jobs = counted(ahead, "other pending job") if ahead else "no other pending jobs"
    words = f"{jobs} in {partition} {verb(ahead)} ahead of it"
    if running:
        words += f"; {counted(len(running), 'job')} {verb(len(running))} running"
    ends = [row.end for row in running if row.end is not None and row.end >= evidence.now]
    if ends:
        words += f", and the first ends in {duration(min(ends) - evidence.now)} at the latest"
    return words


def _is_ahead(other: QueueJob, job: QueueJob) -> bool:
    """Return True if Slurm considers the other job first."""
    # Jobs that depend on another or are held (priority 0) are ahead of nobody.
    if other.state != PENDING or other.dependency or not other.priority:
        return False
    priority = job.priority or 0
    # With equal priorities (always without weights), the older job is first.
    is_older = other.job_id < job.job_id
    return other.priority > priority or (other.priority == priority and is_older)


_QUIET = 300
"""Seconds without a new line after which a log counts as quiet."""


def quiet_words(evidence: JobEvidence) -> str:
    """Return for how long the program has written nothing: ``13 of 14 min``; "" if under 5 min.

    Slurm writes lines of its own at a job's end. A log that begins with them does not count; a log
    to which they are added counts as changed at that time.
    """
    if evidence.log_guessed or not evidence.logs:
        return ""
    status = evidence.status
    elapsed = status.elapsed or 0
    end = (status.end or 0) if status.ended else evidence.now
    logs = [log for log in evidence.logs if not log.lines or not is_of_slurm(log.lines[0])]
    last_change = max((log.changed for log in logs), default=end - elapsed)
    quiet = min(end - last_change, elapsed)
    if quiet < _QUIET:
        return ""
    seconds, unit = (60, "min") if elapsed < 36_000 else (3600, "h")
    return f"{quiet // seconds:.0f} of {elapsed // seconds} {unit}"


def hang_remedy(status: JobStatus) -> str:
    """Return what to do about a hang; more time does not help."""
    remedy = "more time does not help if it hangs: "
    if status.record is not None and not status.record.rest.get("sbatch"):
        command = f"neuronctl resubmit {status.id.job} --stall 10m"
        remedy += f"'{command}' ends such a run early; "
    stacks = f"'neuronctl why --stacks {status.id.job}'"
    return f"{remedy}while it runs, {stacks} shows where it stands"
