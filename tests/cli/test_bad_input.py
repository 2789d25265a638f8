"""What people get wrong: the right exit code, one message, one hint, no traceback, nothing done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, List

import pytest
from fake_slurm import FakeSlurm

Result = subprocess.CompletedProcess
Run = Callable[..., "Result[str]"]

HERE = ["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"]
"""A cluster that jobs may be submitted to from anywhere."""
ONE = [*HERE, "--gpus-per-node", "1"]


@pytest.fixture(autouse=True)
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("print('training')\n")
    return path


def one_error(result: Result[str], *words: str) -> None:
    """One message and at most one hint, on standard error; nothing on standard output."""
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    lines = result.stderr.splitlines()
    assert sum(line.startswith("  hint: ") for line in lines) == 1, result.stderr
    for word in words:
        assert word in result.stderr


def records() -> List[Path]:
    return list(Path(os.environ["XDG_STATE_HOME"]).rglob("*.json"))


# --------------------------------------------------------------------- wrong usage: exit 2

USAGE = [
    (["-t", "24h"], ["--time", "'24h' is not a Slurm time"]),
    (["-t", "1:2:3:4"], ["--time"]),
    (["-J", "two\nlines"], ["--job-name", "control character '\\n'"]),
    (["-J", ""], ["--job-name: is empty"]),
    (["-p", ""], ["--partition: is empty"]),
    (["-N", "two"], ["--nodes", "'two' is not a whole number"]),
    (["-N", "9" * 5000], ["--nodes"]),
    (["--gpus-per-node", "2", "--gres", "gpu:4"], ["--gpus-per-node", "--gres", "contradict"]),
    (["--env", "1A"], ["--env", "NAME=VALUE"]),
    (["--env", "NO_SUCH_NAME"], ["is not exported in your shell", "--env NO_SUCH_NAME=VALUE"]),
    (["-a", "0-1%2,5"], ["--array: '2,5' after %", "0-9%2"]),
    (["-d", "ok:1"], ["--dependency: 'ok' is not a dependency type", "afterok:4711"]),
    (["--mail-type", "SOON"], ["--mail-type: 'SOON'", "END,FAIL"]),
    (["-N", "2", "-G", "3"], ["--gpus: 3 GPUs", "-N 2 --gpus-per-node 2 requests 4 GPUs"]),
    (["--launcher", "tochrun"], ["unknown launcher 'tochrun'", "torchrun"]),
    (["--sbatch", "partition=x"], ["write --partition=x"]),
    (["--no-such-option"], ["--no-such-option"]),
    (["--mem", "lots"], ["--mem", "'lots'"]),
]


@pytest.mark.parametrize(("options", "words"), USAGE)
def test_wrong_usage(options: List[str], words: List[str], run: Run, fake_slurm: FakeSlurm) -> None:
    one_error(run("submit", *HERE, *options, "train.py", code=2), *words)
    assert fake_slurm.calls("sbatch") == []
    assert records() == []


@pytest.mark.parametrize("name", ["a\nPREFLIGHT\n", "a\rb", "a\tb.py"])
def test_program_with_a_control_character_in_its_name(name: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    words = ["the program's name contains the control character", "rename the file"]
    one_error(run("generate", *HERE, "-N2", "--gpus-per-node=1", name, code=2), *words)
    (tmp_path / "job.yaml").write_text(f"script: {json.dumps(name)}\n")
    one_error(run("generate", *HERE, "-f", "job.yaml", code=2), *words)
    run("generate", *HERE, "-N2", "--gpus-per-node=1", "train.py", name)


@pytest.mark.parametrize("name", ["train.py", "job.sh", "no_suffix"])
def test_job_file_that_is_a_program(name: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / name).write_text("#!/bin/bash\n#SBATCH -N 2\nsrun true\n")
    one_error(run("submit", *ONE, "-f", name, code=3), f"{name} is a program", "without -f")


def test_two_numbers_of_time_are_minutes(run: Run, fake_slurm: FakeSlurm) -> None:
    result = run("submit", *ONE, "-t", "24:00", "--dry-run", "train.py")
    assert "at most 00:24:00 (24:00 is MM:SS to Slurm; hours are 24:00:00)" in result.stderr
    assert "--time=00:24:00" in result.stdout


def test_no_script(run: Run) -> None:
    one_error(run("generate", *ONE, code=2), "no SCRIPT", "script:")


def test_empty_script(run: Run) -> None:
    one_error(run("generate", *ONE, "", code=2), "SCRIPT is empty")


def test_argument_that_is_no_text(run: Run) -> None:
    one_error(run("generate", *ONE, "train.py", "a\udcff", code=2), "not valid UTF-8")


def test_current_directory_is_gone(run: Run, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone} && rmdir {gone} && exec {sys.executable} -m neuronctl generate x.py"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert result.returncode == 2
    one_error(result, "current directory")


# ----------------------------------------------------------------------- wrong files: exit 3


def test_unknown_key_in_job_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("nodes: 2\n\nparition: gpu\n")
    result = run("submit", "-f", "job.yaml", "train.py", code=3)
    one_error(result, "job.yaml:3: unknown key 'parition'", "did you mean partition")


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_job_file_that_cannot_be_read(name: str, run: Run) -> None:
    result = run("generate", "-f", name, "train.py", code=3)
    assert "cannot read" in result.stderr and "Traceback" not in result.stderr


def test_wrong_configuration(run: Run, clean_home: Path) -> None:
    path = clean_home / ".config" / "neuronctl" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("acount: x\n")
    one_error(run("generate", *ONE, "train.py", code=3), f"{path}:1: unknown key 'acount'")


def test_unknown_cluster(run: Run) -> None:
    result = run("generate", "--cluster", "neutron", "train.py", code=3)
    one_error(result, "'neutron'", "did you mean neuron")


# ----------------------------------------------------- what the cluster does not take: exit 4


def refused(result: Result[str], code: str, *words: str) -> None:
    assert result.stdout == ""
    assert f"neuronctl: error {code}: " in result.stderr
    assert "nothing was done" in result.stderr
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.stderr


NEURON = ["--field", "misc", "--appl", "pytorch", "--gpus-per-node", "1"]
REFUSED = [
    ([*HERE[:2], "-p", "amd_a100", "--comment", "x"], "NC101", ["amd_a100nv_8", "amd_a100_4"]),
    ([*HERE, "--gpus-per-node", "9"], "NC121", ["9 GPUs", "have 8", "-N 3 --gpus-per-node 3"]),
    ([*ONE, "-t", "3-0"], "NC141", ["3-00:00:00", "2-00:00:00"]),
    (["-p", "amd_a100nv_8", "--gpus-per-node", "1", "--comment", "pytorch"], "NC202", ["--field"]),
    ([*ONE, "-N", "999999999"], "NC111", ["999999999 nodes"]),
    ([*ONE, "-w", "gpu[1-99999999]"], "NC312", ["--nodelist"]),
]


@pytest.mark.parametrize(("options", "code", "words"), REFUSED)
def test_refused_by_the_catalog(
    options: List[str], code: str, words: List[str], run: Run, fake_slurm: FakeSlurm
) -> None:
    refused(run("submit", *options, "train.py", code=4), code, *words)
    assert fake_slurm.calls("sbatch") == []
    assert records() == []


@pytest.mark.parametrize(
    "word", ["--dry-run", "--no-preflight", "--preflight", "--follow", "--wait", "--explain"]
)
def test_own_option_behind_the_program(word: str, run: Run, fake_slurm: FakeSlurm) -> None:
    said = run("submit", *ONE, "train.py", "--lr", "1", word, code=2).stderr
    assert f"{word} comes after train.py, which would receive it" in said
    assert "put it before train.py" in said
    assert fake_slurm.calls("sbatch") == []
    run("submit", *ONE, "--dry-run", "--", "train.py", word)
    if word in ("--no-preflight", "--explain"):
        assert word in run("generate", *ONE, "train.py", word, code=2).stderr
    if word == "--wait":
        run("generate", *ONE, "train.py", word)


def test_a_switch_that_may_have_a_word(run: Run, tmp_path: Path) -> None:
    """What follows it and is not the word is the program."""
    for words in (["--preflight", "deep"], ["--preflight=deep"], ["-N", "1", "--preflight=deep"]):
        assert "measure_nodes" in run("generate", *ONE, *words, "train.py").stdout
    assert "measure_nodes" not in run("generate", *ONE, "--preflight", "train.py", "deep").stdout
    assert "deep.py" in run("generate", *ONE, "--no-preflight", "deep.py").stdout
    said = run("generate", *ONE, "--preflight=deeper", "train.py", code=2).stderr
    assert "--preflight: 'deeper' is not a valid value" in said
    said = run("submit", *ONE, "train.py", "--preflight", "deep", code=2).stderr
    assert "--preflight comes after train.py" in said
    (tmp_path / "job.yaml").write_text("preflight: deep\nscript: train.py\n")
    assert "measure_nodes" in run("generate", *ONE, "-f", "job.yaml").stdout
    (tmp_path / "job.yaml").write_text("preflight: deeper\nscript: train.py\n")
    said = run("generate", *ONE, "-f", "job.yaml", code=3).stderr
    assert "expected true, false, or deep, found the text 'deeper'" in said


@pytest.mark.parametrize(
    ("word", "dash", "meant"),
    [
        ("\u2013p", "an en dash (U+2013)", "-p"),
        ("\u2014partition=gpu", "an em dash (U+2014)", "--partition=gpu"),
        ("\u2212\u2212nodes", "a minus sign (U+2212)", "--nodes"),
        ("\u2013ntasks\u2013per\u2013node", "an en dash (U+2013)", "--ntasks-per-node"),
    ],
)
def test_a_dash_that_is_not_ascii(word: str, dash: str, meant: str, run: Run) -> None:
    for command in ("submit", "generate", "salloc"):
        said = run(command, *ONE, word, "train.py", code=2).stderr
        assert f"'{word}' begins with {dash}, not with '-'" in said
        assert f"type {meant}\n" in said


def test_a_dash_in_a_job_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("ntasks\u2013per-node: 2\nscript: train.py\n")
    said = run("generate", "-f", "job.yaml", code=3).stderr
    assert "job.yaml:1: unknown key 'ntasks-per-node', which contains an en dash (U+2013)" in said
    (tmp_path / "job.yaml").write_text("time: 1\u201312\nscript: train.py\n")
    said = run("generate", "-f", "job.yaml", code=3).stderr
    assert "job.yaml:1: time: " in said and "it contains an en dash (U+2013), not '-'" in said


def test_a_word_that_sbatch_does_not_know(run: Run) -> None:
    said = run("submit", *ONE, "--sbatch", "cpu-bind=none", "train.py", code=2).stderr
    assert (
        "srun, which sbatch does not know" in said and "--launcher-option=--cpu-bind=none" in said
    )


def test_no_gpus_are_explained(run: Run) -> None:
    for option in ("--gres=gpu:0", "--gpus-per-node=0", "--gpus=0"):
        said = run("generate", "-p", "amd_a100nv_8", *NEURON[:4], option, "train.py").stderr
        assert "warning NC122: requested no GPU; amd_a100nv_8 is a GPU partition" in said
        out = run("generate", "-p", "cpu", *NEURON[:4], option, "train.py").stdout
        assert "gpu" not in out


def test_script_that_does_not_exist(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    refused(run("submit", *ONE, "tain.py", code=4), "NC401", "tain.py", str(tmp_path))
    assert fake_slurm.calls("sbatch") == []
    shown = run("generate", *ONE, "tain.py")
    assert "warning NC401" in shown.stderr
    said = run("submit", "nofile.sh", code=4).stderr
    assert said.startswith("neuronctl: error NC401: no program 'nofile.sh'") and "NC101" in said


def test_script_that_is_a_directory_or_a_fifo(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dir.py").mkdir()
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "dir").mkdir()
    for name, words in (
        ("dir.py", "'dir.py' is a directory, not a program"),
        ("dir", "'dir' is a directory, not a program"),
        ("fifo.py", "is not a file"),
    ):
        refused(run("submit", *ONE, name, code=4), "NC401", words)


def test_log_directory_that_does_not_exist(run: Run, fake_slurm: FakeSlurm) -> None:
    refused(run("submit", *ONE, "-o", "logs/%j.out", "train.py", code=4), "NC411", "'logs'")
    refused(run("submit", *ONE, "-o", ".", "train.py", code=4), "NC411", "is a directory")
    fake_slurm.answer("sbatch", "1\n")
    run("submit", *ONE, "-o", "/dev/null", "train.py")


def test_everything_at_once(run: Run) -> None:
    options = [*HERE, "--gpus-per-node", "9", "-t", "9-0", "-N", "99"]
    result = run("submit", *options, "none.py", code=4)
    for code in ("NC111", "NC121", "NC141", "NC401"):
        assert f"error {code}" in result.stderr
    assert "4 errors" in result.stderr or "5 errors" in result.stderr


def test_force(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    result = run("submit", *ONE, "-t", "3-0", "--force", "train.py")
    assert "4711" in result.stdout and "NC141" in result.stderr
    assert "#SBATCH --time=3-00:00:00" in fake_slurm.stdin()


# --------------------------------------------------------------------- Slurm: exit 6 and 7


def test_no_slurm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path}/bin:{Path(__file__).parents[1]}/on_path"
    result = run("submit", *ONE, "train.py", code=6, env={"PATH": path})
    one_error(result, "sbatch not found", "neuronctl generate")


def test_no_slurm_for_salloc(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    result = run("salloc", *ONE, code=6, env={"PATH": str(tmp_path / "bin")})
    one_error(result, "salloc not found")


def test_sbatch_refuses(run: Run, fake_slurm: FakeSlurm) -> None:
    words = "sbatch: error: Batch job submission failed: Invalid account or partition"
    fake_slurm.answer("sbatch", stderr=words + "\n", code=1)
    result = run("submit", *ONE, "train.py", code=7)
    assert "Invalid account or partition" in result.stderr
    assert (result.stdout, result.stderr.count("Invalid account")) == ("", 1)


def test_controller_does_not_answer(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer(
        "sbatch", stderr="sbatch: error: Unable to contact slurm controller\n", code=1
    )
    one_error(run("submit", *ONE, "train.py", code=6), "Unable to contact slurm controller")


SHORT = """
from neuronctl.cli import main
from neuronctl.slurm import sbatch as submit
submit._PATIENCE = 0.5
main()
"""


def test_sbatch_hangs(fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """The real command line, with a time limit of half a second instead of half a minute."""
    fake_slurm.answer("sbatch", "4711\n", delay=60)
    result = subprocess.run(
        [sys.executable, "-c", SHORT, "submit", *ONE, "train.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=500,
    )
    assert result.returncode == 6
    one_error(result, "sbatch did not respond within 0.5 s", "unknown whether", "neuronctl status")


def test_sbatch_prints_no_job_id(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "Welcome to the cluster\n")
    one_error(run("submit", *ONE, "train.py", code=6), "no job id", "Welcome to the cluster")


def test_ctrl_c_during_sbatch(fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n", delay=60)
    with subprocess.Popen(
        [sys.executable, "-m", "neuronctl", "submit", *ONE, "train.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        while not fake_slurm.calls("sbatch") and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=500)
    assert (process.returncode, stdout) == (130, "")
    assert "interrupted" in stderr and "may be in the queue" in stderr
    assert "Traceback" not in stderr


# ---------------------------------------------------------- the cannot write the job's record


@pytest.mark.parametrize("kind", ["file", "read-only", "full"])
def test_job_id_is_printed_without_a_record(
    kind: str, run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    state = tmp_path / "state"
    mount: List[str] = []
    if kind == "file":  # the only one of the three that stops root without a mount
        state.write_text("")
    else:
        state.mkdir()
        option = "ro" if kind == "read-only" else "size=4k,nr_inodes=2"
        mount = ["unshare", "--map-root-user", "--mount", "bash", "-c"]
        mount += [f'mount -t tmpfs -o {option} none "$0" && exec "$@"', str(state)]
        if subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
            pytest.skip("no mount namespace here")
    command = [*mount, sys.executable, "-m", "neuronctl", "submit", *ONE, "train.py"]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
    )
    assert result.returncode == 0, result.stderr
    assert "4711" in result.stdout
    assert "cannot write the job's record" in result.stderr and str(state) in result.stderr
    assert "Traceback" not in result.stderr


# ----------------------------------------------------------------------------- --write


def test_write_never_over_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("mine\n")
    one_error(run("generate", *ONE, "--write", "job.sh", "train.py", code=2), "already exists")
    assert path.read_text() == "mine\n"
    run("generate", *ONE, "--write", "job.sh", "--force", "train.py")
    assert path.read_text().startswith("#!/bin/bash\n")


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_write_never_over_what_is_no_file(force: List[str], run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dir").mkdir()
    for name in ("fifo", "dir", ".", "/dev/null", ""):
        result = run("generate", *ONE, *force, "--write", name, "train.py", code=2)
        one_error(result)
    assert (tmp_path / "fifo").is_fifo()
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("name", ["no/such/dir.sh", "train.py/x.sh", "x" * 300, "/proc/x.sh"])
def test_write_where_nothing_can_be_written(name: str, run: Run, tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    result = run("generate", *ONE, "--write", name, "train.py", code=2)
    assert "cannot be written" in result.stderr and "Traceback" not in result.stderr
    assert sorted(os.listdir(tmp_path)) == before


# ------------------------------------------------------------------------ broken outputs


def test_reader_that_has_seen_enough(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "neuronctl", "generate", *ONE, "train.py"]
    read, write = os.pipe()
    os.close(read)
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    os.close(write)
    assert (result.returncode, result.stderr) == (0, "")


def test_closed_standard_output(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m neuronctl generate {' '.join(ONE)} train.py >&-"
    result = subprocess.run(
        ["bash", "-c", command], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert "Traceback" not in result.stderr and "internal error" not in result.stderr


SUBMIT = f"{sys.executable} -m neuronctl submit {' '.join(ONE)} --force"


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", "2>&1 >/dev/null | true", ">&-", "<&-"])
def test_what_cannot_be_said_decides_nothing(
    where: str, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    """Of a job or of its refusal: the exit code is the true one, and the job is submitted."""
    fake_slurm.answer("sbatch", "7\n")
    (tmp_path / "train.py").write_text("")
    env = {**os.environ, **fake_slurm.env}
    for words, code, calls in (("train.py", 0, 1), ("-p nowhere --no-such train.py", 2, 1)):
        shell = ["bash", "-c", f"{SUBMIT} {words} {where}; exit ${{PIPESTATUS[0]}}"]
        done = subprocess.run(shell, env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done
        assert len(fake_slurm.calls("sbatch")) == calls


@pytest.mark.parametrize(
    ("where", "said"),
    [(">/dev/full", "job 7 is submitted; cannot write standard output"), ("| true", "")],
)
def test_a_job_that_is_submitted_is_no_failure(
    where: str, said: str, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    fake_slurm.answer("sbatch", "7\n")
    (tmp_path / "train.py").write_text("")
    shell = ["bash", "-c", f"{SUBMIT} train.py {where}; exit ${{PIPESTATUS[0]}}"]
    env = {**os.environ, **fake_slurm.env}
    done = subprocess.run(shell, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and said in done.stderr and "internal error" not in done.stderr


def test_full_standard_output(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m neuronctl generate {' '.join(ONE)} train.py >/dev/full"
    result = subprocess.run(
        ["bash", "-c", command], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert result.returncode == 2
    assert "no space left" in result.stderr and "internal error" not in result.stderr
    assert "Traceback" not in result.stderr


# --------------------------------------------------------------------------------- JSON


def test_a_refusal_is_json_and_wrong_usage_is_not(run: Run, fake_slurm: FakeSlurm) -> None:
    """A program that reads --json can tell the two apart, by the exit code and by what is there."""
    good = json.loads(run("submit", *ONE, "--json", "--dry-run", "train.py").stdout)
    for options in (["--dry-run"], []):
        result = run("submit", *ONE, "-t", "3-0", "--json", *options, "train.py", code=4)
        data = json.loads(result.stdout)
        assert list(data) == list(good)
        assert (data["job_id"], data["script"]) == (None, None)
        assert data["verdict"]["kind"] == "refused" and data["verdict"]["cause"] == "NC141"
        assert [one["code"] for one in data["findings"]] == ["NC141"]
        assert "refused: 1 error" in result.stderr
    assert fake_slurm.calls("sbatch") == []
    one_error(run("submit", *ONE, "--json", "-N", "x", "train.py", code=2))
