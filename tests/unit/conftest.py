"""No test of a module asks the Slurm of the machine on which it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from test_script_rules import CATALOG

from neuronctl.catalog.cluster import Catalog
from neuronctl.catalog.loader import load


@pytest.fixture(scope="module", autouse=True)
def no_slurm(clean_session: None) -> Iterator[None]:
    """As on a machine without Slurm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", os.devnull)
        yield


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The catalog of the rules on scripts: partitions with and without GPUs."""
    path = tmp_path_factory.mktemp("catalog") / "small.yaml"
    path.write_text(CATALOG, encoding="utf-8")
    return load(str(path))
