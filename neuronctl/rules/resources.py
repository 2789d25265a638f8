"""NC1xx: partition, nodes, cores, GPUs and time against the catalog."""

from __future__ import annotations

from typing import Callable, Iterator, List, Mapping, Optional, Sequence

from neuronctl.catalog.cluster import Citation, Partition
from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted, verb
from neuronctl.planning import JobPlan
from neuronctl.planning.job_plan import gpus_held
from neuronctl.planning.needs import slurm_needs
from neuronctl.rules.base import UNCITED, Finding, RuleContext, Trait, job_rule, nearest

_NODES = "nodes ntasks nodelist"
_CORES = "cpus-per-task ntasks-per-node ntasks cpus-per-gpu"
_GPUS = "gpus-per-node gres gpus gpus-per-task"


def _open(plan: JobPlan, suits: Callable[[Partition], bool]) -> List[str]:
    """Return the names of the open partitions that suit, for a hint."""
    every = plan.cluster.partitions.values()
    return [partition.name for partition in every if partition.open and suits(partition)]


def _known(context: RuleContext) -> Optional[Partition]:
    """Return the job's partition; None if the catalog lacks it, which NC101 reports."""
    partition = context.plan.partition
    return partition if partition.name in context.plan.cluster.partitions else None


def _catalog_partitions(context: RuleContext) -> Mapping[str, Partition]:
    """Return the partitions that the catalog gives the cluster, whatever Slurm says."""
    cluster = context.catalog.clusters.get(context.plan.cluster.name)
    return {} if cluster is None else cluster.partitions


def _every_partition(context: RuleContext) -> Citation:
    """Return the source of the list of partitions; a guide's list may be incomplete."""
    source, name = context.cite("partitions"), context.plan.cluster.name
    sure = source.by_slurm or context.catalog.evidence(name, "partitions").startswith("slurm")
    return replace(source, doubtful=True) if context.batch_script and not sure else source


def _listed(names: Sequence[str], taken: int = 0) -> str:
    """Return the partitions if they fit on a line after ``taken`` characters, or where to look."""
    words = "there are: " + ", ".join(names)
    return words if len(words) + taken <= 72 else "'neuronctl partitions' lists them"


@job_rule(ERROR, "NC101", "partition does not exist", Trait.NO_PARTITION, about="partition")
def check_partition_exists(context: RuleContext) -> Iterator[Finding]:
    plan, name = context.plan, context.plan.partition.name
    if not name:
        yield _no_partition(context)
        return
    if _known(context) is not None:
        return
    names = tuple(plan.cluster.partitions)
    source = _every_partition(context)
    similar = nearest(name, names)
    with_model = _open(plan, lambda partition: name.lower() in partition.gpu_names)
    message = f"partition '{name}' does not exist on {plan.cluster.name}"
    hint = _listed(names)
    if name in _catalog_partitions(context):
        message = f"partition '{name}' is in the catalog, but the Slurm of {plan.cluster.name} "
        message += "does not have it"
    elif with_model:
        message += f"; {name.lower()} is a GPU model"
        hint = f"use -p {' or '.join(with_model[:2])}"
    elif similar:
        hint = f"did you mean {' or '.join(similar)}?"
    if source.doubtful:
        message = f"partition '{name}' is not in the catalog's list of {plan.cluster.name}"
        clusters = context.catalog.clusters
        having = [other for other, cluster in clusters.items() if name in cluster.partitions]
        if having:
            hint = f"is the job for another cluster? use --cluster {' or '.join(having)}"
        elif not similar:
            hint = "'neuronctl partitions' lists them; for another cluster, use --cluster"
    yield Finding(message, hint, source)


def _no_partition(context: RuleContext) -> Finding:
    """Return the finding for a job that names no partition, without a default."""
    plan = context.plan
    behind = [arg for arg in plan.request.args if arg.partition("=")[0] in ("-p", "--partition")]
    if behind:
        program = plan.request.script
        message = f"{behind[0]} comes after {program}, so it is passed to the program, as is every "
        return Finding(f"{message}other option there", f"put the options before {program}")
    message = f"no partition requested, and the catalog has no default for {plan.cluster.name}"
    hint = "name one with -p, or use -p auto"
    if context.slurm is not None and context.slurm.default_partition:
        message += f"; its Slurm would use {context.slurm.default_partition}"
        hint = f"use -p {context.slurm.default_partition}, another one, or -p auto"
    hint = f"{hint}; {_listed(tuple(plan.cluster.partitions), len(hint))}"
    return Finding(message, hint, _every_partition(context))


