"""Random states beyond sizes and jobs: what a site sets up for QOS, partitions, and reservations.

Pure: each theme adds to a State what it does, with what undoes it, and requests that concern it.
"""

from __future__ import annotations

from random import Random
from typing import Callable, List

from states import GPUS, MODIFY, NODE, NODES, PARTITION, THEMES, State, hosts

ALSO_IN = {"gpu": ["gpu", "short"], "short": ["gpu", "short"], "mix": ["mix", "ga", "gb"]}
"""The partitions of the same nodes."""
CONF = "/etc/slurm/slurm.conf"
REREAD = "scontrol reconfigure"


def _configured(state: State, edit: str, back: str) -> None:
    """Change slurm.conf, before all that scontrol changes: reading it undoes that."""
    one, other = (f"sed -i '{what}' {CONF}; {REREAD}" for what in (edit, back))
    state.steps.insert(0, (one, other))


def _uses_hi(state: State, user: str, change: str, undone: str) -> None:
    """The user may have QOS hi, which is changed."""
    state.steps.append((f"{MODIFY} user {user} set qos=normal,hi", _no_hi(user)))
    state.steps.append((f"{MODIFY} qos hi set {change}", f"{MODIFY} qos hi set {undone}"))


def _no_hi(user: str) -> str:
    return f"{MODIFY} user {user} set qos=normal"


def _qos_flags(rng: Random, state: State, user: str) -> None:
    """A flag that lifts a limit of the partition, or asks for a reservation."""
    flag, change, *hints = rng.choice(
        [
            ("RequiresReservation", "", []),
            ("PartitionTimeLimit", "MaxTime=8", ["-t", "10"], ["-t", "5"]),
            ("PartitionMaxNodes", "MaxNodes=1", ["-N", "2"], ["-N", "1"]),
            ("PartitionMinNodes", "MinNodes=2", ["-N", "1"], ["-N", "2"]),
            ("DenyOnLimit", "", []),
        ]
    )
    if rng.random() < 0.8:
        _uses_hi(state, user, f"Flags={flag}", "Flags=-1")
    else:
        name = f"qos p_{state.partition}"
        state.steps.append((f"{MODIFY} {name} set Flags={flag}", f"{MODIFY} {name} set Flags=-1"))
    if change:
        state.steps.append((f"{PARTITION}={state.partition} {change}", REREAD))
    for hint in hints:
        state.hints += [hint, [*hint, "-q", "hi"]] if hint else [["-q", "hi"]] * 2


def _limit_factor(rng: Random, state: State, user: str) -> None:
    """A QOS multiplies limits of the association, or of the account above it."""
    factor, cores = rng.choice(["1.5", "2", "0.5"]), rng.choice([2, 4])
    who = rng.choice([f"user {user} where account=sandbox", "account sandbox"])
    limit = rng.choice(["GrpTRES", "MaxTRESPerJob", "MaxTRESPerNode"])
    _uses_hi(state, user, f"LimitFactor={factor}", "LimitFactor=-1")
    state.steps.append(
        (f"{MODIFY} {who} set {limit}=cpu={cores}", f"{MODIFY} {who} set {limit}=cpu=-1")
    )
    for wanted in {cores, cores + 1, int(cores * float(factor)) or 1}:
        state.hints += [["-c", str(wanted), "-q", "hi"], ["-c", str(wanted)]]


