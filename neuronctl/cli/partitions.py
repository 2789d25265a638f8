"""neuronctl partitions: the catalog as a table, or what is free now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.catalog.cluster import Catalog, Cluster, Partition, Qos
from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.catalog.site_rules import comment_values, mandatory, site_rules
from neuronctl.cli.job_options import catalog_option, cluster_option
from neuronctl.common import units
from neuronctl.common.console import (
    Column,
    draws_blocks,
    figures,
    folded,
    print_json,
    print_table,
    print_text,
)
from neuronctl.common.datatypes import asdict
from neuronctl.common.errors import PolicyError, did_you_mean
from neuronctl.common.words import counted
from neuronctl.records.bad_nodes import bad_nodes
from neuronctl.request.job import JobRequest
from neuronctl.request.job_file import configured_cluster
from neuronctl.slurm.conf import local_cluster

if TYPE_CHECKING:
    from neuronctl.judgement.partitions import PartitionNow
    from neuronctl.judgement.snapshot import Snapshot
    from neuronctl.slurm.sacctmgr import Association

_BAR = 12  # characters of a bar
_TIMEOUT = 20.0  # seconds for Slurm to answer

_PARTITION = Column("PARTITION", style="bold", no_wrap=True)
_OVERVIEW = [
    *(_PARTITION, figures("NODES", 3), figures("CORES", 2), Column("GPUS", no_wrap=True)),
    *(figures("SUBMIT", 1), figures("RUN", 1), figures("MAX GPUS"), figures("TIME LIMIT")),
]
_LIVE = [
    *(_PARTITION, Column("NOW", no_wrap=True, priority=1), figures("FREE"), figures("USED", 2)),
    *(figures("DOWN", 2), figures("MY GPUS"), figures("RUNNING", 3), figures("JOBS", 3)),
    Column("ONE MORE", no_wrap=True),
]


@click.command(name="partitions")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@cluster_option
@catalog_option
@click.option("--comment", is_flag=True, help="Show the values that --comment takes.")
@click.option("--live", is_flag=True, help="Show what is free and what you use now.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.partitions/1).")
def command(
    names: Tuple[str, ...],
    cluster: Optional[str],
    catalog: Optional[str],
    comment: bool,
    live: bool,
    as_json: bool,
) -> None:
    """Show the partitions, their limits, and what is free.

    The figures come from the catalog, with the guide and date shown. With --live, they are Slurm's
    current figures, and partitions that only Slurm or only the catalog has are named.
    """
    known_clusters = load(catalog)
    chosen, _ = recognize_cluster(known_clusters, cluster or configured_cluster())
    if live:
        _show_live(known_clusters, chosen, list(dict.fromkeys(names)), as_json)
        return
    partitions = [chosen.partition(name) for name in dict.fromkeys(names or chosen.partitions)]
    if as_json:
        print_json("neuronctl.partitions/1", _dump(known_clusters, chosen, partitions))
        return
    print_text(f"{chosen.name}: {chosen.title}", "bold")
    print_text(f"source: {chosen.source}, {chosen.date}")
    others = [name for name in known_clusters.clusters if name != chosen.name]
    if others:
        print_text(f"other clusters (--cluster): {', '.join(others)}", "dim")
    if comment:
        _print_pairs("OPTION", "VALUES", comment_values(chosen))
    else:
        _print_overview(known_clusters, chosen, partitions)


def _show_live(catalog: Catalog, cluster: Cluster, names: List[str], as_json: bool) -> None:
    """Ask Slurm, and print the named partitions as they are now; without names, all of them."""
    from neuronctl.judgement.ask import Question
    from neuronctl.judgement.partitions import partitions_now
    from neuronctl.planning import plan

    snapshot = Question(plan(JobRequest(), cluster), timeout=_TIMEOUT).answer()
    in_slurm = [partition.name for partition in snapshot.figures.partitions]
    for name in names:
        if name not in in_slurm:
            catalog_words = "; the catalog has one" if name in cluster.partitions else ""
            hint = did_you_mean(name, in_slurm)
            raise PolicyError(f"Slurm has no partition '{name}'{catalog_words}", hint)
    partitions = partitions_now(names, cluster, catalog, snapshot)
    only_in_catalog = [name for name in cluster.partitions if name not in in_slurm]
    only_in_slurm = [name for name in in_slurm if name not in cluster.partitions]
    if as_json:
        data = {
            "cluster": cluster.name,
            **_dump_live(partitions, snapshot),
            "only_in_catalog": only_in_catalog,
            "only_in_slurm": only_in_slurm,
        }
        print_json("neuronctl.partitions-live/1", data)
        return
    _print_live(partitions, snapshot.asked_at)
    if names:
        return
    if only_in_catalog:
        _print_note(f"In the catalog, not in this Slurm: {', '.join(only_in_catalog)}")
    if only_in_slurm:
        _print_note(f"In this Slurm, not in the catalog: {', '.join(only_in_slurm)}")
    _print_accounts(snapshot.figures.associations, cluster)


def _dump_live(partitions: Sequence[PartitionNow], snapshot: Snapshot) -> Dict[str, Any]:
    """Return the partitions, the user's accounts and budgets, and bad nodes for JSON."""
    from neuronctl.cli.json_data import budget_rows, verdict_data
    from neuronctl.slurm.scontrol import node_names

    names = {partition.partition for partition in partitions}
    nodes = node_names(group for group in snapshot.nodes if names.intersection(group.partitions))
    faults = [fault for node, fault in bad_nodes(local_cluster()).items() if node in nodes]
    keys = ("account", "partition", "qos", "default_qos")
    associations = snapshot.figures.associations
    return {
        "partitions": [{**asdict(row), "next": verdict_data(row.next)} for row in partitions],
        "accounts": [{key: getattr(account, key) for key in keys} for account in associations],
        "budgets": budget_rows(snapshot),
        "bad_nodes": [asdict(fault) for fault in faults],
    }


