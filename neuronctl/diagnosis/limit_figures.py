"""The limit that keeps a job pending, its figures, and whether the job can ever start under it."""

from __future__ import annotations

import contextlib
import time
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from neuronctl.common.errors import SlurmError
from neuronctl.common.frozen import replace
from neuronctl.common.units import UNLIMITED
from neuronctl.common.users import login_name
from neuronctl.slurm.answers import ClusterFigures, limits_in_force, used_of_each
from neuronctl.slurm.job_states import HOLDING, WAITING
from neuronctl.slurm.limits import KINDS, Counts, Limit, Per, Scope, reasons
from neuronctl.slurm.pending_reasons import ALLOWS_NONE, NEVER, OWN_JOBS, Explained, explain
from neuronctl.slurm.sacctmgr import LimitedGroup, association_in
from neuronctl.tracking.job_status import JobStatus, merge

_FRESH = 60  # seconds for which `status --watch` need not ask for the limits again
_kept: List[Tuple[float, ClusterFigures]] = []

_SHARED = frozenset(
    limit.reason for kind in KINDS.values() if kind.assoc_mgr for limit in kind.examples()
)

# Whom a limit is of -> whose it is in words.
_WHOM = {Per.JOB: "a job", Per.NODE: "a node", Per.USER: "a user", Per.ACCOUNT: "an account"}


def explained(jobs: Sequence[JobStatus], *, some: bool = False) -> Dict[str, Explained]:
    """Job id -> its limit, for the jobs that wait for one whose figures are known.

    some: whether ``jobs`` lacks others of the user that count against the limits.
    """
    waiting = [job for job in jobs if job.state in WAITING and job.reason in reasons()]
    if not waiting:
        return {}
    shared = any(job.reason in _SHARED for job in waiting)
    known = _known_limits(shared=shared)
    if known is None:
        return {}
    limits, groups = known
    others = replace(limits, associations=())
    all_jobs, now = list(jobs), int(time.time())
    if some:
        with contextlib.suppress(SlurmError):
            all_jobs = [job for user in {job.user for job in waiting} for job in _jobs_of(user)]
    found = {}
    for job in waiting:
        own = [other for other in all_jobs if other.user == job.user]
        mine = job.user == login_name()
        found[str(job.id)] = explain_limit(job, own, limits if mine else others, groups, now=now)
    return found


def _jobs_of(user: str) -> Sequence[JobStatus]:
    from neuronctl.slurm.squeue import squeue

    return merge(None, squeue(user=user))


def explain_now(status: JobStatus) -> Explained:
    """The limit that a job waits for, with Slurm's figures of this moment where it tells them."""
    from neuronctl.judgement.ask import ask_limits

    with contextlib.suppress(SlurmError):
        limits, groups = ask_limits(status.user, timeout=10.0)
        own = _jobs_of(status.user)
        return explain_limit(status, own, limits, groups, now=int(time.time()))
    return explain(status.reason, str(status.id.job))


_Groups = Sequence[LimitedGroup]


def _known_limits(*, shared: bool) -> Optional[Tuple[ClusterFigures, _Groups]]:
    """The cluster's limits as they were a minute ago at most; None where Slurm does not answer.

    shared: with what groups hold of theirs at this moment.
    """
    from neuronctl.judgement.ask import ask_limits

    if _kept and _kept[0][0] > time.time() - _FRESH and not shared:
        return _kept[0][1], ()
    with contextlib.suppress(SlurmError):
        limits, groups = ask_limits(login_name())
        _kept[:] = [(time.time(), limits)]
        return limits, groups
    return None


