"""The folder of a sweep: tasks are added once, and their states follow from its files."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import List

import pytest

from neuronctl.common.errors import NoSuchJobError, RecordError, UsageError
from neuronctl.sweeping.folder import Sweep, SweepSettings, copy_worker, open_sweep
from neuronctl.sweeping.parameters import Task
from neuronctl.sweeping.worker import files


def made(name: str = "train") -> Sweep:
    sweep = Sweep(name, SweepSettings(("train.py", "{n}"), ((((("n", "1")),),),), {}, "/tmp"))
    sweep.create()
    return sweep


def tasks(*numbers: int) -> List[Task]:
    return [Task(n, (("n", str(n)),), ("python", "train.py", str(n))) for n in numbers]


def test_what_is_there_is_not_added_again() -> None:
    sweep = made()
    assert sweep.add(tasks(1, 2)) == 2
    assert sweep.add(tasks(2, 3)) == 1
    assert [state.values["n"] for state in sweep.states(dict)] == ["1", "2", "3"]
    assert open_sweep("train").settings.words == ("train.py", "{n}")


def test_many_add_at_once() -> None:
    sweep = made()
    ranges = [range(start, start + 20) for start in range(0, 80, 10)]
    threads = [threading.Thread(target=sweep.add, args=(tasks(*each),)) for each in ranges]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [int(state.values["n"]) for state in sweep.states(dict)]
    assert sorted(found) == list(range(90))


def test_what_is_no_sweep() -> None:
    with pytest.raises(NoSuchJobError, match="no sweep 'none'"):
        open_sweep("none")
    for name in ("../x", "a b", "", ".x", "a/b"):
        with pytest.raises(UsageError, match="cannot name a sweep"):
            open_sweep(name)
    sweep = made()
    newer = Path(sweep.path, "sweep.json").read_text().replace('"schema": 2', '"schema": 3')
    for text in ("", "[]", "{}", newer):
        Path(sweep.path, "sweep.json").write_text(text)
        with pytest.raises(RecordError, match="damaged"):
            open_sweep("train")
    os.chmod(f"{sweep.path}/sweep.json", 0o666)
    with pytest.raises(RecordError, match="other users can write"):
        open_sweep("train")


def test_a_sweep_made_again_has_another_folder() -> None:
    first = made()
    os.unlink(f"{first.path}/sweep.json")
    assert made().folder != first.folder


def test_two_cannot_make_one_sweep() -> None:
    second = Sweep("train", SweepSettings(("a",), (), {}, "/tmp"))
    first = made()
    with pytest.raises(UsageError, match="another command has just made a sweep"):
        second.create()
    assert open_sweep("train").folder == first.folder


def test_the_code_of_the_worker_is_whole() -> None:
    sweep = made()
    code = Path(copy_worker(sweep.folder), "worker")
    names = {path.name for path in Path(files.__file__).parent.glob("*.py")}
    assert {path.name for path in code.iterdir()} == names


DAMAGED = ["", "\n", "\0", "{}", "[1]\na\nb\n", '{"sizes": {}}\n[[]]\n', '{"sizes": 1}\n[]\n']
DAMAGED += ['{"task": 1, "attempt": 1, "until": "x"}\n', '{"task": 1, "attempt": 1, "sizes": 3}\n']
DAMAGED += ['{"task": "1", "attempt": []}\n', '{"worker": "../x"}\n', "9" * 50 + "\n", "é\n"]


@pytest.mark.parametrize("text", DAMAGED)
@pytest.mark.parametrize(
    "name", ["tasks/1", "tasks/2", "claims/1.1", "results/7.1.a", "results/x", "again/1", "bad/n"]
)
def test_damage_is_told_or_passed_over(name: str, text: str) -> None:
    sweep = made()
    sweep.add(tasks(1, 2))
    claim = {"job": 7, "began": 100, "worker": "7.1.a", "node": "gpu35", "start": 100}
    files.publish(f"{sweep.folder}/claims/1.1", files.encode(claim))
    Path(sweep.folder, name).write_text(text)
    with contextlib.suppress(RecordError):
        sweep.states(lambda: {7: 100})
    sweep.bad_nodes()
    with contextlib.suppress(RecordError):
        sweep.add(tasks(3))
