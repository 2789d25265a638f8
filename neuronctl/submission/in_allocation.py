"""A launch on the nodes of the allocation this process runs in."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.loader import load
from neuronctl.catalog.local_cluster import recognise
from neuronctl.common import units
from neuronctl.common.errors import SlurmError, UsageError
from neuronctl.common.frozen import replace
from neuronctl.common.words import counted, verb
from neuronctl.judgement.local_facts import gather_local_facts
from neuronctl.launch import launchers
from neuronctl.planning import AllocationPart, plan
from neuronctl.request.job import JobRequest, Layer, build_request
from neuronctl.request.job_file import configuration
from neuronctl.rules import RuleContext, apply_rules
from neuronctl.slurm.allocation import Allocation, from_environment
from neuronctl.slurm.job_control import job_gpus
from neuronctl.submission.judged_job import JudgedJob
from neuronctl.submission.planned_job import located, options_layer


def prepare_launch(
    options: Mapping[str, Any],
    words: Sequence[str],
    *,
    catalog_file: Optional[str] = None,
    reviewed: bool = False,
) -> JudgedJob:
    """Plan and check a launch on this process's allocation.

    What is not asked for is what the allocation has. reviewed: the launch is only shown. Raises
    UsageError outside an allocation, and for more than it has.
    """
    if not words:
        raise UsageError("no SCRIPT: there is no program to run", "name it after the options")
    allocation = from_environment(os.environ)
    # Of the user's defaults only the cluster has to do with a launch.
    config = configuration()
    defaults = Layer({k: v for k, v in config.values.items() if k == "cluster"}, config.origins)
    request = build_request([defaults, options_layer(options, words)])
    hosts = _hosts(allocation, request)
    fewest, most = _gpus(allocation, hosts)
    gpus = _gpus_asked(request, fewest)
    catalog = load(catalog_file)
    cluster, _ = recognise(catalog, request.cluster)
    request = replace(
        located(request, cluster),
        partition=allocation.partition or None,
        nodes=len(hosts),
        max_nodes=None,
        nodelist=None,
        gpus_per_node=gpus or None,
        ntasks_per_node=request.ntasks_per_node or (None if gpus else allocation.ntasks_per_node),
    )
    # Where the variables do not count them, a step might ask for those of all nodes on its own.
    partial = gpus is not None and gpus != most
    counted_here = allocation.gpus is not None
    cores = allocation.cores
    # Newer versions of Slurm refuse --gres beside the variable that salloc --gpus-per-node sets.
    gpu_option = "--gpus-per-node=" if "SLURM_GPUS_PER_NODE" in os.environ else "--gres=gpu:"
    place = AllocationPart(
        hosts=hosts,
        cores=max(1, cores * gpus // fewest) if gpus and fewest else cores,
        step_options=(f"{gpu_option}{gpus}",) if partial or (gpus and not counted_here) else (),
    )
    made = plan(request, cluster, place=place)
    warnings: Tuple[str, ...] = ()
    if made.cores_per_node > place.cores:
        if made.cpus_per_task > 1:
            raise UsageError(
                f"requested {made.cores_per_node} cores per node ({made.ntasks_per_node} tasks x "
                f"{made.cpus_per_task} cores); the allocation has {place.cores}"
                + (f" with {gpus} of its {fewest} GPUs" if gpus != fewest else ""),
                f"request at most -c {max(1, place.cores // made.ntasks_per_node)}",
            )
        shared = counted(place.cores, "core")
        warnings = (f"warning: {made.ntasks_per_node} tasks per node share {shared}",)
        step_options = (*place.step_options, "--overcommit")
        made = plan(request, cluster, place=replace(place, step_options=step_options))
    findings = apply_rules(RuleContext(made, catalog, gather_local_facts(made), reviewed=reviewed))
    # The other rules are about a job, and this allocation is one already.
    of_launch = tuple(finding for finding in findings if finding.rule.of_launch)
    return JudgedJob(made, of_launch, warnings=warnings)


def _gpus_asked(request: JobRequest, fewest: Optional[int]) -> Optional[int]:
    """GPUs per node to launch on; None where that is not known and not needed."""
    gpus = request.gpus_per_node
    if gpus is None:
        gpus = fewest
    elif fewest is not None and gpus > fewest:
        raise UsageError(
            f"--gpus-per-node: requested {gpus} GPUs per node; the allocation has {fewest}",
            f"request at most --gpus-per-node {fewest}" if fewest else "omit it",
        )
    asked = request.launcher
    one_process = asked is not None and not launchers.load(asked).distributed
    if gpus is None and request.ntasks_per_node is None and not one_process:
        raise UsageError(
            "the number of GPUs per node in this allocation is not known: its variables do not "
            "say, and Slurm does not answer",
            "give it with --gpus-per-node N; without GPUs, give --ntasks-per-node N",
        )
    return gpus


def _hosts(allocation: Allocation, request: JobRequest) -> Tuple[str, ...]:
    hosts, nodelist = allocation.nodes, request.nodelist
    if nodelist is not None:
        try:
            named = units.expand_hostlist(nodelist)
        except ValueError as error:
            raise UsageError(
                f"--nodelist: '{nodelist}' is not a host list: {error}",
                f"write it as Slurm does; this allocation has {','.join(hosts)}",
            ) from None
        strangers = [host for host in named if host not in hosts]
        if strangers:
            raise UsageError(
                f"--nodelist: {', '.join(strangers)} {verb(len(strangers))} not "
                f"in this allocation, which has {', '.join(hosts)}",
                "name some of these, or omit --nodelist",
            )
        hosts = tuple(dict.fromkeys(named))
    wanted = request.nodes or len(hosts)
    if wanted > len(hosts):
        raise UsageError(
            f"--nodes: requested {wanted} nodes; there are {len(hosts)}",
            f"request at most --nodes {len(hosts)}",
        )
    return hosts[: request.max_nodes or wanted]


def _gpus(allocation: Allocation, hosts: Tuple[str, ...]) -> Tuple[Optional[int], Optional[int]]:
    """GPUs of the node among ``hosts`` with the fewest and of that with the most; None: unknown."""
    if allocation.gpus is not None:
        return allocation.gpus, allocation.gpus
    try:
        counts = job_gpus(allocation.job_id)
    except SlurmError:
        return None, None
    each = [counts[host] for host in hosts if host in counts]
    return (min(each), max(each)) if len(each) == len(hosts) else (None, None)
