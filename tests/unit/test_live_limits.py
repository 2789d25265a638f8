"""The figures that count: Slurm's own, those that users share, and what cannot be told."""

from __future__ import annotations

import dataclasses
from typing import Any, Tuple

import pytest
from plan_builders import cluster, plan_of, policy
from slurm_answers import (
    BUSY,
    CONFIG,
    LIMITS,
    MINE,
    NORMAL,
    OTHER,
    PARTITION,
    codes,
    job,
    judged,
    live,
    node,
    shared,
    with_mine,
    with_more,
    with_partition,
)

from neuronctl.catalog.cluster import Catalog
from neuronctl.judgement.judgement import judge
from neuronctl.request.job import Amounts
from neuronctl.rules import RuleContext
from neuronctl.slurm.figures import ClusterFigures
from neuronctl.slurm.limits import Limit, Scope, read_limits
from neuronctl.slurm.sacctmgr import LimitedGroup, parse_groups
from neuronctl.slurm.scontrol import parse_config


def test_slurms_own_figures_count_instead_of_the_catalogs() -> None:
    # The catalog has 24 GPUs a user and 3 nodes a job; Slurm says 16, and no such limit of nodes.
    (found,) = (
        one for one in judged(live(), nodes=4, gpus_per_node=8).findings if one.severity == "error"
    )
    assert (found.code, found.source[:12]) == ("NC124", "Slurm itself")
    assert "allows at most 16" in found.message
    smaller = dataclasses.replace(LIMITS, nodes=tuple(node(f"n{n}", gpus=4) for n in (1, 2)))
    assert "NC121" in codes(judged(live(limits=smaller), gpus_per_node=8))


def test_limits_that_slurm_does_not_enforce_are_none() -> None:
    lax = dataclasses.replace(LIMITS, config=dataclasses.replace(CONFIG, enforce=()))
    assert "NC501" not in codes(judged(live((*BUSY, job(4)), limits=lax)))
    full = (shared("QOS", "p_gpu", running=(1, 1)),)
    result = judged(live((job(5, 20),), limits=lax, limited_groups=full), gpus_per_node=8)
    assert result.verdict.kind == "can start now"
    assert judged(live(limited_groups=full), gpus_per_node=1).verdict.cause == "QOSGrpJobsLimit"


SAFE = dataclasses.replace(CONFIG, enforce=(*CONFIG.enforce, "safe"))
HALF = tuple(node(f"n{number}", 2) for number in range(1, 5))
SHARED = tuple(node(f"n{number}", 2, partitions=("gpu", "old")) for number in range(1, 5))
"""The same, in two partitions."""


@pytest.mark.parametrize(
    ("look", "asked", "words"),
    [
        # Jobs may be on the same node, which counts once.
        (
            {"limited_groups": (shared("QOS", "p_gpu", nodes=(2, 2)),)},
            {},
            "hold 2 of 2 nodes; on how many nodes together",
        ),
        (
            {"limited_groups": (shared("QOS", "p_gpu", billing=(9, 0)),)},
            {},
            "how much the job takes of GrpTRES billing=9",
        ),
        (
            {
                "limits": with_partition(max_time=-1),
                "limited_groups": (shared("QOS", "p_gpu", core_minutes=(600, 0)),),
            },
            {"time_limit": "UNLIMITED"},
            "how much the job takes of GrpTRES",
        ),
        (
            {"limits": with_partition(max_cores_per_node=16), "nodes": SHARED},
            {},
            "MaxCPUsPerNode); what is left is not known",
        ),
        ({"limits": with_partition(max_memory_mb_per_cpu=999)}, {}, "may be over 999 MB"),
    ],
)
def test_what_cannot_be_told_is_not_known(look: Any, asked: Any, words: str) -> None:
    said = judged(live(**look), gpus_per_node=1, **asked).verdict
    assert said.kind == "not known"
    assert words in said.words


@pytest.mark.parametrize(
    ("look", "kind"),
    [
        (shared("QOS", "p_gpu", nodes=(3, 2)), "can start now"),
        (shared("QOS", "p_gpu", spent=(600, 599, 9)), "can start now"),
        (shared("QOS", "p_gpu", spent=(600, 600)), "will wait"),
        (shared("QOS", "p_gpu", spent=(0, 0)), "refused"),
        (shared("account", "lab", wall=(600, 600)), "will wait"),
        (shared("account", "lab", wall=(0, 0)), "refused"),
        (shared("account", "lab", running=(0, 0)), "refused"),
    ],
)
def test_what_is_left_is_enough(look: LimitedGroup, kind: str) -> None:
    assert judged(live(limited_groups=(look,)), gpus_per_node=1).verdict.kind == kind


