"""NC1xx: partition, nodes, cores, GPUs, memory, and time against the catalog."""

from __future__ import annotations

from typing import Callable, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Citation, Partition
from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted, verb
from neuronctl.planning import JobPlan
from neuronctl.planning.job_plan import gpus_held
from neuronctl.planning.needs import slurm_needs
from neuronctl.rules.base import Finding, RuleContext, Trait, job_rule, nearest

_NODES = "nodes ntasks nodelist"
_CORES = "cpus-per-task ntasks-per-node ntasks cpus-per-gpu"
_GPUS = "gpus-per-node gres gpus gpus-per-task"


def _open_partitions(plan: JobPlan, suits: Callable[[Partition], bool]) -> List[str]:
    """Return the names of the open partitions that suit, for a hint."""
    partitions = plan.cluster.partitions.values()
    return [partition.name for partition in partitions if partition.open and suits(partition)]


def _partition_in_catalog(context: RuleContext) -> Optional[Partition]:
    """Return the job's partition; None if the catalog lacks it, which NC101 reports."""
    partition = context.plan.partition
    return partition if partition.name in context.plan.cluster.partitions else None


def _catalog_partitions(context: RuleContext) -> Mapping[str, Partition]:
    """Return the partitions that the catalog gives the cluster, whatever Slurm says."""
    cluster = context.catalog.clusters.get(context.plan.cluster.name)
    return {} if cluster is None else cluster.partitions


def _cite_partitions(context: RuleContext) -> Citation:
    """Return the source of the list of partitions.

    It is doubtful for a batch script if it comes from a guide, whose list may be incomplete.
    """
    source, evidence = context.cite("partitions"), context.catalog.evidence
    if source.by_slurm or evidence(context.plan.cluster.name, "partitions").startswith("slurm"):
        return source
    return replace(source, doubtful=source.doubtful or context.batch_script)


def _list_partitions(names: Sequence[str], taken: int = 0) -> str:
    """Return the partitions if they fit on a line after ``taken`` characters, or where to look."""
    text = "there are: " + ", ".join(names)
    return text if len(text) + taken <= 72 else "'neuronctl partitions' lists them"


@job_rule(ERROR, "NC101", "partition does not exist", Trait.NO_PARTITION, about="partition")
def check_partition_exists(context: RuleContext) -> Iterator[Finding]:
    if not context.plan.partition.name:
        yield _no_partition(context)
    elif _partition_in_catalog(context) is None:
        source = _cite_partitions(context)
        explain = _explain_doubt if source.doubtful else _explain_absence
        message, hint = explain(context)
        yield Finding(message, hint, source)


def _explain_doubt(context: RuleContext) -> Tuple[str, str]:
    """Return the message and the hint for a partition that an incomplete list may lack."""
    plan, name = context.plan, context.plan.partition.name
    message = f"partition '{name}' is not in the catalog's list of {plan.cluster.name}"
    clusters = context.catalog.clusters
    with_name = [each for each, cluster in clusters.items() if name in cluster.partitions]
    if with_name:
        return message, f"is the job for another cluster? use --cluster {' or '.join(with_name)}"
    if not nearest(name, tuple(plan.cluster.partitions)):
        return message, "'neuronctl partitions' lists them; for another cluster, use --cluster"
    _, hint = _explain_absence(context)
    return message, hint


def _explain_absence(context: RuleContext) -> Tuple[str, str]:
    """Return the message and the hint for a partition that the cluster surely lacks."""
    plan, name = context.plan, context.plan.partition.name
    names = tuple(plan.cluster.partitions)
    if name in _catalog_partitions(context):
        message = f"partition '{name}' is in the catalog, but the Slurm of {plan.cluster.name} "
        return f"{message}does not have it", _list_partitions(names)
    message = f"partition '{name}' does not exist on {plan.cluster.name}"
    with_model = _open_partitions(plan, lambda partition: name.lower() in partition.gpu_names)
    if with_model:
        message += f"; {name.lower()} is a GPU model"
        return message, f"use -p {' or '.join(with_model[:2])}"
    similar = nearest(name, names)
    return message, f"did you mean {' or '.join(similar)}?" if similar else _list_partitions(names)


