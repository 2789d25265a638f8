"""A table of jobs that refreshes itself: ``neuronctl status --watch``.

Slurm is asked every few seconds at most, and less often while nothing changes. While Slurm does
not answer, the last table stays, and the line above it says since when. A terminal shows one table
in place and keeps the last one; elsewhere each table that differs from the one before is printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import time
from typing import Any, Callable, Iterator, List, Optional

from neuronctl.common import slow
from neuronctl.common.console import is_terminal, terminal_width
from neuronctl.slurm.process import installed
from neuronctl.tracking.lookup import Found

FIRST, _LONGEST, _LONGEST_SILENT = 3.0, 15.0, 60.0  # seconds between two requests
_GROWTH = 1.3
_TICK = 0.25  # seconds until a terminal's new width is noticed

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


Draw = Callable[[Found, Optional[int]], List[str]]


def watch(find_jobs: Callable[[], Found], draw: Draw, *, until_ended: bool) -> int:
    """Show what ``find_jobs`` finds, as ``draw`` draws it, until Ctrl-C; return the exit code, 0.

    draw is given the number of lines that it may fill, or None for any number. until_ended also
    stops when all jobs have ended (if ``find_jobs`` finds none, none has). Raises
    SlurmUnavailableError if the Slurm commands are not installed.
    """
    slow.listen(None)  # the view itself says how old it is
    picture = _Picture(draw)
    with _screen() as full, contextlib.suppress(KeyboardInterrupt):
        _loop(picture, find_jobs, full, until_ended)
    if full:
        sys.stdout.write("".join(line + "\n" for line in picture.lines()))
    return 0


def canvas() -> io.StringIO:
    """Text that is written as standard output would be, with its colours and characters."""
    terminal = is_terminal()

    class Canvas(io.StringIO):
        encoding = sys.stdout.encoding

        def isatty(self) -> bool:
            return terminal

    return Canvas()


class _Picture:
    """The last answer, and since when there has been none."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.found: Optional[Found] = None
        self.looked_at = 0.0
        self.silent_since: Optional[float] = None
        self.silence = ""
        self.interval = FIRST

    def take(self, found: Found) -> bool:
        """Take an answer and set the time until the next; return whether it shows anything new."""
        if found.unavailable is not None:
            if not installed():
                raise found.unavailable
            fell_silent = self.silent_since is None
            if self.silent_since is None:
                self.silent_since = time.time()
            self.silence = found.unavailable.message
            if self.found is None:
                self.found = found
            self.interval = min(self.interval * _GROWTH, _LONGEST_SILENT)
            return fell_silent
        came_back = self.silent_since is not None
        changed = self.found is None or _states(found) != _states(self.found)
        self.interval = FIRST if changed or came_back else min(self.interval * _GROWTH, _LONGEST)
        self.found, self.looked_at, self.silent_since = found, time.time(), None
        return changed or came_back

    def lines(self, height: Optional[int] = None) -> List[str]:
        """The table under a line that says how old it is, if possible in ``height`` lines."""
        room = None if height is None else height - 1
        return [self.head(), *(self.draw(self.found, room) if self.found is not None else ())]

    def head(self) -> str:
        """When Slurm answered last, and whether it answers now."""
        if self.silent_since is None:
            if not self.looked_at:
                return "waiting for Slurm"
            every = f"{self.interval:.0f} s"
            return f"as of {_clock(self.looked_at)}, refreshed every {every}; Ctrl-C to stop"
        last = f"as of {_clock(self.looked_at)}" if self.looked_at else "from neuronctl's records"
        return (
            f"{last}: no answer from Slurm since {_clock(self.silent_since)} ({self.silence}); "
            f"retrying every {self.interval:.0f} s"
        )


def _loop(picture: _Picture, find_jobs: Callable[[], Found], full: bool, until_ended: bool) -> None:
    while True:
        news = picture.take(find_jobs())
        if full:
            _paint(picture)
        elif news:
            sys.stdout.write("".join(line + "\n" for line in picture.lines()))
            sys.stdout.flush()
        jobs = picture.found.jobs if picture.found is not None else ()
        if until_ended and jobs and picture.silent_since is None and all(j.ended for j in jobs):
            return
        _wait(picture, full)


def _wait(picture: _Picture, full: bool) -> None:
    due = time.monotonic() + picture.interval
    width = terminal_width()
    while time.monotonic() < due:
        time.sleep(min(_TICK, max(0.0, due - time.monotonic())))
        if full and terminal_width() != width:
            width = terminal_width()
            _paint(picture)


def _paint(picture: _Picture) -> None:
    """Overwrite the table on the screen, without clearing it first; count the lines left out."""
    height = max(3, shutil.get_terminal_size().lines)
    lines = picture.lines(height)
    if len(lines) > height:
        lines = [*lines[: height - 1], f"… {len(lines) - height + 1} more lines"]
    sys.stdout.write("\x1b[H" + "\n".join(line + "\x1b[K" for line in lines) + "\x1b[J")
    sys.stdout.flush()


@contextlib.contextmanager
def _screen() -> Iterator[bool]:
    """Switch to the terminal's alternate screen and back; yields False if there is none."""
    if not is_terminal() or os.environ.get("TERM", "dumb") == "dumb":
        yield False
        return

    def end(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    sys.stdout.write(_ENTER)
    try:
        yield True
    finally:
        # A second Ctrl-C must not lose the last table.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, before)


def _states(found: Found) -> List[object]:
    return [(job.id, job.state, job.stated_reason, job.node_list) for job in found.jobs]


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))
