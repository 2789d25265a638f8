"""What a script's numbers need of nodes of two sizes and two GPU types, as Slurm itself said.

The answers are those of Slurm 22.05.8 and 24.11.5 to the same options on the same idle nodes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Tuple

import pytest
from slurm_answers import CONFIG, LIMITS, NORMAL, NOW, PARTITION, QOS, fields_of, job, live

from neuronctl.catalog.model import Catalog, Cluster, Partition
from neuronctl.forecast.snapshot import Snapshot
from neuronctl.judgement.judgement import Judgement, judge
from neuronctl.planning import plan
from neuronctl.planning.needs import contradictions
from neuronctl.rules import RuleContext
from neuronctl.scripts.as_request import as_request
from neuronctl.scripts.header import read_header
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import Scope, read_limits
from neuronctl.slurm.scontrol import NodeGroup, parse_nodes, parse_partitions
from neuronctl.slurm.squeue import PartitionJob

RUNS, REFUSED, WAITS = "can start now", "refused", "will wait"


def nodes(*names: str, cores: int, gpu: str, gpus: int, **fields: Any) -> NodeGroup:
    group = NodeGroup(
        names, "IDLE", ("mix",), cores, 0, 4000 * cores, 0, gpus, 0, gpu, "x86_64", ()
    )
    return dataclasses.replace(group, **fields)


LARGE = nodes("m1", "m2", cores=8, gpu="v100", gpus=4)
SMALL = nodes("m3", "m4", cores=4, gpu="a100", gpus=2)
BIG = PartitionJob(
    *(JobId(9), 9, "PENDING", 1, None, "lee", "", "Resources"),
    start=NOW + 3600,
    planned_nodes="m[1-4]",
)
"""Another user's job that waits for all nodes."""
MIX = dataclasses.replace(
    PARTITION, name="mix", qos="", node_list="m[1-4]", memory_mb_per_cpu=4000, max_time=None
)


def said(
    options: str,
    version: str = "22.05.8",
    groups: Tuple[NodeGroup, ...] = (LARGE, SMALL),
    jobs: Tuple[Any, ...] = (),
    queue: Any = None,
    qos: str = "",
    **partition: Any,
) -> str:
    """The kind of verdict on a script with these options."""
    return judged(options, version, groups, jobs, queue, qos, **partition).verdict.kind