def test_what_a_job_takes_nothing_of_may_be_used_up() -> None:
    spent = Limit("GrpTRESMins", "gres/gpu", 0, "QOS", "p_gpu")
    look = live(limited_groups=(LimitedGroup("QOS", "p_gpu", "", "", (spent,)),))
    assert judged(look, gpus_per_node=1).verdict.kind == "refused"
    assert "NC501" not in codes(judged(look, partition="gpu"))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (with_more("MaxJobsPU 0"), "QOS p_gpu lets no job run (MaxJobsPU 0)"),
        (with_more("MaxSubmitPU 0"), "QOS p_gpu lets no job into the queue (MaxSubmitPU 0)"),
        (with_more("MaxTRESPU cpu=0"), "a user of QOS p_gpu may have 0"),
    ],
)
def test_where_no_job_may_run_none_waits_for_others(limits: ClusterFigures, words: str) -> None:
    result = judged(live(limits=limits), gpus_per_node=1)
    assert (result.verdict.kind, result.waits) == ("refused", ())
    assert words in result.verdict.words


def test_a_cluster_on_the_safe_side_starts_only_what_can_end() -> None:
    limits = dataclasses.replace(LIMITS, config=SAFE)
    for left, kind in ((60, "can start now"), (59, "not known")):
        held = shared("QOS", "p_gpu", spent=(100 + left, 70, 30))
        look = live(limits=limits, limited_groups=(held,))
        assert judged(look, gpus_per_node=1, cpus_per_task=1).verdict.kind == kind


def test_a_partition_of_whole_nodes_counts_all_that_they_have() -> None:
    whole = with_partition(whole="nodes")
    assert judged(live(limits=whole), gpus_per_node=1).verdict.kind == "can start now"
    busy = judged(live(limits=whole, nodes=HALF), gpus_per_node=1).verdict
    assert (busy.kind, busy.cause) == ("will wait", "Resources")
    # Beside 12 GPUs of at most 16 there is room for one more, but not for a node's eight.
    held = judged(live((job(1, 12),), limits=whole), gpus_per_node=1).verdict
    assert (held.kind, held.cause) == ("will wait", "QOSMaxGRESPerUser")


def test_more_than_a_whole_budget_never_starts_on_the_safe_side() -> None:
    budget = shared("QOS", "p_gpu", spent=(59, 0, 0))
    for config, found in ((SAFE, True), (CONFIG, False)):
        limits = dataclasses.replace(LIMITS, config=config)
        look = live(limits=limits, limited_groups=(budget,))
        judgement = judged(look, gpus_per_node=1, cpus_per_task=1)
        assert ("NC509" in codes(judgement)) == found
        assert judgement.verdict.kind == ("refused" if found else "can start now")


def test_without_the_database_nothing_is_stated_as_sure() -> None:
    half = dataclasses.replace(LIMITS, qos=None, associations=())
    verdict = judged(live(limits=half), gpus_per_node=1).verdict
    assert verdict.kind == "not known"
    assert "sacctmgr did not answer" in verdict.words


def test_slurms_cpus_count_where_a_core_has_two_threads() -> None:
    smt = tuple(node(f"n{n}", cores=128, threads=2) for n in (1, 2))
    look = live(limits=dataclasses.replace(LIMITS, nodes=smt))
    # The catalog's nodes have 64 cores.
    assert judged(look, cpus_per_task=128, gpus_per_node=1).verdict.kind == "can start now"
    assert "NC131" in codes(judged(look, cpus_per_task=129))


def test_two_tasks_may_share_a_core() -> None:
    """Slurm 22.05 runs 8 tasks of 3 CPUs on 3 nodes of 4 cores with two threads each."""
    smt = tuple(node(f"n{n}", cores=8, threads=2) for n in (1, 2, 3))
    look = live(limits=dataclasses.replace(LIMITS, nodes=smt))
    for tasks, kind in ((6, "can start now"), (8, "not known"), (11, "refused")):
        amounts = Amounts(ntasks=tasks, cpus_per_task=3)
        made = plan_of(cluster(), amounts=amounts, cpus_per_task=3, mem="1G")
        context = RuleContext(made, Catalog({"toy": made.cluster}, "toy", ()), batch_script=True)
        assert judge(context, look).verdict.kind == kind, tasks


