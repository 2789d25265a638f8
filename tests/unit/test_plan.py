"""Every value of a plan: where it comes from, from what it is derived, what directive it makes."""

from __future__ import annotations

from typing import Any, Dict, Optional

import pytest
from plan_builders import FIELDS, HOUR, cluster, directive, plan_of, policy, request

from neuronctl.catalog.cluster import Catalog, CommentPolicy, Qos, WallTime
from neuronctl.common import units
from neuronctl.common.errors import UsageError
from neuronctl.judgement.judgement import judge
from neuronctl.planning import JobPlan, plan
from neuronctl.request.job import Source, StepRequest
from neuronctl.rules import RuleContext


def why(made: JobPlan, name: str) -> str:
    decision = made.decision(name)
    assert decision is not None
    return decision.reason


ASKED = [
    ("job_name", "실험 1", "job-name", "실험 1"),
    ("partition", "old", "partition", "old"),
    ("nodes", 2, "nodes", "2"),
    ("ntasks_per_node", 3, "ntasks-per-node", "3"),
    ("cpus_per_task", 5, "cpus-per-task", "5"),
    ("gpus_per_node", 2, "gres", "gpu:2"),
    ("gres", ("nvme:1",), "gres", "nvme:1"),
    ("mem", "80G", "mem", "80G"),
    ("exclusive", True, "exclusive", None),
    ("constraint", "hwperf", "constraint", "hwperf"),
    ("nodelist", "n1", "nodelist", "n1"),
    ("time_limit", "2:00:00", "time", "2:00:00"),
    ("comment", "word", "comment", "word"),
    ("dependency", "afterok:1", "dependency", "afterok:1"),
    ("array", "0-9%2", "array", "0-9%2"),
    ("requeue", True, "requeue", None),
    ("requeue", False, "no-requeue", None),
    ("signal", "B:USR1@60", "signal", "B:USR1@60"),
    ("mail_type", "END", "mail-type", "END"),
    ("output", "o_%j", "output", "o_%j"),
    ("sbatch", ("nice=100",), "nice", "100"),
    ("sbatch", ("hold",), "hold", None),
]


@pytest.mark.parametrize(("field", "value", "option", "text"), ASKED)
def test_what_is_asked_for_reaches_its_directive(
    field: str, value: Any, option: str, text: Optional[str]
) -> None:
    found = directive(plan_of(**{field: value}), option)
    assert found is not None
    assert (found.value, found.remark) == (text, "")


def test_gpus_are_asked_for_as_the_site_does() -> None:
    for option, value in (("gres", "gpu:a100:2,nvme:1"), ("gpus-per-node", "a100:2")):
        where = cluster(policy(gpu_option=option))
        made = plan_of(where, gpus_per_node=2, gpu_type="a100", gres=("nvme:1",))
        found = directive(made, option)
        assert found is not None and found.value == value


def test_requeued_job_keeps_its_log() -> None:
    found = directive(plan_of(requeue=True), "open-mode")
    assert found is not None and found.value == "append"
    asked = directive(plan_of(requeue=True, sbatch=("open-mode=truncate",)), "open-mode")
    assert asked is not None and asked.value == "truncate"
    assert directive(plan_of(), "open-mode") is None


def test_slurm_does_not_requeue_a_job_of_a_chain() -> None:
    """It would run a second time, beside the next one, and into an empty log."""
    chained = plan(request(until_done=True), cluster(), chain="PreemptMode=CANCEL")
    assert directive(chained, "no-requeue") is not None
    assert directive(chained, "requeue") is None
    assert directive(plan_of(until_done=True), "requeue") is not None


def test_nodes() -> None:
    made = plan_of(nodelist="n[1-3]")
    assert (made.nodes, why(made, "nodes")) == (3, "as many as --nodelist names")
    assert plan_of(nodelist="n[1-3]", nodes=1).nodes == 1
    assert plan_of(nodelist="n[").nodes == plan_of(nodelist="./hosts").nodes == 1


