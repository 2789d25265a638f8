"""neuronctl partitions, as a process, without and with a terminal."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Callable, List

import pytest
from terminal import on_terminal

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_overview(run: Run) -> None:
    out = run("partitions").stdout
    lines = out.splitlines()
    assert lines[:2] == ["neuron: KISTI Neuron", "source: KISTI Neuron user guide, 2026-08-12"]
    assert lines[2].startswith("other clusters (--cluster): neuron-2022")
    rows = {line.split()[0]: " ".join(line.split()) for line in lines[4:17]}
    assert rows["PARTITION"] == "PARTITION NODES CORES GPUS SUBMIT RUN MAX GPUS TIME LIMIT"
    assert rows["amd_a100nv_8"] == "amd_a100nv_8 9 64 8 a100 nvlink 20 10 88 2-00:00:00"
    assert rows["bigmem"] == "bigmem 4 24-56 - 8 4 - 2-00:00:00"
    assert len(rows) == 13
    assert max(map(len, lines[4:17])) <= 80
    assert "\x1b" not in out
    for words in (
        "submit from       /scratch/{user}",
        "--comment         mandatory, field=FIELD;appl=APPL",
        "--mem             to be avoided; the guide says not to use it",
        "amd_a100nv_8      88 GPUs per user, but its nodes have only 72",
        "interactive jobs  at most 08:00:00",
        "cas_v100_2    trying out, and jobs of one or two GPUs",
        "scratch           the site removes a file from /scratch/{user} after 15 days",
    ):
        assert words in out


def test_named_partitions(run: Run) -> None:
    out = run("partitions", "cas_v100nv_8", "gh200_1", "cas_v100nv_8").stdout
    assert re.search(r"local disk +/etmp on each node of amd_a100nv_8", out)
    table = out.partition("\n\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in table.splitlines()] == [
        *("PARTITION", "cas_v100nv_8", "gh200_1")
    ]
    assert "bigmem" not in out


def test_what_a_comment_takes(run: Run) -> None:
    out = run("partitions", "--comment").stdout
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert any(line.startswith("--field ") and "nlp (natural language" in line for line in lines)
    assert any(line.startswith("--appl ") and "pytorch, pytorch-ddp, " in line for line in lines)
    assert "--comment any word" in " ".join(
        run("partitions", "--comment", "--cluster", "neuron-2022").stdout.split()
    )


def test_json(run: Run) -> None:
    answer = json.loads(run("partitions", "--json").stdout)
    assert list(answer) == [
        "schema", "files", "default_cluster", "clusters", "cluster", "partitions",
    ]  # fmt: skip
    assert answer["schema"] == "neuronctl.partitions/1"
    assert answer["default_cluster"] == "neuron"
    assert answer["clusters"][:2] == ["neuron", "neuron-2022"]
    assert answer["cluster"]["name"] == "neuron"
    assert answer["cluster"]["policy"]["comment"]["form"] == "fields"
    assert answer["cluster"]["wall_time"]["interactive_maximum"] == 28800
    assert len(answer["partitions"]) == 12
    assert next(p for p in answer["partitions"] if p["name"] == "bigmem") == {
        "name": "bigmem", "nodes": 4, "node_list": "bigmem[01-04]",
        "cores_per_node": [48, 56, 24, 48], "cores_total": None, "memory_mb_per_node": None,
        "gpus_per_node": 0, "gpu": None, "gpu_types": [], "gpu_memory_gb": None,
        "interconnect": None, "local_disk": {"path": "", "size_gb": None},
        "arch": "x86_64", "max_submit_jobs": 8, "max_running_jobs": 4, "max_gpus": None,
        "max_nodes": None,
        "wall_time": {"default": 172800, "maximum": 172800, "interactive_maximum": 28800},
        "price": {"gpu_hour": None, "node_hour": None,
                  "currency": "(the guide's figure; it names no unit)"}, "module_prefix": "",
        "open": True, "accounts": [], "features": [],
        "good_for": "programs without GPUs that need much memory", "note": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "code", "message", "hint"),
    [
        (["amd_a100"], 4, "cluster neuron has no partition 'amd_a100'", "did you mean amd_a100_4"),
        (["--cluster", "nuron"], 3, "the catalog has no cluster 'nuron'", "did you mean neuron"),
        (["--catalog", "gone.yaml"], 3, "cannot read gone.yaml: No such file or directory", ""),
        (["--catalog", "tab.yaml"], 3, "tab.yaml:2: invalid YAML", "indent YAML with spaces"),
        (["--no-such"], 2, "no such option", "neuronctl partitions --help"),
    ],
)
def test_mistakes(
    run: Run, tmp_path: Path, argv: List[str], code: int, message: str, hint: str
) -> None:
    (tmp_path / "tab.yaml").write_text("clusters:\n\tlab: {}\n")
    done = run("partitions", *argv, code=code)
    assert done.stdout == ""
    assert done.stderr.startswith(f"neuronctl: {message}")
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_on_a_narrow_terminal_it_says_what_is_left_out() -> None:
    out = on_terminal("", "partitions", width=60)
    assert "hidden to fit the terminal: NODES, CORES" in out
    assert "TIME LIMIT" in out


def test_colour_only_on_a_terminal_that_has_it() -> None:
    assert "\x1b[1m" in on_terminal("", "partitions", width=80)
    assert "\x1b" not in on_terminal("", "partitions", width=80, term="dumb")


WITH_QOS = """
clusters:
  neuron:
    qos:
      debug: {max_gpus: 1, max_nodes: 1, wall_time: {maximum: 60}, priority: 100, partitions: [cpu]}
      long: {wall_time: {maximum: UNLIMITED}, note: for theses}
"""


def test_qos_are_shown(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(WITH_QOS)
    out = run("partitions", "--catalog", "mine.yaml").stdout
    words = "only in cpu; at most 1 GPU per user; time limit 01:00:00"
    assert f" {words}\n" in out
    words = "time limit UNLIMITED; for theses"
    assert f" {words}\n" in out
    answer = json.loads(run("partitions", "--json", "--catalog", "mine.yaml").stdout)
    assert answer["cluster"]["qos"]["long"]["wall_time"]["maximum"] == "UNLIMITED"
    assert "QOS" not in run("partitions").stdout.replace("--qos", "")