@job_rule(WARNING, "NC103", "partition is not in the catalog", Trait.PARTITION)
def check_partition_in_catalog(context: RuleContext) -> Iterator[Finding]:
    name = context.plan.partition.name
    if _known(context) is not None and name not in _catalog_partitions(context):
        yield Finding(
            f"partition '{name}' is not in the catalog: neuronctl derives no cores and no memory "
            "there",
            "'neuronctl catalog import' drafts an entry",
            context.cite("partitions"),
        )


@job_rule(ERROR, "NC102", "partition is closed to you", Trait.CLOSES_PARTITION, about="partition")
def check_partition_is_open(context: RuleContext) -> Iterator[Finding]:
    if not context.plan.partition.open:
        source = context.cite_partition("open")
        whose = "your groups, account, or QOS" if source.by_slurm else "users"
        message = f"partition '{context.plan.partition.name}' is closed to {whose}"
        hint = "open partitions: " + (", ".join(_open(context.plan, lambda one: True)) or "none")
        yield Finding(message, hint, source)
    accounts, account = context.plan.partition.accounts, context.plan.request.account
    if context.slurm is not None:
        return  # Slurm has said what is closed, and it counts the accounts above this one, too
    if accounts and account and account.lower() not in map(str.lower, accounts):
        words = f"partition '{context.plan.partition.name}' takes no jobs of account '{account}'"
        hint = f"use -A {' or -A '.join(accounts)}"
        yield Finding(words, hint, context.cite_partition("accounts"))


