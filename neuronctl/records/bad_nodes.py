"""The nodes that failed in the user's own jobs, for some days: one small file."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Dict, List, Optional

from neuronctl.common.datatypes import asdict, dataclass
from neuronctl.common.errors import NeuronctlError
from neuronctl.common.files import read_private, write_private
from neuronctl.common.paths import state_dir
from neuronctl.common.restoring import NOT_RESTORED, restore

DAYS = 3
"""For how long a failure is remembered."""

_MOST = 500
"""The most failures that the file keeps."""


@dataclass(frozen=True)
class NodeFault:
    """A node's failure. at: epoch seconds. cluster: Slurm's, None if unknown."""

    node: str
    job: int
    at: int
    why: str
    cluster: Optional[str] = None


def bad_nodes(cluster: Optional[str], now: Optional[float] = None) -> Dict[str, NodeFault]:
    """Return the last fault of each node of a cluster, by the node's name. Never raises."""
    oldest = (time.time() if now is None else now) - DAYS * 86400
    last_faults = {}
    for fault in sorted(_read_faults(), key=lambda fault: fault.at):
        may_be_here = None in (cluster, fault.cluster) or cluster == fault.cluster
        if may_be_here and fault.at >= oldest:
            last_faults[fault.node] = fault
    return dict(sorted(last_faults.items()))


def remember_fault(fault: NodeFault) -> None:
    """Keep a fault; a failure to write loses only the fault."""
    faults = _read_faults()
    if fault not in faults:
        rows = [asdict(kept) for kept in [*faults, fault][-_MOST:]]
        with contextlib.suppress(NeuronctlError, OSError):
            write_private(_file(), json.dumps(rows))


def _file() -> str:
    return os.path.join(state_dir(), "bad-nodes.json")


def _read_faults() -> List[NodeFault]:
    try:
        return [restore(NodeFault, row) for row in json.loads(read_private(_file()))]
    except (NeuronctlError, OSError, RecursionError, *NOT_RESTORED):
        return []
