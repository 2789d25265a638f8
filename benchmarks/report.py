"""Every figure with its target, and the page that shows them. Pure."""

from __future__ import annotations

import shlex
import statistics
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from benchmarks.cases import COMPLETED, FULL, JOBS, MINE, RECORDS, TASKS, USUAL, WAITING, WAITS
from benchmarks.inside.sweep_scale import RUN, SIZES

_MARK = {True: "met", False: "**NOT met**", None: ""}
_BUSY = 0.5
"""The load average above which the machine is said to be busy."""
_PROCESSES = {"submit": 3, "history -n 5000": 6}
"""Slurm processes, where more than 2 are allowed: history asks anew for each 500 records."""


@dataclass(frozen=True)
class Samples:
    """The measurements of one command: wall times in milliseconds, peak memory in kilobytes."""

    ms: Sequence[float]
    kb: Sequence[int] = ()

    @property
    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.ms)

    @property
    def memory(self) -> float:
        """The highest peak of all runs, in MB (10^6 bytes)."""
        return max(self.kb) * 1024 / 1e6

    def __str__(self) -> str:
        low, high = quartiles(self.ms)
        return f"{number(self.median)} ({number(low)} to {number(high)}) ms"


@dataclass(frozen=True)
class Line:
    """One figure and its target; met is None if it has none."""

    figure: str
    own: str
    value: str
    must: str
    met: Optional[bool]
    beside: str = ""


def ratio_line(
    figure: str, own: Samples, beside: str, other: Samples, at_most: Optional[float] = None
) -> Line:
    """Compare two medians; in brackets, the quartiles of the ratios of neighboring runs."""
    ratio = own.median / other.median
    low, high = quartiles([mine / its for mine, its in zip(own.ms, other.ms)])
    value = f"{ratio:.2f} × ({low:.2f} to {high:.2f})"
    must = "" if at_most is None else f"at most {at_most:g} ×"
    met = None if at_most is None else ratio <= at_most
    return Line(figure, str(own), value, must, met, f"{beside}: {other}")


def extra_line(figure: str, own: Samples, beside: str, other: Samples, at_most: float) -> Line:
    """Tell how much longer one takes than the other: the median over neighboring runs."""
    extra = statistics.median(mine - its for mine, its in zip(own.ms, other.ms))
    value, must = f"{number(extra)} ms more", f"at most {at_most:g} ms more"
    return Line(figure, str(own), value, must, extra <= at_most, f"{beside}: {other}")


def plain_line(figure: str, value: float, at_most: float, unit: str = "") -> Line:
    """Compare a figure with its limit, in ms, MB, or things."""
    shown = f"{number(value) if unit else int(value)} {unit}".strip()
    return Line(figure, shown, shown, f"at most {at_most:g} {unit}".strip(), value <= at_most)


def number(value: float) -> str:
    """Return a number with two or three significant figures."""
    return f"{value:.1f}" if abs(value) < 20 else f"{value:.0f}"


