"""NC5xx: what Slurm itself says now: jobs, GPUs, nodes, arrays, accounts. Silent without Slurm, but
for what every Slurm refuses.
"""

from __future__ import annotations

from functools import partial
from typing import Iterator, List

from neuronctl.planning import JobPlan
from neuronctl.rule_codes import CODES
from neuronctl.rules.base import RuleContext, Violation, rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.forecast.facts import Live


@rule("NC501")
def jobs_submitted(context: RuleContext) -> Iterator[Violation]:
    if context.live is None:
        return
    from neuronctl.forecast.facts import user_limit
    from neuronctl.forecast.waits import array_size

    limit = user_limit("max_submit_jobs", context.plan, context.live, context.cite_partition)
    size = array_size(context.plan)
    if limit is not None and limit.used + size > limit.figure:
        left = max(0, limit.figure - limit.used)
        more = "1 more" if size == 1 else f"the array's {size} tasks"
        hint = "wait until some have ended, or cancel one: neuronctl status"
        if size > max(1, limit.figure):
            hint = f"submit it in parts: an array of at most {limit.figure} tasks fits"
            hint += f", of {left} now" if 0 < left < limit.figure else ""
        elif size > 1 and left:
            hint += f"; {left} more would still be taken"
        yield Violation(
            f"{limit.used} of your jobs are in the queue, at most {limit.figure} may be: {more} "
            "would be refused",
            hint,
            limit.source,
        )


def _waits(context: RuleContext, code: str) -> Iterator[Violation]:
    for one in context.waits:
        if one.code == code:
            yield Violation(one.words, "", one.source)


for _code, _one in CODES.items():
    if _one.waits:
        rule(_code)(partial(_waits, code=_code))


@rule("NC508")
def group_limit(context: RuleContext) -> Iterator[Violation]:
    plan, live = context.plan, context.live
    if live is None:
        return
    from neuronctl.forecast import group_limits as shared
    from neuronctl.forecast.waits import array_size

    for one in shared.submitted(plan, live, array_size(plan)):
        hint = "wait until some have ended, or take another QOS or account"
        yield Violation(one.words, hint, one.source)
    for one in shared.resources(plan, live):
        if one.alone:
            yield Violation(one.words, "ask for less, or take another QOS or account", one.source)


@rule("NC509")
def job_size(context: RuleContext) -> Iterator[Violation]:
    if context.live is None:
        return
    from neuronctl.forecast import job_limits as sizes

    for one in sizes.excesses(context.plan, context.live):
        if one.alone:
            yield Violation(one.words, "change the size, or take another QOS", one.source)


@rule("NC511")
def array_index(context: RuleContext) -> Iterator[Violation]:
    text, live = context.plan.request.array, context.live
    if text is None or live is None or live.limits.config.max_array_size is None:
        return
    import re

    most = live.limits.config.max_array_size - 1
    # Behind "-" stands an end, behind ":" a step, behind "%" how many at a time.
    indexes = [int(one) for one in re.findall(r"(?<![:%\d])\d+", text)]
    highest = max(indexes, default=0)
    if highest > most:
        yield Violation(
            f"--array={text}: the index {highest} is over {most}, the highest there is "
            f"(MaxArraySize {most + 1})",
            f"number the tasks from 0 to {most}, and let each do more",
            live.said("scontrol show config"),
        )


@rule("NC512")
def dependency(context: RuleContext) -> Iterator[Violation]:
    if context.live is None:
        return
    from neuronctl.forecast.start_conditions import dependency_ids, passes_strangers

    then = "it does not wait for it, however that job ended"
    if not passes_strangers(context.live):
        then = "it may not wait for it, however that job ended, or wait for ever"
    for number in dependency_ids(context.plan):
        if number not in context.live.job_states:
            yield Violation(
                f"--dependency names job {number}, which Slurm does not know (any more): {then}",
                "look with 'neuronctl status " + str(number) + "'",
                "Slurm itself: scontrol show job",
            )


@rule("NC513")
def begin(context: RuleContext) -> Iterator[Violation]:
    from neuronctl.forecast.start_conditions import option

    text = option(context.plan, "begin")
    if text is None:
        return
    from neuronctl.request.begin_time import EXAMPLES, moment

    try:
        moment(text, 0)  # what cannot be read now can never be
    except ValueError:
        yield Violation(
            f"--begin={text} is no moment that Slurm understands",
            f"it takes {EXAMPLES}",
        )


def _usable_qos(plan: JobPlan, live: Live) -> List[str]:
    """The QOS that the user may ask for in the job's partition."""
    association = live.association(plan)
    own = () if association is None else association.qos
    if not own or "qos" not in live.limits.config.enforce:
        # A QOS that a partition has for itself is not meant to be asked for.
        of_partitions = {one.qos.lower() for one in live.limits.partitions}
        known = live.limits.qos or ()
        own = tuple(one.name for one in known if one.name.lower() not in of_partitions)
    here = live.partition(plan.partition.name)
    allowed = () if here is None else tuple(one.lower() for one in here.allow_qos)
    denied = () if here is None else tuple(one.lower() for one in here.deny_qos)
    return [
        one for one in own if one.lower() not in denied and (not allowed or one.lower() in allowed)
    ]


def _qos_hint(plan: JobPlan, live: Live) -> str:
    usable = _usable_qos(plan, live)
    if not usable:
        return "leave -q out, or take another partition"
    return f"leave -q out, or take -q {' or '.join(usable)}"


