"""Other users on the nodes: what they take, what they hear, and what they cannot stop."""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import Any, Dict, Iterator, List

import pytest
from harness import Sandbox, wait_until
from test_serve import OPTIONS, RECIPE, RECIPES, serve, shell

STRANGER = "20777"

# Answers everything with 200, and writes down what it hears; argv: address, port, file.
SQUAT = """
import socket, sys, time
place, heard = socket.socket(), open(sys.argv[3], "ab", 0)
place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        place.bind((sys.argv[1], int(sys.argv[2])))
        break
    except OSError:
        time.sleep(0.05)
place.listen()
print("listens", flush=True)
while True:
    one = place.accept()[0]
    one.settimeout(120)
    try:
        heard.write(one.recv(65536))
        one.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nhello")
    except OSError:
        pass
    one.close()
"""

# Binds every port that a server may get, without listening: /proc/net/tcp does not show it.
TAKE_ALL = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4000, 4000))
taken = []
for port in range(30000, 32768):
    one = socket.socket()
    try:
        one.bind((sys.argv[1], port))
        taken.append(one)
    except OSError:
        pass
print(*[one.getsockname()[1] for one in taken], flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def recipe(sandbox: Sandbox, no_jobs: None) -> None:
    write = f"mkdir -p {RECIPES}; cat >{RECIPES}/tiny.yaml"
    sandbox.exec(["sh", "-c", write], input=RECIPE)


@contextlib.contextmanager
def stranger(
    sandbox: Sandbox, node: str, program: str, *words: object
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program as another user on a node, for at most ten minutes."""
    user = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    command = ["timeout", "600", *user, "python3", "-c", program, *map(str, words)]
    argv = sandbox.inside(*command, pid=sandbox.daemon("slurmd", node))
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        subprocess.run(sandbox.inside("pkill", "-KILL", "-u", STRANGER))
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read(sandbox: Sandbox, node: str, file: str) -> str:
    argv = sandbox.inside("cat", file, pid=sandbox.daemon("slurmd", node))
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def asked(sandbox: Sandbox, *words: str) -> subprocess.CompletedProcess[str]:
    return sandbox.exec(["neuronctl", *words], check=False)


def server_in_list(sandbox: Sandbox, found: Dict[str, Any]) -> Dict[str, Any]:
    rows: List[Dict[str, Any]] = json.loads(asked(sandbox, "serve", "list", "--json").stdout)[
        "servers"
    ]
    return next(row for row in rows if row["job_id"] == found["job_id"])


def test_a_stranger_after_the_end_hears_no_token(sandbox: Sandbox) -> None:
    found = serve(sandbox, "tiny")
    with stranger(
        sandbox, found["node"], SQUAT, found["address"], found["port"], "/tmp/heard"
    ) as process:
        shell(sandbox, "pkill -9 -f serve_forever")
        assert first_line(process) == "listens"
        for words in (["serve", "connect", "tiny"], ["status"], ["serve", "list"]):
            wait_until(lambda words=words: "tiny answers" not in asked(sandbox, *words).stdout)
        assert server_in_list(sandbox, found)["state"] == "ended"
        heard = read(sandbox, found["node"], "/tmp/heard")
    assert found["token"] not in heard


def test_a_stranger_beside_a_server_that_is_not_where_it_should_be(sandbox: Sandbox) -> None:
    """The server listens on loopback alone, the stranger where the token would be sent."""
    sandbox.exec(["sed", "-i", 's/os.environ."ADDRESS".,/"127.0.0.1",/', f"{RECIPES}/tiny.yaml"])
    words = ["neuronctl", "serve", *OPTIONS, "-w", "gpu35", "--ready-within", "5s", "tiny"]
    # Of whatever port it gets: the stranger takes all that are free there.
    squat = f"""
import os, sys
{TAKE_ALL.split("print")[0]}
import selectors
ready = selectors.DefaultSelector()
for one in taken:
    one.listen()
    ready.register(one, selectors.EVENT_READ)
print(len(taken), flush=True)
heard = open("/tmp/heard2", "ab", 0)
while True:
    for key, _ in ready.select():
        heard.write(key.fileobj.accept()[0].recv(65536) or b"nothing ")
"""
    address = sandbox.exec(["getent", "hosts", "gpu35"]).stdout.split()[0]
    with stranger(sandbox, "gpu35", squat, address) as process:
        assert int(first_line(process)) > 2000
        done = sandbox.exec(words, check=False)
        heard = read(sandbox, "gpu35", "/tmp/heard2")
    assert done.returncode == 1 and "tiny did not answer within 5 s" in done.stderr
    assert "X-Token" not in heard


def test_a_stranger_who_takes_all_ports_stops_no_server(sandbox: Sandbox) -> None:
    """A few ports are left over where other servers ended a minute ago."""
    address = sandbox.exec(["getent", "hosts", "gpu35"]).stdout.split()[0]
    with stranger(sandbox, "gpu35", TAKE_ALL, address) as process:
        taken = first_line(process).split()
        found = serve(sandbox, "-w", "gpu35", "tiny")
    assert len(taken) > 2000 and str(found["port"]) not in taken


def test_nobody_else_reads_the_log_from_its_first_moment(sandbox: Sandbox) -> None:
    found = serve(sandbox, "--output", "mine.log", "tiny")
    modes = sandbox.exec(["stat", "-c%a", "mine.log"]).stdout
    assert modes == "600\n"
    # What the server itself makes has the user's own umask.
    script = sandbox.exec(["scontrol", "write", "batch_script", str(found["job_id"]), "-"]).stdout
    assert "\numask 0022" in script


def test_what_is_killed_is_not_said_to_answer(sandbox: Sandbox) -> None:
    found = serve(sandbox, "tiny")
    shell(sandbox, "pkill -STOP -f serve_forever")
    wait_until(lambda: server_in_list(sandbox, found)["state"] == "silent")
    for words in (["serve", "connect", "tiny"], ["status"]):
        told = asked(sandbox, *words)
        assert "tiny does not answer" in told.stdout + told.stderr
    assert asked(sandbox, "serve", "connect", "tiny").returncode == 1
    shell(sandbox, "pkill -CONT -f serve_forever; pkill -STOP -f 'main.py run'")
    # The note grows old, and the node is asked.
    note = f"/run/neuronctl/user/state/neuronctl/serve/*/{found['job_id']}/note"
    age = f"echo $(($(date +%s) - $(stat -c %Y {note})))"
    wait_until(lambda: int(shell(sandbox, age).stdout) > 6)
    before = shell(sandbox, f"cat {note}").stdout
    wait_until(lambda: "tiny answers" in asked(sandbox, "status").stdout)
    assert shell(sandbox, f"cat {note}").stdout == before
    shell(sandbox, "pkill -9 -f serve_forever; while pgrep -f serve_forever; do sleep 0.1; done")
    assert "tiny answers" not in asked(sandbox, "status").stdout
    shell(sandbox, "pkill -9 -f 'main.py run'")
    wait_until(lambda: server_in_list(sandbox, found)["state"] == "ended")


def test_a_run_that_follows_a_requeue_is_not_the_last_one(sandbox: Sandbox) -> None:
    found = serve(sandbox, "--requeue", "tiny")
    job = str(found["job_id"])
    sandbox.root("scontrol", "requeue", job)
    assert server_in_list(sandbox, found)["state"] in ("ended", "starting")
    # Slurm lets it wait for two minutes; slurmd refuses one that starts in the same second.
    queue = ["squeue", "-h", "-j", job, "-o", "%T"]
    wait_until(lambda: sandbox.exec(queue).stdout == "PENDING\n")
    row = server_in_list(sandbox, found)
    assert (row["state"], row["words"]) == ("starting", "it waits for its next run")
    sandbox.root("scontrol", "update", f"jobid={job}", "starttime=now+5")
    wait_until(lambda: server_in_list(sandbox, found)["state"] == "answers")
    assert server_in_list(sandbox, found)["run"] == 1
    again = json.loads(asked(sandbox, "serve", "connect", "--json").stdout)
    assert again["token"] != found["token"]


def test_a_server_that_met_its_time_limit_has_ended(sandbox: Sandbox) -> None:
    found = serve(sandbox, "tiny")
    # Slurm looks at the limits every 30 seconds.
    sandbox.root("scontrol", "update", f"jobid={found['job_id']}", "endtime=now")
    place = f"http://{found['address']}:{found['port']}/"
    wait_until(lambda: sandbox.exec(["curl", "-s", place], check=False).returncode == 7)
    for words in (["status"], ["serve", "connect", "tiny"]):
        told = asked(sandbox, *words)
        assert "tiny answers" not in told.stdout
    # Slurm may still be ending the job.
    wait_until(lambda: "time limit" in asked(sandbox, "serve", "connect", "tiny").stderr)
    wait_until(lambda: server_in_list(sandbox, found)["state"] == "ended")


def test_a_stranger_who_made_the_log_first_reads_nothing_of_it(sandbox: Sandbox) -> None:
    log = "open/theirs.log"
    shell(sandbox, "mkdir -p open; chmod 777 open; chmod 755 .")
    made = f"import os; os.umask(0); os.chdir({sandbox.exec(['pwd']).stdout.strip()!r})"
    with stranger(sandbox, "gpu35", f"{made}; open({log!r}, 'w'); print('made')") as process:
        assert first_line(process) == "made"
    serve(sandbox, "-o", log, "tiny")
    assert sandbox.exec(["stat", "-c", "%U %a", log]).stdout == "neuron 600\n"
    assert "tiny answers on port" in sandbox.exec(["cat", log]).stdout
