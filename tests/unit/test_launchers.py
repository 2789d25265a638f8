"""The launch line, run by a real bash stand-ins for the launchers: what reaches a program."""

from __future__ import annotations

import subprocess
from pathlib import Path
from string import Template
from typing import List

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_builders import launch_command, plan_of

from neuronctl.launch import launchers
from neuronctl.launch.launchers import not_a_macro

NAMES = sorted(set(launchers.names()) - {"ray"})  # test_launcher_ray.py

# Each stand-in drops its own words, up to the next program's name; the last one prints its words.
STAND_IN = """\
#!/bin/bash
shift_to() { until [[ $1 =~ ^(bash|python|torchrun|torchrun_jsc|accelerate|singularity|train.py)$ ]]
do shift; done; rest=("$@"); }
case ${0##*/} in
    python | torchrun | torchrun_jsc | accelerate)
        shift_to "$@"; printf '%s\\0' "${rest[@]}" ;;
    *)
        for word in "$@"; do
            [[ $word != : || $0 == */singularity ]] || { echo "a lone colon" >&2; exit 3; }
        done
        shift_to "$@"; exec "${rest[@]}" ;;
esac
"""

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NASTY = st.sampled_from(
    [
        *["", " ", ":", "--", "-h", "$HOME", "$$", "${local_rank}", "$(id)", "`id`", "'", '"'],
        *["\\", "\n", "\r\n", ";", "&", "*", "~", "!", "\t", "실험", "python", "bash", "train.py"],
    ]
)


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bin")
    programs = ["srun", "mpirun", "horovodrun", "torchrun", "torchrun_jsc", "accelerate"]
    for name in [*programs, "singularity", "python"]:
        (directory / name).write_text(STAND_IN)
        (directory / name).chmod(0o755)
    return directory


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=4)  # of many words each: it is the processes that take their time
@given(words=st.lists(TEXT | NASTY, min_size=8, max_size=32))
def test_arguments_arrive_in_a_container(name: str, words: List[str], stand_ins: Path) -> None:
    """Without one: test_render_scripts.py."""
    size = {"nodes": 2, "gpus_per_node": 2} if launchers.load(name).distributed else {}
    made = plan_of(launcher=name, script="train.py", args=tuple(words), container="x.sif", **size)
    command = launch_command(made)
    done = subprocess.run(
        ["bash", "-c", f"hosts=a:1\n{command}"],
        env={"PATH": f"{stand_ins}:/usr/bin:/bin", "SLURM_NODEID": "0"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    arrived = done.stdout.decode("utf-8").split("\0")[1:-1]
    if made.launcher.macros != launchers.NEVER:  # as torchrun reads them
        arrived = [Template(word).safe_substitute(local_rank="0") for word in arrived]
    assert arrived == words


@given(word=TEXT | NASTY)
def test_a_template_leaves_a_word_as_it_was(word: str) -> None:
    assert Template(not_a_macro(word)).safe_substitute(local_rank="0") == word


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"python", "srun", "mpirun"}))
def test_a_first_double_dash_is_behind_another(name: str) -> None:
    words = plan_of(launcher=name, script="train.py", args=("--", "x"), nodes=2).program
    own_parser = not launchers.load(name).python
    assert words == (("--",) if own_parser else ("python",)) + ("train.py", "--", "x")
