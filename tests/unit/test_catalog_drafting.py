"""A catalog drafted from Slurm is one that is read, and differs from Slurm in nothing."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping

import pytest
from test_live import LIMITS, NODES, PARTITION, QOS

from neuronctl import yamlfile
from neuronctl.catalog.drafting import Difference, differences, draft
from neuronctl.catalog.jsonschema import catalog_schema
from neuronctl.catalog.loader import merge
from neuronctl.catalog.model import Cluster
from neuronctl.errors import CatalogError
from neuronctl.paths import data_path
from neuronctl.slurm import Limits


def read(limits: Limits) -> Cluster:
    text = draft(limits, "2026-11-21")
    return merge([yamlfile.parse(text, "draft", CatalogError)]).cluster()


def test_partitions_that_slurm_does_not_have_are_taken_out() -> None:
    shipped = yamlfile.read(data_path("partitions.yaml"), CatalogError, keep=True)
    config = dataclasses.replace(LIMITS.config, cluster="neuron")
    here = dataclasses.replace(LIMITS, config=config)
    text = draft(here, "2026-11-21", merge([shipped]).clusters)
    drafted = yamlfile.parse(text, "draft", CatalogError)
    found = merge([shipped, drafted]).clusters["neuron"].partitions
    assert set(found) == {one.name for one in LIMITS.partitions}


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
    cluster = read(Limits(LIMITS.config, (bare,), (), None, ()))
    gpu = cluster.partitions["gpu"]
    assert (gpu.nodes, gpu.cores_per_node, gpu.gpus_per_node, gpu.max_gpus) == (None, (), 0, None)
    assert (gpu.wall_time.default, gpu.wall_time.maximum) == (None, -1)


def test_odd_figures_make_a_catalog_all_the_same() -> None:
    small = dataclasses.replace(QOS, max_gpus=2)
    mixed = tuple(dataclasses.replace(one, cores=40 + n) for n, one in enumerate(NODES))
    odd = dataclasses.replace(LIMITS, qos=(small,), nodes=mixed)
    gpu = read(odd).partitions["gpu"]
    assert gpu.max_gpus is None  # less than one node has: the catalog would not take it
    assert gpu.cores_per_node == (40, 41, 42, 43)
    name = dataclasses.replace(LIMITS.config, cluster="my cluster: 1")
    assert read(dataclasses.replace(LIMITS, config=name)).name == "my-cluster--1"


def test_differences_figure_by_figure() -> None:
    slurm = read(LIMITS)
    assert differences(slurm, slurm) == ()
    gpu = dataclasses.replace(slurm.partitions["gpu"], max_gpus=24, node_list="n1,n[2-4]")
    ours = dataclasses.replace(slurm, partitions={"gpu": gpu, "old": gpu})
    assert differences(ours, slurm) == (
        Difference("gpu", "max_gpus", "24", "16"),
        Difference("old", "partition", "there", ""),
        Difference("cpu", "partition", "", "there"),
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
    drafted = yamlfile.parse(draft(LIMITS, "2026-11-21"), "draft", CatalogError)
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
