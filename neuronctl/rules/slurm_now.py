"""NC5xx: what Slurm itself says now: limits, arrays, accounts, QOS, nodes.

Imported only where Slurm was asked.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Iterator

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.units import hosts
from neuronctl.common.words import counted, moment, verb
from neuronctl.forecast import reservations
from neuronctl.forecast.features import feature_names
from neuronctl.forecast.limits import group_of, usage
from neuronctl.forecast.outcomes import LimitRefusal, RefusalKind, Wait
from neuronctl.forecast.plan_on_cluster import PlanOnCluster
from neuronctl.forecast.snapshot import slurm_says
from neuronctl.forecast.start_conditions import (
    asked_and_there,
    licenses_asked,
    unknown_dependencies,
)
from neuronctl.planning.needs import needs_of
from neuronctl.rules.base import RuleContext, Violation, rule
from neuronctl.slurm.limits import Counts, Per, Scope
from neuronctl.slurm.scontrol import Reservation, names_of

_NEVER = "Slurm may accept it but never start it"


def _refusals(context: RuleContext, *kinds: str) -> Iterator[LimitRefusal]:
    every = () if context.forecast is None else context.forecast.refusals
    return (refusal for refusal in every if refusal.kind in kinds)


@rule(
    ERROR, "NC501", "more jobs than a user may have", "closes_partition only_now", about="partition"
)
def jobs_in_queue(context: RuleContext) -> Iterator[Violation]:
    for refusal in _refusals(context, RefusalKind.CLOSED, RefusalKind.QUEUE):
        limit, size = refusal.limit, refusal.wanted
        if refusal.kind == RefusalKind.CLOSED:
            submitted = limit.about.counts == Counts.SUBMITTED
            yield Violation(
                f"{limit.holder} lets no job {'into the queue' if submitted else 'run'} "
                f"({limit.named}): {'Slurm refuses it' if submitted else _NEVER}",
                "use another partition, QOS or account",
                refusal.source,
                passed_over=context.passes_over(limit),
            )
            continue
        left = max(0, limit.figure - limit.used)
        more = "1 more" if size == 1 else f"the array's {size} tasks"
        hint = "wait until some end, or cancel some ('neuronctl status' lists them)"
        if size > limit.figure:
            hint = f"split it: an array of at most {counted(limit.figure, 'task')} fits"
            hint += f", of {left} now" if 0 < left < limit.figure else ""
        elif size > 1 and left:
            hint += f"; {left} more would still be accepted"
        yield Violation(
            f"you have {counted(limit.used, 'job')} in the queue and may have {limit.figure}; "
            f"{more} would be refused",
            hint,
            refusal.source,
        )


_SIZE = "nodes ntasks gpus-per-node gres gpus"


@rule(ERROR, "NC508", "more than a whole group may have", "of_partition of_limit", about=_SIZE)
def more_than_a_group(context: RuleContext) -> Iterator[Violation]:
    for refusal in _refusals(context, RefusalKind.GROUP_QUEUE, RefusalKind.GROUP_SIZE):
        limit = refusal.limit
        if refusal.kind == RefusalKind.GROUP_QUEUE:
            yield Violation(
                f"{group_of(limit)} has {limit.used} of at most {limit.amount(limit.figure)} in "
                "the queue, counting all its users",
                "wait until some end, or use another QOS or account",
                refusal.source,
            )
        else:
            yield Violation(
                f"requested {limit.amount(refusal.wanted)}; all jobs of {limit.holder} together "
                f"may have {limit.figure} ({limit.kind}): it would never start",
                "request less, or use another QOS or account",
                refusal.source,
                passed_over=context.passes_over(limit),
            )


@rule(ERROR, "NC509", "a size that no job may have", "of_partition of_limit", about=_SIZE)
def size_of_no_job(context: RuleContext) -> Iterator[Violation]:
    for refusal in _refusals(context, RefusalKind.SIZE):
        limit, about = refusal.limit, refusal.limit.about
        whose = {Per.USER: "a user of", Per.ACCOUNT: "an account in"}.get(about.per, "a job in")
        may = "may use" if about.counts == Counts.TRES_MINUTES else "may have"
        may = "may hold" if about.per in (Per.USER, Per.ACCOUNT) else may
        each = " per node" if about.per == Per.NODE else ""
        figure = f"must have at least {limit.figure}" if about.minimum else f"{may} {limit.figure}"
        named = f" ({limit.kind})" if limit.scope == Scope.PARTITION else ""
        yield Violation(
            f"requested {limit.amount(refusal.wanted)}{each}; {whose} {limit.holder} "
            f"{figure}{each}{named}: {_NEVER}",
            "change the size, or use another QOS",
            refusal.source,
            passed_over=context.passes_over(limit),
        )


@rule(ERROR, "NC530", "licenses that Slurm does not have", "of_cluster", about="licenses")
def licenses(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    snapshot = on_cluster.snapshot
    there = {name: total for name, (total, _) in (snapshot.licenses or {}).items()}
    for name, count in (licenses_asked(on_cluster) or {}).items():
        if name not in there or count > there[name]:
            known = ", ".join(f"{one} ({total})" for one, total in there.items()) or "none"
            yield Violation(
                asked_and_there(name, count, there.get(name, 0)),
                f"Slurm's licenses: {known}",
                slurm_says("scontrol show licenses", snapshot.asked_at),
            )


def _waits(wait: Wait) -> Iterator[Violation]:
    yield Violation(wait.words, source=wait.source)


for _code, _title, _traits in (
    ("NC502", "waits for a running job's end", "of_limit"),
    ("NC503", "waits for GPUs a user may hold", "of_limit"),
    ("NC504", "waits for free nodes", ""),
    ("NC505", "waits for the partition", ""),
    ("NC506", "waits as asked", ""),
    ("NC507", "waits for what others hold of a shared limit", "of_limit"),
    ("NC510", "waits for cores, nodes or memory a user may hold", "of_limit"),
    ("NC531", "waits for licenses", ""),
):
    rule(WARNING, _code, _title, f"waits only_now {_traits}", about="partition")(_waits)


@rule(ERROR, "NC511", "array index over MaxArraySize", "of_cluster", about="array")
def array_index(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    text = on_cluster.plan.request.array
    if text is None:
        return
    size = on_cluster.snapshot.limits.config.max_array_size
    # Behind "-" stands an end, behind ":" a step, behind "%" how many at a time.
    indexes = [int(digits) for digits in re.findall(r"(?<![:%\d])\d{1,18}", text)]
    highest = max(indexes, default=0)
    if size is not None and highest >= size:
        yield Violation(
            f"--array={text}: index {highest} is over {size - 1}, the highest allowed "
            f"(MaxArraySize {size})",
            f"number the tasks from 0 to {size - 1}, and let each do more",
            on_cluster.snapshot.says("scontrol show config"),
        )


@rule(WARNING, "NC512", "dependency on an unknown job", "of_cluster", about="dependency")
def unknown_dependency(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    for number, taken in unknown_dependencies(on_cluster):
        then = "the job does not wait for it, however it ended"
        if taken is None:
            then = "the job may not wait for it, however it ended, or may be refused"
        if taken is not False:
            yield _unknown(number, then)


@rule(WARNING, "NC532", "preemption would end the job for good", "of_cluster")
def cancelled_when_preempted(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    until_done, ends = on_cluster.plan.until_done, on_cluster.preempted_jobs_end
    if until_done is not None and not until_done.chain and ends:
        what = "task" if on_cluster.plan.request.array else "job"
        yield Violation(
            f"Slurm cancels a preempted {what} here ({ends}), and --until-done, which requeues it, "
            "cannot bring it back",
            "use another partition, or resubmit the job if it is preempted",
            slurm_says("sacctmgr show qos" if "QOS" in ends else "scontrol show partition"),
        )


@rule(ERROR, "NC533", "no place in the queue for the next run", "of_cluster of_limit only_now")
def place_of_the_next(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    until_done = on_cluster.plan.until_done
    if until_done is None or not until_done.chain:
        return
    partition = on_cluster.partition
    allowed = {*hosts("" if partition is None else partition.submit_hosts)}
    nodes = {name for group in on_cluster.pool for name in group.names}
    if partition is not None and partition.submit_hosts and not nodes <= allowed:
        yield Violation(
            f"each run submits the next one from its own node ({until_done.chain}), and partition "
            f"{partition.name} takes jobs only from {partition.submit_hosts} (AllocNodes)",
            "use another partition",
            on_cluster.snapshot.says(f"scontrol show partition {partition.name}"),
        )
    for limit in on_cluster.limits:
        if limit.about.counts != Counts.SUBMITTED or limit.about.per not in (Per.USER, Per.GROUP):
            continue
        mine = limit.about.per == Per.USER
        used = usage(limit, on_cluster).used if mine else limit.used
        if used + 1 == limit.figure:
            have = f"you have {used}" if mine else f"{group_of(limit)} has {used}"
            yield Violation(
                f"the next run waits in the queue while one runs ({until_done.chain}): that is "
                f"2 jobs, {have}, and {limit.named} allows {limit.figure}",
                "use another partition or QOS"
                if limit.figure < 2
                else "wait until some end, or cancel some ('neuronctl status' lists them)",
                on_cluster.source(limit),
            )
            return


@rule(ERROR, "NC529", "dependency that Slurm refuses", "of_cluster", about="dependency")
def refused_dependency(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    for number, taken in unknown_dependencies(on_cluster):
        if taken is False:
            yield _unknown(number, "afterok and afternotok need a job that it still knows")


def _unknown(number: int, then: str) -> Violation:
    return Violation(
        f"--dependency names job {number}, which Slurm does not know (any more): {then}",
        f"check it with 'neuronctl status {number}'",
        slurm_says("scontrol show job"),
    )


def _qos_hint(on_cluster: PlanOnCluster) -> str:
    usable, default = on_cluster.usable_qos, on_cluster.default_qos.lower()
    use = "use " + (" or ".join(f"-q {name}" for name in usable) or "another partition")
    optional = not on_cluster.plan.cluster.policy.qos_required
    asked = optional and on_cluster.plan.request.qos is not None
    may_leave_out = asked and (not default or default in [name.lower() for name in usable])
    return f"leave -q out, or {use}" if may_leave_out else use


@rule(ERROR, "NC521", "QOS cannot be used", "of_cluster", about="qos")
def qos_known(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    snapshot, name = on_cluster.snapshot, on_cluster.job_qos
    enforced = "qos" in snapshot.limits.config.enforce
    asked = on_cluster.plan.request.qos is not None
    if snapshot.limits.qos is None or not name or not (asked or enforced):
        return
    if "," in name and snapshot.limits.config.release >= (24, 11):
        return  # one of them, by their priority
    default = "" if asked else ", which Slurm takes without -q"
    if not snapshot.limits.qos_in_force("", name):
        source = snapshot.says("sacctmgr show qos")
        yield Violation(f"Slurm has no QOS '{name}'{default}", _qos_hint(on_cluster), source)
        return
    allowed = () if on_cluster.association is None else on_cluster.association.qos
    if enforced and allowed and name.lower() not in [other.lower() for other in allowed]:
        yield Violation(
            f"you may not use QOS '{name}'{default}; yours in account {on_cluster.account}: "
            f"{', '.join(allowed)}",
            _qos_hint(on_cluster),
            snapshot.says("sacctmgr show associations"),
        )


@rule(ERROR, "NC522", "account cannot be used", "of_cluster", about="account")
def account_known(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    limits, asked = on_cluster.snapshot.limits, on_cluster.plan.request.account
    enforced = limits.qos is not None and "associations" in limits.config.enforce
    if on_cluster.associations or not enforced:
        return
    mine = tuple(dict.fromkeys(association.account for association in limits.associations))
    fault = "you have no default account" if asked is None else f"you may not use account '{asked}'"
    use = " or ".join(f"-A {name}" for name in mine)
    yield Violation(
        f"{fault}; yours: {', '.join(mine) or 'none'}",
        f"use {use}" if mine else "ask your administrators for an account",
        on_cluster.snapshot.says("sacctmgr show associations"),
    )


@rule(
    ERROR,
    "NC523",
    "partition does not take this account or QOS",
    "closes_partition of_cluster",
    about="partition",
)
def partition_allows(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    partition = on_cluster.partition
    if partition is None:
        return
    source = on_cluster.snapshot.says(f"scontrol show partition {partition.name}")
    enforced = "associations" in on_cluster.snapshot.limits.config.enforce
    if enforced and on_cluster.associations and on_cluster.association is None:
        places = " and ".join(association.partition for association in on_cluster.associations)
        yield Violation(
            f"you may use account {on_cluster.account} only in partition {places}",
            "use that partition, or another account with -A",
            on_cluster.snapshot.says("sacctmgr show associations"),
        )
    qos = "" if "," in on_cluster.job_qos else on_cluster.job_qos
    for kind, own, is_among, allowed, denied in (
        (
            "account",
            on_cluster.account,
            on_cluster.account_is_among,
            partition.allow_accounts,
            partition.deny_accounts,
        ),
        ("QOS", qos, on_cluster.qos_is_among, partition.allow_qos, partition.deny_qos),
    ):
        if own and not allowed and is_among(denied):
            yield Violation(
                f"partition {partition.name} denies {kind} {own}",
                f"use another partition, or another {kind}",
                source,
            )
        if own and allowed and not is_among(allowed):
            yield Violation(
                f"partition {partition.name} allows only {kind} {' or '.join(allowed)}; this job's "
                f"is {own}",
                "use another partition, or one of them",
                source,
            )


def _reservation_faults(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    """Each thing for which Slurm refuses ``--reservation``."""
    plan, snapshot = on_cluster.plan, on_cluster.snapshot
    if plan.request.reservation is None or snapshot.reservations is None:
        return
    fault = partial(Violation, source=reservations.SOURCE)
    known = {reservation.name: reservation for reservation in snapshot.reservations}
    for name in reservations.own_names(on_cluster):
        if name not in known:
            yield fault(f"no reservation '{name}'", f"there are: {', '.join(known) or 'none'}")
            continue
        reservation = known[name]
        for kind, own, allowed in reservations.barred(reservation, on_cluster):
            yield fault(
                f"reservation {name} is for {kind} {', '.join(allowed)}; this job's {kind} is "
                f"{' or '.join(own)}",
                "leave --reservation out, or ask its owner",
            )
        yield from _too_small(reservation, on_cluster)
        if reservation.end <= snapshot.asked_at:
            yield fault(f"reservation {name} ended at {moment(reservation.end)}", "leave it out")


def _too_small(reservation: Reservation, on_cluster: PlanOnCluster) -> Iterator[Violation]:
    """A job of this reservation alone that cannot have its nodes there."""
    plan, names = on_cluster.plan, set(hosts(reservation.node_list))
    several = len(reservations.own_names(on_cluster)) > 1
    if not on_cluster.pool or not names or several or "FLEX" in reservation.flags:
        return
    has = len(names & names_of(on_cluster.pool))
    others = sorted(on_cluster.required_hosts - names)
    hint = f"its nodes are {reservation.node_list}"
    begun = reservation.start <= on_cluster.snapshot.asked_at
    requested = f"requested {counted(plan.nodes, 'node')}"
    if has < plan.nodes:
        words = f"{requested}; reservation {reservation.name} has {has} of the nodes of "
        words += plan.partition.name
    elif begun and has - len(names & set(hosts(plan.request.exclude))) < plan.nodes:
        words = f"{requested}; --exclude={plan.request.exclude} leaves fewer of reservation "
        words, hint = words + reservation.name, f"{hint}: exclude fewer"
    elif others:
        words = f"{', '.join(others)} (--nodelist) {verb(len(others))} not in reservation "
        words += reservation.name
    else:
        return
    yield Violation(words, hint, reservations.SOURCE)


@rule(ERROR, "NC526", "reservation that cannot be used", "of_cluster bars", about="reservation")
def reservation(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    yield from _reservation_faults(on_cluster)
    partition, named = on_cluster.partition, on_cluster.plan.request.reservation
    if partition is not None and partition.reserved_only and named is None:
        yield Violation(
            f"partition {partition.name} takes only jobs with a reservation",
            "name yours with --reservation, or use another partition",
            on_cluster.snapshot.says(f"scontrol show partition {partition.name}"),
        )
    if "RequiresReservation" in on_cluster.qos_flags and named is None:
        yield Violation(
            f"QOS {on_cluster.job_qos} takes only jobs with a reservation (RequiresReservation)",
            "name yours with --reservation, or use another QOS",
            on_cluster.snapshot.says(f"sacctmgr show qos {on_cluster.job_qos}"),
        )


@rule(
    ERROR,
    "NC527",
    "fewer nodes than a job must have",
    "of_partition of_cluster",
    about="nodes ntasks nodelist",
)
def fewest_nodes(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    nodes, name = on_cluster.plan.nodes, on_cluster.plan.partition.name
    own = on_cluster.plan.request.amounts
    if own is not None and own.nodes is None and on_cluster.says_nodes:
        nodes = len(on_cluster.named_hosts)  # whatever its tasks need
    fewest = on_cluster.min_nodes
    # A later Slurm wants so many requested, and not only needed.
    newer = on_cluster.snapshot.limits.config.release > (22, 5) and not on_cluster.is_lenient
    unsaid = newer and not on_cluster.says_nodes
    if nodes < fewest or (unsaid and fewest > 1):
        requested = "no number of nodes" if unsaid else counted(nodes, "node")
        yield Violation(
            f"requested {requested}; a job in {name} must have at least {fewest}",
            f"request -N {fewest}, or use another partition",
            on_cluster.snapshot.says(f"scontrol show partition {name}"),
        )


@rule(
    ERROR,
    "NC528",
    "partition takes no job from this machine",
    "of_partition of_cluster bars",
    about="partition",
)
def submit_host(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    snapshot, partition = on_cluster.snapshot, on_cluster.partition
    if partition is None or not partition.submit_hosts:
        return
    if snapshot.host not in hosts(partition.submit_hosts):
        yield Violation(
            f"partition {partition.name} takes jobs only from {partition.submit_hosts} "
            f"(AllocNodes); this is {snapshot.host}",
            "submit it there, or use another partition",
            snapshot.says(f"scontrol show partition {partition.name}"),
        )


@rule(ERROR, "NC524", "too few nodes have the features", "of_nodes", about="constraint")
def features(context: RuleContext) -> Iterator[Violation]:
    if context.forecast is None:
        return
    text = context.plan.request.constraint
    on_cluster, name = context.forecast.on_cluster, context.plan.partition.name
    pool, fitting = on_cluster.pool, context.forecast.nodes.fitting
    known = {feature for group in pool for feature in group.features}
    # Slurm refuses a name that no node of the cluster has, whatever else would do.
    anywhere = {x for group in on_cluster.snapshot.limits.nodes for x in group.features} | known
    names = dict.fromkeys(feature_names(text) if text and pool else ())
    unknown = [name for name in names if name not in anywhere]
    if on_cluster.lacking(names_of(pool), empty=True):
        unknown = [name for name in names if name not in known]
    source = on_cluster.snapshot.says("scontrol show node")
    hint = f"features there: {', '.join(sorted(known)) or 'none'}"
    for feature in unknown:
        words = f"--constraint={text}: no node of {name} has the feature '{feature}'"
        yield Violation(words, hint, source)
    there = names_of(pool) - set(hosts(context.plan.request.exclude))
    there &= reservations.own_nodes(on_cluster) or there
    few = len(there) < context.plan.nodes or not on_cluster.required_hosts <= there
    # Too few nodes, whatever they are like, are the matter of other rules; so is a share of a node
    # with more than any of them has of one thing.
    if not pool or _is_beyond_any(on_cluster):
        return
    if unknown or few or not on_cluster.lacking(fitting, empty=True):
        return
    missing = sorted(on_cluster.required_hosts - fitting)
    count, meets = len(fitting), "meets" if len(fitting) < 2 else "meet"
    what = "" if text is None else f"{meets} --constraint={text} and "
    kinds = " and ".join(dict(on_cluster.needs.gpu_types))
    if kinds and not count:
        what += f"has GPUs of type {kinds} and "
    words = f"{count or 'no'} {'node' if count < 2 else 'nodes'} of {name} {what}"
    words += f"{verb(count or 1)} large enough for the job; requested {context.plan.nodes}"
    if missing:
        lacks = verb(len(missing), "lacks", "lack")
        what = "" if text is None else f", or {lacks} --constraint={text}"
        words = (
            f"{', '.join(missing)} (--nodelist) {verb(len(missing))} too small for the job{what}"
        )
    elif on_cluster.needs.is_spread and count >= on_cluster.needs.nodes:
        needs, said = on_cluster.needs, context.plan.request.amounts
        most = needs.most_nodes if said is not None and said.nodes else 0
        words = f"the nodes of {name} {'that ' + what[:-5] if what else ''}do not hold "
        words += f"{on_cluster.needs.in_all} together" + (
            f" on {counted(most, 'node')}" * bool(most)
        )
    elif len(fitting) >= context.plan.nodes:
        words = f"--constraint={text}: too few nodes of {name} have it for -N {context.plan.nodes}"
    hint = hint if text else "request less per node, or fewer nodes"
    if on_cluster.partition is not None and any(map(on_cluster.is_kept_from, pool)):
        limit = counted(on_cluster.partition.max_cores_per_node or 0, "core")
        words += f"; of nodes with more than {limit} (MaxCPUsPerNode), no job has any for itself"
        hint = "leave out --exclusive"
    yield Violation(words, hint, source)


def _is_beyond_any(on_cluster: PlanOnCluster) -> bool:
    """Whether one of its nodes needs more than any has or may give, which other rules say."""
    needs, pool, request = on_cluster.needs, on_cluster.pool, on_cluster.plan.request
    # Those look at the plan alone, whatever nodes limits leave it.
    cores, gpus = needs_of(on_cluster.plan, on_cluster.snapshot.limits.config.release).largest_share
    model = on_cluster.plan.partition.gpu
    return (
        cores > max(group.cores for group in pool)
        or gpus > max(group.gpus for group in pool)
        or (
            request.mem is not None
            and needs.memory_per_node > max(group.memory_mb for group in pool)
        )
        or (model is not None and request.gpu_type not in (None, model))
        or any(
            on_cluster.least_on_node.get(limit.tres, 0) > limit.figure
            for limit in on_cluster.limits
            if limit.scope == Scope.PARTITION and limit.about.per == Per.NODE
        )
    )


@rule(NOTE, "NC534", "nodes that failed in your jobs", about="exclude")
def failed_before(context: RuleContext) -> Iterator[Violation]:
    """Only those that the job may get."""
    on_cluster, request = context.on_cluster, context.plan.request
    if on_cluster is None or not context.local.bad_nodes:
        return
    excluded = set(hosts(request.exclude))
    may = (names_of(on_cluster.pool) & set(context.local.bad_nodes)) - excluded
    if request.nodelist is not None and len(on_cluster.required_hosts) >= context.plan.most_nodes:
        may &= on_cluster.required_hosts
    for node in sorted(may):
        fault = context.local.bad_nodes[node]
        yield Violation(
            f"{node} failed in your jobs, last {moment(fault.at)} (job {fault.job}): {fault.why}",
            f"leave it out with -x {','.join(filter(None, (request.exclude, node)))}, or always "
            "with --avoid-bad-nodes",
        )


@rule(ERROR, "NC525", "excluded nodes", "of_nodes of_cluster", about="exclude")
def excluded(on_cluster: PlanOnCluster) -> Iterator[Violation]:
    plan, text = on_cluster.plan, on_cluster.plan.request.exclude
    source = on_cluster.snapshot.says("scontrol show node")
    known = names_of(on_cluster.snapshot.limits.nodes)
    named = hosts(text)
    if on_cluster.snapshot.limits.config.release >= (24, 11):
        named = named[-1:]  # it passes over any other that it does not know
    strangers = [name for name in named if name not in known]
    if strangers and known:
        yield Violation(
            f"--exclude={text}: Slurm has no node {', '.join(strangers)}",
            f"the nodes of {plan.partition.name} are {plan.partition.node_list}",
            source,
        )
    nodes = names_of(on_cluster.pool)
    left = len(nodes - set(hosts(text)))
    if left < len(nodes) and left < plan.nodes <= len(nodes):
        yield Violation(
            f"requested {counted(plan.nodes, 'node')}; --exclude={text} leaves {left or 'none'} of "
            f"the {len(nodes)} nodes of {plan.partition.name}",
            "exclude fewer, or use another partition",
            source,
        )
