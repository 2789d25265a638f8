"""The jobs that --after and --after-ok name, as Slurm's --dependency."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from neuronctl.common.console import printable
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import NoSuchJobError, PolicyError, UsageError
from neuronctl.common.paths import sweep_dir
from neuronctl.records.store import RecordStore
from neuronctl.request.job import JobRequest, Layer, Origin, Source
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import GOOD
from neuronctl.tracking.endings import ending_words
from neuronctl.tracking.job_names import is_name, is_named, newest
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import look_up, no_such_job, queued


def named_layer(layer: Layer) -> Layer:
    """Return a layer's --dependency with its plain terms as --after and --after-ok."""
    ids = _plain_ids(layer.values["dependency"])
    values = {
        "after": (*layer.values.get("after", ()), *ids["afterany"]),
        "after_ok": (*layer.values.get("after_ok", ()), *ids["afterok"]),
        "dependency": ",".join(ids[""]) or None,
    }
    return Layer(values, dict.fromkeys(values, layer.origins["dependency"]))


def refuse_unmeetable(dependency: str) -> None:
    """Raise PolicyError for a --dependency on a job that has failed."""
    for id in _plain_ids(dependency)["afterok"]:
        with contextlib.suppress(NoSuchJobError):
            _ids_to_wait_for(f"--dependency afterok:{id}", "afterok", id, lambda message: None)


def _plain_ids(dependency: str) -> Dict[str, List[str]]:
    """Return the job ids of the terms ``afterany:ID`` and ``afterok:ID``; "": the other terms."""
    ids: Dict[str, List[str]] = {"afterany": [], "afterok": [], "": []}
    for term in dependency.split(","):
        kind, _, jobs = term.partition(":")
        is_plain = kind in ids and re.fullmatch(r"\d+(_\d+)?(:\d+(_\d+)?)*", jobs)
        if is_plain and "?" not in dependency:
            ids[kind] += jobs.split(":")
        else:
            ids[""].append(term)
    return ids


def wait_for_named(
    request: JobRequest, tell: Callable[[str], None], *, ask_slurm: bool = True
) -> JobRequest:
    """Return the request with its --after and --after-ok as a part of --dependency.

    tell hears which jobs these are. ask_slurm: whether to leave out jobs that have ended, and to
    refuse what can never be met; False: a name is that of the newest recorded job.

    Raises NoSuchJobError for an unknown job, and PolicyError for an --after-ok that cannot be met.
    """
    named = [("--after", "afterany", word) for word in request.after]
    named += [("--after-ok", "afterok", word) for word in request.after_ok]
    if not named:
        return request
    first_option, _, _ = named[0]
    typed = request.dependency
    if typed and "?" in typed:
        # Slurm 22.05 takes both, and waits for any of the jobs.
        raise UsageError(
            f"{first_option} and --dependency {typed} contradict each other: "
            "Slurm waits for all jobs, or ('?') for any",
            "keep one of them",
        )
    terms = [typed] if typed else []
    for option, kind, word in named:
        if ask_slurm:
            ids = _ids_to_wait_for(f"{option} {word}", kind, word, tell)
        else:
            id = newest(word, RecordStore.default()) if is_name(word) else JobId.parse(word)
            ids = [id.job_or_task]
        terms += [f"{kind}:{id}" for id in ids]
    origins = {**request.origins, "dependency": Origin(Source.DERIVED, first_option)}
    dependency = ",".join(dict.fromkeys(terms)) or None
    return replace(request, dependency=dependency, typed_dependency=typed, origins=origins)


def _ids_to_wait_for(option: str, kind: str, word: str, tell: Callable[[str], None]) -> List[str]:
    """Return the ids that Slurm must wait for: those of jobs that have not ended.

    option: as typed, for messages. kind: ``afterok`` or ``afterany``. word: a job's id or name.
    Raises NoSuchJobError, and PolicyError if a job that must end well has failed.
    """
    ids: List[str] = []
    for named_id, jobs in _find(word):
        if kind == "afterok":
            _refuse_failed(option, jobs)
        job = next((job for job in jobs if not job.ended), jobs[0])
        if job.ended:
            state = f"has ended as {job.state}: there is nothing to wait for"
        else:
            state = f"is {job.state}"
            # A later run of a chain is a job with an id of its own.
            ids.append(str(job.job_id) if job.is_later_run else named_id.job_or_task)
        tell(f"{option}: job {job.id.job} ({printable(job.name)}) {state}")
    return ids


def _refuse_failed(option: str, jobs: Sequence[JobStatus]) -> None:
    """Raise PolicyError if one of the jobs has failed. option: as typed, for the message."""
    for job in jobs:
        if job.ended and job.state not in GOOD:
            raise PolicyError(
                f"{option}: job {job.id} ({printable(job.name)}) ended as {job.state}, "
                f"{ending_words(job)}: a job that follows it would never start",
                f"{_way_out(option, job)}; --after {job.id.job} does not ask how it ended",
            )


def _find(word: str) -> List[Tuple[JobId, Sequence[JobStatus]]]:
    """Return the job of this id or name, with its tasks; all active jobs of a sweep of this name.

    Of several jobs with the name, it is the newest, preferably one that has not ended.
    """
    if not is_name(word):
        return [_look_up(JobId.parse(word))]
    named = [job for job in queued() if is_named(job.name, word)]
    if not named:
        return [_look_up(newest(word, RecordStore.default()))]
    active = {job.id.job for job in named if not job.ended}
    numbers = active & _jobs_of_sweep(word)
    if not numbers:
        numbers = {max(active or {job.id.job for job in named})}
    tasks = {number: [job for job in named if job.id.job == number] for number in sorted(numbers)}
    return [(JobId(number), jobs) for number, jobs in tasks.items()]


def _look_up(id: JobId) -> Tuple[JobId, Sequence[JobStatus]]:
    """Return a job and its tasks; raise NoSuchJobError."""
    answer = look_up([id]).sure()
    if answer.missing:
        raise no_such_job(answer.missing)
    return id, answer.jobs


def _newer(job: JobStatus) -> Optional[int]:
    """Return a newer recorded job of the same name and directory, if there is one."""
    since = job.record.begun_at if job.record is not None else job.submit
    for record in RecordStore.default().recent(since=since or 0, cluster=local_cluster()):
        # The newest record is the first.
        if (record.job_name, record.cwd) == (job.name, job.work_dir) and record.job_id:
            return record.job_id if record.job_id > job.id.job else None
    return None


def _jobs_of_sweep(name: str) -> Set[int]:
    """Return the jobs of a sweep; none if the sweep does not exist."""
    place = glob.escape(sweep_dir(name))
    files = [*glob.glob(f"{place}/*/jobs/*"), *glob.glob(f"{place}/jobs/*")]  # in 0.2.0, without ID
    numbers = map(os.path.basename, files)
    return {int(number) for number in numbers if number.isdecimal()}


def _way_out(option: str, job: JobStatus) -> str:
    """Return what to type instead of an option whose job has failed."""
    if job.id.job in _jobs_of_sweep(job.name):
        return f"'neuronctl sweep retry {job.name}' continues the sweep"
    newer = _newer(job)
    if newer:
        instead = option.replace(str(job.id.job), str(newer))
        return f"'{instead}' waits for the next job of its name, {newer}"
    return f"'neuronctl resubmit {job.id.job}' submits it again"