@rule("NC521")
def qos_known(context: RuleContext) -> Iterator[Violation]:
    plan, live = context.plan, context.live
    asked = plan.request.qos
    if live is None or live.limits.qos is None or asked is None:
        return
    if live.qos(asked) is None:
        yield Violation(
            f"Slurm knows no QOS '{asked}'",
            _qos_hint(plan, live),
            live.said("sacctmgr show qos"),
        )
        return
    association = live.association(plan)
    allowed = () if association is None else association.qos
    enforced = "qos" in live.limits.config.enforce
    if enforced and allowed and asked.lower() not in [one.lower() for one in allowed]:
        yield Violation(
            f"the QOS '{asked}' is not one you may use: {', '.join(allowed)}",
            _qos_hint(plan, live),
            live.said("sacctmgr show associations"),
        )


@rule("NC522")
def account_known(context: RuleContext) -> Iterator[Violation]:
    plan, live = context.plan, context.live
    asked = plan.request.account
    if live is None or asked is None or not live.limits.associations:
        return
    mine = tuple(dict.fromkeys(one.account for one in live.limits.associations))
    if "associations" in live.limits.config.enforce and asked.lower() not in mine:
        yield Violation(
            f"the account '{asked}' is not one of yours: {', '.join(mine)}",
            "take one of them with -A, or leave it out",
            live.said("sacctmgr show associations"),
        )


@rule("NC523")
def partition_allows(context: RuleContext) -> Iterator[Violation]:
    plan, live = context.plan, context.live
    here = None if live is None else live.partition(plan.partition.name)
    if live is None or here is None:
        return
    association = live.association(plan)
    account = plan.request.account or (association.account if association is not None else "")
    for kind, own, allowed, denied in (
        ("account", account, here.allow_accounts, here.deny_accounts),
        ("QOS", live.job_qos(plan), here.allow_qos, here.deny_qos),
    ):
        if own and own.lower() in [one.lower() for one in denied]:
            yield Violation(
                f"partition {here.name} does not take the {kind} {own}",
                f"take another partition, or another {kind}",
                live.said(f"scontrol show partition {here.name}"),
            )
        if own and allowed and own.lower() not in [one.lower() for one in allowed]:
            yield Violation(
                f"partition {here.name} takes the {kind} {' or '.join(allowed)} only, and this "
                f"job's is {own}",
                "take another partition, or one of them",
                live.said(f"scontrol show partition {here.name}"),
            )


@rule("NC526")
def reservation(context: RuleContext) -> Iterator[Violation]:
    plan, live = context.plan, context.live
    if live is None:
        return
    from neuronctl.forecast import reservations as reserved

    for message, hint in reserved.faults(plan, live):
        yield Violation(message, hint, reserved.SOURCE)
    here = live.partition(plan.partition.name)
    if here is not None and here.reserved_only and plan.request.reservation is None:
        yield Violation(
            f"partition {here.name} takes only jobs of a reservation",
            "name yours with --reservation, or take another partition",
            live.said(f"scontrol show partition {here.name}"),
        )


@rule("NC527")
def fewest_nodes(context: RuleContext) -> Iterator[Violation]:
    plan, live = context.plan, context.live
    here = None if live is None else live.partition(plan.partition.name)
    if live is None or here is None or plan.nodes >= here.min_nodes:
        return
    yield Violation(
        f"{plan.nodes} {'node is' if plan.nodes == 1 else 'nodes are'} asked for, a job in "
        f"{here.name} must have at least {here.min_nodes}",
        f"ask for -N {here.min_nodes}, or take another partition",
        live.said(f"scontrol show partition {here.name}"),
    )


@rule("NC528")
def submit_host(context: RuleContext) -> Iterator[Violation]:
    plan, live = context.plan, context.live
    here = None if live is None else live.partition(plan.partition.name)
    if live is None or here is None or not here.submit_hosts:
        return
    from neuronctl.forecast.waits import hosts

    if live.host not in hosts(here.submit_hosts):
        yield Violation(
            f"partition {here.name} takes jobs from {here.submit_hosts} only (AllocNodes), and "
            f"this is {live.host}",
            "submit it there, or take another partition",
            live.said(f"scontrol show partition {here.name}"),
        )


@rule("NC524")
def features(context: RuleContext) -> Iterator[Violation]:
    import re

    plan, live = context.plan, context.live
    text = plan.request.constraint
    if live is None or text is None or not re.fullmatch(r"[\w.&,-]+", text):
        return
    nodes = [one for one in live.nodes if plan.partition.name in one.partitions]
    if not nodes:
        return
    there = {feature for one in nodes for feature in one.features}
    for name in re.split(r"[&,]", text):
        if name not in there:
            yield Violation(
                f"--constraint={text}: no node of {plan.partition.name} has the feature '{name}'",
                "they have: " + (", ".join(sorted(there)) or "none"),
                live.said("scontrol show node"),
            )


@rule("NC525")
def excluded(context: RuleContext) -> Iterator[Violation]:
    plan, live = context.plan, context.live
    text = plan.request.exclude
    if live is None or text is None:
        return
    from neuronctl.forecast.waits import hosts

    known = {one.name for one in live.limits.nodes}
    strangers = [one for one in hosts(text) if one not in known]
    if strangers and known:
        yield Violation(
            f"--exclude={text}: Slurm knows no node {', '.join(strangers)}",
            f"the nodes of {plan.partition.name} are {plan.partition.node_list}",
            live.said("scontrol show node"),
        )
    nodes = {one.name for one in live.nodes if plan.partition.name in one.partitions}
    out = nodes & set(hosts(text))
    left = len(nodes) - len(out)
    if out and left < plan.nodes <= len(nodes):
        are = "is" if plan.nodes == 1 else "are"
        yield Violation(
            f"--exclude={text} leaves {left or 'none'} of the {len(nodes)} nodes of "
            f"{plan.partition.name}, and {plan.nodes} {are} asked for",
            "exclude fewer, or take another partition",
            live.said("scontrol show node"),
        )
