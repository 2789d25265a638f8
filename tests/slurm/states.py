"""Random states of a cluster, and random requests in them. Pure: a seed gives the same ones.

A state is what administrators and users have done: each step is a command of the administrator's
and the one that undoes it, each job the options of an sbatch. A step also has a hint: options that
concern it, which requests in that state have more often.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Callable, Dict, List, Tuple

NODES = {"gpu": 4, "short": 4, "cpu": 3, "ga": 2, "gb": 2, "mix": 4}
"""The partitions: ``mix`` has the nodes of ``ga`` and the smaller ones of ``gb``."""
NAMES = {"cpu": "c1 c2 c3", "ga": "m1 m2", "gb": "m3 m4", "mix": "m1 m2 m3 m4"}
TYPES = {"gb": ["a100"], "mix": ["v100", "a100"]}
CORES = 8
GPUS = 4
LICENSES = "foo:2,bar:1"
OTHERS = {"games": "sandbox", "daemon": "acct2"}
"""Other users, and the account of each."""
ACCOUNTS = ("sandbox", "acct2", "acct3")

SUBMIT, SCRIPT = "submit", "script"
"""How a job is asked for: a generated one, or somebody's own script."""

NODE = "scontrol update NodeName"
PARTITION = "scontrol update PartitionName"
MODIFY = "sacctmgr -i modify"


@dataclass
class State:
    """A state of the cluster.

    steps: (what the administrator does, what undoes it). jobs: (user, sbatch's options); a user
    "" is the one who asks. partition: the one that it is about. hints: options of requests.
    """

    partition: str
    steps: List[Tuple[str, str]] = field(default_factory=list)
    jobs: List[Tuple[str, List[str]]] = field(default_factory=list)
    hints: List[List[str]] = field(default_factory=list)


def hosts(partition: str) -> List[str]:
    """The names of a partition's nodes."""
    return NAMES.get(partition, "g1 g2 g3 g4").split()


def random_state(rng: Random, user: str) -> State:
    """One to four things out of the ordinary."""
    state = State(rng.choice(["gpu", "gpu", "gpu", "short", "cpu", "mix", "mix", "mix", "gb"]))
    for theme in dict.fromkeys(rng.sample(THEMES, rng.choice([1, 2, 2, 3, 4]))):
        theme(rng, state, user)
    return state


# -------------------------------------------------------------------------------- states


def _nodes_out(rng: Random, state: State, user: str) -> None:
    names = hosts(state.partition)
    out = rng.sample(names, rng.randint(1, len(names) - 1))
    for name in out:
        word = rng.choice(["DRAIN", "DRAIN", "DOWN"])
        state.steps.append((f"{NODE}={name} State={word} Reason=x", f"{NODE}={name} State=RESUME"))
    left = len(names) - len(out)
    state.hints += [["-w", rng.choice(out)], ["-x", out[0]], ["-N", str(left)]]
    state.hints += [["-N", str(left + 1)], ["-N", str(len(names))]]


def _others(rng: Random, state: State, user: str) -> None:
    for _ in range(rng.randint(1, 8)):
        who = rng.choice(list(OTHERS))
        state.jobs.append((who, _job(rng, state.partition)))
    if rng.random() < 0.3:  # this one waits
        nodes = ["-N", str(NODES[state.partition]), "--exclusive"]
        state.jobs.append(
            ("games", ["-p", state.partition, "-t", rng.choice(["30", "600"])] + nodes)
        )


def _own(rng: Random, state: State, user: str) -> None:
    for number in range(rng.randint(1, 4)):
        job = _job(rng, state.partition)
        job += rng.choice([[], [], [], ["--hold"], ["--begin=now+1hour"], ["-J", "twin"]])
        state.jobs.append(("", job))
        kind = rng.choice(["afterany", "afterok", "after", "afternotok"])
        state.hints.append(["-d", f"{kind}:JOB{number}"])
    state.hints.append(["-d", "singleton", "-J", "twin"])


