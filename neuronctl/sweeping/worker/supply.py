"""Which task a worker runs next, and what failures mean for the sweep and its node."""

import os
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import files, node
from .files import CONTINUES, DONE, FAILED, INTERRUPTED, Key


class Options(NamedTuple):
    """The options that a job's script passes to its worker. sizes: of this job's tasks."""

    sizes: Dict[str, str] = {}  # noqa: RUF012
    slots: int = 1  # tasks at a time
    nodes: int = 1  # of a task
    launch: bool = False  # whether the script's function ``launch`` starts a task
    by_srun: bool = False  # whether srun starts a task
    margin: int = 120  # seconds before the time limit in which no task is started
    save: int = 40  # seconds that tasks have to save after ``signal``
    signal: str = "TERM"  # on which a task saves
    task_time: int = 0  # seconds that a task takes; 0: as long as the longest so far
    retries: int = 2  # this and the next two: options of 'neuronctl sweep'
    max_fails: int = 5
    until_done: bool = False
    metric: str = r"neuronctl: metric=(\S+)"  # a pattern
    snapshot: str = ""  # the copy of the code; "": there is none


QUICK = 3  # seconds within which a failure is immediate
SILENCE = 30  # seconds without a sign of life after which a worker counts as dead
VERDICT = 300  # seconds that a suspect node waits for other nodes to try its tasks
HOLD = 60  # seconds to wait for a first success
LOOK = 60  # seconds between looks for tasks to run again
SOON = 5  # the same if another worker may be dying


