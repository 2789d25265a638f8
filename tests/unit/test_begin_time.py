"""The moments that --begin takes."""

from __future__ import annotations

import time

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
        ("now-1hour", NOW - 3600),
        ("today", at(2026, 11, 21)),
        ("tomorrow", at(2026, 11, 22)),
        ("noon", at(2026, 11, 21, 12)),
        ("midnight", at(2026, 11, 22)),
        ("tomorrow teatime", at(2026, 11, 22, 16)),
        ("10:31", at(2026, 11, 21, 10, 31)),
        ("10:30", at(2026, 11, 22, 10, 30)),
        ("4:30:15pm", at(2026, 11, 21, 16, 30, 15)),
        ("12:00am", at(2026, 11, 22)),
        ("12:30 PM", at(2026, 11, 21, 12, 30)),
        ("2026-12-01", at(2026, 12, 1)),
        ("2020-12-1T09:30", at(2020, 12, 1, 9, 30)),
        ("12/01", at(2026, 12, 1)),
        ("11/21", at(2027, 11, 21)),
        ("1121 16:00", at(2026, 11, 21, 16)),
        ("01.12.26", at(2026, 1, 12)),
        ("12/01/26-10:00", at(2026, 12, 1, 10)),
        ("elevenses", None),
        ("uts1900000000", None),
        (" 16:00", None),
    ],
)
def test_a_moment_is_read(text: str, expected: int) -> None:
    assert moment(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    ["", "rubbish", "now+", "now+1h", "now+30min", "Tomorrow", "16", "4pm", "24:00", "16:60", "1:5"]
    + ["13:00pm", "2026-13-01", "2026-1-1", "2026-12-01T10", "12/32", "12/01/2026", "1764583200"]
    + ["noonish", "now 16:00", "2026-12-01T10:00Z", "monday"],
)
def test_what_slurm_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        moment(text, NOW)
