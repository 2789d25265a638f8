"""NC5xx: what Slurm itself says now: limits, arrays, accounts, QOS, nodes. Silent without Slurm,
except for what every Slurm refuses.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Iterable, Iterator, List, Optional, Tuple

from neuronctl.rules.base import EVERY_SLURM, RuleContext, Violation, rule
from neuronctl.words import counted, verb

if TYPE_CHECKING:
    from neuronctl.forecast.prospect import Prospect


def _of_forecast(context: RuleContext, code: str) -> Iterator[Violation]:
    """What the forecast found already."""
    for refusal in context.forecast.refusals if context.forecast is not None else ():
        if refusal.code == code:
            yield Violation(refusal.words, refusal.hint, refusal.source)


rule("NC501")(partial(_of_forecast, code="NC501"))
rule("NC508")(partial(_of_forecast, code="NC508"))
rule("NC509")(partial(_of_forecast, code="NC509"))
rule("NC530")(partial(_of_forecast, code="NC530"))


@rule("NC511")
def array_index(context: RuleContext) -> Iterator[Violation]:
    text = context.plan.request.array
    if text is None or context.forecast is None:
        return
    snapshot = context.forecast.prospect.snapshot
    size = snapshot.limits.config.max_array_size
    # Behind "-" stands an end, behind ":" a step, behind "%" how many at a time.
    indexes = [int(digits) for digits in re.findall(r"(?<![:%\d])\d+", text)]
    highest = max(indexes, default=0)
    if size is not None and highest >= size:
        yield Violation(
            f"--array={text}: index {highest} is over {size - 1}, the highest allowed "
            f"(MaxArraySize {size})",
            f"number the tasks from 0 to {size - 1}, and let each do more",
            snapshot.says("scontrol show config"),
        )


@rule("NC512")
def unknown_dependency(context: RuleContext) -> Iterator[Violation]:
    for number, taken in _unknown_dependencies(context):
        then = "the job does not wait for it, however it ended"
        if taken is None:
            then = "the job may not wait for it, however it ended, or may be refused"
        if taken is not False:
            yield _unknown(number, then)


@rule("NC529")
def refused_dependency(context: RuleContext) -> Iterator[Violation]:
    for number, taken in _unknown_dependencies(context):
        if taken is False:
            yield _unknown(number, "afterok and afternotok need a job that it still knows")


def _unknown_dependencies(context: RuleContext) -> Iterable[Tuple[int, Optional[bool]]]:
    if context.forecast is None:
        return ()
    from neuronctl.forecast.start_conditions import unknown_dependencies

    return unknown_dependencies(context.forecast.prospect)


def _unknown(number: int, then: str) -> Violation:
    from neuronctl.forecast.snapshot import slurm_says

    return Violation(
        f"--dependency names job {number}, which Slurm does not know (any more): {then}",
        f"check it with 'neuronctl status {number}'",
        slurm_says("scontrol show job"),
    )


@rule("NC513")
def begin(context: RuleContext) -> Iterator[Violation]:
    texts = [text for text in context.plan.request.sbatch if text.startswith("begin=")]
    if not texts:
        return
    from neuronctl.request.begin_time import EXAMPLES, moment

    text = texts[0].partition("=")[2]
    try:
        moment(text, 0)  # what cannot be read now can never be
    except ValueError:
        words = f"--begin={text} is not a time that Slurm reads"
        yield Violation(words, f"use {EXAMPLES}", EVERY_SLURM)


def usable_accounts(prospect: Prospect) -> Tuple[str, ...]:
    """The accounts under which the user may submit to the job's partition."""
    return tuple(
        dict.fromkeys(
            one.account
            for one in prospect.snapshot.limits.associations
            if one.partition in ("", prospect.plan.partition.name)
        )
    )


def usable_qos(prospect: Prospect) -> List[str]:
    """The QOS that the user may ask for in the job's partition."""
    limits, partition = prospect.snapshot.limits, prospect.partition
    own = () if prospect.association is None else prospect.association.qos
    if not own or "qos" not in limits.config.enforce:
        # A QOS that a partition has for itself is not meant to be asked for.
        of_partitions = {one.qos.lower() for one in limits.partitions}
        own = tuple(one.name for one in limits.qos or () if one.name.lower() not in of_partitions)
    allowed = () if partition is None else tuple(name.lower() for name in partition.allow_qos)
    denied = () if partition is None else tuple(name.lower() for name in partition.deny_qos)
    return [
        name
        for name in own
        if name.lower() not in denied and (not allowed or name.lower() in allowed)
    ]


