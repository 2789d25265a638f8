"""``neuronctl serve``: a server in a job, reached from one's own machine."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Any, Optional, Tuple

import click

from neuronctl.catalog.cluster import Cluster
from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.cli.job_options import BatchCommand, job_command, plan_given
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.jobs import resolve_job
from neuronctl.cli.say import hint_at_why, notify
from neuronctl.cli.why import explain_end
from neuronctl.common import console, errors
from neuronctl.common.console import Column, print_json, print_line, shortened
from neuronctl.common.datatypes import asdict, replace
from neuronctl.common.errors import UsageError
from neuronctl.common.units import parse_timeout
from neuronctl.common.words import moment
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.serving import recipes, server_state
from neuronctl.serving.server_state import Note
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import RUNNING
from neuronctl.submission.pipeline import submit_job
from neuronctl.submission.transaction import Submission
from neuronctl.tracking.follow import GrowingLog, JobWatch
from neuronctl.tracking.lookup import queued


class _Serve(BatchCommand):
    """``serve RECIPE``, ``serve connect``, and ``serve list``.

    Options of the job may follow the recipe; what follows ``--`` is the server's.
    """

    def hint_at_option(self, option: str, other: str) -> str:
        """Return ``other`` if it names a near option; otherwise where the server's options go.

        other: "did you mean --OPTION?", or "see 'COMMAND --help'" if no option is near.
        """
        place = "options of the server follow --: neuronctl serve RECIPE -- ARGS"
        return place if other.startswith("see") else other

    def make_context(self, info_name: Any, args: Any, *more: Any, **extra: Any) -> click.Context:
        subcommand = {"connect": connect, "list": list_servers}.get(args[0] if args else "")
        if subcommand is not None:
            return subcommand.make_context(f"{info_name} {args[0]}", args[1:], *more, **extra)
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
    from neuronctl.serving.server_job import make_place, plan_server

    recipe = recipes.load(words[0])
    seconds = _parse_seconds("--ready-within", ready_within)
    if seconds:
        recipe = replace(recipe, ready_within=seconds)
    idle = _parse_seconds("--idle", given.pop("idle"))
    job, settings = plan_server(
        recipe, words[1:], lambda more: plan_given({**given, **more}), idle=idle
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
    if done is None:  # a dry run
        return 0
    return _wait(JobId(done.job_id), done.record, job.plan.cluster, as_json)


def _list_recipes() -> int:
    for name in recipes.names():
        try:
            print_line(f"{name:12}  {recipes.load(name).title}")
        except errors.TemplateError as error:
            notify(error.message)
    return 0


def _parse_seconds(option: str, text: Optional[str]) -> int:
    """Return the seconds of an option; 0 if it is not given."""
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
    store = RecordStore.default()
    id = resolve_job(job, store) if job else _find_newest_server()
    record = store.get(id.job)
    script = "" if record is None else record.draft.script
    if "watch_server &" in script:
        raise UsageError(
            f"an older neuronctl started server {id}, and this one cannot read its notes",
            f"neuronctl cancel {id}, and start it again with 'neuronctl serve'",
        )
    if server_state.MARK not in script:
        raise UsageError(
            f"job {id} is not a server of yours", "'neuronctl serve RECIPE' starts one"
        )
    return _wait(id, record, recognize_cluster(load(None), None)[0], as_json, again=True)


def _find_newest_server() -> JobId:
    numbers = server_state.list_servers()
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
    notes = server_state.find_all_servers()
    if as_json:
        servers = [{"job_id": str(note.job), **asdict(note)} for note in notes]
        for server in servers:
            for private in ("job", "token", "values", "pid", "python", "program"):
                del server[private]
        print_json("neuronctl.servers/1", {"servers": servers})
        return 0
    if not notes:
        print_line("no servers of yours, running or ended within a week")
        return 0
    names = ("JOB", "NAME", "STATE", "ADDRESS", "USER", "READY SINCE")
    rows = []
    for note in notes:
        since = moment(int(note.since)) if note.since else "never"
        row = [str(note.job), shortened(note.name, 16), note.summary, note.place, note.user, since]
        rows.append(row)
    console.print_table([Column(name, no_wrap=name != "STATE") for name in names], rows)
    return 0


class _Reporter(TerminalReporter):
    """Reports a submission on standard error; standard output is for the connection."""

    def submitted(self, draft: Any, judged: Any, done: Submission) -> None:
        notify(f"submitted batch job {done.job_id}; its log: {done.output}")


def _wait(
    job: JobId, record: Optional[JobRecord], cluster: Cluster, as_json: bool, *, again: bool = False
) -> int:
    """Wait for the server's first answer, and print how to reach it; return the exit code.

    again: whether its log was shown before, so that the end of the log suffices.
    """
    watch = JobWatch(job, record)
    progress = _Progress(watch, only_end=again)
    try:
        note = server_state.wait_for_server(watch, progress.show, progress.show_log)
    except KeyboardInterrupt:
        progress.show("")
        notify(
            f"stopped waiting; the job continues: neuronctl serve connect {job} waits again, "
            f"neuronctl cancel {job} ends it"
        )
        return errors.INTERRUPTED
    progress.show("")
    if note is None:  # the job ended before the server answered, which is a failure
        progress.show_log(last=True)
        _explain_end(watch)
        return watch.exit_status or 1
    if note.state == server_state.UNKNOWN:
        raise errors.SlurmUnavailableError(
            f"it is not known whether {note.recipe} of job {job} answers: {note.words}",
            "try again in a few seconds",
        )
    if note.state != server_state.ANSWERS:
        notify(f"job {job}: {note.summary}")
        notify(f"its log: neuronctl logs {job}; 'neuronctl cancel {job}' ends it")
        return 1
    _print_connection(note, cluster, as_json)
    return 0


def _explain_end(watch: JobWatch) -> None:
    """Say how the job of a server ended before the server answered."""
    notify(watch.last_words())
    note = server_state.read_note(watch.job.job)
    if note is not None and note.words not in ("", server_state.BY_SLURM):
        notify(note.summary)
    explain_end(watch.statuses, file=sys.stderr)
    hint_at_why([watch.job])


def _print_connection(note: Note, cluster: Cluster, as_json: bool) -> None:
    connection = server_state.connect(note, cluster)
    if as_json:
        keys = ("name", "recipe", "node", "address", "port", "token")
        server = {key: getattr(note, key) for key in keys}
        data = {"job_id": str(note.job), **server, **asdict(connection)}
        print_json("neuronctl.serve/2", data)
        return
    print_line(f"{note.recipe} answers: job {note.job}, port {note.port} of {note.node}")
    if connection.tunnel:
        print_line("  on your machine, and leave it running:")
        print_line(f"    {connection.tunnel}")
        # Recipes give an API the host 127.0.0.1, and a page $localhost.
        is_page = connection.url.startswith("http") and "//127.0.0.1:" not in connection.url
        print_line(f"  then {'open' if is_page else 'use '}  {connection.url}")
        login = f"after 'neuronctl login {cluster.name}', without another password"
        print_line(f"  or, {login}:  neuronctl --on {cluster.name} serve connect {note.job}")
    for line in connection.text.split("\n") if connection.text else ():
        print_line(f"  {line}".rstrip())


_SHORT = 3.0  # seconds of waiting before the log is shown
_END_BYTES, _END_LINES = 4096, 10  # of a log of which only the end is shown


class _Progress:
    """Shows a wait on standard error: the job's state and, after a while, its log.

    On a terminal, one line shows the state; elsewhere, each new state is printed. only_end: show
    only the end of the log.
    """

    def __init__(self, watch: JobWatch, *, only_end: bool) -> None:
        self._watch = watch
        self._begin = time.monotonic()
        self._last_state = ""
        self._only_end = only_end
        self._logs = [GrowingLog(sys.stderr.buffer, err=err) for err in (False, True)]
        self._unfinished = [b"", b""]  # the last line of each log, if it may continue

    def show(self, state: str) -> None:
        """Show a state; "" clears the line."""
        if sys.stderr.isatty():
            seconds = f" ({time.monotonic() - self._begin:.0f} s)" if state else ""
            line = shortened(state, console.terminal_width() - len(seconds) - 1) + seconds
            sys.stderr.write(f"\r\033[K{console.printable(line)}")
            sys.stderr.flush()
        elif state not in ("", self._last_state):
            notify(state)
            self._last_state = state

    def show_log(self, *, last: bool = False) -> None:
        """Show the new whole lines of the logs, unless the wait is short.

        last: show what follows the last line break, too, even after a short wait.
        """
        if not last and time.monotonic() - self._begin < _SHORT:
            return
        out, err = self._logs
        for number, log in enumerate(self._logs):
            if log.path is None:
                self._find(log)
            if log is err and err.path == out.path:
                continue  # both streams go to one file
            *lines, unfinished = (self._unfinished[number] + log.read()).split(b"\n")
            self._unfinished[number] = unfinished
            if last and unfinished:
                lines.append(unfinished)
            for line in lines[-_END_LINES:] if self._only_end else lines:
                self.show("")
                sys.stderr.write(console.printable(f"  | {line.decode('utf-8', 'replace')}") + "\n")

    def _find(self, log: GrowingLog) -> None:
        """Set a log's path, if the job has one yet, and where to begin reading."""
        log.path = self._watch.log_path(log.err)
        if log.path is not None and self._only_end:
            with contextlib.suppress(OSError):
                log.position = max(0, os.stat(log.path).st_size - _END_BYTES)
