"""The tasks of a sweep: what the command line, job files, and tables say, byte for byte."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronctl.common.errors import JobFileError, NeuronctlError, UsageError
from neuronctl.request.axes import Axis, given_axes, make_axes
from neuronctl.request.job_file import parse_job_file
from neuronctl.submission.planned_job import plan_job
from neuronctl.sweeping.parameters import make_tasks

WORDS = ("train.py", "--lr", "{lr}", "--seed={seed}")


def tasks(*params: str, words: Sequence[str] = WORDS, together: bool = False) -> List[List[str]]:
    return [list(task.words) for task in make_tasks(given_axes(params, together=together), words)]


def in_job_file(text: str) -> Tuple[Axis, ...]:
    axes: Tuple[Axis, ...] = parse_job_file(text, "job.yaml").values["sweep"]
    return axes


GRID = [["train.py", "--lr", lr, f"--seed={seed}"] for lr in ("0.1", "1e-2") for seed in "123"]


def test_a_grid_is_every_combination_in_order() -> None:
    assert tasks("lr=0.1,1e-2", "seed=1..3") == GRID
    made = make_tasks(given_axes(("lr=0.1", "seed=1..2"), together=False), WORDS)
    assert [(task.number, task.parameters) for task in made] == [
        (1, (("lr", "0.1"), ("seed", "1"))),
        (2, (("lr", "0.1"), ("seed", "2"))),
    ]


def test_zipped_values_advance_together() -> None:
    assert tasks("lr=0.1,1e-2", "seed=1..2", together=True) == [GRID[0], GRID[4]]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..3,10", "1 2 3 10"),
        ("3..1", "3 2 1"),
        ("-1..1", "-1 0 1"),
        ("08..10", "08 09 10"),
        ("a..c", "a..c"),
        ("가나,a=b", "가나 a=b"),
    ],
)
def test_values(text: str, values: str) -> None:
    assert [words[0] for words in tasks(f"x={text}", words=["{x}"])] == values.split()


SAME_GRID = {
    "params": "params: {lr: [0.1, 1e-2], seed: 1..3}",
    "zip": "zip: {lr: '0.1,0.1,0.1,1e-2,1e-2,1e-2', seed: [1, 2, 3, 1, 2, 3]}",
    "list": "list: [" + ", ".join(f"{{seed: {w[3][7:]}, lr: {w[2]}}}" for w in GRID) + "]",
    "table": "table: table.csv",
}


@pytest.mark.parametrize("text", SAME_GRID.values(), ids=SAME_GRID)
def test_a_job_file_says_the_same(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f'"{words[2]}",{words[3][7:]}\r\n' for words in GRID)
    Path("table.csv").write_text(f"\ufefflr, seed\r\n\r\n{rows}", encoding="utf-8")
    found = make_tasks(in_job_file(f"sweep:\n  {text}\n"), WORDS)
    assert [list(task.words) for task in found] == GRID


def test_sources_are_combined() -> None:
    axes = in_job_file("sweep: {zip: {a: [1, 2], b: [3, 4]}, params: {c: [1.10, true]}}")
    found = make_tasks(axes, ("{a}{b}{c}",))
    assert [task.words[0] for task in found] == ["131.10", "13true", "241.10", "24true"]


def test_a_file_of_commands(tmp_path: Path) -> None:
    file = tmp_path / "tasks.txt"
    file.write_text("# of dSQ\nmodule load x; ./run '{a}' \"$HOME\"\r\n\n  ./run 2  \n")
    axes = given_axes((), together=False, commands=str(file))
    job = plan_job({"partition": "cas_v100_4", "cluster": "neuron"}, sweep=axes, ask_slurm=False)
    request = job.plan.request
    found = make_tasks(request.sweep, (str(request.script), *request.args))
    assert [task.words for task in found] == [
        ("bash", "-c", "module load x; ./run '{a}' \"$HOME\""),
        ("bash", "-c", "./run 2"),
    ]


def test_a_parameter_may_set_the_size_of_the_job() -> None:
    axes = given_axes(("nodes=1,2", "gpus_per_node=4"), together=False)
    found = make_tasks(axes, ("train.py",))
    assert [task.sizes for task in found] == [
        (("nodes", "1"), ("gpus-per-node", "4")),
        (("nodes", "2"), ("gpus-per-node", "4")),
    ]
    assert {task.words for task in found} == {("train.py",)}


def test_only_names_in_braces_are_places() -> None:
    words = ['{"a":1}', "${HOME}", "{{x}}", "{{{x}}}", "{x}{x}", "{}", "{1}", "{a b}", "{x:d}"]
    assert tasks("x=7,{x}", words=words)[1] == [
        *('{"a":1}', "${HOME}", "{x}", "{{x}}", "{x}{x}", "{}", "{1}", "{a b}", "{x:d}")
    ]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["lr=0.1"], "no parameter fills {seed}"),
        (["lr=1", "seed=1", "sed=1"], "the command does not use the parameter sed"),
        (["lr=1,1", "seed=1"], "tasks 1 and 2 are the same: lr=1 seed=1"),
        (["lr=1,,2", "seed=1"], "--param: a value of lr is empty, or no text or number"),
        (["lr=", "seed=1"], "--param: a value of lr is empty, or no text or number"),
        (["lr=1", "lr=2"], "--param: lr is there twice"),
        (["lr=1", "seed=1", "lr=2"], "--param: lr is there twice"),
        (["lr"], "--param: 'lr' is not NAME=VALUES, such as lr=0.1,0.01"),
        (["=1"], "--param: '' is no name: use letters, digits, and _, with . and - between"),
        (["lr=1..1000000000"], "--param: '1..1000000000' has more than 100000 values"),
        (
            ["lr=1..1000", "seed=1..101"],
            "the sweep has 101000 tasks (1000 x 101); at most 100000 are possible",
        ),
        (["lr=\udcff", "seed=1"], "the argument '\\udcff' is not valid UTF-8"),
    ],
)
def test_refused(params: List[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        tasks(*params)
    assert caught.value.message == message


def test_a_parameter_has_one_source(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("lr,lr\n1,2\n")
    (axis,) = make_axes("table", str(tmp_path / "t.csv"))
    for axes in ((axis,), (*make_axes("params", {"lr": ["1"]}), *make_axes("list", [{"lr": "2"}]))):
        with pytest.raises(UsageError, match="the parameter lr is set twice"):
            make_tasks(axes, ("{lr}",))
    with pytest.raises(UsageError, match="the parameter gpus-per-node is set twice"):
        tasks("gpus_per_node=1", "gpus-per-node=2", words=["train.py"])


def test_an_unknown_place_names_the_nearest_parameter() -> None:
    with pytest.raises(UsageError) as caught:
        tasks("lr=1", "seeds=1")
    assert "did you mean seeds?" in caught.value.hint
    assert "write {{seed}}" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sweep: 1", "job.yaml:1: sweep: expected params, zip, list, table, commands"),
        ("sweep: {}", "job.yaml:1: sweep: expected params, zip, list, table, commands, found none"),
        ("sweep: {grid: {}}", "job.yaml:1: unknown key 'grid'"),
        ("sweep:\n  params:\n    lr: []", "job.yaml:2: sweep: params: lr has no values"),
        ("sweep:\n  params: [1]", "job.yaml:2: sweep: params: expected parameters with values"),
        ("sweep:\n  params:\n    lr: [[1]]", "job.yaml:2: sweep: params: a value of lr is empty"),
        ("sweep:\n  params:\n    lr: {a: 1}", "job.yaml:2: sweep: params: expected parameters"),
        ("sweep:\n  params:\n    lr: [null]", "job.yaml:3: sweep: expected one value"),
        (
            "sweep:\n  zip: {a: [1, 2], b: 1..3}",
            "job.yaml:2: sweep: zip: values that advance together must be equally many: "
            "a has 2, b has 3",
        ),
        ("sweep: {params: {lr: 0.1..0.5}}", "job.yaml:1: sweep: params: '0.1..0.5': a range has"),
        ("sweep: {list: []}", "job.yaml:1: sweep: list: expected one entry per task"),
        ("sweep: {list: [{}]}", "job.yaml:1: sweep: list: expected one entry per task"),
        (
            "sweep: {list: [{a: 1}, {b: 1}]}",
            "job.yaml:1: sweep: list: one entry sets b, the first a",
        ),
        ("sweep: {table: nowhere.csv}", "job.yaml:1: sweep: table: cannot read 'nowhere.csv': No"),
        ("sweep: {table: {a: 1}}", "job.yaml:1: sweep: table: expected the name of a file"),
    ],
)
def test_a_job_file_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(JobFileError) as caught:
        in_job_file(text)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the table has no values"),
        (b"lr,seed\n1,2\n3\n", "row 2: 1 value for 2 parameters (lr, seed)"),
        (b"lr,\n1,2\n", "'' is no name"),
        (b"lr\n", "lr has no values"),
        (b'lr\n"1\n', "line 2: unexpected end of data"),
        (b"lr\n\xff\n", "it is not UTF-8 text"),
        (b"lr,a\n1,\n", "a value of a is empty"),
        (b"lr\n\x001\n", ""),
    ],
)
def test_a_table_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        make_axes("table", str(file))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{"words": ["train.py", "{lr}"]}, {"words": ["train.py"], "sweep": ()}],
    ids=["a job of a sweep's file", "no parameters"],
)
def test_a_sweep_is_no_job(options: Dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("sweep: {params: {lr: [1]}}" if "sweep" not in options else "partition: x")
    with pytest.raises(NeuronctlError, match=r"describes a sweep|nothing to vary"):
        plan_job({}, job_file=str(file), ask_slurm=False, **options)


TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)
VALUES = st.lists(TEXT.filter(str.strip), min_size=1, max_size=4, unique=True)


@given(a=VALUES, b=VALUES, c=VALUES)
def test_values_arrive_byte_for_byte(a: List[str], b: List[str], c: List[str]) -> None:
    axes = make_axes("params", {"a": a, "b": b, "c": c})
    found = make_tasks(axes, ("{a}", "x{b}y", "{c}", "{{a}}"))
    assert len(found) == len(a) * len(b) * len(c)
    wanted = [(x, f"x{y}y", z, "{a}") for x in a for y in b for z in c]
    assert [task.words for task in found] == wanted
    assert [task.number for task in found] == list(range(1, len(found) + 1))


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_a_table_is_read_as_it_was_written(rows: List[Tuple[str, str]]) -> None:
    rows = [row for row in rows if all(map(str.strip, row))] or [("1", "2")]
    with tempfile.NamedTemporaryFile("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([("a", "b"), *rows])
        file.flush()
        (axis,) = make_axes("table", file.name)
    assert [tuple(value for _, value in row) for row in axis] == rows
