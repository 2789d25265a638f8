"""``neuronctl brief``: one page about the cluster, for people and coding agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Iterator, Mapping, Optional, Tuple

import click

from neuronctl.catalog.cluster import Catalog, Cluster, Partition
from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.catalog.site_rules import comment_values, site_rules
from neuronctl.cli.job_options import catalog_option, cluster_option
from neuronctl.common import units
from neuronctl.common.console import print_text
from neuronctl.common.errors import SlurmError, at_most_one
from neuronctl.common.paths import data_path
from neuronctl.common.users import login_name
from neuronctl.common.words import utc
from neuronctl.request.job import JobRequest
from neuronctl.request.job_file import configured_cluster, settings

if TYPE_CHECKING:
    from neuronctl.judgement.partitions import PartitionNow
    from neuronctl.judgement.snapshot import Snapshot

_SKILL_HEAD = """\
---
name: neuronctl
description: Submit, follow, and repair GPU jobs on a Slurm cluster with neuronctl. Use it for every
  training, evaluation, or other batch job that has to run on the cluster.
---

"""
_TIMEOUT = 10.0  # seconds for Slurm to answer
_HEADER = (
    "| partition | nodes | GPUs per node | cores per node | time limit | your GPUs | free now "
    "| good for |\n"
    "|---|---|---|---|---|---|---|---|"
)


@click.command("brief")
@cluster_option
@catalog_option
@click.option("--agents", is_flag=True, help="Print the guide as a block for an AGENTS.md.")
@click.option("--skill", is_flag=True, help="Print the guide as a skill file (SKILL.md).")
def command(cluster: Optional[str], catalog: Optional[str], agents: bool, skill: bool) -> None:
    """Print how to run jobs on this cluster, on one page.

    The page is for people and for coding agents: rules and partitions, your limits and defaults,
    what is free now, the steps from a program to a finished job, and common mistakes. --agents and
    --skill print the part that is the same on every cluster.
    """
    at_most_one({"--agents": agents, "--skill": skill})
    with open(data_path("templates/agents.md"), encoding="utf-8") as file:
        guide = file.read()
    if agents:
        print_text(f"<!-- neuronctl: begin -->\n{guide}<!-- neuronctl: end -->")
    elif skill:
        print_text(_SKILL_HEAD + guide.rstrip())
    else:
        print_text("\n".join([*_page(catalog, cluster), guide.rstrip()]))


def _page(catalog_file: Optional[str], name: Optional[str]) -> Iterator[str]:
    """Yield the lines about the cluster, from the catalog, the user's files, and Slurm."""
    catalog = load(catalog_file)
    cluster, _ = recognize_cluster(catalog, name or configured_cluster())
    snapshot: Optional[Snapshot] = None
    live_partitions: Mapping[str, PartitionNow] = {}
    try:
        snapshot, cluster, live_partitions = _ask_slurm(cluster, catalog)
        source = f"Limits and free nodes: from Slurm, {utc(snapshot.asked_at)}."
    except SlurmError as error:
        source = f"**All limits are from the catalog, because {error.short}.**"
    yield f"# Jobs on {cluster.title}\n"
    yield f"Cluster `{cluster.name}`. Rules: {cluster.source}, {cluster.date}."
    yield source
    yield "\n## Rules of the cluster\n"
    for subject, text in site_rules(catalog, cluster):
        is_option = subject.startswith("-")
        title = f"`{subject}`" if is_option else subject
        yield f"- {title}: {text.replace('{user}', login_name())}"
    if cluster.policy.comment.fields:
        for option, values in comment_values(cluster):
            yield f"- values of `{option}`: {values}"
    yield f"\n## Partitions\n\n{_HEADER}"
    for partition in cluster.partitions.values():
        is_in_slurm = partition.name in live_partitions
        if is_in_slurm or not live_partitions:  # without Slurm, the catalog's partitions count
            yield _row(partition, live_partitions.get(partition.name))
    yield from _about_you(cluster, snapshot)
    yield ""


def _ask_slurm(
    cluster: Cluster, catalog: Catalog
) -> Tuple[Snapshot, Cluster, Dict[str, PartitionNow]]:
    """Return Slurm's answer, the cluster as Slurm has it, and its partitions now, by name."""
    from neuronctl.judgement.ask import Question
    from neuronctl.judgement.partitions import partitions_now
    from neuronctl.judgement.slurm_figures import overlay
    from neuronctl.planning import plan

    any_job = plan(JobRequest(), cluster)
    snapshot = Question(any_job, timeout=_TIMEOUT).answer()
    overlaid_plan, _ = overlay(any_job, snapshot)
    live_partitions = partitions_now((), overlaid_plan.cluster, catalog, snapshot)
    return snapshot, overlaid_plan.cluster, {now.partition: now for now in live_partitions}


def _about_you(cluster: Cluster, snapshot: Optional[Snapshot]) -> Iterator[str]:
    """Yield the user's accounts, budgets, quotas, and defaults. snapshot: None without Slurm."""
    from neuronctl.rules.quotas import quotas_of_user
    from neuronctl.slurm.figures import budget_words

    yield f"\n## You\n\n- login name: {login_name()}"
    if snapshot is not None:
        for association in snapshot.figures.associations:
            yield f"- account {association.account}, QOS {', '.join(association.qos)}"
        yield from (f"- {budget_words(budget)}" for budget in snapshot.budgets)
    for quota in quotas_of_user(cluster):
        yield f"- {quota.words}: {', '.join(quota.holds)}"
    for setting in settings():
        yield f"- default of all your jobs: `{setting.key}: {setting.value}` ({setting.where})"


def _row(partition: Partition, now: Optional[PartitionNow]) -> str:
    """Return a partition's row of the table. now: what Slurm says of it; None without Slurm."""
    gpu_limit = partition.max_gpus or "no limit known"
    core_counts = sorted(set(partition.cores_per_node))
    seconds = partition.wall_time.maximum
    cells = (
        f"`{partition.name}`{'' if partition.open else ' (closed to you)'}",
        str(partition.nodes or "?"),
        f"{partition.gpus_per_node} {' '.join(partition.gpu_names)}".strip(),
        "-".join(map(str, core_counts)) or "?",
        "?" if seconds is None else units.format_time(seconds),
        str(gpu_limit if now is None else now.my_gpus),
        "?" if now is None else now.free_words,
    )
    return f"| {' | '.join(cells)} | {partition.good_for}".rstrip()