def _job(rng: Random, partition: str) -> List[str]:
    words = ["-p", partition, "-t", rng.choice(["20", "60", "600"])]
    if rng.random() < 0.2:
        words += ["-N", "2"]
    if partition != "cpu" and rng.random() < 0.7:
        words.append(f"--gres=gpu:{_type(rng, partition)}{rng.randint(1, GPUS)}")
    if rng.random() < 0.1:
        words.append("--exclusive=user")
    return [*words, "-c", str(rng.choice([1, 1, 2, 4, CORES]))]


def _type(rng: Random, partition: str) -> str:
    """``v100:``, or "" for any."""
    return rng.choice(["", *(f"{kind}:" for kind in TYPES.get(partition, ["v100"]))])


def _big_jobs(rng: Random, state: State, user: str) -> None:
    """Somebody's job waits for more nodes than are free, while some are."""
    names = hosts(state.partition)
    busy = ["-p", state.partition, "-c", str(rng.choice([2, 4])), "-t", "600"]
    state.jobs += [("games", busy)] * rng.randint(1, len(names) - 1)
    who = rng.choice(["daemon", "daemon", "games", ""])
    size = rng.choice([["--exclusive"], ["--exclusive"], ["--ntasks-per-node=4"]])
    nodes = str(rng.choice([len(names), len(names), max(1, len(names) - 1)]))
    time = rng.choice(["30", "600", "2-00:00:00"])
    state.jobs.append((who, ["-p", state.partition, "-N", nodes, "-t", time, *size]))
    state.hints += [["-t", "5"], ["-t", "2:00:00"], ["-t", "1-00:00:00"], ["-N", "1"]]


def _defaults(rng: Random, state: State, user: str) -> None:
    """What a job gets without asking for it."""
    name = state.partition
    text = rng.choice(["DefMemPerNode=8000", "DefMemPerNode=20000", "DefMemPerCPU=8000"])
    step = f"{PARTITION}={name} {text}", "scontrol reconfigure"
    if rng.random() < 0.6 and name != "cpu":
        per_gpu = ["DefMemPerGPU=9000", "DefMemPerGPU=2000", "DefCpuPerGPU=2", "DefCpuPerGPU=3"]
        text = rng.choice(per_gpu)
        edit, file = f"sed -i '/^PartitionName={name} /s", "/etc/slurm/slurm.conf"
        edits = f"{edit}/$/ {text}/' {file}", f"{edit}/ {text}$//' {file}"
        step = f"{edits[0]}; scontrol reconfigure", f"{edits[1]}; scontrol reconfigure"
    state.steps.append(step)
    state.jobs += [("games", ["-p", name, "-t", "60"])] * rng.choice([0, 0, 1, 2])
    state.hints += [["--mem", "4000"], ["-c", "4"], ["--gpus-per-node", "2"], ["-N", "2"]]


def _of_one_user(rng: Random, state: State, user: str) -> None:
    """Nodes that one user has to himself, and requests for such."""
    for who in rng.sample(["games", "daemon", ""], rng.randint(1, 2)):
        job = _job(rng, state.partition)
        state.jobs.append((who, [*job, rng.choice(["--exclusive=user", "--exclusive=user", "-Q"])]))
    if rng.random() < 0.3:
        kept = f"{PARTITION}={state.partition} ExclusiveUser=YES"
        state.steps.append((kept, f"{PARTITION}={state.partition} ExclusiveUser=NO"))
    state.hints += [["--sbatch", "exclusive=user"]] * 2


# Nobody's job is taken then, or only one with a reservation.
SHUT: List[Tuple[str]] = [
    ("State=INACTIVE",),
    ("AllowGroups=games",),
    ("RootOnly=YES",),
    ("ReqResv=YES",),
    ("AllocNodes=g1",),
]


