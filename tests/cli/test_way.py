"""The way of a job through the rooms that lead it, as a reader follows it."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any, Callable, List, Set, Tuple

import pytest
from fake_slurm import FakeSlurm

from neuronctl.cli import main

ROOMS = ("neuronctl.cli", "neuronctl.submission", "neuronctl.judgement")
SCRIPT = """\
#!/bin/bash
#SBATCH --partition=amd_a100nv_8 --gres=gpu:1 -c 2 -t 10
#SBATCH --comment=pytorch
srun python train.py
"""


class Way:
    """stops: (module, function), each call from one module to a function of another, once.

    opened: the files that were opened through neuronctl.common.files.
    """

    def __init__(self) -> None:
        self.stops: List[Tuple[str, str]] = []
        self.opened: List[str] = []
        self._known: Set[Tuple[str, str, str]] = set()

    def __call__(self, frame: types.FrameType, event: str, argument: Any) -> None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if event != "call" or not module.startswith("neuronctl."):
            return
        if module == "neuronctl.common.files" and name.startswith("open_"):
            self.opened.append(os.path.realpath(str(frame.f_locals.get("path", ""))))
        if not module.startswith(ROOMS):
            return
        callers = []
        above = frame.f_back
        while above is not None:
            if above.f_globals.get("__name__", "").startswith("neuronctl"):
                callers.append(above)
            above = above.f_back
        if any(caller.f_code.co_name == "<module>" for caller in callers):
            return  # an import
        origin = callers[0].f_globals["__name__"] if callers else ""
        found = (origin, module, name)
        if origin != module and found not in self._known and _is_act(frame):
            self._known.add(found)
            self.stops.append((module, name))

    @property
    def climbs(self) -> List[Tuple[str, str]]:
        """The stops in a module that was left before."""
        found, left = [], set()
        for before, stop in zip(self.stops, self.stops[1:]):
            left.add(before[0])
            found += [stop] if stop[0] in left and stop[0] != before[0] else []
        return found


def _is_act(frame: types.FrameType) -> bool:
    """Whether a function or a method runs: no property, and nothing that Python calls by itself."""
    name = frame.f_code.co_name
    found = getattr(type(frame.f_locals.get("self")), name, len)
    return callable(found) and not name.startswith(("<", "__"))


@pytest.fixture
def follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_slurm: FakeSlurm
) -> Callable[..., Way]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "train.py").write_text("print(1)\n")
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")

    def follow(*words: str) -> Way:
        way = Way()
        sys.setprofile(way)
        try:
            main(list(words))
        except SystemExit as end:
            assert end.code == 0
        finally:
            sys.setprofile(None)
        return way

    return follow


OPTIONS = ("--cluster", "neuron-2022")
GENERATED = ("-p", "amd_a100nv_8", "--gpus-per-node", "1", "--comment", "pytorch")


@pytest.mark.parametrize(
    ("words", "stops", "climbs"),
    [
        (("submit", *OPTIONS, "job.sh"), 18, 4),
        (("submit", *OPTIONS, *GENERATED, "-t", "10", "train.py"), 16, 4),
        (("check", *OPTIONS, "job.sh"), 8, 1),
    ],
)
def test_the_way_is_short_and_goes_down(
    follow: Callable[..., Way], words: Tuple[str, ...], stops: int, climbs: int
) -> None:
    way = follow(*words)
    assert len(way.stops) <= stops, "\n".join(map(str, way.stops))
    assert len(way.climbs) <= climbs, way.climbs


def test_a_script_is_opened_once(follow: Callable[..., Way], tmp_path: Path) -> None:
    opened = follow("submit", *OPTIONS, "job.sh").opened
    assert opened.count(os.path.realpath(tmp_path / "job.sh")) == 1
