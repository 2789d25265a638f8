"""`neuronctl sandbox`: a real Slurm on this machine, built from a catalog cluster."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Dict, List, Optional, Tuple

import click

from neuronctl.catalog.loader import load
from neuronctl.cli.job_options import file_option
from neuronctl.common.console import print_json, print_line, print_rows
from neuronctl.common.units import compress_hostlist
from neuronctl.common.words import counted
from neuronctl.sandbox import client, enter, layout
from neuronctl.sandbox.requirements import OPTIONAL_PACKAGES, PACKAGES


def _parse(ctx: click.Context, param: click.Parameter, values: Tuple[str, ...]) -> Dict[str, int]:
    """Return the number of nodes of each partition in values such as ``amd_a100nv_8=4``."""
    counts = {}
    for value in values:
        partition, equals, number = value.rpartition("=")
        if not equals or not partition or not (number.isascii() and number.isdecimal()):
            raise click.BadParameter(f"'{value}' is not PARTITION=N, such as amd_a100nv_8=4")
        counts[partition] = int(number)
    return counts


@click.group("sandbox")
def command() -> None:
    """Run a real Slurm on this machine, built from the catalog.

    Its nodes are namespaces on this machine, with names, partitions, cores, GPUs, and limits from
    the catalog. The GPUs are only device files. The sandbox needs no root privileges and changes
    nothing on this machine; 'down' removes it entirely.
    """


@command.command()
@click.option(
    "--cluster", metavar="NAME", help="Cluster of the catalog (default: its default cluster)."
)
@file_option("--catalog", help="Catalog file, also used inside the sandbox.")
@click.option(
    "--nodes",
    "counts",
    metavar="PARTITION=N",
    callback=_parse,
    multiple=True,
    help="Nodes of a partition, 0 for none; repeatable (default: two each of amd_a100nv_8 and "
    "cas_v100nv_8).",
)
@click.option(
    "--root",
    metavar="DIR",
    default="/",
    help="Run everything from the Debian system in this directory, not this machine's.",
)
@click.option(
    "--bind",
    "binds",
    metavar="DIR[:PLACE]",
    multiple=True,
    help="Mount a directory of this machine, at its own path or at PLACE; repeatable.",
)
def up(
    cluster: Optional[str],
    catalog: Optional[str],
    counts: Dict[str, int],
    root: str,
    binds: Tuple[str, ...],
) -> None:
    """Start the sandbox, if it is not running."""
    if catalog is not None:
        os.environ["NEURONCTL_CATALOG"] = catalog  # the sandbox reads it, too
    begin = time.monotonic()
    built = layout.build(load().cluster(cluster), counts)
    mounts = tuple(map(client.parse_bind, binds))
    running, is_new = client.up(built, os.path.realpath(root), mounts)
    nodes = counted(sum(len(names) for names in running.partitions.values()), "node")
    if is_new:
        seconds = time.monotonic() - begin
        print_line(f"sandbox up: {running.cluster}, {nodes}, in {seconds:.1f} s")
        # Who names a catalog may expect all of its partitions.
        missing = [name for name in built.cluster.partitions if name not in running.partitions]
        if missing and catalog is not None and not counts:
            print_line(f"  without --nodes NAME=N, not built: {', '.join(missing)}")
    else:
        print_line(f"sandbox is up already: {running.cluster}, {nodes}")
    print_line("  run a command there: neuronctl sandbox exec -- sinfo")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.sandbox/1).")
def status(as_json: bool) -> int:
    """Show the sandbox and its nodes; exit with 6 if none is running."""
    running = client.find()
    facts = {} if running is None else dataclasses.asdict(running)
    if as_json:
        print_json("neuronctl.sandbox/1", {"up": running is not None, **facts})
    elif running is None:
        print_line("no sandbox is running")
    else:
        partitions = facts.pop("partitions")
        facts.update((name, compress_hostlist(nodes)) for name, nodes in partitions.items())
        print_rows([(name, str(value)) for name, value in facts.items()])
    return 0 if running is not None else 6


@command.command(
    "exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option(
    "--copy",
    "paths",
    multiple=True,
    type=click.Path(exists=True),
    help="First copy a file or directory into the scratch directory; repeatable.",
)
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def exec_(paths: Tuple[str, ...], argv: Tuple[str, ...]) -> int:
    """Run CMD on the login node, in the scratch directory.

    CMD runs as the ordinary user, with neuronctl on PATH. exec exits with its exit code.
    """
    return _enter(list(argv), paths)


@command.command()
def shell() -> int:
    """Open a shell on the login node, as the ordinary user."""
    return _enter([], ())


def _enter(argv: List[str], paths: Tuple[str, ...]) -> int:
    running = client.require()
    return enter.run(running, argv or [running.shell], paths)


@command.command()
def down() -> None:
    """Remove the sandbox, with its jobs and everything written in it."""
    print_line("sandbox down" if client.down() else "no sandbox is running")


@command.command()
@click.option("--all", "all_", is_flag=True, help="Include those for ssh and for modules.")
def packages(all_: bool) -> None:
    """Print the Debian packages that the sandbox needs, on one line for apt-get."""
    print_line(" ".join([*PACKAGES, *(OPTIONAL_PACKAGES if all_ else ())]))
