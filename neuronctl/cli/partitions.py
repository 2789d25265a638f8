"""neuronctl partitions: the catalog as a table, one partition in detail, or what is free now."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Collection, Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.catalog.loader import load
from neuronctl.catalog.local_cluster import local_cluster, recognise
from neuronctl.catalog.model import Catalog, Cluster, CommentPolicy, Partition, Qos, WallTime
from neuronctl.catalog.site_rules import mandatory, site_rules
from neuronctl.cli.job_options import catalog_option, cluster_option
from neuronctl.common import console, units
from neuronctl.common.errors import PolicyError, did_you_mean
from neuronctl.common.frozen import asdict, replace
from neuronctl.request.job import JobRequest
from neuronctl.request.job_file import configured_cluster
from neuronctl.slurm.bad_nodes import bad_nodes

if TYPE_CHECKING:
    from neuronctl.judgement.partition_board import PartitionNow

_BAR = 12
_TIMEOUT = 20.0

_OVERVIEW = "PARTITION:0 NODES:3 CORES:2 GPUS:0 SUBMIT:1 RUN:1 MAX_GPUS:0 TIME_LIMIT:0"
_LIVE = "PARTITION:0 NOW:1 FREE:0 USED:2 DOWN:2 MY_GPUS:0 RUNNING:3 JOBS:3 ONE_MORE:0"
"""Columns, and in what order they are left out on a narrow terminal; 0: never."""


@click.command(name="partitions")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@cluster_option
@catalog_option
@click.option("--comment", is_flag=True, help="Show what --comment takes, with meanings.")
@click.option("--live", is_flag=True, help="Show what is free and what is yours, now.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.partitions/1).")
def command(
    names: Tuple[str, ...],
    cluster: Optional[str],
    catalog: Optional[str],
    comment: bool,
    live: bool,
    as_json: bool,
) -> None:
    """Show the partitions of a cluster, or those NAMEd in detail.

    The figures are the catalog's, from the guide and date shown. With --live they are Slurm's own,
    as of now, and partitions that only one of the two has are named.
    """
    known = load(catalog)
    chosen, _ = recognise(known, cluster or configured_cluster())
    if live:
        _live(known, chosen, list(dict.fromkeys(names)), as_json)
        return
    partitions = [chosen.partition(name) for name in dict.fromkeys(names)]
    if as_json:
        answer = _json(known, chosen, partitions or list(chosen.partitions.values()))
        console.print_json("neuronctl.partitions/1", answer)
        return
    console.print_text(f"{chosen.name}: {chosen.title}", "bold")
    console.print_text(f"source: {chosen.source}, {chosen.date}")
    others = [name for name in known.clusters if name != chosen.name]
    if others:
        console.print_text(f"other clusters (--cluster): {', '.join(others)}", "dim")
    console.print_text("")
    if comment:
        _print_comment_values(chosen.policy.comment)
    elif partitions:
        for partition in partitions:
            _print_partition(chosen, partition)
    else:
        _print_overview(known, chosen)


# ---------------------------------------------------------------------------- live


def _live(catalog: Catalog, cluster: Cluster, names: List[str], as_json: bool) -> None:
    from neuronctl.cli.json_data import partition_now_data, standing_data
    from neuronctl.judgement.ask import ask_slurm
    from neuronctl.judgement.partition_board import partitions_now
    from neuronctl.planning import plan
    from neuronctl.slurm.scontrol import names_of

    look = ask_slurm(plan(JobRequest(), cluster), timeout=_TIMEOUT)
    there = [partition.name for partition in look.limits.partitions]
    for wanted in names:
        if wanted not in there:
            known = "; the catalog has one" if wanted in cluster.partitions else ""
            hint = did_you_mean(wanted, there)
            raise PolicyError(f"Slurm has no partition '{wanted}'{known}", hint)
    partitions, standing = partitions_now(names, cluster, catalog, look), look.standing
    shown = {partition.partition for partition in partitions}
    nodes = names_of(group for group in look.nodes if shown.intersection(group.partitions))
    bad = [fault for node, fault in bad_nodes(local_cluster()).items() if node in nodes]
    own = look.limits.associations
    if as_json:
        keys = ("account", "partition", "qos", "default_qos")
        data = {
            "cluster": cluster.name,
            "partitions": [partition_now_data(partition) for partition in partitions],
            "accounts": [{key: getattr(each, key) for key in keys} for each in own],
            **standing_data(standing),
            "bad_nodes": [asdict(fault) for fault in bad],
            **_compared(cluster, there),
        }
        console.print_json("neuronctl.partitions-live/1", data)
        return
    _print_live(partitions, look.asked_at)
    if names:
        return
    _print_compared(cluster, there)
    rows = []
    for each in own:
        where = f" in {each.partition}" if each.partition else ""
        qos = sorted(each.qos, key=lambda name: name != each.default_qos)
        rows.append([each.account + where, ", ".join(qos) or "-"])
    if rows:
        _print_pairs("MY ACCOUNTS", "MY QOS", rows)
        for option in mandatory(cluster):
            _print_note(f"{option} is mandatory on {cluster.name}.")


def _print_live(partitions: Sequence[PartitionNow], now: int) -> None:
    """Print the table; on a terminal the reasons are below it, elsewhere in each line."""
    terminal = console.is_terminal()
    signs = "█░x" if terminal and console.draws_blocks() else "#.x"
    cells = [
        [
            *(one.partition, one.bar(_BAR, signs=signs), one.free_words, str(one.used)),
            *(str(one.down), str(one.my_gpus), str(one.my_running), str(one.my_jobs)),
            one.wait(now).partition(",")[0] if terminal else one.wait(now),
        ]
        for one in partitions
    ]
    console.print_table(_columns(_LIVE), cells)
    reasons = [[one.partition, one.explained_wait(now)] for one in partitions]
    if terminal and any(why for _, why in reasons):
        _print_pairs("NOT NOW", "WHY", [row for row in reasons if row[1]])
    console.print_text("")
    used, free, down = tuple(signs)
    _print_note(
        f"{used} used, {free} free, {down} down. MY GPUS, RUNNING, JOBS: yours, of your limit."
    )


def _compared(cluster: Cluster, there: Collection[str]) -> Dict[str, List[str]]:
    return {
        "only_in_catalog": [name for name in cluster.partitions if name not in there],
        "only_in_slurm": [name for name in there if name not in cluster.partitions],
    }


def _print_compared(cluster: Cluster, there: Collection[str]) -> None:
    only_catalog, only_slurm = _compared(cluster, there).values()
    if only_catalog:
        _print_note(f"In the catalog, not in this Slurm: {', '.join(only_catalog)}")
    if only_slurm:
        _print_note(f"In this Slurm, not in the catalog: {', '.join(only_slurm)}")


# ------------------------------------------------------------------------- the catalog


def _print_overview(catalog: Catalog, cluster: Cluster) -> None:
    shown = cluster.partitions.values()
    console.print_table(_columns(_OVERVIEW), [_overview_row(partition) for partition in shown])
    console.print_text("")
    console.print_text("CORES, GPUS: per node. SUBMIT, RUN, MAX GPUS: limits per user.", "dim")
    uses = [(partition.name, partition.good_for) for partition in shown if partition.good_for]
    if uses:
        _print_pairs("PARTITION", "GOOD FOR", uses)
    lines = site_rules(catalog, cluster)
    for partition in shown:
        remarks = [partition.note] if partition.note else []
        if partition.arch != cluster.arch and not partition.note:
            remarks.append(partition.arch)
        remarks += [] if partition.open else ["closed to ordinary users"]
        lines += [(partition.name, "; ".join(remarks))] if remarks else []
    for qos in cluster.qos.values():
        lines.append((f"QOS {qos.name}", _qos_words(qos)))
    if lines:
        _print_pairs("ABOUT", "RULES AND NOTES", lines)


def _overview_row(partition: Partition) -> List[str]:
    low, high = partition.min_cores_per_node, partition.max_cores_per_node
    gpus = "-"
    if partition.gpus_per_node:
        parts = (str(partition.gpus_per_node), partition.gpu or "", partition.interconnect or "")
        gpus = " ".join(part for part in parts if part)
    limits = (partition.max_submit_jobs, partition.max_running_jobs, partition.max_gpus)
    return [
        *(partition.name, _text(partition.nodes), _text(low) if low == high else f"{low}-{high}"),
        *(gpus, *map(_text, limits), _time(partition.wall_time.maximum)),
    ]


def _qos_words(qos: Qos) -> str:
    """Return a QOS' limits, the partitions that it is for, and its note."""
    words = [f"only in {', '.join(qos.partitions)}"] if qos.partitions else []
    for figure, each in (
        (qos.max_submit_jobs, "jobs in the queue per user"),
        (qos.max_running_jobs, "running jobs per user"),
        (qos.max_gpus, "GPUs per user"),
        (qos.max_nodes, "nodes per job"),
    ):
        words += [] if figure is None else [f"{each}: {figure}"]
    if qos.wall_time.maximum is not None:
        words.append(f"time limit {_time(qos.wall_time.maximum)}")
    words += [f"lifts the partition's {flag}" for flag in qos.flags]
    return "; ".join([*words, *([qos.note] if qos.note else [])])


