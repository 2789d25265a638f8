"""The sandbox itself: what it is made of, what its Slurm refuses, and what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set, Tuple

import pytest
import yaml
from begun import begun
from bench import CACHE
from harness import (
    COMMENT,
    SYSTEM,
    Result,
    Sandbox,
    own_name,
    processes,
    program,
    sandbox_up,
    wait_until,
)

GPU_JOB = ["sbatch", "-p", "amd_a100nv_8", "--gres=gpu:1", "-t", "5"]
SLEEP = "--wrap=sleep 300"


def test_up_again_is_the_same_sandbox(sandbox: Sandbox) -> None:
    before = sandbox.status()
    again = sandbox.neuronctl("sandbox", "up", *SYSTEM, "--nodes", "cas_v100nv_4=4")
    assert "up already" in again.stdout
    assert sandbox.status() == before


def test_sinfo_reads_as_the_catalog(sandbox: Sandbox) -> None:
    # An earlier test's job may be completing.
    wait_until(lambda: set(sandbox.exec(["sinfo", "-h", "-o", "%t"]).stdout.split()) == {"idle"})
    form = "--format=%P|%N|%l|%c|%G|%s|%D|%t"
    lines = sandbox.exec(["sinfo", "--noheader", form]).stdout.split()
    seen = {line.split("|")[0]: line.split("|")[1:] for line in lines}
    assert seen == {
        "amd_a100nv_8": ["gpu[35-36]", "2-00:00:00", "64", "gpu:a100:8", "1-infinite", "2", "idle"],
        "cas_v100nv_8": ["gpu[01-02]", "2-00:00:00", "32", "gpu:v100:8", "1-infinite", "2", "idle"],
        "cas_v100nv_4": ["gpu[06-09]", "2-00:00:00", "40", "gpu:v100:4", "1-infinite", "4", "idle"],
    }


def test_every_node_has_every_name(sandbox: Sandbox) -> None:
    script = "hostname; hostname -I; getent hosts gpu35 gpu36 gpu01 glogin01; ls /tmp /dev/shm"
    words = ["srun", "-p", "amd_a100nv_8", "-N2", "-n2", "--gres=gpu:1", COMMENT, "-t", "5"]
    out = sandbox.exec([*words, "sh", "-c", script]).stdout
    assert "127." not in out
    assert out.count("gpu35\n") >= 2
    there = sandbox.exec(["getent", "hosts", "gpu35", "gpu36", "gpu01", "glogin01"]).stdout
    for line in there.splitlines():
        assert out.count(line) == 2


def by_command(sandbox: Sandbox, *argv: str, input: Optional[str] = None) -> Result[str]:
    """``neuronctl sandbox exec`` itself."""
    return sandbox.neuronctl("sandbox", "exec", "--", *argv, input=input, check=False)


def test_commands_run_as_an_ordinary_user(sandbox: Sandbox) -> None:
    status = sandbox.status()
    script = 'id -u; id -un; pwd; hostname; echo "$HOME"; command -v neuronctl'
    lines = by_command(sandbox, "sh", "-c", script).stdout.splitlines()
    uid, name, place, host, home, program = lines
    assert uid != "0"
    assert (int(uid), name, place) == (status["uid"], status["user"], f"/scratch/{name}")
    assert (host, home) == ("glogin01", status["home"])
    assert program == str(Path(sys.executable).parent / "neuronctl")
    # The tests' own way inside is no other.
    look = ["sh", "-c", f"{script}; umask; env | sort"]
    assert sandbox.exec(look).stdout == by_command(sandbox, *look).stdout


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_exec_ends_as_the_command_does(sandbox: Sandbox, script: str, code: int) -> None:
    assert by_command(sandbox, "sh", "-c", script).returncode == code


@pytest.mark.parametrize(("command", "code"), [("no-such-command", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_run(sandbox: Sandbox, command: str, code: int) -> None:
    result = by_command(sandbox, command)
    assert result.returncode == code
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"neuronctl: {command}: ")


def test_exec_passes_input_arguments_and_both_outputs(sandbox: Sandbox) -> None:
    words = ["a b", "$HOME", "*", "", "é", "--help", "-x"]
    script = 'cat; printf "[%s]" "$@"; echo wrong >&2'
    result = by_command(sandbox, "sh", "-c", script, "sh", *words, input="in\n")
    assert result.stdout == "in\n" + "".join(f"[{word}]" for word in words)
    assert result.stderr == "wrong\n"


def test_exec_passes_signals_on(sandbox: Sandbox) -> None:
    script = 'trap "echo asked to end; exit 9" TERM; echo ready; sleep 60 >&- & wait'
    with _exec(sandbox, script) as (process,):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=180)[0] == "asked to end\n"
    assert process.returncode == 9


def test_a_killed_exec_takes_its_command_along(sandbox: Sandbox) -> None:
    with _exec(sandbox, "echo $$; exec sleep 300") as (process,):
        assert process.stdout is not None
        inner = process.stdout.readline().strip()
        process.kill()
    probe = f"while kill -0 {inner}; do sleep 0.1; done"
    sandbox.exec(["sh", "-c", probe])


def test_the_shell_has_a_terminal_with_job_control(sandbox: Sandbox) -> None:
    typed = [
        # Ctrl-C only when the job itself says that it is in the foreground.
        (b"$ ", b"echo flags=_$-_; sh -c 'echo g\"\"o; exec sleep 300'\n"),
        (b"m", b""),
        (b"go\r\n", b"\x03"),
        (b"$ ", b"echo code=$?; exit 5\n"),
        (b"code=130", b""),
    ]
    assert _on_terminal(sandbox, typed) == 5


def test_a_program_in_there_cannot_type_into_the_callers_shell(sandbox: Sandbox) -> None:
    """TIOCSTI puts a line among the keys of a terminal, as if somebody had typed it."""
    types = (
        "import fcntl, termios; "
        "[fcntl.ioctl(fd, termios.TIOCSTI, bytes([c])) for fd in (0, 1, 2) for c in b'evil\\n']"
    )
    script = (
        f'"{sys.executable}" -m neuronctl sandbox exec -- python3 -c "{types}"; '
        'echo ended; IFS= read -r line; echo "got=$line."'
    )
    typed = [(b"evil\r\nevil\r\nevil\r\n", b""), (b"ended", b"mine\n"), (b"got=mine.", b"")]
    assert _on_terminal(sandbox, typed, ["bash", "-c", script]) == 0


def test_what_the_caller_has_open_stays_outside(sandbox: Sandbox) -> None:
    with open("/etc/hostname", "rb") as secret:
        result = subprocess.run(
            [sys.executable, "-m", "neuronctl", *("sandbox", "exec", "--", "ls"), "/proc/self/fd"],
            env=sandbox.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=[secret.fileno()],
            timeout=300,
        )
    assert result.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is the directory


def test_copy_brings_files_in(sandbox: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("print('trained')\n")
    words = ["sh", "-c", "cat project/train.py; stat -c %U project/train.py"]
    out = sandbox.exec(words, copy=[str(folder)]).stdout
    assert out == f"print('trained')\n{sandbox.status()['user']}\n"


def test_copy_runs_nothing_of_the_current_directory(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("mine\n")
    for name in ("contextlib.py", "tarfile.py", "neuronctl/__main__.py", "neuronctl/__init__.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    program = str(Path(sys.executable).with_name("neuronctl"))
    argv = [program, "sandbox", "exec", "--copy", "data.txt", "--", "cat", "data.txt"]
    result = subprocess.run(
        argv, cwd=tmp_path, env=sandbox.environment(), capture_output=True, text=True, timeout=300
    )
    assert result.stdout == "mine\n", result.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--comment is mandatory"),
        (["--comment=pytorch"], "--comment must have the form field=...;appl=..."),
        (["--comment=field=misc;appl=nope"], "--comment: nope is not one of: "),
        (["--comment=field=misc;appl=pytorch;x=y"], "--comment must have the form"),
        ([COMMENT, "--mem=1G"], "--mem is not allowed here"),
        ([COMMENT, "-c", "16"], "cores per node (16) exceed the allowed limit (8) for 1 GPU(s)"),
        ([COMMENT, "-n", "3", "-c", "4"], "(12) exceed the allowed limit (8) for 1 GPU(s)"),
        ([COMMENT, "--gres=gpu:4", "-c", "2"], "(2) are fewer than the GPUs per node (4)"),
        ([COMMENT, "--gres="], "--gres=gpu:N is mandatory"),
        ([COMMENT, "-D", "/tmp"], "jobs may be submitted from /scratch/"),
        ([COMMENT, "--gres=gpu:9"], "Requested node configuration is not available"),
    ],
)
def test_slurm_refuses_what_the_site_refuses(
    sandbox: Sandbox, no_jobs: None, options: List[str], words: str
) -> None:
    result = sandbox.exec([*GPU_JOB, *options, SLEEP], check=False)
    assert result.returncode == 1, result.stdout
    assert words in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["-c", "8"],
        ["--gres=gpu:4", "-n", "4", "-c", "8"],
        ["--gres=gpu:a100:2", "-N", "2"],
        ["--exclusive"],
    ],
)
def test_slurm_takes_what_the_site_takes(
    sandbox: Sandbox, no_jobs: None, options: List[str]
) -> None:
    sandbox.exec([*GPU_JOB, COMMENT, *options, SLEEP])


def test_a_job_that_names_no_cores_gets_the_gpus_share(sandbox: Sandbox, no_jobs: None) -> None:
    words = ["salloc", "-p", "amd_a100nv_8", "--gres=gpu:2", COMMENT]
    out = sandbox.exec([*words, "sh", "-c", "scontrol show job $SLURM_JOB_ID"]).stdout
    assert "NumCPUs=16 " in out
    assert "TimeLimit=08:00:00" in out


@pytest.mark.parametrize(
    ("partition", "gpus", "cores", "count"),
    [("amd_a100nv_8", 8, 64, 1), ("cas_v100nv_8", 8, 32, 32), ("cas_v100nv_4", 4, 40, 4)],
)
def test_a_whole_node_whatever_the_machine_has(
    sandbox: Sandbox, no_jobs: None, partition: str, gpus: int, cores: int, count: int
) -> None:
    """Slurm binds the tasks of a step that fills a node to cores, which must not be looked for.

    One task, one for each core, and one for each GPU.
    """
    words = ["srun", "-p", partition, f"--gres=gpu:{gpus}", COMMENT, "-t", "5", "-N", "2"]
    shape = [f"--ntasks-per-node={count}", f"--cpus-per-task={cores // count}"]
    said = "echo $SLURM_CPUS_PER_TASK $SLURM_CPUS_ON_NODE $CUDA_VISIBLE_DEVICES"
    step = "test $SLURM_PROCID != 0 || scontrol show step $SLURM_JOB_ID.$SLURM_STEP_ID"
    out = sandbox.exec([*words, *shape, "sh", "-c", f"{said}; {step}"]).stdout
    devices = ",".join(str(number) for number in range(gpus))
    assert out.splitlines().count(f"{cores // count} {cores} {devices}") == 2 * count
    assert f"Nodes=2 CPUs={2 * cores} Tasks={2 * count} " in out


STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"{sys.argv[1]}-{os.environ['SLURM_PROCID']}", "w")
time.sleep(3600)
"""
JOB = f"#!/bin/bash\n#SBATCH -p amd_a100nv_8 -N2 --gres=gpu:1 -t 5 {COMMENT} -o %j.log\n"


