"""Refused, will wait, can start now or not known: what is said, and until when."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Tuple

import pytest
from slurm_answers import (
    BUSY,
    FULL,
    LIMITS,
    NODES,
    NOW,
    OTHER,
    PARTITION,
    codes,
    job,
    judged,
    live,
    node,
    reserved,
    with_partition,
)

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.judgement.verdict import Verdict


def test_without_slurm_they_are_silent_and_the_verdict_says_so() -> None:
    result = judged(None, unasked_because="squeue did not answer within 1.5 s", sbatch=("hold",))
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
    assert (
        "until some of your jobs end; when is not known: 1 other job of yours is ahead"
        in verdict.words
    )
    assert "at most" not in verdict.words


def test_a_job_of_ones_own_that_waits_for_nodes_is_ahead() -> None:
    first = job(9, 8, "PENDING", reason="Resources", start=NOW + 3600)
    assert judged(live((first,)), gpus_per_node=1, time_limit="60").verdict.kind == "can start now"
    later = judged(live((first,)), gpus_per_node=1, time_limit="61").verdict
    assert (later.kind, later.cause) == ("not known", "Priority")
    assert "your job 9 waits before it" in later.words
    young = dataclasses.replace(first, reason="Priority", start=None)
    verdict = judged(live((young,)), gpus_per_node=1).verdict
    assert (verdict.kind, verdict.cause) == ("not known", "Priority")
    assert "your job 9 waits before it" in verdict.words
    held_back = dataclasses.replace(first, reason="ReqNodeNotAvail, May be reserved for other job")
    verdict = judged(live((held_back,)), gpus_per_node=1, time_limit="61").verdict
    assert (verdict.kind, verdict.cause) == ("not known", "Priority")
    elsewhere = dataclasses.replace(first, partition="cpu")
    assert judged(live((elsewhere,)), gpus_per_node=1).verdict.kind == "can start now"


def test_several_lines_of_slurms_become_one() -> None:
    told = "res_nsearch error: Unknown host\nfetch_config: x\nno conf"
    several = SlurmUnavailableError("squeue cannot reach Slurm", said=told)
    assert several.short == "squeue cannot reach Slurm: no conf"
    assert SlurmUnavailableError("squeue did not answer").short == "squeue did not answer"


def test_maintenance_that_begins_before_the_end() -> None:
    upkeep = reserved("n[1-4]", start=NOW + 7200, end=NOW + 9000, flags=("MAINT",), name="upkeep")
    look = live(reservations=(upkeep,))
    assert judged(look, gpus_per_node=1, time_limit="2:00:00").verdict.kind == "can start now"
    verdict = judged(look, gpus_per_node=1, time_limit="2:01:00").verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "ReqNodeNotAvail")
    assert "no node of gpu is available" in verdict.words
    assert "n[1-4] for maintenance from" in verdict.words
    assert "with -t 02:00:00 or less it can start now" in verdict.words
    # Where the nodes are full too, a shorter job would not start either.
    full = dataclasses.replace(look, nodes=FULL)
    verdict = judged(full, gpus_per_node=1, time_limit="2:01:00").verdict
    assert (verdict.until, "or less" in verdict.words) == (NOW + 9000, False)
    # One that wants to run for ever never ends before it.
    forever = dataclasses.replace(look, figures=with_partition(max_time=-1))
    assert judged(forever, gpus_per_node=1, time_limit="UNLIMITED").verdict.kind != "can start now"


def test_a_job_between_the_nodes_of_a_magnetic_reservation_and_others() -> None:
    for allowed, kind in (
        (("Users=kim",), "not known"),
        (("Groups=staff",), "not known"),
        (("Accounts=lab",), "not known"),
        (("Users=-lee",), "not known"),
        (("Users=lee", "Groups=kim", "Accounts=physics"), "will wait"),
    ):
        magnet = reserved("n[1-3]", flags=("MAGNETIC",), allowed=allowed)
        look = live(user="kim", groups=("staff",), reservations=(magnet,))
        verdict = judged(look, gpus_per_node=1, nodes=2, nodelist="n3,n4").verdict
        assert verdict.kind == kind, allowed
        assert "reservation course" in verdict.words or kind == "will wait"


def test_nodes_reserved_for_others_are_not_free() -> None:
    look = live(reservations=(reserved("n[1-3]"),))
    assert "1 node has room" in judged(look, gpus_per_node=1).verdict.words
    verdict = judged(look, gpus_per_node=1, nodes=2).verdict
    assert (verdict.cause, verdict.until) == ("ReqNodeNotAvail", NOW + 3600)
    assert "1 node of gpu is available; requested 2; reserved: n[1-3] until" in (verdict.words)
    assert judged(look, gpus_per_node=1, nodes=2).findings[-1].source.endswith("show reservation")
    # Its own is not in the way; what is over, or on other nodes, is not either.
    assert judged(look, reservation="course").verdict.cause == ""
    elsewhere = live(reservations=(reserved("c[1-9]"), reserved("n[1-4]", end=NOW)))
    assert "4 nodes have room" in judged(elsewhere, gpus_per_node=1).verdict.words
    # Of some cores only it is not known which they are, but there are no more of them on a node.
    part = live(reservations=(reserved("n[1-3]", cores=60),))
    assert judged(part, gpus_per_node=1, cpus_per_task=5).verdict.kind == "can start now"
    wide = judged(part, gpus_per_node=1, cpus_per_task=5, nodes=2).verdict
    assert (wide.kind, "by a reservation" in wide.words) == ("not known", True)
    # The nodes' own states count only where Slurm does not tell the reservations.
    marked = tuple(node(f"n{number}", state="IDLE+RESERVED") for number in range(1, 5))
    assert judged(live(nodes=marked), gpus_per_node=1).verdict.cause == "ReqNodeNotAvail"


@pytest.mark.parametrize(
    ("flags", "start", "verdict"),
    [
        (("FLEX",), 600, ("not known", "", None)),
        ((), 600, ("will wait", "Reservation", NOW + 600)),
        ((), 0, ("can start now", "", None)),
    ],
)
def test_nodes_of_the_jobs_own_reservation(
    flags: Tuple[str, ...], start: int, verdict: Tuple[Any, ...]
) -> None:
    look = live(reservations=(reserved("n1", flags=flags, start=NOW + start),))
    told = judged(look, gpus_per_node=1, reservation="course").verdict
    assert (told.kind, told.cause, told.until) == verdict
    # It waits for nothing if Slurm refuses it.
    odd = judged(look, gpus_per_node=1, reservation="course", constraint="[a*2]").verdict
    assert odd.kind == "not known"


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("IDLE+CLOUD+POWERED_DOWN", "can start now"),
        ("IDLE+CLOUD+POWERING_UP", "can start now"),
        ("IDLE+POWERING_DOWN", "will wait"),
        ("IDLE*+CLOUD", "will wait"),
        ("MIXED+REBOOT_ISSUED", "will wait"),
    ],
)
def test_nodes_that_slurm_boots_for_a_job(state: str, kind: str) -> None:
    look = live(nodes=tuple(dataclasses.replace(each, state=state) for each in NODES))
    assert judged(look, gpus_per_node=1).verdict.kind == kind


def test_nodes_that_are_down_are_not_waited_for_as_for_jobs() -> None:
    look = live(nodes=(node("n1", state="DOWN"), node("n2", state="IDLE+DRAIN"), *NODES[2:]))
    assert judged(look, gpus_per_node=1, nodes=2).verdict.kind == "can start now"
    verdict = judged(look, gpus_per_node=1, nodes=3).verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "ReqNodeNotAvail")
    # So Slurm says of the partition's nodes together, not of those that were not excluded.
    others = judged(look, gpus_per_node=1, nodes=2, exclude="n3").verdict
    assert (others.kind, others.cause) == ("will wait", "ReqNodeNotAvail")
    assert "2 nodes of gpu are available; requested 3; n[1-2] are DOWN, IDLE+DRAIN" in (
        verdict.words
    )
    named = judged(look, gpus_per_node=1, nodes=2, nodelist="n1").verdict
    assert (named.kind, named.cause) == ("will wait", "ReqNodeNotAvail")
    assert "not all of --nodelist=n1 is available; n1 is DOWN" in named.words


def test_a_named_node_that_is_full_is_waited_for_though_others_are_free() -> None:
    look = live(nodes=(FULL[0], *NODES[1:]))
    verdict = judged(look, gpus_per_node=1, nodes=2, nodelist="n1").verdict
    assert (verdict.kind, verdict.cause) == ("will wait", "Resources")
    assert "n1 (--nodelist) lacks 1 GPU" in verdict.words
    assert judged(look, gpus_per_node=1, nodes=2, nodelist="n2").verdict.kind == "can start now"


def test_what_the_user_asked_for_is_named_before_the_partition() -> None:
    down = live(limits=with_partition(state="DOWN"))
    assert judged(down, sbatch=("hold",)).verdict.cause == "JobHeldUser"


def test_nodes_that_slurm_plans_for_another_job() -> None:
    planned = tuple(node(f"n{number}", state="IDLE+PLANNED") for number in (1, 2, 3))
    look = live(nodes=(*planned, node("n4")))
    assert judged(look, nodes=1, gpus_per_node=8).verdict.kind == "can start now"
    verdict = judged(look, nodes=2, gpus_per_node=8).verdict
    assert (verdict.kind, verdict.cause) == ("not known", "Priority")


@pytest.mark.parametrize(
    "fields", [{"state": "INACTIVE"}, {"max_time": 60}, {"allow_groups": ("lee",)}]
)
def test_what_one_of_several_partitions_does_not_take(fields: Dict[str, Any]) -> None:
    closed = dataclasses.replace(OTHER, name="old", **fields)
    limits = dataclasses.replace(LIMITS, partitions=(PARTITION, OTHER, closed))
    both = tuple(node(f"n{n}", partitions=("gpu", "old")) for n in range(1, 5))
    snapshot = live(limits=dataclasses.replace(limits, nodes=both))
    judgement = judged(snapshot, partition="old,gpu", gpus_per_node=1, time_limit="10")
    assert judgement.verdict.kind == "can start now"


@pytest.mark.parametrize(
    ("here", "other", "kind"),
    [
        ("NO", "NO", "can start now"),
        ("NO", "FORCE:2", "not known"),
        ("FORCE:2", "FORCE:2", "not known"),
    ],
)
def test_jobs_that_share_cores_are_on_no_node_with_those_that_do_not(
    here: str, other: str, kind: str
) -> None:
    limits = with_partition(oversubscribe=here)
    partitions = (limits.partitions[0], dataclasses.replace(OTHER, oversubscribe=other))
    limits = dataclasses.replace(limits, partitions=partitions)
    used = tuple(node(f"n{number}", used=1, partitions=("gpu", "cpu")) for number in range(1, 4))
    idle = node("n4", partitions=("gpu", "cpu"))
    for nodes, expected in (((*used, idle), "can start now"), (used, kind)):
        there = live((), dataclasses.replace(limits, nodes=nodes))
        assert judged(there, gpus_per_node=1).verdict.kind == expected


def test_behind_a_job_whose_nodes_slurm_has_planned() -> None:
    fifo = dataclasses.replace(
        LIMITS, config=dataclasses.replace(LIMITS.config, first_in_first_out=True)
    )
    reason = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority"
    fields = {"user": "lee", "start": NOW + 60, "planned_nodes": "n[1-4]"}
    for why in ("Resources", "Priority", reason, reason.replace(" ", "_")):
        ahead = job(9, 8, "PENDING", reason=why, **fields)
        for limits, kind in ((fifo, "will wait"), (LIMITS, "not known")):
            verdict = judged(live((), limits, queue=(ahead,)), gpus_per_node=1).verdict
            assert (verdict.kind, verdict.cause) == (kind, "Priority"), why
    assert verdict.tested("can start now").kind == "probably will wait"
    one = dataclasses.replace(ahead, planned_nodes="n1")
    assert judged(live((), fifo, queue=(one,)), gpus_per_node=1).verdict.kind == "can start now"
    unplanned = dataclasses.replace(ahead, start=None, planned_nodes="")
    verdict = judged(live((), fifo, queue=(unplanned,)), gpus_per_node=1).verdict
    assert (verdict.kind, verdict.tested("").kind) == ("not known", "probably can start now")
    # Nothing else that is not known makes it less likely to wait.
    silent = dataclasses.replace(LIMITS, qos=None)
    for limits, asked in ((silent, {}), (LIMITS, {"nodes": 1, "max_nodes": 2})):
        verdict = judged(live((), limits, queue=(ahead,)), gpus_per_node=1, **asked).verdict
        assert verdict.tested("can start now").kind == "probably will wait", asked


@pytest.mark.parametrize(
    ("told", "nodes_up", "kind"),
    [
        ("can start now", True, "probably can start now"),
        ("will wait", True, "probably will wait"),
        ("refused", True, "probably refused"),
        ("refused", False, "not known"),
        ("", True, "not known"),
    ],
)
def test_what_a_test_makes_of_what_is_not_known(told: str, nodes_up: bool, kind: str) -> None:
    assert Verdict("not known", "x", all_nodes_up=nodes_up).tested(told).kind == kind
    # What is known holds.
    assert Verdict("can start now", "x", all_nodes_up=nodes_up).tested(told).kind == "can start now"
