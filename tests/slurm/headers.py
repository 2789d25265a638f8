"""Random heads of batch scripts, right and wrong ones. Pure: a seed gives the same ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random
from typing import Any, Callable, Dict, List, Sequence, Tuple

Script = Dict[str, Any]
"""text, environment (SBATCH_* only) and arguments (of sbatch's command line)."""

# Option -> its short form and values that sbatch takes.
VALUES: Dict[str, Tuple[str, Sequence[str]]] = {
    "job-name": ("J", ["train", "a b", "x#y", "it's", 'say "x"', "back\\slash", "ümlaut", "-dash"]),
    "partition": ("p", ["gpu", "short", "cpu", "gpu,short"]),
    "nodes": ("N", ["1", "2", "1-3", "+2", " 2"]),
    "ntasks": ("n", ["1", "4", "8", "+3"]),
    "ntasks-per-node": ("", ["1", "2"]),
    "tasks-per-node": ("", ["2"]),
    "cpus-per-task": ("c", ["1", "2", "4"]),
    "time": ("t", ["10", "5:00", "1:00:00", "1-2", "0-3:30", "2-00:00:00", "0", "UNLIMITED"]),
    "mem": ("", ["1G", "500", "800M", "2000000K", "1gb", "+1G"]),
    "mem-per-cpu": ("", ["100M", "200"]),
    "comment": ("", ["field=misc;appl=x", "two words", "#hash", "a\\b", "$USER", "a'b", "*"]),
    "output": ("o", ["logs/%x-%j.out", "/tmp/%u/$USER.log", "out file", "none"]),
    "error": ("e", ["%A_%a.err", "x.err"]),
    "gres": ("", ["gpu:1", "gpu:v100:2", "gpu", "gres:gpu:1"]),
    "gpus-per-node": ("", ["1", "v100:1"]),
    "gpus": ("G", ["2", "v100:2"]),
    "array": ("a", ["0-3", "1,3,5", "0-9%2"]),
    "mail-type": ("", ["END,FAIL", "ALL", "none", "END,nonsense"]),
    "mail-user": ("", ["me@example.org"]),
    "signal": ("", ["B:USR1@120", "TERM", "usr2@30", "10@60", "R:TERM", "b:SIGusr1 @ 60"]),
    "nice": ("", ["100", "5"]),
    "begin": ("b", ["now+1hour", "2030-01-01T00:00:00"]),
    "chdir": ("D", ["/tmp", "/"]),
    "exclude": ("x", ["g1", "g[1-2]"]),
    "open-mode": ("", ["append", "truncate", "a"]),
    "licenses": ("L", ["foo"]),
    "constraint": ("C", ["x|y", "big"]),
    "distribution": ("m", ["block", "cyclic:block"]),
    "hint": ("", ["nomultithread", "compute_bound"]),
    "export": ("", ["ALL", "NONE", "A=1,B=2"]),
    "wckey": ("", ["w"]),
    # What slurmctld takes of these, it soon drops by itself.
    "dependency": ("d", ["nonsense", "afterok:x"]),
    "exclusive": ("", ["user", "exclusive"]),
    "no-kill": ("k", ["off"]),
    "priority": ("", ["TOP"]),
    "core-spec": ("S", ["0"]),
}
FLAGS = {
    "hold": "H", "requeue": "", "no-requeue": "", "overcommit": "O", "contiguous": "",
    "exclusive": "", "oversubscribe": "s", "nice": "", "spread-job": "", "use-min-nodes": "",
    "no-kill": "k", "verbose": "v", "quiet": "Q", "help": "h", "parsable": "", "usage": "",
}  # fmt: skip
WRONG = [
    "--nodez=2", "-Y", "--no=3", "--cpu=2", "--nt 3", "stray", "-p gpu stray", "--job-name=a b",
    "-N two", "-N $NODES", "--ntasks=0", "-n -1", "-c 1.5", "--time=5h", "--time=1:2:3:4",
    "--mem=lots", "--mem=1G --mem-per-cpu=1G", "--hold=yes", "-J 'open",
    '--comment="open', ":", "-p gpu : -n 2", "–p gpu", "—nodes=2", "--signal=FOO",
    "--mail-type=nonsense", "--exclusive=me", "-N 3-2",
    "-Hz",
    "--ntasks=4x", "--time=", "--cluster-const=", "--clu=x", "--signal=TERM@99999",
]  # fmt: skip
VARIABLES = {
    "SBATCH_PARTITION": ["short", "cpu"],
    "SBATCH_TIMELIMIT": ["7"],
    "SBATCH_JOB_NAME": ["from-environment"],
    "SBATCH_EXCLUSIVE": ["user"],
    "SBATCH_GRES": ["gpu:1"],
    "SBATCH_CPUS_PER_GPU": ["2"],
}


def _quoted(rng: Random, value: str) -> str:
    """A value as sbatch reads it back, in one of its quotings; sometimes as it is."""
    plain = not any(character in " \t\"'\\#" for character in value)
    ways: List[Callable[[], str]] = []
    if plain:
        ways += [lambda: value] * 3
    if "'" not in value and "\\" not in value:
        ways.append(lambda: f"'{value}'")
    ways.append(lambda: '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"')
    if rng.random() < 0.08:
        return value
    return rng.choice(ways)()


def _option(rng: Random) -> str:
    """One option in one of its spellings."""
    if rng.random() < 0.2:
        name = rng.choice(list(FLAGS))
        short = FLAGS[name]
        return f"-{short}" if short and rng.random() < 0.5 else f"--{_cut(rng, name)}"
    name = rng.choice([*VALUES, "job-name", "partition", "time", "comment", "nodes", "ntasks"])
    short, values = VALUES[name]
    value = _quoted(rng, rng.choice(values))
    if name in ("exclusive", "nice", "no-kill"):
        return f"-{short}{value}" if short and rng.random() < 0.5 else f"--{name}={value}"
    blank = rng.choice([" ", "  ", "\t"])
    if short and rng.random() < 0.5:
        return f"-{short}{rng.choice([blank, '', ''])}{value}"
    return f"--{_cut(rng, name)}{rng.choice(['=', '=', blank])}{value}"


def _cut(rng: Random, name: str) -> str:
    """The name, sometimes abbreviated, and sometimes to what means several options."""
    return name[: rng.randint(2, len(name))] if rng.random() < 0.15 else name


def _line(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.70:
        line = "#SBATCH" + rng.choice([" ", " ", " ", "  ", "\t", ""])
        line += " ".join(_option(rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
        line += rng.choice(["", "", "", " # a remark", "#remark", " #SBATCH -p cpu", " ", "\t"])
        return line
    return rng.choice(
        [
            "##SBATCH -p nowhere",
            "# SBATCH --time=1",
            "#sbatch -n 7",
            "  #SBATCH -N 3",
            "#SBATCH",
            "#SBATCH # only a remark",
            '#SBATCH "" -p nowhere',
            "#SBATCH -J a\\ b -n 2",
            "#SBATCH -J 'a'\"b\"c",
            "",
            "   ",
            "# words",
            "\t# words",
            "#SLURM -n 2",
            "#SBATCH --comment=\u00a0no-break",
            "#SBATCH HetJob",
            "echo this ends it",
            "<<<<<<< HEAD",
            "module load x # a command",
            ": <<'EOF'\n#SBATCH -p nowhere\nEOF",
        ]
    )


def random_script(rng: Random) -> Script:
    """One script, with its environment and command line."""
    lines = [_line(rng) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.25:
        wrong = rng.choice(["#SBATCH ", "#SBATCH"]) + rng.choice(WRONG)
        lines.insert(rng.randint(0, len(lines)), wrong)
    text = "\n".join(["#!/bin/bash", *lines, "true", *(["#SBATCH -n 9"] * rng.randint(0, 1))])
    text += rng.choice(["\n", ""])
    whole = rng.random()
    if whole < 0.03:
        text = rng.choice(
            [
                text.replace("\n", "\r\n"),
                "\ufeff" + text,
                text.partition("\n")[2],
                "\n" + text,
                "",
                " \n\n",
                text + "\0",
                text.replace("\n", "\r\n", 1),
            ]
        )
    environment = {}
    if rng.random() < 0.2:
        for name in rng.sample(list(VARIABLES), rng.choice([1, 2])):
            environment[name] = rng.choice(VARIABLES[name])
    arguments: List[str] = []
    if rng.random() < 0.2:
        arguments = rng.choice([["-p", "short"], ["--time=3"], ["-n2", "-N", "1"], ["-J", "outer"]])
    return {"text": text, "environment": environment, "arguments": arguments}


def submit_all(folder: str, scripts: Sequence[Script]) -> List[Tuple[str, str]]:
    """What sbatch made of each script, held: ("", what scontrol shows) or (its message, "")."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SBATCH_", "SLURM_")) or name == "SLURM_CONF"
    }
    submitted: Dict[str, int] = {}
    answers: List[Tuple[str, str]] = [("", "")] * len(scripts)
    for number, script in enumerate(scripts):
        place = os.path.join(folder, str(number))
        os.makedirs(place)
        with open(os.path.join(place, "job.sh"), "wb") as file:
            file.write(script["text"].encode("utf-8", "surrogateescape"))
        result = subprocess.run(
            ["sbatch", "--parsable", "-H", *script["arguments"], os.path.join(place, "job.sh")],
            env={**environment, **script["environment"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        job = result.stdout.strip().splitlines()[-1:]
        if result.returncode == 0 and job and job[0].isdigit():
            submitted[job[0]] = number
        else:
            said = result.stderr.strip() or result.stdout.strip().partition("\n")[0]
            answers[number] = (said or "nothing", "")
    for job_id, number in submitted.items():
        shown = subprocess.run(["scontrol", "show", "job", job_id], capture_output=True, text=True)
        answers[number] = ("", shown.stdout)
    subprocess.run(["scancel", *submitted])
    return answers


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(submit_all(sys.argv[1], given)))