LAUNCHES = [
    ({}, "python", 1, 1),
    ({"gpus_per_node": 1}, "python", 1, 1),
    ({"gpus_per_node": 4}, "torchrun", 1, 4),
    ({"nodes": 2, "gpus_per_node": 2}, "torchrun", 1, 2),
    ({"ntasks_per_node": 4, "gpus_per_node": 4}, "srun", 4, 4),
    ({"ntasks": 8, "nodes": 2}, "srun", 4, 4),
    ({"launcher": "srun", "gpus_per_node": 4}, "srun", 4, 4),
    ({"launcher": "torchrun", "gpus_per_node": 1}, "torchrun", 1, 1),
    ({"script": "prog", "nodes": 2}, "srun", 1, 1),
    ({"script": "prog", "gpus_per_node": 4}, "python", 1, 1),
]


@pytest.mark.parametrize(("fields", "launcher", "tasks", "processes"), LAUNCHES)
def test_launcher_tasks_and_processes(
    fields: Dict[str, Any], launcher: str, tasks: int, processes: int
) -> None:
    made = plan_of(**fields)
    assert made.launcher.name == launcher
    assert (made.ntasks_per_node, made.processes_per_node) == (tasks, processes)


CORES = [
    ({"gpus_per_node": 2}, 16, "2 GPUs x 8 cores per GPU"),
    ({"gpus_per_node": 1}, 8, "8 cores per GPU"),
    ({"gpus_per_node": 2, "ntasks_per_node": 2}, 8, "2 GPUs x 8 cores per GPU / 2 tasks"),
    ({"gpus_per_node": 2, "ntasks_per_node": 3}, 5, "2 GPUs x 8 cores per GPU / 3 tasks"),
    ({"gpus_per_node": 1, "ntasks_per_node": 99}, 1, "8 cores per GPU / 99 tasks"),
    ({"gpus_per_node": 1, "cpus_per_task": 3}, 3, ""),
    ({"partition": "cpu"}, 1, "one core per task by default"),
    ({"partition": "dim", "gpus_per_node": 4}, 4, "one core per GPU by default"),
]


@pytest.mark.parametrize(("fields", "cores", "reason"), CORES)
def test_cores(fields: Dict[str, Any], cores: int, reason: str) -> None:
    made = plan_of(**fields)
    assert made.cpus_per_task == cores
    assert why(made, "cpus-per-task") == reason
    found = directive(made, "cpus-per-task")
    assert found is not None and found.remark == reason


TIMES = [
    ("90:00", 5400, "01:30:00"),
    ("24:00:00", 24 * HOUR, "24:00:00"),
    ("2-0", 48 * HOUR, "2-00:00:00"),
    ("1-12:30", 131400, "1-12:30:00"),
    ("UNLIMITED", units.UNLIMITED, "UNLIMITED"),
    ("0", units.UNLIMITED, "0"),
]


@pytest.mark.parametrize(("text", "seconds", "written"), TIMES)
def test_time_is_written_so_that_nobody_misreads_it(text: str, seconds: int, written: str) -> None:
    made = plan_of(time_limit=text)
    found = directive(made, "time")
    assert (made.time_limit, found and found.value) == (seconds, written)
    assert units.parse_time(written) == seconds


def test_time_of_the_catalog() -> None:
    batch = directive(plan_of(), "time")
    assert batch is not None
    assert (batch.value, batch.remark) == ("01:00:00", "the default of toy")
    interactive = directive(plan_of(interactive=True, script=None), "time")
    assert interactive is not None and interactive.value == "08:00:00"
    assert directive(plan_of(partition="old"), "time") is None
    debug = cluster(qos={"debug": Qos("debug", wall_time=WallTime(maximum=1800))})
    for qos, value, why in (
        ("debug", "00:30:00", "the most that QOS debug allows on toy"),
        ("unknown", "01:00:00", "the default of toy"),
    ):
        limited = directive(plan_of(debug, qos=qos), "time")
        assert limited is not None and (limited.value, limited.remark) == (value, why)


