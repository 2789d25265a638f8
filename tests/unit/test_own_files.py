"""Attacks on files: what others can write is not read, what others have swapped is not written."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from plan_builders import plan_of

from neuronctl.catalog import loader
from neuronctl.common import errors, files
from neuronctl.launch import launchers
from neuronctl.records.store import RecordDraft, RecordStore
from neuronctl.rendering import template_environment
from neuronctl.rendering.render import render_job
from neuronctl.request.job_file import JOB_FILE, configuration, own_job_file, read_job_file

MALLORY = 12345

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")


def load_mine() -> launchers.Launcher:
    launchers.forget()
    return launchers.load("mine")


def render() -> str:
    template_environment._environment.cache_clear()
    return render_job(plan_of(launcher="python"))


FOUND: Dict[str, Any] = {
    "config.yaml": ("partition: cpu\n", configuration, errors.JobFileError),
    "partitions.yaml": ("default_cluster: neuron\n", loader.load, errors.CatalogError),
    "templates/job.sh.j2": ("hello\n", render, errors.TemplateError),
    "templates/launchers/mine.j2": (
        "{#\ndistributed: no\none_task_per_node: no\n#}\n",
        load_mine,
        errors.TemplateError,
    ),
}
"""Files that neuronctl finds by itself: what may be in them, and who reads them."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "config" / "neuronctl"


@pytest.fixture(params=FOUND)
def found(config: Path, request: pytest.FixtureRequest) -> Path:
    file = config / str(request.param)
    file.parent.mkdir(parents=True)
    file.write_text(FOUND[str(request.param)][0])
    file.chmod(0o644)
    return file


@pytest.fixture
def read(found: Path, config: Path) -> Callable[[], object]:
    return FOUND[str(found.relative_to(config))][1]  # type: ignore[no-any-return]


@pytest.fixture
def refused(found: Path, config: Path) -> Callable[[], errors.NeuronctlError]:
    _, function, kind = FOUND[str(found.relative_to(config))]

    def call() -> errors.NeuronctlError:
        with pytest.raises(kind) as caught:
            function()
        assert str(found) in caught.value.message
        error: errors.NeuronctlError = caught.value
        return error

    return call


def test_the_users_own_files_are_read(found: Path, read: Callable[[], object]) -> None:
    read()


def test_a_link_to_a_file_of_the_users_own_is_read(
    found: Path, read: Callable[[], object], tmp_path: Path
) -> None:
    (tmp_path / "dotfiles").mkdir()
    found.rename(tmp_path / "dotfiles" / "file")
    found.symlink_to(tmp_path / "dotfiles" / "file")
    read()