def _running(sandbox: Sandbox, mark: str) -> int:
    return sum(mark in words for words in processes(sandbox.running.pid).values())


def test_what_a_script_left_in_the_background_ends_with_it(sandbox: Sandbox, no_jobs: None) -> None:
    """Daemons too, whose parent is gone and which have a session of their own."""
    sandbox.write("stubborn.py", STUBBORN)
    start = "(setsid python3 stubborn.py left-{} > /dev/null 2>&1 &)"
    ready = "until ls left-script-0 left-step-0 left-step-1; do sleep 0.1; done > /dev/null 2>&1"
    step = f"srun bash -c '{start.format('step')}; {ready}'"
    sandbox.write("leave.sh", f"{JOB}{start.format('script')}\n{step}\n")
    sandbox.exec(["sbatch", "--wait", "leave.sh"])
    wait_until(lambda: _running(sandbox, "left-step") + _running(sandbox, "left-script") == 0)


def test_a_requeue_ends_what_ran_before(sandbox: Sandbox, no_jobs: None) -> None:
    """From the job's own trap, and with programs that ignore SIGTERM and lose their parent."""
    sandbox.write("stubborn.py", STUBBORN)
    trap = "trap 'scontrol requeue $SLURM_JOB_ID' USR1"
    step = "srun bash -c 'python3 stubborn.py before & sleep 300' &"
    sandbox.write("again.sh", f"{JOB}#SBATCH --requeue\n{trap}\n{step}\nwait\nwait\n")
    job = sandbox.exec(["sbatch", "--parsable", "again.sh"]).stdout.strip()
    there = ["sh", "-c", "test -e before-0 -a -e before-1"]
    wait_until(lambda: sandbox.exec(there, check=False).returncode == 0)
    sandbox.exec(["scancel", "-s", "USR1", "-b", job])
    state = ["squeue", "-h", "-j", job, "-o", "%T"]
    wait_until(lambda: sandbox.exec(state).stdout == "PENDING\n")
    assert _running(sandbox, "before") == 0


