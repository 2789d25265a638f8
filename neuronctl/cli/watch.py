"""A table of jobs that refreshes itself: ``neuronctl status --watch``.

Slurm is asked every few seconds at most, and less often while nothing changes. While Slurm does
not answer, the last table stays, and the line above it says since when. A terminal is cleared
before each table; elsewhere each table that differs from the one before is printed.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Callable, List, Optional

from neuronctl.common import slow
from neuronctl.common.console import is_terminal, print_line
from neuronctl.slurm.process import installed
from neuronctl.tracking.lookup import Found

FIRST, _LONGEST = 3.0, 15.0
"""Seconds between two requests."""

_GROWTH = 1.3
_CLEAR = "\x1b[H\x1b[2J"


def watch(
    find_jobs: Callable[[], Found], draw: Callable[[Found], None], *, until_ended: bool
) -> int:
    """Show what ``find_jobs`` finds, as ``draw`` draws it, until Ctrl-C; return the exit code, 0.

    until_ended also stops when all jobs have ended (if there are none, none has). Raises
    SlurmUnavailableError if the Slurm commands are not installed.
    """
    slow.listen(None)  # the view itself says how old it is
    shown: Optional[Found] = None
    before: List[object] = []
    at, interval = "as recorded", FIRST
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            found = find_jobs()
            if found.unavailable is not None and not installed():
                raise found.unavailable
            states = [found.unavailable is None, *_states(found)]
            interval = FIRST if states != before else min(interval * _GROWTH, _LONGEST)
            news, before = states != before, states
            head = f"refreshed every {interval:.0f} s; Ctrl-C to stop"
            if found.unavailable is None:
                shown, at = found, time.strftime("as of %H:%M:%S")
            else:
                shown = shown or found
                head = f"no answer from Slurm ({found.unavailable.message}); {head}"
            if is_terminal():
                sys.stdout.write(_CLEAR)
            if news or is_terminal():
                print_line(f"{at}, {head}")
                draw(shown)
                sys.stdout.flush()
            ended = found.unavailable is None and all(job.ended for job in found.jobs)
            if until_ended and found.jobs and ended:
                break
            time.sleep(interval)
    return 0


def _states(found: Found) -> List[object]:
    return [(job.id, job.state, job.stated_reason, job.node_list) for job in found.jobs]
