"""The program beside a server, without Slurm: whom it lets in, what it notes, and how it ends."""

from __future__ import annotations

import contextlib
import http.client
import importlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest
from gpu_tools import NVIDIA_SMI, install

from neuronctl.rendering.template_environment import gpu_reader
from neuronctl.serving import recipes

PROGRAM = Path(__file__).parents[2] / "programs" / "server"
RECIPE = {
    **{"name": "mine", "guard": "own", "ready": 'ask / "X-Token: $TOKEN"', "alive": ""},
    **{"used": "", "open": False, "ready_within": 60, "address": "127.0.0.1", "idle": 0},
}
SERVER = """\
import http.server, os, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = sys.argv[1:] == ["open"] or self.headers.get("X-Token") == os.environ["TOKEN"]
        self.send_response(200 if known else 403)
        self.end_headers()
place = os.environ["ADDRESS"], int(os.environ["PORT"])
http.server.ThreadingHTTPServer(place, Page).serve_forever()
"""


# Answers as Jupyter does, whose cookies are signed with a secret that it makes once.
JUPYTER = """\
#!/usr/bin/env python3
import hashlib, http.server, json, os, sys
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
secret = options["ServerApp.cookie_secret_file"]
if not os.path.exists(secret):
    open(secret, "w").write(os.urandom(16).hex())
cookie = "user=" + hashlib.sha256(open(secret).read().encode()).hexdigest()
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = "token " + os.environ["JUPYTER_TOKEN"]
        known = token == self.headers["Authorization"] or cookie == self.headers["Cookie"]
        answer = {"last_activity": "yesterday"}
        if "kernels" in self.path:
            answer = [{"execution_state": open("kernel").read(), "connections": 0}]
            open("looks", "a").write("x")
        self.send_response(200 if known else 403)
        self.send_header("Set-Cookie", cookie if known else "")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode() if known else b"")
place = options["ServerApp.ip"], int(options["ServerApp.port"])
http.server.ThreadingHTTPServer(place, Page).serve_forever()
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a module of the program, which has no package."""
    monkeypatch.syspath_prepend(str(PROGRAM))
    names = {file.stem for file in PROGRAM.glob("*.py")}
    yield importlib.import_module
    for name in names & set(sys.modules):
        del sys.modules[name]


class Job:
    """A server in a job of its own, as the batch script starts it."""

    def __init__(
        self,
        place: Path,
        server: str = "",
        script: str = 'exec "$PYTHON" server.py',
        **recipe: Any,
    ) -> None:
        self.place, self.folder = place, place / "serve" / "7"
        (place / "serve").mkdir(mode=0o700)
        shutil.copytree(PROGRAM, place / "serve" / "program")
        (place / "serve/program/recipe.json").write_text(json.dumps({**RECIPE, **recipe}))
        (place / "server.py").write_text(server or SERVER)
        (place / "script").write_text(f"#!/bin/bash\n{script}\n")
        (place / "script").chmod(0o700)
        more = {"SLURM_JOB_ID": "7", "TMPDIR": str(place), "PYTHON": sys.executable}
        more["SLURMD_NODENAME"] = "localhost"
        self.log = place / "log"
        with self.log.open("wb") as log:
            self.log.chmod(0o644)
            self.process = subprocess.Popen(
                [sys.executable, "-EsB", "serve/program/main.py", "run", str(place / "script")],
                env={**os.environ, **more},
                cwd=place,
                stdout=log,
                stderr=log,
            )

    def note(self) -> Dict[str, Any]:
        try:
            return json.loads((self.folder / "note").read_text())
        except FileNotFoundError:
            return {"state": "", "words": ""}

    def wait_for(self, check: Callable[[Dict[str, Any]], object]) -> Dict[str, Any]:
        """Return the first note that is as wanted."""
        end = time.monotonic() + 300
        while time.monotonic() < end:
            note = self.note()
            if check(note):
                return note
            time.sleep(0.1)
        raise AssertionError(f"{self.note()}\n{self.log.read_text()}")

    def answers(self) -> Dict[str, Any]:
        return self.wait_for(lambda note: note["state"] == "answers")

    def end(self) -> int:
        return self.process.wait(300)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs = []

    def begin(*words: Any, **more: Any) -> Job:
        jobs.append(Job(tmp_path, *words, **more))
        return jobs[-1]

    yield begin
    for job in jobs:
        if job.process.poll() is None:
            job.process.terminate()
            job.process.wait(300)


