"""A catalog drafted from Slurm is one that is read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from slurm_answers import LIMITS, NORMAL, PARTITION, QOS, qos_with

from neuronctl.catalog.cluster import Catalog, Cluster
from neuronctl.catalog.draft import draft_catalog, list_differences
from neuronctl.catalog.loader import merge
from neuronctl.common import yamlfile
from neuronctl.common.errors import CatalogError
from neuronctl.common.paths import data_path
from neuronctl.slurm.figures import ClusterFigures
from neuronctl.slurm.limits import Scope, read_limits
from neuronctl.slurm.sacctmgr import SlurmQos

NEURON = dataclasses.replace(LIMITS, config=dataclasses.replace(LIMITS.config, cluster="neuron"))


def read(limits: ClusterFigures) -> Cluster:
    text = draft_catalog(limits, "2026-11-21")
    return merge([yamlfile.parse(text, "draft", CatalogError)]).cluster()


def laid_over(limits: ClusterFigures, **lower: Any) -> Catalog:
    """The draft over the shipped catalog, and over what ``lower`` says of neuron."""
    text = json.dumps({"clusters": {"neuron": lower}})
    layers = [
        yamlfile.read(data_path("partitions.yaml"), CatalogError),
        yamlfile.parse(text, "lower", CatalogError),
    ]
    draft = draft_catalog(limits, "2026-11-21", merge(layers))
    return merge([*layers, yamlfile.parse(draft, "draft", CatalogError)])


def test_every_figure_of_slurms_is_in_the_draft() -> None:
    cluster = read(LIMITS)
    assert (cluster.name, cluster.date) == ("toy", "2026-11-21")
    assert list(cluster.partitions) == ["gpu", "cpu"]
    gpu = cluster.partitions["gpu"]
    assert (gpu.nodes, gpu.node_list, gpu.cores_per_node) == (4, "n[1-4]", (64,))
    assert (gpu.memory_mb_per_node, gpu.gpus_per_node, gpu.gpu) == (512000, 8, "a100")
    assert (gpu.max_submit_jobs, gpu.max_running_jobs, gpu.max_gpus) == (4, 3, 16)
    assert (gpu.wall_time.default, gpu.wall_time.maximum) == (3600, 48 * 3600)


def test_a_gpu_type_may_say_its_memory() -> None:
    for kind, memory in (("a100", None), ("a100-sxm4-80gb", 80), ("h100_1g.10gb", 10)):
        nodes = tuple(dataclasses.replace(one, gpu=kind) for one in LIMITS.nodes)
        gpu = read(dataclasses.replace(LIMITS, nodes=nodes)).partitions["gpu"]
        assert (gpu.gpu, gpu.gpu_memory_gb) == (kind, memory)


def test_what_slurm_does_not_say_is_not_in_it() -> None:
    bare = dataclasses.replace(PARTITION, max_time=-1, default_time=None, nodes=None, node_list="")
    gpu = read(ClusterFigures(LIMITS.config, (bare,), (), None, ())).partitions["gpu"]
    assert (gpu.nodes, gpu.cores_per_node, gpu.gpus_per_node, gpu.max_gpus) == (None, (), 0, None)
    assert (gpu.wall_time.default, gpu.wall_time.maximum) == (None, -1)


def test_the_draft_over_another_catalog_removes_what_slurm_does_not_have() -> None:
    lower = {
        "partitions": {"gpu": {"gpus_per_node": 4}},
        "default_partition": "gpu",
        "qos": {"gone": {"max_gpus": 1}},
    }
    merged = laid_over(NEURON, **lower).clusters["neuron"]
    assert set(merged.partitions) == {one.name for one in NEURON.partitions}
    assert merged.partitions["gpu"].gpus_per_node == 8
    assert "gone" not in merged.qos


def test_the_qos_that_a_job_may_name_are_drafted() -> None:
    figures = {"MaxTRESPU": "gres/gpu=2", "MaxTRES": "node=1", "MaxWall": "01:00:00"}
    limits = read_limits(figures, Scope.QOS, "fast")
    fast = SlurmQos("fast", ("OverPartQOS", "DenyOnLimit"), limits, priority=100)
    picky = dataclasses.replace(PARTITION, allow_qos=("FAST", "normal"))
    slow = dataclasses.replace(qos_with({"MaxSubmitPU": "1"}), name="slow")
    own = (NORMAL, QOS, fast, slow)
    partitions = (picky, *LIMITS.partitions[1:])
    found = read(dataclasses.replace(LIMITS, partitions=partitions, qos=own))
    assert list(found.qos) == ["normal", "fast", "slow"]  # and not the partition's own
    drafted = found.qos["fast"]
    assert (drafted.max_gpus, drafted.max_nodes, drafted.wall_time.maximum) == (2, 1, 3600)
    assert (drafted.priority, drafted.partitions) == (100, ())
    # A longer time than the partitions' counts only with Slurm's flag for it.
    figures = {"MaxWall": "30-00:00:00"}
    for flags, longest in (((), None), (("PartitionTimeLimit",), 30 * 86400)):
        long = SlurmQos("long", flags, read_limits(figures, Scope.QOS, "long"))
        found_long = read(dataclasses.replace(LIMITS, qos=(NORMAL, QOS, long))).qos["long"]
        assert found_long.wall_time.maximum == longest
    assert found.qos["slow"].partitions == ("cpu",)
    assert read(dataclasses.replace(LIMITS, qos=None)).qos == {}
    # One that a partition has for its own limits may be the users' as well.
    normal = dataclasses.replace(QOS, name="normal")
    partitions = (dataclasses.replace(PARTITION, qos="normal"), *LIMITS.partitions[1:])
    both = read(dataclasses.replace(LIMITS, partitions=partitions, qos=(normal,)))
    assert both.qos["normal"].max_gpus == both.partitions["gpu"].max_gpus == 16


def test_a_draft_is_read_whatever_the_types_are_called() -> None:
    for kinds in (("3090",), ("2080ti",), ("1g.5gb",), ("3090", "1e5"), ("a100", "007")):
        types = tuple((kind, 2, 0) for kind in kinds)
        nodes = tuple(
            dataclasses.replace(one, gpu=kinds[0], gpu_types=types) for one in LIMITS.nodes
        )
        gpu = read(dataclasses.replace(LIMITS, nodes=nodes)).partitions["gpu"]
        assert gpu.gpu_names == kinds


def test_accounts_features_and_the_title_are_kept() -> None:
    picky = dataclasses.replace(PARTITION, allow_accounts=("lab", "2024"))
    nodes = tuple(dataclasses.replace(one, features=("ib", "80gb")) for one in LIMITS.nodes)
    limits = dataclasses.replace(LIMITS, partitions=(picky, *LIMITS.partitions[1:]), nodes=nodes)
    gpu = read(limits).partitions["gpu"]
    assert (gpu.accounts, gpu.features) == (("lab", "2024"), ("ib", "80gb"))
    assert laid_over(NEURON).clusters["neuron"].title == "KISTI Neuron"


def test_slurms_cpus_are_drafted_where_a_core_has_two_threads() -> None:
    nodes = tuple(dataclasses.replace(one, cores=16, threads=2) for one in LIMITS.nodes)
    gpu = read(dataclasses.replace(LIMITS, nodes=nodes)).partitions["gpu"]
    assert gpu.cores_per_node == (16,)


def test_what_differs_is_one_line_each() -> None:
    old = read(LIMITS)
    longer = dataclasses.replace(PARTITION, max_time=3600, nodes=5)
    new = read(dataclasses.replace(LIMITS, partitions=(longer,)))
    assert list_differences(old, old) == []
    assert list_differences(old, new) == [
        "gpu.nodes: 4, in Slurm 5",
        "gpu.wall_time: 01:00:00 to 2-00:00:00, in Slurm 01:00:00 to 01:00:00",
        "cpu: not in Slurm",
    ]
    assert list_differences(None, new) == ["gpu: only in Slurm", "normal: only in Slurm"]
