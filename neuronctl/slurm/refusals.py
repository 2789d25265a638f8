"""What to do about sbatch's refusals, by Slurm's own words. Data: (words, cure)."""

from __future__ import annotations

import re

_CURES = (
    (
        "Invalid account or account/partition combination",
        "name an account of yours with -A; 'neuronctl partitions --live' lists them",
    ),
    ("Invalid qos", "name a QOS of yours with -q; 'neuronctl partitions --live' lists them"),
    ("Invalid partition name", "'neuronctl partitions' lists the partitions"),
    (
        "group not permitted to use this partition",
        "use another partition; 'neuronctl partitions --live' shows which take your jobs",
    ),
    (
        "job submit limit",
        "'neuronctl partitions --live' shows what you hold of your limits; wait until some jobs "
        "end, or request less",
    ),
    ("time limit is invalid", "request a shorter --time; 'neuronctl partitions' shows the limits"),
    (
        "Node count specification invalid|More processors requested than permitted"
        "|node configuration is not available|CPU count per node can not be satisfied",
        "request less per node, or fewer nodes; 'neuronctl partitions NAME' shows what it has",
    ),
    ("Memory specification can not be satisfied", "request less --mem"),
    ("Invalid feature specification", "'scontrol show node' shows the features of each node"),
    ("Invalid generic resource", "'scontrol show node' shows the GPUs of each node (Gres)"),
    ("Invalid node name specified", "'neuronctl partitions NAME' shows the nodes of a partition"),
    ("Requested reservation is invalid", "'scontrol show reservation' lists them"),
    ("Invalid job array specification", "'scontrol show config' shows MaxArraySize"),
    ("Job dependency problem", "'neuronctl status JOB' shows whether Slurm still knows the job"),
    ("Invalid license specification", "'scontrol show licenses' lists them"),
)

_UNCERTAIN = "node configuration is not available|Required node not available|Nodes? busy"


def cure_of(words: str) -> str:
    """Return what to do about a refusal in Slurm's words; "" if that is not known."""
    return next((cure for found, cure in _CURES if re.search(found, words, re.IGNORECASE)), "")


def is_uncertain(words: str) -> bool:
    """Return whether sbatch may take the job all the same, to let it wait.

    ``sbatch --test-only`` has the same words for nodes that are too small, and for nodes that are
    out of service or reserved, for which a job waits (Slurm 22.05).
    """
    return re.search(_UNCERTAIN, words, re.IGNORECASE) is not None
