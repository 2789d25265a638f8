"""The runs of a sweep's job, as templates/until_done.j2 has them for other jobs.

neuronctl/tracking/runs.py reads the lines that are printed here.
"""

import os
import re
import time
from typing import Callable, List

from . import node


class Run:
    """One run of a job. arguments: of a chain, a mark, the number of the run, and the job before.

    script: of the job. chain: whether each run is a job of its own; else Slurm requeues the job.
    most: runs at most. is_asked_to_end: whether TERM has come.
    """

    def __init__(self, script: str, arguments: List[str], chain: bool, most: int) -> None:
        self.script, self.chain, self.most, self.next = script, chain, most, ""
        self.mark, number, self.before = [*arguments, "", "", ""][:3]
        restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        self.number = int(number or 1) if chain else restarts + 1
        self.job = node.this_job()

    def begin(self) -> bool:
        """Say which run it is; return False if it follows a job that was cancelled or is done."""
        if self.before:
            state = node.ask("scontrol", "show", "job", self.before)
            state = state or node.ask("sacct", "-nX", "-o", "State", "-j", self.before) or ""
            if re.search(r"JobState=(CANCELLED|COMPLETED)|^ *(CANCELLED|COMPLETED)", state):
                return False
        nodes = os.environ.get("SLURM_JOB_NODELIST", "")
        self.say(f"at most {self.most}, on {nodes}{f', as job {self.job}' * self.chain}", "of ")
        if self.chain and self.number < self.most and self._submit_next(5):
            self.say(f"waits as job {self.next}", "", 1)
        return True

    def say(self, text: str, before: str = "", later: int = 0) -> None:
        """Print a line on this run, or a later one."""
        print(f"run {self.number + later} {before}{text}", flush=True)

    def end(self, code: int, is_asked: bool, is_asked_to_end: Callable[[], bool]) -> None:
        """Let another run follow if one is to. is_asked: whether the tasks were asked to save."""
        goes_on = (is_asked or code == 75) and self.number < self.most
        if code == 0:
            print(f"done in {self.number} runs", flush=True)
        elif not is_asked and code != 75:
            words = f"the program failed with exit code {code}: no other run follows"
            print(words, flush=True)
        elif not goes_on:
            print(f"that was the last of {self.most} runs", flush=True)
        else:
            self.say(f"ended with exit code {code}: another one follows")
            if not self.chain:
                self._requeue(is_asked_to_end)
            elif not self._submit_next(60):
                print("no other run follows: sbatch takes none", flush=True)
        if self.next and not goes_on:
            node.ask("scancel", self.next)

    def _requeue(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Requeue the job; Slurm ends this run at the first request that it takes."""
        for _ in range(60):
            state = node.ask("squeue", "--all", "-h", "-j", self.job, "-o", "%T") or ""
            if state.strip() == "RUNNING" and node.ask("scontrol", "requeue", self.job) is not None:
                break
            time.sleep(5)
        end = time.monotonic() + 300
        while time.monotonic() < end and not is_asked_to_end():
            time.sleep(0.1)

    def _submit_next(self, tries: int) -> str:
        """Return the job of the next run, which is submitted unless it is there already."""
        for _ in range(tries):
            queue = node.ask("squeue", "--all", "-h", "--me", "-t", "PENDING", "-o", "%A %E")
            waiting = re.search(rf"(?m)^(\d+) .*afterany:{self.job}\(", queue or "")
            if waiting:
                self.next = waiting.group(1)
            elif queue is not None:  # else slurmctld does not answer: submit nothing twice
                self.next = self._sbatch()
            if self.next:
                break
            time.sleep(5)
        return self.next

    def _sbatch(self) -> str:
        output, error = (os.readlink(f"/proc/self/fd/{number}") for number in (1, 2))
        place = os.environ.get("SLURM_SUBMIT_DIR", ".")
        words = [f"--dependency=afterany:{self.job}", f"--output={output}", f"--error={error}"]
        words += ["--open-mode=append", f"--chdir={os.getcwd()}", self.script, self.mark]
        words += [str(self.number + 1), self.job]
        answer = node.ask("sbatch", "--parsable", *words, place=place)
        return re.sub(r"\D.*", "", answer or "", flags=re.DOTALL)