def test_a_partition_that_takes_only_reserved_jobs() -> None:
    shut = live(limits=with_partition(needs_reservation=True))
    assert judged(shut, gpus_per_node=1).verdict.kind == "refused"
    assert judged(shut, gpus_per_node=1, reservation="course").verdict.kind == "not known"


def test_one_of_several_partitions_takes_only_reserved_jobs() -> None:
    """Slurm 22.05 with EnforcePartLimits=NO starts such a job in none of them."""
    shut = live(limits=with_partition(needs_reservation=True))
    assert judged(shut, partition="gpu,cpu").verdict.kind == "not known"


def test_limits_count_whole_cores() -> None:
    smt = tuple(node(f"n{n}", cores=128, threads=2) for n in (1, 2))
    limits = dataclasses.replace(with_more("MaxTRES cpu=9"), nodes=smt)
    for cores, kind in ((8, "can start now"), (11, "refused")):
        asked = judged(live(limits=limits), cpus_per_task=cores, gpus_per_node=1)
        assert asked.verdict.kind == kind
    memory = dataclasses.replace(
        LIMITS, nodes=tuple(dataclasses.replace(one, memory_mb=9000) for one in smt)
    )
    for cores, kind in ((8, "can start now"), (9, "refused")):  # 1000 MB for each CPU
        asked = judged(live(limits=memory), cpus_per_task=cores, gpus_per_node=1)
        assert asked.verdict.kind == kind


def test_a_rule_that_is_off_is_no_wait_either() -> None:
    where = cluster(policy(rules_off=("NC503",)))
    made = plan_of(where, gpus_per_node=8)
    context = RuleContext(made, Catalog({"toy": where}, "toy", ()))
    result = judge(context, live((job(5, 8), job(7, 4))))
    assert "NC503" not in codes(result)
    assert result.verdict.kind == "can start now"


def test_a_partition_that_slurm_does_not_have() -> None:
    result = judged(live(), partition="old")
    (found,) = (one for one in result.findings if one.code == "NC101")
    assert "is in the catalog, but the Slurm of toy does not have it" in found.message
    assert found.source.startswith("Slurm itself")


def test_the_wall_time_is_cited_from_where_it_stands() -> None:
    def found(limits: ClusterFigures) -> Tuple[str, str]:
        all_found = judged(live(limits=limits), time_limit="11").findings
        (one,) = (one for one in all_found if one.code == "NC141")
        said = one.message.partition("; batch jobs in gpu")[2].partition(":00: ")[0]
        return said, one.source.partition(", ")[0]

    qos = with_more("MaxWall 00:10:00")
    by_qos = " of QOS p_gpu may run at most 00:10"
    assert found(qos) == (by_qos, "Slurm itself: sacctmgr show qos p_gpu")
    mine = with_mine("MaxWall 00:05:00")
    said = " may run at most 00:05"
    assert found(mine) == (said, "Slurm itself: sacctmgr show associations")
    # Where a QOS has one, the association's does not count.
    both = dataclasses.replace(qos, associations=mine.associations)
    assert found(both)[0] == by_qos
    short = found(with_partition(max_time=60))
    assert short == (" may run at most 00:01", "Slurm itself: scontrol show partition gpu")


def test_what_is_left_of_an_accounts_limit() -> None:
    limits = with_more("MaxJobsPA 3")
    assert judged(live(limits=limits), gpus_per_node=1).verdict.kind == "not known"
    for used, kind in ((2, "can start now"), (3, "will wait")):
        limit = Limit("MaxJobsPA", "", 3, Scope.QOS, "p_gpu", used)
        account = LimitedGroup(Scope.QOS, "p_gpu", "", "", (limit,), "lab")
        look = live(limits=limits, limited_groups=(shared("QOS", "p_gpu"), account))
        verdict = judged(look, gpus_per_node=1).verdict
        assert verdict.kind == kind
    assert verdict.cause == "MaxJobsPerAccount"
    assert "your account in QOS p_gpu hold 3 of 3 jobs" in verdict.words


