"""What is run and compared, and in which state of the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence

from benchmarks.cluster import COMMENT, QUEUE, SUBMITTING, Cluster
from benchmarks.peers import Environments

JOBS = (100, 1_000, 4_000, 10_000)
"""Jobs in the controller, for the curve; 100 of them are the user's."""
FULL = 4_000
"""Jobs in the controller for everything else."""
MINE = 100
NODES = (10, 1_000, 3_000, 10_000)
"""Nodes of the site, for the curve of the gate."""
WAITS, WAITING = (1, 10, 50), 60
"""So many ``neuronctl wait`` at once, and for how many seconds."""
RECORDS = (10, 100, 1_000, 10_000)
USUAL = 1_000
"""Job records for everything but the curve."""

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

Say = Callable[[str], None]
Results = Dict[str, Any]


def case(name: str, argv: Sequence[str], **more: Any) -> Dict[str, Any]:
    """A command of a group whose commands run in turns."""
    return {"name": name, "argv": list(argv), **more}


def starting(cluster: Cluster, made: Environments, rounds: int, say: Say) -> Results:
    """What does not depend on the jobs in the controller."""
    groups: Results = {}
    more: Results = {"groups": groups}
    say("generate and torchx")
    groups["generate"] = cluster.measure(
        [
            case("generate", GENERATE),
            case("without a cache", GENERATE, env={"XDG_CACHE_HOME": "/dev/null"}),
            case("torchx", [str(made.peers / "bin/torchx"), *TORCHX]),
        ],
        rounds,
    )
    say("start-up")
    groups["start"] = cluster.measure(
        [
            case("python -c pass", ["python", "-c", "pass"]),
            case("--version", ["neuronctl", "--version"]),
            case("--help", ["neuronctl", "--help"]),
            case("import click", ["python", "-c", "import click"]),
            case("import click and jinja2", ["python", "-c", "import click, jinja2"]),
            case("import click and rich", ["python", "-c", _CLICK_AND_RICH]),
            case("true", ["true"]),
        ],
        rounds,
    )
    say("the gate at large sites")
    path = cluster.run(["printenv", "PATH"]).strip()
    sites = {count: f"{cluster.scratch}/site-{count}" for count in NODES}
    for count, site in sites.items():
        many_nodes = f"{cluster.scratch}/inside/many_nodes.py"
        cluster.run(["python", many_nodes, site, str(count), SUBMITTING])
    groups["nodes"] = cluster.measure(
        [
            case(
                str(count),
                ["neuronctl", "submit", "--dry-run", *SUBMIT, "train.py"],
                env={"PATH": f"{site}:{path}"},
            )
            for count, site in sites.items()
        ],
        rounds,
    )
    say("rendering in one process")
    more["renderings"] = cluster.renderings(max(3, rounds // 5))
    return more


def watching(cluster: Cluster, made: Environments, rounds: int, say: Say) -> Results:
    """``status``, on a controller that is filled step by step."""
    groups: Results = {}
    more: Results = {"groups": groups}
    mine = cluster.submit_mine(MINE)
    say(f"writing {sum(RECORDS):,} job records")
    cluster.make_records(RECORDS, mine)
    records = {"XDG_STATE_HOME": cluster.state(USUAL)}
    there = MINE
    for total in JOBS:
        say(f"filling the controller: {total:,} jobs")
        cluster.submit_others(total - there)
        there = total
        counted = cluster.jobs()
        if counted != total:
            raise RuntimeError(f"the controller has {counted} jobs, not {total}")
        (squeue,) = _calls(cluster, STATUS, records, "squeue")
        say(f"status with {total:,} jobs")
        status = case("status", STATUS, env=records)
        alone = case("squeue", squeue, env={"LC_ALL": "C", "TZ": "UTC"})
        groups[f"{total} jobs"] = cluster.measure([status, alone], rounds)
        if total != FULL:
            continue
        say("status and squeue --json")
        groups["status"] = cluster.measure(
            [
                status,
                case("squeue --json", ["squeue", "--json"]),
                alone,
                case("--version", ["neuronctl", "--version"]),
                case("on a terminal", STATUS, tty=True, env={**records, **_TERMINAL}),
                _bare(cluster, "table", squeue, tty=True, env=_TERMINAL),
            ],
            rounds,
        )
        more["squeue"] = squeue
        say("completion")
        groups["completion"] = cluster.measure(
            [
                case(word, ["neuronctl"], env={**records, **_asking(words)})
                for word, words in COMPLETED.items()
            ],
            rounds,
        )
        say("status with more and more records")
        groups["records"] = cluster.measure(
            [
                case(str(count), STATUS, env={"XDG_STATE_HOME": cluster.state(count)})
                for count in RECORDS
            ],
            rounds,
        )
        more["opened"] = {
            str(count): cluster.opened(["status"], {"XDG_STATE_HOME": cluster.state(count)})
            for count in RECORDS
        }
    return more


_CLICK_AND_RICH = "import click, rich.console, rich.table"
_TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def submitting(cluster: Cluster, made: Environments, rounds: int, say: Say) -> Results:
    """Submissions on a full controller, and how many processes each command starts."""
    say(f"filling another controller: {FULL:,} jobs")
    mine = cluster.submit_mine(MINE)
    cluster.submit_others(FULL - MINE)
    cluster.make_records([USUAL], mine)
    records = {"XDG_STATE_HOME": cluster.state(USUAL)}
    inside = Path(cluster.scratch, "inside")
    submit = ["submit", *SUBMIT, "--sbatch", "hold", "train.py"]
    python = str(made.peers / "bin/python")
    asked = _calls(cluster, ["neuronctl", *submit], records, "squeue")
    asked += [["scontrol", "show", "--oneliner", "partition", SUBMITTING], [*SBATCH[:-2]]]
    say("submit and submitit")
    groups = {
        "submit": cluster.measure(
            [
                case("submit", ["neuronctl", *submit], env=records),
                case("submitit", [python, str(inside / "submit_with_submitit.py")]),
                case(
                    "without the gate",
                    ["python", str(inside / "without_gate.py"), *submit],
                    env=records,
                ),
                case("sbatch", SBATCH),
                _bare(cluster, "submit", asked),
            ],
            rounds,
        )
    }
    say("waiting")
    waits = cluster.waits(mine, WAITS, WAITING)
    say("counting processes")
    ended = _ended_job(cluster, records)
    ids = [str(job) for job in mine]
    commands: Dict[str, List[str]] = {
        "submit": submit,
        "status": ["status"],
        "status of 1 job": ["status", ids[0]],
        f"status of {MINE} jobs": ["status", *ids],
        "logs": ["logs", ended],
        "history": ["history"],
        "history -n 5000": ["history", "-n", "5000"],
        "cancel 1 job": ["cancel", "--yes", ids[0]],
        "cancel 50 jobs": ["cancel", "--yes", *ids[1:51]],
    }
    counted: Dict[str, Mapping[str, Any]] = {
        name: {"argv": ["neuronctl", *words], "env": records} for name, words in commands.items()
    }
    more: Results = {"groups": groups, "processes": cluster.processes(counted)}
    more["waits"] = waits
    return more


def _asking(words: Sequence[str]) -> Dict[str, str]:
    """The variables with which zsh asks what may become of the last word."""
    line = " ".join(["neuronctl", *words])
    return {
        "_NEURONCTL_COMPLETE": "zsh_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
    }


def _bare(cluster: Cluster, what: str, asked: Sequence[Any], **more: Any) -> Dict[str, Any]:
    program = str(Path(cluster.scratch, "inside/bare.py"))
    return case("bare", ["python", program, what, json.dumps(asked)], **more)


def _ended_job(cluster: Cluster, env: Mapping[str, str]) -> str:
    """A job that ran and left a log."""
    words = ["submit", *SUBMIT, "--wait", "/bin/echo", "done"]
    settings = [f"{name}={value}" for name, value in env.items()]
    told = cluster.run(["env", *settings, "neuronctl", *words])
    return told.split("Submitted batch job ")[1].split()[0]


def _calls(
    cluster: Cluster, argv: Sequence[str], env: Mapping[str, str], command: str
) -> List[List[str]]:
    """How ``argv`` calls this Slurm command."""
    calls = cluster.processes({"it": {"argv": argv, "env": env}})["it"]
    return [call for call in calls if call[0] == command]
