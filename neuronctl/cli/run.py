"""``neuronctl run``: launch a program from the allocation this shell stands in."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import click

from neuronctl.cli.job import Job, command_line, refuse_or_warn
from neuronctl.cli.job_options import job_options, program_arguments
from neuronctl.cli.option import option
from neuronctl.cli.say import print_script, say
from neuronctl.errors import SlurmRefusedError, SlurmUnavailableError, UsageError
from neuronctl.rule_codes import CODES
from neuronctl.words import counted

if TYPE_CHECKING:
    from neuronctl.slurm.allocation import Allocation

# What makes sense for one launch; the rest belongs to the allocation.
_OPTIONS = (
    "nodes",
    "nodelist",
    "ntasks-per-node",
    "cpus-per-task",
    "gpus-per-node",
    "cluster",
    "launcher",
    "env",
    "container",
    "container-runtime",
    "bind",
    "cleanenv",
)


@click.command("run", context_settings={"allow_interspersed_args": False})
@job_options(_OPTIONS)
@option("--catalog", metavar="FILE", help="Catalog file laid over the others.")
@option("--print", "show", is_flag=True, help="Show the launch only.")
@program_arguments
def command(words: Tuple[str, ...], catalog: Optional[str], show: bool, **given: Any) -> int:
    """Launch SCRIPT on the nodes of the allocation this shell stands in, or on a part of them.

    Modules and environment are those of the shell. Ends with the program's exit code.
    """
    from neuronctl.rendering.render import render_run

    job, job_id = _job_in_allocation(given, words, catalog, show)
    refuse_or_warn(job, force=None)
    plan = job.plan
    # A port of this launch's own: several may run in one allocation, and at the same time.
    text = render_run(plan, port=10000 + (job_id + os.getpid()) % 20000)
    if "SLURM_GPUS" in os.environ:
        # What salloc was asked for in all, each srun would ask for again on its own nodes.
        text = f"unset SLURM_GPUS\n{text}"
    if show:
        print_script(text)
        return 0
    os.execvpe("bash", ["bash", "-c", text], {**os.environ, **plan.secrets})


def _job_in_allocation(
    given: Dict[str, Any], words: Tuple[str, ...], catalog_file: Optional[str], show: bool
) -> Tuple[Job, int]:
    """A launch on the allocation this process stands in, judged, and the allocation's job id.

    What is not asked for is what the allocation has. Raises UsageError outside an allocation,
    and for more than it has.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.gate.local_facts import look
    from neuronctl.launch.containers import find_image
    from neuronctl.paths import config_dir
    from neuronctl.planning import Place, plan
    from neuronctl.request.job import Layer, build_request
    from neuronctl.request.job_file import read_config
    from neuronctl.rules import RuleContext, check
    from neuronctl.slurm import allocation
    from neuronctl.slurm.cluster import recognise

    if not words:
        raise UsageError("no SCRIPT: there is no program to run", "name it behind the options")
    has = allocation.from_environment(os.environ)
    # Of the user's defaults only the cluster has to do with a launch.
    config = read_config(os.path.join(config_dir(), "config.yaml"))
    defaults = Layer({k: v for k, v in config.values.items() if k == "cluster"}, config.origins)
    request = build_request([defaults, command_line(given, words)])
    hosts = _hosts(has, request.nodelist, request.nodes)
    fewest, most = _gpus(has, hosts)
    gpus = request.gpus_per_node
    if gpus is None:
        gpus = fewest
    elif fewest is not None and gpus > fewest:
        raise UsageError(
            f"--gpus-per-node: {gpus} GPUs a node are asked for, the allocation has {fewest}",
            f"ask for at most --gpus-per-node {fewest}" if fewest else "leave it out",
        )
    if gpus is None and request.ntasks_per_node is None and request.launcher != "python":
        raise UsageError(
            "how many GPUs a node this allocation has is not known: its variables do not say, "
            "and Slurm does not answer",
            "say it with --gpus-per-node N; without GPUs, say --ntasks-per-node N",
        )
    loaded = load(catalog_file)
    cluster, _ = recognise(loaded, request.cluster)
    image = request.container
    request = dataclasses.replace(
        request,
        partition=has.partition or None,
        nodes=len(hosts),
        nodelist=None,
        gpus_per_node=gpus or None,
        ntasks_per_node=request.ntasks_per_node or (None if gpus else has.ntasks_per_node),
        container=image and find_image(image, cluster.containers.image_dirs),
    )
    # Where the variables do not count them, a step might ask for those of all nodes on its own.
    partial = gpus is not None and gpus != most
    counted_here = has.gpus is not None
    # Newer versions of Slurm refuse --gres beside the variable that salloc --gpus-per-node sets.
    option = "--gpus-per-node=" if "SLURM_GPUS_PER_NODE" in os.environ else "--gres=gpu:"
    place = Place(
        hosts=hosts,
        cores=max(1, has.cores * gpus // fewest) if gpus and fewest else has.cores,
        step_options=(f"{option}{gpus}",) if partial or (gpus and not counted_here) else (),
    )
    made = plan(request, cluster, place=place)
    if made.cores_per_node > place.cores:
        if made.cpus_per_task > 1:
            raise UsageError(
                f"{made.cores_per_node} cores a node are asked for ({made.ntasks_per_node} tasks x "
                f"{made.cpus_per_task} cores), the allocation has {place.cores}"
                + (f" with {gpus} of its {fewest} GPUs" if gpus != fewest else ""),
                f"ask for at most -c {max(1, place.cores // made.ntasks_per_node)}",
            )
        shared = counted(place.cores, "core")
        say(f"neuronctl: warning: {made.ntasks_per_node} tasks a node share {shared}")
        options = (*place.step_options, "--overcommit")
        made = plan(request, cluster, place=dataclasses.replace(place, step_options=options))
    findings = check(RuleContext(made, loaded, look(made), reviewed=show))
    # The other rules are about a job, which this allocation is already.
    of_launch = tuple(one for one in findings if CODES[one.code].of_launch)
    return Job(made, loaded, of_launch), has.job_id


def _hosts(has: Allocation, nodelist: Optional[str], nodes: Optional[int]) -> Tuple[str, ...]:
    """The nodes to launch on."""
    from neuronctl import units

    hosts = has.nodes
    if nodelist is not None:
        try:
            named = units.expand_hostlist(nodelist)
        except ValueError as error:
            raise UsageError(
                f"--nodelist: '{nodelist}' is no list of nodes: {error}",
                f"write it as Slurm does; this allocation has {','.join(hosts)}",
            ) from None
        strangers = [host for host in named if host not in hosts]
        if strangers:
            raise UsageError(
                f"--nodelist: {', '.join(strangers)} {'is' if len(strangers) == 1 else 'are'} not "
                f"in this allocation, which has {', '.join(hosts)}",
                "name some of these, or leave --nodelist out",
            )
        hosts = tuple(dict.fromkeys(named))
    wanted = nodes or len(hosts)
    if wanted > len(hosts):
        raise UsageError(
            f"--nodes: {wanted} nodes are asked for, there are {len(hosts)}",
            f"ask for at most --nodes {len(hosts)}",
        )
    return hosts[:wanted]


def _gpus(has: Allocation, hosts: Tuple[str, ...]) -> Tuple[Optional[int], Optional[int]]:
    """The GPUs of that of ``hosts`` with the fewest and of that with the most, as far as known."""
    from neuronctl.slurm.job_control import job_gpus

    if has.gpus is not None:
        return has.gpus, has.gpus
    try:
        counts = job_gpus(has.job_id)
    except (SlurmUnavailableError, SlurmRefusedError):
        return None, None
    each = [counts[host] for host in hosts if host in counts]
    return (min(each), max(each)) if len(each) == len(hosts) else (None, None)