def _partition(rng: Random, state: State, user: str) -> None:
    name = state.partition
    change, *hints = rng.choice(
        [
            rng.choice(SHUT),
            ("State=DOWN",),
            ("State=DRAIN",),
            ("MaxTime=20", ["-t", "20"], ["-t", "21"]),
            ("MaxTime=20 DefaultTime=10", ["-t", "30"]),
            ("MaxNodes=1", ["-N", "2"], ["-N", "1"]),
            ("MinNodes=2", ["-N", "2"]),
            ("AllowAccounts=acct2", ["-A", "acct2"], ["-A", "sandbox"]),
            ("DenyAccounts=sandbox", ["-A", "acct2"]),
            ("AllowQos=hi", ["-q", "hi"], ["-q", "normal"]),
            ("DenyQos=normal", ["-q", "hi"]),
            ("MaxCPUsPerNode=4", ["-c", "4"], ["-c", "5"]),
            ("MaxMemPerNode=8000", ["--mem", "8000"], ["--mem", "8001"]),
            ("QOS=hi", ["-a", "0-1"]),
        ]
    )
    # A list of those denied cannot be emptied again, but by reading slurm.conf.
    state.steps.append((f"{PARTITION}={name} {change}", "scontrol reconfigure"))
    state.hints += hints


def _figure(rng: Random, name: str) -> Tuple[str, List[List[str]]]:
    """A limit, and requests that may pass it."""
    cores, gpus = rng.randint(1, 12), rng.randint(0, 6)
    tres, *hints = rng.choice(
        [
            (f"cpu={cores}", ["-c", str(min(CORES, cores))], ["-c", str(min(CORES, cores + 1))]),
            (f"gres/gpu={gpus}", ["--gpus-per-node", str(min(GPUS, gpus + 1))]),
            (f"node={rng.randint(1, 2)}", ["-N", "1"], ["-N", "2"], ["-N", "3"]),
            (f"mem={cores * 2000}", ["--mem", str(cores * 2000)], ["--mem", str(cores * 2000 + 1)]),
        ]
    )
    if name in ("MaxWall",):
        return f"{name}={rng.choice([5, 30])}", [["-t", "5"], ["-t", "6"], ["-t", "31"]]
    if "Mins" in name:
        return f"{name}=cpu={cores * 10}", [["-t", "10"], ["-c", str(min(CORES, cores))]]
    if "TRES" in name:
        return f"{name}={tres}", hints
    return f"{name}={rng.randint(0, 3)}", [["-a", "0-1"], ["-a", "0-3"]]


_OF_ALL = ["GrpTRES", "GrpTRES", "GrpJobs", "GrpSubmitJobs", "GrpTRESRunMins"]
_OF_QOS = [
    *("MaxJobsPerUser", "MaxSubmitJobsPerUser", "MaxTRESPerUser", "MaxTRESPerUser"),
    *("MaxTRESPerJob", "MaxTRESPerNode", "MinTRESPerJob", "MaxWall", "MaxTRESMinsPerJob"),
    *("MaxTRESPerAccount", "MaxJobsPerAccount", "MaxSubmitJobsPerAccount"),
]
_OF_ASSOCIATION = [
    *("MaxJobs", "MaxSubmitJobs", "MaxTRESPerJob", "MaxTRESPerNode", "MaxWall"),
    "MaxTRESMinsPerJob",
]


def _qos_limits(rng: Random, state: State, user: str) -> None:
    qos = rng.choice([f"p_{state.partition}", f"p_{state.partition}", "normal", "hi"])
    for name in rng.sample(_OF_QOS + _OF_ALL, rng.choice([1, 1, 2])):
        limit, hints = _figure(rng, name)
        undone = limit.rpartition("=")[0] + "=-1"
        state.steps.append((f"{MODIFY} qos {qos} set {limit}", f"{MODIFY} qos {qos} set {undone}"))
        state.hints += hints
    _part_used(rng, state)
    if qos == "hi":
        state.hints += [["-q", "hi"]] * 2


def _association_limits(rng: Random, state: State, user: str) -> None:
    account = rng.choice(["sandbox", "sandbox", "acct2"])
    who = rng.choice([f"account {account}", f"user {user} where account={account}"])
    for name in rng.sample(_OF_ASSOCIATION + _OF_ALL, rng.choice([1, 1, 2])):
        limit, hints = _figure(rng, name)
        undone = limit.rpartition("=")[0] + "=-1"
        state.steps.append((f"{MODIFY} {who} set {limit}", f"{MODIFY} {who} set {undone}"))
        state.hints += hints
    _part_used(rng, state)
    state.hints += [["-A", account], ["-A", account.upper()]]


