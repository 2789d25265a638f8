"""The pending reasons of limits are Slurm's own: each stands in Slurm's library."""

from __future__ import annotations

import glob
from typing import Iterator

import pytest

from neuronctl.slurm.limits import ASSOCIATION, GROUP, KINDS, PARTITION, QOS, Limit


def reasons() -> Iterator[str]:
    for kind in KINDS.values():
        scopes = [PARTITION] if kind.of_partition else [QOS]
        if kind.association or kind.per == GROUP:
            scopes.append(ASSOCIATION)
        for tres in kind.reasons:
            yield from (Limit(kind.name, tres, 1, scope, "any").reason for scope in scopes)


@pytest.fixture(scope="module")
def library(slurm_there: None) -> bytes:
    (path,) = glob.glob("/usr/lib/*/slurm-wlm/libslurmfull.so")
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize("reason", sorted(set(reasons())))
def test_slurm_has_the_reason(reason: str, library: bytes) -> None:
    assert b"\0" + reason.encode() + b"\0" in library
