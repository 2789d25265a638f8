"""Pending reasons in plain words, and the figures of the limits behind them."""

from __future__ import annotations

import os
from typing import Any, Dict, Sequence, Tuple

import pytest

from neuronctl.common.users import login_name
from neuronctl.diagnosis.limit_figures import explain_limit
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import read_group_limits, read_limits
from neuronctl.slurm.pending_reasons import REASONS, Explained, explain
from neuronctl.slurm.sacctmgr import Association, LimitedGroup, SlurmQos, parse_groups
from neuronctl.slurm.scontrol import SiteConfig, SitePartition
from neuronctl.tracking.job_status import JobStatus


def status(
    id: int, state: str = "PENDING", reason: str = "", gpus: int = 2, **given: Any
) -> JobStatus:
    tres = {"cpu": gpus, "gres/gpu": gpus, "node": given.pop("nodes", 1)}
    return JobStatus(
        id=JobId(id), job_id=id, name="", user="kim", partition="gpu", state=state, account="lab",
        reason=reason, source="squeue", gpus=gpus, tres=tres, **{"time_limit": 600, **given},
    )  # fmt: skip


PARTITION = SitePartition("gpu", "UP", "g[1-2]", 2, 7200, None, 2, "P_gpu", True, None)


Known = Tuple[ClusterFigures, Tuple[LimitedGroup, ...]]


def limits_of(qos: Dict[str, str], *groups: LimitedGroup, **own: str) -> Known:
    """The limits of the partition's QOS, of groups, and of the user's own association."""
    of_qos = SlurmQos("p_gpu", (), read_limits(qos, "QOS", "p_gpu"))
    mine = Association("lab", "", (), "", read_limits(own, "association", "lab"))
    config = SiteConfig("c", "23", ("limits",), False)
    return ClusterFigures(config, (PARTITION,), (), (of_qos,), (mine,)), groups


def group(scope: str, name: str, limits: str) -> LimitedGroup:
    return LimitedGroup(scope, name, "", "", read_group_limits(f" {limits}", scope, name))


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
    "MaxCpuRunMinsPerUser": ("you have reached your limit on core-minutes", "of yours"),
    "MaxMemoryRunMinsPerAccount": (
        "your account has reached its limit on MB-minutes of memory",
        "share the limit",
    ),
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


BUSY = [status(1, "RUNNING", gpus=3), status(2, "RUNNING", gpus=1), status(3)]
LIMITS = limits_of({"MaxJobsPU": "2", "MaxTRESPU": "gres/gpu=4"})


def told(job: JobStatus, limits: Known, own: Sequence[JobStatus] = BUSY) -> Explained:
    return explain_limit(job, own, *limits, now=1000)


def test_figures_of_limits() -> None:
    assert (
        ": 4 of 4 GPUs; 1 more must wait until some"
        in told(status(3, reason="QOSMaxGRESPerUser", gpus=1), LIMITS).words
    )
    assert (
        ": 2 of 2 jobs; it must wait until some of your jobs end; when is not known"
        in told(status(3, reason="QOSMaxJobsPerUserLimit"), LIMITS).words
    )
    for unknown in ("QOSMaxSubmitJobPerUserLimit", "Priority"):
        assert told(status(3, reason=unknown), LIMITS) == explain(unknown, "3")


OVER = [
    (
        "QOSMaxGRESPerUser",
        limits_of({"MaxTRESPU": "gres/gpu=1"}),
        "it requests 2 GPUs, and QOS p_gpu allows a user 1 GPU",
    ),
    (
        "QOSMaxJobsPerUserLimit",
        limits_of({"MaxJobsPU": "0"}),
        "QOS p_gpu allows a user no running jobs",
    ),
    ("AssocMaxJobsLimit", limits_of({}, MaxJobsPU="0"), "your association allows you no running"),
    (
        "MaxCpuPerAccount",
        limits_of({"MaxTRESPA": "cpu=1"}),
        "it requests 2 cores, and QOS p_gpu allows an account 1 core",
    ),
    (
        "AssocGrpCpuLimit",
        limits_of({}, group("account", "lab", "GrpTRES=cpu=1(0)")),
        "it requests 2 cores, and account lab allows all of its jobs together 1 core",
    ),
    (
        "QOSGrpCPURunMinutesLimit",
        limits_of({}, group("QOS", "p_gpu", "GrpTRESRunMins=cpu=19(0)")),
        "it requests 20 core-minutes, and QOS p_gpu allows all of its jobs together 19",
    ),
    (
        "QOSMinGRES",
        limits_of({"MinTRES": "gres/gpu=4"}),
        "it requests 2 GPUs, and QOS p_gpu requires at least 4 GPUs",
    ),
    (
        "AssocMaxWallDurationPerJobLimit",
        limits_of({}, MaxWall="5"),
        "it requests 00:10:00, and your association allows a job of yours 00:05:00",
    ),
]


