"""What submit and resubmit, and partly generate and salloc, do alike: judge, submit, report."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

import click

from neuronctl.cli import job_output
from neuronctl.cli.say import notify, print_script, said_if_possible
from neuronctl.console import print_json
from neuronctl.errors import PolicyError, SlurmRefusedError, UsageError
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan
from neuronctl.request.job import Source
from neuronctl.shell import join
from neuronctl.submission.prepare import (
    PlannedJob,
    PreparedJob,
    judge,
    judge_refused,
    judge_without_slurm,
)
from neuronctl.words import counted

if TYPE_CHECKING:
    from neuronctl.gate.verdict import Verdict
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.submission.transaction import Submission


@dataclass(frozen=True)
class SubmitMode:
    """How far to go with a job, and what to print of it."""

    dry_run: bool
    as_json: bool
    follow: bool
    wait: bool


def submission_options(function: Callable[..., int]) -> Callable[..., int]:
    """--dry-run, --json, --follow and --wait, as the argument ``mode``."""

    @functools.wraps(function)
    def call(*, dry_run: bool, as_json: bool, follow: bool, wait: bool, **rest: Any) -> int:
        if follow and (wait or as_json):
            raise UsageError(
                "--follow cannot be combined with --wait or --json", "keep one of them"
            )
        return function(mode=SubmitMode(dry_run, as_json, follow, wait), **rest)

    for name, help in (
        ("--wait", "Wait until the job ends, and say how it ended."),
        ("--follow", "Show states and log until the job ends."),
        ("--json", "Print JSON (schema neuronctl.submit/1)."),
        ("--dry-run", "Stop before sbatch; print the script."),
    ):
        parameter = "as_json" if name == "--json" else name[2:].replace("-", "_")
        call = click.option(name, parameter, is_flag=True, help=help)(call)
    return call


def judge_and_report(
    planned: PlannedJob,
    *,
    force: bool,
    explain: bool = False,
    reviewed: bool = False,
    dry_run: bool = False,
    mode: Optional[SubmitMode] = None,
) -> PreparedJob:
    """Judge a plan and say what was found; raises PolicyError for errors without ``force``.

    reviewed: without Slurm. dry_run: with Slurm's limits as they are now, since no answer of
    sbatch follows; ``mode`` says it too.
    """
    job_output.show_choice(planned)
    fresh = dry_run or (mode is not None and mode.dry_run)
    job = judge_without_slurm(planned) if reviewed else judge(planned, fresh=fresh)
    if explain:
        # On standard error: the script may go into a file.
        job_output.print_decisions(record_draft(job, "").decisions, sys.stderr)
    conda = job.plan.decision("conda")
    if conda is not None and fresh:
        notify(f"--conda {conda.value}: {conda.reason}")
    job_output.show_findings(job)
    if not force:
        refuse_errors(job, mode, lambda: record_draft(job, ""))
    return job


def record_draft(job: PreparedJob, script: str, submit_dir: str = "") -> RecordDraft:
    """The record of this command line's job, as it is before sbatch."""
    from neuronctl.submission.transaction import record_draft

    argv = ["neuronctl", *sys.argv[1:]]
    return record_draft(job, script, command_line=argv, submit_dir=submit_dir)


def submit(
    mode: SubmitMode,
    drafted: RecordDraft,
    secrets: Mapping[str, str],
    again: Callable[[], PreparedJob],
    job: Optional[PreparedJob] = None,
    cluster: Optional[str] = None,
) -> Optional[Submission]:
    """Submit a draft and report it, or with --dry-run show it: None.

    again: judges the job anew, for a second look where sbatch refuses it. job: the judged job, None
    where a recorded script is submitted byte for byte. cluster: Slurm's, where it is not this one.
    """
    if job is not None:
        would = "would submit" if mode.dry_run else "submitting"
        summary = _summary(job.plan, of_script=bool(drafted.sbatch))
        where = f" to {job.plan.partition_list}" if job.plan.partition_list else ""
        notify(f"{would}{where}: {summary}")
        job_output.show_verdict(job)
    if mode.dry_run:
        if mode.as_json:
            _print_data(drafted, job)
        else:
            print_script(drafted.script)
            if drafted.sbatch:
                notify(f"the command is: {join(drafted.sbatch)}")
        return None
    from neuronctl.submission.transaction import submit_draft

    try:
        done = submit_draft(drafted, secrets, notify, cluster=cluster)
    except SlurmRefusedError as error:
        _explain_refusal(error, mode, drafted, again, job)
        raise
    with said_if_possible(f"job {done.job_id} is submitted"):
        if mode.as_json:
            _print_data(drafted, job, done)
        else:
            job_output.show_submission(done)
    return done