def judged(
    options: str,
    version: str,
    groups: Tuple[NodeGroup, ...] = (LARGE, SMALL),
    jobs: Tuple[Any, ...] = (),
    queue: Any = None,
    qos: str = "",
    **partition: Any,
) -> Judgement:
    """What is said of a script with these options; qos: a limit of the job's, ``MaxTRES cpu=8``."""
    cluster = Cluster(
        "toy",
        "Toy",
        "tests",
        "2026-11-20",
        default_partition="mix",
        partitions={"mix": Partition("mix")},
    )
    header = read_header("#!/bin/bash\n", command_line=["-p", "mix", *options.split()])
    made = plan(as_request(header, "job.sh", cluster), cluster)
    own = read_limits(fields_of([qos] if qos else []), Scope.QOS, "normal")
    limits = dataclasses.replace(
        LIMITS,
        qos=(dataclasses.replace(NORMAL, limits=own), QOS),
        config=dataclasses.replace(CONFIG, version=version),
        partitions=(dataclasses.replace(MIX, **partition),),
        nodes=groups,
    )
    snapshot: Snapshot = live(jobs, limits, user="kim", reservations=(), queue=queue)
    context = RuleContext(made, Catalog({"toy": cluster}, "toy", ()), of_script=True)
    return judge(context, snapshot)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("-n 24", RUNS),
        ("-n 25", REFUSED),
        ("-N1 -n9", REFUSED),
        ("-N2 -n16", RUNS),
        ("-N3 -n20", RUNS),
        ("-N3 -n21", REFUSED),
        ("-N4 -n10", RUNS),
        ("-N5 -n50", REFUSED),
        ("-N1 -n2 --ntasks-per-node=1", REFUSED),
        ("-n2 --ntasks-per-node=1", RUNS),
        ("-n 10 --ntasks-per-node=4", RUNS),
        ("-N2 -n 3 --ntasks-per-node=2", RUNS),
        ("-N3 -n 5 --ntasks-per-node=8", REFUSED),
        ("-N1-4 -n 24", RUNS),
        ("-N2-3 -n 18", RUNS),
        ("-N1-3 -n 21", REFUSED),
        ("-n6 -c3", RUNS),
        ("-n6 -c4", RUNS),
        ("-n7 -c4", REFUSED),
        ("-n 12 --ntasks-per-node=6 -c 3", REFUSED),
        ("-N3 --ntasks-per-node=4 -c2", REFUSED),
        ("-G 4", RUNS),
        ("-G 12", RUNS),
        ("-G 13", REFUSED),
        ("-G v100:8", RUNS),
        ("-G v100:9", REFUSED),
        ("-G a100:4", RUNS),
        ("-G a100:5", REFUSED),
        ("-G 1 -N2", REFUSED),
        ("-G 5 -N2", RUNS),
        ("-G 9 -N2", REFUSED),
        ("-n 2 -G 12", REFUSED),
        ("--gres=gpu:v100:1,gpu:a100:1", REFUSED),
        ("--gres=gpu:v100:1,gpu:v100:1", RUNS),
        ("--gres=gpu:v100:3,gpu:v100:2 -N2", RUNS),
        ("--gres=gpu:v100:1,gpu:v100:5", REFUSED),
        ("--gres=gpu:5,gpu:1", RUNS),
        ("--gpus-per-node=a100:1,a100:1 --mem-per-gpu=9000", "not known"),
        ("-G a100:1,a100:1 --cpus-per-gpu=1", "not known"),
        ("-n2 --gpus-per-task=a100:1,v100:1", "not known"),
        ("-n2 --gpus-per-task=a100:3", REFUSED),
        # Over nodes of several sizes, Slurm spreads these tasks in ways that are not known.
        ("-N2 -n8 -G6 --cpus-per-gpu=1", "not known"),
        ("-n5 -G4 --cpus-per-gpu=1", "not known"),
        ("-n5 -G5 --cpus-per-gpu=1", RUNS),
        ("--gres=gpu:1,gpu:5", REFUSED),
        ("--gres=gpu:v100,gpu:v100:2 -n9", RUNS),
        ("--gres=gpu:4 -N2", RUNS),
        ("--gres=gpu:4 -N3", REFUSED),
        ("--gres=gpu:v100:4 -N3", REFUSED),
        ("--gres=gpu:a100:2 -N2", RUNS),
        ("--gres=gpu:a100:3", REFUSED),
        ("--gres=gpu:V100:1", REFUSED),
        ("--gpus-per-node=2 -G 4", RUNS),
        ("--gpus-per-task=1 -n4", RUNS),
        ("--gpus-per-task=1 -n13", REFUSED),
        ("--gpus-per-task=2 -n3 -N1", REFUSED),
        ("--gpus-per-task=v100:2 -n4", RUNS),
        ("--gpus-per-task=v100:2 -n5", REFUSED),
        ("--gpus-per-task=1", REFUSED),
        ("--gpus-per-task=1 --gpus-per-node=2 -n3", RUNS),
        ("--gpus-per-task=2 --gpus-per-node=3 -n2", REFUSED),
        ("--ntasks-per-gpu=2 --gpus-per-node=4", RUNS),
        ("--ntasks-per-gpu=3 --gpus-per-node=4", REFUSED),
        ("--ntasks-per-gpu=2 -n 5", REFUSED),
        ("-N1 -n 1 --ntasks-per-gpu=2 --gpus-per-node=2", RUNS),
        ("-N1 -n 5 --ntasks-per-gpu=2 --gpus-per-node=2", REFUSED),
        ("-N1 -n 3 --ntasks-per-gpu=2 -G 4", RUNS),
        ("-n 2 -N2 -c 4 --ntasks-per-gpu=2 -G 4", REFUSED),
        ("-N1 --gpus-per-task=1", RUNS),
        ("-N1 --gpus-per-task=1 -c 1", REFUSED),
        ("-N1-2 --gpus-per-task=1", REFUSED),
        ("-N1 --gpus-per-task=1 --ntasks-per-node=2 -c 1", RUNS),
        ("--gpus-per-task=v100:1 --ntasks-per-gpu=1 -n 2 -c 1", REFUSED),
        ("--gpus-per-task=v100:1 -n 2 --ntasks-per-node=2", RUNS),
        ("--gpus-per-task=1 -n 2 --ntasks-per-node=4", REFUSED),
        ("--gpus-per-task=v100:1 -n 2 --ntasks-per-node=5", REFUSED),
        ("--cpus-per-gpu=2 --gpus-per-node=4", RUNS),
        ("--cpus-per-gpu=3 --gpus-per-node=4", REFUSED),
        ("--cpus-per-gpu=4 -G6", RUNS),
        ("--cpus-per-gpu=4 -G7", REFUSED),
        ("--cpus-per-gpu=2 -c2 -G4", REFUSED),
        ("--mem=32000 -N2", RUNS),
        ("--mem=32000 -N3", REFUSED),
        ("--mem=0 -N4", RUNS),
        ("--mem-per-cpu=8000 -c4", RUNS),
        ("--mem-per-cpu=8000 -c5", REFUSED),
        ("--mem-per-cpu=8000 -n 12", RUNS),
        ("--mem-per-cpu=8000 -n 13", REFUSED),
        ("--mem-per-cpu=32000 -N3", REFUSED),
        ("--mem-per-gpu=9000 --gpus-per-node=4", REFUSED),
        ("--mem-per-gpu=9000 -G4", RUNS),
        ("--mem-per-gpu=9000", REFUSED),
        ("-w m3 -n 12", RUNS),
        ("-w m3 -N1 -n 8", REFUSED),
        ("-w m3 --gres=gpu:v100:1", REFUSED),
        ("--mincpus=6 -N3", REFUSED),
        ("-N1 -O -n 40", RUNS),
    ],
)
@pytest.mark.parametrize("version", ["22.05.8", "24.11.5"])
def test_on_idle_nodes(options: str, kind: str, version: str) -> None:
    assert said(options, version) == kind


