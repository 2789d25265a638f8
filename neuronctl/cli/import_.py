"""``neuronctl import``: a batch script as a job file."""

from __future__ import annotations

from typing import Optional

import click

from neuronctl.cli import job_output
from neuronctl.cli.job_options import catalog_option
from neuronctl.cli.say import print_script, say
from neuronctl.request.job_file import own_cluster
from neuronctl.scripts.script_file import read_script, shown_name


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option("--write", "-o", metavar="JOB.yaml", help="Write it to a file.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--cluster", metavar="NAME", help="Catalog cluster to plan for; the job file names it."
)
@catalog_option
def command(
    file: str, write: Optional[str], force: bool, cluster: Optional[str], catalog: Optional[str]
) -> None:
    """Turn a batch script into a job file that does the same.

    FILE may be - for standard input. Directives become keys of the job file; the rest stays shell
    text. Standard error lists, with file and line, what a job file cannot express.
    """
    from neuronctl.scripts.job_file_draft import draft_job_file

    text = read_script(file)
    chosen = own_cluster(catalog, cluster)
    name = shown_name(file)
    made = draft_job_file(text, name, chosen, name_cluster=cluster is not None)
    if write is None:
        print_script(made.text)
    else:
        job_output.write_text(write, made.text, force=force, mode=0o600)
        say(f"wrote {write}; review it with 'neuronctl generate -f {write}'")
    say(
        "neuronctl's script adds to it: a check of the nodes (none with 'preflight: false'), and "
        "lines that set PYTHONUNBUFFERED and set or unset what training programs read, such as "
        "MASTER_ADDR"
    )
    for remark in made.remarks:
        say(
            f"{name}:{remark.line}: {remark.message}"
            if remark.line
            else f"{name}: {remark.message}"
        )
        if remark.hint:
            say(f"  hint: {remark.hint}")
