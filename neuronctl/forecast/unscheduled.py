"""The user's own jobs that Slurm has not looked at yet, and that start before a later one. Pure."""

from __future__ import annotations

import re
from itertools import islice
from typing import List, Sequence, Tuple

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
    asked = {name for node in nodes for name in node.partitions}
    usable = [n for n, node in enumerate(nodes) if is_usable(node) and not is_reserved(node)]
    placed = []
    for job in waiting:
        behind = job.start is not None or full & set(job.partitions)
        if job.reason and (job.reason != "Priority" or behind):
            continue
        # On nodes that were not asked about, there may be room for all of them.
        count = _place(job, nodes, usable) if asked & {*job.partitions} else job.count
        if count:
            placed.append(job.of(count))
    return Unscheduled(tuple(placed), tuple(nodes))


def _place(job: MyJob, nodes: List[SiteNode], usable: Sequence[int]) -> int:
    """Take what the job (all its tasks) gets from the nodes; how many of them found room.

    usable: the places of those where jobs start now. Each task gets the fullest of the nodes that
    have room for it. These are fuller then, so that the next task gets the same ones, while it
    fits.
    """
    at_once = re.search(r"%(\d+)", job.id.tasks or "")
    most = min(job.count, int(at_once[1])) if at_once else job.count
    gpus, cores = -(-(job.gpus or 0) // job.nodes), max(1, -(-(job.cores or 0) // job.nodes))
    fitting = []
    for place in usable:
        node = nodes[place]
        if not any(name in node.partitions for name in job.partitions):
            continue
        # What a site's own rules add to the cores is not known yet: at least a GPU's part of them.
        own = max(cores, node.cores * gpus // node.gpus) if node.gpus else cores
        free_gpus, free_cores = node.gpus - node.gpus_used, node.cores - node.cores_used
        room = min(free_gpus // gpus if gpus else most, free_cores // own)
        if room > 0:
            fitting.append((free_gpus, free_cores, place, own, room))
    others = iter(sorted(fitting))
    done = 0
    chosen: List[Tuple[int, int, int]] = []  # for how many tasks, the node's place, cores of one
    while done < most:
        chosen += (
            (room, place, own) for *_, place, own, room in islice(others, job.nodes - len(chosen))
        )
        if len(chosen) < job.nodes:
            break
        count = min(most - done, *(room for room, _, _ in chosen))
        for _, place, own in chosen:
            node = nodes[place]
            nodes[place] = replace(
                node,
                gpus_used=node.gpus_used + count * gpus,
                cores_used=node.cores_used + count * own,
            )
        chosen = [(room - count, place, own) for room, place, own in chosen if room > count]
        done += count
    return done
