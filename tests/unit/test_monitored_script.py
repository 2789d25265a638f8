"""--monitor of a script of one's own: which words sbatch gets, and when it is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Tuple

import pytest

from neuronctl.errors import UsageError
from neuronctl.submission.monitored_script import monitored


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BASH_ENV", "")
    monkeypatch.delenv("SBATCH_EXPORT", raising=False)
    (tmp_path / "job.sh").write_text("#!/bin/bash\ntrue\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "left", "interval"),
    [
        (("--monitor", "job.sh", "--monitor"), ("job.sh", "--monitor"), " 10 "),
        (("-N2", "--monitor", "-t", "5", "job.sh"), ("-N2", "-t", "5", "job.sh"), " 10 "),
        (("--monitor", "--monitor-interval", "3", "--", "job.sh"), ("job.sh",), " 3 "),
        (
            ("--monitor-interval=3", "--export=ALL,A=1", "job.sh"),
            ("--export=ALL,A=1", "job.sh"),
            "",
        ),
        (("job.sh", "--monitor"), ("job.sh", "--monitor"), None),
        (("-N2", "job.sh"), ("-N2", "job.sh"), None),
    ],
)
def test_words(words: Tuple[str, ...], left: Tuple[str, ...], interval: str) -> None:
    assert monitored(words) == left
    path = os.environ["BASH_ENV"]
    assert bool(path) == (interval is not None)
    if path:
        assert f'"$log.samples"{interval}' in Path(path).read_text()


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        ("#!/bin/sh\n", (), "only bash"),
        ("#!/usr/bin/env python3\n", (), "only bash"),
        ("#!/bin/bash --posix\n", (), "ignores BASH_ENV"),
        ("#!/bin/bash -ep\n", (), "ignores BASH_ENV"),
        ("#!/bin/bash\n#SBATCH --export=NONE\n", (), "--export"),
        ("#!/bin/bash\n", ("--export=HOME",), "--export"),
        ("#!/bin/bash\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N1\n", (), "heterogeneous"),
        ("#!/bin/bash\n", ("--monitor-interval=0",), "not a number"),
    ],
)
def test_refused(here: Path, text: str, words: Tuple[str, ...], why: str) -> None:
    (here / "job.sh").write_text(text + "true\n")
    with pytest.raises(UsageError, match=why):
        monitored(("--monitor", *words, "job.sh"))
    assert os.environ["BASH_ENV"] == ""
    assert not (here / "state").exists()


def test_a_bash_env_that_is_no_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASH_ENV", "$HOME/none.sh")
    with pytest.raises(UsageError, match="no file"):
        monitored(("--monitor", "job.sh"))


def test_without_a_script(here: Path) -> None:
    with pytest.raises(UsageError, match="standard input"):
        monitored(("--monitor", "-N1"))
