"""neuronctl partitions: the catalog as a table, one partition in detail, or JSON."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Collection, Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.catalog.loader import load
from neuronctl.catalog.local_cluster import is_cluster, local_cluster, recognise
from neuronctl.catalog.model import Catalog, Cluster, CommentPolicy, Partition, WallTime
from neuronctl.catalog.site_rules import mandatory, site_rules
from neuronctl.cli.job_options import catalog_option, cluster_option
from neuronctl.common import console, units
from neuronctl.common.errors import PolicyError, SlurmError, did_you_mean
from neuronctl.common.frozen import asdict, replace
from neuronctl.common.words import moment
from neuronctl.request.job import JobRequest
from neuronctl.request.job_file import configured_cluster
from neuronctl.slurm.bad_nodes import DAYS, NodeFault, bad_nodes

if TYPE_CHECKING:
    from neuronctl.judgement.partition_board import PartitionNow
    from neuronctl.slurm.sacctmgr import Association

_BAR = 12
_TIMEOUT = 20.0
_BRIEFLY = 1.5
"""Seconds to wait for Slurm if the answer can do without it."""


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

    The figures are the catalog's, from the guide and date shown; where the cluster's Slurm is here,
    only partitions that it has are listed. With --live the figures are Slurm's own, as of now, and
    the nodes are named that have failed in your own jobs in the last days.
    """
    known = load(catalog)
    cluster = cluster or configured_cluster()
    if live:
        _live(known, cluster, names, as_json)
        return
    chosen, _ = recognise(known, cluster)
    partitions = [chosen.partition(name) for name in dict.fromkeys(names)]
    if as_json:
        answer = _json(known, chosen, partitions or list(chosen.partitions.values()))
        there = _there(chosen)
        answer.update({} if there is None else _only(chosen, there))
        console.print_json("neuronctl.partitions/1", answer)
        return
    _print_header(known, chosen)
    if comment:
        _print_comment_values(chosen.policy.comment)
    elif partitions:
        for partition in partitions:
            _print_partition(chosen, partition)
    else:
        there = _there(chosen)
        _print_overview(known, chosen, there)
        if there is not None:
            _print_only(chosen, there)


# ---------------------------------------------------------------------------- live


def _live(
    catalog: Catalog, cluster_name: Optional[str], names: Sequence[str], as_json: bool
) -> None:
    from neuronctl.cli.json_data import partition_now_data, standing_data
    from neuronctl.judgement.ask import ask_slurm
    from neuronctl.judgement.partition_board import partitions_now
    from neuronctl.judgement.standing import standing_in
    from neuronctl.planning import plan
    from neuronctl.slurm.scontrol import names_of

    cluster, _ = recognise(catalog, cluster_name)
    look = ask_slurm(plan(JobRequest(), cluster), fresh=True, timeout=_TIMEOUT)
    there = {partition.name: partition for partition in look.limits.partitions}
    for wanted in names:
        if wanted not in there:
            known = "; the catalog has one" if wanted in cluster.partitions else ""
            hint = did_you_mean(wanted, there)
            raise PolicyError(f"Slurm has no partition '{wanted}'{known}", hint)
    partitions = partitions_now(list(dict.fromkeys(names)), cluster, catalog, look)
    shown = {partition.partition for partition in partitions}
    there_now = names_of(group for group in look.nodes if shown.intersection(group.partitions))
    bad = {node: at for node, at in bad_nodes(local_cluster()).items() if node in there_now}
    if as_json:
        rows = [partition_now_data(partition) for partition in partitions]
        accounts = [
            {
                key: getattr(association, key)
                for key in ("account", "partition", "qos", "default_qos")
            }
            for association in look.limits.associations
        ]
        data = {"cluster": cluster.name, "partitions": rows, "accounts": accounts}
        data.update(standing_data(standing_in(look)))
        data["bad_nodes"] = [asdict(fault) for fault in bad.values()]
        console.print_json("neuronctl.partitions-live/1", {**data, **_only(cluster, there)})
        return
    _print_live(partitions, look.asked_at)
    _print_bad_nodes(list(bad.values()))
    if not names:
        _print_only(cluster, there)
        _print_accounts(cluster, look.limits.associations)
        mine = standing_in(look)
        if mine.budgets or mine.shares:
            console.print_text("")
            lines = [[str(line)] for line in (*mine.budgets, *mine.shares)]
            console.print_table([console.Column("BUDGETS AND FAIR SHARE")], lines)


def _print_bad_nodes(faults: Sequence[NodeFault]) -> None:
    """What the user's own jobs say of nodes."""
    if not faults:
        return
    rows = [[fault.node, f"{moment(fault.at)}, job {fault.job}: {fault.why}"] for fault in faults]
    _print_pairs("FAILED", "IN YOUR JOBS", rows)
    _print_note(f"Forgotten after {DAYS} days, or when a job of yours completes there.")


