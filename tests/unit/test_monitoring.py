"""The samples of a job: what is read of files that nodes wrote, and what is advised."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import xml.dom.minidom
from pathlib import Path
from typing import Callable, List, Optional

import pytest

from neuronctl.catalog.model import Price, ReportPolicy
from neuronctl.cli.report import _figures, drawn, sampled_use
from neuronctl.common.frozen import replace
from neuronctl.monitoring import samples
from neuronctl.monitoring.advice import JobUse, advise
from neuronctl.monitoring.marks import MOST, Mark, marks_of
from neuronctl.monitoring.page import report_page
from neuronctl.monitoring.samples import (
    GpuUse,
    NodeUse,
    last_memory,
    last_use,
    over_runs,
    read_samples,
    without_holes,
)
from neuronctl.monitoring.totals import total, totals
from neuronctl.rendering.template_environment import for_scripts
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_usage import AccountedUse, parse_steps, parse_usage
from neuronctl.slurm.nvidia_smi import AMD_COLUMNS
from neuronctl.slurm.srun import parse_node_usage
from neuronctl.tracking.job_status import JobStatus

START = 1_795_000_000
GIB = 1 << 30
HEAD = "# node=gpu30 job=4711 cores=16 memory=65536M every=10 start={start}\n"
COLUMNS = "time [s],cpu [s],memory [B],read [B],written [B],received [B],sent [B]\n"
OF_535 = (
    "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], "
    "temperature.gpu, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks_event_reasons.active, "
    "ecc.errors.uncorrected.volatile.total\n"
)
ONLY_USE = "timestamp, index, utilization.gpu [%]\n"
OF_470 = (
    "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], "
    "temperature.gpu, clocks.sm [MHz], clocks.max.sm [MHz], clocks_throttle_reasons.active\n"
)


def node(folder: Path, name: str = "gpu30", samples: int = 60, **more: str) -> None:
    """A node's file: 4 of its 16 cores busy, 1 GiB of memory that grows by 1 MiB a sample."""
    folder.mkdir(exist_ok=True)
    lines = [
        f"{START + 10 * n},{40.0 * n:.2f},{GIB + n * (1 << 20)},{n * 1000},{n * 10},{5000 + n},7\n"
        for n in range(samples)
    ]
    (folder / f"4711.{name}.csv").write_text(HEAD.format(start=START) + COLUMNS + "".join(lines))


def stamp(seconds: float, zone: int = 9 * 3600) -> str:
    at = time.gmtime(START + int(seconds) + zone)
    return time.strftime("%Y/%m/%d %H:%M:%S", at) + f".{int(seconds * 1000) % 1000:03d}"


SAMPLER = (
    for_scripts()
    .from_string('{% import "monitor.j2" as monitor %}{{ monitor.monitor_nodes(1, "") }}')
    .render()
)


