"""Why jobs ended that end so now: a sample of those that tests/unit/ends keeps."""

from __future__ import annotations

import json
from pathlib import Path

import made_ends
import pytest
from harness import Sandbox, wait_until

SAMPLE = [
    ("torchrun", "sigkill", 2),
    ("accelerate", "exit17", 1),
    ("horovodrun", "exception", 2),
    ("mpirun", "followed", 2),
    ("srun", "cuda_oom", 2),
    ("srun", "program_gone", 2),
    ("python", "exception", 1),
]


@pytest.mark.parametrize("cell", SAMPLE, ids=made_ends.name_of)
def test_the_right_answer(cell: made_ends.Cell, bench: Sandbox, horovod_venv: Path) -> None:
    making = made_ends.Making(cell, bench, {"horovod": horovod_venv})
    making.begin()
    wait_until(making.ended)
    (told,) = json.loads(bench.exec(["neuronctl", "why", "--json", making.job]).stdout)["jobs"]
    kind, words = made_ends.ANSWERS[cell[1]]
    log = bench.exec(["neuronctl", "logs", making.job], check=False).stdout
    assert told["kind"] == kind, f"{told}\n{log}"
    assert words in f"{told['what']} {told['cause']} {told['log']['line']}", told
