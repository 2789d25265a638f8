"""``--preflight deep``: what a node measures, and which nodes are told to be off."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

from neuronctl.common.paths import data_path
from neuronctl.submission.planned_job import options_layer

PROGRAM = data_path("templates/preflight.py")


@pytest.fixture(scope="module")
def look() -> Any:
    spec = importlib.util.spec_from_file_location("look", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gpu(teraflops: float, **more: Any) -> Dict[str, Any]:
    return {"on": "GPU", "product": teraflops * 1e12, "bandwidth": 2e11, "by": "nccl", **more}


def cpu(gigaflops: float, **more: Any) -> Dict[str, Any]:
    return {"on": "CPU", "product": gigaflops * 1e9, **more}


def answer(node: str, *processes: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    disks = {"/tmp": 400.0, "/scratch/me": 9000.0}
    plain = {"asked": 0, "memory": 500.0, "disks": disks, "busy": [], "room": True, "seconds": 11.0}
    return {"node": node, "processes": list(processes), **plain, **more}


WELL = answer("n1", gpu(280), gpu(284))
USED = [["0", 4, []], ["1", 21504, ["4711"]]]


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([WELL, answer("n2", gpu(270), gpu(281))], []),
        (
            [WELL, answer("n2", gpu(281), gpu(41))],
            ["n2 is off: GPU 1: matrix product 41 TFLOPS (the others: 280 TFLOPS to 284 TFLOPS, "
             "median 281 TFLOPS)"],
        ),
        (
            [answer("n1", gpu(280), gpu(41), gpu(280))],
            ["n1 is off: GPU 1: matrix product 41 TFLOPS (the others: 280 TFLOPS)"],
        ),
        (
            [answer("n1", cpu(4.4)), answer("n2", cpu(0.9))],
            ["n2 is off: matrix product 900 MFLOPS (the others: 4.4 GFLOPS)"],
        ),
        (
            [WELL, answer("n2", gpu(281), cpu(20), busy=USED, memory=40.0)],
            ["n2 is off: GPU 1: Python sees no such GPU; GPU 1: 21504 MiB in use by process 4711 "
             "(the others: 4 MiB); free memory 40.0 GiB (the others: 500.0 GiB)"],
        ),
        (
            [answer("n1", cpu(4), memory=90.0, asked=80),
             answer("n2", cpu(4), memory=70.0, asked=80)],
            ["n2 is off: free memory 70.0 GiB, the job has 80.0 GiB there (the others: 90.0 GiB)"],
        ),
        (
            [answer("n1", cpu(4)), answer("n2", cpu(4), disks={"/tmp": 30.0, "/scratch/me": 0.5})],
            ["n2 is off: free space in /tmp 30.0 GiB (the others: 400.0 GiB); free space in "
             "/scratch/me 0.5 GiB (the others: 9000.0 GiB)"],
        ),
        (
            [answer("n1", cpu(4, failed="no end within 45 s")), answer("n2", cpu(4, torch=False))],
            ["n1 is off: no end within 45 s", "n2 is off: Python has no torch, as it has on other "
             "nodes"],
        ),
        ([answer("n1", cpu(4))], ["n2 is off: no answer: srun: error: n2: lost"]),
    ],
)  # fmt: skip
def test_one_line_for_each_node_that_is_off(
    answers: List[Dict[str, Any]], told: List[str], look: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    names = sorted({one["node"] for one in answers} | {line.split()[0] for line in told})
    lines = [json.dumps(one) for one in answers]
    look.tell(names, [*lines, "[1]", "srun: error: n2: lost", ""])
    said = capsys.readouterr().out.splitlines()
    assert said[:-1] == [f"preflight deep: {line}" for line in told]
    assert said[-1].startswith(f"preflight deep: {len(answers)} node")


def test_the_last_line_has_the_figures_of_all(look: Any) -> None:
    two = [WELL, answer("n2", gpu(270), gpu(281), seconds=14.2)]
    assert ", ".join(look.summary(two)) == (
        "2 nodes in 14 s, all-reduce over 4 processes 200.00 GB/s (nccl), matrix product on each "
        "GPU 270 TFLOPS to 284 TFLOPS"
    )
    two = [answer("n1", cpu(4, torch=False)), answer("n2", cpu(4, torch=False))]
    assert "no all-reduce, since Python has no torch" in ", ".join(look.summary(two))


def test_nothing_answers(look: Any, capsys: pytest.CaptureFixture[str]) -> None:
    look.tell(["n1"], ["no Python 3.6 or newer on PATH"])
    said = capsys.readouterr().out
    assert said == "preflight deep: n1 is off: no answer: no Python 3.6 or newer on PATH\n"


def test_a_node_measures_itself_without_torch(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        '#!/bin/sh\ncase "$1" in\n*index*) printf "0, GPU-a, 3\\n1, GPU-b, 2000\\n";;\n'
        '*) echo "GPU-b, 4711";;\nesac\n'
    )
    smi.chmod(0o755)
    (tmp_path / "torch.py").write_text("raise ImportError('not here')")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": "/nowhere"}
    env.update(PYTHONPATH=str(tmp_path), CUDA_VISIBLE_DEVICES="1")
    text = Path(PROGRAM).read_text().replace("ROUND = 5, 0.3", "ROUND = 2, 0.01")
    command = [sys.executable, "-c", text, "node", "1", "127.0.0.1", "1", "2048"]
    said = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    found = json.loads(said.stdout)
    assert found["room"] is (found["memory"] >= 2)
    assert (found["asked"], found["busy"]) == (2, [["1", 2000, ["4711"]]]), said.stderr
    assert found["memory"] > 0 and found["disks"][str(tmp_path)] > 0
    assert found["disks"]["/nowhere"] == "No such file or directory"
    [process] = found["processes"]
    assert process["product"] > 0 and not process["torch"] and process["on"] == "CPU"


def test_little_memory_is_left_to_the_program(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel ends for want of memory could be the end of the job."""
    monkeypatch.setattr(look, "ROUND", 0.01)
    monkeypatch.setitem(sys.modules, "torch", None)
    [found] = look.measured(0, None, time.time() + 30)
    assert found["product"] > 0 and "torch" not in found
    two = [answer("n1", found, room=False), answer("n2", found, room=False)]
    said = ", ".join(look.summary(two))
    assert "no all-reduce, with less than 2 GiB of memory for each process" in said
    assert list(look.defects(two[0], two)) == []


def test_a_switch_with_a_word() -> None:
    for given, value in ((True, True), (False, False), ("deep", "deep")):
        assert options_layer({"preflight": given}).values == {"preflight": value}
