"""Waiting for a daemon of the sandbox, with a process that stands for it."""

from __future__ import annotations

import subprocess
from typing import Iterator

import pytest

from neuronctl.sandbox import daemons
from neuronctl.sandbox.daemons import Daemon, Failure


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    process = subprocess.Popen(["sleep", "300"])
    yield Daemon("slurmctld", process)
    process.kill()
    process.wait()


def test_what_failed_to_the_end_is_said(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "TIMEOUT", 0.0)

    def ready() -> bool:
        raise Failure("'sinfo' ended with exit code 1: Broken pipe")

    with pytest.raises(
        Failure, match=r"slurmctld was not ready within 0 s: 'sinfo' .* Broken pipe"
    ):
        daemon.wait_for(ready)


def test_a_daemon_that_ends_is_not_waited_for(daemon: Daemon) -> None:
    daemon.process.kill()
    daemon.process.wait()
    with pytest.raises(Failure, match="slurmctld exited"):
        daemon.wait_for(lambda: False)
