"""A launch on the nodes of the allocation this process runs in."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import SlurmError, UsageError
from neuronctl.common.words import counted
from neuronctl.launch import launchers
from neuronctl.planning import AllocationPart, plan
from neuronctl.request.job import JobRequest, build_request
from neuronctl.request.job_file import configured_cluster
from neuronctl.request.typed_options import options_layer
from neuronctl.rules import RuleContext, Trait, apply_rules
from neuronctl.rules.local_facts import gather_local_facts
from neuronctl.slurm.allocation import Allocation, from_environment
from neuronctl.slurm.job_control import job_gpus
from neuronctl.submission.pipeline import JudgedJob
from neuronctl.submission.planned_job import resolve_paths


def prepare_launch(
    options: Mapping[str, Any],
    words: Sequence[str],
    *,
    catalog_file: Optional[str] = None,
    reviewed: bool = False,
) -> JudgedJob:
    """Plan and check a launch on this process's allocation.

    The launch gets the whole allocation unless the options request less. reviewed: the launch is
    only shown. Raises UsageError outside an allocation, and if the options request nodes or GPUs
    that it does not have.
    """
    if not words:
        raise UsageError("no SCRIPT: there is no program to run", "name it after the options")

    allocation = from_environment(os.environ)
    request = build_request([options_layer(options, words)])
    hosts = _hosts(allocation, request)
    fewest_gpus, most_gpus = _gpu_counts(allocation, hosts)
    gpus = _launch_gpus(request, fewest_gpus)
    ntasks_per_node = request.ntasks_per_node
    if ntasks_per_node is None and not gpus:
        ntasks_per_node = allocation.ntasks_per_node

    catalog = load(catalog_file)
    # Only the cluster of the user's defaults applies to a launch.
    cluster, _ = recognize_cluster(catalog, request.cluster or configured_cluster())
    request = replace(
        resolve_paths(request, cluster),
        partition=allocation.partition or None,
        nodes=len(hosts),
        max_nodes=None,  # _hosts() has applied it and --nodelist
        nodelist=None,
        gpus_per_node=gpus or None,
        ntasks_per_node=ntasks_per_node,  # None: plan() chooses, such as one task per GPU
    )

    cores = allocation.cores
    if gpus and fewest_gpus:  # a share of the cores comes with the GPUs
        cores = max(1, cores * gpus // fewest_gpus)
    part = AllocationPart(hosts, cores, _gpu_options(allocation, gpus, most_gpus))
    job_plan = plan(request, cluster, place=part)
    warnings: Tuple[str, ...] = ()
    if job_plan.cores_per_node > cores:  # srun refuses that without --overcommit
        tasks = counted(job_plan.ntasks_per_node, "task")
        task_cores = counted(job_plan.cpus_per_task, "core")
        shared = counted(cores, "core")
        warnings = (f"warning: {tasks} x {task_cores} per node share {shared}",)
        part = replace(part, step_options=(*part.step_options, "--overcommit"))
        job_plan = plan(request, cluster, place=part)
    facts = gather_local_facts(job_plan)
    findings = apply_rules(RuleContext(job_plan, catalog, facts, reviewed=reviewed))
    # The other rules judge a job; this allocation already exists.
    judged = tuple(finding for finding in findings if finding.has(Trait.LAUNCH))
    return JudgedJob(job_plan, judged, warnings=warnings)


def _gpu_options(
    allocation: Allocation, gpus: Optional[int], most: Optional[int]
) -> Tuple[str, ...]:
    """Return srun's option for ``gpus`` per node; none if each node has as many (``most``)."""
    if gpus is None:
        return ()
    # If Slurm's variables do not count the GPUs, a step might request those of all nodes.
    is_counted = allocation.gpus is not None or gpus == 0
    if gpus == most and is_counted:
        return ()
    # Newer versions of Slurm refuse --gres beside the variable of salloc --gpus-per-node.
    name = "gpus-per-node=" if "SLURM_GPUS_PER_NODE" in os.environ else "gres=gpu:"
    return (f"--{name}{gpus}",)


def _hosts(allocation: Allocation, request: JobRequest) -> Tuple[str, ...]:
    """Return the nodes to launch on; raise UsageError for others than the allocation's."""
    hosts = allocation.nodes
    if request.nodelist is not None:
        hosts = _named_hosts(allocation, request.nodelist)
    nodes = request.nodes or len(hosts)
    if nodes > len(hosts):
        raise UsageError(
            f"--nodes: requested {nodes} nodes; there are {len(hosts)}",
            f"request at most --nodes {len(hosts)}",
        )
    return hosts[: request.max_nodes or nodes]


def _named_hosts(allocation: Allocation, nodelist: str) -> Tuple[str, ...]:
    """Return the nodes that --nodelist names; raise UsageError."""
    try:
        hosts = tuple(dict.fromkeys(units.expand_hostlist(nodelist)))
    except ValueError as error:
        raise UsageError(f"--nodelist: '{nodelist}' is not a host list: {error}") from None
    for host in hosts:
        if host not in allocation.nodes:
            raise UsageError(
                f"--nodelist: {host} is not in this allocation, which has "
                f"{', '.join(allocation.nodes)}",
                "name some of these, or omit --nodelist",
            )
    return hosts


def _gpu_counts(
    allocation: Allocation, hosts: Tuple[str, ...]
) -> Tuple[Optional[int], Optional[int]]:
    """Return the fewest and the most GPUs of a node among ``hosts``; None: unknown."""
    if allocation.gpus is not None:
        return allocation.gpus, allocation.gpus
    try:
        gpus_by_node = job_gpus(allocation.job_id)
    except SlurmError:
        return None, None
    if any(host not in gpus_by_node for host in hosts):
        return None, None
    counts = [gpus_by_node[host] for host in hosts]
    return min(counts), max(counts)


def _launch_gpus(request: JobRequest, fewest: Optional[int]) -> Optional[int]:
    """Return the launch's GPUs per node; None: unknown, and not needed. fewest: on one node."""
    gpus = fewest if request.gpus_per_node is None else request.gpus_per_node
    if gpus is not None and fewest is not None and gpus > fewest:
        raise UsageError(
            f"--gpus-per-node: requested {gpus} GPUs per node; the allocation has {fewest}",
            f"request at most --gpus-per-node {fewest}" if fewest else "omit it",
        )
    one_process = request.launcher and not launchers.load(request.launcher).distributed
    if gpus is None and request.ntasks_per_node is None and not one_process:
        raise UsageError(
            "the number of GPUs per node in this allocation is not known: its variables do not "
            "say, and Slurm does not answer",
            "give it with --gpus-per-node N; without GPUs, give --ntasks-per-node N",
        )
    return gpus
