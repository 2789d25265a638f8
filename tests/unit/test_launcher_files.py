"""A launcher is one file: where it is looked for, what its header may say, who may write it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Set

import pytest
from plan_builders import findings, launch_command, plan_of

from neuronctl.catalog import loader
from neuronctl.common.errors import NeuronctlError, TemplateError, UsageError
from neuronctl.launch import launchers
from neuronctl.launch.launchers import find_call
from neuronctl.rendering.launch_command import LaunchParts, launch_parts
from neuronctl.rendering.render import render_job
from neuronctl.submission.existing_script import judge_text

ROOT = Path(__file__).resolve().parents[2]
HEADER = "{#\ndistributed: yes\none_task_per_node: no\n#}\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site's directory."""
    directory = tmp_path / "etc" / "launchers"
    directory.mkdir(parents=True)
    monkeypatch.setattr(launchers, "SITE_DIRECTORY", str(directory.parent))
    return directory


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    directory = tmp_path / "config" / "neuronctl" / "templates" / "launchers"
    directory.mkdir(parents=True)
    return directory


def write(directory: Path, text: str, name: str = "mine") -> Path:
    file = directory / f"{name}.j2"
    file.write_text(text)
    launchers.forget()
    return file


def line(name: str = "mine", **fields: object) -> str:
    made = plan_of(launcher=name, **{"nodes": 2, **fields})
    return launch_command(made)


def test_order_of_directories(site: Path, own: Path) -> None:
    def once(word: str) -> str:
        return HEADER + "{% block once %}" + word + "{% endblock %}"

    write(site, once("site"))
    assert line() == "site python train.py"
    write(own, once("own"))
    assert line() == "own python train.py"
    write(site, once("site"), "mpirun")
    assert line("mpirun") == "site python train.py"
    assert {"mine", "mpirun", "torchrun"} <= set(launchers.names())


def test_unknown_launcher_lists_all(site: Path, own: Path) -> None:
    write(site, HEADER)
    hints = {"minne": "did you mean mine", "../launchers/x": "valid: ", "": "valid: "}
    for name, hint in hints.items():
        with pytest.raises(UsageError) as caught:
            launchers.load(name)
        assert f"unknown launcher '{name}'" in caught.value.message
        assert caught.value.hint.startswith(hint)


def test_working_directory_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for directory in (tmp_path, tmp_path / "launchers", tmp_path / "templates" / "launchers"):
        directory.mkdir(parents=True, exist_ok=True)
        write(directory, HEADER)
        with pytest.raises(UsageError):
            launchers.load("mine")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("{#\ndistributed: yes\n", 1, "no header"),
        ("{#\ndistributed: yes\n#}\n", 1, "'one_task_per_node' is missing"),
        ("{#\ndistributed: true\n#}\n", 2, "must be yes or no, not 'true'"),
        ("{#\n\ndistribute: yes\n#}\n", 3, "unknown trait 'distribute'"),
        ("{#\nrendezvous: sometimes\n#}\n", 2, "must be always or never or several nodes"),
        ("{#\nsignals: TERM USR9\n#}\n", 2, "names of signals"),
        ("{#\nsets: -a\n  -b\nssh: maybe\n#}\n", 4, "must be yes or no"),
        ("{#\nlike: torchrum\n#}\n", 1, "no launcher 'torchrum'"),
        ("{#\nlike: torchrun_jsc\n#}\n", 1, "is like another one itself"),
        (HEADER + "{% block once %}\n{{ nodes }}{% endblock %}", 6, "'nodes' is undefined"),
        (HEADER + "{% block once %}\n{% if %}{% endblock %}", 6, "Expected an expression"),
    ],
)
def test_mistakes_are_named_with_file_and_line(
    text: str, place: int, words: str, own: Path
) -> None:
    file = write(own, text)
    with pytest.raises(TemplateError) as caught:
        line()
    assert f"{file}:{place}: " in caught.value.message
    assert words in caught.value.message


def test_a_launcher_may_name_any_signal(own: Path) -> None:
    write(own, HEADER.replace("#}", "signals: USR1 WINCH\n#}"))
    assert launchers.load("mine").signals == ("USR1", "WINCH")


@pytest.mark.parametrize("word", ["'a", '"a', "a\\", "`id`", '"$(a"'])
def test_unbalanced_quotes(word: str, own: Path) -> None:
    file = write(own, HEADER + "{% block task %}" + word + "{% endblock %}")
    with pytest.raises(TemplateError, match=r"block 'task': unexpected") as caught:
        line()
    assert str(file) in caught.value.message


def test_not_text(own: Path) -> None:
    (own / "mine.j2").write_bytes(b"\xff")
    with pytest.raises(TemplateError, match="is not UTF-8, as a template must be"):
        launchers.load("mine")


def test_counts_are_numbers(own: Path) -> None:
    counts = "{{ plan.node_count * 3 }} {{ plan.process_count + 1 }}"
    write(own, HEADER + "{% block once %}start " + counts + "{% endblock %}")
    assert line(ntasks_per_node=2) == "start 6 5 python train.py"


def test_values_are_quoted_and_words_kept(own: Path) -> None:
    task = """x={{ plan.job_name }} "two  words" 'it''s' a\\ b $((1 + 2)) "$(echo "c d")" "" """
    write(own, HEADER + "{% block task %}\n" + task + "\ny\n{% endblock %}")
    made = plan_of(launcher="mine", nodes=2, job_name="a $job", preflight=False)
    parts = launch_parts(made, made.launches[0])
    assert list(parts.task) == [
        *["x='a $job'", '"two  words"', "'it''s'", "a\\ b", "$((1 + 2))", '"$(echo "c d")"'],
        *['""', "y"],
    ]
    assert parts.differs_by_task
    assert "bash -c 'exec x=" in render_job(made)


