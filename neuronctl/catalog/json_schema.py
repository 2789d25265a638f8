"""The JSON Schema of a catalog file, for editors. Pure.

It has the same keys as schema.py, which reports better errors; a test keeps the two in sync.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from neuronctl.catalog import model
from neuronctl.catalog.schema import ARCHITECTURES, EVIDENCE, PLAIN, fields

Schema = Dict[str, Any]

_NULL: Schema = {"type": "null"}
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_BOOLEAN: Schema = {"type": "boolean"}
_DIRECTORY: Schema = {"type": "string", "pattern": "^/"}
_PLAIN: Schema = {"type": "string", "pattern": f"^[{PLAIN}]*$"}
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


_OF_TYPE: Mapping[str, Schema] = {
    "str": _TEXT,
    "Optional[str]": _TEXT,
    "Optional[int]": _whole(1),
    "bool": _BOOLEAN,
    "Tuple[str, ...]": _TEXTS,
}


def _object(model: type, **own: Schema) -> Schema:
    """A mapping with exactly the keys of a model; a null value removes the key.

    own: the schemas of keys that allow less, or something else, than the type of their field.
    """
    types = model.__annotations__
    values = {key: own[key] if key in own else _OF_TYPE[types[key]] for key in fields(model)}
    return {
        "type": ["object", "null"],
        "properties": {key: {"anyOf": [value, _NULL]} for key, value in values.items()},
        "additionalProperties": False,
    }


def _by_name(values: Schema) -> Schema:
    return {"type": ["object", "null"], "additionalProperties": values}


def catalog_schema() -> Schema:
    """The schema of a partitions.yaml: a complete catalog, or a layer with only what differs."""
    wall_time = _object(model.WallTime, **dict.fromkeys(fields(model.WallTime), _TIME))
    directories: Schema = {"type": "array", "items": _DIRECTORY}
    comment = _object(
        model.CommentPolicy,
        form=_choice("any", "word", "fields"),
        fields={"type": "array", "items": _object(model.CommentField)},
        meanings=_by_name({"type": ["string", "null"]}),
    )
    policy = _object(
        model.Policy,
        submit_from=directories,
        comment=comment,
        forbidden_options=_by_name({"type": ["string", "null"]}),
        gpu_option=_choice("gres", "gpus-per-node"),
        cores=_object(model.CorePolicy, rule=_choice("cap", "default", "none")),
        memory_fraction={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        rules_off={"type": "array", "items": {"type": "string", "pattern": "^NC[0-9]+$"}},
    )
    arch = _choice(*ARCHITECTURES)
    partition = _object(
        model.Partition,
        cores_per_node=_CORES,
        gpus_per_node=_whole(0),
        arch=arch,
        wall_time=wall_time,
    )
    cluster = _object(
        model.Cluster,
        date={"type": ["string", "integer"]},
        partitions=_by_name(partition),
        arch=arch,
        wall_time=wall_time,
        policy=policy,
        environment=_by_name({"type": ["string", "integer", "null"]}),
        network=_object(model.Network, interface=_PLAIN, host_suffix=_PLAIN),
        containers=_object(
            model.Containers, runtime=_choice("singularity", "apptainer"), image_dirs=directories
        ),
        scratch={"type": "string", "pattern": f"^/[/{{}}{PLAIN}]*$"},
        evidence=_by_name({"type": ["string", "null"], "pattern": f"^{EVIDENCE}$"}),
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "neuronctl partition catalog",
        "type": "object",
        "properties": {"default_cluster": _TEXT, "clusters": _by_name(cluster)},
        "additionalProperties": False,
    }
