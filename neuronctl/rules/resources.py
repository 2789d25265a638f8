"""NC1xx: partition, nodes, cores, GPUs and time against the catalog."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional

from neuronctl import units
from neuronctl.catalog.model import Partition
from neuronctl.planning import JobPlan
from neuronctl.planning.model import gpus_held
from neuronctl.rule_codes import WARNING
from neuronctl.rules.base import RuleContext, Violation, nearest, rule
from neuronctl.rules.hints import fewer_cores, gpus_over_nodes, most_gpus, most_nodes
from neuronctl.words import counted, verb


def _partitions_for(context: RuleContext, gpus: int) -> str:
    """Partitions whose nodes have at least ``gpus`` GPUs, for a hint."""
    names = [
        one.name
        for one in context.plan.cluster.partitions.values()
        if one.open and one.gpus_per_node >= gpus
    ]
    return ", ".join(names)


def _known(context: RuleContext) -> Optional[Partition]:
    """The job's partition, or None where the catalog does not know it (NC101 says so)."""
    partition = context.plan.partition
    return partition if partition.name in context.plan.cluster.partitions else None


def _of_catalog(context: RuleContext) -> Mapping[str, Partition]:
    """The partitions that the catalog gives the cluster, whatever Slurm says."""
    cluster = context.catalog.clusters.get(context.plan.cluster.name)
    return {} if cluster is None else cluster.partitions


def _has_model(context: RuleContext, name: str) -> bool:
    partitions = context.plan.cluster.partitions.values()
    return any(one.open and one.gpu == name.lower() for one in partitions)


