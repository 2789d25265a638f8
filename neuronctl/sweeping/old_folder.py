"""Sweeps of neuronctl 0.2.0, whose tasks are text for bash: they are read, and made new ones."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, Callable, Dict, Iterator, List, Tuple

from neuronctl.common.errors import RecordError
from neuronctl.common.files import read_private
from neuronctl.common.frozen import NOT_RESTORED
from neuronctl.sweeping.parameters import TaskState
from neuronctl.sweeping.worker.files import (
    DONE,
    FAILED,
    INTERRUPTED,
    NOT_KNOWN,
    RUNNING,
    WAITING,
    Runs,
    list_names,
)

_RESULT = r"(?m)^(\d+ \d+) (\d+) (\d+) (\d+) (\S+) (\S+) (.*)\n"
"""A line of results; what a node that died has left of one is none."""


def read_old_states(path: str, ask_runs: Callable[[], Runs]) -> List[TaskState]:
    """Return the state of each task; raises RecordError."""
    claims, runs = list_names(f"{path}/claims"), ask_runs()
    results = dict(_results(path))
    again = {line for part in _parts(path, "again") for line in part}
    last: Dict[int, int] = {}
    for number, attempt in re.findall(r"(?m)^(\d+)\.(\d+)$", "\n".join(claims)):
        last[int(number)] = max(int(attempt), last.get(int(number), 0))
    states: List[TaskState] = []
    try:
        for head, *lines in _parts(path, "tasks"):
            sizes = tuple(json.loads(head).items())
            for line in lines[1::2]:
                number, attempt = len(states) + 1, last.get(len(states) + 1, 0)
                key, values = f"{number} {attempt}", dict(json.loads(line))
                known: Dict[str, Any] = {"state": WAITING}
                if attempt and key not in again:
                    known = results.get(key) or _begun(path, key, runs)
                states.append(TaskState(number, values, sizes, attempt=attempt, **known))
    except (*NOT_RESTORED, OSError) as error:
        raise RecordError(f"the sweep's folder {path} is damaged: {error}") from None
    return states


def _results(path: str) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for worker in list_names(f"{path}/results"):
        job = int((re.findall(r"^\d+", worker) or ["0"])[0])
        for key, code, start, end, node, metric, last_line in re.findall(
            _RESULT, _read(path, f"results/{worker}")
        ):
            yield (
                key,
                {
                    "state": DONE if code == "0" else FAILED,
                    "code": int(code),
                    "start": int(start),
                    "end": int(end),
                    "node": node,
                    "job_id": job,
                    "metric": metric.strip("-") and metric,
                    "last_line": last_line,
                },
            )


def _begun(path: str, key: str, runs: Runs) -> Dict[str, Any]:
    """Return what is known of an attempt without a result."""
    claim = _read(path, f"claims/{key.replace(' ', '.')}").split()
    if len(claim) != 5 or not claim[0].isdigit() or not claim[4].isdigit():
        return {"state": INTERRUPTED}  # a node died while it wrote it
    state = NOT_KNOWN if runs is None else RUNNING if int(claim[0]) in runs else INTERRUPTED
    return {
        "state": state,
        "job_id": int(claim[0]),
        "node": claim[3],
        "start": int(claim[4]),
    }


def _parts(path: str, directory: str) -> Iterator[List[str]]:
    for number in sorted(int(name) for name in list_names(f"{path}/{directory}") if name.isdigit()):
        yield _read(path, f"{directory}/{number}").split("\n")[:-1]


def _read(path: str, name: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        return read_private(f"{path}/{name}").decode("utf-8", "replace")
    return ""
