"""neuronctl status, with fake Slurm commands: whom it asks, and what it shows when they fail."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row
from recorded import record

Run = Callable[..., Any]


def jobs(stdout: str) -> List[Dict[str, Any]]:
    data = json.loads(stdout)
    assert data["schema"] == "neuronctl.status/1"
    found: List[Dict[str, Any]] = data["jobs"]
    return found


def test_no_jobs(run: Run, fake_slurm: FakeSlurm) -> None:
    assert run("status").stdout == "no jobs of yours, in the queue or in the last 24 hours\n"
    assert jobs(run("status", "--json").stdout) == []
    assert all(call[-1] == f"--user={os.getuid()}" for call in fake_slurm.calls())


def test_only_those_in_a_state(run: Run, fake_slurm: FakeSlurm) -> None:
    waits = {"state": "PENDING", "reason": "Priority", "start": "N/A", "node_list": ""}
    fake_slurm.queue(queue_row("1"), queue_row("2", **waits), queue_row("3_[1-3]", **waits))
    for word, ids in (("running", ["1"]), ("pd", ["2", "3_[1-3]"]), ("Failed", [])):
        told = jobs(run("status", "--state", word, "--json").stdout)
        assert [one["job_id"] for one in told] == ids
    assert "no FAILED jobs of yours" in run("status", "--state", "failed").stdout
    assert len(run("status", "--state", "running").stdout.splitlines()) == 2
    said = run("status", "--state", "runing", code=2).stderr
    assert "'runing' is not a state of a job" in said and "running" in said
    assert "no matching jobs: none" in run("status", "--state", "running", "none", code=8).stderr


def test_queue_accounting_and_record_in_one_table(run: Run, fake_slurm: FakeSlurm) -> None:
    for job_id in (1, 2, 3):
        record(job_id, gpus_per_node=2)
    fake_slurm.queue(
        queue_row("1"),
        queue_row(
            "4",
            state="PENDING",
            reason="Priority",
            start="N/A",
            node_list="",
            name="a b|c\nd\x1b[31m",
        ),
        queue_row(
            "5_[1-3%1]", state="PENDING", reason="BecauseX", start="N/A", node_list="", gres="N/A"
        ),
    )
    fake_slurm.accounting(accounting_row("2", state="FAILED", exit="3:0"))
    result = run("status")
    assert result.stderr == ""
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines == [
        "JOB NAME PARTITION STATE REASON OR EXIT USED/LIMIT NODES GPUS FROM",
        "1 train cpu RUNNING on gpu01 1:02/10:00 1 2 squeue",
        "2 train cpu FAILED exit code 3:0 1:02/10:00 1 2 sacct",
        "3 train cpu UNKNOWN neither in the queue nor in accounting -/10:00 1 2 record",
        "4 a b|c\\nd\\x1b[31m cpu PENDING jobs with higher priority are ahead 1:02/10:00 1 2 squeue",  # noqa: E501
        "5_[1-3%1] train cpu PENDING BecauseX 1:02/10:00 1 squeue",
    ]
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "sacct"]
    assert "--jobs=2,3" in fake_slurm.calls("sacct")[0]


def test_json(run: Run, fake_slurm: FakeSlurm) -> None:
    key = record(7, gpus_per_node=2).key
    fake_slurm.queue(queue_row("7", state="FAILED", limit="UNLIMITED", exit="9"))
    fake_slurm.accounting(accounting_row("7", state="FAILED", exit="0:9"))
    (job,) = jobs(run("status", "7", "--json").stdout)
    assert job == {
        "job_id": "7", "own_id": 7, "name": "train", "user": "kim", "partition": "cpu",
        "qos": "normal", "state": "FAILED", "reason": "", "reason_words": "", "advice": "",
        "ended": True, "exit_code": 0, "signal": 9,
        "cancelled_by": None, "submit": "2037-01-01T10:00:00Z", "start": "2037-01-01T10:00:05Z",
        "expected_start": None,
        "end": "2037-01-01T10:10:05Z", "elapsed": 62, "time_limit": None, "unlimited": True,
        "nodes": 1, "node_list": "gpu01", "gpus": 2, "work_dir": "/scratch/kim",
        "stdout": "/scratch/kim/train-7.out", "stderr": "/scratch/kim/train-7.out",
        "source": "squeue", "record": key, "wandb_url": None, "server": None,
    }  # fmt: skip


def test_the_json_page_names_every_key(run: Run, fake_slurm: FakeSlurm, root: Path) -> None:
    fake_slurm.queue(queue_row("7"))
    (job,) = jobs(run("status", "--json").stdout)
    page = (root / "docs/reference/json.md").read_text(encoding="utf-8")
    section = page.partition("## neuronctl.status/1")[2].partition("\n## ")[0]
    assert [key for key in job if f"| `{key}` |" not in section] == []
    assert section.count("\n| `") == len(job)


def test_by_id(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7_3", own="9"), queue_row("7_[4-8]", state="PENDING"))
    assert [job["job_id"] for job in jobs(run("status", "7", "--json").stdout)] == [
        "7_3", "7_[4-8]",
    ]  # fmt: skip
    assert [job["job_id"] for job in jobs(run("status", "7_3", "--json").stdout)] == ["7_3"]
    assert [job["job_id"] for job in jobs(run("status", "7_5", "--json").stdout)] == ["7_[4-8]"]
    assert [job["job_id"] for job in jobs(run("status", "9", "--json").stdout)] == ["7_3"]


def test_unknown_id(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7"))
    result = run("status", "7", "99", "98_1", code=8)
    assert "train" in result.stdout
    assert "no matching jobs: 99, 98_1" in result.stderr
    fake_slurm.forget()
    assert "no matching jobs: 99" in run("status", "99", code=8).stderr


@pytest.mark.parametrize("word", ["", "-1", "0", "4711.1", "4711_"])
def test_what_is_no_id(run: Run, fake_slurm: FakeSlurm, word: str) -> None:
    run("status", "--", word, code=2)
    assert fake_slurm.calls() == []


def test_since_and_ids(run: Run, fake_slurm: FakeSlurm) -> None:
    assert "cannot be combined with" in run("status", "--since", "1d", "7", code=2).stderr


def test_slurm_does_not_answer(run: Run, fake_slurm: FakeSlurm) -> None:
    record(7)
    fake_slurm.answer(
        "squeue", stderr="slurm_load_jobs error: Unable to contact slurm controller\n", code=1
    )
    result = run("status", code=6)
    assert "UNKNOWN  Slurm is not responding" in result.stdout
    assert "Unable to contact slurm controller; what you see is what" in result.stderr
    (job,) = jobs(run("status", "7", "--json", code=6).stdout)
    assert (job["state"], job["source"]) == ("UNKNOWN", "record")


@pytest.mark.parametrize("words", [("status",), ("status", "--watch")])
def test_no_slurm_at_all(words: Tuple[str, ...], run: Run, tmp_path: Path) -> None:
    record(7)
    result = run(*words, code=6, env={"PATH": str(tmp_path)})
    assert ("train" in result.stdout) == (len(words) == 1)
    assert "squeue not found" in result.stderr and "neuronctl generate" in result.stderr


def test_slurm_refuses(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("squeue", stderr="squeue: error: Invalid user: 1000\n", code=1)
    assert "squeue refused the request: Invalid user: 1000" in run("status", code=7).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Slurm accounting storage is disabled\n", "accounting is disabled"),
        (
            "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent "
            "connection to host:db:6819: Connection refused\n",
            "cannot reach the accounting database (slurmdbd)",
        ),
        ("sacct: error: the moon is full\n", "sacct refused the request: the moon is full"),
    ],
)
def test_accounting_is_away(run: Run, fake_slurm: FakeSlurm, words: str, said: str) -> None:
    record(7)
    record(8)
    fake_slurm.queue(queue_row("8", state="TIMEOUT"))
    fake_slurm.answer("sacct", stderr=words, code=1)
    result = run("status")
    assert said in result.stderr
    assert "no longer in the queue" in result.stdout and "time limit reached" in result.stdout
    # The controller will forget it, and nobody else knows.
    fake_slurm.queue()
    (_, job) = jobs(run("status", "--json").stdout)
    assert (job["state"], job["source"]) == ("TIMEOUT", "record")


def test_some_waiting_tasks_of_an_array(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7_[2-9]", own="7", state="PENDING"), queue_row("7_1", own="8"))
    (row,) = jobs(run("status", "--json", "7_[3-5]").stdout)
    assert row["job_id"] == "7_[2-9]"


def test_ids_and_names_together(run: Run, fake_slurm: FakeSlurm) -> None:
    rows = [queue_row("7", name="prepare"), queue_row("8"), queue_row("9", name="other")]
    fake_slurm.queue(*rows)
    listed = jobs(run("status", "--json", "7", "tr*", "8").stdout)
    assert [job["job_id"] for job in listed] == ["7", "8"]
    assert "no matching jobs: nix*" in run("status", "7", "nix*", code=8).stderr


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("stall", "the job no longer moves: for 30 min, this log has not changed\nstacks\n"),
        ("idle", "idle: no GPU was used, so the job ends\n"),
    ],
)
def test_a_job_that_its_own_script_ended(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, option: str, line: str
) -> None:
    """Its own scancel is not the user's."""
    log = tmp_path / "7.out"
    record(7, output=str(log), cwd=str(tmp_path), request={option: "30m"})
    me = f"CANCELLED by {os.getuid()}"
    ended = {"state": "CANCELLED", "name": "train", "work_dir": str(tmp_path)}
    fake_slurm.queue(queue_row("7", **ended))
    fake_slurm.accounting(accounting_row("7", **{**ended, "state": me}))
    log.write_text("step 1\n")
    assert "cancelled by you" in run("status").stdout
    log.write_text(line)
    assert f"--{option} ended it" in run("status").stdout