def _part_used(rng: Random, state: State) -> None:
    """Mostly some of a limit is in use: by a colleague, or by the user."""
    for who in rng.choice([[], ["games"], [""], ["", ""]]):
        state.jobs.append((who, ["-p", state.partition, "-t", "60", "-c", str(rng.randint(1, 4))]))


def _accounts(rng: Random, state: State, user: str) -> None:
    """A second account, which may be the default one."""
    add = f"sacctmgr -i add user {user} account=acct2"
    state.steps.append((add, f"sacctmgr -i delete user {user} account=acct2"))
    if rng.random() < 0.5:
        default = f"{MODIFY} user {user} set DefaultAccount"
        state.steps.append((f"{default}=acct2", f"{default}=sandbox"))
    state.hints += [["-A", "acct2"], ["-A", "sandbox"], ["-A", "Acct2"], ["-A", "acct3"]]


def _qos_access(rng: Random, state: State, user: str) -> None:
    names = rng.choice(["normal,hi", "normal,hi,lo", "hi,lo", "hi"])
    modify = f"{MODIFY} user {user}"
    state.steps.append((f"{modify} set qos={names}", f"{modify} set qos=normal"))
    if rng.random() < 0.4:
        default = f"{modify} set DefaultQOS"
        state.steps.append((f"{default}={names.split(',')[-1]}", f"{default}=-1"))
    state.hints += [["-q", "hi"], ["-q", "lo"], ["-q", "HI"], ["-q", "normal"]]


def _features(rng: Random, state: State, user: str) -> None:
    names = hosts(state.partition)
    for feature in ("fast", "fast,ib", "slow"):
        name = names.pop(rng.randrange(len(names))) if names else ""
        if name:
            change = f"{NODE}={name} AvailableFeatures={feature}"
            state.steps.append((change, "scontrol reconfigure"))
    every = hosts(state.partition)
    wanted = ["fast", "slow", "fast&slow", "fast,slow", "fast&ib", "fast|slow", "nosuch", "ib"]
    for text in rng.sample(wanted, 4):
        state.hints += [
            ["-C", text],
            ["-C", text, "-N", "2"],
            ["-C", text, "-w", rng.choice(every)],
        ]
        state.hints += [["-C", text, "-x", rng.choice(every)]]


def _licenses(rng: Random, state: State, user: str) -> None:
    if rng.random() < 0.5:
        state.jobs.append(("games", [*_job(rng, state.partition), "-L", "foo:1"]))
    for text in rng.sample(["foo:1", "foo:2", "foo:3", "bar", "nosuch:1", "foo:1,bar:1"], 3):
        state.hints.append(["--sbatch", f"licenses={text}"])


def _reservation(rng: Random, state: State, user: str) -> None:
    names = hosts(state.partition)
    some = ",".join(rng.sample(names, rng.randint(1, len(names))))
    users = rng.choice([f"Users={user}", "Users=root", "Accounts=sandbox", "Accounts=acct2"])
    start = rng.choice(["now", "now", "now+30minutes", "now+3hours"])
    where = rng.choice(
        [
            f"Nodes={some}",
            f"Nodes={some} Flags=MAINT",
            f"Nodes={some} Flags=FLEX",
            f"Nodes={some} Flags=IGNORE_JOBS",
            f"NodeCnt=1 PartitionName={state.partition}",
            f"Nodes={names[0]} CoreCnt=2",
        ]
    )
    words = f"scontrol create reservation ReservationName=rs StartTime={start} Duration=120"
    state.steps.append((f"{words} {users} {where}", "scontrol delete ReservationName=rs"))
    state.hints += [["--reservation", "rs"], ["--reservation", "rs", "-t", "5"]]
    state.hints += [["--reservation", "rs", "-p", rng.choice(list(NODES))], ["-t", "20"]]
    state.hints += [["-t", "5:00:00"], ["-w", rng.choice(names)], ["-N", str(len(names))]]
    state.hints += [["-N", "2", "-c", "2"]]


THEMES: List[Callable[[Random, State, str], None]] = [
    *[_nodes_out, _others, _own, _partition, _qos_limits, _association_limits] * 4,
    *[_big_jobs, _defaults] * 4,
    *[_accounts, _qos_access, _features, _reservation, _of_one_user] * 3,
    *[_licenses] * 3,
]


