"""The shipped catalog's figures, spelled out here a second time, table by table."""

from __future__ import annotations

import pytest

from neuronctl.catalog.cluster import Catalog, WallTime
from neuronctl.catalog.loader import load

DAY = 86400

# name, nodes, node_list, jobs submitted, jobs running, GPUs, cores/node, GPUs/node, GPU, joined
NEURON = """
cas_v100nv_8   5  gpu[01-05]    12 10 32 32          8 v100  nvlink
cas_v100nv_4   4  gpu[06-09]     8  4 12 40          4 v100  nvlink
cas_v100_4    11  gpu[10-20]    20 10 44 40          4 v100  -
cas_v100_2     2  gpu[25-26]    12  6  6 32          2 v100  -
amd_a100_4     1  gpu45          2  2  8 64          4 a100  -
amd_a100nv_8   9  gpu[35-43]    20 10 88 64          8 a100  nvlink
eme_h200nv_8   1  gpu47          4  2 16 96          8 h200  nvlink
gh200_1        1  gpu52         12  6  2 72          1 gh200 -
amd_h200nv_8   1  gpu56          4  2 32 96          8 h200  nvlink
amd_h100_2     3  gpu[57-59]     2  1  4 48          2 h100  -
cpu            7  cpu[01-07]     8  4  - 48          0 -     -
bigmem         4  bigmem[01-04]  8  4  - 48,56,24,48 0 -     -
"""


@pytest.fixture
def catalog() -> Catalog:
    return load()


def text(value: object) -> str:
    if value is None or value == ():
        return "-"
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else str(value)


def test_neuron_is_the_guides_table(catalog: Catalog) -> None:
    cluster = catalog.cluster("neuron")
    rows = [
        [
            p.name, p.nodes, p.node_list, p.max_submit_jobs, p.max_running_jobs, p.max_gpus,
            p.cores_per_node, p.gpus_per_node, p.gpu, p.interconnect,
        ]
        for p in cluster.partitions.values()
    ]  # fmt: skip
    assert [[text(cell) for cell in row] for row in rows] == [
        line.split() for line in NEURON.strip().splitlines()
    ]
    assert (cluster.source, cluster.date) == ("KISTI Neuron user guide", "2026-08-12")
    assert {name: p.memory_mb_per_node for name, p in cluster.partitions.items()} == dict.fromkeys(
        cluster.partitions, None
    ) | {"cas_v100nv_8": 384000, "cas_v100nv_4": 384000, "cas_v100_4": 384000}
    for partition in cluster.partitions.values():
        assert partition.wall_time == WallTime(2 * DAY, 2 * DAY, 8 * 3600)
        assert partition.cores_total is None
        assert partition.open
        if partition.name != "gh200_1":
            assert (partition.arch, partition.module_prefix) == ("x86_64", "")
    gh200 = cluster.partition("gh200_1")
    assert (gh200.arch, gh200.module_prefix) == ("aarch64", "ARM_")


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
