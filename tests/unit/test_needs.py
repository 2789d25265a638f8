"""What a script's numbers need of nodes of two sizes and two GPU types.

Slurm 22.05.8 and 24.11.5 gave the same answers to these options on the same idle nodes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, List, Tuple

import pytest
from slurm_answers import CONFIG, LIMITS, NORMAL, PARTITION, QOS, fields_of, live

from neuronctl.catalog.cluster import Catalog, Cluster, Partition
from neuronctl.judgement.judgement import Judgement, judge
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.planning import plan
from neuronctl.rules import RuleContext
from neuronctl.scripts.header_reader import read_header
from neuronctl.scripts.script_request import request_from_header
from neuronctl.slurm.limits import Scope, read_limits
from neuronctl.slurm.scontrol import NodeGroup, parse_nodes, parse_partitions

RUNS, WAITS = "can start now", "will wait"


def nodes(*names: str, cores: int, gpu: str, gpus: int, **fields: Any) -> NodeGroup:
    group = NodeGroup(
        names, "IDLE", ("mix",), cores, 0, 4000 * cores, 0, gpus, 0, gpu, "x86_64", ()
    )
    return dataclasses.replace(group, **fields)


LARGE = nodes("m1", "m2", cores=8, gpu="v100", gpus=4)
SMALL = nodes("m3", "m4", cores=4, gpu="a100", gpus=2)
OF_CATALOG = Partition("mix")
MIX = dataclasses.replace(
    PARTITION, name="mix", qos="", node_list="m[1-4]", memory_mb_per_cpu=4000, max_time=None
)


def said(options: str, version: str = "22.05.8", *more: Any, **partition: Any) -> str:
    """The kind of verdict on a script with these options."""
    return judged(options, version, *more, **partition).verdict.kind


def judged(
    options: str,
    version: str = "22.05.8",
    groups: Tuple[NodeGroup, ...] = (LARGE, SMALL),
    jobs: Tuple[Any, ...] = (),
    queue: Any = None,
    qos: str = "",
    catalog: Partition = OF_CATALOG,
    **partition: Any,
) -> Judgement:
    """What is said of a script with these options; qos: a limit of the job's, ``MaxTRES cpu=8``."""
    cluster = Cluster(
        "toy", "Toy", "tests", "2026-11-20", default_partition="mix", partitions={"mix": catalog}
    )
    header = read_header("#!/bin/bash\n", command_line=["-p", "mix", *options.split()])
    made = plan(request_from_header(header, "job.sh", cluster), cluster)
    own = read_limits(fields_of([qos] if qos else []), Scope.QOS, "normal")
    limits = dataclasses.replace(
        LIMITS,
        qos=(dataclasses.replace(NORMAL, limits=own), QOS),
        config=dataclasses.replace(CONFIG, version=version),
        partitions=(dataclasses.replace(MIX, **partition),),
        nodes=groups,
    )
    snapshot: Snapshot = live(jobs, limits, user="kim", reservations=(), queue=queue)
    context = RuleContext(made, Catalog({"toy": cluster}, "toy", ()), batch_script=True)
    return judge(context, snapshot)


FIT = """
-n 24|-N1-4 -n 24|-N3 -n20|-n6 -c3|-G 12|-G v100:8|--mem-per-cpu=8000 -n 12|-n 13|-n 20 -G 8
-N2 -n16|-N4 -n10|-n2 --ntasks-per-node=1|-n 10 --ntasks-per-node=4
-G 4|-G 5 -N2
--profile=task -n 4|--acctg-freq=30 -n 4|--wckey=thesis -n 4|--delay-boot=5 -n 4
--gres=gpu:v100:1,gpu:v100:1|--gres=gpu:4 -N2|--gres=gpu:a100:2 -N2
--cpus-per-gpu=2 --gpus-per-node=4|--mem=32000 -N2|--mem=0 -N4|--mem-per-cpu=8000 -c4
"""
TOO_LARGE = """
-n 25|-N1 -n9|-N3 -n21|-N5 -n50|-N3 -n 5 --ntasks-per-node=8|-N1-3 -n 21|-n7 -c4
-n 12 --ntasks-per-node=6 -c 3|-N3 --ntasks-per-node=4 -c2|-G 13|-G v100:9|-G a100:5|-G 9 -N2
--gres=gpu:v100:1,gpu:a100:1|--gres=gpu:v100:1,gpu:v100:5|--gres=gpu:4 -N3|--gres=gpu:v100:4 -N3
--gres=gpu:a100:3|--gres=gpu:V100:1|--gpus-per-task=1 -n13|--cpus-per-gpu=3 --gpus-per-node=4
--mem=32000 -N3|--mem-per-cpu=8000 -c5|--mem-per-cpu=8000 -n 13|--mem-per-cpu=32000 -N3
-w m3 -N1 -n 8|-w m3 --gres=gpu:v100:1|--mem-per-gpu=9000 --gpus-per-node=4
"""
UNKNOWN = """
--ntasks-per-gpu=2 --gpus-per-node=4|-n5 -G4 --cpus-per-gpu=1|--mincpus=6 -N3|-N1 -O -n 40
-w m3 -n 9
-N2 -n 3 --ntasks-per-node=2|--gpus-per-task=1 -n4|-G4 --mem-per-gpu=9000|-w m3 -n 12
"""


