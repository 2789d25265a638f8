"""The folder of a sweep: tasks are added once, and their states follow from its files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path
from typing import List

import pytest

from neuronctl.common.errors import RecordError, UsageError
from neuronctl.sweeping.folder import Sweep, SweepSettings
from neuronctl.sweeping.parameters import Task


def made(name: str = "train") -> Sweep:
    sweep = Sweep(name)
    sweep.create(SweepSettings(("train.py", "{n}"), ((((("n", "1")),),),), {}, "/tmp"))
    return sweep


def tasks(*numbers: int) -> List[Task]:
    return [Task(n, (("n", str(n)),), ("python", "train.py", str(n))) for n in numbers]


def states(sweep: Sweep, *running: int) -> List[str]:
    return [state.state for state in sweep.states(lambda: set(running))]


def test_what_is_there_is_not_added_again() -> None:
    sweep = made()
    assert sweep.add(tasks(1, 2)) == 2
    assert sweep.add(tasks(2, 3)) == 1
    assert [state.values["n"] for state in sweep.states(set)] == ["1", "2", "3"]
    assert sweep.settings().words == ("train.py", "{n}")


def test_many_add_at_once() -> None:
    sweep = made()
    ranges = [range(start, start + 20) for start in range(0, 80, 10)]
    threads = [threading.Thread(target=sweep.add, args=(tasks(*each),)) for each in ranges]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [int(state.values["n"]) for state in sweep.states(set)]
    assert sorted(found) == list(range(90))


@pytest.mark.parametrize(
    "word", ["a b", "it's", "two\nlines", "$HOME `x`", "\\", "", "é\r\n", "'\n\\n"]
)
def test_bash_reads_the_words(word: str) -> None:
    sweep = made()
    sweep.add([Task(1, (("n", "1"),), ("python", word))])
    line = Path(sweep.path, "tasks/1").read_text(encoding="utf-8").split("\n")[1]
    shown = 'eval "words=($1)"; printf "%s\\0" "${words[@]}"'
    result = subprocess.run(["bash", "-c", shown, "-", line], stdout=subprocess.PIPE, check=True)
    assert result.stdout == f"python\0{word}\0".encode()


def test_states_follow_from_the_files() -> None:
    sweep = made()
    sweep.add(tasks(1, 2, 3, 4))
    folder = Path(sweep.path)
    for name in ("1.1", "2.1", "3.1"):
        (folder / "claims" / name).write_text("7 1 7.1.1 gpu35 100\n")
    (folder / "claims" / ".7.1.1").write_text("7 1 7.1.1 gpu35 100\n")
    (folder / "results" / "7.1.1").write_text(
        "1 1 0 100 160 gpu35 0.93 the last line\n2 1 3 100 101 gpu35 - \nhalf a li"
    )
    assert states(sweep, 7) == ["done", "failed", "running", "waiting"]
    assert states(sweep) == ["done", "failed", "interrupted", "waiting"]
    unsure = sweep.states(lambda: None)
    assert [state.state for state in unsure] == ["done", "failed", "not known", "waiting"]
    assert (unsure[0].metric, unsure[0].last_line, unsure[0].end) == ("0.93", "the last line", 160)
    (folder / "results" / "7.2.1").touch()  # the job has begun its second run
    assert states(sweep, 7) == ["done", "failed", "interrupted", "waiting"]
    sweep.pause("enough")
    sweep.do_again([(2, 1), (3, 1)])
    assert states(sweep) == ["done", "waiting", "waiting", "waiting"]
    assert sweep.notes() == {}


def test_what_is_no_sweep() -> None:
    with pytest.raises(UsageError, match="no sweep 'none'"):
        Sweep("none").settings()
    for name in ("../x", "a b", "", ".x", "a/b"):
        with pytest.raises(UsageError, match="cannot name a sweep"):
            Sweep(name)
    sweep = made()
    for text in ("", "[]", "{}", '{"schema": 2}'):
        Path(sweep.path, "sweep.json").write_text(text)
        with pytest.raises(RecordError, match="damaged"):
            sweep.settings()
    os.chmod(f"{sweep.path}/sweep.json", 0o666)
    with pytest.raises(RecordError, match="other users can write"):
        sweep.settings()


DAMAGED = ["", "\n", "\0", "{}", "[1]\na\nb\n", "{}\na\n[[]]\n", "1 1 1\n", "9" * 50 + "\n", "é\n"]


@pytest.mark.parametrize("text", DAMAGED)
@pytest.mark.parametrize(
    "name", ["tasks/1", "tasks/2", "claims/1.1", "results/7.1.1", "results/x", "again/1", "bad/n"]
)
def test_damage_is_told_or_passed_over(name: str, text: str) -> None:
    sweep = made()
    sweep.add(tasks(1, 2))
    Path(sweep.path, "claims", "1.1").write_text("7 1 7.1.1 gpu35 100\n")
    Path(sweep.path, name).write_text(text)
    with contextlib.suppress(RecordError):
        sweep.states(lambda: {7})
    sweep.notes()
    with contextlib.suppress(RecordError):
        sweep.add(tasks(3))
