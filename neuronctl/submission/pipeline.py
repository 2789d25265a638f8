"""The one way to submit a job: judge it, write its script, call sbatch, and record it.

A generated job, a user's own script, and a recorded job are each a Submittable; the command line
and the library are each a Reporter.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Protocol, Sequence, Tuple

from neuronctl.common.datatypes import asdict, dataclass, replace
from neuronctl.common.errors import PolicyError, SlurmRefusedError, SlurmUnavailableError
from neuronctl.common.words import counted
from neuronctl.judgement.verdict import CAN_START, NOT_KNOWN, REFUSED, WILL_WAIT
from neuronctl.planning import JobPlan
from neuronctl.request.job import OF_SLURM

if TYPE_CHECKING:
    from neuronctl.judgement.partitions import Choice
    from neuronctl.judgement.verdict import Verdict
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.rules.base import Finding
    from neuronctl.submission.transaction import Submission


class Submittable(Protocol):
    """A job that can be submitted: neuronctl or the user has written its script."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the variables, secrets included, that sbatch gets besides the user's."""

    @property
    def slurm_cluster(self) -> Optional[str]:
        """Return the cluster that --clusters names; None: this one."""

    @property
    def draft(self) -> RecordDraft:
        """Return the job's record, without what the judgement adds."""

    @property
    def script(self) -> str:
        """Return the script for sbatch; raise TemplateError."""

    def judge(self) -> Optional[JudgedJob]:
        """Judge the job; None: it was judged before, and is submitted again unchanged."""


def stored_request(plan: JobPlan) -> Dict[str, Any]:
    """Return the request of a plan as a record stores it, without secrets."""
    env = tuple((name, value) for name, value in plan.request.env if name not in plan.secrets)
    request = asdict(replace(plan.request, origins={}, env=env, typed_dependency=None))
    return {name: value for name, value in request.items() if value not in (None, (), {})}


@dataclass(frozen=True)
class JudgedJob:
    """A planned and judged job, before it is submitted.

    verdict: what would happen to the job now; None if Slurm is not asked (``generate``). choice:
    how ``-p auto`` chose the partition; None without it. existing_script: whether the script is the
    user's own, so that the plan does not know what it starts.
    """

    plan: JobPlan
    findings: Tuple[Finding, ...]
    verdict: Optional[Verdict] = None
    choice: Optional[Choice] = None
    warnings: Tuple[str, ...] = ()
    existing_script: bool = False

    @property
    def errors(self) -> Tuple[Finding, ...]:
        """Return the findings that refuse the job."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def decisions(self) -> Tuple[Tuple[str, ...], ...]:
        """Return the plan's values as rows; of an existing script, those of sbatch's options."""
        decisions = self.plan.decisions
        if self.existing_script:
            decisions = tuple(decision for decision in decisions if decision.name in OF_SLURM)
        return tuple(decision.row for decision in decisions)

    def refusal(self, hint: str = "") -> PolicyError:
        """Return the exception for a job with errors. hint: how to override the rules' errors."""
        count = counted(len(self.errors), "error")
        slurm_refuses = any(finding.by_slurm for finding in self.errors)
        return PolicyError(f"refused: {count}; nothing was done", "" if slurm_refuses else hint)

    def add_to_draft(self, draft: RecordDraft) -> RecordDraft:
        """Return the draft of a record with the plan and the judgement."""
        plan = self.plan
        request = stored_request(plan)
        request.pop("sweep", None)  # it has a folder of its own
        if self.existing_script:  # the plan only stands in for what the script starts
            request.pop("launcher", None)
            request.pop("script", None)
        return replace(
            draft,
            request={**request, **draft.request},
            exported=tuple(plan.secrets),  # their names
            partition=plan.partition_list,
            nodes=plan.nodes,
            gpus_per_node=plan.gpus_per_node,
            time_limit=plan.time_limit,
            catalog_cluster=plan.cluster.name,
            catalog_date=plan.cluster.date,
            decisions=self.decisions,
            findings=tuple(finding.row for finding in self.findings),
            forced=bool(self.errors),
            verdict="" if self.verdict is None else str(self.verdict),
        )


