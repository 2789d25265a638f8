"""What the end of a job says of its nodes, and for how long it is known."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict

import pytest

from neuronctl.records.job_record import JobRecord, RecordDraft
from neuronctl.slurm.bad_nodes import DAYS, NodeFault, bad_nodes, forget, remember_fault
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.node_faults import learn

NOW = 1_000_000


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "neuronctl" / "bad-nodes"


def known(cluster: str = "neuron") -> Dict[str, str]:
    return {node: fault.why for node, fault in bad_nodes(cluster, NOW).items()}


def end(folder: Path, log: str, **given: Any) -> None:
    """Learn from the end of a job with that log."""
    from neuronctl.slurm.job_id import JobId

    path = folder / "job.out"
    path.write_text(log)
    draft = RecordDraft(str(folder), {}, "train", "gpu", str(path))
    made = {"key": "k", "status": "submitted", "begun_at": 1, "script_sha256": "s", "job_id": 7}
    who = {"user": "me", "host": "h", "version": "1", "cluster": "neuron", "stdout": str(path)}
    record = JobRecord.of(draft, **made, **who)
    base: Dict[str, Any] = {"node_list": "n[1-3]", "end": NOW, "start": NOW - 50, "elapsed": 50}
    told = ("train", "me", "gpu", "FAILED", "", "squeue")
    learn(record, JobStatus(JobId(7), 7, *told[:3], **{"state": told[3], **base, **given,
          "reason": "", "source": "squeue", "record": record}))  # fmt: skip


PORT = "cannot reach 10.0.0.1 port 10007, the first node"


@pytest.mark.parametrize(
    ("log", "given", "nodes"),
    [
        ("preflight: n2: nvidia-smi finds no GPU\n", {}, ["n2"]),
        ("preflight: n1: 8 GPUs requested, 7 available\n", {"node_list": "n1"}, ["n1"]),
        ("preflight: n1: cannot read train.py\n", {"node_list": "n1"}, []),
        ("preflight: n1: cannot read x\npreflight: n2: cannot read x\n", {}, ["n1", "n2"]),
        ("".join(f"preflight: n{n}: cannot read x\n" for n in (1, 2, 3)), {}, []),
        (f"preflight: n2: {PORT}\n", {}, ["n2"]),
        (f"preflight: n2: {PORT}\npreflight: n3: {PORT}\n", {}, []),
        ("preflight: elsewhere: nvidia-smi finds no GPU\n", {}, []),
        ("preflight: ../x: nvidia-smi finds no GPU\n", {"node_list": "../x"}, []),
        ("srun: error: Node failure on n3\n", {"state": "NODE_FAIL"}, ["n3"]),
        ("", {"state": "NODE_FAIL"}, []),
        ("", {"state": "NODE_FAIL", "node_list": "n1"}, ["n1"]),
        ("CUDA error: uncorrectable ECC error encountered\n", {"node_list": "n1"}, ["n1"]),
        ("CUDA error: uncorrectable ECC error encountered\n", {}, []),
        ("ValueError: x\n", {"node_list": "n1", "elapsed": 2}, []),
        ("preflight: n2: nvidia-smi finds no GPU\n", {"state": "COMPLETED"}, []),
    ],
)
def test_the_node_at_fault(log: str, given: Any, nodes: Any, tmp_path: Path) -> None:
    end(tmp_path, log, **given)
    assert list(known()) == nodes


def test_forgotten_after_days_after_a_good_job_and_on_request(own_state: Path) -> None:
    remember_fault(NodeFault("n1", 5, NOW - DAYS * 86400 - 1, "old", "neuron"))
    remember_fault(NodeFault("n2", 6, NOW - 100, "first", "neuron"))
    remember_fault(NodeFault("n2", 7, NOW - 10, "second", "neuron"))
    remember_fault(NodeFault("n3", 7, NOW, "elsewhere", "other"))
    assert known() == {"n2": "second"} and known("other") == {"n3": "elsewhere"}
    assert not (own_state / "n1@5.json").exists()
    assert forget(["n2"], before=NOW - 50) == ("n2",) and known() == {"n2": "second"}
    assert forget(["n2", "n9"]) == ("n2",) and known() == {}


def test_a_job_that_completed_speaks_for_its_nodes(tmp_path: Path) -> None:
    end(tmp_path, "preflight: n2: nvidia-smi finds no GPU\n")
    end(tmp_path, "", state="COMPLETED", node_list="n[1-3]", start=NOW - 5)
    assert list(known()) == ["n2"], "it began before that one failed"
    end(tmp_path, "", state="COMPLETED", node_list="n[1-3]", start=NOW + 5)
    assert known() == {}


def test_what_is_no_file_of_ours_is_passed_over(own_state: Path) -> None:
    remember_fault(NodeFault("n1", 5, NOW, "known", "neuron"))
    for name, text in {
        "n2@6.json": "{", "n3@7.json": json.dumps({"node": "n9", "job": 7, "at": NOW, "why": ""}),
        "n4@8.json": json.dumps({"node": "n4", "job": 8, "at": "x", "why": ""}), "x": "",
        "n5@9.json": "[" * 100_000,
    }.items():  # fmt: skip
        (own_state / name).write_text(text)
    os.mkfifo(own_state / "n6@9.json")
    assert known() == {"n1": "known"}
    own_state.chmod(0)
    assert os.getuid() == 0 or known() == {}
    own_state.chmod(0o700)
