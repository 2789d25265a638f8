"""Where the logs of a job are that slurmctld has forgotten: its command line and script say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.sacct import SACCT, parse_sacct
from neuronctl.tracking import lookup
from neuronctl.tracking.job_status import JobStatus

SCRIPT = "#!/bin/bash\n#SBATCH -o out-%x-%j.txt\nsrun a.out\n"


@pytest.fixture
def job(tmp_path: Path) -> Any:
    """``job("sbatch …")``: a job of accounting, with a script beside it."""
    (tmp_path / "job.sh").write_text(SCRIPT)

    def make(line: str, **given: Any) -> JobStatus:
        values: Any = {
            "id": JobId(7), "job_id": 7, "name": "train", "user": "kim", "partition": "gpu",
            "state": "FAILED", "reason": "", "source": "sacct", "node_list": "n[1-2]",
            "work_dir": str(tmp_path), "submit_line": line,
        }  # fmt: skip
        return JobStatus(**{**values, **given})

    return make


@pytest.mark.parametrize(
    ("line", "logs"),
    [
        ("sbatch job.sh a b", ("out-train-7.txt", "out-train-7.txt")),
        ("/usr/bin/sbatch -o x.%j -e y.%N job.sh", ("x.7", "y.n1")),
        ("sbatch --parsable -p gpu --output=logs/%u job.sh", ("logs/kim", "logs/kim")),
        ("sbatch -e err --wrap hostname", ("slurm-7.out", "err")),
        ("sbatch -o gone.%j gone.sh", ("gone.7", "gone.7")),
    ],
)
def test_logs_of_a_plain_job_that_slurmctld_has_forgotten(job: Any, line: str, logs: Any) -> None:
    assert lookup._submitted_logs(job(line)) == logs


@pytest.mark.parametrize(
    "line", ["", "salloc -o x", "srun -o x a.out", "sbatch gone.sh", "sbatch -o"]
)
def test_logs_that_nothing_names(job: Any, line: str) -> None:
    assert lookup._submitted_logs(job(line)) is None


def test_logs_of_an_array_task(job: Any) -> None:
    status = job("sbatch -a 0-3 -o %A-%a-%j job.sh", id=JobId(7, task=2), job_id=9)
    assert lookup._submitted_logs(status) == ("7-2-9", "7-2-9")


def test_accounting_tells_where_the_logs_are(
    job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "sacct_logs", lambda _: None)  # of Slurm before 24.05
    log = str(tmp_path / "out-train-7.txt")
    assert lookup.log_paths(job("sbatch job.sh")) == (log, log, False)


def test_the_submit_line_of_accounting_keeps_its_mark() -> None:
    values = "7|7|kim|gpu|normal|FAILED|1:0||||60||1|n1||||sbatch /dev/stdin neuronctl-ab12 x|t"
    row = parse_sacct(values.replace("|", SACCT[-1].partition("=")[2]))[0]
    assert (row.mark, row.submit_line[:6]) == ("ab12", "sbatch")