SMALL = ["--nodes", "amd_a100nv_8=1", "--nodes", "cas_v100nv_8=0"]
PLACES = ("/", "/etc", "/etc/slurm", "/home", "/run", "/var/lib", "/var/log", "/var/spool")


def _traces() -> Dict[str, Set[str]]:
    """What a sandbox could leave on the machine."""
    return {
        "mounts": set(Path("/proc/self/mountinfo").read_text().splitlines()),
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "files": {str(path) for place in PLACES for path in Path(place).iterdir()},
    }


def _processes(first: int) -> Dict[Tuple[int, str], str]:
    """(pid, start time) -> program, of all processes in the pid namespace of ``first``."""
    found = {}
    for pid, words in processes(first).items():
        with contextlib.suppress(OSError):
            found[pid, _started(Path("/proc", str(pid)))] = program(words)
    return found


def _started(path: Path) -> str:
    return (path / "stat").read_text().rpartition(")")[2].split()[19]


def _alive(process: Tuple[int, str]) -> bool:
    path = Path("/proc", str(process[0]))
    try:
        state = (path / "stat").read_text().rpartition(")")[2].split()[0]
        return _started(path) == process[1] and state != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("way", ["down", "kill -9", "TERM"])
def test_nothing_stays_behind(slurm_there: None, way: str) -> None:
    before = _traces()
    with sandbox_up("gone", *SMALL) as made:
        sandbox_pid = made.running.pid
        made.exec([*GPU_JOB, COMMENT, "--wrap=touch started; exec sleep 300"])
        made.exec(["sh", "-c", "while [ ! -e started ]; do sleep 0.1; done"])
        inside = _processes(sandbox_pid)
        assert {"munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd"} <= set(inside.values())
        assert {"slurmstepd", "sleep"} & set(inside.values())
        if way == "down":
            assert made.neuronctl("sandbox", "down").stdout == "sandbox down\n"
        else:
            os.kill(sandbox_pid, signal.SIGKILL if way == "kill -9" else signal.SIGTERM)
            wait_until(lambda: not any(_alive(process) for process in inside))
        assert [inside[process] for process in inside if _alive(process)] == []
        assert made.status() == {"schema": "neuronctl.sandbox/1", "up": False}
        assert made.neuronctl("sandbox", "exec", "true", check=False).returncode == 6
    after = _traces()
    assert {kind: after[kind] - before[kind] for kind in before} == {kind: set() for kind in before}
    assert made.name not in Path("/proc/net/unix").read_text()


