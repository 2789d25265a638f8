"""Breaks things while sweeps go on, and counts: tasks done, interrupted, doubled (0), lost (0).

``PYTHONPATH=tests python tests/slurm/sweep_faults.py [TASKS [SEED [BINDFS]]]`` does so in a sandbox
of its own. If BINDFS, the program of that name, is given, each node reaches the folder through a
file system that it serves there, and that stands still now and then.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List

from harness import Sandbox, processes, sandbox_up, wait_until
from test_faults import Broken

TASK = """\
#!/bin/bash
# Task $1 takes $2 seconds, and fails the first time if $3 says so. Nobody does it meanwhile.
exec 9>>ran/$1
flock -n 9 || echo doubled >&9
echo "begin $SLURM_JOB_ID" >&9
sleep "$2" 9>&-
echo "end $SLURM_JOB_ID" >&9
[ "$3" != fails ] || [ "$(grep -c begin ran/$1)" -gt 1 ]
"""
JOB = (
    *("-p", "amd_a100nv_8", "--field", "nlp", "--appl", "pytorch", "--no-preflight"),
    *("--gpus-per-node", "1", "-c", "1", "-t", "60"),
)


class Swept:
    """A sweep on a sandbox, in a directory of its own, and what its tasks wrote there."""

    def __init__(self, sandbox: Sandbox, name: str, limit: int) -> None:
        self.sandbox, self.name = sandbox, name
        sandbox.root(
            *("sacctmgr", "-i", "modify", "qos", "p_amd_a100nv_8", "set"),
            f"MaxSubmitJobsPerUser={limit}",
        )
        sandbox.write(f"{name}/task.sh", TASK)
        self.shell("rm -rf ran; mkdir -p ran; chmod +x task.sh")

    def shell(self, text: str, check: bool = True) -> str:
        return self.sandbox.exec(["sh", "-c", f"cd {self.name} && {text}"], check=check).stdout

    def sweep(self, *words: str, check: bool = True) -> str:
        """A command of the sweep's."""
        command = ["sh", "-c", f'cd {self.name} && exec "$@"', "sh", "neuronctl", "sweep"]
        return self.sandbox.exec([*command, *words], check=check).stdout

    def start(self, tasks: int, *words: str, seconds: str = "0.1") -> str:
        """Submit it: every other task fails the first time."""
        rows = "".join(f"{n},{'fails' if n % 2 else 'no'}\n" for n in range(1, tasks + 1))
        self.sandbox.write(f"{self.name}/table.csv", f"n,fails\n{rows}")
        return self.sweep(
            *(*JOB, "-J", self.name, *words, "--table", "table.csv"),
            *("bash", "task.sh", "{n}", seconds, "{fails}"),
        )

    def wait(self, seconds: float = 600) -> None:
        """Until none of its jobs is in the queue."""
        wait_until(lambda: not self.queue(), seconds)

    def queue(self) -> List[str]:
        return self.sandbox.exec(["squeue", "-h", "-r", "-o", "%i %T %r"]).stdout.split("\n")[:-1]

    @property
    def folder(self) -> str:
        state = self.sandbox.exec(["sh", "-c", 'echo "$XDG_STATE_HOME"']).stdout.strip()
        return f"{state}/neuronctl/sweeps/{self.name}"

    def counts(self) -> Dict[str, int]:
        """What became of its tasks, by what they wrote and by what the folder says."""
        ran = self.shell("cd ran && grep -c '^end' *", check=False).split()
        ends = {name: int(count) for name, _, count in (line.partition(":") for line in ran)}
        tasks = int(self.shell(f"cat {self.folder}/tasks/* | grep -c '^{{\"'"))
        results = self.shell(f"cat {self.folder}/results/*").splitlines()
        done = {line.split()[0] for line in results if line.split()[2] == "0"}
        claims = self.shell(f"ls {self.folder}/claims").split()
        notes = self.shell("cat ran/* | grep -c doubled", check=False)
        return {
            "tasks": tasks,
            "done": len(done),
            "lost": tasks - len([name for name in done if ends.get(name, 0) or not ends]),
            "failed": sum(line.split()[2] != "0" for line in results),
            "interrupted": len(claims) - len(results),
            "doubled": int(notes or 0),
            "ended": sum(count > 0 for count in ends.values()),
        }


def retried(sandbox: Sandbox, limit: int, tasks: int) -> Dict[str, Any]:
    """A sweep under a limit on jobs, half of whose tasks fail at first, to its end."""
    swept = Swept(sandbox, f"limit{limit}", limit)
    begun = time.monotonic()
    swept.start(tasks)
    most = len(swept.queue())
    swept.wait()
    first = swept.counts()
    swept.sweep("retry", swept.name, "--failed")
    swept.wait()
    return {
        "jobs in the queue": most,
        "failed at first": first["failed"],
        **swept.counts(),
        "seconds": round(time.monotonic() - begun),
    }


