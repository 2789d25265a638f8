"""Write files as a whole or not at all, and read them only if that is safe.

Nobody ever reads a half-written file, on NFS and Lustre too. A file that neuronctl finds by itself
is read only if nobody but this user, or root, could have written it; a file that the user names
need only be a regular one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from typing import BinaryIO, Iterator, Tuple, Union

_LARGEST = 64 * 1024 * 1024  # bytes of a file that is read back
_LARGEST_TRUSTED = 1024 * 1024
_MOST_LINKS = 40  # as for the kernel


class UntrustedFileError(PermissionError):
    """A file that somebody else wrote or could write. hint: what its user can do."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(errno.EPERM, problem)
        self.hint = hint


def write_private(
    path: str, content: Union[str, bytes], *, mode: int = 0o600, sync: bool = False
) -> None:
    """Write a file of the user's own into a directory of their own, which becomes private (0700).

    Missing directories are made. No link that another user made is followed, so that root, with
    that user's home directory, changes nothing elsewhere. sync: the file survives a crash of the
    machine. mode and errors are those of ``write_whole``.
    """
    directory, name = os.path.split(os.path.abspath(path))
    with _closing(open_own_directory(directory)) as place:
        _write(place, name, content, mode=mode, sync=sync)


def write_whole(path: str, content: Union[str, bytes], *, mode: int = 0o600) -> None:
    """Write a file beside ``path``, whoever owns the directory, and rename it.

    mode: the file's, whatever the umask. Several login nodes may write the same file at once.
    Raises OSError and then leaves the old file as it was.
    """
    directory, name = os.path.split(os.path.abspath(path))
    with _closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY)) as place:
        _write(place, name, content, mode=mode, sync=False)


def _write(place: int, name: str, content: Union[str, bytes], *, mode: int, sync: bool) -> None:
    """Write a private file beside ``name`` in ``place``, then rename it."""
    aside = f".{name}.{os.urandom(6).hex()}"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            if isinstance(content, str):
                content = content.encode("utf-8", "surrogateescape")
            file.write(content)
            if sync:
                file.flush()
                os.fsync(descriptor)
        os.replace(aside, name, src_dir_fd=place, dst_dir_fd=place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside, dir_fd=place)
        raise
    if sync:
        # The new name must survive too; not every file system can sync it.
        with contextlib.suppress(OSError):
            os.fsync(place)


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_own_directory(path: str) -> int:
    """Open a directory of this user's; create missing parts and make it private."""
    if os.geteuid() == 0:
        _refuse_way_of_others(path)
        _refuse_way_of_others(os.path.realpath(path))
    _make_directories(path)
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        status = os.fstat(opened)
        _refuse_others(status, "its directory", root=False)
        if status.st_mode & 0o077:
            os.fchmod(opened, 0o700)
    except OSError:
        os.close(opened)
        raise
    return opened


def _make_directories(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        try:
            os.mkdir(path, 0o700)
        except FileNotFoundError:
            _make_directories(os.path.dirname(path))
            os.mkdir(path, 0o700)


def _refuse_way_of_others(path: str) -> None:
    """Refuse root a path through another user's directory or link; they could redirect it."""
    while path != "/":
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(path)
            link = stat.S_ISLNK(status.st_mode)
            name = f"the link '{os.path.basename(path)}'" if link else "the directory above"
            _refuse_others(status, name)
        path = os.path.dirname(path)


def rewrite(path: str, before: bytes, after: bytes) -> None:
    """Replace the content of a user's own file; keep its mode, and a symbolic link to it.

    The file that is checked is the one that is replaced, even if names change meanwhile. Raises
    OSError, whose text says why, for a file of somebody else, one without the user's write
    permission, and one whose content is no longer ``before``.
    """
    directory, name = os.path.split(os.path.realpath(path))
    with _closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY)) as place:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
        with _regular(os.open(name, flags, dir_fd=place)) as file:
            status = os.fstat(file.fileno())
            _refuse_others(status, "it", root=False)
            if not status.st_mode & stat.S_IWUSR:
                raise PermissionError(errno.EACCES, "its mode does not let you write it")
            if status.st_nlink > 1:
                raise OSError(errno.EMLINK, "it has several names (hard links)")
            if file.read(len(before) + 1) != before:
                raise OSError(errno.EBUSY, "it has changed meanwhile")
        _write(place, name, after, mode=stat.S_IMODE(status.st_mode), sync=False)


def read_private(path: str) -> bytes:
    """Return the content of a file that only this user can write, in a directory of the same kind.

    Raises OSError, whose text says why, for any other file, and for one of more than 64 MiB.
    """
    return _read(path, _LARGEST, root=False)


def read_trusted(path: str) -> bytes:
    """Return the content of a file that only this user or root can write; follow links.

    Use it for files that become part of the user's jobs without being named. Raises
    UntrustedFileError if somebody else wrote the file or could have, and OSError above 1 MiB.
    """
    return _read(path, _LARGEST_TRUSTED, root=True)


