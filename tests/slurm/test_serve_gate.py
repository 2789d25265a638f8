"""The gate before a server that would let everybody in, on a real Slurm."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any, Dict

import pytest
from harness import Sandbox

OPTIONS = ["-p", "amd_a100nv_8", "--gpus-per-node=1", "-c1", "-t10"]
OPTIONS += ["--field=misc", "--appl=pytorch-ddp"]

# Shows what it gets; echoes whatever follows a request for a WebSocket.
SERVER = """\
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade"):
            self.send_response_only(101)
            self.end_headers()
            while True:
                data = self.rfile.read1(4096)
                if not data:
                    return
                self.wfile.write(data)
        length = int(self.headers.get("Content-Length", 0))
        got = self.rfile.read(length)
        text = f"{self.path} {self.headers.get('Cookie')} {len(got)}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_POST = do_GET
http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Page).serve_forever()
"""

# $URL and $TOKEN are set before it.
ATTACK = """
say() { : >body; curl -s -m 120 -o body -w '%{http_code} ' "$@"; cat body; echo; }
long=$(head -c 100000 /dev/zero | tr '\\0' a)
say "$URL/x"
say "$URL/x?token=${TOKEN}0"
say "$URL/$TOKEN?tokens=$TOKEN" -H "X-Token: $TOKEN" -H "Referer: $URL/?token=$TOKEN"
say "$URL/x" -H "Authorization: Bearer 0$TOKEN" -b "other=$TOKEN"
say "$URL/x" -u "$TOKEN:no"
say "$URL/x?a=1&token=$TOKEN&b=2"
say "$URL/x?token=$TOKEN" -H "Accept: text/html" \\
    -w '%{http_code} %{redirect_url} %header{set-cookie}'
say "$URL/x" -b "a=b; neuronctl_$PORT=$TOKEN; token=mine"
say "$URL/x" -H "Authorization: bearer $TOKEN"
say "$URL/x" -u "anybody:$TOKEN"
head -c 3000000 /dev/zero | say "$URL/x" -H "Authorization: Bearer $TOKEN" --data-binary @-
say "$URL/x" -H "Authorization: Bearer $TOKEN" -H "Long: $long"
curl -s -m 5 "http://127.0.0.1:$PORT/x" || echo 'nothing on loopback'
"""

CROWD = """
import os, socket, urllib.request
place = os.environ["ADDRESS"], int(os.environ["PORT"])
crowd = [socket.create_connection(place) for _ in range(300)]
for one in crowd[::2]:
    one.send(b"GET / HTTP/1.1\\r\\nHost: ")
