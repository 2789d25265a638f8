"""``neuronctl why``: why a job is waiting, or how it ended."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, TextIO

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

_MOST = 4  # groups of an array's tasks, by how they ended, that are explained
_LONGEST = 600  # characters that are shown of a log's line


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
    words = tuple(dict.fromkeys(jobs)) or ("*",)  # the newest job of any name
    if stacks and len(words) > 1:
        raise UsageError("--stacks looks at one job", "name one")
    processes = _read_stacks(words[0]) if stacks else []
    job_ids: List[JobId] = []
    sentences: List[str] = []
    for word in words:
        ids, word_sentences = find_jobs(word) or ([resolve_job(word, store)], [])
        job_ids += ids
        sentences += word_sentences
    lookup = look_up_jobs(job_ids, store) if job_ids else Found(())
    by_job: Dict[int, List[JobStatus]] = {}
    for status in lookup.jobs:
        by_job.setdefault(status.id.job, []).append(status)
    shown: List[JobGroup] = []
    hidden_count = 0
    for statuses in by_job.values():
        groups = examine_groups(statuses)
        shown += groups[:_MOST]
        hidden_count += len(groups[_MOST:])
    if as_json:
        data: Dict[str, Any] = {"jobs": [_dump(group) for group in shown]}
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
    """Return the stacks of a running job's processes; say what would show more."""
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
    """Print the stacks, each once, with the processes that have it."""
    from neuronctl.monitoring.node_use import alike

    for group in alike(processes):
        first = group[0]
        title = f"{first.name}: process {first.pid} of {first.node}"
        if len(group) > 1:
            title += f" and {len(group) - 1} more with the same stacks"
        ranks = sorted(int(process.rank) for process in group if process.rank)
        if ranks:
            title += f"; rank{'s' if len(ranks) > 1 else ''} {fold_ranges(ranks)}"
        print_line()
        print_text(folded(title), "bold")
        print_text("\n".join(f"  {line}" for line in first.lines))


def _print(group: JobGroup) -> None:
    """Print the answer, and below it the facts: the state, the log, and nodes that failed."""
    evidence, diagnosis = group.evidence, group.diagnosis
    lines, translate = why_in_korean(answer(group.jobs, diagnosis), sys.stdout)
    for sentence in lines:
        print_text(folded(sentence))
    print_text("")
    state = translate(_describe_state(evidence))
    _print_fact(translate("state"), state, state_style(group.jobs))
    line = diagnosis.line
    if line is not None:
        places = {0: "near its beginning", 1: "last line"}
        place = places.get(line.number, f"line {line.number} from its end")
        guess = " (not recorded; this is sbatch's default)" if evidence.log_guessed else ""
        _print_fact(translate("log"), translate(f"{line.path}, {place}{guess}:"))
        for text in diagnosis.around or (line.text,):
            is_line = not diagnosis.around or text.strip() == line.text
            _print_fact("", text[:_LONGEST], "bold" if is_line else "")
    elif not evidence.logs:
        _print_missing_log(evidence, translate)
    for node, fault in _find_bad_nodes(evidence.status).items():
        when = f"{node} failed in your jobs, last on {moment(fault.at)} (job {fault.job})"
        _print_fact(translate("node"), translate(f"{when}: {fault.why}"))


def _print_missing_log(evidence: JobEvidence, translate: Callable[[str], str]) -> None:
    """Print why no log was read, if that is known."""
    if evidence.log_guessed:
        if evidence.status.ended:
            words = "unknown: there is no record of it and no log at sbatch's default path"
            _print_fact(translate("log"), translate(words))
    elif evidence.unread:
        unread = evidence.unread[0]
        gone = " (deleted or moved since, or on another machine)" if unread.missing else ""
        _print_fact(translate("log"), f"{unread.path}: {unread.problem}{gone}")


def _print_fact(name: str, text: str, style: str = "") -> None:
    width = 7 if name.isascii() else 7 - len(name)  # Hangul takes two cells
    print_text(folded(text, f"  {name:<{width}}", " " * 9), style)


