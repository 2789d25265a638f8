"""--monitor of a script of one's own: by which words, and when it is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest

from neuronctl.common.errors import UsageError
from neuronctl.request.job import OPTIONS
from neuronctl.submission.batch_shell import batch_shell_variables
from neuronctl.submission.existing_job import existing_job
from neuronctl.submission.existing_script import ExistingScript, read_existing
from neuronctl.submission.monitored_script import (
    Monitoring,
    monitored,
    without_monitor,
)
from neuronctl.submission.planned_job import plan_job


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("BASH_ENV", "")
    monkeypatch.delenv("SBATCH_EXPORT", raising=False)
    (tmp_path / "job.sh").write_text("#!/bin/bash\ntrue\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "left", "said"),
    [
        (("--monitor", "job.sh", "--monitor"), ("job.sh", "--monitor"), Monitoring(True)),
        (("-N2", "--monitor", "-t", "5", "job.sh"), ("-N2", "-t", "5", "job.sh"), Monitoring(True)),
        (
            ("--monitor", "--monitor-interval", "3", "--", "job.sh"),
            ("job.sh",),
            Monitoring(True, 3),
        ),
        (
            ("--monitor-interval=3", "--export=ALL,A=1", "job.sh"),
            ("--export=ALL,A=1", "job.sh"),
            Monitoring(None, 3),
        ),
        (("--no-monitor", "job.sh"), ("job.sh",), Monitoring(False)),
        (("job.sh", "--monitor"), ("job.sh", "--monitor"), Monitoring()),
        (("-N2", "job.sh"), ("-N2", "job.sh"), Monitoring()),
    ],
)
def test_words(words: Tuple[str, ...], left: Tuple[str, ...], said: Monitoring) -> None:
    assert without_monitor(words) == (left, said)


TOLD: List[str] = []


def own(*words: str, text: str = "") -> ExistingScript:
    script = read_existing(words or ["job.sh"], text)
    return monitored(script, Monitoring(True), Monitoring(), TOLD.append)


@pytest.mark.parametrize(
    ("said", "otherwise", "interval"),
    [
        (Monitoring(), Monitoring(), None),
        (Monitoring(), Monitoring(False, 4), None),
        (Monitoring(), Monitoring(True, 4), 4),
        (Monitoring(False), Monitoring(True, 4), None),
        (Monitoring(True), Monitoring(), 10),
        (Monitoring(True), Monitoring(None, 4), 4),
        (Monitoring(None, 3), Monitoring(False, 4), 3),
    ],
)
def test_the_command_line_comes_before_the_configuration(
    said: Monitoring, otherwise: Monitoring, interval: Optional[int]
) -> None:
    script = monitored(read_existing(["job.sh"]), said, otherwise, TOLD.append)
    assert script.monitor == interval
    assert script.with_words("-N1").monitor == interval
    given = batch_shell_variables(script)
    assert list(given) == ["BASH_ENV"]  # what it runs with is looked at in any case
    assert os.environ["BASH_ENV"] == ""
    kept = {} if interval is None else {"monitor": True, "monitor_interval": interval}
    assert script.draft.request == {"script": script.path, **kept}
    text = Path(given["BASH_ENV"]).read_text()
    assert (f'"$log.samples" {interval} ' in text) == (interval is not None)
    assert "of_python" in text


def test_the_configuration_and_the_options_of_submit(here: Path) -> None:
    configuration = here / "config" / "neuronctl" / "config.yaml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("monitor: true\nmonitor-interval: 5\n")
    nothing: Dict[str, Any] = {
        option.long.replace("-", "_"): () if option.kind == "list" else None for option in OPTIONS
    }

    def interval(**given: Any) -> Optional[int]:
        options = {**nothing, **given}
        return existing_job(["job.sh"], options, tell=TOLD.append).existing.monitor

    assert interval() == 5
    assert interval(monitor=False) is None
    assert interval(monitor_interval="2") == 2
    with pytest.raises(UsageError, match="--monitor-interval"):
        interval(monitor_interval="0")


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
    ],
)
def test_refused(here: Path, text: str, words: Tuple[str, ...], why: str) -> None:
    (here / "job.sh").write_text(text + "true\n")
    with pytest.raises(UsageError, match=why):
        own(*words, "job.sh")
    # Who did not ask for it on this command line gets the job, and is told.
    script = read_existing([*words, "job.sh"])
    assert monitored(script, Monitoring(), Monitoring(True), TOLD.append) == script
    assert why in TOLD.pop() and not TOLD
    assert not (here / "state").exists()


def test_an_interval_that_is_none() -> None:
    with pytest.raises(UsageError, match="not a number"):
        without_monitor(("--monitor-interval=0", "job.sh"))


def test_a_bash_env_that_is_no_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASH_ENV", "$HOME/none.sh")
    with pytest.raises(UsageError, match="not a file"):
        own()


def test_a_script_on_standard_input() -> None:
    assert own("-N1", text="#!/bin/bash\n").monitor == 10
    with pytest.raises(UsageError, match="only bash"):
        own("-N1", text="#!/bin/sh\n")


@pytest.mark.parametrize(
    ("config", "job", "options", "sampled"),
    [
        ("", "", {"monitor_interval": "5"}, 5),
        ("", "monitor-interval: 5\n", {}, 5),
        ("", "monitor-interval: 5\n", {"monitor": False}, None),
        ("", "monitor-interval: 5\nmonitor: false\n", {}, None),
        ("", "", {"monitor": False, "monitor_interval": "5"}, None),
        ("monitor-interval: 5\n", "", {}, None),
        ("monitor-interval: 5\n", "", {"monitor": True}, 5),
        ("monitor: false\n", "", {"monitor_interval": "5"}, 5),
        ("monitor: true\n", "", {}, 10),
    ],
)
def test_an_interval_asks_for_samples_of_a_planned_job(
    here: Path, config: str, job: str, options: Dict[str, Any], sampled: Optional[int]
) -> None:
    (here / "config" / "neuronctl").mkdir(parents=True)
    (here / "config" / "neuronctl" / "config.yaml").write_text(config)
    (here / "job.yaml").write_text(f"partition: cas_v100nv_8\nrun: 'true'\n{job}")
    planned = plan_job(options, job_file="job.yaml", ask_slurm=False)
    assert planned.plan.monitor_interval == sampled
