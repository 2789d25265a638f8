"""Breaks things while sweeps go on, and counts: tasks done, interrupted, doubled (0), lost (0).

``python tests/slurm/sweep_faults.py [TASKS [SEED [FAULTS]]]``, with ``PYTHONPATH=tests``,
does so in a sandbox of its own: a third of the tasks each plain, two side by side under srun, and
in chains (--no-requeue). Each attempt writes files of its own, with O_EXCL, and holds a lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List

from breaker import NODES, Breaker
from harness import Sandbox, sandbox_up, wait_until
from test_faults import Broken

TASK = """\
#!/bin/bash
# It takes $2 seconds, and fails the first time if $3 says so. Nobody else does it meanwhile.
task=ran/$NEURONCTL_TASK attempt=ran/$NEURONCTL_TASK.$NEURONCTL_ATTEMPT
exec 9>>"$task.lock"
flock -n 9 || echo "$attempt" >>ran/doubled
set -C
echo "$SLURM_JOB_ID" >"$attempt.begun" || echo "$attempt" >>ran/doubled
code=0
[ "$3" != fails ] || compgen -G "$task.*.ended" >/dev/null || code=3
sleep "$2" 9>&-
echo "$code" >"$attempt.ended"
exit "$code"
"""
JOB = (
    *("-p", "amd_a100nv_8", "--field", "nlp", "--appl", "pytorch", "--no-preflight"),
    *("--gpus-per-node", "1", "-c", "1", "-t", "60"),
)


class Swept:
    """A sweep on a sandbox, in a directory of its own, and what its tasks wrote there."""

    def __init__(self, sandbox: Sandbox, name: str, limit: int, state: str = "") -> None:
        self.sandbox, self.name, self.state = sandbox, name, state
        sandbox.root(
            *("sacctmgr", "-i", "modify", "qos", "p_amd_a100nv_8", "set"),
            f"MaxSubmitJobsPerUser={limit}",
        )
        sandbox.write(f"{name}/task.sh", TASK)
        self.shell("rm -rf ran; mkdir -p ran; chmod +x task.sh")

    def shell(self, text: str, check: bool = True) -> str:
        where = f"export XDG_STATE_HOME={self.state}; " if self.state else ""
        words = ["sh", "-c", f"{where}cd {self.name} && {text}"]
        return self.sandbox.exec(words, check=check).stdout

    def sweep(self, *words: str, check: bool = True) -> str:
        """A command of the sweep's."""
        return self.shell(f"neuronctl sweep {shlex.join(words)}", check=check)

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
        rows = self.sandbox.exec(["squeue", "-ahr", "-o", "%i %T %r %j"]).stdout
        return [row for row in rows.split("\n")[:-1] if row.split()[-1] == self.name]

    def tasks(self) -> List[Dict[str, Any]]:
        """What ``sweep status`` says."""
        found: Dict[str, Any] = json.loads(self.sweep("status", self.name, "--json"))
        return list(found["tasks"])

    @property
    def folder(self) -> str:
        return self.shell(
            f'ls -d "$XDG_STATE_HOME"/neuronctl/sweeps/{self.name}/????????????????'
        ).strip()

    def results(self) -> List[Dict[str, Any]]:
        """What the workers wrote of ended attempts, each once."""
        lines = self.shell(f"cat {self.folder}/results/*", check=False).split("\n")
        found = {}
        for line in lines:
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                found[record["task"], record["attempt"]] = record
        return list(found.values())

    def counts(self) -> Dict[str, int]:
        """What became of its tasks, by what they wrote and by what the folder says."""
        wrote = self.shell("cd ran && grep -H . *.ended", check=False).split()
        codes = {name[:-6]: int(code) for name, _, code in (one.partition(":") for one in wrote)}
        tasks, results = self.tasks(), self.results()
        done = [one for one in results if one["state"] == "done"]
        failed = [one for one in results if one["state"] == "failed"]
        false_done = [one for one in done if codes.get(_attempt(one)) != 0]
        false_failed = [
            one
            for one in failed
            if codes.get(_attempt(one)) != one["code"] and one["code"] not in (137, 143)
        ]
        doubled = self.shell("cat ran/doubled", check=False).split()
        ended = {name.partition(".")[0] for name in codes}
        return {
            "tasks": len(tasks),
            "done": sum(task["state"] == "done" for task in tasks),
            "lost": sum(task["state"] in ("waiting", "interrupted") for task in tasks),
            "failed": len(failed),
            "interrupted": sum(one["state"] == "interrupted" for one in results),
            "doubled": len(doubled),
            "misreported": len(false_done) + len(false_failed),
            "ended": len(ended),
        }


def _attempt(result: Dict[str, Any]) -> str:
    return f"{result['task']}.{result['attempt']}"


