"""The site's policy as job_submit.lua, so that Slurm itself rejects what the site rejects. Pure.

Only the values at the top come from the catalog; the rules below them are job_submit.lua here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, Mapping

from neuronctl.sandbox.layout import Layout, cores_per_gpu

_RULES = Path(__file__).with_name("job_submit.lua").read_text(encoding="utf-8")


def job_submit_lua(layout: Layout, user: str) -> str:
    """job_submit.lua for the policy of the layout's cluster; ``user`` is the sandbox's only user.

    Of ``forbidden_options``, only those that Slurm's plugin can see are enforced: the rules'
    ``used`` lists them.
    """
    policy = layout.cluster.policy
    partitions: Dict[str, Dict[str, int]] = {}
    for each in layout.partitions:
        values = partitions[each.partition.name] = {"gpus": each.partition.gpus_per_node}
        limit = each.partition.wall_time.interactive_maximum
        if limit is not None:
            values["interactive_minutes"] = limit // 60
        cap = cores_per_gpu(layout, each)
        if cap and policy.cores.rule == "cap":
            values["cores_per_gpu"] = cap
    fields = policy.comment.fields
    site = {
        "partitions": partitions,
        "submit_from": [
            directory.replace("{user}", user).rstrip("/") + "/" for directory in policy.submit_from
        ],
        "forbidden": policy.forbidden_options,
        "gpus_required": policy.gpus_required,
        "account_required": policy.account_required,
        "qos_required": policy.qos_required,
        "comment_required": policy.comment.required,
        "comment_form": policy.comment.form,
        "comment_values": policy.comment.values,
        "comment_fields": [{"key": field.key, "values": field.values} for field in fields],
    }
    head = [f"local {name} = {literal(value)}" for name, value in site.items()]
    return "\n".join(head) + "\n" + _RULES


def literal(value: object) -> str:
    """A Lua literal for a number, a boolean, a printable text, a list, or a table."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'[{literal(key)}] = {literal(value[key])}' for key in value)} }}"
    if isinstance(value, (list, tuple)):
        return f"{{ {', '.join(map(literal, value))} }}"
    return json.dumps(value, ensure_ascii=False)
