"""Turn a script's directives into the request of a job.

The request also states Slurm's own defaults (one task, one core), so that planning derives nothing
that Slurm would not. What a request cannot say, such as tasks that Slurm spreads over nodes as it
likes, becomes the least that Slurm would take: a job is refused only if each way to run it must be.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.common.datatypes import replace
from neuronctl.common.units import hosts
from neuronctl.request.job import OF_SLURM, Amounts, JobRequest, Origin, Source
from neuronctl.request.values import gpu_type_of_task
from neuronctl.scripts.header import SCRIPT, GivenOption, Header, digits
from neuronctl.scripts.shell_text import ShellText
from neuronctl.slurm.sbatch_options import EARLY

# These describe the submission, not the job.
_NOT_ABOUT_THE_JOB = ("wait", "parsable", "test-only", "ignore-pbs", *EARLY)


def request_from_header(header: Header, file: str, cluster: Cluster) -> JobRequest:
    """Return the request in the directives. file: the script's name, for the origins."""
    fields: Dict[str, Any] = {}
    origins: Dict[str, Origin] = {}
    others: List[str] = []
    if not file.isprintable():  # a plan takes no such name; the request is the same
        file = "script"
    # --gres=gpu overrides --gpus-per-node, whichever comes first.
    for option in sorted(header.options.values(), key=lambda option: option.name == "gres"):
        values = _fields_of(option)
        if values is None:
            others.append(option.text[2:])
            continue
        place = f"{file}:{option.place.line}" if option.source == SCRIPT else option.source
        fields.update(values)
        origins.update(dict.fromkeys(values, Origin(Source.ASKED, place)))
    if "gpus" in fields and "gpus_per_node" in fields:
        # These determine the nodes; beside node names, some releases refuse no combination.
        others = [option for option in others if not option.startswith("nodes=")]
    fields["sbatch"] = tuple(others)
    _settle_sizes(header, fields, cluster)
    return JobRequest(script=file, launcher="srun", cluster=cluster.name, origins=origins, **fields)


def _fields_of(option: GivenOption) -> Optional[Mapping[str, Any]]:
    """Return the fields of JobRequest that an option sets; None if sbatch alone knows it."""
    if option.name == "no-requeue":
        return {"requeue": False}
    if option.name in OF_SLURM:
        try:
            return OF_SLURM[option.name].parse_directive(option.value)
        except ValueError:
            return {}  # from a variable, and already reported
    return {} if option.name in _NOT_ABOUT_THE_JOB else None


def job_variables(header: Header) -> Dict[str, str]:
    """Return the variables that Slurm sets in the job, as far as the directives show them."""
    nodes, tasks, tasks_per_node, cores = (
        digits(header.value(name))
        for name in ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
    )
    if nodes is not None and tasks is not None and tasks < nodes:
        nodes = None  # sbatch reduces them
    if tasks is None and nodes is not None and tasks_per_node is not None:
        tasks = nodes * tasks_per_node
    gres = header.value("gres") or ""
    # gpu:4, gpu:a100:4, and gres/gpu:4
    gpus = re.fullmatch(r"(?:gres[:/])?gpu:(?:[^:,=]+:)?([0-9]{1,4})", gres)
    gpus_on_node = digits(gpus[1]) if gpus else header.count("gpus-per-node")
    variables: Dict[str, object] = {
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), tasks),
        "SLURM_NTASKS_PER_NODE": tasks_per_node,
        "SLURM_CPUS_PER_TASK": cores,
        "SLURM_GPUS_ON_NODE": gpus_on_node,
    }
    return {name: str(value) for name, value in variables.items() if value is not None}


def modules(shell: ShellText) -> Tuple[str, ...]:
    """Return the modules that the commands load, as far as the text names them."""
    loaded: List[str] = []
    for command in shell.calls("module", "ml"):
        verb, *names = [word or "" for word in command.arguments] or [""]
        if command.name == "ml" and "/" in verb:
            names = [verb, *names]
        elif verb in ("switch", "swap"):
            names = names[-1:]
        elif verb not in ("load", "add"):
            continue
        loaded += (name for name in names if name.isprintable() and name[:1] not in ("", "-"))
    return tuple(loaded)


