"""The moments that --begin takes."""

from __future__ import annotations

import time
from typing import Optional

import pytest

from neuronctl.request.begin_time import moment

NOW = int(time.mktime((2026, 11, 21, 10, 30, 20, 0, 0, -1)))


def at(*parts: int) -> int:
    return int(time.mktime((*(*parts, 0, 0, 0)[:6], 0, 0, -1)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("now+90", NOW + 90),
        ("now + 2 days", NOW + 2 * 86400),
        ("NOW+1Week", NOW + 7 * 86400),
        ("today", at(2026, 11, 21)),
        ("tomorrow", at(2026, 11, 22)),
        ("noon", at(2026, 11, 21, 12)),
        ("midnight", at(2026, 11, 22)),
        ("tomorrow teatime", at(2026, 11, 22, 16)),
        ("10:31", at(2026, 11, 21, 10, 31)),
        ("10:30", at(2026, 11, 22, 10, 30)),
        ("2026-12-01", at(2026, 12, 1)),
        ("2026-12-01T10:00:05", at(2026, 12, 1, 10, 0, 5)),
        *((text, None) for text in ("12/01", "elevenses", "4pm", "24:00", "2026-13-01", "")),
    ],
)
def test_a_moment_is_read_or_left_to_slurm(text: str, expected: Optional[int]) -> None:
    assert moment(text, NOW) == expected
