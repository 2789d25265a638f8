"""The user's own jobs that Slurm has not looked at yet, and that start before a later one. Pure."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from neuronctl.forecast.snapshot import Snapshot, is_reserved, is_usable
from neuronctl.frozen import dataclass, replace
from neuronctl.slurm.scontrol import SiteNode
from neuronctl.slurm.snapshot import MyJob


@dataclass(frozen=True)
class Unscheduled:
    """jobs: those that find room now, ``count`` as many of each as do. nodes: what they leave."""

    jobs: Tuple[MyJob, ...]
    nodes: Tuple[SiteNode, ...]


def unscheduled(snapshot: Snapshot) -> Unscheduled:
    """Those that wait for nothing yet.

    Of jobs submitted at the same moment, Slurm gives the first the reason None and the rest
    Priority, which is also the reason of a job that is queued after others for nodes.
    """
    waiting = [job for job in snapshot.jobs if job.state == "PENDING"]
    full = {name for job in waiting if job.reason == "Resources" for name in job.partitions}
    nodes = list(snapshot.nodes)
    placed = []
    for job in waiting:
        behind = job.start is not None or full & set(job.partitions)
        if job.reason and (job.reason != "Priority" or behind):
            continue
        count = _place(job, nodes)
        if count:
            placed.append(job.of(count))
    return Unscheduled(tuple(placed), tuple(nodes))


def _place(job: MyJob, nodes: List[SiteNode]) -> int:
    """Take what the job (all its tasks) gets from the nodes; how many of them found room."""
    if not any(set(job.partitions) & set(node.partitions) for node in nodes):
        return job.count  # of nodes that were not asked about
    at_once = re.search(r"%(\d+)", job.id.tasks or "")
    most = min(job.count, int(at_once[1])) if at_once else job.count
    for done in range(most):
        share = _share(job, nodes)
        if share is None:
            return done
        for place, used in share:
            nodes[place] = used
    return most


def _share(job: MyJob, nodes: List[SiteNode]) -> Optional[List[Tuple[int, SiteNode]]]:
    """The nodes that one task gets, as they are then: of those with enough room the fullest."""
    gpus = -(-(job.gpus or 0) // job.nodes)
    fitting = []
    for place, node in enumerate(nodes):
        # What a site's own rules add to the cores is not known yet: at least a GPU's part of them.
        cores = max(1, -(-(job.cores or 0) // job.nodes))
        if node.gpus and gpus:
            cores = max(cores, node.cores * gpus // node.gpus)
        free_gpus, free_cores = node.gpus - node.gpus_used, node.cores - node.cores_used
        usable = is_usable(node) and not is_reserved(node)
        shared = set(job.partitions) & set(node.partitions)
        if shared and usable and free_gpus >= gpus and free_cores >= cores:
            used = replace(
                node, gpus_used=node.gpus_used + gpus, cores_used=node.cores_used + cores
            )
            fitting.append(((free_gpus, free_cores), place, used))
    if len(fitting) < job.nodes:
        return None
    fitting.sort(key=lambda entry: entry[:2])
    return [(place, used) for _, place, used in fitting[: job.nodes]]
