"""Limits of cores, nodes, memory and GPUs of one job, or of all jobs of one user. Pure."""

from __future__ import annotations

from typing import Iterator, List, Optional, Set, Tuple

from neuronctl import units
from neuronctl.forecast.facts import Live, jobs_in, qos_in_force, running
from neuronctl.forecast.group_limits import Excess
from neuronctl.forecast.tres import NAMES, amounts
from neuronctl.planning import JobPlan

_A_USER = {
    "cpu": "QOSMaxCpuPerUserLimit",
    "node": "QOSMaxNodePerUserLimit",
    "mem": "QOSMaxMemoryPerUser",
}


def excesses(plan: JobPlan, live: Live) -> Iterator[Excess]:
    """The limits it breaks: by itself (``alone``), or with the user's other jobs."""
    yield from _of_partition(plan, live)
    if not live.enforced:
        return
    size = amounts(plan, live)
    for kind, thing, figure, where, source in _limits(plan, live):
        name = NAMES[thing]
        each = size.node if kind.endswith("Node") else size.job
        if thing not in each:
            continue
        wanted = each[thing]
        if kind == "MaxTRESMins":
            if size.minutes is None:
                continue
            wanted, name = wanted * size.minutes, f"{name} times minutes"
        ever = "Slurm may take it and never start it"
        if kind == "MinTRES" and wanted < figure:
            words = f"{wanted} {name} are asked for, a job of {where} must have {figure}; {ever}"
            yield Excess(words, "", source, alone=True)
        elif kind != "MinTRES" and wanted > figure:
            whose = {"MaxTRES": "a job", "MaxTRESPerNode": "a job's node", "MaxTRESPU": "a user"}
            whose["MaxTRESMins"] = "a job"
            words = f"{wanted} {name} are asked for, {whose.get(kind, 'an account')} of {where} "
            yield Excess(f"{words}may have {figure}; {ever}", "", source, alone=True)
        elif kind == "MaxTRESPU" and thing in ("cpu", "node"):
            held = _held(thing, where.partition(" ")[2], live)
            if held + wanted > figure:
                words = f"you hold {held} of {figure} {name} in {where}; {wanted} more will wait "
                yield Excess(
                    words + "until some of your jobs end, when is not known", _A_USER[thing], source
                )


def _of_partition(plan: JobPlan, live: Live) -> Iterator[Excess]:
    here = live.partition(plan.partition.name)
    if here is None:
        return
    each = amounts(plan, live).node
    for thing, most, name in (
        ("cpu", here.max_cores_per_node, "MaxCPUsPerNode"),
        ("mem", here.max_memory_mb_per_node, "MaxMemPerNode"),
    ):
        if most is not None and each.get(thing, 0) > most:
            words = f"{each[thing]} {NAMES[thing]} a node are asked for, {here.name} gives a job "
            source = live.said(f"scontrol show partition {here.name}")
            yield Excess(f"{words}at most {most} ({name})", "", source, alone=True)


def unknown(plan: JobPlan, live: Live) -> Tuple[str, ...]:
    """The limits in force of which it is not known how much is left, or what they come to."""
    said = list(_doubts_of_partition(plan, live))
    if not live.enforced:
        return tuple(said)
    size = amounts(plan, live)
    said += [
        f"{where} limits {kind} {thing}={figure}; what the job takes of that is not known"
        for kind, thing, figure, where, _ in _limits(plan, live)
        if thing not in (size.node if kind.endswith("Node") else size.job)
        or (kind == "MaxTRESMins" and size.minutes is None)
    ]
    said += [
        f"{qos.name} limits what an account runs ({text}); what is left of that is not known"
        for qos in qos_in_force(plan, live)
        for text in qos.more
        if text.partition(" ")[0] in ("MaxTRESPA", "MaxJobsPA", "MaxSubmitPA")
    ]
    return tuple(said)


def _doubts_of_partition(plan: JobPlan, live: Live) -> Iterator[str]:
    here = live.partition(plan.partition.name)
    if here is None:
        return
    each = amounts(plan, live).node
    if here.whole == "nodes" and not plan.request.exclusive:
        yield (
            f"{here.name} gives whole nodes (OverSubscribe=EXCLUSIVE); which are empty, and what "
            "limits say to all their cores and GPUs, is not known"
        )
    if here.max_memory_mb_per_node is not None and "mem" not in each:
        yield f"{here.name} has MaxMemPerNode; what the job takes of that is not known"
    most = here.max_memory_mb_per_cpu
    if most is not None and each.get("mem", most * each["cpu"] + 1) > most * each["cpu"]:
        yield (
            f"the job's memory a core may be over {most} MB (MaxMemPerCPU of {here.name}): Slurm "
            "gives it more cores, or refuses it"
        )


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
            if figure is None or thing not in NAMES or mine or (kind, thing) in seen:
                continue
            seen.add((kind, thing))
            yield kind, thing, figure, where, source


def _figure(thing: str, value: str) -> Optional[int]:
    try:
        return units.parse_memory(value) if thing == "mem" else int(value)
    except ValueError:
        return None


def _held(thing: str, qos: str, live: Live) -> int:
    """What the user's running jobs hold in a QOS."""
    jobs = running(jobs_in(qos, live))
    return sum(one.count * ((one.cores or 0) if thing == "cpu" else one.nodes) for one in jobs)
