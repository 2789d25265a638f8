"""What the end of a job says of its nodes: that one failed, or that it is well again."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Set, Tuple

from neuronctl.common.files import tail
from neuronctl.common.units import hosts
from neuronctl.records.job_record import JobRecord
from neuronctl.slurm.bad_nodes import OF_THE_NODE, NodeFault, any_known, forget, remember_fault
from neuronctl.slurm.job_states import COMPLETED, FAILED
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import runs_of

_TAIL = 64 * 1024
_OF_SLURM = {
    "NODE_FAIL": "Slurm lost contact with it",
    "BOOT_FAIL": "it did not boot",
    "LAUNCH_FAILED": "Slurm could not start the job there",
}
_DEFECT = re.compile(r"preflight: ([\w.-]+): (.{1,200})", re.ASCII)
_BROKEN = re.compile(OF_THE_NODE, re.ASCII)


def learn(record: JobRecord, status: JobStatus) -> None:
    """Remember the nodes that failed in a job that has ended, and forget what is well again."""
    nodes = hosts(status.node_list)
    runs = runs_of(record, status.id.task)
    for run in () if runs is None else runs.runs:
        why = _OF_SLURM["NODE_FAIL"] if run.cause == "lost" else "a run of a job failed there"
        for node in hosts(run.failed_nodes):
            at, job = run.begin + (run.seconds or 0), run.job_id or status.job_id
            remember_fault(NodeFault(node, job, at, why, record.cluster))
    if status.state == COMPLETED and any_known():
        forget(nodes, before=status.start)
    for node, why in _faults(status, nodes):
        at = status.end or record.begun_at
        remember_fault(NodeFault(node, status.job_id, at, why, record.cluster))


def _faults(status: JobStatus, nodes: List[str]) -> Iterator[Tuple[str, str]]:
    """Node, and what went wrong there.

    That a program failed at once says nothing of its node: most that do have a mistake in them.
    """
    if status.state not in (FAILED, *_OF_SLURM):
        return
    lines = [line for path in (status.stdout, status.stderr) if path for line in _tail(path)]
    if status.state in _OF_SLURM:
        named = {line.rpartition(" ")[2] for line in lines if _NODE_FAILURE in line}
        for node in named.intersection(nodes) or nodes[: len(nodes) == 1]:
            yield node, _OF_SLURM[status.state]
        return
    defects: Dict[str, Set[str]] = {}
    for line in lines:
        match = _DEFECT.fullmatch(line)
        if match and match[1] in nodes:
            defects.setdefault(match[2], set()).add(match[1])
    for what, where in defects.items():
        # What every node lacks is the job's fault; the first node cannot fail to reach itself.
        of_some = len(where) < len(nodes) - what.startswith("cannot reach ")
        if of_some or _BROKEN.match(f"preflight: {nodes[0]}: {what}"):
            yield from ((node, f"the preflight failed: {what}") for node in sorted(where))
    broken = next((match[0] for match in map(_BROKEN.search, lines) if match), "")
    if broken and not defects and len(nodes) == 1:
        yield nodes[0], f"a job failed there: {broken}"


_NODE_FAILURE = "srun: error: Node failure on "


def _tail(path: str) -> List[str]:
    return [line[:2000] for line in tail(path, _TAIL).decode("utf-8", "replace").split("\n")]