def joined(rows: List[str], header: str) -> str:
    """What the sampler makes of nvidia-smi's rows."""
    count = len({row.split(", ")[1] for row in rows if ", " in row} & set(map(str, range(9))))
    text = header + "".join(f"{row}\n" for row in rows)
    call = ["bash", "-c", f"{SAMPLER}\njoin_gpus {count}"]
    return subprocess.run(call, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def gpus(folder: Path, rows: List[str], header: str = OF_535, name: str = "gpu30") -> None:
    (folder / f"4711.{name}.gpus.csv").write_text(joined(rows, header))


def test_a_node(tmp_path: Path) -> None:
    node(tmp_path)
    (one,) = read_samples(str(tmp_path), 4711)
    assert (one.node, one.samples, one.cores, one.memory) == ("gpu30", 60, 16, 64 * GIB)
    assert one.cores_busy == pytest.approx(4.0)
    assert one.memory_peak == GIB + 59 * (1 << 20)
    assert one.grows == pytest.approx(360 * (1 << 20), rel=0.02)
    assert (one.read, one.received, one.silent) == (59_000, 59, 0)
    assert len(one.curve) == 240 and {value for value in one.curve if value is not None} == {4.0}


@pytest.mark.parametrize(("header", "errors"), [(OF_535, ", 0"), (OF_470, "")])
def test_gpus_of_two_drivers(tmp_path: Path, header: str, errors: str) -> None:
    node(tmp_path)
    rows = []
    for n in range(60):
        use, reasons = (80, 0x4) if n % 20 < 10 else (0, 0x1)
        facts = f"{use}, 40000, 81559, 300.00, 60, 1980, 1980, {reasons:#018x}{errors}"
        rows.append(f"{stamp(10 * n + 0.4)}, 0, {facts}")
        facts = f"95, 70000, 81559, [N/A], 88, 990, 1980, {0x40:#018x}{errors}"
        rows.append(f"{stamp(10 * n + 0.4)}, 1, {facts}")
    gpus(tmp_path, rows, header)
    (one,) = read_samples(str(tmp_path), 4711)
    first, second = one.gpus
    assert (first.use, first.idle, first.longest_idle) == (40.0, 0.5, 100)
    assert (first.idle_for, second.idle_for) == (90, 0)
    assert last_use(str(tmp_path), 4711) == 47.5 and last_use(str(tmp_path), 471) is None
    assert first.idle_since is not None and (first.idle_since - START) % 200 == 100
    assert first.slowed == {"power limit": 0.5}
    assert (second.clock, second.power, second.temperature) == (0.5, None, 88)
    assert second.slowed == {"the hardware's thermal limit": 1.0}


def test_gpus_that_are_missing_from_samples_and_broken_lines(tmp_path: Path) -> None:
    """What is read in bulk is what a line by line would give."""
    node(tmp_path, samples=2000)
    rows: List[str] = []
    uses: List[List[int]] = [[], [], []]
    for n in range(2000):
        for gpu in range(3):
            if (n + gpu) % 7 == 0 and n > 100:  # so that they no longer come in turn
                continue
            use = (n * 7 + gpu * 31) % 101
            reasons = 0x40 if n % 4 == 0 else 0
            uses[gpu].append(use)
            power = "[N/A]" if n % 3 else "300.50"
            rows.append(
                f"{stamp(10 * n)}, {gpu}, {use}, {gpu * 1000 + n}, 81559, {power}, {n % 70}, "
                f"1980, 1980, {reasons:#018x}, {n // 500}"
            )
        rows += ["x, 1, 50", "Unable to determine", ", " * 30] if n % 50 == 0 else []
        rows += ["2026/13/45 77:99:00.123, 9"] if n == 7 else []
    gpus(tmp_path, rows)
    (one,) = read_samples(str(tmp_path), 4711)
    assert [gpu.index for gpu in one.gpus] == ["0", "1", "2"]
    for number, gpu in enumerate(one.gpus):
        own = uses[number]
        assert gpu.samples == len(own)
        assert gpu.use == pytest.approx(sum(own) / len(own))
        assert gpu.idle == pytest.approx(sum(use <= 1 for use in own) / len(own))
        assert (gpu.memory_peak, gpu.temperature, gpu.power) == (number * 1000 + 1999, 69, 300)
        assert gpu.errors == 3 and gpu.clock == 1
        assert gpu.slowed["the hardware's thermal limit"] == pytest.approx(0.25, abs=0.01)
        assert sum(value is not None for value in gpu.curve) == 240


def dies(path: str, axis: samples._Axis) -> Optional[NodeUse]:
    """Of a process that reads for another."""
    if os.getpid() != HERE:
        os._exit(1)
    return READS(path, axis)


HERE, READS = os.getpid(), samples._read_node


def test_much_is_read_by_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what one process would find, also where they are killed."""
    for name in ("gpu30", "gpu31", "gpu32"):
        node(tmp_path, name)
        gpus(tmp_path, [f"{stamp(10 * n)}, 0, {n}" for n in range(60)], ONLY_USE, name)
    alone = read_samples(str(tmp_path), 4711)
    read_here: List[str] = []
    monkeypatch.setattr(samples, "_MUCH", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(samples, "_read_gpus", reads_gpus(read_here))
    assert read_samples(str(tmp_path), 4711) == alone and not read_here
    monkeypatch.setattr(samples, "_read_node", dies)
    assert read_samples(str(tmp_path), 4711) == alone and len(read_here) == 3


def reads_gpus(read_here: List[str]) -> Callable[..., List[GpuUse]]:
    """What notes the files that are read in this process."""
    reads = samples._read_gpus

    def noting(path: str, of: samples._Node, axis: samples._Axis) -> List[GpuUse]:
        read_here.append(path)
        return reads(path, of, axis)

    return noting


# Titles and cells as public repositories have recorded them, put together and shortened: amd-smi of
# an MI355X and of a Radeon; rocm-smi of two Radeons, and with the titles of ROCm 5.
AMD_SMI_7 = """\
gpu,gfx_activity,umc_activity,mm_activity,vcn_activity,jpeg_activity,gfx_busy_inst_xcp_0,\
jpeg_busy_xcp_0,vcn_busy_xcp_0,socket_power,gfx_voltage,soc_voltage,mem_voltage,throttle_status,\
power_management,gfx_0_clk,gfx_0_max_clk,mem_0_clk,edge,hotspot,mem,total_vram,used_vram,free_vram
0,95,80,N/A,"['N/A', 'N/A']","['N/A', 'N/A']","[0, 0]","[0, 0]","[0, 0]",1180,N/A,N/A,N/A,N/A,\
ENABLED,2100,2400,2000,N/A,78,60,294896,283,294613
1,0,0,N/A,"['N/A', 'N/A']","['N/A', 'N/A']","[0, 0]","[0, 0]","[0, 0]",290,N/A,N/A,N/A,N/A,\
ENABLED,1404,2400,2000,N/A,40,25,294896,283,294613
"""
AMD_SMI_6 = """\
gpu,gfx_activity,umc_activity,vcn_activity,socket_power,gfx_0_clk,gfx_0_max_clk,edge,hotspot,\
total_vram,used_vram,free_vram
0,42,1,[0 %, N/A, N/A],20,14,2482,45,N/A,16368,905,15463
"""
ROCM_SMI_6 = """\
WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

device,Temperature (Sensor edge) (C),Current Socket Graphics Package Power (W),GPU use (%),\
VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series,Card Model,Card Vendor,Card SKU
card0,54.0,20.358,2,536870912,511442944,AMD Radeon 8060S Graphics,0x1586,\
Advanced Micro Devices Inc. [AMD/ATI],STRXLGEN
card1,40.0,100.0,97,17163091968,8581545984,AMD Radeon RX 9070 XT,0x7550,\
Advanced Micro Devices Inc. [AMD/ATI],X
"""
ROCM_SMI_5 = """\
device,Temperature (Sensor edge) (C),Temperature (Sensor junction) (C),\
Temperature (Sensor memory) (C),mclk clock speed:,mclk clock level:,sclk clock speed:,\
sclk clock level:,Average Graphics Package Power (W),GPU use (%),GPU memory use (%),\
VRAM Total Memory (B),VRAM Total Used Memory (B),Card series
card0,38.0,39.0,41.0,(1600Mhz),3,(1700Mhz),1,128.0,100,0,68702699520,17179869184,AMD INSTINCT MI200
"""


@pytest.mark.parametrize(
    ("tool", "said", "mine", "told"),
    [
        (
            "amd-smi",
            AMD_SMI_7,
            "0,1",
            ["0,95,283,294896,1180,78,2100,2400", "1,0,283,294896,290,40,1404,2400"],
        ),
        ("amd-smi", AMD_SMI_6, "", ["0,42,905,16368,20,45,14,2482"]),
        ("rocm-smi", ROCM_SMI_6, "", ["0,2,488,512,20.358,54.0,,", "1,97,8184,16368,100.0,40.0,,"]),
        ("rocm-smi", ROCM_SMI_6, "1", ["1,97,8184,16368,100.0,40.0,,"]),
        ("rocm-smi", ROCM_SMI_5, "4", ["0,100,16384,65520,128.0,39.0,1700,"]),
    ],
)
def test_what_amd_says_of_its_gpus(
    tmp_path: Path, tool: str, said: str, mine: str, told: List[str]
) -> None:
    """The tool that is there is found, and its columns by their titles."""
    (tmp_path / "said").write_text(said)
    (tmp_path / tool).write_text(f"#!/bin/sh\nexec cat {tmp_path}/said\n")
    (tmp_path / tool).chmod(0o755)
    call = ["bash", "-c", f"{SAMPLER}\nexec {{pause}}<> <(:)\nsample_gpus 1"]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_GPUS": mine}
    with subprocess.Popen(
        call, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as sampler:
        assert sampler.stdout is not None
        head, first, second = (sampler.stdout.readline().strip() for _ in range(3))
        os.killpg(sampler.pid, signal.SIGKILL)
    assert head == AMD_COLUMNS
    _, _, rows = first.partition(",")
    assert rows == ",".join(told) and second.endswith(f",{rows}")
    node(tmp_path / "samples")
    (tmp_path / "samples/4711.gpu30.gpus.csv").write_text(f"{head}\n{first}\n{second}\n")
    (one,) = read_samples(str(tmp_path / "samples"), 4711)
    assert [f"{gpu.use:.0f}" for gpu in one.gpus] == [text.split(",")[1] for text in told]
    assert all(gpu.samples == 2 and gpu.memory and gpu.temperature for gpu in one.gpus)


APPS = "00000000:07:00.0\n00000000:07:00.0\n00000000:0B:00.0\n"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([APPS, "", APPS[:34]], [2, 1, 0]),
        ([""], [0, 0, 0]),
        (["[Not Supported]\n"], [None] * 3),
        (["exit"], [None] * 3),
    ],
)
def test_processes_by_gpu(tmp_path: Path, said: List[str], told: List[Optional[int]]) -> None:
    """The most at a time; where the tool fails, or says something else, it is not known."""
    tool = tmp_path / "nvidia-smi"
    for answer in said:
        tool.write_text("#!/bin/sh\n" + ("exit 9" if answer == "exit" else f"printf '{answer}'"))
        tool.chmod(0o755)
        call = ["bash", "-c", f"{SAMPLER}\ncount_processes {tmp_path}/4711.gpu30.processes"]
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        subprocess.run(call, env=environment, check=True)
    node(tmp_path)
    gpus(tmp_path, [f"{stamp(10 * n)}, {gpu}, 9" for n in range(20) for gpu in range(3)], ONLY_USE)
    file = tmp_path / "4711.gpu30.gpus.csv"
    fixed = "index,pci.bus_id\n0,00000000:07:00.0\n1,00000000:0B:00.0\n2,00000000:48:00.0\n"
    file.write_text(fixed + file.read_text())
    (one,) = read_samples(str(tmp_path), 4711)
    assert [gpu.processes for gpu in one.gpus] == told


def test_time_without_samples_is_no_idle_time(tmp_path: Path) -> None:
    node(tmp_path, samples=300)
    idle = [n for n in range(300) if not 50 <= n < 250]  # the tool hung in between
    gpus(tmp_path, [f"{stamp(10 * n)}, 0, 0" for n in idle], ONLY_USE)
    (gpu,) = read_samples(str(tmp_path), 4711)[0].gpus
    assert (gpu.idle, gpu.longest_idle, gpu.idle_for) == (1.0, 490, 490)


def test_what_is_not_told_is_not_known(tmp_path: Path) -> None:
    """MIG has no use, another unit is no figure, and a tool that says nothing leaves no GPU."""
    node(tmp_path)
    header = "timestamp, index, utilization.gpu [%], memory.used [GB]\n"
    gpus(tmp_path, [f"{stamp(10 * n)}, 0, [N/A], 40" for n in range(20)], header)
    (gpu,) = read_samples(str(tmp_path), 4711)[0].gpus
    assert (gpu.samples, gpu.use, gpu.idle, gpu.memory_peak) == (20, None, None, None)
    gpus(tmp_path, [], "Unable to determine the device handle for GPU 0000:01:00.0\n")
    assert read_samples(str(tmp_path), 4711)[0].gpus == ()


def test_use_that_is_not_known_is_said_to_be() -> None:
    """No tool, one that hangs, and AMD's alike; and MIG."""
    status = replace(STATUS, gpus=2)
    assert dict(_figures(used(status=status)))["2 GPUs"] == (
        "not known: no nvidia-smi, amd-smi, or rocm-smi answered"
    )
    assert "as with MIG" in dict(_figures(used(replace(GPU, use=None), status=status)))["1 GPU"]


def test_a_gap_is_told_and_a_node_in_another_time_zone_is_in_place(tmp_path: Path) -> None:
    node(tmp_path, samples=10)
    with (tmp_path / "4711.gpu30.csv").open("a") as file:
        file.write(f"{START + 1000},400,{GIB},0,0,0,0\n")
    rows = [f"{stamp(10 * n, -5 * 3600)}, 0, {n}" for n in range(10)]
    gpus(tmp_path, rows, ONLY_USE)
    (one,) = read_samples(str(tmp_path), 4711)
    assert one.silent == 910
    known = [place for place, value in enumerate(one.gpus[0].curve) if value is not None]
    assert known[0] == 0 and known[-1] < 240 / 10


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 5000, b"x" * (3 << 20), b"# node=a\n", b"#\ntime [s],cpu [s],memory [B]\n1,2\n"],
)
def test_broken_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "4711.a.csv").write_bytes(content)
    assert read_samples(str(tmp_path), 4711) == ()
    node(tmp_path)
    (tmp_path / "4711.gpu30.gpus.csv").write_bytes(content)
    assert [one.gpus for one in read_samples(str(tmp_path), 4711)] == [()]
    (tmp_path / "4711.gpu30.gpus.csv").write_bytes(
        OF_535.encode() + content + b"\n, , \n1, 2, nan\n"
    )
    assert len(read_samples(str(tmp_path), 4711)) == 1
    assert last_use(str(tmp_path), 4711) in (None, 0.0, 2.0)


