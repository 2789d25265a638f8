"""Breaks things while chains of --until-done go on, and counts: none lost, none doubled, none late.

``python tests/slurm/chain_faults.py [RUNS [SEED [SUITE]]]`` does so in a sandbox of its own, with
the Slurm of another Debian if SUITE says so. It has to run as root: the chains' logs and notes are
on a small disk of their own, which it fills now and then.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List

from bench import debian
from harness import COMMENT, SYSTEM, Sandbox, processes, sandbox_up, wait_until
from test_faults import Broken

EACH = 8
"""Runs of a chain, those that something killed included, until the program ends with 0."""

PROGRAM = """\
import os, sys, time
run = int(os.environ["NEURONCTL_RUN"])
with open("ran", "a") as file:
    file.write("%d %s %.1f begin\\n" % (run, os.environ["SLURM_JOB_ID"], time.time()))
time.sleep(float(sys.argv[2]))
file = os.open("ran", os.O_WRONLY | os.O_APPEND)
line = b"%d %s %.1f end\\n" % (run, os.environb[b"SLURM_JOB_ID"], time.time())
os.write(file, line)
os._exit(75 if run < int(sys.argv[1]) else 0)  # what is killed after the line has ended with 0
"""

CONFIGURED = (
    "PreemptType=preempt/partition_prio\\nPreemptMode=REQUEUE\\n"
    "PartitionName=urgent Nodes=gpu[35-36] PriorityTier=5\\n"
)


SMALL = "/scratch/small"
"""Where the chains' logs and notes are, inside."""


