"""Limits of cores, nodes, memory and GPUs of one job, or of all jobs of one user. Pure."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Set, Tuple

from neuronctl import units
from neuronctl.frozen import dataclass
from neuronctl.live.facts import Live, jobs_in, qos_in_force, running
from neuronctl.live.shared import Excess
from neuronctl.plan import JobPlan
from neuronctl.rules.base import gpus_held

_NAMES = {"cpu": "cores", "node": "nodes", "gres/gpu": "GPUs", "mem": "MB of memory"}
_A_USER = {
    "cpu": "QOSMaxCpuPerUserLimit",
    "node": "QOSMaxNodePerUserLimit",
    "mem": "QOSMaxMemoryPerUser",
}


@dataclass(frozen=True)
class Sizes:
    """What a job comes to, by Slurm's names; what is not known is not in it."""

    job: Dict[str, int]
    node: Dict[str, int]


def excesses(plan: JobPlan, live: Live) -> Iterator[Excess]:
    """The limits it breaks: by itself (``alone``), or with the user's other jobs."""
    if not live.enforced:
        return
    size = _sizes(plan, live)
    for kind, thing, figure, where, source in _limits(plan, live):
        name = _NAMES[thing]
        each = size.node if kind.endswith("Node") else size.job
        if thing not in each:
            continue
        wanted = each[thing]
        ever = "Slurm may take it and never start it"
        if kind == "MinTRES" and wanted < figure:
            words = f"{wanted} {name} are asked for, a job of {where} must have {figure}; {ever}"
            yield Excess(words, "", source, alone=True)
        elif kind != "MinTRES" and wanted > figure:
            whose = {"MaxTRES": "a job", "MaxTRESPerNode": "a job's node", "MaxTRESPU": "a user"}
            words = f"{wanted} {name} are asked for, {whose.get(kind, 'an account')} of {where} "
            yield Excess(f"{words}may have {figure}; {ever}", "", source, alone=True)
        elif kind == "MaxTRESPU" and thing in ("cpu", "node"):
            held = _held(thing, where.partition(" ")[2], live)
            if held + wanted > figure:
                words = f"you hold {held} of {figure} {name} in {where}; {wanted} more will wait "
                yield Excess(
                    words + "until some of your jobs end, when is not known", _A_USER[thing], source
                )


def unknown(plan: JobPlan, live: Live) -> Tuple[str, ...]:
    """The limits in force of which it is not known how much is left."""
    if not live.enforced:
        return ()
    said = [
        f"{qos.name} limits what an account runs ({text}); what is left of that is not known"
        for qos in qos_in_force(plan, live)
        for text in qos.more
        if text.partition(" ")[0] in ("MaxTRESPA", "MaxJobsPA", "MaxSubmitPA")
    ]
    return tuple(said)


def _limits(plan: JobPlan, live: Live) -> Iterator[Tuple[str, str, int, str, str]]:
    """(kind, thing, figure, whose, source); of several with one kind and thing the first counts."""
    found: List[Tuple[Tuple[str, ...], str, str]] = [
        (qos.more, f"QOS {qos.name}", live.said(f"sacctmgr show qos {qos.name}"))
        for qos in qos_in_force(plan, live)
    ]
    association = live.association(plan)
    if association is not None:
        source = live.said("sacctmgr show associations")
        found.append((association.more, f"account {association.account}", source))
    seen: Set[Tuple[str, str]] = set()
    for texts, where, source in found:
        for text in texts:
            kind, _, limit = text.partition(" ")
            thing, _, value = limit.partition("=")
            figure = _figure(thing, value)
            # How many GPUs a user holds, and a job may have by its QOS, is looked at elsewhere.
            mine = thing == "gres/gpu" and (
                kind == "MaxTRESPU" or (kind == "MaxTRES" and where.startswith("QOS"))
            )
            if figure is None or thing not in _NAMES or mine or (kind, thing) in seen:
                continue
            seen.add((kind, thing))
            yield kind, thing, figure, where, source


def _figure(thing: str, value: str) -> Optional[int]:
    try:
        return units.parse_memory(value) if thing == "mem" else int(value)
    except ValueError:
        return None


def _sizes(plan: JobPlan, live: Live) -> Sizes:
    cores = plan.cores_per_node
    gpus = plan.gpus_per_node
    if plan.request.exclusive:
        cores = max(cores, min(plan.partition.cores_per_node, default=0))
        gpus = gpus_held(plan) // plan.nodes
    node = {"cpu": cores, "gres/gpu": gpus}
    here = live.partition(plan.partition.name)
    if plan.request.mem is not None:
        node["mem"] = units.parse_memory(plan.request.mem)
    elif here is not None and here.memory_mb_per_cpu and live.limits.config.memory_counts:
        node["mem"] = here.memory_mb_per_cpu * cores
    job = {name: plan.nodes * count for name, count in node.items()}
    job["node"] = plan.nodes
    return Sizes(job, node)


def _held(thing: str, qos: str, live: Live) -> int:
    """What the user's running jobs hold in a QOS."""
    jobs = running(jobs_in(qos, live))
    return sum(one.count * ((one.cores or 0) if thing == "cpu" else one.nodes) for one in jobs)