def test_pipes_and_no_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "4711.a.csv")
    assert read_samples(str(tmp_path), 4711) == ()
    assert read_samples(str(tmp_path / "none"), 4711) == ()


STATUS = JobStatus(
    JobId(4711), 4711, "train", "kim", "gpu", "COMPLETED", "", "sacct", nodes=1, node_list="gpu30"
)
ENDS_SOON = replace(STATUS, state="RUNNING", elapsed=600, time_limit=3600)
GPU = GpuUse("gpu30", "0", 60, use=90.0, idle=0.05, memory_peak=40_000, memory=81_559, clock=1.0)
UNUSED = replace(GPU, index="1", use=0.0, idle=1.0, clock=None)
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
            ["idle 40 % of the time while 1.0 of 16"],
        ),
        (used(replace(GPU, use=50.0, idle=0.4), cpu=9000), ["they wait for the CPU"]),
        (used(replace(GPU, longest_idle=1200, idle_since=START)), ["idle for 20 min at a stretch"]),
        (used(GPU, GPU, replace(GPU, index="2", use=20.0)), ["GPU 2 was used 20 % of the time"]),
        (
            used(replace(GPU, clock=0.5, slowed={"the driver's thermal limit": 0.9})),
            ["ran at 50 % of its clock"],
        ),
        (used(replace(GPU, clock=0.5, slowed={"power limit": 0.9})), []),
        (used(replace(GPU, errors=2)), ["had 2 uncorrected memory errors"]),
        (used(replace(GPU, use=30.0, memory_peak=8_000)), ["a larger batch"]),
        (
            used(replace(GPU, link=(1, 4), best_link=(4, 16))),
            ["never ran faster than generation 1 with 4 lanes; it can do generation 4 with 16"],
        ),
        (used(replace(UNUSED, link=(1, 16), best_link=(4, 16)), GPU), ["never used"]),
        (used(replace(GPU, link=(4, 16), best_link=(4, 16))), []),
        (used(GPU, grows=4.0 * GIB, memory_peak=20.0 * GIB), ["full after another 11 h"]),
        (used(GPU, grows=0.1 * GIB, memory_peak=20.0 * GIB), []),
        # a program that loads: it will have ended by then
        (used(GPU, status=ENDS_SOON, grows=28.0 * GIB, memory_peak=1.0 * GIB), []),
        (
            used(GPU, status=replace(STATUS, elapsed=7800, time_limit=172800)),
            ["ended after 2 h 10 min of 2 d: with --time 04:20:00"],
        ),
        (
            used(replace(GPU, processes=4), replace(GPU, index="1", processes=0)),
            ["4 processes used GPU 0 at the same time, while 1 GPU had none"],
        ),
        (used(replace(GPU, processes=2), replace(GPU, index="1", processes=1)), []),
        (used(replace(UNUSED, samples=5), samples=5), []),
    ],
)
def test_advice(job: JobUse, advice: List[str]) -> None:
    found = advise(job)
    assert len(found) == len(advice), found
    for text, part in zip(found, advice):
        assert part in text


