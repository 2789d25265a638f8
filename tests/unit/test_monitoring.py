"""The samples of a job: what is read of files that nodes wrote, and what is advised."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Optional

import pytest

from neuronctl.cli.report import _write_page
from neuronctl.common.errors import UsageError
from neuronctl.monitoring.job_use import JobUse, advise, read_sampled_use
from neuronctl.monitoring.node_use import parse_node_usage
from neuronctl.monitoring.samples import GpuUse, NodeUse, gpu_lines, read_samples
from neuronctl.request.job_file import own_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.sacct import parse_steps, usage_by_job
from neuronctl.tracking.job_status import JobStatus

START = 1_795_000_000
GIB = 1 << 30
HEAD = "# cores=16 memory=65536M every=10\ntime,cpu,memory\n"
GPU_HEAD = ",index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]\n"


def node(
    folder: Path, name: str = "gpu30", samples: int = 60, job: str = "4711-0", shift: int = 0
) -> None:
    """A node's file: 4 of its 16 cores busy, 1 GiB of memory that grows by 1 MiB a sample."""
    lines = [
        f"{START + shift + 10 * n},{40.0 * n:.2f},{GIB + n * (1 << 20)}\n" for n in range(samples)
    ]
    (folder / f"{job}.{name}.csv").write_text(HEAD + "".join(lines))


def gpus(
    folder: Path, moments: Dict[int, List[str]], name: str = "gpu30", job: str = "4711-0"
) -> None:
    """The rows of each GPU at each moment, in seconds since the start."""
    lines = [f"{START + at},{row}\n" for at, rows in moments.items() for row in rows]
    (folder / f"{job}.{name}.gpus.csv").write_text(f"{START}{GPU_HEAD}" + "".join(lines))


def row(index: int, use: object, memory: object = 40000) -> str:
    return f"{index}, {use}, {memory}, 81559, [N/A]"


def test_use_and_memory_over_time_are_lines_of_blocks(tmp_path: Path) -> None:
    node(tmp_path)
    moments = {10 * n: [row(0, 100 if n < 30 else 0, 81559)] for n in range(60) if n // 15 != 2}
    gpus(tmp_path, moments)
    lines = gpu_lines(read_samples(str(tmp_path), 4711), 8)
    assert lines == [("GPU 0 use", "████  ▁▁"), ("      memory", "████  ██")]


def test_a_page_of_a_job(tmp_path: Path) -> None:
    """It is whole without other files; what is not known is a gap, or left out."""
    node(tmp_path)
    moments = {10 * n: [row(0, 90), row(1, 0)] for n in range(60) if not 20 < n < 40}
    gpus(tmp_path, {**moments, 595: [row(0, 9), row(1, 0)]})  # one that shares its span
    job = JobUse(replace(STATUS, name="<b>"), read_samples(str(tmp_path), 4711))
    page = tmp_path / "page.html"
    _write_page(str(page), [job])
    text = page.read_text()
    assert "&lt;b&gt;" in text and "<b>" not in text
    assert not re.search("(src|href)=|url\\(|@import", text)
    assert re.findall("<h2>(.*)</h2>", text) == [
        "GPU 0 of gpu30",
        "GPU 1 of gpu30",
        "Cores of gpu30",
    ]
    assert text.count("<polyline") == 2 * 2 * 2 + 1  # use and memory; no power, and the cores
    assert "in use 88%" in text and "use: 88% on average" in text
    assert "1 of 2 GPUs was never used (GPU 1)" in text
    assert page.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="--html shows one job"):
        _write_page(str(page), [job, job])


def test_a_node(tmp_path: Path) -> None:
    node(tmp_path)
    (one,) = read_samples(str(tmp_path), 4711)
    assert (one.node, one.samples, one.cores, one.memory) == ("gpu30", 60, 16, 64 * GIB)
    assert one.cpu / one.seconds == pytest.approx(4.0)
    assert one.memory_peak == GIB + 59 * (1 << 20)
    assert one.silent == 0


