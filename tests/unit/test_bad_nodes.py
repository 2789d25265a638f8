"""What the end of a job says of its nodes, and for how long it is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Dict

import pytest

from neuronctl.records.bad_nodes import DAYS, NodeFault, bad_nodes, remember_fault
from neuronctl.records.job_record import JobRecord, RecordDraft, draft_fields
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.node_faults import remember_failed_nodes

NOW = 1_000_000


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "neuronctl" / "bad-nodes.json"


def known(cluster: str = "neuron") -> Dict[str, str]:
    return {node: fault.why for node, fault in bad_nodes(cluster, NOW).items()}


def end(folder: Path, log: str, **given: Any) -> None:
    """Learn from the end of a job with that log."""
    path = folder / "job.out"
    path.write_text(log)
    draft = RecordDraft(str(folder), {}, "train", "gpu", str(path))
    made = {"key": "k", "status": "submitted", "begun_at": 1, "job_id": 7}
    who = {"user": "me", "host": "h", "version": "1", "cluster": "neuron"}
    record = JobRecord(**draft_fields(draft), **made, **who)
    base: Dict[str, Any] = {"node_list": "n[1-3]", "end": NOW, "start": NOW - 50, "elapsed": 50}
    job = JobStatus(JobId(7), 7, "train", "me", "gpu", "FAILED", "", "squeue", record=record)
    remember_failed_nodes(record, replace(job, **{**base, **given}))


PORT = "cannot reach 10.0.0.1 port 10007, the first node"


@pytest.mark.parametrize(
    ("log", "given", "nodes"),
    [
        ("preflight: n2: nvidia-smi finds no GPU\n", {}, ["n2"]),
        ("preflight: n1: 8 GPUs requested, 7 available\n", {"node_list": "n1"}, ["n1"]),
        ("preflight: n1: cannot read train.py\n", {"node_list": "n1"}, []),
        ("".join(f"preflight: n{n}: cannot read x\n" for n in (1, 2, 3)), {}, []),
        (f"preflight: n2: {PORT}\n", {}, ["n2"]),
        (f"preflight: n2: {PORT}\npreflight: n3: {PORT}\n", {}, []),
        ("preflight: elsewhere: nvidia-smi finds no GPU\n", {}, []),
        ("srun: error: Node failure on n3\n", {"state": "NODE_FAIL"}, ["n3"]),
        ("", {"state": "NODE_FAIL", "node_list": "n1"}, ["n1"]),
        ("CUDA error: uncorrectable ECC error encountered\n", {"node_list": "n1"}, ["n1"]),
        ("ValueError: x\n", {"node_list": "n1", "elapsed": 2}, []),
        ("preflight: n2: nvidia-smi finds no GPU\n", {"state": "COMPLETED"}, []),
    ],
)
def test_the_node_at_fault(log: str, given: Any, nodes: Any, tmp_path: Path) -> None:
    end(tmp_path, log, **given)
    assert list(known()) == nodes


def test_forgotten_after_days() -> None:
    remember_fault(NodeFault("n1", 5, NOW - DAYS * 86400 - 1, "old", "neuron"))
    remember_fault(NodeFault("n2", 6, NOW - 100, "first", "neuron"))
    remember_fault(NodeFault("n2", 7, NOW - 10, "second", "neuron"))
    remember_fault(NodeFault("n3", 7, NOW, "elsewhere", "other"))
    assert known() == {"n2": "second"} and known("other") == {"n3": "elsewhere"}


@pytest.mark.parametrize("text", ["{", "[1]", '[{"node": 1, "job": 1, "at": 1, "why": ""}]', "["])
def test_what_is_no_file_of_ours_is_passed_over(own_state: Path, text: str) -> None:
    remember_fault(NodeFault("n1", 5, NOW, "known", "neuron"))
    own_state.write_text(text)
    assert known() == {}
