"""``neuronctl doctor``: what works on this machine and what does not."""

from __future__ import annotations

from typing import Optional

import click

from neuronctl.cli.job_options import catalog_option
from neuronctl.common.frozen import asdict


@click.command("doctor")
@catalog_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.doctor/1).")
def command(catalog: Optional[str], as_json: bool) -> int:
    """Check Slurm, catalog, directories, configuration and records on this machine.

    Nothing is changed and nothing is submitted. The exit code is 0 if nothing is wrong, else that
    of the first problem.
    """
    from neuronctl.common import console
    from neuronctl.doctor import examine

    checks = examine(catalog)
    code = next((check.exit_code for check in checks if check.exit_code), 0)
    if as_json:
        console.print_json("neuronctl.doctor/1", {"checks": [asdict(check) for check in checks]})
        return code
    columns = [
        console.Column("WHAT", style="bold", no_wrap=True),
        console.Column("STATE", no_wrap=True),
        console.Column("SEEN"),
    ]
    rows = [
        [check.name, check.state, check.words + (f" -> {check.hint}" if check.hint else "")]
        for check in checks
    ]
    console.print_table(columns, rows)
    return code
