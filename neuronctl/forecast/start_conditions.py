"""What a job itself asks to wait for: --hold, --begin, --dependency, and licenses. Pure.

Also which of its sbatch options are not judged at all.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.frozen import dataclass
from neuronctl.common.words import counted, moment, verb
from neuronctl.forecast.outcomes import Doubt, Outcome, Wait
from neuronctl.forecast.plan_on_cluster import PlanOnCluster
from neuronctl.forecast.snapshot import slurm_says
from neuronctl.planning import JobPlan
from neuronctl.planning.needs import NEWER, is_crowded
from neuronctl.request.job import Amounts
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.job_states import ACTIVE, COMPLETED, CONFIGURING, ENDED, PENDING

# Those that change nothing in when a job starts, as long as their values are such.
_HARMLESS = {
    "nice": r"\d{0,9}",
    "open-mode": r"append|truncate",
    "export": r".+",
    "get-user-env": r".*",
    "input": r".+",
    "wait": r"",
    "quiet": r"",
    "verbose": r"",
    "parsable": r"",
    "no-kill": r"",
    "kill-on-invalid-dep": r"yes|no",
    "distribution": r"[a-z*]+(:[a-z*]+)*",
    "cpu-freq": r".+",
    "gpu-freq": r".+",
    "gpu-bind": r".+",
    "mem-bind": r".+",
}
# Those of which the nodes that it needs are known (planning/needs.py).
_SIZES = {
    "cpus-per-gpu": r"[1-9]\d{0,8}",
    "exclusive": r"user",
    "gpus-per-task": r"(gpu:)?([A-Za-z][\w.-]*:)?[1-9]\d{0,8}",
    "mem-per-cpu": r"\d{1,9}[KMGTkmgt]?[Bb]?",
    "mem-per-gpu": r"[1-9]\d{0,8}[KMGTkmgt]?[Bb]?",
    "mincpus": r"[1-9]\d{0,8}",
    "ntasks-per-gpu": r"[1-9]\d{0,8}",
    "overcommit": r"",
}
_JUDGED = {**_HARMLESS, **_SIZES}


def check_start_conditions(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """What the job waits for as asked, and what it may wait for."""
    request = on_cluster.plan.request
    if request.sbatch_value("hold") is not None:
        yield Wait("NC506", "JobHeldUser", "it is held (--hold) until you release it")
    if request.dependency is not None:
        yield from _dependency(request.dependency, on_cluster)
    begin = request.sbatch_value("begin")
    if begin is not None:
        yield from _begin(begin, on_cluster.snapshot.asked_at)
    others = [item for item in request.gres if not item.startswith("gpu:")]
    if others:
        words = f"--gres={','.join(others)} is not judged here: Slurm may refuse it"
        yield Doubt(words, refusable=True)
    for options in _spread_unknown(on_cluster):
        words = f"over which nodes this Slurm spreads tasks with {options} is not known"
        yield Doubt(words, refusable=True)
    for option in request.sbatch:
        name, _, value = option.partition("=")
        if name in ("hold", "begin") or (
            name == "licenses" and licenses_asked(on_cluster) is not None
        ):
            continue
        if name not in _JUDGED or not re.fullmatch(_JUDGED[name], value, re.ASCII):
            words = f"--sbatch {option} is not judged here: Slurm may refuse it, or wait for it"
            yield Doubt(words, refusable=True)


def _spread_unknown(on_cluster: PlanOnCluster) -> Iterator[str]:
    """The options of a script by which Slurm may find nodes for it, or none."""
    needs, own = on_cluster.needs, on_cluster.plan.request.amounts
    newer = on_cluster.snapshot.limits.config.release >= NEWER
    if own is None:
        return
    if needs.tasks_per_gpu and _spread_by_gpus(on_cluster, own, newer):
        yield "--ntasks-per-gpu"
    if is_crowded(on_cluster.plan) and len({(x.cores, x.gpus) for x in on_cluster.pool}) > 1:
        yield "--cpus-per-gpu and -G on nodes of several sizes"
    each, tasks = own.ntasks_per_node or 0, own.ntasks or 0
    too_small = any(group.cores < each * needs.cores_per_task for group in on_cluster.pool)
    divides = own.gpus and each and tasks > 1 and tasks % own.gpus == 0
    if newer and divides and (too_small or each > tasks) and not on_cluster.required_hosts:
        many = "--ntasks-per-node, which is more than --ntasks, and -G"
        yield "--ntasks-per-node and -G on nodes of several sizes" if too_small else many
    cores = needs.cores_per_gpu * (own.gpus or 0)
    said = is_crowded(on_cluster.plan) or own.gpus_per_node or own.ntasks_per_node
    if 0 < cores < needs.tasks and not said and not own.cpus_per_task:
        yield "-G and DefCpuPerGPU"
    most = (own.nodes or 1) * (own.ntasks_per_node or 0)
    if newer and needs.gpus_per_task and (own.nodes or 0) > 1 and 0 < (own.ntasks or 0) < most:
        yield "--gpus-per-task and --ntasks-per-node"


def _spread_by_gpus(on_cluster: PlanOnCluster, own: Amounts, newer: bool) -> bool:
    """Whether it is not known how ``--ntasks-per-gpu`` spreads tasks (Slurm 22.05 and 24.11)."""
    needs, gpus = on_cluster.needs, own.gpus or 0
    fixed = own.nodes and not (own.cpus_per_task or needs.cores_per_gpu)
    fewer = gpus and (own.ntasks or 0) < gpus * needs.tasks_per_gpu
    if needs.gpus and needs.tasks > needs.gpus * needs.tasks_per_gpu:
        return True
    if own.ntasks and (fewer or own.gpus_per_node) and not fixed:
        return True
    ranges = own.max_nodes not in (None, own.nodes)
    if newer:
        two = gpus // (own.nodes or 1) * needs.tasks_per_gpu == 2
        return bool(two and ranges and (own.cpus_per_task or 1) > 1)
    if needs.tasks_per_gpu > 1 and needs.most_nodes != needs.nodes and not needs.gpus_per_node:
        return True
    if own.nodes and not ranges and gpus % own.nodes:
        return True
    return bool(own.cpus_per_task and gpus > (on_cluster.plan.partition.gpus_per_node or 0))


def check_licenses(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Whether the licenses of ``--sbatch licenses`` are free, of those that Slurm has."""
    snapshot, asked = on_cluster.snapshot, licenses_asked(on_cluster)
    if not asked:
        return
    source = slurm_says("scontrol show licenses", snapshot.asked_at)
    kept = ",".join(
        name for reservation in snapshot.reservations or () for name in reservation.licenses
    )
    reserved = _counts(kept) or {}
    for name, count in asked.items():
        total, free = (snapshot.licenses or {}).get(name, (0, 0))
        if count > total:
            continue  # a rule refuses it
        if count > free:
            words = f"{asked_and_there(name, count, total)}, of which {free or 'none'} "
            words = f"{words}{verb(free or 1)} free"
            # Behind a job of others, Slurm may not have looked at the licenses yet.
            yield Wait("NC531", "Licenses", words, source, also=("Priority",))
        elif count > free - reserved.get(name, 0) or (count and on_cluster.unscheduled.jobs):
            yield Doubt(
                f"whether enough of license '{name}' is left is not known", cause="Licenses"
            )


