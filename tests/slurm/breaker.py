"""What breaks things in a sandbox while jobs go on there, for the campaigns of *_faults.py."""

from __future__ import annotations

import collections
import contextlib
import os
import random
import signal
import time
from typing import Callable, Dict, Iterator, List

from harness import COMMENT, processes, sandbox_up, wait_until
from test_faults import Broken

NODES = ("gpu35", "gpu36")
URGENT = (
    "PreemptType=preempt/partition_prio",
    "PreemptMode=REQUEUE",
    "PartitionName=urgent Nodes=gpu[35-36] PriorityTier=5",
)


@contextlib.contextmanager
def breakable(name: str, *options: str) -> Iterator[Broken]:
    """A sandbox in which jobs can be preempted, too."""
    with sandbox_up(name, *options) as sandbox:
        broken = Broken(sandbox)
        broken.configure(*URGENT)
        with broken.without("slurmctld"):
            pass
        wait_until(lambda: sandbox.root("scontrol", "ping", check=False).returncode == 0)
        yield broken


class Breaker:
    """Does something bad to jobs that go on, and counts what it did.

    faults: what it does, each as often as it stands there.
    """

    def __init__(self, broken: Broken, seed: int) -> None:
        self.sandbox, self.broken = broken.sandbox, broken
        self.random = random.Random(seed)
        self.done: Dict[str, int] = collections.Counter()
        self.faults: List[Callable[[], bool]] = []
        self._left: List[Callable[[], bool]] = []

    def strike(self) -> None:
        if not self._left:
            self._left = self.random.sample(self.faults, len(self.faults))
        fault = self._left.pop()
        with contextlib.suppress(OSError, AssertionError, IndexError):  # its victim has ended
            if fault():
                self.done[fault.__name__] += 1

    def pids(self, *words: str) -> List[int]:
        """The processes whose command lines have these words."""
        running = processes(self.sandbox.running.pid)
        return [
            pid for pid, argv in running.items() if all(word in " ".join(argv) for word in words)
        ]

    def kill(self, pids: List[int]) -> bool:
        os.kill(self.random.choice(pids), signal.SIGKILL)
        return True

    def kill_shell(self) -> bool:
        """A batch shell, or the process beside it that submits the next run."""
        return self.kill(self.pids("slurm_script"))

    def kill_client(self) -> bool:
        """What asks Slurm for a script."""
        names = ("sbatch", "squeue", "scontrol", "sacct", "scancel")
        running = processes(self.sandbox.running.pid)
        return self.kill(
            [pid for pid, argv in running.items() if os.path.basename("".join(argv[:1])) in names]
        )

    def job(self, state: str = "R") -> str:
        jobs = self.sandbox.exec(["squeue", "-h", "-t", state, "-o", "%A"], check=False).stdout
        return self.random.choice(jobs.split())

    def ask(self) -> bool:
        """As Slurm does shortly before the time limit."""
        self.sandbox.exec(["scancel", "--batch", "--signal=USR2", self.job()], check=False)
        return True

    def cancel(self) -> bool:
        self.sandbox.exec(["scancel", self.job(self.random.choice(("R", "PD")))], check=False)
        return True

    def requeue(self) -> bool:
        return self.sandbox.root("scontrol", "requeue", self.job(), check=False).returncode == 0

    def restart_slurmctld(self) -> bool:
        with self.broken.without("slurmctld"):
            time.sleep(self.random.uniform(0, 8))
        wait_until(lambda: self.sandbox.root("scontrol", "ping", check=False).returncode == 0)
        return True

    def kill_slurmd(self) -> bool:
        with self.broken.without("slurmd", self.random.choice(NODES)):
            time.sleep(self.random.uniform(0, 4))
        return True

    def kill_slurmdbd(self) -> bool:
        with self.broken.without("slurmdbd"):
            time.sleep(self.random.uniform(0, 8))
        return True

    def update(self, node: str, *words: str) -> None:
        self.sandbox.root("scontrol", "update", f"nodename={node}", *words, check=False)

    def node_dies(self) -> bool:
        self.update(self.random.choice(NODES), "state=down", "reason=test")
        time.sleep(2)
        self.resume()
        return True

    def resume(self) -> None:
        for node in NODES:
            self.update(node, "state=resume")

    def preempt(self) -> bool:
        urgent = ["-p", "urgent", "-N1", "--exclusive", "-t", "1", COMMENT, "-o/dev/null"]
        self.sandbox.exec(["sbatch", *urgent, "--wrap", "sleep 1"], check=False)
        return True

    @property
    def usual(self) -> List[Callable[[], bool]]:
        """What befalls all kinds of jobs."""
        return [
            *(self.restart_slurmctld, self.kill_slurmd, self.kill_slurmdbd),
            *(self.node_dies, self.preempt),
        ]
