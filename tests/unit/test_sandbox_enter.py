"""What a command in the sandbox gets from the one who runs it, and how the sandbox is named."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from test_sandbox_files import running

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.sandbox import client, enter
from neuronctl.slurm.sandbox_address import NAME_VARIABLE, address, is_up

RUNNING = running("ada", 1001, "/home/ada")


def test_a_command_starts_as_after_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER_ADDR", "SLURM_CONF", "SBATCH_PARTITION", "PYTHONPATH", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, "outside")
    monkeypatch.setenv("TERM", "vt100")
    monkeypatch.setenv("NEURONCTL_OTHER", "1")
    monkeypatch.setenv(NAME_VARIABLE, "mine")
    monkeypatch.setenv("NEURONCTL_CATALOG", "/outside.yaml")
    env = enter.environment(RUNNING)
    assert "outside" not in env.values()
    assert not {NAME_VARIABLE, "NEURONCTL_CATALOG"} & set(env)
    assert (env["TERM"], env["NEURONCTL_OTHER"]) == ("vt100", "1")
    assert (env["USER"], env["LOGNAME"], env["HOME"]) == ("ada", "ada", "/home/ada")
    assert env["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    # Records inside are apart from the user's own.
    assert env["XDG_STATE_HOME"].startswith("/run/neuronctl/")
    assert env["XDG_CONFIG_HOME"].startswith("/run/neuronctl/")


def test_no_sandbox_is_an_error_that_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME_VARIABLE, "there is none of this name")
    assert client.find() is None
    assert client.down() is False
    with pytest.raises(SlurmUnavailableError) as caught:
        client.require()
    assert "neuronctl sandbox up" in caught.value.hint


def test_python_and_neuronctl_are_exposed() -> None:
    exposed = client.exposed_directories()
    for path in (sys.prefix, sys.base_prefix, str(Path(client.__file__).parents[2])):
        assert any(Path(place) in (Path(path), *Path(path).parents) for place in exposed)
    assert "/" not in exposed


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_a_sandbox_of_somebody_else_under_our_name_is_not_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(NAME_VARIABLE, "squatted")
    ready, is_ready = os.pipe()
    done, is_done = os.pipe()
    squatter = os.fork()
    if squatter == 0:
        os.close(is_done)
        os.setresuid(12345, 12345, 12345)
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(address().replace("/12345/", "/0/"))
            taken.listen(16)
            os.write(is_ready, b"+")
            os.read(done, 1)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"+"
        assert not is_up()
        assert client.down() is False
        with pytest.raises(SlurmUnavailableError, match=f"in use by process {squatter} of uid"):
            client.find()
    finally:
        os.close(is_done)
        os.waitpid(squatter, 0)
        for end in (ready, is_ready, done):
            os.close(end)
