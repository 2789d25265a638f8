"""neuronctl catalog check: what is wrong with a file, in which line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

Run = Callable[..., Any]
GOOD = "clusters: {neuron: {partitions: {cpu: {max_running_jobs: 3}}}}\n"


def test_a_good_layer(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    out = run("catalog", "check", "a.yaml").stdout
    assert "neuron: 12 partitions" in out
    assert "a.yaml: valid; the default cluster is neuron" in out


def test_a_wrong_one(run: Run, tmp_path: Path) -> None:
    """What is wrong, in all its forms: tests/unit/test_catalog_bad_input.py."""
    (tmp_path / "a.yaml").write_text(GOOD.replace("max_running_jobs", "max_gpu"))
    result = run("catalog", "check", "a.yaml", code=3)
    assert result.stderr.startswith("neuronctl: a.yaml:1: ")
    assert "max_gpu: unknown key" in result.stderr


def test_import_without_slurm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run("catalog", "import", code=6, env={"PATH": str(tmp_path / "empty")})
    assert "squeue not found" in result.stderr
    assert result.stdout == ""
