"""Files written as a whole or not at all, and read back only if they are the user's own.

Nobody ever reads a half-written one, on NFS and Lustre too; what is read back could have been
written by nobody but this user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import BinaryIO, Iterator, Union

_LARGEST = 64 * 1024 * 1024  # bytes of a file that is read back


def write_private(
    path: str, content: Union[str, bytes], *, mode: int = 0o600, sync: bool = False
) -> None:
    """Write a file next to ``path`` and rename it; create missing directories with mode 0700.

    mode: the file's, whatever the umask. sync makes it survive a crash of the machine. Several
    login nodes may write the same file at once. Raises OSError and then leaves the old file as it
    was.
    """
    make_private(os.path.dirname(path))
    with _replacing(path, sync=sync) as file:
        os.fchmod(file.fileno(), mode)
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextlib.contextmanager
def _replacing(path: str, *, sync: bool) -> Iterator[BinaryIO]:
    """A private file beside ``path`` that takes its place at the end of the block."""
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.{os.urandom(6).hex()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
    if sync:
        # The new name has to survive too; not every file system supports this.
        with contextlib.suppress(OSError):
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def read_private(path: str) -> bytes:
    """The content of a file that only this user can write, in a directory that only they can.

    Raises OSError, whose text says why, for any other file, and for one of more than 64 MiB.
    """
    directory, name = os.path.split(path)
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _check_owner(os.fstat(place))
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)
    with _regular(file) as stream:
        status = os.fstat(file)
        _check_owner(status)
        if status.st_size > _LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {_LARGEST >> 20} MiB")
        return stream.read()


def open_regular(path: str) -> BinaryIO:
    """Open anybody's regular file to read; OSError for a directory, a pipe, or a device."""
    return _regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def _regular(descriptor: int) -> BinaryIO:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def _check_owner(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "other users can write it")


def make_private(directory: str) -> None:
    """Create a directory and its missing parents for this user only. Raises OSError."""
    # makedirs(mode) would apply the mode to the last of them only.
    if not directory or os.path.isdir(directory):
        return
    make_private(os.path.dirname(directory))
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)


def rewrite(path: str, before: bytes, after: bytes) -> None:
    """Replace the content of a user's own file, of which only the content is to change.

    A symbolic link stays one. The file is replaced in one moment, except where it has several names
    (hard links), which all show the new content. Raises OSError, whose text says why, for a file
    of somebody else, one without the user's write permission, and one that is no longer ``before``.
    """
    path = os.path.realpath(path)
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}")
        if not status.st_mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "its mode does not let you write it")
        if file.read(len(before) + 1) != before:
            raise OSError(errno.EBUSY, "it has changed meanwhile")
    if status.st_nlink > 1:
        with open(path, "r+b") as file:
            file.write(after)
            file.truncate()
        return
    with _replacing(path, sync=True) as file:
        file.write(after)
        if status.st_gid != os.fstat(file.fileno()).st_gid:
            os.chown(file.fileno(), -1, status.st_gid)
        os.chmod(file.fileno(), stat.S_IMODE(status.st_mode))
        with contextlib.suppress(OSError, AttributeError):  # macOS and some disks have none
            for attribute in os.listxattr(path):  # an access control list is one
                with contextlib.suppress(OSError):
                    os.setxattr(file.fileno(), attribute, os.getxattr(path, attribute))