def _settle_sizes(header: Header, fields: Dict[str, Any], cluster: Cluster) -> None:
    """Settle nodes, tasks, cores, and GPUs in ``fields`` as Slurm would on equal nodes.

    Afterwards, ``fields`` has them per node and per task, and no totals.
    """
    gpus_per_task = header.count("gpus-per-task")
    nodes = _settle_nodes(fields, gpus_per_task or 0, cluster)
    tasks_per_node = _settle_tasks(fields, nodes)
    if "gpus" in fields:
        fields.setdefault("gpus_per_node", -(-fields.pop("gpus") // nodes))  # rounded up
    elif gpus_per_task and "gpus_per_node" not in fields:
        fields["gpus_per_node"] = gpus_per_task * tasks_per_node
        kind = gpu_type_of_task(header.value("gpus-per-task"))
        if kind:
            fields["gpu_type"] = kind
    if "cpus_per_task" not in fields:
        cores_per_node = (header.count("cpus-per-gpu") or 0) * fields.get("gpus_per_node", 0)
        fields["cpus_per_task"] = max(1, cores_per_node // tasks_per_node)


def _settle_nodes(fields: Dict[str, Any], gpus_per_task: int, cluster: Cluster) -> int:
    """Settle the nodes and the amounts in ``fields``; return the number of nodes."""
    tasks, gpus, nodes = fields.get("ntasks"), fields.get("gpus"), fields.get("nodes")
    if fields.get("max_nodes") == 0:
        del fields["max_nodes"]  # as many as Slurm likes
    if nodes is not None and gpus and fields.get("max_nodes", 0) > gpus:
        fields["max_nodes"] = max(nodes, gpus)  # sbatch uses no more of a range
    names = "nodes max_nodes ntasks ntasks_per_node cpus_per_task gpus gpus_per_node"
    fields["amounts"] = Amounts(**{name: fields.get(name) for name in names.split()})
    if nodes is None:
        nodes = _least_nodes(fields, gpus or gpus_per_task * (tasks or 1), cluster)
        if fields.get("nodelist") is None or nodes > 1:  # a single named node needs no number
            fields["nodes"] = nodes
    elif tasks is not None and tasks < nodes:
        fields["nodes"] = nodes = tasks  # sbatch reduces them with a warning
    if tasks is not None and fields.get("max_nodes", 0) > tasks:
        fields["max_nodes"] = max(nodes, tasks)  # sbatch uses no more of a range
    return int(nodes)


def _settle_tasks(fields: Dict[str, Any], nodes: int) -> int:
    """Settle the tasks in ``fields``; return their number on each node."""
    tasks, tasks_per_node = fields.pop("ntasks", None), fields.get("ntasks_per_node")
    if tasks is not None:
        most_on_a_node = -(-tasks // nodes)  # rounded up
        if tasks_per_node is None or tasks_per_node > most_on_a_node:
            tasks_per_node = most_on_a_node
    fields["ntasks_per_node"] = tasks_per_node or 1
    return int(fields["ntasks_per_node"])


def _least_nodes(fields: Dict[str, Any], gpus: int, cluster: Cluster) -> int:
    """Return the fewest nodes of the partition that have what a job with so many GPUs requests."""
    cores_of_node = gpus_of_node = 0  # unknown
    partition = cluster.partitions.get(fields.get("partition") or cluster.default_partition or "")
    if partition is not None:
        cores_of_node = partition.max_cores_per_node or 0
        gpus_of_node = partition.gpus_per_node
    amounts: Amounts = replace(fields["amounts"], gpus=gpus)
    named_nodes = set(hosts(fields.get("nodelist")))
    return max(amounts.least_nodes(cores_of_node, gpus_of_node), len(named_nodes))