@pytest.mark.parametrize("way", ["to a file there", "through a link there"])
def test_a_link_into_a_directory_that_others_can_write_is_not_followed(
    found: Path, refused: Callable[[], errors.NeuronctlError], tmp_path: Path, way: str
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()
    real = (shared if way == "to a file there" else own) / "file"
    found.rename(real)
    if real.parent == own:
        (shared / "file").symlink_to("../own/file")
    found.symlink_to(shared / "file")
    shared.chmod(0o777)
    error = refused()
    assert error.message.endswith(": other users can write its directory")
    assert error.hint == f"chmod go-w {shared}"


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_what_others_can_write_is_not_read(
    found: Path, refused: Callable[[], errors.NeuronctlError], mode: int
) -> None:
    found.chmod(mode)
    error = refused()
    assert error.message.endswith(": other users can write it")
    assert error.hint == f"chmod go-w {found}"


def test_nor_in_a_directory_that_others_can_write(
    found: Path, refused: Callable[[], errors.NeuronctlError]
) -> None:
    found.parent.chmod(0o777)
    error = refused()
    assert error.message.endswith(": other users can write its directory")
    assert error.hint == f"chmod go-w {found.parent}"


def test_the_group_may_write_only_where_it_is_the_users_alone(
    found: Path,
    read: Callable[[], object],
    refused: Callable[[], errors.NeuronctlError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the umask is 002, all of a user's files are such."""
    found.chmod(0o664)
    user, group = pwd.getpwuid(os.geteuid()), found.stat().st_gid
    kim = pwd.struct_passwd(("kim", "x", os.geteuid(), group, *user[4:]))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: kim)

    def group_is(name: str, *members: str) -> None:
        made = grp.struct_group((name, "x", group, list(members)))
        monkeypatch.setattr(grp, "getgrgid", lambda gid: made)

    group_is("kim")
    read()
    for name, members in (("lab", ()), ("kim", ("lee",)), ("kim", ("kim", "lee"))):
        group_is(name, *members)
        assert "other users can write it" in refused().message
    group_is("kim", "kim")
    lee = pwd.struct_passwd(("lee", "x", os.geteuid() + 1, group, *user[4:]))
    with monkeypatch.context() as patch:
        patch.setattr(pwd, "getpwall", lambda: [kim, lee])  # whose primary group it is, too
        assert "other users can write it" in refused().message
    monkeypatch.setattr(os, "listxattr", lambda file: ["system.posix_acl_access"])
    assert "other users can write it" in refused().message


@needs_root
@pytest.mark.parametrize("what", ["file", "directory", "target"])
def test_a_file_of_somebody_else_is_not_read(
    found: Path, refused: Callable[[], errors.NeuronctlError], tmp_path: Path, what: str
) -> None:
    path = found.parent if what == "directory" else found
    if what == "target":
        path = tmp_path / "theirs"
        found.rename(path)
        found.symlink_to(path)
    os.chown(path, MALLORY, -1)
    assert f"belongs to user {MALLORY}" in refused().message


def _pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def _socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


ODD: Dict[str, Callable[[Path], None]] = {
    "pipe": _pipe,
    "socket": _socket,
    "folder": lambda path: path.mkdir(),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "endless": lambda path: path.symlink_to("/proc/self/pagemap"),
    "loop": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_file_is_refused_at_once(
    found: Path, config: Path, refused: Callable[[], errors.NeuronctlError], odd: str
) -> None:
    name = str(found.relative_to(config))
    found.unlink()
    ODD[odd](found)
    if odd == "loop" and name.startswith("templates/"):
        return  # as if there was none, and the shipped one is there
    refused()


@pytest.mark.parametrize("odd", ["pipe", "socket", "device"])
def test_nor_where_the_user_names_it(tmp_path: Path, odd: str) -> None:
    ODD[odd](tmp_path / "job.yaml")
    with pytest.raises(errors.JobFileError, match="cannot read"):
        read_job_file(tmp_path / "job.yaml")
    with pytest.raises(errors.CatalogError, match="cannot read"):
        loader.load(str(tmp_path / "job.yaml"))
    with pytest.raises(errors.TemplateError):
        render_job(plan_of(launcher="python"), template=str(tmp_path / "job.yaml"))


def test_a_file_that_is_named_may_be_anybodys(tmp_path: Path) -> None:
    """What a colleague shares with the group: naming it is trusting it."""
    (tmp_path / "job.yaml").write_text("nodes: 2\n")
    (tmp_path / "job.yaml").chmod(0o666)
    assert read_job_file(tmp_path / "job.yaml").values == {"nodes": 2}


@needs_root
@pytest.mark.parametrize(
    "part", [".local/state/neuronctl/jobs", ".local/state/neuronctl", ".local"]
)
def test_root_follows_no_link_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """As with ``sudo -E``: HOME is still the user's."""
    home, target = tmp_path / "mallory", tmp_path / "etc"
    for made in (home, target):
        made.mkdir()
    target.chmod(0o755)
    link = home / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    for path in (home, *home.rglob("*")):
        os.chown(path, MALLORY, -1, follow_symlinks=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(errors.RecordError, match=f"link '.*' belongs to user {MALLORY}"):
        RecordStore.default().begin(_draft())
    assert stat.S_IMODE(target.stat().st_mode) == 0o755 and not list(target.iterdir())


@needs_root
@pytest.mark.parametrize("home", ["mallory", "a link of root's own"])
def test_root_makes_nothing_in_another_users_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (tmp_path / "mallory").mkdir()
    os.chown(tmp_path / "mallory", MALLORY, -1)
    (tmp_path / "a link of root's own").symlink_to("mallory")
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(errors.RecordError, match=f"the directory above belongs to user {MALLORY}"):
        RecordStore.default().begin(_draft())
    assert not list((tmp_path / "mallory").iterdir())


def test_a_link_of_the_users_own_is_followed(tmp_path: Path) -> None:
    """``~/.cache`` is often one, to a larger disk."""
    (tmp_path / "scratch").mkdir(mode=0o755)
    (tmp_path / "home").symlink_to("scratch")
    files.write_private(str(tmp_path / "home" / "a" / ".." / "a" / "b" / "file"), "text")
    assert (tmp_path / "scratch" / "a" / "b" / "file").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "scratch" / "a" / "b").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "scratch").stat().st_mode) == 0o755


def test_a_directory_whose_name_is_no_text_is_written_as_it_is(tmp_path: Path) -> None:
    files.write_private(str(tmp_path / "file"), ". /home/k\udcff/setup\n")
    assert (tmp_path / "file").read_bytes() == b". /home/k\xff/setup\n"


def test_links_without_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match=r"(?i)symbolic links"):
        files.write_private(str(tmp_path / "a" / "file"), "text")


