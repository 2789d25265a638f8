"""``submit job.sh`` and ``sbatch …`` as processes, with a fake sbatch."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from fake_slurm import FakeSlurm

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SCRIPT = """\
#!/bin/bash
#SBATCH --partition=amd_a100nv_8 --gres=gpu:1 -c 2 -t 10
#SBATCH --comment=pytorch
python train.py "$@"
"""
WRONG = SCRIPT.replace("-t 10", "-t 9-00")


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> Path:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "neuronctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("cluster: neuron-2022\naccount: lab\npartition: nowhere\n")
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return path


def folder() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "neuronctl" / "jobs"


def records() -> List[Dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder().glob("*.json"))]


def test_the_file_goes_to_sbatch_as_it_is(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    argv = ["-t", "5", "--sbatch", "nice=3", "job.sh", "a b", "--more"]
    result = run("submit", *argv, env={"SBATCH_ACCOUNT": "lab"})
    assert result.stdout.startswith("Submitted batch job 7 to amd_a100nv_8\n")
    assert f"  log     {tmp_path}/slurm-7.out\n" in result.stdout
    (call,) = fake_slurm.calls("sbatch")
    assert call == ["sbatch", "--time=5", "--nice=3", "job.sh", "a b", "--more"]
    assert fake_slurm.seen_env("sbatch")["SBATCH_ACCOUNT"] == "lab"
    (record,) = records()
    draft = record["draft"]
    assert draft["sbatch"] == call
    assert draft["script"] == SCRIPT
    described = (record["job_name"], record["partition"], record["time_limit"])
    assert described == ("job.sh", "amd_a100nv_8", 300)
    assert draft["request"]["account"] == "lab"
    assert ["time", "00:05:00", "requested", "command line, as 5"] in draft["decisions"]
    assert ["partition", "amd_a100nv_8", "requested", "job.sh:2"] in draft["decisions"]
    assert "launcher" not in {row[0] for row in draft["decisions"]}


def test_a_dry_run_prints_the_file_and_the_command(
    run: Run, fake_slurm: FakeSlurm, script: Path
) -> None:
    script.write_bytes(SCRIPT.encode() + b"# \xb0\xa1")
    result = subprocess.run(
        [sys.executable, "-m", "neuronctl", "submit", "--dry-run", "-o", "a b.out", "job.sh", "x"],
        cwd=script.parent, stdin=subprocess.DEVNULL, capture_output=True,
    )  # fmt: skip
    assert result.stdout == script.read_bytes()
    assert (
        "neuronctl: the command is: sbatch --output='a b.out' job.sh x\n" in result.stderr.decode()
    )
    assert not fake_slurm.calls("sbatch") and not folder().exists()


def test_errors_refuse_and_name_their_line(run: Run, fake_slurm: FakeSlurm, script: Path) -> None:
    script.write_text(WRONG)
    fake_slurm.answer("sbatch", "7\n")
    said = run("submit", "job.sh", code=4).stderr
    assert "neuronctl: error NC141: job.sh:2: requested a time limit of 9-00:00:00" in said
    assert "nothing was done" in said and not fake_slurm.calls("sbatch")
    data = json.loads(run("submit", "--json", "job.sh", code=4).stdout)
    assert [one["code"] for one in data["findings"]] == ["NC141"]
    # What the command line gives has no line.
    script.write_text(SCRIPT)
    said = run("submit", "-t", "9-00", "job.sh", code=4).stderr
    assert "neuronctl: error NC141: requested a time limit of 9-00:00:00" in said
    run("submit", "--force", "-t", "9-00", "job.sh")
    (record,) = records()
    assert record["draft"]["forced"] and record["draft"]["findings"][0][0] == "NC141"


def test_directives_that_options_override_are_not_judged(
    run: Run, fake_slurm: FakeSlurm, script: Path
) -> None:
    script.write_text(SCRIPT.replace("=amd_a100nv_8", "=<partition> -A YOUR_ACCOUNT"))
    said = run("submit", "--dry-run", "job.sh", code=4).stderr
    assert "filled in --partition=<partition>" in said and "filled in --account=" in said
    said = run("submit", "--dry-run", "-A", "lab", "-p", "amd_a100nv_8", "job.sh").stderr
    assert "NC643" not in said


def test_options_that_shape_a_script_are_refused_by_name(run: Run, fake_slurm: FakeSlurm) -> None:
    argv = ["submit", "--module", "cuda", "--launcher", "srun", "--template", "x", "job.sh"]
    said = run(*argv, code=2).stderr
    assert "--template and --launcher and --module cannot be applied to a batch script" in said
    assert "neuronctl import SCRIPT -o job.yaml" in said
    assert not fake_slurm.calls("sbatch")


def test_the_comment_is_made_by_the_policy(run: Run, fake_slurm: FakeSlurm) -> None:
    argv = ["submit", "--dry-run", "--force", "job.sh"]
    said = run(argv[0], "--appl", "lammps", *argv[1:]).stderr
    assert "sbatch --comment=lammps job.sh" in said
    neuron = [argv[0], "--cluster", "neuron", *argv[1:]]
    assert "NC202: job.sh:3" in run(*neuron).stderr
    said = run(neuron[0], "--field", "misc", "--appl", "lammps", *neuron[1:]).stderr
    assert "sbatch --comment='field=misc;appl=lammps' job.sh" in said and "NC202" not in said


def test_the_record_is_whole_and_private(run: Run, fake_slurm: FakeSlurm, script: Path) -> None:
    secret = "hf_0123456789abcdefghij"
    script.write_text(SCRIPT + f"export HF_TOKEN={secret}\n")
    fake_slurm.answer("sbatch", "7\n")
    run("submit", "job.sh", "--token", secret)
    assert secret in json.dumps(records())
    run("resubmit", "7")
    assert secret in fake_slurm.calls("sbatch")[1]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["job.sh"], "Submitted batch job 7\n"),
        (["--parsable", "-Jx", "job.sh", "a b", "-x"], "7;neuron\n"),
        (["-M", "neuron", "--", "job.sh"], "Submitted batch job 7 on cluster neuron\n"),
        (["--plugin=3", "job.sh"], "Submitted batch job 7\n"),
        (["--wrap", "echo 'a  b'"], "Submitted batch job 7\n"),
    ],
)
def test_words_and_output_are_sbatchs_own(
    run: Run, fake_slurm: FakeSlurm, words: List[str], answer: str
) -> None:
    fake_slurm.answer("sbatch", answer, "sbatch: said\n")
    result = run("sbatch", *words)
    assert (result.stdout, result.stderr) == (answer, "sbatch: said\n")
    assert fake_slurm.calls() == [["sbatch", *words]]
    (record,) = records()
    assert (record["status"], record["job_id"]) == ("submitted", 7)
    assert record["draft"]["sbatch"] == ["sbatch", *(word for word in words if word != "--")]
    assert record["cluster"] == ("neuron" if "neuron" in answer else None)


@pytest.mark.parametrize("fault", ["catalog", "store", "configuration"])
def test_whatever_breaks_sbatch_runs(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, fault: str
) -> None:
    env = {}
    if fault == "catalog":
        env["NEURONCTL_CATALOG"] = str(tmp_path / "broken.yaml")
        Path(env["NEURONCTL_CATALOG"]).write_text("{")
    elif fault == "store":
        (tmp_path / "state").write_text("no folder")
        env["XDG_STATE_HOME"] = str(tmp_path / "state")
    else:
        (Path(os.environ["XDG_CONFIG_HOME"]) / "neuronctl" / "config.yaml").write_text("[")
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    result = run("sbatch", "job.sh", env=env)
    assert result.stdout == "Submitted batch job 7\n"
    assert ("state/neuronctl" in result.stderr) == (fault == "store") == bool(result.stderr)
    assert len(records()) == (fault != "store")


def test_a_job_without_a_record_is_said(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    nowhere = {"HOME": "nowhere", "XDG_STATE_HOME": ""}
    result = run("sbatch", "job.sh", env=nowhere)
    assert result.stdout == "Submitted batch job 7\n"
    assert "the job has no record: no home directory" in result.stderr
    fake_slurm.answer("sbatch", stderr="sbatch: error: No\n", code=1)
    assert run("sbatch", "job.sh", env=nowhere, code=1).stderr == "sbatch: error: No\n"


def test_on_a_terminal_findings_are_told_and_nothing_steers_it(
    run: Run, fake_slurm: FakeSlurm, script: Path
) -> None:
    script.write_text(WRONG)
    fake_slurm.answer("sbatch", stderr="sbatch: error: No\n", code=1)
    assert run("sbatch", "job.sh", code=1).stderr == "sbatch: error: No\n"
    fake_slurm.answer("sbatch", "Submitted batch job 7\n", "sbatch: \033[2Jdear\tuser\n")
    assert run("sbatch", "job.sh").stderr == "sbatch: \033[2Jdear\tuser\n"
    assert records()[0]["draft"]["findings"][0][0] == "NC141"
    main, terminal = pty.openpty()
    argv = [sys.executable, "-m", "neuronctl", "sbatch", "job.sh"]
    done = subprocess.run(
        argv, cwd=script.parent, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    said = os.read(main, 10_000).decode()
    os.close(main)
    assert done.returncode == 0
    assert said.index("error NC141: job.sh:2: requested") < said.index("Submitted batch job 7")
    assert "sbatch: \\x1b[2Jdear" in said


def test_without_slurm(run: Run, tmp_path: Path) -> None:
    said = run("sbatch", "job.sh", env={"PATH": str(tmp_path)}, code=6).stderr
    assert "sbatch not found" in said


def test_inside_another_job(
    run: Run, fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What describes that job would be read by srun in the new one."""
    outer = {"SLURM_JOB_ID": "999", "SLURM_MEM_PER_CPU": "1000", "SLURM_CPU_BIND": "quiet"}
    for name, value in {**outer, "SLURM_CLUSTERS": "neuron"}.items():
        monkeypatch.setenv(name, value)
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    said = run("submit", "--force", "job.sh").stderr
    assert "this is inside job 999, whose SLURM_* variables are kept from the new job" in said
    passed = fake_slurm.seen_env("sbatch")
    assert not outer.keys() & passed.keys() and passed["SLURM_CLUSTERS"] == "neuron"
    run("sbatch", "job.sh")
    assert outer.items() <= fake_slurm.seen_env("sbatch").items()


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("python train.py", False),
        ('python train.py # "$@"', True),
        ("# $1", False),
        ('python train.py "$@"', True),
        ("lr=${1:-0.1}", True),
        ("for lr\ndo true; done", True),
        ("source ./run.sh", True),
        (". ./run.sh", True),
        ("for lr in 1 2; do echo $lr $?; done", False),
    ],
)
def test_arguments_that_the_script_never_reads(
    run: Run, fake_slurm: FakeSlurm, script: Path, line: str, reads: bool
) -> None:
    script.write_text(SCRIPT.replace('python train.py "$@"', line))
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    said = run("submit", "--force", "job.sh", "--lr", "0.5").stderr
    assert ("job.sh reads no arguments, and --lr 0.5 is lost" in said) != reads
    run("resubmit", "--force", "7")
    again = run("resubmit", "--force", "7", "--", "--lr", "0.6", code=0 if reads else 2).stderr
    assert ("--lr 0.6 would be lost" in again) != reads