def asked_and_there(name: str, count: int, total: int) -> str:
    return f"requested {counted(count, 'license')} '{name}'; Slurm has {total or 'none'}"


def licenses_asked(on_cluster: PlanOnCluster) -> Optional[Dict[str, int]]:
    """How many of each license it requests; None where that, or what Slurm has, is not known."""
    text = on_cluster.plan.request.sbatch_value("licenses")
    return None if text is None or on_cluster.snapshot.licenses is None else _counts(text)


def _counts(text: str) -> Optional[Dict[str, int]]:
    """``foo:2,bar`` -> foo 2, bar 1; None where versions of Slurm may read it differently."""
    found: Dict[str, int] = {}
    for item in re.split("[,;]", text):
        match = re.fullmatch(r"(\w[\w.@-]*)(?::(\d+))?", item, re.ASCII)
        if match is None:
            return None
        found[match[1]] = found.get(match[1], 0) + int(match[2] or 1)
    return found


def _begin(text: str, now: int) -> Iterator[Outcome]:
    from neuronctl.request import begin_time  # here, as few jobs have one

    try:
        at = begin_time.moment(text, now)
    except ValueError:
        return  # a rule refuses it
    if at is None:
        yield Doubt(f"--begin={text} is a time that only Slurm can read", refusable=True)
    elif at > now:
        shown, left = moment(at, seconds=True), units.format_time(at - now)
        words = f"it starts at {shown} (--begin={text}), {left} from now, at the earliest"
        yield Wait("NC506", "BeginTime", words, until=at)


# -------------------------------------------------------------------------- dependencies

_MET, _WAITS, _OPEN, _NEVER = "met", "waits", "open", "never"


@dataclass(frozen=True)
class _Term:
    """A job that ``--dependency`` names; the id of a singleton is 0. rest: a task or a delay."""

    kind: str
    job_id: int
    rest: str