def options(text: str) -> List[str]:
    return [line for row in text.strip().split("\n") for line in row.split("|") if line]


@pytest.mark.parametrize("asked", options(FIT))
def test_what_fits_on_idle_nodes_starts(asked: str) -> None:
    assert said(asked) == RUNS


@pytest.mark.parametrize("asked", options(TOO_LARGE))
def test_what_no_nodes_hold_never_starts(asked: str) -> None:
    """A rule refuses it, or sbatch does."""
    assert said(asked) in ("refused", "not known")


@pytest.mark.parametrize("asked", options(UNKNOWN))
def test_what_slurm_spreads_in_its_own_way_is_not_known(asked: str) -> None:
    assert said(asked) == "not known"


@pytest.mark.parametrize(
    ("options", "busy", "kind"),
    [
        # The one node of that type that is free has too few of them, the other type's are free.
        ("--gres=gpu:v100:4", {"gpus_used": 1, "cores_used": 1}, WAITS),
        ("--gres=gpu:2", {"gpus_used": 4, "cores_used": 1}, RUNS),
        ("-n 4", {"cores_used": 4}, RUNS),
        ("-n 16", {"cores_used": 4}, RUNS),
        ("-n 17", {"cores_used": 4}, WAITS),
        ("-N1-2 -n 9", {"cores_used": 4}, WAITS),
        ("-G 8", {"gpus_used": 2, "cores_used": 1}, RUNS),
        ("-G 9", {"gpus_used": 2, "cores_used": 1}, WAITS),
        ("--mem=20000", {"cores_used": 1, "memory_mb_used": 16000}, WAITS),
        ("--mem=0 -N3", {"cores_used": 1, "memory_mb_used": 1}, WAITS),
        ("--exclusive=user -N2", {"cores_used": 1}, RUNS),
        ("--exclusive=user -N3", {"cores_used": 1}, "not known"),
        ("-N3", {"cores_used": 1, "owner": "lee"}, WAITS),
        ("-N3", {"cores_used": 1, "owner": "kim"}, RUNS),
    ],
)
def test_where_the_large_nodes_are_busy(options: str, busy: Any, kind: str) -> None:
    assert said(options, "24.11.5", (dataclasses.replace(LARGE, **busy), SMALL)) == kind


def test_what_slurm_tells_of_nodes_and_partitions() -> None:
    line = (
        "NodeName=m1 Arch=x86_64 CPUAlloc=1 CPUTot=8 Gres=gpu:v100:2,gpu:a100:1 "
        "GresUsed=gpu:v100:1(IDX:0),gpu:a100:0(IDX:N/A) RealMemory=32000 AllocMem=4000 State=MIXED "
        "Owner=lee(1001) Partitions=mix\n"
    )
    (group,), _ = parse_nodes(line)
    assert (group.owner, group.gpus, group.gpu_counts("v100"), group.gpu_counts("a100")) == (
        *("lee", 3, (2, 1), (1, 0)),
    )
    line = "PartitionName=mix JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=9000 DefMemPerNode=8000\n"
    (one,) = parse_partitions(line)
    assert (one.cores_per_gpu, one.memory_mb_per_gpu, one.memory_mb_per_node) == (2, 9000, 8000)


