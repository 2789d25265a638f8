"""The live gate: Slurm's answers read, laid over the catalog, and judged."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, List, Optional, Set, Tuple

import pytest
from making import cluster, plan_of, policy

from neuronctl.catalog.model import Catalog
from neuronctl.live import cache
from neuronctl.live.facts import Live
from neuronctl.live.gate import Judged, judge, one_line
from neuronctl.rules import RULES, Subject
from neuronctl.slurm import (
    Association,
    GroupLimit,
    JobId,
    Limits,
    MyJob,
    Qos,
    Reservation,
    Shared,
    SiteConfig,
    SiteNode,
    SitePartition,
)
from neuronctl.slurm.limits import parse_associations, parse_qos, parse_shared
from neuronctl.slurm.mine import parse_mine
from neuronctl.slurm.site import (
    parse_config,
    parse_nodes,
    parse_partitions,
    parse_reservations,
)

NOW = 1_800_000_000
PARTITION = SitePartition(
    "gpu", "UP", "n[1-4]", 4, 48 * 3600, 3600, None, "p_gpu", False, 1000, (), (), ()
)
OTHER = dataclasses.replace(PARTITION, name="cpu", qos="", node_list="c1", nodes=1)
QOS = Qos("p_gpu", (), 4, 3, 16, None, None)
NORMAL = Qos("normal", (), None, None, None, None, None)
MINE = Association("lab", "", None, None, ("normal",), "normal")
CONFIG = SiteConfig("toy", "22.05.8", 101, ("associations", "limits", "qos"), True)


def node(name: str, used: int = 0, **fields: Any) -> SiteNode:
    """A node of 64 cores and 8 GPUs, ``used`` of them."""
    return dataclasses.replace(
        SiteNode(name, "IDLE", ("gpu",), 64, used * 8, 512000, 0, 8, used, "a100", "x86_64", ()),
        **fields,
    )


NODES = tuple(node(f"n{number}") for number in range(1, 5))
LIMITS = Limits(CONFIG, (PARTITION, OTHER), NODES, (NORMAL, QOS), (MINE,))


def job(number: int, gpus: int = 0, state: str = "RUNNING", **fields: Any) -> MyJob:
    base = MyJob(JobId(number), ("gpu",), "lab", "normal", state, "", 1, gpus, NOW + number)
    return dataclasses.replace(base, **fields)


def live(jobs: Tuple[MyJob, ...] = (), limits: Limits = LIMITS, **fields: Any) -> Live:
    return dataclasses.replace(Live(limits, NOW, jobs, limits.nodes, {}, NOW), **fields)


def judged(look: Optional[Live], *, why_not: str = "", **request: Any) -> Judged:
    made = plan_of(cluster(), **request)
    catalog = Catalog({"toy": made.cluster}, "toy", (), {})
    return judge(Subject(made, catalog), look, why_not)


def with_partition(**fields: Any) -> Limits:
    changed = dataclasses.replace(PARTITION, **fields)
    return dataclasses.replace(LIMITS, partitions=(changed, OTHER))


def reserved(nodes: str, **fields: Any) -> Reservation:
    """All of these nodes, for the user lee, from an hour before NOW to an hour after it."""
    base = Reservation("course", NOW - 3600, NOW + 3600, nodes, None, (), ("lee",), ())
    return dataclasses.replace(base, **fields)


def with_more(*more: str) -> Limits:
    """Limits of the partition's QOS that are not of GPUs a user holds."""
    return dataclasses.replace(LIMITS, qos=(NORMAL, dataclasses.replace(QOS, more=more)))


def with_mine(*more: str, **fields: Any) -> Limits:
    return dataclasses.replace(
        LIMITS, associations=(dataclasses.replace(MINE, more=more, **fields),)
    )


# the limit, what is more, words of it, what just is not
SIZES: List[Tuple[Limits, Any, List[str], Any]] = [
    (
        with_more("MaxTRES cpu=8"),
        {"cpus_per_task": 9},
        ["9 cores are asked for, a job of QOS p_gpu may have 8", "never start it"],
        {"cpus_per_task": 8},
    ),
    (with_more("MaxTRES node=1"), {"nodes": 2}, ["2 nodes", "may have 1"], {"nodes": 1}),
    (
        with_more("MaxTRES mem=2G"),
        {"cpus_per_task": 3},
        ["3000 MB of memory", "2048"],
        {"cpus_per_task": 2},
    ),
    (
        with_more("MaxTRESPerNode gres/gpu=2"),
        {"gpus_per_node": 3, "nodes": 2},
        ["3 GPUs", "a job's node of QOS p_gpu may have 2"],
        {"gpus_per_node": 2, "nodes": 2},
    ),
    (
        with_more("MinTRES gres/gpu=4"),
        {"gpus_per_node": 1, "nodes": 3},
        ["3 GPUs are asked for, a job of QOS p_gpu must have 4"],
        {"gpus_per_node": 2, "nodes": 2},
    ),
    (
        with_more("MaxTRESPU cpu=8"),
        {"cpus_per_task": 9},
        ["a user of QOS p_gpu may have 8"],
        {"cpus_per_task": 8},
    ),
    (with_more("MaxTRESPA node=1"), {"nodes": 2}, ["an account of QOS"], {"nodes": 1}),
    (
        with_mine("MaxTRES gres/gpu=2"),
        {"gpus_per_node": 3},
        ["3 GPUs", "a job of account lab may have 2"],
        {"gpus_per_node": 2},
    ),
    (
        with_more("MaxTRESMins cpu=480"),  # 60 minutes are the partition's default
        {"cpus_per_task": 9},
        ["540 cores times minutes", "may have 480"],
        {"cpus_per_task": 8},
    ),
    (
        with_partition(max_cores_per_node=8),
        {"cpus_per_task": 9},
        ["9 cores a node", "at most 8 (MaxCPUsPerNode)"],
        {"cpus_per_task": 8},
    ),
    (
        with_partition(max_memory_mb_per_node=8000),
        {"cpus_per_task": 9},
        ["9000 MB of memory a node", "at most 8000 (MaxMemPerNode)"],
        {"cpus_per_task": 8},
    ),
    # A QOS's limit counts before the association's.
    (
        dataclasses.replace(
            with_more("MaxTRES cpu=9"), associations=with_mine("MaxTRES cpu=8").associations
        ),
        {"cpus_per_task": 10},
        ["may have 9"],
        {"cpus_per_task": 9},
    ),
]


def shared(kind: str, name: str, parent: str = "", **limits: Tuple[int, ...]) -> Shared:
    """Limits of a group, each with what is held of it."""
    found = []
    for key, figures in limits.items():
        found.append(GroupLimit(*GROUP[key], *figures))  # type: ignore[call-arg]
    return Shared(kind, name, parent, "", tuple(found))


