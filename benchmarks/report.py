"""The page of the benchmark. Pure."""

from __future__ import annotations

import shlex
from typing import Any, List, Mapping, Sequence

from benchmarks.cases import FULL, JOBS, MINE, RECORDS, USUAL
from benchmarks.figures import Line, Samples, number
from benchmarks.verdict import SUBMITTING, TERMINAL_MORE

_MARK = {True: "met", False: "**NOT met**", None: ""}
_MOST = 15
_BUSY = 0.5
"""Load beyond which other work was going on."""


def table(lines: Sequence[Line]) -> str:
    """The figures as a Markdown table."""
    rows = [
        [line.figure, line.own, line.beside, line.value, line.must, _MARK[line.met]]
        for line in lines
    ]
    return _table(["figure", "neuronctl", "beside it", "comes to", "must be", ""], rows)


def page(results: Mapping[str, Any], lines: Sequence[Line]) -> str:
    """docs/reference/benchmarks.md."""
    machine, versions = results["machine"], results["versions"]
    short = [line for line in lines if line.met is False]
    judged = [line for line in lines if line.met is not None]
    said = f"{len(judged) - len(short)} of {len(judged)} figures are what they must be."
    packages = ", ".join(
        f"{name} {versions[name]}" for name in ("neuronctl", "click", "submitit", "torchx")
    )
    parts = [
        "# How fast it is\n",
        "Written by `make bench`, whole, with all it measured in [JSON](benchmarks.json).\n",
        f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, "
        f"Linux {machine['kernel']}, Slurm {machine['slurm']}, "
        f"Python {machine['python']}, {packages}. "
        f"It took {results['seconds'] / 60:.1f} minutes; load at the start: {machine['load']}."
        + _busy(machine["load"])
        + "\n",
        f"{said} Times are of whole processes, run in turns (A B A B, {results['rounds']} times "
        "each after two that do not count): the median, and in brackets the quartiles. Ratios are "
        "of the medians; in brackets the quartiles of the ratios of neighbouring runs. Memory is "
        "the largest peak of all runs.\n",
        "![The ratios, and how status grows](benchmarks.svg)\n",
        table(lines) + "\n",
        _conditions(results),
        "## How status grows\n",
        _growth(results),
        "## What the floor is\n",
        _floor(results),
    ]
    if short:
        figures = "".join(f"- {line.figure}: {line.value}, must be {line.must}\n" for line in short)
        parts += ["## Where it falls short\n", figures, _profiles(results, short)]
    return "\n".join(parts)


def _busy(load: float) -> str:
    if load <= _BUSY:
        return ""
    return " **The machine had other work to do; times are longer than they would be.**"


def _conditions(results: Mapping[str, Any]) -> str:
    return (
        "## What is measured\n\n"
        f"- neuronctl as a wheel in an environment of its own, in the [sandbox](../explanation/"
        f"sandbox.md) with {FULL:,} jobs in the controller, {MINE} of them the user's, and "
        f"{USUAL:,} job records. Its caches are warm.\n"
        "- `submit`: one GPU, held, recorded, with the live gate on. Beside it the smallest "
        "program that submits with submitit (`benchmarks/inside/submit_with_submitit.py`). "
        "*Without* is the same `submit` judged by the catalog alone.\n"
        "- `generate`: two nodes of four GPUs with torchrun, beside `torchx run -s slurm --dryrun "
        "dist.ddp -j 2x4` with the same partition, time and GPUs. *Without a cache* it can "
        "neither read nor write one.\n"
        "- `status`: all of the user's jobs. Its squeue is the one it starts, run by itself: "
        f"`{_shown(results['squeue'])}`. On a terminal it draws a table with colours.\n"
        "- A process counts where it is one of Slurm's commands. The limits of the site are read "
        "once an hour; the last line is the submission that reads them.\n"
    )


def _shown(argv: Sequence[str]) -> str:
    """An argument list with its control characters spelled out, and only the first fields."""
    words = [word.encode("unicode_escape").decode() for word in argv]
    return shlex.join(word if len(word) <= 40 else word[:32] + "…" for word in words).replace(
        "|", "\\|"
    )


def _growth(results: Mapping[str, Any]) -> str:
    groups = results["groups"]
    rows: List[List[str]] = []
    for total in JOBS:
        status, squeue = (
            Samples.of(groups[f"{total} jobs"][name]) for name in ("status", "squeue")
        )
        own = number(status.median - squeue.median)
        rows.append([f"{total:,}", f"{status} ms", f"{squeue} ms", f"{own} ms"])
    jobs = _table(["jobs in the controller", "`status`", "its squeue alone", "the rest"], rows)
    rows = []
    for count in RECORDS:
        status = Samples.of(groups["records"][str(count)])
        rows.append(
            [
                f"{count:,}",
                str(min(count, MINE)),
                str(results["opened"][str(count)]),
                f"{status} ms",
                f"{status.memory:.1f} MB",
            ]
        )
    records = _table(["records", "of jobs in the queue", "read", "`status`", "peak memory"], rows)
    return (
        f"{MINE} jobs are the user's, whatever the number of the others.\n\n{jobs}\n\n"
        f"With {FULL:,} jobs:\n\n"
        f"{records}\n"
    )