def _draft() -> RecordDraft:
    return RecordDraft("/", {}, "x", "cpu", "x.out", script="#!/bin/bash\n")


def test_what_was_checked_is_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write in the directory above may swap the file's directory meanwhile."""
    for place in ("scripts", "keys"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "job.sh").write_text(place)

    def swapped(*look: Any, **more: Any) -> None:
        (tmp_path / "scripts").rename(tmp_path / "before")
        (tmp_path / "scripts").symlink_to("keys")

    monkeypatch.setattr(files, "_refuse_others", swapped)
    files.rewrite(str(tmp_path / "scripts" / "job.sh"), b"scripts", b"mended")
    assert (tmp_path / "keys" / "job.sh").read_text() == "keys"
    assert (tmp_path / "before" / "job.sh").read_text() == "mended"


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / JOB_FILE).write_text("script: train.py\nenv: {TOKEN: hunter2}\n")
    (tmp_path / JOB_FILE).chmod(0o644)
    return tmp_path / JOB_FILE


def test_job_yaml_of_the_users_own_is_read_and_not_cached(job_file: Path, tmp_path: Path) -> None:
    found = own_job_file()
    assert found is not None and found.values["script"] == "train.py"
    assert found.origins["script"].where == "job.yaml:1"
    assert not (tmp_path / "cache").exists()
    job_file.unlink()
    assert own_job_file() is None


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_job_yaml_that_others_can_write_is_refused(
    job_file: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    lab = grp.struct_group(("lab", "x", job_file.stat().st_gid, ["kim"]))
    monkeypatch.setattr(grp, "getgrgid", lambda number: lab)
    job_file.chmod(mode)
    with pytest.raises(errors.JobFileError) as caught:
        own_job_file()
    assert caught.value.message == "cannot read job.yaml: other users can write it"
    assert caught.value.hint == "chmod go-w job.yaml; or name it, if you trust it: -f job.yaml"


def test_job_yaml_that_cannot_be_read_under_any_name(job_file: Path) -> None:
    job_file.unlink()
    job_file.mkdir()
    with pytest.raises(errors.JobFileError, match="Is a directory") as caught:
        own_job_file()
    assert caught.value.hint == ""