def _print_partition(cluster: Cluster, partition: Partition) -> None:
    columns = [console.Column("KEY", no_wrap=True), console.Column("VALUE")]
    rows = []
    for field in dataclasses.fields(partition):
        value = getattr(partition, field.name)
        if field.name == "wall_time":
            rows += [[f"wall_time.{key}", _time(seconds)] for key, seconds in asdict(value).items()]
        elif field.name == "price":
            rows += [[f"price.{key}", _text(figure)] for key, figure in asdict(value).items()]
        elif field.name != "name":
            rows.append([field.name, _text(value)])
    cores = cluster.cores_per_gpu(partition)
    if partition.gpus_per_node and cores is not None:
        rows.append(["cores per GPU", _text(cores)])
        memory = cluster.memory_mb(partition, cores)
        rows += [] if memory is None else [["memory with them", f"{memory} MB"]]
    console.print_table(columns, rows, title=partition.name)
    console.print_text("")


def _print_comment_values(comment: CommentPolicy) -> None:
    """Print those whose meaning is known on a line each, then the others."""
    rows = []
    lists = [(f"--{field.key}", field.values) for field in comment.fields]
    for option, values in lists or [("--comment", comment.values)]:
        known = [value for value in values if comment.meanings.get(value)]
        rows += [[option, value, comment.meanings[value]] for value in known]
        others = [value for value in dict.fromkeys(values) if value not in known]
        if others or not values:
            any_value = "any word" if comment.form == "word" else "any text"
            rows.append([option, "", ", ".join(others) or any_value])
    headers = [console.Column("OPTION", no_wrap=True)]
    headers += [console.Column("VALUE", style="bold", no_wrap=True)]
    console.print_table([*headers, console.Column("MEANING, OR OTHER VALUES")], rows)