@pytest.mark.parametrize(
    ("options", "older", "newer"),
    [
        ("--cpus-per-gpu=2", RUNS, REFUSED),
        ("--gpus-per-task=1 --ntasks-per-node=2", RUNS, REFUSED),
        ("--gpus-per-task=1 --gpus-per-node=2 -N2 -n2", RUNS, REFUSED),
        ("--ntasks-per-gpu=2 -G 8", "not known", RUNS),
        ("-n 20 --gpus-per-node=1 -G 4", RUNS, REFUSED),
        ("-n 17 --gpus-per-node=1 -G 4", RUNS, RUNS),
        ("-n 2 --gpus-per-node=1 -G 4", RUNS, REFUSED),
        # Cores for each GPU are wanted wherever the GPUs are, with a task there or without.
        ("-n1 -G8 --cpus-per-gpu=2", REFUSED, RUNS),
        ("-n2 -G12 --cpus-per-gpu=1", REFUSED, RUNS),
        ("-n1 -G8", REFUSED, REFUSED),
        ("-n1 -N1 -G8 --cpus-per-gpu=1", REFUSED, REFUSED),
        ("-N3 -n2 -G2 --cpus-per-gpu=1", RUNS, RUNS),
        # It makes two tasks per node, and gives them one core each.
        ("--ntasks-per-gpu=1 -c 2 --gres=gpu:2", RUNS, REFUSED),
        ("--ntasks-per-gpu=1 -c 2 --gres=gpu:2 -N2", RUNS, REFUSED),
        ("--ntasks-per-gpu=1 -c 2 -G2", RUNS, REFUSED),
        ("--ntasks-per-gpu=2 -c 2 -G2 -N2", RUNS, REFUSED),
        ("--ntasks-per-gpu=1 -c 2 -G2 -N2", RUNS, RUNS),
        ("--ntasks-per-gpu=1 -c 2 --gres=gpu:3 -w m1", RUNS, RUNS),
        ("--ntasks-per-gpu=2 -c 1 --gres=gpu:1", RUNS, RUNS),
        # Nodes of a fixed number have equal shares, where an older one has to place tasks alone.
        ("--ntasks-per-gpu=1 -N3 -G 4", REFUSED, REFUSED),
        ("--ntasks-per-gpu=1 -N2 -G 5 --cpus-per-gpu=2", "not known", REFUSED),
        ("--ntasks-per-gpu=2 -N3 -G 4", "not known", REFUSED),
        ("--ntasks-per-gpu=1 -N2-3 -G 5", RUNS, RUNS),
        ("--ntasks-per-gpu=1 -N1-3 -G 5 -c 2", "not known", RUNS),
        ("--ntasks-per-gpu=1 -N2-3 -G 4 -c 2", RUNS, "not known"),
        # With memory per node, the older one only looks whether all cores are enough, and with
        # memory per GPU, whether all GPUs have theirs.
        ("-n 7 -c 3 --mem=2000", RUNS, REFUSED),
        ("-n 8 -c 3 --mem=0", RUNS, REFUSED),
        ("-n 9 -c 3 --mem=2000", REFUSED, REFUSED),
        ("-N2 -n 5 -c 3 --mem=2000", RUNS, REFUSED),
        ("-N1 -n 3 -c 3 --mem=2000", REFUSED, REFUSED),
        ("-N2 -n 5 -c 3 --mem-per-cpu=100", REFUSED, REFUSED),
        ("-N2 -n 5 -c 3 --mem=2000 --gres=gpu:1", REFUSED, REFUSED),
        ("-N2 -n 3 --gpus-per-task=2 --mem-per-gpu=9000", RUNS, REFUSED),
        ("-N2 -n 4 --gpus-per-task=2 --mem-per-gpu=9000", REFUSED, REFUSED),
        # On several nodes, the newer one gives tasks no more cores than those of their GPUs.
        ("-N2 -n 4 --gres=gpu:1 --cpus-per-gpu=2", RUNS, RUNS),
        ("-N2 -n 5 --gres=gpu:1 --cpus-per-gpu=2", RUNS, REFUSED),
        ("-N1-2 -n 5 --gres=gpu:1 --cpus-per-gpu=2 --exclusive", RUNS, REFUSED),
        ("-N1 -n 5 --gres=gpu:1 --cpus-per-gpu=2", RUNS, RUNS),
        ("-n 9 --gres=gpu:1 --cpus-per-gpu=2", RUNS, REFUSED),
        ("-N2 -n 5 --ntasks-per-node=3 --gres=gpu:1 --cpus-per-gpu=2", RUNS, RUNS),
        # How tasks are spread by some options is not known.
        ("--ntasks-per-gpu=2 -c 2 --gres=gpu:1 -n 2", "not known", "not known"),
        ("--ntasks-per-gpu=1 -n 2 --gres=gpu:1", "not known", "not known"),
        ("--ntasks-per-gpu=1 -N3 -n 2 -G 4 -c 2", "not known", "not known"),
        ("--ntasks-per-gpu=1 -n 4 --gpus-per-node=2 --cpus-per-gpu=2", "not known", "not known"),
        ("--ntasks-per-gpu=1 -N2 -n 4 --gpus-per-node=2", RUNS, RUNS),
        ("-N2 -n4 --ntasks-per-node=4 --gpus-per-task=1", RUNS, "not known"),
        ("-N2 -n4 --ntasks-per-node=2 --gpus-per-task=1", RUNS, RUNS),
        ("-N2 -n4 --ntasks-per-node=3 --gpus-per-task=2", REFUSED, REFUSED),
        ("-n8 --ntasks-per-node=6 --gpus-per-task=1", REFUSED, REFUSED),
        # Of tasks that its GPUs divide, a newer one may count with nodes that are too small.
        ("-n 3 --ntasks-per-node=5 -G 3", RUNS, "not known"),
        ("-n 3 --ntasks-per-node=5 -G 2", RUNS, RUNS),
        ("-n 3 --ntasks-per-node=2 -G 3", RUNS, RUNS),
        # A newer one counts the nodes that so many tasks on each take.
        ("-n 8 --ntasks-per-node=6 -G v100:1", RUNS, REFUSED),
        ("-n 3 --ntasks-per-node=2 -G 1", RUNS, REFUSED),
        ("-n 3 --ntasks-per-node=2 -G 2", RUNS, RUNS),
        ("-n 8 --ntasks-per-node=6 -G 1 -w m1", RUNS, RUNS),
        ("-n 8 --ntasks-per-node=3 --gpus-per-node=1 -G 2", REFUSED, REFUSED),
        ("-w m1,m2 -G 1", REFUSED, REFUSED),
        ("-w m1,m2 -n 1 -G 1", RUNS, RUNS),
        # Of a range, it takes no more nodes than GPUs.
        ("-N1-4 -n 20 -G 2", REFUSED, REFUSED),
        ("-N1-4 -n 16 -G 2", RUNS, RUNS),
        ("-N1-0 -n 20 -G 2", REFUSED, REFUSED),
        ("-n 20 -G 2", RUNS, RUNS),
        # Beside named nodes, a newer one takes the next ones, too small or not.
        ("-n 2 -G 5 -w m4", RUNS, "not known"),
        ("-n 3 -G 5 -w m4", RUNS, RUNS),
        ("-n 2 -G 5 -w m1", RUNS, RUNS),
        ("-N2 -n 2 -G 5 -w m4", RUNS, RUNS),
        # The cores of a task's GPUs are the task's, on each node that has so many tasks.
        ("-n 5 --ntasks-per-node=2 --gpus-per-task=1 --cpus-per-gpu=4", REFUSED, REFUSED),
        ("-n 4 --ntasks-per-node=2 --gpus-per-task=1 --cpus-per-gpu=4", RUNS, RUNS),
        ("-n 6 --gpus-per-task=1 --cpus-per-gpu=4", RUNS, RUNS),
        ("-n 7 --gpus-per-task=1 --cpus-per-gpu=4", REFUSED, REFUSED),
        # All GPUs of whole nodes come with their cores.
        ("-n 16 --gpus-per-node=2 --cpus-per-gpu=4 --mem=20000", RUNS, RUNS),
        ("-n 16 --gpus-per-node=2 --cpus-per-gpu=4 --mem=20000 --exclusive", REFUSED, REFUSED),
        ("--gpus-per-node=1 --cpus-per-gpu=2 --exclusive", RUNS, RUNS),
        ("-G 2 --cpus-per-gpu=3 --exclusive", REFUSED, REFUSED),
    ],
)
def test_where_versions_differ(options: str, older: str, newer: str) -> None:
    assert (said(options, "22.05.8"), said(options, "24.11.5")) == (older, newer)