def quartiles(values: Sequence[float]) -> Tuple[float, float]:
    """Return the first and the third quartile, by NumPy's default method."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def lines(results: Mapping[str, Any]) -> List[Line]:
    """Return the lines of the table, from all measurements."""

    def of(group: str, name: str) -> Samples:
        return Samples(**results["groups"][group][name])

    python, sbatch, json = of("start", "python -c pass"), of("submit", "sbatch"), "`squeue --json`"
    submit, generate = of("submit", "submit"), of("generate", "generate")
    terminal, all_jobs = of("status", "on a terminal"), of("status", "squeue --json")
    sweep, scale = of("sweep", "sweep"), results["sweep"]
    task, loop = (Samples(scale["task_ms"][name]) for name in ("sweep", "loop"))
    figures = [
        ratio_line("`--version`", of("start", "--version"), "`python -c pass`", python, 4),
        ratio_line("`--help`", of("start", "--help"), "`python -c pass`", python, 4),
        ratio_line("`submit`", submit, "submitit", of("submit", "submitit"), 1.05),
        ratio_line("`submit`", submit, "`sbatch` alone", sbatch),
        extra_line("`neuronctl sbatch`", of("submit", "drop-in"), "`sbatch` alone", sbatch, 150),
        ratio_line("`generate`", generate, "torchx", of("generate", "torchx"), 0.35),
        ratio_line("`status`", of("status", "status"), json, all_jobs, 0.35),
        ratio_line("`status` on a terminal", terminal, json, all_jobs, 0.35),
        extra_line(
            "`status` on a terminal", terminal, "its bare program", of("status", "bare"), 40
        ),
        ratio_line(f"`sweep` of {TASKS:,} tasks", sweep, "submitit", of("sweep", "submitit"), 1.1),
        extra_line("a task of a sweep", task, "a bare loop", loop, 3),
        plain_line(f"first of {max(SIZES):,} tasks", 1000 * scale["first"], 1500, "ms"),
        plain_line("peak memory of its worker", scale["kb"] * 1024 / 1e6, 60, "MB"),
    ]
    for size, most in zip(SIZES, (500, 2000)):
        status = of("sweep status", str(size))
        figures.append(plain_line(f"`sweep status` of {size:,} tasks", status.median, most, "ms"))
    some = of("sweep status", str(min(SIZES)))
    figures.append(plain_line(f"its peak memory with {min(SIZES):,}", some.memory, 60, "MB"))
    figures += [
        plain_line(f"completing {name}", of("completion", name).median, 100, "ms")
        for name in COMPLETED
    ]
    for name, one in (("submit", submit), ("generate", generate), ("status", terminal)):
        figures.append(plain_line(f"peak memory of `{name}`", one.memory, 40, "MB"))
    for name, calls in results["processes"].items():
        names = ", ".join(call[0] for call in calls) or "none"
        figure = f"Slurm processes of {name}: {names}"
        figures.append(plain_line(figure, len(calls), _PROCESSES.get(name, 2)))
    # Those that begin a little later first look every second.
    one, most = (results["waits"][str(count)] for count in (min(WAITS), max(WAITS)))
    figures.append(plain_line(f"requests of {max(WAITS)} `wait` at once", most, 2 * one))
    return figures


def table(lines: Sequence[Line]) -> str:
    """Return the figures as a Markdown table."""
    rows = [
        [line.figure, line.own, line.beside, line.value, line.must, _MARK[line.met]]
        for line in lines
    ]
    return _table(["figure", "neuronctl", "compared with", "result", "target", ""], rows)


def page(results: Mapping[str, Any], lines: Sequence[Line]) -> str:
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

{table(lines)}

## What is measured

- neuronctl is a wheel in its own environment, in the [sandbox](../explanation/sandbox.md), with \
{FULL:,} jobs in the controller, {MINE} of them the user's, and {USUAL:,} job records. Its caches \
are warm.
- `submit`: one GPU, held, with the live gate and the record. It is compared with the smallest \
program that submits with submitit (`benchmarks/inside/with_submitit.py`).
- `generate`: two nodes with four GPUs each and torchrun, compared with `torchx run -s slurm \
--dryrun dist.ddp -j 2x4` with the same partition, time and GPUs.
- `status`: all of the user's jobs. *Its squeue* is the squeue that it starts, run alone: \
`{_shown(results["squeue"])}`. On a terminal of 160 columns it draws a table with colors. *Its \
bare program* (`benchmarks/inside/bare.py`) imports click and rich, asks the same, and draws a \
table with one row.
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

{_growth(results["groups"])}

## What waiting costs

So many `neuronctl wait` begin at once on one login node, each for a job of its own that waits in \
the queue, and wait for {WAITING} s; sdiag counts the requests.

{_table(["`wait` at once", "requests to slurmctld"], waits)}
"""


def _shown(argv: Sequence[str]) -> str:
    """Return an argv with control characters escaped and long words cut."""
    words = [word.encode("unicode_escape").decode() for word in argv]
    short = shlex.join(word if len(word) <= 40 else word[:32] + "…" for word in words)
    return short.replace("|", "\\|")


def _growth(groups: Mapping[str, Any]) -> str:
    rows = []
    for total in JOBS:
        status, squeue = (Samples(**groups[f"{total} jobs"][name]) for name in ("status", "squeue"))
        rest = f"{number(status.median - squeue.median)} ms"
        rows.append([f"{total:,}", str(status), str(squeue), rest])
    jobs = _table(["jobs in the controller", "`status`", "its squeue alone", "the rest"], rows)
    measured = {count: Samples(**groups["records"][str(count)]) for count in RECORDS}
    rows = [[f"{count:,}", str(one), f"{one.memory:.1f} MB"] for count, one in measured.items()]
    return (
        f"{jobs}\n\nWith {FULL:,} jobs:\n\n{_table(['records', '`status`', 'peak memory'], rows)}"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