GROUP = {
    "submit": ("GrpSubmitJobs", ""),
    "running": ("GrpJobs", ""),
    "gpus": ("GrpTRES", "gres/gpu"),
    "cores": ("GrpTRES", "cpu"),
    "nodes": ("GrpTRES", "node"),
    "memory": ("GrpTRES", "mem"),
    "billing": ("GrpTRES", "billing"),
    "core_minutes": ("GrpTRESRunMins", "cpu"),
    "memory_minutes": ("GrpTRESRunMins", "mem"),
    "spent": ("GrpTRESMins", "cpu"),
    "wall": ("GrpWall", ""),
}


FULL_LAB = shared("account", "lab", cores=(9, 9))
BUSY = tuple(job(number, 1) for number in (1, 2, 3))
FULL = tuple(node(f"n{number}", 8) for number in range(1, 5))
WAITING = job(9, state="PENDING", id=JobId(9, tasks="1-3"), count=3)
ASK_ARRAY = {"gpus_per_node": 1, "array": "0-100"}

NEW = dataclasses.replace(LIMITS, partitions=(PARTITION, dataclasses.replace(OTHER, name="new")))

# code, what Slurm says, the request, words of the finding, what just does not violate it
CASES: List[Tuple[str, Live, Any, List[str], Live, Any]] = [
    ("NC103", live(limits=NEW), {"partition": "new"}, ["'new'", "catalog diff"], live(), {}),
    ("NC501", live((*BUSY, job(4))), {}, ["4 of your jobs", "at most 4"], live(BUSY), {}),
    ("NC501", live((job(1), WAITING)), {}, ["4 of your jobs"], live((WAITING,)), {}),
    ("NC501", live((job(1),)), {"array": "1-4"}, ["array's 4 tasks", "3 more"], live(), {}),
    (
        "NC501",
        live(),
        {"array": "1-5%2"},
        ["in parts: an array of at most 4 tasks fits"],
        live(),
        {},
    ),
    ("NC501", live((job(1),)), {"array": "1-5"}, ["at most 4 tasks fits, of 3 now"], live(), {}),
    (
        "NC502",
        live(BUSY),
        {},
        ["3 of your jobs run, at most 3", "until job 1 ends, at most 00:00:01"],
        live(BUSY[:2]),
        {},
    ),
    (
        "NC503",
        live((job(5, 8), job(7, 4))),
        {"gpus_per_node": 8},
        ["you hold 12 of 16 GPUs; 8 more", "until job 5 ends, at most 00:00:05"],
        live((job(5, 8),)),
        {"gpus_per_node": 8},
    ),
    (
        "NC503",
        live((job(5, 8), job(7, 4))),
        {"gpus_per_node": 1, "exclusive": True},
        ["you hold 12 of 16 GPUs; 8 more"],
        live((job(5, 8), job(7, 4))),
        {"gpus_per_node": 1},
    ),
    (
        "NC504",
        live(nodes=(*FULL[:3], node("n4"))),
        {"gpus_per_node": 1, "nodes": 2},
        ["1 node of gpu has 1 GPUs", "2 are asked for"],
        live(nodes=(*FULL[:2], *NODES[2:])),
        {"gpus_per_node": 1, "nodes": 2},
    ),
    ("NC504", live(nodes=(node("n1", state="IDLE+DRAIN"),)), {}, ["no node"], live(), {}),
    ("NC505", live(limits=with_partition(state="DOWN")), {}, ["gpu is DOWN"], live(), {}),
    ("NC506", live(), {"sbatch": ("hold",)}, ["it is held"], live(), {}),
    (
        "NC506",
        live(job_states={7: "RUNNING"}),
        {"dependency": "afterok:7"},
        ["depends on job 7"],
        live(job_states={7: "COMPLETED"}),
        {"dependency": "afterok:7"},
    ),
    (
        "NC507",
        live(shared=(shared("QOS", "p_gpu", gpus=(8, 6)),)),
        {"gpus_per_node": 4},
        ["the QOS p_gpu hold 6 of 8 GPUs together; 4 more wait"],
        live(shared=(shared("QOS", "p_gpu", gpus=(8, 4)),)),
        {"gpus_per_node": 4},
    ),
    (
        "NC507",
        live(shared=(shared("account", "lab", "all"), shared("account", "all", running=(5, 5)))),
        {},
        ["the account all has 5 of at most 5 jobs running"],
        live(shared=(shared("account", "lab"), shared("account", "all", running=(5, 5)))),
        {},
    ),
    (
        "NC507",
        live(shared=(shared("account", "lab", memory=(9000, 5000)),)),
        {"cpus_per_task": 5},
        ["the account lab hold 5000 of 9000 MB of memory together; 5000 more wait"],
        live(shared=(shared("account", "lab", memory=(9000, 5000)),)),
        {"cpus_per_task": 4},
    ),
    (
        "NC507",
        live(shared=(shared("QOS", "p_gpu", core_minutes=(700, 300)),)),
        {"cpus_per_task": 7},
        ["hold 300 of 700 cores times minutes left together; 420 more wait"],
        live(shared=(shared("QOS", "p_gpu", core_minutes=(700, 300)),)),
        {"cpus_per_task": 6},
    ),
    # What a QOS limits, an account does not.
    (
        "NC507",
        live(
            shared=(shared("account", "lab", cores=(9, 9)), shared("QOS", "normal", nodes=(9, 0)))
        ),
        {"cpus_per_task": 1},
        ["the account lab hold 9 of 9 cores"],
        live(
            shared=(shared("account", "lab", cores=(9, 9)), shared("QOS", "normal", cores=(9, 0)))
        ),
        {"cpus_per_task": 1},
    ),
    (
        "NC508",
        live(shared=(shared("QOS", "p_gpu", nodes=(2, 0)),)),
        {"nodes": 3},
        ["hold 0 of 2 nodes together; 3 more would never start"],
        live(shared=(shared("QOS", "p_gpu", nodes=(2, 1)),)),
        {"nodes": 2},
    ),
    (
        "NC508",
        live(shared=(shared("QOS", "normal", submit=(9, 7)),)),
        {"array": "1-3"},
        ["the QOS normal has 7 of at most 9 jobs in the queue"],
        live(shared=(shared("QOS", "other", submit=(9, 9)),)),
        {},
    ),
    (
        "NC508",
        live(shared=(shared("user", "lab", cores=(63, 0)),)),
        {"cpus_per_task": 64},
        ["your association hold 0 of 63 cores", "never start"],
        live(shared=(shared("user", "lab", cores=(64, 0)),)),
        {"cpus_per_task": 64},
    ),
    *(
        ("NC509", live(limits=limits), wrong, words, live(limits=limits), right)
        for limits, wrong, words, right in SIZES
    ),
    (
        "NC510",
        live((job(1, cores=60),), with_more("MaxTRESPU cpu=64")),
        {"cpus_per_task": 5},
        ["you hold 60 of 64 cores in QOS p_gpu; 5 more will wait"],
        live((job(1, cores=60),), with_more("MaxTRESPU cpu=64")),
        {"cpus_per_task": 4},
    ),
    (
        "NC510",
        live((job(1, nodes=2),), with_more("MaxTRESPU node=3")),
        {"nodes": 2},
        ["you hold 2 of 3 nodes"],
        live((job(1, nodes=2),), with_more("MaxTRESPU node=3")),
        {},
    ),
    ("NC511", live(), {"array": "5,0-101:50%2"}, ["index 101 is over 100"], live(), ASK_ARRAY),
    (
        "NC512",
        live(),
        {"dependency": "afterany:7"},
        ["names job 7", "does not wait for it, however that job ended"],
        live(job_states={7: "COMPLETED"}),
        {"dependency": "afterany:7"},
    ),
    (
        "NC513",
        live(),
        {"sbatch": ("begin=rubbish",)},
        ["--begin=rubbish is no moment", "now+1hour, tomorrow, noon, 16:00"],
        live(),
        {"sbatch": ("begin=16:00",)},
    ),
    (
        "NC521",
        live(),
        {"qos": "fast"},
        ["no QOS 'fast'", "leave -q out, or take -q normal"],
        live(),
        {"qos": "normal"},
    ),
    (
        "NC521",
        live(limits=dataclasses.replace(LIMITS, associations=())),
        {"qos": "fast"},
        ["no QOS 'fast'", "take -q normal"],
        live(),
        {"qos": "normal"},
    ),
    (
        "NC521",
        live(limits=with_partition(deny_qos=("normal",))),
        {"qos": "fast"},
        ["no QOS 'fast'", "leave -q out, or take another partition"],
        live(),
        {"qos": "normal"},
    ),
    ("NC521", live(), {"qos": "p_gpu"}, ["not one you may use"], live(), {"qos": "NORMAL"}),
    ("NC522", live(), {"account": "x"}, ["not one of yours: lab"], live(), {"account": "lab"}),
    (
        "NC523",
        live(limits=with_partition(allow_accounts=("staff",))),
        {},
        ["account staff only", "is lab"],
        live(limits=with_partition(allow_accounts=("lab",))),
        {},
    ),
    (
        "NC523",
        live(limits=with_partition(deny_accounts=("LAB",))),
        {},
        ["does not take the account lab"],
        live(limits=with_partition(deny_accounts=("staff",), deny_qos=("x",))),
        {},
    ),
    (
        "NC523",
        live(limits=with_partition(deny_qos=("normal",))),
        {},
        ["does not take the QOS normal"],
        live(),
        {},
    ),
    (
        "NC524",
        live(),
        {"constraint": "hwperf"},
        ["feature 'hwperf'"],
        live(nodes=(node("n1", features=("hwperf",)),)),
        {"constraint": "hwperf"},
    ),
    (
        "NC525",
        live(),
        {"exclude": "n[1-3]", "nodes": 2},
        ["leaves 1 of the 4 nodes of gpu", "2 are asked for"],
        live(limits=dataclasses.replace(LIMITS, nodes=(*NODES, node("c1", partitions=("cpu",))))),
        {"exclude": "n[1-2],c1", "nodes": 2},
    ),
    (
        "NC525",
        live(),
        {"exclude": "n9"},
        ["Slurm knows no node n9", "n[1-4]"],
        live(),
        {"exclude": "n1"},
    ),
    (
        "NC528",
        live(limits=with_partition(submit_hosts="login[2-3]"), host="login1"),
        {},
        ["takes jobs from login[2-3] only", "this is login1"],
        live(limits=with_partition(submit_hosts="login[1-2]"), host="login1"),
        {},
    ),
    (
        "NC526",
        live(reservations=(reserved("n1"),)),
        {"reservation": "nosuch"},
        ["there is no reservation 'nosuch'", "there are: course"],
        live(),  # not told
        {"reservation": "nosuch"},
    ),
    (
        "NC526",
        live(user="kim", reservations=(reserved("n1", users=("lee", "park")),)),
        {"reservation": "course"},
        ["is for the user lee, park, and this job's is kim"],
        live(user="kim", reservations=(reserved("n1", users=("kim", "lee")),)),
        {"reservation": "course"},
    ),
    (
        "NC526",
        live(user="kim", reservations=(reserved("n1", users=(), accounts=("-lab",)),)),
        {"reservation": "course"},
        ["is for the account -lab, and this job's is lab"],
        live(user="kim", reservations=(reserved("n1", users=(), accounts=("-x",)),)),
        {"reservation": "course"},
    ),
    (
        "NC526",
        live(reservations=(reserved("n1", end=NOW),)),
        {"reservation": "course"},
        ["ended at"],
        live(reservations=(reserved("n1", end=NOW + 1),)),
        {"reservation": "course"},
    ),
    (
        "NC526",
        live(reservations=(reserved("n[1-2],c1", users=()),)),
        {"reservation": "course", "nodes": 3},
        ["has 2 of the nodes of gpu, and 3 are asked for"],
        live(reservations=(reserved("n[1-3],c1", users=()),)),
        {"reservation": "course", "nodes": 3},
    ),
    (
        "NC526",
        live(limits=with_partition(reserved_only=True)),
        {},
        ["takes only jobs of a reservation"],
        live(limits=with_partition(reserved_only=True)),
        {"reservation": "course"},
    ),
    (
        "NC527",
        live(limits=with_partition(min_nodes=2)),
        {},
        ["1 node is asked for", "at least 2"],
        live(limits=with_partition(min_nodes=2)),
        {"nodes": 2},
    ),
]


