"""What travels between two machines, and what a hostile other side can do: nothing."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest

from neuronctl.common.errors import ConnectionLostError, NotConnectedError, UsageError
from neuronctl.records.store import RecordDraft, RecordStore
from neuronctl.remote import host, payload, project
from neuronctl.remote import session as session_module
from neuronctl.remote.connection import Remote, _usual_address, check_name, login
from neuronctl.remote.host import is_safe
from neuronctl.remote.project import Project
from neuronctl.remote.session import _INSTALL, Filter, Session

ROOT = Path(__file__).resolve().parents[2]


def quiet(message: str) -> None:
    """Hear nothing."""


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    """A cluster behind an ssh that runs its last word here, and whose master lives."""
    path = tmp_path / "s"
    listener = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)
    listener.bind("s")
    listener.close()
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/bash\n[[ " $* " != *" -O "* ]] || exit 0\nexec sh -c "${!#}"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SHELL", "/bin/sh")
    return Remote("there", "there", str(path), sys.executable)


def shown(remote: Remote, script: str) -> tuple[bytes, int]:
    """What a command shows after its first mark, and its exit code."""
    parts: List[bytes] = []
    begin = "printf '\\036%s begin\\n' $0; printf '\\036%s begin\\n' $0 >&2; "
    command = Session(remote, ["sh", "-c", begin + script])
    assert command.state == "begin"
    code = command.show(raw=True, write=parts.append)
    return b"".join(parts), code


@pytest.mark.parametrize("code", [0, 1, 255])
def test_output_and_exit_code_arrive_as_they_are(remote: Remote, code: int) -> None:
    text = "a\\036b\\036\\nno line break at the end"
    said = shown(remote, f"printf '{text}'; sleep 0.1; printf '\\036'; exit {code}")
    assert said == (b"a\x1eb\x1e\nno line break at the end\x1e", code)


@pytest.mark.parametrize("end", ["kill -9 $$", "touch lost; exit 255"])
def test_an_end_of_ssh_itself_is_a_loss(remote: Remote, tmp_path: Path, end: str) -> None:
    lines = '[[ " $* " != *" -O "* ]] || exec test ! -e lost\nexec sh -c "${!#}"\n'
    (tmp_path / "bin" / "ssh").write_text(f"#!/bin/bash\n{lines}")
    with pytest.raises(ConnectionLostError):
        shown(remote, f"echo half; {end}")


def test_a_command_that_ssh_could_not_begin_is_none(remote: Remote, tmp_path: Path) -> None:
    ssh = tmp_path / "bin" / "ssh"
    lines = 'for word; do case $word in -oProxyCommand=*) sh -c "${word#*=}";; esac; done\n'
    ssh.write_text(f"#!/bin/bash\n{lines}exit 255\n")
    with pytest.raises(NotConnectedError):
        shown(remote, "true")


@pytest.mark.parametrize("end", ["exit 255", "kill -9 $$"])
def test_a_connection_that_breaks_before_the_first_mark_is_a_loss(
    remote: Remote, tmp_path: Path, end: str
) -> None:
    (tmp_path / "bin" / "ssh").write_text(f"#!/bin/sh\n{end}\n")
    with pytest.raises(ConnectionLostError) as error:
        shown(remote, "true")
    assert error.value.hint == "neuronctl login there"


@pytest.mark.parametrize(
    "wait",
    [Session.read_json, Session.finish, lambda session: session.write(bytes(1 << 20))],
    ids=["answer", "end", "write"],
)
def test_a_cluster_that_stays_silent_is_left(
    wait: Callable[[Session], object], remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_SILENCE", 1)
    command = Session(remote, ["sh", "-c", "printf '\\036%s begin\\n' $0; exec sleep 600"])
    with pytest.raises(ConnectionLostError, match="no answer from there for 1 s") as error:
        wait(command)
    assert "neuronctl logout there, then neuronctl login there" in error.value.hint


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("\x1b[1;31mred\x1b[0m\r\n", "\x1b[1;31mred\x1b[0m\r\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\x07"),
        ("\x1b]52;c;aGk=\x1b\\", "\\x1b]52;c;aGk=\\x1b\\"),
        ("\x1b[6n\x1b[c\x1b[21t", "\\x1b[6n\\x1b[c\\x1b[21t"),
        ("\x1bP+q\x9b", "\\x1bP+q\\x9b"),
        ("a\u202eb", "a\\u202eb"),
        ("한글 é\udcb0\udca1", "한글 é\udcb0\udca1"),  # bytes that are not UTF-8 stay
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_terminal_obeys_colors_alone(said: str, seen: str, size: int) -> None:
    out, data = Filter(False), said.encode("utf-8", "surrogateescape")
    parts = [out.shown(data[at : at + size]) for at in range(0, len(data), size)]
    whole = b"".join([*parts, out.shown(b"", final=True)])
    assert whole == seen.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "x\0y"])
def test_names_that_lead_elsewhere(name: str) -> None:
    assert not is_safe(name)


class Hostile:
    """A session whose answers are set before."""

    def __init__(self, *answers: Dict[str, Any], data: bytes = b"") -> None:
        self.answers, self.output = list(answers), io.BytesIO(data)
        self.sent = b""

    def read_json(self) -> Dict[str, Any]:
        return self.answers.pop(0)

    def write(self, data: bytes) -> None:
        self.sent += data

    def read(self, size: int) -> bytes:
        return self.output.read(size)

    def close_input(self) -> None:
        """Hear nothing more."""

    finish = close_input

    def loss(self) -> ConnectionLostError:
        return ConnectionLostError("the connection was lost")


def answer_with(session: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each request get these answers."""

    def run(*words: object, meanwhile: Callable[[], object] = bool) -> Hostile:
        meanwhile()
        return session

    monkeypatch.setattr(project, "run", run)


