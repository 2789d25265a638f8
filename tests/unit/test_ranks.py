"""One rank's lines out of many."""

from __future__ import annotations

import io

import pytest

from neuronctl.tracking.rank_filter import RankFilter

LOG = (
    b"plain\n[rank1]: torch one\n[rank11]: torch eleven\n0: srun zero\n 1: srun one\n"
    b"[default1]:tee one\n[1,1]<stdout>:mpi one\n2026: a year\n[1,2]<stderr>:mpi two\n1: no end"
)
OURS = b"[rank1]: torch one\n 1: srun one\n[default1]:tee one\n[1,1]<stdout>:mpi one\n1: no end"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_in_parts_of_any_size(size: int) -> None:
    sink = io.BytesIO()
    only = RankFilter(sink, 1)
    for start in range(0, len(LOG), size):
        only.write(LOG[start : start + size])
    only.finish()
    assert sink.getvalue() == OURS and only.labelled


def test_rank_zero_and_no_labels() -> None:
    sink = io.BytesIO()
    only = RankFilter(sink, 0)
    only.write(LOG)
    only.finish()
    assert sink.getvalue() == b"0: srun zero\n"
    only = RankFilter(sink, 0)
    only.write(b"nothing\nhere\n")
    only.finish()
    assert not only.labelled


def test_a_line_of_any_length_costs_no_more_than_its_bytes() -> None:
    sink = io.BytesIO()
    only = RankFilter(sink, 1)
    only.write(b"[rank1]: ")
    for _ in range(4000):  # 40 MB of a progress bar
        only.write(b"\r 50%" * 2000)
    only.write(b"\n[rank2]: end")
    only.finish()
    assert len(sink.getvalue()) == 9 + 4000 * 10_000 + 1
