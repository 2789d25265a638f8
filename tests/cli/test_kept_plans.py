"""``submit --dry-run --json`` keeps a plan; ``submit --plan`` submits exactly that, or refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from begun import begun
from fake_slurm import FakeSlurm

Run = Callable[..., "subprocess.CompletedProcess[str]"]

ONE = [
    *["-p", "amd_a100nv_8", "--field", "nlp", "--appl", "pytorch", "--launcher", "python"],
    *["--gpus-per-node", "1", "-t", "1:00:00"],
]
SECRET = "hf_0123456789abcdefghijABCDEFGHIJ"
SITE = "clusters: {neuron: {policy: {submit_from: []}%s}}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("print('training')\n")
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH -p amd_a100nv_8 -t 9 --gres=gpu:1\n:\n")
    (tmp_path / "site.yaml").write_text(SITE % "")
    (tmp_path / "own.j2").write_text("{% extends 'shipped/job.sh.j2' %}\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("NEURONCTL_CATALOG", str(tmp_path / "site.yaml"))
    fake_slurm.answer("sbatch", "4711\n")


def planned(run: Run, *words: str, **how: Any) -> Dict[str, Any]:
    data: Dict[str, Any] = json.loads(run("submit", "--dry-run", "--json", *words, **how).stdout)
    return data


def plans() -> List[Path]:
    return sorted((Path(os.environ["XDG_STATE_HOME"]) / "neuronctl" / "plans").glob("*"))


def test_a_plan_is_submitted_as_it_was_once(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text("script: train.py\nargs: [a b]\n")
    made = planned(run, *ONE, "-f", "job.yaml")
    assert made["job_id"] is None and not fake_slurm.calls("sbatch")
    (file,) = plans()
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    # The job file is part of the plan, and the directory too.
    (tmp_path / "job.yaml").write_text("script: other.py\n")
    seen = json.loads(
        run(
            "submit", "--plan", made["plan"], "--dry-run", "--json", cwd=tmp_path / "elsewhere"
        ).stdout
    )
    assert (seen["plan"], seen["script"]) == (made["plan"], made["script"])
    done = json.loads(
        run("submit", "--plan", made["plan"], "--json", cwd=tmp_path / "elsewhere").stdout
    )
    assert done["job_id"] == 4711 and fake_slurm.stdin() == made["script"]
    assert done["logs"]["output"].startswith(f"{tmp_path}/train_4711")
    again = run("submit", "--plan", made["plan"], code=2).stderr
    assert "was submitted already: job 4711" in again and len(fake_slurm.calls("sbatch")) == 1


CHANGES = [
    ("train.py", "print('another')\n", [*ONE, "train.py"], "the program train.py has changed"),
    ("own.j2", "{% extends 'shipped/job.sh.j2' %}\n{% block launch %}\necho me\n{{ super() }}"
     "{% endblock %}\n", [*ONE, "--template", "./own.j2", "train.py"], "a template or neuronctl"),
    ("site.yaml", SITE % ", partitions: {amd_a100nv_8: {max_gpus: 4}}", [*ONE, "train.py"],
     "the catalog: partitions.amd_a100nv_8.max_gpus: 88 -> 4"),
    ("site.yaml", SITE % ", wall_time: {default: 3:00:00}", [*ONE, "train.py"],
     "wall_time.default: 172800 -> 10800"),
    ("job.sh", "#!/bin/bash\n#SBATCH -p amd_a100nv_8 -t 8 --gres=gpu:1\n:\n",
     ["--field", "nlp", "--appl", "misc", "job.sh"], "time: 00:09:00 -> 00:08:00"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "text", "words", "said"), CHANGES)
def test_a_change_is_refused_and_named(
    run: Run,
    fake_slurm: FakeSlurm,
    tmp_path: Path,
    file: str,
    text: str,
    words: List[str],
    said: str,
) -> None:
    before = (tmp_path / file).read_text()
    id = planned(run, *words)["plan"]
    (tmp_path / file).write_text(text)
    result = run("submit", "--plan", id, "--json", code=4)
    assert said in result.stderr and "nothing was submitted" in result.stderr
    data = json.loads(result.stdout)
    assert data["job_id"] is None and said in data["verdict"]["words"]
    assert data["verdict"]["judged_by"] == "the kept plan"
    assert not fake_slurm.calls("sbatch")
    (tmp_path / file).write_text(before)
    run("submit", "--plan", id)
    assert len(fake_slurm.calls("sbatch")) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "auto", "--field", "nlp", "--appl", "misc", "--gpus-per-node", "2", "train.py"],
        [*ONE, "--launcher", "torchrun", "-N", "2-3", "--monitor", "--venv", "env", "train.py"],
        [*ONE, "--until-done", "--env", "A=1", "--setup", "echo hi", "train.py", "--lr", "0.1"],
        [*ONE, "--array", "0-3", "--sbatch", "nice=1", "-J", "한 글", "train.py", "a b", ""],
        [*ONE, "--expand", "--env", "A=$HOME", "--chdir", "elsewhere", "../train.py", "$USER"],
        [*ONE, "--container", "/images/x.sif", "--bind", "/scratch", "--cleanenv", "train.py"],
        ["--field", "nlp", "--appl", "misc", "-p", "auto", "job.sh"],
        ["--field", "nlp", "--appl", "misc", "-t", "5", "job.sh", "a b"],
    ],
)
def test_every_kind_of_job_is_the_same_again(
    run: Run, fake_slurm: FakeSlurm, words: List[str]
) -> None:
    words = ["--force", *words]
    made = planned(run, *words)
    assert made["plan"], made
    run("submit", "--plan", made["plan"])
    (sent,) = fake_slurm.calls("sbatch")
    assert "job.sh" in sent if "job.sh" in words else fake_slurm.stdin() == made["script"]


def test_another_partition_of_the_catalog_is_no_change(run: Run, tmp_path: Path) -> None:
    id = planned(run, *ONE, "train.py")["plan"]
    (tmp_path / "site.yaml").write_text(SITE % ", partitions: {cas_v100nv_4: {max_gpus: 4}}")
    run("submit", "--plan", id)


def test_the_programs_of_steps_count(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "steps:\n- run: echo\n- together: [{script: train.py}, {script: train.py}]\n"
    )
    id = planned(run, *ONE, "-f", "job.yaml")["plan"]
    (tmp_path / "train.py").write_text("another\n")
    assert "the program train.py has changed" in run("submit", "--plan", id, code=4).stderr


def test_a_plan_holds_no_secret(run: Run, fake_slurm: FakeSlurm) -> None:
    id = planned(run, *ONE, "--env", f"HF_TOKEN={SECRET}", "train.py")["plan"]
    assert SECRET not in "".join(file.read_text() for file in plans())
    said = run("submit", "--plan", id, code=2).stderr
    assert f"plan {id} was given HF_TOKEN" in said and "export it" in said
    run("submit", "--plan", id, env={"HF_TOKEN": SECRET})
    assert fake_slurm.seen_env("sbatch")["HF_TOKEN"] == SECRET
    result = run("submit", "--dry-run", "--json", *ONE, "train.py", "--token", SECRET)
    assert json.loads(result.stdout)["plan"] is None
    assert "contains a secret" in result.stderr


def test_of_two_at_once_one_submits(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    id = planned(run, *ONE, "train.py")["plan"]
    fake_slurm.answer("sbatch", "4711\n", delay=2)
    words = [sys.executable, "-m", "neuronctl", "submit", "--plan", id]
    streams = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with begun(words, words, words, cwd=tmp_path, **streams) as all_three:
        ends = sorted((one.wait(), one.communicate()[1]) for one in all_three)
    assert [code for code, _ in ends] == [0, 2, 2]
    assert "is being submitted" in ends[1][1] and len(fake_slurm.calls("sbatch")) == 1


def test_what_sbatch_refuses_can_be_tried_again(run: Run, fake_slurm: FakeSlurm) -> None:
    id = planned(run, *ONE, "train.py")["plan"]
    fake_slurm.answer("sbatch", stderr="sbatch: error: no\n", code=1)
    run("submit", "--plan", id, code=7)
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", "--plan", id)


def test_errors_that_were_forced_are_known(run: Run, fake_slurm: FakeSlurm) -> None:
    words = [*ONE, "--gpus-per-node", "9", "train.py"]
    refused = json.loads(run("submit", "--dry-run", "--json", *words, code=4).stdout)
    assert refused["plan"] is None and not plans()
    id = planned(run, "--force", *words)["plan"]
    run("submit", "--plan", id)


def test_a_plan_is_alone_and_known(run: Run) -> None:
    id = planned(run, *ONE, "train.py")["plan"]
    for more in (
        ["-t", "5"],
        ["train.py"],
        ["--force"],
        ["-f", "job.yaml"],
        ["--sbatch", "nice=1"],
    ):
        assert "cannot be combined with" in run("submit", "--plan", id, *more, code=2).stderr
    for other in ("../jobs/x", "", "0123456789ab"):
        assert "plan" in run("submit", "--plan", other, code=2).stderr
    plans()[0].write_text("{")
    assert "is damaged" in run("submit", "--plan", id, code=9).stderr


def test_plans_grow_old(run: Run) -> None:
    id = planned(run, *ONE, "train.py")["plan"]
    (file,) = plans()
    data, old = json.loads(file.read_text()), int(time.time()) - 4 * 24 * 3600
    head = json.loads(data["record"])
    file.write_text(
        json.dumps({**data, "record": data["record"].replace(str(head["begun_at"]), str(old))})
    )
    assert "more than 3 days old" in run("submit", "--plan", id, code=2).stderr
    later = int(time.time()) + 400 * 24 * 3600
    file.write_text(file.read_text().replace(str(old), str(later)))
    assert "the clock is or was wrong" in run("submit", "--plan", id, code=2).stderr
    os.utime(file, (later, later))
    planned(run, *ONE, "train.py")
    assert not file.exists()
    file.write_text("")
    os.utime(file, (old, old))
    other = planned(run, *ONE, "train.py")["plan"]
    assert not file.exists() and other in [path.stem for path in plans()]


def test_programs_keep_plans_too(
    fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import neuronctl

    for name, value in fake_slurm.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    plan = neuronctl.plan("train.py", partition="amd_a100nv_8", gpus_per_node=1, field="nlp",
                          appl="misc", time=5)  # fmt: skip
    id = neuronctl.keep(plan)
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "train.py").write_text("another\n")
    with pytest.raises(neuronctl.PlanChangedError, match=r"train\.py has changed"):
        neuronctl.submit(id)
    (tmp_path / "train.py").write_text("print('training')\n")
    assert str(neuronctl.submit(id)) == "4711" and Path.cwd() == tmp_path / "elsewhere"
    with pytest.raises(neuronctl.UsageError, match="submitted already: job 4711"):
        neuronctl.submit(id)
