"""Private files: the job's logs, its note, and its directory for temporary files."""

import contextlib
import fcntl
import os
import shutil
import stat
import sys
import tempfile

MOST = 1 << 20  # bytes of a log that are kept if it is replaced
locks = []  # descriptors of locked directories, which stay locked as long as this process lives


def write_file(folder, name, text):
    """Write a private file; a reader sees the old text or the new one, never a part."""
    aside = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    os.replace(aside, os.path.join(folder, name))


def lock(directory):
    """Lock a directory of this user until this process ends; raises OSError if it is locked."""
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
    """Return a new private directory; remove those that killed servers have left on this node."""
    place = tempfile.gettempdir()
    for name in os.listdir(place):
        if name.startswith("serve."):
            with contextlib.suppress(OSError):
                lock(os.path.join(place, name))
                shutil.rmtree(os.path.join(place, name), ignore_errors=True)
    unlocked = tempfile.mkdtemp(prefix="new-serve.")  # no server removes a directory of this name
    lock(unlocked)
    locked = os.path.join(place, os.path.basename(unlocked)[len("new-") :])
    os.rename(unlocked, locked)
    return locked


def make_private_logs():
    """Replace the logs that other users can read.

    Slurm makes a log with mode 0600, but takes an existing one, whoever made it. A new mode would
    not bind a reader that has it open already.
    """
    is_one_log = os.path.sameopenfile(1, 2)
    make_private_log(1)
    if is_one_log:
        os.dup2(1, 2)
    else:
        make_private_log(2)


def make_private_log(descriptor):
    """Write the log of a descriptor to a new file if other users can read it."""
    status = os.fstat(descriptor)
    is_own = status.st_uid == os.getuid()
    is_private = is_own and not status.st_mode & 0o077
    if is_private or not stat.S_ISREG(status.st_mode):
        return
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    aside = f"{path}.{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
    try:
        log = os.open(aside, flags, 0o600)
        os.replace(aside, path)
    except OSError as error:
        sys.exit(f"serve: others can read {path}: {error}; name another log with -o")
    if is_own:
        with open(f"/proc/self/fd/{descriptor}", "rb") as old_log:
            os.write(log, old_log.read(MOST))
    os.dup2(log, descriptor)
    os.close(log)