def _find_bad_nodes(status: JobStatus) -> Dict[str, NodeFault]:
    """Return the faults of a job's nodes unless it has completed."""
    if status.state in GOOD or not status.node_list:
        return {}
    nodes = hosts(status.node_list)
    return {node: fault for node, fault in bad_nodes(local_cluster()).items() if node in nodes}


def answer(jobs: Sequence[JobStatus], diagnosis: Diagnosis) -> List[str]:
    """Return lines: what happened and the likely cause, where, and what to do.

    jobs: those with this diagnosis, of one array or heterogeneous job.
    """
    status = jobs[0]
    name = f"Job {status.id} ({status.name})"
    if len(jobs) > 1:
        unit = "tasks" if status.id.het is None else "components"
        count = sum(job.id.count for job in jobs)
        name = f"{count} {unit} of job {status.id.job} ({status.name}), such as {status.id}"
    cause = diagnosis.cause
    if cause and not diagnosis.certain:
        cause = f"Likely cause: {cause}"
    sentences = [f"{name}: {diagnosis.what}."]
    for words in filter(None, (cause, runs_words(status))):
        sentences.append(f"{words[:1].upper()}{words[1:]}.")
    lines = [" ".join(sentences)]
    if diagnosis.where:
        lines.append(f"Where: {diagnosis.where}.")
    if diagnosis.remedy:
        lines.append(f"What to do: {diagnosis.remedy}.")
    return lines


def explain_end(
    jobs: Sequence[JobStatus], file: Optional[TextIO] = None, *, completed: bool = False
) -> None:
    """Print ``why``'s answer about a single job that has failed, if the cause is known.

    completed: answer for a completed job, too, because a step of it may have failed.
    """
    silent = (CANCELLED, UNKNOWN) if completed else (*GOOD, CANCELLED, UNKNOWN)
    if len(jobs) != 1 or not jobs[0].ended or jobs[0].state in silent:
        return
    # ``why`` itself reports what cannot be read now, such as a log or the user's own causes.
    with contextlib.suppress(NeuronctlError):
        _, diagnosis = examine(jobs[0])
        if not diagnosis.cause:
            return
        lines, _ = why_in_korean(answer(jobs, diagnosis), file or sys.stdout)
        for line in lines:
            print_text(folded(line), file=file)


def print_offline_runs(jobs: Sequence[JobStatus], file: Optional[TextIO] = None) -> None:
    """Print the command that uploads the offline W&B runs of ended jobs."""
    folders = dict.fromkeys(path for job in jobs if job.ended for path in offline_runs(job))
    if folders:
        print_text(f"W&B has not uploaded these runs:\nwandb sync {join(list(folders))}", file=file)


def _describe_state(evidence: JobEvidence) -> str:
    status = evidence.status
    facts = [status.state]
    if status.stated_reason:
        facts.append(f"reason {status.stated_reason}")
    # Slurm marks OUT_OF_MEMORY with 0:125; nothing sent that signal.
    if status.exit is not None and status.ended and status.state != OUT_OF_MEMORY:
        facts.append(f"exit code {status.exit.code}, signal {status.exit.signal}")
    return f"{', '.join(facts)} (from {status.source})"


_OF_DIAGNOSIS = ("kind", "entry", "what", "cause", "certain", "where", "remedy")
_OF_STATUS = ("job_id", "name", "state", "reason", "exit_code", "signal", "cancelled_by", "source")


def _dump(group: JobGroup) -> Dict[str, Any]:
    evidence, diagnosis = group.evidence, group.diagnosis
    status = status_data(evidence.status)
    line = diagnosis.line
    log: Dict[str, Any] = {}
    if line is not None:
        log = {"path": line.path, "line": line.text, "from_end": line.number or None}
        log["around"] = diagnosis.around
    return {
        **{key: status[key] for key in _OF_STATUS},
        "tasks": [str(task.id) for task in group.jobs],
        **{key: getattr(diagnosis, key) for key in _OF_DIAGNOSIS},
        "bad_nodes": [asdict(fault) for fault in _find_bad_nodes(evidence.status).values()],
        "log": log or None,
    }