def test_more_tasks_per_node_than_tasks() -> None:
    """Slurm 24.11 was seen to pass over a free node, for one of which a part was free."""
    for each, newer in ((7, "not known"), (4, RUNS)):
        options = f"-n 4 --ntasks-per-node={each} -G 4"
        kinds = [said(options, version, (LARGE,)) for version in ("22.05.8", "24.11.5")]
        assert kinds == [RUNS, newer]


@pytest.mark.parametrize(
    ("options", "older", "newer"),
    [
        # On one node, the older one wants whole GPUs for all tasks, on several a whole number of
        # tasks for each GPU but on one node.
        ("-N1 -n4 -G3 --cpus-per-gpu=1", RUNS, RUNS),
        ("-N1 -n5 -G3 --cpus-per-gpu=1", REFUSED, RUNS),
        ("-N1 -n5 -G2 --cpus-per-gpu=2", REFUSED, RUNS),
        ("-N1 -n6 -G2 --cpus-per-gpu=2", RUNS, RUNS),
        ("-N2 -n9 -G2 --cpus-per-gpu=2", RUNS, REFUSED),
        ("-N2 -n13 -G4 --cpus-per-gpu=2", REFUSED, REFUSED),
        ("-N2 -n16 -G6 --cpus-per-gpu=2", RUNS, RUNS),
        ("-N3 -n13 -G4 --cpus-per-gpu=3", RUNS, RUNS),
        ("-N3 -n16 -G4 --cpus-per-gpu=3", REFUSED, RUNS),
        ("-N3 -n20 -G6 --cpus-per-gpu=3", REFUSED, REFUSED),
        # The newer one takes no more on each of several nodes than the first may have.
        ("-N2 -n4 -G3 --cpus-per-gpu=1", RUNS, RUNS),
        ("-N2 -n5 -G3 --cpus-per-gpu=1", RUNS, REFUSED),
        ("-N2 -n8 -G6 --cpus-per-gpu=1", RUNS, RUNS),
        ("-N2 -n9 -G6 --cpus-per-gpu=1", REFUSED, REFUSED),
        # Of a range, they take as many nodes as there are GPUs.
        ("-N1-2 -n8 -G6 --cpus-per-gpu=1", RUNS, RUNS),
        ("-N1-2 -n9 -G6 --cpus-per-gpu=1", REFUSED, REFUSED),
        ("-N1-3 -n9 -G6 --cpus-per-gpu=1", RUNS, RUNS),
        ("-N1-2 -n5 -G3 --cpus-per-gpu=1", REFUSED, RUNS),
        ("-N1-2 -n9 -G4 --cpus-per-gpu=1", REFUSED, REFUSED),
        ("-N1-3 -n8 -G2 --cpus-per-gpu=1", REFUSED, REFUSED),
        ("-N2-3 -n8 -G2 --cpus-per-gpu=1", RUNS, REFUSED),
        ("-N1-3 -n8 -G1 --cpus-per-gpu=1", REFUSED, RUNS),
        ("-N1-3 -n12 -G1 --cpus-per-gpu=2", REFUSED, REFUSED),
        # Without a number of nodes, all of them.
        ("-n4 -G1 --cpus-per-gpu=1", RUNS, RUNS),
        ("-n5 -G1 --cpus-per-gpu=1", REFUSED, REFUSED),
        ("-n12 -G1 --cpus-per-gpu=1", RUNS, REFUSED),
        ("-n5 -G3 --cpus-per-gpu=1", REFUSED, RUNS),
        ("-n16 -G4 --cpus-per-gpu=1", RUNS, RUNS),
    ],
)
def test_more_tasks_than_cores_of_their_gpus(options: str, older: str, newer: str) -> None:
    alike = (dataclasses.replace(LARGE, names=("m1", "m2", "m3", "m4")),)
    heard = tuple(said(options, version, alike, nodes=4) for version in ("22.05.8", "24.11.5"))
    assert heard == (older, newer)


