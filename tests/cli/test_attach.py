"""attach and top, with fake Slurm commands: the srun they start."""

from __future__ import annotations

import json
from typing import Any, Callable

from fake_slurm import FakeSlurm, queue_row

Run = Callable[..., Any]


def test_attach(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7", node_list="gpu[01-02]"))
    fake_slurm.answer("srun", "hello\n", code=5)
    assert run("attach", "7", "ls", "-l", "a b", code=5).stdout == "hello\n"
    common = ["srun", "--jobid=7", "--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1"]
    assert fake_slurm.calls("srun") == [[*common, "--nodelist=gpu01", "ls", "-l", "a b"]]
    run("attach", "-w", "gpu02", "7", "ls", code=5)
    assert fake_slurm.calls()[-1] == [*common, "--nodelist=gpu02", "ls"]
    assert "its nodes: gpu01, gpu02" in run("attach", "-w", "gpu03", "7", "ls", code=2).stderr
    assert "a shell needs a terminal" in run("attach", "7", code=2).stderr


def test_a_task_of_an_array(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7_1", own="9"), queue_row("7_2", own="10"))
    assert "name one: 7_1, 7_2" in run("attach", "7", "ls", code=2).stderr
    run("attach", "7_2", "ls")
    assert "--jobid=10" in fake_slurm.calls()[-1]


def test_not_running(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7", state="PENDING"))
    assert "it is PENDING" in run("attach", "7", "ls", code=8).stderr
    fake_slurm.queue()
    assert "it is not in the queue" in run("top", "7", code=8).stderr
    fake_slurm.answer("squeue", stderr="Unable to contact slurm controller\n", code=1)
    assert "Unable to contact" in run("top", "7", code=6).stderr


def test_top(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7", node_list="gpu[01-03]"))
    said = (
        "srun: a message\n"
        "0: @node\tgpu01\n0: @gpu\tindex, name, utilization.gpu [%], memory.used [MiB], "
        "memory.total [MiB], power.draw [W], temperature.gpu\n"
        "0: @gpu\t0, NVIDIA A100, 97, 40000, 81920, 311.5, 61\n0: @load\t3.5\n"
        "1: @node\tgpu02\n1: @load\tx\n0: @cores\t64\n0: @MemTotal\t1048576\n"
        "0: @MemAvailable\t524288\n"
    )
    fake_slurm.answer("srun", said, code=1)
    result = run("top", "7")
    assert "97%  39.1/80.0 GiB  312 W" in result.stdout
    assert "no answer from gpu03" in result.stderr
    data = json.loads(run("top", "7", "--json").stdout)
    first, second = data["nodes"]
    assert (first["load"], first["cores"], first["memory"]) == (3.5, 64, 1024)
    assert (second["load"], second["gpus"], data["silent"]) == (None, [], ["gpu03"])
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "srun"] * 2
    assert "neuronctl: train is job 7\n" in run("top", "train").stderr
    fake_slurm.answer("srun", stderr="srun: error: Job has expired\n", code=1)
    assert "Job has expired" in run("top", "7", code=7).stderr


def test_top_lists_all_running_jobs(run: Run, fake_slurm: FakeSlurm) -> None:
    rows = [queue_row(id, node_list=f"gpu0{id}", name=f"train{id}") for id in "23"]
    fake_slurm.queue(*rows, queue_row("5", state="PENDING"))
    fake_slurm.answer("srun", stderr="srun: error: Job has expired\n", code=1)
    done = run("top")
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["2", "train2"],
        ["3", "train3"],
    ]
    assert "neuronctl: job 2: " in done.stderr and "Job has expired" in done.stderr
    assert [job["job_id"] for job in json.loads(run("top", "--json").stdout)["jobs"]] == ["2", "3"]


def test_top_of_no_running_job(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("5", state="PENDING"))
    assert run("top").stdout == "no running jobs of yours\n"
