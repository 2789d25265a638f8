"""Why jobs of the sandbox ended, launcher by cause by nodes; of each kind one was kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest

from neuronctl.diagnosis.ended import diagnose
from neuronctl.diagnosis.evidence import Diagnosis, JobEvidence
from neuronctl.diagnosis.log_text import LogTail, text_lines
from neuronctl.slurm.fields import ExitCode
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.job_status import JobStatus

ENDS = sorted((Path(__file__).parent / "ends").glob("*.txt"))
NOT_KNOWN = {"horovodrun-sigkill-2"}  # ssh says 255 of whatever signal
"""Ends whose logs do not show what came first; ``why`` then names no cause that is not one."""


def kept(path: Path) -> Tuple[Dict[str, Any], bytes]:
    """What Slurm said of an end with the right answer, and the log."""
    head, _, log = path.read_bytes().partition(b"\n")
    return json.loads(head), log


def diagnosed(path: Path, *, by_accounting: bool = False) -> Tuple[Diagnosis, Dict[str, Any]]:
    """by_accounting: with the exit code that sacct prints, 128 less where it is above 127."""
    facts, log = kept(path)
    code, low = facts["exit_code"], False
    if by_accounting and code > 127:
        code, low = code - 128, True
    status = JobStatus(
        id=JobId(7),
        job_id=7,
        name="end",
        user="kim",
        partition="amd_a100nv_8",
        state=facts["state"],
        reason="",
        source="sacct" if by_accounting else "squeue",
        exit=ExitCode(code, facts["signal"]),
        exit_low=low,
        elapsed=facts["elapsed"],
        time_limit=facts["time_limit"],
        node_list=facts["node_list"],
    )
    canceller = "you" if facts["state"] == "CANCELLED" else ""
    logs = (LogTail("/scratch/kim/log", text_lines(log)),) if log else ()
    return diagnose(JobEvidence(status, 0, canceller=canceller, logs=logs)), facts


def is_right(made: Diagnosis, facts: Dict[str, Any]) -> bool:
    line = "" if made.line is None else made.line.text
    said = f"{made.what}\n{made.cause}\n{line}"
    return made.kind == facts["kind"] and facts["words"] in said


@pytest.mark.parametrize("by_accounting", [False, True], ids=["slurmctld", "accounting"])
@pytest.mark.parametrize("path", ENDS, ids=[path.stem for path in ENDS])
def test_the_right_answer(path: Path, by_accounting: bool) -> None:
    made, facts = diagnosed(path, by_accounting=by_accounting)
    if path.stem in NOT_KNOWN:
        assert made.kind in ("nccl", "peer", "child", "exit-code"), made
    else:
        assert is_right(made, facts), made
