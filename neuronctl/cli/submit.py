"""``neuronctl submit``: check, render, sbatch, record."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Mapping, Optional, Tuple

import click

from neuronctl.cli.job import (
    Job,
    choice_data,
    findings_data,
    prepare,
    refuse_or_warn,
    show_explanation,
    show_verdict,
    verdict_data,
)
from neuronctl.cli.job_options import BEHIND_DASHES, job_command, program_arguments
from neuronctl.cli.option import option
from neuronctl.cli.say import print_script, said_if_possible, say
from neuronctl.errors import (
    NeuronctlError,
    PolicyError,
    RecordError,
    SlurmRefusedError,
    SlurmUnavailableError,
    UsageError,
)
from neuronctl.request.job import Source
from neuronctl.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.planning import JobPlan
    from neuronctl.records.store import JobRecord, RecordDraft


@job_command("submit")
@option("--dry-run", is_flag=True, help="Stop before sbatch: show what would be done.")
@option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@option("--follow", is_flag=True, help="Show states and log until the job ends.")
@option("--wait", is_flag=True, help="Wait for the end without a word.")
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
    **given: Any,
) -> int:
    """Check a job against the catalog, submit it with sbatch, and record it.

    With --follow or --wait neuronctl ends with the job's own exit code.
    """
    if follow and (wait or as_json):
        raise UsageError("--follow goes with neither --wait nor --json", "keep one of them")
    if "--dry-run" in words[1:] and not click.get_current_context().meta[BEHIND_DASHES]:
        raise UsageError(
            f"--dry-run stands behind {words[0]} and goes to it: the job would be submitted",
            f"put it before {words[0]}; or -- before {words[0]}, where the program is to have it",
        )
    job = prepare(given, words=words, catalog_file=catalog, job_file=job_file)
    # Not before: they are imported while Slurm is asked.
    from neuronctl.records.store import draft_of
    from neuronctl.rendering.render import render_job

    if explain:
        show_explanation(job)
    try:
        refuse_or_warn(job, force=force)
    except PolicyError:
        if as_json:
            _print_data(job, None, None, _logs(job, None, None))
        raise
    script = render_job(job.plan, template=template)
    cwd = os.getcwd()
    _show_summary(job, dry_run)
    show_verdict(job)
    if dry_run:
        _show_dry_run(job, script, as_json)
        return 0
    draft = draft_of(
        job.plan,
        script=script,
        command_line=["neuronctl", *sys.argv[1:]],
        cwd=cwd,
        findings=job.findings,
        forced=force and bool(job.errors),
        verdict=str(job.verdict),
    )
    try:
        job_id, record = submit_draft(draft, job.plan.secrets)
    except SlurmRefusedError as error:
        if as_json:
            _print_data(_refused(job, error), None, None, _logs(job, None, None))
        raise
    with said_if_possible(f"job {job_id} is submitted"):
        _show_submitted(job, job_id, record, script, as_json)
    if follow:
        from neuronctl.tracking.follow import follow as follow_job

        return follow_job(job_id)
    if wait:
        from neuronctl.tracking.follow import wait as wait_for_job

        return wait_for_job(job_id)
    return 0


def _refused(job: Job, error: SlurmRefusedError) -> Job:
    """The job with Slurm's own verdict, whatever the one before it was."""
    import dataclasses

    from neuronctl.gate.verdict import REFUSED, Verdict

    return dataclasses.replace(job, verdict=Verdict(REFUSED, error.message))


def submit_draft(draft: RecordDraft, secrets: Mapping[str, str]) -> Tuple[int, Optional[JobRecord]]:
    """sbatch between two writes of the record; a record that cannot be kept is only a warning.

    secrets: variables that the job gets and no record holds.
    """
    from neuronctl.records.recovery import recover
    from neuronctl.records.store import RecordStore
    from neuronctl.slurm.cluster import local_cluster
    from neuronctl.slurm.process import installed
    from neuronctl.slurm.sbatch import sbatch

    key: Optional[str] = None
    store: Optional[RecordStore] = None
    try:
        store = RecordStore.default()
        for note in recover(store):
            say(f"neuronctl: {note}")
        key = store.begin(draft)
    except RecordError as error:
        _warn(error)
    try:
        submitted = sbatch(draft.script, mark=key or "", cwd=draft.cwd, environment=secrets)
    except KeyboardInterrupt:
        say(
            "neuronctl: interrupted while sbatch ran: the job may be in the queue "
            "('neuronctl status' shows it)",
        )
        raise
    except (SlurmRefusedError, SlurmUnavailableError) as error:
        # Only then is it certain that there is no job; any other error leaves the intent.
        certain = isinstance(error, SlurmRefusedError) or not installed()
        if certain and store is not None and key is not None:
            try:
                store.failed(key, error.message)
            except RecordError as problem:
                _warn(problem)
        raise
    if submitted.warnings:
        say(f"sbatch: {submitted.warnings}")
    record: Optional[JobRecord] = None
    if store is not None and key is not None:
        try:
            cluster = submitted.cluster or local_cluster()
            record = store.complete(key, submitted.job_id, cluster)
        except RecordError as error:
            _warn(error)
    return submitted.job_id, record