def _read(path: str, most: int, *, root: bool) -> bytes:
    """Read a file that nobody else can write; follow links if it may be root's."""
    descriptor, own_path = _open_unlinked(path, root=root)
    with _regular(descriptor) as stream:
        _check_writers(descriptor, "it", own_path, root=root)
        # A buffer of `most` bytes would take longer.
        size = max(os.fstat(descriptor).st_size, 64 * 1024)
        content = stream.read(min(most, size) + 1)
        if len(content) > size:  # it has grown, or its size is not known
            content += stream.read(most + 1 - len(content))
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB")
    return content


def _open_unlinked(path: str, *, root: bool) -> Tuple[int, str]:
    """Open a file in a directory that nobody else can write; return its descriptor and own path.

    root: whether root may own the directory. A link is then followed: the directory of what it
    names must be safe, too. Without root, a link is an error.
    """
    for _ in range(_MOST_LINKS if root else 1):
        directory, name = os.path.split(os.path.abspath(path))
        with _closing(os.open(directory, os.O_RDONLY | os.O_DIRECTORY)) as place:
            _check_writers(place, "its directory", directory, root=root)
            try:
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
                return os.open(name, flags, dir_fd=place), path
            except OSError as error:
                if error.errno != errno.ELOOP or not root:
                    raise
            # Whoever can change a link chooses what is read.
            path = os.path.join(os.path.realpath(directory), os.readlink(name, dir_fd=place))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def open_regular(path: str) -> BinaryIO:
    """Open any user's regular file; raise OSError for a directory, a pipe, or a device."""
    return _regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def list_again(path: str) -> None:
    """List a file's directory, so that NFS looks again for a missing file."""
    with contextlib.suppress(OSError):
        os.listdir(os.path.dirname(path) or ".")


def head(path: str, size: int) -> bytes:
    """Return the first ``size`` bytes of a regular file; b"" if it is unreadable."""
    with contextlib.suppress(OSError, ValueError), open_regular(path) as file:
        return file.read(size)
    return b""


def tail(path: str, size: int) -> bytes:
    """Return the last ``size`` bytes of a regular file; b"" if it is unreadable."""
    with contextlib.suppress(OSError, ValueError), open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size))
        return file.read(size)
    return b""


def is_own_directory(path: str) -> bool:
    """Return True if only this user can write in a directory."""
    with contextlib.suppress(OSError):
        with _closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY)) as place:
            _check_writers(place, "it", path, root=False)
        return os.access(path, os.W_OK | os.X_OK)
    return False


def file_state(path: str) -> Tuple[int, ...]:
    """Return values that differ after a file is replaced or written; () without the file."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def file_sha256(path: str) -> str:
    """Return the SHA-256 of a regular file; "" if it is unreadable."""
    import hashlib

    digest = hashlib.sha256()
    with contextlib.suppress(OSError, ValueError), open_regular(path) as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
        return digest.hexdigest()
    return ""


def open_named(path: str) -> BinaryIO:
    """Open a file that the user names: a regular one, or what their shell has opened.

    ``-`` is standard input; ``/dev/fd/63`` is what ``<(…)`` becomes. Raises OSError.
    """
    if path == "-":
        return open(0, "rb", closefd=False)
    if re.fullmatch(r"/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]+", path):
        return open(path, "rb")
    return open_regular(path)


def _regular(descriptor: int) -> BinaryIO:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "not a regular file")


def _check_writers(descriptor: int, what: str, path: str, *, root: bool) -> None:
    """Refuse a file or directory that another user wrote or could write.

    root: whether root may have written it, and the user's private group may write it.
    """
    status = os.fstat(descriptor)
    _refuse_others(status, what, root=root)
    others_can_write = status.st_mode & stat.S_IWOTH
    group_can_write = status.st_mode & stat.S_IWGRP
    is_group_trusted = root and _is_own_group(status, descriptor)
    if others_can_write or (group_can_write and not is_group_trusted):
        raise UntrustedFileError(f"other users can write {what}", f"chmod go-w {path}")


def _refuse_others(status: os.stat_result, what: str, *, root: bool = True) -> None:
    owner = status.st_uid
    if owner == os.geteuid() or (root and owner == 0):
        return
    raise UntrustedFileError(
        f"{what} belongs to user {owner}", "use a copy in a directory of your own"
    )


def _is_own_group(status: os.stat_result, descriptor: int) -> bool:
    """Return True if the group that can write the file is the user's private one (umask 002).

    That is their own group, of their own name, without other members, and nobody else's primary
    group, as far as the system lists its users. An access control list may name others.
    """
    if not status.st_mode & stat.S_IWGRP:
        return False
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    is_own = (group.gr_gid, group.gr_name) == (user.pw_gid, user.pw_name)
    if not is_own or not set(group.gr_mem) <= {user.pw_name}:
        return False
    users = {other.pw_uid for other in pwd.getpwall() if other.pw_gid == group.gr_gid}
    if not users <= {user.pw_uid}:
        return False
    with contextlib.suppress(OSError, AttributeError):
        return "system.posix_acl_access" not in os.listxattr(descriptor)
    return True
