"""--monitor of a script of one's own: by which words, and when it is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest

from neuronctl.common.errors import UsageError
from neuronctl.request.job import OPTIONS
from neuronctl.submission.existing_job import existing_job, monitored
from neuronctl.submission.existing_script import (
    ExistingScript,
    batch_shell_variables,
    read_existing,
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("BASH_ENV", "")
    monkeypatch.delenv("SBATCH_EXPORT", raising=False)
    (tmp_path / "job.sh").write_text("#!/bin/bash\ntrue\n")
    return tmp_path


TOLD: List[str] = []


def own(*words: str, text: str = "") -> ExistingScript:
    script = read_existing(words or ["job.sh"], text)
    return monitored(script, True, None, TOLD.append)


@pytest.mark.parametrize(
    ("said", "otherwise", "sampled"),
    [
        (None, None, False),
        (None, True, True),
        (False, True, False),
        (True, None, True),
        (True, False, True),
    ],
)
def test_the_command_line_comes_before_the_configuration(
    said: Optional[bool], otherwise: Optional[bool], sampled: bool
) -> None:
    script = monitored(read_existing(["job.sh"]), said, otherwise, TOLD.append)
    assert script.monitor == sampled
    assert script.add_options("-N1").monitor == sampled
    given = batch_shell_variables(script)
    assert list(given) == (["BASH_ENV"] if sampled else [])
    assert os.environ["BASH_ENV"] == ""
    kept = {"monitor": True} if sampled else {}
    assert script.draft.request == {"script": script.path, **kept}
    if sampled:
        assert '"$log.samples" 10 ' in Path(given["BASH_ENV"]).read_text()


def test_the_configuration_and_the_options_of_submit(here: Path) -> None:
    configuration = here / "config" / "neuronctl" / "config.yaml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("monitor: true\n")
    nothing: Dict[str, Any] = {
        option.long.replace("-", "_"): () if option.kind == "list" else None for option in OPTIONS
    }
    for given, sampled in ((None, True), (False, False)):
        options = {**nothing, "monitor": given}
        job = existing_job(["job.sh"], options, tell=TOLD.append)
        assert job.existing.monitor == sampled


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        ("#!/bin/sh\n", (), "only bash"),
        ("#!/usr/bin/env python3\n", (), "only bash"),
        ("#!/bin/bash --posix\n", (), "only bash"),
        ("#!/bin/bash\n#SBATCH --export=NONE\n", (), "--export"),
        ("#!/bin/bash\n", ("--export=HOME",), "--export"),
        ("#!/bin/bash\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N1\n", (), "heterogeneous"),
    ],
)
def test_refused(here: Path, text: str, words: Tuple[str, ...], why: str) -> None:
    (here / "job.sh").write_text(text + "true\n")
    with pytest.raises(UsageError, match=why):
        own(*words, "job.sh")
    # Who did not ask for it on this command line gets the job, and is told.
    script = read_existing([*words, "job.sh"])
    assert monitored(script, None, True, TOLD.append) == script
    assert why in TOLD.pop() and not TOLD
    assert not (here / "state").exists()


def test_a_script_on_standard_input() -> None:
    assert own("-N1", text="#!/bin/bash\n").monitor
    with pytest.raises(UsageError, match="only bash"):
        own("-N1", text="#!/bin/sh\n")
