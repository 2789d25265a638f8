"""The JSON Schema of a catalog file, for editors. Pure.

Its keys, and what most of them allow, are schema.py's, which reads the file and reports better
errors; a test keeps the rest in sync.
"""

from __future__ import annotations

from typing import Any, Dict

from neuronctl.catalog import model
from neuronctl.catalog.schema import CHOICES, EVIDENCE, KINDS, PLAIN, PRICES, fields

Schema = Dict[str, Any]

_NULL: Schema = {"type": "null"}
_DIRECTORY: Schema = {"type": "string", "pattern": "^/"}
_PLAIN: Schema = {"type": "string", "pattern": f"^[{PLAIN}]*$"}
_TIME: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {
            "type": "string",
            "pattern": "^([0-9]+-)?[0-9]+(:[0-9]+){0,2}$|^[0-9]+-$|^[Uu][Nn][Ll][Ii][Mm]",
        },
    ]
}
_CORES: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1},
    ]
}


def _object(model: type, **own: Schema) -> Schema:
    """A mapping with exactly the keys of a model; a null value removes the key.

    own: the schemas of keys that allow less, or something else, than the type of their field.
    """

    def value(key: str) -> Schema:
        if key in CHOICES:
            return {"enum": list(CHOICES[key])}
        return own[key] if key in own else dict(KINDS[model.__annotations__[key]][1])

    return {
        "type": ["object", "null"],
        "properties": {key: {"anyOf": [value(key), _NULL]} for key in fields(model)},
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
        fields={"type": "array", "items": _object(model.CommentField)},
        meanings=_by_name({"type": ["string", "null"]}),
    )
    policy = _object(
        model.Policy,
        submit_from=directories,
        comment=comment,
        forbidden_options=_by_name({"type": ["string", "null"]}),
        cores=_object(model.CorePolicy),
        memory_fraction={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        rules_off={"type": "array", "items": {"type": "string", "pattern": "^NC[0-9]+$"}},
    )
    price = _object(model.Price)
    prices = {**price, "properties": {key: price["properties"][key] for key in PRICES}}
    partition = _object(
        model.Partition,
        cores_per_node=_CORES,
        gpus_per_node={"type": "integer", "minimum": 0},
        wall_time=wall_time,
        price=prices,
    )
    qos = _object(
        model.Qos,
        priority={"type": "integer", "minimum": 0},
        flags={"type": "array", "items": {"enum": list(model.LIFTING)}, "uniqueItems": True},
        wall_time={
            "type": ["object", "null"],
            "properties": {"maximum": {"anyOf": [_TIME, _NULL]}},
            "additionalProperties": False,
        },
    )
    cluster = _object(
        model.Cluster,
        date={"type": ["string", "integer"]},
        partitions=_by_name(partition),
        wall_time=wall_time,
        policy=policy,
        environment=_by_name({"type": ["string", "integer", "null"]}),
        network=_object(model.Network, interface=_PLAIN, host_suffix=_PLAIN),
        containers=_object(model.Containers, image_dirs=directories),
        price=price,
        report=_object(model.ReportPolicy),
        scratch={"type": "string", "pattern": f"^/[/{{}}{PLAIN}]*$"},
        qos=_by_name(qos),
        evidence=_by_name({"type": ["string", "null"], "pattern": f"^{EVIDENCE}$"}),
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "neuronctl partition catalog",
        "type": "object",
        "properties": {"default_cluster": {"type": "string"}, "clusters": _by_name(cluster)},
        "additionalProperties": False,
    }
