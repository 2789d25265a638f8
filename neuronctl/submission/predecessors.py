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
    """Return the plain terms of a layer's --dependency as --after and --after-ok."""
    kinds = _plain_terms(layer.values["dependency"])
    values = {
        "after": (*layer.values.get("after", ()), *kinds["afterany"]),
        "after_ok": (*layer.values.get("after_ok", ()), *kinds["afterok"]),
        "dependency": ",".join(kinds[""]) or None,
    }
    return Layer(values, dict.fromkeys(values, layer.origins["dependency"]))


def refuse_unmeetable(dependency: str) -> None:
    """Raise PolicyError for a --dependency on a job that has failed."""
    for word in _plain_terms(dependency)["afterok"]:
        with contextlib.suppress(NoSuchJobError):
            for id, jobs in _find(word):
                _left(f"--dependency afterok:{word}", "afterok", id, jobs, lambda message: None)


def _plain_terms(dependency: str) -> Dict[str, List[str]]:
    """Return the jobs in a --dependency, by kind; "": the other terms."""
    kinds: Dict[str, List[str]] = {"afterany": [], "afterok": [], "": []}
    for term in dependency.split(","):
        kind, _, ids = term.partition(":")
        plain = kind in kinds and re.fullmatch(r"\d+(_\d+)?(:\d+(_\d+)?)*", ids)
        if plain and "?" not in dependency:
            kinds[kind] += ids.split(":")
        else:
            kinds[""].append(term)
    return kinds


def wait_for_named(
    request: JobRequest, tell: Callable[[str], None], *, ask_slurm: bool = True
) -> JobRequest:
    """Return the request with its --after and --after-ok as a part of --dependency.

    tell hears which jobs these are. ask_slurm: whether to leave out those that have ended, and to
    refuse what can never be met; else a name is that of the newest recorded job.

    Raises NoSuchJobError for an unknown job, and PolicyError for an --after-ok that cannot be met.
    """
    named = [("--after", "afterany", word) for word in request.after]
    named += [("--after-ok", "afterok", word) for word in request.after_ok]
    if not named:
        return request
    terms = [request.dependency] if request.dependency else []
    if "?" in (request.dependency or ""):
        # Slurm 22.05 takes both, and waits for any of the jobs.
        raise UsageError(
            f"{named[0][0]} and --dependency {request.dependency} contradict each other: "
            "Slurm waits for all jobs, or ('?') for any",
            "keep one of them",
        )
    for option, kind, word in named:
        if ask_slurm:
            jobs_by_id = _find(word)
            ids = [_left(f"{option} {word}", kind, id, jobs, tell) for id, jobs in jobs_by_id]
        else:
            id = newest(word, RecordStore.default()) if is_name(word) else JobId.parse(word)
            ids = [id.asked]
        terms += [f"{kind}:{id}" for id in ids if id]
    origins = {**request.origins, "dependency": Origin(Source.DERIVED, named[0][0])}
    dependency = ",".join(dict.fromkeys(terms)) or None
    typed = request.dependency
    return replace(request, dependency=dependency, typed_dependency=typed, origins=origins)


def _find(word: str) -> List[Tuple[JobId, Sequence[JobStatus]]]:
    """Return the job of this id, or the newest of this name, preferably one that has not ended.

    Of a sweep, all jobs that have not ended count.
    """
    if is_name(word):
        named = [job for job in queued() if is_named(job.name, word)]
        active = {job.id.job for job in named if not job.ended}
        numbers = active & _jobs_of_sweep(word)
        if named and not numbers:
            numbers = {max(active or {job.id.job for job in named})}
        if numbers:
            return [
                (JobId(number), [job for job in named if job.id.job == number])
                for number in sorted(numbers)
            ]
        id = newest(word, RecordStore.default())
    else:
        id = JobId.parse(word)
    answer = look_up([id]).sure()
    if answer.missing:
        raise no_such_job(answer.missing)
    return [(id, answer.jobs)]


def _newer(job: JobStatus) -> Optional[int]:
    """Return a newer recorded job of the same name and directory, if there is one."""
    since = job.record.begun_at if job.record is not None else job.submit
    for record in RecordStore.default().recent(since=since or 0, cluster=local_cluster()):
        if (record.job_name, record.cwd) == (job.name, job.work_dir) and record.job_id:
            return record.job_id if record.job_id > job.id.job else None
    return None


def _jobs_of_sweep(name: str) -> Set[int]:
    """Return the jobs of a sweep; none if the sweep does not exist."""
    place = glob.escape(sweep_dir(name))
    files = [*glob.glob(f"{place}/*/jobs/*"), *glob.glob(f"{place}/jobs/*")]  # 0.2.0: the latter
    numbers = map(os.path.basename, files)
    return {int(number) for number in numbers if number.isdecimal()}


def _left(
    given: str, kind: str, id: JobId, jobs: Sequence[JobStatus], tell: Callable[[str], None]
) -> str:
    """Return the id that Slurm must wait for, or "" if the job has ended; raise PolicyError.

    given: the option as typed, for messages. kind: ``afterok`` or ``afterany``. jobs: the job, or
    its tasks.
    """
    for job in jobs:
        if kind == "afterok" and job.ended and job.state not in GOOD:
            raise PolicyError(
                f"{given}: job {job.id} ({printable(job.name)}) ended as {job.state}, "
                f"{ending_words(job)}: a job that follows it would never start",
                f"{_way_out(given, job)}; --after {job.id.job} does not ask how it ended",
            )
    first = next((job for job in jobs if not job.ended), jobs[0])
    end = "has ended as {}: there is nothing to wait for" if first.ended else "is {}"
    tell(f"{given}: job {first.id.job} ({printable(first.name)}) {end.format(first.state)}")
    if first.ended:
        return ""
    return str(first.job_id) if first.is_later_run else id.asked


def _way_out(given: str, job: JobStatus) -> str:
    """Return what to type if the job that ``given`` names has failed."""
    if job.id.job in _jobs_of_sweep(job.name):
        return f"'neuronctl sweep retry {job.name}' continues the sweep"
    newer = _newer(job)
    if newer:
        instead = given.replace(str(job.id.job), str(newer))
        return f"'{instead}' waits for the next job of its name, {newer}"
    return f"'neuronctl resubmit {job.id.job}' submits it again"
