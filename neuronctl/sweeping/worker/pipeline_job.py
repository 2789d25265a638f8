"""A job of a pipeline: it submits the next jobs, runs its script, and records its end."""

import os
import signal
import subprocess
import time
from types import FrameType
from typing import Callable, List, Optional, Tuple

from . import files, node
from .files import NOT_KNOWN
from .pipeline_folder import CANCELLED, Pipeline

_PAUSE = 30  # seconds between looks for room in the queue, while the job runs
_LAST = 300  # seconds for which an ended job looks for room if no other job in the queue can


class Run:
    """The run of a job: its script is a child of this process, which passes signals on to it."""

    def __init__(self, folder: str, name: str, attempt: str) -> None:
        self.pipeline = Pipeline(folder, lambda message: print("pipeline:", message, flush=True))
        self.variables = node.read_environment()
        self.name = name
        self.job = next(job for job in self.pipeline.jobs if job.name == name)
        task = os.environ.get("SLURM_ARRAY_TASK_ID", "")
        self.id = int(os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ["SLURM_JOB_ID"])
        self.attempt = f"{name}.{attempt}"  # KEY in the names of the pipeline's files
        self.key = self.attempt + (f".{task}" if task else "")  # the same of this array task
        self.signals: List[int] = []  # received by the job
        self.child: Optional[subprocess.Popen[bytes]] = None
        for signal_name in ("TERM", "INT", "HUP", "USR1", "USR2"):
            signal.signal(getattr(signal, "SIG" + signal_name), self._forward)

    def _forward(self, number: int, frame: Optional[FrameType]) -> None:
        self.signals.append(number)
        if self.child is not None and self.child.returncode is None:
            node.kill(self.child.pid, number)

    def run(self) -> int:
        """Run the job unless it must not run; return its exit code."""
        mark = {"job": self.id, "node": os.uname().nodename, "start": int(time.time())}
        is_first = _insist(lambda: self.pipeline.publish("begun/" + self.key, mark))
        if not is_first and not self._begins_again():
            return 0
        left, _ = self._advance()
        why = self._await_predecessors()
        if why:
            self.pipeline.publish("not_run/" + self.attempt, {"why": why})
            print(f"pipeline: {self.name} does not run: {why}", flush=True)
            self._hand_over()
            node.ask("scancel", os.environ["SLURM_JOB_ID"])  # otherwise it would be COMPLETED
            return 0
        code = self._run_script(left)
        _insist(lambda: self.pipeline.publish("ended/" + self.key, {"code": code}))
        self._hand_over()
        return code

    def _begins_again(self) -> bool:
        """Return True if Slurm requeued this job before it succeeded; False if it must not run."""
        begun_id = self.pipeline.read("begun/" + self.key).get("job")
        if begun_id != self.id:
            print(f"pipeline: job {begun_id} runs {self.name} already", flush=True)
            return False
        if self.pipeline.read("ended/" + self.key).get("code") == 0:  # requeued after its end
            self._hand_over()
            return False
        files.remove(f"{self.pipeline.folder}/ended/{self.key}")
        return True

    def _advance(self) -> Tuple[int, int]:
        """Call Pipeline.advance(); after an error, return 1, 1: another job may submit the rest."""
        try:
            final = signal.SIGTERM not in self.signals and len(self.job.tasks) == 1
            return self.pipeline.advance(self.variables, self.name, final=final)
        except OSError as error:
            print(f"pipeline: {error}", flush=True)
            return 1, 1

    def _await_predecessors(self) -> str:
        """Wait until the states of the jobs before this one are known, or a signal comes.

        Return why this job must not run; "" if it may, or if _run_script() has to obey the signal.
        """
        predecessors = (*self.job.after, *self.job.after_ok)
        while not self.signals:
            if self.pipeline.is_stopped:
                return CANCELLED
            if os.path.exists(f"{self.pipeline.folder}/again/{self.attempt}"):
                return "another attempt follows"
            states = [self.pipeline.states.get(name) for name in predecessors]
            if all(state is not None and state.state != NOT_KNOWN for state in states):
                return self.pipeline.why_blocked(self.job)
            time.sleep(5)
            self._advance()
        return ""

    def _run_script(self, left: int) -> int:
        """Run the script, and return its exit code; meanwhile, submit the ``left`` jobs."""
        if self.signals:
            return 128 + self.signals[0]
        path = f"{self.pipeline.folder}/scripts/{self.attempt}.run"
        with files.open_own(path) as file:
            words = file.readline()[2:].split()  # after ``#!``
        self.child = subprocess.Popen([*words, os.fsencode(path)], env=self.variables)
        for number in self.signals:  # received before there was a child
            node.kill(self.child.pid, number)
        while True:
            try:
                code = self.child.wait(_PAUSE if left else None)
                if code in (-signal.SIGTERM, 128 + signal.SIGTERM):  # Slurm may signal it directly
                    self.signals.append(signal.SIGTERM)
                return code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                left, _ = self._advance()

    def _hand_over(self) -> None:
        """Submit the next jobs; wait for room only if no other job of the pipeline does."""
        until = time.monotonic() + _LAST
        while True:
            left, others = self._advance()
            if not left or others or self.signals or time.monotonic() > until:
                break
            time.sleep(5)
        if left and not others:
            print(f"pipeline: {left} jobs are left, and none of them is in the queue", flush=True)


def _insist(write: Callable[[], bool]) -> bool:
    """Write, and return what ``write`` returns; retry for a minute before raising OSError."""
    for _ in range(12):
        try:
            return write()
        except OSError as error:
            print(f"pipeline: {error}", flush=True)
            time.sleep(5)
    return write()


def main(arguments: List[str]) -> int:
    """Run a job of a pipeline. arguments: the pipeline's folder, the job's name, its attempt."""
    try:
        return Run(*arguments).run()
    except (OSError, ValueError) as error:
        print(f"pipeline: its folder cannot be used, or was deleted: {error}", flush=True)
        return 1
