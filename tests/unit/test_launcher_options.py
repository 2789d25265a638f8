"""The user's own words for a launcher and a container runtime, in every launcher."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

import pytest
from plan_builders import findings, launch_command, plan_of

from neuronctl.common.errors import TemplateError
from neuronctl.launch import launchers
from neuronctl.rendering.launch_command import launch_parts

ODD = ["--x=it's", "-v", "a  b", "$HOME", "`id`", '"', "\\", "*", "#", "한", "--"]
WITH_OPTIONS = [name for name in launchers.names() if launchers.load(name).takes_options]


def told(**fields: Any) -> Dict[str, str]:
    return {one.code: one.message for one in findings(**fields)}


def launch(**fields: Any) -> str:
    return launch_command(plan_of(**fields)).replace(" \\\n    ", " ")


def test_all_but_the_plain_ones_take_options() -> None:
    plain = {name for name in launchers.names() if not launchers.load(name).takes_all_nodes}
    assert set(WITH_OPTIONS) == {*launchers.names()} - plain


@pytest.mark.parametrize("name", WITH_OPTIONS)
@pytest.mark.parametrize("nodes", [1, 2])
def test_words_stand_as_typed_behind_the_launchers_own(name: str, nodes: int) -> None:
    plan = plan_of(launcher=name, nodes=nodes, gpus_per_node=2, launcher_options=tuple(ODD))
    parts = launch_parts(plan, plan.launches[0])
    words = [*parts.task, *parts.once]
    at = words.index('--x="it\'s"')
    assert words[at : at + len(ODD)] == [
        *['--x="it\'s"', "-v", "'a  b'", "'$HOME'", "'`id`'", "'\"'", "'\\'", "'*'", "'#'"],
        *["'한'", "--"],
    ]
    assert not parts.task or at + len(ODD) == len(parts.task)


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_what_neuronctl_sets_is_told(name: str) -> None:
    """Each option that the template writes and that says how large the job is, or where."""
    launcher = launchers.load(name)
    plan = plan_of(launcher=name, nodes=2, gpus_per_node=2)
    parts = launch_parts(plan, plan.launches[0])
    written = {launchers.option_name(word) for word in (*parts.task, *parts.once)} - {""}
    free = {"bind_to", "multi_gpu", "u", "m", "c", "w", "kill_on_bad_exit", "wait"}
    step = {"nodes", "ntasks", "ntasks_per_node", "cpus_per_task"}
    assert written - free - {*launcher.own_options} <= (step if name != "srun" else set())
    for option in launcher.own_options:
        for word in (f"-{option}", f"--{option}", f"--{option.replace('_', '-')}=2"):
            assert "NC307" in told(launcher=name, launcher_options=(word,)), word


def test_what_is_free_is_not_told() -> None:
    for name, words in (
        ("torchrun", ("--tee=3", "--role", "x", "--max-restarts=1", "--log-dir=x")),
        ("srun", ("--cpu-bind=none", "-l", "--label", "--mpi=pmix", "--kill-on-bad-exit=0")),
        ("mpirun", ("--mca", "btl", "^openib", "-x", "A", "--bind-to", "core")),
        ("accelerate", ("--config_file", "x.yaml", "--mixed_precision=bf16")),
    ):
        found = told(launcher=name, nodes=2, gpus_per_node=2, launcher_options=words)
        assert not {"NC307", "NC308"} & set(found)


def test_the_users_choice_replaces_a_default() -> None:
    words: List[str] = launch(
        launcher="mpirun", nodes=2, launcher_options=("--bind-to", "core")
    ).split()
    assert words.count("--bind-to") == 1
    fsdp = {"launcher": "accelerate", "nodes": 2, "gpus_per_node": 2}
    assert "--multi_gpu" in launch(**fsdp, launcher_options=("--mixed_precision=no",))
    assert "--multi_gpu" not in launch(**fsdp, launcher_options=("--config-file=x",))


def test_a_launcher_that_loses_them_is_an_error(tmp_path: Path, clean_home: Path) -> None:
    directory = clean_home / ".config" / "neuronctl" / "templates" / "launchers"
    directory.mkdir(parents=True)
    head = "{#\ndistributed: yes\none_task_per_node: no\n#}\n"
    file = directory / "mine.j2"
    file.write_text(
        head + "{% block once %}{% if plan.launcher_options %}mine{% endif %}{% endblock %}"
    )
    plan = plan_of(launcher="mine", launcher_options=("-x",))
    with pytest.raises(TemplateError, match="no place for --launcher-option"):
        launch_parts(plan, plan.launches[0])
    file.write_text(head + "{% block once %}mine{% endblock %}")
    launchers.forget()
    assert "NC308" in told(launcher="mine", launcher_options=("-x",))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "exec --nv --bind"),
        ({"container_options": ("--rocm",)}, "exec --rocm --bind"),
        (
            {"container_options": ("--writable-tmpfs", "--overlay", "a b.img")},
            "exec --nv --writable-tmpfs --overlay 'a b.img' --bind",
        ),
        (
            {"container": "x.sqsh", "container_options": ("--container-writable",)},
            '--container-workdir="$PWD" --container-writable',
        ),
    ],
)
def test_containers(fields: Any, words: str) -> None:
    asked = {"container": "x.sif", "gpus_per_node": 1, "launcher": "torchrun", **fields}
    assert f" {words} " in launch(**asked)
