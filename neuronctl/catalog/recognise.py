"""Which of the catalog's clusters this machine belongs to."""

from __future__ import annotations

from typing import Optional, Tuple

from neuronctl.catalog.model import Catalog, Cluster


def recognise(catalog: Catalog, asked: Optional[str] = None) -> Tuple[Cluster, str]:
    """The cluster asked for, else the one whose Slurm is configured here, else the default one.

    The second is how it was found: ``""`` where it was asked for. CatalogError where there is no
    cluster of the name asked for.
    """
    if asked is not None:
        return catalog.cluster(asked), ""
    from neuronctl.slurm.cluster import config_file, local_cluster

    here = local_cluster()
    for cluster in catalog.clusters.values():
        names = {cluster.name.lower(), *(one.lower() for one in cluster.slurm_cluster_names)}
        if here is not None and here in names:
            return cluster, f"ClusterName in {config_file()}"
    return catalog.cluster(), "the catalog's default"
