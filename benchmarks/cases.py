"""What is run and compared, and in which state of the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence

from benchmarks.cluster import COMMENT, QUEUE, SUBMITTING, Cluster
from benchmarks.inside.sweep_scale import SIZES
from benchmarks.peers import Environments

JOBS = (100, 1_000, 4_000, 10_000)
"""Jobs in the controller, for the curve; 100 of them are the user's."""
FULL = 4_000
"""Jobs in the controller for everything else."""
MINE = 100
WAITS, WAITING = (1, 10, 50), 60
"""So many ``neuronctl wait`` at once, and for how many seconds."""
RECORDS = (10, 100, 1_000, 10_000)
USUAL = 1_000
"""Job records for everything but the curve."""
TASKS = 1_000
"""Tasks of a sweep that is submitted."""

STATUS = ["neuronctl", "status"]
COMPLETED = {
    "a command": ("resub",),
    "a job's name": ("why", "tr"),
    "a partition": ("submit", "-p", "cas"),
}
"""What Tab is pressed behind."""
SUBMIT = (
    "-p", SUBMITTING, "--gpus-per-node", "1", "-t", "5", "--field", "misc", "--appl", "pytorch",
)  # fmt: skip
SBATCH = (
    "sbatch", "--parsable", "--hold", "-p", SUBMITTING, "--gres=gpu:1", "-t", "5",
    f"--comment={COMMENT}", "--wrap", "true",
)  # fmt: skip
GENERATE = (
    "neuronctl", "generate", "-p", QUEUE, "-N", "2", "--gpus-per-node", "4", "-t", "60",
    "--field", "misc", "--appl", "pytorch", "--launcher", "torchrun", "train.py",
)  # fmt: skip
TORCHX = (
    "run", "-s", "slurm", "--dryrun", "-cfg", f"partition={QUEUE},time=60",
    "dist.ddp", "-j", "2x4", "--gpu", "4", "--script", "train.py",
)  # fmt: skip
_TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

Say = Callable[[str], None]
Results = Dict[str, Any]


def case(name: str, argv: Sequence[str], **more: Any) -> Dict[str, Any]:
    """Return a command of a group whose commands run in turns."""
    return {"name": name, "argv": list(argv), **more}


def starting(cluster: Cluster, installed: Environments, rounds: int, say: Say) -> Results:
    """Measure what does not depend on the jobs in the controller."""
    say("generate, torchx, and start-up")
    torchx = case("torchx", [str(installed.peers / "bin/torchx"), *TORCHX])
    start = [case(word, ["neuronctl", word]) for word in ("--version", "--help")]
    start.append(case("python -c pass", ["python", "-c", "pass"]))
    groups = {
        "generate": cluster.measure([case("generate", GENERATE), torchx], rounds),
        "start": cluster.measure(start, rounds),
    }
    return {"groups": groups}


def watching(cluster: Cluster, installed: Environments, rounds: int, say: Say) -> Results:
    """Measure ``status`` on a controller that is filled step by step."""
    groups: Results = {}
    mine = cluster.submit_mine(MINE)
    say(f"writing {sum(RECORDS):,} job records")
    cluster.make_records(RECORDS, mine)
    records = {"XDG_STATE_HOME": cluster.state(USUAL)}
    jobs = MINE
    for total in JOBS:
        say(f"status with {total:,} jobs")
        cluster.submit_others(total - jobs)
        jobs = total
        if cluster.jobs() != total:
            raise RuntimeError(f"the controller has {cluster.jobs()} jobs, not {total}")
        (squeue,) = _squeue(cluster, STATUS, records)
        status = case("status", STATUS, env=records)
        alone = case("squeue", squeue, env={"LC_ALL": "C", "TZ": "UTC"})
        groups[f"{total} jobs"] = cluster.measure([status, alone], rounds)
        if total == FULL:
            groups.update(_status(cluster, rounds, records, squeue))
    return {"groups": groups, "squeue": squeue}


