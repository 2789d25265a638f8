"""The pending reasons of limits are Slurm's own: each stands in Slurm's library."""

from __future__ import annotations

import glob

import pytest

from neuronctl.slurm.limits import KINDS

REASONS = sorted({limit.reason for kind in KINDS.values() for limit in kind.examples()})


@pytest.fixture(scope="module")
def library(slurm_there: None) -> bytes:
    (path,) = glob.glob("/usr/lib/*/slurm-wlm/libslurmfull.so")
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize("reason", REASONS)
def test_slurm_has_the_reason(reason: str, library: bytes) -> None:
    assert b"\0" + reason.encode() + b"\0" in library
