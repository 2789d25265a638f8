"""The few Linux calls that Python does not provide: mounts and namespaces.

Each raises OSError with the path or call that failed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWNET = 0x40000000

_MS_NOSUID = 2
_MS_NODEV = 4
_MS_NOEXEC = 8
_MS_BIND = 4096
_MS_REC = 16384
_MNT_DETACH = 2
_MOUNT_SETATTR = 442  # the same number on all architectures
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *args: Any, about: str) -> None:
    if getattr(_libc, name)(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}", about)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = (os.fsencode(source), os.fsencode(target), kind.encode())
    _call("mount", *words, ctypes.c_ulong(flags), data.encode() or None, about=target)


def bind(source: str, target: str) -> None:
    """Bind-mount ``source``, a file or a directory with all mounts below it, at ``target``."""
    _mount(source, target, "", _MS_BIND | _MS_REC)


def make_read_only(target: str) -> None:
    """Make the mount at ``target`` and all mounts below it read-only, here and not elsewhere."""
    attributes = struct.pack("4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    words = (_AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))
    _call("syscall", _MOUNT_SETATTR, *words, about=target)


def mount_tmpfs(target: str, mode: int) -> None:
    """Mount an empty in-memory directory at ``target``; devices work in it."""
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID, f"mode={mode:o}")


def mount_proc(target: str) -> None:
    """Mount /proc of this process's pid namespace."""
    _mount("proc", target, "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def unmount(target: str) -> None:
    """Detach the mount together with everything below it."""
    _call("umount2", os.fsencode(target), _MNT_DETACH, about=target)


def pivot_root(new_root: str, old_root: str) -> None:
    """Make the mount at ``new_root`` the root; the old root appears at ``old_root`` below it."""
    # libc has no function for this call, and its number differs between architectures.
    done = subprocess.run(["pivot_root", new_root, old_root], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(0, done.stderr.strip(), new_root)
    os.chdir("/")


def unshare(flags: int) -> None:
    """Create new namespaces for this process."""
    _call("unshare", flags, about="namespaces")


def join(namespace: int) -> None:
    """Move this process (its children, for a pid namespace) into an open namespace."""
    _call("setns", namespace, 0, about="namespace")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent exits.

    Call it after the last change of user, which resets it.
    """
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0, about="parent death signal")
