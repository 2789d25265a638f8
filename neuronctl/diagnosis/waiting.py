"""Why a job waits, and how one that runs is doing. Pure; the ended ones are ended.py's."""

from __future__ import annotations

import time
from typing import Sequence, Tuple

from neuronctl.diagnosis.evidence import Diagnosis, Evidence, found_line, last_line, search
from neuronctl.slurm.partition_queue import PartitionJob
from neuronctl.slurm.pending_reasons import explain
from neuronctl.slurm.sacct import AccountingJob
from neuronctl.tracking.endings import ENDINGS
from neuronctl.tracking.job_status import JobStatus
from neuronctl.units import UNLIMITED
from neuronctl.words import duration

# Seconds between the end of a run and the new submission that a requeue is.
_REQUEUE_TAKES = 60


def running(evidence: Evidence) -> Diagnosis:
    status = evidence.status
    where = f" on {status.node_list}" if status.node_list else ""
    what = f"it is {status.state}{where}, {duration(status.elapsed)} after its start"
    if status.time_limit == UNLIMITED:
        what += ", without a time limit"
    elif status.time_limit is not None and status.elapsed is not None:
        what += f"; {duration(max(0, status.time_limit - status.elapsed))} are left"
    if evidence.earlier:
        what += f"; {_earlier_words(evidence)}"
    found = search(evidence)
    if found is not None:
        return Diagnosis(
            "running",
            what,
            f"its log already has a bad line: {found[1].cause}",
            found[1].remedy,
            certain=False,
            line=found_line(evidence, found),
        )
    return Diagnosis("running", what, line=last_line(evidence))


def waiting(evidence: Evidence) -> Diagnosis:
    status = evidence.status
    reason = explain(status.reason, str(status.id.job))
    words = reason.words or "Slurm has not looked at it yet"
    if evidence.figure:
        words += f", {evidence.figure}"
    since = ""
    if status.submit is not None and evidence.now > status.submit:
        since = f" for {duration(evidence.now - status.submit)}"
    if evidence.earlier:
        since += " since it was put back into the queue"
    what = f"it has waited{since}: {words}"
    kind = "waiting"
    cause, remedy = "", reason.advice
    name = status.reason.partition(",")[0]
    own = next((row for row in evidence.queue if row.job_id == status.job_id), None)
    if name.startswith("Dependency"):
        kind = "dependency"
        cause = _dependency_words(own.dependency if own is not None else "")
        remedy = ""  # the advice is to ask here
        if name == "DependencyNeverSatisfied":
            remedy = (
                f"it will wait for ever: 'neuronctl cancel {status.id.job}', mend the job it "
                "depends on, then submit both again"
            )
    elif own is not None and name in ("Priority", "Resources"):
        cause = _turn(evidence, own, name)
    if status.expected is not None and status.expected > evidence.now:
        moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(status.expected))
        ahead = duration(status.expected - evidence.now)
        expected = f"Slurm expects it to start at {moment} (in {ahead})"
        cause = f"{cause}; {expected}" if cause else expected
    before = _earlier_words(evidence)
    if before:
        cause = f"{before}; {cause}" if cause else before
    return Diagnosis(kind, what, cause, remedy)


_PUT_BACK = {"REQUEUED": "it was requeued by hand", **ENDINGS}


def _earlier_words(evidence: Evidence) -> str:
    """How its last run ended: ``it ran before, for 3 s on gpu36, until a node failed``."""
    if not evidence.earlier:
        return ""
    last = evidence.earlier[0]
    times = "" if len(evidence.earlier) == 1 else f" {len(evidence.earlier)} times"
    until = _PUT_BACK.get(last.state, "it ended")
    where = f" on {last.node_list}" if last.node_list else ""
    word = ", the last time" if times else ","
    ran = duration(last.elapsed)
    return f"it ran before{times}{word} for {ran}{where}, until {until} ({last.state})"


def earlier_runs(status: JobStatus, rows: Sequence[AccountingJob]) -> Tuple[AccountingJob, ...]:
    """The runs from which a job was put back into the queue, the newest first.

    rows: sacct's with duplicates. A requeue is a new submission at the moment of the run's end;
    what has the same number otherwise is another job.
    """
    found = []
    later = status.submit
    for row in sorted(rows, key=lambda one: one.end or 0, reverse=True):
        if row.id != status.id or row.end is None or row.start is None or later is None:
            continue
        if abs(later - row.end) <= _REQUEUE_TAKES:
            found.append(row)
            later = row.submit
    return tuple(found)


def _dependency_words(dependency: str) -> str:
    """``afterok:12(unfulfilled),…`` in words."""
    parts = []
    meaning = {
        "after": "started",
        "afterany": "ended",
        "afterok": "ended well",
        "afternotok": "ended badly",
        "aftercorr": "ended its same task well",
    }
    for part in dependency.replace("?", ",").split(","):
        kind, _, rest = part.partition(":")
        job, _, state = rest.partition("(")
        if kind in meaning and job:
            failed = " and did not" if state.startswith("failed") else ""
            parts.append(f"job {job} has to have {meaning[kind]}{failed}")
        elif kind == "singleton" or part.startswith("singleton"):
            parts.append("your other jobs of the same name have to have ended")
        elif part:
            parts.append(part)
    return "; ".join(parts)


def _turn(evidence: Evidence, own: PartitionJob, reason: str) -> str:
    # Those that wait for another job, or are held (priority 0), are before nobody.
    waiting = [row for row in evidence.queue if row.state == "PENDING" and not row.dependency]
    # Of two with the same priority (all, where it has no weights) the older one goes first.
    ahead = sum(
        1
        for row in waiting
        if row.priority and (row.priority, own.job_id) > (own.priority or 0, row.job_id)
    )
    running = [row for row in evidence.queue if row.state == "RUNNING"]
    others = [row for row in evidence.queue if row.user != own.user]
    if not others and not (running if reason == "Resources" else ahead):
        return (
            f"no jobs but yours can be seen in {evidence.status.partition}: others' may be hidden "
            "(PrivateData) or be in another partition of the same nodes, and nodes may be down"
        )
    where = f"waiting {'job' if ahead == 1 else 'jobs'} of {evidence.status.partition}"
    words = f"{ahead or 'no'} other {where} {'is' if ahead == 1 else 'are'} before it"
    ends = [row.end for row in running if row.end is not None and row.end >= evidence.now]
    if running:
        count = "1 job runs" if len(running) == 1 else f"{len(running)} jobs run"
        words += f", {count} there"
        if ends:
            left = duration(min(ends) - evidence.now)
            words += f", the first of which ends in {left} at the latest"
    return words
