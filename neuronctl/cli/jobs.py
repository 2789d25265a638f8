"""The jobs that a command line names, by id or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Sequence

from neuronctl.cli.say import notify
from neuronctl.common.errors import NoSuchJobError, SlurmUnavailableError, UsageError, did_you_mean
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import STATES

if TYPE_CHECKING:
    from neuronctl.records.store import JobRecord, RecordStore
    from neuronctl.tracking.job_status import JobStatus
    from neuronctl.tracking.lookup import Found


def resolve_job(word: str, store: RecordStore) -> JobId:
    """Return the job of this id, or the newest that neuronctl submitted under this name.

    Print which job a name stands for; "*" is any name, and ``NAME-JOB`` a job of a pipeline. Raise
    UsageError for a wrong id, and NoSuchJobError for an unknown name.
    """
    from neuronctl.tracking.job_names import is_name, newest

    if not is_name(word):
        return JobId.parse(word)
    from neuronctl.cli.pipeline import find_jobs, is_pipeline

    if is_pipeline(word):
        raise NoSuchJobError(
            f"'{word}' is a pipeline, not a job",
            f"'neuronctl status {word}' shows its jobs; name one of them, such as {word}-NAME; "
            f"'neuronctl resubmit {word} --failed' runs again what failed or did not run",
        )
    # NAME-JOB stands for one job: there is either its id, or a sentence that says why it has none.
    pipeline_jobs, sentences = find_jobs(word) or ([], [])
    if sentences:
        raise NoSuchJobError(sentences[0])
    id = pipeline_jobs[0] if pipeline_jobs else newest(word, store)
    if word == "*":
        notify(f"job {id}, your newest")
    else:
        notify(f"{word} is job {id}, the newest of that name")
    return id


def find_running_job(word: str) -> JobStatus:
    """Return the running job of this id or name; print which job a name stands for."""
    from neuronctl.tracking.job_names import is_name, running_job

    status = running_job(word)
    if is_name(word):
        notify(f"{'your newest' if word == '*' else word} is job {status.id}")
    return status


def resolve_recorded_job(word: str, store: RecordStore) -> JobId:
    """Return the recorded job; for a later run of a chain, its first job."""
    from neuronctl.tracking.lookup import first_run

    job = resolve_job(word, store)
    first = first_run(job, store)
    if first is None:
        return job
    notify(f"{job} is a run of job {first}")
    return JobId(first)


def find_record(word: str, store: RecordStore) -> JobRecord:
    """Return the newest record of a job; raise UsageError for a part of an array."""
    from neuronctl.records.found_records import newest_record

    job = resolve_recorded_job(word, store)
    if job.task is not None or job.tasks is not None:
        problem = f"'{job}' is part of a job array, and the record describes the whole job"
        raise UsageError(problem, f"use {job.job}")
    return newest_record(store, job.job)


def look_up_jobs(ids: Sequence[JobId], store: RecordStore) -> Found:
    """Look up these jobs and print the notes about them; raise an error for an unknown one."""
    from neuronctl.tracking.lookup import look_up, no_such_job

    answer = look_up(ids, store)
    notify(*answer.notes)
    if answer.missing:
        raise answer.unavailable or no_such_job(answer.missing)
    return answer


def raise_if_silent(answer: Found) -> None:
    """Raise an error if Slurm has not answered; call it after the recorded jobs were shown."""
    error = answer.unavailable
    if error is not None:
        words = f"{error.message}; what you see is what neuronctl recorded"
        raise SlurmUnavailableError(words, error.hint)


def parse_state(text: str, states: Iterable[str] = STATES, which: str = "of a job") -> str:
    """Return the full name of a state such as ``pd``; which: describes ``states`` in errors."""
    typed = text.strip().upper()
    full_names = {state.short: state.name for state in STATES.values() if state.short}
    name = full_names.get(typed, typed)
    names = list(states)
    if name not in names:
        hint = did_you_mean(name.lower(), [known.lower() for known in names])
        raise UsageError(f"--state: '{text}' is not a state {which}", hint)
    return name