def test_comment() -> None:
    fields = cluster(policy(comment=FIELDS))
    assert plan_of(fields, field="nlp", appl="jax").comment == "field=nlp;appl=jax"
    assert plan_of(fields, appl="jax").comment == "appl=jax"
    assert plan_of(fields, comment="mine").comment == "mine"
    assert plan_of(fields).comment is None
    word = cluster(policy(comment=CommentPolicy(form="word")))
    assert plan_of(word, appl="jax").comment == "jax"
    assert plan_of(appl="jax").comment is None


def test_logs() -> None:
    array = plan_of(array="1-3")
    assert (array.output, array.error) == ("%x_%A_%a.out", "%x_%A_%a.err")
    one = plan_of(output="log")
    assert (one.output, one.error, directive(one, "error")) == ("log", None, None)


def test_threads_are_the_users_own_where_no_processes_share_the_cores() -> None:
    exports = {one.name: one for one in plan_of(gpus_per_node=4).exports}
    assert exports["OMP_NUM_THREADS"].value == "${OMP_NUM_THREADS:-8}"
    why = "32 cores / 4 processes, unless you exported it"
    assert exports["OMP_NUM_THREADS"].remark == why
    asked = [one for one in plan_of(env=(("OMP_NUM_THREADS", "2"),)).exports]
    assert [one.value for one in asked if one.name == "OMP_NUM_THREADS"] == ["2"]
    for alone in ({"cpus_per_task": 32, "gpus_per_node": 1}, {"launcher": "srun", "nodes": 2}):
        assert "OMP_NUM_THREADS" not in [one.name for one in plan_of(**alone).exports]


def test_clusters_variables_give_way_to_the_users() -> None:
    where = cluster(environment={"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "7"})
    made = plan_of(where, env=(("HF_HUB_OFFLINE", "0"),))
    values = [(one.name, one.value) for one in made.exports]
    assert ("OMP_NUM_THREADS", "7") in values and ("HF_HUB_OFFLINE", "0") in values
    assert len({name for name, _ in values}) == len(values)


def test_partition_and_cluster_by_default() -> None:
    where = cluster(default_partition="cpu")
    made = plan(request(partition=None), where)
    assert made.partition.name == "cpu"
    assert why(made, "partition") == "the cluster's default partition"
    found = directive(made, "partition")
    assert found is not None and found.remark == "the cluster's default partition"
    none = plan(request(partition=None), cluster())
    assert (none.partition.name, directive(none, "partition")) == ("", None)


def test_every_value_has_one_reason() -> None:
    made = plan_of(gpus_per_node=2, nodes=2, comment="x")
    names = [one.name for one in made.decisions]
    assert len(set(names)) == len(names)
    for one in made.decisions:
        assert one.reason or one.source is not Source.DERIVED or one.name == "nodes", one
    assert {one.option for one in made.directives} - {"gres"} <= set(names)


SIGNALS = [
    ("USR1@60", (), ("USR1", False, False)),
    ("B:SIGUSR1", (), ("USR1", True, False)),
    ("RB:10@5", (), ("USR1", True, False)),
    ("B:USR1@60", ("trap 'x' USR1",), ("USR1", True, True)),
    ("B:USR1@60", ("trap 'x' SIGUSR1 TERM",), ("USR1", True, True)),
    ("B:USR1@60", ("trap 'x' USR2",), ("USR1", True, False)),
    ("USR1@60", ("trap 'x' USR1",), ("USR1", False, False)),
]


@pytest.mark.parametrize(("text", "setup", "expected"), SIGNALS)
def test_signal(text: str, setup: Any, expected: Any) -> None:
    signal = plan_of(signal=text, setup=setup).signal
    assert signal is not None
    assert (signal.name, signal.to_batch_shell, signal.trapped == "setup") == expected
    assert plan_of().signal is None


@pytest.mark.parametrize(("total", "nodes", "each"), [(4, 1, 4), (8, 2, 4), (2, 2, 1)])
def test_gpus_of_all_nodes_together(total: int, nodes: int, each: int) -> None:
    made = plan_of(gpus=total, nodes=nodes)
    assert (made.gpus_per_node, made.gpus) == (each, total)
    found = directive(made, "gres")
    assert found is not None
    assert found.value == f"gpu:{each}"
    assert found.remark == (f"{total} GPUs / {nodes} nodes" if nodes > 1 else "")
    assert plan_of(gpus=total, nodes=nodes, gpus_per_node=each).gpus_per_node == each


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"gpus": 5, "nodes": 2}, "-N 2 --gpus-per-node 3 requests 6 GPUs"),
        ({"gpus": 1, "nodes": 2}, "-N 2 --gpus-per-node 1 requests 2 GPUs"),
        ({"gpus": 8, "nodes": 2, "gpus_per_node": 2}, "-N 2 --gpus-per-node 2 requests 4 GPUs"),
    ],
)
def test_gpus_that_do_not_divide(fields: Dict[str, Any], hint: str) -> None:
    with pytest.raises(UsageError, match=r"are not \d on each of 2 nodes") as caught:
        plan_of(**fields)
    assert hint in caught.value.hint


