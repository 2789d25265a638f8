"""neuronctl resubmit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

import click

from neuronctl.cli.job import prepare, refuse_or_warn, show_verdict
from neuronctl.cli.job_options import JobCommand, job_options
from neuronctl.cli.option import option
from neuronctl.cli.say import print_script, said_if_possible, say
from neuronctl.errors import NeuronctlError, SlurmUnavailableError, UsageError
from neuronctl.records.provenance import Provenance
from neuronctl.request.job import Layer
from neuronctl.request.options import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.records.store import JobRecord, RecordDraft

_SHOWN = 40  # lines of a difference that are shown before a submission


@click.command("resubmit", cls=JobCommand)
@click.argument("job", metavar="JOB")
@option("--script-as-recorded", is_flag=True, help="Run the program as it was at the time.")
@option("--script-as-is", is_flag=True, help="Run the program as it is now.")
@option("--dry-run", is_flag=True, help="Stop before sbatch: show the script.")
@option("--force", is_flag=True, help="Go on in spite of what the catalog says.")
@option("--catalog", metavar="FILE", help="Catalog file laid over the others.")
@job_options([one.long for one in OPTIONS])
def command(
    job: str,
    script_as_recorded: bool,
    script_as_is: bool,
    dry_run: bool,
    force: bool,
    catalog: Optional[str],
    **given: Any,
) -> None:
    """Submit a job again, from its record.

    Without further options the recorded script is submitted byte for byte, from the same
    directory. Options override what was asked for at the time, and the job is planned and checked
    anew. What has changed in the directory since (the git commit, the program) is said; where the
    program itself has changed, --script-as-recorded or --script-as-is has to say which one to run.
    """
    from neuronctl.records import provenance as surroundings
    from neuronctl.records import recorded
    from neuronctl.records.store import RecordStore

    if script_as_recorded and script_as_is:
        raise UsageError("--script-as-recorded and --script-as-is exclude each other")
    store = RecordStore.default()
    record = recorded.record_of(store, recorded.one_job(job))
    for warning in store.warnings:
        click.echo(f"neuronctl: {warning}", err=True)
    overrides = any(value not in (None, ()) for value in given.values())
    _enter(record)
    now = surroundings.look(record.draft.request.get("script"), record.cwd)
    then = record.draft.surroundings
    for line in surroundings.drift(then, now):
        click.echo(f"neuronctl: {line}", err=True)
    program = None
    if then.program and not os.path.exists(then.program):
        program = _gone(record, script_as_recorded)
    elif surroundings.program_changed(then, now):
        _show_change(record, now)
        program = _chosen(record, script_as_recorded, script_as_is)
    variables, fields = _missing(record, given)
    if overrides or program is not None:
        layer = recorded.request_layer(record)
        if fields:
            raise UsageError(
                f"the record of job {record.job_id} does not hold {', '.join(fields)}: a secret "
                "in it was masked",
                "submit it with 'neuronctl submit', and hand secrets over in a variable (--env)",
            )
        with _copied(record, program, dry_run):
            _submit_anew(record, layer, given, variables, program, force, dry_run, catalog)
    else:
        if not recorded.is_whole(record):
            raise UsageError(
                f"the script of job {record.job_id} held a secret, which its record does not: it "
                "cannot be submitted byte for byte",
                f"'neuronctl show {record.job_id} --script' prints it with the secret masked; "
                "put the secret into a variable and hand it over with --env NAME",
            )
        _submit_same(record, variables, now, dry_run)


def _enter(record: JobRecord) -> None:
    """The job's directory becomes this process's: rules and paths are looked at from there."""
    cwd = record.cwd
    try:
        os.chdir(cwd)
    except OSError as error:
        raise UsageError(
            f"job {record.job_id} was submitted from {cwd}, which cannot be entered: "
            f"{error.strerror}",
            f"'neuronctl show {record.job_id} --script' prints its script",
        ) from None


def _show_change(record: JobRecord, now: Provenance) -> None:
    from neuronctl.cli.diff import print_diff
    from neuronctl.records import recorded

    then = record.draft.surroundings
    name = os.path.relpath(then.program)
    click.echo(f"neuronctl: the program {name} has changed since job {record.job_id}", err=True)
    text = recorded.program_text(record)
    if text is None or now.program_text is None:
        click.echo("  (what changed cannot be shown: its text is not recorded)", err=True)
        return
    lines = recorded.text_diff(text, now.program_text, f"{name} (job {record.job_id})", name)
    print_diff(lines[:_SHOWN], file=sys.stderr)
    if len(lines) > _SHOWN:
        click.echo(f"  and {len(lines) - _SHOWN} more lines", err=True)


def _gone(record: JobRecord, as_recorded: bool) -> Optional[str]:
    """The recorded program's name where it is asked for; there is nothing else to run."""
    from neuronctl.records import recorded

    program = record.draft.surroundings.program
    if as_recorded:
        return _chosen(record, as_recorded, False)
    raise UsageError(
        f"the program of job {record.job_id} is gone: there is no {program}",
        "put it back, or run it as it was at the time: --script-as-recorded"
        if recorded.program_text(record) is not None
        else "put it back; its text is not in the record",
    )