def _qos_hint(prospect: Prospect) -> str:
    usable, default = usable_qos(prospect), prospect.default_qos.lower()
    use = "use " + (" or ".join(f"-q {name}" for name in usable) or "another partition")
    optional = not prospect.plan.cluster.policy.qos_required
    asked = optional and prospect.plan.request.qos is not None
    may_leave_out = asked and (not default or default in [name.lower() for name in usable])
    return f"leave -q out, or {use}" if may_leave_out else use


@rule("NC521")
def qos_known(context: RuleContext) -> Iterator[Violation]:
    if context.forecast is None:
        return
    prospect = context.forecast.prospect
    snapshot, name = prospect.snapshot, prospect.job_qos
    enforced = "qos" in snapshot.limits.config.enforce
    asked = context.plan.request.qos is not None
    if snapshot.limits.qos is None or not name or not (asked or enforced):
        return
    if "," in name and snapshot.limits.config.release >= (24, 11):
        return  # one of them, by their priority
    default = "" if asked else ", which Slurm takes without -q"
    if snapshot.qos(name) is None:
        source = snapshot.says("sacctmgr show qos")
        yield Violation(f"Slurm has no QOS '{name}'{default}", _qos_hint(prospect), source)
        return
    allowed = () if prospect.association is None else prospect.association.qos
    if enforced and allowed and name.lower() not in [one.lower() for one in allowed]:
        yield Violation(
            f"you may not use QOS '{name}'{default}; yours in account {prospect.account}: "
            f"{', '.join(allowed)}",
            _qos_hint(prospect),
            snapshot.says("sacctmgr show associations"),
        )


@rule("NC522")
def account_known(context: RuleContext) -> Iterator[Violation]:
    if context.forecast is None:
        return
    prospect, asked = context.forecast.prospect, context.plan.request.account
    limits = prospect.snapshot.limits
    enforced = limits.qos is not None and "associations" in limits.config.enforce
    if prospect.associations or not enforced:
        return
    mine = tuple(dict.fromkeys(one.account for one in limits.associations))
    fault = "you have no default account" if asked is None else f"you may not use account '{asked}'"
    use = " or ".join(f"-A {name}" for name in mine)
    yield Violation(
        f"{fault}; yours: {', '.join(mine) or 'none'}",
        f"use {use}" if mine else "ask your administrators for an account",
        prospect.snapshot.says("sacctmgr show associations"),
    )


