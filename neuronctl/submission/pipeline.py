"""The one way to submit: judge, write the script, give it to sbatch, record; somebody hears of it.

A generated job, an existing script, and a recorded one are each a Submittable; the command line and
the library are each a Reporter.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Optional, Sequence

from neuronctl.common.errors import PolicyError, SlurmRefusedError, SlurmUnavailableError
from neuronctl.common.frozen import replace

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

    key: as for ``job_of_key``, which has found no job. Without one, a job of the same submission
    whose answer was lost is returned, but not with ``force``.

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
    draft = replace(job.draft, script=job.script(), command_line=tuple(reporter.command_line))
    if judged is not None:
        draft = judged.recorded(draft)
    if dry_run:
        reporter.submitting(draft, _tested(draft, judged, reporter))
        return None
    reporter.submitting(draft, judged)
    if judged is not None and judged.plan.code is not None and judged.plan.code.tree:
        from neuronctl.records.code_snapshot import make_snapshot

        make_snapshot(judged.plan.code)
    claim = partial(take_key, key, notify=reporter.tell) if key else None
    try:
        done = submit_draft(job, draft, reporter.tell, claim)
    except SlurmRefusedError as error:
        reporter.slurm_refused(draft, judged, error)
        raise
    reporter.submitted(draft, judged, done)
    return done


def _tested(
    draft: RecordDraft, judged: Optional[JudgedJob], reporter: Reporter
) -> Optional[JudgedJob]:
    """Tell what ``sbatch --test-only`` says, and return the judgement; raises SlurmRefusedError.

    A job that has errors, or that Slurm was not asked about, is not tested.
    """
    if judged is None or judged.errors or judged.verdict is None or not judged.verdict.by_slurm:
        return judged
    from neuronctl.judgement.verdict import CAN_START, NOT_KNOWN
    from neuronctl.slurm.sbatch import test_submission

    words, place = draft.sbatch or ("sbatch", "/dev/stdin"), draft.submit_dir or draft.cwd
    try:
        said, has_nodes = test_submission(words, draft.script, cwd=place)
    except SlurmRefusedError as error:
        reporter.slurm_refused(draft, judged, error)
        raise
    except SlurmUnavailableError:
        return judged
    reporter.tell(f"sbatch --test-only says, whatever your limits: {said}")
    if has_nodes or judged.verdict.kind != CAN_START:
        return judged
    return replace(judged, verdict=replace(judged.verdict, kind=NOT_KNOWN))
