"""Find out from the end of a job whether one of its nodes failed."""

from __future__ import annotations

import re
from typing import Iterator, List, Tuple

from neuronctl.common.files import tail
from neuronctl.common.units import hosts
from neuronctl.records.bad_nodes import NodeFault, remember_fault
from neuronctl.records.job_record import JobRecord
from neuronctl.slurm.job_states import FAILED, STATES
from neuronctl.tracking.job_status import JobStatus

LOST_GPU = (
    r"uncorrectable (NVLink|ECC) error|GPU is lost|(GPU|GPU has) fallen off the bus"
    r"|(CUDA|HIP) error: .*(no longer (accessible|available)|hardware (stack )?error)"
    r"|CUDA-capable device\(s\) is/are busy or unavailable|GPU requires reset"
    r"|Xid \([^)]*\): (48|62|63|64|74|79|92|94|95|119|120|140|143|149|154)($|[^0-9])"
    r"|Unable to determine the device handle|CUDA driver initialization failed"
)
"""What a line of a log says if a GPU failed under its program.

The Xid numbers are those of NVIDIA's that blame the hardware or its driver, not a program.
"""

_NODE_PROBLEMS = (
    r"(?a)preflight: [^ ]+: ((nvidia|rocm)-smi finds no GPU|[0-9]+ GPUs requested, [0-9]+ available"
    r"|port [0-9]+ cannot be used)"
    rf"|{LOST_GPU}|no CUDA-capable device"
    r"|hipErrorNoDevice|Stale file handle|Transport endpoint is not connected"
)
"""What a line of a log says if the node failed."""

_TAIL = 64 * 1024
_NODE_STATES = ("NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED")
_DEFECT = r"(?a)preflight: (?P<node>[\w.-]+): (?P<defect>.{1,200})"
_NODE_FAILURE = "srun: error: Node failure on "


def remember_failed_nodes(record: JobRecord, status: JobStatus) -> None:
    """Remember the nodes that failed in a job that has ended."""
    for node, why in _faults(status, hosts(status.node_list)):
        at = status.end or record.begun_at
        remember_fault(NodeFault(node, status.job_id, at, why, record.cluster))


def _faults(status: JobStatus, nodes: List[str]) -> Iterator[Tuple[str, str]]:
    """Yield each node that failed, and what went wrong there.

    A program that fails at once is no sign of a bad node: most such programs have a bug.
    """
    if status.state not in (FAILED, *_NODE_STATES):
        return
    ends = [tail(path, _TAIL) for path in (status.stdout, status.stderr) if path]
    text = b"\n".join(ends).decode("utf-8", "replace")
    lines = [line[:2000] for line in text.split("\n")]
    if status.state in _NODE_STATES:
        named = {line.rpartition(" ")[2] for line in lines if _NODE_FAILURE in line}
        only_node = nodes if len(nodes) == 1 else []
        for node in named.intersection(nodes) or only_node:
            yield node, STATES[status.state].ending
    elif len(nodes) == 1:
        matches = (re.search(_NODE_PROBLEMS, line) for line in lines)
        problem = next((match[0] for match in matches if match is not None), "")
        if problem:
            yield nodes[0], f"a job failed there: {problem}"
    else:
        yield from _failed_preflights(lines, nodes)


def _failed_preflights(lines: List[str], nodes: List[str]) -> Iterator[Tuple[str, str]]:
    """Yield the nodes whose preflight failed, unless it failed on all: the job is at fault then."""
    matches = (re.fullmatch(_DEFECT, line) for line in lines)
    defects = {match["node"]: match["defect"] for match in matches if match is not None}
    failed = sorted(defects.keys() & {*nodes})
    checked = len(nodes)
    if any(defect.startswith("cannot reach ") for defect in defects.values()):
        checked -= 1  # the first node, which always reaches itself
    if len(failed) < checked:
        for node in failed:
            yield node, f"the preflight failed: {defects[node]}"
