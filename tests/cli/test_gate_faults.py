"""The gate where Slurm answers wrongly, late or not at all: an honest word, and on it goes."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from fake_slurm import FakeSlurm

Run = Callable[..., Any]
JOB = ["submit", "--dry-run", "--json", "-p", "cas_v100nv_4", "--gpus-per-node", "4", "--force"]
ASKED = [*JOB, "--catalog", "here.yaml", "--field", "misc", "--appl", "pytorch", "t.py"]

SCONTROL = (
    "ClusterName             = neuron\n"
    "MaxArraySize            = 1001\n"
    "AccountingStorageEnforce = associations,limits,qos\n"
    "PartitionName=cas_v100nv_4 AllowGroups=ALL QoS=p4 MaxNodes=UNLIMITED MaxTime=2-00:00:00 "
    "Nodes=gpu[06-09] State=UP TotalNodes=4\n"
    + "".join(
        f"NodeName=gpu{number} CPUAlloc=0 CPUTot=40 Gres=gpu:v100:4 GresUsed=gpu:v100:0 "
        "State=IDLE RealMemory=384000 AllocMem=0 Partitions=cas_v100nv_4\n"
        for number in ("06", "07", "08", "09")
    )
)


@pytest.fixture
def slurm(fake_slurm: FakeSlurm, tmp_path: Path) -> FakeSlurm:
    (tmp_path / "t.py").write_text("print(1)\n")
    anywhere = "clusters: {neuron: {policy: {submit_from: []}}}\n"
    (tmp_path / "here.yaml").write_text(anywhere)
    fake_slurm.answer("scontrol", SCONTROL)
    return fake_slurm


def answer(run: Run, **given: Any) -> Dict[str, Any]:
    verdict = json.loads(run(*ASKED, **given).stdout)["verdict"]
    assert isinstance(verdict, dict)
    return verdict


@pytest.mark.parametrize(
    ("command", "said", "words"),
    [
        ("squeue", {"stdout": "garbage\n"}, "squeue's answer cannot be read: 'garbage"),
        ("squeue", {"stdout": "x\x1f" * 12 + "@END@\n"}, "squeue's answer cannot be read"),
        ("squeue", {"stderr": "slurm_load_jobs error: no\n", "code": 1}, "squeue refused"),
        ("squeue", {"delay": 600}, "squeue did not respond within 8 s"),
        ("scontrol", {"stdout": "garbage\n"}, "scontrol's answer cannot be read"),
        ("scontrol", {"stderr": "Unable to contact slurm controller", "code": 1}, "cannot reach"),
        ("scontrol", {"delay": 600}, "scontrol did not respond within 8 s"),
    ],
)
def test_a_fault_is_said_and_the_catalog_judges(
    run: Run, slurm: FakeSlurm, command: str, said: Dict[str, Any], words: str
) -> None:
    slurm.answer(command, **said)
    verdict = answer(run, patience=8 if "delay" in said else 60)
    assert verdict["kind"] == "not known"
    assert verdict["judged_by"].startswith("the catalog alone: ")
    assert words in verdict["judged_by"]


def test_a_refusal_says_too_who_judged(run: Run, slurm: FakeSlurm) -> None:
    slurm.answer("squeue", "garbage\n")
    words = [word for word in ASKED if word not in ("--json", "--force")]
    result = run(*words[:-1], "-t", "3-0", "t.py", code=4, patience=60)
    assert "judged by the catalog alone: squeue's answer cannot be read" in result.stderr


def test_a_sacctmgr_that_hangs_leaves_the_rest_of_the_verdict(
    run: Run, slurm: FakeSlurm, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin" / "sacctmgr"
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{slurm.env['PATH']}"
    verdict = answer(run, env={"PATH": path}, patience=10)
    assert (verdict["kind"], verdict["judged_by"]) == ("not known", "Slurm")
    assert "Slurm's own limits are not known" in verdict["words"]


def test_the_slurm_of_another_cluster_is_no_judge(run: Run, slurm: FakeSlurm) -> None:
    slurm.answer("scontrol", SCONTROL.replace("= neuron\n", "= other\n"))
    verdict = answer(run, patience=60)
    assert "that of cluster 'other', and the job is for neuron" in verdict["judged_by"]


def test_a_job_in_a_reservation_that_has_not_begun_is_not_tested(
    run: Run, slurm: FakeSlurm
) -> None:
    slurm.answer("squeue", "")
    slurm.answer(
        "scontrol",
        f"{SCONTROL}ReservationName=course StartTime=2098-01-01T00:00:00 "
        "EndTime=2099-01-01T00:00:00 Nodes=gpu[06-09] NodeCnt=4 CoreCnt=160 "
        f"Users={getpass.getuser()} Accounts=(null) State=INACTIVE\n",
    )
    words = [*ASKED[:-1], "--reservation", "course", "t.py"]
    slurm.answer("sbatch", stderr="allocation failure: Invalid time specified\n", code=1)
    verdict = json.loads(run(*words, patience=60).stdout)["verdict"]
    assert (verdict["kind"], verdict["cause"]) == ("will wait", "Reservation")
    assert slurm.calls("sbatch") == []


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: Job 7 to start at 1000000000 using 8 processors", "probably can start now"),
        ("allocation failure: Requested node configuration is not available", "probably refused"),
        ("allocation failure: Required node not available", "probably will wait"),
        ("sbatch: Job 7 to start at 4000000000 using 8 processors", "not known"),
    ],
)
def test_what_sbatch_makes_of_what_is_not_known(
    run: Run, slurm: FakeSlurm, said: str, kind: str
) -> None:
    slurm.answer("squeue", "")
    slurm.answer("sacctmgr", "")
    slurm.answer("sbatch", stderr=f"{said}\n", code=int("failure" in said))
    words = [*ASKED[:-1], "--sbatch", "contiguous", "t.py"]
    verdict = json.loads(run(*words, patience=60).stdout)["verdict"]
    assert verdict["kind"] == kind
    assert "contiguous is not judged here" in verdict["words"]
