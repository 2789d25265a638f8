"""The rules of a site in words, one line each. Pure."""

from __future__ import annotations

from typing import Dict, List, Tuple

from neuronctl.catalog.cluster import Catalog, Cluster, LocalDisk
from neuronctl.common import units
from neuronctl.common.words import counted


def site_rules(catalog: Catalog, cluster: Cluster) -> List[Tuple[str, str]]:
    """Return the site's rules, each with the option or subject that it is about."""
    policy = cluster.policy
    lines: List[Tuple[str, str]] = []
    if policy.submit_from:
        lines.append(("submit from", ", ".join(policy.submit_from)))
    if cluster.scratch_days is not None:
        place, days = cluster.scratch or "it", counted(cluster.scratch_days, "day")
        words = f"the site removes a file from {place} after {days} without access"
        lines.append(("scratch", words))
    disks: Dict[LocalDisk, List[str]] = {}
    for partition in cluster.partitions.values():
        disks.setdefault(partition.local_disk, []).append(partition.name)
    for disk, names in disks.items():
        size = f" ({disk.size_gb} GB)" if disk.size_gb else ""
        if disk.path:
            lines.append(("local disk", f"{disk.path}{size} on each node of {', '.join(names)}"))
    if policy.comment.required:
        forms = {"any": "any text", "word": "one word", "fields": policy.comment.parts}
        form = policy.comment.pattern or forms[policy.comment.form]
        lines.append(("--comment", f"mandatory, {form}"))
    for option in mandatory(cluster):
        lines.append((option, "mandatory; 'neuronctl partitions --live' lists yours"))
    for forbidden, reason in policy.forbidden_options.items():
        doubtful = catalog.cite(cluster.name, "policy", "forbidden_options", forbidden).doubtful
        demand = "to be avoided" if doubtful else "not allowed"
        lines.append((f"--{forbidden}", f"{demand}; {reason}"))
    if policy.gpus_required:
        lines.append((f"--{policy.gpu_option}", "mandatory in partitions with GPUs"))
    if policy.cores.rule != "none":
        share = policy.cores.cores_per_gpu or "a node's cores / its GPUs"
        force = "at most" if policy.cores.rule == "cap" else "by default"
        evidence = catalog.evidence(cluster.name, "policy", "cores", "rule")
        lines.append(("cores per GPU", "; ".join(filter(None, (f"{force} {share}", evidence)))))
    interactive = cluster.wall_time.interactive_maximum
    if interactive is not None:
        lines.append(("interactive jobs", f"at most {units.format_time(interactive)}"))
    return lines


def mandatory(cluster: Cluster) -> List[str]:
    """Return the options for the account and QOS if the site requires them."""
    policy = cluster.policy
    pairs = (("--account", policy.account_required), ("--qos", policy.qos_required))
    return [option for option, required in pairs if required]


def comment_values(cluster: Cluster) -> List[Tuple[str, str]]:
    """Return the values of each part of a comment, with known meanings."""
    comment = cluster.policy.comment
    lists = [(comment.part_name(key), values) for key, values in comment.fields.items()]
    meant = {value: f"{value} ({meaning})" for value, meaning in comment.meanings.items()}
    any_value = "any word" if comment.form == "word" else "any text"
    return [
        (option, ", ".join(meant.get(value, value) for value in dict.fromkeys(values)) or any_value)
        for option, values in lists or [("--comment", comment.values)]
    ]