@pytest.mark.parametrize(
    ("code", "wrong", "asked", "words", "right", "instead"),
    CASES,
    ids=[f"{n}-{one[0]}" for n, one in enumerate(CASES)],
)
def test_each_rule_at_its_boundary(
    code: str, wrong: Live, asked: Any, words: List[str], right: Live, instead: Any
) -> None:
    (found,) = (one for one in judged(wrong, **asked).findings if one.code == code)
    assert found.severity == RULES[code].severity
    for word in words:
        assert word in found.message + found.hint
    assert code not in codes(judged(right, **instead))


def codes(result: Judged) -> Set[str]:
    return {one.code for one in result.findings}


def test_every_live_rule_has_a_case() -> None:
    assert {code for code in RULES if code > "NC5" or code == "NC103"} == {one[0] for one in CASES}


def test_without_slurm_they_are_silent_and_the_verdict_says_so() -> None:
    result = judged(None, why_not="squeue did not answer within 1.5 s", sbatch=("hold",))
    assert not {code for code in codes(result) if code > "NC5"}
    assert str(result.verdict) == (
        "not known: judged by the catalog alone: squeue did not answer within 1.5 s"
    )


def test_the_three_verdicts() -> None:
    start = judged(live(), gpus_per_node=8).verdict
    assert (start.kind, start.cause) == ("can start now", "")
    wait = judged(live((job(5, 8), job(7, 4))), gpus_per_node=8).verdict
    assert (wait.kind, wait.cause, wait.until) == ("will wait", "QOSMaxGRESPerUser", NOW + 5)
    no = judged(live((*BUSY, job(4)))).verdict
    assert (no.kind, no.cause) == ("refused", "NC501")