def _status(
    cluster: Cluster, rounds: int, records: Mapping[str, str], squeue: Sequence[str]
) -> Results:
    """Measure ``status`` beside squeue, completion, and ``status`` with more and more records."""
    bare = ["python", str(Path(cluster.scratch, "inside/bare.py")), json.dumps(squeue)]
    status = [
        case("status", STATUS, env=records),
        case("squeue --json", ["squeue", "--json"]),
        case("on a terminal", STATUS, tty=True, env={**records, **_TERMINAL}),
        case("bare", bare, tty=True, env=_TERMINAL),
    ]
    completion = [
        case(name, ["neuronctl"], env={**records, **_asking(words)})
        for name, words in COMPLETED.items()
    ]
    more = [
        case(str(count), STATUS, env={"XDG_STATE_HOME": cluster.state(count)}) for count in RECORDS
    ]
    groups = {"status": status, "completion": completion, "records": more}
    return {name: cluster.measure(cases, rounds) for name, cases in groups.items()}


def submitting(cluster: Cluster, installed: Environments, rounds: int, say: Say) -> Results:
    """Measure submissions on a full controller, and count the processes of each command."""
    say(f"filling another controller: {FULL:,} jobs")
    mine = cluster.submit_mine(MINE)
    cluster.submit_others(FULL - MINE)
    cluster.make_records([USUAL], mine)
    records = {"XDG_STATE_HOME": cluster.state(USUAL)}
    submit = ["submit", *SUBMIT, "--sbatch", "hold", "train.py"]
    submitit = f"{cluster.scratch}/inside/with_submitit.py"
    say("submit and submitit")
    cases = [
        case("submit", ["neuronctl", *submit], env=records),
        case("submitit", [str(installed.peers / "bin/python"), submitit]),
        case("sbatch", SBATCH),
        case("drop-in", ["neuronctl", *SBATCH], env=records),
    ]
    groups = {"submit": cluster.measure(cases, rounds)}
    say("waiting")
    waits = cluster.ask("waiting.py", {"jobs": mine, "counts": WAITS, "seconds": WAITING})
    say("counting processes")
    ids = [str(job) for job in mine]
    commands: Dict[str, List[str]] = {
        "submit": submit,
        "status": ["status"],
        f"status of {MINE} jobs": ["status", *ids],
        "history": ["history"],
        "history -n 5000": ["history", "-n", "5000"],
        "cancel 50 jobs": ["cancel", "--yes", *ids[:50]],
    }
    asked = {
        name: {"argv": ["neuronctl", *words], "env": records} for name, words in commands.items()
    }
    return {"groups": groups, "processes": cluster.ask("processes.py", asked), "waits": waits}


def sweeping(cluster: Cluster, installed: Environments, rounds: int, say: Say) -> Results:
    """Measure sweeps on a controller without other jobs, which takes 10,000: in few rounds."""
    few = min(3, rounds)
    say(f"sweep of {TASKS:,} tasks and submitit's map_array")
    words = [*SUBMIT, "--param", f"x=1..{TASKS}", "--sbatch", "hold", "/bin/true", "{x}"]
    sweep = f'exec neuronctl sweep --job-name "sweep$$" {" ".join(words)}'
    submitit = [str(installed.peers / "bin/python"), f"{cluster.scratch}/inside/with_submitit.py"]
    cases = [case("sweep", ["sh", "-c", sweep]), case("submitit", [*submitit, str(TASKS)])]
    groups = {"sweep": cluster.measure(cases, few)}
    cluster.run(["scancel", "--me"])
    say(f"sweeps of up to {max(SIZES):,} tasks")
    scale = cluster.ask("sweep_scale.py", {"rounds": few})
    status = [case(str(size), ["neuronctl", "sweep", "status", f"of{size}"]) for size in SIZES]
    groups["sweep status"] = cluster.measure(status, rounds)
    return {"groups": groups, "sweep": scale}


def _asking(words: Sequence[str]) -> Dict[str, str]:
    """Return the variables with which zsh asks what may become of the last word."""
    return {
        "_NEURONCTL_COMPLETE": "zsh_complete",
        "COMP_WORDS": " ".join(["neuronctl", *words]),
        "COMP_CWORD": str(len(words)),
    }


def _squeue(cluster: Cluster, argv: Sequence[str], env: Mapping[str, str]) -> List[List[str]]:
    """Return how a command calls squeue."""
    calls = cluster.ask("processes.py", {"it": {"argv": argv, "env": env}})["it"]
    return [call for call in calls if call[0] == "squeue"]
