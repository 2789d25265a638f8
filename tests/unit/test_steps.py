"""Steps, shell text, and what is started how often."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, List

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_builders import plan_of

from neuronctl import library
from neuronctl.cli.job_output import summary
from neuronctl.common.errors import JobFileError, NeuronctlError, UsageError
from neuronctl.request.job import StepRequest
from neuronctl.request.job_file import read_job_file
from neuronctl.submission.pipeline import JudgedJob


def launches(*steps: StepRequest, **more: Any) -> List[str]:
    return [launch.starts for launch in plan_of(steps=steps, **more).launches]


ONCE = ["bash", "sh", "job.sh", "./job.bash", "/usr/bin/zsh", "srun", "mpirun", "torchrun", "ray"]


@pytest.mark.parametrize("script", [*ONCE, "jupyter", "jupyter-lab", "horovodrun", "deepspeed"])
def test_what_starts_the_others_itself_starts_once(script: str) -> None:
    plan = plan_of(script=script, nodes=2, ntasks_per_node=8, gpus_per_node=4)
    assert (plan.launcher.name, plan.launcher.distributed) == ("none", False)
    assert plan.starts == f"{script} starts once, on the first node"


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("python -m torch.distributed.run train.py", "none"),
        ("python3 -u -m accelerate.commands.launch train.py", "none"),
        ("python -m vllm.entrypoints.openai.api_server --tensor-parallel-size 4", "none"),
        ("prun -n 4 ./solver", "none"),
        ("mpiexec.hydra -n 4 ./solver", "none"),
        ("uv run torchrun train.py", "none"),
        ("uv run --with torch --frozen -- accelerate launch train.py", "none"),
        ("pixi run -e cuda ray start", "none"),
        ("conda run -n nlp --no-capture-output mpirun ./solver", "none"),
        ("/opt/conda/bin/mamba run --name=nlp bash run.sh", "none"),
        ("env -u A B=1 C=2 ./run.sh", "none"),
        ("time -p nice -n 5 nohup srun hostname", "none"),
        ("stdbuf -o L torchrun train.py", "none"),
        ("numactl --localalloc -N 0 mpirun ./solver", "none"),
        ("timeout -k 5 1h torchrun train.py", "none"),
        ("nice python train.py", "torchrun"),
        ("uv run train.py", "torchrun"),
        ("uv run python -m package", "torchrun"),
        ("env A=1 ./solver", "srun"),
        ("uv pip install torchrun", "srun"),
        ("python train.py -m torch.distributed.run", "torchrun"),
        ("python3 -uX dev -Werror train.py", "torchrun"),
        ("python -X dev -m package", "torchrun"),
        ("python -Wignore -mtorch.distributed.run train.py", "none"),
        ("python -c pass train.py", "srun"),
        ("./solver torchrun", "srun"),
        ("nice", "srun"),
    ],
)
def test_the_program_behind_others_counts(line: str, launcher: str) -> None:
    script, *args = line.split()
    plan = plan_of(script=script, args=tuple(args), nodes=2, gpus_per_node=4)
    assert plan.launcher.name == launcher


@given(
    script=st.sampled_from([*ONCE, "train.py", "python", "./a.out", "python -c", "nvidia-smi"]),
    nodes=st.integers(1, 3),
    tasks=st.none() | st.integers(1, 5),
    gpus=st.none() | st.integers(1, 4),
    launcher=st.sampled_from([None, "none", "srun", "torchrun", "mpirun", "horovodrun"]),
    text=st.booleans(),
)
def test_nothing_is_copied_silently(
    script: str, nodes: int, tasks: Any, gpus: Any, launcher: Any, text: bool
) -> None:
    name, *args = script.split()
    what = {"body": "echo"} if text else {"script": name, "args": (*args, "x.py")}
    sizes = {"nodes": nodes, "ntasks_per_node": tasks, "gpus_per_node": gpus}
    try:
        plan = plan_of(launcher=launcher, **what, **sizes)
    except UsageError:
        return
    script = library.render(plan)
    if plan.launcher.distributed and plan.processes > 1:
        each = plan.processes_per_node
        assert f"{plan.launcher.name} starts {each} " in plan.starts
        assert (f"on each of {nodes} nodes" in plan.starts) is (nodes > 1)
        assert f"# {plan.starts}." in script
    elif not plan.launcher.distributed:
        assert " starts once" in plan.starts
        assert "srun --" not in script.partition("# ---- Helpers")[0]
    if launcher is None and (text or name in ONCE):
        assert plan.launcher.name == "none"


def test_a_step_has_what_the_job_has_unless_it_says_otherwise() -> None:
    made = plan_of(
        steps=(
            StepRequest(body="prepare"),
            StepRequest(script="train.py"),
            StepRequest(script="train.py", nodes=1, gpus_per_node=1),
            StepRequest(script="x", launcher="srun", ntasks_per_node=4),
        ),
        nodes=2,
        gpus_per_node=2,
        cpus_per_task=4,
    )
    first, second, third, fourth = made.launches
    assert (first.launcher.name, first.inline, first.own_step) == ("none", True, False)
    assert second.starts == "torchrun starts 2 processes of train.py on each of 2 nodes"
    assert third.starts == "train.py starts once"
    assert (third.nodes, third.gpus_per_node, third.own_step) == (1, 1, True)
    assert "--gpus-per-node=1" in third.srun_options or "--gres=gpu:1" in third.srun_options
    assert fourth.starts == "srun starts 4 tasks of x on each of 2 nodes"
    assert made.launcher.name == "none" and made.ntasks_per_node == 4
    assert made.rendezvous and made.preflight
    assert [one.value for one in made.decisions if one.name.startswith("step ")] == [
        one.starts for one in made.launches
    ]


def test_the_job_has_the_cores_that_a_step_requests() -> None:
    step = StepRequest(script="a.out", launcher="srun", ntasks_per_node=2, cpus_per_task=20)
    made = plan_of(steps=(step, StepRequest(body="x")), gpus_per_node=1)
    assert (made.ntasks_per_node, made.cpus_per_task) == (2, 20)
    assert made.decision("cpus-per-task").reason == "the most that a step needs"
    assert plan_of(steps=(step,), ntasks_per_node=1).cpus_per_task == 40
    two = dataclasses.replace(step, nodes=2)
    assert plan_of(steps=(two,), nodelist="gpu[35-36]").cpus_per_task == 20
    few = dataclasses.replace(step, cpus_per_task=1)
    assert plan_of(steps=(few,), gpus_per_node=1).cores_per_node == 8


def test_the_summary_names_all_that_starts_several_times() -> None:
    once, several = StepRequest(body="x"), StepRequest(script="a.out", launcher="srun")
    said = summary(
        JudgedJob(plan_of(steps=(once, once, several, once, several), nodes=2), ())
    ).split("; ")[1:]
    assert said == [
        "2 times: srun starts 1 task of a.out on each of 2 nodes",
        "3 times: the shell text starts once, on the first node",
    ]


def test_steps_side_by_side_share_evenly() -> None:
    for count, nodes, gpus in ((4, 1, 1), (2, 1, 2), (3, 1, 1), (4, 2, 2), (8, 2, 1), (5, 1, 1)):
        steps = tuple(StepRequest(body="x") for _ in range(count))
        made = plan_of(steps=(StepRequest(together=steps),), nodes=nodes, gpus_per_node=4)
        each = made.launches
        assert [launch.gpus_per_node for launch in each] == [gpus] * count
        assert all("--exact" in launch.srun_options for launch in each)
        assert all(launch.nodes == 1 and launch.cpus_per_task >= 1 for launch in each)
        if count != 5:  # the fifth waits for one of four GPUs
            assert sum(launch.cpus_per_task for launch in each) <= nodes * made.cores_per_node


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((StepRequest(body="x", nodes=3),), "3 nodes; the job has 2"),
        ((StepRequest(body="x", gpus_per_node=5),), "5 GPUs per node; the job has 4"),
        ((StepRequest(body="x", cpus_per_task=9),), "9 cores per node; the job has 8"),
        ((StepRequest(together=(StepRequest(body="x", nodes=2),)),), "run on one node each"),
        (
            (StepRequest(together=(StepRequest(script="x.py", launcher="mpirun"),)),),
            "mpirun starts its processes without srun",
        ),
    ],
)
def test_steps_that_cannot_be(steps: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan_of(steps=steps, nodes=2, gpus_per_node=4, ntasks_per_node=2, cpus_per_task=4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps: [x]", "expected a step with run, script, or together"),
        ("steps: [{}]", "a step needs run, script, or together"),
        ("steps: [{run: ''}]", "run: is empty"),
        ("steps: [{run: x, script: y}]", "script and run contradict each other"),
        ("steps: [{run: x, args: [y]}]", "args belong to a script"),
        ("steps: [{run: x, time: 1}]", "unknown key 'time'"),
        ("steps: [{run: x, allow-failure: maybe}]", "expected true or false"),
        ("steps: [{together: [{run: x}], launcher: srun}]", "together has its launchers"),
        ("steps: [{together: [{together: [{run: x}]}]}]", "together cannot contain together"),
        ("steps: [{run: x}]\nscript: y", "script and steps contradict each other"),
        ("run: x\nscript: y", "script and run contradict each other"),
        ('run: "a\\eb"', "contains the control character"),
    ],
)
def test_refused_with_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(JobFileError, match=r"job\.yaml:[12]: ") as refused:
        read_job_file(str(tmp_path / "job.yaml"))
    assert words in refused.value.message


def test_a_program_and_not_two() -> None:
    for more in ({"body": "x"}, {"steps": [{"run": "x"}]}):
        with pytest.raises(UsageError, match="contradict"):
            library.plan("train.py", partition="p", **more)  # type: ignore[arg-type]
    made = library.plan(body="echo $SLURM_JOB_ID\r\n", partition="amd_a100nv_8", appl="pytorch")
    assert "\necho $SLURM_JOB_ID\n" in library.render(made)
    for body in (5, b"x", ["x"]):
        with pytest.raises(UsageError, match="body: expected text"):
            library.plan(body=body)  # type: ignore[arg-type]
    for wrong in ([{"run": 1.5}, 7], [{"script": "x", "x": 1}], [{}]):
        with pytest.raises(NeuronctlError):
            library.plan(steps=wrong)  # type: ignore[arg-type]
