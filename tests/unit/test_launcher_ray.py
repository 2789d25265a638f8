"""The text that launcher ray runs on each node, with a stand-in for Ray.

Ray itself runs in tests/slurm/test_launch_ray.py, with ``make test-matrix``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Dict, List

from plan_builders import launch_command, plan_of

SRUN = 'until [[ $1 == bash ]]; do shift; done; exec "$@"'
RAY = 'echo "$@" >>"$SEEN"; stat -c %a /tmp/ray_"$SLURM_JOB_ID".* >>"$SEEN"; exec sleep "$LIVES"'
PYTHON = """\
case $1,$2 in
    -c,*grpc) exit 1 ;;
    -c,*) echo 2 ;;
    *) for i in {1..1000}; do [ "$(wc -l <"$SEEN")" -lt 2 ] || break; sleep 0.1; done
        printf '%s\\n' "$RAY_ADDRESS" "$@"; exit 7 ;;
esac"""


def run_task(place: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    for name, text in {"srun": SRUN, "ray": RAY, "python": PYTHON}.items():
        (place / name).write_text(f"#!/bin/bash\n{text}\n")
        (place / name).chmod(0o755)
    made = plan_of(
        launcher="ray",
        script="tune.py",
        args=args,
        nodes=2,
        gpus_per_node=2,
        launcher_options=("--resources={'a b': 1}",),
    )
    command = launch_command(made)
    job: Dict[str, str] = {"SLURM_NODEID": "0", "SLURM_STEP_NUM_NODES": "2", "LIVES": "300"}
    job.update(SLURM_JOB_ID=f"{os.getpid()}", SLURM_STEP_ID="0", SLURM_CPUS_PER_TASK="16")
    job.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="14711", SEEN=str(place / "seen"))
    job.update(variables, PATH=f"{place}:{os.environ['PATH']}")
    return subprocess.run(
        ["bash", "-c", command], env=job, capture_output=True, text=True, timeout=300
    )


def seen(place: Path) -> List[str]:
    return (place / "seen").read_text().splitlines()


def test_the_program_starts_once_on_the_head_with_its_arguments(tmp_path: Path) -> None:
    words = ["--", "a  b", "$HOME", "it's", "", "-h"]
    done = run_task(tmp_path, *words)
    assert done.returncode == 7, done.stderr
    assert done.stdout.split("\n")[:-1] == ["127.0.0.1:14711", "tune.py", *words]
    started, mode = seen(tmp_path)
    assert started.startswith(f"start --block --temp-dir=/tmp/ray_{os.getpid()}.")
    assert "--num-cpus=16 --num-gpus=2 " in started
    assert "--head --port=14711 " in started
    assert started.endswith("--resources={'a b': 1}")
    assert mode == "700"
    assert not [*Path("/tmp").glob(f"ray_{os.getpid()}.*")]


def test_a_worker_that_dies_ends_the_job(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:  # the kernel takes the connections
        port = str(head.getsockname()[1])
        done = run_task(tmp_path, SLURM_NODEID="1", MASTER_PORT=port, LIVES="0")
    assert done.returncode == 1
    assert done.stderr.endswith("the worker ended\n")
    assert f"--address=127.0.0.1:{port}" in seen(tmp_path)[0]


def test_a_worker_ends_with_the_head(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = str(head.getsockname()[1])
        threading.Thread(target=end_once_joined, args=[head, tmp_path / "seen"]).start()
        assert run_task(tmp_path, SLURM_NODEID="1", MASTER_PORT=port).returncode == 0


def end_once_joined(head: socket.socket, seen: Path) -> None:
    with head.accept()[0]:
        while not (seen.exists() and "700" in seen.read_text()):
            time.sleep(0.1)
        head.shutdown(socket.SHUT_RDWR)


def test_a_head_that_dies_ends_the_job(tmp_path: Path) -> None:
    done = run_task(tmp_path, LIVES="0", SLURM_STEP_NUM_NODES="3")
    assert done.returncode == 1
    assert done.stderr.endswith("the head ended\n")
