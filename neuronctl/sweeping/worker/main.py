"""The program of a sweep's job: a worker, and its parent, which ends what the worker leaves."""

import contextlib
import json
import os
import signal
import sys
import time
from typing import List

from . import files, node, pipeline_job
from .supply import Options
from .work import RUN_AGAIN, SIGNALS, Worker


def main(arguments: List[str]) -> int:
    """Run a worker, or a job of a pipeline; return the exit code of the job.

    arguments: the sweep's folder, and options as JSON; or ``pipeline``, and pipeline_job's own.
    """
    if arguments[0] == "pipeline":
        return pipeline_job.main(arguments[1:])
    folder = arguments[0]
    options = Options(**json.loads(arguments[1]))
    name = f"{node.find_this_job()}.{os.urandom(8).hex()}"
    parent = os.getpid()
    node.adopt_orphans()
    # A signal waits until its handler is set, here and in the worker.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    worker = os.fork()
    if not worker:
        os._exit(_run_worker(folder, name, options, parent))
    status = _pass_signals_on(worker)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    print(f"the sweep's worker was killed by signal {os.WTERMSIG(status)}", flush=True)
    _end_all(name)
    if options.nodes == 1:  # on other nodes, its tasks may still run until Slurm ends them
        files.remove(f"{folder}/alive/{name}")
    return RUN_AGAIN


def _pass_signals_on(worker: int) -> int:
    """Pass signals on to the worker until it ends, and return its wait status."""
    for number in SIGNALS:
        signal.signal(number, lambda number, _: node.kill(worker, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    # Once the worker is reaped, its number may belong to another process.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(worker, 0)
    return status


def _run_worker(folder: str, name: str, options: Options, parent: int) -> int:
    """Run the worker; return its exit code."""
    try:
        node.adopt_orphans()
        node.end_with(parent)
        return Worker(folder, name, options).run()
    except OSError as error:
        print(f"the sweep's folder cannot be used, or was deleted: {error}", flush=True)
        return 1
    finally:
        sys.stdout.flush()


def _end_all(worker: str) -> None:
    """End what the tasks of a worker have started. worker: its name."""
    while True:
        pids = node.list_children() | {process.pid for process in node.list_processes(worker)}
        if not pids:
            return
        for pid in pids:
            node.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)
