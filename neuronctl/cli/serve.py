"""``neuronctl serve``: a server in a job, reached from one's own machine."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Optional, Tuple

import click

from neuronctl.cli.job_options import BatchCommand, job_command, plan_given
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import hint_at_why, notify
from neuronctl.common.console import print_json, print_line, printable, shortened, terminal_width
from neuronctl.common.errors import INTERRUPTED, NoSuchJobError, TemplateError, UsageError
from neuronctl.common.frozen import asdict
from neuronctl.common.units import parse_timeout

if TYPE_CHECKING:
    from neuronctl.catalog.model import Cluster
    from neuronctl.records.store import JobRecord
    from neuronctl.serving.connection import Connection
    from neuronctl.slurm.job_id import JobId
    from neuronctl.submission.transaction import Submission


class _Serve(BatchCommand):
    """``serve RECIPE``, and ``serve connect``."""

    def make_context(self, info_name: Any, args: Any, *more: Any, **extra: Any) -> click.Context:
        if args[:1] == ["connect"]:
            return connect.make_context(f"{info_name} connect", args[1:], *more, **extra)
        return super().make_context(info_name, args, *more, **extra)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.serve/1)."
)


@job_command("serve", cls=_Serve)
@click.option("--idle", metavar="TIME", help="End a server that nobody uses for so long: 1h.")
@click.option("--list", "list_recipes", is_flag=True, help="List the recipes.")
@json_option
@click.option("--dry-run", is_flag=True, help="Stop before sbatch; print the script.")
@click.argument("words", metavar="RECIPE [ARGS]...", nargs=-1, type=click.UNPROCESSED)
def command(
    words: Tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    list_recipes: bool,
    idle: Optional[str],
    force: bool,
    explain: bool,
    **given: Any,
) -> int:
    """Run a server in a job, and say how to reach it from your own machine.

    RECIPE is a kind of server, such as jupyter or ssh; it receives ARGS. Once the server answers,
    the tunnel to type and the URL to open are printed; 'neuronctl serve connect [JOB]' prints them
    again. Ctrl-C stops waiting, not the server.
    """
    if list_recipes:
        return _list_recipes()
    if not words:
        raise UsageError("no recipe is named", "see 'neuronctl serve --list'")
    from neuronctl.serving.recipes import load
    from neuronctl.serving.server_job import make_place, plan_server
    from neuronctl.submission.pipeline import submit_job

    try:
        seconds = None if idle is None else parse_timeout(idle)
    except ValueError as error:
        raise UsageError(f"--idle: {error}") from None
    job = plan_server(
        *(load(words[0]), words[1:], lambda more: plan_given({**given, **more})),
        idle=seconds,
    )
    if not dry_run:
        make_place()
    reporter = _Reporter(SubmitMode(dry_run, as_json), explain=explain)
    done = submit_job(job, reporter, force=force, dry_run=dry_run)
    if done is None:
        return 0
    from neuronctl.slurm.job_id import JobId

    return _wait(JobId(done.job_id), done.record, job.plan.cluster, as_json)


@click.command("connect")
@click.argument("job", metavar="[JOB]", default="")
@json_option
def connect(job: str, as_json: bool) -> int:
    """Say again how to reach a server, once it answers.

    JOB is a job id, or the name of a job; without it, your newest running server.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.catalog.local_cluster import recognise
    from neuronctl.cli.jobs import one_job
    from neuronctl.records.store import RecordStore

    store = RecordStore.default()
    asked = one_job(job, store) if job else _newest_server()
    record = store.get(asked.job)
    if record is None or "watch_server &" not in record.draft.script:
        raise UsageError(
            f"job {asked} is not a server of yours", "'neuronctl serve RECIPE' starts one"
        )
    return _wait(asked, record, recognise(load(None), None)[0], as_json)


def _newest_server() -> JobId:
    from neuronctl.serving.connection import is_server
    from neuronctl.slurm.job_states import RUNNING
    from neuronctl.tracking.lookup import queued

    running = [each.id for each in queued() if each.state == RUNNING]
    found = [id for id in running if is_server(id.job)]
    if not found:
        raise NoSuchJobError(
            "no server of yours is running", "name one that waits, or start one: see --list"
        )
    return max(found, key=lambda id: id.job)


def _list_recipes() -> int:
    from neuronctl.serving.recipes import load, names

    for name in names():
        try:
            print_line(f"{name:12}  {load(name).title}")
        except TemplateError as error:
            notify(error.message)
    return 0


class _Reporter(TerminalReporter):
    """Leaves standard output to the connection."""

    def submitted(self, draft: Any, judged: Any, done: Submission) -> None:
        notify(f"submitted batch job {done.job_id}; its log: {done.output}")


def _wait(job: JobId, record: Optional[JobRecord], cluster: Cluster, as_json: bool) -> int:
    """Wait for the server's first answer, and print how to reach it; returns the exit code."""
    from neuronctl.serving.connection import connection, wait_for_server
    from neuronctl.tracking.follow import JobWatch

    watch, progress = JobWatch(job, record), _Progress()
    try:
        noted = wait_for_server(watch, progress.show)
    except KeyboardInterrupt:
        progress.show("")
        notify(
            f"stopped waiting; the job continues: neuronctl serve connect {job} waits again, "
            f"neuronctl cancel {job} ends it"
        )
        return INTERRUPTED
    progress.show("")
    if noted is None:
        from neuronctl.cli.why import explain_end

        notify(watch.last_words())
        explain_end(watch.statuses, file=sys.stderr)
        hint_at_why([job])
        return watch.exit_status or 1
    found = connection(noted, cluster)
    if as_json:
        print_json("neuronctl.serve/1", asdict(found))
    else:
        _print_connection(found)
    return 0


def _print_connection(found: Connection) -> None:
    print_line(f"{found.recipe} answers: job {found.job_id}, port {found.port} of {found.node}")
    if found.tunnel:
        print_line("  on your machine, and leave it running:")
        print_line(f"    {found.tunnel}")
        print_line(f"  then open  {found.url}")
    for line in found.text.split("\n") if found.text else ():
        print_line(f"  {line}".rstrip())
    if not found.reachable:
        notify(
            f"warning: this machine does not reach port {found.port} of {found.node}, so the "
            "tunnel may not either: is a firewall between them?"
        )


class _Progress:
    """The state of the job on standard error: redrawn on a terminal, else said when it changes."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown = ""

    def show(self, state: str) -> None:
        """Show a state; "" clears the line."""
        if sys.stderr.isatty():
            waited = f" ({time.monotonic() - self._begun:.0f} s)" if state else ""
            line = shortened(state, terminal_width() - len(waited) - 1) + waited
            sys.stderr.write(f"\r\033[K{printable(line)}")
            sys.stderr.flush()
        elif state not in ("", self._shown):
            notify(state)
            self._shown = state
