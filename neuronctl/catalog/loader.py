"""Find the catalog's layers, and load them, merged and checked.

From lowest to highest: the shipped partitions.yaml, /etc/neuronctl/partitions.yaml, the user's
partitions.yaml, $NEURONCTL_CATALOG, --catalog FILE. A layer contains only what it changes:
mappings are merged key by key, lists are replaced, and ``null`` removes a value, a partition, or a
cluster.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from neuronctl.catalog.cluster import Catalog, Cluster, Path, Place
from neuronctl.common import cache, yamlfile
from neuronctl.common.datatypes import given_fields
from neuronctl.common.errors import CatalogError, did_you_mean
from neuronctl.common.paths import config_dir, data_path, present
from neuronctl.common.restoring import NOT_RESTORED, restore
from neuronctl.common.yamlfile import path_key
from neuronctl.slurm.conf import config_file, local_cluster

SITE_FILE = "/etc/neuronctl/partitions.yaml"


def load(option_file: Optional[str] = None) -> Catalog:
    """Return the catalog of all layers; ``option_file`` is the value of ``--catalog``.

    Raises CatalogError with file and line. The site's and the user's files are optional; a file
    named by ``--catalog`` or $NEURONCTL_CATALOG must exist.
    """
    files = layer_files(option_file)
    texts = [text_of(file) for file in files]
    name = "\0".join(files)
    source = "\0".join([_stamp_code(), *texts])
    try:
        return restore(Catalog, cache.read("catalog", name, source))
    except NOT_RESTORED:
        pass
    layers = [yamlfile.parse(text, file, CatalogError) for file, text in zip(files, texts)]
    catalog = merge(layers)
    cache.write("catalog", name, given_fields(catalog), source)
    return catalog


def layer_files(option_file: Optional[str] = None) -> List[str]:
    """Return the files that load() merges, lowest first."""
    files = [data_path("partitions.yaml")]
    files += [file for file in (SITE_FILE, _own_file()) if present(file)]
    if option_file == "":
        raise CatalogError("--catalog: empty file name", "name a file, or omit the option")
    named = [os.environ.get("NEURONCTL_CATALOG"), option_file]
    return files + [os.path.expanduser(name) for name in named if name]


def text_of(file: str) -> str:
    """Return the text of a layer; refuse a site's or user's file that others may write."""
    return yamlfile.text_of(file, CatalogError, found=file in (SITE_FILE, _own_file()))


def _own_file() -> str:
    return os.path.join(config_dir(), "partitions.yaml")


def _stamp_code() -> str:
    """Return a text that changes with this package's code, for the cache; "" if it has no files."""
    try:
        return str(max(file.stat().st_mtime_ns for file in os.scandir(os.path.dirname(__file__))))
    except OSError:
        return ""


def recognize_cluster(catalog: Catalog, requested: Optional[str] = None) -> Tuple[Cluster, str]:
    """Return the requested cluster, else the one whose Slurm is configured here, else the default.

    The second value says how it was found: ``""`` if it was requested. Raises CatalogError if the
    requested cluster does not exist.
    """
    if requested is not None:
        return catalog.cluster(requested), ""
    here = local_cluster()
    for cluster in catalog.clusters.values():
        if here is not None and is_cluster(cluster, here):
            return cluster, f"ClusterName in {config_file()}"
    return catalog.cluster(), "the catalog's default"


def is_cluster(cluster: Cluster, name: str) -> bool:
    """Return True if ClusterName is one of the cluster's names, in any case."""
    names = {cluster.name.lower(), *(alias.lower() for alias in cluster.slurm_cluster_names)}
    return name.lower() in names


def merge(layers: List[yamlfile.Document]) -> Catalog:
    """Merge layers, lowest first, into one catalog; raise CatalogError with all that is wrong."""
    from neuronctl.catalog import schema

    data: Dict[str, Any] = {}
    places: Dict[Path, Place] = {}
    for number, layer in enumerate(layers):
        _lay_over(data, layer.data, (), (number, layer.lines), places)

    files = tuple(layer.file for layer in layers)
    errors: Dict[Path, schema.Mistake] = {}
    node = schema.Node(data, (), places, errors)
    node.check_keys(("default_cluster", "clusters"))
    entries = node.below("clusters")
    clusters = {name: schema.read_cluster(name, entries.below(name)) for name in entries.present()}
    default = node.read("default_cluster")
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

    # The catalog's paths begin with the cluster: "clusters" is left out.
    by_key = {
        path_key(path[1:] if path[0] == "clusters" else path): list(place)
        for path, place in places.items()
        if path != ("clusters",)
    }
    return Catalog(clusters, default, files, by_key)


def _lay_over(
    below: Dict[str, Any],
    above: Mapping[str, Any],
    path: Path,
    layer: Tuple[int, Mapping[str, int]],
    places: Dict[Path, Place],
) -> None:
    """Merge ``above`` into ``below``; a null is stored as None, which hides the value below.

    path: the keys that lead to both mappings. layer: the number of the layer with ``above``, and
    the line of each of its keys. places: by path, the number and line of the layer that sets it.
    """
    for key, value in above.items():
        key_path = (*path, key)
        old = below.get(key)
        merges = isinstance(value, dict) and isinstance(old, dict)
        if not merges:
            if isinstance(old, (dict, list)):  # what it contains has no place any more
                depth = len(key_path)
                for replaced in [path for path in places if path[:depth] == key_path]:
                    del places[replaced]
            number, lines = layer
            places[key_path] = number, lines[path_key(key_path)]
            below[key] = {} if isinstance(value, dict) else value
        if isinstance(value, dict):
            _lay_over(below[key], value, key_path, layer, places)
