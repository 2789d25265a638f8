"""What doctor says of a Slurm that answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from neuronctl import doctor


def test_all_nodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = (SimpleNamespace(names=("n1", "n2", "n3")), SimpleNamespace(names=("m1",)))
    config = SimpleNamespace(version="24.05", cluster="lab", enforce=())
    limits = SimpleNamespace(config=config, nodes=groups, partitions=("gpu",), qos=None)
    monkeypatch.setattr(doctor, "installed", lambda: True)
    snapshot = SimpleNamespace(limits=limits)
    reading = SimpleNamespace(answer=lambda: snapshot)
    monkeypatch.setattr(doctor, "Question", lambda **_: reading)
    assert next(doctor._slurm()).words.endswith("1 partition, 4 nodes")
