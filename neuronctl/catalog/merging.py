"""Merge the catalog's layers into one, and check the result."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from neuronctl.catalog import schema
from neuronctl.catalog.model import Catalog, Location, Path
from neuronctl.common import yamlfile
from neuronctl.common.errors import CatalogError, did_you_mean
from neuronctl.common.yamlfile import path_key


def merge(layers: List[yamlfile.Document]) -> Catalog:
    """Merge layers, lowest first, into one catalog; raises CatalogError with all that is wrong."""
    data: Dict[str, Any] = {}
    places: Dict[Path, Location] = {}
    for layer in layers:
        _lay_over(data, layer.data, (), layer, places)
    files = tuple(layer.file for layer in layers)
    errors: Dict[Path, Tuple[Location, CatalogError]] = {}
    node = schema.Node(data, (), places, errors)
    node.check_keys(("default_cluster", "clusters"))
    below = node.below("clusters")
    clusters = {name: schema.read_cluster(name, below.below(name)) for name in below.present()}
    default = node.text("default_cluster")
    if default not in clusters and ("clusters",) not in errors:
        words = f"{default!r} is not a cluster"
        node.refuse("default_cluster", words, did_you_mean(default, clusters))
    if errors:
        ranked = sorted(errors.values(), key=lambda at: (files.index(at[0].file), at[0].line))
        first, *others = (error for _, error in ranked)
        first.others = tuple(others)
        raise first
    # A catalog's paths begin with the cluster; "clusters" itself would only add noise.
    found = {
        path[1:] if path[0] == "clusters" else path: place
        for path, place in places.items()
        if path != ("clusters",)
    }
    return Catalog(
        clusters,
        default,
        files,
        places={
            path_key(path): [files.index(place.file), place.line] for path, place in found.items()
        },
    )


def _lay_over(
    below: Dict[str, Any],
    above: Mapping[str, Any],
    path: Path,
    layer: yamlfile.Document,
    places: Dict[Path, Location],
) -> None:
    """Merge ``above`` into ``below``. A null keeps its key, so that the name is checked too."""
    for key, value in above.items():
        here = (*path, key)
        old = below.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _lay_over(old, value, here, layer, places)
            continue
        if isinstance(old, (dict, list)):
            for gone in [known for known in places if known[: len(here)] == here]:
                del places[gone]
        places[here] = Location(layer.file, layer.lines[path_key(here)])
        if isinstance(value, dict):
            below[key] = {}
            _lay_over(below[key], value, here, layer, places)
        else:
            below[key] = value