def ending_state(rng: Random, user: str) -> State:
    """Own jobs of a minute hold what the one request needs."""
    limit, jobs = rng.choice(
        [
            ("", [["-p", "cpu", "-c", str(CORES)]] * NODES["cpu"]),
            ("qos p_cpu set MaxJobsPerUser=2", [["-p", "cpu"]] * 2),
            ("qos p_gpu set MaxTRESPerUser=gres/gpu=4", [["-p", "gpu", f"--gres=gpu:{GPUS}"]]),
            (f"user {user} where account=sandbox set MaxJobs=1", [["-p", "cpu"]]),
        ]
    )
    state = State(jobs[0][1], jobs=[("", ["-t", "1", *job]) for job in jobs])
    if limit:
        undone = limit.rpartition("=")[0] + "=-1"
        state.steps.append((f"{MODIFY} {limit}", f"{MODIFY} {undone}"))
    gpus = ["--gpus-per-node", str(rng.randint(1, GPUS))] if state.partition == "gpu" else []
    state.hints.append(["-p", state.partition, "-t", "5", "-c", str(rng.randint(1, 4)), *gpus])
    return state


# ------------------------------------------------------------------------------ requests


def random_request(rng: Random, state: State) -> List[str]:
    """SUBMIT or SCRIPT, and the options of such a request."""
    kind = rng.choice([SUBMIT, SUBMIT, SUBMIT, SUBMIT, SCRIPT, SCRIPT, SCRIPT])
    return [kind, *(_script if kind == SCRIPT else _options)(rng, state)]


def _script(rng: Random, state: State) -> List[str]:
    """The options of somebody's own script, in the many ways in which people size a job."""
    partition = state.partition if rng.random() < 0.85 else rng.choice(list(NODES))
    names, most = hosts(partition), 4 if partition == "gb" else CORES
    some = str(rng.randint(1, len(names)))
    words = ["-p", partition, "-t", rng.choice(["5", "10", "30", "2:00:00"])]
    tasks = str(rng.choice([1, 2, 2, 3, 4, 5, 8, 12, 16, 20]))
    words += rng.choice(
        [
            [],
            ["-n", tasks],
            ["-n", tasks],
            ["-N", some],
            ["-N", some, "-n", tasks],
            ["-N", some, "-n", tasks],
            ["-N", some, "--ntasks-per-node", str(rng.randint(1, most))],
            ["-n", tasks, "--ntasks-per-node", str(rng.randint(1, most))],
            ["-N", some, "-n", tasks, "--ntasks-per-node", str(rng.randint(1, most))],
            ["-N", f"1-{some}", "-n", tasks],
        ]
    )
    cores = ["-c", str(rng.choice([1, 2, 2, 3, 4]))] if rng.random() < 0.4 else []
    memory = [["--mem", str(rng.choice([0, 2000, 9000, 16000, 20000]))]]
    memory.append(["--mem-per-cpu", str(rng.choice([0, 1000, 4000, 8000]))])
    if partition != "cpu" and rng.random() < 0.75:
        each, all = str(rng.randint(1, GPUS)), str(rng.randint(1, 2 * GPUS))
        kind, other = _type(rng, partition), _type(rng, partition)
        words += rng.choice(
            [
                [f"--gres=gpu:{kind}{each}"],
                [f"--gres=gpu:{kind}{each}"],
                [f"--gpus-per-node={kind}{each}"],
                ["-G", kind + all],
                ["-G", kind + all],
                [f"--gpus-per-task={kind}{rng.choice('112')}"],
                [f"--gpus-per-node={each}", "-G", all],
                [f"--gres=gpu:{kind or 'v100:'}1,gpu:{other or 'a100:'}1"],
            ]
        )
        if rng.random() < 0.15:
            cores = ["--cpus-per-gpu", rng.choice("1234")]
        if rng.random() < 0.1:
            words += ["--ntasks-per-gpu", rng.choice("12")]
        memory.append(["--mem-per-gpu", str(rng.choice([2000, 8000, 9000]))])
    words += cores
    if rng.random() < 0.35:
        words += rng.choice(memory)
    no_nodes = 0.15 if "-G" in words else 0.02
    for probability, more in ((0.06, "--exclusive"), (0.05, "--exclusive=user"), (no_nodes, "-N0")):
        words += [more] if rng.random() < probability else []
    if rng.random() < 0.08:
        words += [rng.choice(["-w", "-x"]), rng.choice(names)]
    for hint in rng.sample(state.hints, min(len(state.hints), rng.choice([0, 0, 1]))):
        if hint[0] not in ("-N", "-n", "-c", "--mem", "--gpus-per-node"):
            words += [f"--{hint[1]}"] if hint[0] == "--sbatch" else hint
    return words


