"""``neuronctl logs``: show or follow a job's log."""

from __future__ import annotations

import os
import shutil
import sys
from typing import BinaryIO, Callable, List, Optional, Sequence

import click

from neuronctl.cli.jobs import one_job
from neuronctl.cli.say import notify
from neuronctl.console import print_text
from neuronctl.errors import INTERRUPTED, NoSuchJobError, UsageError
from neuronctl.frozen import dataclass
from neuronctl.records.store import JobRecord
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.rank_filter import RankFilter


@click.command("logs")
@click.argument("job", metavar="JOB")
@click.option("-f", "--follow", "go_on", is_flag=True, help="Follow the log until the job ends.")
@click.option("--err", is_flag=True, help="Show the log of standard error, where it is separate.")
@click.option(
    "--rank", type=click.IntRange(0), metavar="N", help="Show only the lines of this rank."
)
def command(job: str, go_on: bool, err: bool, rank: Optional[int]) -> Optional[int]:
    """Show or follow a job's log.

    JOB is a job id, 4711_3 for an array task, or the name of a job that neuronctl submitted (the
    newest of that name). If there is no log yet, standard error says why. With -f, the job's
    states and its standard error are shown on standard error, and Ctrl-C stops following without
    affecting the job.

    --rank needs lines that name their rank: PyTorch's own messages do ("[rank3]:"), all others
    with srun's label (--env SLURM_LABELIO=1) or torchrun's tee (--env PET_TEE=3).
    """
    from neuronctl.records.store import RecordStore
    from neuronctl.slurm.cluster import local_cluster

    store = RecordStore.default()
    asked = one_job(job, store)
    record = store.get(asked.job, local_cluster())
    notify(*store.warnings)
    if go_on:
        from neuronctl.tracking.follow import follow

        filters: List[RankFilter] = []
        through = None if rank is None else _through(rank, filters)
        code = follow(asked, record, store=store, only_err=err, through=through)
        for rank_filter in filters:
            rank_filter.finish()
        if filters and not any(rank_filter.labelled for rank_filter in filters):
            _no_labels()
        return code if code == INTERRUPTED else None
    whole = record is not None and record.array is None
    if record is not None and whole and _copy(record.log_path(err=err), rank, err):
        return None
    place = _find(asked, record, err)
    if not _copy(place.path, rank, err):
        _explain(place)
    return None


def _through(rank: int, filters: List[RankFilter]) -> Callable[[BinaryIO], RankFilter]:
    def wrap(sink: BinaryIO) -> RankFilter:
        filters.append(RankFilter(sink, rank))
        return filters[-1]

    return wrap


def _no_labels() -> None:
    notify(
        "no line of this log names its rank (PyTorch's own messages in the log of "
        "standard error, --err, do); submit with --env SLURM_LABELIO=1 (srun) or --env PET_TEE=3 "
        "(torchrun)"
    )


@dataclass(frozen=True)
class _Place:
    """Where a job's log is or will be, and what the job is doing."""

    job: JobId
    path: str
    state: str
    reason: str
    never_began: bool


def _find(asked: JobId, record: Optional[JobRecord], err: bool) -> _Place:
    """Ask the controller, and accounting about a job it has forgotten."""
    from dataclasses import replace

    from neuronctl.slurm.fields import ExitCode
    from neuronctl.slurm.job_control import scontrol_show_job
    from neuronctl.slurm.sacct import sacct
    from neuronctl.tracking.job_status import merge

    pages = scontrol_show_job(asked)
    if len(pages) > 1 or (pages and pages[0].id.tasks is not None):
        raise _which_task(asked, [page.id for page in pages])
    if pages:
        page = pages[0]
        path = page.stderr if err else page.stdout
        if record is not None:
            path = record.log_path(
                page.id.task, own_id=page.job_id, node_list=page.node_list, err=err
            )
        failed = page.exit == ExitCode(0, 53)
        return _Place(page.id, path, page.state, page.reason, failed)
    from neuronctl.tracking.lookup import matches, no_such_job

    told = merge(record, accounting=sacct([asked]).jobs)
    past = [status for status in told if matches(asked, status)]
    if not past:
        from neuronctl.records.store import RecordStore

        raise no_such_job([asked], RecordStore.default())
    status = past[0]
    if asked.task is not None and status.id.tasks is not None:
        status = replace(status, id=asked, own_id=False)
    if len(past) > 1 or status.id.tasks is not None:
        raise _which_task(asked, [status.id for status in past])
    path = (status.stderr if err else status.stdout) or ""
    if not path:
        # Accounting does not keep it; this is where sbatch puts it unless told otherwise.
        path = os.path.join(status.work_dir, f"slurm-{status.id}.out")
    failed = status.exit == ExitCode(0, 53)
    return _Place(status.id, path, status.state, status.reason, failed)


def _which_task(asked: JobId, parts: Sequence[JobId]) -> UsageError:
    begun = min((part.task for part in parts if part.task is not None), default=None)
    example = f"{asked.job}_{begun}" if begun is not None else f"{asked.job}_INDEX"
    return UsageError(
        f"job {asked} has several tasks, each with its own log",
        f"name one of them: neuronctl logs {example}",
    )


def _copy(path: str, rank: Optional[int], err: bool) -> bool:
    """Write a log (or a rank's lines) to standard output, byte for byte; False where none is."""
    if not path:
        return False
    only = None if rank is None else RankFilter(sys.stdout.buffer, rank)
    try:
        with open(path, "rb") as file:
            shutil.copyfileobj(file, only or sys.stdout.buffer)
            if file.tell() == 0:
                more = "" if err else ", or only to standard error (--err)"
                notify(f"{path} is empty: nothing was written to it{more}")
            elif only is not None:
                only.finish()
                if not only.labelled:
                    _no_labels()
    except FileNotFoundError:
        return False
    except (PermissionError, IsADirectoryError) as error:
        raise NoSuchJobError(f"the log {path} cannot be read: {error.strerror}") from None
    sys.stdout.buffer.flush()
    return True


def _explain(place: _Place) -> None:
    """Say why there is no log; NoSuchJobError where there will never be one."""
    from neuronctl.tracking.job_status import ENDED, UNKNOWN, reason_words

    if not place.path:
        raise NoSuchJobError(
            f"job {place.job} is interactive ({place.state}) and has no log: its output goes to "
            "the terminal of salloc"
        )
    if place.state == "PENDING":
        why = reason_words(place.reason) or "no reason given"
        print_text(
            f"job {place.job} has not started ({why}); its log will be {place.path}",
            file=sys.stderr,
        )
    elif place.never_began:
        raise NoSuchJobError(
            f"job {place.job} ended ({place.state}, 0:53): it could not open its log {place.path}",
            "the log's directory must exist and be writable for you when the job starts",
        )
    elif place.state in ENDED or place.state == UNKNOWN:
        raise NoSuchJobError(
            f"job {place.job} ended ({place.state}) and there is no log at {place.path}",
            "it may have been moved or deleted, or the job was cancelled before it started, or is "
            "interactive and has none",
        )
    else:
        print_text(
            f"job {place.job} is {place.state} and has no log yet at {place.path}", file=sys.stderr
        )
