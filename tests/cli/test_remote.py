"""--on NAME over a real ssh, with an sshd of the test's own and a fake Slurm behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from fake_slurm import FakeSlurm
from forks import Command, Forks
from ssh_server import Login, make_login
from terminal import on_terminal

import neuronctl
from neuronctl.common.errors import NoSuchJobError, NotConnectedError, UsageError

pytestmark = pytest.mark.xdist_group("remote")
Run = Callable[..., subprocess.CompletedProcess]
SUBMIT = ("submit", "--cluster", "neuron", "-p", "cas_v100nv_8", "-t", "5", "--gpus-per-node", "1")
SUBMIT = (*SUBMIT, "--field", "cv", "--appl", "pytorch", "--force")
NEURONCTL = (sys.executable, "-m", "neuronctl")


@pytest.fixture(scope="module")
def connected() -> Iterator[Login]:
    """One connection for all tests that leave it alone."""
    with tempfile.TemporaryDirectory(prefix="n") as top, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", f"{top}/state")
        patch.setenv("XDG_CACHE_HOME", f"{top}/cache")
        here = os.getcwd()
        node, said = make_login(Path(top), patch)
        assert "connected to there" in said, said
        yield node
        node.kill(signal.SIGTERM)
        os.chdir(here)


@pytest.fixture
def node(connected: Login, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Login:
    """The connection, with an empty project around the test."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    state = Path(connected.work).parent / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("XDG_CACHE_HOME", str(state.parent / "cache"))
    monkeypatch.setenv("PATH", f"{state.parent}/bin:/usr/bin:/bin")
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{state.parent}/run")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    connected.slurm.answer("sbatch", "4711\n")
    connected.slurm.answer("squeue")
    return connected


FORKS: List[Forks] = []


@pytest.fixture(scope="module", autouse=True)
def server(forks: Forks) -> None:
    FORKS[:] = [forks]


def on(*words: str, code: int = 0, name: str = "there") -> subprocess.CompletedProcess[str]:
    """Run a command line on the cluster."""
    result = FORKS[0].run(Command(["--on", name, *words], dict(os.environ), Path.cwd()))
    assert result.returncode == code, (result.stdout, result.stderr)
    return result


def test_noise_of_start_up_files_stays_out_of_json(node: Login) -> None:
    noise = "echo '{\"schema\": 0}'; echo noise >&2; printf '\\033]0;title\\007'\n"
    (node.home / ".bashrc").write_text(noise)
    profile = (node.home / ".bash_profile").read_text()
    (node.home / ".bash_profile").write_text(noise + profile)
    said = on("status", "--json")
    (node.home / ".bash_profile").write_text(profile)
    (node.home / ".bashrc").unlink()
    assert json.loads(said.stdout)["schema"] == "neuronctl.status/1"
    assert said.stderr == ""


def test_exit_codes_and_hints_come_from_there(node: Login) -> None:
    said = on("logs", "4712", code=8)
    assert "'neuronctl --on there status'" in said.stderr


def test_words_arrive_byte_for_byte(node: Login) -> None:
    words = ["a b", "", "'", '"', "$HOME", "`id`", "한글", "!", "\\", "*", "a\nb"]
    Path("train.py").touch()
    on(*SUBMIT, "train.py", *words)
    said = on("history", "--json")
    assert json.loads(said.stdout)["submissions"][0]["command_line"][-len(words) :] == words


def test_a_submission_runs_the_code_that_was_sent(node: Login) -> None:
    Path("train.py").write_text("print(1)\n")
    assert "Submitted batch job 4711" in on(*SUBMIT, "train.py").stdout
    assert "snapshots" in on("show", "4711", "--script").stdout


def test_an_unchanged_project_is_not_sent_again(node: Login) -> None:
    for number in range(30):
        Path(f"{number}.py").write_text(str(number))
    assert "sent 30 files" in on(*SUBMIT, "0.py").stderr
    assert "sent" not in on(*SUBMIT, "0.py").stderr
    Path("7.py").write_text("changed")
    assert "sent 1 file " in on(*SUBMIT, "0.py").stderr
    Path("8.py").chmod(0o755)
    assert "sent 1 file " in on(*SUBMIT, "0.py").stderr


def test_a_job_without_files_runs_in_a_directory_of_its_own(node: Login) -> None:
    said = on(*SUBMIT, "--", "hostname").stdout
    assert f"log     {node.home}/neuronctl/project" in said