def test_jobs_that_wait_before_it_leave_the_time_open() -> None:
    first = job(9, 8, "PENDING", reason="QOSMaxGRESPerUser")
    verdict = judged(live((job(5, 16), first)), gpus_per_node=8).verdict
    assert verdict.until is None
    assert "until some of them end, when is not known: 1 of your jobs waits before" in verdict.words
    assert "at most" not in verdict.words


def test_a_job_that_slurm_has_not_looked_at_yet_takes_its_share_first() -> None:
    one, two = (job(number, 8, "PENDING", reason="", end=None) for number in (8, 9))
    late = dataclasses.replace(two, reason="Priority")
    for waiting in ((one, two), (one, late)):
        verdict = judged(live(waiting), gpus_per_node=8).verdict
        assert (verdict.kind, verdict.cause) == ("will wait", "QOSMaxGRESPerUser")
        assert "you hold 0 of 16 GPUs and 2 jobs from 8 on are about to take 16" in verdict.words
        assert verdict.until is None
    verdict = judged(live((*BUSY[:2], job(9, 1, "PENDING"))), gpus_per_node=1).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "QOSMaxJobsPerUserLimit")
    assert "2 of your jobs run and job 9 is about to start, at most 3 may" in verdict.words
    # What the limit of GPUs holds back is not about to start.
    verdict = judged(live((job(1, 8), job(2, 8), job(9, 8, "PENDING"))), gpus_per_node=1).verdict
    assert (verdict.cause, "about to" in verdict.words) == ("QOSMaxGRESPerUser", False)
    # With room for both, and no limit reached, it starts; with nodes for one only, who knows.
    assert judged(live((one,)), gpus_per_node=8).verdict.kind == "can start now"
    two_nodes = (*FULL[:3], node("n4"))
    verdict = judged(live((one,), nodes=two_nodes), gpus_per_node=8).verdict
    assert (verdict.kind, verdict.cause) == ("not known", "Resources")
    assert "job 8 was submitted before it and takes of that first" in verdict.words
    # One that has no room itself takes nothing; nor do those that wait for something else.
    assert judged(live((dataclasses.replace(one, nodes=5, gpus=40),))).verdict.kind == (
        "can start now"
    )
    held = dataclasses.replace(one, reason="JobHeldUser", count=2)
    assert judged(live((held,)), gpus_per_node=8).verdict.kind == "can start now"


def test_an_array_that_is_about_to_start_counts_as_far_as_it_may_run_at_once() -> None:
    array = job(9, 1, "PENDING", id=JobId(9, tasks="1-3%1"), count=3)
    assert judged(live((array,)), gpus_per_node=1).verdict.kind == "can start now"
    array = dataclasses.replace(array, id=JobId(9, tasks="1-3"))
    assert judged(live((array,)), gpus_per_node=1).verdict.cause == "QOSMaxJobsPerUserLimit"


def test_a_job_of_ones_own_that_waits_for_nodes_is_ahead() -> None:
    first = job(9, 8, "PENDING", reason="Resources", start=NOW + 3600)
    assert judged(live((first,)), gpus_per_node=1, time_limit="60").verdict.kind == "can start now"
    later = judged(live((first,)), gpus_per_node=1, time_limit="61").verdict
    assert (later.kind, later.cause) == ("not known", "Priority")
    assert "your job 9 waits for nodes before it" in later.words
    young = dataclasses.replace(first, reason="Priority", start=None)
    verdict = judged(live((young,)), gpus_per_node=1).verdict
    assert (verdict.kind, verdict.cause) == ("not known", "Priority")
    assert "your job 9 was submitted before it and has not started" in verdict.words
    elsewhere = dataclasses.replace(first, partitions=("cpu",))
    assert judged(live((elsewhere,)), gpus_per_node=1).verdict.kind == "can start now"


def test_nodes_that_ones_own_jobs_hold_are_free_when_those_end() -> None:
    mine = [job(n, 8, node_list=f"n{n}", cores=64) for n in (1, 2)]
    look = live(tuple(mine), nodes=(*FULL[:2], *(node(f"n{n}", 8) for n in (3, 4))))
    look = dataclasses.replace(look, limits=with_qos(max_gpus=None))
    one = judged(look, gpus_per_node=8).verdict
    assert (one.kind, one.cause, one.until) == ("will wait", "Resources", NOW + 1)
    assert one.words.endswith("it waits until job 1 ends, at most 00:00:01 from now")
    assert judged(look, gpus_per_node=8, nodes=2).verdict.until == NOW + 2
    others = judged(look, gpus_per_node=8, nodes=3).verdict  # two nodes are other users'
    assert (others.until, "when that ends is not known" in others.words) == (None, True)
    first = job(9, 8, "PENDING", reason="Resources", start=NOW + 1)
    behind = dataclasses.replace(look, jobs=(*mine, first))
    assert judged(behind, gpus_per_node=8).verdict.until is None
    # Of two jobs on a node, the memory of the first to end is not known.
    half = tuple(job(n, 4, node_list="n1", cores=32) for n in (1, 2))
    shared_node = node("n1", 8, memory_mb_used=512000)
    look = dataclasses.replace(look, jobs=half, nodes=(shared_node, *FULL[1:]))
    assert judged(look, gpus_per_node=4).verdict.until == NOW + 2


def test_the_gpus_of_whole_nodes_count_once_there_are_nodes() -> None:
    held = (job(5, 8), job(7, 4))
    asked: Any = {"gpus_per_node": 1, "exclusive": True}
    assert judged(live(held), **asked).verdict.cause == "QOSMaxGRESPerUser"
    verdict = judged(live(held, nodes=FULL), **asked).verdict
    assert (verdict.cause, "you hold 12 of 16 GPUs" in verdict.words) == ("Resources", True)
    reached = (job(5, 8), job(7, 8))
    assert judged(live(reached, nodes=FULL), **asked).verdict.cause == "QOSMaxGRESPerUser"


