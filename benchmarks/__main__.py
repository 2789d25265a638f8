"""python -m benchmarks [--rounds N]: measure, and write docs/reference/benchmarks.* anew."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from functools import partial
from types import FrameType
from typing import Any, Dict, Optional

from benchmarks import cases, report
from benchmarks.cluster import run_cluster
from benchmarks.peers import CHECKOUT, PINS, install_environments

PLACE = CHECKOUT / "docs" / "reference"
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Measure all cases and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="runs of each command")
    rounds = parser.parse_args().rounds
    if rounds < 1:
        parser.error("--rounds is at least 1")
    for number in _ENDING_SIGNALS:
        signal.signal(number, _interrupt)
    os.umask(0o022)  # the sandbox's user reads what is installed here
    try:
        results = measure(rounds)
    except KeyboardInterrupt:
        sys.exit("benchmarks: interrupted; the sandbox is down, nothing was written")
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"benchmarks: {error}; nothing was written")
    (PLACE / "benchmarks.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    lines = report.make_lines(results)
    (PLACE / "benchmarks.md").write_text(report.make_page(results, lines), encoding="utf-8")
    print(report.make_table(lines))
    not_met = [line.figure for line in lines if line.met is False]
    print(f"\nwritten to docs/reference/benchmarks.md; not met: {', '.join(not_met) or 'none'}")


def measure(rounds: int) -> Dict[str, Any]:
    """Measure everything, in sandboxes that are removed afterwards."""
    begin = time.monotonic()
    say = partial(_say, begin)
    results: Dict[str, Any] = {"schema": 1, "rounds": rounds, "machine": _describe_machine()}
    say(f"installing neuronctl, {' and '.join(PINS)}")
    with install_environments() as installed:
        results["versions"] = installed.list_versions()
        groups: Dict[str, Any] = {}
        for measurements in (
            (cases.measure_start, cases.measure_status),
            (cases.measure_submissions,),
            (cases.measure_sweeps,),
        ):
            with run_cluster(installed, f"bench-{os.getpid()}") as cluster:
                results["machine"]["slurm"] = cluster.slurm
                for measure_part in measurements:
                    answer = measure_part(cluster, installed, rounds, say)
                    groups.update(answer.pop("groups"))
                    results.update(answer)
        results["groups"] = groups
    results["seconds"] = round(time.monotonic() - begin)
    return results


def _say(begin: float, words: str) -> None:
    """Print what is measured now, with the seconds since the beginning."""
    print(f"[{time.monotonic() - begin:4.0f} s] {words}", file=sys.stderr, flush=True)


def _describe_machine() -> Dict[str, Any]:
    """Return what the figures depend on: processor, load, and versions."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def _interrupt(number: int, frame: Optional[FrameType]) -> None:
    """Interrupt the measurement once; later signals would interrupt taking the sandbox down."""
    for ending in _ENDING_SIGNALS:
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
