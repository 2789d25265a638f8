"""neuronctl's verdicts against what Slurm then really does, in random states of a cluster.

``--agreement-seed`` and ``--agreement-states`` take others and more (``make test-agreement``);
``--agreement-state`` repeats one of them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Callable, Iterator

import pytest
from comparison import WORST_FIRST, Comparison, came_true, told
from harness import Sandbox, sandbox_up
from states import NODES

from neuronctl.common.words import counted

SEED = 20261122
STATES = 6
REQUESTS = 10
"""In each state."""


@pytest.fixture
def wide(slurm_there: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    monkeypatch.setenv("NEURONCTL_CATALOG", str(Path(__file__).with_name("wide.yaml")))
    options = [word for name, count in NODES.items() for word in ("--nodes", f"{name}={count}")]
    with sandbox_up("wide", *options) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("odd", [False, True], ids=["usual", "odd"])
def test_in_random_states_slurm_does_what_was_said(
    wide: Sandbox,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
    odd: bool,
) -> None:
    """odd: on nodes with threads, two GPU types, shards, and memory that jobs may not have."""
    seed = pytestconfig.getoption("--agreement-seed") or SEED
    states = pytestconfig.getoption("--agreement-states") or STATES
    states = -(-states // 5) if odd else states
    only = pytestconfig.getoption("--agreement-state")
    numbers = range(states) if only is None else [only]
    print(f"--agreement-seed {seed} --agreement-states {states}")
    comparison = Comparison(wide, odd=odd)
    rows = []
    for row in comparison.run(seed, numbers, REQUESTS):
        rows.append(row)
        if row["wrong"]:  # hours may pass before the end: pytest -s shows it now
            print(told(row), flush=True)
    wrong = [row for row in rows if row["wrong"]]
    wrong.sort(key=lambda row: WORST_FIRST.index(row["wrong"]))
    kinds = Counter(row["said"][0].replace("probably ", "") for row in rows)
    likely = [row for row in rows if "probably" in row["said"][0] and row["happened"] is not None]
    true = [row for row in likely if came_true(row)]
    for row in rows:
        if row in likely and row not in true:
            print(f"probably, and not so: {told(row)}")
        if row["said"][0] == "not known":
            happened = row["happened"] or ["nothing", ""]
            place, request, words = row["number"], row["request"], row["said"][2]
            print(f"{happened[0]}: not known, state {place}: {request}: {words}")
    record_property(
        "agreement",
        f"seed {seed}: {counted(len(rows), 'request')} in {counted(len(numbers), 'state')}, "
        f"{counted(len(wrong), 'disagreement')}, "
        f"{kinds['not known']} not known, {len(true)} of {len(likely)} probable verdicts true",
    )
    assert not wrong, "\n".join(map(told, wrong))
    assert kinds["not known"] <= len(rows) * 0.07 + 3, kinds
    assert len(true) >= len(likely) * 0.8 - 2, f"{len(true)} of {len(likely)}"
    assert len(comparison.unsettled) <= len(numbers) / 20, comparison.unsettled
    # Nothing is proved by requests that are all of one kind.
    if only is None:
        least = min(kinds[kind] for kind in ("refused", "will wait", "can start now"))
        assert least >= len(rows) / 20, kinds
