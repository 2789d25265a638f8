"""What a job itself asks to wait for: --hold, --begin and --dependency; and what of its options
is not followed here. Pure.
"""

from __future__ import annotations

import re
import time
from typing import Iterator, List, Optional, Tuple

from neuronctl import units
from neuronctl.forecast.facts import Live
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan

_ACTIVE = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "REQUEUED", "STAGE_OUT"}
)
_FAILED = frozenset(
    {"FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
    | {"PREEMPTED", "REVOKED"}
)

SELECTING = frozenset(
    {"mem-per-cpu", "mem-per-gpu", "gpus-per-task", "gpus-per-socket", "cpus-per-gpu", "mincpus"}
    | {"ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-core", "sockets-per-node"}
    | {"cores-per-socket", "threads-per-core", "core-spec", "thread-spec", "extra-node-info"}
    | {"licenses", "contiguous", "switches", "spread-job", "exclusive", "cluster-constraint"}
    | {"tmp"}
)
"""sbatch options that decide on the nodes too, which is not followed here."""

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


@dataclass(frozen=True)
class Wish:
    """cause: Slurm's reason; "" where it is not known whether the job waits for it.

    odd: Slurm may as well refuse the job for it. until: epoch seconds when it is over; None: not
    known.
    """

    cause: str
    words: str
    odd: bool = False
    until: Optional[int] = None


def option(plan: JobPlan, name: str) -> Optional[str]:
    """The value of an sbatch option given with ``--sbatch``; "" for a flag, None: not given."""
    for one in plan.request.sbatch:
        key, _, value = one.partition("=")
        if key == name:
            return value
    return None


def wishes(plan: JobPlan, live: Live) -> Tuple[Wish, ...]:
    """What it waits for as asked, and what it may wait for."""
    return tuple(_wishes(plan, live))


def _wishes(plan: JobPlan, live: Live) -> Iterator[Wish]:
    if option(plan, "hold") is not None:
        yield Wish("JobHeldUser", "it is held (--hold) until you release it")
    text = plan.request.dependency
    if text is not None:
        yield from _dependency(text, plan, live)
    begin = option(plan, "begin")
    if begin is not None:
        yield from _begin(begin, live.asked_at)
    if plan.request.gres:
        words = f"--gres={','.join(plan.request.gres)} is not followed here: Slurm may refuse it"
        yield Wish("", words, True)
    for one in plan.request.sbatch:
        name, _, value = one.partition("=")
        if name in ("hold", "begin") or name in SELECTING:
            continue
        if name not in _HARMLESS or not re.fullmatch(_HARMLESS[name], value, re.ASCII):
            words = f"--sbatch {one} is not followed here: Slurm may refuse it, or wait for it"
            yield Wish("", words, True)


def _begin(text: str, now: int) -> Iterator[Wish]:
    from neuronctl.request.begin_time import moment

    try:
        at = moment(text, now)
    except ValueError:
        return  # a rule refuses it
    if at is None:
        yield Wish("", f"--begin={text} is no moment that is understood here", True)
    elif at > now:
        shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        left = units.format_time(at - now)
        words = f"it begins at {shown} (--begin={text}), {left} from now, at the earliest"
        yield Wish("BeginTime", words, until=at)


# -------------------------------------------------------------------------- dependencies

_MET, _WAITS, _OPEN, _NEVER = "met", "waits", "open", "never"


def dependency_ids(plan: JobPlan) -> Tuple[int, ...]:
    """The job ids that ``--dependency`` names."""
    return tuple(one[1] for one in _terms(plan.request.dependency or "") if one[1])


def is_singleton(plan: JobPlan) -> bool:
    """Whether it waits for the jobs of its name."""
    return any(kind == "singleton" for kind, *_ in _terms(plan.request.dependency or ""))


def _terms(text: str) -> List[Tuple[str, int, str]]:
    """(kind, job id, what stands behind it: a task or a delay) of each job that is named; the id
    of a singleton is 0.
    """
    found = []
    for item in re.split("[,?]", text.lower()):
        kind, colon, ids = item.partition(":")
        if kind == "singleton":
            found.append((kind, 0, ""))
            continue
        for one in (ids if colon else kind).split(":"):
            match = re.fullmatch(r" ?(\d{1,10})([_+].*)?", one, re.ASCII)
            if match is not None:
                found.append((kind if colon else "afterany", int(match[1]), match[2] or ""))
    return found


def passes_strangers(live: Live) -> bool:
    """Whether it is certain that Slurm takes a job that it does not know for one that ended as
    wanted, whatever is wanted: so it is up to 22.05.
    """
    found = re.match(r"(\d+)\.(\d+)", live.limits.config.version)
    return found is not None and (int(found[1]), int(found[2])) <= (22, 5)


def _dependency(text: str, plan: JobPlan, live: Live) -> Iterator[Wish]:
    terms = _terms(text)
    states = [_state_of(one, plan, live) for one in terms]
    order = (_MET, _OPEN, _WAITS, _NEVER) if "?" in text else (_NEVER, _WAITS, _OPEN, _MET)
    state = next((one for one in order if one in states), _MET)
    which = [term for term, one in zip(terms, states) if one == state]
    ids = list(dict.fromkeys(str(number) for _, number, _ in which if number))
    jobs = ("job " if len(ids) == 1 else "jobs ") + ", ".join(ids)
    if state == _NEVER:
        ended = ", ".join(dict.fromkeys(live.job_states[number] for _, number, _ in which))
        words = f"for ever: --dependency={text} cannot be met, since {jobs} ended as {ended}"
        yield Wish("DependencyNeverSatisfied", words)
    elif state == _WAITS:
        said = []
        if ids:
            has = "has" if len(ids) == 1 else "have"
            said.append(f"it depends on {jobs} (--dependency), which {has} not ended")
        if ("singleton", 0, "") in which:
            named = next(one for one in live.jobs if one.name == plan.job_name)
            said.append(f"your job {named.id} has its name (--dependency=singleton)")
        yield Wish("Dependency", "; ".join(said))
    elif state == _OPEN:
        yield Wish("", f"whether it waits for --dependency={text} is not known")


def _state_of(term: Tuple[str, int, str], plan: JobPlan, live: Live) -> str:
    kind, number, behind = term
    if kind == "singleton":
        if any(one.name is None for one in live.jobs):
            return _OPEN
        return _WAITS if any(one.name == plan.job_name for one in live.jobs) else _MET
    state = live.job_states.get(number)
    if state is None:
        return _MET if passes_strangers(live) else _OPEN  # and a rule warns of it
    # Of an array there are several, of which this is the state of one.
    several = bool(set(live.job_states) - set(dependency_ids(plan)))
    if kind == "after":
        if state not in ("PENDING", "CONFIGURING"):
            return _OPEN if behind or several else _MET
        return _OPEN if "_" in behind else _WAITS
    if state in _ACTIVE:
        return _OPEN if "_" in behind else _WAITS
    if several or "_" in behind or state not in _FAILED | {"COMPLETED"}:
        return _OPEN
    wanted = {"afterok": state == "COMPLETED", "aftercorr": state == "COMPLETED"}
    wanted["afternotok"] = state != "COMPLETED"
    return _MET if wanted.get(kind, True) else _NEVER
