"""examples/train_ddp.py trains for real: alone, and on from its checkpoint."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_ddp.py"
LOSS = re.compile(r"^epoch (\d+) loss (\S+)$", re.MULTILINE)


def train(venv: Path, cwd: Path, epochs: str) -> str:
    """What the example prints in a process of its own."""
    # PyTorch warns when NumPy is not there; the example does not need it.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MASTER_")}
    env["PYTHONWARNINGS"] = "default"
    words = [str(EXAMPLE), "--epochs", epochs, "--checkpoint", "new/model.pt"]
    done = subprocess.run([f"{venv}/bin/python", *words], cwd=cwd, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_alone_and_resumed(horovod_venv: Path, tmp_path: Path) -> None:
    """test_until_done_training compares the losses with those of a training in one run."""
    first = train(horovod_venv, tmp_path, "2")
    assert "rank 0 of 1 on " in first
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.pt"]
    rest = train(horovod_venv, tmp_path, "3")
    assert "resumed from new/model.pt after epoch 2" in rest
    epochs = LOSS.findall(first) + LOSS.findall(rest)
    assert [epoch for epoch, _ in epochs] == ["1", "2", "3"]
    losses = [float(loss) for _, loss in epochs]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 2
