"""Whatever Slurm, or a site's wrapper around it, may print: what is read from it, and used."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import pytest
from bounds import assert_bounded, inputs
from broken import texts, words
from fake_slurm import accounting_row, queue_row
from hypothesis import example, given
from hypothesis import strategies as st

from neuronctl.monitoring.node_use import parse_node_usage
from neuronctl.slurm import fields
from neuronctl.slurm.allocation import from_environment
from neuronctl.slurm.conf import parse_cluster_name
from neuronctl.slurm.job_control import parse_job_gpus, parse_logs, parse_scancel
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import ASSOCIATION_FIELDS, QOS_FIELDS
from neuronctl.slurm.process import run
from neuronctl.slurm.sacct import parse_sacct
from neuronctl.slurm.sacctmgr import parse_associations, parse_groups, parse_qos
from neuronctl.slurm.sbatch import parse_submitted
from neuronctl.slurm.scontrol import (
    parse_config,
    parse_job_states,
    parse_nodes,
    parse_partitions,
    parse_reservations,
)
from neuronctl.slurm.squeue import parse_squeue

QUEUE = tuple(
    "".join(row + "\x1e\n" for row in rows)
    for rows in (
        (queue_row("4711"),),
        (queue_row("4711_[1-5,9%2]", state="PENDING"), queue_row("4711_3", own="4715")),
        (queue_row("4711+1", exit="17:0"), queue_row("4712", limit="UNLIMITED", start="N/A")),
    )
)
PAST = tuple(
    "".join(row + "\n" for row in rows)
    for rows in (
        (accounting_row("4711"),),
        (accounting_row("4711_3", own="4714", state="CANCELLED by 1000"), accounting_row("4712")),
    )
)
SHOWN = (
    "JobId=9 ArrayJobId=4 ArrayTaskId=5,7,9%2 JobName=a name=with all\n"
    "   UserId=neuron(20000) Priority=1 Account=sandbox QOS=normal\n"
    "   JobState=PENDING Reason=ReqNodeNotAvail, Unavailable Dependency=(null)\n"
    "   Requeue=1 ExitCode=0:53\n   NodeList=gpu[35-36]\n     "
    "Nodes=gpu[35-36] CPU_IDs=0-15 Mem=100 GRES=gpu:a100:4(IDX:0-3)\n"
    "   WorkDir=/s\n   StdErr=/s/e r.err\n   StdOut=/s/x-%N-9.out\n\n\n"
    "JobId=11 HetJobId=11 HetJobOffset=0 JobName=b\n   JobState=RUNNING Reason=None\n"
    "   ExitCode=0:0\n   NodeList=(null)\n",
)
SITE = (
    "MaxArraySize            = 1001\nClusterName             = Toy\nSLURM_VERSION = 22.05.8\n"
    "AccountingStorageEnforce = associations,limits\nSelectTypeParameters    = CR_CORE_MEMORY\n"
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=a,b QoS=N/A DefaultTime=NONE MinNodes=0 "
    "MaxNodes=4 MaxTime=2-00:00:00 Nodes=n[1-4] State=UP TotalNodes=4 Default=YES AllocNodes=ALL "
    "DefMemPerCPU=1000 MaxCPUsPerNode=15 MaxMemPerCPU=10 MaxMemPerNode=100 OverSubscribe=NO\n"
    "NodeName=n1 CPUAlloc=8 CPUEfctv=64 CPUTot=64 Gres=gpu:a100:8(S:0-1) "
    "GresUsed=gpu:a100:3(IDX:0-2) RealMemory=1000 AllocMem=10 State=MIXED ThreadsPerCore=2 "
    "Partitions=gpu,old ActiveFeatures=a,b AllocTRES=cpu=8,gres/gpu=3 Reason=State=x\n"
    "ReservationName=m2 StartTime=2026-08-12T09:30:00 EndTime=2026-08-12T10:30:00 "
    "Nodes=n[1-2] CoreCnt=40 Flags=MAINT,SPEC_NODES Users=-kim Accounts=(null) State=ACTIVE\n"
    "JobId=4711 JobName=x JobState=RUNNING Reason=None\n"
    "ClusterName=toy Account=root UserName= Partition= ParentAccount= GrpJobs=30(2) "
    "GrpSubmitJobs=N(3) GrpWall=9(0.51) GrpTRES=cpu=N(0),mem=N(0),gres/gpu=20(1) "
    "GrpTRESMins=cpu=99(9),mem=N(1) GrpTRESRunMins=cpu=N(7),mem=50(4)\n"
    "ClusterName=toy Account=lab UserName=kim(1000) Partition=gpu ParentAccount= GrpJobs=N(0)\n"
    "QOS=p_gpu(2) GrpJobs=N(0) GrpSubmitJobs=5(4) GrpTRES=cpu=20(7),gres/gpu=N(0) \n",
)
DATABASE = (
    "|".join(["normal", "DenyOnLimit", *["cpu=4,mem=8G", "3"] * 20][: 2 + len(QOS_FIELDS)])
    + "\n"
    + "|".join(["lab", "gpu", "normal,long", "normal", *["2-00:00:00", "7", "cpu=1"] * 20]
               [: 4 + len(ASSOCIATION_FIELDS)])
    + "\n",
)  # fmt: skip
LOOK = (
    "0: @node\tn1\n0: @gpu\tindex, name, utilization.gpu [%], memory.used [MiB], "
    "memory.total [MiB], power.draw [W], temperature.gpu\n"
    "0: @gpu\t0, NVIDIA A100, 97, 1024, 40536, 250.3, 61\n0: @load\t3.5\n"
    "0: @cores\t64\n0: @MemTotal\t1000000\n0: @MemAvailable\t400000\n"
    "0: @process\t 4711 99.5 20480 python train.py\n1: @node\tn2\n",
)
VARIABLES = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NODELIST": "gpu[35-36]",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_CPUS_PER_NODE": "72(x2),36",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_GPUS_ON_NODE": "4",
    "SLURM_GPUS_PER_NODE": "a100:2,h100:2",
    "SLURM_GPUS": "8",
    "SLURM_JOB_NUM_NODES": "2",
}


def assert_read(parse: Callable[[str], Any], text: str, *expected: Any) -> Any:
    with assert_bounded(*expected):
        return parse(text)


def use(ids: Sequence[JobId]) -> None:
    """What every command does with the ids of jobs."""
    with assert_bounded():
        for id in ids:
            assert JobId.read(str(id)) == id
            assert id.count >= 0 and id.job_or_task
            for other in (*ids, JobId(4711, task=3), JobId(4711, tasks="0-9%2")):
                id.covers(other)
                id.overlaps(other)
                id.without([other])


JOBS = {parse_squeue: QUEUE, parse_sacct: PAST}


@pytest.mark.parametrize("parse", JOBS, ids=lambda parse: parse.__name__)
@inputs(1)
@given(st.data())
def test_jobs(parse: Callable[[str], Any], drawn: st.DataObject) -> None:
    jobs = assert_read(parse, drawn.draw(texts(JOBS[parse]))) or ()
    use([job.id for job in jobs][:3])
    with assert_bounded():
        for job in jobs if parse is parse_squeue else ():
            assert [job.holds(tres) for tres in ("gres/gpu", "cpu", "node", "mem")]


@inputs(0.5)
@example(SHOWN[0].replace("gpu[35-36]", "gpu[35-36"))
@given(texts(SHOWN))
def test_what_scontrol_shows_of_jobs(text: str) -> None:
    assert_read(parse_job_gpus, text)
    assert_read(parse_logs, text)
    assert_read(parse_job_states, text)


@inputs(2)
@example("NodeName=n1 " + "x" * 100_000)
@given(texts(SITE))
def test_scontrol(text: str) -> None:
    for parse in (parse_config, parse_partitions, parse_nodes, parse_reservations):
        assert_read(parse, text)
    with assert_bounded():
        parse_groups(text, "kim")
        for partition in parse_partitions(text):
            assert all(limit.about for limit in partition.limits)


@inputs(1)
@given(texts(DATABASE))
def test_sacctmgr(text: str) -> None:
    with assert_bounded():
        for owner in (*parse_qos(text), *parse_associations(text)):
            assert all(isinstance(limit.command + limit.reason, str) for limit in owner.limits)


@inputs(0.5)
@given(texts(LOOK))
def test_srun_on_the_nodes_of_a_job(text: str) -> None:
    assert_read(parse_node_usage, text)


@inputs(0.5)
@given(
    texts(
        (
            "4711;neuron\n",
            "Welcome\n4711\n",
            "sbatch: Job 4711 to start at 2026-08-12T09:30:00 using 4 processors on nodes n1\n",
            "scancel: error: Kill job error on job id 4: Access/permission denied\n",
            "# a comment\nClusterName = Neuron # the site's\n",
        )
    )
)
def test_sbatch_scancel_and_slurm_conf(text: str) -> None:
    for parse in (parse_submitted, parse_scancel, parse_cluster_name):
        assert_read(parse, text)


@inputs(0.5)
@given(st.dictionaries(st.sampled_from(sorted(VARIABLES)), texts(tuple(VARIABLES.values()))))
def test_variables_of_an_allocation(changed: dict[str, str]) -> None:
    assert_read(from_environment, {**VARIABLES, **changed})  # type: ignore[arg-type]


@inputs(0.01)
@given(st.sampled_from(QUEUE + PAST + SITE), st.sampled_from(("", ">&2", ">&2 2>&1")))
def test_an_answer_without_end(text: str, where: str) -> None:
    with assert_bounded():
        run(["sh", "-c", f'yes "$1" {where}', "sh", text])


FIELDS = [
    *(fields.parse_timestamp, fields.parse_seconds, fields.count),
    *(fields.parse_count, fields.parse_gres_gpus, fields.parse_tres_gpus, fields.submission_mark),
    *(fields.parse_tres, fields.ExitCode.parse, JobId.read),
]


@pytest.mark.parametrize("parse", FIELDS, ids=lambda parse: parse.__qualname__)
@inputs(0.25)
@example("²")
@example("9" * 5000)
@example("gres/gpu=" + "9" * 5000)
@given(words)
def test_fields(parse: Callable[[str], Any], text: str) -> None:
    assert_read(parse, text)