def test_a_file_that_changed_there_is_not_overwritten(node: Login, tmp_path: Path) -> None:
    Path("train.py").write_text("1")
    said = on(*SUBMIT, "train.py").stderr
    there = Path(said.split("there:")[1].split("\n")[0], "train.py")
    there.write_text("changed there")
    Path("train.py").write_text("changed here")
    calls = len(node.slurm.calls("sbatch"))
    said = on(*SUBMIT, "train.py", code=2)
    assert "train.py" in said.stderr and there.read_text() == "changed there"
    assert len(node.slurm.calls("sbatch")) == calls
    on("--allow", "train.py", *SUBMIT, "train.py")
    assert there.read_text() == "changed here"


def test_a_dry_run_sends_the_list_and_the_script(node: Login) -> None:
    Path("train.py").write_text("print('the script')\n")
    Path("secret.txt").write_text("not sent yet")
    before = {path for path in node.home.rglob("*") if ".cache" not in path.parts}
    said = on(*SUBMIT, "--dry-run", "train.py")
    assert "exec python" in said.stdout or "python" in said.stdout
    assert "secret.txt" in said.stderr and "12 B" in said.stderr
    left = {path for path in node.home.rglob("*") if ".cache" not in path.parts} - before
    assert not [path for path in left if path.name in ("train.py", "secret.txt")]


def test_a_secret_is_refused_by_name(node: Login) -> None:
    Path("train.py").touch()
    Path(".env").touch()
    assert "not sent: .env (a file of secrets)" in on(*SUBMIT, "train.py", code=2).stderr
    on("--allow", ".env", *SUBMIT, "train.py")


def test_pull_brings_back_what_differs(node: Login) -> None:
    Path("train.py").touch()
    said = on(*SUBMIT, "train.py").stderr
    folder = Path(said.split("there:")[1].split("\n")[0])
    (folder / "results" / "a b").mkdir(parents=True)
    (folder / "results" / "a b" / "한글").write_bytes(b"\0\xff")
    assert on("pull", "results").stdout == "results/a b/한글\n"
    assert Path("results/a b/한글").read_bytes() == b"\0\xff"
    again = on("pull", "results")
    assert again.stdout == "" and "0 of 1 file came" in again.stderr
    Path("results/a b/한글").write_text("mine")
    assert "newer here: kept" in on("pull", "results").stderr
    assert "did you mean results?" in on("pull", "result", code=2).stderr
    assert "PATHS is missing" in on("pull", code=2).stderr


def test_pull_of_all_leaves_the_repository_here_alone(node: Login) -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)
    Path("train.py").touch()
    said = on(*SUBMIT, "train.py").stderr
    folder = Path(said.split("there:")[1].split("\n")[0])
    (folder / "result.txt").write_text("0.9")
    before = {path: path.read_bytes() for path in Path(".git").rglob("*") if path.is_file()}
    assert "result.txt" in on("pull", ".").stdout
    assert {path: path.read_bytes() for path in Path(".git").rglob("*") if path.is_file()} == before


def test_the_terminal_is_the_users(node: Login) -> None:
    Path("train.py").touch()
    on(*SUBMIT, "train.py")
    said = on_terminal("", "--on", "there", "status", width=40)
    assert "hidden to fit the terminal" in said


def test_standard_input_is_left_alone(node: Login) -> None:
    lines = "import subprocess, sys; subprocess.run(sys.argv[1:]); print(sys.stdin.readline())"
    argv = [sys.executable, "-c", lines, *NEURONCTL, "--on", "there", "status"]
    said = subprocess.run(argv, input="next line\n", capture_output=True, text=True)
    assert said.stdout.endswith("next line\n\n")


def test_several_clusters_and_one_that_does_not_answer(node: Login) -> None:
    said = on("status", code=10, name="there,nowhere")
    assert said.stdout.startswith("there:\n") and "nowhere" not in said.stdout
    assert "neuronctl login nowhere" in said.stderr


def test_the_configuration_names_the_cluster(node: Login, tmp_path: Path) -> None:
    config = tmp_path / "config" / "neuronctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("on: there\n")
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    said = subprocess.run([*NEURONCTL, "logs", "4712"], capture_output=True, text=True, env=env)
    assert "neuronctl --on there status" in said.stderr
    listed = subprocess.run([*NEURONCTL, "config"], capture_output=True, text=True, env=env)
    assert listed.stdout.splitlines()[1].split()[:2] == ["on", "there"]


