"""What a job sees of its own Python, by processes and folders made here; and what is read back."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

from neuronctl.common.paths import data_path
from neuronctl.records.environment import (
    Environment,
    changed_environment,
    environment_of,
    packages_of,
)
from neuronctl.records.job_record import JobRecord

SLEEP = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("look", data_path("templates/environment.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)
    return module


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Starts a program that waits; its number once it runs."""
    started: List[subprocess.Popen[str]] = []
    (tmp_path / "sleep.py").write_text(SLEEP)
    pipe = subprocess.PIPE

    def begin(*argv: str, **variables: str) -> int:
        env = {**os.environ, **variables}
        started.append(
            subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=env, cwd=tmp_path)
        )
        assert started[-1].stdout is not None and started[-1].stdout.readline() == "up\n"
        return started[-1].pid

    yield begin
    for process in started:
        process.communicate()


def test_a_process_of_this_python(look: Any, start: Callable[..., int]) -> None:
    facts, packages = look.python_facts(start(sys.executable, "sleep.py"))
    assert facts["python"].startswith(".".join(map(str, sys.version_info[:2])))
    assert packages["click"] and packages["pytest"] == pytest.__version__
    assert facts["manager"] in ("pip", "conda")


def venv(place: Path, torch: str, cuda: str = "12.4") -> Path:
    """A virtual environment of this Python with packages that are only named."""
    below = place / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    (below / "torch").mkdir(parents=True)
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    home = Path(sys.executable).resolve().parent
    settings = f"home = {home}\ninclude-system-site-packages = false\n"
    (place / "pyvenv.cfg").write_text(settings)
    (below / "torch" / "version.py").write_text(
        f"__all__ = ['cuda']\n__version__ = '{torch}'\ndebug = False\n"
        f"cuda: Optional[str] = '{cuda}'\ngit_version = 'abc'\nhip: Optional[str] = None\n"
    )
    for name in (
        f"torch-{torch}.dist-info",
        "PyYAML-6.0.1-py3.11.egg-info",
        "made_up-1.0.dist-info",
    ):
        (below / name).mkdir()
    return place


@pytest.mark.parametrize("call", ["path", "name", "relative"])
def test_an_environment_by_however_it_is_called(
    look: Any, start: Callable[..., int], tmp_path: Path, call: str
) -> None:
    place = venv(tmp_path / "my env", "2.6.0+cu124")
    word = {"path": str(place / "bin/python"), "name": "python", "relative": "my env/bin/python"}
    path = f"/nowhere:{place}/bin:{os.environ['PATH']}"
    facts, packages = look.python_facts(start(word[call], "sleep.py", PATH=path))
    assert (facts["torch"], facts["cuda"]) == ("2.6.0+cu124", "12.4") and "rocm" not in facts
    assert packages == {"torch": "2.6.0+cu124", "pyyaml": "6.0.1", "made-up": "1.0"}


def test_packages_of_pythonpath_and_of_conda(
    look: Any, start: Callable[..., int], tmp_path: Path
) -> None:
    place = venv(tmp_path / "conda", "2.4.1")
    (place / "conda-meta").mkdir()
    (place / "conda-meta" / "cuda-cudart-12.1.105-0.json").touch()
    (place / "conda-meta" / "history").touch()
    (tmp_path / "more" / "made_up-2.0.dist-info").mkdir(parents=True)
    more = str(tmp_path / "more")
    facts, packages = look.python_facts(start(f"{place}/bin/python", "sleep.py", PYTHONPATH=more))
    assert facts["manager"] == "conda"
    assert (packages["made-up"], packages["cuda-cudart"]) == ("2.0", "12.1.105")