def dependency_ids(plan: JobPlan) -> Tuple[int, ...]:
    return tuple(term.job_id for term in _terms(plan.request.dependency or "") if term.job_id)


def is_singleton(plan: JobPlan) -> bool:
    """Whether it waits for the jobs of its name."""
    return any(term.kind == "singleton" for term in _terms(plan.request.dependency or ""))


def _terms(text: str) -> List[_Term]:
    terms = []
    for item in re.split("[,?]", text.lower()) if text else ():
        kind, colon, ids = item.partition(":")
        if kind == "singleton":
            terms.append(_Term(kind, 0, ""))
            continue
        for word in (ids if colon else kind).split(":"):
            match = re.fullmatch(r" ?(\d{1,10})([_+].*)?", word, re.ASCII)
            if match is not None:
                terms.append(_Term(kind if colon else "afterany", int(match[1]), match[2] or ""))
    return terms


def unknown_dependencies(on_cluster: PlanOnCluster) -> Iterator[Tuple[int, Optional[bool]]]:
    """The jobs that ``--dependency`` names and that Slurm does not know (any longer).

    Each with whether Slurm accepts the new job nevertheless, which then does not wait for that one;
    None if unknown.
    """
    for term in _terms(on_cluster.plan.request.dependency or ""):
        if term.job_id and term.job_id not in on_cluster.snapshot.job_states:
            yield term.job_id, _taken(term, on_cluster.snapshot.limits)


def _taken(term: _Term, limits: ClusterFigures) -> Optional[bool]:
    """Of a dependency on an unknown job. Source: Slurm 22.05.8, 24.11.5, and 26.05.5, tried."""
    release = limits.config.release
    if term.kind not in ("afterok", "afternotok") or () < release <= (22, 5):
        return True
    return False if release >= (24, 11) else None


def _dependency(text: str, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    terms = _terms(text)
    states = [_state_of(term, on_cluster) for term in terms]
    order = (_MET, _OPEN, _WAITS, _NEVER) if "?" in text else (_NEVER, _WAITS, _OPEN, _MET)
    decided = next((state for state in order if state in states), _MET)
    decisive = [term for term, state in zip(terms, states) if state == decided]
    ids = list(dict.fromkeys(str(term.job_id) for term in decisive if term.job_id))
    jobs = ("job " if len(ids) == 1 else "jobs ") + ", ".join(ids)
    snapshot = on_cluster.snapshot
    if decided == _NEVER:
        ended = ", ".join(dict.fromkeys(snapshot.job_states[term.job_id] for term in decisive))
        words = f"forever: --dependency={text} cannot be met, because {jobs} ended as {ended}"
        yield Wait("NC506", "DependencyNeverSatisfied", words)
    elif decided == _WAITS:
        said = []
        if ids:
            has = verb(len(ids), "has", "have")
            said.append(f"it depends on {jobs} (--dependency), which {has} not ended")
        if any(term.kind == "singleton" for term in decisive):
            named = next(job for job in snapshot.jobs if job.name == on_cluster.plan.job_name)
            said.append(f"your job {named.id} has the same name (--dependency=singleton)")
        yield Wait("NC506", "Dependency", "; ".join(said))
    elif decided == _OPEN:
        # On a job that it does not know any more, Slurm may refuse to depend.
        known = all(term.job_id in (0, *snapshot.job_states) for term in decisive)
        words = f"whether it waits for --dependency={text} is not known"
        yield Doubt(words, refusable=not known)


def _state_of(term: _Term, on_cluster: PlanOnCluster) -> str:
    snapshot, plan = on_cluster.snapshot, on_cluster.plan
    if term.kind == "singleton":
        if any(job.name is None for job in snapshot.jobs):
            return _OPEN
        return _WAITS if any(job.name == plan.job_name for job in snapshot.jobs) else _MET
    state = snapshot.job_states.get(term.job_id)
    if state is None:
        # And a rule warns of it, or refuses it.
        return _OPEN if _taken(term, snapshot.limits) is None else _MET
    # Of an array there are several, of which this is the state of one.
    several = bool(set(snapshot.job_states) - set(dependency_ids(plan)))
    if term.kind == "after":
        if state not in (PENDING, CONFIGURING):
            return _OPEN if term.rest or several else _MET
        return _OPEN if "_" in term.rest else _WAITS
    if state in ACTIVE:
        return _OPEN if "_" in term.rest else _WAITS
    if several or "_" in term.rest or state not in ENDED:
        return _OPEN
    wanted = {"afterok": True, "aftercorr": True, "afternotok": False}.get(term.kind)
    return _MET if wanted in (None, state == COMPLETED) else _NEVER
