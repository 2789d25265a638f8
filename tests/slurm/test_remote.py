"""--on NAME through an sshd that asks a password and a one-time code, before a real Slurm."""

from __future__ import annotations

import http.client
import json
import os
import pty
import shlex
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path
from typing import Iterator, Tuple

import pytest
from bench import cannot
from harness import Sandbox, wait_until

NEURONCTL = [sys.executable, "-m", "neuronctl", "--on", "cluster"]
SUBMIT = ["submit", "-p", "cas_v100nv_8", "--gpus-per-node", "1", "-t", "5"]
SUBMIT += ["--field", "misc", "--appl", "pytorch"]
FILES = {
    "/run/otp": '#!/bin/sh\nread -r said\necho asked >>/run/asked\n[ "$said" = "secret123456" ]\n',
    "/etc/pam.d/sshd": "auth requisite pam_exec.so quiet expose_authtok /run/otp\n"
    "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n",
    "/run/sshd-otp.conf": "HostKey /run/neuronctl/ssh-key\nUsePAM yes\nPidFile none\n"
    "PubkeyAuthentication no\nPasswordAuthentication no\nKbdInteractiveAuthentication yes\n",
}


@pytest.fixture(scope="module")
def login_node(sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox's login node, which is left as the host ``cluster`` by its own ssh alone."""
    if os.getuid() != 0 or not sandbox.running.ssh:
        cannot("PAM needs root here, and openssh-server")
    with tempfile.TemporaryDirectory(prefix="n") as top, pytest.MonkeyPatch.context() as patch:
        for path, text in FILES.items():
            write = ["sh", "-c", 'cat > "$0" && chmod 755 "$0"', path]
            subprocess.run(sandbox.inside(*write), input=text, text=True, check=True)
        home = sandbox.running.home
        noise = "echo '{}'; printf '\\033]0;motd\\007'; echo noise >&2\n"
        sandbox.exec(["sh", "-c", f"printf %s {shlex.quote(noise)} >{home}/.bash_profile"])
        sshd = sandbox.inside(
            "/usr/sbin/sshd", "-i", "-f", "/run/sshd-otp.conf", "-E", "/run/sshd-otp.log"
        )
        Path(top, "config").write_text(
            f"Host cluster\n User {sandbox.running.user}\n StrictHostKeyChecking no\n"
            f" UserKnownHostsFile {top}/known\n ProxyCommand setsid {shlex.join(sshd)}\n"
        )
        for name in ("bin", "run", "project"):
            Path(top, name).mkdir(mode=0o700)
        Path(top, "bin", "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {top}/config "$@"\n')
        Path(top, "bin", "ssh").chmod(0o755)
        variables = {"XDG_RUNTIME_DIR": f"{top}/run", "PATH": f"{top}/bin:{os.environ['PATH']}"}
        variables.update(XDG_STATE_HOME=f"{top}/state", XDG_CACHE_HOME=f"{top}/cache")
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.chdir(f"{top}/project")
        yield sandbox
        for path in Path(top, "run", "neuronctl").glob("*[!k]"):
            subprocess.run(["ssh", "-S", str(path), "-O", "exit", "x"], capture_output=True)
        sandbox.exec(["rm", "-rf", f"{home}/.bash_profile", f"{home}/.cache", f"{home}/.local"])
        sandbox.exec(["rm", "-rf", f"{sandbox.running.scratch}/neuronctl"])


def log_in(password: str) -> Tuple[int, str]:
    """Type a password where ssh asks for it; returns the exit code and what was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [*NEURONCTL[:3], "login", "cluster"])
    said = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if b"assword:" in part:
            os.write(terminal, password.encode() + b"\n")
        said += part
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode(errors="replace")


def asked(sandbox: Sandbox) -> int:
    """How often a password was asked."""
    return sandbox.root("cat", "/run/asked", check=False).stdout.count("asked")


def on(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*NEURONCTL, *words], capture_output=True, text=True, timeout=300)


def test_one_authentication_for_many_commands(login_node: Sandbox, no_jobs: None) -> None:
    Path("train.py").write_text("import os\nos.makedirs('results')\nprint('한글')\n")
    Path(".gitignore").write_text("results/\n")
    before = asked(login_node)
    code, said = log_in("secret000000")
    assert code == 10 and asked(login_node) == before + 1, said
    code, said = log_in("secret123456")
    assert code == 0 and asked(login_node) == before + 2, said
    job = json.loads(on(*SUBMIT, "--json", "--", "python3", "-c", "print('한글')").stdout)["job_id"]
    wait_until(lambda: "COMPLETED" in on("status", str(job)).stdout)
    kinds = [
        *(["status"], ["status", "--json"], ["logs", str(job)], ["why", str(job)]),
        *(["history", "--json"], ["show", str(job)], ["report", str(job)], ["partitions"]),
        *(["wait", str(job)], ["doctor"], ["brief"], ["serve", "list"]),
    ]
    answers = [on(*words) for words in kinds]
    assert {answer.returncode for answer in answers} == {0}
    assert json.loads(on("status", "--json").stdout)["schema"] == "neuronctl.status/1"
    assert on("logs", str(job)).stdout == "한글\n"
    assert asked(login_node) == before + 2


def test_serve_opens_a_tunnel_that_ends_with_the_server(login_node: Sandbox, no_jobs: None) -> None:
    log_in("secret123456")
    Path("page.txt").write_text("a page")
    words = ["serve", *SUBMIT[1:], "--json", "http", "--", "python3", "-m", "http.server", "{port}"]
    with subprocess.Popen([*NEURONCTL, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += process.stdout.readline() or pytest.fail(text)
        server = json.loads(text)
        place = urllib.parse.urlsplit(server["url"])
        assert place.port == server["local_port"]
        assert (ask(server["url"]), ask(f"http://127.0.0.1:{place.port}/")) == (200, 403)
        on("cancel", "--yes", str(server["job_id"]))
        assert process.wait(300) == 0
    with pytest.raises(OSError):
        ask(server["url"])


def ask(url: str) -> int:
    """Return the status of a page, by way of this machine's own address."""
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=120)
    connection.request("GET", f"{place.path}?{place.query}", headers={"Host": place.netloc})
    status = connection.getresponse().status
    connection.close()
    return status if status != 302 else 200
