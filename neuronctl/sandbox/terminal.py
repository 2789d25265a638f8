"""A terminal of a command's own, in place of that from which it is started.

A program that shares its caller's terminal can type into the caller's shell (TIOCSTI), and go on
reading its keys. So the sandbox gets the far end of a new one, and what is typed and what is
printed is passed on here: without threads, since a process that has joined the sandbox's
namespaces can start none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import termios
import tty
from typing import Any, Iterable, List, Optional

_CHUNK = 4096
_LEFT = 64  # chunks to print of a command that has ended


class Terminal:
    """The pseudo-terminal, and the caller's real one.

    Where the caller's standard input and output are both the terminal, it passes on each key as it
    is, Ctrl-C too. Otherwise it may be that of a whole pipeline: it stays as it is, its Ctrl-C
    reaches this process as a signal, and lines are passed on if standard input is the terminal.
    """

    def __init__(self, fds: List[int], uid: int) -> None:
        """fds: those of 0, 1, and 2 that are terminals. uid: whose the new one becomes."""
        self.fds = fds
        self._out = next((fd for fd in (1, 2) if fd in fds), 0)
        self._keys = {0, 1} <= set(fds)
        self._before = termios.tcgetattr(fds[0])
        self._is_raw = False
        self.master, self.slave = os.openpty()
        if os.geteuid() == 0:
            os.fchown(self.slave, uid, -1)
        attributes = termios.tcgetattr(fds[0])
        if not self._keys:  # the real one echoes, and ends lines
            attributes[1] &= ~termios.OPOST
            attributes[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, attributes)
        self.resize()
        self._typed = b""
        self._woken, self._wake = os.pipe()

    # ---------------------------------------------------------------- in the command's process

    def become(self) -> None:
        """Make the new terminal this process's; it leads the session."""
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        for fd in self.fds:
            os.dup2(self.slave, fd)

    def to_foreground(self) -> None:
        """Make this process's group the one that the keys are for."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with contextlib.suppress(OSError):
            os.tcsetpgrp(self.fds[0], os.getpgrp())
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    # ----------------------------------------------------------------------------- out here

    def start(self, signals: Iterable[int]) -> None:
        """Begin to pass on, and to note these signals for ``next_signal``."""
        os.close(self.slave)
        for descriptor in (self.master, self._woken, self._wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        self.take()

    def next_signal(self) -> int:
        """Pass on what is typed and printed until a signal arrives, which may have long been."""
        out, typing = True, 0 in self.fds
        while True:
            wanted = [self._woken, self.master] if out else [self._woken]
            ours = typing and self._is_ours()  # to read another job's keys would stop this process
            if ours and not self._typed:
                wanted.append(0)
            full = [self.master] if self._typed else []
            ready, room, _ = select.select(wanted, full, [], 0.2 if typing and not ours else None)
            if self._woken in ready:
                return os.read(self._woken, 1)[0]
            if self.master in ready:
                out = self._print() > 0
            if 0 in ready:
                self._typed = self._read_keys()
                typing = bool(self._typed)
            if self.master in room:
                with contextlib.suppress(BlockingIOError):
                    self._typed = self._typed[os.write(self.master, self._typed) :]

    def foreground(self) -> Optional[int]:
        """The process group inside that the keys are for."""
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(self.master) or None
        return None

    def resize(self) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self.fds[0], termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def take(self) -> None:
        """Have the real terminal pass on each key, unless it is another job's now."""
        if self._keys and not self._is_raw and self._is_ours():
            with contextlib.suppress(termios.error):
                self._before = termios.tcgetattr(0)
                tty.setraw(0, termios.TCSADRAIN)
                self._is_raw = True

    def give_back(self) -> None:
        """Leave the real terminal as it was found."""
        if self._is_raw:
            self._is_raw = False
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._before)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """Print what the command has left, and give the terminal back.

        What it left running inside, which may print for ever, loses its terminal.
        """
        for _ in range(_LEFT):
            if not select.select([self.master], [], [], 0)[0] or not self._print():
                break
        self.give_back()
        signal.set_wakeup_fd(-1)
        for descriptor in (self.master, self._woken, self._wake):
            os.close(descriptor)

    def _is_ours(self) -> bool:
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(0) == os.getpgrp()
        return False

    def _print(self) -> int:
        """Print what is there; how much that was, 0 if all inside have closed the terminal."""
        try:
            data = os.read(self.master, _CHUNK)
        except OSError:
            return 0
        left = data
        with contextlib.suppress(OSError):  # the real one is gone
            while left:
                left = left[os.write(self._out, left) :]
        return len(data)

    def _read_keys(self) -> bytes:
        """What was typed; b"" if the real terminal is gone."""
        try:
            typed = os.read(0, _CHUNK)
        except OSError:
            return b""
        return typed or bytes(self._before[6][termios.VEOF])


def _noted(number: int, frame: Any) -> None:
    """Its number is in the pipe by now."""
