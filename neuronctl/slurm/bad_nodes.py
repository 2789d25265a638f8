"""The nodes that failed in the user's own jobs, for some days: a small file for each failure.

What becomes of jobs is learned where neuronctl sees it (tracking/node_faults.py). Files of their
own need no lock, whichever login nodes write them at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Collection, Dict, Iterator, Optional, Tuple

from neuronctl.common.errors import NeuronctlError
from neuronctl.common.files import read_private, write_private
from neuronctl.common.from_json import NOT_RESTORED, restored
from neuronctl.common.frozen import asdict, dataclass
from neuronctl.common.paths import state_dir

DAYS = 3
"""For how long a failure is remembered."""

LOST_GPU = (
    r"uncorrectable (NVLink|ECC) error|GPU is lost|(GPU|GPU has) fallen off the bus"
    r"|(CUDA|HIP) error: .*(no longer (accessible|available)|hardware (stack )?error)"
    r"|CUDA-capable device\(s\) is/are busy or unavailable|GPU requires reset"
    r"|Xid \([^)]*\): (48|62|63|64|74|79|92|94|95|119|120|140|143|149|154)($|[^0-9])"
    r"|Unable to determine the device handle|CUDA driver initialization failed"
)
"""What a line of a log says of a GPU that failed under its program, as Python and grep -E read it.

Of NVIDIA's Xid numbers, those that are of the hardware or its driver, and not of a program.
"""

OF_THE_NODE = (
    r"preflight: [^ ]+: ((nvidia|rocm)-smi finds no GPU|[0-9]+ GPUs requested, [0-9]+ available"
    r"|port [0-9]+ cannot be used)"
    rf"|{LOST_GPU}|no CUDA-capable device"
    r"|hipErrorNoDevice|Stale file handle|Transport endpoint is not connected"
)
"""What a line of a log says that is a failure of its node, as Python and grep -E read it."""

_NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,80})@([0-9]{1,10})\.json", re.ASCII)


@dataclass(frozen=True)
class NodeFault:
    """What went wrong on a node. at: epoch seconds. cluster: Slurm's, None if it is not known."""

    node: str
    job: int
    at: int
    why: str
    cluster: Optional[str] = None


def bad_nodes(cluster: Optional[str], now: Optional[float] = None) -> Dict[str, NodeFault]:
    """The last fault of each node of a cluster, by the node's name. Never raises."""
    last: Dict[str, NodeFault] = {}
    for fault in sorted(_faults(time.time() if now is None else now), key=lambda one: one.at):
        if None in (cluster, fault.cluster) or cluster == fault.cluster:
            last[fault.node] = fault
    return dict(sorted(last.items()))


def remember_fault(fault: NodeFault) -> None:
    """Keep it; a failure costs nothing."""
    name = f"{fault.node}@{fault.job}.json"
    if _NAME.fullmatch(name):
        with contextlib.suppress(NeuronctlError, OSError):
            write_private(os.path.join(_directory(), name), json.dumps(asdict(fault)))


def forget(nodes: Collection[str], before: Optional[float] = None) -> Tuple[str, ...]:
    """Forget what is known of these nodes, and was so at a time; the nodes of which any was."""
    forgotten = []
    for fault in _faults(0):
        if fault.node in nodes and (before is None or fault.at <= before):
            _remove(f"{fault.node}@{fault.job}.json")
            forgotten.append(fault.node)
    return tuple(dict.fromkeys(forgotten))


def any_known() -> bool:
    """Whether there is anything to forget, which costs next to nothing to ask."""
    with contextlib.suppress(NeuronctlError, OSError):
        return bool(os.listdir(_directory()))
    return False


def _directory() -> str:
    return os.path.join(state_dir(), "bad-nodes")


def _faults(now: float) -> Iterator[NodeFault]:
    """What is known and not too old; what is, goes."""
    try:
        names = sorted(os.listdir(_directory()))
    except (NeuronctlError, OSError):
        return
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        with contextlib.suppress(OSError, RecursionError, *NOT_RESTORED):
            kept = json.loads(read_private(os.path.join(_directory(), name)))
            fault = restored(NodeFault, kept)
            if (fault.node, str(fault.job)) != match.groups():
                continue
            if now - fault.at > DAYS * 86400:
                _remove(name)
            else:
                yield fault


def _remove(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(_directory(), name))
