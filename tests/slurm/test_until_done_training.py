"""``--until-done`` with PyTorch: a training that goes on is the one that was not interrupted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, List, Tuple

import pytest
from harness import Sandbox, wait_until
from test_until_done import EXAMPLE, Going, quick_requeues

LOSS = re.compile(r"epoch (\d+) loss (\S+)$")


@pytest.fixture(scope="module")
def training(slurm_there: None, horovod_venv: Path) -> Iterator[Sandbox]:
    with quick_requeues("training", "--bind", str(horovod_venv)) as made:
        yield made


def test_a_training_has_the_loss_of_one_that_was_not_interrupted(
    training: Sandbox, horovod_venv: Path
) -> None:
    """On two nodes, in three runs; all ranks stop after the same epoch."""
    training.write("train_ddp.py", EXAMPLE.read_text(encoding="utf-8"))
    options = ["--gpus-per-node=1", "-N2", "--launcher=torchrun", f"--venv={horovod_venv}"]
    program = ["../train_ddp.py", "--epochs", "100", "--checkpoint"]
    job = Going(training, *options, "-J", "goes", *program, "a.pt")

    def epochs() -> List[Tuple[int, str]]:
        found = [LOSS.match(line) for line in job.lines(f"goes_{job.id}.out")]
        return [(int(match[1]), match[2]) for match in found if match]

    for run in (1, 2):
        job.begun(run)
        known = len(epochs())
        wait_until(lambda known=known: len(epochs()) > known + 4)
        job.soon_over()
        job.begun(run + 1)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["saved", "saved", "finished"]
    parts = epochs()
    whole = Going(training, *options, "-J", "goes", *program, "b.pt")
    assert whole.ended() == "COMPLETED"
    job.id = whole.id
    assert parts == epochs()
    assert [number for number, _ in parts] == list(range(1, 101))
