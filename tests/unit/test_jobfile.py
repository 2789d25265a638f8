"""job.yaml and config.yaml: the options as a file, wrong ones named with file and line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import pytest

from neuronctl.common.errors import JobFileError
from neuronctl.request.job_file import read_config, read_job_file


def values(tmp_path: Path, text: str) -> Dict[str, Any]:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return dict(read_job_file(path).values)


def refused(tmp_path: Path, text: str) -> JobFileError:
    with pytest.raises(JobFileError) as caught:
        values(tmp_path, text)
    assert caught.value.exit_code == 3
    return caught.value


@pytest.mark.parametrize("name", ["train.py", "job.sh", "job.sbatch", "job.slurm", "train"])
def test_a_program_is_no_job_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("#!/bin/bash\n#SBATCH -n 1\n" if name == "train" else "import torch\n")
    with pytest.raises(JobFileError, match="is a program, not a job file") as caught:
        read_job_file(str(path))
    assert "without -f" in caught.value.hint


def test_a_whole_job(tmp_path: Path) -> None:
    text = """\
# a remark
job-name: 실험
partition: gpu
nodes: 2
gpus_per_node: a100:4
time: 24:00:00
requeue: true
env: {NCCL_IB_HCA: "mlx5_0,mlx5_1", LEVEL: 1.10, FLAG: true}
module: [gcc/11.5.0, cuda/12.9.1]
setup: |
  first
  second
script: train.py
args: [--lr, 0.10, --on, yes, --n, 010, --t, 1:30, "", "two words"]
"""
    assert values(tmp_path, text) == {
        "job_name": "실험",
        "partition": "gpu",
        "nodes": 2,
        "gpus_per_node": 4,
        "gpu_type": "a100",
        "time_limit": "24:00:00",
        "requeue": True,
        "env": (("NCCL_IB_HCA", "mlx5_0,mlx5_1"), ("LEVEL", "1.10"), ("FLAG", "true")),
        "modules": ("gcc/11.5.0", "cuda/12.9.1"),
        "setup": ("first", "second"),
        "script": "train.py",
        "args": ("--lr", "0.10", "--on", "yes", "--n", "010", "--t", "1:30", "", "two words"),
    }


def test_one_entry_needs_no_list(tmp_path: Path) -> None:
    assert values(tmp_path, "module: go\nenv: A=1\n") == {"modules": ("go",), "env": (("A", "1"),)}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("nodes: 2\nparition: gpu\n", 2, "unknown key 'parition'"),
        ("nodes: two\n", 1, "nodes: 'two' is not a whole number"),
        ("nodes: [1, 2]\n", 1, "nodes: expected one value, found a list"),
        ("nodes:\n", 1, "nodes: expected one value, found nothing"),
        ("nodes: true\n", 1, "nodes: 'true' is not a whole number"),
        ("requeue: yes\n", 1, "requeue: expected true or false, found the text 'yes'"),
        ("time: 86400000000\n", 1, "time: '86400000000' is"),
        ('job-name: "a\\nb"\n', 1, "job-name: contains the control character"),
        ("args: --lr 0.1\n", 1, "args: expected a list, found the text '--lr 0.1'"),
        ("args:\n  - 1\n  - [2]\n", 3, "args: expected one value, found a list"),
        ("args:\n  - 1\n  -\n", 3, "args: expected one value, found nothing"),
        ('args: ["a\\0"]\n', 1, "NUL byte"),
        ("env:\n  A: 1\n  B: [2]\n", 3, "env: expected one value, found a list"),
        ("env:\n  A B: 1\n", 1, "env: 'A B=…' is not NAME=VALUE"),
        ("module:\n  - gcc\n  - {a: 1}\n", 3, "module: expected one value, found a mapping"),
        ("nodes: 1\nnodes: 2\n", 2, "duplicate key nodes"),
        ("gres: gpu:1\ngpus-per-node: 2\n", 2, "gpus-per-node: sets the same value"),
        ("", 1, "the file is empty"),
    ],
)
def test_refused_with_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    error = refused(tmp_path, text)
    assert error.message.startswith(f"{tmp_path / 'job.yaml'}:{line}: ")
    assert words in error.message


def test_config_may_be_absent(tmp_path: Path) -> None:
    assert read_config(tmp_path / "config.yaml").values == {}
    (tmp_path / "file").write_text("")
    assert read_config(tmp_path / "file" / "config.yaml").values == {}


def test_config_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match="cannot read"):
        read_config(tmp_path / ("x" * 300) / "config.yaml")


@pytest.mark.parametrize("key", ["script: x.py", "args: [1]"])
def test_config_holds_no_program(tmp_path: Path, key: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"account: mine\n{key}\n")
    with pytest.raises(JobFileError, match=r"config\.yaml:2: unknown key"):
        read_config(path)


def test_a_pipe_is_read_once() -> None:
    """As the shell's <(…) is: what a look at its beginning has read would be lost."""
    reading, writing = os.pipe()
    os.write(writing, b"nodes: 2\n")
    os.close(writing)
    assert read_job_file(f"/dev/fd/{reading}").values["nodes"] == 2
    os.close(reading)
