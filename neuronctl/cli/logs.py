"""``neuronctl logs``: show or follow a job's log."""

from __future__ import annotations

import errno
import functools
import io
import os
import sys
import time
from typing import BinaryIO, Optional, Tuple

import click

from neuronctl.cli.jobs import resolve_recorded_job
from neuronctl.cli.say import notify, say
from neuronctl.common.console import is_terminal, print_json, printable
from neuronctl.common.errors import INTERRUPTED, NoSuchJobError, at_most_one
from neuronctl.common.files import list_again, open_regular
from neuronctl.common.units import parse_since
from neuronctl.records.store import RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import ENDED, PENDING, UNKNOWN
from neuronctl.tracking.endings import is_launch_failure
from neuronctl.tracking.log_files import LogPart, LogPlace, find_logs

_PIECE = 1 << 20
"""Bytes that are read at once."""

_DEFAULT_BYTES = 1 << 16
"""Bytes that are shown without a terminal if no option says how much."""

_WHOLE = LogPart()


@click.command("logs")
@click.argument("job", metavar="[JOB]", default="*")
@click.option("-f", "--follow", "follows", is_flag=True, help="Follow the log until the job ends.")
@click.option("--err", is_flag=True, help="Show only the log of standard error, if separate.")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="Show the last N lines.")
@click.option(
    "--since", metavar="WHEN", help="Show lines since 10m, 2h, or a day, by the log's times."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(0),
    metavar="N",
    help="Show at most the last N bytes (0: all; default without a terminal: 65536).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.logs/1).")
def command(
    job: str,
    follows: bool,
    err: bool,
    tail: Optional[int],
    since: Optional[str],
    max_bytes: Optional[int],
    as_json: bool,
) -> Optional[int]:
    """Show or follow a job's log.

    JOB is a job id, 4711_3 for an array task, or the name of your newest job with that name; the
    default is your newest job. A separate standard error log is printed after it, to standard
    error, and so are the job's states with -f and the reason if there is no log yet. Ctrl-C stops
    following; the job continues.
    """
    sizes = {"--tail": tail, "--since": since, "--max-bytes": max_bytes is not None}
    for option, value in {**sizes, "--json": as_json}.items():
        at_most_one({"--follow": follows, option: value})
    is_unlimited = any(sizes.values()) or is_terminal()
    default_bytes = 0 if is_unlimited else _DEFAULT_BYTES  # 0: all
    part = LogPart(
        lines=tail,
        since=None if since is None else parse_since(since, int(time.time())),
        most=default_bytes if max_bytes is None else max_bytes,
    )
    store = RecordStore.default()
    id = resolve_recorded_job(job, store)
    record = store.get(id.job, local_cluster())
    notify(*store.warnings)
    if follows:
        from neuronctl.cli.follow import follow

        code = follow(id, record, only_err=err)
        return code if code == INTERRUPTED else None  # the job's failure is not that of logs
    show = functools.partial(_print_json, id) if as_json else _show
    if record is not None and record.array is None:  # the record names the log: do not ask Slurm
        paths = record.log_path(err=False), record.log_path(err=True)
        if show(paths, err, part):
            return None
    place = find_logs(id)
    out_path, err_path = place.paths
    path = err_path if err else out_path
    if place.guessed and os.path.exists(path):
        notify(f"accounting does not say where its log is; sbatch's default is {path}")
    list_again(path)
    if not show(place.paths, err, part):
        _explain(place, path)
    return None


def _print_json(id: JobId, paths: Tuple[str, str], only_err: bool, part: LogPart) -> bool:
    """Print a job's logs as JSON; return False if there is none. The paths may be the same."""
    logs = []
    for path in dict.fromkeys(paths[1:] if only_err else paths):
        sink = io.BytesIO()
        size = copy_log(path, sink, part=part)
        text = sink.getvalue()
        if size is not None:
            log = {"path": path, "size": size, "begin": size - len(text)}
            logs.append({**log, "text": text.decode("utf-8", "replace")})
    if logs:
        print_json("neuronctl.logs/1", {"job_id": str(id), "logs": logs})
    return bool(logs)


def _show(paths: Tuple[str, str], only_err: bool, part: LogPart) -> bool:
    """Write each log of a job to its stream, byte for byte; return False if there is none."""
    out, err = paths
    sizes = [copy_log(err if only_err else out, sys.stdout.buffer, part=part)]
    if err != out and not only_err:
        header = f"neuronctl: standard error, from {err}:"
        sizes.append(copy_log(err, sys.stderr.buffer, header, part=part))
    has_content = any(sizes)
    if not has_content and 0 in sizes:  # None: there is no such log
        notify(f"{err if only_err else out} is empty: nothing was written to it")
    return any(size is not None for size in sizes)


def copy_log(
    path: str, sink: BinaryIO, header: str = "", *, part: LogPart = _WHOLE
) -> Optional[int]:
    """Write a log, or a part of it, to a stream; return the log's size, or None if there is no log.

    header: what to print on standard error first, unless the log is empty.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            begin = part.first_byte(file)
            if size and header:
                say(header)
            if part.most == _DEFAULT_BYTES and size > _DEFAULT_BYTES:  # the user may not know it
                shown = f"the last {size - begin} bytes of {size}"
                notify(f"{shown}; --max-bytes 0 shows all of {path}")
            _copy_bytes(file, begin, size, sink)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ENOSPC):  # the stream failed, not the log
            raise
        raise NoSuchJobError(f"the log {path} cannot be read: {error.strerror}") from None
    return size


def _copy_bytes(file: BinaryIO, begin: int, end: int, sink: BinaryIO) -> None:
    """Write the bytes of a file from ``begin`` up to ``end``; it may grow meanwhile."""
    file.seek(begin)
    while file.tell() < end and (data := file.read(min(end - file.tell(), _PIECE))):
        sink.write(data)
    sink.flush()


def _explain(place: LogPlace, path: str) -> None:
    """Say that there is no log at ``path``; raise NoSuchJobError if there will never be one."""
    job = place.job
    path_shown = printable(path)
    if not path:
        raise NoSuchJobError(f"job {job.id} is interactive and has no log ({job.state})")
    if job.state not in ENDED and job.state != UNKNOWN:
        yet = "its log will be" if job.state == PENDING else "no log yet at"
        say(f"job {job.id} is {job.state}; {yet} {path_shown}")
        return
    guess = " (sbatch's default: accounting does not say)" if place.guessed else ""
    end = f"is {job.stated_reason}" if job.absent else f"ended ({job.state})"
    # Jobs that squeue has forgotten ended minutes ago; a job that failed to start writes no log.
    may_be_late = job.source == "squeue" and not is_launch_failure(job)
    late = "it may still appear within a minute (NFS); " if may_be_late else ""
    raise NoSuchJobError(
        f"there is no log at {path_shown}{guess}: job {job.id} {end}",
        f"{late}'neuronctl why {job.id}' says more",
    )