def test_a_server_is_noted_and_leaves_nothing_but_how_it_ended(start: Callable[..., Job]) -> None:
    job = start()
    note = job.answers()
    assert note["user"] and note["localhost"] == "j7.localhost" and len(note["token"]) == 48
    assert stat.S_IMODE((job.folder / "note").stat().st_mode) == 0o600
    assert stat.S_IMODE(job.log.stat().st_mode) == 0o600
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    assert sorted(file.name for file in job.folder.iterdir()) == ["note"]
    assert note["token"] not in (job.folder / "note").read_text()
    assert job.note()["words"] == "Slurm ended its job"
    assert not [*job.place.glob("serve.*")], "its TMPDIR"


def test_a_log_that_others_have_open_is_written_anew(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "log").touch()
    with (tmp_path / "log").open() as reader:
        job = start(script='echo a secret; exec "$PYTHON" server.py')
        job.answers()
        assert "a secret" in job.log.read_text()
        assert reader.read() == ""


OPEN = 'exec "$PYTHON" server.py open'


def test_one_that_is_open_by_its_recipe_answers(start: Callable[..., Job]) -> None:
    start(script=OPEN, open=True).answers()


@pytest.mark.parametrize(
    ("recipe", "code", "words"),
    [
        ({"script": OPEN}, 1, "lets everybody in"),
        ({"script": OPEN, "alive": "ask /"}, 1, "lets everybody in"),
        (
            {"ready": "ask / 'X-Token: mine'", "ready_within": 5},
            1,
            "mine did not answer within 5 s: / answers 403",
        ),
        (
            {"script": "sleep 100", "ready_within": 1},
            1,
            "did not answer within 1 s: nothing listens on 127.0.0.1:",
        ),
    ],
)
def test_a_server_that_does_not_answer_as_it_should_ends(
    start: Callable[..., Job], recipe: Dict[str, Any], code: int, words: str
) -> None:
    job = start(**recipe)
    assert job.end() == code
    assert words in job.log.read_text()
    assert "answers on port" not in job.log.read_text()


def test_one_that_takes_no_token_but_refuses_a_wrong_one_ends(start: Callable[..., Job]) -> None:
    server = SERVER.replace("sys.argv[1:] ==", 'self.headers.get("X-Token") is None or 1 ==')
    assert start(server).end() == 1


def test_a_port_that_is_taken_is_left_three_times(start: Callable[..., Job]) -> None:
    taken = """
import os, socket, sys, time
holder = socket.socket(); holder.bind((os.environ["ADDRESS"], int(os.environ["PORT"])))
if os.fork() == 0:
    while os.path.exists("server.py") and not os.path.exists("over"):
        time.sleep(0.1)
    os._exit(0)
sys.exit(3)
"""
    job = start(taken, 'echo start; "$PYTHON" server.py; exit 3')
    assert job.end() == 1
    (job.place / "over").touch()
    assert job.log.read_text().count("start\n") == 3
    assert job.log.read_text().count("is taken; trying another one") == 2


def test_another_exit_is_no_reason_to_start_again(start: Callable[..., Job]) -> None:
    job = start(script="echo start; exit 7")
    assert job.end() == 7
    assert job.log.read_text().count("start\n") == 1
    assert job.note()["words"] == "mine ended with exit code 7, and never answered"