def test_the_page_escapes_names(tmp_path: Path) -> None:
    node(tmp_path)
    gpus(tmp_path, [f"{stamp(10 * n)}, 0, {n}" for n in range(60)], ONLY_USE)
    job = JobUse(
        replace(STATUS, name="<script>alert(1)</script>"), read_samples(str(tmp_path), 4711)
    )
    for form in ("html", "svg"):
        page = report_page(job, [("<i>", "&")], form)
        assert "<script" not in page and "<b>" not in page and "<i>" not in page
        assert "http" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")  # no network
    xml.dom.minidom.parseString(page)


def test_a_heat_map_tells_idle_from_without_samples() -> None:
    half = (0.0,) * 120 + (None,) * 120
    many = [replace(GPU, index=str(n), curve=half, memory_peak=None) for n in range(40)]
    page = report_page(used(*many), [])
    assert page.count('<path opacity="0.1" d="M0 0h4v40h-4zM4 0') == 40
    assert "M116 0" in page and "M120 0" not in page


def test_a_curve_in_characters() -> None:
    curve = tuple([0.0] * 120 + [None] * 60 + [100.0] * 60)
    assert drawn(curve, 100) == "▁" * 15 + " " * 7 + "█" * 8
    assert drawn((), 100) == ""


def test_few_samples_are_no_gaps() -> None:
    """Of a sample in every tenth part, one is missing in the middle, and then ten."""
    few = [50.0 if part % 10 == 0 else None for part in range(240)]
    few[60] = None
    whole = without_holes(tuple(few), 23)
    assert whole[:231] == (50.0,) * 231 and whole[231:] == (None,) * 9
    few[100:200] = [None] * 100
    whole = without_holes(tuple(few), 13)
    assert whole[:91] == (50.0,) * 91 and whole[91:200] == (None,) * 109
    assert drawn(whole, 100) == "▅" * 12 + " " * 13 + "▅" * 4
    many = tuple(None if part == 60 else 50.0 for part in range(240))
    assert without_holes(many, 17280) == many and None not in without_holes(many, 239)
    rare = [replace(GPU, index=str(n), samples=23, curve=tuple(few)) for n in range(40)]
    assert "M4 0h4v40h-4z" in report_page(used(*rare), [])  # of the heat map


