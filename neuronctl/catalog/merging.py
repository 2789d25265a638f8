"""Merge the catalog's layers into one, and check the result."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Dict, List, Mapping, Tuple

from neuronctl.catalog import schema
from neuronctl.catalog.model import Catalog, Cluster, Location, Path, WallTime, path_key
from neuronctl.catalog.yaml_mapping import EMPTY_HINT, CheckedMapping
from neuronctl.common import yamlfile
from neuronctl.common.errors import did_you_mean


def merge(layers: List[yamlfile.Document]) -> Catalog:
    """Merge layers, lowest first, into one catalog; raises CatalogError with all that is wrong."""
    data: Dict[str, Any] = {}
    locations: Dict[Path, Location] = {}
    for layer in layers:
        _lay_over(data, layer.data, (), layer, locations)
    # Catalog paths begin with the cluster; "clusters" itself would only add noise.
    files = tuple(layer.file for layer in layers)
    node = CheckedMapping(data, (), locations, files)
    node.check_keys(("default_cluster", "clusters"))
    clusters: Dict[str, Cluster] = {}
    clusters_node = node.mapping("clusters")
    for name in clusters_node.present():
        clusters[name] = schema.cluster(name, clusters_node.mapping(name))
    default = node.text("default_cluster", "")
    if not clusters and not clusters_node.wrong():
        below = [("clusters", name) for name in clusters_node.data]
        node.refuse("clusters", "all clusters are removed", EMPTY_HINT, *below)
    elif default and clusters_node.data.get(default, "") is None:
        clusters_node.refuse(default, "has no value but is the default_cluster", EMPTY_HINT)
    elif default not in clusters and not clusters_node.wrong():
        node.refuse(
            "default_cluster",
            f"{default!r} is not a cluster",
            did_you_mean(default, clusters),
            ("clusters",),
            ("clusters", default),
        )
    _check_slurm_names(clusters, clusters_node)
    if node.errors:
        first, *others = (error for _, error in sorted(node.errors.values(), key=itemgetter(0)))
        first.others = tuple(others)
        raise first
    found = {
        path[1:] if path[0] == "clusters" else path: place
        for path, place in locations.items()
        if path != ("clusters",)
    }
    _inherit(clusters, found)
    return Catalog(
        clusters,
        default,
        files,
        places={
            path_key(path): [files.index(place.file), place.line] for path, place in found.items()
        },
        sources={layer.file: _sources(layer) for layer in layers},
    )


def _check_slurm_names(clusters: Mapping[str, Cluster], node: CheckedMapping) -> None:
    """Reject a ClusterName that would identify two clusters."""
    owners: Dict[str, str] = {}
    for name, cluster in clusters.items():
        for alias in dict.fromkeys((name, *cluster.slurm_cluster_names)):
            other = owners.setdefault(alias.lower(), name)
            if other != name:
                node.refuse(
                    name,
                    f"the ClusterName {alias!r} already belongs to {other}",
                    "a cluster's name and its slurm_cluster_names must be unique: change one",
                    (name, "slurm_cluster_names"),
                    (other, "slurm_cluster_names"),
                )


def _sources(layer: yamlfile.Document) -> Dict[str, str]:
    found: Dict[str, str] = {}
    clusters = layer.data.get("clusters")
    for name, cluster in clusters.items() if isinstance(clusters, dict) else ():
        if isinstance(cluster, dict):
            said = [str(cluster[key]) for key in ("source", "date") if cluster.get(key)]
            found[name] = ", ".join(said)
    return found


def _lay_over(
    below: Dict[str, Any],
    above: Mapping[str, Any],
    path: Path,
    layer: yamlfile.Document,
    locations: Dict[Path, Location],
) -> None:
    """Merge ``above`` into ``below``. A null keeps its key, so that the name is checked too."""
    for key, value in above.items():
        here = (*path, key)
        place = Location(layer.file, layer.lines[here])
        old = below.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _lay_over(old, value, here, layer, locations)
            continue
        if isinstance(old, (dict, list)):
            for gone in [known for known in locations if known[: len(here)] == here]:
                del locations[gone]
        locations[here] = place
        if isinstance(value, dict):
            below[key] = {}
            _lay_over(below[key], value, here, layer, locations)
        else:
            below[key] = value


def _inherit(clusters: Mapping[str, Cluster], locations: Dict[Path, Location]) -> None:
    """Record where the values that a partition inherits were read from."""
    wall_time: type = WallTime
    for name, cluster in clusters.items():
        for partition in cluster.partitions:
            base = (name, "partitions", partition)
            pairs: List[Tuple[Path, Path]] = [
                ((*base, "wall_time", key), (name, "wall_time", key))
                for key in schema.fields(wall_time)
            ]
            pairs += [((*base, "arch"), (name, "arch")), ((*base, "nodes"), (*base, "node_list"))]
            for wanted, source in pairs:
                if wanted not in locations and source in locations:
                    locations[wanted] = locations[source]
