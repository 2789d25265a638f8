"""What a job's nodes tell of its GPUs, and the end of a job that no longer uses them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Dict

import pytest
from gpu_tools import AMD_SMI, NVIDIA_SMI, ROCM_SMI, install
from plan_builders import GPU, cluster, plan_of

from neuronctl.common.errors import SlurmRefusedError, UsageError
from neuronctl.monitoring import node_use
from neuronctl.monitoring.node_use import parse_node_usage
from neuronctl.rendering.render import render_job, render_shell
from neuronctl.rendering.template_environment import gpu_reader
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.job_status import JobStatus


def read_gpus(folder: Path, tools: Dict[str, str], **variables: str) -> str:
    """What a node prints of its GPUs."""
    path = install(folder, tools)
    done = subprocess.run(
        ["bash", "-c", f"{gpu_reader()}\nread_gpus utilization.gpu"],
        env={"PATH": path, "HOME": str(folder), **variables},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=300,
    )
    return done.stdout


def test_rocm_smi_is_read_as_nvidia_smi(tmp_path: Path) -> None:
    text = read_gpus(tmp_path, {"rocm-smi": ROCM_SMI})
    lines = "".join(f"0: @gpu\t{line}\n" for line in text.splitlines())
    first, second = parse_node_usage(f"0: @node\tnid1\n{lines}")[0].gpus
    assert (first.index, first.name, first.use) == ("0", "AMD INSTINCT MI200", 97)
    assert (first.memory_used, first.memory) == (1029, 65520)
    assert (first.power, first.temperature) == (91, 50)
    assert (second.index, second.use, second.power) == ("1", 0, None)


def test_only_the_gpus_of_the_job_count(tmp_path: Path) -> None:
    text = read_gpus(tmp_path, {"rocm-smi": ROCM_SMI}, ROCR_VISIBLE_DEVICES="1")
    assert [line.split(",")[0] for line in text.splitlines()] == ["index", "1"]


def test_amd_smi_is_asked_without_rocm_smi(tmp_path: Path) -> None:
    text = read_gpus(tmp_path, {"amd-smi": AMD_SMI})
    assert text.splitlines()[1:] == [
        "0, AMD, 87, 1024, 65520, 135.0, 48",
        "1, AMD, [N/A], 11, 65520, [N/A], 42",
    ]


def test_a_node_without_a_tool_prints_nothing(tmp_path: Path) -> None:
    assert read_gpus(tmp_path, {}) == ""


HEADER = "index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], "


AMD = cluster(partitions={"gpu": replace(GPU, gpu="mi250x")})


def test_a_container_gets_the_driver_of_the_partitions_gpus() -> None:
    amd = plan_of(AMD, container="x.sif", gpus_per_node=1)
    assert amd.launches[0].wrapping.prefix[:3] == ("singularity", "exec", "--rocm")
    others = plan_of(container="x.sif", gpus_per_node=1)
    assert others.launches[0].wrapping.prefix[:3] == ("singularity", "exec", "--nv")


@pytest.mark.parametrize(
    ("tool", "code"), [(ROCM_SMI, 0), ("#!/bin/sh\necho WARNING: No AMD GPUs\n", 1)]
)
def test_the_preflight_asks_rocm_smi(tmp_path: Path, tool: str, code: int) -> None:
    path = install(tmp_path, {"rocm-smi": tool, "prog": "#!/bin/sh\n"})
    text = render_job(plan_of(AMD, script="prog", launcher="python", gpus_per_node=1))
    done = subprocess.run(
        ["bash", "-c", text],
        env={"PATH": path, "HOME": str(tmp_path), "SLURM_JOB_ID": "7"},
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=300,
    )
    assert (done.returncode, "rocm-smi finds no GPU" in done.stderr) == (code, code == 1)


STATUS = JobStatus(JobId(3), 3, "train", "kim", "gpu", "RUNNING", "", "squeue")


def test_running_jobs_come_idlest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(job_id: int, *_: object, **__: object) -> str:
        if job_id == 4:
            raise SlurmRefusedError("Job has expired")
        rows = "".join(f"0: @gpu\t{gpu}, A100, {30 - job_id}, 1, 2, 3, 4\n" for gpu in (0, 1))
        return f"0: @node\tn{job_id}\n0: @gpu\t{HEADER}temperature.gpu\n{rows}"

    monkeypatch.setattr(node_use, "on_each_node", answer)
    jobs = [replace(STATUS, id=JobId(job), job_id=job, node_list=f"n{job}") for job in (3, 4, 9)]
    usages = node_use.read_each_usage(jobs)
    assert [(usage.status.job_id, usage.use) for usage in usages] == [(9, 21), (3, 27), (4, None)]
    assert usages[2].problem == "Job has expired"


AT_FIRST = "SECONDS=1795"
"""A setup line that puts the batch shell near the end of the half hour before the first use."""


def run_idle_job(
    folder: Path, use: str, *, begun: str = "", program: str = "", limit: int = 9, cores: str = "1"
) -> str:
    """Run a job with --idle 4s, whose program waits to be ended; return its errors.

    use: the rows of nvidia-smi. begun: a setup line. The job ends by itself after ``limit`` s.
    """
    waits = f"{program}\nfor _ in {{1..{limit * 5}}}; do [ ! -s ended ] || exit 0; sleep 0.2; done"
    tools = {"nvidia-smi": NVIDIA_SMI, "scancel": '#!/bin/sh\necho "$@" >ended\n'}
    path = install(folder, {**tools, "prog": f"#!/bin/bash\n{waits}\n"})
    (folder / "use").write_text(use)
    setup = (begun,) if begun else ()
    plan = plan_of(
        script="prog", launcher="python", gpus_per_node=1, idle="4s", preflight=False, setup=setup
    )
    environment = {
        **{"PATH": path, "HOME": str(folder), "USE": str(folder / "use"), "SLURMD_NODENAME": "n1"},
        **{"SLURM_JOB_ID": f"idle{os.getpid()}", "SLURM_JOB_CPUS_PER_NODE": cores},
    }
    with (folder / "errors").open("w") as errors:
        script = ["bash", "-c", render_job(plan)]
        subprocess.run(script, cwd=folder, env=environment, stderr=errors, timeout=300)
    return (folder / "errors").read_text()


def is_ended(folder: Path) -> bool:
    return (folder / "ended").exists()


def test_ends_a_job_that_never_used_its_gpu_after_half_an_hour(tmp_path: Path) -> None:
    errors = run_idle_job(tmp_path, "0, 0\n", begun=AT_FIRST, limit=120)
    assert is_ended(tmp_path)
    assert errors == "idle: no GPU was used, so the job ends\n"


def test_the_clock_begins_with_the_first_use(tmp_path: Path) -> None:
    stops = "sleep 3; echo 0, 0 >use"
    errors = run_idle_job(tmp_path, "0, 50\n", program=stops, limit=120)
    assert is_ended(tmp_path)
    words = "idle: no GPU was used, and at most half of the cores were busy, for 4 s"
    assert errors == f"{words}, so the job ends\n"


BURN = "while [ ! -s ended ] && ((SECONDS < 9)); do :; done"


@pytest.mark.parametrize(
    ("use", "program"),
    [
        ("0, [N/A]\n", ""),
        ("", ""),
        ("0, 0\n1, 6\n", ""),
        ("0, 0\n", f"{BURN} & {BURN} & {BURN}; exit"),
    ],
    ids=["use not known", "no GPU in sight", "one of two at work", "reads data with its core"],
)
def test_leaves_a_job_at_work_alone(tmp_path: Path, use: str, program: str) -> None:
    # Of a whole core, a busy machine may leave less than half to the program.
    cores = "0.2" if program else "1"
    errors = run_idle_job(tmp_path, use, begun="SECONDS=1800", program=program, cores=cores)
    assert errors == ""
    assert not is_ended(tmp_path)


def test_a_job_without_gpus_has_nothing_to_watch() -> None:
    with pytest.raises(UsageError, match="--idle looks at the job's GPUs"):
        plan_of(idle="10s")


def test_an_allocation_is_watched_from_its_first_shell() -> None:
    text = render_shell(plan_of(gpus_per_node=1, nodes=2, idle="30m", interactive=True))
    assert "(watch_nodes &)" in text and "srun --nodes=2 --ntasks=2" in text
