"""Breaks things while runs of --until-done follow one another, and counts what went wrong.

Some are chains, others requeued jobs, on one node or two. None may be lost, doubled, or begun after
its end, and none may say "saved" without a line that the program itself wrote.

``python tests/slurm/chain_faults.py [RUNS [SEED [SUITE]]]`` does so in a sandbox of its own, with
the Slurm of another Debian if SUITE says so.
"""

from __future__ import annotations

import re
import sys
import time
from typing import Any, Dict, List

from bench import debian
from breaker import Breaker, breakable
from harness import SYSTEM, Sandbox
from test_faults import Broken

EACH = 5
"""Runs that the program saves in, until it ends with 0."""

PROGRAM = """\
import os, signal, sys, time
first = os.environ.get("SLURM_PROCID", "0") == "0"
asked = []
signal.signal(signal.SIGTERM, lambda number, frame: asked.append(1))
def read():
    return open("ran").read() if os.path.exists("ran") else ""
run = 1 + read().count(" end\\n")
me = os.environ["SLURM_JOB_ID"] + "." + os.environ.get("SLURM_RESTART_COUNT", "0")
def tell(word):
    line = "%d %s %.1f %s\\n" % (run, me, time.time(), word)
    os.write(os.open("ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), line.encode())
if not first:  # it ends when the first has
    while not any(me in line and "begin" not in line for line in read().split("\\n")):
        time.sleep(0.1)
    os._exit(0)
tell("begin")
until = time.time() + float(sys.argv[2])
while time.time() < until and not asked:
    time.sleep(0.1)
if asked and os.getpid() % 2:
    tell("nothing")  # it was asked, and does not save
else:
    os.makedirs("kept", exist_ok=True)
    open("kept/" + str(run), "w").write(me)
    tell("end")
    asked = []
time.sleep(1)
if not asked and run >= int(sys.argv[1]):
    tell("over")
    os._exit(0)
os._exit(1 if asked else 75)
"""


def submit(sandbox: Sandbox, name: str) -> str:
    """Start runs in a directory of their own and return their job's id; name: ``chain2-7``."""
    sandbox.write(f"{name}/chained.py", PROGRAM)
    kind, nodes, number = name[:5], name[5], int(name[7:])
    options = f"-p amd_a100nv_8 -t 10 --field misc --appl pytorch --gpus-per-node=1 -J {name} -c 2"
    again = "--no-requeue" if kind == "chain" else "--requeue"
    options += f" -N {nodes} --launcher srun --checkpoint kept --no-preflight --max-runs 99"
    made = f"cd {name} && neuronctl submit {options} --until-done {again} chained.py {EACH}"
    told = sandbox.exec(["sh", "-c", f"{made} {1 + number % 3}"]).stdout
    return told.split("Submitted batch job ")[1].split()[0]


def defects(sandbox: Sandbox, name: str, id: str) -> List[str]:
    """Return what is wrong with runs that are over."""
    log = sandbox.exec(["sh", "-c", f"cat {name}/{name}_{id}.*"], check=False).stdout
    ran = sandbox.exec(["cat", f"{name}/ran"], check=False).stdout.split("\n")
    begun = [line.split() for line in ran if line.endswith("begin")]
    ends = [line.split() for line in ran if line.endswith("end")]
    ended = [int(words[0]) for words in ends]
    jobs = [words[1] for words in begun]
    found = []
    if not any(line.endswith(" over") for line in ran):
        # A job that is killed before its successor is submitted, or requeued, has none; USR2 kills
        # a shell that has not read its trap yet.
        last = [id, *re.findall(r" as job (\d+)\n", log)][-1]
        query = ["sacct", "-XnPj", last, "-o", "State,ExitCode,Elapsed"]
        state = sandbox.exec(query, check=False).stdout.strip()
        soon = "00:00:0[0-5]$" if name.startswith("chain") else ""
        early = re.match(rf"(FAILED\|0:(?:9|12)|NODE_FAIL\|\d:0|PREEMPTED\|\d+:\d+)\|{soon}", state)
        kind = "killed before the next run was submitted" if early else "lost"
        found.append(f"{kind}: {log.splitlines()[-3:]}, {last} {state}")
    if len(jobs) != len(set(jobs)) or len(ended) != len(set(ended)):
        found.append(f"doubled: {ran}")
    # A shell that was killed while the program ended does not know that it did: it runs again.
    done = re.search(r"\ndone in \d+ runs?\n(?s:.*)", log)
    if done and "\nrun " in done[0]:
        found.append(f"after the end: {log}")
    kept = {words[1] for words in ends}
    for run, job, says in re.findall(
        r"(?s)run (\d+) of at most \d+, on \S+( as job \d+)?\n(.*?)(?=\nrun \d+ of|$)", log
    ):
        who = f"{job.split()[-1]}.0" if job else f"{id}.{int(run) - 1}"
        if f"run {run} saved" in says and who not in kept:
            found.append(f"false saved: {who}, {says}, {ran}")
    return [f"{name} (job {id}): {words}" for words in found]


def torture(broken: Broken, runs: int, seed: int, side_by_side: int = 10) -> Dict[str, Any]:
    """Until so many runs have begun; what was done, and what was wrong."""
    sandbox = broken.sandbox
    sandbox.root(
        *("sacctmgr", "-i", "modify", "qos", "p_amd_a100nv_8", "set", "MaxSubmitJobsPerUser=-1")
    )
    breaker = Breaker(broken, seed)
    often = [breaker.kill_shell, breaker.kill_client, breaker.ask]
    breaker.faults = [*3 * often, *breaker.usual]
    wrong: List[str] = []
    count = chains = 0
    while count < runs:
        begun = {}
        for _ in range(side_by_side):
            chains += 1
            name = f"{('chain1', 'queue1', 'chain2', 'queue2')[chains % 4]}-{chains}"
            begun[name] = submit(sandbox, name)
        struck, still = 0, 0
        give_up = time.monotonic() + 1200  # Slurm waits 2 min before a requeued run
        while time.monotonic() < give_up:
            time.sleep(breaker.random.uniform(0.5, 2))
            shown = sandbox.exec(["squeue", "-h", "-o", "%T"], check=False)
            if shown.returncode == 0 and not shown.stdout.strip():
                break
            still = still + 1 if set(shown.stdout.split()) == {"PENDING"} else 0
            if still == 20:
                # Slurm 22.05 keeps what an --exclusive job had on a node that died: no job begins
                # there, though it is idle, until slurmctld starts anew.
                breaker.restart_slurmctld()
                breaker.done["nothing_began"] += 1
            if struck < 3 * side_by_side:
                struck += 1
                breaker.strike()
        breaker.resume()
        for name, id in begun.items():
            wrong += defects(sandbox, name, id)
            ran = sandbox.exec(["cat", f"{name}/ran"], check=False).stdout
            count += ran.count("begin")
        left = sandbox.exec(["squeue", "-h"]).stdout
        wrong += [f"left in the queue: {left}"] if left else []
        print(f"{count} runs of {chains} chains, {dict(breaker.done)}, wrong: {wrong}", flush=True)
    return {"runs": count, "chains": chains, "faults": dict(breaker.done), "wrong": wrong}


def main() -> None:
    runs, seed = [*map(int, sys.argv[1:3]), *(200, 1)[len(sys.argv[1:3]) :]]
    for suite in sys.argv[3:]:
        SYSTEM[:] = ["--root", str(debian(suite))]
    with breakable("chain-faults") as broken:
        told = torture(broken, runs, seed)
    print(told)
    sys.exit(any("killed before" not in words for words in told["wrong"]))


if __name__ == "__main__":
    main()