def _print_accounts(associations: Sequence[Association], cluster: Cluster) -> None:
    """Print the user's accounts, each with its QOS, the default one first."""
    rows = []
    for account in associations:
        where = f" in {account.partition}" if account.partition else ""
        qos = sorted(account.qos, key=lambda name: name != account.default_qos)
        rows.append([account.account + where, ", ".join(qos) or "-"])
    _print_pairs("MY ACCOUNTS", "MY QOS", rows)
    if rows:
        for option in mandatory(cluster):
            _print_note(f"{option} is mandatory on {cluster.name}.")


def _print_live(partitions: Sequence[PartitionNow], now: int) -> None:
    """Print the table and why a job would have to wait. now: the time of Slurm's answer."""
    signs = "█░x" if draws_blocks() else "#.x"  # used, free, and down
    rows = []
    reasons = []
    for partition in partitions:
        wait = partition.wait(now)
        cause, _, _ = wait.partition(",")  # without how long
        cells = [partition.partition, partition.bar(_BAR, signs=signs), partition.free_words]
        cells += map(str, (partition.used, partition.down))
        cells += map(str, (partition.my_gpus, partition.my_running, partition.my_jobs))
        rows.append([*cells, cause])
        if wait != "now":
            reasons.append((partition.partition, f"{wait}: {partition.next.words}"))
    print_table(_LIVE, rows)
    _print_pairs("NOT NOW", "WHY", reasons)
    print_text("")
    legend = "{} used, {} free, {} down".format(*signs)
    _print_note(f"{legend}. MY GPUS, RUNNING, JOBS: yours, of your limit.")


def _print_overview(catalog: Catalog, cluster: Cluster, shown: Sequence[Partition]) -> None:
    """Print the limits of the shown partitions, what they are good for, and the site's rules."""
    print_text("")
    print_table(_OVERVIEW, [_format_row(partition) for partition in shown])
    print_text("")
    print_text("CORES, GPUS: per node. SUBMIT, RUN, MAX GPUS: limits per user.", "dim")
    uses = [(partition.name, partition.good_for) for partition in shown if partition.good_for]
    _print_pairs("PARTITION", "GOOD FOR", uses)
    notes = site_rules(catalog, cluster)
    for partition in shown:
        other_arch = partition.arch if partition.arch != cluster.arch else ""
        closed = "" if partition.open else "closed to ordinary users"
        remarks = filter(None, (partition.note or other_arch, closed))  # a note names the arch
        notes.append((partition.name, "; ".join(remarks)))
    notes += [(f"QOS {qos.name}", _describe_qos(qos)) for qos in cluster.qos.values()]
    _print_pairs("ABOUT", "RULES AND NOTES", [(name, note) for name, note in notes if note])


def _format_row(partition: Partition) -> List[str]:
    low, high = partition.min_cores_per_node, partition.max_cores_per_node
    cores = _format(low) if low == high else f"{low}-{high}"
    gpus = "-"
    if partition.gpus_per_node:
        parts = (str(partition.gpus_per_node), *partition.gpu_names, partition.interconnect)
        gpus = " ".join(filter(None, parts))
    limits = (partition.max_submit_jobs, partition.max_running_jobs, partition.max_gpus)
    wall_time = _format_time(partition.wall_time.maximum)
    return [partition.name, _format(partition.nodes), cores, gpus, *map(_format, limits), wall_time]


def _describe_qos(qos: Qos) -> str:
    """Return a QOS's partitions, limits, and note."""
    limit = qos.wall_time.maximum
    words = (
        f"only in {', '.join(qos.partitions)}" if qos.partitions else "",
        f"at most {counted(qos.max_gpus, 'GPU')} per user" if qos.max_gpus else "",
        f"time limit {_format_time(limit)}" if limit is not None else "",
    )
    return "; ".join(filter(None, (*words, qos.note)))


def _print_pairs(first: str, second: str, rows: Sequence[Sequence[str]]) -> None:
    """Print an empty line and a table of two columns, if there are rows."""
    if rows:
        print_text("")
        print_table([Column(first, style="bold", no_wrap=True), Column(second)], rows)


def _print_note(text: str) -> None:
    print_text(folded(text), "dim")


def _format(value: Optional[int]) -> str:
    return "-" if value is None else str(value)


def _format_time(seconds: Optional[int]) -> str:
    return "-" if seconds is None else units.format_time(seconds)


def _dump(catalog: Catalog, cluster: Cluster, partitions: Sequence[Partition]) -> Dict[str, Any]:
    cluster_data = asdict(cluster)
    del cluster_data["partitions"]
    rows = [asdict(partition) for partition in partitions]
    for data in (cluster_data, *cluster_data["qos"].values(), *rows):
        # Seconds, null if unknown, or the word UNLIMITED.
        data["wall_time"] = {
            key: "UNLIMITED" if seconds == units.UNLIMITED else seconds
            for key, seconds in data["wall_time"].items()
        }
    return {
        "files": list(catalog.files),
        "default_cluster": catalog.default_cluster,
        "clusters": list(catalog.clusters),
        "cluster": cluster_data,
        "partitions": rows,
    }
