"""A catalog drafted from Slurm is one that is read, and differs from Slurm in nothing."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping

import pytest
from slurm_answers import LIMITS, NODES, NORMAL, PARTITION, QOS, qos_with

from neuronctl.catalog.json_schema import catalog_schema
from neuronctl.catalog.merging import merge
from neuronctl.catalog.model import Cluster
from neuronctl.common import yamlfile
from neuronctl.common.errors import CatalogError
from neuronctl.common.paths import data_path
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.catalog_draft import Difference, catalog_text, differences, untold
from neuronctl.slurm.limits import Scope, read_limits
from neuronctl.slurm.sacctmgr import SlurmQos


def read(limits: ClusterFigures) -> Cluster:
    text = catalog_text(limits, "2026-11-21")
    return merge([yamlfile.parse(text, "draft", CatalogError)]).cluster()


def test_partitions_that_slurm_does_not_have_are_taken_out() -> None:
    shipped = yamlfile.read(data_path("partitions.yaml"), CatalogError)
    config = dataclasses.replace(LIMITS.config, cluster="neuron")
    here = dataclasses.replace(LIMITS, config=config)
    text = catalog_text(here, "2026-11-21", [merge([shipped])])
    drafted = yamlfile.parse(text, "draft", CatalogError)
    found = merge([shipped, drafted]).clusters["neuron"].partitions
    assert set(found) == {one.name for one in LIMITS.partitions}


def test_nor_those_of_other_files_below() -> None:
    """Of any file that the draft may replace or be laid over, under the name it has there."""
    text = """
clusters:
  lab:
    source: by hand
    date: 2026
    slurm_cluster_names: [other, TOY]
    default_partition: old
    partitions: {old: {nodes: 1}, gpu: {note: from the guide}}
