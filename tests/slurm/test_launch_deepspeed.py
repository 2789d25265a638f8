"""The launcher deepspeed: a real job on two nodes, in an environment with DeepSpeed.

The processes meet through PyTorch: without GPUs, DeepSpeed itself compiles C++ for minutes first.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Iterator

import pytest
from bench import OUTSIDE, built
from harness import Sandbox, sandbox_up
from launching import ARGUMENTS, hexed, run_cell
from test_signal_launchers import assert_only_ranks_get_it


@pytest.fixture(scope="module")
def deepspeed_venv(horovod_venv: Path) -> Path:
    """An environment with DeepSpeed, on top of ``horovod_venv``."""
    python = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
    made_of = [str(horovod_venv), (OUTSIDE / "deepspeed.txt").read_text()]
    return built("deepspeed", "build-deepspeed", [python, str(horovod_venv)], made_of)


@pytest.fixture(scope="module")
def deepspeed_bench(deepspeed_venv: Path, horovod_venv: Path) -> Iterator[Sandbox]:
    """A sandbox that shows ``deepspeed_venv``."""
    binds = [word for path in (deepspeed_venv, horovod_venv) for word in ("--bind", str(path))]
    with sandbox_up(f"deepspeed-{os.getpid()}", "--nodes", "cas_v100nv_8=0", *binds) as made:
        yield made


@pytest.mark.parametrize("wrapper", [pytest.param("plain", marks=pytest.mark.matrix), "venv"])
def test_deepspeed(wrapper: str, deepspeed_bench: Sandbox, deepspeed_venv: Path) -> None:
    ran = run_cell(deepspeed_bench, deepspeed_venv, "deepspeed", wrapper)
    assert ran.code == 0, ran.text
    assert [(one["rank"], one["size"], one["total"]) for one in ran.told] == [
        (rank, 4, 10) for rank in range(4)
    ], ran.text
    assert [one["host"] for one in ran.told] == ["gpu35", "gpu35", "gpu36", "gpu36"]
    for one in ran.told:
        local, *arguments = one["arguments"]
        assert local == hexed([f"--local_rank={one['rank'] % 2}"])[0]
        assert arguments == hexed(ARGUMENTS)
    assert not ran.touched


def test_only_the_ranks_get_a_signal(deepspeed_bench: Sandbox, deepspeed_venv: Path) -> None:
    assert_only_ranks_get_it(deepspeed_bench, deepspeed_venv, "deepspeed", until_done=False)


def test_only_the_ranks_of_steps_get_a_signal(
    deepspeed_bench: Sandbox, deepspeed_venv: Path
) -> None:
    assert_only_ranks_get_it(
        deepspeed_bench, deepspeed_venv, "deepspeed", "deepspeed", until_done=True
    )