# --------------------------------------------------------------------- words and JSON


def _columns(named: str) -> List[console.Column]:
    """Return columns of figures, but for the first one and those of words."""
    words = ("GPUS", "NOW", "ONE MORE")
    found = []
    for number, text in enumerate(named.split()):
        name, _, priority = text.replace("_", " ").partition(":")
        found.append(
            console.Column(
                name,
                "left" if number == 0 or name in words else "right",
                style="" if number else "bold",
                no_wrap=True,
                priority=int(priority),
            )
        )
    return found


def _print_pairs(first: str, second: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a table of two columns, after an empty line."""
    console.print_text("")
    headers = [console.Column(first, style="bold", no_wrap=True), console.Column(second)]
    console.print_table(headers, rows)


def _print_note(text: str) -> None:
    """Print a dim paragraph, folded between words on a terminal."""
    if console.is_terminal():
        import textwrap

        width = console.terminal_width()
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    console.print_text(text, "dim")


def _text(value: Any) -> str:
    if value is None or value == "" or value == ():
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(str(item) for item in value) if isinstance(value, tuple) else str(value)


def _time(seconds: Optional[int]) -> str:
    return "-" if seconds is None else units.format_time(seconds)


def _json(catalog: Catalog, cluster: Cluster, partitions: Sequence[Partition]) -> Dict[str, Any]:
    described = asdict(replace(cluster, partitions={}))
    del described["partitions"]
    described["wall_time"] = _json_time(cluster.wall_time)
    for name, qos in cluster.qos.items():
        described["qos"][name]["wall_time"] = _json_time(qos.wall_time)
    return {
        "files": list(catalog.files),
        "default_cluster": catalog.default_cluster,
        "clusters": list(catalog.clusters),
        "cluster": described,
        "partitions": [
            {**asdict(partition), "wall_time": _json_time(partition.wall_time)}
            for partition in partitions
        ],
    }


def _json_time(wall_time: WallTime) -> Dict[str, Any]:
    """Return seconds, null where not known, and the word UNLIMITED where there is no limit."""
    return {
        key: "UNLIMITED" if seconds == units.UNLIMITED else seconds
        for key, seconds in asdict(wall_time).items()
    }