def _lists(rng: Random, state: State, user: str) -> None:
    """Jobs that several partitions may take, one of which mostly has something against them."""
    if rng.random() < 0.7:
        word = rng.choice(["ANY", "NO"])
        edit = "s/^EnforcePartLimits=.*/EnforcePartLimits={}/"
        _configured(state, edit.format(word), edit.format("ALL"))
    change, *hints = rng.choice(
        [
            *[("State=INACTIVE",), ("State=DRAIN",), ("State=DOWN",), ("RootOnly=YES",)],
            *[("AllowGroups=games",), ("ReqResv=YES",), ("AllocNodes=g1",), ("AllowQos=hi",)],
            ("MaxTime=8", ["-t", "10"], ["-t", "5"]),
            ("MaxNodes=1", ["-N", "2"], ["-N", "1-2"]),
            ("MinNodes=2", ["-N", "2"], ["-N", "1"]),
            ("AllowAccounts=acct2", ["-t", "5"]),
            ("MaxMemPerNode=3000", ["--mem", "3001"], ["--mem", "3000"]),
            ("MaxCPUsPerNode=2", ["-c", "2"], ["-c", "4"]),
        ]
    )
    state.steps.append((f"{PARTITION}={state.partition} {change}", REREAD))
    others = [name for name in NODES if name != state.partition]
    state.hints += hints
    for _ in range(4):
        names = [state.partition, *rng.sample(others, rng.choice([1, 1, 2]))]
        rng.shuffle(names)
        several = ["-p", ",".join(names)]
        state.hints += [several, [*several, *rng.choice([*hints, []])]]


def _reservations(rng: Random, state: State, user: str) -> None:
    """One for a group, or one that attracts jobs."""
    names = hosts(state.partition)
    some = ",".join(rng.sample(names, rng.randint(1, len(names))))
    who = rng.choice(["Groups={0}", "Groups=games", "Users={0}", "Users=games", "Accounts=acct2"])
    flags = rng.choice(["", " Flags=MAGNETIC", " Flags=MAGNETIC"])
    start = rng.choice(["now", "now", "now", "now+30minutes"])
    words = f"scontrol create reservation ReservationName=rs StartTime={start} Duration=120"
    words += f" {who.format(user)} Nodes={some}{flags}"
    state.steps.append((words, "scontrol delete ReservationName=rs"))
    state.hints += [["--reservation", "rs"], ["-w", some.partition(",")[0]], ["-t", "2:00:00"]]
    state.hints += [["-N", str(len(names))], ["-N", str(some.count(",") + 1)]]


def _features_elsewhere(rng: Random, state: State, user: str) -> None:
    """A feature of this partition, and one that only nodes of another have."""
    other = "cpu" if state.partition != "cpu" else "gpu"
    one, far = rng.choice(hosts(state.partition)), rng.choice(hosts(other))
    for name, feature in ((one, "fast"), (far, "slow")):
        state.steps.append((f"{NODE}={name} AvailableFeatures={feature}", REREAD))
    for text in ("fast|slow", "[fast|slow]", "(fast|slow)&fast", "slow", "fast&slow", "slow|none"):
        state.hints.append(["-C", text])
    state.hints += [["-x", f"nosuch1,{one}"], ["-x", f"{one},nosuch1"]]
    state.hints += [["-w", ",".join(hosts(state.partition)[:2]), "-x", one, "-N", "1"]]


def _shared_cores(rng: Random, state: State, user: str) -> None:
    """Nodes in use whose cores take another job, in one of the partitions that have them."""
    here = ALSO_IN.get(state.partition, [state.partition])
    state.steps.append((f"{PARTITION}={rng.choice(here)} OverSubscribe=FORCE:2", REREAD))
    for _ in hosts(state.partition):
        words = ["-p", rng.choice(here), "-t", "60", "-c", rng.choice(["4", "8", "8"])]
        gpus = [] if state.partition == "cpu" else [f"--gres=gpu:{rng.choice([1, GPUS])}"]
        state.jobs.append((rng.choice(["games", "games", ""]), [*words, *gpus, "--mem=1000"]))
    state.hints += [["-p", name] for name in here]


SITE_THEMES: List[Callable[[Random, State, str], None]] = [
    *[_lists] * 4,
    *[_qos_flags, _reservations] * 3,
    *[_limit_factor, _features_elsewhere] * 2,
    *[_shared_cores] * 2,
]


def site_state(rng: Random, user: str) -> State:
    """One or two of them, and perhaps something ordinary."""
    state = State(rng.choice(["gpu", "gpu", "short", "cpu", "cpu", "mix"]))
    ordinary = rng.sample(THEMES, rng.choice([0, 0, 1, 1, 2]))
    for theme in dict.fromkeys([*rng.sample(SITE_THEMES, rng.choice([1, 1, 2])), *ordinary]):
        theme(rng, state, user)
    return state