def _chosen(record: JobRecord, as_recorded: bool, as_is: bool) -> Optional[str]:
    """The program to run in place of the changed one; None: the one that is there now."""
    from neuronctl.records import recorded

    then = record.draft.surroundings
    if not (as_recorded or as_is):
        raise UsageError(
            "the program is another one than it was: which of them is meant?",
            "--script-as-recorded runs it as it was at the time, --script-as-is as it is now",
        )
    if as_is:
        return None
    text = recorded.program_text(record)
    if text is None:
        raise UsageError(
            f"the program of job {record.job_id} is not in its record: it was too long, no text, "
            "or held a secret",
            then.git_commit and f"git may have it: git show {then.git_commit[:12]}:…",
        )
    # Beside the program, since that is where it finds what it imports.
    head, tail = os.path.splitext(then.program)
    script = os.path.relpath(f"{head}.as-of-{then.program_sha256[:8]}{tail}")
    return script if script.endswith(".py") else f"./{script}"


@contextlib.contextmanager
def _copied(record: JobRecord, program: Optional[str], dry_run: bool) -> Iterator[None]:
    """The program as it was, under its new name; it stays unless it is certain that no job has it.

    It has to be there before that, since the rules look at the program.
    """
    text = record.draft.surroundings.program_text
    if program is None or text is None:
        yield
        return
    from neuronctl.files import write_private

    path = os.path.abspath(program)
    there = os.path.exists(path)
    try:
        mode = os.stat(record.draft.surroundings.program).st_mode & 0o777
    except OSError:
        mode = 0o700
    try:
        write_private(path, text, mode=mode)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be written: {error.strerror}") from None
    keep = True
    try:
        yield
        keep = not dry_run
    except SlurmUnavailableError:
        raise  # the job may be in the queue all the same
    except NeuronctlError:
        keep = False
        raise
    finally:
        if keep:
            say(f"neuronctl: wrote {path}: the program as it was")
        elif not there:
            os.unlink(path)


def _missing(record: JobRecord, given: Dict[str, Any]) -> Tuple[List[str], List[str]]:
    """Names of secret variables to take from this shell, and fields that were masked."""
    from neuronctl.records import recorded

    variables, fields = recorded.masked(record)
    given_now = {text.partition("=")[0] for text in given.get("env") or ()}
    variables = [name for name in variables if name not in given_now]
    absent = [name for name in variables if name not in os.environ]
    if absent:
        raise UsageError(
            f"job {record.job_id} was given {', '.join(absent)}, which no record holds",
            f"set it in this shell, or add --env {absent[0]}=…",
        )
    return variables, fields


def _submit_same(record: JobRecord, variables: List[str], now: Provenance, dry_run: bool) -> None:
    draft = dataclasses.replace(
        record.draft,
        command_line=("neuronctl", *sys.argv[1:]),
        findings=(),
        forced=False,
        verdict="",
        surroundings=now,
    )
    click.echo(
        f"neuronctl: the script of job {record.job_id}, byte for byte, from {draft.cwd}", err=True
    )
    if dry_run:
        print_script(draft.script)
        return
    _submit(draft, {name: os.environ[name] for name in variables})


def _submit_anew(
    record: JobRecord,
    layer: Layer,
    given: Dict[str, Any],
    variables: List[str],
    program: Optional[str],
    force: bool,
    dry_run: bool,
    catalog: Optional[str],
) -> None:
    from neuronctl.records import recorded
    from neuronctl.records.store import draft_of
    from neuronctl.rendering.render import render_job

    if program is not None:
        # Its name is the program's of then, not the copy's.
        values = {"job_name": record.job_name, **layer.values, "script": program}
        layer = Layer(values, {name: layer.origins["script"] for name in values})
    given = {**given, "env": (*(given.get("env") or ()), *variables)}
    job = prepare(given, catalog_file=catalog, job_file=None, recorded=layer)
    refuse_or_warn(job, force=force)
    script = render_job(job.plan)
    draft = draft_of(
        job.plan,
        script=script,
        command_line=["neuronctl", *sys.argv[1:]],
        cwd=record.cwd,
        findings=job.findings,
        forced=force and bool(job.errors),
        verdict=str(job.verdict),
    )
    for name, before, after in recorded.changed_decisions(record.draft.decisions, draft.decisions):
        click.echo(f"neuronctl: {name}: {before or 'none'} -> {after or 'none'}", err=True)
    show_verdict(job)
    if dry_run:
        print_script(script)
        return
    _submit(draft, job.plan.secrets)


def _submit(draft: RecordDraft, secrets: Dict[str, str]) -> None:
    from neuronctl.cli.submit import submit_draft

    job_id, _ = submit_draft(draft, secrets)
    with said_if_possible(f"job {job_id} is submitted"):
        _show_submitted(job_id, draft)


def _show_submitted(job_id: int, draft: RecordDraft) -> None:
    from neuronctl.units import expand_log_pattern
    from neuronctl.users import login_name

    click.echo(f"Submitted batch job {job_id} to {draft.partition}")
    patterns = {"log": draft.output, "errors": draft.error or draft.output}
    for name, pattern in patterns.items():
        if name == "log" or pattern != draft.output:
            path = expand_log_pattern(
                pattern,
                job_id=job_id,
                job_name=draft.job_name,
                user=login_name(),
                node="%N",
                any_task=draft.array is not None,
            )
            click.echo(f"  {name:<7} {path}")
    follow = "logs -f" if draft.array is None else "status --watch"
    click.echo(f"  follow  neuronctl {follow} {job_id}")
