"""The program of a sweep's job: the parent starts workers and ends what a killed one leaves."""

import contextlib
import json
import os
import signal
import sys
import time
from types import FrameType
from typing import List, Optional

from . import files, node
from .supply import Options
from .work import Worker

_WORKERS = 3
"""Workers of a run, one after the other: another one follows one that was killed."""


def main(arguments: List[str]) -> int:
    """Run workers until one ends by itself; return its exit code.

    arguments: the sweep's folder, and options as JSON.
    """
    folder, options = arguments[0], Options(**json.loads(arguments[1]))
    asked: List[int] = []  # signals received
    worker = 0

    def forward(number: int, frame: Optional[FrameType]) -> None:
        asked.append(number)
        if worker:
            node.kill(worker, number)

    node.set_process(adopts=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, forward)
    for _ in range(_WORKERS):
        name, parent = f"{node.this_job()}.{os.urandom(8).hex()}", os.getpid()
        worker = os.fork()
        if not worker:
            os._exit(_work(folder, name, options, parent))
        if asked:
            node.kill(worker, asked[-1])
        _, status = os.waitpid(worker, 0)
        worker = 0
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        print(f"the sweep's worker was killed by signal {os.WTERMSIG(status)}", flush=True)
        _end_all(name)
        if asked or options.nodes > 1:  # on other nodes, Slurm ends the rest
            break
        files.remove(f"{folder}/alive/{name}")
    return 75


def _work(folder: str, name: str, options: Options, parent: int) -> int:
    """Run one worker; return its exit code."""
    try:
        node.set_process(adopts=True, ends_with=parent)
        return Worker(folder, name, options).run()
    except OSError as error:
        print(f"the sweep's folder cannot be used, or was deleted: {error}", flush=True)
        return 1
    finally:
        sys.stdout.flush()


def _end_all(worker: str) -> None:
    """End what the tasks of a worker have started."""
    while True:
        left = node.children() | {process.pid for process in node.processes(worker)}
        if not left:
            return
        for pid in left:
            node.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)
