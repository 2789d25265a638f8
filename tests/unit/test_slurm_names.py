"""What neuronctl.slurm offers, each name imported when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from neuronctl import slurm


@pytest.mark.parametrize("name", slurm.__all__)
def test_every_name_has_its_home(name: str) -> None:
    assert getattr(slurm, name).__module__.startswith("neuronctl.slurm.")


def test_no_name_is_forgotten() -> None:
    assert sorted(slurm._HOME) == sorted(slurm.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = slurm.nothing


def test_asking_for_the_cluster_starts_no_process_module() -> None:
    code = "import sys, neuronctl.slurm as s; s.local_cluster(); print('subprocess' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"