def test_a_list_of_partitions_is_judged_in_each() -> None:
    catalog = Catalog({"toy": cluster()}, "toy", ())
    # Slurm passes over the nodes that do not suit the job.
    made = plan_of(partition="gpu,old", gpus_per_node=5, gpu_type="a100")
    told = judge(RuleContext(made, catalog), None)
    assert told.refusals == ()
    assert [(one.code, one.message.partition(": ")[0]) for one in told.findings[:2]] == [
        ("NC121", "in old"),
        ("NC123", "in old"),
    ]
    told = judge(RuleContext(plan_of(partition="gpu,old", gpus_per_node=9), catalog), None)
    assert [one.code for one in told.refusals] == ["NC121", "NC121", "NC131"]
    told = judge(RuleContext(plan_of(partition="gpu,old", nodes=3), catalog), None)
    assert told.refusals == ()
    assert told.findings[0].message == "in old: requested 3 nodes; old has 2"
    # What is wrong wherever it runs is told once.
    told = judge(RuleContext(plan_of(partition="gpu,old", conda="a", venv="b"), catalog), None)
    assert [one.code for one in told.refusals] == ["NC311"]


def test_cores_that_are_left_to_slurm() -> None:
    made = plan_of(gpus_per_node=2, cpus_per_task=0, launcher="none")
    assert directive(made, "cpus-per-task") is None
    assert made.decision("cpus-per-task").value == "left to Slurm"  # type: ignore[union-attr]
    assert made.decision("memory per node") is None
    steps = (StepRequest(script="a.py", launcher="none"), StepRequest(body="echo\n"))
    made = plan_of(script=None, steps=steps, cpus_per_task=0)
    assert directive(made, "cpus-per-task") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"launcher": "srun"},
        {"gpus_per_node": 2},  # torchrun by default
        {"script": None, "steps": (StepRequest(script="a.py", launcher="torchrun"),)},
        {"script": None, "steps": (StepRequest(together=(StepRequest(body="a\n"),) * 2),)},
    ],
)
def test_a_launcher_of_slurms_has_to_know_the_cores(fields: Dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^--cpus-per-task 0 leaves the cores to Slurm, and "):
        plan_of(cpus_per_task=0, **fields)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("src/train.py", "train"),
        ("python train.py --lr 3", "train"),
        ("env A=1 python3.11 -u -W ignore src/train.py", "train"),
        ("python -m lab.train", "train"),
        ("torchrun --nproc-per-node=2 train.py", "train"),
        ("bash -e run.sh", "run"),
        ("python -c pass", "python"),
        ("./simulate data.py", "simulate"),
    ],
)
def test_a_job_is_named_after_its_program(words: str, name: str) -> None:
    script, *args = words.split()
    assert plan_of(script=script, args=tuple(args), launcher="none").job_name == name


def test_of_two_ways_to_share_nodes_the_last_one_holds() -> None:
    made = plan_of(exclusive=True, sbatch=("exclusive=user",))
    said = [one.value for one in made.directives if one.option == "exclusive"]
    assert (made.request.exclusive, said) == (None, ["user"])
