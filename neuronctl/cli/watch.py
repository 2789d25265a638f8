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
from neuronctl.common.console import is_terminal
from neuronctl.slurm.process import installed
from neuronctl.tracking.lookup import Found

FIRST, _LONGEST, _LONGEST_SILENT = 3.0, 15.0, 60.0  # seconds between two requests
_GROWTH = 1.3

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def watch(
    find_jobs: Callable[[], Found], draw: Callable[[Found], List[str]], *, until_ended: bool
) -> int:
    """Show what ``find_jobs`` finds, as ``draw`` draws it, until Ctrl-C; return the exit code, 0.

    until_ended also stops when all jobs have ended (if there are none, none has). Raises
    SlurmUnavailableError if the Slurm commands are not installed.
    """
    slow.listen(None)  # the view itself says how old it is
    view = _View(draw)
    with _screen() as full, contextlib.suppress(KeyboardInterrupt):
        while True:
            found = find_jobs()
            news = view.take(found)
            if full:
                _paint(view.lines())
            elif news:
                print("\n".join(view.lines()), flush=True)
            ended = found.unavailable is None and all(job.ended for job in found.jobs)
            if until_ended and found.jobs and ended:
                break
            time.sleep(view.interval)
    if full:
        print("\n".join(view.lines()))
    return 0


def canvas() -> io.StringIO:
    """Return a file that is written as standard output would be, with its colours."""
    terminal = is_terminal()

    class Canvas(io.StringIO):
        encoding = sys.stdout.encoding

        def isatty(self) -> bool:
            return terminal

    return Canvas()


class _View:
    """The last answer, and since when there has been none."""

    def __init__(self, draw: Callable[[Found], List[str]]) -> None:
        self.draw = draw
        self.found: Optional[Found] = None
        self.looked_at = 0.0
        self.silent_since: Optional[float] = None
        self.silence = ""
        self.interval = FIRST

    def take(self, found: Found) -> bool:
        """Take an answer and set the time until the next; return True if it shows anything new."""
        silent = self.silent_since is not None
        if found.unavailable is not None:
            if not installed():
                raise found.unavailable
            self.silent_since = self.silent_since or time.time()
            self.silence = found.unavailable.message
            self.found = self.found or found
            self.interval = min(self.interval * _GROWTH, _LONGEST_SILENT)
            return not silent
        news = silent or self.found is None or _states(found) != _states(self.found)
        self.interval = FIRST if news else min(self.interval * _GROWTH, _LONGEST)
        self.found, self.looked_at, self.silent_since = found, time.time(), None
        return news

    def lines(self) -> List[str]:
        """Return the table under a line that says how old it is."""
        every = f"{self.interval:.0f} s"
        head = f"as of {_clock(self.looked_at)}, refreshed every {every}; Ctrl-C to stop"
        if self.silent_since is not None:
            last = f"as of {_clock(self.looked_at)}" if self.looked_at else "as recorded"
            head = f"{last}: no answer from Slurm since {_clock(self.silent_since)} "
            head += f"({self.silence}); retrying every {every}"
        return [head, *(self.draw(self.found) if self.found is not None else ())]


def _paint(lines: List[str]) -> None:
    """Overwrite the table on the screen, without clearing it first; count the lines left out."""
    height = max(3, shutil.get_terminal_size().lines)
    if len(lines) > height:
        lines = [*lines[: height - 1], f"… {len(lines) - height + 1} more lines"]
    sys.stdout.write("\x1b[H" + "\n".join(line + "\x1b[K" for line in lines) + "\x1b[J")
    sys.stdout.flush()


@contextlib.contextmanager
def _screen() -> Iterator[bool]:
    """Switch to the terminal's alternate screen and back; yield False if there is none."""
    if not is_terminal() or os.environ.get("TERM", "dumb") == "dumb":
        yield False
        return

    def end(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    sys.stdout.write(_ENTER)
    try:
        yield True
    finally:
        # A second Ctrl-C must not lose the last table.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


def _states(found: Found) -> List[object]:
    return [(job.id, job.state, job.stated_reason, job.node_list) for job in found.jobs]


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))
