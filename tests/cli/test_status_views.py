"""neuronctl status: names, --since, folded arrays, advice, and a picture that renews itself."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Callable, List

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row
from recorded import record
from terminal import on_terminal

Run = Callable[..., Any]


@pytest.mark.parametrize("no_color", ["", "1"], ids=["colors", "NO_COLOR"])
@pytest.mark.parametrize("words", [["status"], ["status", "7", "8", "9"], ["history"]])
def test_states_at_a_glance(
    fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, words: List[str], no_color: str
) -> None:
    """Failed, running and completed jobs look different, without colors too."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    for number in (7, 8, 9, 10):
        record(number, array="0-1" if number == 10 else None)
    states = {"7": "FAILED", "8": "RUNNING", "9": "COMPLETED", "10_0": "COMPLETED"}
    states["10_1"] = "OUT_OF_MEMORY"
    fake_slurm.queue(*(queue_row(id, state=state) for id, state in states.items()))
    shown = on_terminal("", *words)
    looks = {}
    for state in ("FAILED", "RUNNING", "COMPLETED"):
        match = re.search(rf"(?:\x1b\[([0-9;]*)m)?{state}(?: |\x1b)", shown)
        assert match is not None, shown
        looks[state] = match[1]
    assert looks["FAILED"].startswith("1") and len(set(looks.values())) == 3
    assert ("31" in looks["FAILED"]) is not bool(no_color)
    if words == ["history"]:
        assert re.search(rf"\x1b\[{looks['FAILED']}m1 COMPLETED, 1 OUT_OF_MEMORY", shown)


def test_since(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.accounting(accounting_row("3"), accounting_row("4", submit="2001-01-01T00:00:00"))
    rows = json.loads(run("status", "--since", "7d", "--json").stdout)["jobs"]
    assert [row["job_id"] for row in rows] == ["3"]
    (argv,) = fake_slurm.calls("sacct")
    assert f"--user={os.getuid()}" in argv
    assert any(re.fullmatch(r"--starttime=\d{4}-.*", word) for word in argv)
    assert "is not a time" in run("status", "--since", "lately", code=2).stderr


def test_an_array_is_one_line_until_it_is_asked_for(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(
        queue_row("5_1"), queue_row("5_2", state="FAILED"), queue_row("6"),
        queue_row("5_[3-9%2]", state="PENDING", reason="JobArrayTaskLimit", start="N/A"),
    )  # fmt: skip
    lines = [" ".join(line.split()) for line in run("status").stdout.splitlines()[1:]]
    assert lines[0].startswith(
        "5_[9 tasks] train cpu RUNNING 1 FAILED, 7 PENDING, 1 RUNNING (waiting for other tasks"
    )
    assert lines[1].startswith("6 train") and len(lines) == 2
    shown = run("status", "5").stdout
    assert re.findall(r"^5_\S+", shown, re.MULTILINE) == ["5_1", "5_2", "5_[3-9%2]"]


def test_advice_where_a_job_is_asked_for(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7", state="PENDING", reason="JobHeldUser", node_list=""))
    assert "7 JobHeldUser: release it with 'scontrol release 7'" in run("status", "7").stdout
    assert "scontrol" not in run("status").stdout, "a pipe gets rows and nothing else"
    (row,) = json.loads(run("status", "--json").stdout)["jobs"]
    assert (row["reason_words"], row["advice"]) == (
        "held by its user",
        "release it with 'scontrol release 7'",
    )


def test_watching_ends_with_the_jobs(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7", state="COMPLETED"))
    shown = run("status", "--watch", "7").stdout
    assert re.match(r"as of \d\d:\d\d:\d\d, refreshed every 5 s", shown) and "COMPLETED" in shown
    assert "cannot be combined with" in run("status", "--watch", "--json", code=2).stderr


def test_watching_a_job_that_nobody_knows(run: Run, fake_slurm: FakeSlurm) -> None:
    assert "no matching jobs: 99999" in run("status", "--watch", "99999", code=8).stderr


def plain(text: str) -> str:
    """The text without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_on_a_terminal(fake_slurm: FakeSlurm, width: int) -> None:
    fake_slurm.queue(
        queue_row("7", used="5:00"), queue_row("8", state="PENDING", reason="Priority")
    )
    text = on_terminal("", "status", width=width)
    assert "\x1b[32mRUNNING" in text and "\x1b[33mPENDING" in text
    lines = plain(text).splitlines()
    assert all(len(line) <= width for line in lines), lines
    assert "RUNNING" in plain(text) and "train" in plain(text)
    assert {40: "TIME", 80: "███░░░ 5:00 left", 200: "███░░░ 5:00 left"}[width] in plain(text)


def test_the_first_pages_show_the_table_of_a_terminal(fake_slurm: FakeSlurm, root: Path) -> None:
    """Where a newcomer compares the page with the screen."""
    fake_slurm.queue(queue_row("1", state="COMPLETED"))
    header = plain(on_terminal("", "status", width=120)).splitlines()[0].split()
    for page in (
        "docs/ko/first-multi-node-training.md",
        "docs/tutorial/first-multi-node-training.md",
    ):
        (shown,) = re.findall(r"^JOB  .*", (root / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert shown.split() == header, page
