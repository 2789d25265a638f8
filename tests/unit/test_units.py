"""Slurm's grammars: what its manual and its source say, and round trips."""

from __future__ import annotations

import contextlib
from typing import List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronctl.common import units

DAY = 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 600),
        ("05:00", 300),
        ("08:00:00", 8 * 3600),
        ("24:00:00", DAY),
        ("2-0", 2 * DAY),
        ("1-12", 36 * 3600),
        ("1-12:30", 36 * 3600 + 1800),
        ("2-00:00:00", 2 * DAY),
        ("0:90", 90),
        ("0-00:00:01", 1),
        ("UNLIMITED", units.UNLIMITED),
        ("-1", units.UNLIMITED),
        ("0", units.UNLIMITED),
        ("0-0", units.UNLIMITED),
    ],
)
def test_parse_time_reads_every_form_of_the_manual_and_one_more(text: str, seconds: int) -> None:
    assert units.parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "10m", "1h", "-5", "-", "1:2:3:4", "1-2:3:4:5", ":30", "1:", "1.5", "2 days", "1-:5",
     "10 ", "1-UNLIMITED", "٣", "1--2", "1:-2", "9" * 5000, "99999999-0", "1_000"],
)  # fmt: skip
def test_parse_time_refuses_and_names_the_forms_or_the_bound(text: str) -> None:
    with pytest.raises(ValueError, match=r"D-HH:MM:SS|maximum of"):
        units.parse_time(text)


@given(st.integers(min_value=1, max_value=2**31 - 1))
def test_a_time_that_was_formatted_reads_back(seconds: int) -> None:
    text = units.format_time(seconds)
    assert units.parse_time(text) == seconds
    assert text.count(":") == 2
    assert ("-" in text) == (seconds >= DAY)


@given(st.text(alphabet="0123456789:-UNLIMITED ", max_size=12))
def test_a_time_is_read_or_refused_but_never_negative(text: str) -> None:
    with contextlib.suppress(ValueError):
        seconds = units.parse_time(text)
        assert seconds == units.UNLIMITED or seconds > 0


def test_times_are_printed_as_squeue_prints_them() -> None:
    times = [units.format_time(seconds) for seconds in (2 * DAY, 8 * 3600, 0, units.UNLIMITED)]
    assert times == ["2-00:00:00", "08:00:00", "00:00:00", "UNLIMITED"]
    with pytest.raises(ValueError):
        units.format_time(-2)


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [
        ("384000", 384000), ("384000M", 384000), ("4G", 4096), ("4g", 4096), ("4GB", 4096),
        ("1T", 1048576), ("1K", 1), ("1024K", 1), ("1025k", 2), ("0", 0),
    ],
)  # fmt: skip
def test_memory_sizes(text: str, megabytes: int) -> None:
    assert units.parse_memory(text) == megabytes


@pytest.mark.parametrize("text", ["", "G", "4X", "4.5G", "-1", "4 G", "4GiB", "٣G", "9" * 30])
def test_memory_sizes_slurm_does_not_know(text: str) -> None:
    with pytest.raises(ValueError, match="memory"):
        units.parse_memory(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu[01-03,07],cpu1", ["gpu01", "gpu02", "gpu03", "gpu07", "cpu1"]),
        ("gpu[9-11]", ["gpu9", "gpu10", "gpu11"]),
        ("r[1-2]n[09-10]x", ["r1n09x", "r1n10x", "r2n09x", "r2n10x"]),
        ("a-b.c_d,e[1]", ["a-b.c_d", "e1"]),
        ("[1-2]", ["1", "2"]),
    ],
)
def test_host_lists_are_expanded_in_their_order(text: str, names: List[str]) -> None:
    assert units.expand_hostlist(text) == names


@pytest.mark.parametrize(
    "text",
    ["", "a,", ",a", "a,,b", "gpu[1-3", "gpu1-3]", "gpu[[1]]", "gpu[]", "gpu[a]", "gpu[3-1]",
     "gpu[1,]", "gpu 1", "gpu[1 - 3]", "gpu[-1]", "gpu;rm", "gpu$(x)", "노드1", "a\nb", "x]["],
)  # fmt: skip
def test_host_lists_that_slurm_would_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="host list"):
        units.expand_hostlist(text)


host_names = st.from_regex(r"[a-c]{0,2}[0-9]{1,3}(n[0-9]{0,2})?", fullmatch=True)


@given(st.lists(host_names, min_size=1, max_size=60))
def test_folding_loses_no_name_and_invents_none(names: List[str]) -> None:
    folded = units.expand_hostlist(units.compress_hostlist(names))
    assert sorted(folded) == sorted(set(names))


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("slurm-%j.out", "slurm-4711.out"),
        ("%x_%A_%a.out", "train_4700_3.out"),
        ("%8j-%4a", "00004711-0003"),
        ("%99j", "0000004711"),
        ("%%j", "%j"),
        ("/scratch/%u/%N.%n.%t", "/scratch/kim/gpu30.0.0"),
        ("a\\%j\\b", "a%jb"),
        ("b\\\\%j", "b\\%j"),
        ("%q%", "%q%"),
        ("%", "%"),
        ("%5x", "train"),
        ("%b", "3"),
    ],
)
def test_log_patterns(pattern: str, name: str) -> None:
    task = {"job_id": 4711, "array_job_id": 4700, "array_task_id": 3}
    rest = {"job_name": "train", "user": "kim", "node": "gpu30.cluster"}
    assert units.expand_log_pattern(pattern, **task, **rest) == name


def test_outside_an_array_A_is_the_job_itself_and_a_is_slurms_no_value() -> None:
    assert units.expand_log_pattern("%A_%a", job_id=7) == "7_4294967294"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("USR1", ("", "USR1", "")),
        ("b:SIGusr1@120", ("B", "usr1", "120")),
        ("RB: 10@", ("RB", "10", "")),
        ("BRTERM", ("BR", "TERM", "")),
        ("BB:TERM", ("B", "B:TERM", "")),
    ],
)
def test_signals_are_split_as_sbatch_does(text: str, parts: Tuple[str, str, str]) -> None:
    assert units.split_signal(text) == parts
