"""No test of a module asks the Slurm of the machine on which it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_slurm(clean_session: None) -> Iterator[None]:
    """As on a machine without Slurm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", os.devnull)
        yield
