"""neuronctl serve, up to sbatch: what it says before a server waits for nodes."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from fake_slurm import FakeSlurm

Run = Callable[..., Any]
OPTIONS = ["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"]
OPTIONS += ["--gpus-per-node", "1", "--module", "python", "--dry-run", "--force"]


@pytest.mark.parametrize(("nodes", "says"), [("1", False), ("2", True)])
@pytest.mark.parametrize(("recipe", "words"), [("vllm", ["a/b"]), ("jupyter", [])])
def test_a_server_of_one_node_says_so(
    run: Run, fake_slurm: FakeSlurm, recipe: str, words: Any, nodes: str, says: bool
) -> None:
    told = run("serve", "-N", nodes, *OPTIONS, recipe, "--", *words)
    warning = f"warning: {recipe} runs on one node, and the job gets 2\n"
    assert (warning in told.stderr) is says


def test_a_server_of_all_nodes_does_not(run: Run, fake_slurm: FakeSlurm) -> None:
    told = run("serve", "-N", "2", *OPTIONS, "ray")
    assert "runs on one node" not in told.stderr


def test_an_option_of_the_server_belongs_behind_dashes(run: Run) -> None:
    said = run("serve", *OPTIONS, "tensorboard", "--logdir", "runs", code=2).stderr
    assert "options of the server follow --" in said and "--sbatch" not in said
