"""``--signal`` with each launcher: the program saves and exits with 0, and the job is COMPLETED."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from harness import Sandbox, wait_until

SAVE = """
import os, signal, sys, time

def save(number, frame):
    # Slurm signals every process of a task here, and the task's shell does so again.
    signal.signal(number, signal.SIG_IGN)
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)

signal.signal(getattr(signal, "SIG" + os.environ.get("WITH", "USR1")), save)
print("ready", flush=True)
time.sleep(600)
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("launcher", "signal", "nodes"),
    [
        ("srun", "USR1", 2),
        ("srun", "B:USR1", 2),
        ("srun", "TERM", 1),
        ("python", "INT", 1),
        # test_only_the_ranks_get_it has them in make test.
        pytest.param("torchrun", "USR1", 2, marks=pytest.mark.matrix),
        pytest.param("accelerate", "USR1", 1, marks=pytest.mark.matrix),
        pytest.param("torchrun", "TERM", 2, marks=pytest.mark.matrix),
        pytest.param("torchrun", "INT", 1, marks=pytest.mark.matrix),
        ("torchrun_jsc", "USR1", 2),
        pytest.param("accelerate", "TERM", 2, marks=pytest.mark.matrix),
        ("horovodrun", "USR1", 1),
        ("mpirun", "USR1", 2),
    ],
)
def test_a_program_saves(
    launcher: str, signal: str, nodes: int, bench: Sandbox, horovod_venv: Path
) -> None:
    bench.write("save.py", SAVE)
    to, _, signal = signal.rpartition(":")
    name = f"{launcher}-{to}{signal}-{nodes}"  # no two jobs share a log
    count = nodes * (1 if launcher == "python" else 2)
    options = ["-p", "amd_a100nv_8", "-t", "20", "--field", "misc", "--appl", "pytorch"]
    options += ["-N", str(nodes), "--gpus-per-node", str(count // nodes), "--no-preflight"]
    options += ["--launcher", launcher, "--signal", f"{to}:{signal}@60".lstrip(":")]
    options += ["--env", f"WITH={signal}", f"--venv={horovod_venv}", "-o", name, "--json"]
    made = bench.exec(["neuronctl", "submit", *options, "save.py"])
    job = str(json.loads(made.stdout)["job_id"])
    query = ["sacct", "-X", "-n", "-P", "-j", job, "-o", "State,ExitCode"]

    def log() -> str:
        return bench.exec(["sh", "-c", f"cat {name} 2>/dev/null || true"]).stdout

    try:
        wait_until(lambda: log().count("ready") == count, seconds=400)
        script = bench.exec(["scontrol", "write", "batch_script", job, "-"]).stdout
        # As slurmctld does 60 s before the time is up.
        to_shell = ["--batch"] if f"--signal=B:{signal}@" in script else []
        bench.exec(["scancel", *to_shell, f"--signal={signal}", job])
        bench.wait_for_jobs()
        wait_until(lambda: bench.exec(query).stdout.partition("|")[0] not in ("", "RUNNING"))
        ended = bench.exec(query).stdout.strip()
    finally:
        bench.cancel_all()
    assert (ended, log().count("saved")) == ("COMPLETED|0:0", count), log()


DDP = """
import os, signal, time
import torch, torch.distributed as dist

KEPT = os.path.abspath("got-" + os.environ["SLURM_JOB_ID"])

def note(who):
    line = "%s %d\\n" % (who, os.getpid())
    os.write(os.open(KEPT, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), line.encode())

asked = []
signal.signal(signal.SIGUSR1, lambda number, frame: (asked.append(1), note("rank")))
dist.init_process_group("gloo")
if not os.fork():  # as a DataLoader's worker: it has the rank's environment
    signal.signal(signal.SIGUSR1, lambda number, frame: note("worker"))
    while os.getppid() != 1:
        time.sleep(0.1)
print("ready", flush=True)
while True:
    flag = torch.tensor([float(bool(asked))])
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    if flag.item():
        break
    time.sleep(0.1)
time.sleep(2)
dist.barrier()
os._exit(0)
"""

ALONE = """
import os, signal, sys, time

def note(number, frame):
    kept = os.open("got-" + os.environ["SLURM_JOB_ID"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(kept, b"rank %d\\n" % os.getpid())
    sys.exit(0)

signal.signal(signal.SIGUSR1, note)
print("ready", flush=True)
time.sleep(600)
"""


def assert_only_ranks_get_it(bench: Sandbox, venv: Path, *launchers: str, until_done: bool) -> None:
    """Train, submitted from inside a torchrun rank: the job inherits that one's variables.

    Several launchers: of steps side by side, with one of srun, whose two tasks are ranks, too.
    """
    bench.write("ddp.py", DDP)
    several, name = len(launchers) > 1, "-".join(["only", *launchers])
    options = ["-p", "amd_a100nv_8", "-t", "20", "--field", "misc", "--appl", "pytorch", "-N", "2"]
    options += ["--no-preflight", f"--venv={venv}", "--env", "ACCELERATE_MIXED_PRECISION=no"]
    options += ["--signal", "USR1@60", *["--until-done"] * until_done, "-o", name, "--json"]
    options += ["-c", "8", "--gpus-per-node", "8" if several else "2"]
    step = {"nodes": 1, "gpus-per-node": 2, "cpus-per-task": 2, "script": "ddp.py"}
    if several:
        bench.write("alone.py", ALONE)
        steps = [{**step, "launcher": each} for each in launchers]
        steps.append({**step, "launcher": "srun", "script": "alone.py", "ntasks-per-node": 2})
        bench.write("steps.yaml", yaml.safe_dump({"steps": [{"together": steps}]}))
        options += ["-f", "steps.yaml"]
    else:
        options += ["--launcher", *launchers, "ddp.py"]
    ranks = 2 * len(launchers) + 2
    bench.write("outer.sh", shlex.join(["neuronctl", "submit", *options]))
    outer = [f"{venv}/bin/python", "-m", "torch.distributed.run", "--standalone"]
    outer += ["--nproc-per-node=1", "--no-python"]
    made = bench.exec([*outer, "sh", "outer.sh"])
    job = str(json.loads(made.stdout[made.stdout.index("{") :])["job_id"])

    def log() -> str:
        return bench.exec(["sh", "-c", f"cat {name} 2>/dev/null || true"]).stdout

    try:
        wait_until(lambda: log().count("ready") == ranks, seconds=400)
        asked = "USR2" if until_done else "USR1"
        bench.exec(["scancel", "--batch", f"--signal={asked}", job])
        bench.wait_for_jobs()
        query = ["sacct", "-n", "-P", "-j", job, "-o", "JobID,State"]
        wait_until(lambda: "RUNNING" not in bench.exec(query).stdout)
    finally:
        bench.cancel_all()
    got = bench.exec(["cat", f"got-{job}"]).stdout.splitlines()
    ended = bench.exec(query).stdout.splitlines()
    assert [line.split()[0] for line in got] == ["rank"] * ranks, log()
    assert len(set(got)) == ranks, "each rank gets it once"
    assert f"{job}|COMPLETED" in ended, log()
    started = [line for line in ended if re.match(rf"{job}\.\d", line)]
    assert len(started) == len(launchers) + several + 1, "one step more, which sends the signal"


@pytest.mark.parametrize(
    "launcher", ["torchrun", pytest.param("accelerate", marks=pytest.mark.matrix)]
)
def test_only_the_ranks_get_it(launcher: str, bench: Sandbox, horovod_venv: Path) -> None:
    assert_only_ranks_get_it(bench, horovod_venv, launcher, until_done=False)


def test_only_the_ranks_of_steps_get_it(bench: Sandbox, horovod_venv: Path) -> None:
    assert_only_ranks_get_it(bench, horovod_venv, "torchrun", "accelerate", until_done=True)
