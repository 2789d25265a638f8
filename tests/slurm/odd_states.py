"""Random requests on a cluster of odd nodes: threads, GPU types side by side, shards, and so on.

Pure. ``ODD`` changes the cluster ``wide`` (wide.yaml) before slurmctld reads it anew:

- ``gpu``, ``short``: two types of GPUs on each node
- ``cpu``: two threads per core, of which Slurm counts each as a CPU
- ``ga``: two threads per core, and memory that jobs may not have (MemSpecLimit)
- ``gb``: GPUs that jobs may share (shards)
"""

from __future__ import annotations

from random import Random
from typing import Callable, Dict, List

from states import NODES, SCRIPT, SUBMIT, THEMES, State, hosts

_THREADS = "s/CoresPerSocket=4 ThreadsPerCore=1/CoresPerSocket=2 ThreadsPerCore=2/"
_DEVICE = "/run/neuronctl/dev/nvidia"
ODD = "; ".join(
    [
        "sed -i 's/^GresTypes=.*/GresTypes=gpu,shard/' /etc/slurm/slurm.conf",
        f"sed -i '/^NodeName=[cm]/{_THREADS}; /^NodeName=g/s/gpu:v100:4/gpu:v100:2,gpu:1g.5gb:2/; "
        "/^NodeName=m[12]/s/RealMemory/MemSpecLimit=4000 &/; "
        "/^NodeName=m[34]/s/gpu:a100:2/&,shard:8/' /etc/slurm/cluster.conf",
        "sed -i -E 's#^(NodeName=g.*) Type=v100 .*#"
        rf"\1 Type=v100 File={_DEVICE}[0-1]\n\1 Type=1g.5gb File={_DEVICE}[2-3]#; "
        r"s#^(NodeName=m[34]) .*#&\n\1 Name=shard Count=8#' /etc/slurm/gres.conf",
    ]
)

TYPES: Dict[str, List[str]] = {
    "gpu": ["v100", "1g.5gb"],
    "short": ["v100", "1g.5gb"],
    "ga": ["v100"],
    "gb": ["a100"],
    "mix": ["v100", "a100"],
}


def odd_state(rng: Random, user: str) -> State:
    """Some jobs of others and of the user, and perhaps a reservation to come."""
    state = State(rng.choice(["gpu", "short", "cpu", "cpu", "ga", "gb", "mix"]))
    for _ in range(rng.choice([0, 1, 2, 3, 5])):
        words = ["-p", state.partition, "-t", rng.choice(["20", "60"])]
        words += rng.choice([[], [], _gpus(rng, state.partition)])
        state.jobs.append((rng.choice(["games", "games", ""]), [*words, *_size(rng)]))
    if rng.random() < 0.4:
        _reservation_to_come(rng, state, user)
    if rng.random() < 0.3:
        ordinary: Callable[[Random, State, str], None] = rng.choice(THEMES)
        ordinary(rng, state, user)
    state.hints = [hint for hint in state.hints if hint[0] in ("--reservation", "-t", "-N", "-w")]
    return state


def _reservation_to_come(rng: Random, state: State, user: str) -> None:
    names = hosts(state.partition)
    some = ",".join(rng.sample(names, rng.randint(1, len(names))))
    who = rng.choice([f"Users={user}", f"Users={user}", "Accounts=sandbox", "Users=root"])
    words = f"scontrol create reservation ReservationName=rs StartTime=now+{rng.choice('13')}hours"
    undo = "scontrol delete ReservationName=rs"
    state.steps.append((f"{words} Duration=120 {who} Nodes={some}", undo))
    state.hints += [["--reservation", "rs"]] * 3 + [["-t", "5"], ["-t", "5:00:00"]]
    state.hints += [["-w", rng.choice(names)]]


def _size(rng: Random) -> List[str]:
    cores = rng.choice([["-c", str(rng.randint(1, 8))], ["-n", str(rng.randint(1, 8))]])
    memory = rng.choice([[], [], ["--mem", str(rng.choice([2000, 14000, 27000]))]])
    return [*cores, *memory]


def _gpus(rng: Random, partition: str) -> List[str]:
    if partition == "cpu":
        return []
    if partition in ("gb", "mix") and rng.random() < 0.5:
        return [f"--gres=shard:{rng.choice([1, 2, 4, 5, 8, 9])}"]
    kind = rng.choice(["", *TYPES[partition], *TYPES[partition], "h100"])
    return [f"--gres=gpu:{kind + ':' if kind else ''}{rng.randint(1, 4)}"]


def odd_request(rng: Random, state: State) -> List[str]:
    """SUBMIT or SCRIPT, with the options of such a request."""
    kind = rng.choice([SUBMIT, SCRIPT, SCRIPT])
    partition = state.partition if rng.random() < 0.85 else rng.choice(list(NODES))
    words = ["-p", partition, "-t", rng.choice(["5", "30"])]
    if kind == SCRIPT and rng.random() < 0.05:
        words = words[2:]
    if rng.random() < 0.6:
        words += _gpus(rng, partition)
    words += rng.choice([[], ["-N", str(rng.randint(1, 3))]])
    if kind == SUBMIT:
        words += ["-c", str(rng.choice([1, 2, 3, 4, 5, 7, 8, 9]))]
        if rng.random() < 0.3:
            words += ["--ntasks-per-node", rng.choice("123")]
    else:
        words += rng.choice(
            [
                ["-n", str(rng.choice([1, 2, 3, 5, 8, 9, 16]))],
                ["-n", str(rng.randint(1, 8)), "-c", rng.choice("123")],
                ["-c", str(rng.randint(1, 9))],
                ["--ntasks-per-node", rng.choice("1234")],
            ]
        )
    if rng.random() < 0.3:
        memory = [2000, 9000, 15000, 16000, 28000, 28001, 32000]
        words += ["--mem", str(rng.choice(memory))]
    if rng.random() < 0.06:
        words += ["--exclusive"]
    if kind == SCRIPT and rng.random() < 0.06:
        words += [rng.choice(["--threads-per-core=1", "--hint=nomultithread", "--profile=none"])]
    if state.hints and rng.random() < 0.4:
        words += rng.choice(state.hints)
    return [kind, *words]
