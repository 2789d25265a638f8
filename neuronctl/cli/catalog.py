"""``neuronctl catalog``: check a catalog file, and draft one from Slurm."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, List, Optional

import click

from neuronctl.common.errors import CatalogError
from neuronctl.common.words import counted

if TYPE_CHECKING:
    from neuronctl.slurm.answers import ClusterFigures

_TIMEOUT = 20.0


@click.group("catalog")
def command() -> None:
    """Check a partition catalog, or draft one from Slurm."""


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
    text = catalog_text(_figures(), time.strftime("%Y-%m-%d"), below)
    if write is None:
        print_script(text)
        return
    write_text(write, text, force=force, mode=0o644)
    say(f"wrote {write}; review it, then run 'neuronctl catalog check {write}'")


def _figures() -> ClusterFigures:
    from neuronctl.common.users import login_name
    from neuronctl.slurm.answers import ask_now

    return ask_now(login_name(), timeout=_TIMEOUT).limits