def with_qos(**fields: Any) -> Limits:
    return dataclasses.replace(LIMITS, qos=(NORMAL, dataclasses.replace(QOS, **fields)))


def test_slurms_own_figures_count_instead_of_the_catalogs() -> None:
    # The catalog has 24 GPUs a user and 3 nodes a job; Slurm says 16, and no such limit of nodes.
    (found,) = (
        one for one in judged(live(), nodes=4, gpus_per_node=8).findings if one.severity == "error"
    )
    assert (found.code, found.source[:12]) == ("NC124", "Slurm itself")
    assert "hold 16" in found.message
    smaller = dataclasses.replace(LIMITS, nodes=tuple(node(f"n{n}", gpus=4) for n in (1, 2)))
    assert "NC121" in codes(judged(live(limits=smaller), gpus_per_node=8))


def test_limits_that_slurm_does_not_enforce_are_the_catalogs() -> None:
    lax = dataclasses.replace(LIMITS, config=dataclasses.replace(CONFIG, enforce=()))
    assert "NC501" not in codes(judged(live((*BUSY, job(4)), limits=lax)))
    result = judged(live((job(5, 20),), limits=lax), gpus_per_node=8)
    assert "you hold 20 of 24 GPUs" in result.verdict.words


def test_shared_limits_are_read() -> None:
    text = (
        "ClusterName=toy Account=root UserName= Partition= ParentAccount= GrpJobs=30(2) "
        "GrpSubmitJobs=N(3) GrpWall=9(0.51) GrpTRES=cpu=N(0),mem=N(0),gres/gpu=20(1) "
        "GrpTRESMins=cpu=99(9),mem=N(1) GrpTRESRunMins=cpu=N(7),mem=50(4)\n"
        "ClusterName=toy Account=lab UserName=kim(1000) Partition=gpu ParentAccount= GrpJobs=N(0)\n"
        "ClusterName=toy Account=lab UserName=kimura(1001) Partition= GrpJobs=1(1)\n"
        "QOS=p_gpu(2) GrpJobs=N(0) GrpSubmitJobs=5(4) GrpTRES=cpu=20(7),gres/gpu=N(0) \n"
    )
    root, mine, qos = parse_shared(text, "kim")
    assert root == shared(
        "account",
        "root",
        running=(30, 2),
        wall=(9, 1),
        memory_minutes=(50, 4),
        spent=(99, 9, 7),
        gpus=(20, 1),
    )
    assert (mine.kind, mine.name, mine.partition, mine.limits) == ("user", "lab", "gpu", ())
    assert qos == shared("QOS", "p_gpu", submit=(5, 4), cores=(20, 7))


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        (shared("QOS", "p_gpu", running=(2, 0)), "can start now"),
        (shared("QOS", "p_gpu", running=(1, 0)), "not known"),
        (shared("QOS", "p_gpu", gpus=(3, 0)), "can start now"),
        (shared("account", "lab", gpus=(2, 0)), "not known"),
        (shared("QOS", "p_gpu", memory=(900_000, 0)), "not known"),
        (shared("QOS", "normal", running=(1, 0)), "not known"),
    ],
)
def test_a_job_submitted_a_moment_before_takes_of_a_shared_limit_first(
    limit: Shared, kind: str
) -> None:
    first = job(1, 2, state="PENDING")
    said = judged(live((first,), shared=(limit,)), gpus_per_node=1).verdict
    assert said.kind == kind
    assert ("your job 1 was submitted before it and takes of the Grp" in said.words) == (
        kind == "not known"
    )


SAFE = dataclasses.replace(CONFIG, enforce=(*CONFIG.enforce, "safe"))
HALF = tuple(node(f"n{number}", 2) for number in range(1, 5))


@pytest.mark.parametrize(
    ("look", "asked", "words"),
    [
        # Jobs may be on the same node, which counts once.
        ({"shared": (shared("QOS", "p_gpu", nodes=(2, 2)),)}, {}, "on 2 of at most 2 nodes"),
        ({"shared": (shared("QOS", "p_gpu", billing=(9, 0)),)}, {}, "0 of 9 billing (GrpTRES)"),
        ({"shared": (shared("QOS", "p_gpu", spent=(600, 600)),)}, {}, "used 600 of 600 cores"),
        ({"shared": (shared("account", "lab", wall=(600, 600)),)}, {}, "600 of 600 minutes"),
        (
            {"shared": (shared("QOS", "p_gpu", memory=(600, 0)),)},
            {"sbatch": ("mem-per-gpu=9",)},
            "how much of that the job takes is not known",
        ),
        (
            {
                "limits": with_partition(max_time=-1),
                "shared": (shared("QOS", "p_gpu", core_minutes=(600, 0)),),
            },
            {"time_limit": "UNLIMITED"},
            "how much of that the job takes is not known",
        ),
        (
            {
                "limits": dataclasses.replace(
                    with_more("MaxTRESMins cpu=9"),
                    partitions=with_partition(max_time=-1).partitions,
                )
            },
            {"time_limit": "UNLIMITED"},
            "QOS p_gpu limits MaxTRESMins cpu=9; what the job takes of that is not known",
        ),
        ({"limits": with_partition(whole="nodes")}, {}, "gives whole nodes"),
        (
            {"limits": with_partition(whole="user"), "nodes": HALF},
            {},
            "whose run there is not known",
        ),
        (
            {"limits": with_partition(max_cores_per_node=16), "nodes": HALF},
            {},
            "how many are left is not known",
        ),
        ({"limits": with_partition(max_memory_mb_per_cpu=999)}, {}, "may be over 999 MB"),
        (
            {"limits": with_partition(max_memory_mb_per_node=9, memory_mb_per_cpu=None)},
            {},
            "has MaxMemPerNode",
        ),
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
        (shared("QOS", "p_gpu", spent=(0, 0)), "not known"),
        (shared("account", "lab", wall=(600, 599)), "can start now"),
    ],
)
def test_what_is_left_is_enough(look: Shared, kind: str) -> None:
    assert judged(live(shared=(look,)), gpus_per_node=1).verdict.kind == kind


def test_a_cluster_on_the_safe_side_starts_only_what_can_end() -> None:
    limits = dataclasses.replace(LIMITS, config=SAFE)
    for left, kind in ((60, "can start now"), (59, "not known")):
        held = shared("QOS", "p_gpu", spent=(100 + left, 70, 30))
        look = live(limits=limits, shared=(held,))
        assert judged(look, gpus_per_node=1, cpus_per_task=1).verdict.kind == kind


