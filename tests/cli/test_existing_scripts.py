"""``submit job.sh`` and ``sbatch …`` as processes, with a fake sbatch."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from fake_slurm import FakeSlurm, queue_row

from neuronctl.scripts.find import MAX_BYTES

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


# ------------------------------------------------------------------------- submit job.sh


def test_the_file_goes_to_sbatch_as_it_is(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    result = run(
        "submit",
        "-t",
        "5",
        "--sbatch",
        "nice=3",
        "job.sh",
        "a b",
        "--more",
        env={"SBATCH_ACCOUNT": "lab"},
    )
    assert result.stdout.startswith("Submitted batch job 7 to amd_a100nv_8\n")
    assert f"  log     {tmp_path}/slurm-7.out\n" in result.stdout
    (call,) = fake_slurm.calls("sbatch")
    assert call == ["sbatch", "--time=5", "--nice=3", "job.sh", "a b", "--more"]
    assert fake_slurm.stdin() == ""
    assert fake_slurm.seen_env("sbatch")["SBATCH_ACCOUNT"] == "lab"
    (record,) = records()
    draft = record["draft"]
    assert draft["sbatch"] == call
    assert draft["script"] == SCRIPT
    assert record["script_sha256"] == hashlib.sha256(SCRIPT.encode()).hexdigest()
    assert (record["job_name"], record["partition"], record["time_limit"]) == (
        "job.sh",
        "amd_a100nv_8",
        300,
    )
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


def test_auto_chooses_as_for_any_job(run: Run, fake_slurm: FakeSlurm) -> None:
    said = run("submit", "--dry-run", "-p", "auto", "job.sh").stderr
    chosen = said.partition("-p auto takes ")[2].split()[0]
    assert f"sbatch --partition={chosen} job.sh" in said


@pytest.mark.parametrize("words", [["job.sh"], ["--launcher", "python", "train.py"]])
def test_json_where_no_partition_fits(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, words: List[str]
) -> None:
    """The document is that of a refused job, whoever named the partition."""
    (tmp_path / "train.py").write_text("")
    size = ["-N", "999", "--gpus-per-node", "1", "-t", "5"]
    named, auto = (
        run("submit", "--dry-run", "--json", "-p", name, *size, *words, code=4)
        for name in ("amd_a100nv_8", "auto")
    )
    assert "no partition of neuron-2022 can hold the job" in auto.stderr
    first, second = (json.loads(one.stdout) for one in (named, auto))
    assert list(first) == list(second)
    assert second["verdict"]["kind"] == "refused" and second["nodes"] == 999
    assert second["verdict"]["judged_by"] != "Slurm"  # which does not answer here
    assert (second["job_id"], second["plan"], second["partition"]) == (None, None, "")
    assert second["job_name"] == first["job_name"] and second["logs"] == first["logs"]
    assert {"NC1"} == {one["why_not"][:3] for one in second["choice"]}
    again = run("submit", "--dry-run", "-p", "auto", *size, *words, code=4)
    assert again.stdout == ""


def test_configuration_is_not_applied(run: Run, fake_slurm: FakeSlurm) -> None:
    assert "the command is: sbatch job.sh" in run("submit", "--dry-run", "job.sh").stderr


def test_sbatch_refuses(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", stderr="sbatch: error: no\n", code=1)
    assert "sbatch refused the request: no" in run("submit", "job.sh", code=7).stderr
    (record,) = records()
    assert (record["status"], record["failure"]) == ("failed", "sbatch refused the request: no")


def test_a_file_that_changes_meanwhile_is_told(
    run: Run, fake_slurm: FakeSlurm, script: Path
) -> None:
    fake = fake_slurm.directory / "bin"
    fake.mkdir()
    (fake / "sbatch").write_text("#!/bin/sh\necho '# more' >> job.sh\necho 7\n")
    (fake / "sbatch").chmod(0o755)
    said = run("submit", "job.sh", env={"PATH": f"{fake}:{os.environ['PATH']}"}).stderr
    assert "job.sh was changed while it was submitted" in said


@pytest.mark.parametrize("option", ["--wait", "--test-only"])
def test_what_belongs_on_a_command_line(
    run: Run, fake_slurm: FakeSlurm, script: Path, option: str
) -> None:
    script.write_text(SCRIPT.replace("-t 10", f"-t 10 {option}"))
    assert f"is to be submitted with {option}" in run("submit", "job.sh", code=2).stderr
    assert not fake_slurm.calls("sbatch")


def test_the_record_is_whole_and_private(run: Run, fake_slurm: FakeSlurm, script: Path) -> None:
    secret = "hf_0123456789abcdefghij"
    script.write_text(SCRIPT + f"export HF_TOKEN={secret}\n")
    for number in (7, 8):
        fake_slurm.answer("sbatch", f"{number}\n")
    run("submit", "job.sh", "--token", secret)
    assert secret in json.dumps(records())
    run("resubmit", "7")
    assert secret in fake_slurm.calls("sbatch")[1]


def test_a_job_of_several_components_is_not_judged(
    run: Run, fake_slurm: FakeSlurm, script: Path
) -> None:
    script.write_text(WRONG.replace("python", "#SBATCH hetjob\n#SBATCH -n 1\npython"))
    fake_slurm.answer("sbatch", "7\n")
    said = run("submit", "job.sh").stderr
    assert "not known: the components of a heterogeneous job are not judged together" in said


# ------------------------------------------------------------------------- neuronctl sbatch


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
    assert record["draft"]["sbatch"] == ["sbatch", *words]
    assert record["cluster"] == ("neuron" if "neuron" in answer else None)


def test_standard_input_is_passed_on(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    run("sbatch", "-t", "5", input=SCRIPT)
    assert fake_slurm.stdin() == SCRIPT
    (record,) = records()
    assert (record["draft"]["script"], record["job_name"]) == (SCRIPT, "sbatch")
    # Where the script is a file, standard input is the one that sbatch would have.
    run("sbatch", "job.sh", input="something else")
    assert fake_slurm.stdin() == "something else"


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--usage"],
        ["-V"],
        ["--test-only", "job.sh"],
        ["-N"],
        ["nofile.sh"],
        ["--wrap=x", "job.sh"],
    ],
)
@pytest.mark.parametrize("code", [0, 3])
def test_where_no_job_comes_of_it_nothing_is_recorded(
    run: Run, fake_slurm: FakeSlurm, words: List[str], code: int
) -> None:
    fake_slurm.answer("sbatch", "out\n", "err\n", code=code)
    result = run("sbatch", *words, code=code)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert fake_slurm.calls() == [["sbatch", *words]]
    assert not folder().exists()


def test_a_refusal_is_final(run: Run, fake_slurm: FakeSlurm, script: Path) -> None:
    """Jobs that plain sbatch submitted, before or after, from the same script keep no record."""
    script.write_text(WRONG)
    fake_slurm.answer("sbatch", stderr="sbatch: error: no\n", code=1)
    said = run("sbatch", "job.sh", code=1).stderr
    assert said.startswith("sbatch: error: no\n") and "error NC141: job.sh:2: requested" in said
    (record,) = records()
    assert (record["status"], record["failure"]) == ("failed", "sbatch ended with exit code 1")
    submitted = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record["begun_at"] - 10))
    row = {"submit": submitted, "work_dir": record["cwd"], "command": str(script.resolve())}
    fake_slurm.queue(queue_row("5", name="job.sh", **row))
    assert "job.sh" in run("status").stdout
    (record,) = records()
    assert (record["status"], record["job_id"]) == ("failed", None)


@pytest.mark.parametrize("env", [{}, {"SBATCH_WAIT": "1"}])
def test_the_exit_code_of_a_job_is_no_refusal(
    run: Run, fake_slurm: FakeSlurm, env: Dict[str, str]
) -> None:
    fake_slurm.answer("sbatch", code=3)
    run("sbatch", "--quiet", *([] if env else ["--wait"]), "job.sh", code=3, env=env)
    (record,) = records()
    assert record["status"] == "intent"


def test_an_answer_that_never_came_is_no_refusal(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", stderr="sbatch: error: Socket timed out\n", code=1, delay=5.2)
    run("sbatch", "job.sh", code=1)
    (record,) = records()
    assert (record["status"], record["failure"]) == ("intent", "sbatch ended with exit code 1")


def test_standard_input_without_an_end(fake_slurm: FakeSlurm) -> None:
    """It took all memory, as it does of sbatch's own."""
    with open("/dev/zero", "rb") as endless:
        result = subprocess.run(
            [sys.executable, "-m", "neuronctl", "sbatch", "-t", "5"],
            **{"stdin": endless, "capture_output": True, "text": True, "cwd": os.environ["HOME"]},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20)),
        )
    assert result.returncode == 2 and "more than 64 MiB: nothing was submitted" in result.stderr
    assert fake_slurm.calls("sbatch") == [] and records() == []