@pytest.mark.parametrize(("reason", "limits", "words"), OVER, ids=[one[0] for one in OVER])
def test_a_job_over_a_limit_by_itself_never_starts(reason: str, limits: Known, words: str) -> None:
    explained = told(status(3, reason=reason), limits, [])
    assert explained.words.startswith("will never start: ") and words in explained.words
    assert "it starts when" not in explained.advice and explained.advice


def test_a_limit_of_the_partition() -> None:
    long = status(3, reason="PartitionTimeLimit", time_limit=7260)
    assert "requests 02:01:00, and partition gpu allows a job 02:00:00" in told(long, LIMITS).words
    wide = status(3, reason="PartitionNodeLimit", nodes=3)
    assert "requests 3 nodes, and partition gpu allows a job 2 nodes" in told(wide, LIMITS).words


def test_who_is_in_the_way_of_a_shared_limit() -> None:
    mine = "it starts when other jobs of yours end"
    shared = "it starts when other jobs that share the limit end"
    job = status(3, reason="QOSGrpGRES")
    for used, advice in ((4, mine), (5, shared)):
        limits = limits_of({}, group("QOS", "p_gpu", f"GrpTRES=gres/gpu=5({used})"))
        explained = told(job, limits)
        assert explained.advice == advice
        assert explained.words == f"its QOS has reached its GPU limit: {used} of 5 GPUs"
    job = status(3, reason="MaxJobsPerAccount")
    for most, advice in (("2", mine), ("3", shared)):
        explained = told(job, limits_of({"MaxJobsPA": most}))
        assert explained.advice == advice


@pytest.mark.parametrize(
    ("kind", "reason", "whose", "line"),
    [
        (
            "MaxTRESRunMinsPU",
            "MaxCpuRunMinsPerUser",
            "you have reached your",
            "User Limits= kim(9)",
        ),
        ("MaxTRESRunMinsPA", "MaxCpuRunMinsPerAccount", "your account has reached its", "lab"),
    ],
)
def test_figures_of_a_limit_on_each_account_or_user(
    kind: str, reason: str, whose: str, line: str
) -> None:
    line = f"QOS=p_gpu(1) GrpJobs=N(2) Account Limits= {line}={{{kind}=cpu=50(33)}}"
    limits, _ = limits_of({kind: "cpu=50"})
    words = f"{whose} limit on core-minutes: "
    explained = told(status(3, reason=reason), (limits, parse_groups(line, "kim")))
    assert explained.words == f"{words}33 of 50 core-minutes"
    assert told(status(3, reason=reason), (limits, ())).words == f"{words}limit 50 core-minutes"


def test_a_user_whom_slurmctld_cannot_name() -> None:
    used = "{MaxTRESRunMinsPU=cpu=9(4)}"
    line = f"QOS=p_gpu(1) Account Limits= lab={{}} User Limits= {os.getuid()}={used}"
    (group,) = [one for one in parse_groups(line, login_name()) if one.user]
    assert [(one.kind, one.used) for one in group.limits] == [("MaxTRESRunMinsPU", 4)]


def test_until_when_a_users_own_jobs_hold_a_limit() -> None:
    busy = [
        status(1, "RUNNING", gpus=3, start=900, time_limit=700),
        status(2, "RUNNING", gpus=1, start=900, time_limit=400),
    ]
    job = status(9, reason="QOSMaxGRESPerUser", gpus=2)
    words = told(job, LIMITS, [*busy, job]).words
    assert words.endswith(": 4 of 4 GPUs; 2 more must wait until job 1 ends, in at most 00:10:00")
    ahead = status(8, reason="QOSMaxGRESPerUser")
    words = told(job, LIMITS, [*busy, ahead, job]).words
    assert words.endswith("when is not known: 1 other job of yours is ahead")


def test_a_limit_of_another_account_is_not_the_jobs() -> None:
    limits = limits_of({}, group("account", "other", "GrpTRES=cpu=1(0)"))
    assert told(status(3, reason="AssocGrpCpuLimit"), limits) == explain("AssocGrpCpuLimit")


def test_a_job_that_waits_after_a_requeue_is_not_hurried() -> None:
    # Slurm 22.05 then fails to launch the steps of the new run, and srun ends with 0.
    explained = explain("BeginTime", "7")
    assert "after a requeue" in explained.words
    assert not explained.advice
