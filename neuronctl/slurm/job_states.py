"""The states of a job, by the names that squeue and sacct print, and what each one means."""

from __future__ import annotations

from typing import FrozenSet, Optional, Sequence

from neuronctl.common.datatypes import dataclass


@dataclass(frozen=True)
class JobState:
    """What one state means.

    phase: the job ``waits``, ``holds`` its nodes, ``leaves`` them, or has ``ended``. style: of its
    cells in tables. ending: what ended the job's run, if that says more than its exit code.
    exit_status: what timeout(1) and the shell return, for use if Slurm reports only 0:0. short:
    squeue's short name.
    """

    name: str
    phase: str
    style: str = ""
    ending: str = ""
    exit_status: Optional[int] = None
    short: str = ""


_FAILED = "bold red"

_STATES = (
    JobState("BOOT_FAIL", "ended", _FAILED, "a node failed to boot"),
    JobState("DEADLINE", "ended", _FAILED, "deadline passed", 124),
    JobState("FAILED", "ended", _FAILED),
    JobState("LAUNCH_FAILED", "ended", _FAILED, "Slurm could not start it on its nodes"),
    JobState("NODE_FAIL", "ended", _FAILED, "a node failed"),
    JobState("OUT_OF_MEMORY", "ended", _FAILED, "out of memory", 137),
    JobState("RECONFIG_FAIL", "ended", _FAILED, "a node could not be reconfigured for it"),
    JobState("TIMEOUT", "ended", _FAILED, "time limit reached", 124),
    JobState("PREEMPTED", "ended", ending="preempted by another job", exit_status=143),
    JobState("REVOKED", "ended", ending="it runs on another cluster of the federation"),
    JobState("RUNNING", "holds", "green", short="R"),
    JobState("COMPLETING", "leaves", short="CG"),
    JobState("CONFIGURING", "holds", "yellow", short="CF"),
    JobState("PENDING", "waits", "yellow", short="PD"),
    JobState("REQUEUED", "waits", "yellow", "requeued by a user"),
    JobState("RESV_DEL_HOLD", "waits", "yellow", "held: its reservation was deleted"),
    JobState("SUSPENDED", "holds", "yellow", short="S"),
    JobState("STOPPED", "holds", "yellow", short="ST"),
    JobState("SIGNALING", "holds"),
    JobState("RESIZING", "holds"),
    JobState("STAGE_OUT", "leaves"),
    JobState("COMPLETED", "ended", "dim", exit_status=0),
    JobState("CANCELLED", "ended", "dim", exit_status=143),
)

PENDING, RUNNING, COMPLETED = "PENDING", "RUNNING", "COMPLETED"
CONFIGURING = "CONFIGURING"
CANCELLED, FAILED, OUT_OF_MEMORY = "CANCELLED", "FAILED", "OUT_OF_MEMORY"
"""The states that other modules name."""

STATES = {state.name: state for state in _STATES}
"""By name, the most important first: a line about several jobs shows the first of their states."""


def _states_in(phase: str) -> FrozenSet[str]:
    return frozenset(state.name for state in _STATES if state.phase == phase)


WAITING = _states_in("waits")
"""A job in one of these has not started, or waits to start again."""

HOLDING = _states_in("holds")
"""A job in one of these holds its nodes, and counts for limits on running jobs."""

LEAVING = _states_in("leaves")
"""A job in one of these no longer counts for any limit, but has not ended."""

ENDED = _states_in("ended")
"""The final states; COMPLETING is not one of them."""

ACTIVE = frozenset(STATES) - ENDED
"""A job in one of these has not ended."""

GOOD = frozenset(state.name for state in _STATES if state.exit_status == 0)
"""A job in one of these has ended as it should."""

UNKNOWN = "UNKNOWN"
"""Not one of Slurm's states: nobody knows what became of the job."""


def find_worst(states: Sequence[str]) -> int:
    """Return the index of the worst state of an array's tasks, which is the array's state.

    A task that failed is worse than one that has not ended, and a completed one is best.
    """

    def badness(index: int) -> int:
        if states[index] not in ENDED:
            return 1
        return 0 if states[index] == COMPLETED else 2

    return max(range(len(states)), key=badness)
