"""The shipped catalog: its default cluster, and what follows from its figures."""

from __future__ import annotations

import pytest

from neuronctl.catalog.cluster import Catalog
from neuronctl.catalog.loader import load


@pytest.fixture
def catalog() -> Catalog:
    return load()


def test_the_default_is_neuron_and_no_partition_is(catalog: Catalog) -> None:
    assert catalog.cluster() is catalog.cluster("neuron")
    for name in ("neuron", "neuron-2022"):
        assert catalog.cluster(name).default_partition is None


def test_derived_figures(catalog: Catalog) -> None:
    neuron = catalog.cluster("neuron")
    assert neuron.cores_per_gpu(neuron.partition("amd_a100nv_8")) == 8
    assert neuron.cores_per_gpu(neuron.partition("cas_v100nv_4")) == 10
    assert neuron.cores_per_gpu(neuron.partition("cpu")) is None
    assert catalog.cluster("neuron-2022").partition("bigmem").cores_per_gpu is None
    # 0.95 x 384000 MB / 32 cores x 8 cores
    assert neuron.memory_mb(neuron.partition("cas_v100nv_8"), 8) == 91200
    assert neuron.memory_mb(neuron.partition("amd_a100nv_8"), 8) is None
    bigmem = neuron.partition("bigmem")
    assert (bigmem.min_cores_per_node, bigmem.max_cores_per_node) == (24, 56)
