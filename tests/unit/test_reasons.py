"""Pending reasons in plain words, and the figures of the limits behind them."""

from __future__ import annotations

import dataclasses

import pytest

from neuronctl.diagnosis.limit_figures import figure_words, has_figure
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import read_limits
from neuronctl.slurm.pending_reasons import REASONS, explain
from neuronctl.slurm.sacctmgr import Association, Qos
from neuronctl.slurm.scontrol import SiteConfig, SitePartition
from neuronctl.slurm.snapshot import Limits
from neuronctl.tracking.job_status import JobStatus


def status(id: int, state: str = "PENDING", reason: str = "", gpus: int = 2) -> JobStatus:
    return JobStatus(
        id=JobId(id), job_id=id, name="", user="kim", partition="gpu", state=state,
        reason=reason, source="squeue", gpus=gpus,
    )  # fmt: skip


PARTITION = SitePartition("gpu", "UP", "g[1-2]", 2, 7200, None, 2, "P_gpu", True, None)
QOS = Qos("p_gpu", (), read_limits({"MaxJobsPU": "2", "MaxTRESPU": "gres/gpu=4"}, "QOS", "p_gpu"))
LIMITS = Limits(SiteConfig("c", "23", None, ("limits",), False), (PARTITION,), (), (QOS,), ())


def test_there_are_enough_and_each_has_words() -> None:
    assert len(REASONS) >= 30
    assert all(words and "|" not in words + advice for words, advice in REASONS.values())


def test_words_and_advice_name_the_job() -> None:
    held = explain("JobHeldUser", "4711")
    assert (held.words, held.advice) == (
        "held by its user",
        "release it with 'scontrol release 4711'",
    )
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
    "AssocMaxMemPerNode": (
        "will never start: exceeds the memory limit per node of your account",
        "smaller",
    ),
    "AssocMaxCpuPerJobLimit": (
        "will never start: exceeds the core limit per job of your account",
        "smaller",
    ),
    "AssocMaxSubmitJobLimit": ("you have reached your limit on submitted jobs", "of yours"),
    "QOSGrpMemLimit": ("its QOS has reached its memory limit", "share the limit"),
    "QOSGrpGRESRunMinutes": ("its QOS has reached its limit on GPU-minutes", "share the limit"),
    "AssocGrpCPURunMinutesLimit": (
        "your account has reached its limit on core-minutes",
        "share the limit",
    ),
    "QOSGrpMemoryMinutes": ("its QOS has used up its MB-minutes of memory", "administrators"),
    "AssocGrpWallLimit": ("your account has used up its minutes", "administrators"),
    "QOSMaxCpuMinutesPerJobLimit": (
        "will never start: exceeds the limit on core-minutes per job of its QOS",
        "smaller",
    ),
    "MaxGRESPerAccount": ("your account has reached its GPU limit", "share the limit"),
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


def test_figures_of_limits() -> None:
    mine = [status(1, "RUNNING", gpus=3), status(2, "RUNNING", gpus=1), status(3)]
    waits = status(3, reason="QOSMaxGRESPerUser")
    assert figure_words(waits, mine, LIMITS) == "4 of 4 GPUs"
    waits = status(3, reason="QOSMaxJobsPerUserLimit")
    assert figure_words(waits, mine, LIMITS) == "2 of 2 jobs"
    assert figure_words(status(3, reason="PartitionTimeLimit"), mine, LIMITS) == "limit 02:00:00"
    assert figure_words(status(3, reason="PartitionNodeLimit"), mine, LIMITS) == "limit 2 nodes"
    for unknown in ("QOSMaxSubmitJobPerUserLimit", "Priority"):
        assert figure_words(status(3, reason=unknown), mine, LIMITS) == ""
    assert has_figure("QOSMaxGRESPerUser") and not has_figure("Priority")


def test_of_several_accounts_no_figure_is_told() -> None:
    own = read_limits({"MaxJobsPU": "2"}, "association", "lab")
    lab, group = (Association(name, "", (), "", own) for name in ("lab", "group"))
    waits = status(3, reason="AssocMaxJobsLimit")
    for accounts, words in (((lab,), "0 of 2 jobs"), ((lab, group), "")):
        limits = dataclasses.replace(LIMITS, associations=accounts)
        assert figure_words(waits, [], limits) == words