@rule("NC523")
def partition_allows(context: RuleContext) -> Iterator[Violation]:
    if context.forecast is None or context.forecast.prospect.partition is None:
        return
    prospect = context.forecast.prospect
    partition = context.forecast.prospect.partition
    source = prospect.snapshot.says(f"scontrol show partition {partition.name}")
    enforced = "associations" in prospect.snapshot.limits.config.enforce
    if enforced and prospect.associations and prospect.association is None:
        places = " and ".join(one.partition for one in prospect.associations)
        yield Violation(
            f"you may use account {prospect.account} only in partition {places}",
            "use that partition, or another account with -A",
            prospect.snapshot.says("sacctmgr show associations"),
        )
    qos = "" if "," in prospect.job_qos else prospect.job_qos
    for kind, own, is_among, allowed, denied in (
        (
            "account",
            prospect.account,
            prospect.account_is_among,
            partition.allow_accounts,
            partition.deny_accounts,
        ),
        ("QOS", qos, prospect.qos_is_among, partition.allow_qos, partition.deny_qos),
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


@rule("NC526")
def reservation(context: RuleContext) -> Iterator[Violation]:
    if context.forecast is None:
        return
    from neuronctl.forecast import reservations

    prospect = context.forecast.prospect
    for message, hint in reservations.faults(prospect):
        yield Violation(message, hint, reservations.SOURCE)
    partition = prospect.partition
    if (
        partition is not None
        and partition.reserved_only
        and context.plan.request.reservation is None
    ):
        yield Violation(
            f"partition {partition.name} takes only jobs with a reservation",
            "name yours with --reservation, or use another partition",
            prospect.snapshot.says(f"scontrol show partition {partition.name}"),
        )


@rule("NC527")
def fewest_nodes(context: RuleContext) -> Iterator[Violation]:
    if context.forecast is None or context.forecast.prospect.partition is None:
        return
    nodes, partition = context.plan.nodes, context.forecast.prospect.partition
    if nodes < partition.min_nodes:
        yield Violation(
            f"requested {counted(nodes, 'node')}; a job in {partition.name} must have at least "
            f"{partition.min_nodes}",
            f"request -N {partition.min_nodes}, or use another partition",
            context.forecast.prospect.snapshot.says(f"scontrol show partition {partition.name}"),
        )


@rule("NC528")
def submit_host(context: RuleContext) -> Iterator[Violation]:
    if context.forecast is None or context.forecast.prospect.partition is None:
        return
    from neuronctl.forecast.prospect import hosts

    snapshot, partition = (
        context.forecast.prospect.snapshot,
        context.forecast.prospect.partition,
    )
    if partition.submit_hosts and snapshot.host not in hosts(partition.submit_hosts):
        yield Violation(
            f"partition {partition.name} takes jobs only from {partition.submit_hosts} "
            f"(AllocNodes); this is {snapshot.host}",
            "submit it there, or use another partition",
            snapshot.says(f"scontrol show partition {partition.name}"),
        )


@rule("NC524")
def features(context: RuleContext) -> Iterator[Violation]:
    if context.forecast is None:
        return
    from neuronctl.forecast.features import feature_names
    from neuronctl.forecast.free_nodes import is_large_enough
    from neuronctl.forecast.prospect import hosts
    from neuronctl.forecast.reservations import own_nodes

    text = context.plan.request.constraint
    prospect, name = context.forecast.prospect, context.plan.partition.name
    pool = prospect.pool
    known = {feature for node in pool for feature in node.features}
    unknown = [one for one in feature_names(text or "") if one not in known] if pool else []
    source = prospect.snapshot.says("scontrol show node")
    hint = f"features there: {', '.join(sorted(known)) or 'none'}"
    for one in dict.fromkeys(unknown):
        words = f"--constraint={text}: no node of {name} has the feature '{one}'"
        yield Violation(words, hint, source)
    fitting = context.forecast.nodes.fitting
    there = {node.name for node in pool} - set(hosts(context.plan.request.exclude))
    there &= own_nodes(prospect) or there
    few = len(there) < context.plan.nodes or not prospect.required_hosts <= there
    # Too few nodes, whatever they are like, are the matter of other rules; so is a share of a node
    # that is too large for any of them.
    if not any(is_large_enough(node, prospect) for node in pool):
        return
    if unknown or few or not prospect.lacking(fitting):
        return
    missing = sorted(prospect.required_hosts - {node.name for node in fitting})
    what = "large enough" if text is None else f"right for --constraint={text} and large enough"
    words = f"{len(fitting) or 'no'} {'node' if len(fitting) < 2 else 'nodes'} of {name} "
    words += f"{verb(len(fitting) or 1)} {what}; requested {context.plan.nodes}"
    if missing:
        words = f"{', '.join(missing)} (--nodelist) {verb(len(missing))} not {what}"
    elif len(fitting) >= context.plan.nodes:
        words = f"--constraint={text}: too few nodes of {name} have it for -N {context.plan.nodes}"
    yield Violation(words, hint if text else "request less per node, or fewer nodes", source)


@rule("NC525")
def excluded(context: RuleContext) -> Iterator[Violation]:
    plan, text = context.plan, context.plan.request.exclude
    if context.forecast is None or text is None:
        return
    from neuronctl.forecast.prospect import hosts

    prospect = context.forecast.prospect
    source = prospect.snapshot.says("scontrol show node")
    known = {node.name for node in prospect.snapshot.limits.nodes}
    strangers = [name for name in hosts(text) if name not in known]
    if strangers and known:
        yield Violation(
            f"--exclude={text}: Slurm has no node {', '.join(strangers)}",
            f"the nodes of {plan.partition.name} are {plan.partition.node_list}",
            source,
        )
    nodes = {node.name for node in prospect.pool}
    left = len(nodes - set(hosts(text)))
    if left < len(nodes) and left < plan.nodes <= len(nodes):
        yield Violation(
            f"requested {counted(plan.nodes, 'node')}; --exclude={text} leaves {left or 'none'} of "
            f"the {len(nodes)} nodes of {plan.partition.name}",
            "exclude fewer, or use another partition",
            source,
        )
