"""-p auto: which partitions can hold a job, and in which order."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import pytest
from plan_builders import CPU, GPU, V100, cluster, request
from slurm_answers import FULL, LIMITS, NODES, NOW, OTHER, PARTITION, job, live, node

from neuronctl.catalog.model import Catalog
from neuronctl.common.errors import PolicyError
from neuronctl.judgement.partition_choice import Candidate, candidates, choose, rank
from neuronctl.planning import JobPlan, plan
from neuronctl.rules import LocalFacts
from neuronctl.slurm.sbatch import parse_predicted

HERE = LocalFacts(user="kim", directory="/scratch/kim")
OLD = dataclasses.replace(PARTITION, name="old", qos="", node_list="o[1-2]", nodes=2)
OLD_NODES = tuple(node(f"o{n}", gpus=8, gpu="v100", partitions=("old",)) for n in (1, 2))
THREE = dataclasses.replace(LIMITS, partitions=(PARTITION, OLD, OTHER), nodes=(*NODES, *OLD_NODES))


def judged(snapshot: Any, **fields: Any) -> Dict[str, Candidate]:
    where = cluster()
    catalog = Catalog({"toy": where}, "toy", ())
    made = plan(request(partition="auto", **fields), where)
    return {one.name: one for one in candidates(made, catalog, HERE, snapshot)}


def names(found: Dict[str, Candidate], predict: Any = None) -> List[str]:
    return [one.name for one in rank(list(found.values()), predict) if one.fits]


def test_the_one_with_room_is_taken() -> None:
    busy = live(limits=THREE, nodes=(*FULL, *OLD_NODES))
    found = judged(busy, gpus_per_node=4)
    assert names(found)[:2] == ["old", "gpu"]
    assert found["gpu"].verdict.kind == "will wait"
    assert names(judged(live(limits=THREE), gpus_per_node=4))[0] == "gpu"  # four nodes, not two


def test_slurms_prediction_orders_those_that_wait() -> None:
    busy = live(limits=THREE, nodes=FULL + tuple(node(f"o{n}", 8) for n in (1, 2)))
    found = judged(busy, gpus_per_node=4)

    def predict(made: JobPlan) -> Tuple[Optional[int], str]:
        return {"gpu": 9000, "old": 600}.get(made.partition.name), ""

    assert names(found, predict)[0] == "old"


def test_what_slurm_refuses_is_left_out_in_its_own_words() -> None:
    found = judged(live(limits=THREE), gpus_per_node=4)

    def predict(made: JobPlan) -> Tuple[Optional[int], str]:
        return None, "Invalid qos" if made.partition.name == "gpu" else ""

    assert names(found, predict) == ["old"]
    (left,) = (one for one in rank(list(found.values()), predict) if one.name == "gpu")
    assert left.exclusion == "Slurm refuses it: Invalid qos"


def test_a_limit_that_slurms_prediction_leaves_out_decides() -> None:
    # All 16 GPUs of gpu are mine for an hour; old is full of others' jobs for a minute.
    held = dataclasses.replace(job(1, 16), end=NOW + 3600)
    full = tuple(node(f"o{n}", 8, partitions=("old",)) for n in (1, 2))
    busy = live((held,), limits=THREE, nodes=(*NODES, *full))
    found = list(judged(busy, gpus_per_node=4).values())

    def predict(made: JobPlan) -> Tuple[Optional[int], str]:
        return {"gpu": NOW, "old": NOW + 60}.get(made.partition.name), ""

    best, second = rank(found, predict)[:2]
    assert (best.name, best.start, second.name) == ("old", NOW + 60, "gpu")
    # A prediction that the limit does not allow is none; a later one stands.
    assert (second.start, second.begins) == (None, NOW + 3600)
    late = {one.name: one.start for one in rank(found, lambda made: (NOW + 7200, ""))}
    assert late["gpu"] == NOW + 7200
    # Where some wait before it, nobody knows when the limit lets it start.
    first = job(2, 4, "PENDING", reason="QOSMaxGRESPerUser")
    found = list(judged(dataclasses.replace(busy, jobs=(held, first)), gpus_per_node=4).values())
    (behind,) = (one for one in rank(found, predict) if one.name == "gpu")
    assert (behind.start, behind.begins) == (None, float("inf"))


def test_each_that_is_left_out_has_its_reason() -> None:
    found = judged(live(limits=THREE), gpus_per_node=1, gpu_type="v100")
    assert names(found) == ["old"]
    assert "NC123" in found["gpu"].exclusion
    assert "NC121" in found["cpu"].exclusion
    without = judged(live(limits=THREE))
    assert without["gpu"].exclusion == "its GPUs would stay idle"


def test_what_is_wrong_anywhere_leaves_none_out() -> None:
    found = judged(live(limits=THREE), gpus_per_node=1, account="nobody")
    assert "gpu" in names(found)


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"gpus_per_node": 99}, "with -p old: request at most --gpus-per-node 4"),
        (
            {"gpus": 9, "gpu_type": "a100"},
            "with -p gpu: request at most --gpus-per-node 8",
        ),
        ({"gpus": 9, "gpu_type": "t4"}, "request less, or name a partition with -p"),
    ],
)
def test_no_partition_at_all(fields: Dict[str, Any], hint: str) -> None:
    where = cluster(partitions={one.name: one for one in (GPU, V100, CPU)})
    made = plan(request(partition="auto", **fields), where)
    with pytest.raises(PolicyError, match="no partition of toy can hold the job") as caught:
        choose(made, Catalog({"toy": where}, "toy", ()), ask=False)
    assert "gpu: NC121: " in caught.value.message
    assert caught.value.hint.startswith(hint)


def test_prediction_is_read() -> None:
    words = "sbatch: Job 7 to start at 2026-08-12T09:30:00 using 8 processors on nodes gpu35\n"
    assert parse_predicted(words) == 1786527000
    assert parse_predicted("sbatch: nothing of the kind") is None