def test_what_accounting_has() -> None:
    text = (
        "4711|1-00:00:10|32|100||7200000|gpu[35-36]\n4711.batch|00:11.557|32|41|114168K|0|gpu35\n"
        "4711.0||32|41|1.5G|0|gpu[35-36]\n4712_3|00:50.5|2|100||0|gpu35\n"
    )
    used = parse_usage(text.replace("|", "\x1f"))
    use, task = used[JobId(4711)], used[JobId(4712, 3)]
    assert (use.cpu, use.cores, use.elapsed) == (86410.0, 32, 100)
    assert use.largest_task == int(1.5 * GIB)
    assert (use.energy, use.node_list) == (7200000, "gpu[35-36]")
    assert (task.cpu, task.cores_busy, task.largest_task, task.energy) == (50.5, 0.505, None, None)
    assert parse_usage("") == {}
    steps = "4711.batch|00:00:01|1|9M\n4711.0|01:00.500|4|2G\n4712.0|00:00:00||\nsstat: error\n"
    assert parse_steps(steps) == {4711: (1 + 4 * 60.5, 2 * GIB), 4712: (0.0, None)}


def test_sums_are_weighted_by_hours() -> None:
    hour = replace(STATUS, elapsed=3600, nodes=1, gpus=2, user="kim", time_limit=None)
    price = Price(gpu_hour=2.5, node_hour=1.0)
    busy = JobUse(hour, (replace(NODE, gpus=(GPU,)),), price=price)
    idle = replace(
        busy, status=replace(hour, elapsed=3 * 3600, name="eval"), nodes=used(UNUSED).nodes
    )
    accounted = AccountedUse(1800, 2, 3600, None)
    silent = JobUse(replace(hour, name="eval"), (), accounted, price=price)
    whole = total("", [busy, idle, silent])
    assert (whole.jobs, whole.node_hours, whole.gpu_hours, whole.gpu_hours_sampled) == (3, 5, 10, 8)
    assert whole.gpu_use == pytest.approx(90 / 4) and whole.cost == 5 + 25
    assert [
        (part.name, part.jobs) for part in totals([busy, idle, silent], lambda j: j.status.name)
    ] == [
        ("eval", 2),
        ("train", 1),
    ]
    assert total("", [silent]).cores_busy == 0.25 and total("", [silent]).gpu_use is None
    assert total("", [replace(silent, price=Price())]).cost is None