known = {"Authorization": "Bearer " + os.environ["TOKEN"]}
asked = urllib.request.Request(os.environ["URL"], headers=known)
print(urllib.request.urlopen(asked, timeout=120).status)
talk = socket.create_connection(place)
head = "GET /?token=%s HTTP/1.1\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n\\r\\n"
talk.sendall((head % os.environ["TOKEN"]).encode())
answer = talk.recv(4096)
talk.sendall(b"hello")
print(answer.split()[1].decode(), talk.recv(4096).decode())
"""


@pytest.fixture
def served(sandbox: Sandbox, no_jobs: None) -> Dict[str, Any]:
    sandbox.write("page.py", SERVER)
    words = ["http", "--", "python3", "page.py", "{port}"]
    done = sandbox.exec(["neuronctl", "serve", *OPTIONS, "--json", *words])
    assert "NC338" not in done.stderr
    found: Dict[str, Any] = json.loads(done.stdout)
    return found


def shell(sandbox: Sandbox, found: Dict[str, Any], text: str) -> subprocess.CompletedProcess[str]:
    names = {name.upper(): found[name] for name in ("token", "port", "address")}
    names["URL"] = f"http://{found['address']}:{found['port']}"
    known = "".join(f"export {name}={value}\n" for name, value in names.items())
    return sandbox.exec(["bash", "-s"], input=known + text, check=False)


def test_only_requests_with_the_token_pass(sandbox: Sandbox, served: Dict[str, Any]) -> None:
    refused = "403 no token: see neuronctl serve connect"
    lines = shell(sandbox, served, ATTACK).stdout.splitlines()
    lines = [line for line in lines if line]
    assert lines[:5] == [refused] * 5
    url = f"http://{served['address']}:{served['port']}"
    cookie = f"neuronctl_{served['port']}={served['token']}; Path=/; HttpOnly; SameSite=Lax"
    assert lines[5:11] == [
        "200 /x?a=1&b=2 None 0",
        f"303 {url}/x {cookie}",
        "200 /x a=b; token=mine 0",
        "200 /x None 0",
        "200 /x None 0",
        "200 /x None 3000000",
    ]
    assert lines[-2:] == ["000 ", "nothing on loopback"]
    log = sandbox.exec(["bash", "-c", "cat *.out *.err"]).stdout
    assert "GET /x?a=1&b=2 " in log and served["token"] not in log


def test_slow_clients_keep_nobody_out(sandbox: Sandbox, served: Dict[str, Any]) -> None:
    done = shell(sandbox, served, f"python3 - <<'END'\n{CROWD}END\n")
    assert done.stdout.split("\n")[:2] == ["200", "101 hello"], done.stderr
    log = sandbox.exec(["bash", "-c", "cat *.err"]).stdout
    assert "asyncio" not in log, "what clients do is not the gate's error"


def test_the_job_ends_with_the_servers_code(sandbox: Sandbox, no_jobs: None) -> None:
    words = ["http", "--", "bash", "-c", "exit 7", "{port}"]
    done = sandbox.exec(["neuronctl", "serve", *OPTIONS, *words], check=False)
    assert "FAILED, exit code 7" in done.stderr


VLLM = """\
#!/usr/bin/env python3
# vLLM's interface, as far as it is asked: 503 at first, and then completions for the key.
import http.server, json, os, sys
words, loading = sys.argv[1:], [503, 503]
class Api(http.server.BaseHTTPRequestHandler):
    def say(self, status, answer):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())
    def do_GET(self):
        self.say(200, {"words": words})  # also to who has no key, as vLLM's /health and others
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if loading:
            self.say(loading.pop(), {"error": "loading"})
        elif self.headers["Authorization"] != "Bearer " + os.environ["VLLM_API_KEY"]:
            self.say(401, {"error": "Unauthorized"})
        elif (self.path, asked["model"]) != ("/v1/completions", words[1]):
            self.say(404, {"error": "no such model"})
        else:
            print("completion", flush=True)
            self.say(200, {"choices": [{"text": " world"}]})
place = words[words.index("--host") + 1], int(words[words.index("--port") + 1])
http.server.ThreadingHTTPServer(place, Api).serve_forever()
"""


def test_vllm_is_ready_when_it_completes(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("bin/vllm", VLLM)
    sandbox.exec(["chmod", "755", "bin/vllm"])
    start = 'PATH=$PWD/bin:$PATH exec neuronctl serve "$@"'
    options = "-c2 --gpus-per-node=2 --output=vllm.out --json"
    words = shlex.split(f"{options} vllm -- x/m-70B --seed 1")
    done = sandbox.exec(["sh", "-c", start, "sh", *OPTIONS, *words])
    found = json.loads(done.stdout)
    assert found["text"].split() == ["model", "x/m-70B", "API", "key", found["token"]]
    log = sandbox.exec(["cat", "vllm.out"]).stdout
    assert log.index('" 503') < log.index("\ncompletion") < log.index("serve: vllm answers")
    asked = f"""
        known="Authorization: Bearer $TOKEN"
        curl -s -w '%{{http_code}}\\n' "$URL/invocations"
        curl -s -H "$known" "$URL/version"; echo
        curl -s -H "$known" "$URL/v1/completions" -d '{{"model": "x/m-70B"}}'; echo
        token=$(mktemp); echo "$TOKEN" >"$token"
        cat /proc/[0-9]*/cmdline 2>/dev/null | grep -caF -f "$token"
        cat *.out *.err | grep -cF -f "$token"
        scontrol write batch_script {found["job_id"]} - | grep -cF -f "$token"
    """
    refused, status, told, completed, *counts = shell(sandbox, found, asked).stdout.splitlines()
    assert refused.startswith("no token") and status == "403"
    given = "serve x/m-70B --seed 1 --tensor-parallel-size 2 --host 127.0.0.1"
    assert " ".join(json.loads(told)["words"][:-2]) == given
    assert " world" in completed and counts == ["0", "0", "0"]
