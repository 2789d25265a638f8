"""A real Slurm for the benchmark, with as many jobs and job records as wanted.

All of it lives in a sandbox and is gone with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Iterator, List, Mapping, Sequence

from benchmarks.peers import Environments

INSIDE = Path(__file__).with_name("inside")

CLUSTER = "neuron"
QUEUE = "cas_v100nv_8"
"""The partition that is full of jobs."""
SUBMITTING = "cas_v100nv_4"
"""The partition that jobs are submitted to while time is taken."""
COMMENT = "field=misc;appl=pytorch"

# The guide's limits of a few jobs would let nobody have thousands.
_LAYER = "max_submit_jobs: 50000, max_running_jobs: 50000, max_gpus: 50000"

_FILL = (
    'for i in $(seq "$1"); do sbatch --parsable --hold -p "$2" --gres=gpu:1 -t 60 -D "$3" '
    '-J train -o /dev/null --comment="$4" --wrap true || exit; done'
)


@dataclass(frozen=True)
class Cluster:
    """A sandbox that is up."""

    program: Path
    """The measured neuronctl."""
    env: Mapping[str, str]
    pid: int
    scratch: str
    slurm: str

    def run(self, argv: Sequence[str], request: Any = None) -> str:
        """Run a command there as the user, with ``request`` as JSON on its standard input.

        Return what it prints.
        """
        command = subprocess.run(
            [str(self.program), "sandbox", "exec", "--", *argv],
            env=self.env,
            input=json.dumps(request),
            capture_output=True,
            text=True,
        )
        if command.returncode != 0:
            raise RuntimeError(f"{argv} ended with {command.returncode}: {command.stderr}")
        return command.stdout

    def ask(self, script: str, request: Any, *options: str) -> Any:
        """Return the JSON that a script of inside/ answers. options: Python's own."""
        argv = ["python", *options, f"{self.scratch}/inside/{script}"]
        return json.loads(self.run(argv, request))

    def measure(self, cases: Sequence[Mapping[str, Any]], rounds: int) -> Any:
        """Run the cases in turns: {name: {"ms": [...], "kb": [...]}} (inside/stopwatch.py)."""
        request = {"rounds": rounds, "warmup": 2, "cases": list(cases)}
        return self.ask("stopwatch.py", request, "-I", "-S")

    def name_state_home(self, count: int) -> str:
        """Return an XDG_STATE_HOME that holds ``count`` records."""
        return f"{self.scratch}/state-{count}"

    def make_records(self, counts: Sequence[int], job_ids: Sequence[int]) -> None:
        """Write state directories with these numbers of records.

        job_ids: the user's jobs in the queue.
        """
        stores = {self.name_state_home(count): count for count in counts}
        request = {"stores": stores, "job_ids": list(job_ids), "cluster": CLUSTER}
        self.run(["python", f"{self.scratch}/inside/records.py"], request)

    def submit_mine(self, count: int) -> List[int]:
        """Submit jobs of the user that wait; return their ids."""
        words = [str(count), QUEUE, self.scratch, COMMENT]
        return [int(word) for word in self.run(["sh", "-c", _FILL, "sh", *words]).split()]

    def submit_others(self, count: int) -> None:
        """Submit jobs of another user that wait."""
        user = [] if os.getuid() == 0 else ["-U"]
        enter = ["nsenter", *user, "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "--"]
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
        writers = []
        for share in (count // 2, count - count // 2):  # two write faster than one
            words = ["sh", "-c", _FILL, "sh", str(share), QUEUE, self.scratch, COMMENT]
            writers.append(subprocess.Popen([*enter, *words], env=env, stdout=subprocess.DEVNULL))
        codes = [writer.wait() for writer in writers]
        if any(codes):
            raise RuntimeError(f"the controller could not be filled: exit codes {codes}")

    def count_jobs(self) -> int:
        """Return how many jobs the controller knows."""
        return len(self.run(["squeue", "--noheader", "--states=all", "--format=%i"]).split())


@contextlib.contextmanager
def run_cluster(installed: Environments, name: str) -> Iterator[Cluster]:
    """Run a sandbox of the benchmark's own until the block ends."""
    program = installed.own / "bin/neuronctl"
    with tempfile.TemporaryDirectory() as folder:
        layer = Path(folder, "layer.yaml")
        partitions = ", ".join(f"{name}: {{{_LAYER}}}" for name in (QUEUE, SUBMITTING))
        layer.write_text(f"clusters: {{{CLUSTER}: {{partitions: {{{partitions}}}}}}}\n", "utf-8")
        env = {**os.environ, "NEURONCTL_SANDBOX": name, "NEURONCTL_CATALOG": str(layer)}
        sandbox = partial(_call_sandbox, program, env)
        nodes = (f"{QUEUE}=2", f"{SUBMITTING}=4", "amd_a100nv_8=0")
        options = [f"--nodes={partition_nodes}" for partition_nodes in nodes]
        try:
            sandbox("up", "--cluster", CLUSTER, "--bind", str(installed.directory), *options)
            sandbox("exec", "--copy", str(INSIDE), "--", "touch", "train.py")
            status = json.loads(sandbox("status", "--json"))
            yield Cluster(program, env, status["pid"], status["scratch"], status["slurm"])
        finally:
            sandbox("down")


def _call_sandbox(program: Path, env: Mapping[str, str], *words: str) -> str:
    """Run a command of ``neuronctl sandbox``; return what it prints."""
    argv = [str(program), "sandbox", *words]
    return subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
