"""Read the sweeps of neuronctl 0.2.0, whose files hold words for bash, and convert them."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any, Callable, Dict, Iterator, List

from neuronctl.common.errors import RecordError
from neuronctl.common.files import read_private
from neuronctl.common.restoring import NOT_RESTORED
from neuronctl.sweeping.parameters import TaskState
from neuronctl.sweeping.worker import files
from neuronctl.sweeping.worker.files import Runs

_RESULT = r"(?m)^(\d+ \d+) (\d+) (\d+) (\d+) (\S+) (\S+) (.*)\n"
_CLAIM = r"(\d+) \d+ \S+ (\S+) (\d+)\n"
"""Whole lines; a node that died may have left a part of one."""


def read_old_states(path: str, ask_runs: Callable[[], Runs]) -> List[TaskState]:
    """Return the state of each task; raises RecordError."""
    claims, runs = " ".join(files.list_names(f"{path}/claims")), ask_runs()
    attempts: Dict[int, int] = {}
    for number, attempt in re.findall(r"\b(\d+)\.(\d+)\b", claims):
        attempts[int(number)] = max(int(attempt), attempts.get(int(number), 0))
    states: List[TaskState] = []
    try:
        known = _read_results(path)
        known.update((line, {}) for lines in _parts(f"{path}/again") for line in lines)
        for head, *lines in _parts(f"{path}/tasks"):
            for line in lines[1::2]:
                number = len(states) + 1
                attempt = attempts.get(number, 0)
                state = TaskState(number, json.loads(line), tuple(json.loads(head).items()))
                if attempt:
                    of_attempt = known.get(f"{number} {attempt}")
                    if of_attempt is None:
                        of_attempt = _read_claim(f"{path}/claims/{number}.{attempt}", runs)
                    state = state._replace(attempt=attempt, **of_attempt)
                states.append(state)
    except (*NOT_RESTORED, OSError) as error:
        raise RecordError(f"the sweep's folder {path} is damaged: {error}") from None
    return states


def _read_results(path: str) -> Dict[str, Dict[str, Any]]:
    """Return each finished attempt, by its task and number."""
    results = {}
    for worker in files.list_names(f"{path}/results"):
        for key, code, start, end, node, metric, line in re.findall(
            _RESULT, _read(f"{path}/results/{worker}")
        ):
            result = {"state": files.FAILED if int(code) else files.DONE, "code": int(code)}
            result.update(start=int(start), end=int(end), node=node, last_line=line)
            result.update(job_id=int(worker.partition(".")[0]), metric=metric.strip("-") and metric)
            results[key] = result
    return results


def _read_claim(path: str, runs: Runs) -> Dict[str, Any]:
    """Return an attempt without a result."""
    match = re.fullmatch(_CLAIM, _read(path))
    if match is None:
        return {"state": files.INTERRUPTED}
    job, node, start = int(match[1]), match[2], int(match[3])
    state = files.RUNNING if runs and job in runs else files.INTERRUPTED
    state = files.NOT_KNOWN if runs is None else state
    return {"state": state, "job_id": job, "node": node, "start": start}


def _parts(path: str) -> Iterator[List[str]]:
    for number in sorted(int(name) for name in files.list_names(path) if name.isdigit()):
        yield _read(f"{path}/{number}").split("\n")[:-1]


def _read(path: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        return read_private(path).decode("utf-8", "replace")
    return ""
