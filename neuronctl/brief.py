"""What somebody has to know of a cluster to submit a job there: its rules, and the user's limits.

All of it comes from the catalog, the user's configuration, and Slurm, where it answers.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Tuple

from neuronctl.catalog.loader import load
from neuronctl.catalog.local_cluster import recognise
from neuronctl.catalog.model import Cluster, Partition
from neuronctl.catalog.site_rules import site_rules
from neuronctl.common.errors import SlurmError
from neuronctl.common.frozen import dataclass
from neuronctl.common.users import login_name
from neuronctl.forecast.overlay import overlay
from neuronctl.forecast.snapshot import Snapshot
from neuronctl.judgement.ask import ask_slurm
from neuronctl.judgement.partition_board import PartitionNow, partitions_now
from neuronctl.judgement.standing import standing_in
from neuronctl.planning import plan
from neuronctl.request.config_file import Setting, settings
from neuronctl.request.job import JobRequest
from neuronctl.request.job_file import configuration
from neuronctl.slurm.budgets import Standing

_TIMEOUT = 10.0


@dataclass(frozen=True)
class PartitionBrief:
    """A partition, with Slurm's figures where it answered. now: None where it did not."""

    partition: Partition
    now: Optional[PartitionNow] = None


@dataclass(frozen=True)
class Brief:
    """What holds for a user on a cluster.

    how: how the cluster was recognised. asked_at: when Slurm answered (epoch seconds); None if it
    did not, for the reason in ``silent``. rules: subject and rule. accounts: with their QOS, the
    default first.
    """

    cluster: Cluster
    how: str
    user: str
    rules: Tuple[Tuple[str, str], ...]
    defaults: Tuple[Setting, ...]
    partitions: Tuple[PartitionBrief, ...]
    accounts: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()
    standing: Standing = Standing()
    asked_at: Optional[int] = None
    silent: str = ""

    @property
    def comment(self) -> Mapping[str, Tuple[str, ...]]:
        """The options that make up the site's comment, and what each takes."""
        policy = self.cluster.policy.comment
        if not policy.required:
            return {}
        if policy.form == "fields":
            return {f"--{field.key}": field.values for field in policy.fields}
        return {"--comment": policy.values}


def gather(catalog_file: Optional[str] = None, cluster_name: Optional[str] = None) -> Brief:
    """Gather it; raises CatalogError and JobFileError for files that are wrong."""
    catalog = load(catalog_file)
    configured = configuration().values
    cluster, how = recognise(catalog, cluster_name or configured.get("cluster"))
    user = login_name()
    rules = tuple(
        (what, rule.replace("{user}", user)) for what, rule in site_rules(catalog, cluster)
    )
    common = (cluster, how, user, rules, tuple(settings()))
    any_job = plan(JobRequest(), cluster)
    try:
        snapshot = ask_slurm(any_job, fresh=True, timeout=_TIMEOUT)
    except SlurmError as error:
        known = tuple(map(PartitionBrief, cluster.partitions.values()))
        return Brief(*common, known, silent=error.short)
    there = overlay(any_job, snapshot)[0].cluster.partitions
    now = partitions_now((), cluster, catalog, snapshot)
    return Brief(
        *common,
        tuple(PartitionBrief(there[here.partition], here) for here in now),
        accounts=tuple(_accounts(snapshot)),
        standing=standing_in(snapshot),
        asked_at=snapshot.asked_at,
    )


def _accounts(snapshot: Snapshot) -> Iterator[Tuple[str, Tuple[str, ...]]]:
    for own in snapshot.limits.associations:
        where = f"{own.account} in {own.partition}" if own.partition else own.account
        yield where, tuple(sorted(own.qos, key=lambda name: name != own.default_qos))
