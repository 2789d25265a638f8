"""Unpack neuronctl once into the user's cache, and continue there: the __main__.py of the file.

If nothing can be written there, a directory of the user's own in /tmp or $TMPDIR takes its place.
"""

import os
import platform
import stat
import sys

NAME = "@NAME@"


def main():
    """Unpack what this Python needs unless that is done; note where it is for the next start."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    umask = os.umask(0o077)
    python = os.path.realpath(sys.executable)
    aside = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"neuronctl-{os.getuid()}")
    home = os.path.join(base, "neuronctl", "zipapp")
    directory = ready(aside) or unpacked(home, os.stat) or unpacked(aside, os.lstat)
    if not directory:
        sys.exit(
            f"neuronctl: cannot unpack itself: {PROBLEMS[0]}\n"
            "  hint: free some space, or set XDG_CACHE_HOME to a directory that you own"
        )
    os.umask(umask)
    os.execv(python, [python, "-IS", os.path.join(directory, "start.py")] + sys.argv[1:])


PROBLEMS = []
"""Why it could not be unpacked, by place."""


def copy_in(cache):
    """Return the directory of what this Python needs."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return os.path.join(cache, f"{NAME}-{platform.machine()}-{tag}")


def ready(cache):
    """Return the copy in a directory of /tmp if it is there and the user's own, or ""."""
    try:
        found = os.lstat(cache)
    except OSError:
        return ""
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    directory = copy_in(cache)
    return directory if own and not found.st_mode & 0o022 and os.path.isdir(directory) else ""


def unpacked(cache, look):
    """Unpack it unless that is done, and note it for start.sh; "" if nothing can be written.

    look: os.stat, or os.lstat in a directory where others may have made a link.
    """
    directory = copy_in(cache)
    try:
        os.makedirs(cache, exist_ok=True)
        found = look(cache)
        own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        if not own or found.st_mode & 0o022:
            sys.exit(
                f"neuronctl: {cache} is somebody else's, or others can write to it\n"
                "  hint: set XDG_CACHE_HOME to a directory that you own"
            )
        is_new = not os.path.isdir(directory)
        if is_new:
            tag = directory.rpartition("-")[2]
            unpack(directory, ("any.zip", f"{tag}-{platform.machine()}.zip"))
    except OSError as error:
        PROBLEMS.append(error)
        return ""
    place = directory.rpartition("-")[0]
    note = f"{place}.{os.getpid()}"
    try:
        with open(note, "w") as file:
            file.write(f"{os.path.realpath(sys.executable)}\n{directory}\n")
        os.replace(note, place)
    except OSError:  # it is there, though full or read-only since
        return directory
    if is_new:
        remove_older(cache)
    return directory


def remove_older(cache):
    """Remove the copies of older versions that no process uses."""
    import contextlib
    import shutil

    mine = version_of(NAME)
    for name in sorted(os.listdir(cache)):
        path, version = os.path.join(cache, name), version_of(name)
        if not os.path.isdir(path) or name.startswith(NAME) or not version or version > mine:
            continue
        lock = lock_of(path)
        if lock is None:
            continue
        with contextlib.suppress(OSError):
            os.remove(path.rpartition("-")[0])  # the note: no process starts there any more
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def version_of(name):
    """Return the version at the beginning of a copy's name, as numbers; none for another file."""
    import re

    found = re.match(r"(\d+(?:\.\d+)+)[\w.+]*-[0-9a-f]{16}\b", name)
    return tuple(map(int, found[1].split("."))) if found else ()


def lock_of(directory):
    """Return the lock of a copy that no process uses, or None.

    Its processes lock start.py, on any node. Those of 0.2.0 did not: of such a copy, this machine
    must have none, and it must be a week old.
    """
    import fcntl
    import time

    start = os.path.join(directory, "start.py")
    try:
        lock = os.open(start, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locks = b"flock" in os.read(lock, 4096)
        if not is_started(start) and (locks or time.time() - os.stat(start).st_ctime > 7 * 86400):
            return lock
    except OSError:  # in use, or a file system without locks
        pass
    os.close(lock)
    return None


def is_started(start):
    """Return True if a process of this machine was started with this file."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if os.fsencode(start) in file.read():
                    return True
        except OSError:
            pass
    return False


def unpack(directory, parts):
    """Unpack the parts that are there; the directory appears when it is complete."""
    import io
    import shutil
    import tempfile
    import zipfile

    aside = tempfile.mkdtemp(dir=os.path.dirname(directory))
    try:
        with zipfile.ZipFile(os.path.dirname(os.path.abspath(__file__))) as whole:
            for part in set(parts) & set(whole.namelist()):
                with zipfile.ZipFile(io.BytesIO(whole.read(part))) as files:
                    files.extractall(aside)
        try:
            os.rename(aside, directory)
        except OSError:
            if not os.path.isdir(directory):  # else another one was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


if sys.version_info < (3, 9):  # noqa: UP036
    sys.exit(f"neuronctl: needs Python 3.9 or newer; this is {platform.python_version()}")
main()