@pytest.mark.parametrize(
    ("options", "busy", "kind"),
    [
        # The one node of that type that is free has too few of them, the other type's are free.
        ("--gres=gpu:v100:4", {"gpus_used": 1, "cores_used": 1}, WAITS),
        ("--gres=gpu:2", {"gpus_used": 4, "cores_used": 1}, RUNS),
        ("-n 20", {"cores_used": 4}, WAITS),
        ("-n 16", {"cores_used": 4}, RUNS),
        ("-G 8", {"gpus_used": 2, "cores_used": 1}, RUNS),
        ("-G 9", {"gpus_used": 2, "cores_used": 1}, WAITS),
        ("--mem=20000", {"cores_used": 1, "memory_mb_used": 16000}, WAITS),
        ("--mem=0 -N3", {"cores_used": 1, "memory_mb_used": 1}, WAITS),
        ("--exclusive=user -N2", {"cores_used": 1}, RUNS),
        ("--exclusive=user -N3", {"cores_used": 1}, WAITS),
        ("-N3", {"cores_used": 1, "owner": "lee"}, WAITS),
        ("-N3", {"cores_used": 1, "owner": "kim"}, RUNS),
    ],
)
def test_where_the_large_nodes_are_busy(options: str, busy: Any, kind: str) -> None:
    assert said(options, "24.11.5", (dataclasses.replace(LARGE, **busy), SMALL)) == kind


@pytest.mark.parametrize(
    ("options", "older", "newer"),
    [
        ("--exclusive", RUNS, RUNS),
        ("--exclusive --gres=gpu:v100:3", REFUSED, REFUSED),
        ("--exclusive=user --gres=gpu:v100:1", REFUSED, RUNS),
        ("--exclusive --exclusive=user --gres=gpu:v100:3 --ntasks-per-gpu=1", REFUSED, RUNS),
        ("--gres=gpu:v100:3 --ntasks-per-gpu=1", RUNS, RUNS),
    ],
)
def test_a_limit_of_cores_per_node_keeps_whole_nodes_from_a_job(
    options: str, older: str, newer: str
) -> None:
    heard = tuple(
        said(f"-N2 -n2 {options}", version, max_cores_per_node=4)
        for version in ("22.05.8", "24.11.5")
    )
    assert heard == (older, newer)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("-N1-0", RUNS),
        ("-N4-0", RUNS),
        ("-N5-0", REFUSED),
        ("-N3-0 -n5", RUNS),
        ("-N1-0 -n2 --ntasks-per-node=1", RUNS),
        ("-N1-0 -n24", RUNS),
    ],
)
def test_a_range_of_nodes_without_an_end_is_as_many_as_the_tasks_take(
    options: str, kind: str
) -> None:
    assert said(options) == kind


@pytest.mark.parametrize(("node_list", "kind"), [("m1", "not known"), ("m3", WAITS)])
def test_jobs_of_the_same_user_may_share_cores(node_list: str, kind: str) -> None:
    busy = (dataclasses.replace(LARGE, cores_used=8), dataclasses.replace(SMALL, cores_used=4))
    mine = job(7, cores=8, node_list=node_list)
    options = "-N1-1 -n2 -c3 --exclusive=user"
    assert said(options, groups=busy, jobs=(mine,), oversubscribe="FORCE:2") == kind


def test_a_range_of_nodes_ends_at_the_number_of_tasks() -> None:
    for version in ("22.05.8", "24.11.5"):
        assert said("-N1-3 -n 1 --gres=gpu:2", version, max_nodes=1) == RUNS
        assert said("-N1-3 -n 2 --gres=gpu:2", version, max_nodes=1) == REFUSED


