"""What the sandbox needs of the machine, and how it reports what is missing or fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from neuronctl.catalog.loader import load
from neuronctl.common.errors import SlurmUnavailableError, UsageError
from neuronctl.sandbox import client, init, layout, requirements
from neuronctl.sandbox.init import Daemon, Failure
from neuronctl.slurm.sandbox_address import sub_ids


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", range(0)),
        ("other:100000:65536\n", range(0)),
        ("4711:100000:65536\n", range(100000, 165536)),
        ("4711:100000:65536\n4711:300000:70000\nother:1:99999\n", range(100000, 165536)),
        ("4711:x:65536\n4711:1\n4711\n:::\n", range(0)),
    ],
)
def test_sub_ids_of_a_user(tmp_path: Path, text: str, found: range) -> None:
    file = tmp_path / "subuid"
    file.write_text(text)
    assert sub_ids(str(file), 4711) == found


def test_all_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "SEARCH_PATH", "/nowhere")
    with pytest.raises(SlurmUnavailableError) as caught:
        requirements.check(987654)
    for word in ("slurm-wlm", "slurmdbd", "munge", "mariadb-server", "uidmap", "/etc/subuid"):
        assert word in caught.value.message
    for word in ("apt-get install", "usermod --add-subuids", "usermod --add-subgids"):
        assert word in caught.value.hint


def test_root_needs_no_sub_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "SEARCH_PATH", "/nowhere")
    with pytest.raises(SlurmUnavailableError) as caught:
        requirements.check(0)
    assert "uidmap" not in caught.value.message and "/etc/subuid" not in caught.value.message


def test_daemons_see_nothing_of_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", "/nowhere")
    monkeypatch.setenv("LD_PRELOAD", "x.so")
    monkeypatch.setenv("PATH", "/nowhere")
    env = requirements.clean_environment()
    assert not {"SLURM_CONF", "LD_PRELOAD"} & set(env)
    assert env["PATH"] == requirements.SEARCH_PATH


def test_a_directory_shows_at_its_own_path_or_at_another(tmp_path: Path) -> None:
    here = str(tmp_path)
    for text in (here, f"{here}:{here}/"):
        assert client.parse_bind(text) == (here, here)
    for text in (f"{here}:/apps/images/", f"{here}:apps/images"):
        assert client.parse_bind(text) == (here, "/apps/images")
    with pytest.raises(UsageError, match="is not a directory"):
        client.parse_bind(__file__)


def test_what_failed_to_the_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def ready() -> bool:
        raise Failure("'sinfo' ended with exit code 1: Broken pipe")

    monkeypatch.setattr(init, "TIMEOUT", 0.0)
    daemon = Daemon("slurmctld", subprocess.Popen(["sleep", "300"]))
    with pytest.raises(
        Failure, match=r"slurmctld was not ready within 0 s: 'sinfo' .* Broken pipe"
    ):
        daemon.wait_for(ready)
    daemon.process.kill()
    daemon.process.wait()
    with pytest.raises(Failure, match="slurmctld exited"):
        daemon.wait_for(lambda: False)


def test_a_root_without_neuronctls_python_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/python9")
    neuron = load().clusters["neuron"]
    with pytest.raises(SlurmUnavailableError, match="python9, which does not exist in"):
        client._setup(layout.build(neuron, {}), str(tmp_path), ())
