"""Every figure with its target, and the page that shows them. Pure."""

from __future__ import annotations

import shlex
import statistics
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from benchmarks.cases import COMPLETED, FULL, JOBS, MINE, RECORDS, TASKS, USUAL, WAITING, WAITS
from benchmarks.inside.sweep_scale import RUN, SIZES

_VERDICTS = {True: "met", False: "**NOT met**", None: ""}
_BUSY = 0.5
"""The load average above which the page calls the machine busy."""
_MOST_PROCESSES = {"submit": 3, "history -n 5000": 6}
"""Slurm processes of commands that may start more than 2: history asks for each 500 records."""


@dataclass(frozen=True)
class Samples:
    """The measurements of one command: wall times in milliseconds, peak memory in kilobytes."""

    ms: Sequence[float]
    kb: Sequence[int] = ()

    @property
    def median(self) -> float:
        """Return the median wall time in milliseconds."""
        return statistics.median(self.ms)

    @property
    def memory(self) -> float:
        """Return the highest peak of all runs, in MB (10^6 bytes)."""
        return max(self.kb) * 1024 / 1e6

    def __str__(self) -> str:
        low, high = compute_quartiles(self.ms)
        return f"{format_number(self.median)} ({format_number(low)} to {format_number(high)}) ms"


@dataclass(frozen=True)
class Line:
    """One row of the table: a figure with its target. met: None without a target."""

    figure: str
    neuronctl: str
    result: str
    target: str
    met: Optional[bool]
    compared_with: str = ""


def make_ratio_line(
    figure: str, own: Samples, peer: str, peer_samples: Samples, at_most: Optional[float] = None
) -> Line:
    """Compare two medians; in brackets, the quartiles of the ratios of neighboring runs."""
    ratio = own.median / peer_samples.median
    ratios = [own_ms / peer_ms for own_ms, peer_ms in zip(own.ms, peer_samples.ms)]
    low, high = compute_quartiles(ratios)
    result = f"{ratio:.2f} × ({low:.2f} to {high:.2f})"
    compared_with = f"{peer}: {peer_samples}"
    if at_most is None:
        return Line(figure, str(own), result, "", None, compared_with)
    target = f"at most {at_most:g} ×"
    return Line(figure, str(own), result, target, ratio <= at_most, compared_with)


def make_extra_line(
    figure: str, own: Samples, peer: str, peer_samples: Samples, at_most: float
) -> Line:
    """Say how much longer one takes than the other: the median over neighboring runs."""
    extra = statistics.median(own_ms - peer_ms for own_ms, peer_ms in zip(own.ms, peer_samples.ms))
    result, target = f"{format_number(extra)} ms more", f"at most {at_most:g} ms more"
    return Line(figure, str(own), result, target, extra <= at_most, f"{peer}: {peer_samples}")


def make_plain_line(figure: str, value: float, at_most: float, unit: str = "") -> Line:
    """Compare a figure with its limit. unit: ms or MB; "" for a count."""
    result = f"{format_number(value)} {unit}" if unit else str(int(value))
    target = f"at most {at_most:g} {unit}".strip()
    return Line(figure, result, result, target, value <= at_most)


def format_number(value: float) -> str:
    """Return a number with two or three significant figures."""
    return f"{value:.1f}" if abs(value) < 20 else f"{value:.0f}"


