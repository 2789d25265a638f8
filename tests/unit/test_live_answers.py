"""Slurm's answers to the live gate read."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import pytest
from slurm_answers import CONFIG, LIMITS, MINE, NOW, job, live, shared

from neuronctl.common.units import UNLIMITED
from neuronctl.judgement.ask import latest_end
from neuronctl.slurm.figures import budget_words
from neuronctl.slurm.sacctmgr import LimitedGroup, parse_associations, parse_groups, parse_qos
from neuronctl.slurm.scontrol import parse_config, parse_nodes, parse_partitions, parse_reservations


def test_shared_limits_are_read() -> None:
    text = (
        "ClusterName=toy Account=root UserName= Partition= ParentAccount= GrpJobs=30(2) "
        "GrpSubmitJobs=N(3) GrpWall=9(0.51) GrpTRES=cpu=N(0),mem=N(0),gres/gpu=20(1) "
        "GrpTRESMins=cpu=99(9),mem=N(1) GrpTRESRunMins=cpu=N(7),mem=50(4)\n"
        "ClusterName=toy Account=lab UserName=kim(1000) Partition=gpu ParentAccount= GrpJobs=N(0)\n"
        "ClusterName=toy Account=lab UserName=kimura(1001) Partition= GrpJobs=1(1)\n"
        "QOS=p_gpu(2) GrpJobs=N(0) GrpSubmitJobs=5(4) GrpTRES=cpu=20(7),gres/gpu=N(0) \n"
    )
    root, mine, qos = parse_groups(text, "kim")
    assert root == shared(
        "account",
        "root",
        running=(30, 2),
        memory_minutes=(50, 4),
        gpus=(20, 1),
        wall=(9, 0),
        spent=(99, 9, 7),
    )
    assert (mine.scope, mine.name, mine.partition, mine.limits) == ("association", "lab", "gpu", ())
    assert qos == shared("QOS", "p_gpu", cores=(20, 7), submit=(5, 4))


@pytest.mark.parametrize(
    ("over_time", "later"), [(0, 10 + 60), (300, 300 + 10 + 60), (UNLIMITED, None)]
)
def test_when_a_job_has_ended_at_the_latest(over_time: int, later: Optional[int]) -> None:
    config = dataclasses.replace(CONFIG, kill_wait=10, over_time=over_time)
    end = latest_end(job(7), config)
    assert end == (None if later is None else NOW + 7 + later)
    assert latest_end(job(7, state="SUSPENDED"), config) is None


SHARES = "SharesRaw/Norm/Level/Factor=5/0.20/5/0.42 UsageRaw/Norm/Efctv=0.00/0.10/0.10"
BASIC = "SharesRaw/Norm/Level/Factor=1/18446744073709551616.00/1/0.00 UsageRaw/Norm/Efctv=0/1/0"


def groups_of_kim() -> Tuple[LimitedGroup, ...]:
    text = (
        f"ClusterName=toy Account=root UserName= Partition= {SHARES} ParentAccount= GrpWall=N(0)\n"
        f"ClusterName=toy Account=lab UserName= Partition= {SHARES} ParentAccount=root(1) "
        "GrpTRESMins=cpu=N(1),gres/gpu=60000(24700),billing=90(95) "
        "GrpTRESRunMins=cpu=N(9),gres/gpu=60(30)\n"
        f"ClusterName=toy Account=lab UserName=kim(1000) Partition= {SHARES} ParentAccount= \n"
        f"ClusterName=toy Account=old UserName=kim(1000) Partition=gpu {BASIC} ParentAccount= \n"
        f"ClusterName=toy Account=theirs UserName= Partition= {SHARES} ParentAccount=root(1) "
        "GrpTRESMins=cpu=7(1)\n"
        "QOS=fast(2) GrpWall=600(60.00) GrpTRESMins=cpu=N(0) \n"
        "QOS=unused(3) GrpWall=7(1.00) \n"
    )
    return parse_groups(text, "kim")


def test_budgets_are_read() -> None:
    fast = dataclasses.replace(MINE, qos=("FAST",))
    limits = dataclasses.replace(LIMITS, associations=(fast,))
    snapshot = live(limits=limits, limited_groups=groups_of_kim())
    assert list(map(budget_words, snapshot.budgets)) == [
        "account lab: 0 of 1.5 billing hours left (GrpTRESMins)",
        "account lab: 0.5 of 1 GPU hours left (GrpTRESRunMins)",
        "account lab: 587.8 of 1,000 GPU hours left, 0.5 set aside for running jobs (GrpTRESMins)",
        "QOS fast: 9 of 10 hours left (GrpWall)",
    ]
    assert len(live(limited_groups=groups_of_kim()).budgets) == 3, "without that QOS"


def test_what_does_not_count_is_not_told() -> None:
    lax = dataclasses.replace(CONFIG, enforce=())
    limits = dataclasses.replace(LIMITS, config=lax)
    assert live(limits=limits, limited_groups=groups_of_kim()).budgets == ()


def test_reservations_are_read() -> None:
    (one,) = parse_reservations(
        "ReservationName=m2 StartTime=2026-08-12T09:30:00 EndTime=2026-08-12T10:30:00 "
        "Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=40 Features=(null) PartitionName=(null) "
        "Flags=MAINT,SPEC_NODES TRES=cpu=40 Users=-kim Groups=(null) Accounts=(null) State=ACTIVE\n"
        "No reservations in the system\n"
    )
    assert (one.name, one.end - one.start, one.node_list, one.cores) == ("m2", 3600, "n[1-2]", 40)
    assert one.flags == ("MAINT", "SPEC_NODES")


def test_scontrol_and_sacctmgr_rows() -> None:
    config = parse_config(
        "scontrol: show config\nMaxArraySize            = 1001\nClusterName             = Toy\n"
        "AccountingStorageEnforce = associations,limits\nSelectTypeParameters    = CR_CORE_MEMORY\n"
        "KillWait                = 30 sec\nOverTimeLimit           = 5 min\n"
        "SLURM_VERSION           = 22.05.8\n"
    )
    assert (config.over_time, config.kill_wait, config.version) == (300, 30, "22.05.8")
    assert parse_config("OverTimeLimit           = UNLIMITED\n").over_time == UNLIMITED
    assert (config.cluster, config.memory_counts) == ("toy", True)
    (part,) = parse_partitions(
        "PartitionName=gpu AllowGroups=ALL AllowAccounts=a,b QoS=N/A DefaultTime=NONE "
        "MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=(null) State=UP TotalNodes=0 Default=YES\n"
    )
    assert (part.qos, part.max_nodes, part.max_time, part.node_list) == ("", None, -1, "")
    assert (part.allow_groups, part.allow_accounts, part.default) == ((), ("a", "b"), True)
    assert (part.max_cores_per_node, part.whole) == (None, "")
    (part,) = parse_partitions(
        "PartitionName=gpu AllocNodes=login[1-2] MaxCPUsPerNode=15 MaxMemPerCPU=10 "
        "MaxMemPerNode=100 ExclusiveUser=YES OverSubscribe=NO\n"
    )
    assert (part.max_cores_per_node, part.whole) == (15, "user")
    assert (part.max_memory_mb_per_node, part.max_memory_mb_per_cpu) == (100, 10)
    (one, other), rest = parse_nodes(
        "No reservations\n"
        "NodeName=n1 CPUAlloc=8 CPUTot=64 Gres=gpu:a100:8(S:0-1) GresUsed=gpu:a100:3(IDX:0-2) "
        "RealMemory=1000 AllocMem=10 State=MIXED Partitions=gpu,old  Reason=State=x\n"
        "NodeName=n2 CPUAlloc=8 CPUTot=64 RealMemory=900 MemSpecLimit=200 State=MIXED\n"
        "NodeName=n3 CPUAlloc=8 CPUTot=64 Gres=gpu:a100:8(S:0-1) GresUsed=gpu:a100:3(IDX:1,4,5) "
        "RealMemory=1000 AllocMem=10 State=MIXED Partitions=gpu,old Comment=a=b\n"
        "No licenses\n"
    )
    assert (one.names, other.names) == (("n1", "n3"), ("n2",))
    assert (one.memory_mb, other.memory_mb) == (1000, 700)  # without what Slurm keeps for itself
    assert rest == "No reservations\nNo licenses\n"
    assert (one.gpus, one.gpus_used, one.gpu) == (8, 3, "a100")
    assert (one.cores_used, one.state) == (8, "MIXED")
    (qos,) = parse_qos(
        "sacctmgr: show qos\n"
        "p||||100|cluster|10|4|cpu=1,gres/gpu=8||1-00:00:00||gres/gpu=2|node=4|||3||cpu=60\nx|y\n"
    )
    assert (qos.limit("MaxSubmitPU"), qos.limit("MaxJobsPU")) == (10, 4)
    assert qos.priority == 100
    assert (qos.limit("MaxTRES", "gres/gpu"), qos.limit("MaxWall")) == (None, 86400)
    assert [(one.kind, one.tres, one.figure) for one in qos.limits[2:]] == [
        ("MaxTRESPU", "cpu", 1),
        ("MaxTRESPU", "gres/gpu", 8),
        ("MaxWall", "", 86400),
        ("MinTRES", "gres/gpu", 2),
        ("MaxTRESPA", "node", 4),
        ("MaxJobsPA", "", 3),
        ("MaxTRESMins", "cpu", 60),
    ]
    (mine,) = parse_associations("lab||normal,fast|normal|lab||5|cpu=7|00:05:00||node=9\n")
    assert (mine.qos, mine.is_default, mine.above) == (("normal", "fast"), True, ())
    groups = [LimitedGroup("account", *pair, "") for pair in (("lab", "all"), ("all", ""))]
    (mine,) = parse_associations("lab||normal||other||5|cpu=7|00:05:00||node=9\n", groups)
    assert (mine.is_default, mine.above) == (False, ("all",))
    (mine,) = parse_associations("lab||normal,fast|normal|lab||5|cpu=7|00:05:00||node=9\n")
    assert [(one.kind, one.tres, one.figure) for one in mine.limits] == [
        ("MaxJobsPU", "", 5),
        ("MaxTRES", "cpu", 7),
        ("MaxWall", "", 300),
        ("MaxTRESMins", "node", 9),
    ]
    assert {one.reason for one in mine.limits} == {
        "AssocMaxJobsLimit",
        "AssocMaxCpuPerJobLimit",
        "AssocMaxWallDurationPerJobLimit",
        "AssocMaxNodeMinutesPerJob",
    }