def test_an_interrupted_up_leaves_nothing(slurm_there: None) -> None:
    made = Sandbox(own_name("stopped"))
    words = [sys.executable, "-m", "neuronctl", "sandbox", "up", *SYSTEM, *SMALL]
    with subprocess.Popen(words, env=made.environment(), stdout=subprocess.DEVNULL) as process:
        for _ in range(1000):
            if made.name in Path("/proc/net/unix").read_text():
                break
            time.sleep(0.01)
        process.kill()
    wait_until(lambda: made.name not in Path("/proc/net/unix").read_text())
    assert made.status() == {"schema": "neuronctl.sandbox/1", "up": False}


def test_two_at_once_are_one(slurm_there: None) -> None:
    made = Sandbox(own_name("twice"))
    words = [sys.executable, "-m", "neuronctl", "sandbox", "up", *SYSTEM, *SMALL]
    try:
        with begun(words, words, env=made.environment(), stdout=subprocess.PIPE) as processes:
            said = [process.communicate(timeout=300)[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0]
        assert sorted("already" in words for words in said) == [False, True]
    finally:
        made.neuronctl("sandbox", "down")


OWN_CLUSTER = """
default_cluster: lab
clusters:
  lab:
    source: by hand
    date: 2026
    policy: {submit_from: ["/labs/{user}"], account_required: true}
    partitions: {small: {nodes: 2, cores_per_node: 4}, gone: {nodes: 2}}
    qos:
      quick: {max_running_jobs: 1, max_nodes: 1, wall_time: {maximum: 10}, priority: 5,
              partitions: [small]}
      elsewhere: {max_submit_jobs: 1, partitions: [gone]}
"""


def test_a_cluster_and_settings_of_ones_own(
    slurm_there: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs can be submitted where commands start, with the user's defaults and templates."""
    own = tmp_path / "neuronctl"
    own.mkdir()
    (own / "partitions.yaml").write_text(OWN_CLUSTER)
    settings = "qos: quick\ntime: 7\npartition: small\n"
    template = '{% extends "job.sh.j2" %}{% block launch %}echo of my own{% endblock %}\n'
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with sandbox_up("own") as made:
        assert made.scratch.startswith("/labs/")
        write = 'cd ~/.config/neuronctl; mkdir templates; echo "$1" >>config.yaml; '
        write += 'echo "$2" >templates/own.j2'
        made.exec(["sh", "-c", write, "sh", settings, template])
        made.exec(
            ["neuronctl", "submit", "-o", "log", "--wait", "--template", "own.j2", "sleep", "0"]
        )
        assert made.exec(["cat", "log"]).stdout == "of my own\n"
        shown = made.exec(["neuronctl", "partitions", "--live"]).stdout.splitlines()
        assert not any(line.startswith("gone ") for line in shown)
        assert "In the catalog, not in this Slurm: gone" in shown
        answer = json.loads(made.exec(["neuronctl", "partitions", "--live", "--json"]).stdout)
        assert (answer["only_in_catalog"], answer["only_in_slurm"]) == (["gone"], [])
        form = ["squeue", "-h", "-t", "all", "-o", "%l %a %q"]
        assert made.exec(form).stdout == "7:00 sandbox quick\n"
        # The catalog's QOS are Slurm's: what a plan says of them without Slurm, Slurm says too.
        # Where a QOS may run, Slurm alone says.
        for options, planned in ((["-t", "11"], 4), (["-N", "2"], 4), (["-q", "elsewhere"], 0)):
            told = [
                made.exec(["neuronctl", command, *options, "sleep", "0"], check=False)
                for command in ("generate", "submit")
            ]
            assert [result.returncode for result in told] == [planned, 4], told
            assert "quick" in told[0].stderr or "closed to your" in told[1].stderr
        accepted = made.exec(
            ["sbatch", *("-A", "sandbox", "-p", "small"), "-q", "elsewhere", "--wrap=true"],
            check=False,
        )
        assert "Invalid qos" in accepted.stderr
        made.exec(["sh", "-c", "sed -i s/7/6/ ~/.config/neuronctl/config.yaml"])
        drafted = made.exec(["neuronctl", "generate", "sleep", "0"]).stdout
        assert "#SBATCH --time=00:06:00" in drafted or "#SBATCH --time=6:00" in drafted
        # Slurm has one of the two partitions, and so has what is drafted over the user's file.
        made.exec(["sh", "-c", "neuronctl catalog import >draft.yaml"])
        checked = made.exec(["neuronctl", "catalog", "check", "draft.yaml"]).stdout
        assert "lab: 1 partition, Slurm" in checked
        draft = made.exec(["cat", "draft.yaml"]).stdout
        drafted = yaml.safe_load(draft)["clusters"]["lab"]["qos"]["quick"]
        assert {**drafted, "partitions": None} == {
            **{"priority": 5, "max_running_jobs": 1, "max_nodes": 1, "partitions": None},
            "wall_time": {"maximum": "00:10:00"},
        }


def test_only_the_sandboxs_root_uses_the_database_which_writes_no_files(sandbox: Sandbox) -> None:
    client = ["mariadb", "--socket=/run/mysqld/mysqld.sock", "-N"]
    outfile = [*client, "-u", "root", "-e", "select 1 into outfile '/tmp/written'"]
    tried = sandbox.exec(outfile, check=False)
    assert tried.returncode == 1
    assert "Can't connect" in tried.stderr
    assert "--secure-file-priv" in sandbox.root(*outfile, check=False).stderr
    assert sandbox.root(*client, "-e", "select current_user()").stdout == "root@localhost\n"
    uids = sandbox.root("sh", "-c", "stat -c '%U %a' /run/mysqld /run/neuronctl/mysql").stdout
    assert uids.split() == ["sandbox-db", "700"] * 2
    status = Path("/proc", str(sandbox.daemon("mariadbd")), "status").read_text()
    uid = int(status.partition("Uid:")[2].split()[0])
    assert uid not in (0, os.getuid(), sandbox.running.uid)


def test_root_starts_it_and_nothing_of_the_machine_can_be_written(sandbox: Sandbox) -> None:
    """Not even by the sandbox's root, nor by a user who is root in a user namespace."""
    if os.getuid() != 0:
        pytest.skip("an ordinary user's own files can be written inside")
    found = Path("/proc", str(sandbox.running.pid), "mountinfo").read_text().splitlines()
    mounts = [(line.split()[4], line.split()[5].split(","), line.split(" - ")[1]) for line in found]
    writable = {
        place
        for place, options, kind in mounts
        if "rw" in options and kind.split()[0] not in ("tmpfs", "proc")
    }
    given = ("/dev/", "/run/neuronctl/dev/", f"{CACHE}/", "/cache/")
    assert all(f"{place}/".startswith(given) for place in writable)
    for place in ("/usr", "/var/lib", str(Path(sys.executable).parent)):
        tried = sandbox.root("touch", f"{place}/written", check=False)
        assert "Read-only file system" in tried.stderr
    again = "mount -o remount,bind,rw /usr || mount -o remount,rw /usr"
    assert sandbox.exec(["unshare", "-Urm", "sh", "-c", again], check=False).returncode != 0
    sandbox.exec(["sh", "-c", "touch /var/tmp/of-the-sandbox"])
    assert not Path("/var/tmp/of-the-sandbox").exists()


def test_a_directory_given_with_bind_can_be_written(sandbox: Sandbox) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        Path(place).chmod(0o777)
        sandbox.exec(["touch", f"{place}/a", f"/cache/{Path(place).name}/b"])
        assert sorted(path.name for path in Path(place).iterdir()) == ["a", "b"]


REPLACED = """
set -e
mount -t tmpfs none /mnt
cp -a /etc /mnt/etc
mount --bind /mnt/etc /etc
neuronctl sandbox up --nodes amd_a100nv_8=1 --nodes cas_v100nv_8=0
trap 'neuronctl sandbox down' EXIT
for file in passwd group hosts hostname; do cp /etc/$file /etc/new; mv /etc/new /etc/$file; done
rm -rf /etc/slurm /etc/ssh /etc/environment-modules
neuronctl sandbox exec -- sh -c 'id -un; getent hosts gpu35'
neuronctl sandbox exec -- srun -p amd_a100nv_8 --gres=gpu:1 -t 5 COMMENT sh -c 'id -un; hostname'
neuronctl sandbox exec -- sinfo -h -o %T
"""


@pytest.mark.skipif(os.getuid() != 0, reason="makes an /etc to replace, in a namespace of its own")
def test_the_machine_may_replace_its_files(slurm_there: None) -> None:
    """As useradd does: a file of another name is renamed to /etc/passwd."""
    made = Sandbox(own_name("replaced"))
    script = REPLACED.replace("COMMENT", f"'{COMMENT}'")
    script = script.replace("sandbox up", f"sandbox up {' '.join(SYSTEM)}")
    result = subprocess.run(
        ["unshare", "-m", "bash", "-c", script],
        env={**made.environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines.count("neuron") == 2
    assert "10.77.1.1" in result.stdout
    assert lines[-4:] == ["neuron", "gpu35", "idle", "sandbox down"]


@pytest.mark.skipif(os.getuid() != 0, reason="all other tests run without root already")
def test_an_ordinary_user_needs_no_root(slurm_there: None) -> None:
    if SYSTEM:
        pytest.skip("the files of another root belong to root")
    for file in ("/etc/subuid", "/etc/subgid"):
        if not Path(file).exists():
            pytest.skip(f"this machine has no {file} to lay another over")
    srun = f"srun -p amd_a100nv_8 -N2 --gres=gpu:1 -t 5 '{COMMENT}'"
    script = f"""
set -e
mkdir -p .config/neuronctl
echo 'time: 9' >.config/neuronctl/config.yaml
neuronctl sandbox up
neuronctl sandbox exec -- sh -c 'echo "time: 8" >~/.config/neuronctl/config.yaml'
neuronctl sandbox exec -- neuronctl generate --force -p amd_a100nv_8 true | grep -- --time=
cat .config/neuronctl/config.yaml
trap 'neuronctl sandbox down' EXIT
neuronctl sandbox exec -- id -un
neuronctl sandbox exec -- sh -c "{srun} sh -c 'id -u; hostname; touch ~/made-on-\\$(hostname)'"
stat -c '%n %U' made-on-*
! neuronctl sandbox exec -- sbatch -p amd_a100nv_8 --gres=gpu:1 --wrap=true
"""
    helper = str(Path(__file__).with_name("as_user.py"))
    result = subprocess.run(
        ["unshare", "-m", sys.executable, helper, "bash", "-c", script],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "sandbox down"
    assert "--comment is mandatory" in result.stderr
    lines = result.stdout.splitlines()
    # Her configuration in the sandbox is a copy, which she may change.
    assert "#SBATCH --time=8" in lines or "#SBATCH --time=00:08:00" in lines
    for line in ("alice", "gpu35", "gpu36", "made-on-gpu35 alice", "made-on-gpu36 alice"):
        assert line in lines
    assert lines.count("20101") == 2


def _exec(
    sandbox: Sandbox, script: str
) -> contextlib.AbstractContextManager[List[subprocess.Popen[str]]]:
    return begun(
        [sys.executable, "-m", "neuronctl", "sandbox", "exec", "--", "sh", "-c", script],
        env=sandbox.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


def _on_terminal(
    sandbox: Sandbox, typed: List[Tuple[bytes, bytes]], argv: Sequence[str] = ()
) -> int:
    """The exit code of ``sandbox shell``, or of ``argv``.

    Keys are typed as soon as the screen shows a text, which is looked for in what came after the
    one before it.
    """
    child, terminal = pty.fork()
    if child == 0:
        env = {**sandbox.environment(), "TERM": "dumb"}
        words = argv or [sys.executable, "-m", "neuronctl", "sandbox", "shell"]
        os.execvpe(words[0], words, env)
    shown = b""
    for wanted, keys in typed:
        while wanted not in shown:
            assert select.select([terminal], [], [], 300)[0], f"no {wanted!r} in {shown!r}"
            shown += os.read(terminal, 65536)
        shown = shown.partition(wanted)[2]
        os.write(terminal, keys)
    with contextlib.suppress(OSError):  # which is how Linux says that the other end is closed
        while os.read(terminal, 65536):
            pass
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
