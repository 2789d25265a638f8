"""The one way to submit: judge, write the script, give it to sbatch, record; somebody hears of it.

A generated job, an existing script, and a recorded one are each a Submittable; the command line and
the library are each a Reporter.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Callable, Optional, Sequence

from neuronctl.common.errors import PolicyError, SlurmRefusedError, SlurmUnavailableError
from neuronctl.judgement.verdict import CAN_START, NOT_KNOWN, REFUSED, WILL_WAIT

if TYPE_CHECKING:
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.submission.judged_job import JudgedJob
    from neuronctl.submission.transaction import Submission, Submittable


class Reporter:
    """Who hears of a submission while it is made; this one keeps still.

    command_line: what the user called.
    """

    command_line: Sequence[str] = ()

    def tell(self, message: str) -> None:
        """Say what a person should hear of."""

    def judged(self, judged: JudgedJob) -> None:
        """Say which partition was chosen, and what was found."""

    def refused(self, draft: RecordDraft, judged: JudgedJob) -> PolicyError:
        """Return what to raise where errors refuse the job."""
        errors = "; ".join(f"{finding.code}: {finding.message}" for finding in judged.errors)
        return PolicyError(f"refused: {errors}", judged.errors[0].hint)

    def slurm_refused(
        self, draft: RecordDraft, judged: Optional[JudgedJob], error: SlurmRefusedError
    ) -> None:
        """Say that sbatch refuses the job; the error is raised afterwards."""

    def submitting(self, draft: RecordDraft, judged: Optional[JudgedJob]) -> None:
        """Say what is submitted, or would be."""

    def submitted(self, draft: RecordDraft, judged: Optional[JudgedJob], done: Submission) -> None:
        """Say which job it is."""


def judge_job(job: Submittable, reporter: Reporter, *, force: bool = False) -> Optional[JudgedJob]:
    """Judge a job; raises PolicyError for errors without ``force``."""
    judged = job.judge()
    if judged is not None:
        reporter.judged(judged)
        if judged.errors and not force:
            raise reporter.refused(judged.recorded(job.draft), judged)
    return judged


def submit_job(
    job: Submittable,
    reporter: Reporter,
    *,
    force: bool = False,
    dry_run: bool = False,
    key: str = "",
) -> Optional[Submission]:
    """Judge a job, submit it, and record it; with ``dry_run`` stop before sbatch: None.

    key: as for ``find_submitted_job``, which found no job. Without one, a job of the same
    submission whose answer was lost is returned, but not with ``force``.

    Raises PolicyError for errors without ``force``, TemplateError, SlurmRefusedError, and
    SlurmUnavailableError, after which the job may be in the queue nevertheless.
    """
    from neuronctl.submission.repetition import lost_job, take_key
    from neuronctl.submission.transaction import submit_draft

    if not dry_run:
        again = bool(force or key)
        lost = lost_job(job, reporter.command_line, reporter.tell, anyway=again)
        if lost is not None and lost.record is not None:
            reporter.submitted(lost.record.draft, None, lost)
            return lost
    judged = judge_job(job, reporter, force=force)
    draft = replace(job.draft, script=job.script, command_line=tuple(reporter.command_line))
    if judged is not None:
        draft = judged.recorded(draft)
    try:
        if dry_run:
            judged = tested(judged, draft, reporter.tell)
        elif judged is not None and judged.verdict and judged.verdict.kind == NOT_KNOWN:
            with contextlib.suppress(SlurmRefusedError):  # sbatch reports it at once
                judged = tested(judged, draft) or judged
                draft = replace(draft, verdict=str(judged.verdict))
        reporter.submitting(draft, judged)
        if dry_run:
            return None
        if judged is not None and judged.plan.code is not None and judged.plan.code.tree:
            from neuronctl.records.code_snapshot import make_snapshot

            make_snapshot(judged.plan.code)
        claim = partial(take_key, key, notify=reporter.tell) if key else None
        done = submit_draft(job, draft, reporter.tell, claim)
    except SlurmRefusedError as error:
        reporter.slurm_refused(draft, judged, error)
        raise
    reporter.submitted(draft, judged, done)
    return done


def tested(
    judged: Optional[JudgedJob], draft: RecordDraft, tell: Optional[Callable[[str], None]] = None
) -> Optional[JudgedJob]:
    """Return the judgement with what ``sbatch --test-only`` says; raises SlurmRefusedError.

    A job is not tested that has errors, that Slurm was not asked about, or that begins with its
    reservation, before which Slurm refuses to test it.
    """
    verdict = None if judged is None or judged.errors else judged.verdict
    if judged is None or verdict is None or not verdict.by_slurm or verdict.cause == "Reservation":
        return judged
    from neuronctl.slurm.sbatch import test_submission

    try:
        answer = test_submission(draft.sbatch, draft.script, cwd=draft.submit_dir or draft.cwd)
    except SlurmUnavailableError:
        return judged
    if tell is not None:
        tell(f"sbatch --test-only says, whatever your limits: {answer.said}")
    # A later start means nothing: of 12 such jobs of Slurm 22.05, 12 started at once.
    soon = answer.start is not None and answer.start <= time.time() + _NOW
    means = {CAN_START: soon, WILL_WAIT: answer.unavailable, REFUSED: answer.too_small}
    kind = next((kind for kind, meant in means.items() if meant), "")
    return replace(judged, verdict=verdict.tested(kind))


_NOW = 60
"""Seconds within which Slurm says that a job starts that it could start now."""