class Reporter:
    """Receives the events of a submission. The base class ignores them."""

    command_line: Sequence[str] = ()  # as the user typed it

    def tell(self, message: str) -> None:
        """Report a message for the user."""

    def judged(self, judged: JudgedJob) -> None:
        """Report the chosen partition and the findings."""

    def refused(self, draft: RecordDraft, judged: JudgedJob) -> PolicyError:
        """Return the exception to raise for the errors of a job."""
        errors = "; ".join(f"{finding.code}: {finding.message}" for finding in judged.errors)
        return PolicyError(f"refused: {errors}", judged.errors[0].hint)

    def slurm_refused(
        self, draft: RecordDraft, judged: Optional[JudgedJob], error: SlurmRefusedError
    ) -> None:
        """Report that sbatch refuses the job; the error is raised afterwards."""

    def submitting(self, draft: RecordDraft, judged: Optional[JudgedJob]) -> None:
        """Report what is submitted, or would be."""

    def submitted(self, draft: RecordDraft, judged: Optional[JudgedJob], done: Submission) -> None:
        """Report the submitted job."""


def judge_job(job: Submittable, reporter: Reporter, *, force: bool = False) -> Optional[JudgedJob]:
    """Judge a job; raises PolicyError for errors without ``force``."""
    judged = job.judge()
    if judged is not None:
        reporter.judged(judged)
        if judged.errors and not force:
            raise reporter.refused(judged.add_to_draft(job.draft), judged)
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

    key: of --key, under which no job was found. Without ``key`` and ``force``, a job of the same
    submission is returned if sbatch's answer about it was lost.

    Raises PolicyError for errors without ``force``, TemplateError, SlurmRefusedError, and
    SlurmUnavailableError, after which the job may be in the queue nevertheless.
    """
    from neuronctl.records.recovery import find_lost_submission
    from neuronctl.submission.transaction import Submission, submit_draft

    write_draft = partial(_write_draft, job, reporter)
    if not dry_run:
        lost = find_lost_submission(write_draft, reporter.tell, anyway=bool(force or key))
        if lost is not None:
            done = Submission.of_record(lost)
            reporter.submitted(lost.draft, None, done)
            return done
    judged = judge_job(job, reporter, force=force)
    draft = write_draft()
    if judged is not None:
        draft = judged.add_to_draft(draft)
    try:
        if dry_run:
            judged = add_sbatch_test(judged, draft, reporter.tell)
        elif judged is not None and judged.verdict and judged.verdict.kind == NOT_KNOWN:
            with contextlib.suppress(SlurmRefusedError):  # sbatch itself reports it below
                judged = add_sbatch_test(judged, draft) or judged
                draft = replace(draft, verdict=str(judged.verdict))
        reporter.submitting(draft, judged)
        if dry_run:
            return None
        if judged is not None and judged.plan.code is not None and judged.plan.code.tree:
            from neuronctl.records.code_snapshot import make_snapshot

            make_snapshot(judged.plan.code)
        variables, cluster = job.variables, job.slurm_cluster
        done = submit_draft(draft, reporter.tell, variables=variables, cluster=cluster, key=key)
    except SlurmRefusedError as error:
        reporter.slurm_refused(draft, judged, error)
        raise
    reporter.submitted(draft, judged, done)
    return done


def _write_draft(job: Submittable, reporter: Reporter) -> RecordDraft:
    return replace(job.draft, script=job.script, command_line=tuple(reporter.command_line))


def add_sbatch_test(
    judged: Optional[JudgedJob], draft: RecordDraft, tell: Optional[Callable[[str], None]] = None
) -> Optional[JudgedJob]:
    """Return the judgement with what ``sbatch --test-only`` says; raise SlurmRefusedError.

    A job is not tested if it has errors, if Slurm was not asked about it, or if it begins with its
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
    if answer.start is not None and answer.start <= time.time() + _NOW:
        return replace(judged, verdict=verdict.tested(CAN_START))
    if answer.unavailable:
        return replace(judged, verdict=verdict.tested(WILL_WAIT))
    means_nothing = ""
    return replace(judged, verdict=verdict.tested(REFUSED if answer.too_small else means_nothing))


_NOW = 60
"""Seconds: if Slurm names a start within these, the job could start now."""
