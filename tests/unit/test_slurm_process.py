"""Starting Slurm's commands: real executables of the test's own making, faults included."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import pytest

from neuronctl.common.errors import SlurmRefusedError, SlurmUnavailableError, UsageError
from neuronctl.common.words import moment
from neuronctl.slurm import sbatch as sbatch_module
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.fields import ExitCode
from neuronctl.slurm.job_control import scancel
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import become, installed
from neuronctl.slurm.sacct import ask_steps, sacct
from neuronctl.slurm.sbatch import Submitted, sbatch
from neuronctl.slurm.squeue import squeue

Command = Callable[[str, str], Path]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """``command("sbatch", "echo 7")`` makes a shell script of that name, the only one on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")

    def make(name: str, body: str) -> Path:
        file = folder / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)
        return file

    return make


def test_script_and_mark_arrive_as_they_are(command: Command, tmp_path: Path) -> None:
    command("sbatch", 'cat > script; printf "%s\\n" "$@" > argv; pwd > dir; echo "7;neuron"')
    script = "#!/bin/bash\npython 'a b' $HOME ü \udcff\n"
    (tmp_path / "work").mkdir()
    submitted = sbatch(script, mark="a;$(id)", cwd=str(tmp_path / "work"))
    assert submitted == Submitted(7, "neuron", "")
    assert (tmp_path / "work/script").read_bytes() == script.encode("utf-8", "surrogateescape")
    argv = (tmp_path / "work/argv").read_text().splitlines()
    assert argv == ["--parsable", "/dev/stdin", "neuronctl-a;$(id)"]


def test_refused_in_slurms_own_words(command: Command) -> None:
    command("sbatch", 'echo "sbatch: error: comment?\nsbatch: error: Failed: Denied" >&2; exit 1')
    with pytest.raises(
        SlurmRefusedError, match="sbatch refused the request: comment\\?\nFailed: Denied"
    ):
        sbatch("")


def test_what_slurm_says_of_a_job_that_is_not_submitted(command: Command) -> None:
    said = "Job 7 to start at {} using 8 processors on nodes gpu35"
    command("sbatch", f"echo 'sbatch: {said.format(1786527000)}' >&2")
    answer = sbatch_module.test_submission(["sbatch"], "x")
    assert answer == sbatch_module.Tested(said.format(moment(1786527000, seconds=True)), 1786527000)
    # A wrapper may remove SLURM_TIME_FORMAT.
    command("sbatch", f"echo 'sbatch: {said.format('2026-08-12T09:30:00')}' >&2")
    assert sbatch_module.test_submission(["sbatch"], "x").start is None
    command("sbatch", "echo 'allocation failure: Required node not available' >&2; exit 1")
    answer = sbatch_module.test_submission(["sbatch"], "x")
    assert "Required node" in answer.said and answer.unavailable
    command("sbatch", "echo 'Requested node configuration is not available' >&2; exit 1")
    assert sbatch_module.test_submission(["sbatch"], "x").too_small
    command("sbatch", "echo 'allocation failure: Invalid feature specification' >&2; exit 1")
    with pytest.raises(SlurmRefusedError) as caught:
        sbatch_module.test_submission(["sbatch"], "x")
    assert "scontrol show node" in caught.value.hint


def test_a_range_that_slurmdbd_finds_too_wide_is_asked_for_in_parts(command: Command) -> None:
    """MaxQueryTimeRange: here it answers for a day and less."""
    command(
        "sacct",
        """for word; do
    case $word in
    --starttime=*) begin=$(date -ud "${word#*=}" +%s) ;;
    --endtime=*) end=$(date -ud "${word#*=}" +%s) ;;
    esac
done
if [ $((end - begin)) -gt 86400 ]; then
    echo "sacct: error: Too wide of a date range in query" >&2
    exit 95
fi
echo "$begin $end" >>"$(dirname "$0")/asked"
""",
    )
    now = int(time.time())
    assert sacct(since=now - 3 * 86400).off == ""
    path = Path(str(shutil.which("sacct"))).with_name("asked")
    asked = sorted(tuple(map(int, line.split())) for line in path.read_text().splitlines())
    assert asked[0][0] == now - 3 * 86400 and asked[-1][1] >= now
    assert all(end == begin for (_, end), (begin, _) in zip(asked, asked[1:]))


def test_steps_are_asked_for_by_names_that_sacct_knows(command: Command) -> None:
    command(
        "sacct",
        r"""names=JobID,State,ExitCode,MaxRSS,ReqMem,TotalCPU,NCPUS,ElapsedRaw,DerivedExitCode
case " $* " in
*" --format=$names "*) printf '4711.0|FAILED|3:0|1G||00:10.5|2|9|\n' | tr '|' '\037' ;;
*) exit 1 ;;
esac
""",
    )
    (step,) = ask_steps([JobId(4711)])["4711"]
    assert (step.name, step.exit, step.cpu) == ("0", ExitCode(3, 0), 10)