def _warn(error: NeuronctlError) -> None:
    say(f"neuronctl: warning: {error.message}")
    if error.hint:
        say(f"  hint: {error.hint}")


def _summary(job: Job) -> str:
    """``2 nodes x 2 GPUs, 1 task x 16 cores a node, at most 00:10:00``."""
    plan = job.plan
    gpus = f" x {counted(plan.gpus_per_node, 'GPU')}" if plan.gpus_per_node else ""
    parts = [counted(plan.nodes, "node") + gpus]
    tasks, cores = counted(plan.ntasks_per_node, "task"), counted(plan.cpus_per_task, "core")
    each = plan.cluster.cores_per_gpu(plan.partition)
    # With --force there may be more GPUs than a node has, and cores for those it has only.
    by_gpu = each is not None and 0 < plan.gpus_per_node * each == plan.cores_per_node
    ratio = f" ({each} a GPU)" if by_gpu and _derived(plan, "cpus-per-task") else ""
    parts.append(f"{tasks} x {cores} a node{ratio}")
    memory = plan.decision("memory per node")
    if memory is not None:
        fraction = plan.cluster.policy.memory_fraction
        parts.append(f"{memory.value} a node ({fraction} x node memory / cores)")
    time = next((one for one in plan.directives if one.option == "time"), None)
    if time is not None:
        remark = f" ({time.remark})" if time.remark and _derived(plan, "time") else ""
        parts.append(f"at most {time.value}{remark}")
    return ", ".join(parts)


def _show_summary(job: Job, dry_run: bool) -> None:
    would = "would submit" if dry_run else "submitting"
    say(f"neuronctl: {would} to {job.plan.partition.name}: {_summary(job)}")


def _derived(plan: JobPlan, name: str) -> bool:
    decision = plan.decision(name)
    return decision is not None and decision.source is Source.DERIVED


def _logs(job: Job, job_id: Optional[int], record: Optional[JobRecord]) -> Dict[str, str]:
    """The log files; with the job's id filled in where there is one.

    Of an array they are patterns: each task has files of its own.
    """
    plan = job.plan
    files = {"output": plan.output or "", "error": plan.error or plan.output or ""}
    if job_id is None:
        return files
    if record is not None and not plan.request.array:
        return {"output": record.log_path(), "error": record.log_path(err=True)}
    from neuronctl.units import expand_log_pattern
    from neuronctl.users import login_name

    return {
        name: os.path.join(
            os.getcwd(),
            expand_log_pattern(
                pattern,
                job_id=job_id,
                job_name=plan.job_name,
                user=login_name(),
                node="%N",
                any_task=bool(plan.request.array),
            ),
        )
        for name, pattern in files.items()
    }


def _print_data(
    job: Job, job_id: Optional[int], script: Optional[str], logs: Dict[str, str]
) -> None:
    from neuronctl.console import print_json

    plan = job.plan
    data = {
        "job_id": job_id,
        "cluster": plan.cluster.name,
        "partition": plan.partition.name,
        "job_name": plan.job_name,
        "nodes": plan.nodes,
        "ntasks_per_node": plan.ntasks_per_node,
        "cpus_per_task": plan.cpus_per_task,
        "gpus_per_node": plan.gpus_per_node,
        "time_limit": plan.time_limit,
        "launcher": plan.launcher.name,
        "logs": logs,
        "decisions": [
            {"name": one.name, "value": one.value, "source": one.source.value, "why": one.why}
            for one in plan.decisions
        ],
        "verdict": verdict_data(job.verdict),
        "choice": choice_data(job.choice),
        "findings": findings_data(job.findings),
        "script": script,
    }
    print_json("neuronctl.submit/1", data)


def _show_dry_run(job: Job, script: str, as_json: bool) -> None:
    logs = _logs(job, None, None)
    if as_json:
        _print_data(job, None, script, logs)
        return
    print_script(script)


def _show_submitted(
    job: Job, job_id: int, record: Optional[JobRecord], script: str, as_json: bool
) -> None:
    logs = _logs(job, job_id, record)
    if as_json:
        _print_data(job, job_id, script, logs)
        return
    click.echo(f"Submitted batch job {job_id} to {job.plan.partition.name}")
    click.echo(f"  log     {logs['output']}")
    if logs["error"] != logs["output"]:
        click.echo(f"  errors  {logs['error']}")
    # Each task of an array has a log of its own.
    follow = "status --watch" if job.plan.request.array else "logs -f"
    click.echo(f"  follow  neuronctl {follow} {job_id}")