def watch(mode: SubmitMode, done: Optional[Submission]) -> int:
    """With --follow or --wait, wait for the job's end; returns the exit code."""
    if done is None or not (mode.follow or mode.wait):
        return 0
    from neuronctl.slurm.job_id import JobId

    job = JobId(done.job_id)
    if mode.follow:
        from neuronctl.cli.follow import follow

        return follow(job, done.record)
    from neuronctl.tracking.follow import wait

    return wait(job, done.record, notify)


def _explain_refusal(
    error: SlurmRefusedError,
    mode: SubmitMode,
    drafted: RecordDraft,
    again: Callable[[], PreparedJob],
    job: Optional[PreparedJob],
) -> None:
    """Tell why sbatch refused, where a second look finds it; raises PolicyError then."""
    from neuronctl.gate.verdict import REFUSED, Verdict

    now = judge_refused(job, again)
    if now is not None:
        notify(error.message)
        job_output.show_findings(now)
        refuse_errors(now, mode, lambda: drafted)
    if mode.as_json:
        _print_data(drafted, job, verdict=Verdict(REFUSED, error.message))


def refuse_errors(
    job: PreparedJob, mode: Optional[SubmitMode], drafted: Callable[[], RecordDraft]
) -> None:
    """Raise PolicyError where there are errors, with ``--json`` behind the data of the draft."""
    try:
        job.refuse_errors("use --force to override")
    except PolicyError:
        if mode is not None and mode.as_json:
            _print_data(drafted(), job)
        raise


def _print_data(
    drafted: RecordDraft,
    job: Optional[PreparedJob],
    done: Optional[Submission] = None,
    verdict: Optional[Verdict] = None,
) -> None:
    from neuronctl.cli.json_data import submission_data

    if verdict is None and job is not None:
        verdict = job.verdict
    print_json("neuronctl.submit/1", submission_data(drafted, job, done, verdict))


def _summary(plan: JobPlan, *, of_script: bool = False) -> str:
    """``2 nodes x 2 GPUs, 1 task x 16 cores per node, at most 00:10:00``, and what starts.

    of_script: of somebody's own script, which starts what it starts.
    """
    launches = () if of_script else plan.launches
    gpus = f" x {counted(plan.gpus_per_node, 'GPU')}" if plan.gpus_per_node else ""
    ranged = f"{plan.nodes} to {plan.most_nodes} nodes"
    parts = [(ranged if plan.most_nodes > plan.nodes else counted(plan.nodes, "node")) + gpus]
    tasks, cores = counted(plan.ntasks_per_node, "task"), counted(plan.cpus_per_task, "core")
    cores = "the cores that Slurm gives" if plan.request.cpus_per_task == 0 else cores
    each = plan.cluster.cores_per_gpu(plan.partition)
    # With --force there may be more GPUs than a node has, and cores for those it has only.
    by_gpu = each is not None and 0 < plan.gpus_per_node * each == plan.cores_per_node
    ratio = f" ({each} per GPU)" if by_gpu and _derived(plan, "cpus-per-task") else ""
    parts.append(f"{tasks} x {cores} per node{ratio}")
    memory = plan.decision("memory per node")
    if memory is not None:
        fraction = plan.cluster.policy.memory_fraction
        parts.append(f"{memory.value} per node ({fraction} x node memory / cores)")
    time = next((directive for directive in plan.directives if directive.option == "time"), None)
    if time is not None:
        remark = f" ({time.remark})" if time.remark and _derived(plan, "time") else ""
        parts.append(f"at most {time.value}{remark}")
    # What starts several times is always named.
    several = [launch.starts for launch in launches if launch.starts_several]
    once = [launch.starts for launch in launches if not launch.starts_several]
    if len(once) > 2:
        once[1:] = [f"and {len(once) - 1} more start once"]
    return "; ".join([", ".join(parts), *dict.fromkeys(several), *once])


def _derived(plan: JobPlan, name: str) -> bool:
    decision = plan.decision(name)
    return decision is not None and decision.source is Source.DERIVED
