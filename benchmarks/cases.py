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
"""The numbers of ``neuronctl wait`` at once, and for how many seconds they wait."""
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
"""The command lines after which Tab is pressed, without neuronctl."""
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


def make_case(name: str, argv: Sequence[str], **more: Any) -> Dict[str, Any]:
    """Return a command of a group whose commands run in turns."""
    return {"name": name, "argv": list(argv), **more}


def measure_start(cluster: Cluster, installed: Environments, rounds: int, say: Say) -> Results:
    """Measure what does not depend on the jobs in the controller."""
    say("generate, torchx, and start-up")
    torchx = make_case("torchx", [str(installed.peers / "bin/torchx"), *TORCHX])
    start = [make_case(word, ["neuronctl", word]) for word in ("--version", "--help")]
    start.append(make_case("python -c pass", ["python", "-c", "pass"]))
    groups = {
        "generate": cluster.measure([make_case("generate", GENERATE), torchx], rounds),
        "start": cluster.measure(start, rounds),
    }
    return {"groups": groups}


def measure_status(cluster: Cluster, installed: Environments, rounds: int, say: Say) -> Results:
    """Measure ``status`` on a controller that is filled step by step."""
    groups: Results = {}
    mine = cluster.submit_mine(MINE)
    say(f"writing {sum(RECORDS):,} job records")
    cluster.make_records(RECORDS, mine)
    records = {"XDG_STATE_HOME": cluster.name_state_home(USUAL)}
    for job_count in JOBS:
        say(f"status with {job_count:,} jobs")
        cluster.submit_others(job_count - cluster.count_jobs())
        counted = cluster.count_jobs()
        if counted != job_count:
            raise RuntimeError(f"the controller has {counted} jobs, not {job_count}")
        (squeue,) = _find_squeue_calls(cluster, STATUS, records)
        status = make_case("status", STATUS, env=records)
        alone = make_case("squeue", squeue, env={"LC_ALL": "C", "TZ": "UTC"})
        groups[f"{job_count} jobs"] = cluster.measure([status, alone], rounds)
        if job_count == FULL:
            groups.update(_measure_beside_status(cluster, rounds, records, squeue))
    return {"groups": groups, "squeue": squeue}


def _measure_beside_status(
    cluster: Cluster, rounds: int, records: Mapping[str, str], squeue: Sequence[str]
) -> Results:
    """Measure ``status`` beside squeue, completion, and ``status`` with more and more records."""
    bare = ["python", str(Path(cluster.scratch, "inside/bare.py")), json.dumps(squeue)]
    status = [
        make_case("status", STATUS, env=records),
        make_case("squeue --json", ["squeue", "--json"]),
        make_case("on a terminal", STATUS, tty=True, env={**records, **_TERMINAL}),
        make_case("bare", bare, tty=True, env=_TERMINAL),
    ]
    completion = [
        make_case(name, ["neuronctl"], env={**records, **_complete_variables(words)})
        for name, words in COMPLETED.items()
    ]
    with_records = [
        make_case(str(count), STATUS, env={"XDG_STATE_HOME": cluster.name_state_home(count)})
        for count in RECORDS
    ]
    groups = {"status": status, "completion": completion, "records": with_records}
    return {name: cluster.measure(cases, rounds) for name, cases in groups.items()}


def measure_submissions(
    cluster: Cluster, installed: Environments, rounds: int, say: Say
) -> Results:
    """Measure submissions on a full controller, and count the processes of each command."""
    say(f"filling another controller: {FULL:,} jobs")
    mine = cluster.submit_mine(MINE)
    cluster.submit_others(FULL - MINE)
    cluster.make_records([USUAL], mine)
    records = {"XDG_STATE_HOME": cluster.name_state_home(USUAL)}
    submit = ["submit", *SUBMIT, "--sbatch", "hold", "train.py"]
    submitit = f"{cluster.scratch}/inside/with_submitit.py"
    say("submit and submitit")
    cases = [
        make_case("submit", ["neuronctl", *submit], env=records),
        make_case("submitit", [str(installed.peers / "bin/python"), submitit]),
        make_case("sbatch", SBATCH),
        make_case("drop-in", ["neuronctl", *SBATCH], env=records),
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
    request = {
        name: {"argv": ["neuronctl", *words], "env": records} for name, words in commands.items()
    }
    return {"groups": groups, "processes": cluster.ask("processes.py", request), "waits": waits}


def measure_sweeps(cluster: Cluster, installed: Environments, rounds: int, say: Say) -> Results:
    """Measure sweeps on a controller without other jobs.

    It takes 10,000 jobs: enough for a few rounds of sweeps with 1,000 tasks.
    """
    few = min(3, rounds)
    say(f"sweep of {TASKS:,} tasks and submitit's map_array")
    words = [*SUBMIT, "--param", f"x=1..{TASKS}", "--sbatch", "hold", "/bin/true", "{x}"]
    sweep = f'exec neuronctl sweep --job-name "sweep$$" {" ".join(words)}'
    submitit = [str(installed.peers / "bin/python"), f"{cluster.scratch}/inside/with_submitit.py"]
    cases = [
        make_case("sweep", ["sh", "-c", sweep]),
        make_case("submitit", [*submitit, str(TASKS)]),
    ]
    groups = {"sweep": cluster.measure(cases, few)}
    cluster.run(["scancel", "--me"])
    say(f"sweeps of up to {max(SIZES):,} tasks")
    scale = cluster.ask("sweep_scale.py", {"rounds": few})
    status = [make_case(str(size), ["neuronctl", "sweep", "status", f"of{size}"]) for size in SIZES]
    groups["sweep status"] = cluster.measure(status, rounds)
    return {"groups": groups, "sweep": scale}


def _complete_variables(words: Sequence[str]) -> Dict[str, str]:
    """Return the variables with which zsh asks for completions of the last word."""
    return {
        "_NEURONCTL_COMPLETE": "zsh_complete",
        "COMP_WORDS": " ".join(["neuronctl", *words]),
        "COMP_CWORD": str(len(words)),
    }


def _find_squeue_calls(
    cluster: Cluster, argv: Sequence[str], env: Mapping[str, str]
) -> List[List[str]]:
    """Return the calls of squeue that a command makes, each as its arguments."""
    calls = cluster.ask("processes.py", {"command": {"argv": argv, "env": env}})["command"]
    return [call for call in calls if call[0] == "squeue"]