def test_cores_of_gpus_that_a_job_gets_without_asking() -> None:
    for version, kind in (("22.05.8", RUNS), ("24.11.5", REFUSED)):
        of_task = "--ntasks-per-node=2 --gpus-per-task=1"
        assert said(f"-n 5 {of_task}", version, cores_per_gpu=4) == REFUSED
        assert said(f"-n 4 {of_task}", version, cores_per_gpu=4) == RUNS
        assert said("-N2 -n 5 --gres=gpu:1", version, cores_per_gpu=2) == kind
        assert said("-N2 -n 5 --gres=gpu:1 -c 1", version, cores_per_gpu=2) == RUNS
        assert said("-N2 -n 12 -G 3", version, cores_per_gpu=2) == "not known"
        assert said("-N2 -n 6 -G 3", version, cores_per_gpu=2) == RUNS


FULL = nodes("m1", "m2", cores=8, gpu="v100", gpus=4, cores_used=6, gpus_used=3)
"""Nodes with two cores and one GPU to give."""
IDLE = nodes("m3", "m4", cores=8, gpu="v100", gpus=4)


@pytest.mark.parametrize(
    ("options", "qos", "idle", "busy"),
    [
        # It looks for no more nodes than one job may have.
        ("-n 4", "MaxTRES node=1", RUNS, WAITS),
        ("-n 2", "MaxTRES node=1", RUNS, RUNS),
        ("-n 4", "MaxTRESPU node=1", RUNS, WAITS),
        ("-n 4", "MaxTRES node=2", RUNS, RUNS),
        ("-N1-2 -n 4", "MaxTRES node=1", RUNS, WAITS),
        ("-n 9", "MaxTRES node=1", REFUSED, REFUSED),
        ("-N1-3 -n 18", "MaxTRES node=1", REFUSED, REFUSED),
        ("-n 9", "GrpTRES node=1", REFUSED, REFUSED),
        ("-n 9", "MaxTRESPA node=1", REFUSED, REFUSED),
        # Each node that it is spread over counts with its GPUs and its memory.
        ("-n 4 --gres=gpu:1", "MaxTRES gres/gpu=1", RUNS, WAITS),
        ("-n 2 --gres=gpu:1", "MaxTRES gres/gpu=1", RUNS, RUNS),
        ("-n 4 --gres=gpu:1", "MaxTRESPU gres/gpu=1", RUNS, WAITS),
        ("-n 4 --mem=1000", "MaxTRES mem=1500", RUNS, WAITS),
        ("-n 4 --mem=1000", "MaxTRES mem=2000", RUNS, RUNS),
        ("-N 1-2 -n 4 --gres=gpu:1", "MaxTRES gres/gpu=1", "not known", "not known"),
        # All memory of a node is what each of them has.
        ("--mem=0", "MaxTRES mem=32000", RUNS, RUNS),
        ("--mem=0", "MaxTRES mem=31999", REFUSED, REFUSED),
        ("--mem-per-cpu=0 -N2", "MaxTRES mem=32000", REFUSED, REFUSED),
        ("--mem=0", "MaxTRESPerNode mem=9", REFUSED, REFUSED),
        # Slurm counts on the nodes that it has chosen.
        ("-N 1-3 -n 5 -G 6", "MaxTRESPerNode gres/gpu=3", "not known", "not known"),
        ("-N 1-3 -n 5 -G 6", "MaxTRESPerNode gres/gpu=1", REFUSED, REFUSED),
        ("-N 1 -n 4 -G 4", "MaxTRESPerNode gres/gpu=3", REFUSED, REFUSED),
        # No partition has more nodes than it has.
        ("-n 8 -c 2", "MaxTRESPerNode cpu=4", "not known", WAITS),
        ("-n 8 -c 2", "MaxTRESPerNode cpu=3", REFUSED, REFUSED),
    ],
)
def test_limits_on_what_a_job_has_where_nodes_are_busy(
    options: str, qos: str, idle: str, busy: str
) -> None:
    alike = (dataclasses.replace(IDLE, names=("m1", "m2", "m3", "m4")),)
    assert said(options, groups=alike, qos=qos, nodes=4) == idle
    full = (dataclasses.replace(FULL, names=("m1", "m2", "m3", "m4")),)
    assert said(options, groups=full, qos=qos, nodes=4) == busy


@pytest.mark.parametrize(
    ("options", "kind"),
    [("-G v100:7", WAITS), ("-G v100:4", RUNS), ("-n 12", WAITS), ("-n 8", RUNS)],
)
def test_all_nodes_that_a_job_is_spread_over_count(options: str, kind: str) -> None:
    busy = dataclasses.replace(SMALL, names=("m3",), cores_used=4)
    groups = (LARGE, busy, dataclasses.replace(SMALL, names=("m4",)))
    mine = job(7, cores=4, node_list="m3")
    assert said(options, "24.11.5", groups, (mine,), qos="MaxTRESPU node=2") == kind


