"""``neuronctl why``: why a job is waiting, or how it ended."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, TextIO

import click

from neuronctl.cli.job_table import state_style
from neuronctl.cli.jobs import look_up_jobs, raise_if_silent, resolve_job
from neuronctl.cli.json_data import status_data
from neuronctl.cli.korean import why_in_korean
from neuronctl.cli.pipeline import find_jobs
from neuronctl.cli.say import notify
from neuronctl.common.console import folded, print_json, print_line, print_text
from neuronctl.common.datatypes import asdict
from neuronctl.common.errors import NeuronctlError, UsageError
from neuronctl.common.shell import join
from neuronctl.common.units import fold_ranges, hosts
from neuronctl.common.words import moment
from neuronctl.diagnosis.evidence import Diagnosis, JobEvidence
from neuronctl.diagnosis.gather import JobGroup, examine, examine_groups
from neuronctl.records.bad_nodes import NodeFault, bad_nodes
from neuronctl.records.store import RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import CANCELLED, GOOD, OUT_OF_MEMORY, UNKNOWN
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import Found, nodes_of
from neuronctl.tracking.runs import runs_words
from neuronctl.tracking.wandb_runs import offline_runs

if TYPE_CHECKING:
    from neuronctl.monitoring.node_use import ProcessStack

_MOST = 4  # kinds of ends of one array that are explained


@click.command("why")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.option("--stacks", is_flag=True, help="Also show what the processes of a running job do.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.why/1).")
def command(jobs: Sequence[str], stacks: bool, as_json: bool) -> None:
    """Explain why jobs are waiting, or how they ended and why.

    JOB is a job id, 4711_3 for an array task, or the name of your newest job with that name; the
    default is your newest job. What Slurm reports is stated as fact. What an exit code or a log
    line usually means is called likely.

    With --stacks, srun shows on each node what the job's processes are doing: py-spy, if it is on
    their PATH, names the functions of Python processes; the kernel says what other threads wait
    for. Processes with the same stacks are shown once, the odd ones first.
    """
    store = RecordStore.default()
    words = tuple(dict.fromkeys(jobs)) or ("*",)
    if stacks and len(words) > 1:
        raise UsageError("--stacks looks at one job", "name one")
    processes = _read_stacks(words[0]) if stacks else []
    job_ids: List[JobId] = []
    sentences: List[str] = []
    for word in words:
        ids, about = find_jobs(word) or ([resolve_job(word, store)], [])
        job_ids += ids
        sentences += about
    lookup = look_up_jobs(job_ids, store) if job_ids else Found(())
    by_job: Dict[int, List[JobStatus]] = {}
    for status in lookup.jobs:
        by_job.setdefault(status.id.job, []).append(status)
    groups_by_job = [examine_groups(statuses) for statuses in by_job.values()]
    shown = [group for groups in groups_by_job for group in groups[:_MOST]]
    hidden_count = sum(map(len, groups_by_job)) - len(shown)
    if as_json:
        data: Dict[str, Any] = {"jobs": [_data(group) for group in shown]}
        data.update({"not_submitted": sentences} if sentences else {})
        if stacks:
            data["stacks"] = [asdict(process) for process in processes]
        print_json("neuronctl.why/1", data)
    else:
        for sentence in sentences:
            print_line(f"{sentence}.")
        for number, group in enumerate(shown):
            if number or sentences:
                print_line()
            _print(group)
        if hidden_count:
            print_line()
            print_line(f"{hidden_count} more kinds of ends; name a task to see its own.")
        print_offline_runs(lookup.jobs)
        _print_stacks(processes)
    raise_if_silent(lookup)


def _read_stacks(job: str) -> List[ProcessStack]:
    from neuronctl.monitoring.node_use import read_stacks
    from neuronctl.tracking.job_names import running_job

    status = running_job(job)
    processes = read_stacks(status.job_id, nodes_of(status))
    tools = {process.tool for process in processes}
    if not processes:
        notify(f"job {status.id} has no process on its nodes that you may inspect")
    elif "no py-spy" in tools:
        notify("py-spy in the job's environment would name the functions: pip install py-spy")
    elif "py-spy failed" in tools:
        notify("py-spy failed on a process: the node forbids it (ptrace), or it took too long")
    return processes


def _print_stacks(processes: Sequence[ProcessStack]) -> None:
    """Print together the processes that are in the same place."""
    from neuronctl.monitoring.node_use import alike

    for same in alike(processes):
        first = same[0]
        ranks = sorted(int(process.rank) for process in same if process.rank)
        words = f"{first.name}: process {first.pid} of {first.node}"
        words += f" and {len(same) - 1} more with the same stacks" if len(same) > 1 else ""
        words += f"; rank{'s' if len(ranks) > 1 else ''} {fold_ranges(ranks)}" if ranks else ""
        print_line()
        print_text(folded(words), "bold")
        print_text("\n".join(f"  {line}" for line in first.lines))


def _print(group: JobGroup) -> None:
    evidence, diagnosis = group.evidence, group.diagnosis
    lines, translate = why_in_korean(answer(group.jobs, diagnosis), sys.stdout)
    for words in lines:
        print_text(folded(words))
    print_text("")
    state, log = translate("state"), translate("log")
    _print_fact(state, translate(_state_words(evidence)), state_style(group.jobs))
    line = diagnosis.line
    if line is not None:
        place = "last line" if line.number == 1 else f"line {line.number} from its end"
        place = place if line.number else "near its beginning"
        guess = " (not recorded; this is sbatch's default)" if evidence.log_guessed else ""
        _print_fact(log, translate(f"{line.path}, {place}{guess}:"))
        for before in diagnosis.around or (line.text[:600],):
            is_it = before.strip() == line.text or len(diagnosis.around) == 0
            _print_fact("", before[:600], "bold" if is_it else "")
    elif not evidence.logs and evidence.log_guessed and evidence.status.ended:
        words = "unknown: there is no record of it and no log at sbatch's default path"
        _print_fact(log, translate(words))
    elif not evidence.logs and evidence.unread and not evidence.log_guessed:
        unread = evidence.unread[0]
        gone = " (deleted or moved since, or on another machine)" if unread.missing else ""
        _print_fact(log, f"{unread.path}: {unread.problem}{gone}")
    for node, fault in _bad_nodes(evidence.status).items():
        words = f"{node} failed in your jobs, last on {moment(fault.at)} (job {fault.job})"
        _print_fact(translate("node"), translate(f"{words}: {fault.why}"))


def _print_fact(name: str, text: str, style: str = "") -> None:
    width = 7 if name.isascii() else 7 - len(name)  # Hangul takes two cells
    print_text(folded(text, f"  {name:<{width}}", " " * 9), style)


def _bad_nodes(status: JobStatus) -> Dict[str, NodeFault]:
    """Return the faults of a job's nodes unless it has completed."""
    if status.state in GOOD or not status.node_list:
        return {}
    nodes = hosts(status.node_list)
    return {node: fault for node, fault in bad_nodes(local_cluster()).items() if node in nodes}