def test_a_test_has_the_environment_of_the_submission(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generated script's sbatch gets no SBATCH_* of the shell, somebody's own script does."""
    monkeypatch.setenv("SBATCH_PARTITION", "nosuch")
    command("sbatch", 'echo "partition $SBATCH_PARTITION" >&2')
    assert sbatch_module.test_submission((), "x").said == "partition"
    assert sbatch_module.test_submission(["sbatch", "x.sh"], None).said == "partition nosuch"


def test_controller_away(command: Command) -> None:
    command("sbatch", 'echo "sbatch: error: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(SlurmUnavailableError, match="cannot reach slurmctld") as caught:
        sbatch("")
    assert "unknown" not in caught.value.hint, "it was surely not accepted"
    command("sbatch", 'echo "sbatch: error: Socket timed out on send/recv" >&2; exit 1')
    with pytest.raises(SlurmUnavailableError) as caught:
        sbatch("")
    assert "unknown whether the job was accepted" in caught.value.hint


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 7; exit 3", "sbatch printed the job id 7, but ended with exit code 3$"),
        ("echo 7; kill -9 $$", "sbatch printed the job id 7, but ended with exit code -9$"),
        ("echo hm >&2; kill -9 $$", "sbatch was killed by signal 9: hm$"),
    ],
)
def test_a_submission_that_may_have_arrived(body: str, said: str, command: Command) -> None:
    command("sbatch", body)
    with pytest.raises(SlurmUnavailableError, match=said) as caught:
        sbatch("")
    assert "unknown whether the job was accepted" in caught.value.hint


def test_of_a_long_message_beginning_and_end_are_told(command: Command) -> None:
    command("sbatch", 'echo "sbatch: error: a"; yes no | head -n 9999; echo z >&2; exit ${1:+0}')
    with pytest.raises(SlurmUnavailableError, match=r"(?s)printed no job id: a\n.*z$") as caught:
        sbatch("", mark="m")
    assert len(caught.value.message) < 5000
    assert "unknown whether the job was accepted" in caught.value.hint


def test_an_answer_that_ends_in_the_middle_of_a_line(command: Command) -> None:
    command("squeue", "printf '4711\\037x'")
    with pytest.raises(SlurmUnavailableError, match="ends in the middle of a line"):
        squeue()
    command("sacct", "printf '4711\\0374711'")
    with pytest.raises(SlurmUnavailableError, match="sacct's answer"):
        sacct()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(check: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 250
    while not check():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_hanging_is_ended_with_its_children(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neuronctl.slurm.sbatch._PATIENCE", 5)
    command("sbatch", f"sleep 300 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(SlurmUnavailableError, match="did not respond within") as caught:
        sbatch("x")
    assert "unknown whether the job was accepted" in caught.value.hint
    assert "neuronctl status" in caught.value.hint
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: not is_alive(child))


def test_a_command_that_does_not_read_its_script(command: Command) -> None:
    command("sbatch", "exec <&-; echo 'sbatch: error: no' >&2; exit 1")
    with pytest.raises(SlurmRefusedError, match="no"):
        sbatch("x" * 10_000_000)


def test_ctrl_c_ends_the_command(command: Command, tmp_path: Path) -> None:
    # The pause lets Python know of its child before it is interrupted.
    command("squeue", f"sleep 0.5; echo $$ > {tmp_path}/pid; sleep 300 & wait")
    program = "from neuronctl.slurm.squeue import squeue; squeue()"
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=250) == -signal.SIGINT
    child = int((tmp_path / "pid").read_text())
    wait_for(lambda: not is_alive(child))


def test_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not installed()
    for call in (lambda: sbatch(""), squeue, sacct):
        with pytest.raises(SlurmUnavailableError, match="not found") as caught:
            call()
        assert "neuronctl generate" in caught.value.hint
    with pytest.raises(SlurmUnavailableError, match="not found"):
        become(["salloc"])


def test_a_directory_that_is_not_there(command: Command, tmp_path: Path) -> None:
    command("sbatch", "echo 7")
    with pytest.raises(UsageError, match="no such directory"):
        sbatch("", cwd=str(tmp_path / "none"))


def test_nul(command: Command) -> None:
    command("sbatch", "echo 7")
    with pytest.raises(UsageError, match="NUL"):
        sbatch("", mark="a\0b")


def test_scancel_words_about_no_job(command: Command) -> None:
    command("scancel", 'echo "scancel: error: Unable to open socket" >&2; exit 1')
    with pytest.raises(SlurmRefusedError, match="Unable to open socket"):
        scancel([JobId(7)])


def test_output_that_is_not_text(command: Command) -> None:
    command("squeue", "printf '\\377\\036\\n'")
    assert squeue() == ()


def test_a_command_on_the_terminal_takes_the_place_of_neuronctl(command: Command) -> None:
    command("salloc", 'echo "$@"; yes; exit 3')
    call = "from neuronctl.slurm.process import become; become(['salloc', '-N', '1'])"
    argv = ["bash", "-c", '"$0" -c "$1" 2>&1 | head -n 1', sys.executable, call]
    assert subprocess.run(argv, stdout=subprocess.PIPE, text=True).stdout == "-N 1\n"
    command("salloc", "exit 3")
    assert subprocess.run([sys.executable, "-c", call]).returncode == 3


def test_which_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "slurm.conf"
    monkeypatch.setenv("SLURM_CONF", str(conf))
    assert local_cluster() is None
    conf.write_text("ClusterName=Neuron\n")
    assert local_cluster() == "neuron"