def _there(cluster: Cluster) -> Optional[Collection[str]]:
    """The names of Slurm's partitions, if the cluster's Slurm is here and answers; else None."""
    here = local_cluster()
    if here is None or not is_cluster(cluster, here):
        return None
    from neuronctl.slurm.process import answer
    from neuronctl.slurm.scontrol import PARTITIONS_ARGV, parse_partitions

    try:
        sites = parse_partitions(answer(PARTITIONS_ARGV, timeout=_BRIEFLY))
    except SlurmError:
        return None
    return [site.name for site in sites]


def _only(cluster: Cluster, there: Collection[str]) -> Dict[str, List[str]]:
    return {
        "only_in_catalog": [name for name in cluster.partitions if name not in there],
        "only_in_slurm": [name for name in there if name not in cluster.partitions],
    }


def _print_only(cluster: Cluster, there: Collection[str]) -> None:
    of_catalog, of_slurm = _only(cluster, there).values()
    if of_catalog:
        _print_note(f"In the catalog, not in this Slurm: {', '.join(of_catalog)}")
    if of_slurm:
        _print_note(f"In this Slurm, not in the catalog: {', '.join(of_slurm)}")


def _print_live(partitions: Sequence[PartitionNow], now: int) -> None:
    """On a terminal the reasons are below the table; elsewhere each partition is one line."""
    terminal = console.is_terminal()
    columns = [
        console.Column("PARTITION", style="bold", no_wrap=True),
        console.Column("NOW", no_wrap=True, priority=1),
        console.Column("FREE", "right", no_wrap=True),
        console.Column("USED", "right", no_wrap=True, priority=2),
        console.Column("DOWN", "right", no_wrap=True, priority=2),
        console.Column("MY GPUS", "right", no_wrap=True),
        console.Column("RUNNING", "right", no_wrap=True, priority=3),
        console.Column("JOBS", "right", no_wrap=True, priority=3),
        console.Column("ONE MORE" if terminal else "ONE MORE STARTS", no_wrap=True),
    ]
    cells = [
        [
            partition.partition,
            "",
            partition.free_words,
            str(partition.used),
            str(partition.down),
            str(partition.my_gpus),
            str(partition.my_running),
            str(partition.my_jobs),
            partition.wait(now).partition(",")[0] if terminal else partition.wait(now),
        ]
        for partition in partitions
    ]
    signs = "█░x" if terminal and console.draws_blocks() else "#.x"
    for row, partition in zip(cells, partitions):
        row[1] = partition.bar(_BAR, signs=signs)
    console.print_table(columns, cells)
    reasons = [
        [partition.partition, partition.explained_wait(now)]
        for partition in partitions
        if partition.explained_wait(now)
    ]
    if terminal and reasons:
        _print_pairs("NOT NOW", "WHY", reasons)
    console.print_text("")
    used, free, down = tuple(signs)
    _print_note(
        f"{used} used, {free} free, {down} down. MY GPUS, RUNNING, JOBS: yours, of your limit."
    )


def _print_accounts(cluster: Cluster, associations: Sequence[Association]) -> None:
    """The user's accounts and QOS, the default QOS first."""
    if not associations:
        return
    rows = []
    for association in associations:
        names = sorted(association.qos, key=lambda name: name != association.default_qos)
        account = (
            f"{association.account} in {association.partition}"
            if association.partition
            else association.account
        )
        rows.append([account, ", ".join(names) or "-"])
    _print_pairs("MY ACCOUNTS", "MY QOS", rows)
    for option in mandatory(cluster):
        _print_note(f"{option} is mandatory on {cluster.name}.")


def _print_pairs(first: str, second: str, rows: Sequence[Sequence[str]]) -> None:
    """A table of two columns, after an empty line."""
    console.print_text("")
    headers = [console.Column(first, style="bold", no_wrap=True), console.Column(second)]
    console.print_table(headers, rows)


def _print_note(text: str) -> None:
    """A dim paragraph, folded between words where there is a terminal."""
    if console.is_terminal():
        import textwrap

        width = console.terminal_width()
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    console.print_text(text, "dim")


# ---------------------------------------------------------------------------- text


def _print_header(catalog: Catalog, cluster: Cluster) -> None:
    console.print_text(f"{cluster.name}: {cluster.title}", "bold")
    console.print_text(f"source: {cluster.source}, {cluster.date}")
    others = [name for name in catalog.clusters if name != cluster.name]
    if others:
        console.print_text(f"other clusters (--cluster): {', '.join(others)}", "dim")
    console.print_text("")


