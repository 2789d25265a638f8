"""neuronctl's verdict against what Slurm then really does, over random requests.

The requests go over all partitions of the cluster, legal and illegal, onto queues in many states.
``never starts`` is a job that neuronctl refuses and Slurm takes, to let it wait for ever.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
from harness import Sandbox, sandbox_up

COUNT = 510
SEED = 20261121
NODES = {
    "amd_a100nv_8": 2,
    "cas_v100nv_8": 5,  # 40 GPUs, of which a user may hold 32
    "cas_v100nv_4": 4,
    "cas_v100_4": 2,
    "cas_v100_2": 2,
    "amd_a100_4": 1,
    "eme_h200nv_8": 1,
    "gh200_1": 1,
    "amd_h200nv_8": 1,
    "amd_h100_2": 3,
    "cpu": 3,
    "bigmem": 4,
}
BUSY = {"Resources", "Priority"}
"""Slurm's two words for a partition without room: for the first in the queue, and behind it."""


@pytest.fixture(scope="module")
def whole_cluster(slurm_there: None) -> Iterator[Sandbox]:
    options = [word for name, count in NODES.items() for word in ("--nodes", f"{name}={count}")]
    with sandbox_up("agreement", *options) as made:
        yield made


def agree(row: Dict[str, Any]) -> bool:
    said, happened = row["said"], row["happened"]
    if said[0] == "refused":
        return bool(happened[0] == "refused")
    if said[0] == "can start now":
        return bool(happened[0] == "starts")
    if said[0] == "not known":  # one of the user's own is ahead: room is there, the turn is not
        return happened[0] == "starts" or happened[1] in BUSY
    causes = {said[1], happened[1]}
    return happened[0] == "waits" and (len(causes) == 1 or causes <= BUSY)


def short(words: List[str]) -> str:
    return words[0] if words[0] in ("refused", "starts") or not words[1] else ": ".join(words)


def table(rows: List[Dict[str, Any]]) -> str:
    """The confusion table: what was said down, what happened across."""
    cells = Counter((short(row["said"]), short(row["happened"])) for row in rows)
    across = sorted({happened for _, happened in cells})
    down = sorted({said for said, _ in cells})
    wide = max(map(len, down))
    lines = [f"Slurm did ({letter}) {outcome}" for letter, outcome in zip("abcdefghij", across)]
    letters = "".join(f"{f'({letter})':>6}" for letter, _ in zip("abcdefghij", across))
    lines.append(f"{'neuronctl said':{wide}}{letters}")
    for said in down:
        counts = "".join(f"{cells[said, outcome] or '.':>6}" for outcome in across)
        lines.append(f"{said:{wide}}{counts}")
    return "\n".join(lines)


@pytest.mark.long
def test_verdicts_agree_with_slurm(
    whole_cluster: Sandbox, record_property: Callable[[str, object], None]
) -> None:
    script = Path(__file__).with_name("agreement.py")
    python = shutil.which("python", path=str(Path(sys.executable).parent)) or sys.executable
    ran = whole_cluster.exec(
        [python, script.name, str(SEED), str(COUNT)], copy=[str(script)], timeout=3000
    )
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    apart = [row for row in rows if not agree(row)]
    again = ran.stderr.count("asked again: ")
    dropped = f", {again} asked again" if again else ""
    counts = f"{len(rows)} requests, {len(apart)} disagreements{dropped}"
    record_property("agreement", f"{counts}\n{table(rows)}")
    assert again <= 1, ran.stderr
    assert len(rows) == COUNT
    assert apart == []
    # Nothing is proved by requests that are all of one kind.
    kinds = Counter(row["said"][0] for row in rows)
    assert min(kinds[kind] for kind in ("refused", "will wait", "can start now")) >= 40, kinds
