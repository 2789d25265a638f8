"""``neuronctl cancel``: cancel jobs."""

from __future__ import annotations

import sys
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import click

from neuronctl.cli.jobs import parse_state
from neuronctl.cli.pipeline import find_pipelines, list_queued_jobs, stop_pipelines
from neuronctl.cli.say import notify, say
from neuronctl.common.console import print_json, print_line
from neuronctl.common.datatypes import asdict
from neuronctl.common.errors import NoSuchJobError, SlurmRefusedError, UsageError
from neuronctl.common.words import counted
from neuronctl.records.store import RecordStore
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import STATES
from neuronctl.tracking import cancellation
from neuronctl.tracking.cancellation import JobOrName, Outcome
from neuronctl.tracking.job_names import is_name
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import no_such_job


@click.command("cancel")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.option("--state", metavar="STATE", help="Only jobs in this state: pending, running, …")
@click.option("-y", "--yes", is_flag=True, help="Cancel several jobs without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.cancel/1).")
def command(jobs: Tuple[str, ...], state: Optional[str], yes: bool, as_json: bool) -> None:
    """Cancel pending or running jobs by id, name, or state.

    JOB is a job id, 4711_3 for an array task, '4711_[1-5]' for several, or a name such as train or
    'sweep-*', or a pipeline. With --state and no JOB, all your jobs in that state are cancelled.

    If a name matches several jobs, neuronctl lists them and asks for confirmation. Without a
    terminal, it refuses them unless you add --yes. It lists jobs that have already ended with
    their state; that is not an error.
    """
    if not jobs and state is None:
        raise UsageError("no job given", "give a job id, a name or --state")
    if state is not None:
        active_states = [active.name for active in STATES.values() if active.short]
        state = parse_state(state, active_states, "in which a job can be cancelled")
    pipelines = find_pipelines(jobs)
    words = _ids_and_names(jobs, pipelines)
    if pipelines and not words:  # none of their jobs is in the queue
        stop_pipelines(pipelines)
        return
    any_name = ["*"]  # with --state alone
    matches, notes = cancellation.known_jobs(words or any_name, RecordStore.default())
    notify(*notes)
    targets = {
        word: cancellation.scancel_targets(word, statuses, state)
        for word, statuses in matches.items()
    }
    all_targets: Dict[JobId, List[JobStatus]] = {}
    for by_id in targets.values():
        all_targets.update(by_id)
    if len(all_targets) > 1 and not yes and not _confirm(all_targets, targets if words else {}):
        say("nothing done")
        return
    stop_pipelines(pipelines)
    refused = cancellation.cancel(all_targets) if all_targets else {}
    outcomes: List[Outcome] = []
    if not words and not all_targets:
        outcomes.append(Outcome(words="no matching jobs"))
    else:
        for word, statuses in matches.items():
            outcomes += cancellation.outcomes(word, statuses, targets[word], refused, state)
    if as_json:
        data = [asdict(outcome) for outcome in outcomes if outcome.result]
        print_json("neuronctl.cancel/1", {"jobs": data})
    else:
        for outcome in outcomes:
            if outcome.result not in ("refused", "unknown", "elsewhere"):  # errors, raised below
                print_line(outcome.words)
    _raise_failures(outcomes, refused, [word for word in words if not matches[word]])


def _ids_and_names(words: Sequence[str], pipelines: Sequence[str]) -> List[JobOrName]:
    """Return the typed ids and names; in place of a pipeline, the ids of its jobs in the queue."""
    job_words = [word for word in words if word not in pipelines]
    if pipelines:
        job_words += list_queued_jobs(pipelines)
    return [word if is_name(word) else JobId.parse(word) for word in dict.fromkeys(job_words)]


def _raise_failures(
    outcomes: Sequence[Outcome], refused: Mapping[str, str], unknown: Sequence[JobOrName]
) -> None:
    """Raise an error if a job was refused, is another cluster's, or unknown; refused: messages."""
    if refused:
        refusals = "; ".join(f"{job}: {message}" for job, message in refused.items())
        raise SlurmRefusedError(f"scancel refused the request: {refusals}")
    elsewhere = [outcome.words for outcome in outcomes if outcome.result == "elsewhere"]
    if elsewhere:
        raise NoSuchJobError("; ".join(elsewhere), "cancel it there, or with scancel -M CLUSTER ID")
    if unknown:
        raise no_such_job(unknown)


def _confirm(
    all_targets: Mapping[JobId, Sequence[JobStatus]],
    targets: Mapping[JobOrName, Mapping[JobId, Sequence[JobStatus]]],
) -> bool:
    """List the jobs, and return True if the user agrees to cancel them.

    Without a terminal, return True, or raise UsageError if a name matches several jobs. targets:
    the same jobs by the id or name that was typed; empty if only --state was.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        for word, by_id in targets.items():
            has_several = len({id.job for id in by_id}) > 1  # tasks of one array are one job
            if isinstance(word, str) and has_several:
                problem = f"'{word}' stands for {len(by_id)} jobs: {', '.join(map(str, by_id))}"
                raise UsageError(problem, "name one by its id, or add --yes for all of them")
        return True
    for id, parts in all_targets.items():
        say(f"  {id}  {parts[0].name}  {cancellation.states_of(parts)}")
    return click.confirm(f"Cancel these {counted(len(all_targets), 'job')}?", err=True)
