"""Private files: the job's logs, its note, and its directory for temporary files."""

import contextlib
import fcntl
import os
import shutil
import stat
import sys
import tempfile

MOST = 1 << 20  # bytes of a log that are kept if it is written anew
locks = []  # descriptors; a directory for temporary files is locked as long as this process lives


def write_file(folder, name, text):
    """Write a private file as a whole."""
    aside = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    os.replace(aside, os.path.join(folder, name))


def lock(directory):
    """Lock a directory of this user's until this process ends; raises OSError if it is locked."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError(directory)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    locks.append(descriptor)


def make_temporary():
    """Make a private directory, and remove those that killed servers have left on this node."""
    place = tempfile.gettempdir()
    for name in os.listdir(place):
        if name.startswith("serve."):
            with contextlib.suppress(OSError):
                lock(os.path.join(place, name))
                shutil.rmtree(os.path.join(place, name), ignore_errors=True)
    unlocked = tempfile.mkdtemp(prefix="new-serve.")
    lock(unlocked)
    locked = os.path.join(place, os.path.basename(unlocked)[len("new-") :])
    os.rename(unlocked, locked)
    return locked


def make_private_logs():
    """Write the log anew if others can read it: its mode binds nobody who has opened it before.

    Slurm makes a log with mode 0600, but takes one that is there already, whoever made it.
    """
    same = os.path.sameopenfile(1, 2)
    for descriptor in (1,) if same else (1, 2):
        status = os.fstat(descriptor)
        own = status.st_uid == os.getuid()
        if not stat.S_ISREG(status.st_mode) or (own and not status.st_mode & 0o077):
            continue
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        aside = f"{path}.{os.urandom(6).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        try:
            log = os.open(aside, flags, 0o600)
            os.replace(aside, path)
        except OSError as error:
            sys.exit(f"serve: others can read {path}: {error}; name another log with -o")
        if own:
            with open(f"/proc/self/fd/{descriptor}", "rb") as old:
                os.write(log, old.read(MOST))
        os.dup2(log, descriptor)
        os.close(log)
    if same:
        os.dup2(1, 2)