def pull_from(session: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(session, monkeypatch)
    project.pull(Remote("there", "there", ""), "results", quiet)


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "a/../../evil", "..", ".git/hooks/x", "a/.GIT/config"]
)
def test_pull_writes_nothing_outside(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    session = Hostile({"files": [[name, 0, 1, 10**18]]}, data=b"x")
    with pytest.raises(UsageError, match="leads elsewhere"):
        pull_from(session, monkeypatch)
    assert [path.name for path in tmp_path.rglob("*")] == ["here"]


@pytest.mark.parametrize("files", [[1], [["a"]], [["a", 0, "x", 1]], [[None, 0, 1, [1]]]])
def test_a_list_that_cannot_be_read_is_one_line(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        pull_from(Hostile({"files": files}), monkeypatch)


def test_pull_follows_no_link_out_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("results").symlink_to(tmp_path / "other")
    session = Hostile({"files": [["evil", 0, 1, 10**18]]}, data=b"x")
    with pytest.raises(UsageError, match="through a link"):
        pull_from(session, monkeypatch)
    assert list((tmp_path / "other").iterdir()) == []


def test_a_file_that_breaks_off_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Hostile({"files": [["half", 0, 9, 10**18]]}, data=b"half")
    with pytest.raises(ConnectionLostError):
        pull_from(session, monkeypatch)
    assert list((tmp_path / "results").iterdir()) == []


def test_only_files_of_the_list_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("1")
    session = Hostile({"wanted": ["train.py", "../secret"]}, {})
    answer_with(session, monkeypatch)
    with pytest.raises(UsageError, match="asks for what is not sent"):
        project.send(
            Remote("there", "there", ""), Project(str(tmp_path / "project"), "."), (), quiet
        )
    assert b"secret" not in session.sent


def test_sent_is_said_only_of_what_the_other_side_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("1")
    said: List[str] = []
    session = Hostile({"wanted": ["train.py"]}, {"have": "0" * 64, "folder": "/x"})
    answer_with(session, monkeypatch)
    with pytest.raises(ConnectionLostError):
        project.send(Remote("there", "there", ""), Project(str(tmp_path), "."), (), said.append)
    assert said == []


@pytest.mark.parametrize(
    ("name", "content"),
    [(".env.local", ""), ("prod.env", ""), ("key", "-----BEGIN OPENSSH PRIVATE KEY-----\n")],
)
def test_secrets_are_refused_by_name(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / ".env.example").touch()
    here = Project(str(tmp_path), ".")
    with pytest.raises(UsageError, match=f"^not sent: {name} "):
        project.manifest(here, (), quiet)
    assert set(project.manifest(here, (name,), quiet)) == {name, ".env.example"}


def test_what_a_link_names_is_refused_as_the_file_itself_is(tmp_path: Path) -> None:
    """git ignores the file of secrets, but not the link to it."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(".env\n")
    (tmp_path / ".env").write_text("TOKEN=hf_x\n")
    (tmp_path / "repository").symlink_to(".git/config")
    here = Project(str(tmp_path), ".")
    assert set(project.manifest(here, (), quiet)) == {".gitignore"}
    (tmp_path / "settings").symlink_to(".env")
    with pytest.raises(UsageError, match=r"^not sent: settings \(a file of secrets\)"):
        project.manifest(here, (), quiet)


def test_more_than_200_megabytes_are_refused(tmp_path: Path) -> None:
    with open(tmp_path / "data.bin", "wb") as file:
        file.truncate(201 * 1000 * 1000)
    here = Project(str(tmp_path), ".")
    with pytest.raises(UsageError, match=r"data\.bin"):
        project.manifest(here, (), quiet)
    assert "data.bin" in project.manifest(here, ("*.bin",), quiet)


def install(place: Path, name: str, damage: bytes = b"") -> Tuple[str, int]:
    """Install an archive with one file, as the other side does; return its hash, and the code."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr(name, "")
    digest, data = hashlib.sha256(whole.getvalue()).hexdigest(), whole.getvalue() + damage
    words = [sys.executable, "-IS", "-c", _INSTALL, "mark", digest, str(len(data))]
    env = {"XDG_CACHE_HOME": str(place)}
    return digest, subprocess.run(words, input=data, capture_output=True, env=env).returncode


@pytest.mark.parametrize("damage", [b"", b"x"])
def test_an_archive_of_another_hash_is_not_unpacked(tmp_path: Path, damage: bytes) -> None:
    assert (install(tmp_path, "evil.py", damage)[1] == 0) == (damage == b"")
    assert len(list(tmp_path.rglob("evil.py"))) == (damage == b"")


def test_a_new_version_replaces_those_of_a_month_ago(tmp_path: Path) -> None:
    base = tmp_path / "neuronctl" / "remote"
    for name in ("old", "recent"):
        (base / name / "sub").mkdir(parents=True)
    os.utime(base / "old", (0, 0))
    digest, code = install(tmp_path, "new.py")
    assert code == 0 and {path.name for path in base.iterdir()} == {"recent", digest}


def test_all_data_of_the_package_is_sent() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    lines = text.split("force-include]\n")[1].split("\n\n")[0].split("\n")
    names = {line.split('"')[1].split("/")[0] for line in lines if line.startswith('"')}
    assert names == set(payload._DATA)


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a b", "a;b", "", "../x", "a/b", "$(id)"])
def test_names_that_are_no_clusters(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)


@pytest.mark.parametrize(
    ("name", "hostname", "address"),
    [
        ("neuron", "neuron", "neuron.ksc.re.kr"),  # nobody but the catalog knows it
        ("x1234a01@neuron", "neuron", "x1234a01@neuron.ksc.re.kr"),
        ("neuron", "10.0.0.1", "neuron"),  # of ~/.ssh/config
        ("lab", "lab", "lab"),
    ],
)
def test_a_name_of_the_catalog_has_its_login_host(
    name: str, hostname: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssh").write_text(f"#!/bin/sh\necho hostname {hostname}\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert _usual_address(name) == address


def test_a_jump_host_asks_once(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = "printf 'hostname inner\\nproxyjump a,me@gate:2222\\n'"
    Path("bin/ssh").write_text(
        f"#!/bin/sh\n[ $1 != -G ] || exec {settings}\nprintf '%s\\n' \"$@\" >words; exit 255\n"
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(Path("bin").absolute()))
    with pytest.raises(NotConnectedError):
        login("inner", "", show=quiet, tell=quiet)  # type: ignore[arg-type]
    jump = "ssh -oNumberOfPasswordPrompts=1 -J a -W '[%h]:%p' -- ssh://me@gate:2222"
    assert f"-oProxyCommand={jump}" in Path("words").read_text().splitlines()


@pytest.mark.parametrize("run", ["4711", "4713", "sweep-5ea"], ids=["job", "array", "sweep"])
def test_pull_finds_results_in_a_job_s_copy_of_the_code(tmp_path: Path, run: str) -> None:
    project_folder = tmp_path / "projects" / "net"
    result = tmp_path / "snapshots" / "1" / "runs" / run / "results [1]" / "loss.csv"
    other = tmp_path / "snapshots" / "2" / "runs" / run / "results [1]" / "loss.csv"
    for file in (result, other):
        file.parent.mkdir(parents=True)
        file.touch()
    store = RecordStore.default()
    for number, folder, snapshot in ((4711, "net", 1), (4712, "net2", 2)):
        draft = RecordDraft(
            cwd=f"{project_folder.parent}/{folder}", command_line=(), script="", request={},
            job_name="train", partition="cpu", output="o", nodes=1, gpus_per_node=0, time_limit=60,
            snapshot=str(tmp_path / "snapshots" / str(snapshot)),
        )  # fmt: skip
        store.complete(store.begin(draft, "c"), number, "c")
    request = {
        "directory": str(project_folder.parent), "project": "net", "origin": "here", "below": ".",
        "path": "results [1]/loss.csv",
    }  # fmt: skip
    assert host._find(request) == str(result)


def test_a_worktree_is_a_repository_unless_its_git_directory_is_elsewhere(tmp_path: Path) -> None:
    origin, worktree, copied = tmp_path / "origin", tmp_path / "worktree", tmp_path / "copied"
    origin.mkdir()
    copied.mkdir()
    assert host._make_repository(str(origin))
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (
        (*author, "commit", "-q", "--allow-empty", "-m", "1"),
        ("worktree", "add", "-q", "../worktree"),
    ):
        subprocess.run(["git", *words], cwd=origin, check=True)
    assert host._make_repository(str(worktree))
    (copied / ".git").write_text("gitdir: /nowhere/.git/worktrees/copied\n")
    assert not host._make_repository(str(copied))


def test_commands_without_on_load_nothing_of_it() -> None:
    lines = (
        "import sys; sys.argv = ['neuronctl', 'explain', 'NC310']\n"
        "from neuronctl.cli import program\n"
        "try: program()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('neuronctl.remote')])"
    )
    said = subprocess.check_output([sys.executable, "-c", lines], text=True)
    assert said.splitlines()[-1] == "[]"
