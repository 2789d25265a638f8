"""Slurm's names of a job's states, as squeue and sacct print them."""

from __future__ import annotations

HOLDING = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING", "RESIZING"})
"""A job in one of these holds its nodes, and counts for limits on running jobs."""

OVER = frozenset({"COMPLETING", "STAGE_OUT"})
"""A job in one of these no longer counts for any limit, but has not ended."""

ACTIVE = HOLDING | OVER | {"PENDING", "REQUEUED"}
"""A job in one of these has not ended."""

ENDED = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"),
    )
)
"""The final states; COMPLETING is not one of them."""
