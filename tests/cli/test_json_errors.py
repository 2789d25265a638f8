"""Errors of a command with --json: one document on standard output, and the message as always."""

from __future__ import annotations

import json
from typing import Any, Callable, List

import pytest
from fake_slurm import FakeSlurm

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["show", "9", "--json"], 8, "no matching jobs: 9"),
        (["show", "x y", "--json"], 8, "neither a job id nor the name of a job"),
        (["logs", "9", "--json"], 8, "no matching jobs: 9"),
        (["cancel", "--json"], 2, "no job given"),
        (["cancel", "--json", "--nonsense"], 2, "--nonsense"),
        (["history", "-n", "0", "--json"], 2, "--limit"),
        (["submit", "--json", "-p", "nowhere", "missing.py"], 2, "missing.py"),
    ],
)
def test_an_error_is_a_document(
    words: List[str], code: int, message: str, run: Run, fake_slurm: FakeSlurm
) -> None:
    fake_slurm.forget("scontrol")
    result = run(*words, code=None)
    data = json.loads(result.stdout)
    if result.returncode == 4:  # the document of a job that is refused has its findings
        assert data["schema"] == "neuronctl.submit/2"
        return
    assert list(data) == ["schema", "code", "message", "hint"]
    assert (data["schema"], data["code"]) == ("neuronctl.error/1", result.returncode)
    assert message in data["message"] and data["code"] == code
    assert f"neuronctl: {data['message']}" in result.stderr.replace("\n  ", " ")


def test_an_error_after_a_document_is_no_second_one(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.forget()
    assert json.loads(run("status", "9", "--json", code=8).stdout)["jobs"] == []


def test_without_json_standard_output_stays_empty(run: Run, fake_slurm: FakeSlurm) -> None:
    assert run("show", "9", code=8).stdout == ""
    assert run("submit", "-p", "nowhere", "missing.py", "--json", code=None).stdout == ""
