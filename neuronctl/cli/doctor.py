"""``neuronctl doctor``: what works here and what does not."""

from __future__ import annotations

import dataclasses
from typing import Optional

import click


@click.command("doctor")
@click.option("--catalog", metavar="FILE", help="Catalog file laid over the others.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(catalog: Optional[str], as_json: bool) -> None:
    """Say on one page what works here: Slurm, catalog, directories, software, last job.

    Nothing is changed and nothing is submitted.
    """
    from neuronctl import console
    from neuronctl.doctor import examine

    found = examine(catalog)
    if as_json:
        console.print_json("neuronctl.doctor/1", {"checks": [dataclasses.asdict(c) for c in found]})
        return
    columns = [
        console.Column("WHAT", style="bold", no_wrap=True),
        console.Column("STATE", no_wrap=True),
        console.Column("SEEN"),
    ]
    rows = [
        [one.name, one.state, one.words + (f" -> {one.hint}" if one.hint else "")] for one in found
    ]
    console.print_table(columns, rows)