def test_a_signal_that_comes_before_the_server_ends_it(
    program: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    recipe = dict.fromkeys(("name", "guard", "ready", "alive", "used"), "false")
    watching = program("watching")
    server = watching.Server(str(tmp_path), {**recipe, "address": "127.0.0.1", "ready_within": 9})
    (tmp_path / "7").mkdir()
    Popen = subprocess.Popen

    def popen(words: List[str], **options: Any) -> Any:
        server.pass_signal_on(signal.SIGTERM, None)
        return Popen(["sleep", "1000"], **options)

    monkeypatch.setattr(watching.subprocess, "Popen", popen)
    assert server.start("script") == 128 + signal.SIGTERM


def test_a_server_that_stops_answering_is_silent(start: Callable[..., Job]) -> None:
    job = start()
    job.answers()
    command = ["pgrep", "-P", str(job.process.pid), "-f", "server.py$"]  # others ask about the node
    server = int(subprocess.check_output(command, text=True))
    os.kill(server, signal.SIGSTOP)
    assert job.wait_for(lambda note: note["state"] == "silent")["words"]
    os.kill(server, signal.SIGCONT)
    job.answers()


def test_a_server_that_is_killed_ends_the_job(start: Callable[..., Job]) -> None:
    job = start()
    job.answers()
    subprocess.run(["pkill", "-KILL", "-P", str(job.process.pid), "python"])
    assert job.end() == 137
    assert job.note()["state"] == "ended"


def test_the_reason_of_an_idle_end_is_noted(start: Callable[..., Job]) -> None:
    job = start(idle=1, used="false")
    assert job.end() == 0
    assert job.note()["words"] == "nobody used it for 1 s, so it ends"


@pytest.fixture
def start_jupyter(
    start: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Job]:
    """Starts the shipped recipe with a stand-in for Jupyter, whose kernel is busy at first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "jupyter-lab").write_text(JUPYTER)
    (tmp_path / "jupyter-lab").chmod(0o755)
    (tmp_path / "kernel").write_text("busy")
    recipe = recipes.load("jupyter")
    texts = {"ready": recipe.ready, "alive": recipe.alive, "used": recipe.used}
    return lambda **more: start(script=f"set --\n{recipe.command}", **texts, **more)


def test_a_busy_kernel_is_use(start_jupyter: Callable[..., Job], tmp_path: Path) -> None:
    job = start_jupyter(idle=2)
    job.answers()
    looks = tmp_path / "looks"  # which are further apart than its time
    job.wait_for(lambda note: looks.exists() and looks.stat().st_size >= 3)
    assert job.process.poll() is None
    (tmp_path / "kernel").write_text("idle")
    assert job.end() == 0
    assert job.note()["words"] == "nobody used it for 2 s, so it ends"


def test_the_cookie_of_an_ended_jupyter_opens_no_other(
    start_jupyter: Callable[..., Job], tmp_path: Path
) -> None:
    def status(note: Dict[str, Any], **fields: str) -> Tuple[int, str]:
        page = http.client.HTTPConnection(note["address"], note["port"])
        page.request("GET", "/api/contents", headers=fields)
        answer = page.getresponse()
        return answer.status, answer.headers["Set-Cookie"]

    first = start_jupyter()
    note = first.answers()
    known, cookie = status(note, Authorization=f"token {note['token']}")
    assert (known, status(note, Cookie=cookie)[0]) == (200, 200)
    first.process.terminate()
    first.end()
    shutil.rmtree(tmp_path / "serve")
    assert status(start_jupyter().answers(), Cookie=cookie)[0] == 403


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_tunnel_ends_with_its_server(start: Callable[..., Job], number: int) -> None:
    job = start()
    job.answers()
    server = subprocess.check_output(["pgrep", "-P", str(job.process.pid)], text=True).split()
    # As sshd starts it: what it ends is its parent.
    session = subprocess.Popen(["bash", "-c", f"sh {job.folder}/tunnel; echo lives"])
    job.process.send_signal(number)
    assert session.wait(300) == -signal.SIGTERM
    if number == signal.SIGKILL:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(server[0]), number)


def test_the_next_server_on_a_node_removes_what_a_killed_one_left(
    program: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = program("places")
    monkeypatch.setattr(places.tempfile, "tempdir", str(tmp_path))
    of_killed, lives = tmp_path / "serve.killed", Path(places.make_temporary())
    of_killed.mkdir()
    (of_killed / "cookie_secret").touch()
    (tmp_path / "serve.link").symlink_to(tmp_path)
    mine = Path(places.make_temporary())
    assert {*tmp_path.iterdir()} == {lives, mine, tmp_path / "serve.link"}


def test_a_beat_that_cannot_be_written_does_not_end_the_server(start: Callable[..., Job]) -> None:
    job = start()
    note = job.answers()
    (job.folder / "own").mkdir()
    while not (job.folder / "beat").is_dir():
        with contextlib.suppress(OSError):
            (job.folder / "beat").unlink()
            (job.folder / "own").rename(job.folder / "beat")
    job.wait_for(lambda later: later["asked"] > note["asked"] + 2)
    assert job.process.poll() is None


def test_a_login_shell_stays_one(start: Callable[..., Job]) -> None:
    job = start(script="shopt -q login_shell && exit 9")
    assert job.end() != 9
    (job.place / "script").write_text("#!/bin/bash -l\nshopt -q login_shell && exit 9\n")
    arguments = [str(word) for word in job.process.args]  # type: ignore[union-attr]
    env = {**os.environ, "SLURM_JOB_ID": "7", "TMPDIR": str(job.place)}
    assert subprocess.run(arguments, env=env, cwd=job.place, capture_output=True).returncode == 9


# What is asked of the kernel.


def listening(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    one = socket.socket(family)
    one.bind((address, 0))
    one.listen()
    return one


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_the_owner_of_a_port_is_found(program: Callable[[str], Any], address: str) -> None:
    asked = "::1" if ":" in address else "127.0.0.1"
    with listening(address) as one:
        port = one.getsockname()[1]
        assert program("asking").find_owners(asked, port) == {os.getuid()}
    assert program("asking").find_owners(asked, port) == set()


def test_the_most_exact_address_counts(
    program: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = program("asking")
    rows = [("127.0.0.1", 1), ("10.1.1.35", 2), ("0.0.0.0", 3), ("::", 4)]
    listening = [(address, asking.LISTENS, uid) for address, uid in rows]
    monkeypatch.setattr(asking, "list_sockets", lambda port: listening)
    assert [asking.find_owners(it, 5) for it in ("127.0.0.1", "10.1.1.35")] == [{1}, {2}]
    assert [asking.find_owners(it, 5) for it in ("10.9.9.9", "fd00::7")] == [{3}, {4}]


def test_nothing_is_sent_to_a_stranger(
    program: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = program("asking")
    with listening("127.0.0.1") as one:
        for name, value in {"ADDRESS": "127.0.0.1", "LOCALHOST": "j7.localhost"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PORT", str(one.getsockname()[1]))
        monkeypatch.setattr(asking, "find_owners", lambda address, port: {os.getuid() + 1})
        with pytest.raises(OSError, match="belongs to"):
            asking.ask("/", "Authorization: Bearer secret")
        connection = one.accept()[0]
        assert connection.recv(100) == b""
        connection.close()


def test_ports_are_tried_with_bind(
    program: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are taken by somebody who does not listen."""
    asking = program("asking")
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        taken = [it.getsockname()[1] for it in (one, two)]
        monkeypatch.setattr(asking, "PORTS", taken)
        assert asking.find_free_port("127.0.0.1") not in (*taken, 0)


@pytest.mark.parametrize(("says", "busy"), [("3", False), ("9", True), ("[N/A]", True), ("", True)])
def test_a_gpu_of_which_nothing_is_known_counts_as_busy(
    program: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    says: str,
    busy: bool,
) -> None:
    monkeypatch.setenv("PATH", install(tmp_path, {"nvidia-smi": NVIDIA_SMI}))
    monkeypatch.setenv("USE", str(tmp_path / "use"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    (tmp_path / "use").write_text(says and f"0, {says}\n")
    (tmp_path / "gpus.sh").write_text(gpu_reader())
    use = program("use")
    monkeypatch.setattr(use, "__file__", str(tmp_path / "use.py"))
    assert use.gpus_work() is busy


# Eight, so that a busy machine gives them half a core together.
BUSY = "for _ in {1..8}; do (while :; do :; done) & done; wait"


@pytest.mark.parametrize(("text", "busy"), [(BUSY, True), ("sleep 60", False)])
def test_cores_count_as_use(program: Callable[[str], Any], text: str, busy: bool) -> None:
    recipe = {"used": "false", "guard": "own"}
    server = SimpleNamespace(recipe=recipe, job=f"{os.getpid()}00", succeeds=lambda text: False)
    use = program("use").Use(server)
    env = {**os.environ, "SLURM_JOB_ID": server.job, "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(["bash", "-c", text], env=env, start_new_session=True) as process:
        use.is_seen()
        for _ in range(30 if busy else 1):
            time.sleep(2)
            seen = use.is_seen()
            if seen:
                break
        os.killpg(process.pid, signal.SIGKILL)
    assert seen is busy


# The gate, whose network needs namespaces: tests/slurm/test_serve_gate.py has the whole of it.


@pytest.mark.parametrize("head", ["GET /?token={} HTTP/1.1", "GET / HTTP/1.1\r\nCookie: a=b; {}"])
def test_the_gate_takes_the_token_away(program: Callable[[str], Any], head: str) -> None:
    gate = program("gate").Gate(31000, "secret", "/nowhere")
    cookie = "neuronctl_31000=secret"
    clean, place = gate.remove_token(head.format("secret" if "?" in head else cookie) + "\r\n\r\n")
    assert place and "secret" not in clean
    assert gate.remove_token(head.format("other") + "\r\n\r\n")[1] == ""


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("Authorization: Bearer secret", "field"),
        ("Authorization: Basic dXNlcjpzZWNyZXQ=", "field"),  # user:secret
        ("Authorization: Basic dXNlcjpvdGhlcg==", ""),
        ("X-Other: secret", ""),
        ("Cookie: secret2", ""),
    ],
)
def test_the_gate_finds_the_token_only_where_it_belongs(
    program: Callable[[str], Any], field: str, place: str
) -> None:
    gate = program("gate").Gate(31000, "secret", "/nowhere")
    assert gate.remove_token(f"GET /? HTTP/1.1\r\n{field}\r\n\r\n")[1] == place


def test_the_program_is_of_the_oldest_python() -> None:
    import ast

    for file in PROGRAM.glob("*.py"):
        ast.parse(file.read_text(), feature_version=(3, 6))


def test_nobody_has_a_token_without_one(tmp_path: Path) -> None:
    """The gate stays shut, as when there was no room for a token."""
    env: Dict[str, Optional[str]] = {"ADDRESS": "127.0.0.1", "PORT": "1", "FOLDER": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM / "main.py"), "gate", "true"],
        env=env,  # type: ignore[arg-type]
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "gate: not started: there is no token\n")
