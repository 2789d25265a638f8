"""The sandbox's view of the file system: the machine's, with some directories of its own.

Runs only in the first process, in a mount namespace that nobody else sees. The root is an empty
tmpfs into which the machine's directories are bound, so that /scratch can exist even if the machine
has none. /run, /tmp, and the scratch file system are new and empty. /etc is a copy: if the machine
replaces a file of its own, as useradd does, a mount over that file would disappear.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import Iterable, List, Mapping, Tuple

from neuronctl.sandbox import kernel
from neuronctl.sandbox.layout import RUN, SYSTEM

_OLD = "/.old"

_MACHINES_OWN = ("dev", "sys")
"""Directories that always come from the machine; another system's are empty."""


def build(
    root: str,
    exposed: Iterable[str],
    binds: Iterable[Tuple[str, str]],
    fresh: Iterable[str],
    *,
    for_others: bool,
) -> None:
    """Replace this mount namespace's root with the directory ``root``: ``/`` or another system.

    exposed: directories that stay visible at their own paths. binds: directories of the machine,
    and the paths at which they appear, which must exist or be creatable. fresh: top-level
    directories that start empty (``"tmp"``).

    for_others: whether the machine's root starts the sandbox, for an ordinary user. ``exposed``
    directories are then visible even below a directory that is closed to them (such as root's
    home), of which nothing else is visible; nothing of the machine can be written except ``binds``
    and /dev; and /var/tmp is new and empty.
    """
    kernel.mount_tmpfs("/tmp", 0o755)
    Path("/tmp", _OLD[1:]).mkdir()
    kernel.pivot_root("/tmp", "/tmp" + _OLD)

    new = {*fresh, "run", "tmp", "proc", "etc", _OLD[1:]}
    if root != "/":
        new |= {Path(path).parts[1] for path in exposed} - SYSTEM
    Path("/proc").mkdir()
    # Mount this while the machine's /proc is visible; a user namespace may not mount it later.
    kernel.mount_proc("/proc")
    for entry in os.scandir(_OLD + root):
        if entry.name not in new:
            _bind_entry(entry, read_only=for_others and entry.name != "dev")
    for name in new - {"etc"}:
        Path("/", name).mkdir(exist_ok=True)
    Path("/tmp").chmod(0o1777)
    _copy_readable(f"{_OLD}{root}/etc", "/etc")

    if for_others and os.path.isdir("/var/tmp"):
        kernel.mount_tmpfs("/var/tmp", 0o1777)
    for path in sorted(exposed):  # .venv is in the checkout, and must not hide the rest of it
        _expose(path, for_others=for_others)
    for source, place in binds:
        if for_others:
            _open_way(place)
        Path(place).mkdir(parents=True, exist_ok=True)
        kernel.bind(_OLD + source, place)

    kernel.unmount(_OLD)
    Path(_OLD).rmdir()


def _expose(path: str, *, for_others: bool) -> None:
    """Show a directory of the machine at its own path, unless it is there already."""
    if for_others:
        _open_way(path)
    if os.path.exists(path):
        return
    Path(path).mkdir(parents=True)
    kernel.bind(_OLD + path, path)
    if for_others:
        kernel.make_read_only(path)


def _bind_entry(entry: os.DirEntry[str], *, read_only: bool) -> None:
    """Show an entry of the old root's top level in the new one."""
    place = "/" + entry.name
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), place)
    elif entry.is_dir():
        Path(place).mkdir()
        kernel.bind(_OLD + place if entry.name in _MACHINES_OWN else entry.path, place)
        if read_only:
            kernel.make_read_only(place)


def _copy_readable(source: str, target: str) -> None:
    """Copy what every user can read of a directory."""

    def closed(directory: str, names: List[str]) -> List[str]:
        modes = {name: os.lstat(f"{directory}/{name}").st_mode for name in names}
        return [name for name, mode in modes.items() if not mode & stat.S_IROTH]

    with contextlib.suppress(shutil.Error):  # sockets and pipes
        shutil.copytree(source, target, symlinks=True, ignore=closed, copy_function=shutil.copy)


def _open_way(path: str) -> None:
    """Cover each directory above ``path`` that other users cannot enter with an empty one."""
    for parent in reversed(Path(path).parents):
        if parent.exists() and not parent.stat().st_mode & stat.S_IXOTH:
            kernel.mount_tmpfs(str(parent), 0o755)


def new_tmp(exposed: Iterable[str]) -> None:
    """Give a node an empty /tmp and /dev/shm, but keep exposed directories below /tmp."""
    aside = f"{RUN}/tmp"
    kernel.mount_tmpfs(aside, 0o1777)
    for path in exposed:
        if path.startswith("/tmp/"):
            place = aside + path[len("/tmp") :]
            Path(place).mkdir(parents=True, exist_ok=True)
            kernel.bind(path, place)
    kernel.bind(aside, "/tmp")
    kernel.mount_tmpfs("/dev/shm", 0o1777)


def write_files(directory: str, files: Mapping[str, str], mode: int = 0o644) -> None:
    """Write the files below ``directory``; it and their own directories are created."""
    for name, text in files.items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        path.chmod(mode)


def make_devices(pattern: str, count: int) -> None:
    """Create ``count`` GPU device files for Slurm; all are /dev/null, the only device available."""
    Path(pattern).parent.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = Path(f"{pattern}{number}")
        path.touch()
        kernel.bind("/dev/null", str(path))


def own_directory(path: str, uid: int, gid: int) -> None:
    """Create ``path`` for this user alone; the directories above it are readable by all."""
    Path(path).mkdir(parents=True, exist_ok=True)
    Path(path).chmod(0o700)
    os.chown(path, uid, gid)


def open_fuse(path: str) -> None:
    """Let every user mount FUSE file systems, as Apptainer does with images.

    Only the machine's root can create the device, at ``path``; otherwise /dev/fuse is unchanged.
    """
    try:
        os.mknod(path, stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
    except OSError:
        return
    Path(path).chmod(0o666)
    kernel.bind(path, "/dev/fuse")
