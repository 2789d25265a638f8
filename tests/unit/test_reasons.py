"""Pending reasons in plain words."""

from __future__ import annotations

import pytest

from neuronctl.slurm.pending_reasons import REASONS, explain


def test_there_are_enough_and_each_has_words() -> None:
    assert len(REASONS) >= 25
    assert all(words and "|" not in words + advice for words, advice in REASONS.values())


def test_words_and_advice_name_the_job() -> None:
    held = explain("JobHeldUser", "4711")
    assert held.words == "held by its user"
    assert held.advice == "release it with 'scontrol release 4711'"
    assert explain("ReservationDeleted", "4711").words.startswith("held until you act")
    assert explain("BecauseX").words == "BecauseX" and explain("BecauseX").advice == ""
    assert explain("ReqNodeNotAvail, UnavailableNodes:g1").words.endswith("(UnavailableNodes:g1)")
    drained = (
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_"
        "partitions"
    )
    assert explain(drained).words == "its nodes are down, drained, or reserved"
    assert explain(drained.replace("_", " ")) == explain(drained), "as squeue prints it"


LIMIT_REASONS = {
    "QOSMaxGRESPerUser": ("you have reached your GPU limit", "of yours"),
    "AssocMaxCpuPerJobLimit": (
        "will never start: exceeds the core limit per job of your account",
        "smaller",
    ),
    "AssocMaxSubmitJobLimit": ("you have reached your limit on submitted jobs", "of yours"),
    "QOSGrpMemLimit": ("its QOS has reached its memory limit", "share the limit"),
    "QOSGrpGRESRunMinutes": ("its QOS has reached its limit on GPU-minutes", "share the limit"),
    "QOSGrpMemoryMinutes": ("its QOS has used up its MB-minutes of memory", "administrators"),
    "AssocGrpWallLimit": ("your account has used up its minutes", "administrators"),
    "MaxGRESPerAccount": ("your account has reached its GPU limit", "share the limit"),
    "MaxCpuRunMinsPerUser": ("you have reached your limit on core-minutes", "of yours"),
    "MaxJobsPerAccount": ("your account has reached its limit on running jobs", "share the limit"),
    "QOSMaxWallDurationPerJobLimit": (
        "will never start: exceeds the time limit of its QOS",
        "timelimit=TIME",
    ),
    "QOSMinCpuNotSatisfied": ("will never start: fewer cores than its QOS requires", "more"),
}


@pytest.mark.parametrize("reason", sorted(LIMIT_REASONS))
def test_reasons_of_limits(reason: str) -> None:
    words, advice = LIMIT_REASONS[reason]
    told = explain(reason)
    assert told.words == words
    assert advice in told.advice


def test_a_job_that_waits_after_a_requeue_is_not_hurried() -> None:
    # Slurm 22.05 then fails to launch the steps of the new run, and srun ends with 0.
    explained = explain("BeginTime", "7")
    assert "after a requeue" in explained.words
    assert not explained.advice