def test_its_gpus(tmp_path: Path) -> None:
    node(tmp_path)
    moments = {}
    for n in range(60):
        moments[10 * n] = [row(0, 80 if n % 20 < 10 else 0), row(1, 95, 70000)]
    gpus(tmp_path, moments)
    (one,) = read_samples(str(tmp_path), 4711)
    first, second = one.gpus
    assert (first.use, first.idle, first.longest_idle) == (40.0, 0.5, 100)
    assert (second.power, second.memory_peak, second.memory) == (None, 70000, 81559)


def test_what_is_not_told_is_not_known(tmp_path: Path) -> None:
    """MIG has no use, and a tool that says nothing leaves no GPU."""
    node(tmp_path)
    gpus(tmp_path, {10 * n: [row(0, "[N/A]", "[N/A]")] for n in range(20)})
    (gpu,) = read_samples(str(tmp_path), 4711)[0].gpus
    assert (gpu.samples, gpu.use, gpu.idle, gpu.memory_peak) == (20, None, None, None)
    (tmp_path / "4711-0.gpu30.gpus.csv").write_text("1795000000,Unable to determine the device\n")
    assert read_samples(str(tmp_path), 4711)[0].gpus == ()


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 5000, b"x" * (3 << 20), b"# cores=a\n", b"#\ntime,cpu,memory\n1,2\n"]
)
def test_broken_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "4711-0.a.csv").write_bytes(content)
    assert read_samples(str(tmp_path), 4711) == ()
    node(tmp_path)
    of_gpus = tmp_path / "4711-0.gpu30.gpus.csv"
    of_gpus.write_bytes(content)
    assert [one.gpus for one in read_samples(str(tmp_path), 4711)] == [()]
    broken = b"\n, , \n1, 2, nan\n1e99,\x1b[31m" + b",1" * 8 + b"\n"
    of_gpus.write_bytes(GPU_HEAD.encode() + content + broken)
    assert len(read_samples(str(tmp_path), 4711)) == 1


STATUS = JobStatus(
    JobId(4711), 4711, "train", "kim", "gpu", "COMPLETED", "", "sacct", nodes=1, node_list="gpu30"
)
GPU = GpuUse("gpu30", "0", 60, use=90.0, idle=0.05, memory_peak=40_000, memory=81_559)
UNUSED = replace(GPU, index="1", use=0.0, idle=1.0)
NODE = NodeUse("gpu30", 60, START, START + 600, 10, 0, 600, 16, 64 * GIB, cpu=2400)


def used(*of: GpuUse, status: JobStatus = STATUS, **of_node: Optional[float]) -> JobUse:
    return JobUse(status, (replace(NODE, gpus=of, **of_node),))


@pytest.mark.parametrize(
    ("job", "advice"),
    [
        (used(GPU), []),
        (used(GPU, UNUSED), ["1 of 2 GPUs was never used (GPU 1)"]),
        (used(UNUSED), ["no GPU was ever used"]),
        (
            used(replace(GPU, use=50.0, idle=0.4), cpu=600),
            ["idle 40% of the time while 1.0 of 16"],
        ),
        (used(replace(GPU, use=50.0, idle=0.4), cpu=9000), ["they probably waited for the CPU"]),
        (used(GPU, GPU, replace(GPU, index="2", use=20.0)), ["GPU 2 was used 20% of the time"]),
        (used(replace(GPU, use=30.0, memory_peak=8_000)), ["a larger batch"]),
        (
            used(GPU, status=replace(STATUS, elapsed=7800, time_limit=172800)),
            ["ended after 2 h 10 min of 2 d: with --time 04:20:00"],
        ),
        (used(replace(UNUSED, samples=5), samples=5), []),
        (used(GPU, replace(UNUSED, samples=3)), []),
    ],
)
def test_advice(job: JobUse, advice: List[str]) -> None:
    found = advise(job)
    assert len(found) == len(advice), found
    for text, part in zip(found, advice):
        assert part in text