class Supply:
    """The tasks that are left for a worker, according to the sweep's files."""

    def __init__(self, folder: str, options: Options, node_name: str) -> None:
        self.folder, self.options, self.node = folder, options, node_name
        self.tasks = files.Tasks(folder)
        self.results = files.Results(folder)
        self.mine: List[int] = []  # the numbers of the tasks of this job's sizes
        self.index = 0  # the place of the next task in ``mine``
        self.again: List[Key] = []  # attempts to run before other tasks
        self.request_files = 0  # number of files that request another attempt, at the last look
        self.look_at = 0.0  # when to look for tasks to run again
        self.waits = False  # whether another worker may be dying
        self.beats: Dict[str, Tuple[bytes, float]] = {}  # by worker: sign of life, when it came
        self.healthy = False  # whether any task succeeded
        self.suspected = 0.0  # when it was first suspected that no task succeeds; 0: it is not
        self.suspect_at = 0.0  # when to check this suspicion next
        self.quick: List[Key] = []  # immediate failures in a row
        self.trial: Optional[Tuple[List[Key], float]] = None  # what others try, until when
        self.failed = 0  # number of tasks that failed or were given up

    def next_key(self) -> Optional[Key]:
        """Return an attempt to run again if one is due, otherwise a task that nobody has begun.

        Return None if there is neither now. In a trial of this node, return only what other suspect
        nodes leave to it.
        """
        if self.index >= len(self.mine):
            self.read_tasks()
        # 'sweep retry' requests attempts, and so does a suspect node that waits for this one.
        request_files = len(files.list_names(f"{self.folder}/again"))
        if request_files != self.request_files:
            self.request_files = request_files
            self.again = self.list_undone(begun_only=True)
        if self.again:
            return self.again.pop(0)
        if self.trial:
            return None

        self.index = files.find_free(self.index, len(self.mine), self._is_taken)
        if self.index < len(self.mine):
            self.index += 1
            return self.mine[self.index - 1], 1  # the first attempt

        # All have begun: look now and then for those that were interrupted.
        if time.monotonic() < self.look_at:
            return None
        self.again = self.list_undone()
        self.look_at = time.monotonic() + (SOON if self.waits else LOOK)
        return self.again.pop(0) if self.again else None

    def _is_taken(self, index: int) -> bool:
        return os.path.exists(f"{self.folder}/claims/{self.mine[index]}.1")

    def read_tasks(self) -> bool:
        """Read the tasks that were added, of all sizes; return False if there are none."""
        if not self.tasks.read_further():
            return False
        numbers = range(1, len(self.tasks.offsets) + 1)
        self.mine = [n for n in numbers if self.tasks.sizes(n) == self.options.sizes]
        return True

    def _is_silent(self, worker: str, beat: bytes) -> bool:
        """Return True if a worker's sign of life has not changed for SILENCE s of this clock."""
        last_beat, since = self.beats.get(worker, (b"", 0.0))
        if last_beat != beat:
            self.beats[worker] = (beat, time.monotonic())
            return False
        return time.monotonic() > since + SILENCE

    def list_undone(self, begun_only: bool = False) -> List[Key]:
        """Return the attempts to run again, then the tasks that nobody has begun.

        begun_only: leave out the latter. In a trial of this node, return only what other suspect
        nodes leave to it.
        """
        states = files.read_states(self.folder, node.ask_runs, self._is_silent, self.results)
        self.waits = any(task.state in (files.ENDING, files.NOT_KNOWN) for task in states.values())
        self.failed = 0
        keys: List[Key] = []
        for number, task in sorted(states.items()):
            sizes = self.tasks.sizes(number) if task.sizes is None else task.sizes
            if sizes != self.options.sizes:
                continue
            may_retry = task.state == INTERRUPTED and task.tries <= self.options.retries
            if may_retry or task.state in (files.WAITING, CONTINUES):
                if task.avoid == self.node:
                    self.waits = True
                elif task.avoid or not self.trial:
                    keys.append((number, task.attempt + 1))
            elif task.state in (FAILED, INTERRUPTED):
                self.failed += 1
        if not begun_only and not self.trial:  # find_free() may have skipped some
            keys += [(number, 1) for number in self.mine if number not in states]
        return keys

    def judge_failure(self, key: Key, seconds: float) -> None:
        """Note a failure: this node may be bad, or the whole sweep.

        seconds: how long the attempt took. If the folder could not be written, this is called again
        for the same failure.
        """
        number, attempt = key
        is_trial_of_other_node = self.results.state((number, attempt - 1)) == FAILED
        if not is_trial_of_other_node:  # which says nothing about this node
            if seconds > QUICK:
                self.quick = []
            elif key not in self.quick:
                self.quick.append(key)
        self.healthy = self.healthy or self._any_done()
        if self.healthy:
            self._doubt_node()
            return
        self.suspected = self.suspected or time.monotonic()
        self.suspect_at = 0.0  # at once

    def _any_done(self, besides: str = "") -> bool:
        """Return True if any task succeeded on a node other than ``besides`` ("": on any)."""
        ends = self.results.refresh().ended.values()
        return any(state == DONE and node_name != besides for state, node_name in ends)

    def _doubt_node(self) -> None:
        """Let other nodes try what failed at once here, if three tasks did and others succeed."""
        may_be_bad = self.options.nodes == 1 and len(self.quick) >= 3 and not self.trial
        if not may_be_bad or not self._any_done(besides=self.node):
            return
        until = time.time() + VERDICT
        limits = {"avoid": self.node, "until": until}
        requests = ({"task": task, "attempt": number, **limits} for task, number in self.quick)
        files.do_again(self.folder, requests)
        self.trial = (self.quick, time.monotonic() + VERDICT)
        self.quick = []
        self.again = []
        self.request_files = 0  # next_key() then lists the attempts anew

    def check_trial(self) -> None:
        """End the trial of this node if other nodes have tried its tasks; mark it if it is bad.

        It is bad if all of them succeeded there. The trial also ends after VERDICT seconds.
        """
        if not self.trial:
            return
        keys, until = self.trial
        self.results.refresh()
        ends = {self.results.state((number, attempt + 1)) for number, attempt in keys}
        if ends == {DONE}:
            why = b"3 tasks in a row failed within 3 s, and succeeded on another node\n"
            files.publish(f"{self.folder}/bad/{self.node}", why)
        if FAILED in ends or ends == {DONE} or time.monotonic() > until:
            self.trial = None

    def suspects(self) -> bool:
        """Return True while this worker starts no task, because perhaps all of them would fail.

        The suspicion ends if a task succeeds, or has run longer than those that failed. If all
        running tasks have failed, or after HOLD seconds, pause the sweep.
        """
        if not self.suspected:
            return False
        if time.monotonic() < self.suspect_at:
            return True
        self.suspect_at = time.monotonic() + 1
        states = files.read_states(self.folder, lambda: None, self._is_silent, self.results)
        failures = sum(task.state == FAILED for task in states.values())
        self.healthy = self._any_done()
        if self.healthy or failures < self.options.max_fails:
            self.suspected = 0.0
            self._doubt_node()
            return False

        # Slurm is not asked here, so a running task is NOT_KNOWN.
        claims = [task.claim or {} for task in states.values() if task.state == files.NOT_KNOWN]
        ages = [time.time() - float(claim.get("start", 0)) for claim in claims]
        longest_age = max(ages, default=0.0)
        if longest_age > self.results.longest + QUICK:
            self.suspected = 0.0
        elif not claims or time.monotonic() > self.suspected + HOLD:
            why = f"none of the first {failures} tasks succeeded\n"
            files.publish(f"{self.folder}/paused", why.encode())
            self.suspected = 0.0
        return bool(self.suspected)