def _no_partition(context: RuleContext) -> Finding:
    """Return the finding for a job that names no partition, without a default."""
    plan, program = context.plan, context.plan.request.script
    for arg in plan.request.args:
        if arg.partition("=")[0] in ("-p", "--partition"):
            message = f"{arg} comes after {program}, so it is passed to the program, as is every "
            return Finding(f"{message}other option there", f"put the options before {program}")
    message = f"no partition requested, and the catalog has no default for {plan.cluster.name}"
    hint = "name one with -p, or use -p auto"
    default = "" if context.slurm is None else context.slurm.default_partition
    if default:
        message += f"; its Slurm would use {default}"
        hint = f"use -p {default}, another one, or -p auto"
    names = _list_partitions(tuple(plan.cluster.partitions), len(hint))
    return Finding(message, f"{hint}; {names}", _cite_partitions(context))


@job_rule(WARNING, "NC103", "partition is not in the catalog", Trait.PARTITION)
def check_partition_in_catalog(context: RuleContext) -> Iterator[Finding]:
    name = context.plan.partition.name
    if _partition_in_catalog(context) is not None and name not in _catalog_partitions(context):
        message = f"partition '{name}' is not in the catalog: neuronctl derives no cores and no "
        hint = "'neuronctl catalog import' drafts an entry"
        yield Finding(f"{message}memory there", hint, context.cite("partitions"))


@job_rule(ERROR, "NC102", "partition is closed to you", Trait.CLOSES_PARTITION, about="partition")
def check_partition_is_open(context: RuleContext) -> Iterator[Finding]:
    if not context.plan.partition.open:
        source = context.cite_partition("open")
        whose = "your groups, account, or QOS" if source.by_slurm else "users"
        message = f"partition '{context.plan.partition.name}' is closed to {whose}"
        names = _open_partitions(context.plan, lambda partition: True)
        yield Finding(message, f"open partitions: {', '.join(names) or 'none'}", source)
    if context.slurm is not None:
        return  # Slurm's "open" also counts the accounts above the job's
    accounts, account = context.plan.partition.accounts, context.plan.request.account
    if accounts and account and account.lower() not in map(str.lower, accounts):
        message = f"partition '{context.plan.partition.name}' takes no jobs of account '{account}'"
        hint = f"use -A {' or -A '.join(accounts)}"
        yield Finding(message, hint, context.cite_partition("accounts"))