def test_what_accounting_has() -> None:
    text = (
        "4711|FAILED|1:0||8G|1-00:00:10|32|100|0:0\n"
        "4711.batch|FAILED|1:0|114168K||00:11.557|32|41|\n"
        "4711.0|FAILED|1:0|1.5G|||32|41|\n4712_3|COMPLETED|0:0|||00:50.5|2|100|0:0\n"
    )
    used = usage_by_job(parse_steps(text.replace("|", "\x1f")))
    use, task = used[JobId(4711)], used[JobId(4712, 3)]
    assert (use.cpu, use.cores, use.elapsed) == (86410.0, 32, 100)
    assert use.memory == int(1.5 * GIB)
    assert (task.cpu, task.cores_busy, task.memory) == (50, 0.5, None)


def test_runs_of_a_job_that_was_requeued(tmp_path: Path) -> None:
    for restart, (place, use) in enumerate((("gpu30", 90), ("gpu31", 0), ("gpu30", 40))):
        shift, job = 100_000 * restart, f"4711-{restart}"
        node(tmp_path, place, 60, job, shift)
        gpus(tmp_path, {shift + 10 * n: [row(0, use)] for n in range(60)}, place, job)
    status = replace(STATUS, start=START + 199_990, elapsed=600, nodes=1, gpus=1)
    job = JobUse(status, read_samples(str(tmp_path), 4711))
    assert [(run.nodes[0].restart, run.nodes[0].node, run.use) for run in job.runs] == [
        (0, "gpu30", 90),
        (1, "gpu31", 0),
        (2, "gpu30", 40),
    ]
    assert (job.use, job.cores, job.seconds) == (pytest.approx(130 / 3), 16, 590 + 590 + 600)
    assert job.cores_busy == pytest.approx(4.0)
    assert job.gpu_hours == pytest.approx(1780 / 3600)
    waits = replace(job, status=replace(status, start=None, elapsed=0))
    assert waits.seconds == 3 * 590
    assert advise(job) == []  # of the last run, which used its GPU
    assert len(read_samples(str(tmp_path), 4711, START + 150_000)) == 1


def test_a_chain_is_one_job_with_a_run_of_each(tmp_path: Path) -> None:
    for job, place in ((4715, "gpu31"), (4712, "gpu32"), (4711, "gpu30")):
        node(tmp_path, place, job=f"{job}-0")
    nodes = read_samples(str(tmp_path), 4715, before=[4711, 4712])
    assert [(run.restart, run.node) for run in nodes] == [(0, "gpu30"), (1, "gpu32"), (2, "gpu31")]


def test_top_reads_nvidia_smi_by_its_header() -> None:
    """Another order is no other figure, and another unit is none."""
    said = "0: @node\tn1\n0: @gpu\tname, index, memory.total [MiB], memory.used [MiB], "
    said += "utilization.gpu [%], temperature.gpu, power.draw [kW]\n"
    rows = "0: @gpu\tNVIDIA A100, 3, 81920, 7, [N/A], 61, 3\n"
    assert parse_node_usage(said + rows)[0].gpus == ()
    (gpu,) = parse_node_usage(said.replace("[kW]", "[W]") + rows)[0].gpus
    assert (gpu.index, gpu.memory, gpu.memory_used, gpu.use, gpu.power) == ("3", 81920, 7, None, 3)


def test_samples_that_cannot_be_read_hide_no_other_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "train.out.samples"
    folder.symlink_to(folder)
    monkeypatch.setattr(JobStatus, "stdout", str(tmp_path / "train.out"))
    job = read_sampled_use(STATUS, own_cluster(), ask=False)
    assert not job.nodes
    assert "cannot read the samples of job 4711 in" in job.unread
    assert "Too many levels" in job.unread
