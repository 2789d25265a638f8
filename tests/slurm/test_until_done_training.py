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
    """On two nodes, in two runs by torchrun, and in one by srun; both ranks stop together."""
    training.write("train_ddp.py", EXAMPLE.read_text(encoding="utf-8"))
    options = ["--gpus-per-node=1", "-N2", f"--venv={horovod_venv}"]
    program = ["../train_ddp.py", "--epochs", "70", "--checkpoint"]

    def epochs(job: Going) -> List[Tuple[int, str]]:
        found = [LOSS.match(line) for line in job.log.splitlines()]
        return [(int(match[1]), match[2]) for match in found if match]

    job = Going(training, *options, "--launcher=torchrun", *program, "a.pt")
    wait_until(lambda: epochs(job))
    job.soon_over()
    job.begun(2)
    assert job.ended() == "COMPLETED"
    assert job.causes() == ["saved", "finished"]
    whole = Going(training, *options, "--launcher=srun", *program, "b.pt", name="whole")
    assert whole.ended() == "COMPLETED"
    assert "all-reduce over 2 ranks: 1, as expected" in whole.log
    assert epochs(job) == epochs(whole)
    assert [number for number, _ in epochs(job)] == list(range(1, 71))
