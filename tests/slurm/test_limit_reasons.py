"""The pending reasons of limits are Slurm's own: each stands in Slurm's library."""

from __future__ import annotations

import glob

import pytest
from harness import SYSTEM

from neuronctl.slurm.limits import KINDS
from neuronctl.slurm.pending_reasons import LIMIT_REASONS


@pytest.fixture(scope="module")
def library(slurm_there: None) -> bytes:
    root = SYSTEM[1] if SYSTEM else ""
    (path,) = glob.glob(f"{root}/usr/lib/*/slurm-wlm/libslurmfull.so")
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize("reason", sorted(LIMIT_REASONS))
def test_slurm_has_the_reason(reason: str, library: bytes) -> None:
    newer = [KINDS["MaxTRESRunMinsPU"], KINDS["MaxTRESRunMinsPA"]]
    if reason in {one for kind in newer for one in kind.reasons.values()} and not SYSTEM:
        pytest.skip("newer than Slurm 22.05")
    assert b"\0" + reason.encode() + b"\0" in library
