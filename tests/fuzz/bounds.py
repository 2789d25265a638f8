"""What every input must keep to: one of the expected errors or none, 5 seconds, and 300 MB.

Where the same inputs are tried in every run, beside other tests, there are 30 seconds: a core
that is shared does less in a second.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from typing import Any, Callable, Iterator, Type, TypeVar

from hypothesis import HealthCheck, settings

from neuronctl.errors import NeuronctlError

SECONDS = 30 if settings.default.derandomize else 5
"""CPU time for one input."""
WAITING = 600
"""Seconds by the clock, in case something waits for ever."""
MEMORY = 300 * 2**20

tried = 0
slowest = 0.0
slowest_test = ""

Test = TypeVar("Test", bound=Callable[..., Any])


def inputs(weight: float) -> Callable[[Test], Test]:
    """So many times as many inputs as the profile says: fewer where one takes longer."""
    return settings(
        max_examples=max(5, int(settings.default.max_examples * weight)),
        suppress_health_check=list(HealthCheck),
    )


class TooLong(BaseException):
    """Not an Exception, so that nothing in between takes it for an answer."""


_TIMERS = (signal.SIGPROF, signal.SIGALRM)


def _too_long(number: int, frame: Any) -> None:
    what = f"{SECONDS} s of CPU time" if number == signal.SIGPROF else f"{WAITING} s"
    raise TooLong(f"took more than {what}")


@contextlib.contextmanager
def bounded(*expected: Type[Exception]) -> Iterator[None]:
    """Fail on any error but NeuronctlError and those expected, and beyond the bounds."""
    global tried, slowest, slowest_test
    tried += 1
    with open("/proc/self/statm", encoding="ascii") as statm:
        held = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = {
        number: signal.signal(number, _too_long) for number in (signal.SIGPROF, signal.SIGALRM)
    }
    start = time.process_time()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAITING)
    try:
        with contextlib.suppress(NeuronctlError, *expected):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        for number, handler in before.items():
            signal.signal(number, handler)
        spent = time.process_time() - start
        if spent > slowest:
            slowest, slowest_test = spent, os.environ.get("PYTEST_CURRENT_TEST", "")


def grows(work: Callable[[int], Any], size: int, *, tolerance: float = 0.3) -> float:
    """How many times as much CPU time ``work`` takes for four times the size; 0 for a moment.

    In proportion to the size, that is 4; where each part is compared with each other one, 16.
    tolerance: seconds that are no more than a moment, in which a machine does other things too.
    """
    spent = []
    for length in (size, 4 * size):
        start = time.process_time()
        with bounded():
            work(length)
        spent.append(time.process_time() - start)
    return 0 if spent[1] < tolerance else spent[1] / spent[0]
