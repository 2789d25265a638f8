"""Each rule of the live gate at its boundary."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Tuple

import pytest
from slurm_answers import (
    BUSY,
    FULL,
    LIMITS,
    MINE,
    NEW,
    NODES,
    WAITING,
    codes,
    job,
    judged,
    live,
    node,
    reserved,
    shared,
    with_accounts,
    with_mine,
    with_more,
    with_partition,
)

from neuronctl.common.rule_codes import CODES
from neuronctl.judgement.rule_pages import every_rule
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.slurm.figures import ClusterFigures

# the limit, what is more, words of it, what just is not
SIZES: List[Tuple[ClusterFigures, Any, List[str], Any]] = [
    (with_more("MaxTRES cpu=8"), {"cpus_per_task": 9},
     ["requested 9 cores; a job in QOS p_gpu may have 8", "never start it"], {"cpus_per_task": 8}),
    (with_more("MaxTRES mem=2G"), {"cpus_per_task": 3}, ["3000 MB of memory", "2048"],
     {"cpus_per_task": 2}),
    (with_more("MaxTRESPerNode gres/gpu=2"), {"gpus_per_node": 3, "nodes": 2},
     ["3 GPUs", "per node; a job in QOS p_gpu may have 2 per node"],
     {"gpus_per_node": 2, "nodes": 2}),
    (with_more("MinTRES gres/gpu=4"), {"gpus_per_node": 1, "nodes": 3},
     ["requested 3 GPUs; a job in QOS p_gpu must have at least 4"],
     {"gpus_per_node": 2, "nodes": 2}),
    (with_more("MaxTRESPA node=1"), {"nodes": 2}, ["an account in QOS"], {"nodes": 1}),
    (with_mine("MaxTRES gres/gpu=2"), {"gpus_per_node": 3},
     ["3 GPUs", "a job in your association may have 2"], {"gpus_per_node": 2}),
    (
        with_more("MaxTRESMins cpu=480"),  # 60 minutes are the partition's default
        {"cpus_per_task": 9},
        ["540 core-minutes", "may have 480"],
        {"cpus_per_task": 8},
    ),
    (with_partition(max_cores_per_node=8), {"cpus_per_task": 9},
     ["9 cores per node", "may have 8 per node (MaxCPUsPerNode)"], {"cpus_per_task": 8}),
    # A QOS's limit counts before the association's.
    (
        dataclasses.replace(
            with_more("MaxTRES cpu=9"), associations=with_mine("MaxTRES cpu=8").associations
        ),
        {"cpus_per_task": 10},
        ["may have 9"],
        {"cpus_per_task": 9},
    ),
]  # fmt: skip


LAB, ALL = shared("account", "lab", cores=(9, 9)), shared("account", "all", running=(5, 5))

# code, what Slurm says, the request, words of the finding, what just does not violate it
TEN = dataclasses.replace(
    with_more("MaxSubmitPU 100"), config=dataclasses.replace(LIMITS.config, max_array_size=10)
)
NO_DEFAULT = dataclasses.replace(
    LIMITS, associations=(dataclasses.replace(MINE, qos=("hi", "lo"), default_qos=""),)
)
CASES: List[Tuple[str, Snapshot, Any, List[str], Snapshot, Any]] = [
    ("NC103", live(limits=NEW), {"partition": "new"}, ["'new'", "catalog import"], live(), {}),
    ("NC113", live(nodes=tuple(dataclasses.replace(one, memory_mb=8000) for one in NODES)),
     {"gpus_per_node": 1, "cpus_per_task": 9},
     ["no node of gpu has 1 GPU, 9 cores and 9000 MB of memory, even if nothing runs there"],
     live(), {"gpus_per_node": 1, "cpus_per_task": 9}),
    ("NC113", live(), {"sbatch": ("nodes=0",)}, ["--nodes=0"], live(), {"nodes": 1}),
    ("NC514", live(), {"account": "x"}, ["no account 'x'", "your accounts: lab"], live(), {}),
    ("NC514", live(), {"qos": "x"}, ["QOS x", "its QOS: normal"], live(), {"qos": "NORMAL"}),
    ("NC514", live(limits=NO_DEFAULT), {}, ["takes QOS normal", "name one with -q: hi, lo"],
     live(limits=NO_DEFAULT), {"qos": "hi"}),
    ("NC514",
     live(reservations=(reserved("n1", allowed=("Users=lee", "Groups=kim")),), user="kim"),
     {"reservation": "course"}, ["reservation course is for lee, kim"],
     live(reservations=(reserved("n1", allowed=("Users=lee", "Users=kim")),), user="kim"),
     {"reservation": "course"}),
    ("NC514", live(reservations=(reserved("n1"),)), {"reservation": "nosuch"},
     ["there is no reservation 'nosuch'", "here: course"], live(reservations=(reserved("n1"),)),
     {"reservation": "course"}),
    ("NC515", live(limits=TEN), {"array": "1-10"}, ["has index 10", "is 9"], live(), {}),
    ("NC515", live(limits=TEN), {"array": "0-10:4"}, ["10"], live(limits=TEN), {"array": "0-9"}),
    ("NC501", live((*BUSY, job(4))), {}, ["you have 4 jobs", "may have 4"], live(BUSY), {}),
    ("NC501", live((job(1), WAITING)), {}, ["you have 4 jobs"], live((WAITING,)), {}),
    ("NC501", live((job(1),)), {"array": "1-4"}, ["4 more would be", "3 more now"], live(), {}),
    ("NC501", live(), {"array": "1-5%2"},
     ["split it: 4 tasks may be in the queue, 4 more now; or", "help sweeps"], live(), {}),
    ("NC502", live(BUSY), {},
     ["you hold 3 of 3 jobs in QOS p_gpu; 1 more", "job 1 ends, in at most 00:00:01"],
     live(BUSY[:2]), {}),
    ("NC503", live((job(5, 8), job(7, 4))), {"gpus_per_node": 8},
     ["you hold 12 of 16 GPUs in QOS p_gpu; 8 more", "until job 5 ends, in at most 00:00:05"],
     live((job(5, 8),)), {"gpus_per_node": 8}),
    ("NC503", live((job(5, 8), job(7, 4))), {"gpus_per_node": 1, "exclusive": True},
     ["you hold 12 of 16 GPUs in QOS p_gpu; 8 more"], live((job(5, 8), job(7, 4))),
     {"gpus_per_node": 1}),
    ("NC504", live(nodes=(*FULL[:3], node("n4"))), {"gpus_per_node": 1, "nodes": 2},
     ["1 node of gpu has 1 GPU and", "requested 2"], live(nodes=(*FULL[:2], *NODES[2:])),
     {"gpus_per_node": 1, "nodes": 2}),
    ("NC504", live(nodes=(node("n1", state="IDLE+DRAIN"),)), {}, ["no node"], live(), {}),
    ("NC505", live(limits=with_partition(state="DOWN")), {}, ["gpu is DOWN"], live(), {}),
    ("NC506", live(), {"sbatch": ("hold",)}, ["it is held"], live(), {}),
    ("NC506", live(job_states={7: "RUNNING"}), {"dependency": "afterok:7"}, ["depends on job 7"],
     live(job_states={7: "COMPLETED"}), {"dependency": "afterok:7"}),
    ("NC507", live(limited_groups=(shared("QOS", "p_gpu", gpus=(8, 6)),)), {"gpus_per_node": 4},
     ["QOS p_gpu hold 6 of 8 GPUs, counting all its users; 4 more"],
     live(limited_groups=(shared("QOS", "p_gpu", gpus=(8, 4)),)), {"gpus_per_node": 4}),
    ("NC507", live(limited_groups=(shared("account", "lab", "all"), ALL)), {},
     ["account all hold 5 of 5 jobs"],
     live(limited_groups=(shared("account", "lab"), ALL)), {}),
    ("NC507", live(limited_groups=(shared("QOS", "p_gpu", core_minutes=(700, 300)),)),
     {"cpus_per_task": 7}, ["hold 300 of 700 core-minutes, counting all", "420 more"],
     live(limited_groups=(shared("QOS", "p_gpu", core_minutes=(700, 300)),)),
     {"cpus_per_task": 6}),
    # What a QOS limits, an account does not.
    ("NC507", live(limited_groups=(LAB, shared("QOS", "normal", nodes=(9, 0)))),
     {"cpus_per_task": 1}, ["jobs of account lab hold 9 of 9 cores"],
     live(limited_groups=(LAB, shared("QOS", "normal", cores=(9, 0)))), {"cpus_per_task": 1}),
    *(
        ("NC509", live(limits=limits), wrong, words, live(limits=limits), right)
        for limits, wrong, words, right in SIZES
    ),
    ("NC512", live(), {"dependency": "afterany:7"}, ["names job 7", "does not wait for that one"],
     live(job_states={7: "COMPLETED"}), {"dependency": "afterany:7"}),
    ("NC509", live(limited_groups=(shared("QOS", "p_gpu", nodes=(2, 0)),)), {"nodes": 3},
     ["requested 3 nodes; all jobs of QOS p_gpu may have 2 (GrpTRES)", "never start"],
     live(limited_groups=(shared("QOS", "p_gpu", nodes=(2, 0)),)), {"nodes": 2}),
    ("NC501", live(limited_groups=(shared("QOS", "normal", submit=(9, 7)),)), {"array": "1-3"},
     ["QOS normal has 7 jobs in the queue and may have 9, counting all its users; 3"],
     live(limited_groups=(shared("QOS", "other", submit=(9, 9)),)), {}),
    *(
        ("NC102", live(limits=limits), {}, ["closed to your groups, account, or QOS"], live(), {})
        for limits in (
            with_partition(allow_accounts=("staff",)),
            with_partition(deny_accounts=("lab",)),
            with_partition(allow_groups=("lee",)),
            with_partition(state="INACTIVE"),
            with_partition(root_only=True),
            with_accounts(dataclasses.replace(MINE, partition="cpu")),
        )
    ),
    ("NC534", live(), {"bad_nodes": ["n2", "elsewhere"], "exclude": "n4"},
     ["n2 failed in your jobs", "(job 7): no GPU", "-x n4,n2,"], live(),
     {"bad_nodes": ["n2", "elsewhere"], "exclude": "n2"}),
    ("NC534", live(), {"bad_nodes": ["n2"]}, ["--avoid-bad-nodes"], live(),
     {"bad_nodes": ["n2"], "nodelist": "n1"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "wrong", "asked", "words", "right", "instead"),
    CASES,
    ids=[f"{n}-{one[0]}" for n, one in enumerate(CASES)],
)
def test_each_rule_at_its_boundary(
    code: str, wrong: Snapshot, asked: Any, words: List[str], right: Snapshot, instead: Any
) -> None:
    (found,) = (one for one in judged(wrong, **asked).findings if one.code == code)
    assert found.severity == every_rule()[code].severity
    for word in words:
        assert word in found.message + found.hint
    assert code not in codes(judged(right, **instead))


def test_every_live_rule_has_a_case() -> None:
    others = ("NC102", "NC103", "NC113")
    live = {code for code in CODES if "NC5" < code < "NC6" or code in others}
    assert live == {one[0] for one in CASES}


@pytest.mark.parametrize("request_", [{}, {"nodes": 2, "gpus_per_node": 1}, {"nodelist": "n1"}])
def test_no_wait_for_nodes_of_a_partition_that_does_not_exist(request_: Any) -> None:
    assert codes(judged(live(), partition="nosuch", **request_)) == {"NC101"}