def compute_quartiles(values: Sequence[float]) -> Tuple[float, float]:
    """Return the first and the third quartile, by NumPy's default method."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


_SamplesByGroup = Mapping[str, Mapping[str, Samples]]
"""Of each group of cases.py, the samples of its commands."""


def make_lines(results: Mapping[str, Any]) -> List[Line]:
    """Return the lines of the table, from all measurements."""
    samples = {
        group: {name: Samples(**measured) for name, measured in commands.items()}
        for group, commands in results["groups"].items()
    }
    return [
        *_compare_commands(samples),
        *_judge_sweeps(samples, results["sweep"]),
        *_judge_limits(samples),
        *_judge_load(results),
    ]


def _compare_commands(samples: _SamplesByGroup) -> List[Line]:
    """Compare the times of commands with those of other programs."""
    start, submit = samples["start"], samples["submit"]
    generate, status = samples["generate"], samples["status"]
    python, sbatch = start["python -c pass"], submit["sbatch"]
    own_submit, submitit = submit["submit"], submit["submitit"]
    terminal, bare = status["on a terminal"], status["bare"]
    squeue = "`squeue --json`", status["squeue --json"]
    return [
        make_ratio_line("`--version`", start["--version"], "`python -c pass`", python, 4),
        make_ratio_line("`--help`", start["--help"], "`python -c pass`", python, 4),
        make_ratio_line("`submit`", own_submit, "submitit", submitit, 1.05),
        make_ratio_line("`submit`", own_submit, "`sbatch` alone", sbatch),
        make_extra_line("`neuronctl sbatch`", submit["drop-in"], "`sbatch` alone", sbatch, 150),
        make_ratio_line("`generate`", generate["generate"], "torchx", generate["torchx"], 0.35),
        make_ratio_line("`status`", status["status"], *squeue, 0.35),
        make_ratio_line("`status` on a terminal", terminal, *squeue, 0.35),
        make_extra_line("`status` on a terminal", terminal, "its bare program", bare, 40),
    ]


def _judge_sweeps(samples: _SamplesByGroup, scale: Mapping[str, Any]) -> List[Line]:
    """Judge sweeps. scale: the answer of inside/sweep_scale.py."""
    sweep, status = samples["sweep"], samples["sweep status"]
    task, loop = (Samples(scale["task_ms"][name]) for name in ("sweep", "loop"))
    some, many = SIZES
    figure = f"`sweep` of {TASKS:,} tasks"
    return [
        make_ratio_line(figure, sweep["sweep"], "submitit", sweep["submitit"], 1.1),
        make_extra_line("a task of a sweep", task, "a bare loop", loop, 3),
        make_plain_line(f"first of {many:,} tasks", 1000 * scale["first"], 1500, "ms"),
        make_plain_line("peak memory of its worker", scale["kb"] * 1024 / 1e6, 60, "MB"),
        make_plain_line(f"`sweep status` of {some:,} tasks", status[str(some)].median, 500, "ms"),
        make_plain_line(f"`sweep status` of {many:,} tasks", status[str(many)].median, 2000, "ms"),
        make_plain_line(f"its peak memory with {some:,}", status[str(some)].memory, 60, "MB"),
    ]


def _judge_limits(samples: _SamplesByGroup) -> List[Line]:
    """Judge the times of completion, and the memory of commands."""
    memory = {
        "submit": samples["submit"]["submit"].memory,
        "generate": samples["generate"]["generate"].memory,
        "status": samples["status"]["on a terminal"].memory,
    }
    times = {name: samples["completion"][name].median for name in COMPLETED}
    return [
        *(make_plain_line(f"completing {name}", ms, 100, "ms") for name, ms in times.items()),
        *(make_plain_line(f"peak memory of `{name}`", mb, 40, "MB") for name, mb in memory.items()),
    ]


def _judge_load(results: Mapping[str, Any]) -> List[Line]:
    """Judge how many Slurm processes and requests the commands cost."""
    figures = []
    for name, calls in results["processes"].items():
        programs = ", ".join(program for program, *_ in calls) or "none"
        figure = f"Slurm processes of {name}: {programs}"
        figures.append(make_plain_line(figure, len(calls), _MOST_PROCESSES.get(name, 2)))
    fewest, most = (results["waits"][str(count)] for count in (min(WAITS), max(WAITS)))
    # Twice as many: those that begin a little later ask every second at first.
    figure = f"requests of {max(WAITS)} `wait` at once"
    return [*figures, make_plain_line(figure, most, 2 * fewest)]


def make_table(lines: Sequence[Line]) -> str:
    """Return the figures as a Markdown table."""
    rows = [
        [
            *(line.figure, line.neuronctl, line.compared_with, line.result, line.target),
            _VERDICTS[line.met],
        ]
        for line in lines
    ]
    return _join_rows(["figure", "neuronctl", "compared with", "result", "target", ""], rows)


def make_page(results: Mapping[str, Any], lines: Sequence[Line]) -> str:
    """Return docs/reference/benchmarks.md."""
    machine, versions = results["machine"], results["versions"]
    judged = [line for line in lines if line.met is not None]
    waits = [[str(count), str(results["waits"][str(count)])] for count in WAITS]
    packages = ("neuronctl", "click", "submitit", "torchx")
    busy = " **The machine was busy with other work, so times are longer than usual.**"
    return f"""\