class SweepBreaker(Breaker):
    """Does something bad to sweeps that go on, and to their folders."""

    def __init__(self, swept: List[Swept], broken: Broken, seed: int) -> None:
        super().__init__(broken, seed)
        self.swept = swept
        self.faults = [
            *(self.kill_worker, self.kill_task, self.kill_stepd, self.kill_srun, self.kill_slurmd),
            *(self.restart_slurmctld, self.node_dies, self.cancel, self.requeue, self.suspend),
            *(self.stop, self.read_only),
        ]
        if swept[0].state:
            self.faults.append(self.disk_full)

    def kill_worker(self) -> bool:
        """A worker, or its parent."""
        return self.kill(self.pids("/worker"))

    def kill_task(self) -> bool:
        return self.kill(self.pids("bash", "task.sh"))

    def kill_stepd(self) -> bool:
        return self.kill(self.pids("slurmstepd: "))

    def kill_srun(self) -> bool:
        return self.kill(self.pids("srun ", "task.sh"))

    def suspend(self) -> bool:
        job = self.job()
        self.sandbox.root("scontrol", "suspend", job)
        time.sleep(self.random.uniform(1, 5))
        self.sandbox.root("scontrol", "resume", job, check=False)
        return True

    def node_dies(self) -> bool:
        """Without its slurmd, a node is set down: what runs on it goes on, unknown to Slurm."""
        node = self.random.choice(NODES)
        with self.broken.without("slurmd", node):
            self.update(node, "state=down", "reason=test")
            time.sleep(self.random.uniform(2, 60))
        self.update(node, "state=resume")
        return True

    def stop(self) -> bool:
        """A worker stands still."""
        pid = self.random.choice(self.pids("/worker"))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.random.uniform(1, 15))
        os.kill(pid, signal.SIGCONT)
        return True

    def read_only(self) -> bool:
        folder = self.random.choice(self.swept).folder
        self.sandbox.exec(["sh", "-c", f"chmod a-w {folder} {folder}/*"])
        time.sleep(self.random.uniform(1, 6))
        self.sandbox.exec(["sh", "-c", f"chmod u+w {folder} {folder}/*"])
        return True

    def disk_full(self) -> bool:
        file = f"{self.swept[0].state}/full"
        self.sandbox.exec(["dd", "if=/dev/zero", f"of={file}", "bs=64k"], check=False)
        time.sleep(self.random.uniform(1, 6))
        self.sandbox.exec(["rm", "-f", file])
        return True


def put_clock_wrong(swept: Swept) -> None:
    """Let the clock of the workers on one node be four minutes ahead."""
    lines = (
        "import os, time",
        "if os.environ.get('SLURMD_NODENAME') == 'gpu36':",
        "    right = time.time",
        "    time.time = lambda: right() + 240",
    )
    for line in lines:
        swept.shell(f"echo {shlex.quote(line)} >>$(ls {swept.folder}/code/*/worker/__init__.py)")


def torture(
    broken: Broken, tasks: int, seed: int, strikes: int = 40, state: str = ""
) -> Dict[str, Any]:
    """Three sweeps of which things are killed, to their end."""
    kinds = {"plain": (), "beside": ("--side-by-side", "2"), "chain": ("--no-requeue",)}
    swept = [Swept(broken.sandbox, f"{kind}{seed}", 20, state) for kind in kinds]
    breaker = SweepBreaker(swept, broken, seed)
    for one, words in zip(swept, kinds.values()):
        one.start(tasks // 3, "--jobs", "2", "--retries", "50", *words, seconds="4")
        put_clock_wrong(one)
    # Two more parts at once, with ten tasks in common.
    both = [
        f"{{ head -n 1 table.csv; for i in $(seq {tasks + first} {tasks + first + 19}); do "
        f"echo $i,no; done; }} > more{first}.csv; "
        f"neuronctl sweep add {swept[0].name} --table more{first}.csv & "
        for first in (1, 11)
    ]
    swept[0].shell(f"{' '.join(both)} wait")
    rounds = 1
    while rounds < 20:
        until = time.monotonic() + 1800
        while any(one.queue() for one in swept) and time.monotonic() < until:
            time.sleep(breaker.random.uniform(0.3, 2))
            if sum(breaker.done.values()) < strikes:
                breaker.strike()
        left = [one for one in swept if one.counts()["lost"]]
        if not left:
            break
        rounds += 1
        for one in left:
            one.sweep("retry", one.name, "--jobs", "2", check=False)
    counts = {one.name: one.counts() for one in swept}
    return {**counts, "faults": dict(breaker.done), "rounds": rounds}


@contextlib.contextmanager
def small_disk() -> Iterator[str]:
    """A small file system of this machine's, if this is root."""
    place = f"/tmp/sweep-faults.{os.getpid()}"
    if os.getuid() != 0:
        yield ""
        return
    os.mkdir(place)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m,mode=0777", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        os.rmdir(place)


def main() -> None:
    given = [*map(int, sys.argv[1:4])]
    tasks, seed, strikes = [*given, *(1000, 1, 40)[len(given) :]]
    with small_disk() as disk:
        options = ["--bind", f"{disk}:/state"] if disk else []
        with sandbox_up(f"sweep-faults{seed}", *options) as sandbox:
            broken = Broken(sandbox)
            broken.configure("SlurmdTimeout=30")
            if disk:
                sandbox.exec(["mkdir", "-m", "700", "/state/own"])
            told = torture(broken, tasks, seed, strikes, "/state/own" if disk else "")
            print(json.dumps(told), flush=True)
    counts = [one for one in told.values() if isinstance(one, dict) and "doubled" in one]
    sys.exit(any(one["doubled"] or one["lost"] or one["misreported"] for one in counts))


if __name__ == "__main__":
    main()
