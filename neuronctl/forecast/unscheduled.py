"""The user's jobs that Slurm has not considered yet and that start before a later one. Pure."""

from __future__ import annotations

import re
from bisect import insort
from itertools import islice
from typing import Dict, Iterator, List, Mapping, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.forecast.snapshot import Snapshot, is_reserved, is_usable
from neuronctl.slurm.answers import MyJob
from neuronctl.slurm.job_states import WAITING

_Room = Tuple[int, int, int, int, Tuple[str, ...]]
"""A node's free GPUs and cores, all its GPUs and cores, and its partitions."""
_Rooms = Dict[_Room, List[Tuple[int, str]]]
"""The names of nodes with the same room, each after its length: gpu9 comes before gpu10."""


@dataclass(frozen=True)
class Unscheduled:
    """jobs: those with room to start now; ``count`` is how many of each have room.

    taken: the cores and GPUs that they get, by node.
    """

    jobs: Tuple[MyJob, ...]
    taken: Mapping[str, Tuple[int, int]]


def unscheduled(snapshot: Snapshot) -> Unscheduled:
    """Those that wait for nothing yet.

    Of jobs submitted at the same moment, Slurm gives the first the reason None and the rest
    Priority, which is also the reason of a job that is queued after others for nodes.
    """
    waiting = [job for job in snapshot.jobs if job.state in WAITING]
    full = {name for job in waiting if job.reason == "Resources" for name in job.partitions}

    def is_unscheduled(job: MyJob) -> bool:
        behind = job.start is not None or full & set(job.partitions)
        return not job.reason or (job.reason == "Priority" and not behind)

    waiting = [job for job in waiting if is_unscheduled(job)]
    if not waiting:  # each partition of a site is judged, and there may be thousands of nodes
        return Unscheduled((), {})
    asked = {name for group in snapshot.nodes for name in group.partitions}
    rooms: _Rooms = {}
    for group in snapshot.nodes:
        if is_usable(group) and not is_reserved(group):
            gpus, cores = group.gpus - group.gpus_used, group.cores - group.cores_used
            room = gpus, cores, group.gpus, group.cores, group.partitions
            rooms.setdefault(room, []).extend((len(name), name) for name in group.names)
    for names in rooms.values():
        names.sort()
    placed = []
    taken: Dict[str, Tuple[int, int]] = {}
    for job in waiting:
        # On nodes that were not asked about, there may be room for all of them.
        count = _place(job, rooms, taken) if asked & {*job.partitions} else job.count
        if count:
            placed.append(job.of(count))
    return Unscheduled(tuple(placed), taken)


def _place(job: MyJob, rooms: _Rooms, taken: Dict[str, Tuple[int, int]]) -> int:
    """Take what the job (all its tasks) gets from the nodes; how many of them found room.

    rooms: the nodes where jobs start now. Each task gets the fullest of the nodes that have room
    for it. These are fuller then, so that the next task gets the same ones, while it fits.
    """
    at_once = re.search(r"%(\d+)", job.id.tasks or "")
    most = min(job.count, int(at_once[1])) if at_once else job.count
    gpus, cores = -(-(job.gpus or 0) // job.nodes), max(1, -(-(job.cores or 0) // job.nodes))
    partitions = set(job.partitions)

    def fitting() -> Iterator[Tuple[int, int, _Room, Tuple[int, str]]]:
        for room in sorted(rooms):
            free_gpus, free_cores, all_gpus, all_cores, of = room
            # What a site's own rules add to the cores is not known yet: at least a GPU's part.
            own = max(cores, all_cores * gpus // all_gpus) if all_gpus else cores
            times = min(free_gpus // gpus if gpus else most, free_cores // own)
            if times > 0 and not partitions.isdisjoint(of):
                yield from ((times, own, room, name) for name in rooms[room])

    done = 0
    while done < most:
        chosen = list(islice(fitting(), job.nodes))
        if len(chosen) < job.nodes:
            break
        count = min(most - done, *(times for times, *_ in chosen))
        done += count
        for _, own, room, name in chosen:
            before = taken.get(name[1], (0, 0))
            taken[name[1]] = before[0] + count * own, before[1] + count * gpus
            rooms[room].remove(name)
            if not rooms[room]:
                del rooms[room]
            left = (room[0] - count * gpus, room[1] - count * own, *room[2:])
            insort(rooms.setdefault(left, []), name)
    return done