class Breaker:
    """Does something bad to a sweep that goes on; counts what it did."""

    def __init__(self, swept: Swept, broken: Broken, seed: int) -> None:
        self.swept, self.sandbox, self.broken = swept, swept.sandbox, broken
        self.random = random.Random(seed)
        self.done: Dict[str, int] = collections.Counter()

    def strike(self) -> None:
        faults = [
            *3 * [self.kill_worker],
            *2 * [self.kill_task],
            self.cancel_job,
            self.node_dies,
            self.stall,
            self.no_slurmctld,
        ]
        fault = self.random.choice(faults)
        with contextlib.suppress(OSError, AssertionError):  # what it was about to hit has ended
            if fault():
                self.done[fault.__name__] += 1

    def _shells(self, word: str) -> List[int]:
        running = processes(self.sandbox.running.pid)
        return [pid for pid, words in running.items() if any(word in one for one in words[:3])]

    def _kill(self, word: str) -> bool:
        pids = self._shells(word)
        if pids:
            os.kill(self.random.choice(pids), signal.SIGKILL)
        return bool(pids)

    def kill_worker(self) -> bool:
        """A batch shell, one of its workers, or what one runs."""
        return self._kill("slurm_script")

    def kill_task(self) -> bool:
        return self._kill("task.sh")

    def cancel_job(self) -> bool:
        running = [line.split()[0] for line in self.swept.queue() if "RUNNING" in line]
        if running:
            self.sandbox.exec(["scancel", self.random.choice(running)])
        return bool(running)

    def node_dies(self) -> bool:
        node = self.random.choice(("gpu35", "gpu36"))
        self.sandbox.root("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        time.sleep(2)
        self.sandbox.root("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        return True

    def stall(self) -> bool:
        """The folder's file system does not answer, or what works on it stands still."""
        pids = self._shells("bindfs") or self._shells("slurm_script")
        for stop in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, stop)
            time.sleep(self.random.uniform(1, 4) if stop == signal.SIGSTOP else 0)
        return bool(pids)

    def no_slurmctld(self) -> bool:
        with self.broken.without("slurmctld"):
            time.sleep(self.random.uniform(0, 4))
        wait_until(lambda: self.sandbox.root("scontrol", "ping", check=False).returncode == 0)
        return True


def serve_folder(broken: Broken, bindfs: str) -> None:
    """Let each node reach the sweeps through a file system of its own, with caches of its own."""
    told = broken.sandbox.exec(
        ["sh", "-c", "d=$XDG_STATE_HOME/neuronctl/sweeps; mkdir -p $d; echo $d"]
    )
    place = told.stdout.strip()
    for node in ("gpu35", "gpu36"):
        words = [bindfs, "-f", "-o", "allow_other", place, place]
        argv = broken.sandbox.inside(*words, pid=broken.sandbox.daemon("slurmd", node))
        broken.started.append(subprocess.Popen(argv, start_new_session=True))


def torture(broken: Broken, tasks: int, seed: int, strikes: int = 40) -> Dict[str, Any]:
    """A sweep of 8 jobs, two tasks at a time in each, of which things are killed; to its end."""
    sandbox = broken.sandbox
    swept = Swept(sandbox, f"torture{seed}", 8)
    breaker = Breaker(swept, broken, seed)
    swept.start(tasks, "--side-by-side", "2", seconds="0.2")
    # Two more parts at once, with ten tasks in common.
    both = [
        f"{{ head -n 1 table.csv; for i in $(seq {tasks + first} {tasks + first + 19}); do "
        f"echo $i,no; done; }} > more{first}.csv; "
        f"neuronctl sweep add {swept.name} --table more{first}.csv & "
        for first in (1, 11)
    ]
    swept.shell(f"{' '.join(both)} wait")
    rounds = 1
    while True:
        until = time.monotonic() + 900
        while swept.queue() and time.monotonic() < until:
            time.sleep(breaker.random.uniform(0.3, 1))
            if sum(breaker.done.values()) < strikes:
                breaker.strike()
        counts = swept.counts()
        if not counts["lost"] or rounds > 9:
            break
        rounds += 1
        swept.sweep("retry", swept.name, "--failed", check=False)
    return {**counts, "faults": dict(breaker.done), "rounds": rounds}


def main() -> None:
    tasks, seed = [*map(int, sys.argv[1:3]), *(1000, 1)[len(sys.argv[1:3]) :]]
    with sandbox_up("sweep-faults") as sandbox:
        broken = Broken(sandbox)
        for bindfs in sys.argv[3:]:
            serve_folder(broken, bindfs)
        told = torture(broken, tasks, seed)
        print(json.dumps(told), flush=True)
        for pid, words in processes(sandbox.running.pid).items():
            if "bindfs" in " ".join(words[:1]):  # the sandbox would wait for it
                os.kill(pid, signal.SIGKILL)
        for limit in (4, 1) if seed == 1 else ():
            print(json.dumps(retried(sandbox, limit, 200)), flush=True)
    sys.exit(bool(told["doubled"] or told["lost"]))


if __name__ == "__main__":
    main()
