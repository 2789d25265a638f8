"""neuronctl why, with fake Slurm commands: how many processes, which logs, what is printed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row

from neuronctl.diagnosis import knowledge
from neuronctl.records.store import RecordDraft, RecordStore
from neuronctl.slurm import sacct

Run = Callable[..., Any]


def record(job_id: int, directory: Path, **given: Any) -> None:
    values = {
        "cwd": str(directory), "command_line": (), "script": "", "request": {}, "job_name": "train",
        "partition": "cpu", "output": f"{directory}/%j.out", **given,
    }  # fmt: skip
    draft = RecordDraft(**values)
    store = RecordStore.default()
    store.complete(store.begin(draft), job_id)


def test_forgotten_by_the_controller(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path, error=f"{tmp_path}/%j.err")
    (tmp_path / "7.out").write_text("step 1\n")
    (tmp_path / "7.err").write_text("Traceback (most recent call last):\n  File\nKeyError: 'x'\n")
    fake_slurm.forget()
    fake_slurm.accounting(accounting_row("7", state="FAILED", exit="1:0"))
    result = run("why", "7")
    words = " ".join(result.stdout.split())
    assert words.startswith("Job 7 (train): failed with exit code 1. Likely cause: a dictionary or")
    assert "\nWhat to do: compare the key" in result.stdout
    assert "state FAILED, exit code 1, signal 0 (from sacct)" in words
    assert "KeyError: 'x'" in result.stdout
    assert len(fake_slurm.calls()) == 3  # one for its steps
    (job,) = json.loads(run("why", "7", "--json").stdout)["jobs"]
    assert (job["kind"], job["certain"]) == ("missing-key", False)
    assert job["entry"] == "class-key"
    log = {"path": f"{tmp_path}/7.err", "line": "KeyError: 'x'", "from_end": 1, "around": []}
    assert job["log"] == log


def test_several_jobs_by_id_and_name(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path)
    (tmp_path / "8.out").write_text("idle: no GPU was used, so the job ends\n")
    record(8, tmp_path, job_name="eval", request={"idle": "30m"})
    ended = {"state": "FAILED", "exit": "256"}
    fake_slurm.queue(
        queue_row("7", **ended), queue_row("8", name="eval", state="CANCELLED"), queue_row("9_1")
    )
    told = json.loads(run("why", "7", "eval", "9_1", "7", "--json").stdout)["jobs"]
    kinds = [(job["job_id"], job["kind"]) for job in told]
    assert kinds == [("7", "exit-code"), ("8", "idle"), ("9_1", "running")]
    assert "Job 8 (eval): --idle ended it." in run("why", "7", "eval").stdout
    assert "--stacks looks at one job" in run("why", "--stacks", "7", "8", code=2).stderr


def test_where_in_the_program_and_what_a_step_says(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    record(7, tmp_path)
    (tmp_path / "7.out").write_text(
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/kim/train.py", line 21, in forward\n'
        "[rank1]:     x = x.view(8, 3)\n"
        '[rank1]:   File "/x/lib/python3.11/site-packages/torch/nn.py", line 9, in call\n'
        "[rank1]:     return f(x)\n"
        "[rank1]: RuntimeError: shape '[8, 3]' is invalid for input of size 7\n"
    )
    fake_slurm.queue(queue_row("7", state="FAILED", name="train", exit="256"))
    text = run("why", "7").stdout
    place = "Where: /home/kim/train.py:21, in forward: x = x.view(8, 3) (rank 1, gpu01)."
    assert place in " ".join(text.split())
    assert place in " ".join(run("status", "7").stdout.split()), "the same answer"
    rows = ["7|FAILED|1:0|0:125||4G", "7.batch|FAILED|1:0||2G|", "7.0|OUT_OF_MEMORY|0:125||4G|"]
    fake_slurm.answer("sacct", "|||\n".join([*rows, ""]).replace("|", "\x1f") + "\n")
    sacct._steps_by_task.cache_clear()
    (told,) = json.loads(run("why", "7", "--json").stdout)["jobs"]
    assert (told["kind"], told["certain"]) == ("out-of-memory", True)
    assert "its step '0', which used up its memory" in told["cause"]


def test_a_log_that_the_log_names(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path)
    error = tmp_path / "error.json"
    (tmp_path / "7.out").write_text(
        f"Root Cause (first observed failure):\n  error_file: {error}\n"
    )
    trace = 'Traceback (most recent call last):\\n  File \\"t.py\\", line 3, in f\\n    g()\\n'
    error.write_text(f'{{"message": "{trace}RuntimeError: CUDA error: out of memory\\n"}}')
    fake_slurm.queue(queue_row("7", state="FAILED", name="train", exit="256"))
    (told,) = json.loads(run("why", "7", "--json").stdout)["jobs"]
    assert (told["kind"], told["log"]["path"]) == ("cuda-out-of-memory", str(error))
    assert told["where"].startswith("t.py:3, in f: g()")


def test_an_entry_of_the_users_own(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path)
    (tmp_path / "7.out").write_text("step 1\nE42: the licence of frobnicate is over\n")
    fake_slurm.queue(queue_row("7", state="FAILED", name="train", exit="256"))
    own = Path(os.environ["XDG_CONFIG_HOME"], "neuronctl", "causes.yaml")
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(
        "frobnicate:\n  patterns: 'E42: the licence of (\\w+)'\n"
        "  means: 'the site has no licence of {0} left'\n  do: 'ask helpdesk@example.org'\n"
    )
    knowledge.entries.cache_clear()
    (told,) = json.loads(run("why", "7", "--json").stdout)["jobs"]
    assert (told["entry"], told["kind"]) == ("frobnicate", "frobnicate")
    assert told["cause"] == "the site has no licence of frobnicate left"
    own.write_text("frobnicate:\n  pattern: x\n")
    knowledge.entries.cache_clear()
    message = run("why", "7", code=3).stderr
    assert f"{own}:2: frobnicate: unknown key 'pattern'" in message and "patterns" in message
    knowledge.entries.cache_clear()


@pytest.mark.parametrize(
    ("file", "given", "words"),
    [
        ("uv.lock", {"script": "train.py"}, "has a uv.lock and no .venv: run 'uv sync' there"),
        (".venv/bin/activate", {"script": "python"}, "use the environment that is there: --venv "),
        (".venv/bin/activate", {"conda": "torch"}, "What to do: install it there"),
    ],
)
def test_a_missing_module_and_the_environment_beside_the_program(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, file: str, given: Any, words: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).touch()
    (tmp_path / "7.out").write_text("ModuleNotFoundError: No module named 'torch'\n")
    record(7, tmp_path, request=given)
    fake_slurm.queue(queue_row("7", state="FAILED", exit="256", work_dir=str(tmp_path)))
    assert words in " ".join(run("why", "7").stdout.split())


def test_secrets_in_a_log(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(7, tmp_path)
    (tmp_path / "7.out").write_text(
        'Traceback (most recent call last):\n  File "t.py", line 3, in f\n'
        '    log_in(TOKEN="n0ne98")\n'
        "ValueError: WANDB_API_KEY=n0ne99, password: sesame9, key: layer.1\n"
    )
    fake_slurm.queue(queue_row("7", state="FAILED", name="train", exit="256"))
    line = "ValueError: WANDB_API_KEY=***, password: ***, key: layer.1"
    assert line in " ".join(run("why", "7").stdout.split())
    (told,) = json.loads(run("why", "7", "--json").stdout)["jobs"]
    assert told["log"]["line"] == line and line in told["log"]["around"]
    assert told["where"].startswith("t.py:3, in f: ") and "n0ne" not in json.dumps(told)


def test_a_failure_that_the_controller_still_knows(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    record(7, tmp_path)
    fake_slurm.queue(queue_row("7", state="FAILED", name="train", exit="35584"))
    lowered = accounting_row("7", state="FAILED", exit="11:0", name="train")
    fake_slurm.accounting(lowered)
    text = " ".join(run("why", "7").stdout.split())
    assert "failed with exit code 139: a program in it was killed by signal 11, SIGSEGV" in text
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "sacct", "sacct"]
    assert "exit code 139:0" in run("status", "7").stdout
    fake_slurm.forget()
    fake_slurm.accounting(lowered)
    assert "exit code 139:0" in run("status", "7").stdout, "the record has kept it"


def test_an_array_of_many_tasks_is_few_processes(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.forget()
    fake_slurm.accounting(
        *(accounting_row(f"7_{n}", own=str(100 + n)) for n in range(900)),
        *(accounting_row(f"7_{n}", own=str(1000 + n), state="FAILED", exit="1:0")
          for n in range(900, 1000)),
    )  # fmt: skip
    result = run("why", "7")
    words = " ".join(result.stdout.split())
    assert "100 tasks of job 7 (train), such as 7_900: failed with exit code 1" in words
    assert "900 tasks of job 7 (train), such as 7_0: completed" in words
    # One for the log of some tasks of each end.
    assert len(fake_slurm.calls()) == 9


def test_tasks_that_failed_for_different_reasons(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    record(7, tmp_path, array="0-5", output=f"{tmp_path}/%A_%a.out")
    for task in range(6):
        (tmp_path / f"7_{task}.out").write_text(
            "Traceback (most recent call last):\n  File\n"
            + ("ModuleNotFoundError: No module named 'einops'\n", "ValueError: nan\n")[task % 2]
        )
    rows = [
        accounting_row(f"7_{n}", own=str(100 + n), state="FAILED", exit="1:0") for n in range(6)
    ]
    fake_slurm.forget()
    fake_slurm.accounting(*rows)
    told = json.loads(run("why", "7", "--json").stdout)["jobs"]
    assert [(one["kind"], one["tasks"]) for one in told] == [
        ("missing-module", ["7_0", "7_2", "7_4"]),
        ("exception", ["7_1", "7_3", "7_5"]),
    ]


def test_a_time_limit_and_what_the_job_had(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    ended = {"state": "TIMEOUT", "partition": "amd_a100nv_8", "name": "train", "exit": "0"}
    fake_slurm.queue(queue_row("7", limit="10:00", **ended))
    text = " ".join(run("why", "7").stdout.split())
    assert "submit it again with a longer -t (amd_a100nv_8 allows 2-00:00:00)" in text
    record(7, tmp_path)
    text = " ".join(run("why", "7").stdout.split())
    assert "'neuronctl resubmit 7 -t TIME' (amd_a100nv_8 allows 2-00:00:00)" in text
    assert "'neuronctl resubmit 7 --until-done' asks it to before the limit" in text
    record(8, tmp_path, sbatch=("sbatch", "own.sh"))
    fake_slurm.queue(queue_row("8", limit="2-00:00:00", **ended))
    text = " ".join(run("why", "8").stdout.split())
    assert "it had all the time that amd_a100nv_8 allows: let it save checkpoints" in text
    assert "'neuronctl resubmit 8' goes on" in text and "--until-done" not in text


def test_text_cannot_steer_the_terminal(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path)
    (tmp_path / "7.out").write_bytes(b"\x1b]0;title\x07bad \x9b31m\x00 \xff end\n")
    fake_slurm.forget()
    fake_slurm.accounting(accounting_row("7", state="FAILED", exit="3:0"))
    text = run("why", "7").stdout
    assert "bad" in text and "end" in text
    assert not any(char in text for char in "\x1b\x07\x9b\x00")


def test_without_slurm_the_record_speaks(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path)
    words = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    fake_slurm.answer("squeue", stderr=words, code=1)
    result = run("why", "7", code=6)
    assert "what became of it is unknown" in " ".join(result.stdout.split())
    assert "Unable to contact" in result.stderr
    assert "Unable to contact" in run("why", "8", code=6).stderr


def test_nobody_knows(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.forget()
    assert "no matching jobs: 7" in run("why", "7", code=8).stderr
    run("why", "x", code=8)


def test_a_job_that_waits_for_maintenance(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path)
    reason = "ReqNodeNotAvail, Reserved for maintenance"
    fake_slurm.queue(queue_row("7", state="PENDING", name="train", reason=reason))
    fake_slurm.answer(
        "scontrol",
        "ReservationName=upkeep StartTime=2037-01-03T00:00:00 EndTime=2037-01-05T00:00:00 "
        "Nodes=n[1-4] CoreCnt=256 Flags=MAINT,IGNORE_JOBS Users=root\n",
    )
    words = " ".join(run("why", "7").stdout.split())
    assert "Maintenance of n[1-4] (upkeep) lasts from 2037-01-0" in words
    assert "'scontrol update jobid=7 timelimit=" in words
