"""Slurm's answers as they were printed by Slurm 22.05, and what is read from them."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuronctl.common.errors import UsageError
from neuronctl.common.units import UNLIMITED
from neuronctl.slurm.conf import parse_cluster_name
from neuronctl.slurm.fields import (
    ExitCode,
    parse_count,
    parse_gres_gpus,
    parse_resources,
    parse_seconds,
    parse_timestamp,
    parse_tres,
    parse_tres_gpus,
    submission_mark,
)
from neuronctl.slurm.job_control import parse_logs, parse_scancel
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import Scope, read_group_limits
from neuronctl.slurm.sacct import parse_sacct
from neuronctl.slurm.sbatch import Submitted, parse_submitted
from neuronctl.slurm.squeue import parse_squeue


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4711", JobId(4711)),
        ("4711_3", JobId(4711, task=3)),
        ("4711_[1-5%2]", JobId(4711, tasks="1-5%2")),
        ("4711_[1,3,7-9:2]", JobId(4711, tasks="1,3,7-9:2")),
        ("4711+1", JobId(4711, het=1)),
    ],
)
def test_job_ids(text: str, expected: JobId) -> None:
    assert JobId.parse(text) == expected
    assert str(expected) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "x", "4711_", "4711.batch", "4711_3_4", "12345678901", "4711 4712"]
)
def test_what_is_no_job_id(text: str) -> None:
    with pytest.raises(UsageError, match="invalid job id"):
        JobId.parse(text)


def test_tasks_of_an_array() -> None:
    waiting = JobId.parse("4711_[1-9:2,20,30-40%4]")
    covered = [n for n in range(50) if waiting.covers(JobId(4711, task=n))]
    assert covered == [1, 3, 5, 7, 9, 20, *range(30, 41)]
    assert waiting.count == len(covered)
    assert JobId(4711).covers(waiting) and JobId(4711).covers(JobId(4711, task=8))
    assert not waiting.covers(JobId(4711)) and not JobId(4711).covers(JobId(4712))
    assert JobId(4711).count == JobId(4711, task=8).count == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:00", 0),
        ("5", 300),
        ("1:02:03", 3723),
        ("2-00:00:00", 172800),
        ("UNLIMITED", UNLIMITED),
        ("INVALID", None),
        ("Partition_Limit", None),
        ("", None),
    ],
)
def test_seconds(text: str, expected: Optional[int]) -> None:
    assert parse_seconds(text) == expected


def test_other_values() -> None:
    assert parse_timestamp("2026-11-21T00:52:43") == 1795222363
    assert parse_timestamp("N/A") is parse_timestamp("Unknown") is parse_timestamp("") is None
    assert parse_timestamp(" 2026-11-21T00:52:43 ") == 1795222363


@pytest.mark.parametrize(
    "text",
    [
        "9999999999-01-01T00:00:00",
        "2026-8-12T9:30:00",
        "1970-0-0T003:00:00",
        " 026-08-12T09:30:00 ",
        "２０２６-08-12T09:30:00",
    ],
)
def test_a_damaged_time_is_unknown(text: str) -> None:
    assert parse_timestamp(text) is None


@pytest.mark.parametrize(
    "line", ["GrpJobs=30(2", "GrpTRES=cpu=4(2)-", "MaxSubmitJobsPA=7(1)8MaxTRESPA=cpu=4(2)"]
)
def test_a_damaged_limit_is_none(line: str) -> None:
    assert read_group_limits(f"QOS=a(1) {line}", Scope.QOS, "a") == ()


def test_the_types_of_gpus() -> None:
    types = {
        "gpu:a100:4(S:0-1)": {"a100": 4},
        "nvme:1,gpu:2,gpu:h100:1": {"": 2, "h100": 1},
        "(null)": {},
        "gpu:3090:4,gpu:1g.5gb:7(S:0)": {"3090": 4, "1g.5gb": 7},
        "gpu:(null):4(S:0-1)": {"": 4},
        "gres:gpu:l40s:no_consume:4,shard:8": {"l40s": 4},
        "gpu:a100-sxm4:8(IDX:0-3,5)": {"a100-sxm4": 8},
    }
    for text, found in types.items():
        assert parse_resources(text).get("gpu", {}) == found


def test_a_resource_whose_name_is_gres() -> None:
    assert parse_resources("gres") == parse_resources("gres:gres") == {"gres": {"": 1}}


def test_large_numbers_of_a_resource() -> None:
    assert parse_resources("bandwidth:lustre:no_consume:4G,tokens:2K,tokens:1k") == {
        "bandwidth": {"lustre": 4 * 1024**3},
        "tokens": {"": 3072},
    }


def test_counts_and_exit_codes() -> None:
    assert parse_count("4") == 4 and parse_count("2-4") == 2 and parse_count("") is None
    assert ExitCode.parse("3:9") == ExitCode(3, 9) and ExitCode.parse("") is None
    assert str(ExitCode(0, 53)) == "0:53"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gres:gpu:a100:4", 4),
        ("gres/gpu:a100=4", 4),
        ("gres:gpu", 1),
        ("gres:gpu:a100:4(S:0-1)", 4),
        ("gpu:v100:1,nvme:2", 1),
        ("gres:gpumem:2", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_gpus_of_a_node(text: str, expected: Optional[int]) -> None:
    assert parse_gres_gpus(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("billing=32,cpu=32,gres/gpu=4,mem=121600M,node=2", 4),
        ("cpu=2,gres/gpu:a100=4,gres/gpu=4", 4),
        ("cpu=2,gres/gpu:a100=4,gres/gpu:v100=1", 5),
        ("", None),
    ],
)
def test_gpus_of_a_job(text: str, expected: Optional[int]) -> None:
    assert parse_tres_gpus(text) == expected


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("62.50G", 64000), ("512", 512), ("1T", 1048576), ("2048K", 2)]
    + [(text, None) for text in ("", "G", "1.", ".5", "1.5.2G", "1e9", "nan", "1_0M", "5MM")],
)
def test_memory_of_a_job(text: str, megabytes: Optional[int]) -> None:
    assert parse_tres(f"cpu=8,mem={text}").get("mem") == megabytes


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        ("4711\n", Submitted(4711)),
        ("4711;neuron\n", Submitted(4711, "neuron")),
        ("Welcome to the cluster, 4712 jobs today\n4711\n", Submitted(4711)),
        ("", None),
        ("Submitted batch job 4711 on cluster neuron\n", Submitted(4711, "neuron")),
        ("sbatch: Job 7 to start at 2026-08-12T09:30:00\n", None),
        ("Submitted batch job 7 estimates 2 SUs from lab. Left: 2306129\n", Submitted(7)),
        ("JOBID NAME\n7 own\n7 estimates 2 SUs from lab. Left: 23\n", Submitted(7)),
        ("20260812093000\n", None),  # no job id has so many digits
    ],
)
def test_submitted(stdout: str, expected: Optional[Submitted]) -> None:
    assert parse_submitted(stdout) == expected


def test_warnings_are_kept() -> None:
    answer = parse_submitted("7\n", "sbatch: warning: can't honor --ntasks-per-node set to 4\n")
    assert answer == Submitted(7, None, "warning: can't honor --ntasks-per-node set to 4")


def test_the_mark_of_a_job() -> None:
    assert submission_mark("sbatch --parsable /dev/stdin neuronctl-K") == "K"
    assert submission_mark("(null)") == submission_mark("") == ""


ROW = (
    "{id}\x1f11\x1fneuron\x1famd_a100nv_8\x1flab\x1fnormal\x1f{state}\x1f{reason}\x1f2"
    "\x1fcpu=4,mem=15200M,node=2,gres/gpu=4\x1fgres:gpu:2\x1fgpu[35-36]\x1f(null)\x1f42\x1fafterok:5(unfulfilled)\x1f0:26\x1f5:00\x1f2026-11-21T00:52:43\x1f2026-11-21T00:52:44"
    "\x1f2026-11-21T00:57:43\x1f35584\x1f/dev/stdin neuronctl-K\x1f{dir}\x1f{name}\x1e\n"
)


def row(
    id: str = "4_3", state: str = "RUNNING", reason: str = "None", dir: str = "/s", name: str = "n"
) -> str:
    return ROW.format(id=id, state=state, reason=reason, dir=dir, name=name)


def test_squeue_row() -> None:
    (job,) = parse_squeue(row())
    assert (job.id, job.job_id, job.state, job.reason) == (JobId(4, task=3), 11, "RUNNING", "")
    assert (job.nodes, job.gpus_per_node, job.node_list) == (2, 2, "gpu[35-36]")
    assert job.tres == {"cpu": 4, "mem": 15200, "node": 2, "gres/gpu": 4}
    assert (job.account, job.qos) == ("lab", "normal")
    assert (job.priority, job.dependency) == (42, "afterok:5(unfulfilled)")
    assert (job.planned_nodes, job.holds("gres/gpu"), job.holds("cpu")) == ("", 4, 4)
    assert (job.time_used, job.time_limit, job.exit) == (26, 300, ExitCode(139, 0))
    assert (job.submit, job.start, job.end) == (1795222363, 1795222364, 1795222663)
    assert (job.user, job.partition, job.work_dir) == ("neuron", "amd_a100nv_8", "/s")


def test_squeues_exit_code_as_slurm_24_11_prints_it() -> None:
    (job,) = parse_squeue(row().replace("35584", "17:0"))
    assert job.exit == ExitCode(17, 0)
    assert parse_squeue(row().replace("35584", "N/A"))[0].exit is None


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_any_job_name_comes_through(names: list[str]) -> None:
    end = "\x1e0123456789abcdef"
    text = "".join(row(str(n + 1), name=name)[:-2] + end + "\n" for n, name in enumerate(names))
    jobs = parse_squeue(text, end=end)
    assert [job.name for job in jobs] == names
    assert [job.id.job for job in jobs] == list(range(1, len(names) + 1))


def test_squeue_leaves_out_what_is_no_row() -> None:
    assert parse_squeue("") == []
    assert parse_squeue("a site's greeting\x1e\n") == []
    assert [job.job_id for job in parse_squeue("\x1e\n" + row())] == [11]


@pytest.mark.parametrize(
    "status, exit",
    [(0, "0:0"), (1792, "7:0"), (35584, "139:0"), (9, "0:9"), (139, "0:11"), (4021, "0:53")],
)
def test_wait_statuses(status: int, exit: str) -> None:
    # As slurmctld 22.05 printed them; 139 is signal 11 with a core dumped, 4021 Slurm's own error.
    assert str(ExitCode.parse(str(status))) == exit


def test_what_is_left_of_an_array() -> None:
    array = JobId(4, tasks="0-9%2")
    assert array.without([JobId(4), JobId(4, task=12), JobId(4, tasks="10-20")]) == array
    assert array.without([JobId(4, task=0), JobId(4, tasks="4-5,8%1")]) == JobId(
        4, tasks="1-3,6-7,9"
    )
    assert array.without([JobId(4, tasks="0-8"), JobId(4, task=9)]) is None


PAST = (
    "{id}\x1f10\x1fneuron\x1fp\x1fnormal\x1f{state}\x1f{exit}\x1f2026-11-21T00:52:43"
    "\x1f2026-11-21T00:52:43\x1f{end}\x1f25\x1f{limit}\x1f1\x1f{nodes}\x1f{alloc}"
    "\x1fbilling=2,cpu=2,gres/gpu=1,mem=7600M,node=1\x1f/scratch/neuron\x1fsbatch x\x1f{name}\n"
)


def past(
    id: str = "4_1", state: str = "FAILED", exit: str = "3:0", end: str = "2026-11-21T00:53:08",
    limit: str = "5", nodes: str = "gpu35", alloc: str = "cpu=2,gres/gpu=2", name: str = "arr",
) -> str:  # fmt: skip
    return PAST.format(
        id=id, state=state, exit=exit, end=end, limit=limit, nodes=nodes, alloc=alloc, name=name
    )


def test_sacct_row() -> None:
    (job,) = parse_sacct(past())
    assert (job.id, job.job_id, job.state, job.exit) == (
        JobId(4, task=1), 10, "FAILED", ExitCode(3, 0)
    )  # fmt: skip
    assert (job.elapsed, job.time_limit, job.gpus, job.nodes) == (25, 300, 2, 1)
    assert (job.start, job.end, job.node_list) == (1795222363, 1795222388, "gpu35")


def test_sacct_leaves_out_steps_and_greetings() -> None:
    (job,) = parse_sacct("hello\n" + past("4.batch") + past("5"))
    assert str(job.id) == "5"


PAGE = """\
JobId={id} {array}JobName=a name=with all | sorts
   UserId=neuron(20000) GroupId=neuron(20000) MCS_label=N/A
   Priority=4294901751 Nice=0 Account=sandbox QOS=normal
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:53
   RunTime=00:00:00 TimeLimit=00:05:00 TimeMin=N/A
   StartTime=2026-11-21T00:52:43 EndTime=2026-11-21T00:52:43 Deadline=N/A
   NodeList=gpu36
   Command=(null)
   WorkDir=/scratch/neuron
   Comment=field=misc;appl=pytorch-ddp{blank}
   StdErr=/scratch/neuron/e r nodir2.err
   StdIn=/dev/null
   StdOut=/scratch/neuron/sub/x-%N-9.out
   Power=


"""


def page(
    id: str = "9", array: str = "", state: str = "FAILED", reason: str = "JobLaunchFailure"
) -> str:
    return PAGE.format(id=id, array=array, state=state, reason=reason, blank=" ")


def test_the_logs_of_a_job() -> None:
    out = "/scratch/neuron/sub/x-gpu36-9.out"
    assert parse_logs(page()) == (out, "/scratch/neuron/e r nodir2.err")
    text = page().replace("StdErr=/scratch/neuron/e r nodir2.err", "StdErr=")
    assert parse_logs(text) == (out, out)
    assert parse_logs(page() + "\n" + page()) is None


def test_scancel() -> None:
    words = "scancel: error: Kill job error on job id 4: Access/permission denied\n"
    assert parse_scancel(words) == {"4": "Access/permission denied"}
    assert parse_scancel("") == {}


def test_cluster_name() -> None:
    assert parse_cluster_name("# ClusterName=old\nclustername = Neuron # the site's\n") == "neuron"
    assert parse_cluster_name("ControlMachine=x\n") is None