@job_rule(ERROR, "NC111", "more nodes than the partition has", Trait.PARTITION, about=_NODES)
def check_nodes_in_partition(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    if partition.nodes is not None and plan.nodes > partition.nodes:
        words = f"requested {counted(plan.nodes, 'node')}; {partition.name} has {partition.nodes}"
        hint = f"request at most -N {min(partition.nodes, partition.max_nodes or partition.nodes)}"
        yield Finding(words, hint, context.cite_partition("nodes"))


def _qos_words(context: RuleContext, key: str) -> str:
    """Return the end of "a job in gpu of QOS debug" if the catalog's limit is the QOS's own."""
    qos = context.limiting_qos(key)
    return f" of QOS {qos}" if qos else ""


@job_rule(ERROR, "NC112", "more nodes than a job may have", Trait.PARTITION, about=_NODES)
def check_nodes_per_job(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    # Slurm compares the end of a range with this limit.
    if partition.max_nodes is not None and plan.most_nodes > partition.max_nodes:
        message = f"requested {counted(plan.most_nodes, 'node')}; a job in {partition.name}"
        message += f"{_qos_words(context, 'max_nodes')} may have {partition.max_nodes}: "
        message += "it would wait forever"
        hint = f"request at most -N {partition.max_nodes}"
        yield Finding(message, hint, context.cite_partition("max_nodes"))


@job_rule(ERROR, "NC121", "more GPUs per node than it has", Trait.PARTITION, about=_GPUS)
def check_gpus_per_node(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, _known(context)
    _, needed = slurm_needs(plan).largest_share
    if partition is None or needed <= partition.gpus_per_node:
        return
    has = partition.gpus_per_node
    others = ", ".join(_open(plan, lambda other: other.gpus_per_node >= needed))
    hint = "request no GPUs"
    if has:
        nodes = -(-plan.nodes * needed // has)  # rounded up
        fits = nodes <= min(partition.nodes or nodes, partition.max_nodes or nodes)
        hint = f"request at most --gpus-per-node {has}"
        hint += f", or -N {nodes} --gpus-per-node {has}" if fits else ""
    yield Finding(
        f"requested {counted(needed, 'GPU')} per node; nodes in {partition.name} have {has}",
        hint + (f", or use a partition that has them: {others}" if others else ""),
        context.cite_partition("gpus_per_node"),
    )


@job_rule(ERROR, "NC122", "GPU partition without GPUs", Trait.PARTITION, about="partition")
def check_gpu_partition(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, _known(context)
    asks = plan.gpus_per_node or plan.request.shares_gpus
    if partition is None or not partition.gpus_per_node or asks:
        return
    required = plan.cluster.policy.gpus_required
    most = min(partition.gpus_per_node, partition.max_gpus or partition.gpus_per_node)
    yield Finding(
        f"requested no GPU; {partition.name} is a GPU partition"
        + (", where the site requires one" if required else ""),
        f"request --gpus-per-node 1{f' to {most}' if most > 1 else ''}",
        context.cite("policy", "gpus_required") if required else UNCITED,
        "" if required else WARNING,
    )


@job_rule(ERROR, "NC123", "other GPU model", Trait.LAUNCH | Trait.PARTITION, about=_GPUS)
def check_gpu_model(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    asked, has = plan.request.gpu_type, partition.gpu_names
    if asked is None or not has or asked in has:
        return
    having = []
    if not plan.launches[0].hosts:  # within an allocation, no other partition can be used
        having = _open(plan, lambda other: asked in other.gpu_names)
    hint = "leave the type out" if len(has) == 1 else f"request one of them, such as {has[0]}"
    hint += f", or use -p {' or '.join(having)}" if having else ""
    alike = [name for name in has if asked.lower() == name.lower()]
    if alike:
        hint = f"did you mean {alike[0]}? GPU types are case-sensitive in Slurm"
    names = " and ".join(f"'{name}'" for name in has)
    yield Finding(
        f"requested GPUs of type '{asked}'; {partition.name} has {names}",
        hint,
        context.cite_partition("gpu_types" if partition.gpu_types else "gpu"),
    )


@job_rule(
    ERROR, "NC124", "more GPUs than a user or a job may hold", Trait.CLOSES_PARTITION, about=_GPUS
)
def check_gpus_per_user(context: RuleContext) -> Iterator[Finding]:
    plan, most, held = context.plan, context.plan.partition.max_gpus, gpus_held(context.plan)
    if most is not None and held > most:
        per_node = held // plan.nodes
        remark = ", whole nodes with --exclusive" if held > plan.gpus else ""
        hint = f"request at most {counted(most, 'GPU')} in all" if most else "use another partition"
        if per_node <= most:
            hint += f": -N {most // per_node}"
            hint += "" if remark else f" --gpus-per-node {per_node}"
        qos = context.limiting_qos("max_gpus")
        limiter = f"QOS {qos}" if qos else plan.partition.name
        nodes = counted(plan.nodes, "node")
        yield Finding(
            f"requested {counted(held, 'GPU')} ({nodes} x {per_node}{remark}); "
            f"{limiter} allows at most {most}: it would wait forever",
            hint,
            context.cite_partition("max_gpus"),
        )


def _cores_asked(plan: JobPlan) -> str:
    tasks, cores = counted(plan.ntasks_per_node, "task"), counted(plan.cpus_per_task, "core")
    return f"requested {counted(plan.cores_per_node, 'core')} per node ({tasks} x {cores})"


def _fewer_cores(plan: JobPlan, largest: int) -> str:
    """Return what to request if the job may have at most ``largest`` cores per node."""
    tasks = plan.ntasks_per_node
    if tasks > largest:
        return f"request at most --ntasks-per-node {largest} -c 1"
    with_tasks = f" with {tasks} tasks per node" if tasks > 1 else ""
    return f"request at most -c {largest // tasks}{with_tasks}"


def _capped_cores(plan: JobPlan) -> Optional[int]:
    """Return the cores per node that come with the job's GPUs; None: the site sets no cap."""
    each = plan.cluster.cores_per_gpu(plan.partition)
    capped = plan.cluster.policy.cores.rule == "cap" and not plan.request.exclusive
    return each * plan.gpus_per_node if capped and each and plan.gpus_per_node else None


@job_rule(ERROR, "NC131", "more cores than a node has", Trait.PARTITION, about=_CORES)
def check_cores_per_node(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    largest = partition.max_cores_per_node
    least = (
        plan.cores_per_node if plan.request.amounts is None else slurm_needs(plan).largest_share[0]
    )
    if largest is None or least <= largest:
        return
    asked = _cores_asked(plan)
    if plan.request.amounts is not None:
        asked = f"requested {counted(least, 'core')} on one node"
    message = f"{asked}; the largest node in {partition.name} has {largest}"
    hint = _fewer_cores(plan, min(largest, _capped_cores(plan) or largest))
    yield Finding(message, hint, context.cite_partition("cores_per_node"))


@job_rule(ERROR, "NC132", "more cores per GPU than the site allows", Trait.PARTITION, about=_CORES)
def check_cores_per_gpu(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    allowed, largest = _capped_cores(plan), partition.max_cores_per_node
    if allowed is None or plan.cores_per_node <= allowed:
        return
    if largest is not None and plan.cores_per_node > largest:
        return  # NC131 reports this
    come = verb(plan.gpus_per_node, "comes", "come")
    source = context.cite("policy", "cores", "rule")
    yield Finding(
        f"{_cores_asked(plan)}; {counted(plan.gpus_per_node, 'GPU')} in {partition.name} {come} "
        f"with {allowed} ({plan.cluster.cores_per_gpu(partition)} per GPU)",
        f"{_fewer_cores(plan, allowed)}, or request more GPUs",
        source,
        NOTE if source.doubtful else "",
    )


@job_rule(ERROR, "NC134", "more memory than a node has", Trait.PARTITION, about="mem")
def check_memory_per_node(context: RuleContext) -> Iterator[Finding]:
    plan, partition = context.plan, context.plan.partition
    has = partition.memory_mb_per_node
    wanted = None if plan.request.mem is None else units.parse_memory(plan.request.mem)
    if has is not None and wanted is not None and wanted > has:
        yield Finding(
            f"requested {plan.request.mem} of memory per node ({wanted} MB); the largest node in "
            f"{partition.name} has {has} MB",
            f"request at most --mem {has}M",
            context.cite_partition("memory_mb_per_node"),
        )


@job_rule(ERROR, "NC141", "wall time over the limit", Trait.PARTITION, about="time")
def check_wall_time(context: RuleContext) -> Iterator[Finding]:
    plan = context.plan
    limits = plan.partition.wall_time
    limit, key, kind = limits.maximum, "maximum", "batch"
    if plan.interactive and limits.interactive_maximum is not None:
        limit, key, kind = limits.interactive_maximum, "interactive_maximum", "interactive"
    if limit is None or limit == units.UNLIMITED or plan.time_limit is None:
        return
    if plan.time_limit != units.UNLIMITED and plan.time_limit <= limit:
        return
    asked = f"a time limit of {units.format_time(plan.time_limit)}"
    if plan.time_limit == units.UNLIMITED:
        asked = f"no time limit (-t {plan.request.time_limit})"
    qos = _qos_words(context, "wall_time") if key == "maximum" else ""
    others = () if context.slurm is None else context.slurm.qos_for_time
    other_qos = f", or use -q {' or -q '.join(others[:2])}" if others else ""
    message = f"requested {asked}; {kind} jobs in {plan.partition.name}{qos} may run at most "
    message += f"{units.format_time(limit)}: Slurm may accept it but never start it"
    hint = f"request at most -t {units.format_time(limit)}{other_qos}"
    yield Finding(message, hint, _cite_wall_time(context, key))


def _cite_wall_time(context: RuleContext, key: str) -> Citation:
    place = ("partitions", context.plan.partition.name, "wall_time")
    if key == "maximum" and place in context.sources:
        return context.sources[place]
    qos = context.limiting_qos("wall_time")
    if qos and key == "maximum":
        return context.cite("qos", qos, "wall_time", key)
    # Most partitions inherit it from their cluster.
    if context.catalog.has(context.plan.cluster.name, *place, key):
        return context.cite(*place, key)
    return context.cite("wall_time", key)
