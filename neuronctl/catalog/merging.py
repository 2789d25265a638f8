"""Merge the catalog's layers into one, and check the result."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from neuronctl.catalog import schema
from neuronctl.catalog.model import Catalog, Path, Place
from neuronctl.common import yamlfile
from neuronctl.common.errors import CatalogError, did_you_mean
from neuronctl.common.yamlfile import path_key


def merge(layers: List[yamlfile.Document]) -> Catalog:
    """Merge layers, lowest first, into one catalog; raise CatalogError with all that is wrong."""
    data: Dict[str, Any] = {}
    places: Dict[Path, Place] = {}
    for number, layer in enumerate(layers):
        _lay_over(data, layer.data, (), (number, layer.lines), places)
    files = tuple(layer.file for layer in layers)
    errors: Dict[Path, schema.Mistake] = {}
    node = schema.Node(data, (), places, errors)
    node.check_keys(("default_cluster", "clusters"))
    below = node.below("clusters")
    clusters = {name: schema.read_cluster(name, below.below(name)) for name in below.present()}
    default = node.text("default_cluster")
    if default not in clusters and ("clusters",) not in errors:
        words = f"{default!r} is not a cluster"
        node.refuse("default_cluster", words, did_you_mean(default, clusters))
    if errors:
        first, *others = (
            CatalogError(f"{files[number]}:{line}: {message}", hint)
            for (number, line), message, hint in sorted(errors.values())
        )
        first.others = tuple(others)
        raise first
    # A catalog's paths begin with the cluster; "clusters" itself would only add noise.
    found = {
        path_key(path[1:] if path[0] == "clusters" else path): list(place)
        for path, place in places.items()
        if path != ("clusters",)
    }
    return Catalog(clusters, default, files, found)


def _lay_over(
    below: Dict[str, Any],
    above: Mapping[str, Any],
    path: Path,
    layer: Tuple[int, Mapping[str, int]],
    places: Dict[Path, Place],
) -> None:
    """Merge ``above`` into ``below``; a null keeps its key. layer: its number and lines."""
    for key, value in above.items():
        here = (*path, key)
        old = below.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _lay_over(old, value, here, layer, places)
            continue
        if isinstance(old, (dict, list)):
            for gone in [known for known in places if known[: len(here)] == here]:
                del places[gone]
        number, lines = layer
        places[here] = number, lines[path_key(here)]
        if isinstance(value, dict):
            below[key] = {}
            _lay_over(below[key], value, here, layer, places)
        else:
            below[key] = value
