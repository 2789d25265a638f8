"""``neuronctl clean``: remove the snapshots that no job needs."""

from __future__ import annotations

from typing import Mapping, Optional

import click

from neuronctl.cli.job_options import catalog_option
from neuronctl.cli.say import notify
from neuronctl.common.console import print_json, print_line
from neuronctl.common.frozen import asdict
from neuronctl.common.words import amount, moment
from neuronctl.slurm.code_snapshot import KeptSnapshot, kept_snapshots, places, remove


@click.command("clean")
@catalog_option
@click.option("--dry-run", is_flag=True, help="Show what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.clean/1).")
def command(catalog: Optional[str], dry_run: bool, as_json: bool) -> None:
    """Remove the copies of code (--snapshot) that no job needs.

    Kept are those of jobs that wait or run, those that were submitted within the last hour, and
    those into which a job has written: move that away, or remove it, first. If Slurm does not
    respond, nothing is removed.
    """
    from neuronctl.request.job_file import own_cluster
    from neuronctl.tracking.snapshots import jobs_of

    found = list(kept_snapshots(places(own_cluster(catalog))))
    needed = jobs_of(snapshot.place for snapshot in found) if found else {}
    rows = [(snapshot, _why(snapshot, needed)) for snapshot in found]
    freed = 0
    for snapshot, why in rows:
        if not why:
            freed += snapshot.bytes
            if not dry_run:
                remove(snapshot)
    if as_json:
        data = [{**asdict(snapshot), "kept": why} for snapshot, why in rows]
        print_json("neuronctl.clean/1", {"dry_run": dry_run, "snapshots": data})
        return
    for snapshot, why in rows:
        deed = "kept" if why else "would remove" if dry_run else "removed"
        of = f"of {snapshot.root}, " if snapshot.root else ""
        print_line(f"{deed:<13} {snapshot.place}  {of}{moment(snapshot.used)}{why and f': {why}'}")
    notify(f"{'would free' if dry_run else 'freed'} {amount(freed)}")


def _why(snapshot: KeptSnapshot, needed: Mapping[str, int]) -> str:
    """Why a snapshot is kept, or ""."""
    if snapshot.place in needed:
        return f"job {needed[snapshot.place]} needs it"
    if snapshot.is_new:
        return "it was submitted within the last hour"
    if snapshot.written:
        more = len(snapshot.written) - 1
        return f"a job has written {snapshot.written[0]}" + (f" and {more} more" if more else "")
    return ""
