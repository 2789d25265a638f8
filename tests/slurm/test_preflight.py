"""The look at every node: each defect is told with its node, and stops the job before it starts."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path
from typing import Iterator, List, Sequence

import pytest
from harness import Sandbox

JOB = ("-p", "amd_a100nv_8", "-N2", "--gpus-per-node=2", "-t", "5", "--field=misc")
APPL = "--appl=pytorch"


def log_of(
    sandbox: Sandbox, options: Sequence[str], script: str = "look.py", code: int = 1
) -> List[str]:
    """The lines of a job's log after its end with ``code``."""
    sandbox.write("look.py", "print('the program ran')\n")
    command = ["neuronctl", "submit", "--wait", *JOB, APPL, "--output=look.log", *options, script]
    result = sandbox.exec(command, check=False, timeout=200)
    log = sandbox.exec(["cat", "look.log"], check=False).stdout
    assert result.returncode == code, f"{result.stderr}\n{log}"
    return log.splitlines()


def test_a_good_one_adds_two_lines(sandbox: Sandbox, no_jobs: None) -> None:
    log = log_of(sandbox, ["--launcher=srun"], code=0)
    assert log == [
        "preflight: gpu[35-36], 2 GPUs per node",
        "preflight: all is well",
        *["the program ran"] * 4,
    ]


def test_a_good_one_on_one_node_adds_none(sandbox: Sandbox, no_jobs: None) -> None:
    for launcher, times in (("python", 1), ("srun", 2)):
        log = log_of(sandbox, ["-N1", f"--launcher={launcher}"], code=0)
        assert log == ["the program ran"] * times


