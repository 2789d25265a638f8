"""Which nodes a constraint accepts, as Slurm 22.05 and 24.11 were seen to read it."""

from __future__ import annotations

from typing import Any, Dict

import pytest
from slurm_answers import judged, live, node

NODES = (
    node("n1", features=("fast", "big")),
    node("n2", features=("slow", "big")),
    node("n3", features=("slow",)),
    node("n4", features=("fast",)),
)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("fast", 2),
        ("fast&slow", 0),
        ("fast,slow", 0),
        ("fast,big", 1),
        ("fast|slow", 4),
        # One operator after the other, from the left.
        ("fast|slow&big", 2),
        ("slow&big|fast", 3),
        ("(fast&big)|slow", 3),
        ("(fast|slow)&big", 2),
        ("big&(fast|slow)", 2),
        ("slow&(fast|big)", 1),
        ("(fast&slow)|(fast&big)", 1),
        ("[fast|slow]", 2),
    ],
)
def test_as_many_nodes_as_have_the_features(text: str, most: int) -> None:
    look = live(nodes=NODES)
    if most:
        verdict = judged(look, gpus_per_node=1, nodes=most, constraint=text).verdict
        assert verdict.kind == "can start now"
    verdict = judged(look, gpus_per_node=1, nodes=most + 1, constraint=text).verdict
    assert verdict.kind == "refused"
    assert most == 4 or verdict.cause == "NC524"


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"constraint": "fast*1", "nodes": 3}, "can start now"),
        ({"constraint": "fast*2", "nodes": 2}, "can start now"),
        ({"constraint": "fast*2", "nodes": 1}, "refused"),
        ({"constraint": "fast*3", "nodes": 3}, "refused"),
        ({"constraint": "fast*2", "nodes": 2, "exclude": "n1"}, "refused"),
        ({"constraint": "fast", "nodelist": "n1"}, "can start now"),
        ({"constraint": "slow", "nodelist": "n1"}, "refused"),
        ({"constraint": "fast", "exclude": "n1,n4"}, "refused"),
        ({"constraint": "fast|new"}, "refused"),
        ({"constraint": "[new|fast]"}, "refused"),
        ({"constraint": "!fast"}, "refused"),
        # Of these Slurm makes what nobody would expect, and more nodes than were asked for.
        ({"constraint": "fast*1", "nodelist": "n2"}, "not known"),
        ({"constraint": "[fast*1&slow*1]", "nodes": 2}, "not known"),
        ({"constraint": "((fast))"}, "not known"),
        # What it waits for does not hide that Slurm may refuse it, or does.
        ({"constraint": "fast&slow", "sbatch": ("begin=now+1hour",)}, "refused"),
        ({"constraint": "((fast))", "sbatch": ("hold",)}, "not known"),
    ],
)
def test_what_slurm_makes_of_it(asked: Dict[str, Any], kind: str) -> None:
    assert judged(live(nodes=NODES), gpus_per_node=1, **asked).verdict.kind == kind


def test_nodes_with_the_features_that_are_drained_are_waited_for() -> None:
    drained = (node("n1", features=("fast",), state="IDLE+DRAIN"), *NODES[1:])
    verdict = judged(live(nodes=drained), gpus_per_node=1, nodes=2, constraint="fast").verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "ReqNodeNotAvail")
    either = {"gpus_per_node": 1, "nodes": 2, "constraint": "[fast|slow]"}
    assert judged(live(nodes=drained), **either).verdict.kind == "can start now"
    two = (drained[0], NODES[1], node("n3", features=("slow",), state="DOWN"), NODES[3])
    words = judged(live(nodes=two), **either).verdict.words
    assert "not all of what --constraint=[fast|slow] needs is available; n[1,3] are" in words
    full = (node("n1", 8, features=("fast",)), NODES[1], node("n3", 8, features=("slow",)))
    verdict = judged(live(nodes=(*full, NODES[3])), **either).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "Resources")
    assert "requested 2, too few for --constraint=[fast|slow]" in verdict.words


def test_nodes_that_are_too_small_are_never_enough() -> None:
    small = (node("n1"), node("n2"), *(node(name, gpus=4) for name in ("n3", "n4")))
    assert judged(live(nodes=small), gpus_per_node=8, nodes=2).verdict.kind == "can start now"
    verdict = judged(live(nodes=small), gpus_per_node=5, nodes=3).verdict
    assert (verdict.kind, verdict.cause) == ("refused", "NC524")
    assert "2 nodes of gpu are large enough for the job; requested 3" in verdict.words
    named = judged(live(nodes=small), gpus_per_node=5, nodelist="n4").verdict
    assert "n4 (--nodelist) is too small for the job" in named.words
