"""The benchmark's sums, its verdicts and its page; what is measured is not tested."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from benchmarks import cases, report
from benchmarks.inside.sweep_scale import SIZES, end_tasks, make_sweep, run_worker, write_squeue
from benchmarks.peers import CHECKOUT
from benchmarks.report import (
    Samples,
    compute_quartiles,
    make_extra_line,
    make_plain_line,
    make_ratio_line,
)


def samples(*ms: float, mb: float = 10) -> Samples:
    return Samples(ms, tuple(int(mb * 1e6 / 1024) for _ in ms))


def test_median_and_compute_quartiles() -> None:
    one = samples(5, 1, 2, 4, 3)
    assert (one.median, compute_quartiles(one.ms)) == (3, (2, 4))
    assert str(one) == "3.0 (2.0 to 4.0) ms"
    assert compute_quartiles([7.0]) == (7.0, 7.0)


def test_a_ratio_is_of_the_medians_and_its_spread_of_neighbours() -> None:
    line = make_ratio_line(
        "`submit`", samples(70, 80, 75), "submitit", samples(100, 100, 100), 0.75
    )
    assert line.result == "0.75 × (0.72 to 0.78)"
    assert (line.target, line.met) == ("at most 0.75 ×", True)
    assert make_ratio_line("`submit`", samples(76), "submitit", samples(100), 0.75).met is False
    assert make_ratio_line("`submit`", samples(76), "`sbatch`", samples(10), None).met is None


def test_a_time_has_a_limit() -> None:
    line = make_plain_line("completing", 100, 100, "ms")
    assert (line.result, line.target, line.met) == ("100 ms", "at most 100 ms", True)
    assert make_plain_line("completing", 101, 100, "ms").met is False


def test_what_is_more_is_of_neighbours() -> None:
    line = make_extra_line("gate", samples(150, 900, 200), "without", samples(100, 850, 100), 50)
    assert (line.result, line.met) == ("50 ms more", True)
    assert make_extra_line("gate", samples(151), "without", samples(100), 50).met is False


def results() -> Dict[str, Any]:
    """As measured where everything is fast enough."""

    def group(**times: float) -> Dict[str, Any]:
        return {name: {"ms": [ms] * 3, "kb": [20_000] * 3} for name, ms in times.items()}

    return {
        "schema": 1,
        "rounds": 3,
        "seconds": 100,
        "machine": {
            "cpu": "a processor", "cores": 2, "load": 0.1, "kernel": "6.1", "python": "3.11",
            "slurm": "22.05.8", "date": "2026-01-01 00:00 UTC",
        },
        "versions": {"neuronctl": "1", "click": "8", "submitit": "1.5.4", "torchx": "0.7.0"},
        "squeue": ["squeue", "--format=%i|%j\x1f%T" + "\x1f%x" * 20],
        "waits": {str(count): 12 for count in cases.WAITS},
        "processes": {
            "submit": [["squeue"], ["sbatch"]],
            "status": [["squeue"]],
        },
        "groups": {
            **{f"{jobs} jobs": group(status=50, squeue=20) for jobs in cases.JOBS},
            "records": group(**{str(count): 50 for count in cases.RECORDS}),
            "status": group(
                **{"status": 50, "squeue --json": 480, "on a terminal": 90, "bare": 60},
            ),
            "completion": group(**dict.fromkeys(cases.COMPLETED, 60)),
            "start": group(**{"python -c pass": 10, "--version": 24, "--help": 25}),
            "submit": group(**{"submit": 70, "submitit": 104, "sbatch": 5, "drop-in": 90}),
            "generate": group(generate=60, torchx=244),
            "sweep": group(sweep=270, submitit=250),
            "sweep status": group(**{str(size): 400 for size in SIZES}),
        },
        "sweep": {"first": 0.2, "kb": 50_000, "task_ms": {"sweep": [4.0] * 3, "loop": [2.0] * 3}},
    }  # fmt: skip


def test_all_met() -> None:
    lines = report.make_lines(results())
    assert [line.figure for line in lines if line.met is False] == []
    assert [line.figure for line in lines if line.met is None] == ["`submit`"]
    page = report.make_page(results(), lines)
    assert "not met" not in page.lower()
    assert "busy with other work" not in page
    judged = len(lines) - 1
    assert f"{judged} of {judged} targets are met." in page


def test_what_falls_short_is_marked_and_shown_why() -> None:
    measured = results()
    measured["groups"]["status"]["status"]["ms"] = [192] * 3
    measured["machine"]["load"] = 3.0
    lines = report.make_lines(measured)
    assert {line.figure for line in lines if line.met is False} == {"`status`"}
    page = report.make_page(measured, lines)
    assert page.count("**NOT met**") == 1
    assert "busy with other work" in page


MEASURING = """
import sys
from benchmarks import __main__ as benchmarks

def measure(rounds):
    try:
        print("measuring", flush=True)
        sys.stdin.readline()
    finally:
        print("ending", flush=True)
        sys.stdin.readline()
        print("down", flush=True)

benchmarks.measure = measure
benchmarks.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_do_not_keep_the_sandbox(name: str) -> None:
    argv = [sys.executable, "-c", MEASURING]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, cwd=CHECKOUT, text=True, **pipes) as process:
        assert process.stdout and process.stdout.readline() == "measuring\n"
        process.send_signal(getattr(signal, name))
        assert process.stdout.readline() == "ending\n"
        for again in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(again)
        output, errors = process.communicate("\n")
    assert (output, process.returncode) == ("down\n", 1)
    assert errors == "benchmarks: interrupted; the sandbox is down, nothing was written\n"


def test_a_worker_that_fails_has_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    write_squeue()
    ended = make_sweep("ended", 7)
    end_tasks(ended.folder, 7)  # one of them failed
    assert run_worker(ended, exit_code=1) > 1000
    with pytest.raises(SystemExit, match="the worker of sweep ended ended with 1"):
        run_worker(ended)