@rule("NC101")
def partition_exists(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    names = tuple(plan.cluster.partitions)
    behind = [one for one in plan.request.args if one.partition("=")[0] in ("-p", "--partition")]
    if not plan.partition.name and behind:
        yield Violation(
            f"{behind[0]} stands behind {plan.request.script} and belongs to it, and so does "
            "every other option there",
            f"put the options before {plan.request.script}",
        )
    elif not plan.partition.name:
        own = [] if context.live is None else context.live.limits.partitions
        default = next((one.name for one in own if one.default), None)
        words = (
            f"no partition is asked for, and the catalog has no default one of {plan.cluster.name}"
        )
        hint = "name one with -p, or take -p auto"
        if default is not None:
            words += f"; its Slurm would take {default}"
            hint = f"take -p {default}, another one or -p auto"
        yield Violation(words, f"{hint}; there are: {', '.join(names)}", context.cite("partitions"))
    elif _known(context) is None and "," in plan.partition.name:
        yield Violation(
            f"'{plan.partition.name}' is a list of partitions, and a job is planned for one",
            "take -p auto: of those that can hold the job it picks where it starts first",
        )
    elif _known(context) is None and plan.partition.name in _of_catalog(context):
        yield Violation(
            f"partition '{plan.partition.name}' stands in the catalog, but the Slurm of "
            f"{plan.cluster.name} does not have it",
            "there are: " + ", ".join(names),
            context.cite("partitions"),
        )
    elif _known(context) is None and _has_model(context, plan.partition.name):
        model = plan.partition.name.lower()
        having = [one.name for one in plan.cluster.partitions.values() if one.gpu == model]
        yield Violation(
            f"partition '{plan.partition.name}' does not exist on {plan.cluster.name}; "
            f"{model} is a GPU",
            f"take -p auto --gpu {model}, or -p {' or '.join(having)}",
            context.cite("partitions"),
        )
    elif _known(context) is None:
        close = nearest(plan.partition.name, names)
        yield Violation(
            f"partition '{plan.partition.name}' does not exist on {plan.cluster.name}",
            f"did you mean {' or '.join(close)}?" if close else "there are: " + ", ".join(names),
            context.cite("partitions"),
        )


@rule("NC103")
def partition_in_catalog(context: RuleContext) -> Iterator[Violation]:
    name = context.plan.partition.name
    if _known(context) is not None and name not in _of_catalog(context):
        yield Violation(
            f"partition '{name}' is one of Slurm's that the catalog does not have: no cores and no "
            "memory are derived there",
            "'neuronctl catalog diff' shows what else the catalog lacks",
            context.cite("partitions"),
        )


@rule("NC102")
def partition_is_open(context: RuleContext) -> Iterator[Violation]:
    if not context.plan.partition.open:
        yield Violation(
            f"partition '{context.plan.partition.name}' is closed to users",
            "open ones are: " + _partitions_for(context, 0),
            context.cite_partition("open"),
        )


@rule("NC111")
def nodes_in_partition(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, context.plan.partition
    if partition.nodes is not None and plan.nodes > partition.nodes:
        yield Violation(
            f"{counted(plan.nodes, 'node')} {verb(plan.nodes)} asked for, {partition.name} has "
            f"{partition.nodes}",
            f"ask for at most -N {most_nodes(partition)}",
            context.cite_partition("nodes"),
        )


@rule("NC112")
def nodes_a_job(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, context.plan.partition
    if partition.max_nodes is not None and plan.nodes > partition.max_nodes:
        yield Violation(
            f"{counted(plan.nodes, 'node')} {verb(plan.nodes)} asked for, a job in "
            f"{partition.name} may have {partition.max_nodes}; Slurm would let it wait for ever",
            f"ask for at most -N {partition.max_nodes}",
            context.cite_partition("max_nodes"),
        )


@rule("NC121")
def gpus_a_node(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, _known(context)
    if partition is None or plan.gpus_per_node <= partition.gpus_per_node:
        return
    has = partition.gpus_per_node
    others = _partitions_for(context, plan.gpus_per_node)
    hint = gpus_over_nodes(plan) if has else "leave the GPUs out"
    total = plan.request.gpus
    asked = f"{counted(plan.gpus_per_node, 'GPU')} a node {verb(plan.gpus_per_node)} asked for"
    if total is not None:
        asked += f" (-G {total} on {counted(plan.nodes, 'node')})"
    yield Violation(
        f"{asked}, a node of {partition.name} has {has}",
        hint + (f", or take a partition that has them: {others}" if others else ""),
        context.cite_partition("gpus_per_node"),
    )


@rule("NC122")
def gpus_where_there_are(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, _known(context)
    if partition is None or not partition.gpus_per_node or plan.gpus_per_node:
        return
    required = plan.cluster.policy.gpus_required
    yield Violation(
        f"no GPU is asked for, and {partition.name} is a GPU partition"
        + (", where the site demands one" if required else ""),
        f"ask for --gpus-per-node 1 to {partition.gpus_per_node}",
        context.cite("policy", "gpus_required") if required else "",
        None if required else WARNING,
    )


@rule("NC123")
def gpu_model(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, context.plan.partition
    asked = plan.request.gpu_type
    if asked is not None and partition.gpu is not None and asked != partition.gpu:
        having = [
            one.name
            for one in plan.cluster.partitions.values()
            if one.gpu == asked and one.open and not plan.hosts
        ]  # a launch inside an allocation has its nodes
        hint = "leave the type out" + (f", or take -p {' or '.join(having)}" if having else "")
        if asked.lower() == partition.gpu.lower():
            hint = f"did you mean {partition.gpu}? Slurm tells capitals from small letters"
        yield Violation(
            f"GPUs of type '{asked}' are asked for, {partition.name} has '{partition.gpu}'",
            hint,
            context.cite_partition("gpu"),
        )


@rule("NC125")
def gpu_models(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, _known(context)
    models = plan.request.gpu_models
    wanted = [one.lower() for one in models]
    if partition is None or not models or (partition.gpu or "").lower() in wanted:
        return
    having = [
        one.name
        for one in plan.cluster.partitions.values()
        if one.open and (one.gpu or "").lower() in wanted
    ]
    yield Violation(
        f"--gpu={','.join(models)}: {partition.name} has {partition.gpu or 'none of them'}",
        f"take -p {' or '.join(having)}, or -p auto" if having else "no partition has them",
        context.cite_partition("gpu"),
    )


@rule("NC124")
def gpus_a_user(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, context.plan.partition
    held = gpus_held(plan)
    if partition.max_gpus is not None and held > partition.max_gpus:
        each = held // plan.nodes
        whole = ", whole with --exclusive" if held > plan.gpus else ""
        most = most_gpus(partition) or partition.max_gpus
        hint = f"ask for at most {counted(most, 'GPU')} in all"
        if each <= min(most, partition.gpus_per_node):
            hint += f": -N {most // each}"
            hint += "" if whole else f" --gpus-per-node {each}"
        yield Violation(
            f"{counted(held, 'GPU')} {verb(held)} asked for ({counted(plan.nodes, 'node')} x "
            f"{each}{whole}), a user may hold {partition.max_gpus} in "
            f"{partition.name}; Slurm would let it wait for ever",
            hint,
            context.cite_partition("max_gpus"),
        )


def _cores_asked(plan: JobPlan) -> str:
    tasks, cores = counted(plan.ntasks_per_node, "task"), counted(plan.cpus_per_task, "core")
    each = counted(plan.cores_per_node, "core")
    return f"{each} a node {verb(plan.cores_per_node)} asked for ({tasks} x {cores})"


@rule("NC131")
def cores_a_node(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, context.plan.partition
    largest = partition.max_cores_per_node
    if largest is not None and plan.cores_per_node > largest:
        # Where the site caps them (NC132), the hint shall hold there too.
        allowed = min(largest, _cap(plan) or largest)
        yield Violation(
            f"{_cores_asked(plan)}, the largest node of {partition.name} has {largest}",
            fewer_cores(plan, allowed),
            context.cite_partition("cores_per_node"),
        )
        return
    sizes = partition.cores_per_node
    fitting = sum(1 for cores in sizes if cores >= plan.cores_per_node)
    # With more nodes than there are it is NC111 that says so.
    if len(sizes) == partition.nodes and len(sizes) > 1 and fitting < min(plan.nodes, len(sizes)):
        have = "has" if fitting == 1 else "have"
        yield Violation(
            f"{counted(plan.cores_per_node, 'core')} a node {verb(plan.cores_per_node)} asked for "
            f"on {counted(plan.nodes, 'node')}, {fitting} of {partition.name} {have} so many "
            f"({', '.join(str(cores) for cores in sizes)})",
            f"ask for at most -N {fitting}, or for fewer cores",
            context.cite_partition("cores_per_node"),
        )


def _cap(plan: JobPlan) -> Optional[int]:
    """The most cores a node that the job's GPUs come with; None where the site sets no cap."""
    each = plan.cluster.cores_per_gpu(plan.partition)
    capped = plan.cluster.policy.cores.rule == "cap" and not plan.request.exclusive
    if not capped or each is None or not plan.gpus_per_node:
        return None
    return each * plan.gpus_per_node


@rule("NC132")
def cores_a_gpu(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, context.plan.partition
    allowed, largest = _cap(plan), partition.max_cores_per_node
    if allowed is None or plan.cores_per_node <= allowed:
        return
    if largest is not None and plan.cores_per_node > largest:
        return  # NC131 has said it
    come = "comes" if plan.gpus_per_node == 1 else "come"
    yield Violation(
        f"{_cores_asked(plan)}, {counted(plan.gpus_per_node, 'GPU')} of {partition.name} {come} "
        f"with {allowed} ({plan.cluster.cores_per_gpu(partition)} a GPU)",
        f"{fewer_cores(plan, allowed)}, or ask for more GPUs",
        context.cite("policy", "cores"),
    )


@rule("NC133")
def cores_for_gpus(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, _known(context)
    if partition is not None and plan.gpus_per_node > partition.gpus_per_node:
        return  # NC121 has said it
    # A whole node comes with all its cores, whatever is asked for.
    if plan.gpus_per_node > plan.cores_per_node and not plan.request.exclusive:
        yield Violation(
            f"{plan.gpus_per_node} GPUs a node but {counted(plan.cores_per_node, 'core')} "
            f"{verb(plan.cores_per_node)} asked for; a GPU needs a core at least",
            f"ask for at least -c {-(-plan.gpus_per_node // plan.ntasks_per_node)}",
        )


@rule("NC134")
def memory_a_node(context: RuleContext) -> Iterator[Violation]:
    plan, partition = context.plan, context.plan.partition
    has = partition.memory_mb_per_node
    wanted = None if plan.request.mem is None else units.parse_memory(plan.request.mem)
    if has is not None and wanted is not None and wanted > has:
        yield Violation(
            f"{plan.request.mem} of memory a node is asked for ({wanted} MB), the largest "
            f"node of {partition.name} has {has} MB",
            f"ask for at most --mem {has}M",
            context.cite_partition("memory_mb_per_node"),
        )


@rule("NC141")
def wall_time(context: RuleContext) -> Iterator[Violation]:
    plan = context.plan
    limits = plan.partition.wall_time
    limit, key, kind = limits.maximum, "maximum", "batch"
    if plan.interactive and limits.interactive_maximum is not None:
        limit, key, kind = limits.interactive_maximum, "interactive_maximum", "interactive"
    if limit is None or limit == units.UNLIMITED or plan.time_limit is None:
        return
    if plan.time_limit != units.UNLIMITED and plan.time_limit <= limit:
        return
    asked = units.format_time(plan.time_limit)
    if plan.time_limit == units.UNLIMITED:
        asked = f"no limit (-t {plan.request.time_limit})"
    yield Violation(
        f"{asked} is asked for as wall time, {kind} jobs in {plan.partition.name} may run "
        f"{units.format_time(limit)}; Slurm may accept it and never start it",
        f"ask for at most -t {units.format_time(limit)}",
        _cite_wall_time(context, key),
    )


def _cite_wall_time(context: RuleContext, key: str) -> str:
    place = ("partitions", context.plan.partition.name, "wall_time")
    if key == "maximum" and place in context.sources:
        return context.sources[place]
    # Most partitions have it from their cluster.
    if (context.plan.cluster.name, *place, key) in context.catalog.locations:
        return context.cite(*place, key)
    return context.cite("wall_time", key)
