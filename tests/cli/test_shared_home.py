"""Two login nodes, each with processes of its own, and one home directory.

Nothing is lost, nothing is doubled, and nobody is told of an end that was none.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable

import pytest
from fake_slurm import FakeSlurm, queue_row
from recorded import draft, record
from test_recovery import cut_off, files, marked

from neuronctl.common import files as private
from neuronctl.records.recovery import Recovery
from neuronctl.records.store import RecordStore
from neuronctl.slurm.sacct import Accounting

Run = Callable[..., Any]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """The environment of a login node of the cluster of this name."""

    def of(cluster: str) -> dict[str, str]:
        conf = tmp_path / f"{cluster}.conf"
        conf.write_text(f"ClusterName={cluster}\n")
        return {"SLURM_CONF": str(conf)}

    return of


@pytest.mark.parametrize("age", [90, 7200])
def test_another_clusters_submission_is_left_to_it(
    run: Run, fake_slurm: FakeSlurm, elsewhere: Callable[[str], dict[str, str]], age: int
) -> None:
    """This cluster's Slurm does not know the job, which says nothing."""
    key = cut_off(age, cluster="one")
    assert run("status", env=elsewhere("two")).stderr == ""
    row = json.loads(run("history", "--json", env=elsewhere("two")).stdout)["submissions"][0]
    assert row["status"] == "intent"
    assert files() == [f"{key}.intent.json"]
    fake_slurm.queue(queue_row("7", command=marked(key)))
    assert "is job 7: its record is now complete" in run("status", env=elsewhere("one")).stderr
    assert files() == [f"{key}.one.7.json"]
    fake_slurm.queue(queue_row("7", name="other", work_dir="/elsewhere"))
    (job,) = json.loads(run("status", "--json", env=elsewhere("two")).stdout)["jobs"]
    assert (job["name"], job["record"]) == ("other", None)


def test_a_submission_that_goes_on_after_it_was_given_up(run: Run, fake_slurm: FakeSlurm) -> None:
    """Stopped with Ctrl-Z for an hour, while the other node said that it never arrived."""
    key = cut_off(3600)
    assert "it never reached Slurm" in run("status").stderr
    store = RecordStore.default()
    assert store.complete(key, 7, "neuron").failure == ""
    assert files() == [f"{key}.neuron.7.json"]
    assert [(one.status, one.job_id) for one in store.iter()] == [("submitted", 7)]


@pytest.mark.parametrize("cluster", ["a", "neuron"])
def test_a_jobs_record_counts_for_most(cluster: str) -> None:
    """Given up on one node between the two writes of the other."""
    store = RecordStore.default()
    key = store.begin(draft())
    intent = Path(store.directory, f"{key}.intent.json").read_bytes()
    store.complete(key, 7, cluster)
    Path(store.directory, f"{key}.intent.json").write_bytes(intent)
    store.failed(key, "it never reached Slurm")
    assert len(files()) == 2
    assert [(one.status, one.job_id) for one in store.iter()] == [("submitted", 7)]


def test_resolved_by_the_other_node_meanwhile() -> None:
    """Both found the interrupted submissions; what one resolves, the other does not speak of."""
    for resolve in (
        lambda key: RecordStore.default().complete(key, 7, None),
        lambda key: RecordStore.default().failed(key, "it never reached Slurm"),
    ):
        key = cut_off(7200)
        recovery = Recovery(RecordStore.default())
        resolve(key)
        before = files()
        recovery.settle(Accounting())
        assert (recovery.notes, files()) == ([], before)


def test_an_answer_that_another_node_has_overtaken() -> None:
    """It asked before the job ended and writes after the other node, which asked later."""
    store, other = RecordStore.default(), RecordStore.default()
    known = record(7)
    other.saw(known, "COMPLETED", exit="0:0", final=True)
    assert [seen.state for seen in store.saw(known, "RUNNING").states] == ["COMPLETED"]
    known = record(8)
    other.saw(known, "RUNNING")
    states = store.saw(known, "COMPLETED", exit="0:0", final=True).states
    assert [seen.state for seen in states] == ["RUNNING", "COMPLETED"]
    requeued = store.saw(store.get(8), "PENDING")  # type: ignore[arg-type]
    assert [seen.state for seen in requeued.states] == ["RUNNING", "COMPLETED", "PENDING"]


def test_the_same_process_number_on_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers have small ones, and often the same name: neither stands in the other's way."""
    path = tmp_path / "record.json"
    replace = os.replace

    def meanwhile(source: str, target: str, **places: int) -> None:
        monkeypatch.setattr(os, "replace", replace)
        private.write_private(str(path), "of the other")
        replace(source, target, **places)

    monkeypatch.setattr(os, "replace", meanwhile)
    private.write_private(str(path), "of the one")
    assert path.read_text() == "of the one"
    assert list(tmp_path.iterdir()) == [path]