@pytest.mark.parametrize(
    ("kind", "used", "said"),
    [
        ("MaxTRESRunMinsPU", 30, "can start now"),
        ("MaxTRESRunMinsPU", 31, "you hold 31 of 50 core-minutes in QOS p_gpu; 20 more must wait"),
        ("MaxTRESRunMinsPA", 31, "jobs of your account in QOS p_gpu hold 31 of 50 core-minutes"),
    ],
)
def test_what_is_left_of_the_minutes_of_a_user_or_an_account(
    kind: str, used: int, said: str
) -> None:
    limit = Limit(kind, "cpu", 50, Scope.QOS, "p_gpu", used)
    whose = {"user": "kim"} if kind.endswith("U") else {"account": "lab"}
    groups = shared("QOS", "p_gpu"), LimitedGroup(Scope.QOS, "p_gpu", "", "", (limit,), **whose)
    look = live(limits=with_more(f"{kind} cpu=50"), limited_groups=groups)
    wanted = {"gpus_per_node": 1, "cpus_per_task": 2, "time_limit": "10"}
    verdict = judged(look, **wanted).verdict
    assert said in verdict.words or said == verdict.kind


@pytest.mark.parametrize(
    ("figures", "asked", "kind"),
    [
        # A limit on GPUs of a type is none on all GPUs.
        ("gres/gpu:a100=1", {"gpus_per_node": 1}, "can start now"),
        ("gres/gpu:v100=1", {"gpus_per_node": 2}, "can start now"),
        ("gres/gpu:a100=1", {"gpus_per_node": 2}, "not known"),
        ("gres/gpu:a100=1", {"gpus_per_node": 2, "gpu_type": "a100"}, "refused"),
        ("gres/gpu:a100=2", {"gpus_per_node": 2, "gpu_type": "a100"}, "can start now"),
        ("gres/gpu:a100=1,gres/gpu=1", {"gpus_per_node": 2}, "refused"),
        ("license/foo=1", {"gpus_per_node": 1}, "can start now"),
        ("license/foo=1", {"gpus_per_node": 1, "sbatch": ("licenses=foo",)}, "not known"),
        ("billing=9", {"gpus_per_node": 1}, "not known"),
    ],
)
@pytest.mark.parametrize("name", ["MaxTRES", "MaxTRESPU"])
def test_limits_on_what_few_sites_count(name: str, figures: str, asked: Any, kind: str) -> None:
    look = live(
        *((), with_more(f"{name} {figures}")),
        limited_groups=(shared("QOS", "p_gpu"),),
    )
    assert judged(look, **asked).verdict.kind == kind


def test_jobs_without_gpus_hold_none() -> None:
    held = {"tres": {"cpu": 4}, "gpus_per_node": None}
    bare = dataclasses.replace(job(1, **held), tres={"cpu": 4})
    assert judged(live((bare,)), gpus_per_node=8).verdict.kind == "can start now"


def test_a_limit_of_an_association_counts_the_jobs_under_that_one() -> None:
    """A user may have one for a partition, and another one for all others."""
    one = read_limits({"MaxJobsPU": "1"}, Scope.ASSOCIATION, "lab")
    everywhere, here = (
        dataclasses.replace(MINE, partition=name, limits=one) for name in ("", "gpu")
    )
    for own, partition, kind in (
        ((here,), "cpu", "can start now"),
        ((here,), "gpu", "will wait"),
        ((everywhere,), "cpu", "will wait"),
        ((everywhere, here), "cpu", "can start now"),
        ((everywhere, here), "gpu", "will wait"),
    ):
        limits = dataclasses.replace(LIMITS, associations=own, qos=(NORMAL,))
        said = judged(live((job(1, partition=partition),), limits), gpus_per_node=1).verdict
        assert said.kind == kind, (own, partition)


@pytest.mark.parametrize(
    ("private", "look", "words"),
    [
        ("reservations", {}, "reservations of others are not shown here"),
        ("usage", {}, "limits of accounts and what they hold"),
        ("jobs", {"nodes": HALF}, "jobs of others, which may wait"),
        ("jobs", {}, ""),
        ("usage", {"limited_groups": (shared("account", "lab"),)}, ""),
        ("cloud", {}, ""),
    ],
)
def test_what_slurm_hides_is_not_known(private: str, look: Any, words: str) -> None:
    config = parse_config(f"PrivateData             = {private},events\n")
    limits = dataclasses.replace(LIMITS, config=dataclasses.replace(CONFIG, private=config.private))
    said = judged(live(limits=limits, **look), gpus_per_node=1).verdict
    assert said.kind == ("not known" if words else "can start now")
    assert words in said.words


def test_a_resource_that_no_node_has() -> None:
    assert "NC113" in codes(judged(live(), gpus_per_node=1, gres=("nvme:1",)))