def _options(rng: Random, state: State) -> List[str]:
    """Those of neuronctl: sizes that mostly fit, some of the state's hints, and a few more.

    Of an option that is given twice, the later one counts.
    """
    options: Dict[str, List[str]] = {}

    def add(words: List[str]) -> None:
        for option, value in _pairs(words):
            if option == "--sbatch":
                options[f"--sbatch {value.partition('=')[0]}"] = [option, value]
            else:
                options[option] = [option, value]

    partition = state.partition if rng.random() < 0.85 else rng.choice(list(NODES))
    cores = rng.choice([1, 1, 2, 2, 4, CORES])
    gpus = 0 if partition == "cpu" else min(cores, rng.choice([0, 1, 1, 2, GPUS]))
    add(["-p", partition, "-t", rng.choice(["5", "10", "30", "2:00:00"])])
    add(["--ntasks-per-node", "1", "-c", str(cores)])
    if gpus:
        add(["--gpus-per-node", f"{_type(rng, partition)}{gpus}"])
    for words in rng.sample(state.hints, min(len(state.hints), rng.choice([0, 1, 1, 2]))):
        add(words)
    names = hosts(partition)
    for probability, choices in (
        (0.25, [["-N", str(rng.randint(1, len(names)))]]),
        (0.02, [["-N", str(len(names) + 1)]]),
        (0.15, [["--ntasks-per-node", "2"]]),
        (0.12, [["--mem", "2000"], ["--mem", "9000"], ["--mem", "16000"]]),
        (0.01, [["--mem", "40000"]]),
        (0.06, [["--exclusive", ""]]),
        (0.06, [["-w", rng.choice(names)], ["-w", ",".join(names[:2])]]),
        (0.05, [["-x", rng.choice(names)], ["-x", ",".join(names[1:])]]),
        (0.05, [["-A", "sandbox"], ["-A", "SANDBOX"], ["-A", "acct2"]]),
        (0.05, [["-q", "normal"], ["-q", "hi"]]),
        (0.01, [["-q", "nosuch"], ["-A", "nosuch"], ["-w", "nosuch1"], ["-x", "nosuch1"]]),
        (0.06, [["-a", "0-1"], ["-a", "1-9%2"], ["-a", "5"]]),
        (0.05, [["--sbatch", "hold"]]),
        (0.06, [["--sbatch", f"begin=now+{rng.choice([60, 3600])}"], ["--sbatch", "begin=now"]]),
        (0.04, [["-d", "singleton"], ["-d", "afterany:999999"], ["-d", "afterok:999999"]]),
        (0.01, [["--sbatch", "licenses=foo:1"]]),
        (0.01, [["-C", "nosuch"], ["--reservation", "nosuch"]]),
        (0.06, [["--sbatch", "nice=0"], ["--sbatch", "open-mode=append"]]),
        (0.01, [["--sbatch", "contiguous"]]),
        (0.05, [["--sbatch", f"mem-per-cpu={each}"] for each in (1000, 4000, 8000)]),
        (0.03, [["--sbatch", f"mem-per-gpu={each}"] for each in (2000, 9000)]),
        (0.03, [["--sbatch", "exclusive=user"]]),
    ):
        if rng.random() < probability:
            add(rng.choice(choices))
    return [word for words in options.values() for word in words if word]


def _pairs(words: List[str]) -> List[Tuple[str, str]]:
    return list(zip(words[::2], words[1::2]))