"""
    shipped = yamlfile.read(data_path("partitions.yaml"), CatalogError)
    site = yamlfile.parse(text, "site", CatalogError)
    own = yamlfile.parse("clusters: {lab: {partitions: {old: null, mine: {}},"
                         " default_partition: gpu}}", "own", CatalogError)  # fmt: skip
    layers = [shipped, site, own]
    below = [merge(layers[:number]) for number in (1, 2, 3)]
    drafted = yamlfile.parse(catalog_text(LIMITS, "2026-11-21", below), "draft", CatalogError)
    for under in ([shipped, site], layers):
        found = merge([*under, drafted])
        assert found.default_cluster == "lab"
        assert set(found.clusters["lab"].partitions) == {one.name for one in LIMITS.partitions}
        assert found.clusters["lab"].partitions["gpu"].note == ""
        assert found.clusters["lab"].slurm_cluster_names == ("other", "TOY")


def lay_over_shipped(limits: ClusterFigures, **below: Any) -> Cluster:
    """The draft of ``limits`` over the shipped neuron, with a partition ``gpu`` that says much."""
    lower = {
        "clusters": {
            "neuron": {"partitions": {"gpu": below}, "default_partition": "gpu", "arch": "aarch64"}
        }
    }
    layers = [
        yamlfile.read(data_path("partitions.yaml"), CatalogError),
        yamlfile.parse(json.dumps(lower), "lower", CatalogError),
    ]
    config = dataclasses.replace(limits.config, cluster="neuron")
    here = dataclasses.replace(limits, config=config)
    text = catalog_text(here, "2026-11-21", [merge(layers)])
    layers.append(yamlfile.parse(text, "draft", CatalogError))
    return merge(layers).clusters["neuron"]


def test_the_draft_over_another_catalog_differs_from_slurm_in_nothing() -> None:
    bare = dataclasses.replace(PARTITION, qos="", default_time=None, max_nodes=None, default=False)
    nodes = tuple(dataclasses.replace(one, gpus=0, gpu="", arch="x86_64") for one in NODES)
    for limits in (
        LIMITS,
        dataclasses.replace(LIMITS, partitions=(bare,), nodes=nodes),
        dataclasses.replace(LIMITS, partitions=(bare,), nodes=()),
    ):
        below = {"node_list": "x[1-9]", "gpus_per_node": 4, "gpu": "v100", "interconnect": "nvlink",
                 "arch": "aarch64", "max_gpus": 9, "max_submit_jobs": 3, "max_running_jobs": 3,
                 "max_nodes": 7, "open": False, "note": "9 nodes", "cores_per_node": 9,
                 "cores_total": 81, "memory_mb_per_node": 5, "wall_time": {"maximum": "1:00"},
                }  # fmt: skip
        merged = lay_over_shipped(limits, **below)
        assert differences(merged, read(limits)) == ()
        assert merged.partitions["gpu"].note == ""


def test_without_sacctmgr_the_limits_below_stay() -> None:
    deaf = dataclasses.replace(LIMITS, qos=None)
    merged = lay_over_shipped(deaf, max_submit_jobs=3, gpus_per_node=8, max_gpus=16)
    gpu = merged.partitions["gpu"]
    assert (gpu.max_submit_jobs, gpu.max_gpus) == (3, 16)
    spared = untold(deaf)
    assert differences(merged, read(deaf), spared) == ()
    assert {one.key for one in differences(merged, read(deaf))} == set(spared)
    assert untold(LIMITS) == ()


def test_nodes_that_differ_are_remarked_and_the_largest_memory_counts() -> None:
    sizes = (192000, 224000, 192000, 224000)
    nodes = tuple(dataclasses.replace(n, memory_mb=mb) for n, mb in zip(NODES, sizes))
    mixed = dataclasses.replace(LIMITS, nodes=nodes)
    assert read(mixed).partitions["gpu"].memory_mb_per_node == 224000
    text = catalog_text(mixed, "2026-11-21")
    assert "# gpu: nodes have 192000 to 224000 MB of memory; the draft uses the largest" in text
    assert "# gpu:" not in catalog_text(LIMITS, "2026-11-21")


def test_figures_that_no_catalog_takes_are_left_out() -> None:
    greedy = qos_with({"MaxSubmitPU": "2", "MaxJobsPU": "5", "MaxTRESPU": "gres/gpu=16"})
    wide = dataclasses.replace(PARTITION, max_nodes=9)
    auto = dataclasses.replace(PARTITION, name="auto")
    odd = dataclasses.replace(LIMITS, qos=(greedy,), partitions=(wide, auto))
    cluster = read(odd)
    gpu = cluster.partitions["gpu"]
    assert (gpu.max_submit_jobs, gpu.max_running_jobs, gpu.max_nodes) == (2, None, None)
    assert list(cluster.partitions) == ["gpu"]
    assert "# auto: omitted" in catalog_text(odd, "2026-11-21")


def test_every_figure_of_slurms_is_in_the_draft() -> None:
    cluster = read(LIMITS)
    assert (cluster.name, cluster.date) == ("toy", "2026-11-21")
    assert list(cluster.partitions) == ["gpu", "cpu"]
    gpu = cluster.partitions["gpu"]
    assert (gpu.nodes, gpu.node_list, gpu.cores_per_node) == (4, "n[1-4]", (64,))
    assert (gpu.memory_mb_per_node, gpu.gpus_per_node, gpu.gpu) == (512000, 8, "a100")
    assert (gpu.max_submit_jobs, gpu.max_running_jobs, gpu.max_gpus) == (4, 3, 16)
    assert (gpu.wall_time.default, gpu.wall_time.maximum) == (3600, 48 * 3600)


def test_what_slurm_does_not_tell_is_not_in_it() -> None:
    bare = dataclasses.replace(PARTITION, max_time=-1, default_time=None, nodes=None, node_list="")
    cluster = read(ClusterFigures(LIMITS.config, (bare,), (), None, ()))
    gpu = cluster.partitions["gpu"]
    assert (gpu.nodes, gpu.cores_per_node, gpu.gpus_per_node, gpu.max_gpus) == (None, (), 0, None)
    assert (gpu.wall_time.default, gpu.wall_time.maximum) == (None, -1)


def test_odd_figures_make_a_catalog_all_the_same() -> None:
    small = qos_with({"MaxTRESPU": "gres/gpu=2"})
    mixed = tuple(dataclasses.replace(one, cores=40 + n) for n, one in enumerate(NODES))
    odd = dataclasses.replace(LIMITS, qos=(small,), nodes=mixed)
    gpu = read(odd).partitions["gpu"]
    assert gpu.max_gpus is None  # less than one node has: the catalog would not take it
    assert gpu.cores_per_node == (40, 41, 42, 43)
    torn = dataclasses.replace(PARTITION, node_list="n[1-")
    gpu = read(dataclasses.replace(LIMITS, partitions=(torn,))).partitions["gpu"]
    assert (gpu.nodes, gpu.node_list) == (PARTITION.nodes, None)
    name = dataclasses.replace(LIMITS.config, cluster="my cluster: 1")
    assert read(dataclasses.replace(LIMITS, config=name)).name == "my-cluster--1"


def test_differences_figure_by_figure() -> None:
    slurm = read(LIMITS)
    assert differences(slurm, slurm) == ()
    gpu = dataclasses.replace(slurm.partitions["gpu"], max_gpus=24, node_list="n1,n[2-4]")
    ours = dataclasses.replace(slurm, partitions={"gpu": gpu, "old": gpu})
    assert differences(ours, slurm) == (
        Difference("gpu", "max_gpus", "24", "16"),
        Difference("old", "partition", "present", ""),
        Difference("cpu", "partition", "", "present"),
    )


# ------------------------------------------------------------------------ the JSON Schema


def problems(value: Any, schema: Mapping[str, Any], at: str = "") -> List[str]:
    """What a value breaks of the few keywords that the schema uses."""
    kinds: Dict[str, Callable[[Any], bool]] = {
        "null": lambda v: v is None,
        "string": lambda v: isinstance(v, str),
        "integer": lambda v: type(v) is int,
        "number": lambda v: type(v) in (int, float),
        "boolean": lambda v: isinstance(v, bool),
        "array": lambda v: isinstance(v, list),
        "object": lambda v: isinstance(v, dict),
    }
    known = {"type", "properties", "additionalProperties", "items", "enum", "anyOf", "minimum",
             "maximum", "exclusiveMinimum", "pattern", "uniqueItems", "minItems", "$schema",
             "title"}  # fmt: skip
    assert set(schema) <= known, schema
    if "anyOf" in schema:
        tries = [problems(value, one, at) for one in schema["anyOf"]]
        return [] if [] in tries else min(tries, key=len)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(kinds[one](value) for one in types):
        return [f"{at}: {value!r} is no {types}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r}"]
    found: List[str] = []
    if isinstance(value, dict):
        for key, item in value.items():
            below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if below is False:
                found.append(f"{at}.{key}: unknown")
            elif isinstance(below, dict):
                found += problems(item, below, f"{at}.{key}")
    if isinstance(value, list):
        found += [one for item in value for one in problems(item, schema["items"], at)]
        if schema.get("uniqueItems") and len({str(one) for one in value}) < len(value):
            found.append(f"{at}: twice")
        if len(value) < schema.get("minItems", 0):
            found.append(f"{at}: too few")
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{at}: {value!r} is not {schema['pattern']}")
    if type(value) in (int, float):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high or value <= schema.get("exclusiveMinimum", value - 1):
            found.append(f"{at}: {value}")
    return found


def test_the_shipped_catalog_fits_the_schema() -> None:
    document = yamlfile.read(data_path("partitions.yaml"), CatalogError)
    assert problems(document.data, catalog_schema()) == []
    drafted = yamlfile.parse(catalog_text(LIMITS, "2026-11-21"), "draft", CatalogError)
    assert problems(drafted.data, catalog_schema()) == []


@pytest.mark.parametrize(
    "partition",
    [
        {"max_gpu": 8},
        {"max_gpus": 0},
        {"max_gpus": -1},
        {"nodes": "4"},
        {"gpus_per_node": True},
        {"arch": "arm"},
        {"wall_time": {"maximum": "two days"}},
        {"cores_per_node": []},
        {"open": "yes"},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(partition: Dict[str, Any]) -> None:
    data = {"clusters": {"neuron": {"partitions": {"cpu": partition}}}}
    assert problems(data, catalog_schema())
    layer = yamlfile.parse(json.dumps(data), "layer", CatalogError)
    shipped = yamlfile.read(Path(data_path("partitions.yaml")), CatalogError)
    with pytest.raises(CatalogError):
        merge([shipped, layer])


FAST = SlurmQos(
    "fast",
    ("OverPartQOS", "DenyOnLimit"),
    read_limits(
        {"MaxTRESPU": "gres/gpu=2", "MaxTRES": "node=1", "MaxWall": "01:00:00"}, Scope.QOS, "fast"
    ),
    priority=100,
)
SLOW = SlurmQos(
    "slow", (), read_limits({"MaxSubmitPU": "1", "MaxWall": "10:00"}, Scope.QOS, "slow")
)


def with_qos(*takes: str) -> ClusterFigures:
    """LIMITS with two QOS to name; only those of ``takes`` are taken in the first partition."""
    picky = dataclasses.replace(PARTITION, allow_qos=takes)
    partitions = (picky, *LIMITS.partitions[1:])
    return dataclasses.replace(LIMITS, partitions=partitions, qos=(NORMAL, QOS, FAST, SLOW))


def test_the_qos_that_a_job_may_name_are_drafted() -> None:
    found = read(with_qos("FAST", "normal"))
    assert list(found.qos) == ["normal", "fast", "slow"]  # and not the partition's own
    fast = found.qos["fast"]
    assert (fast.max_gpus, fast.max_nodes, fast.wall_time.maximum) == (2, 1, 3600)
    assert (fast.priority, fast.flags, fast.partitions) == (100, ("OverPartQOS",), ())
    # The partition's own limit comes first, so that of this QOS may not count.
    assert found.qos["slow"].max_submit_jobs is None
    assert "# QOS slow: max_submit_jobs 1 omitted" in catalog_text(with_qos(), "2026-11-21")
    assert found.qos["slow"].partitions == ("cpu",)
    assert read(dataclasses.replace(LIMITS, qos=None)).qos == {}


def test_qos_of_the_files_below_differ_from_slurm_in_nothing_afterwards() -> None:
    limits = with_qos()
    lower = {
        "fast": {"max_submit_jobs": 9, "max_gpus": 7, "note": "x", "partitions": ["gpu"]},
        "gone": {"max_gpus": 1},
    }
    cluster = {"qos": lower, "partitions": {"gpu": {}}}
    text = json.dumps({"clusters": {"neuron": cluster}})
    layers = [
        yamlfile.read(data_path("partitions.yaml"), CatalogError),
        yamlfile.parse(text, "lower", CatalogError),
    ]
    config = dataclasses.replace(limits.config, cluster="neuron")
    here = dataclasses.replace(limits, config=config)
    before = merge(layers).clusters["neuron"]
    changes = differences(before, read(here))
    assert Difference("QOS fast", "max_gpus", "7", "2") in changes
    assert Difference("QOS gone", "QOS", "present", "") in changes
    assert Difference("QOS slow", "QOS", "", "present") in changes
    draft = catalog_text(here, "2026-11-21", [merge(layers)])
    layers.append(yamlfile.parse(draft, "draft", CatalogError))
    after = merge(layers)
    assert differences(after.clusters["neuron"], read(here)) == ()
    assert after.clusters["neuron"].qos["fast"].note == ""
    assert after.evidence("neuron", "qos").kind == "slurm"
    # A catalog that describes none is not behind Slurm in that.
    bare = dataclasses.replace(before, qos={})
    assert not any(one.partition.startswith("QOS") for one in differences(bare, read(here)))