@pytest.mark.parametrize(
    ("asked", "defaults", "starts"),
    [
        ("--gpus-per-node=4", {"cores_per_gpu": 2}, True),
        ("--gpus-per-node=4", {"cores_per_gpu": 3}, False),
        ("--gpus-per-node=4 -c 2", {"cores_per_gpu": 3}, True),
        ("--gpus-per-node=4", {"memory_mb_per_gpu": 9000}, False),
        ("--gpus-per-node=3 --mem=1000", {"memory_mb_per_gpu": 9000}, True),
        ("-N1 --exclusive", {"memory_mb_per_cpu": 4000}, True),
        ("-N1 --exclusive", {"memory_mb_per_cpu": 8000}, False),
        ("-N2", {"memory_mb_per_cpu": None, "memory_mb_per_node": 20000}, True),
        ("-N3", {"memory_mb_per_cpu": None, "memory_mb_per_node": 20000}, False),
        ("-N3", {"memory_mb_per_cpu": None}, True),
        ("-N1", {"min_nodes": 2}, False),
        ("-N1 --exclusive", {"max_cores_per_node": 4}, False),
    ],
)
def test_what_a_job_gets_without_asking_counts(asked: str, defaults: Any, starts: bool) -> None:
    assert (said(asked, **defaults) == RUNS) is starts


@pytest.mark.parametrize(
    ("asked", "qos", "kind"),
    [
        ("-n 9", "MaxTRES cpu=8", "refused"),
        ("-n 8", "MaxTRES cpu=8", RUNS),
        ("-n 4 --gres=gpu:1", "MaxTRES mem=9", "refused"),
        ("-N1 -n 4 --gres=gpu:2", "MaxTRESPU gres/gpu=1", "refused"),
        ("--mem=0 -N1 -w m1 -n1", "MaxTRES cpu=1", RUNS),
    ],
)
def test_limits_on_what_a_job_has(asked: str, qos: str, kind: str) -> None:
    assert said(asked, qos=qos) == kind


@pytest.mark.parametrize(
    ("asked", "nodes", "gpus"),
    [("-G 7", 2, 4), ("-G 4", 1, 4), ("-n 9", 2, 0), ("-G 4 -n 12", 2, 2)],
)
def test_nodes_that_are_left_to_slurm_are_as_many_as_slurms_have_to_be(
    asked: str, nodes: int, gpus: int
) -> None:
    """Whatever the catalog says of their size."""
    wrong = [Partition("mix", gpus_per_node=gpus, cores_per_node=(16,)) for gpus in (1, 8)]
    plans = [judged(asked, "22.05.8", catalog=each).plan for each in (*wrong, Partition("mix"))]
    assert {(made.nodes, made.gpus_per_node) for made in plans} == {(nodes, gpus)}
    kinds = {judged(asked, "22.05.8", catalog=each).verdict.kind for each in wrong}
    assert kinds == {said(asked)}


def test_a_script_without_a_partition_goes_to_slurms_default() -> None:
    cluster = Cluster("toy", "Toy", "tests", "2026-11-20", partitions={"mix": OF_CATALOG})
    header = read_header("#!/bin/bash\n", command_line=["-n", "24"])
    made = plan(request_from_header(header, "job.sh", cluster), cluster)
    context = RuleContext(made, Catalog({"toy": cluster}, "toy", ()), batch_script=True)
    for default, kind in ((True, RUNS), (False, "refused")):
        partitions = (dataclasses.replace(MIX, default=default),)
        limits = dataclasses.replace(LIMITS, partitions=partitions, nodes=(LARGE, SMALL))
        assert judge(context, live((), limits, queue=())).verdict.kind == kind


@pytest.mark.parametrize(
    ("asked", "busy", "words"),
    [
        ("-N1 --mem=20000", {"memory_mb_used": 16000}, "1 core and 20000 MB of memory free now"),
        ("-N1 -c 8", {"cores_used": 4}, "no node of mix has 8 cores free now"),
        ("-N3 --exclusive", {"cores_used": 1}, "without other jobs free now"),
        ("-n 23", {"cores_used": 4}, "together do not have 23 tasks of 1 core free now"),
    ],
)
def test_what_is_lacking_is_named(asked: str, busy: Any, words: str) -> None:
    told = judged(asked, groups=(dataclasses.replace(LARGE, **busy), SMALL)).verdict
    assert told.kind == WAITS and words in told.words
