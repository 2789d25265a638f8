"""The JSON Schema of a catalog file, for editors. Pure.

It has the same keys as schema.py, which reports better errors; a test keeps the two in sync.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, Mapping

from neuronctl.catalog import model
from neuronctl.catalog.schema import ARCHITECTURES, fields

Schema = Dict[str, Any]

_NULL: Schema = {"type": "null"}
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_BOOLEAN: Schema = {"type": "boolean"}
_DIRECTORY: Schema = {"type": "string", "pattern": "^/"}
_TIME: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": "^([0-9]+-)?[0-9]+(:[0-9]+){0,2}$|^[Uu][Nn][Ll][Ii][Mm]"},
    ]
}
_CORES: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1},
    ]
}


def _whole(least: int) -> Schema:
    return {"type": "integer", "minimum": least}


def _choice(*words: str) -> Schema:
    return {"enum": list(words)}


def _object(kind: type, properties: Mapping[str, Schema]) -> Schema:
    """A mapping with exactly the keys of a model; a null value removes the key."""
    assert set(properties) == set(fields(kind)), set(properties) ^ set(fields(kind))
    return {
        "type": ["object", "null"],
        "properties": {key: {"anyOf": [value, _NULL]} for key, value in properties.items()},
        "additionalProperties": False,
    }


def _by_name(values: Schema) -> Schema:
    return {"type": ["object", "null"], "additionalProperties": values}


def catalog_schema() -> Schema:
    """The schema of a partitions.yaml: a complete catalog, or a layer with only what differs."""
    wall_time = _object(model.WallTime, {key: _TIME for key in fields(model.WallTime)})
    comment = _object(
        model.CommentPolicy,
        {
            "required": _BOOLEAN,
            "form": _choice("any", "word", "fields"),
            "values": _TEXTS,
            "fields": {
                "type": "array",
                "items": _object(model.CommentField, {"key": _TEXT, "values": _TEXTS}),
            },
            "meanings": _by_name({"type": ["string", "null"]}),
        },
    )
    policy = _object(
        model.Policy,
        {
            "submit_from": {"type": "array", "items": _DIRECTORY},
            "comment": comment,
            "forbidden_options": _by_name({"type": ["string", "null"]}),
            "gpu_option": _choice("gres", "gpus-per-node"),
            "gpus_required": _BOOLEAN,
            "cores": _object(
                model.CorePolicy,
                {"rule": _choice("cap", "default", "none"), "cores_per_gpu": _whole(1)},
            ),
            "memory_fraction": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            "account_required": _BOOLEAN,
            "qos_required": _BOOLEAN,
            "srun_options": _TEXTS,
            "login_shell": _BOOLEAN,
            "rules_off": {"type": "array", "items": {"type": "string", "pattern": "^NC[0-9]+$"}},
        },
    )
    partition = _object(model.Partition, _partition(wall_time))
    values: Dict[str, Schema] = {
        "title": _TEXT,
        "source": _TEXT,
        "date": {"type": ["string", "integer"]},
        "partitions": _by_name(partition),
        "slurm_cluster_names": _TEXTS,
        "arch": _choice(*ARCHITECTURES),
        "wall_time": wall_time,
        "policy": policy,
        "modules": _TEXTS,
        "environment": _by_name({"type": ["string", "integer", "null"]}),
        "network": _object(model.Network, {"interface": _TEXT, "host_suffix": _TEXT}),
        "containers": _object(
            model.Containers,
            {
                "runtime": _choice("singularity", "apptainer"),
                "image_dirs": {"type": "array", "items": _DIRECTORY},
            },
        ),
        "scratch": _DIRECTORY,
        "default_partition": _TEXT,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "neuronctl partition catalog",
        "type": "object",
        "properties": {
            "default_cluster": _TEXT,
            "clusters": _by_name(_object(model.Cluster, values)),
        },
        "additionalProperties": False,
    }


_PARTITION: Dict[str, Callable[[], Schema]] = {
    "cores_per_node": lambda: _CORES,
    "gpus_per_node": lambda: _whole(0),
    "arch": lambda: _choice(*ARCHITECTURES),
    "open": lambda: _BOOLEAN,
}


def _partition(wall_time: Schema) -> Dict[str, Schema]:
    properties: Dict[str, Schema] = {}
    for field in dataclasses.fields(model.Partition):
        if field.name == "name":
            continue
        if field.name == "wall_time":
            properties[field.name] = wall_time
        elif field.name in _PARTITION:
            properties[field.name] = _PARTITION[field.name]()
        else:
            properties[field.name] = _whole(1) if "int" in str(field.type) else _TEXT
    return properties