def test_which_nodes_slurm_takes_first_is_not_known() -> None:
    options, qos = "-n 9 --gres=gpu:1", "MaxTRES gres/gpu=2"
    assert said(options, groups=(FULL, IDLE), qos=qos, nodes=4) == "not known"
    assert said("-n 8 --gres=gpu:1", groups=(FULL, IDLE), qos=qos, nodes=4) == RUNS


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("-C [fast|slow] -w m1", RUNS),
        ("-C [fast|slow] -w m3", RUNS),
        ("-C [fast|slow] -w m5", REFUSED),
        ("-N2 -C [fast|slow] -w m1", RUNS),
        ("-N2 -C [fast|slow] -w m1,m2", RUNS),
        ("-N3 -C [fast|slow] -w m1", REFUSED),
        ("-C [fast|slow] -w m1,m3", "not known"),
        ("-N2 -C fast*1 -w m1", "not known"),
    ],
)
def test_nodes_that_all_have_one_feature_or_another_beside_named_ones(
    options: str, kind: str
) -> None:
    fast, slow = (
        dataclasses.replace(group, features=(feature,))
        for group, feature in ((LARGE, "fast"), (SMALL, "slow"))
    )
    plain = dataclasses.replace(SMALL, names=("m5",))
    assert said(options, groups=(fast, slow, plain), nodes=5) == kind


def test_the_users_own_jobs_leave_a_node_to_him() -> None:
    mine = job(7, cores=2, nodes=2, node_list="m[1-2]")
    groups = (dataclasses.replace(LARGE, cores_used=1), SMALL)
    assert said("--exclusive=user -N3", "24.11.5", groups, (mine,)) == RUNS


@pytest.mark.parametrize(
    ("options", "defaults", "kind"),
    [
        ("--gpus-per-node=4", {"cores_per_gpu": 2}, RUNS),
        ("--gpus-per-node=4", {"cores_per_gpu": 3}, REFUSED),
        ("--gpus-per-node=4 -c 2", {"cores_per_gpu": 3}, RUNS),
        ("--gpus-per-node=4", {"memory_mb_per_gpu": 9000}, REFUSED),
        ("--gpus-per-node=4 --mem=1000", {"memory_mb_per_gpu": 9000}, REFUSED),
        ("--gpus-per-node=3 --mem=1000", {"memory_mb_per_gpu": 9000}, RUNS),
        ("--gpus-per-node=4 --mem-per-cpu=1000", {"memory_mb_per_gpu": 9000}, REFUSED),
        ("--gpus-per-node=4 --mem-per-gpu=1000", {"memory_mb_per_gpu": 9000}, RUNS),
        # What a job would get without --mem-per-gpu has to be there all the same.
        ("--gres=gpu:a100:1 --mem-per-gpu=9000", {"memory_mb_per_node": 12000}, RUNS),
        ("--gres=gpu:a100:1 --mem-per-gpu=2000", {"memory_mb_per_node": 20000}, REFUSED),
        ("--gres=gpu:v100:1 --mem-per-gpu=2000", {"memory_mb_per_node": 20000}, RUNS),
        ("-N3 --gres=gpu:1 --mem-per-gpu=2000", {"memory_mb_per_node": 20000}, REFUSED),
        ("-N1 -n4 -G a100:1 --mem-per-gpu=2000", {"memory_mb_per_cpu": 6000}, REFUSED),
        ("-n4 -G a100:2 --mem-per-gpu=2000", {"memory_mb_per_cpu": 6000}, RUNS),
        ("--exclusive --gres=gpu:v100:1 --mem-per-gpu=9", {"memory_mb_per_cpu": 6000}, REFUSED),
        ("--gpus-per-node=4 --mem=0", {"memory_mb_per_gpu": 9000}, REFUSED),
        ("-G4 -N1 --mem=1000", {"memory_mb_per_gpu": 9000}, REFUSED),
        ("-G4 --mem=1000", {"memory_mb_per_gpu": 9000}, RUNS),
        ("--exclusive --mem=1000", {"memory_mb_per_gpu": 9000}, RUNS),
        ("--gres=gpu:1 --exclusive --mem=1000 -w m1", {"memory_mb_per_gpu": 9000}, REFUSED),
        ("--gpus-per-node=1 --exclusive -w m1", {"memory_mb_per_gpu": 9000}, REFUSED),
        ("-N1 --exclusive", {"memory_mb_per_cpu": 8000}, REFUSED),
        ("-N2", {"memory_mb_per_cpu": None, "memory_mb_per_node": 20000}, RUNS),
        ("-N3", {"memory_mb_per_cpu": None, "memory_mb_per_node": 20000}, REFUSED),
        ("-N3", {"memory_mb_per_cpu": None}, RUNS),
    ],
)
def test_what_a_job_gets_without_asking_counts(options: str, defaults: Any, kind: str) -> None:
    assert said(options, **defaults) == kind


def test_what_slurm_tells_of_nodes_and_partitions() -> None:
    line = (
        "NodeName=m1 Arch=x86_64 CPUAlloc=1 CPUTot=8 Gres=gpu:v100:2,gpu:a100:1 "
        "GresUsed=gpu:v100:1(IDX:0),gpu:a100:0(IDX:N/A) RealMemory=32000 AllocMem=4000 State=MIXED "
        "Owner=lee(1001) Partitions=mix\n"
    )
    (group,), _ = parse_nodes(line)
    assert (group.owner, group.gpus, group.gpus_of("v100"), group.gpus_of("a100")) == (
        *("lee", 3, (2, 1), (1, 0)),
    )
    line = "PartitionName=mix JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=9000 DefMemPerNode=8000\n"
    (one,) = parse_partitions(line)
    assert (one.cores_per_gpu, one.memory_mb_per_gpu, one.memory_mb_per_node) == (2, 9000, 8000)