def test_a_site_changes_from_when_on_there_is_advice() -> None:
    job = used(replace(GPU, use=50.0, idle=0.4), cpu=600)
    assert advise(job) and not advise(replace(job, policy=ReportPolicy(gpu_idle=0.5)))


def test_only_the_jobs_own_run_and_what_can_be_figures(tmp_path: Path) -> None:
    node(tmp_path)
    node(tmp_path, "gpu31", samples=2)  # of another job that had this number
    (tmp_path / "4712.gpu32.csv").write_bytes((tmp_path / "4711.gpu30.csv").read_bytes())
    (tmp_path / "4711.\x1b[31m.csv").write_bytes((tmp_path / "4711.gpu30.csv").read_bytes())
    rows = [f"{stamp(10 * n)}, 0, 50" for n in range(60)]
    rows += [f"{stamp(600)}, \x1b[31m, 5", f"{stamp(600)}, 0, inf", f"{stamp(0)[:17]}inf, 0, 1e39"]
    gpus(tmp_path, rows, ONLY_USE)
    (one,) = read_samples(str(tmp_path), 4711, START + 100)
    assert [(gpu.index, gpu.use) for gpu in one.gpus] == [("0", 50.0)]


def test_runs_of_a_job_that_was_requeued(tmp_path: Path) -> None:
    """Each run is told, and all of them together, also where they had other nodes."""
    for restart, (place, use) in enumerate((("gpu30", 90), ("gpu31", 0), ("gpu30", 40))):
        shift = 100_000 * restart
        head = HEAD.format(start=START + shift).replace("gpu30", place)
        rows = [f"{START + shift + 10 * n},{20 * n}.0,{GIB},{n},0,7,7\n" for n in range(60)]
        of_gpu = [f"{stamp(shift + 10 * n)}, 0, {use}" for n in range(60)]
        name = f"4711{f'-{restart}' if restart else ''}.{place}"
        (tmp_path / f"{name}.csv").write_text(head + COLUMNS + "".join(rows))
        (tmp_path / f"{name}.gpus.csv").write_text(joined(of_gpu, ONLY_USE))
    status = replace(STATUS, start=START + 199_990, elapsed=600, nodes=1, gpus=1)
    nodes = read_samples(str(tmp_path), 4711)
    job = JobUse(status, nodes)
    assert [(run.nodes[0].restart, run.nodes[0].node, run.use) for run in job.runs] == [
        (0, "gpu30", 90),
        (1, "gpu31", 0),
        (2, "gpu30", 40),
    ]
    assert (job.use, job.cores, job.seconds) == (pytest.approx(130 / 3), 16, 590 + 590 + 600)
    assert job.cores_busy == pytest.approx(2.0)
    assert job.gpu_hours == pytest.approx(1780 / 3600)
    waits = replace(job, status=replace(status, start=None, elapsed=0))
    assert waits.seconds == 3 * 590
    first, second = over_runs(nodes)
    assert (first.node, first.gpus[0].use, second.gpus[0].use) == ("gpu30", 65, 0)
    assert (first.cpu, first.seconds, first.cores_busy) == (2 * 59 * 20, 2 * 590, 2.0)
    assert first.silent == 0 and first.curve[0] == 2.0 and first.curve[120] is None
    assert advise(job) == []  # of the last run, which used its GPU
    assert last_use(str(tmp_path), 4711) == 40
    memory = last_memory(str(tmp_path), 4711)
    assert memory is not None and memory.node == "gpu30"
    assert len(read_samples(str(tmp_path), 4711, START + 150_000)) == 1
    page = report_page(job, [("runs", "3")])
    assert page.count("GPU 0 of gpu30") == 2 and page.count("GPU 0 of gpu31") == 2


