"""neuronctl why."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

import click

from neuronctl.cli.option import option
from neuronctl.cli.say import say
from neuronctl.diagnosis.ended import diagnose
from neuronctl.diagnosis.evidence import Diagnosis, Evidence, began
from neuronctl.errors import NeuronctlError, SlurmRefusedError, SlurmUnavailableError
from neuronctl.tracking.endings import is_launch_failure
from neuronctl.tracking.job_status import UNKNOWN, JobStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.slurm.sacct import AccountingJob

_MOST = 4  # kinds of ends of one array that are explained


@click.command("why")
@click.argument("job", metavar="JOB")
@option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.why/1).")
def command(job: str, as_json: bool) -> None:
    """Say why a job waits, or how it ended and why.

    JOB is a job id, 4711_3 for a task of an array, or the name of a job that neuronctl submitted:
    the newest of that name. What Slurm says is told as a fact; what an exit code or a line in the
    last 256 KiB of the log usually means is called likely.
    """
    from neuronctl.records.store import RecordStore
    from neuronctl.slurm.job_id import JobId
    from neuronctl.tracking.lookup import by_name, look_up, no_such_job

    store = RecordStore.default()
    named = by_name(job, store)
    if named is not None:
        say(f"neuronctl: {job} is job {named}, the newest of that name")
    asked = named or JobId.parse(job)
    found = look_up([asked], store)
    for note in found.notes:
        click.echo(f"neuronctl: {note}", err=True)
    if not found.jobs:
        if found.unavailable is not None:
            raise found.unavailable
        raise no_such_job(
            [asked],
            store,
            "Slurm does not know it (any more), and neither do the records; "
            "'neuronctl history' shows yours",
        )
    groups = _groups(found.jobs)
    shown = [(same, *_look(same[0])) for same in groups[:_MOST]]
    if as_json:
        from neuronctl.console import print_json

        print_json("neuronctl.why/1", {"jobs": [_data(*one) for one in shown]})
    else:
        for number, (same, evidence, diagnosis) in enumerate(shown):
            if number:
                click.echo()
            _print(same, evidence, diagnosis)
        if len(groups) > _MOST:
            click.echo(f"\n{len(groups) - _MOST} more kinds of ends: name a task to see its own.")
    if found.unavailable is not None:
        found.unavailable.message += "; this is what neuronctl recorded"
        raise found.unavailable


def _groups(jobs: Sequence[JobStatus]) -> List[List[JobStatus]]:
    """Tasks of an array that have the same to tell, bad ends first."""
    groups: Dict[Tuple[Any, ...], List[JobStatus]] = {}
    for status in jobs:
        groups.setdefault((status.state, status.exit, status.reason), []).append(status)

    def order(same: List[JobStatus]) -> int:
        if same[0].ended:
            return 2 if same[0].state == "COMPLETED" else 0
        return 1

    return sorted(groups.values(), key=order)


def _look(status: JobStatus) -> Tuple[Evidence, Diagnosis]:
    evidence = gather(status)
    return evidence, _masked(diagnose(evidence))


def _masked(diagnosis: Diagnosis) -> Diagnosis:
    """Without the secrets in what it cites of a log: people send such words to others."""
    from neuronctl.masking import Masker, secret_values

    if diagnosis.line is None:
        return diagnosis
    mask = Masker(secret_values((), os.environ)).line
    line = replace(diagnosis.line, text=mask(diagnosis.line.text))
    cause, remedy = mask(diagnosis.cause), mask(diagnosis.remedy)
    return replace(diagnosis, cause=cause, remedy=remedy, line=line)


def gather(status: JobStatus) -> Evidence:
    """Read the job's logs, and ask for its partition's queue where it waits for its turn."""
    from neuronctl.diagnosis.log_text import read_tail
    from neuronctl.slurm.partition_queue import PartitionJob, partition_queue
    from neuronctl.tracking.lookup import canceller

    paths, guessed = _log_paths(status)
    logs = []
    # Where a job never began, a log of that name is another job's.
    if (began(status) or status.state == UNKNOWN) and not is_launch_failure(status):
        logs = [log for log in map(read_tail, paths) if not log.problem]
    queue: Tuple[PartitionJob, ...] = ()
    figure = ""
    if status.state == "PENDING" and status.source == "squeue" and _is_limit(status.reason):
        figure = _figure(status)
    elif status.state == "PENDING" and status.source == "squeue" and status.partition:
        # The reason is known all the same.
        with contextlib.suppress(SlurmUnavailableError, SlurmRefusedError):
            queue = partition_queue(status.partition)
    return Evidence(
        status=status,
        now=int(time.time()),
        canceller=canceller(status),
        logs=tuple(logs),
        log_guessed=guessed,
        directory_problem="" if guessed else _directory_problem(paths),
        queue=queue,
        figure=figure,
        earlier=_earlier(status),
        more_memory=_more_memory(status),
    )


def _more_memory(status: JobStatus) -> str:
    """How a job gets more memory on this cluster, as its catalog has it."""
    from neuronctl.catalog.loader import load
    from neuronctl.request.job_file import configured_cluster
    from neuronctl.slurm.cluster import recognise

    try:
        cluster, _ = recognise(load(), configured_cluster())
    except NeuronctlError:
        return Evidence.more_memory
    partition = cluster.partitions.get(status.partition)
    if partition is None or "mem" not in cluster.policy.forbidden_options:
        return Evidence.more_memory
    most = ""
    if partition.gpus_per_node and cluster.policy.cores.rule == "cap":
        most = f" (at most {cluster.cores_per_gpu(partition)} a GPU: beyond that with more GPUs)"
    return (
        f"ask for more cores with --cpus-per-task{most}: memory comes with the cores, --mem is not "
        f"allowed in {partition.name}"
    )


def _earlier(status: JobStatus) -> Tuple[AccountingJob, ...]:
    """The runs before this one, of a job that may have been requeued."""
    from neuronctl.diagnosis.waiting import earlier_runs
    from neuronctl.slurm.sacct import sacct

    if status.ended or status.source != "squeue" or status.id.tasks is not None:
        return ()
    with contextlib.suppress(SlurmUnavailableError, SlurmRefusedError):
        return earlier_runs(status, sacct([status.id], duplicates=True).jobs)
    return ()


def _is_limit(reason: str) -> bool:
    return reason.startswith(("QOS", "Assoc")) or reason in (
        "PartitionTimeLimit",
        "PartitionNodeLimit",
    )


def _figure(status: JobStatus) -> str:
    """The limit that a job waits for and what counts against it, as far as the limits are known.

    They are those that the last submission read; the user's jobs are asked for now.
    """
    from neuronctl.diagnosis.limit_figures import figure_words
    from neuronctl.gate import limits_cache as cache
    from neuronctl.slurm.squeue import QueueJob, squeue
    from neuronctl.tracking import job_status as jobstatus

    limits = cache.read(cache.key())
    if limits is None:
        return ""
    rows: Tuple[QueueJob, ...] = ()
    with contextlib.suppress(SlurmUnavailableError, SlurmRefusedError):
        rows = squeue(user=str(os.getuid()))
    return figure_words(status, jobstatus.merge(None, rows), limits[0])


def _log_paths(status: JobStatus) -> Tuple[List[str], bool]:
    """Standard output's and error's logs, and whether they are only where sbatch puts them."""
    if status.id.tasks is not None:
        return [], False
    if status.stdout is not None:
        paths = [status.stdout, status.stderr or status.stdout]
        return [path for path in dict.fromkeys(paths) if "%N" not in path], False
    return [os.path.join(status.work_dir, f"slurm-{status.id}.out")], True


def _directory_problem(paths: Sequence[str]) -> str:
    for path in paths:
        directory = os.path.dirname(path)
        if not os.path.isdir(directory):
            return f"there is no directory {directory}"
        if not os.access(directory, os.W_OK | os.X_OK):
            return f"the directory {directory} is not writable for you"
    return ""


# ------------------------------------------------------------------------------- output


def _print(same: Sequence[JobStatus], evidence: Evidence, diagnosis: Diagnosis) -> None:
    from neuronctl.console import is_terminal, print_text, terminal_width

    width = min(terminal_width(), 100) if is_terminal() else 80
    print_text(_wrap(paragraph(same, diagnosis), width))
    print_text("")
    rows = [("state", _state_words(evidence))]
    line = diagnosis.line
    if line is not None:
        place = "last line" if line.number == 1 else f"line {line.number} from its end"
        guess = " (no record of it: this is where sbatch puts a log)" * evidence.log_guessed
        rows.append(("log", f"{line.path}, {place}{guess}:\n{line.text[:600]}"))
    elif evidence.log_guessed and same[0].ended and not evidence.logs:
        words = (
            "not known: there is none where sbatch puts it by default, and no record of it (an "
            "interactive job has neither)"
        )
        rows.append(("log", words))
    for name, text in rows:
        head, _, quote = text.partition("\n")
        print_text(_wrap(head, width, f"  {name:<6} ", " " * 9))
        if quote:
            print_text(_wrap(quote, width, " " * 9, " " * 9), "bold")


def paragraph(same: Sequence[JobStatus], diagnosis: Diagnosis) -> str:
    """What happened, the likely cause and the remedy, for a person."""
    status = same[0]
    name = f"Job {status.id} ({status.name})"
    if len(same) > 1:
        name = f"{sum(one.id.count for one in same)} tasks of job {status.id.job} ({status.name})"
        name += f", such as {status.id}"
    parts = [f"{name}: {diagnosis.what}."]
    if diagnosis.cause:
        sure = diagnosis.certain
        parts.append(_sentence(diagnosis.cause if sure else f"Likely cause: {diagnosis.cause}"))
    if diagnosis.remedy:
        parts.append(f"What to do: {diagnosis.remedy}.")
    return " ".join(parts)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _state_words(evidence: Evidence) -> str:
    status = evidence.status
    words = [status.state]
    if status.reason:
        words.append(f"reason {status.reason}")
    # Slurm marks OUT_OF_MEMORY with 0:125, which is no signal that anything was sent.
    if status.exit is not None and status.ended and status.state != "OUT_OF_MEMORY":
        words.append(f"exit code {status.exit.code}, signal {status.exit.signal}")
    return f"{', '.join(words)} (from {status.source})"


def _wrap(text: str, width: int, first: str = "", later: str = "") -> str:
    import textwrap

    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    )


def _data(same: Sequence[JobStatus], evidence: Evidence, diagnosis: Diagnosis) -> Dict[str, Any]:
    status, line = evidence.status, diagnosis.line
    return {
        "job_id": str(status.id),
        "tasks": [str(one.id) for one in same],
        "name": status.name,
        "state": status.state,
        "reason": status.reason,
        "exit_code": None if status.exit is None else status.exit.code,
        "signal": None if status.exit is None else status.exit.signal,
        "cancelled_by": status.cancelled_by,
        "source": status.source,
        "kind": diagnosis.kind,
        "what": diagnosis.what,
        "cause": diagnosis.cause,
        "certain": diagnosis.certain,
        "remedy": diagnosis.remedy,
        "log": None
        if line is None
        else {"path": line.path, "line": line.text, "from_end": line.number},
    }
