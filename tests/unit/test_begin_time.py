"""The moments that --begin takes."""

from __future__ import annotations

import time
from typing import Optional

import pytest

from neuronctl.common.units import parse_begin

NOW = int(time.mktime((2026, 11, 21, 10, 30, 20, 0, 0, -1)))


def at(*parts: int) -> int:
    return int(time.mktime((*(*parts, 0, 0, 0)[:6], 0, 0, -1)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("now+90", NOW + 90),
        ("NOW+1Week", NOW + 7 * 86400),
        ("2026-12-01", at(2026, 12, 1)),
        ("2026-12-01T10:00:05", at(2026, 12, 1, 10, 0, 5)),
        *((text, None) for text in ("12/01", "tomorrow", "4pm", "24:00", "2026-13-01", "")),
    ],
)
def test_a_moment_is_read_or_left_to_slurm(text: str, expected: Optional[int]) -> None:
    assert parse_begin(text, NOW) == expected