def _print_overview(catalog: Catalog, cluster: Cluster, there: Optional[Collection[str]]) -> None:
    columns = [
        console.Column("PARTITION", style="bold", no_wrap=True),
        console.Column("NODES", "right", no_wrap=True, priority=3),
        console.Column("CORES", "right", no_wrap=True, priority=2),
        console.Column("GPUS", no_wrap=True),
        console.Column("SUBMIT", "right", no_wrap=True, priority=1),
        console.Column("RUN", "right", no_wrap=True, priority=1),
        console.Column("MAX GPUS", "right", no_wrap=True),
        console.Column("TIME LIMIT", "right", no_wrap=True),
    ]
    every = cluster.partitions.values()
    shown = [partition for partition in every if there is None or partition.name in there]
    rows = [_overview_row(partition) for partition in shown]
    console.print_table(columns, rows)
    console.print_text("")
    legend = "CORES, GPUS: per node. SUBMIT, RUN, MAX GPUS: limits per user."
    console.print_text(legend, "dim")
    uses = [(partition.name, partition.good_for) for partition in shown if partition.good_for]
    if uses:
        _print_pairs("PARTITION", "GOOD FOR", uses)
    if cluster.qos:
        _print_qos(cluster)
    lines = site_rules(catalog, cluster)
    for partition in shown:
        remarks = [partition.note] if partition.note else []
        if partition.arch != cluster.arch and not partition.note:
            remarks.append(partition.arch)
        if not partition.open:
            remarks.append("closed to ordinary users")
        if remarks:
            lines.append((partition.name, "; ".join(remarks)))
    for qos in cluster.qos.values():
        remarks = [qos.note] if qos.note else []
        remarks += [f"{flag}: not held to the partition's {_LIFTED[flag]}" for flag in qos.flags]
        if remarks:
            lines.append((f"QOS {qos.name}", "; ".join(remarks)))
    if lines:
        _print_pairs("ABOUT", "RULES AND NOTES", lines)


_LIFTED = {
    "OverPartQOS": "limits per user",
    "PartitionMaxNodes": "limit of nodes",
    "PartitionTimeLimit": "time limit",
}


def _print_qos(cluster: Cluster) -> None:
    columns = [
        console.Column("QOS", style="bold", no_wrap=True),
        console.Column("PRIORITY", "right", no_wrap=True, priority=3),
        console.Column("SUBMIT", "right", no_wrap=True, priority=1),
        console.Column("RUN", "right", no_wrap=True, priority=1),
        console.Column("MAX GPUS", "right", no_wrap=True),
        console.Column("MAX NODES", "right", no_wrap=True),
        console.Column("TIME LIMIT", "right", no_wrap=True),
        console.Column("PARTITIONS"),
    ]
    rows = [
        [
            qos.name,
            _text(qos.priority),
            *(_text(figure) for figure in (qos.max_submit_jobs, qos.max_running_jobs)),
            *(_text(figure) for figure in (qos.max_gpus, qos.max_nodes)),
            _time(qos.wall_time.maximum),
            ", ".join(qos.partitions) or "all",
        ]
        for qos in cluster.qos.values()
    ]
    console.print_text("")
    console.print_table(columns, rows)
    console.print_text("")
    legend = "MAX NODES: per job. Of a QOS' limit and the partition's, the smaller one counts."
    console.print_text(legend, "dim")


def _overview_row(partition: Partition) -> List[str]:
    low, high = partition.min_cores_per_node, partition.max_cores_per_node
    gpus = ""
    if partition.gpus_per_node:
        parts = (str(partition.gpus_per_node), partition.gpu or "", partition.interconnect or "")
        gpus = " ".join(part for part in parts if part)
    return [
        partition.name,
        _text(partition.nodes),
        _text(low) if low == high else f"{low}-{high}",
        gpus or "-",
        _text(partition.max_submit_jobs),
        _text(partition.max_running_jobs),
        _text(partition.max_gpus),
        _time(partition.wall_time.maximum),
    ]


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
        if memory is not None:
            rows.append(["memory with them", f"{memory} MB"])
    console.print_table(columns, rows, title=partition.name)
    console.print_text("")


def _print_comment_values(comment: CommentPolicy) -> None:
    """Those whose meaning is known on a line each, then the others."""
    rows = []
    lists = [(f"--{field.key}", field.values) for field in comment.fields]
    for option, values in lists or [("--comment", comment.values)]:
        known = [value for value in values if comment.meanings.get(value)]
        rows += [[option, value, comment.meanings[value]] for value in known]
        others = [value for value in dict.fromkeys(values) if value not in known]
        if others or not values:
            any_value = "any word" if comment.form == "word" else "any text"
            rows.append([option, "", ", ".join(others) or any_value])
    columns = [
        console.Column("OPTION", no_wrap=True),
        console.Column("VALUE", style="bold", no_wrap=True),
        console.Column("MEANING, OR OTHER VALUES"),
    ]
    console.print_table(columns, rows)


def _text(value: Any) -> str:
    if value is None or value == "" or value == ():
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    return str(value)


def _time(seconds: Optional[int]) -> str:
    return "-" if seconds is None else units.format_time(seconds)


# ---------------------------------------------------------------------------- JSON


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
    """Seconds, null where not known, and the word UNLIMITED where there is no limit."""
    return {
        key: "UNLIMITED" if seconds == units.UNLIMITED else seconds
        for key, seconds in asdict(wall_time).items()
    }
