"""The release: two builds are the same, it has one name everywhere, and it fits one file."""

from __future__ import annotations

import contextlib
import os
import platform
import pty
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Callable, Dict, List, Set

import pytest

from neuronctl.records.job_record import decode
from neuronctl.version import __version__

pytestmark = pytest.mark.xdist_group("packages")
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "#!/bin/bash\n#SBATCH -p amd_a100nv_8 --gres=gpu:16\npython train.py\n"


def test_two_builds_are_the_same(
    built: List[Path], build: Callable[..., List[Path]], tmp_path: Path
) -> None:
    """Elsewhere, by somebody with another umask, from files that are all of today."""
    (tmp_path / "elsewhere").mkdir()
    with tarfile.open(built[1]) as archive:
        archive.extractall(tmp_path / "elsewhere")
    (copy,) = (tmp_path / "elsewhere").iterdir()
    (copy / "PKG-INFO").unlink()
    for file in copy.rglob("*"):
        os.utime(file)
    again = build(copy, tmp_path / "again", 0o077)
    assert [one.name for one in again] == [one.name for one in built]
    for one, other in zip(built, again):
        assert one.read_bytes() == other.read_bytes(), one.name


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_release_has_one_name(built: List[Path]) -> None:
    """In the wheel, the changelog, and where a page says what to take."""
    said = metadata(built[0])
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    page = (ROOT / "docs/how-to/install-for-a-site.md").read_text(encoding="utf-8")
    assert said["Version"] == __version__
    assert re.findall(r"(?m)^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", changes)[0] == __version__
    assert set(re.findall(r"neuronctl[-/ ](\d+\.\d+\.\d+)", page)) == {__version__}


def test_the_metadata_name_no_machine(built: List[Path]) -> None:
    said = metadata(built[0])
    assert {"License-Expression", "Requires-Python", "Summary"} <= set(said.keys())
    pythons = [one for one in said.get_all("Classifier", []) if re.search(r":: 3\.\d+$", one)]
    assert [one.rsplit(".")[-1] for one in pythons] == ["9", "10", "11", "12", "13", "14"]
    assert str(ROOT) not in said.as_string()


# ------------------------------------------------------------------ neuronctl in one file


