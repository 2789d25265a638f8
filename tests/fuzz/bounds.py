"""What every input must keep to: one of the expected errors or none, 5 seconds, and 300 MB.

The seconds are of CPU time, so that other work of the machine does not count; what waits uses
none, and hangs if nothing happens for 10 seconds. Where the same inputs are tried in every run,
beside other tests, there are 30 seconds: a core that is shared does less in a second.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import time
from typing import Any, Callable, Iterator, Type, TypeVar

from hypothesis import HealthCheck, settings

from neuronctl.common.errors import NeuronctlError

LOOK = 5
"""Seconds by the clock after which an input is looked at that waits, or runs on."""
MEMORY = 300 * 2**20

examples = 0
"""Inputs."""
tried = 0
"""What was done with them: one input may be read by several functions."""
slowest = 0.0
slowest_test = ""

Test = TypeVar("Test", bound=Callable[..., Any])


def inputs(weight: float) -> Callable[[Test], Test]:
    """So many times as many inputs as the profile says: fewer where one takes longer."""
    of_profile = settings(
        max_examples=max(5, int(settings.default.max_examples * weight)),
        suppress_health_check=list(HealthCheck),
    )

    def counted(test: Test) -> Test:
        inner = test.hypothesis.inner_test  # type: ignore[attr-defined]

        @functools.wraps(inner)
        def count(*given: Any, **named: Any) -> None:
            global examples
            examples += 1
            inner(*given, **named)

        test.hypothesis.inner_test = count  # type: ignore[attr-defined]
        return of_profile(test)

    return counted


def seconds() -> int:
    """CPU time for one input."""
    return 30 if settings.default.derandomize else 5


class TooLong(BaseException):
    """Not an Exception, so that nothing in between takes it for an answer."""


class _Watch:
    """Looks at an input every LOOK seconds."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.idle = 0
        self.spent = time.process_time()

    def busy(self, number: int, frame: Any) -> None:
        raise TooLong(f"took more than {self.most} s of CPU time")

    def look(self, number: int, frame: Any) -> None:
        spent = time.process_time()
        # Of two cores with ten programs each, one still gets a tenth.
        self.idle = self.idle + 1 if spent - self.spent < 0.01 * LOOK else 0
        self.spent = spent
        if self.idle == 2:
            raise TooLong(f"did nothing for {2 * LOOK} s")


@contextlib.contextmanager
def assert_bounded(*expected: Type[Exception]) -> Iterator[None]:
    """Fail on any error but NeuronctlError and those expected, and beyond the bounds."""
    global tried, slowest, slowest_test
    tried += 1
    with open("/proc/self/statm", encoding="ascii") as statm:
        held = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = seconds()
    watch = _Watch(most)
    before = {
        signal.SIGPROF: signal.signal(signal.SIGPROF, watch.busy),
        signal.SIGALRM: signal.signal(signal.SIGALRM, watch.look),
    }
    start = time.process_time()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, most)
    signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)
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
