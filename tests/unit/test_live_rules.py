"""Each rule of the live gate at its boundary."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Tuple

import pytest
from living import (
    ASK_ARRAY,
    BUSY,
    FULL,
    LIMITS,
    NEW,
    NODES,
    NOW,
    WAITING,
    codes,
    job,
    judged,
    live,
    node,
    reserved,
    shared,
    with_mine,
    with_more,
    with_partition,
)

from neuronctl.forecast.facts import Live
from neuronctl.rule_codes import CODES
from neuronctl.slurm.snapshot import Limits

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
        ["1 node of gpu has 1 GPU and", "2 are asked for"],
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
    assert found.severity == CODES[code].severity
    for word in words:
        assert word in found.message + found.hint
    assert code not in codes(judged(right, **instead))


def test_every_live_rule_has_a_case() -> None:
    assert {code for code in CODES if code > "NC5" or code == "NC103"} == {one[0] for one in CASES}
