"""attach, with fake Slurm commands: the srun they start."""

from __future__ import annotations

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
    assert "it is not in the queue" in run("attach", "7", "ls", code=8).stderr
    fake_slurm.answer("squeue", stderr="Unable to contact slurm controller\n", code=1)
    assert "Unable to contact" in run("attach", "7", "ls", code=6).stderr