def answer(same: Sequence[JobStatus], diagnosis: Diagnosis) -> List[str]:
    """Return lines: what happened with the likely cause, where, and what to do."""
    status = same[0]
    name = f"Job {status.id} ({status.name})"
    if len(same) > 1:
        unit = "tasks" if status.id.het is None else "components"
        count = sum(each.id.count for each in same)
        name = f"{count} {unit} of job {status.id.job} ({status.name})"
        name += f", such as {status.id}"
    first = [f"{name}: {diagnosis.what}."]
    if diagnosis.cause:
        cause = diagnosis.cause if diagnosis.certain else f"Likely cause: {diagnosis.cause}"
        first.append(f"{cause[:1].upper()}{cause[1:]}.")
    words = runs_words(status)
    if words:
        first.append(f"{words[:1].upper()}{words[1:]}.")
    lines = [" ".join(first)]
    if diagnosis.where:
        lines.append(f"Where: {diagnosis.where}.")
    if diagnosis.remedy:
        lines.append(f"What to do: {diagnosis.remedy}.")
    return lines


def explain_end(
    jobs: Sequence[JobStatus], file: Optional[TextIO] = None, *, completed: bool = False
) -> None:
    """Print ``why``'s answer of a single job that has failed, where a view of jobs ends.

    completed: also of one that completed, though a step of it failed, which one sacct tells.
    Nothing is said where the cause is not known: the state stands above already. What cannot be
    read now, such as a log or a user's own causes, is left to ``why`` itself.
    """
    silent = (CANCELLED, UNKNOWN) if completed else (*GOOD, CANCELLED, UNKNOWN)
    if len(jobs) != 1 or not jobs[0].ended or jobs[0].state in silent:
        return
    with contextlib.suppress(NeuronctlError):
        diagnosis = examine(jobs[0])[1]
        lines = answer(jobs, diagnosis) if diagnosis.cause else []
        for line in why_in_korean(lines, file or sys.stdout)[0]:
            print_text(folded(line), file=file)


def print_offline_runs(jobs: Sequence[JobStatus], file: Optional[TextIO] = None) -> None:
    """Print the command that uploads the offline W&B runs of ended jobs."""
    folders = dict.fromkeys(path for job in jobs if job.ended for path in offline_runs(job))
    if folders:
        print_text(f"W&B has not uploaded these runs:\nwandb sync {join(list(folders))}", file=file)


def _state_words(evidence: JobEvidence) -> str:
    status = evidence.status
    words = [status.state]
    if status.stated_reason:
        words.append(f"reason {status.stated_reason}")
    # Slurm marks OUT_OF_MEMORY with 0:125; nothing sent that signal.
    if status.exit is not None and status.ended and status.state != OUT_OF_MEMORY:
        words.append(f"exit code {status.exit.code}, signal {status.exit.signal}")
    return f"{', '.join(words)} (from {status.source})"


_OF_DIAGNOSIS = ("kind", "entry", "what", "cause", "certain", "where", "remedy")
_OF_STATUS = ("job_id", "name", "state", "reason", "exit_code", "signal", "cancelled_by", "source")


def _data(group: JobGroup) -> Dict[str, Any]:
    evidence, diagnosis = group.evidence, group.diagnosis
    status, line = status_data(evidence.status), diagnosis.line
    return {
        **{key: status[key] for key in _OF_STATUS},
        "tasks": [str(task.id) for task in group.jobs],
        **{key: getattr(diagnosis, key) for key in _OF_DIAGNOSIS},
        "bad_nodes": [asdict(fault) for fault in _bad_nodes(evidence.status).values()],
        "log": line
        and {
            "path": line.path,
            "line": line.text,
            "from_end": line.number or None,
            "around": diagnosis.around,
        },
    }
