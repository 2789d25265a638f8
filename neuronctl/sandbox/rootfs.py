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
from typing import Iterable, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.sandbox import kernel

_OLD = "/.old"


SYSTEM = frozenset(
    "bin boot dev etc lib lib32 lib64 libx32 proc run sbin sys usr var".split()  # noqa: SIM905
)
"""Top-level directories that are never the machine's if another system is the root."""

# These always come from the machine: a root directory has neither devices nor /sys.
_MACHINES_OWN = ("dev", "sys")


def build(
    root: str,
    exposed: Sequence[str],
    binds: Iterable[Tuple[str, str]],
    fresh: Iterable[str],
    *,
    for_others: bool,
) -> None:
    """Replace this mount namespace's root with the directory ``root``: ``/`` or another system.

    ``fresh`` names top-level directories that start empty (``"tmp"``). ``exposed`` directories
    stay visible at their own paths; with ``for_others``, even if a directory above them is closed
    to ordinary users (such as root's home), of which nothing else is visible. ``binds`` are
    directories of the machine that appear at another path, which must exist or be creatable.

    With ``for_others``, which is when the machine's root starts the sandbox, nothing of the machine
    can be written except ``binds`` and /dev, and /var/tmp is new and empty.
    """
    kernel.keep_mounts_private()
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
        if entry.name in new:
            continue
        place = "/" + entry.name
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
        elif entry.is_dir():
            Path(place).mkdir()
            kernel.bind(_OLD + place if entry.name in _MACHINES_OWN else entry.path, place)
            if for_others and entry.name != "dev":
                kernel.make_read_only(place)
    for name in new - {_OLD[1:]}:
        Path("/", name).mkdir(exist_ok=True)
    Path("/tmp").chmod(0o1777)
    _copy_readable(_OLD + root.rstrip("/") + "/etc", "/etc")
    if for_others and os.path.isdir("/var/tmp"):
        kernel.mount_tmpfs("/var/tmp", 0o1777)
    covered: Set[str] = set()
    # Parents first: .venv is in the checkout and must not hide the rest of it.
    for path in sorted(exposed):
        if _expose(path, new, covered, for_others and root == "/") and for_others:
            kernel.make_read_only(path)
    for source, place in binds:
        if source != place:
            Path(place).mkdir(parents=True, exist_ok=True)
        if os.path.isdir(place):
            kernel.bind(_OLD + source, place)
    kernel.unmount(_OLD)
    Path(_OLD).rmdir()


def _copy_readable(source: str, target: str) -> None:
    """Copy what every user can read of a directory."""
    for entry in list(os.scandir(source)):
        place = f"{target}/{entry.name}"
        with contextlib.suppress(OSError):  # it is gone since
            mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)
            elif entry.is_dir() and mode & 0o005 == 0o005:
                Path(place).mkdir()
                _copy_readable(entry.path, place)
            elif entry.is_file() and mode & stat.S_IROTH:
                shutil.copyfile(entry.path, place)
                Path(place).chmod(mode & 0o755)


def _expose(path: str, new: Set[str], covered: Set[str], for_others: bool) -> bool:
    """Make ``path`` visible; whether it had to be bound."""
    parts = Path(path).parts[1:]
    if not parts:
        return False
    if parts[0] not in new:
        closed = _first_closed(path) if for_others else None
        if closed is None:
            return False
        if closed not in covered:
            kernel.mount_tmpfs(closed, 0o755)
            covered.add(closed)
    if os.path.exists(path):
        return False
    Path(path).mkdir(parents=True, mode=0o755)
    kernel.bind(_OLD + path, path)
    return True


def _first_closed(path: str) -> Optional[str]:
    """The topmost directory above ``path`` that others cannot traverse."""
    for parent in reversed(Path(path).parents):
        if not Path(_OLD + str(parent)).stat().st_mode & stat.S_IXOTH:
            return str(parent)
    return None


def new_tmp(exposed: Sequence[str]) -> None:
    """Give a node an empty /tmp and /dev/shm, but keep exposed directories below /tmp."""
    kept: Tuple[Tuple[str, int], ...] = tuple(
        (path, os.open(path, os.O_PATH | os.O_DIRECTORY))
        for path in exposed
        if Path(path).parts[1:2] == ("tmp",)
    )
    kernel.mount_tmpfs("/tmp", 0o1777)
    for path, descriptor in kept:
        Path(path).mkdir(parents=True, exist_ok=True)
        kernel.bind(f"/proc/self/fd/{descriptor}", path)
        os.close(descriptor)
    kernel.mount_tmpfs("/dev/shm", 0o1777)


def write_files(directory: str, files: Mapping[str, str], mode: int = 0o644) -> None:
    """Write the files below ``directory``; it and their own directories are created."""
    for name, text in files.items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
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
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    place.mkdir(exist_ok=True)
    place.chmod(0o700)
    os.chown(path, uid, gid)


def open_fuse(path: str) -> None:
    """Let every user mount FUSE file systems, as Apptainer does with images.

    Only the machine's root can create the device, at ``path``; otherwise /dev/fuse is unchanged.
    """
    try:
        device = os.stat("/dev/fuse").st_rdev
        os.mknod(path, stat.S_IFCHR, device)
    except OSError:
        return
    Path(path).chmod(0o666)
    kernel.bind(path, "/dev/fuse")
