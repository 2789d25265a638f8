"""``neuronctl submit``: check, render, sbatch, record."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import click

from neuronctl.cli import job_output
from neuronctl.cli.job_options import BEHIND_DASHES, job_command, program_arguments
from neuronctl.cli.say import print_script, said_if_possible, say
from neuronctl.errors import PolicyError, SlurmRefusedError, UsageError
from neuronctl.request.job import Source
from neuronctl.submission.prepare import judge, plan_job
from neuronctl.words import counted

if TYPE_CHECKING:
    from neuronctl.planning import JobPlan
    from neuronctl.submission.prepare import PreparedJob
    from neuronctl.submission.transaction import Submission


@job_command("submit")
@click.option("--dry-run", is_flag=True, help="Stop before sbatch; print the script.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.submit/1).")
@click.option("--follow", is_flag=True, help="Show states and log until the job ends.")
@click.option("--wait", is_flag=True, help="Wait silently until the job ends.")
@program_arguments
def command(
    words: Tuple[str, ...],
    job_file: Optional[str],
    catalog: Optional[str],
    template: Optional[str],
    force: bool,
    explain: bool,
    dry_run: bool,
    as_json: bool,
    follow: bool,
    wait: bool,
    **options: Any,
) -> int:
    """Check a job, submit it with sbatch, and record it.

    With --follow or --wait, neuronctl exits with the job's own exit code.
    """
    if follow and (wait or as_json):
        raise UsageError("--follow cannot be combined with --wait or --json", "keep one of them")
    if "--dry-run" in words[1:] and not click.get_current_context().meta[BEHIND_DASHES]:
        raise UsageError(
            f"--dry-run follows {words[0]} and would be passed to it: the job would be submitted",
            f"put it before {words[0]}; to pass it to the program, put -- before {words[0]}",
        )
    planned = plan_job(options, words=words, catalog_file=catalog, job_file=job_file)
    job_output.show_choice(planned)
    job = judge(planned)
    # Not before: they are imported while Slurm answers.
    from neuronctl.rendering.render import render_job
    from neuronctl.submission.transaction import draft, submit_draft

    if explain:
        job_output.show_explanation(planned)
    job_output.show_findings(job)
    try:
        if not force:
            job.refuse_errors(job_output.OVERRIDE)
    except PolicyError:
        if as_json:
            _print_data(job)
        raise
    script = render_job(job.plan, template=template)
    would = "would submit" if dry_run else "submitting"
    say(f"neuronctl: {would} to {job.plan.partition.name}: {_summary(job.plan)}")
    job_output.show_verdict(job)
    if dry_run:
        if as_json:
            _print_data(job, script=script)
        else:
            print_script(script)
        return 0
    try:
        drafted = draft(job, script, command_line=["neuronctl", *sys.argv[1:]])
        submission = submit_draft(drafted, job.plan.secrets, job_output.notify)
    except SlurmRefusedError as error:
        if as_json:
            _print_data(_refused(job, error))
        raise
    with said_if_possible(f"job {submission.job_id} is submitted"):
        if as_json:
            _print_data(job, submission, script)
        else:
            job_output.show_submission(submission)
    if follow:
        from neuronctl.tracking.follow import follow as follow_job

        return follow_job(submission.job_id, submission.record)
    if wait:
        from neuronctl.tracking.follow import wait as wait_for_job

        return wait_for_job(submission.job_id, submission.record)
    return 0


def _refused(job: PreparedJob, error: SlurmRefusedError) -> PreparedJob:
    """The job with Slurm's own verdict in place of the one before it."""
    from neuronctl.gate.verdict import REFUSED, Verdict

    return dataclasses.replace(job, verdict=Verdict(REFUSED, error.message))


def _summary(plan: JobPlan) -> str:
    """``2 nodes x 2 GPUs, 1 task x 16 cores per node, at most 00:10:00``."""
    gpus = f" x {counted(plan.gpus_per_node, 'GPU')}" if plan.gpus_per_node else ""
    parts = [counted(plan.nodes, "node") + gpus]
    tasks, cores = counted(plan.ntasks_per_node, "task"), counted(plan.cpus_per_task, "core")
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
    return ", ".join(parts)


def _derived(plan: JobPlan, name: str) -> bool:
    decision = plan.decision(name)
    return decision is not None and decision.source is Source.DERIVED


def _logs(plan: JobPlan, submission: Optional[Submission]) -> Dict[str, str]:
    """The log files; their patterns where there is no job yet, and of an array."""
    if submission is not None:
        return {"output": submission.output, "error": submission.error}
    return {"output": plan.output or "", "error": plan.error or plan.output or ""}


def _print_data(
    job: PreparedJob, submission: Optional[Submission] = None, script: Optional[str] = None
) -> None:
    from neuronctl.cli.json_data import candidates_data, findings_data, verdict_data
    from neuronctl.console import print_json

    plan = job.plan
    data = {
        "job_id": None if submission is None else submission.job_id,
        "cluster": plan.cluster.name,
        "partition": plan.partition.name,
        "job_name": plan.job_name,
        "nodes": plan.nodes,
        "ntasks_per_node": plan.ntasks_per_node,
        "cpus_per_task": plan.cpus_per_task,
        "gpus_per_node": plan.gpus_per_node,
        "time_limit": plan.time_limit,
        "launcher": plan.launcher.name,
        "logs": _logs(plan, submission),
        "decisions": [
            {
                "name": decision.name,
                "value": decision.value,
                "source": decision.source.value,
                "why": decision.why,
            }
            for decision in plan.decisions
        ],
        "verdict": verdict_data(job.verdict),
        "choice": candidates_data(job.candidates),
        "findings": findings_data(job.findings),
        "script": script,
    }
    print_json("neuronctl.submit/1", data)
