"""``neuronctl serve``: a server in a job, reached from one's own machine."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Optional, Tuple

import click

from neuronctl.cli.job_options import BatchCommand, job_command, plan_given
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import hint_at_why, notify
from neuronctl.common import console, errors
from neuronctl.common.console import Column, print_json, print_line, shortened
from neuronctl.common.datatypes import asdict, replace
from neuronctl.common.errors import UsageError
from neuronctl.common.units import parse_timeout
from neuronctl.common.words import moment
from neuronctl.submission.pipeline import submit_job

if TYPE_CHECKING:
    from neuronctl.catalog.cluster import Cluster
    from neuronctl.records.store import JobRecord
    from neuronctl.serving.server_state import Note
    from neuronctl.slurm.job_id import JobId
    from neuronctl.submission.transaction import Submission
    from neuronctl.tracking.follow import JobWatch


class _Serve(BatchCommand):
    """``serve RECIPE``, ``serve connect``, and ``serve list``.

    Options of the job may follow the recipe; what follows ``--`` is the server's.
    """

    def hint_at_option(self, option: str, other: str) -> str:
        """Return a near option of ours, or where an option of the server belongs."""
        ours = "options of the server follow --: neuronctl serve RECIPE -- ARGS"
        return ours if other.startswith("see") else other

    def make_context(self, info_name: Any, args: Any, *more: Any, **extra: Any) -> click.Context:
        if args[:1] in (["connect"], ["list"]):
            other = connect if args[0] == "connect" else list_servers
            return other.make_context(f"{info_name} {args[0]}", args[1:], *more, **extra)
        extra["allow_interspersed_args"] = True
        return super().make_context(info_name, args, *more, **extra)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.serve/2)."
)


@job_command("serve", cls=_Serve)
@click.option(
    "--ready-within", metavar="TIME", help="End a server that does not answer within TIME."
)
@click.option("--list", "list_recipes", is_flag=True, help="List the recipes.")
@json_option
@click.option("--dry-run", is_flag=True, help="Stop before sbatch; print the script.")
@click.argument("words", metavar="RECIPE [-- ARGS]...", nargs=-1, type=click.UNPROCESSED)
def command(
    words: Tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    list_recipes: bool,
    ready_within: Optional[str],
    force: bool,
    explain: bool,
    **given: Any,
) -> int:
    """Run a notebook, an editor, or another server in a job.

    RECIPE is a kind of server, such as jupyter or ssh; ARGS go to the server. When the server
    answers, neuronctl prints the tunnel command and the URL. 'neuronctl serve connect [JOB]' prints
    them again, and 'neuronctl serve list' lists your servers. Ctrl-C stops the wait; the server
    keeps running.
    """
    if list_recipes:
        return _list_recipes()
    if not words:
        raise UsageError("no recipe is named", "see 'neuronctl serve --list'")
    from neuronctl.serving.recipes import load
    from neuronctl.serving.server_job import make_place, plan_server
    from neuronctl.slurm.job_id import JobId

    recipe = load(words[0])
    within = _seconds("--ready-within", ready_within)
    if within:
        recipe = replace(recipe, ready_within=within)
    job, settings = plan_server(
        recipe,
        words[1:],
        lambda more: plan_given({**given, **more}),
        idle=_seconds("--idle", given.pop("idle")),
    )
    if job.plan.most_nodes > 1 and not recipe.launcher:
        notify(f"warning: {recipe.name} runs on one node, and the job gets {job.plan.most_nodes}")
    if not dry_run:
        make_place(settings)
    reporter = _Reporter(SubmitMode(dry_run, as_json), explain=explain)
    umask = os.umask(0o077)  # Slurm creates the log with it
    try:
        done = submit_job(job, reporter, force=force, dry_run=dry_run)
    finally:
        os.umask(umask)
    if done is None:
        return 0
    return _wait(JobId(done.job_id), done.record, job.plan.cluster, as_json)


def _list_recipes() -> int:
    from neuronctl.serving.recipes import load, names

    for name in names():
        try:
            print_line(f"{name:12}  {load(name).title}")
        except errors.TemplateError as error:
            notify(error.message)
    return 0


def _seconds(option: str, text: Optional[str]) -> int:
    """Return the seconds of an option, or 0."""
    try:
        return 0 if text is None else parse_timeout(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


@click.command("connect")
@click.argument("job", metavar="[JOB]", default="")
@json_option
def connect(job: str, as_json: bool) -> int:
    """Print again how to reach a server, once it answers.

    JOB is a job id, or the name of a job; without it, your newest running server.
    """
    from neuronctl.catalog.loader import load, recognise
    from neuronctl.cli.jobs import one_job
    from neuronctl.records.store import RecordStore
    from neuronctl.serving.server_state import MARK

    store = RecordStore.default()
    id = one_job(job, store) if job else _newest_server()
    record = store.get(id.job)
    script = "" if record is None else record.draft.script
    if "watch_server &" in script:
        raise UsageError(
            f"an older neuronctl started server {id}, and this one cannot read its notes",
            f"neuronctl cancel {id}, and start it again with 'neuronctl serve'",
        )
    if MARK not in script:
        raise UsageError(
            f"job {id} is not a server of yours", "'neuronctl serve RECIPE' starts one"
        )
    return _wait(id, record, recognise(load(None), None)[0], as_json, again=True)


def _newest_server() -> JobId:
    from neuronctl.serving.server_state import list_servers
    from neuronctl.slurm.job_states import RUNNING
    from neuronctl.tracking.lookup import queued

    numbers = list_servers()
    running = [job.id for job in queued() if job.state == RUNNING and job.id.job in numbers]
    if not running:
        raise errors.NoSuchJobError(
            "no server of yours is running", "name one that is waiting, or start one: see --list"
        )
    return max(running, key=lambda id: id.job)


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.servers/1).")
def list_servers(as_json: bool) -> int:
    """List your servers: where each listens, since when it answers, and how it ended.

    USER is whose the port is. A server that has ended stays in the list for a week.
    """
    from neuronctl.serving.server_state import find_all_servers

    notes = find_all_servers()
    if as_json:
        servers = [{"job_id": str(note.job), **asdict(note)} for note in notes]
        for server in servers:
            for name in ("job", "token", "values", "pid", "python", "program"):
                del server[name]
        print_json("neuronctl.servers/1", {"servers": servers})
        return 0
    if not notes:
        print_line("no servers of yours, running or ended within a week")
        return 0
    columns = [Column(name, no_wrap=True) for name in ("JOB", "NAME")]
    columns += [Column("STATE")]
    columns += [Column(name, no_wrap=True) for name in ("ADDRESS", "USER", "READY SINCE")]
    rows = []
    for note in notes:
        since = moment(int(note.since)) if note.since else "never"
        row = [str(note.job), shortened(note.name, 16), note.summary, note.place, note.user, since]
        rows.append(row)
    console.print_table(columns, rows)
    return 0


class _Reporter(TerminalReporter):
    """Keeps standard output free for the connection."""

    def submitted(self, draft: Any, judged: Any, done: Submission) -> None:
        notify(f"submitted batch job {done.job_id}; its log: {done.output}")


def _wait(
    job: JobId, record: Optional[JobRecord], cluster: Cluster, as_json: bool, *, again: bool = False
) -> int:
    """Wait for the server's first answer, and print how to reach it; returns the exit code.

    again: whether its log was shown before; then only its end is.
    """
    from neuronctl.serving.server_state import (
        ANSWERS,
        BY_SLURM,
        UNKNOWN,
        read_note,
        wait_for_server,
    )
    from neuronctl.tracking.follow import JobWatch

    watch = JobWatch(job, record)
    progress = _Progress(watch, only_end=again)
    try:
        note = wait_for_server(watch, progress.show, progress.show_log)
    except KeyboardInterrupt:
        progress.show("")
        notify(
            f"stopped waiting; the job continues: neuronctl serve connect {job} waits again, "
            f"neuronctl cancel {job} ends it"
        )
        return errors.INTERRUPTED
    progress.show("")
    if note is None:
        from neuronctl.cli.why import explain_end

        progress.show_log(last=True)
        notify(watch.last_words())
        note = read_note(job.job)
        if note is not None and note.words not in ("", BY_SLURM):
            notify(note.summary)
        explain_end(watch.statuses, file=sys.stderr)
        hint_at_why([job])
        return watch.exit_status or 1
    if note.state == UNKNOWN:
        raise errors.SlurmUnavailableError(
            f"it is not known whether {note.recipe} of job {job} answers: {note.words}",
            "try again in a few seconds",
        )
    if note.state != ANSWERS:
        notify(f"job {job}: {note.summary}")
        notify(f"its log: neuronctl logs {job}; 'neuronctl cancel {job}' ends it")
        return 1
    _print_connection(note, cluster, as_json)
    return 0


def _print_connection(note: Note, cluster: Cluster, as_json: bool) -> None:
    from neuronctl.serving import server_state

    connection = server_state.connect(note, cluster)
    if as_json:
        shown = ("name", "recipe", "node", "address", "port", "token")
        data = {"job_id": str(note.job), **{name: getattr(note, name) for name in shown}}
        print_json("neuronctl.serve/2", {**data, **asdict(connection)})
        return
    print_line(f"{note.recipe} answers: job {note.job}, port {note.port} of {note.node}")
    if connection.tunnel:
        print_line("  on your machine, and leave it running:")
        print_line(f"    {connection.tunnel}")
        is_page = connection.url.startswith("http") and "//127.0.0.1:" not in connection.url
        print_line(f"  then {'open' if is_page else 'use '}  {connection.url}")
        login = f"after 'neuronctl login {cluster.name}', without another password"
        print_line(f"  or, {login}:  neuronctl --on {cluster.name} serve connect {note.job}")
    for line in connection.text.split("\n") if connection.text else ():
        print_line(f"  {line}".rstrip())


_SHORT = 3.0  # seconds of waiting before the log is shown


class _Progress:
    """Shows a wait on standard error: the job's state and, after a while, its log.

    The state is redrawn on a terminal, and elsewhere printed when it changes.
    """

    def __init__(self, watch: JobWatch, *, only_end: bool) -> None:
        from neuronctl.tracking.follow import GrowingLog

        self._watch = watch
        self._begun = time.monotonic()
        self._shown = ""
        self._only_end = only_end
        self._logs = [GrowingLog(sys.stderr.buffer, err=err) for err in (False, True)]
        self._rest = [b"", b""]

    def show(self, state: str) -> None:
        """Show a state; "" clears the line."""
        if sys.stderr.isatty():
            waited = f" ({time.monotonic() - self._begun:.0f} s)" if state else ""
            line = shortened(state, console.terminal_width() - len(waited) - 1) + waited
            sys.stderr.write(f"\r\033[K{console.printable(line)}")
            sys.stderr.flush()
        elif state not in ("", self._shown):
            notify(state)
            self._shown = state

    def show_log(self, *, last: bool = False) -> None:
        """Show the new whole lines, unless the wait is short. last: show the rest, too."""
        if not last and time.monotonic() - self._begun < _SHORT:
            return
        for place, log in enumerate(self._logs):
            if log.path is None:
                log.path = self._watch.log_path(log.err)
                with contextlib.suppress(OSError):
                    size = os.stat(log.path or "").st_size
                    log.position = max(0, size - 4096) if self._only_end else 0
            if place and log.path == self._logs[0].path:
                continue  # both streams go to one file
            *lines, self._rest[place] = (self._rest[place] + log.read()).split(b"\n")
            lines += [self._rest[place]] if last and self._rest[place] else []
            for line in lines[-10:] if self._only_end else lines:
                self.show("")
                sys.stderr.write(console.printable(f"  | {line.decode('utf-8', 'replace')}") + "\n")
