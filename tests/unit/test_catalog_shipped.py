"""The shipped catalog's figures, spelled out here a second time, table by table."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuronctl.catalog.loader import load
from neuronctl.catalog.model import Catalog, WallTime
from neuronctl.common.units import expand_hostlist

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

# name, nodes, cores in all, jobs submitted, GPUs, cores/node, GPUs/node, GPU, joined, node_list
NEURON_2022 = """
cas_v100nv_8   5 160 2 40 32 8 v100 nvlink gpu[01-05]
cas_v100nv_4   4 160 2 16 40 4 v100 nvlink gpu[07-09]
cas_v100_4    15 600 4 40 40 4 v100 -      gpu[10-15,17-24]
cas_v100_2     5 160 2 10 32 2 v100 -      gpu[25-26]
amd_a100nv_8  14 868 4 64 64 8 a100 nvlink gpu[30,32-33,36-37,39-42]
amd_a100_4     2 128 1  8 64 4 a100 -      gpu[44-45]
amd_a100_2     2 128 1  4 64 2 a100 -      -
skl           10 360 2  - 36 0 -    -      skl[01-06,08-09]
bigmem         3 120 1  -  - 0 -    -      bigmem[01-02]
"""


FIELDS = """
agenticai robotics aim nlp cv speech recsys multimodal sciai efficientai healthai finai misc
math phys chem aac ees bio med bns agf qst mse ere mae ne che eee ict cse cte ss caa hum misc
"""

APPLICATIONS = """
pytorch pytorch-ddp pytorch-fsdp deepspeed megatron-lm jax tensorflow tensorrt ollama vllm triton
jupyter r misc
abaqus amber ansys berkeleygw bwa castep cesm cgyro charmm cp2k fhi_aims fvcom gadget gatk gaussian
geant4 gotpm gpaw grims gromacs kflow lammps ls-dyna materials_studio matlab mfdn mom mpas msc_one
namd nw_chem openfoam openmm openmx orca pyfr q-chem qmcpack quantum_espresso r ramses raspa roms
rosetta siesta star-ccm su2 vasp wannier90 wien2k wrf xtb in_house misc
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


def test_neuron_2022_is_the_tutorials_table(catalog: Catalog) -> None:
    cluster = catalog.cluster("neuron-2022")
    rows = [
        [
            p.name, p.nodes, p.cores_total, p.max_submit_jobs, p.max_gpus, p.cores_per_node,
            p.gpus_per_node, p.gpu, p.interconnect, p.node_list,
        ]
        for p in cluster.partitions.values()
    ]  # fmt: skip
    assert [[text(cell) for cell in row] for row in rows] == [
        line.split() for line in NEURON_2022.strip().splitlines()
    ]
    assert cluster.date == "2022-12"
    for partition in cluster.partitions.values():
        assert partition.wall_time == WallTime(None, 2 * DAY, None)
        assert partition.max_running_jobs is None
        assert partition.arch == "x86_64"
    # The one total that its nodes do not divide is said to be odd; all others are whole.
    for partition in cluster.partitions.values():
        if partition.cores_per_node and partition.nodes:
            whole = partition.nodes * partition.cores_per_node[0] == partition.cores_total
            assert whole != (partition.name == "amd_a100nv_8")
    assert "868" in cluster.partition("amd_a100nv_8").note


def test_the_tutorials_nodes_are_in_its_partition(catalog: Catalog) -> None:
    names = catalog.cluster("neuron-2022").partition("amd_a100nv_8").node_list
    assert {"gpu32", "gpu33"} <= set(expand_hostlist(names or ""))


def test_neurons_policy(catalog: Catalog) -> None:
    cluster = catalog.cluster("neuron")
    policy = cluster.policy
    assert policy.submit_from == ("/scratch/{user}",)
    assert set(policy.forbidden_options) == {"mem", "mem-per-cpu", "mem-per-gpu"}
    assert policy.gpu_option == "gres"
    assert policy.gpus_required
    assert (policy.cores.rule, policy.cores.cores_per_gpu) == ("cap", None)
    assert policy.memory_fraction == 0.95
    assert (policy.comment.required, policy.comment.form) == (True, "fields")
    field, appl = policy.comment.fields
    assert (field.key, appl.key) == ("field", "appl")
    assert sorted(field.values) == sorted(set(FIELDS.split()))
    assert sorted(appl.values) == sorted(set(APPLICATIONS.split()))
    assert cluster.network.interface == "ib0"
    assert cluster.scratch == "/scratch/{user}"
    assert cluster.containers.runtime == "singularity"
    assert cluster.containers.image_dirs == tuple(
        f"/apps/applications/singularity_images/{name}" for name in ("ngc", "examples", "imagenet")
    )
    assert cluster.modules == (
        "gcc/11.5.0", "gcc/15.2.0", "cuda/12.4.1", "cuda/12.9.1", "cuda/13.0.2",
        "cudampi/openmpi-4.1.8", "mpi/openmpi-4.1.8", "singularity/4.1.0", "singularity/4.3.4",
        "cmake/4.2.1", "conda/pytorch_2.9.1_cuda13", "ngc/pytorch:24.12-py3",
    )  # fmt: skip


def test_neuron_2022s_policy(catalog: Catalog) -> None:
    cluster = catalog.cluster("neuron-2022")
    policy = cluster.policy
    assert (policy.comment.required, policy.comment.form, policy.comment.values) == (
        True, "word", (),
    )  # fmt: skip
    assert policy.submit_from == ()
    assert policy.forbidden_options == {}
    assert policy.cores.rule == "default"
    assert policy.memory_fraction is None
    assert cluster.modules == (
        "gcc/10.2.0", "cuda/11.4", "cudampi/openmpi-4.1.1", "cmake/3.16.9", "singularity/3.9.7",
    )  # fmt: skip
    assert cluster.containers.image_dirs == ("/apps/applications/singularity_images/ngc",)


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


def test_every_figure_has_its_place(catalog: Catalog, root: Path) -> None:
    lines = (root / "partitions.yaml").read_text().splitlines()
    for path, place in catalog.locations().items():
        derived = path[0] == "neuron" and path[-1] == "nodes"
        key = "node_list" if derived else path[-1]
        assert f" {key}:" in f" {lines[place.line - 1]}".replace("{", " "), (path, place)
    for cluster in (catalog.cluster("neuron"), catalog.cluster("neuron-2022")):
        for name, partition in cluster.partitions.items():
            place = catalog.locations()[cluster.name, "partitions", name, "max_submit_jobs"]
            assert lines[place.line - 1].split()[1] == str(partition.max_submit_jobs)