def test_a_chain_is_one_job_with_a_run_of_each(tmp_path: Path) -> None:
    for job, place in ((4715, "gpu31"), (4712, "gpu32"), (4711, "gpu30")):
        node(tmp_path, place)
        (tmp_path / f"4711.{place}.csv").rename(tmp_path / f"{job}.{place}.csv")
    nodes = read_samples(str(tmp_path), 4715, before=[4711, 4712])
    assert [(run.restart, run.node) for run in nodes] == [(0, "gpu30"), (1, "gpu32"), (2, "gpu31")]


def test_a_gpu_with_few_samples_gets_no_advice() -> None:
    assert advise(used(GPU, replace(UNUSED, samples=3))) == []


def test_top_reads_nvidia_smi_by_its_header() -> None:
    """Another order is no other figure, and another unit is none."""
    said = "0: @node\tn1\n0: @gpu\tname, index, memory.total [MiB], memory.used [MiB], "
    said += "utilization.gpu [%], temperature.gpu, power.draw [kW]\n"
    rows = "0: @gpu\tNVIDIA A100, 3, 81920, 7, [N/A], 61, 3\n"
    assert parse_node_usage(said + rows)[0].gpus == ()
    (gpu,) = parse_node_usage(said.replace("[kW]", "[W]") + rows)[0].gpus
    assert (gpu.index, gpu.memory, gpu.memory_used, gpu.use, gpu.power) == ("3", 81920, 7, None, 3)