def test_one_node_without_its_file_and_its_gpu(
    sandbox: Sandbox, no_jobs: None, programs: List[str]
) -> None:
    """The batch shell looks by itself: /tmp is each node's own, and so is a driver."""
    sandbox.write("bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
    sandbox.exec(["sh", "-c", "chmod +x bin/nvidia-smi; touch /tmp/mine.py"])
    command = ["neuronctl", "submit", "--wait", *JOB, APPL, "-N1", "--launcher=python"]
    options = ["--output=look.log", "--gpus-per-node=1", "/tmp/mine.py"]
    result = sandbox.exec([*programs, *command, *options], check=False, timeout=200)
    log = sandbox.exec(["cat", "look.log"]).stdout.splitlines()
    node = log[0].split(": ")[1]
    lacks = ["cannot read /tmp/mine.py", "nvidia-smi finds no GPU"]
    assert (result.returncode, log) == (1, [f"preflight: {node}: {one}" for one in lacks])
    why = sandbox.exec(["neuronctl", "why", "mine"]).stdout
    assert "the preflight check failed" in " ".join(why.split())


@pytest.fixture
def programs(sandbox: Sandbox) -> List[str]:
    """What stands before a command for it to find the programs of ``bin`` first."""
    sandbox.exec(["sh", "-c", "rm -rf bin && mkdir bin"])
    return ["sh", "-c", 'PATH="$PWD/bin:$PATH"; exec "$@"', "sh"]


def stopped(log: List[str], defects: Sequence[str]) -> None:
    """The program did not run, and the log has the preflight's words on each defect, alone."""
    assert "the program ran" not in log
    said = [line for line in log if line.startswith("preflight: ")]
    assert sorted(said[1:]) == sorted(f"preflight: {defect}" for defect in defects), log


SLOW = """\
# A Python on gpu36 is stopped for two thirds of its time, and so are the processes that it forks.
import os, signal, socket, time

def slow():
    target = os.getpid()
    if original_fork() == 0:
        try:
            while True:
                os.kill(target, signal.SIGSTOP)
                time.sleep(0.07)
                os.kill(target, signal.SIGCONT)
                time.sleep(0.03)
        finally:
            os._exit(0)

original_fork = os.fork
def fork():
    child = original_fork()
    if child == 0:
        slow()
    return child

if socket.gethostname() == "gpu36":
    os.fork = fork
"""


def test_deep_tells_which_node_is_slow(bench: Sandbox, horovod_venv: Path) -> None:
    """The cores, and Gloo: there are no GPUs here."""
    bench.write("slow/sitecustomize.py", SLOW)
    options = ["--launcher=srun", f"--venv={horovod_venv}", "--preflight=deep"]
    here = bench.exec(["pwd"]).stdout.strip()
    log = log_of(bench, [*options, f"--env=PYTHONPATH={here}/slow"], code=0)
    assert log[-4:] == ["the program ran"] * 4
    said = [line for line in log if line.startswith("preflight deep: ")]
    slow = next(line for line in said if "gpu36 is off: " in line)
    # On a busy machine it may not even come to that.
    assert re.search(r"(matrix product \S+ [GM]FLOPS \(the others: |no end within 45 s)", slow), log
    assert re.search(r"2 nodes in \d+ s", said[-1]), log


def test_port_in_use(sandbox: Sandbox, no_jobs: None) -> None:
    listen = 'python3 -m http.server --bind "$MASTER_ADDR" 9911 >/dev/null 2>&1 &'
    ready = 'until (exec 3<>"/dev/tcp/$MASTER_ADDR/9911") 2>/dev/null; do sleep 0.1; done'
    options = ["--launcher=srun", "--env=MASTER_PORT=9911", f"--setup={listen}"]
    log = log_of(sandbox, [*options, f"--setup={ready}"])
    stopped(log, ["gpu35: port 9911 cannot be used: Address already in use"])


def test_head_that_cannot_be_reached(sandbox: Sandbox, no_jobs: None) -> None:
    """An address of the first node alone: what listens there is out of the others' reach."""
    log = log_of(sandbox, ["--launcher=srun", "--env=MASTER_ADDR=127.0.0.1"])
    stopped(log, [f"gpu36: cannot reach 127.0.0.1 port {port_of(log)}, the first node"])


def test_head_that_never_answers(sandbox: Sandbox, no_jobs: None) -> None:
    """An address of nobody's, where each attempt waits: the job has one minute for them all."""
    log = log_of(sandbox, ["--launcher=srun", "--env=MASTER_ADDR=10.77.9.9", "-t1"])
    port = port_of(log)
    head = f"gpu35: port {port} cannot be used: Cannot assign requested address"
    stopped(log, [head, f"gpu36: cannot reach 10.77.9.9 port {port}, the first node"])


def port_of(log: List[str]) -> str:
    line = next(line for line in log if "cannot reach" in line)
    return line.split(" port ")[1].split(",")[0]


def test_head_name_that_does_not_resolve(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("suffix.yaml", "clusters: {neuron: {network: {host_suffix: -nowhere}}}\n")
    log = log_of(sandbox, ["--launcher=srun", "--catalog=suffix.yaml"])
    assert log == ["gpu35 has no address that other nodes can reach: ''"]


def test_names_that_are_loopbacks_everywhere(
    sandbox: Sandbox, no_jobs: None, programs: List[str]
) -> None:
    sandbox.write("bin/getent", "#!/bin/sh\necho 127.0.1.1 STREAM gpu35\n")
    sandbox.exec(["chmod", "+x", "bin/getent"])
    log = log_with(sandbox, programs, ["--launcher=srun"])
    assert log == ["gpu35 has no address that other nodes can reach: '127.0.0.1'"]


@contextlib.contextmanager
def debians_hosts(sandbox: Sandbox) -> Iterator[None]:
    """In the /etc/hosts of each node, its own name is 127.0.1.1."""
    daemons = {node: sandbox.daemon("slurmd", node) for node in ("gpu35", "gpu36")}
    for node, pid in daemons.items():
        own = f"sed -E 's/^[0-9.]+ {node}\\b.*/127.0.1.1 {node}/' /etc/hosts >/tmp/hosts"
        mount = ["sh", "-c", f"{own} && mount --bind /tmp/hosts /etc/hosts"]
        subprocess.run(sandbox.inside(*mount, pid=pid), check=True)
    try:
        yield
    finally:
        for pid in daemons.values():
            subprocess.run(sandbox.inside("umount", "/etc/hosts", pid=pid), check=True)


MEET = """\
import os, socket, subprocess, time
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
own = socket.gethostbyname(socket.gethostname())
if os.environ["RANK"] == "0":
    with socket.create_server(address) as server:
        told = [server.accept()[0].makefile().readline() for _ in range(3)]
    line = subprocess.getoutput("ip -4 address show " + os.environ["GLOO_SOCKET_IFNAME"])
    print(own, address[0], f" {address[0]}/" in line, *sorted(told), sep="|")
else:
    first = socket.socket()
    while first.connect_ex(address):
        time.sleep(0.1)
        first = socket.socket()
    first.sendall(f"{os.environ['RANK']} {own}".encode())
"""


def test_own_name_that_is_a_loopback(sandbox: Sandbox, no_jobs: None) -> None:
    """Debian's default: the processes meet at the address that the other node knows."""
    sandbox.write("look.py", MEET)
    command = ["neuronctl", "submit", "--wait", *JOB, APPL, "--output=look.log"]
    with debians_hosts(sandbox):
        sandbox.exec([*command, "--launcher=srun", "look.py"], timeout=200)
    log = sandbox.exec(["cat", "look.log"]).stdout.splitlines()
    address = sandbox.exec(["getent", "hosts", "gpu35"]).stdout.split()[0]
    assert log[2] == f"127.0.1.1|{address}|True|1 127.0.1.1|2 127.0.1.1|3 127.0.1.1"


SUM = """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print("sum", total.item(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""


def test_debians_hosts_and_pytorch(bench: Sandbox, horovod_venv: Path) -> None:
    """Gloo listens where the node's own name says, unless it is given an interface."""
    bench.write("sum.py", SUM)
    command = ["neuronctl", "submit", "--wait", *JOB, APPL, "--output=look.log"]
    command += [f"--venv={horovod_venv}", "--gpus-per-node=1", "--launcher=torchrun", "sum.py"]
    with debians_hosts(bench):
        result = bench.exec(command, check=False, timeout=400)
    log = bench.exec(["cat", "look.log"]).stdout
    assert result.returncode == 0, f"{result.stderr}\n{log}"
    assert log.count("sum 3 of 2") == 2


def log_with(sandbox: Sandbox, before: Sequence[str], options: Sequence[str]) -> List[str]:
    """log_of a job that is submitted with ``before`` in front."""
    sandbox.write("look.py", "print('the program ran')\n")
    command = ["neuronctl", "submit", "--wait", *JOB, APPL, "--output=look.log", *options]
    result = sandbox.exec([*before, *command, "look.py"], check=False, timeout=200)
    log = sandbox.exec(["cat", "look.log"], check=False).stdout
    assert result.returncode == 1, f"{result.stderr}\n{log}"
    return log.splitlines()


def test_fewer_gpus_than_asked_for(sandbox: Sandbox, no_jobs: None) -> None:
    log = log_of(sandbox, ["--launcher=srun", "--env=SLURM_GRES=gpu:1"])
    defect = "2 GPUs requested, 1 available"
    stopped(log, [f"gpu35: {defect}", f"gpu36: {defect}"])


def test_gpus_that_the_driver_does_not_see(
    sandbox: Sandbox, no_jobs: None, programs: List[str]
) -> None:
    sandbox.write("bin/nvidia-smi", '#!/bin/sh\n[ "$(hostname)" != gpu36 ]\n')
    sandbox.exec(["chmod", "+x", "bin/nvidia-smi"])
    log = log_with(sandbox, programs, ["--launcher=srun"])
    stopped(log, ["gpu36: nvidia-smi finds no GPU"])


def test_program_that_is_not_there(sandbox: Sandbox, no_jobs: None) -> None:
    path = "--env=PATH=/usr/bin:/bin"
    log = log_of(sandbox, ["--launcher=torchrun_jsc", path])
    missing = "no program on PATH: torchrun_jsc"
    stopped(log, [f"gpu35: {missing}", f"gpu36: {missing}"])


def test_file_that_one_node_cannot_read(sandbox: Sandbox, no_jobs: None) -> None:
    """/tmp is each node's own."""
    write = "echo \"print('the program ran')\" >/tmp/mine.py"
    sandbox.exec(["sh", "-c", write])
    log = log_of(sandbox, ["--launcher=srun", f"--setup={write}"], script="/tmp/mine.py")
    stopped(log, ["gpu36: cannot read /tmp/mine.py"])


def test_environment_whose_python_is_on_one_node(sandbox: Sandbox, no_jobs: None) -> None:
    """/tmp is each node's own: on gpu36 PATH would go on to another python without a word."""
    made = "mkdir -p /tmp/only/bin && ln -sf /usr/bin/python3 /tmp/only/bin/python"
    sandbox.write("env/bin/activate", 'VIRTUAL_ENV=/tmp/only; PATH="/tmp/only/bin:$PATH"\n')
    sandbox.exec(["sh", "-c", "echo export VIRTUAL_ENV PATH >>env/bin/activate"])
    log = log_of(sandbox, ["--launcher=srun", "--venv=env", f"--setup={made}"])
    stopped(log, ["gpu36: cannot run /tmp/only/bin/python"])


def test_software_that_is_not_there_is_told_with_its_node(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("env/bin/activate", "return 1\n")
    log = log_of(sandbox, ["--launcher=srun", "--venv=env"])
    assert log == ["preflight: gpu35: cannot activate the environment env"]
    log = log_of(sandbox, ["--launcher=srun", "--module=nowhere/1.0"])
    assert log[-1] == "preflight: gpu35: cannot load the modules nowhere/1.0"


def test_option_of_a_launcher_is_no_program(
    sandbox: Sandbox, no_jobs: None, programs: List[str]
) -> None:
    """What torchrun runs is the word behind --no-python."""
    sandbox.write("bin/torchrun", "#!/bin/sh\necho the program ran\n")
    sandbox.exec(["chmod", "+x", "bin/torchrun"])
    command = ["neuronctl", "submit", "--wait", *JOB, APPL, "--output=look.log"]
    sandbox.exec([*programs, *command, "--launcher=torchrun", "hostname"], timeout=200)
    log = sandbox.exec(["cat", "look.log"]).stdout.splitlines()
    assert log[1:] == ["preflight: all is well", *["the program ran"] * 2]


def test_node_that_ssh_does_not_reach(sandbox: Sandbox, no_jobs: None, programs: List[str]) -> None:
    if not sandbox.status()["ssh"]:
        pytest.skip("openssh is not installed")
    sandbox.write("bin/horovodrun", "#!/bin/sh\necho the program ran\n")
    sandbox.exec(["chmod", "+x", "bin/horovodrun"])
    sandbox.exec(["sh", "-c", "mkdir -p ~/.ssh && printf 'Host gpu36\\nPort 9\\n' >~/.ssh/config"])
    try:
        log = log_with(sandbox, programs, ["--launcher=horovodrun"])
    finally:
        sandbox.exec(["sh", "-c", "rm -r ~/.ssh"])
    stopped(log, ["gpu35: ssh to gpu36 asks for a password or does not answer"])
