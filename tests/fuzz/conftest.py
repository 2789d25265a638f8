"""Two lengths: a short run among the fast tests, and ``make fuzz``, which also keeps what failed.

What a long run finds stays in ``.hypothesis/examples`` and is tried first by the next one; once it
is mended, it stays in its test as an ``@example``.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import bounds
import hypothesis
import pytest
from hypothesis.database import DirectoryBasedExampleDatabase

ROOT = Path(__file__).resolve().parents[2]
UNCHECKED = [
    hypothesis.HealthCheck.too_slow,
    hypothesis.HealthCheck.data_too_large,
    hypothesis.HealthCheck.large_base_example,
]

hypothesis.settings.register_profile(
    "fuzz",
    deadline=None,
    derandomize=False,
    max_examples=3000,
    suppress_health_check=UNCHECKED,
    database=DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples"),
    print_blob=True,
)


@pytest.fixture(scope="module", autouse=True)
def no_slurm(clean_session: None) -> Iterator[None]:
    """As on a machine without Slurm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", os.devnull)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if bounds.tried:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        terminalreporter.write_line(
            f"fuzz: {bounds.examples} inputs, read {bounds.tried} times; the slowest took "
            f"{bounds.slowest:.2f} s of CPU time ({bounds.slowest_test}); the whole run held at "
            f"most {peak} MB"
        )
