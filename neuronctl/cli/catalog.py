"""``neuronctl catalog``: check a catalog file, and draft one from Slurm."""

from __future__ import annotations

import os
import time
from typing import List, Tuple

import click

from neuronctl.catalog.draft import draft_catalog, list_differences
from neuronctl.catalog.loader import layer_files, load, merge, text_of
from neuronctl.cli.say import print_script
from neuronctl.common import yamlfile
from neuronctl.common.console import print_line
from neuronctl.common.errors import CatalogError
from neuronctl.common.words import counted
from neuronctl.common.yamlfile import Document
from neuronctl.doctor import check_file
from neuronctl.judgement.ask import Question

_TIMEOUT = 20.0  # seconds for Slurm to answer


@click.group("catalog")
def command() -> None:
    """Check a partition catalog, draft one from Slurm, or compare both."""


@command.command()
@click.argument("file", metavar="FILE")
def check(file: str) -> None:
    """Check a catalog file, as it would be used with --catalog FILE.

    Another file of a site is known by its name: config.yaml, causes.yaml, launchers/NAME.j2,
    recipes/NAME.yaml. All errors are printed, with file and line; the exit code is then not 0.
    """
    kind = check_file(os.path.expanduser(file))
    if kind != "a catalog":
        print_line(f"{file}: valid, {kind}")
        return
    document = yamlfile.read(os.path.expanduser(file), CatalogError)
    catalog = load(file)
    for name in document.data.get("clusters") or {}:
        cluster = catalog.clusters.get(name)
        if cluster is None:  # the file has null in its place
            print_line(f"{name}: removed")
        else:
            print_line(f"{name}: {counted(len(cluster.partitions), 'partition')}, {cluster.source}")
    print_line(f"{file}: valid; the default cluster is {catalog.default_cluster}")


@command.command("import")
def import_() -> None:
    """Draft a catalog file from what Slurm reports.

    It has the partitions with their nodes, GPUs, cores, memory and limits, and the QOS. As
    ~/.config/neuronctl/partitions.yaml, or a site's /etc/neuronctl/partitions.yaml, it makes this
    cluster the default.
    """
    _, draft = _draft_catalog()
    print_script(draft)


@command.command()
def diff() -> int:
    """Show where the catalog differs from what Slurm reports.

    The exit code is 1 if it does. 'neuronctl catalog import' drafts a file with Slurm's figures.
    """
    layers, draft = _draft_catalog()
    slurm_layer = yamlfile.parse(draft, "Slurm", CatalogError)
    (name,) = slurm_layer.data["clusters"]  # a draft has one
    in_slurm = merge([*layers, slurm_layer]).clusters[name]
    lines = list_differences(merge(layers).clusters.get(name), in_slurm)
    for line in lines:
        print_line(line)
    return 1 if lines else 0


def _draft_catalog() -> Tuple[List[Document], str]:
    """Return the catalog's layers and the text of a file with Slurm's figures."""
    # Skip an empty file: `catalog import > partitions.yaml` may be about to fill it.
    texts = [(text_of(file), file) for file in layer_files()]
    layers = [yamlfile.parse(text, file, CatalogError) for text, file in texts if text]
    figures = Question(timeout=_TIMEOUT).answer().figures
    return layers, draft_catalog(figures, time.strftime("%Y-%m-%d"), merge(layers))
