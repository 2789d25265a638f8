"""The examples in the docstrings of the library's names, run with fake Slurm commands."""

from __future__ import annotations

import doctest
import os
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm, accounting_row
from sweep_folders import make_sweep

import neuronctl
from neuronctl import library

DERIVED = {  # errors, for which the example of NeuronctlError stands
    name for name in library.__all__ if name.endswith("Error") and name != "NeuronctlError"
}
CONFIG = "cluster: neuron-2022\npartition: amd_a100nv_8\ncomment: pytorch\n"


@pytest.mark.parametrize("name", sorted({*library.__all__} - DERIVED))
@pytest.mark.usefixtures("program")
def test_the_example_runs(
    name: str, fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = Path(os.environ["XDG_CONFIG_HOME"], "neuronctl", "config.yaml")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG)
    fake_slurm.answer("sbatch", "70\n")
    fake_slurm.accounting(accounting_row("70", name="train", state="COMPLETED", exit="0:0"))
    plan = neuronctl.plan("train.py", nodes=2, gpus_per_node=1, time="8:00:00")
    names = {"neuronctl": neuronctl, "plan": plan, "job": neuronctl.submit(plan, force=True)}
    if name in ("Sweep", "TaskState"):
        make_sweep("train", ["lr=0.1,0.01"], ["train.py", "{lr}"])
    test = doctest.DocTestFinder(recurse=False).find(getattr(library, name), name, globs=names)
    (example,) = test
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
