"""``neuronctl brief``: one page about the cluster, for people and coding agents."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

import click

from neuronctl.brief import Brief, PartitionBrief, gather
from neuronctl.cli.exclusive import at_most_one
from neuronctl.cli.job_options import catalog_option, cluster_option
from neuronctl.cli.json_data import partition_now_data, setting_rows, standing_data
from neuronctl.common import units
from neuronctl.common.console import print_json, print_text
from neuronctl.common.paths import data_path
from neuronctl.common.words import moment, utc
from neuronctl.request.config_file import Setting

_SKILL_HEAD = """\
---
name: neuronctl
description: Submit, follow, and repair GPU jobs on a Slurm cluster with neuronctl. Use it for every
  training, evaluation, or other batch job that has to run on the cluster.
---

"""


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
    if agents:
        print_text(f"<!-- neuronctl: begin -->\n{_guide()}<!-- neuronctl: end -->")
    elif skill:
        print_text(_SKILL_HEAD + _guide().rstrip())
    else:
        found = gather(catalog, cluster)
        if as_json:
            print_json("neuronctl.brief/1", _data(found))
        else:
            print_text("\n".join([*_page(found), _guide().rstrip()]))


def _guide() -> str:
    """The steps and the common mistakes."""
    with open(data_path("templates/agents.md"), encoding="utf-8") as file:
        return file.read()


def _page(found: Brief) -> Iterator[str]:
    cluster = found.cluster
    how = f" ({found.how})" if found.how else ""
    yield f"# Jobs on {cluster.title}\n"
    yield f"Cluster `{cluster.name}`{how}. Rules: {cluster.source}, {cluster.date}."
    if found.asked_at is None:
        yield f"**All limits are from the catalog, because {found.silent}.**"
    else:
        yield f"Limits and free nodes: from Slurm, {moment(found.asked_at)}."
    yield "\n## Rules of the cluster\n"
    yield from (f"- `{what}`: {rule}" if what[0] == "-" else f"- {what}: {rule}"
                for what, rule in found.rules)  # fmt: skip
    meanings = cluster.policy.comment.meanings
    for option, values in found.comment.items():
        told = (f"{value} ({meanings[value]})" if value in meanings else value for value in values)
        yield f"- values of `{option}`: {', '.join(told)}"
    yield "\n## Partitions\n"
    yield from _partitions(found)
    yield "\n## You\n"
    yield f"- login name: {found.user}"
    for account, qos in found.accounts:
        yield f"- account {account}, QOS {', '.join(qos) or 'none'}"
    yield from (f"- {line}" for line in (*found.standing.budgets, *found.standing.shares))
    if cluster.scratch:
        yield f"- scratch directory: {cluster.scratch.replace('{user}', found.user)}"
    for setting in found.defaults:
        yield f"- default of all your jobs: `{_as_option(setting)}` ({setting.where})"
    if not found.defaults:
        yield "- You have no defaults; `neuronctl config edit` sets one."
    yield ""


def _as_option(setting: Setting) -> str:
    option, text = setting.option, ", ".join(setting.texts)
    if option.is_flag and text == "true":
        return f"--{option.long}"
    off = option.kind == "switch" and text == "false"
    return f"--no-{option.long}" if off else f"--{option.long} {text}"


_LIMITS = ("partition", "nodes", "GPUs per node", "cores per node", "time limit")
_YOURS = ("your GPUs", "your running jobs", "your jobs")
_NOW = ("free now", "one more job")


def _partitions(found: Brief) -> Iterator[str]:
    live = found.asked_at is not None
    header = (*_LIMITS, *_YOURS, *(_NOW if live else ()))
    for row in (header, ("---",) * len(header), *(_row(line, found) for line in found.partitions)):
        yield f"| {' | '.join(row)} |"
    yield ""
    figures = "what you hold, and your limit" if live else "your limit"
    yield f'The columns with "your" show {figures}, over all your jobs in the partition.'
    for line in found.partitions:
        use, note = line.partition.good_for, line.partition.note
        if use or note:
            words = filter(None, (use and f"good for {use}", note))
            yield f"- {line.partition.name}: {'; '.join(words)}"


def _row(line: PartitionBrief, found: Brief) -> Tuple[str, ...]:
    partition, now = line.partition, line.now
    cores = "-".join(map(str, sorted({*partition.cores_per_node[:1], *partition.cores_per_node})))
    each = found.cluster.cores_per_gpu(partition) if partition.gpus_per_node else None
    gpus = f"{partition.gpus_per_node} {partition.gpu or ''}".strip()
    time = partition.wall_time.maximum
    limits = (partition.max_gpus, partition.max_running_jobs, partition.max_submit_jobs)
    held: Sequence[object] = limits if now is None else (now.my_gpus, now.my_running, now.my_jobs)
    return (
        f"`{partition.name}`{'' if partition.open else ' (closed to you)'}",
        str(partition.nodes or "?"),
        gpus if partition.gpus_per_node else "none",
        (cores or "?") + (f" ({each} per GPU)" if each else ""),
        "?" if time is None else units.format_time(time),
        *("no limit known" if figure is None else str(figure) for figure in held),
        *(() if now is None else (now.free_words, now.wait(found.asked_at or 0))),
    )


def _data(found: Brief) -> Dict[str, Any]:
    cluster = found.cluster
    return {
        "cluster": cluster.name,
        "title": cluster.title,
        "source": cluster.source,
        "date": cluster.date,
        "recognised_by": found.how,
        "user": found.user,
        "asked_at": utc(found.asked_at),
        "not_asked": found.silent,
        "rules": [{"subject": what, "rule": rule} for what, rule in found.rules],
        "comment": {option: list(values) for option, values in found.comment.items()},
        "meanings": dict(cluster.policy.comment.meanings),
        "partitions": [
            {
                "partition": line.partition.name,
                "open": line.partition.open,
                "nodes": line.partition.nodes,
                "gpus_per_node": line.partition.gpus_per_node,
                "gpu": line.partition.gpu,
                "cores_per_node": list(line.partition.cores_per_node),
                "cores_per_gpu": cluster.cores_per_gpu(line.partition),
                "time_limit": line.partition.wall_time.maximum,
                "max_nodes": line.partition.max_nodes,
                "max_gpus": line.partition.max_gpus,
                "max_running_jobs": line.partition.max_running_jobs,
                "max_submit_jobs": line.partition.max_submit_jobs,
                "good_for": line.partition.good_for,
                "note": line.partition.note,
                "now": None if line.now is None else partition_now_data(line.now),
            }
            for line in found.partitions
        ],
        "accounts": [{"account": account, "qos": list(qos)} for account, qos in found.accounts],
        **standing_data(found.standing),
        "scratch": (cluster.scratch or "").replace("{user}", found.user),
        "defaults": setting_rows(found.defaults),
        "guide": _guide(),
    }