def test_which_process_is_the_program(look: Any, start: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "conda").write_text(SLEEP)
    (tmp_path / "venv.py").write_text(SLEEP)
    python = sys.executable
    job = {"SLURM_JOB_ID": "4711"}
    yes = [(python, "-u", "sleep.py"), (python, "-X", "dev", "-m", "sleep")]
    no = [(python, "-c", SLEEP), (python, "conda", "x"), (python, "-u", "-m", "venv")]
    assert all(look.is_program(start(*argv, **job), "4711") for argv in yes)
    assert not any(look.is_program(start(*argv, **job), "4711") for argv in no)
    assert not look.is_program(start(python, "sleep.py", SLURM_JOB_ID="47110"), "4711")
    assert not look.is_program(start("sh", "-c", "echo up; exec cat", **job), "4711")
    assert not look.is_program(os.getpid() + 4_000_000, "4711")
    assert look.python_facts(os.getpid() + 4_000_000) == ({}, {})


def test_what_it_writes_and_what_is_read_back(
    look: Any, start: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "a.b")
    folder = tmp_path / "state" / "neuronctl" / "environments"
    folder.mkdir(parents=True, mode=0o700)
    place = venv(tmp_path / "env", "2.4.0")
    pid = start(
        f"{place}/bin/python", "sleep.py", HF_TOKEN="hf_not_to_be_kept", SLURM_JOB_ID="4711"
    )
    monkeypatch.setattr(look, "PATIENCE", 0.5)
    monkeypatch.setattr(look.os, "nice", lambda _: 0)
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    look.main(str(folder), pid, "4711")
    record = _record()
    seen = environment_of(record)
    assert seen is not None and (seen.torch, seen.gpus) == ("2.4.0", ())
    assert packages_of(seen)["made-up"] == "1.0"
    kept = "".join(file.read_text() for file in folder.iterdir())
    assert "not_to_be_kept" not in kept and {f.stat().st_mode & 0o77 for f in folder.iterdir()} == {
        0
    }
    # Another job of this number, before the controller was reinstalled.
    later = int(time.time()) + 4000
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: later)
        assert environment_of(_record(begun_at=later)) is None
    assert environment_of(_record(begun_at=later)) == seen, "its clock was ahead"
    (folder / f"{seen.packages}.txt").write_text("torch==9.9\n")
    assert packages_of(seen) == {}
    path = folder / "4711.a_b.json"
    good: Dict[str, Any] = json.loads(path.read_text())
    changes: List[Dict[str, Any]] = [{"gpus": "x"}, {"torch": 2}, {"node": "n" * 300}, {"at": None}]
    for change in changes:
        path.write_text(json.dumps({**good, **change}))
        assert environment_of(record) is None
    for text in ("", "[]", "[" * 100_000, '"x"', "\udcff"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert environment_of(record) is None
    path.write_text(json.dumps({**good, "of a later version": 1}))
    assert environment_of(record) == seen


def _record(**given: Any) -> JobRecord:
    texts = ("key", "status", "script_sha256", "user", "host", "version", "cwd", "job_name")
    values: Dict[str, Any] = dict.fromkeys((*texts, "partition", "output"), "x")
    values.update(dict.fromkeys(("error", "array", "nodes", "gpus_per_node", "time_limit")))
    values.update(begun_at=int(time.time()), details=b"", job_id=4711, cluster="a.b")
    return JobRecord(**{**values, **given})


def test_of_an_array_one_task_tells(
    look: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look.os, "nice", lambda _: 0)
    monkeypatch.setattr(look, "find_program", lambda *_: None)
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4700")
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "3")
    for task, names in (("4", []), ("3", ["4700.-.json"])):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        look.main(str(tmp_path), os.getpid(), "4711")
        assert os.listdir(tmp_path) == names


def test_what_differs_between_two() -> None:
    first = Environment(1, "a", python="3.11.2", torch="2.4.0", gpus=("A", "A"), driver="550")
    second = Environment(2, "b", python="3.11.2", torch="2.6.0", gpus=("A", "B"), cuda="12.4")
    assert changed_environment(first, second) == [
        ("torch", "2.4.0", "2.6.0"),
        ("GPUs", "2 x A", "1 x A, 1 x B"),
        ("driver", "550", ""),
        ("CUDA", "", "12.4"),
    ]
    assert changed_environment(first, None) == [] == changed_environment(None, second)