def test_the_environment_is_not_changed(run: Run, fake_slurm: FakeSlurm) -> None:
    given = {"SBATCH_ACCOUNT": "a", "SLURM_JOB_ID": "3", "RANK": "1"}
    env = {name: value for name, value in os.environ.items() if not name.startswith("LC_")}
    env = {**env, **given, "LANG": "C"}
    seen = {}
    for argv in (["sbatch", "job.sh"], [sys.executable, "-m", "neuronctl", "sbatch", "job.sh"]):
        subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            check=True,
            capture_output=True,
            cwd=Path(env["HOME"]),
        )
        seen[argv[0]] = fake_slurm.seen_env("sbatch")
    first, second = seen.values()
    # This sbatch is a script: it is told by whom it was started, in case it calls neuronctl itself.
    assert second.pop("NEURONCTL_SBATCH").startswith("3:/")
    assert first == second and first["SLURM_JOB_ID"] == "3"


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
    assert (result.stdout, result.stderr) == ("Submitted batch job 7\n", "")
    assert len(records()) == (fault != "store")


def test_a_broken_installation_is_no_obstacle(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    """Any bug of ours, here one in the module that reads scripts."""
    fake_slurm.answer("sbatch", "7\n")
    code = (
        "import sys; sys.modules['neuronctl.scripts.header'] = None\n"
        "from neuronctl.cli import program; program()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "sbatch", "job.sh"],
        capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "7\n", "")


def test_findings_are_told_on_a_terminal_only(
    run: Run, fake_slurm: FakeSlurm, script: Path
) -> None:
    script.write_text(WRONG)
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    assert run("sbatch", "job.sh").stderr == ""
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


def own_sbatch(directory: Path, text: str) -> Dict[str, str]:
    """An environment whose first sbatch on PATH is a file with this text."""
    directory.mkdir(exist_ok=True)
    (directory / "sbatch").write_text(text)
    (directory / "sbatch").chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def test_what_is_printed_is_seen_at_once(fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """As with --wait; the record is complete by then, whatever happens later."""
    env = own_sbatch(tmp_path / "bin", "#!/bin/bash\necho 7\nread line < go\nexit 5\n")
    os.mkfifo(tmp_path / "go")
    argv = [sys.executable, "-m", "neuronctl", "sbatch", "--parsable", "--wait", "job.sh"]
    with subprocess.Popen(
        argv, env={**os.environ, **env}, cwd=tmp_path, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"7\n"
        (record,) = records()
        assert (record["status"], record["job_id"]) == ("submitted", 7)
        (tmp_path / "go").write_text("\n")
        assert running.wait() == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_as_it_ends_sbatch(
    fake_slurm: FakeSlurm, tmp_path: Path, number: signal.Signals
) -> None:
    text = "#!/usr/bin/python3\nimport os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()\n"
    env = own_sbatch(tmp_path / "bin", text)
    argv = [sys.executable, "-m", "neuronctl", "sbatch", "--wait", "job.sh"]
    with subprocess.Popen(
        argv,
        env={**os.environ, **env},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # under nohup, HUP is ignored
    ) as running:
        assert running.stdout is not None
        child = int(running.stdout.readline())
        running.send_signal(number)
        # Python, here in the place of sbatch, has a handler for Ctrl-C that ends it the same way.
        assert running.wait() == -number
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_closed_pipe_ends_it_as_it_ends_sbatch(fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    env = own_sbatch(tmp_path / "bin", "#!/bin/bash\nread line < go\necho 7\n")
    os.mkfifo(tmp_path / "go")
    argv = [sys.executable, "-m", "neuronctl", "sbatch", "job.sh"]
    with subprocess.Popen(
        argv, env={**os.environ, **env}, cwd=tmp_path, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.close()
        (tmp_path / "go").write_text("\n")
        assert running.wait() == -signal.SIGPIPE
    assert [one["job_id"] for one in records()] == [7]


@pytest.mark.parametrize("how", ["exec neuronctl sbatch", "neuronctl sbatch --nice=1"])
def test_a_file_named_sbatch_that_calls_neuronctl(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, how: str
) -> None:
    """It calls the next one on PATH, and only one of them records the job."""
    command = how.replace("neuronctl", f"{sys.executable} -m neuronctl")
    first, second = tmp_path / "first", tmp_path / "second"
    env = own_sbatch(second, f'#!/bin/bash\n{command} "$@"\n')
    own_sbatch(first, f'#!/bin/bash\n{command} "$@"\n')
    path = {"PATH": f"{first}:{first}:{env['PATH']}"}
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    for call in (["sbatch", "job.sh"], [sys.executable, "-m", "neuronctl", "sbatch", "job.sh"]):
        done = subprocess.run(
            call, env={**os.environ, **path}, cwd=tmp_path, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == ("Submitted batch job 7\n", "")
    assert len(fake_slurm.calls("sbatch")) == 2
    assert len(records()) == 2


def test_without_slurm(run: Run, tmp_path: Path) -> None:
    said = run("sbatch", "job.sh", env={"PATH": str(tmp_path)}, code=6).stderr
    assert "sbatch not found" in said


# ------------------------------------------------------------------------- and afterwards


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
    assert "the program has changed since" in run("resubmit", "7", code=2).stderr
    run("resubmit", "--script-as-is", "7")
    assert fake_slurm.calls("sbatch")[-1] == same
    run("resubmit", "--script-as-recorded", "7")
    assert fake_slurm.calls("sbatch")[-1] == [
        *("sbatch", "--parsable", "-t", "5", "--job-name=job.sh", "/dev/stdin", "a b")
    ]  # fmt: skip
    assert fake_slurm.stdin() == SCRIPT


def test_two_jobs_of_a_script_differ_in_their_arguments(run: Run, fake_slurm: FakeSlurm) -> None:
    for number, rate in (("7", "0.5"), ("8", "0.9")):
        fake_slurm.answer("sbatch", f"{number}\n")
        run("submit", "job.sh", "--lr", rate)
    row = ["arguments", "--lr", "0.5", "--lr", "0.9"]
    assert row in [line.split() for line in run("show", "7", "8").stdout.splitlines()]
    data = json.loads(run("show", "7", "8", "--json").stdout)
    assert data["plan"] == [{"name": "arguments", "first": "--lr 0.5", "second": "--lr 0.9"}]


def test_a_script_that_goes_again_has_its_plan_in_its_record(
    run: Run, fake_slurm: FakeSlurm
) -> None:
    for number, words in (("7", ["submit", "job.sh"]), ("8", ["resubmit", "7"])):
        fake_slurm.answer("sbatch", f"{number}\n")
        run(*words)
    by_id = {one["job_id"]: one["draft"] for one in records()}
    first, second = (by_id[job] for job in (7, 8))
    told = {"findings", "verdict", "command_line"}
    changed = [name for name in {*first, *second} - told if first.get(name) != second.get(name)]
    assert changed == [] and first["decisions"]
    assert run("show", "7", "8").stdout == "job 7 and job 8 do not differ\n"
    assert "partition: " not in run("resubmit", "8", "-t", "3", "--dry-run").stderr


def test_a_script_that_is_too_long_is_submitted_again_as_the_file_it_was(
    run: Run, fake_slurm: FakeSlurm, script: Path
) -> None:
    long = SCRIPT + "# " + "x" * MAX_BYTES + "\n"
    script.write_text(long)  # which a site can allow
    fake_slurm.answer("sbatch", "7\n")
    run("sbatch", "job.sh")
    (record,) = records()
    assert (
        record["draft"]["surroundings"]["program_sha256"]
        == hashlib.sha256(long.encode()).hexdigest()
    )
    run("resubmit", "7")
    assert fake_slurm.calls("sbatch")[-1] == ["sbatch", "job.sh"]


def test_standard_input_and_wrap_again(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "7\n")
    run("sbatch", "-t", "5", input=SCRIPT)
    run("resubmit", "7")
    assert fake_slurm.calls("sbatch")[-1] == ["sbatch", "-t", "5", "/dev/stdin"]
    assert fake_slurm.stdin() == SCRIPT
    fake_slurm.answer("sbatch", "8\n")
    run("sbatch", "--wrap=echo")
    run("resubmit", "8")
    assert fake_slurm.calls("sbatch")[-1] == ["sbatch", "--wrap=echo"]


def cut_off(run: Run, fake_slurm: FakeSlurm, *words: str) -> str:
    """An attempt whose neuronctl was killed before sbatch answered; its key."""
    before = {one["key"] for one in records()} if folder().exists() else set()
    fake_slurm.answer("sbatch")  # a quiet one
    run("sbatch", *words)
    (record,) = [one for one in records() if one["key"] not in before]
    return str(record["key"])


def row(tmp_path: Path, number: str, command: str, **given: str) -> str:
    submit = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    values = {"submit": submit, "name": "job.sh", "work_dir": str(tmp_path), "state": "PENDING"}
    return queue_row(number, command=command, **{**values, **given})


def scripts_of_jobs(fake_slurm: FakeSlurm, tmp_path: Path, **texts: str) -> Dict[str, str]:
    """An environment whose scontrol writes these scripts of jobs; ``j7`` is that of job 7."""
    directory = tmp_path / "scontrol"
    directory.mkdir()
    for name, text in texts.items():
        (directory / name).write_text(text)
    (directory / "scontrol").write_text(f'#!/bin/sh\ncp "{directory}/j$3" "$4"\n')
    (directory / "scontrol").chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def test_its_job_is_found_by_what_it_runs(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    key = cut_off(run, fake_slurm, "job.sh", "a b")
    script = f"{tmp_path}/job.sh"
    fake_slurm.queue(
        row(tmp_path, "5", f"{script} a b"),  # of another text
        row(tmp_path, "6", f"{script} c"),
        row(tmp_path, "7", f"{script} a b"),
        row(tmp_path, "8", f"{script} a b", name="other"),
    )
    env = scripts_of_jobs(fake_slurm, tmp_path, j5="#!/bin/sh\n", j6=SCRIPT, j7=SCRIPT, j8=SCRIPT)
    assert "is job 7: its record is now complete" in run("status", env=env).stderr
    assert [(one["key"], one["job_id"]) for one in records()] == [(key, 7)]


def test_a_script_that_is_too_long_is_found_by_its_beginning(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, script: Path
) -> None:
    long = SCRIPT + "# " + "x" * MAX_BYTES + "\n"
    script.write_text(long)
    key = cut_off(run, fake_slurm, "job.sh")
    fake_slurm.queue(row(tmp_path, "7", f"{tmp_path}/job.sh"))
    run("status", env=scripts_of_jobs(fake_slurm, tmp_path, j7=long))
    assert [(one["key"], one["job_id"]) for one in records()] == [(key, 7)]


def test_a_quiet_sbatch_was_not_interrupted(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    key = cut_off(run, fake_slurm, "-Q", "job.sh")
    fake_slurm.queue(row(tmp_path, "7", f"{tmp_path}/job.sh"))
    result = run("status", env=scripts_of_jobs(fake_slurm, tmp_path, j7=SCRIPT))
    assert result.stderr == "" and " 7 " in f" {result.stdout}".replace("\n", " ")
    assert [(one["key"], one["job_id"]) for one in records()] == [(key, 7)]
    cut_off(run, fake_slurm, "-HQJx", "job.sh")
    assert "sbatch --quiet did not say which job 'x' of" in run("status").stderr


def test_of_more_jobs_than_submissions_none_is_taken(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    cut_off(run, fake_slurm, "job.sh")
    both = [row(tmp_path, number, f"{tmp_path}/job.sh") for number in ("6", "7")]
    fake_slurm.queue(*both)
    env = scripts_of_jobs(fake_slurm, tmp_path, j6=SCRIPT, j7=SCRIPT)
    said = run("status", env=env).stderr
    assert "2 jobs have the same name and directory: 6, 7\n" in said
    assert [one["status"] for one in records()] == ["intent"]
    cut_off(run, fake_slurm, "job.sh")  # two of them, for two jobs
    fake_slurm.queue(*both)
    run("status", env=env)
    assert sorted(one["job_id"] for one in records()) == [6, 7]


def test_a_script_goes_again_as_it_was_whatever_the_catalog(
    run: Run, fake_slurm: FakeSlurm
) -> None:
    """Nothing judges it, so that nothing but sbatch can refuse it."""
    fake_slurm.answer("sbatch", "Submitted batch job 7\n")
    run("submit", "job.sh")
    (Path(os.environ["XDG_CONFIG_HOME"]) / "neuronctl" / "config.yaml").write_text("cluster: no\n")
    run("resubmit", "7")
    assert len(fake_slurm.calls("sbatch")) == 2


def test_modules_of_a_script_are_judged_as_by_check(
    run: Run, fake_slurm: FakeSlurm, script: Path
) -> None:
    """What a request has of the commands, and not of the directives."""
    script.write_text(SCRIPT.replace("python", "module load gcc/4.8.5 cuda/0.1\npython"))
    found = run("check", "job.sh").stdout
    told = run("submit", "--dry-run", "--force", "job.sh").stderr
    assert "NC408" in found and "NC408" in told
