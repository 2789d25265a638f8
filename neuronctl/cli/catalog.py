"""``neuronctl catalog``: check a catalog file, draft one from Slurm, compare the two."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, List, Optional

import click

from neuronctl.cli.job_options import catalog_option, cluster_option
from neuronctl.common.errors import CatalogError
from neuronctl.common.frozen import asdict
from neuronctl.common.words import counted

if TYPE_CHECKING:
    from neuronctl.slurm.answers import ClusterFigures

_TIMEOUT = 20.0


@click.group("catalog")
def command() -> None:
    """Check a partition catalog, draft one from Slurm, or compare it with Slurm."""


@command.command()
@click.argument("file", metavar="FILE")
def check(file: str) -> None:
    """Check a catalog file, as it would be used with --catalog FILE.

    All errors are printed, with file and line; the exit code is then 3.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.common import yamlfile
    from neuronctl.common.console import print_line

    document = yamlfile.read(os.path.expanduser(file), CatalogError)
    known = load(file)
    for name in document.data.get("clusters") or {}:
        cluster = known.clusters.get(name)
        if cluster is None:
            print_line(f"{name}: removed")
            continue
        count = counted(len(cluster.partitions), "partition")
        print_line(f"{name}: {count}, {cluster.source}")
    print_line(f"{file}: valid; the default cluster is {known.default_cluster}")


@command.command("import")
@click.option("--write", metavar="FILE", help="Write the draft to FILE.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def import_(write: Optional[str], force: bool) -> None:
    """Draft a catalog file from what Slurm reports.

    It has the partitions with their nodes, GPUs, cores, memory and limits, and the QOS. As
    ~/.config/neuronctl/partitions.yaml, or a site's /etc/neuronctl/partitions.yaml, it makes this
    cluster the default.
    """
    from neuronctl.catalog.loader import layer_files, text_of
    from neuronctl.catalog.merging import merge
    from neuronctl.cli.job_output import write_text
    from neuronctl.cli.say import print_script, say
    from neuronctl.common import yamlfile
    from neuronctl.slurm.catalog_draft import catalog_text

    # The file that is written need not be valid before, nor the one that '>' has just emptied.
    target = None if write is None else os.path.realpath(write)
    files: List[str] = [file for file in layer_files() if os.path.realpath(file) != target]
    texts = [(text_of(file), file) for file in files]
    below = merge([yamlfile.parse(text, file, CatalogError) for text, file in texts if text])
    text = catalog_text(_ask(), time.strftime("%Y-%m-%d"), below)
    if write is None:
        print_script(text)
        return
    write_text(write, text, force=force, mode=0o644)
    say(f"wrote {write}; review it, then run 'neuronctl catalog check {write}'")


@command.command()
@cluster_option
@catalog_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.catalog-diff/1)."
)
def diff(cluster: Optional[str], catalog: Optional[str], as_json: bool) -> None:
    """Show where the catalog differs from Slurm, figure by figure."""
    from neuronctl.catalog.loader import load
    from neuronctl.catalog.local_cluster import is_cluster
    from neuronctl.catalog.merging import merge
    from neuronctl.cli.say import say
    from neuronctl.common import console, yamlfile
    from neuronctl.slurm.catalog_draft import catalog_text, differences, untold

    limits = _ask()
    known = load(catalog)
    here = limits.config.cluster
    if cluster is None:
        names = [entry.name for entry in known.clusters.values() if is_cluster(entry, here)]
        if not names:
            raise CatalogError(
                f"the catalog does not describe the cluster of this Slurm, '{here}'",
                "name one with --cluster, or draft it with 'neuronctl catalog import'",
            )
        cluster = names[0]
    ours = known.cluster(cluster)
    text = catalog_text(limits, time.strftime("%Y-%m-%d"))
    theirs = merge([yamlfile.parse(text, "Slurm", CatalogError)]).cluster()
    changes = differences(ours, theirs, untold(limits))
    if limits.qos is None:
        say("neuronctl: sacctmgr does not answer: per-user limits are not compared")
    if as_json:
        rows = [asdict(change) for change in changes]
        data = {"cluster": ours.name, "slurm_cluster": here, "differences": rows}
        console.print_json("neuronctl.catalog-diff/1", data)
        return
    if not changes:
        console.print_line(f"{ours.name}: the catalog agrees with Slurm")
        return
    columns = [
        console.Column("PARTITION", style="bold", no_wrap=True),
        console.Column("KEY", no_wrap=True),
        console.Column(f"CATALOG ({ours.date})"),
        console.Column("SLURM"),
    ]
    cells = [
        [change.partition, change.key, change.catalog or "-", change.slurm or "-"]
        for change in changes
    ]
    console.print_table(columns, cells)


def _ask() -> ClusterFigures:
    from neuronctl.common.users import login_name
    from neuronctl.slurm.answers import ask_now

    limits = ask_now(login_name(), timeout=_TIMEOUT).limits
    return limits
