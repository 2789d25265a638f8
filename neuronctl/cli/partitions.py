"""neuronctl partitions: the catalog as a table, or what is free now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.catalog.cluster import Catalog, Cluster, Partition, Qos
from neuronctl.catalog.loader import load, recognise
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

_BAR = 12
_TIMEOUT = 20.0

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
    clusters = load(catalog)
    chosen, _ = recognise(clusters, cluster or configured_cluster())
    if live:
        _live(clusters, chosen, list(dict.fromkeys(names)), as_json)
        return
    partitions = [chosen.partition(name) for name in dict.fromkeys(names or chosen.partitions)]
    if as_json:
        print_json("neuronctl.partitions/1", _json(clusters, chosen, partitions))
        return
    print_text(f"{chosen.name}: {chosen.title}", "bold")
    print_text(f"source: {chosen.source}, {chosen.date}")
    others = [name for name in clusters.clusters if name != chosen.name]
    if others:
        print_text(f"other clusters (--cluster): {', '.join(others)}", "dim")
    if comment:
        _print_pairs("OPTION", "VALUES", comment_values(chosen))
    else:
        _print_overview(clusters, chosen, partitions)


def _live(catalog: Catalog, cluster: Cluster, names: List[str], as_json: bool) -> None:
    from neuronctl.judgement.ask import Question
    from neuronctl.judgement.partitions import partitions_now
    from neuronctl.planning import plan
    from neuronctl.slurm.scontrol import node_names

    look = Question(plan(JobRequest(), cluster), timeout=_TIMEOUT).answer()
    there = [partition.name for partition in look.figures.partitions]
    for wanted in names:
        if wanted not in there:
            has_catalog = "; the catalog has one" if wanted in cluster.partitions else ""
            hint = did_you_mean(wanted, there)
            raise PolicyError(f"Slurm has no partition '{wanted}'{has_catalog}", hint)
    partitions = partitions_now(names, cluster, catalog, look)
    associations = look.figures.associations
    only_in_catalog = [name for name in cluster.partitions if name not in there]
    only_in_slurm = [name for name in there if name not in cluster.partitions]
    if as_json:
        from neuronctl.cli.json_data import budget_rows, verdict_data

        shown = {partition.partition for partition in partitions}
        nodes = node_names(group for group in look.nodes if shown.intersection(group.partitions))
        bad = [fault for node, fault in bad_nodes(local_cluster()).items() if node in nodes]
        keys = ("account", "partition", "qos", "default_qos")
        data = {
            "cluster": cluster.name,
            "partitions": [{**asdict(one), "next": verdict_data(one.next)} for one in partitions],
            "accounts": [{key: getattr(each, key) for key in keys} for each in associations],
            "budgets": budget_rows(look),
            "bad_nodes": [asdict(fault) for fault in bad],
            "only_in_catalog": only_in_catalog,
            "only_in_slurm": only_in_slurm,
        }
        print_json("neuronctl.partitions-live/1", data)
        return
    _print_live(partitions, look.asked_at)
    if names:
        return
    if only_in_catalog:
        _print_note(f"In the catalog, not in this Slurm: {', '.join(only_in_catalog)}")
    if only_in_slurm:
        _print_note(f"In this Slurm, not in the catalog: {', '.join(only_in_slurm)}")
    rows = []
    for each in associations:
        where = f" in {each.partition}" if each.partition else ""
        qos = sorted(each.qos, key=lambda name: name != each.default_qos)
        rows.append([each.account + where, ", ".join(qos) or "-"])
    _print_pairs("MY ACCOUNTS", "MY QOS", rows)
    for option in mandatory(cluster) if rows else ():
        _print_note(f"{option} is mandatory on {cluster.name}.")


def _print_live(partitions: Sequence[PartitionNow], now: int) -> None:
    """Print the table and why a job would have to wait."""
    signs = "█░x" if draws_blocks() else "#.x"
    rows = [
        [
            *(one.partition, one.bar(_BAR, signs=signs), one.free_words, str(one.used)),
            *(str(one.down), str(one.my_gpus), str(one.my_running), str(one.my_jobs)),
            one.wait(now).partition(",")[0],
        ]
        for one in partitions
    ]
    print_table(_LIVE, rows)
    waits = [one for one in partitions if one.wait(now) != "now"]
    reasons = [(one.partition, f"{one.wait(now)}: {one.next.words}") for one in waits]
    _print_pairs("NOT NOW", "WHY", reasons)
    print_text("")
    shown = "{} used, {} free, {} down".format(*signs)
    _print_note(f"{shown}. MY GPUS, RUNNING, JOBS: yours, of your limit.")


def _print_overview(catalog: Catalog, cluster: Cluster, shown: Sequence[Partition]) -> None:
    print_text("")
    print_table(_OVERVIEW, [_overview_row(partition) for partition in shown])
    print_text("")
    print_text("CORES, GPUS: per node. SUBMIT, RUN, MAX GPUS: limits per user.", "dim")
    uses = [(partition.name, partition.good_for) for partition in shown if partition.good_for]
    _print_pairs("PARTITION", "GOOD FOR", uses)
    lines = site_rules(catalog, cluster)
    for partition in shown:
        other = partition.arch if partition.arch != cluster.arch else ""
        closed = "" if partition.open else "closed to ordinary users"
        remarks = filter(None, (partition.note or other, closed))
        lines.append((partition.name, "; ".join(remarks)))
    lines += [(f"QOS {qos.name}", _qos_words(qos)) for qos in cluster.qos.values()]
    _print_pairs("ABOUT", "RULES AND NOTES", [line for line in lines if line[1]])


def _overview_row(partition: Partition) -> List[str]:
    low, high = partition.min_cores_per_node, partition.max_cores_per_node
    gpus = "-"
    if partition.gpus_per_node:
        parts = (str(partition.gpus_per_node), *partition.gpu_names, partition.interconnect)
        gpus = " ".join(filter(None, parts))
    limits = (partition.max_submit_jobs, partition.max_running_jobs, partition.max_gpus)
    return [
        *(partition.name, _text(partition.nodes), _text(low) if low == high else f"{low}-{high}"),
        *(gpus, *map(_text, limits), _time(partition.wall_time.maximum)),
    ]


def _qos_words(qos: Qos) -> str:
    """Return a QOS's partitions, limits, and note."""
    limit = qos.wall_time.maximum
    words = (
        f"only in {', '.join(qos.partitions)}" if qos.partitions else "",
        f"at most {counted(qos.max_gpus, 'GPU')} per user" if qos.max_gpus else "",
        f"time limit {_time(limit)}" if limit is not None else "",
    )
    return "; ".join(filter(None, (*words, qos.note)))


def _print_pairs(first: str, second: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a table of two columns after an empty line; nothing without rows."""
    if rows:
        print_text("")
        print_table([Column(first, style="bold", no_wrap=True), Column(second)], rows)


def _print_note(text: str) -> None:
    print_text(folded(text), "dim")


def _text(value: Optional[int]) -> str:
    return "-" if value is None else str(value)


def _time(seconds: Optional[int]) -> str:
    return "-" if seconds is None else units.format_time(seconds)


def _json(catalog: Catalog, cluster: Cluster, partitions: Sequence[Partition]) -> Dict[str, Any]:
    described = asdict(cluster)
    del described["partitions"]
    rows = [asdict(partition) for partition in partitions]
    for each in (described, *described["qos"].values(), *rows):
        # Seconds, null if unknown, or the word UNLIMITED.
        each["wall_time"] = {
            key: "UNLIMITED" if seconds == units.UNLIMITED else seconds
            for key, seconds in each["wall_time"].items()
        }
    return {
        "files": list(catalog.files),
        "default_cluster": catalog.default_cluster,
        "clusters": list(catalog.clusters),
        "cluster": described,
        "partitions": rows,
    }