@pytest.mark.parametrize("name", ["shard", "mps"])
def test_all_parts_of_gpus_of_a_job_are_on_one(name: str) -> None:
    for used, held, number, kind in (
        (0, 0, 4, "can start now"),
        (0, 0, 5, "refused"),
        (7, 2, 2, "can start now"),
        (7, 2, 3, "will wait"),
        (6, 2, 4, "can start now"),
        (8, 0, 1, "will wait"),
    ):
        shards = ((name, 32, held),)
        have = live(nodes=tuple(node(f"n{n}", gpus_used=used, resources=shards) for n in (1, 2)))
        asked = judged(have, gres=(f"{name}:{number}",))
        assert asked.verdict.kind == kind, (used, held, number)
        assert "NC122" not in codes(asked)
    have = live(nodes=(node("n1", resources=((name, 32, 5),)),))
    for gpus, kind in ((6, "can start now"), (7, "will wait")):
        assert judged(have, gpus_per_node=gpus).verdict.kind == kind


def test_limits_of_an_association_are_those_that_slurmctld_holds() -> None:
    """The database may have one that it has not taken over."""
    told = "ClusterName=toy Account=lab UserName=kim(7) Partition= MaxJobs= "
    held = parse_groups(f"{told} MaxTRESPJ=cpu=9 MaxWallPJ=\n", "kim")
    assert [(one.kind, one.figure) for group in held for one in group.limits] == [("MaxTRES", 9)]
    limits = with_mine("MaxWall 00:05:00", "MaxTRES cpu=7")
    for groups, figures in ((held, [9]), ((), [300, 7])):
        nodes = judged(live(limits=limits, limited_groups=groups)).nodes
        assert nodes is not None
        mine = [one for one in nodes.on_cluster.limits if one.scope == Scope.ASSOCIATION]
        assert [one.figure for one in mine] == figures


def test_a_qos_lifts_limits_of_a_partition_and_multiplies_those_of_an_association() -> None:
    short = dataclasses.replace(PARTITION, max_time=60, max_nodes=1, qos="")
    limits = dataclasses.replace(with_mine("MaxTRES cpu=3"), partitions=(short, OTHER))
    flags = ("PartitionTimeLimit", "PartitionMaxNodes")
    for qos, expected in (
        (NORMAL, {"MaxTime": 60, "MaxNodes": 1, "MaxTRES": 3}),
        (dataclasses.replace(NORMAL, flags=flags, factor=1.5), {"MaxTRES": 4}),
    ):
        nodes = judged(live(limits=dataclasses.replace(limits, qos=(qos,)))).nodes
        assert nodes is not None
        assert {one.kind: one.figure for one in nodes.on_cluster.limits} == expected


def test_a_qos_that_allows_the_time_is_suggested() -> None:
    limits = read_limits({"MaxWall": "00:10:00"}, Scope.QOS, "fast")
    own = dataclasses.replace(MINE, qos=("fast", "long"), default_qos="fast")
    fast = dataclasses.replace(NORMAL, name="fast", limits=limits)
    both = (fast, dataclasses.replace(NORMAL, name="long"))
    cluster = dataclasses.replace(LIMITS, associations=(own,), qos=both)
    (found,) = (
        one for one in judged(live(limits=cluster), time_limit="11").findings if one.code == "NC141"
    )
    assert "jobs in gpu of QOS fast may run" in found.message
    assert found.hint == "request at most -t 00:10:00, or use -q long"


def test_gpus_of_two_types_on_a_node() -> None:
    types = (("a100", 4, 0), ("1g.5gb", 4, 4))
    look = live(nodes=tuple(node(f"n{n}", gpu_types=types) for n in (1, 2)))
    limits = dataclasses.replace(LIMITS, nodes=look.nodes)
    look = dataclasses.replace(look, figures=limits)
    for kind, expected in (("a100", "can start now"), ("1g.5gb", "will wait")):
        asked = judged(look, gpus_per_node=2, gpu_type=kind)
        assert asked.verdict.kind == expected
    wrong = judged(look, gpus_per_node=1, gpu_type="h100")
    (found,) = (one for one in wrong.findings if one.code == "NC123")
    assert "gpu has 'a100' and '1g.5gb'" in found.message
    assert found.hint == "request one of them, such as a100"
    assert "NC113" in codes(judged(look, gpus_per_node=5, gpu_type="a100"))