@job_rule(ERROR, "NC111", "more nodes than the partition has", Trait.PARTITION, about=_NODES)
def check_nodes_in_partition(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    if partition.nodes is not None and plan.nodes > partition.nodes:
        message = f"requested {counted(plan.nodes, 'node')}; {partition.name} has {partition.nodes}"
        hint = f"request at most -N {min(partition.nodes, partition.max_nodes or partition.nodes)}"
        yield Finding(message, hint, context.cite_partition("nodes"))


def _of_qos(context: RuleContext, key: str) -> str:
    """Return " of QOS debug" if a limit of the partition is the QOS's own, or ""."""
    qos = context.limiting_qos(key)
    return f" of QOS {qos}" if qos else ""


@job_rule(ERROR, "NC112", "more nodes than a job may have", Trait.PARTITION, about=_NODES)
def check_nodes_per_job(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    # Slurm compares the end of a range with this limit.
    if partition.max_nodes is not None and plan.most_nodes > partition.max_nodes:
        message = f"requested {counted(plan.most_nodes, 'node')}; a job in {partition.name}"
        message += f"{_of_qos(context, 'max_nodes')} may have {partition.max_nodes}: "
        message += "it would wait forever"
        hint = f"request at most -N {partition.max_nodes}"
        yield Finding(message, hint, context.cite_partition("max_nodes"))


@job_rule(ERROR, "NC121", "more GPUs per node than it has", Trait.PARTITION, about=_GPUS)
def check_gpus_per_node(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, _partition_in_catalog(context)
    _, needed = slurm_needs(plan).largest_share
    if partition is None or needed <= partition.gpus_per_node:
        return
    available = partition.gpus_per_node
    message = f"requested {counted(needed, 'GPU')} per node; nodes in {partition.name} have "
    hint = "request no GPUs"
    if available:
        nodes = -(-plan.nodes * needed // available)  # rounded up
        hint = f"request at most --gpus-per-node {available}"
        if nodes <= min(partition.nodes or nodes, partition.max_nodes or nodes):
            hint += f", or -N {nodes} --gpus-per-node {available}"
    larger = _open_partitions(plan, lambda other: other.gpus_per_node >= needed)
    if larger:
        hint += f", or use a partition that has them: {', '.join(larger)}"
    yield Finding(f"{message}{available}", hint, context.cite_partition("gpus_per_node"))


@job_rule(ERROR, "NC122", "GPU partition without GPUs", Trait.PARTITION, about="partition")
def check_gpu_partition(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, _partition_in_catalog(context)
    requests_gpus = plan.gpus_per_node or plan.request.shares_gpus
    if partition is None or not partition.gpus_per_node or requests_gpus:
        return
    most = min(partition.gpus_per_node, partition.max_gpus or partition.gpus_per_node)
    hint = f"request --gpus-per-node 1{f' to {most}' if most > 1 else ''}"
    message = f"requested no GPU; {partition.name} is a GPU partition"
    if plan.cluster.policy.gpus_required:
        source = context.cite("policy", "gpus_required")
        yield Finding(f"{message}, where the site requires one", hint, source)
    else:
        yield Finding(message, hint, severity=WARNING)


@job_rule(ERROR, "NC123", "other GPU model", Trait.LAUNCH | Trait.PARTITION, about=_GPUS)
def check_gpu_model(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    requested, models = plan.request.gpu_type, partition.gpu_names
    if requested is None or not models or requested in models:
        return
    same_letters = [model for model in models if model.lower() == requested.lower()]
    others = _open_partitions(plan, lambda other: requested in other.gpu_names)
    if same_letters:
        hint = f"did you mean {same_letters[0]}? GPU types are case-sensitive in Slurm"
    else:
        hint = "leave the type out"
        if len(models) > 1:
            hint = f"request one of them, such as {models[0]}"
        if others and not plan.launches[0].hosts:  # an allocation has its partition
            hint += f", or use -p {' or '.join(others)}"
    names = " and ".join(f"'{model}'" for model in models)
    message = f"requested GPUs of type '{requested}'; {partition.name} has {names}"
    source = context.cite_partition("gpu_types" if partition.gpu_types else "gpu")
    yield Finding(message, hint, source)


@job_rule(
    ERROR, "NC124", "more GPUs than a user or a job may hold", Trait.CLOSES_PARTITION, about=_GPUS
)
def check_gpus_per_user(context: RuleContext) -> Iterator[Finding]:
    plan, limit, held = context.plan, context.plan.partition.max_gpus, gpus_held(context.plan)
    if limit is None or held <= limit:
        return
    per_node = held // plan.nodes
    gpus, option = f"{counted(plan.nodes, 'node')} x {per_node}", f" --gpus-per-node {per_node}"
    if held > plan.gpus:  # whole nodes have more GPUs than the job requests
        gpus, option = f"{gpus}, whole nodes with --exclusive", ""
    hint = f"request at most {counted(limit, 'GPU')} in all" if limit else "use another partition"
    if per_node <= limit:
        hint += f": -N {limit // per_node}{option}"
    qos = context.limiting_qos("max_gpus")
    limiter = f"QOS {qos}" if qos else plan.partition.name
    message = f"requested {counted(held, 'GPU')} ({gpus}); {limiter} allows at most {limit}: it "
    message += "would wait forever"
    yield Finding(message, hint, context.cite_partition("max_gpus"))


def _requested_cores(plan: JobPlan) -> str:
    tasks, cores = counted(plan.ntasks_per_node, "task"), counted(plan.cpus_per_task, "core")
    return f"requested {counted(plan.cores_per_node, 'core')} per node ({tasks} x {cores})"


def _hint_for_cores(plan: JobPlan, largest: int) -> str:
    """Return a hint for a job that may have at most ``largest`` cores per node."""
    tasks = plan.ntasks_per_node
    if tasks > largest:
        return f"request at most --ntasks-per-node {largest} -c 1"
    with_tasks = f" with {tasks} tasks per node" if tasks > 1 else ""
    return f"request at most -c {largest // tasks}{with_tasks}"


def _capped_cores(plan: JobPlan) -> Optional[int]:
    """Return the cores per node that come with the job's GPUs; None: the site sets no cap."""
    per_gpu = plan.cluster.cores_per_gpu(plan.partition)
    is_capped = plan.cluster.policy.cores.rule == "cap" and not plan.request.exclusive
    if not is_capped or not per_gpu or not plan.gpus_per_node:
        return None
    return per_gpu * plan.gpus_per_node


@job_rule(ERROR, "NC131", "more cores than a node has", Trait.PARTITION, about=_CORES)
def check_cores_per_node(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    largest = partition.max_cores_per_node
    cores, requested = plan.cores_per_node, _requested_cores(plan)
    if plan.request.amounts is not None:
        cores, _ = slurm_needs(plan).largest_share
        requested = f"requested {counted(cores, 'core')} on one node"
    if largest is not None and cores > largest:
        message = f"{requested}; the largest node in {partition.name} has {largest}"
        hint = _hint_for_cores(plan, min(largest, _capped_cores(plan) or largest))
        yield Finding(message, hint, context.cite_partition("cores_per_node"))


@job_rule(ERROR, "NC132", "more cores per GPU than the site allows", Trait.PARTITION, about=_CORES)
def check_cores_per_gpu(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    allowed, largest = _capped_cores(plan), partition.max_cores_per_node
    if allowed is None or plan.cores_per_node <= allowed:
        return
    if largest is not None and plan.cores_per_node > largest:
        return  # NC131 reports this
    message = f"{_requested_cores(plan)}; {counted(plan.gpus_per_node, 'GPU')} in {partition.name} "
    message += f"{verb(plan.gpus_per_node, 'comes', 'come')} with {allowed} "
    message += f"({plan.cluster.cores_per_gpu(partition)} per GPU)"
    hint = f"{_hint_for_cores(plan, allowed)}, or request more GPUs"
    source = context.cite("policy", "cores", "rule")
    yield Finding(message, hint, source, NOTE if source.doubtful else "")


@job_rule(ERROR, "NC134", "more memory than a node has", Trait.PARTITION, about="mem")
def check_memory_per_node(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    largest = partition.memory_mb_per_node
    requested = None if plan.request.mem is None else units.parse_memory(plan.request.mem)
    if largest is not None and requested is not None and requested > largest:
        message = f"requested {plan.request.mem} of memory per node ({requested} MB); the largest "
        message += f"node in {partition.name} has {largest} MB"
        source = context.cite_partition("memory_mb_per_node")
        yield Finding(message, f"request at most --mem {largest}M", source)


@job_rule(ERROR, "NC141", "wall time over the limit", Trait.PARTITION, about="time")
def check_wall_time(context: RuleContext) -> Iterator[Finding]:
    plan, limits = context.plan, context.plan.partition.wall_time
    limit, key = limits.maximum, "maximum"
    jobs = f"batch jobs in {plan.partition.name}{_of_qos(context, 'wall_time')}"
    if plan.interactive and limits.interactive_maximum is not None:
        limit, key = limits.interactive_maximum, "interactive_maximum"
        jobs = f"interactive jobs in {plan.partition.name}"
    if limit is None or limit == units.UNLIMITED or plan.time_limit is None:
        return
    is_unlimited = plan.time_limit == units.UNLIMITED
    if plan.time_limit <= limit and not is_unlimited:
        return
    requested = f"a time limit of {units.format_time(plan.time_limit)}"
    if is_unlimited:
        requested = f"no time limit (-t {plan.request.time_limit})"
    message = f"requested {requested}; {jobs} may run at most {units.format_time(limit)}: Slurm "
    message += "may accept it but never start it"
    hint = f"request at most -t {units.format_time(limit)}"
    if context.slurm is not None and context.slurm.qos_for_time:
        hint += f", or use -q {' or -q '.join(context.slurm.qos_for_time[:2])}"
    yield Finding(message, hint, _cite_wall_time(context, key))


def _cite_wall_time(context: RuleContext, key: str) -> Citation:
    """Return who sets a time limit: Slurm, the QOS, the partition, or its whole cluster."""
    place = ("partitions", context.plan.partition.name, "wall_time")
    qos = context.limiting_qos("wall_time")
    if key == "maximum" and place in context.sources:
        return context.sources[place]
    if key == "maximum" and qos:
        return context.cite("qos", qos, "wall_time", key)
    if context.catalog.has(context.plan.cluster.name, *place, key):
        return context.cite(*place, key)
    return context.cite("wall_time", key)