def test_on_the_cluster_itself_it_runs_there(
    fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=neuron\n")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    on("history", name="neuron")
    on("history", name="elsewhere", code=10)


def test_a_dead_connection_is_one_line_and_opens_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="n") as top:
        monkeypatch.setenv("XDG_STATE_HOME", f"{top}/state")
        node, said = make_login(Path(top), monkeypatch)
        assert "connected to there" in said
        node.kill()  # which leaves the socket behind
        accepted = node.logged("Connection from")
        error = on("status", code=10).stderr
        assert error == "neuronctl: not connected to there; run: neuronctl login there\n"
        assert node.logged("Connection from") == accepted
        assert "connected to there" in node.login()
        on("status")
        subprocess.run([*NEURONCTL, "logout", "there"], check=True, capture_output=True)
        on("status", code=10)


def test_a_login_that_breaks_off_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="n") as top:
        monkeypatch.setenv("XDG_STATE_HOME", f"{top}/state")
        node, _ = make_login(Path(top), monkeypatch, "export PATH=/nowhere; exit 3")
        assert node.sessions()
        on("status", code=10)
        subprocess.run([*NEURONCTL, "logout", "there"], check=True, capture_output=True)
        assert not node.sessions()


def test_a_lost_submission_typed_again_has_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="n") as top:
        monkeypatch.setenv("XDG_STATE_HOME", f"{top}/state")
        node, _ = make_login(Path(top), monkeypatch)
        Path("train.py").touch()
        node.slurm.answer("sbatch", "4711\n", delay=600)
        words = [*NEURONCTL, "--on", "there", *SUBMIT, "train.py"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None and not node.slurm.calls("sbatch"):
                time.sleep(0.05)
            node.kill()
            _, error = process.communicate()
            (node.slurm.directory / "over").touch()
        assert process.returncode == 11
        assert "not known whether the job was accepted" in error
        keys = list(Path(f"{top}/state/neuronctl/remotes/pending/there").iterdir())
        assert len(keys) == 1
        node.login()
        on(*SUBMIT, "train.py")
        assert len(node.slurm.calls("sbatch")) == 1
        assert list(keys[0].parent.iterdir()) == []
        node.kill()


def test_a_cluster_without_a_login_is_named_as_such(node: Login) -> None:
    error = on("status", code=10, name="nowhere").stderr
    assert "there was no login to a cluster called nowhere" in error
    assert "clusters with a login: there" in error


def test_a_socket_of_somebody_else_is_refused(node: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    state = Path(os.environ["XDG_STATE_HOME"]) / "neuronctl" / "remotes"
    data = json.loads((state / "there.json").read_text())
    other = {**data, "name": "foreign", "socket": "/dev/null"}
    (state / "foreign.json").write_text(json.dumps(other))
    (state / "foreign.json").chmod(0o600)
    assert "/dev/null is not a socket of yours" in on("status", code=2, name="foreign").stderr


def test_doctor_says_how_the_connection_is(node: Login) -> None:
    argv = [*NEURONCTL, "--on", "there", "doctor", "--json"]
    answer = json.loads(subprocess.run(argv, capture_output=True, text=True).stdout)
    seen = {check["name"]: check["words"] for check in answer["checks"]}
    assert seen["connection"].startswith("to there, for ")
    assert seen["projects"] == f"there:{node.home}/neuronctl"
    assert {"python there", "slurm", "catalog"} <= seen.keys()


def test_a_program_submits_asks_and_pulls(node: Login) -> None:
    Path("train.py").touch()
    there = neuronctl.Remote("there")
    options = dict(cluster="neuron", partition="cas_v100nv_8", time="5", gpus_per_node=1)
    options.update(field="cv", appl="pytorch")
    job = there.submit("train.py", force=True, **options)
    assert (job.id, there.history(limit=1)[0]["job_id"]) == ("4711", "4711")
    Path("train.py").unlink()
    assert there.pull("train.py") == ["train.py"]


def test_a_program_gets_the_errors_of_the_command(node: Login) -> None:
    Path(".env").touch()
    with pytest.raises(UsageError, match=r"^not sent: \.env"):
        neuronctl.Remote("there").submit("train.py")
    with pytest.raises(NoSuchJobError):
        neuronctl.Remote("there").run("logs", "4712")
    with pytest.raises(NotConnectedError):
        neuronctl.Remote("nowhere").status()


def test_a_variable_of_this_machine_does_not_travel(
    node: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    Path("train.py").touch()
    error = on(*SUBMIT, "--env", "HF_TOKEN", "train.py", code=2).stderr
    assert "HF_TOKEN is not exported on there" in error and "~/.bash_profile" in error
