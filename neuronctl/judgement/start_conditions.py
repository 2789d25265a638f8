"""Find what a job itself requests to wait for: --hold, --begin, and --dependency. Pure.

Also find what the user may not use, and which of the job's sbatch options are not judged at all.
"""

from __future__ import annotations

import re
from typing import FrozenSet, Iterator, List, Mapping, Tuple

from neuronctl.common import units
from neuronctl.common.words import moment
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.reservations import check_access
from neuronctl.judgement.snapshot import slurm_says
from neuronctl.judgement.verdict import Doubt, Outcome, Wait
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding
from neuronctl.slurm.job_id import highest_index
from neuronctl.slurm.job_states import ACTIVE, ENDED, GOOD

_NUMBER = r"[1-9]\d{0,8}"
_JUDGED = {
    **dict.fromkeys(("wait", "quiet", "verbose", "parsable", "no-kill", "overcommit"), ""),
    **dict.fromkeys(("export", "input", "cpu-freq", "gpu-freq", "gpu-bind", "mem-bind"), r".+"),
    "nice": r"\d{0,9}",
    "open-mode": r"append|truncate",
    "get-user-env": r".*",
    "kill-on-invalid-dep": r"yes|no",
    "distribution": r"[a-z*]+(:[a-z*]+)*",
    # planning/needs.py knows how these spread a job over nodes, or says that it is unknown.
    **dict.fromkeys(("cpus-per-gpu", "mincpus", "ntasks-per-gpu"), _NUMBER),
    **dict.fromkeys(("mem-per-cpu", "mem-per-gpu"), r"\d{1,9}[KMGTkmgt]?[Bb]?"),
    "exclusive": r"user",
    # These change only what is measured or charged.
    **dict.fromkeys(("profile", "acctg-freq", "wckey"), r".+"),
    "delay-boot": r"\d{1,9}",
    "gpus-per-task": rf"(gpu:)?([\w.-]+:)?{_NUMBER}",
    # This module judges them.
    **dict.fromkeys(("hold", "begin", "nodes"), r".*"),
}
"""By option, a pattern for values that do not change when a job starts, or do so in a known way."""

_OF_THREADS = ("hint=nomultithread", "hint=multithread", "threads-per-core=1")
"""Options that change nothing if each core has one thread."""

_DATABASE = slurm_says("sacctmgr show associations")


