"""Every figure with its target. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping

from benchmarks import cases, sweeps
from benchmarks.cases import MINE, RECORDS
from benchmarks.figures import (
    Line,
    Samples,
    count_line,
    extra_line,
    memory_line,
    processes_line,
    rate_line,
    ratio_line,
    sum_line,
    time_line,
)

STARTING = 4.0
SUBMITTING = 1.1
GENERATING = 0.4
STATUS = 0.35
STATUS_MORE = 60.0
"""Milliseconds on top of its squeue and ``--version``."""
TERMINAL_MORE = 50.0
"""Milliseconds on top of the bare program of ``status`` on a terminal."""
COMPLETING = 100.0
TASK, SWEEP_STATUS, SWEEP_MEMORY = 50.0, 500.0, 60.0
"""Milliseconds that the folder costs a task, and of ``sweep status``; megabytes."""
MEMORY = 40.0
GATE = 100.0
RENDERINGS = 2000.0
PROCESSES = 2
WAITS = 2
"""Times the requests of one ``wait``: those that begin a little later first look every second."""
PAGES = 3
"""history asks anew for each 500 of its records, of which there are some more than 1,000."""


def lines(results: Mapping[str, Any]) -> List[Line]:
    """The lines of the table, from all measurements."""

    def of(group: str, name: str) -> Samples:
        return Samples.of(results["groups"][group][name])

    bare = of("start", "python -c pass")
    status, terminal = of("status", "status"), of("status", "on a terminal")
    parts = [of("status", "squeue"), of("status", "--version")]
    json, beside = of("status", "squeue --json"), "its squeue + `--version` + 60"
    submit = of("submit", "submit")
    names = {
        "`--version`": of("start", "--version"),
        "`--help`": of("start", "--help"),
        "`submit`": submit,
        "`generate`": of("generate", "generate"),
        "`status`": status,
        "`status` on a terminal": terminal,
    }
    made = [
        ratio_line("`--version`", names["`--version`"], "`python -c pass`", bare, STARTING),
        ratio_line("`--help`", names["`--help`"], "`python -c pass`", bare, STARTING),
        ratio_line("`submit`", submit, "submitit", of("submit", "submitit"), SUBMITTING),
        ratio_line("`submit`", submit, "`sbatch` alone", of("submit", "sbatch"), None),
        extra_line("the live gate", submit, "without", of("submit", "without the gate"), GATE),
        ratio_line(
            "`generate`", names["`generate`"], "torchx", of("generate", "torchx"), GENERATING
        ),
        ratio_line(
            "`generate` without a cache",
            of("generate", "without a cache"),
            "torchx",
            of("generate", "torchx"),
            None,
        ),
        ratio_line("`status`", status, "`squeue --json`", json, STATUS),
        sum_line("`status`", status, beside, parts, STATUS_MORE),
        ratio_line("`status` on a terminal", terminal, "`squeue --json`", json, STATUS),
        sum_line(
            "`status` on a terminal",
            terminal,
            f"its bare program + {TERMINAL_MORE:g}",
            [of("status", "bare")],
            TERMINAL_MORE,
        ),
    ]
    task_ms = {name: Samples(tuple(ms), ()) for name, ms in results["task_ms"].items()}
    theirs = of("sweep", "submitit")
    figure = f"`sweep status` of {sweeps.MANY:,} tasks"
    looked = of("sweep status", "table")
    made += [
        ratio_line(
            f"`sweep` of {sweeps.TASKS:,} tasks", of("sweep", "sweep"), "submitit", theirs, None
        ),
        extra_line("a task of a sweep", task_ms["sweep"], "a bare loop", task_ms["loop"], TASK),
        time_line(figure, looked, SWEEP_STATUS),
        memory_line(f"peak memory of {figure}", looked, SWEEP_MEMORY),
    ]
    made += [
        time_line(f"completing {name}", of("completion", name), COMPLETING)
        for name in cases.COMPLETED
    ]
    made += [memory_line(f"peak memory of {name}", one, MEMORY) for name, one in names.items()]
    rates = results["renderings"]
    made += [
        rate_line("different scripts rendered", rates["a_second"], RENDERINGS),
        rate_line("the same, planned too", rates["planned_a_second"], None),
    ]
    for name, calls in results["processes"].items():
        known = "not yet" not in name
        free = "sbatch" if name.startswith("submit") else ""
        limit = (PAGES if name == "history -n 5000" else 1) * PROCESSES if known else None
        made.append(processes_line(f"Slurm processes of {name}", calls, limit, free))
    one, many = (results["waits"][str(count)] for count in (min(cases.WAITS), max(cases.WAITS)))
    figure = f"requests to slurmctld of {max(cases.WAITS)} `wait` at once"
    made.append(count_line(figure, many, WAITS * one))
    most, read = max(RECORDS), results["opened"][str(max(RECORDS))]
    made.append(count_line(f"files of records that `status` reads, of {most:,}", read, MINE))
    return made