def test_a_shared_limit_that_slurm_does_not_enforce_is_none() -> None:
    lax = dataclasses.replace(LIMITS, config=dataclasses.replace(CONFIG, enforce=()))
    full = (shared("QOS", "p_gpu", running=(1, 1)),)
    assert judged(live(shared=full), gpus_per_node=1).verdict.cause == "QOSGrpJobsLimit"
    assert "NC507" not in codes(judged(live(limits=lax, shared=full), gpus_per_node=1))


def test_without_the_database_nothing_is_stated_as_sure() -> None:
    half = dataclasses.replace(LIMITS, qos=None, associations=())
    verdict = judged(live(limits=half), gpus_per_node=1).verdict
    assert verdict.kind == "not known"
    assert "sacctmgr did not answer" in verdict.words
    # The catalog's own limit of 24 GPUs still tells what is surely too much.
    waits = judged(live((job(5, 20),), limits=half), gpus_per_node=8).verdict
    assert (waits.kind, waits.cause) == ("will wait", "")


def test_threads_are_no_cores() -> None:
    smt = tuple(node(f"n{n}", cores=128, threads=2) for n in (1, 2))
    look = live(limits=dataclasses.replace(LIMITS, nodes=smt))
    assert "NC131" in codes(judged(look, cpus_per_task=65))  # the catalog's nodes have 64


def test_a_rule_that_is_off_is_no_wait_either() -> None:
    where = cluster(policy(rules_off=("NC503",)))
    made = plan_of(where, gpus_per_node=8)
    catalog = Catalog({"toy": where}, "toy", (), {})
    result = judge(Subject(made, catalog), live((job(5, 8), job(7, 4))))
    assert "NC503" not in codes(result)
    assert result.verdict.kind == "can start now"


def test_a_partition_that_slurm_does_not_have() -> None:
    result = judged(live(), partition="old")
    (found,) = (one for one in result.findings if one.code == "NC101")
    assert "stands in the catalog, but the Slurm of toy does not have it" in found.message
    assert found.source.startswith("Slurm itself")


def test_singleton_waits_for_jobs_of_its_name() -> None:
    asked = {"gpus_per_node": 1, "dependency": "singleton", "job_name": "fold"}
    assert judged(live(), **asked).verdict.kind == "can start now"
    assert judged(live((job(1),)), **asked).verdict.kind == "not known"  # names were not told
    assert judged(live((job(1, name="other"),)), **asked).verdict.kind == "can start now"
    verdict = judged(live((job(1, name="other"), job(2, name="fold"))), **asked).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "Dependency")
    assert "your job 2 has its name" in verdict.words
    # What is certain comes before what is not known.
    verdict = judged(live(BUSY), **asked).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "QOSMaxJobsPerUserLimit")


STATES = {7: "FAILED", 8: "COMPLETED", 9: "RUNNING", 10: "PENDING"}


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        ("afterok:7", "will wait", "DependencyNeverSatisfied"),
        ("aftercorr:7,after:9", "will wait", "DependencyNeverSatisfied"),
        ("afternotok:8", "will wait", "DependencyNeverSatisfied"),
        ("afterok:8", "can start now", ""),
        ("afternotok:7", "can start now", ""),
        ("afterany:7:8", "can start now", ""),
        ("afterok:8:9", "will wait", "Dependency"),
        ("afterok:7?afterok:9", "will wait", "Dependency"),
        ("afterok:7?afterok:8", "can start now", ""),
        ("afterok:7?afternotok:8", "will wait", "DependencyNeverSatisfied"),
        ("after:9", "can start now", ""),
        ("after:10", "will wait", "Dependency"),
        ("after:9+5", "not known", ""),
        ("afterok:7_3", "not known", ""),
        ("9", "will wait", "Dependency"),
        ("afterok:11", "can start now", ""),
        ("afterok:11:9", "will wait", "Dependency"),
        ("afterok:11?afterok:9", "can start now", ""),
    ],
)
def test_dependencies(text: str, kind: str, cause: str) -> None:
    states = {one: STATES[one] for one in STATES if str(one) in text}
    verdict = judged(live(job_states=states), gpus_per_node=1, dependency=text).verdict
    assert (verdict.kind, verdict.cause) == (kind, cause)


def test_what_a_later_slurm_does_with_a_job_it_does_not_know_is_not_known() -> None:
    later = dataclasses.replace(CONFIG, version="24.11.5")
    look = live(limits=dataclasses.replace(LIMITS, config=later))
    result = judged(look, gpus_per_node=1, dependency="afterok:7")
    assert result.verdict.kind == "not known"
    assert "or wait for ever" in next(one for one in result.findings if one.code == "NC512").message


def test_a_dependency_that_cannot_be_met_is_told_with_its_job() -> None:
    verdict = judged(live(job_states={7: "FAILED"}), dependency="afterok:7").verdict
    assert verdict.words.startswith("for ever: --dependency=afterok:7 cannot be met, since job 7 ")
    # Tasks of an array have ids of their own; of them all, one state tells nothing.
    several = live(job_states={7: "FAILED", 6: "COMPLETED"})
    assert judged(several, dependency="afterok:7").verdict.kind == "not known"


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("nonsense=3", "not known"),
        ("time-min=5", "not known"),
        ("nice=-100", "not known"),
        ("nice=100", "can start now"),
        ("deadline=now+1hour", "not known"),
        ("open-mode=append", "can start now"),
        ("open-mode=both", "not known"),
        ("begin=elevenses", "not known"),
        ("begin=2020-01-01", "can start now"),
        ("begin=now", "can start now"),
        ("begin=2099-01-01T10:00", "will wait"),
        ("begin=now+1hour", "will wait"),
        ("begin=16:00", "will wait"),
        ("begin=tomorrow", "will wait"),
        ("hold", "will wait"),
    ],
)
def test_sbatch_options_that_are_not_understood_make_nothing_sure(option: str, kind: str) -> None:
    assert judged(live(), gpus_per_node=1, sbatch=(option,)).verdict.kind == kind
    if kind == "not known":
        # Slurm may refuse it, so that not even a limit makes the waiting sure.
        full = judged(live(BUSY), gpus_per_node=1, sbatch=(option,)).verdict
        assert (full.kind, option in full.words) == ("not known", True)


def test_a_moment_to_begin_at_is_told() -> None:
    verdict = judged(live(), gpus_per_node=1, sbatch=("begin=now+90minutes",)).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "BeginTime")
    assert verdict.until == NOW + 5400
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(NOW + 5400))
    assert f"it begins at {shown} (--begin=now+90minutes), 01:30:00 from now" in verdict.words
    # Slurm names what it depends on first.
    look = live(job_states={9: "RUNNING"})
    both = judged(look, sbatch=("begin=now+1hour",), dependency="afterok:9").verdict
    assert (both.cause, both.until) == ("Dependency", None)
    refused = judged(None, sbatch=("begin=25:00",)).verdict
    assert (refused.kind, refused.cause) == ("refused", "NC513")