def test_the_same_again(run: Run, fake_slurm: FakeSlurm, tmp_path: Path, script: Path) -> None:
    fake_slurm.answer("sbatch", "7\n")
    run("sbatch", "--parsable", "-W", "-t", "5", "job.sh", "a b")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    fake_slurm.answer("sbatch", "8\n")
    run("resubmit", "7", cwd=elsewhere)
    run("resubmit", "-c", "3", "7", cwd=elsewhere)
    same, over = fake_slurm.calls("sbatch")[1:]
    assert same == ["sbatch", "--parsable", "-t", "5", "job.sh", "a b"]
    assert over == ["sbatch", "--parsable", "-t", "5", "--cpus-per-task=3", "job.sh", "a b"]
    assert {one["cwd"] for one in records()} == {str(tmp_path)}
    script.write_text(SCRIPT + "# more\n")
    assert f"{script} has changed since: it runs as it is now" in run("resubmit", "7").stderr
    assert fake_slurm.calls("sbatch")[-1] == same


def test_the_partition_of_a_heterogeneous_job(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    text = "#!/bin/bash\n#SBATCH -p fat -t 5\n#SBATCH hetjob\n#SBATCH -p gpu -t 5\nsrun true\n"
    (tmp_path / "job.sh").write_text(text)
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    assert run("submit", "--force", "job.sh").stdout.startswith("Submitted batch job 7 to fat\n")
    assert records()[0]["partition"] == "fat"


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        # sbatch does not read directives below the first command.
        ("echo begins\n#SBATCH -p cas_v100_4 -t 5 --gres=gpu:1\n", ["NC101", "NC603"]),
        ("#SBATCH -p of_another_cluster -t 5 --gres=gpu:99\n", ["NC101"]),
    ],
)
def test_check_and_submit_give_one_verdict(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, lines: str, known: List[str]
) -> None:
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{lines}srun true\n")
    (checked,) = json.loads(run("check", "--cluster", "neuron", "--json", "job.sh").stdout)["files"]
    words = ["submit", "--cluster", "neuron", "--json", "--dry-run", "job.sh"]
    submitted = json.loads(run(*words).stdout)
    findings = [
        [(one["code"], one["severity"]) for one in part["findings"]]
        for part in (checked, submitted)
    ]
    assert findings[0] == findings[1] == [(code, "warning") for code in known]


def test_a_job_file_without_its_option_is_one_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("partition: gpu\nscript: t.py\n")
    said = "neuronctl: 'job.yaml' is not a program\n  hint: if it is a job file: -f job.yaml\n"
    assert run("submit", "job.yaml", code=2).stderr == said
