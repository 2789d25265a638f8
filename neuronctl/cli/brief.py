"""``neuronctl brief``: one page about the cluster, for people and coding agents."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import click

from neuronctl.catalog.loader import load
from neuronctl.catalog.local_cluster import recognise
from neuronctl.catalog.model import Cluster, Partition
from neuronctl.catalog.site_rules import site_rules
from neuronctl.cli.exclusive import at_most_one
from neuronctl.cli.job_options import catalog_option, cluster_option
from neuronctl.common import units
from neuronctl.common.console import print_json, print_text
from neuronctl.common.errors import SlurmError
from neuronctl.common.frozen import asdict
from neuronctl.common.paths import data_path
from neuronctl.common.users import login_name
from neuronctl.common.words import counted, utc

_SKILL_HEAD = """\
---
name: neuronctl
description: Submit, follow, and repair GPU jobs on a Slurm cluster with neuronctl. Use it for every
  training, evaluation, or other batch job that has to run on the cluster.
---

"""
_TIMEOUT = 10.0
_HEADER = (
    "| partition | nodes | GPUs per node | cores per node | time limit | your GPUs | free now |"
)


@click.command("brief")
@cluster_option
@catalog_option
@click.option("--agents", is_flag=True, help="Print the guide as a block for an AGENTS.md.")
@click.option("--skill", is_flag=True, help="Print the guide as a skill file (SKILL.md).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.brief/1).")
def command(
    cluster: Optional[str], catalog: Optional[str], agents: bool, skill: bool, as_json: bool
) -> None:
    """Print what you need to know to run jobs here, as one page of Markdown.

    The page has the cluster's rules and partitions, your limits and defaults, what is free now, the
    steps from a program to a finished job, and the common mistakes. It is meant for people and for
    coding agents. --agents and --skill print the part that is the same on every cluster.
    """
    at_most_one({"--agents": agents, "--skill": skill, "--json": as_json})
    with open(data_path("templates/agents.md"), encoding="utf-8") as file:
        guide = file.read()
    if agents:
        print_text(f"<!-- neuronctl: begin -->\n{guide}<!-- neuronctl: end -->")
    elif skill:
        print_text(_SKILL_HEAD + guide.rstrip())
    else:
        here, data = _gather(catalog, cluster)
        if as_json:
            print_json("neuronctl.brief/1", {**data, "guide": guide})
        else:
            print_text("\n".join([*_page(here, data), guide.rstrip()]))


def _gather(catalog_file: Optional[str], name: Optional[str]) -> Tuple[Cluster, Dict[str, Any]]:
    """Return the cluster, and what is known of it from the catalog, the user's files, and Slurm."""
    from neuronctl.cli.json_data import partition_now_data, setting_rows, standing_data
    from neuronctl.judgement.ask import ask_slurm
    from neuronctl.judgement.overlay import overlay
    from neuronctl.judgement.partition_board import partitions_now
    from neuronctl.planning import plan
    from neuronctl.request.config_file import settings
    from neuronctl.request.job import JobRequest
    from neuronctl.request.job_file import configuration
    from neuronctl.slurm.budgets import Standing

    catalog, user = load(catalog_file), login_name()
    here, how = recognise(catalog, name or configuration().values.get("cluster"))
    any_job, standing, silent, asked_at = plan(JobRequest(), here), Standing(), "", None
    accounts: List[Dict[str, Any]] = []
    now: Dict[str, Dict[str, Any]] = {}
    try:
        snapshot = ask_slurm(any_job, timeout=_TIMEOUT)
        here = overlay(any_job, snapshot)[0].cluster
        every = partitions_now((), here, catalog, snapshot)
        now = {one.partition: partition_now_data(one) for one in every}
        accounts = [
            {key: getattr(own, key) for key in ("account", "partition", "qos", "default_qos")}
            for own in snapshot.limits.associations
        ]
        standing, asked_at = snapshot.standing, snapshot.asked_at
    except SlurmError as error:
        silent = error.short
    rules = [(what, text.replace("{user}", user)) for what, text in site_rules(catalog, here)]
    shown = [one for one in here.partitions.values() if not now or one.name in now]
    return here, {
        **{key: getattr(here, key) for key in ("title", "source", "date")},
        "cluster": here.name,
        "recognised_by": how,
        "user": user,
        "asked_at": utc(asked_at),
        "not_asked": silent,
        "rules": [{"subject": what, "rule": text} for what, text in rules],
        "meanings": dict(here.policy.comment.meanings),
        "partitions": [{**_partition(one, here), "now": now.get(one.name)} for one in shown],
        "accounts": accounts,
        **standing_data(standing),
        "scratch": (here.scratch or "").replace("{user}", user),
        "defaults": setting_rows(settings()),
    }


def _partition(one: Partition, here: Cluster) -> Dict[str, Any]:
    kept = ("open", "nodes", "gpus_per_node", "gpu", "max_nodes", "max_gpus", "good_for", "note")
    figures = {key: value for key, value in asdict(one).items() if key in kept}
    cores = {"cores_per_node": list(one.cores_per_node), "cores_per_gpu": here.cores_per_gpu(one)}
    return {"partition": one.name, **figures, **cores, "time_limit": one.wall_time.maximum}


def _page(here: Cluster, data: Dict[str, Any]) -> Iterator[str]:
    yield f"# Jobs on {here.title}\n"
    yield f"Cluster `{here.name}`. Rules: {here.source}, {here.date}."
    silent = f"**All limits are from the catalog, because {data['not_asked']}.**"
    yield f"Limits and free nodes: from Slurm, {data['asked_at']}." if data["asked_at"] else silent
    yield "\n## Rules of the cluster\n"
    for rule in data["rules"]:
        subject = rule["subject"]
        yield f"- {f'`{subject}`' if subject[0] == '-' else subject}: {rule['rule']}"
    for field in here.policy.comment.fields:
        known = (f"{value} ({data['meanings'].get(value, '')})" for value in field.values)
        yield f"- values of `--{field.key}`: {', '.join(known).replace(' ()', '')}"
    yield f"\n## Partitions\n\n| {' | '.join(_HEADER)} |\n{'|---' * len(_HEADER)}|"
    for row in data["partitions"]:
        time, now = row["time_limit"], row["now"] or {}
        held = now.get("my_gpus", {"used": "", "figure": row["max_gpus"]})
        cells = (
            f"`{row['partition']}`{'' if row['open'] else ' (closed to you)'}",
            str(row["nodes"] or "?"),
            f"{row['gpus_per_node']} {row['gpu'] or ''}".strip(),
            "-".join(map(str, sorted({*row["cores_per_node"]}))) or "?",
            "?" if time is None else units.format_time(time),
            f"{held['used']}/{held['figure'] or 'no limit known'}".lstrip("/"),
            counted(now["free"], now["unit"]) if now else "?",
        )
        yield f"| {' | '.join(cells)} |" + (f" {row['good_for']}" if row["good_for"] else "")
    yield f"\n## You\n\n- login name: {data['user']}"
    yield from (
        f"- account {one['account']}, QOS {', '.join(one['qos'])}" for one in data["accounts"]
    )
    for one in data["budgets"]:
        used = f"{one['left']} of {one['minutes']} minutes left"
        yield f"- {one['holder']}, {one['limit']} {one['tres']}: {used}"
    for one in data["defaults"]:
        yield f"- default of all your jobs: `{one['key']}: {one['value']}` ({one['where']})"
    yield ""
