"""examples/train_ddp.py trains for real: alone, as two ranks, and on from its checkpoint."""

from __future__ import annotations

import functools
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import List

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_ddp.py"
LOSS = re.compile(r"^epoch (\d+) loss (\S+)$", re.MULTILINE)


def start(venv: Path, cwd: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    # PyTorch warns when NumPy is not there; the example does not need it.
    settings = {**os.environ, "PYTHONWARNINGS": "default", **env}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in env:
            settings.pop(name, None)
    return subprocess.Popen(
        [str(venv / "bin/python"), str(EXAMPLE), *args],
        cwd=cwd,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*processes: subprocess.Popen[str]) -> List[str]:
    try:
        outputs = [process.communicate(timeout=600)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, output in zip(processes, outputs):
        assert process.returncode == 0, output
    return outputs


def test_alone_and_resumed(horovod_venv: Path, tmp_path: Path) -> None:
    """test_until_done_training compares the losses with those of a training in one run."""
    train = functools.partial(start, horovod_venv, tmp_path)
    (first,) = finish(train("--epochs", "2", "--checkpoint", "new/model.pt"))
    assert "rank 0 of 1 on " in first
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.pt"]
    (rest,) = finish(train("--epochs", "3", "--checkpoint", "new/model.pt"))
    assert "resumed from new/model.pt after epoch 2" in rest
    epochs = LOSS.findall(first) + LOSS.findall(rest)
    assert [epoch for epoch, _ in epochs] == ["1", "2", "3"]
    losses = [float(loss) for _, loss in epochs]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 2


def test_two_ranks_without_torchrun(horovod_venv: Path, tmp_path: Path) -> None:
    """The variables that srun's tasks get from a script are all it needs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    meet = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    train = functools.partial(start, horovod_venv, tmp_path, "--epochs", "2", **meet)
    processes = [train(RANK=rank, LOCAL_RANK=rank) for rank in ("0", "1")]
    zero, one = finish(*processes)
    assert "rank 0 of 2 on " in zero
    assert "rank 1 of 2 on " in one
    assert "all-reduce over 2 ranks: 1, as expected" in zero
    losses = [float(loss) for _, loss in LOSS.findall(zero)]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    assert not LOSS.findall(one)