def _floor(results: Mapping[str, Any]) -> str:
    groups = results["groups"]
    told = [
        ("`true`, started by the stopwatch", groups["start"]["true"]),
        ("`python -c pass`", groups["start"]["python -c pass"]),
        ("`python -c 'import click'`", groups["start"]["import click"]),
        ("`python -c 'import click, jinja2'`", groups["start"]["import click and jinja2"]),
        (
            "`python -c 'import click, rich.console, rich.table'`",
            groups["start"]["import click and rich"],
        ),
        ("the bare program of `submit`", groups["submit"]["bare"]),
        ("the bare program of `status` on a terminal", groups["status"]["bare"]),
        ("`sbatch` alone", groups["submit"]["sbatch"]),
        ("the squeue of `status` alone", groups["status"]["squeue"]),
        ("`squeue --json`", groups["status"]["squeue --json"]),
        ("the submitit program", groups["submit"]["submitit"]),
        ("torchx", groups["generate"]["torchx"]),
    ]
    rows = []
    for name, data in told:
        one = Samples.of(data)
        rows.append([name, f"{one} ms", f"{one.memory:.1f} MB"])
    return (
        _table(["what", "wall", "peak memory"], rows)
        + "\n\nLinux counts a peak from before the exec, so that nothing shows less memory than "
        "the first line.\n\n" + _bare(results)
    )


def _bare(results: Mapping[str, Any]) -> str:
    """What the libraries of two commands and Slurm take alone, beside what they may take."""

    def median(group: str, name: str) -> float:
        return Samples.of(results["groups"][group][name]).median

    submit, table = median("submit", "bare"), median("status", "bare")
    may = SUBMITTING * median("submit", "submitit")
    room = table + TERMINAL_MORE
    own = median("submit", "submit") - submit
    imported = results["imports"]["submit"]
    modules = sum(own for name, own in imported if name.startswith("neuronctl")) / 1000
    drawing = median("status", "on a terminal") - table
    return (
        "The two bare programs (`benchmarks/inside/bare.py`) import the same libraries as "
        "neuronctl does, ask Slurm no more than it does, and do nothing else.\n\n"
        f"- `submit` may take {may:.0f} ms ({SUBMITTING:g} × submitit). Its bare program imports "
        "click, asks Slurm a part of what the live gate asks, imports jinja2 meanwhile and runs "
        f"one sbatch: {submit:.0f} ms. {_left(may - submit)} for the catalog, the plan, all rules, "
        "the script and two records that survive a crash. "
        f"neuronctl needs {own:.0f} ms for them; to import its own modules takes {modules:.0f} ms "
        "by itself (`-X importtime`, which slows it).\n"
        f"- `status` on a terminal may take {room:.0f} ms (its bare program + "
        f"{TERMINAL_MORE:.0f} ms). Its bare program imports click, imports rich while one squeue "
        f"runs, and draws a table of one row: {table:.0f} ms. The rest is for records, accounting "
        f"and all other rows. neuronctl needs {drawing:.0f} ms for them.\n"
    )


def _left(room: float) -> str:
    if room <= 0:
        return "That is more already, and leaves nothing"
    return f"That leaves {room:.0f} ms"


def _profiles(results: Mapping[str, Any], short: Sequence[Line]) -> str:
    """Where the time of the commands goes that have a figure which is not met."""
    figures = {line.figure.replace("`", "").replace("peak memory of ", "") for line in short}
    parts = []
    for name, imports in results["imports"].items():
        if name not in figures:
            continue
        total = sum(own for _, own in imports) / 1000
        parts.append(
            f"### neuronctl {name}\n\n{len(imports)} modules are imported in {total:.0f} ms, "
            "Python's own among them (`-X importtime`); the longest by themselves:\n"
        )
        rows = [[f"`{module}`", f"{own / 1000:.1f} ms"] for module, own in imports[:_MOST]]
        parts.append(_table(["module", "by itself"], rows) + "\n")
        parts.append(
            "The functions that take longest by themselves (cProfile, which slows them):\n"
        )
        rows = [
            [f"`{place}`", str(calls), f"{own:.1f} ms"]
            for place, calls, own in results["functions"][name]
        ]
        parts.append(_table(["function", "calls", "by itself"], rows) + "\n")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
