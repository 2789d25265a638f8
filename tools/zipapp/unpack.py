"""Unpack neuronctl once into the user's cache, and start it there: the __main__.py of the file.

If the cache cannot be written, the user's own directory in $TMPDIR or /tmp takes its place.
"""

import os
import platform
import stat
import sys

NAME = "@NAME@"


def main():
    """Start neuronctl from its unpacked copy, which is made if it is not there."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    umask = os.umask(0o077)
    python = os.path.realpath(sys.executable)
    cache = os.path.join(base, "neuronctl", "zipapp")
    temporary = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"neuronctl-{os.getuid()}")
    # A copy in /tmp is there because the cache could not be written.
    directory = find_ready_copy(temporary)
    directory = directory or find_or_unpack(cache, os.stat) or find_or_unpack(temporary, os.lstat)
    if not directory:
        sys.exit(
            f"neuronctl: cannot unpack itself: {PROBLEMS[0]}\n"
            "  hint: free some space, or set XDG_CACHE_HOME to a directory that you own"
        )
    os.umask(umask)
    os.execv(python, [python, "-IS", os.path.join(directory, "start.py")] + sys.argv[1:])


PROBLEMS = []
"""The errors that kept it from being unpacked, in the order of the directories that were tried."""


def name_copy(cache):
    """Return the directory in a cache for the parts that this Python needs."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return os.path.join(cache, f"{NAME}-{platform.machine()}-{tag}")


def find_ready_copy(cache):
    """Return the copy in a directory of /tmp; "" if there is none, or others could have made it."""
    try:
        is_private = is_private_directory(os.lstat(cache))
    except OSError:
        return ""
    directory = name_copy(cache)
    return directory if is_private and os.path.isdir(directory) else ""


def is_private_directory(status):
    """Return True for the stat of a directory that the user owns and nobody else can write."""
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return own and not status.st_mode & 0o022


def find_or_unpack(cache, look):
    """Return the copy in a cache, unpacked if necessary; "" if nothing can be written there.

    start.sh finds it by a note beside it. look: os.lstat where others may have made a link.
    """
    directory = name_copy(cache)
    try:
        os.makedirs(cache, exist_ok=True)
        if not is_private_directory(look(cache)):
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
    note, _, _ = directory.rpartition("-")
    new_note = f"{note}.{os.getpid()}"
    try:
        with open(new_note, "w") as file:
            file.write(f"{os.path.realpath(sys.executable)}\n{directory}\n")
        os.replace(new_note, note)
    except OSError:  # the copy is complete, although the disk is now full or read-only
        return directory
    if is_new:
        remove_older(cache)
    return directory


def remove_older(cache):
    """Remove the copies of older versions that no process uses."""
    import contextlib
    import shutil

    own_version = read_version(NAME)
    for name in sorted(os.listdir(cache)):
        path, version = os.path.join(cache, name), read_version(name)
        if not os.path.isdir(path) or name.startswith(NAME):
            continue
        if not version or version > own_version:
            continue
        lock = lock_unused_copy(path)
        if lock is None:
            continue
        note, _, _ = path.rpartition("-")
        with contextlib.suppress(OSError):
            os.remove(note)  # so that no process starts there any more
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def read_version(name):
    """Return the version in a copy's name, as a tuple of numbers; () if it is not a copy's name."""
    import re

    version = re.match(r"(\d+(?:\.\d+)+)[\w.+]*-[0-9a-f]{16}\b", name)
    return tuple(map(int, version[1].split("."))) if version else ()


def lock_unused_copy(directory):
    """Lock a copy that no process uses; return the lock's descriptor, or None if one may use it.

    Each process locks start.py, on any node. Processes of 0.2.0 did not: a copy of 0.2.0 counts as
    unused if it is a week old and no process of this machine was started from it.
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
        is_locked_if_used = b"flock" in os.read(lock, 4096)
        is_week_old = time.time() - os.stat(start).st_ctime > 7 * 86400
        if not is_started(start) and (is_locked_if_used or is_week_old):
            return lock
    except OSError:  # a process uses it, or the file system has no locks
        pass
    os.close(lock)
    return None


def is_started(start):
    """Return True if a process on this machine was started with this file."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if os.fsencode(start) in file.read():
                    return True
        except OSError:
            pass
    return False


def unpack(directory, parts):
    """Unpack parts of this file into a directory, which appears when it is complete.

    There is no part with tree_sitter for some machines.
    """
    import io
    import shutil
    import tempfile
    import zipfile

    incomplete = tempfile.mkdtemp(dir=os.path.dirname(directory))
    try:
        with zipfile.ZipFile(os.path.dirname(os.path.abspath(__file__))) as archive:
            for part in set(parts) & set(archive.namelist()):
                with zipfile.ZipFile(io.BytesIO(archive.read(part))) as files:
                    files.extractall(incomplete)
        try:
            os.rename(incomplete, directory)
        except OSError:
            if not os.path.isdir(directory):  # otherwise, another process was faster
                raise
    finally:
        shutil.rmtree(incomplete, ignore_errors=True)


if sys.version_info < (3, 9):  # noqa: UP036
    sys.exit(f"neuronctl: needs Python 3.9 or newer; this is {platform.python_version()}")
main()
