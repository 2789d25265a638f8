"""The launcher ray: real jobs on two nodes, in an environment with Ray."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Iterator

import pytest
from bench import OUTSIDE, built
from harness import Sandbox, sandbox_up
from launching import JOB

pytestmark = pytest.mark.matrix

# Waits until the other job's cluster is there as well.
PROGRAM = """\
import os, pathlib, sys, time
import ray
ray.init(logging_level="ERROR")
me, other, code = sys.argv[1:]
pathlib.Path("begun-" + me).touch()
while other and not pathlib.Path("begun-" + other).exists():
    time.sleep(0.1)
@ray.remote(num_cpus=1, num_gpus=1)
class Actor:
    def say(self, number):
        return number, os.uname().nodename
actors = [Actor.remote() for _ in range(int(ray.cluster_resources()["GPU"]))]
said = ray.get([actor.say.remote(number) for number, actor in enumerate(actors, 1)])
print(len(ray.nodes()), sum(number for number, _ in said), *sorted({host for _, host in said}))
sys.exit(int(code))
"""


@pytest.fixture(scope="module")
def ray_bench(slurm_there: None) -> Iterator[Sandbox]:
    """A sandbox that shows an environment with Ray."""
    python = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
    venv = built("ray", "build-ray", [python], [python, (OUTSIDE / "ray.txt").read_text()])
    nodes = ("--nodes", "cas_v100nv_8=0", "--bind", str(venv))
    with sandbox_up(f"ray-{os.getpid()}", *nodes) as made:
        made.write("program.py", PROGRAM)
        made.write("venv", str(venv))
        yield made


def submit(sandbox: Sandbox, *more: str) -> str:
    """The words that submit a job on both nodes, for a shell."""
    size = ["-N2", "--gpus-per-node=2", "-c4", "--nodelist=gpu[35-36]"]
    launch = ['--venv="$(cat venv)"', "--launcher=ray", *more]
    return " ".join(["neuronctl", "submit", "--wait", *JOB, *size, *launch])


def test_two_clusters_on_the_same_nodes_do_not_meet(ray_bench: Sandbox) -> None:
    one = submit(ray_bench, "-o one.log", "program.py one two 0")
    two = submit(ray_bench, "-o two.log", "program.py two one 7")
    text = f"{one} & one=$!; {two} & two=$!; wait $one; echo $?; wait $two; echo $?"
    done = ray_bench.exec(["bash", "-c", text], timeout=300)
    logs = [ray_bench.exec(["cat", f"{name}.log"]).stdout for name in ("one", "two")]
    assert done.stdout.split("\n")[-3:] == ["0", "7", ""], logs
    assert [log.splitlines()[0] for log in logs] == ["2 10 gpu35 gpu36"] * 2
    left = ray_bench.exec(
        ["bash", "-c", "pgrep -fa '[r]ay::|[r]aylet'; ls -d /tmp/ray_*"], check=False
    )
    assert left.stdout == ""