# How fast it is

Generated by `make bench`; all measurements are in [JSON](benchmarks.json).

{machine["date"]}, {machine["cpu"]}, {machine["cores"]} cores, Linux {machine["kernel"]}, Slurm \
{machine["slurm"]}, Python {machine["python"]}, \
{", ".join(f"{name} {versions[name]}" for name in packages)}. It took \
{results["seconds"] / 60:.1f} minutes; load average at the start: {machine["load"]}.\
{busy if machine["load"] > _BUSY else ""}

{sum(line.met is True for line in judged)} of {len(judged)} targets are met. Times are wall times \
of whole processes that run in turns (A B A B, {results["rounds"]} times each, after two warm-up \
runs): the median, with the quartiles in brackets. Ratios are of the medians, with the quartiles \
of the ratios of neighboring runs in brackets. Memory is the highest peak of all runs.

{make_table(lines)}

## What is measured

- neuronctl is a wheel in its own environment, in the [sandbox](../explanation/sandbox.md), with \
{FULL:,} jobs in the controller, {MINE} of them the user's, and {USUAL:,} job records. Its caches \
are warm.
- `submit`: one GPU, held, with the live gate and the record. It is compared with the smallest \
program that submits with submitit (`benchmarks/inside/with_submitit.py`).
- `generate`: two nodes with four GPUs each and torchrun, compared with `torchx run -s slurm \
--dryrun dist.ddp -j 2x4` with the same partition, time and GPUs.
- `status`: all of the user's jobs. *Its squeue* is the squeue that it starts, run alone: \
`{_shorten_command(results["squeue"])}`. On a terminal of 160 columns it draws a table with \
colors. *Its bare program* (`benchmarks/inside/bare.py`) imports click and rich, asks the same, \
and draws a table with one row.
- *Completing* is what the shell waits for when Tab is pressed. Slurm's answer about the queue may \
be 5 s old.
- `sweep`: {TASKS:,} tasks of one GPU, held, as one array; submitit's is `map_array` of the same. \
*A task* is one of {RUN:,} that do nothing, run by one worker on this machine's disk without srun; \
*a bare loop* of bash starts them with a log each. The first of {max(SIZES):,} tasks is timed from \
the start of its worker (`benchmarks/inside/sweep_scale.py`). `sweep status` shows {min(SIZES):,} \
tasks, 9 of 10 of them ended, and {max(SIZES):,} that have all ended.
- Only Slurm's commands are counted as processes.

## How status scales

{MINE} of the jobs are always the user's.

{_describe_growth(results["groups"])}

## What waiting costs

So many `neuronctl wait` begin at once on one login node, each for a job of its own that waits in \
the queue, and wait for {WAITING} s; sdiag counts the requests.

{_join_rows(["`wait` at once", "requests to slurmctld"], waits)}
"""


def _shorten_command(argv: Sequence[str]) -> str:
    """Return a command for a table, with control characters escaped and long words cut."""
    words = [word.encode("unicode_escape").decode() for word in argv]
    command = shlex.join(word if len(word) <= 40 else word[:32] + "…" for word in words)
    return command.replace("|", "\\|")


def _describe_growth(groups: Mapping[str, Any]) -> str:
    """Return two tables: ``status`` with more and more jobs, and with more and more records."""
    with_jobs, with_records = [], []
    for count in JOBS:
        group = groups[f"{count} jobs"]
        status, squeue = Samples(**group["status"]), Samples(**group["squeue"])
        difference = f"{format_number(status.median - squeue.median)} ms"
        with_jobs.append([f"{count:,}", str(status), str(squeue), difference])
    for count in RECORDS:
        status = Samples(**groups["records"][str(count)])
        with_records.append([f"{count:,}", str(status), f"{status.memory:.1f} MB"])
    head = ["jobs in the controller", "`status`", "its squeue alone", "the rest"]
    jobs = _join_rows(head, with_jobs)
    records = _join_rows(["records", "`status`", "peak memory"], with_records)
    return f"{jobs}\n\nWith {FULL:,} jobs:\n\n{records}"


def _join_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
