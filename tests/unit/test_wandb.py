"""One W&B run for one training: which scripts name it, its id, and where its address is read."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from plan_builders import plan_of

from neuronctl.planning.planner import plan
from neuronctl.records.store import RecordDraft, RecordStore
from neuronctl.rendering.render import render_job
from neuronctl.request.job import StepRequest
from neuronctl.rules.python_program import wandb_init_line
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.wandb_runs import offline_runs, wandb_url

LINE = re.compile("(?m)^ *\\[\\[ .*WANDB.*$")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch, wandb\n")


def lines(**fields: Any) -> List[str]:
    return LINE.findall(render_job(plan_of(partition="gpu", preflight=False, **fields)))


def run_id(lines: List[str], *args: str, **env: str) -> str:
    """Return the variables that bash exports after these lines."""
    text = "\n".join([*lines, 'echo "${WANDB_RUN_ID-none} ${WANDB_RESUME-none}"'])
    command = ["bash", "-uc", text, "script", *args]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from wandb.sdk import x", True),
        ("    import wandb", True),
        ("Trainer(logger=WandbLogger())", True),
        ("TrainingArguments(report_to='wandb')", True),
        ("import logs.own", True),
        ("print('wandb')  # import wandb", False),
        ("import wandb\nwandb.agent(id, train)", False),
        ("import wandb\nwandb.init(reinit=True)", False),
    ],
)
def test_only_programs_that_log_one_run_name_it(text: str, names: bool) -> None:
    Path("logs").mkdir()
    Path("logs/own.py").write_text("import wandb\n")
    Path("train.py").write_text(text + "\n")
    assert bool(lines(script="train.py")) == names


@pytest.mark.parametrize("env", [("WANDB_RUN_ID", "mine"), ("WANDB_SWEEP_ID", "s1")])
def test_a_run_that_the_job_names_is_kept(env: Any) -> None:
    assert lines(script="train.py", env=(env,)) == []


def test_ids_of_jobs_arrays_and_what_they_continue() -> None:
    job = lines(script="train.py")
    assert run_id(job, SLURM_JOB_ID="9") == "nc-toy-9 allow\n"
    assert run_id(job, "mark", "2", "8", "7", SLURM_JOB_ID="9") == "nc-toy-7 allow\n"
    array = lines(script="train.py", array="0-3")
    ids = {"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "3"}
    assert run_id(array, **ids) == "nc-toy-9_3 allow\n"
    assert run_id(array, "mark", "1", "", "4", **ids) == "nc-toy-4_3 allow\n"


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"WANDB_RUN_ID": "mine"}, "mine none\n"),
        ({"WANDB_SWEEP_ID": "s1"}, "none none\n"),
        ({"WANDB_RUN_ID": "nc-toy-3"}, "nc-toy-9 allow\n"),  # of a job that submitted this one
    ],
)
def test_what_the_environment_names_is_kept(env: Dict[str, str], expected: str) -> None:
    assert run_id(lines(script="train.py"), SLURM_JOB_ID="9", **env) == expected


def test_each_step_has_a_run() -> None:
    step = StepRequest(script="train.py")
    both = lines(steps=(step, StepRequest(together=(step, StepRequest(body="true")))))
    assert len(both) == 3
    assert run_id(both[:2], SLURM_JOB_ID="9") == "nc-toy-9-1 allow\n"
    assert run_id([both[0], both[2]], SLURM_JOB_ID="9") == "nc-toy-9-2-1 allow\n"


def test_a_chain_hands_the_first_job_on() -> None:
    chain = plan_of(script="train.py", until_done=True, partition="gpu")
    text = render_job(plan(chain.request, chain.cluster, chain="not requeued here"))
    assert "first=${4:-$SLURM_JOB_ID}" in text and '"$SLURM_JOB_ID" "$first")' in text
    Path("train.py").write_text("import torch\n")
    assert "first" not in render_job(plan(chain.request, chain.cluster, chain="not requeued"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import wandb\nwandb.init()", 2),
        ("import wandb\ndef main():\n    wandb.init()\nif __name__ == '__main__':\n    main()", 3),
        ("if rank == 0:\n    wandb.init()", 0),
        ("if rank == 0:\n    pass\nwandb.init()", 3),
        ("def f():\n    wandb.init()\nif is_main_process():\n    f()", 0),
        ("def f(rank):\n    if rank:\n        return\n    wandb.init()\nf(1)", 0),
        ("@rank_zero_only\ndef f():\n    wandb.init()\nf()", 0),
        ("wandb.init(mode='online' if rank == 0 else 'disabled')", 0),
        ("wandb.init(group='ddp')", 0),
        ("wandb.init(", 0),
        ("wandb.login()", 0),
    ],
)
def test_which_wandb_init_every_rank_reaches(text: str, line: int) -> None:
    assert wandb_init_line(text) == line


def test_addresses_and_folders_of_a_jobs_runs(tmp_path: Path) -> None:
    """The log names the run, or its folder; folders that were uploaded are left out."""
    draft = RecordDraft(
        cwd=str(tmp_path), request={}, job_name="t", partition="gpu", output=f"{tmp_path}/%j.out",
        script="WANDB_RUN_ID=nc-toy-$SLURM_JOB_ID",
    )  # fmt: skip
    store = RecordStore.default()
    record = store.complete(store.begin(draft), 7)
    status = JobStatus(
        JobId(7), 7, "t", "kim", "gpu", "COMPLETED", "", "squeue", work_dir=str(tmp_path),
        record=record,
    )  # fmt: skip
    assert wandb_url(status) == "" and offline_runs(status) == ()
    kept = [f"offline-run-2026110{day}_101112-nc-toy-{job}" for day, job in ((2, 7), (1, "7-1"))]
    for name in (
        *kept,
        "offline-run-20261103_101112-nc-toy-7",
        "offline-run-20261104_101112-nc-toy-77",
    ):
        (tmp_path / "wandb" / name).mkdir(parents=True)
    (tmp_path / "wandb/offline-run-20261103_101112-nc-toy-7/run-x.wandb.synced").touch()
    own = tmp_path / "a b/offline-run-20261105_101112-x"
    own.mkdir(parents=True)
    (tmp_path / "7.out").write_text(f"wandb: Run data is saved locally in {own}\n")
    assert offline_runs(status) == (
        *(str(tmp_path / "wandb" / name) for name in reversed(kept)),
        str(own),
    )
    (tmp_path / "7.out").write_text("url https://wandb.ai/me/p/runs/nc-toy-7 \n")
    assert wandb_url(status) == "https://wandb.ai/me/p/runs/nc-toy-7"
    assert wandb_url(dataclasses.replace(status, record=None)) == ""