def test_several_lines_of_slurms_become_one() -> None:
    several = "squeue cannot reach Slurm: res_nsearch error: Unknown host\nfetch_config: x\nno conf"
    assert one_line(several) == "squeue cannot reach Slurm: no conf"
    assert one_line("squeue did not answer") == "squeue did not answer"


def test_what_is_free_is_not_known_with_a_reservation() -> None:
    assert judged(live(), gpus_per_node=1, reservation="course").verdict.kind == "not known"


def test_the_wall_time_is_cited_from_where_it_stands() -> None:
    def found(limits: Limits) -> Tuple[str, str]:
        all_found = judged(live(limits=limits), time_limit="11").findings
        (one,) = (one for one in all_found if one.code == "NC141")
        return one.message.partition("may run ")[2][:8], one.source.partition(", ")[0]

    qos = with_qos(max_wall=600)
    assert found(qos) == ("00:10:00", "Slurm itself: sacctmgr show qos p_gpu")
    mine = with_mine(max_wall=300)
    assert found(mine) == ("00:05:00", "Slurm itself: sacctmgr show associations")
    # Where a QOS has one, the association's does not count.
    both = dataclasses.replace(qos, associations=mine.associations)
    assert found(both)[0] == "00:10:00"
    short = found(with_partition(max_time=60))
    assert short == ("00:01:00", "Slurm itself: scontrol show partition gpu")


def test_what_is_left_of_an_accounts_limit_is_not_known() -> None:
    look = live(limits=with_more("MaxJobsPA 3"))
    verdict = judged(look, gpus_per_node=1).verdict
    assert (verdict.kind, "MaxJobsPA 3" in verdict.words) == ("not known", True)
    lax = dataclasses.replace(look.limits, config=dataclasses.replace(CONFIG, enforce=()))
    assert judged(live(limits=lax), gpus_per_node=1).verdict.kind == "can start now"


def test_other_resources_than_gpus_are_not_followed() -> None:
    assert judged(live(), gpus_per_node=1, gres=("nvme:1",)).verdict.kind == "not known"


def test_maintenance_that_begins_before_the_end() -> None:
    upkeep = reserved("n[1-4]", start=NOW + 7200, end=NOW + 9000, flags=("MAINT",), name="upkeep")
    look = live(reservations=(upkeep,))
    assert judged(look, gpus_per_node=1, time_limit="2:00:00").verdict.kind == "can start now"
    verdict = judged(look, gpus_per_node=1, time_limit="2:01:00").verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "ReqNodeNotAvail")
    assert "no node of gpu can be had" in verdict.words
    assert "n[1-4] for maintenance from" in verdict.words
    assert "with -t 02:00:00 or less it can start now" in verdict.words
    # Where the nodes are full too, a shorter job would not start either.
    full = dataclasses.replace(look, nodes=FULL)
    verdict = judged(full, gpus_per_node=1, time_limit="2:01:00").verdict
    assert (verdict.until, "or less" in verdict.words) == (NOW + 9000, False)
    # One that wants to run for ever never ends before it.
    forever = dataclasses.replace(look, limits=with_partition(max_time=-1))
    assert judged(forever, gpus_per_node=1, time_limit="UNLIMITED").verdict.kind != "can start now"


def test_nodes_reserved_for_others_are_not_free() -> None:
    look = live(reservations=(reserved("n[1-3]"),))
    assert "1 node has room" in judged(look, gpus_per_node=1).verdict.words
    verdict = judged(look, gpus_per_node=1, nodes=2).verdict
    assert (verdict.cause, verdict.until) == ("ReqNodeNotAvail", NOW + 3600)
    assert "1 node of gpu can be had, and 2 are asked for; reserved are n[1-3] until" in (
        verdict.words
    )
    assert judged(look, gpus_per_node=1, nodes=2).findings[-1].source.endswith("show reservation")
    # Its own is not in the way; what is over, or on other nodes, is not either.
    assert judged(look, reservation="course").verdict.cause == ""
    elsewhere = live(reservations=(reserved("c[1-9]"), reserved("n[1-4]", end=NOW)))
    assert "4 nodes have room" in judged(elsewhere, gpus_per_node=1).verdict.words
    # Of some cores only it is not known how many are left for the job.
    part = live(reservations=(reserved("n[1-3]", cores=8),))
    assert judged(part, gpus_per_node=1).verdict.kind == "can start now"
    assert judged(part, gpus_per_node=1, nodes=2).verdict.kind == "not known"


def test_a_reservation_to_come_is_waited_for() -> None:
    look = live(reservations=(reserved("n1", start=NOW + 600),))
    verdict = judged(look, gpus_per_node=1, reservation="course").verdict
    assert (verdict.kind, verdict.cause, verdict.until) == ("will wait", "Reservation", NOW + 600)


def test_nodes_that_are_down_are_not_waited_for_as_for_jobs() -> None:
    look = live(nodes=(node("n1", state="DOWN"), node("n2", state="IDLE+DRAIN"), *NODES[2:]))
    assert judged(look, gpus_per_node=1, nodes=2).verdict.kind == "can start now"
    verdict = judged(look, gpus_per_node=1, nodes=3).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "ReqNodeNotAvail")
    assert "2 nodes of gpu can be had, and 3 are asked for; n[1-2] are DOWN, IDLE+DRAIN" in (
        verdict.words
    )
    named = judged(look, gpus_per_node=1, nodes=2, nodelist="n1").verdict
    assert (named.kind, named.cause) == ("will wait", "ReqNodeNotAvail")
    assert "not all of --nodelist=n1 can be had; n1 is DOWN" in named.words


def test_a_named_node_that_is_full_is_waited_for_though_others_are_free() -> None:
    look = live(nodes=(FULL[0], *NODES[1:]))
    verdict = judged(look, gpus_per_node=1, nodes=2, nodelist="n1").verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "Resources")
    assert "n1 (--nodelist) has no 1 GPUs and" in verdict.words
    assert judged(look, gpus_per_node=1, nodes=2, nodelist="n2").verdict.kind == "can start now"


@pytest.mark.parametrize("fields", [{"state": "INACTIVE"}, {"root_only": True}])
def test_a_partition_that_takes_no_jobs(fields: Any) -> None:
    assert "NC102" in codes(judged(live(limits=with_partition(**fields))))


def test_what_the_user_asked_for_is_named_before_the_partition() -> None:
    down = live(limits=with_partition(state="DOWN"))
    assert judged(down, sbatch=("hold",)).verdict.cause == "JobHeldUser"


# ------------------------------------------------------------------------- the answers


