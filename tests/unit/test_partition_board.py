"""partitions --live: what is free, what is mine, and what one more job would wait for."""

from __future__ import annotations

from plan_builders import cluster
from slurm_answers import BUSY, LIMITS, NODES, NOW, job, live, node

from neuronctl.catalog.cluster import Catalog
from neuronctl.judgement.partition_board import PartitionNow, partitions_now
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.slurm.job_id import JobId


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
    assert one.explained_wait(NOW) == f"{one.wait(NOW)}: {one.next.words}" != f"{one.wait(NOW)}: "
    assert (board(live()).wait(NOW), board(live()).explained_wait(NOW)) == ("now", "")
    full = tuple(node(f"n{number}", 8) for number in range(1, 5))
    assert board(live(nodes=full)).wait(NOW) == "Resources"


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