@pytest.fixture(scope="module")
def zipapp(built: List[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("zipapp") / "neuronctl"
    argv = [sys.executable, str(ROOT / "tools/zipapp/build.py"), str(built[0]), str(made)]
    subprocess.run(argv, check=True)
    return made


Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def call(zipapp: Path, tmp_path: Path) -> Call:
    """``call("--version")``: the file, with the system's tools and this Python alone in PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [zipapp, *words],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", **env},
            capture_output=True,
            text=True,
            timeout=600,
            umask=0o022,
        )

    return run


def test_the_file_does_what_the_checkout_does(call: Call, tmp_path: Path, run: Call) -> None:
    """Its templates, catalog and pages too, and batch scripts, which take what is compiled."""
    (tmp_path / "job.sh").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "train.py").write_text("import torch.distributed\n", encoding="utf-8")
    wanted = ["-p", "cas_v100nv_8", "-t", "10", "--field", "misc", "--appl", "pytorch"]
    generate = ["generate", "--cluster", "neuron", *wanted, "--gpus-per-node", "1", "train.py"]
    for words in (generate, ["help", "why"], ["explain", "NC121"]):
        done = call(*words)
        assert (done.returncode, done.stdout) == (0, run(*words, cwd=tmp_path).stdout), words
    checked = call("check", "--cluster", "neuron", "job.sh")
    assert "error NC121" in checked.stdout


def test_the_file_unpacks_once_and_privately(call: Call, tmp_path: Path) -> None:
    assert call("generate").returncode == 2
    place = tmp_path / ".cache" / "neuronctl" / "zipapp"
    names = sorted(path.name for path in place.iterdir())
    assert len(names) == 2
    assert names[1] == names[0] + f"-cp{sys.version_info[0]}{sys.version_info[1]}"
    assert all(path.stat().st_mode & 0o077 == 0 for path in place.iterdir())
    (place / names[1] / "start.py").write_text("print('unpacked before')\n", encoding="utf-8")
    assert call("--version").stdout == "unpacked before\n"


def test_the_first_command_keeps_the_umask(zipapp: Path, tmp_path: Path) -> None:
    """It unpacks with another one. The editor that ``config edit`` opens prints what it has."""
    child, terminal = pty.fork()
    if child == 0:
        os.umask(0o027)
        variables = {**os.environ, "HOME": str(tmp_path), "EDITOR": "sh -c umask"}
        os.execve(zipapp, [str(zipapp), "config", "edit"], variables)
    said = b""
    with contextlib.suppress(OSError):  # of a terminal whose other side is gone
        while data := os.read(terminal, 4096):
            said += data
    os.waitpid(child, 0)
    assert b"0027" in said


def test_a_python_that_is_gone_is_looked_for_anew(call: Call, tmp_path: Path) -> None:
    assert call("--version").returncode == 0
    (note,) = (tmp_path / ".cache/neuronctl/zipapp").glob(f"*-{platform.machine()}")
    note.write_text(f"{tmp_path}/gone/python3\n/nowhere\n", encoding="utf-8")
    assert call("--version").stdout.startswith(f"neuronctl, version {__version__}")
    assert "gone/" not in note.read_text(encoding="utf-8")


def test_a_cache_of_somebody_else_is_not_run(call: Call, tmp_path: Path) -> None:
    place = tmp_path / "open" / "neuronctl" / "zipapp"
    place.mkdir(parents=True)
    place.chmod(0o777)
    done = call("--version", XDG_CACHE_HOME=str(tmp_path / "open"))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{place} is somebody else's, or others can write to it" in done.stderr
    assert not any(place.iterdir())


def test_it_works_where_nothing_can_be_written_at_home(call: Call, tmp_path: Path) -> None:
    """``.cache`` is a file here: root may write in a directory that is read-only."""
    (tmp_path / ".cache").write_text("")
    (tmp_path / "tmp").mkdir()
    for _ in ("it unpacks", "it is there"):
        done = call("--version", TMPDIR=str(tmp_path / "tmp"))
        assert done.stdout.startswith(f"neuronctl, version {__version__}"), done.stderr
    (place,) = (tmp_path / "tmp").iterdir()
    assert place.stat().st_mode & 0o077 == 0
    assert len([path for path in place.iterdir() if path.is_dir()]) == 1


def test_a_place_in_tmp_that_somebody_else_has_made_is_not_run(call: Call, tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("")
    for name in ("tmp", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "tmp" / f"neuronctl-{os.getuid()}").symlink_to(tmp_path / "other")
    done = call("--version", TMPDIR=str(tmp_path / "tmp"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "is somebody else's" in done.stderr and not any((tmp_path / "other").iterdir())


def test_older_copies_are_removed_but_not_those_in_use(call: Call, tmp_path: Path) -> None:
    assert call("--version").returncode == 0
    place = tmp_path / ".cache" / "neuronctl" / "zipapp"
    (current,) = (path for path in place.iterdir() if path.is_dir())
    unused, used, newer, foreign = (
        place / current.name.replace(__version__, version, 1)
        for version in ("0.0.1", "0.0.2", "99.0.0", "notes")
    )
    for copy in (unused, used, newer, foreign):
        shutil.copytree(current, copy)
    argv = [sys.executable, "-IS", str(used / "start.py"), "check", "-"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, **streams) as process:  # type: ignore[call-overload]
        try:
            while str(used / "start.py").encode() not in _locked_files(process.pid):
                assert process.poll() is None
            shutil.rmtree(current)
            assert call("--version").returncode == 0
            assert [path.exists() for path in (unused, used, newer, foreign)] == [
                False, True, True, True,
            ]  # fmt: skip
        finally:
            process.communicate(b"")
    shutil.rmtree(current)
    assert call("--version").returncode == 0
    assert current.is_dir() and not used.exists()


def _locked_files(pid: int) -> Set[bytes]:
    """Return the files that a process has open."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.fsencode(os.readlink(entry)))
    return found


def test_no_place_to_unpack_and_no_python_are_one_line(
    call: Call, zipapp: Path, tmp_path: Path
) -> None:
    (tmp_path / ".cache").write_text("")
    done = call("--version", TMPDIR=str(tmp_path / ".cache"))
    assert done.stderr.startswith("neuronctl: cannot unpack itself: ")
    assert "Traceback" not in done.stderr
    tools: Dict[str, str] = {"PATH": str(tmp_path / "none")}
    Path(tools["PATH"]).mkdir()
    Path(tools["PATH"], "uname").symlink_to(shutil.which("uname") or "")
    argv = [shutil.which("sh") or "", str(zipapp), "--version"]
    none = subprocess.run(argv, env=tools, capture_output=True, text=True)
    assert none.returncode == 1
    assert "neuronctl: needs Python 3.9 or newer, and found none in PATH" in none.stderr


# --------------------------------------------------------------------- what stays readable


def test_a_record_of_this_release_is_read() -> None:
    """docs/reference/stability.md promises it of all later versions: never write the file anew."""
    record = decode((Path(__file__).parent / "record-0.2.0.json").read_bytes())
    assert (record.job_id, record.version, record.job_name) == (1, "0.2.0", "t")
    assert list(record.draft.request["args"]) == ["--epochs", "3"]
    assert record.draft.script.startswith("#!/bin/bash\n#SBATCH --job-name=t\n")
    assert record.states[-1].exit == "0:0"