@pytest.mark.parametrize("name", launchers.names())
def test_shipped_launchers_use_known_blocks(name: str) -> None:
    text = Path(launchers.load(name).file).read_text()
    assert set(re.findall(r"{% block (\w+) %}", text)) <= set(LaunchParts.__annotations__)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("torchrun --nnodes=2 x.py", "torchrun"),
        ("accelerate launch x.py", "accelerate"),
        ("deepspeed.launcher.launch x.py", "deepspeed"),
        ("horovodrun --gloo -np 2 x", "horovodrun"),
        ("horovodrun -np 2 --mpi x", "horovodrun-mpi"),
        ("accelerate config", None),
        ("mpiexec x", "mpirun"),
        ("deepspeed x.py", "deepspeed"),
        ("python x.py", None),
    ],
)
def test_launcher_that_a_command_calls(command: str, name: object) -> None:
    call = find_call(shlex.split(command))
    assert (call.launcher.name if call else None) == name


def test_broken_file_does_not_stop_other_jobs(own: Path) -> None:
    write(own, "nonsense", "aaa")
    call = find_call(["horovodrun"])
    assert call is not None and call.launcher == launchers.load("horovodrun")
    with pytest.raises(NeuronctlError):
        launchers.load("aaa")


def test_a_launcher_has_the_traits_of_the_one_that_it_is_like(own: Path) -> None:
    write(own, "{#\nlike: torchrun\nmarks: program\n#}\n")
    mine, other = launchers.load("mine"), launchers.load("torchrun")
    assert (mine.marks, mine.nodes, mine.counts) == ("program", other.nodes, other.counts)
    write(own, "{#\nlike: torchrun\nmarks: program\n#}\n", "torchrun")
    assert launchers.load("torchrun").programs == other.programs


@pytest.mark.parametrize("name", ["accelerate", "deepspeed", "horovodrun", "none", "torchrun"])
def test_a_first_double_dash_is_behind_another(name: str) -> None:
    words = plan_of(launcher=name, script="train.py", args=("--", "x"), nodes=2).program
    own_parser = not launchers.load(name).python
    assert words == (("--",) if own_parser else ("python",)) + ("train.py", "--", "x")


@pytest.mark.parametrize("name", ["horovodrun", "mpirun", "srun", "torchrun"])
def test_no_launcher_sees_a_lone_colon(name: str) -> None:
    """srun and mpirun would start another command at it."""
    made = plan_of(launcher=name, script="train.py", args=("a", ":", "b"), nodes=2, gpus_per_node=2)
    assert ":" not in shlex.split(launch_command(made))


LAUNCHER = """\
{#
distributed: yes
one_task_per_node: yes
python:
programs: jaxrun
flags: --quiet
processes_per_node: --local-processes
uncounted: one
sets: --coordinator
#}
{% block once %}{% include "srun.j2" %}{% endblock %}
{% block task %}
jaxrun --local-processes={{ plan.processes_per_node }}
{% for option in plan.launcher_options %} {{ option }} {% endfor %}
{% endblock %}
"""
SCRIPT = """\
#!/bin/bash
#SBATCH -p gpu
#SBATCH -t 10
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-node=4

jaxrun --quiet --local-processes {count} train.py
"""


def test_a_launcher_is_one_file(own: Path) -> None:
    """What generate, the rules, check, and import know of it stands in its file."""
    catalog = loader.load(str(ROOT / "tests" / "scripts" / "catalog.yaml"))
    cluster = catalog.cluster("anywhere")

    def codes(count: int) -> Set[str]:
        script = judge_text("job.sh", SCRIPT.format(count=count), catalog, cluster)
        return {one.code for one in script.findings}

    assert "NC623" not in codes(2)
    write(own, LAUNCHER, "jaxrun")
    assert "NC623" in codes(2) and "NC623" not in codes(4)
    assert line("jaxrun", gpus_per_node=4).endswith(" --local-processes=4 train.py")
    as_program = {"script": "jaxrun", "args": ("train.py",), "gpus_per_node": 4}
    assert "NC305" in {one.code for one in findings(launcher="srun", **as_program)}
    given = {"launcher": "jaxrun", "launcher_options": ("--coordinator=x",)}
    assert "NC307" in {one.code for one in findings(**given)}
    assert "jaxrun" in launchers.names()


def test_every_trait_is_documented() -> None:
    page = (ROOT / "docs/reference/templates.md").read_text(encoding="utf-8")
    of_body = {"name", "file", "takes_options", "counts_nodes"}
    traits = {*launchers.Launcher.__annotations__} - of_body
    assert [trait for trait in traits if f"`{trait}`" not in page] == []


def test_example_of_the_documentation(own: Path) -> None:
    write(own, (ROOT / "examples/launchers/mpirun_wrapper.j2").read_text(), "mpirun_wrapper")
    made = plan_of(launcher="mpirun_wrapper", nodes=2, gpus_per_node=2, args=("a b",))
    script = render_job(made)
    assert "\nexec mpirun_wrapper python train.py 'a b'\n" in script
    assert "#SBATCH --ntasks-per-node=2" in script