def check_start_conditions(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the waits that the job requests, doubts about its options, and what it may not use."""
    request = on_cluster.plan.request
    figures = on_cluster.snapshot.figures
    if "associations" in figures.config.enforce and figures.associations:
        yield from _check_account(on_cluster)
        if "qos" in figures.config.enforce:
            yield from _check_qos(on_cluster)
    yield from check_access(on_cluster)
    yield from _check_numbers(on_cluster)
    if request.sbatch_value("hold") is not None:
        yield Wait("NC506", "JobHeldUser", "it is held (--hold) until you release it")
    if request.dependency is not None:
        yield from _check_dependency(request.dependency, on_cluster)
    begin = request.sbatch_value("begin")
    if begin is not None:
        yield from _check_begin(begin, on_cluster.snapshot.asked_at)
    has_one_thread = all(group.threads == 1 for group in on_cluster.pool)
    for option in request.sbatch:
        name, _, value = option.partition("=")
        is_judged = name in _JUDGED and re.fullmatch(_JUDGED[name], value, re.ASCII)
        if not is_judged and not (has_one_thread and option in _OF_THREADS):
            words = f"--sbatch {option} is not judged here: Slurm may refuse it, or wait for it"
            yield Doubt(words, refusable=True)


def _check_begin(begin: str, now: int) -> Iterator[Outcome]:
    """Yield the wait for the time of --begin, or the doubt about one that only Slurm can read."""
    start = units.parse_begin(begin, now)
    if start is None:
        yield Doubt(f"--begin={begin} is a time that only Slurm can read", refusable=True)
    elif start > now:
        words = f"it starts at {moment(start, seconds=True)} (--begin={begin})"
        words += f", {units.format_time(start - now)} from now, at the earliest"
        yield Wait("NC506", "BeginTime", words, until=start)


def _check_account(on_cluster: PlanOnCluster) -> Iterator[Finding]:
    """Yield the refusal of an account that the user lacks."""
    account = on_cluster.plan.request.account
    if account is not None and not on_cluster.associations:
        associations = on_cluster.snapshot.figures.associations
        names = ", ".join(dict.fromkeys(association.account for association in associations))
        words = f"you have no account '{account}'"
        yield Finding(words, f"your accounts: {names}", _DATABASE, code="NC514")


def _check_qos(on_cluster: PlanOnCluster) -> Iterator[Finding]:
    """Yield the refusal of a QOS, requested or by default, that the account lacks."""
    association, qos = on_cluster.association, on_cluster.job_qos
    if association is None or not qos or "," in qos:
        return  # which QOS the job gets is not known
    if qos.lower() in (name.lower() for name in association.qos):
        return
    names = ", ".join(association.qos)
    if on_cluster.plan.request.qos is not None:
        words = f"QOS {qos} is not one of account {association.account}"
        yield Finding(words, f"its QOS: {names or 'none'}", _DATABASE, code="NC514")
    elif names:
        words = f"without -q, Slurm takes QOS {qos}; account {association.account} lacks it"
        yield Finding(words, f"name one with -q: {names}", _DATABASE, code="NC514")


def _check_numbers(on_cluster: PlanOnCluster) -> Iterator[Finding]:
    """Yield the refusal of --nodes=0, and of array indexes over the cluster's highest."""
    request = on_cluster.plan.request
    if "nodes=0" in request.sbatch:
        words = "--nodes=0 is no number of nodes: Slurm refuses the job"
        yield Finding(words, "leave --nodes out, or give a number", code="NC113")
    highest = highest_index(request.array or "")
    most = on_cluster.snapshot.figures.config.max_array_size
    if most is not None and highest >= most:
        words = f"the array has index {highest}; the highest here is {most - 1} (MaxArraySize)"
        hint = "use lower indexes, and add the rest in the script: $((SLURM_ARRAY_TASK_ID + 10000))"
        yield Finding(words, hint, slurm_says("scontrol show config"), code="NC515")


def dependency_ids(plan: JobPlan) -> Tuple[int, ...]:
    """Return the ids of the jobs that the plan depends on; for a task, that of its array."""
    text = plan.request.dependency or ""
    ids = re.findall(r"(?:^|[:,?]) ?(\d{1,10})(?!\d)", text, re.ASCII)
    return tuple(dict.fromkeys(map(int, ids)))


_PREVENTING: Mapping[str, FrozenSet[str]] = {
    "afterany": frozenset(),
    "afterok": ENDED - GOOD,
    "afternotok": GOOD,
}
"""The dependencies that are judged, and in which states the other job prevents this one."""


def _read_terms(text: str) -> List[Tuple[str, int]]:
    """Return the kind and the job of each dependency; [] if a dependency is not judged.

    Judged are ``afterany:12:13``, ``afterok:12``, and ``afternotok:12``, also joined by commas.
    """
    judged_term = rf"({'|'.join(_PREVENTING)})(:\d{{1,10}})+"
    terms: List[Tuple[str, int]] = []
    for part in text.lower().split(","):
        if not re.fullmatch(judged_term, part, re.ASCII):
            return []
        kind, *numbers = part.split(":")
        terms += [(kind, int(number)) for number in numbers]
    return terms


def _check_dependency(text: str, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the wait for other jobs, and the jobs that Slurm does not know."""
    plan, snapshot = on_cluster.plan, on_cluster.snapshot
    if text.lower() == "singleton":
        if any(job.name == plan.job_name for job in snapshot.jobs):
            words = "it depends on your jobs of the same name (--dependency)"
            yield Wait("NC506", "Dependency", words)
        return
    states, ids = snapshot.job_states, dependency_ids(plan)
    unknown = [number for number in ids if number not in states]
    for number in unknown:
        yield Finding(
            f"--dependency names job {number}, which Slurm does not know (any more): it refuses "
            "the job, or does not wait for that one, however it ended",
            f"check it with 'neuronctl status {number}'",
            slurm_says("scontrol show job"),
            code="NC512",
        )
    terms = _read_terms(text)
    depends_on_unknown_end = any(job in unknown and kind != "afterany" for kind, job in terms)
    # An array has several jobs, each with an id of its own; this is the state of one.
    has_array = not states.keys() <= {*ids}
    has_unusual_state = not {*states.values()} <= ACTIVE | ENDED
    if not terms or depends_on_unknown_end or has_array or has_unusual_state:
        words = f"whether it waits for --dependency={text} is not known"
        is_surely_valid = ids and not unknown
        yield Doubt(words, refusable=not is_surely_valid)
        return
    preventing = [job for kind, job in terms if states.get(job) in _PREVENTING[kind]]
    if preventing:
        ends = [f"job {number} ended as {states[number]}" for number in dict.fromkeys(preventing)]
        words = f"forever: --dependency={text} cannot be met, because {' and '.join(ends)}"
        yield Wait("NC506", "DependencyNeverSatisfied", words)
        return
    names = [f"job {number}" for number in ids if states.get(number) in ACTIVE]
    if names:
        yield Wait("NC506", "Dependency", f"it depends on {' and '.join(names)} (--dependency)")