class Breaker:
    """Does something bad to a sandbox in which chains go on; counts what it did."""

    def __init__(self, sandbox: Sandbox, broken: Broken, seed: int) -> None:
        self.sandbox, self.broken = sandbox, broken
        self.random = random.Random(seed)
        self.done: Dict[str, int] = collections.Counter()
        self.killed: List[str] = []
        self.faults: List[Callable[[], bool]] = [
            *3 * [self.kill_shell],
            *3 * [self.kill_client],
            self.restart_slurmctld,
            self.kill_slurmd,
            self.kill_slurmdbd,
            self.fill_disk,
            self.node_dies,
            self.preempt,
            self.two_at_once,
        ]

    def strike(self) -> None:
        fault = self.random.choice(self.faults)
        with contextlib.suppress(OSError):  # what it was about to hit has ended
            if fault():
                self.done[fault.__name__] += 1

    def _kill(self, wanted: Callable[[List[str]], bool]) -> bool:
        running = processes(self.sandbox.running.pid)
        pids = [pid for pid, words in running.items() if words and wanted(words)]
        if pids:
            pid = self.random.choice(pids)
            os.kill(pid, signal.SIGKILL)
            self.killed.append(f"{time.time():.1f} {' '.join(running[pid])[:200]}")
        return bool(pids)

    def kill_shell(self) -> bool:
        """A batch shell, or the process beside it that submits the next run."""
        return self._kill(lambda words: "slurm_script" in " ".join(words[:3]))

    def kill_client(self) -> bool:
        """What asks Slurm for the script."""
        names = ("sbatch", "squeue", "scontrol", "sacct", "scancel")
        return self._kill(lambda words: os.path.basename(words[0]) in names)

    def restart_slurmctld(self) -> bool:
        with self.broken.without("slurmctld"):
            time.sleep(self.random.uniform(0, 4))
        wait_until(lambda: self.sandbox.root("scontrol", "ping", check=False).returncode == 0)
        return True

    def kill_slurmd(self) -> bool:
        with self.broken.without("slurmd", self.random.choice(("gpu35", "gpu36"))):
            time.sleep(self.random.uniform(0, 4))
        return True

    def kill_slurmdbd(self) -> bool:
        with self.broken.without("slurmdbd"):
            time.sleep(self.random.uniform(0, 8))
        return True

    def fill_disk(self) -> bool:
        filler = f"{SMALL}/filler"
        self.sandbox.exec(["sh", "-c", f"cat /dev/zero >{filler}"], check=False)
        time.sleep(self.random.uniform(0, 8))
        self.sandbox.exec(["rm", filler])
        return True

    def node_dies(self) -> bool:
        node = self.random.choice(("gpu35", "gpu36"))
        self.sandbox.root(
            "scontrol", "update", f"nodename={node}", "state=down", "reason=test", check=False
        )
        time.sleep(2)
        self.resume()
        return True

    def resume(self) -> None:
        for node in ("gpu35", "gpu36"):
            self.sandbox.root("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    def preempt(self) -> bool:
        urgent = ["-p", "urgent", "-N1", "--exclusive", "-t", "1", COMMENT, "-o/dev/null"]
        self.sandbox.exec(["sbatch", *urgent, "--wrap", "sleep 1"], check=False)
        return True

    def two_at_once(self) -> bool:
        """A second successor, as where the answer to the first one was lost."""
        shown = "squeue -h --me -t PENDING -o '%A %E %o' | grep afterany | grep stdin"
        rows = self.sandbox.exec(["sh", "-c", shown], check=False).stdout.splitlines()
        id = self.random.choice(rows).split()[0] if rows else "0"
        line = ["sacct", "-XnPj", id, "-o", "SubmitLine"]  # squeue has no arguments since Slurm 24
        words = self.sandbox.exec(line, check=False).stdout.split()
        if len(words) < 3:
            return False
        mark, first, before = words[-3:]
        again = (
            f"scontrol write batch_script {id} again.sh && log=$(scontrol show job {id} | sed -n "
            f"'s/^ *StdOut=//p') && cd ${{log%/*}} && sbatch --dependency=afterany:{before} "
            f'--output="$log" --open-mode=append /dev/stdin {mark} {first} {before} <../again.sh'
        )
        return self.sandbox.exec(["sh", "-c", again], check=False).returncode == 0


def submit(sandbox: Sandbox, name: str) -> str:
    """A chain in a directory of its own; its id."""
    sandbox.write(f"{name}/chained.py", PROGRAM)
    options = f"-p amd_a100nv_8 -t 10 --field misc --appl pytorch --gpus-per-node=1 -J {name} -c 2"
    options += f" -o {SMALL}/%x_%j.out"
    chain = "--until-done --no-requeue --no-preflight --max-runs 99 --checkpoint ran"
    seconds = 1 + len(name) % 3
    made = f"cd {name} && neuronctl submit {options} {chain} chained.py {EACH} {seconds}"
    told = sandbox.exec(["sh", "-c", made]).stdout
    return told.split("Submitted batch job ")[1].split()[0]


def defects(sandbox: Sandbox, name: str, id: str) -> List[str]:
    """What is wrong with a chain that is over."""
    noted = sandbox.exec(["cat", f"{SMALL}/{name}_{id}.runs"], check=False).stdout.split("\n")
    ran = sandbox.exec(["cat", f"{name}/ran"], check=False).stdout.split("\n")
    begun = [int(line.split()[0]) for line in ran if line.endswith("begin")]
    ended = [int(line.split()[0]) for line in ran if line.endswith("end")]
    causes = [line.split()[4] for line in noted if " end " in line]
    found = []
    # A shell that was killed as it waited for the program looks like a program that was.
    # Where the disk was full, there is no note of the end.
    over = causes[-1:] == ["finished"] or any(run >= EACH for run in ended)
    if not over and "137 failed" not in noted[-2]:
        noted_next = [line.split()[3] for line in noted if " next " in line]
        state = ["sacct", "-XnPj", [id, *noted_next][-1], "-o", "JobID,State,ExitCode,Elapsed"]
        last = sandbox.exec(state, check=False).stdout.strip()
        # What is killed before it has submitted its successor has none, as the page says.
        early = re.search(
            r"\|(FAILED\|0:9|NODE_FAIL\|\d:0|PREEMPTED\|\d+:\d+)\|00:00:0[0-5]$", last
        )
        kind = "killed before the next run was submitted" if early else "lost"
        found.append(f"{kind}: it ended with {noted[-3:]}, {last}")
    if sorted(begun) != sorted(set(begun)):
        found.append(f"doubled: {begun}")
    if begun != sorted(begun):
        found.append(f"not in order: {begun}")
    if any(run > EACH for run in ended[:-1]) or len([run for run in ended if run >= EACH]) > 1:
        found.append(f"after the end: {ended}, noted {noted[-12:]}")
    return [f"{name} (job {id}): {words}" for words in found]


def torture(broken: Broken, runs: int, seed: int, side_by_side: int = 6) -> Dict[str, Any]:
    """Until so many runs have begun; what was done, and what was wrong."""
    sandbox = broken.sandbox
    sandbox.root(
        *("sacctmgr", "-i", "modify", "qos", "p_amd_a100nv_8", "set", "MaxSubmitJobsPerUser=-1")
    )
    breaker = Breaker(sandbox, broken, seed)
    wrong: List[str] = []
    count = chains = 0
    while count < runs:
        begun = {}
        for _ in range(side_by_side):
            chains += 1
            begun[f"c{chains:0{1 + chains % 3}d}"] = ""
        begun = {name: submit(sandbox, name) for name in begun}
        struck, still, give_up = 0, 0, time.monotonic() + 600
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
            if struck < 4 * side_by_side:
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
    for process in breaker.broken.started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0)
    return {"runs": count, "chains": chains, "faults": dict(breaker.done), "wrong": wrong}


@contextlib.contextmanager
def small_disk() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m,mode=777", "none", place], check=True
        )
        try:
            yield place
        finally:
            subprocess.run(["umount", place], check=True)


def main() -> None:
    runs, seed = [*map(int, sys.argv[1:3]), *(200, 1)[len(sys.argv[1:3]) :]]
    for suite in sys.argv[3:]:
        SYSTEM[:] = ["--root", str(debian(suite))]
    with small_disk() as disk, sandbox_up("chain-faults", "--bind", f"{disk}:{SMALL}") as sandbox:
        sandbox.root("sh", "-c", f"printf '{CONFIGURED}' >> /etc/slurm/slurm.conf")
        broken = Broken(sandbox)
        with broken.without("slurmctld"):
            pass
        wait_until(lambda: sandbox.root("scontrol", "ping", check=False).returncode == 0)
        told = torture(broken, runs, seed)
    print(told)
    sys.exit(any("killed before" not in words for words in told["wrong"]))


if __name__ == "__main__":
    main()
