"""The command tree: help, wrong words, completion in three shells, and errors nobody expects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable, List

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

DAMAGED = """
import sys
from neuronctl import cli
def broken(words):
    raise KeyError("HF_TOKEN=hf_0123456789abcdefghijklmn")
cli._run = broken
sys.argv = ["neuronctl", "submit", "--env", "WANDB_API_KEY=0123456789abcdef", "train.py"]
cli.program()
"""


def test_help_is_in_groups(run: Run) -> None:
    out = run("--help").stdout
    assert out == run("-h").stdout
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    groups = ["Run a job:", "Watch it:", "Look back:", "Read scripts:", "Look around:", "Set up:"]
    assert titles == ["Options:", *groups]
    assert run(code=2).stderr == out


@pytest.mark.parametrize(
    ("words", "said", "see"),
    [
        (["stats"], "No such command 'stats'. Did you mean 'status'?", "neuronctl --help"),
        (["xyzzy"], "No such command 'xyzzy'.\n", "neuronctl --help"),
        (["--verson"], "No such option", "neuronctl --help"),
        (["status", "--tsks"], "--tasks", "neuronctl status --help"),
        (["catalog", "chek"], "No such command 'chek'.", "neuronctl catalog --help"),
    ],
)
def test_did_you_mean(run: Run, words: List[str], said: str, see: str) -> None:
    result = run(*words, code=2)
    assert said in result.stderr and f"see '{see}'" in result.stderr and result.stdout == ""


@pytest.mark.parametrize("writable", [True, False])
def test_an_internal_error_is_kept_in_a_file(tmp_path: Path, writable: bool) -> None:
    state = tmp_path / "state"
    if not writable:
        state.write_text("")
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(state)},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("neuronctl: internal error: KeyError: ")
    if not writable:
        assert done.stderr.splitlines()[1].startswith("  details: cannot be written: ")
        assert len(done.stderr.splitlines()) == 2
        return
    (file,) = (state / "neuronctl" / "errors").iterdir()
    assert f"  details: ~/state/neuronctl/errors/{file.name}\n" in done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert "in broken\n" in text and "command: 'neuronctl' 'submit' '--env'" in text
    for secret in ("hf_0123456789abcdefghijklmn", "0123456789abcdef"):
        assert secret not in text + done.stderr
