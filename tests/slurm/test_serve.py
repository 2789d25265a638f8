"""serve, on a real Slurm: a recipe of the user's own, and the sshd."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any, Dict

import pytest
from harness import Sandbox, wait_until

OPTIONS = ["-p", "amd_a100nv_8", "--gpus-per-node=1", "-c1", "-t10"]
OPTIONS += ["--field=misc", "--appl=pytorch-ddp"]
RECIPES = "/run/neuronctl/user/config/neuronctl/templates/recipes"
RECIPE = """
title: a page that asks for the token
needs: python3
command: |
  python3 -c '
  import http.server, os, sys
  class Page(http.server.BaseHTTPRequestHandler):
      def do_GET(self):
          known = self.headers.get("X-Token") == os.environ["TOKEN"]
          self.send_response(200 if known else 403)
          self.end_headers()
          self.wfile.write(" ".join(sys.argv[1:]).encode() if known else b"")
  place = os.environ["ADDRESS"], int(os.environ["PORT"])
  http.server.ThreadingHTTPServer(place, Page).serve_forever()
  ' "$@"
ready: |
  ask / "X-Token: $TOKEN"
url: http://$localhost:$port/?name=$name
"""


@pytest.fixture(autouse=True)
def recipe(sandbox: Sandbox, no_jobs: None) -> None:
    write = f"mkdir -p {RECIPES}; cat >{RECIPES}/tiny.yaml"
    sandbox.exec(["sh", "-c", write], input=RECIPE)


def serve(sandbox: Sandbox, *words: str) -> Dict[str, Any]:
    done = sandbox.exec(["neuronctl", "serve", *OPTIONS, "--json", *words])
    return json.loads(done.stdout)


def status_of(sandbox: Sandbox, found: Dict[str, Any], token: str) -> str:
    place = f"http://{found['address']}:{found['port']}/"
    write = ["-w", " %{http_code}", "-H", f"X-Token: {token}", place]
    return sandbox.exec(["curl", "-s", *write]).stdout


def shell(sandbox: Sandbox, text: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """What a shell of the user's does; its text is in no process's command line."""
    return sandbox.exec(["bash", "-s"], input=text, check=check)


def test_a_server_answers_only_who_has_its_token(sandbox: Sandbox) -> None:
    found = serve(sandbox, "-J", "mine", "tiny", "it's", "{port}")
    assert (found["name"], found["recipe"]) == ("mine", "tiny")
    assert found["url"] == f"http://j{found['job_id']}.localhost:{found['port']}/?name=mine"
    where = f"{found['port']}:{found['address']}:{found['port']}"
    assert f" -L {where} {sandbox.running.user}@neuron.ksc.re.kr 'exec sh " in found["tunnel"]
    assert status_of(sandbox, found, found["token"]) == f"it's {found['port']} 200"
    assert status_of(sandbox, found, "x") == " 403"
    # Nothing shows the token but the file in the job's own folder.
    places = f"{sandbox.scratch} {sandbox.running.home} /run/neuronctl/user/state"
    seen = f"""
        cd {sandbox.scratch}; umask 077; echo {found["token"]} >token
        grep -rlF -f token {places} | grep -v /token$
        cat /proc/[0-9]*/cmdline 2>/dev/null | grep -caF -f token
        scontrol write batch_script {found["job_id"]} - | grep -cF -f token
    """
    files, *counts = shell(sandbox, seen, check=False).stdout.splitlines()
    assert files.endswith(f"/{found['job_id']}/note") and counts == ["0", "0"]
    assert sandbox.exec(["stat", "-c%a", files]).stdout == "600\n"
    again = json.loads(sandbox.exec(["neuronctl", "serve", "connect", "--json"]).stdout)
    assert again == found
    sandbox.exec(["neuronctl", "cancel", "--yes", "mine"])
    wait_until(lambda: '"ended"' in sandbox.exec(["cat", files]).stdout)
    assert found["token"] not in sandbox.exec(["cat", files]).stdout
    ended = sandbox.exec(["neuronctl", "serve", "connect", "mine"], check=False)
    assert ended.returncode and "CANCELLED" in ended.stderr


def test_a_server_that_is_killed_and_one_that_never_answers(sandbox: Sandbox) -> None:
    found = serve(sandbox, "tiny")
    shell(sandbox, "pkill -9 -f serve_forever")
    ended = wait_until(
        lambda: (
            sandbox.exec(["neuronctl", "serve", "connect", "tiny"], check=False)
            if "RUNNING" not in sandbox.exec(["squeue", "-h", "-o%T"]).stdout
            else None
        )
    )
    assert ended.returncode == 137 and "FAILED, exit code 137" in ended.stderr
    log = sandbox.exec(["cat", f"tiny_{found['job_id']}.err"]).stdout
    assert "serve: tiny ended with exit code 137\n" in log
    missing = sandbox.exec(["neuronctl", "serve", *OPTIONS, "jupyter"], check=False)
    assert missing.returncode == 2 and "there is no 'jupyter-lab' in PATH" in missing.stderr


def test_an_idle_server_ends(sandbox: Sandbox) -> None:
    found = serve(sandbox, "--idle", "5s", "tiny")
    done = sandbox.exec(["neuronctl", "wait", str(found["job_id"])])
    assert "COMPLETED" in done.stdout
    for command in (["serve", "connect", "tiny"], ["why", "tiny"]):
        told = sandbox.exec(["neuronctl", *command], check=False)
        assert "nobody used it for 5 s" in " ".join((told.stdout + told.stderr).split())


def test_ssh_lets_in_the_key_and_nobody_else(sandbox: Sandbox) -> None:
    shell(sandbox, "for name in mine other; do ssh-keygen -qt ed25519 -N '' -f $name; done")
    found = serve(sandbox, "--env", "WORDS=a b", "ssh", "mine.pub")
    block = dict(line.split(None, 1) for line in found["text"].split("\n") if line[:1] == " ")
    host_key = next(line for line in found["text"].split("\n") if " ssh-ed25519 " in line)

    def login(key: str, user: str, command: str) -> subprocess.CompletedProcess[str]:
        ssh = ["ssh", "-F", "none", "-i", key, "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"]
        ssh += ["-o", f"HostKeyAlias={block['HostKeyAlias']}", "-o", "UserKnownHostsFile=known"]
        ssh += ["-p", block["Port"], f"{user}@{block['HostName']}", command]
        lines = f"echo {shlex.quote(host_key)} >known\n{shlex.join(ssh)}"
        return shell(sandbox, lines, check=False)

    command = 'echo $(hostname) $CUDA_VISIBLE_DEVICES $SLURM_JOB_ID "$WORDS" "${TOKEN-none}"'
    mine = login("mine", block["User"], command)
    assert mine.stdout == f"{found['node']} 0 {found['job_id']} a b none\n", mine.stderr
    for key, user in (("other", block["User"]), ("mine", "root")):
        assert "Permission denied (publickey)" in login(key, user, "true").stderr
    sandbox.exec(["neuronctl", "cancel", "--yes", "ssh"])
    wait_until(lambda: login("mine", block["User"], "true").returncode)
