"""Which nodes a sandbox gets."""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Tuple

import pytest

from neuronctl.catalog.cluster import Cluster, Network, Partition, Policy
from neuronctl.common.errors import UsageError
from neuronctl.sandbox import layout


def cluster(*partitions: Partition, scratch: Optional[str] = None, **values: object) -> Cluster:
    made = Cluster(
        name="test",
        title="Test",
        source="by hand",
        date="2026-01-01",
        partitions={partition.name: partition for partition in partitions},
        scratch=scratch,
    )
    return dataclasses.replace(made, **values)


A100 = Partition(
    "amd_a100nv_8", nodes=9, node_list="gpu[35-43]", cores_per_node=(64,), gpus_per_node=8,
    gpu="a100",
)  # fmt: skip
V100 = Partition(
    "cas_v100nv_8", nodes=5, node_list="gpu[01-05]", cores_per_node=(32,), gpus_per_node=8,
    gpu="v100", memory_mb_per_node=384000,
)  # fmt: skip
CPU = Partition("cpu", nodes=7, node_list="cpu[01-07]", cores_per_node=(48,))
ODD = Partition("bigmem", nodes=3, node_list="bigmem[01-03]", cores_per_node=(48, 56, 24))


USUAL = (CPU, V100, A100)
ONE = dataclasses.replace(A100, nodes=1, node_list="gpu45")
FEW = dataclasses.replace(A100, nodes=14, node_list="gpu[30,32]")


@pytest.mark.parametrize(
    ("partitions", "wanted", "nodes"),
    [
        (USUAL, {}, "cas_v100nv_8 gpu01 gpu02, amd_a100nv_8 gpu35 gpu36"),
        (
            *(USUAL, {"cpu": 1, "amd_a100nv_8": 3, "cas_v100nv_8": 0}),
            "cpu cpu01, amd_a100nv_8 gpu35 gpu36 gpu37",
        ),
        ((CPU, ODD), {}, "cpu cpu01 cpu02"),  # another cluster's first
        ((CPU, ODD), {"bigmem": 1}, "bigmem bigmem01"),
        ((ONE,), {}, "amd_a100nv_8 gpu45"),
        ((FEW,), {"amd_a100nv_8": 3}, "amd_a100nv_8 gpu30 gpu32 amd-a100nv-8-01"),
    ],
)
def test_which_nodes(partitions: Tuple[Partition, ...], wanted: Dict[str, int], nodes: str) -> None:
    made = layout.build(cluster(*partitions), wanted)
    found = [" ".join((each.partition.name, *each.nodes)) for each in made.partitions]
    assert sorted(found) == sorted(nodes.split(", "))


def test_nodes_are_as_the_catalog_says() -> None:
    nodes = layout.build(cluster(V100, ODD), {"bigmem": 3}).nodes
    assert [node.cores for node in nodes] == [32, 32, 48, 56, 24]
    assert nodes[0].memory_mb == 384000
    assert nodes[2].memory_mb == 48 * 4000
    assert [(node.gpus, node.gpu) for node in nodes[1:3]] == [(8, "v100"), (0, None)]


def test_cores_of_all_nodes_stand_in_for_cores_of_one() -> None:
    some = dataclasses.replace(A100, nodes=14, node_list=None, cores_per_node=(), cores_total=868)
    assert {node.cores for node in layout.build(cluster(some), {}).nodes} == {62}
    none = dataclasses.replace(some, cores_total=None)
    assert {node.cores for node in layout.build(cluster(none), {}).nodes} == {64}


def test_partitions_may_share_nodes() -> None:
    both = dataclasses.replace(A100, name="other")
    made = layout.build(cluster(A100, both), {"other": 3})
    assert [node.name for node in made.nodes] == ["gpu35", "gpu36", "gpu37"]
    assert len({node.address for node in made.nodes}) == 3


def test_every_node_has_an_address_of_its_own() -> None:
    many = Partition("many", cores_per_node=(4,))
    nodes = layout.build(cluster(many), {"many": layout.MAX_NODES}).nodes
    addresses = {node.address for node in nodes}
    assert len(addresses) == layout.MAX_NODES
    assert not any(address.endswith((".0", ".255")) for address in addresses)
    assert layout.LOGIN_ADDRESS not in addresses


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ({"nope": 1}, "no partition 'nope'", "amd_a100nv_8"),
        ({"amd_a100nv_8": 0}, "a sandbox has 1 to 64", "--nodes"),
        ({"free": 65, "amd_a100nv_8": 0}, "requested 65 nodes", "--nodes"),
    ],
)
def test_nodes_that_cannot_be(wanted: Dict[str, int], message: str, hint: str) -> None:
    free = Partition("free", cores_per_node=(4,))
    with pytest.raises(UsageError) as caught:
        layout.build(cluster(A100, free), wanted)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("pattern", "allowed", "place"),
    [
        (None, ["/var/jobs", "/data"], "/data"),
        ("/scratch/{user}", ["/labs", "/scratch"], "/scratch/ada"),
        ("/scratch/{user}", ["/labs/{user}/jobs"], "/labs/ada/jobs"),
        (None, ["/"], "/scratch/ada"),
        (None, ["/home/{user}"], "/home/ada"),
    ],
)
def test_commands_start_where_jobs_may_be_submitted(
    pattern: Optional[str], allowed: List[str], place: str
) -> None:
    policy = Policy(submit_from=tuple(allowed))
    built = layout.build(cluster(A100, scratch=pattern, policy=policy), {})
    assert layout.scratch(built, "ada", made=True) == place
    # The real home directory of a real user is not touched.
    real = "/scratch/ada" if place.startswith("/home") else place
    assert layout.scratch(built, "ada", made=False) == real


def test_nodes_have_their_name_on_the_fast_network_too() -> None:
    booster = cluster(A100, network=Network("ib0", "i"))
    assert "10.77.1.1 gpu35 gpu35i\n" in layout.hosts_file(layout.build(booster, {}))
