"""-p auto and partitions --live: which partitions can hold a job, in which order, and when."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List

import pytest
from plan_builders import CPU, GPU, V100, cluster, request
from slurm_answers import BUSY, FULL, LIMITS, NODES, NOW, OTHER, PARTITION, job, live, node

from neuronctl.catalog.cluster import Catalog
from neuronctl.common.errors import PolicyError
from neuronctl.judgement.partitions import (
    Candidate,
    Choice,
    PartitionNow,
    choose,
    judge_candidates,
    partitions_now,
)
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.planning import plan
from neuronctl.rules import LocalFacts
from neuronctl.slurm.job_id import JobId
from neuronctl.submission.planned_job import PlannedJob

HERE = LocalFacts(user="kim", directory="/scratch/kim")
OLD = dataclasses.replace(PARTITION, name="old", qos="", node_list="o[1-2]", nodes=2)
OLD_NODES = tuple(node(f"o{n}", gpus=8, gpu="v100", partitions=("old",)) for n in (1, 2))
THREE = dataclasses.replace(LIMITS, partitions=(PARTITION, OLD, OTHER), nodes=(*NODES, *OLD_NODES))


def judged(snapshot: Any, **fields: Any) -> Dict[str, Candidate]:
    where = cluster()
    catalog = Catalog({"toy": where}, "toy", ())
    made = plan(request(partition="auto", **fields), where)
    return {one.name: one for one in judge_candidates(made, catalog, HERE, snapshot)}


def names(found: Dict[str, Candidate]) -> List[str]:
    return [one.name for one in found.values() if one.fits]


def test_the_one_with_room_is_taken() -> None:
    busy = live(limits=THREE, nodes=(*FULL, *OLD_NODES))
    found = judged(busy, gpus_per_node=4)
    assert names(found)[:2] == ["old", "gpu"]
    assert found["gpu"].verdict.kind == "will wait"
    assert names(judged(live(limits=THREE), gpus_per_node=4))[0] == "gpu"  # four nodes, not two


def test_of_those_that_wait_the_one_whose_wait_ends_first_is_taken() -> None:
    # All 16 GPUs that I may have in gpu are mine for an hour; old is full of others' jobs.
    held = dataclasses.replace(job(1, 16), end=NOW + 3600)
    full = tuple(node(f"o{n}", 8, partitions=("old",)) for n in (1, 2))
    busy = live((held,), limits=THREE, nodes=(*NODES, *full))
    assert names(judged(busy, gpus_per_node=4)) == ["gpu", "old"]
    # Where some wait before it, nobody knows when the limit lets it start.
    first = job(2, 4, "PENDING", reason="QOSMaxGRESPerUser")
    found = judged(dataclasses.replace(busy, jobs=(held, first)), gpus_per_node=4)
    assert found["gpu"].verdict.until is None


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


@pytest.mark.parametrize("fields", [{"gpus_per_node": 99}, {"gpus": 9, "gpu_type": "t4"}])
def test_no_partition_at_all(fields: Dict[str, Any]) -> None:
    where = cluster(partitions={one.name: one for one in (GPU, V100, CPU)})
    made = plan(request(partition="auto", **fields), where)
    with pytest.raises(PolicyError, match="no partition of toy can hold the job") as caught:
        choose(made, Catalog({"toy": where}, "toy", ()), ask=False)
    assert "gpu: NC121: " in caught.value.message
    assert caught.value.hint == "request less, or name a partition with -p"


def test_the_verdict_reads_what_slurm_said_for_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*args: Any, **more: Any) -> Snapshot:
        raise AssertionError("Slurm is asked again")

    monkeypatch.setattr("neuronctl.judgement.ask.Question", ask)
    where, said = cluster(), live(limits=THREE)
    made = judged(said, gpus_per_node=4)["gpu"].plan
    catalog = Catalog({"toy": where}, "toy", ())
    job = PlannedJob(made, catalog, Choice(made, (), said), snapshot=said).judge()
    assert job.verdict is not None
    assert job.verdict.judged_by == "Slurm"


def test_a_partition_is_worked_out_once_for_all_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 partitions took 19 s."""
    from neuronctl.judgement import slurm_figures

    real, worked_out = slurm_figures._read_partition_figures, []

    def partition(site: Any, *rest: Any) -> Any:
        worked_out.append(site.name)
        return real(site, *rest)

    monkeypatch.setattr(slurm_figures, "_read_partition_figures", partition)
    judged(live(limits=THREE), gpus_per_node=4)
    assert len(worked_out) == len(set(worked_out)) >= 2


@pytest.mark.parametrize("name", ["shard", "mps"])
def test_parts_of_gpus_are_where_nodes_have_them(name: str) -> None:
    shards = tuple(dataclasses.replace(one, resources=((name, 32, 0),)) for one in NODES)
    limits = dataclasses.replace(THREE, nodes=(*shards, *OLD_NODES))
    found = judged(live(limits=limits), gres=(f"{name}:2",))
    assert names(found)[0] == "gpu" and "old" not in names(found)
    assert "no node of old has" in found["old"].exclusion


def board(look: Snapshot, *names: str) -> PartitionNow:
    where = cluster()
    (one,) = partitions_now(names or ("gpu",), where, Catalog({"toy": where}, "toy", ()), look)
    return one


def test_free_used_and_down() -> None:
    nodes = (node("n1", 8), node("n2", 3), node("n3", 2, state="MIXED+DRAIN"), NODES[3])
    one = board(live(nodes=nodes))
    assert (one.unit, one.free, one.used, one.down) == ("GPU", 13, 13, 6)
    assert one.wait(NOW) == "now"


def test_my_use_against_my_limits() -> None:
    array = job(9, 1, "PENDING", id=JobId(9, tasks="1-2"))
    one = board(live((job(5, 8), job(7, 4), array)))
    assert [str(share) for share in (one.my_gpus, one.my_running, one.my_jobs)] == [
        "12/16",
        "2/3",
        "4/4",
    ]
    assert one.wait(NOW) == "refused: NC501"


def test_the_wait_has_its_reason_and_end() -> None:
    one = board(live(BUSY))
    assert one.wait(NOW) == "QOSMaxJobsPerUserLimit, at most 00:00:01"
    assert board(live()).wait(NOW) == "now"
    assert board(live(nodes=FULL)).wait(NOW) == "Resources"


def test_a_partition_without_gpus_counts_cores() -> None:
    cores = (node("c1", gpus=0, gpu="", partitions=("cpu",), cores=48, cores_used=8),)
    one = board(live(nodes=cores), "cpu")
    assert (one.unit, one.free, one.used, str(one.my_gpus)) == ("core", 40, 8, "0")


def test_every_partition_of_slurms_is_shown() -> None:
    where = cluster()
    found = partitions_now((), where, Catalog({"toy": where}, "toy", ()), live())
    assert [one.partition for one in found] == [one.name for one in LIMITS.partitions]


def test_reserved_nodes_are_not_free() -> None:
    nodes = (node("n1", 3, state="MIXED+RESERVED"), node("n2", state="IDLE+MAINT"), *NODES[2:])
    one = board(live(nodes=nodes))
    assert (one.free, one.used, one.down) == (16, 3, 13)