@pytest.mark.parametrize(
    ("queued", "time", "kind"),
    [
        ((), "5", "not known"),
        ((BIG,), "5", RUNS),
        ((BIG,), "2:00:00", "not known"),
        ((dataclasses.replace(BIG, start=None, planned_nodes=""),), "5", "not known"),
    ],
)
def test_nodes_that_are_planned_for_a_job(queued: Any, time: str, kind: str) -> None:
    planned = (dataclasses.replace(LARGE, state="IDLE+PLANNED"), SMALL)
    assert said(f"-N3 -t {time}", "22.05.8", planned, queue=queued) == kind


@pytest.mark.parametrize(
    ("options", "older", "newer"),
    [
        ("-n5 -N2 --ntasks-per-node=4", (8, 32000), (5, 20000)),
        ("-n5 -N3 --ntasks-per-node=4", (12, 48000), (5, 20000)),
        ("-n2 --ntasks-per-node=5", (5, 20000), (2, 8000)),
        ("-n4 --ntasks-per-node=3", (6, 24000), (4, 16000)),
        ("-n1 -N3 --ntasks-per-node=2", (1, 4000), (1, 4000)),
        ("-N3 --ntasks-per-node=2", (6, 24000), (6, 24000)),
        ("-n5 -N2 -G a100:3 -w m4", (5, 20000), (5, 20000)),
        ("-n5 -N2 --mem=6000", (5, 12000), (5, 12000)),
    ],
)
def test_what_slurm_counts_for_a_job(
    options: str, older: Tuple[int, int], newer: Tuple[int, int]
) -> None:
    for version, counted in (("22.05.8", older), ("24.11.5", newer)):
        forecast = judged(options, version).forecast
        assert forecast is not None
        size = forecast.on_cluster.size.job
        assert (size["cpu"], size["mem"]) == counted


@pytest.mark.parametrize(
    ("options", "used", "partitions", "kind"),
    [
        ("-c3", 3, ("mix",), WAITS),
        ("-c1", 3, ("mix",), RUNS),
        ("-n5", 3, ("mix",), WAITS),
        ("-n4", 3, ("mix",), RUNS),
        ("-n16", 0, ("mix",), RUNS),
        ("-n17", 0, ("mix",), REFUSED),
        ("-c3", 3, ("mix", "old"), "not known"),
    ],
)
def test_jobs_of_a_partition_may_use_so_many_cores_per_node_together(
    options: str, used: int, partitions: Tuple[str, ...], kind: str
) -> None:
    groups = [dataclasses.replace(one, cores_used=used) for one in (LARGE, SMALL)]
    groups = [dataclasses.replace(one, partitions=partitions) for one in groups]
    assert said(options, "24.11.5", tuple(groups), max_cores_per_node=4) == kind


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("-n 2", RUNS),
        ("-n 8", RUNS),
        ("-n 12", RUNS),
        ("-n 12 -G 6", RUNS),
        ("--gres=gpu:3 --cpus-per-gpu=2", RUNS),
        ("-N2-4 -n 12", REFUSED),
        ("-N1 -n 3", REFUSED),
        ("-N1-2 -n 3", RUNS),
        ("--mem=8001", REFUSED),
        ("--mem-per-gpu=9000 --gres=gpu:2", RUNS),
        ("--mem-per-gpu=9000 -G 2", RUNS),
        ("--mem-per-gpu=9000 --gres=gpu:4", REFUSED),
        ("--mem-per-gpu=2000 --gres=gpu:1 -c3", REFUSED),
    ],
)
def test_a_limit_of_memory_per_node_counts_what_a_job_asks_for(options: str, kind: str) -> None:
    assert said(options, max_memory_mb_per_node=8000) == kind


@pytest.mark.parametrize("options", ["-N1 -n5 -G3", "-N2 -n5 -G3"])
def test_what_one_release_refuses_is_no_fault_where_none_is_known(options: str) -> None:
    cluster = Cluster(
        *("toy", "Toy", "tests", "2026-11-20"),
        partitions={"mix": Partition("mix", gpus_per_node=4, cores_per_node=(8,))},
    )
    words = ["-p", "mix", *options.split(), "--cpus-per-gpu=1"]
    header = read_header("#!/bin/bash\n", command_line=words)
    made = plan(as_request(header, "job.sh", cluster), cluster)
    assert not list(contradictions(made, ()))
    assert any(list(contradictions(made, release)) for release in ((22, 5, 8), (24, 11, 5)))


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("-N0 --gpus-per-node=2 -G 8", RUNS),
        ("-N0 --gres=gpu:2 -G 4 -n 2", RUNS),
        ("-N0 --gpus-per-node=2 -G 10", REFUSED),
        ("-N0 -w m1", "not known"),  # 22.05 runs it, 24.11 refuses it
        ("-n1 -G6 --ntasks-per-gpu=1", "not known"),
        ("-n1 -N1 -G6 --ntasks-per-gpu=1", REFUSED),
    ],
)
def test_nodes_that_a_script_leaves_to_its_gpus(options: str, kind: str) -> None:
    for version in ("22.05.8", "24.11.5"):
        assert said(options, version) == kind
