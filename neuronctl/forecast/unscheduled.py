"""The user's own jobs that Slurm has not looked at yet, and that start before a later one. Pure."""

from __future__ import annotations

import dataclasses
import re
from typing import List, Optional, Tuple

from neuronctl.forecast.facts import Limit, Live, usable
from neuronctl.frozen import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.slurm.scontrol import SiteNode
    from neuronctl.slurm.snapshot import MyJob


@dataclass(frozen=True)
class Soon:
    """jobs: those that find room now, ``count`` as many of each as do. nodes: what they leave."""

    jobs: Tuple[MyJob, ...]
    nodes: Tuple[SiteNode, ...]

    def within(self, jobs: Optional[Limit], gpus: Optional[Limit]) -> Tuple[MyJob, ...]:
        """Those that the limits of running jobs and of GPUs let start, as many as they let; of
        those that count for neither limit, none.
        """
        left = [float("inf") if one is None else one.figure - one.used for one in (jobs, gpus)]
        counted = [{job.id for job in one.jobs} for one in (jobs, gpus) if one is not None]
        found = []
        for one in self.jobs:
            if not any(one.id in ids for ids in counted):
                continue
            each = one.gpus or 0
            count = int(max(0, min(one.count, left[0], left[1] // each if each else left[0])))
            if count:
                found.append(dataclasses.replace(one, count=count))
                left = [left[0] - count, left[1] - count * each]
        return tuple(found)


def soon(live: Live) -> Soon:
    """Those that wait for nothing yet.

    Of jobs submitted at the same moment, Slurm calls the first one's reason None, and that of
    the others Priority, which is also what a job has that waits behind others for nodes.
    """
    waiting = [one for one in live.jobs if one.state == "PENDING"]
    full = {name for one in waiting if one.reason == "Resources" for name in one.partitions}
    nodes = list(live.nodes)
    found = []
    for one in waiting:
        behind = one.start is not None or full & set(one.partitions)
        if one.reason and (one.reason != "Priority" or behind):
            continue
        count = _place(one, nodes)
        if count:
            found.append(dataclasses.replace(one, count=count))
    return Soon(tuple(found), tuple(nodes))


def _place(job: MyJob, nodes: List[SiteNode]) -> int:
    """Take what the job (all its tasks) gets from the nodes; how many of them found room."""
    if not any(set(job.partitions) & set(one.partitions) for one in nodes):
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
    """The nodes one of them gets, as they are then: those with the least room that have enough."""
    gpus = -(-(job.gpus or 0) // job.nodes)
    fitting = []
    for place, one in enumerate(nodes):
        # What a site's own rules add to the cores is not known yet: at least a GPU's part of them.
        cores = max(1, -(-(job.cores or 0) // job.nodes))
        if one.gpus and gpus:
            cores = max(cores, one.cores * gpus // one.gpus)
        if (
            set(job.partitions) & set(one.partitions)
            and usable(one)
            and one.gpus - one.gpus_used >= gpus
            and one.cores - one.cores_used >= cores
        ):
            room = (one.gpus - one.gpus_used, one.cores - one.cores_used)
            used = dataclasses.replace(
                one, gpus_used=one.gpus_used + gpus, cores_used=one.cores_used + cores
            )
            fitting.append((room, place, used))
    if len(fitting) < job.nodes:
        return None
    fitting.sort(key=lambda one: one[:2])
    return [(place, used) for _, place, used in fitting[: job.nodes]]
