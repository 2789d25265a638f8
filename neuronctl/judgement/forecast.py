"""Everything that Slurm could do with a plan now, and the rules that report it (NC5xx). Pure."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.units import hosts
from neuronctl.common.words import moment
from neuronctl.judgement.free_nodes import NodeSearch, check_nodes
from neuronctl.judgement.limit_checks import check_limits
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.reservations import check_reservation
from neuronctl.judgement.start_conditions import check_start_conditions
from neuronctl.judgement.verdict import Doubt, Outcome, Wait
from neuronctl.records.bad_nodes import NodeFault
from neuronctl.rules.base import RULES, Finding, Trait, job_rule
from neuronctl.slurm.limits import Scope
from neuronctl.slurm.scontrol import node_names


def find_outcomes(nodes: NodeSearch, faults: Mapping[str, NodeFault]) -> Iterator[Outcome]:
    """Yield a plan's refusals, doubts, and waits; the waits in the order of Slurm's reasons."""
    on_cluster = nodes.on_cluster
    yield from check_start_conditions(on_cluster)
    partition = on_cluster.partition
    if partition is not None and partition.state == "DOWN":
        words = f"partition {partition.name} is DOWN: no job starts there now"
        yield Wait("NC505", "PartitionDown", words)
    yield from check_reservation(on_cluster)
    yield from check_limits(on_cluster)
    yield from check_nodes(nodes)
    yield from _find_hidden(nodes)
    yield from _find_bad_nodes(on_cluster, faults)


def _find_hidden(nodes: NodeSearch) -> Iterator[Doubt]:
    """Yield a doubt for each thing that may stop the job and is hidden from this user."""
    on_cluster, snapshot = nodes.on_cluster, nodes.on_cluster.snapshot
    private = snapshot.figures.config.private
    if "reservations" in private:
        yield Doubt("reservations of others are not shown here (PrivateData)")
    if "jobs" in private and nodes.may_be_planned_for_others:
        words = "jobs of others, which may wait for these nodes, are not shown here (PrivateData)"
        yield Doubt(words, cause="Priority")
    accounts = {group.name for group in snapshot.limited_groups if group.scope == Scope.ACCOUNT}
    hides_accounts = not {"usage", "users", "accounts"}.isdisjoint(private)
    if snapshot.enforced and hides_accounts and on_cluster.account not in accounts:
        yield Doubt("limits of accounts and what they hold are not shown here (PrivateData)")


_SIZES = "nodes ntasks gpus-per-node gres gpus mem"
_CLOSED = Trait.CLOSES_PARTITION | Trait.ONLY_NOW
_WAITS = Trait.WAITS | Trait.ONLY_NOW

# find_outcomes() finds what these rules report.
job_rule(ERROR, "NC501", "more jobs than may be in the queue", _CLOSED, about="partition")
job_rule(ERROR, "NC509", "a size that a limit never lets start", Trait.PARTITION, about=_SIZES)
job_rule(WARNING, "NC512", "dependency on an unknown job", about="dependency")
job_rule(NOTE, "NC534", "nodes that failed in your jobs", about="exclude")
job_rule(ERROR, "NC113", "larger than the partition's nodes", Trait.PARTITION, about=_SIZES)
job_rule(ERROR, "NC514", "not yours to use", Trait.ONLY_NOW, about="account qos reservation")
job_rule(ERROR, "NC515", "array index over the cluster's maximum", about="array")
for _code, _title in (
    ("NC502", "waits for a running job's end"),
    ("NC503", "waits for what a user may hold"),
    ("NC504", "waits for free nodes"),
    ("NC505", "waits for the partition"),
    ("NC506", "waits as asked"),
    ("NC507", "waits for what others hold of a shared limit"),
):
    job_rule(WARNING, _code, _title, _WAITS, about="partition")


def complete_findings(objections: Sequence[Finding], waits: Sequence[Wait]) -> Iterator[Finding]:
    """Yield Slurm's objections to a job, and what the job would wait for, as rules report them."""
    reasons = (Finding(wait.words, cited=wait.source, code=wait.code) for wait in waits)
    for finding in (*objections, *reasons):
        yield RULES[finding.code].complete(finding)


def _find_bad_nodes(
    on_cluster: PlanOnCluster, faults: Mapping[str, NodeFault]
) -> Iterator[Finding]:
    """Yield the nodes that failed in the user's jobs, and that the job may get."""
    exclude = on_cluster.plan.request.exclude
    nodes = (node_names(on_cluster.pool) & faults.keys()) - set(hosts(exclude))
    if on_cluster.gets_named_hosts_only:
        nodes &= on_cluster.named_hosts
    for node in sorted(nodes):
        fault = faults[node]
        yield Finding(
            f"{node} failed in your jobs, last {moment(fault.at)} (job {fault.job}): {fault.why}",
            f"leave it out with -x {','.join(filter(None, (exclude, node)))}, or always with "
            "--avoid-bad-nodes",
            code="NC534",
        )
