"""What the cluster will say: small pure functions, each with a stable code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One rule's verdict on a plan.

    code is stable (``NC101``) and documented; severity is ``"error"`` (refuses) or ``"warning"``;
    message carries the figure and the limit, source who sets the limit (``file:line``, the
    cluster's dated source, or live Slurm), hint what to type instead.
    """

    code: str
    severity: str
    title: str
    message: str
    source: str = ""
    hint: str = ""