def explain_limit(
    status: JobStatus,
    own: Sequence[JobStatus],
    limits: ClusterFigures,
    groups: _Groups = (),
    *,
    now: int,
) -> Explained:
    """The reason of a job that waits for a limit, with the limit's figures where it is known.

    own: the jobs of its user. limits: as they hold for that user. now: epoch seconds. Pure.
    """
    known = explain(status.reason, str(status.id.job))
    candidates = [
        limit for limit in _find_limits(status, limits, groups) if limit.reason == status.reason
    ]
    for limit in candidates:
        wanted = _wanted(limit, status)
        if wanted is not None and not limit.allows(wanted):
            return _never(limit, wanted, known)
    if not candidates:
        return known
    limit = candidates[0]
    here = _counted_by(limit, status, own, limits)
    held = None if here is None else limit.held_by(here)
    per = limit.about.per
    used = limit.used if per == Per.GROUP else used_of_each(limit, status.account, groups)
    if used is None and per == Per.USER:
        used = held
    whole = limit.figure if used is None and per == Per.ACCOUNT else used
    figure = f"limit {limit.amount(limit.figure)}"
    if used is not None:
        figure = f"{used} of {limit.amount(limit.figure)}"
    if used is not None and here is not None and per == Per.USER:
        figure += _until(replace(limit, used=used), status, here, now)
    advice = known.advice
    if whole and held is not None and held >= whole:
        advice = OWN_JOBS
    return Explained(f"{known.words}: {figure}", advice)


def _never(limit: Limit, wanted: int, known: Explained) -> Explained:
    """Return a job that is over a limit by itself, however many others end."""
    about = limit.about
    whom = _WHOM.get(about.per, "")
    if limit.scope == Scope.ASSOCIATION and whom:
        whom = "you" if about.per == Per.USER else f"{whom} of yours"
    if about.counts == Counts.RUNNING:
        words = " ".join(word for word in (limit.holder, "allows", whom, "no running jobs") if word)
        return Explained(f"will never start: {words}", ALLOWS_NONE)
    most = f"allows {whom or 'all of its jobs together'} {limit.amount(limit.figure)}"
    if about.minimum:
        most = f"requires at least {limit.amount(limit.figure)}"
    words = f"it requests {limit.amount(wanted)}, and {limit.holder} {most}"
    advice = known.advice if about.per in (Per.JOB, Per.NODE) else NEVER
    return Explained(f"will never start: {words}", advice)


def _wanted(limit: Limit, status: JobStatus) -> Optional[int]:
    """Return what a job takes of a limit; None: not known, or it ends with what others use up."""
    about, seconds = limit.about, status.time_limit
    if about.per == Per.NODE or about.counts in (Counts.SUBMITTED, Counts.SPENT):
        return None
    return limit.taken(status.tres, None if seconds == UNLIMITED else seconds)


def _counted_by(
    limit: Limit, status: JobStatus, own: Iterable[JobStatus], limits: ClusterFigures
) -> Optional[Sequence[JobStatus]]:
    """Return the user's jobs that a limit counts; None: not known."""
    if limit.about.counts not in (Counts.SUBMITTED, Counts.RUNNING, Counts.TRES):
        return None
    if limit.scope == Scope.QOS:
        # A QOS counts its own jobs, and if it is a partition's, those in the partition.
        name, partitions = limit.name.lower(), limits.partitions_of(limit.name)
        here = [job for job in own if job.qos.lower() == name or job.partition in partitions]
    else:
        here = [job for job in own if job.account == status.account]
    return [job for job in here if not job.ended]


def _until(limit: Limit, status: JobStatus, here: Sequence[JobStatus], now: int) -> str:
    """Until when the user's own jobs keep this one from starting; in the words of a submission."""
    from neuronctl.judgement.limits import until

    running = limit.about.counts == Counts.RUNNING
    wanted = 1 if running else _wanted(limit, status)
    if limit.about.counts == Counts.SUBMITTED or not wanted:
        return ""
    ends = [
        (job.start + job.time_limit, job)
        for job in here
        if job.state in HOLDING
        and job.start is not None
        and job.time_limit not in (None, UNLIMITED)
    ]
    ahead = [job for job in here if job.state in WAITING and job.reason == status.reason]
    before = sum(job.count for job in ahead if job.job_id < status.job_id)
    words, _ = until(limit, ends, limit.used + wanted - limit.figure, before, now)
    return f"; {'it' if running else f'{wanted} more'} must wait until {words}"


def _find_limits(status: JobStatus, limits: ClusterFigures, groups: _Groups) -> Sequence[Limit]:
    """Return those that may hold for a job, its partition's in front."""
    partition = limits.partition(status.partition)
    own = [
        association for association in limits.associations if association.account == status.account
    ]
    association = association_in(status.partition, own)
    qos = limits.qos_in_force("" if partition is None else partition.qos, status.qos)
    own_qos = limits.qos_named(status.qos)
    flags = () if own_qos is None else own_qos.flags
    return limits_in_force(partition, flags, qos, association, groups)