def test_reservations_are_read() -> None:
    (one,) = parse_reservations(
        "ReservationName=m2 StartTime=2026-08-12T09:30:00 EndTime=2026-08-12T10:30:00 "
        "Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=40 Features=(null) PartitionName=(null) "
        "Flags=MAINT,SPEC_NODES TRES=cpu=40 Users=-kim Groups=(null) Accounts=(null) State=ACTIVE\n"
        "No reservations in the system\n"
    )
    assert (one.name, one.end - one.start, one.node_list, one.cores) == ("m2", 3600, "n[1-2]", 40)
    assert (one.flags, one.users, one.accounts) == (("MAINT", "SPEC_NODES"), ("-kim",), ())


def test_squeue_rows() -> None:
    rows = (
        "4711_[1-5%2]\x1fgpu,old\x1flab\x1fnormal\x1fPENDING\x1fResources\x1f2\x1f"
        "cpu=1,gres/gpu=4\x1fgres:gpu:2\x1fN/A\x1f2026-08-12T09:30:00\x1f\x1f\n"
        "4712\x1fgpu\x1flab\x1fnormal\x1fRUNNING\x1fNone\x1f2\x1fcpu=1\x1fgres:gpu:2\x1f"
        "2026-08-12T09:30:00\x1fN/A\x1fn[1-2]\x1f\n"
    )
    first, second = parse_mine(rows)
    assert (first.count, first.gpus, first.partitions, first.end) == (5, 4, ("gpu", "old"), None)
    assert (second.gpus, second.reason, second.end) == (4, "", 1786527000)
    assert (second.nodes, second.node_list, second.name) == (2, "n[1-2]", None)
    (named,) = parse_mine(rows.splitlines()[1] + "my job\x1f\n")
    assert (named.node_list, named.name) == ("n[1-2]", "my job")


def test_ten_thousand_jobs_that_wait_are_one_row() -> None:
    rest = "|gpu|lab|normal|PENDING|JobHeldUser|1|cpu=1|N/A|N/A|N/A||\n".replace("|", "\x1f")
    (one,) = parse_mine("".join(f"{number}{rest}" for number in range(1, 10_001)))
    assert (one.id.job, one.count) == (1, 10_000)
    assert "10000 of your jobs are in the queue" in judged(live((one,))).verdict.words


@pytest.mark.parametrize("text", ["garbage\n", "1\x1f2\n", "x\x1f" * 12 + "\n"])
def test_a_row_of_another_shape_is_no_answer(text: str) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        parse_mine(text)
    assert type(caught.value).__name__ in ("ValueError", "UsageError")


def test_scontrol_and_sacctmgr_rows() -> None:
    config = parse_config(
        "scontrol: show config\nMaxArraySize            = 1001\nClusterName             = Toy\n"
        "AccountingStorageEnforce = associations,limits\nSelectTypeParameters    = CR_CORE_MEMORY\n"
    )
    assert (config.cluster, config.max_array_size, config.memory_counts) == ("toy", 1001, True)
    (part,) = parse_partitions(
        "PartitionName=gpu AllowGroups=ALL AllowAccounts=a,b QoS=N/A DefaultTime=NONE "
        "MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=(null) State=UP TotalNodes=0 Default=YES\n"
    )
    assert (part.qos, part.max_nodes, part.max_time, part.node_list) == ("", None, -1, "")
    assert (part.allow_groups, part.allow_accounts, part.default) == ((), ("a", "b"), True)
    assert (part.submit_hosts, part.max_cores_per_node, part.whole) == ("", None, "")
    (part,) = parse_partitions(
        "PartitionName=gpu AllocNodes=login[1-2] MaxCPUsPerNode=15 MaxMemPerCPU=10 "
        "MaxMemPerNode=100 ExclusiveUser=YES OverSubscribe=NO\n"
    )
    assert (part.submit_hosts, part.max_cores_per_node, part.whole) == ("login[1-2]", 15, "user")
    assert (part.max_memory_mb_per_node, part.max_memory_mb_per_cpu) == (100, 10)
    (one,) = parse_nodes(
        "NodeName=n1 CPUAlloc=8 CPUTot=64 Gres=gpu:a100:8(S:0-1) GresUsed=gpu:a100:3(IDX:0-2) "
        "RealMemory=1000 AllocMem=10 State=MIXED Partitions=gpu,old  Reason=State=x\n"
    )
    assert (one.gpus, one.gpus_used, one.gpu, one.cores_used, one.state) == (
        8,
        3,
        "a100",
        8,
        "MIXED",
    )
    (qos,) = parse_qos(
        "sacctmgr: show qos\n"
        "p||10|4|cpu=1,gres/gpu=8||1-00:00:00||gres/gpu=2|node=4|3||cpu=60\nx|y\n"
    )
    assert (qos.max_submit_jobs, qos.max_running_jobs, qos.max_gpus) == (10, 4, 8)
    assert (qos.max_gpus_per_job, qos.max_wall) == (None, 86400)
    assert qos.more == (
        "MaxTRESPU cpu=1",
        "MaxTRESPU gres/gpu=8",
        "MinTRES gres/gpu=2",
        "MaxTRESPA node=4",
        "MaxJobsPA 3",
        "MaxTRESMins cpu=60",
    )
    (mine,) = parse_associations("lab|||5|normal,fast|normal|00:05:00|cpu=7||node=9\n")
    assert (mine.max_running_jobs, mine.qos) == (5, ("normal", "fast"))
    assert (mine.max_wall, mine.more) == (300, ("MaxTRES cpu=7", "MaxTRESMins node=9"))


# ---------------------------------------------------------------------------- the cache


def test_limits_are_kept_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.read("key") is None
    cache.write("key", LIMITS, NOW)
    assert cache.read("key", now=NOW + 3599) == (LIMITS, NOW)
    assert cache.read("key", now=NOW + 3600) is None
    assert cache.read("key", now=NOW - 1) is None
    assert cache.read("another", now=NOW) is None
    some = dataclasses.replace(LIMITS, shared=(shared("QOS", "p_gpu", spent=(9, 1, 2)),))
    cache.write("some", some, NOW)
    assert cache.read("some", now=NOW) == (some, NOW)
    # As it was written before there was such a field.
    older = cache.file_of("some").read_text().replace(', "whole": ""', "")
    cache.file_of("some").write_text(older)
    assert cache.read("some", now=NOW) is None
    assert cache.file_of("key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"made_from": "key", "at": "x"}'])
def test_a_damaged_file_is_no_answer(text: str) -> None:
    cache.write("key", LIMITS, NOW)
    cache.file_of("key").write_text(text)
    assert cache.read("key", now=NOW) is None


def test_a_cache_that_cannot_be_written_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.write("key", LIMITS, NOW)
    assert cache.read("key", now=NOW) is None