def test_the_last_minutes_of_memory(tmp_path: Path) -> None:
    node(tmp_path, samples=500)
    node(tmp_path, "gpu31", samples=2)
    memory = last_memory(str(tmp_path), 4711)
    assert memory is not None and (memory.node, memory.limit) == ("gpu30", 64 * GIB)
    assert [size for _, size in memory.samples] == [GIB + n * (1 << 20) for n in range(439, 500)]
    assert memory.samples[-1][0] - memory.samples[0][0] == 600
    short = last_memory(str(tmp_path), 4711, seconds=0)
    assert short is not None and len(short.samples) == 1
    assert last_memory(str(tmp_path), 4711, START + 5000) is None
    assert last_memory(str(tmp_path / "none"), 4711) is None


def test_marks_of_a_log() -> None:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(START + 50))
    utc = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(START + 70))
    local = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(START + 100))
    lines = [
        f"{at},123 INFO epoch 1, loss 0.5",
        f"[{utc}Z] saved checkpoint to /scratch/1.pt",
        f"{utc.replace('T', ' ')}+00:00 - resumed with token=hf_0123456789abcdefghijABCDEFGHIJ",
        f"slurmstepd: error: *** JOB 4711 ON gpu30 CANCELLED AT {local} ***",
        f"{at} nothing of note",
        "1999-01-01 00:00:00 epoch 0 of another time",
        "2026-99-99 99:99:99 epoch",
        "epoch 3 without a time",
    ]
    marks = marks_of(lines, START, START + 60)
    assert [mark.at - START for mark in marks] == [50, 70, 70, 100]
    assert marks[0].words == "123 INFO epoch 1, loss 0.5" or "epoch 1" in marks[0].words
    assert "hf_0123" not in marks[2].words and "CANCELLED" in marks[3].words
    many = [f"{at} epoch {n}" for n in range(1000)] + [f"{at} error: {n}" for n in range(3)]
    found = marks_of(many, START, START + 60)
    assert len(found) == MOST and sum("error" in mark.words for mark in found) == 3
    assert "epoch 999" in {mark.words for mark in found}


@pytest.mark.parametrize("form", ["html", "svg"])
def test_marks_are_in_the_picture(tmp_path: Path, form: str) -> None:
    node(tmp_path)
    job = JobUse(STATUS, read_samples(str(tmp_path), 4711))
    page = report_page(job, [], form, [Mark(START + 295, "saved <b>")])
    assert page.count('<line x1="120.0"') == 2 and "saved &lt;b&gt;" in page
    # A picture of many GPUs is not shrunk to the window; a long path does not widen a phone's page.
    kept = {"svg": 'width="900" height="', "html": "dd { margin: 0; overflow-wrap: anywhere }"}
    assert kept[form] in page


def test_samples_that_cannot_be_read_hide_no_other_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "train.out"
    folder = tmp_path / "train.out.samples"
    folder.symlink_to(folder)
    monkeypatch.setattr(JobStatus, "stdout", str(log))
    job = sampled_use(STATUS, ask=False)
    assert job.unread and not job.nodes
    said = " ".join(capsys.readouterr().err.split())
    assert "cannot read the samples of job 4711 in" in said and "Too many levels" in said
