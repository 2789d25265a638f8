"""neuronctl catalog check: what is wrong with a file, in which line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

Run = Callable[..., Any]
GOOD = "clusters: {neuron: {partitions: {cpu: {max_running_jobs: 3}}}}\n"


def test_a_good_layer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    out = run("catalog", "check", "a.yaml").stdout
    assert "neuron: 12 partitions" in out
    assert "a.yaml: valid; the default cluster is neuron" in out


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ("{max_gpus: many}", "max_gpus: 'many' is not allowed"),
        ("{max_gpu: 3}", "max_gpu: unknown key"),
        ("{max_running_jobs: -1}", "-1 is less than 1"),
        ("{max_running_jobs: 3, max_running_jobs: 4}", "duplicate key"),
        ("{memory_mb_per_node: 192G}", "write a whole number of at least 1 (MB)"),
    ],
)
def test_a_wrong_one(run: Run, tmp_path: Path, partition: str, words: str) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.replace("{max_running_jobs: 3}", partition))
    result = run("catalog", "check", "a.yaml", code=3)
    assert result.stderr.startswith("neuronctl: a.yaml:1: ")
    assert words in result.stderr


def test_no_such_file(run: Run) -> None:
    assert "cannot read no.yaml" in run("catalog", "check", "no.yaml", code=3).stderr


def test_import_without_slurm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run("catalog", "import", code=6, env={"PATH": str(tmp_path / "empty")})
    assert "squeue not found" in result.stderr
    assert result.stdout == ""
