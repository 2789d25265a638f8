"""Limits on the number of nodes that a user's or group's jobs occupy; a node counts once. Pure."""

from __future__ import annotations

from typing import Iterator, Set

from neuronctl.common.frozen import replace
from neuronctl.common.units import hosts
from neuronctl.common.words import counted
from neuronctl.forecast.free_nodes import NodeSearch
from neuronctl.forecast.limits import taken_first, usage
from neuronctl.forecast.outcomes import Doubt, Outcome, Wait
from neuronctl.forecast.snapshot import running
from neuronctl.slurm.limits import Counts, Limit, Per


def check_node_limits(search: NodeSearch) -> Iterator[Outcome]:
    """The wait for such a limit, or the doubt which nodes Slurm would choose."""
    wanted = search.on_cluster.plan.nodes
    for limit in search.on_cluster.limits:
        of_nodes = limit.tres == "node" and limit.about.counts == Counts.TRES
        # A job that is over it by itself is refused.
        if of_nodes and limit.about.per in (Per.USER, Per.GROUP) and wanted <= limit.figure:
            yield from _check(limit, search)


def check_spread(search: NodeSearch) -> Iterator[Outcome]:
    """The wait for a limit on what a job has where it gets more nodes now than on idle ones."""
    on_cluster = search.on_cluster
    if search.free is None or on_cluster.lacking(search.free):
        return
    few, many = (on_cluster.spread_over(search.free, order) for order in (True, False))
    for limit in on_cluster.limits if many.plan.nodes > on_cluster.plan.nodes else ():
        about, used = limit.about, limit.used
        if about.counts != Counts.TRES or about.minimum or limit.tres == "node":
            continue
        if about.per not in (Per.JOB, Per.USER, Per.GROUP):
            continue
        if about.per == Per.USER:
            used = usage(limit, on_cluster).used
        plain, least, most = (
            used + (limit.taken(each.size.job, None) or 0) for each in (on_cluster, few, many)
        )
        if not plain <= limit.figure < most:
            continue
        words = (
            f"as nodes are in use, Slurm spreads the job over {counted(many.plan.nodes, 'node')} "
            f"or fewer; {limit.holder} allows {limit.amount(limit.figure)} ({limit.kind})"
        )
        if least > limit.figure:
            also = ("Resources", "Priority")
            yield Wait("NC504", limit.reason, words, on_cluster.source(limit), also=also)
        else:
            yield Doubt(f"{words}; whether it stays within that is not known", cause=limit.reason)


def _check(limit: Limit, search: NodeSearch) -> Iterator[Outcome]:
    on_cluster = search.on_cluster
    named = on_cluster.required_hosts
    own: Set[str] = set()
    for job in running(usage(limit, on_cluster).jobs):
        own.update(hosts(job.node_list))
    used = max(len(own), limit.used)
    fewest = most = on_cluster.plan.nodes
    if search.free is None:
        fewest = 0
    elif not on_cluster.lacking(search.free):
        free = search.free
        few, wanted = (
            on_cluster.spread_over(free, largest_first).plan.nodes
            for largest_first in (True, False)
        )
        any_of = max(0, wanted - len(named))
        most = len(named - own) + min(any_of, len(free - own - named))
        fewest = len(named - own) + max(0, few - len(named) - len((free & own) - named))
        # Of nodes that only others of the group are on, the names are not known.
        fewest = max(0, fewest - (used - len(own)))
        # Up to 22.05, Slurm prefers a node that counts already, but not for several nodes.
        if wanted == 1 and free & own and on_cluster.snapshot.limits.config.release <= (22, 5):
            most = min(most, len(named - own))
    if used + most <= limit.figure:
        yield from taken_first(replace(limit, used=used), on_cluster, most)
        return
    mine = limit.about.per == Per.USER
    whose = f"your jobs in {limit.holder}" if mine else f"jobs of {limit.holder}"
    words = f"{whose} are on {used} of at most {counted(limit.figure, 'node')} ({limit.kind})"
    if used + fewest > limit.figure:
        words += f"; {counted(fewest, 'more node')} must wait until some end; when is not known"
        code = "NC510" if mine else "NC507"
        yield Wait(code, limit.reason, words, on_cluster.source(limit))
    else:
        words += "; whether Slurm chooses among those is not known"
        yield Doubt(words, cause=limit.reason)
