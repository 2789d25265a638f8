"""What doctor says of space that runs out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from neuronctl import doctor


def test_quotas_that_are_used_up(
    tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, answer in (("quota", "  /h 200* 100 0 6days"), ("lfs", "/s 95 0 100 - 5 0 0 -")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{answer}'\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (used,) = (check for check in doctor.examine() if check.name == "quota")
    assert (used.state, used.exit_code) == ("wrong", 9)
    assert used.words == "used up, says quota: /h 200* 100 0 6days" and "du -xh" in used.hint


def test_all_nodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = (SimpleNamespace(names=("n1", "n2", "n3")), SimpleNamespace(names=("m1",)))
    config = SimpleNamespace(version="24.05", cluster="lab", enforce=())
    limits = SimpleNamespace(config=config, nodes=groups, partitions=("gpu",), qos=None)
    monkeypatch.setattr(doctor, "installed", lambda: True)
    monkeypatch.setattr(doctor, "ask_now", lambda *_, **__: SimpleNamespace(limits=limits))
    assert next(doctor._slurm()).words.endswith("1 partition, 4 nodes")


@pytest.mark.parametrize("there", [True, False])
def test_one_place_to_submit_from_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_home: Path, there: bool
) -> None:
    place = tmp_path if there else tmp_path / "b"
    catalog = tmp_path / "site.yaml"
    catalog.write_text(
        f"clusters: {{neuron: {{policy: {{submit_from: ['{tmp_path}/a', '{place}']}}}}}}\n"
    )
    monkeypatch.setattr(doctor, "local_cluster", lambda: "neuron")
    states = [check.state for check in doctor._cluster(str(catalog))]
    assert states == ["ok"] if there else ["ok", "wrong"]
