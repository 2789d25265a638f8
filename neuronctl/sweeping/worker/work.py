"""A worker: runs tasks from the sweep's folder, several at a time, until none is left."""

import errno
import json
import os
import select
import signal
import socket
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import files, node
from .attempt import Attempt, start_process
from .files import CONTINUES, DONE, FAILED, INTERRUPTED, Key
from .supply import Options, Supply

GRACE = 20  # seconds from TERM to KILL
SURE = 0.3  # seconds to wait for a TERM from Slurm that may explain the end of a task
BEAT = 10  # seconds between signs of life
ASK = 60  # seconds between questions to Slurm whether it still runs this job
REST = 5  # seconds without a new task after Slurm failed to start one
PATIENCE = 600  # seconds for which a failing write to the folder is repeated
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)  # USR2: save; the others: end
RUN_AGAIN = 75  # exit code of a job that continues in another run, and of a task that saved
TERMINATED = 143  # exit code after TERM
_RUNS = ("RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "CONFIGURING")


class Worker:
    """One worker. OSError: the folder cannot be used, or was deleted."""

    def __init__(self, folder: str, name: str, options: Options) -> None:
        self.folder, self.name, self.options = folder, name, options
        self.variables = dict(node.read_environment(), NEURONCTL_WORKER=name)
        self.variables.update(NEURONCTL_PROVE=files.PROVE)
        self.node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
        self.job = int(os.environ["SLURM_JOB_ID"])  # each task of an array has its own
        self.this_job = node.find_this_job()  # as Slurm's commands take it
        self.began = 0  # when this run of the job began, in epoch seconds; 0: not known yet
        self.deadline: Optional[float] = None  # monotonic; None: no time limit is known
        self.supply = Supply(folder, options, self.node)
        self.running: Dict[int, Attempt] = {}  # by process
        self.ended: List[Attempt] = []
        self.free_slots = list(range(options.slots))
        # When it gave a sign of life, when it asked Slurm, and until when it starts no task.
        self.beat_at = self.asked_at = self.rest_until = 0.0
        self.has_started_one = False
        self.signals: List[int] = []  # received, and not handled yet
        self.is_gone = False  # whether Slurm no longer runs this run of the job
        self.stop_reason = ""  # why it starts no more tasks; "": it does
        self.code = 0  # the exit code of the job
        self.kill_at = 0.0  # when its tasks are killed; 0: not yet
        self.saves = False  # whether its tasks were asked to save
        self.not_started = 0  # tasks in a row that srun did not start

    def run(self) -> int:
        """Run tasks until none is left; return the exit code of the job."""
        wake = self._listen()
        self._patiently(self._write_beat)
        self._await_slurm(wake)
        self._patiently(self._register_job)
        while True:
            self._reap()
            self._handle_signals()
            self._record_ends()
            self._check_job()
            if self._take_task():
                continue
            if self._is_over() and not self._finds_more():
                files.remove(f"{self.folder}/alive/{self.name}")
                return self._choose_exit_code()
            is_busy = self.ended or self.kill_at or self.supply.trial or self.supply.suspected
            signaled, _, _ = select.select([wake], [], [], 0.1 if is_busy else 2)
            if signaled:
                os.read(wake, 4096)

    def _await_slurm(self, wake: int) -> None:
        """Wait until Slurm says when this run began or that it is gone, or a signal comes."""
        while not self.signals:
            self._ask_slurm()
            if self.began or self.is_gone:
                return
            select.select([wake], [], [], REST)

    def _listen(self) -> int:
        """Handle signals, which main() has blocked; return a descriptor that they make readable."""
        wake, alarm = os.pipe()
        os.set_blocking(alarm, False)
        signal.set_wakeup_fd(alarm)
        for number in SIGNALS:
            signal.signal(number, lambda number, _: self.signals.append(number))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return wake

    def _register_job(self) -> None:
        """Record this job in the folder; of a chain's jobs, only the first one was recorded."""
        job = f"{self.folder}/jobs/{self.this_job.partition('_')[0]}"
        if not os.path.exists(job):
            files.publish(job, json.dumps(self.options.sizes).encode())

    def _take_task(self) -> bool:
        """Start the next task unless another worker was first; return False if there is none."""
        if not self.free_slots or self.signals or not self._may_start():
            return False
        key = self.supply.next_key()
        if key and self._claim(key):
            self._begin(key)
        return key is not None

    def _choose_exit_code(self) -> int:
        """Return the exit code of the job; 1 after failed tasks, so that --after-ok is not met."""
        if self.code or not self.supply.failed:
            return self.code
        print(f"no task is left; failed: {self.supply.failed}", flush=True)
        return 1

    def _is_over(self) -> bool:
        """Return True if no task runs, and none is expected."""
        if self.running or self.ended:
            return False
        if self.stop_reason:
            return True
        waits = self.supply.waits or self.supply.trial or self.supply.suspected
        return not waits and time.monotonic() >= self.rest_until

    def _finds_more(self) -> bool:
        """Note for 'sweep add' that this job takes no more tasks, then look once more.

        Return True, and remove the note, if there are tasks.
        """
        if self.code == RUN_AGAIN:  # the next run takes tasks
            return False
        supply = self.supply
        ended_mark = f"{self.folder}/ended/{self.job}.{self.began}"
        files.publish(ended_mark, b"")
        if self.stop_reason:
            return False
        has_tasks = bool(supply.read_tasks() or supply.list_undone())  # list_undone() sets waits
        if not has_tasks and not supply.waits:
            return False
        files.remove(ended_mark)
        supply.look_at = 0.0  # at once
        return True

    def _finish(self, code: int, why: str) -> None:
        """Start no more tasks, and exit with this code at the end; the first call counts."""
        if not self.stop_reason:
            self.stop_reason = why
            self.code = code
            print("no more tasks: " + why, flush=True)

    def _check_job(self) -> None:
        """Give a sign of life, check that Slurm still runs this job, and kill overdue tasks."""
        now = time.monotonic()
        if now >= self.beat_at + BEAT:
            self._beat()
        if now >= self.asked_at + ASK:
            self._ask_slurm()
        if self.kill_at and now >= self.kill_at:
            self._kill_tasks(is_late=now >= self.kill_at + REST)

    def _kill_tasks(self, is_late: bool) -> None:
        """Kill all tasks; but send TERM to srun, which passes it on, unless it is late."""
        for process in node.list_processes(self.name):
            number = signal.SIGTERM if process.is_srun and not is_late else signal.SIGKILL
            node.kill(process.pid, number)
        for pid, attempt in self.running.items():
            attempt.was_asked = True
            if not self.options.by_srun:
                node.kill(-pid, signal.SIGKILL)  # the process group

    def _beat(self) -> None:
        """Give a sign of life, if the folder can be written."""
        self.beat_at = time.monotonic()
        try:
            self._write_beat()
        except OSError:
            if not os.path.isdir(self.folder):
                self._end_tasks("the sweep was deleted", 1)

    def _write_beat(self) -> None:
        """Write the sign of life, always as many bytes, which works on a full disk, too."""
        files.write(f"{self.folder}/alive/{self.name}", b"%20d\n" % time.monotonic(), 0)

    def _ask_slurm(self) -> None:
        """Ask Slurm about this run of the job, and end all tasks if it is gone.

        Set ``is_gone``, or ``began`` and ``deadline``; nothing if Slurm does not answer.
        """
        self.asked_at = time.monotonic()
        run = node.ask_run(self.this_job, self.job)
        if run is None:
            return
        is_later_run = self.began and run.began != self.began
        if run.state not in _RUNS or is_later_run:
            self.is_gone = True
            self._end_tasks("Slurm no longer runs this job", TERMINATED)
            return
        self.began = run.began
        self.deadline = None if run.left is None else self.asked_at + run.left

    def _handle_signals(self) -> None:
        """Act on the signals received."""
        while self.signals:
            if self.signals.pop(0) == signal.SIGUSR2:
                self._reap()  # what has ended is not asked to save
                self.saves = True
                self._finish(RUN_AGAIN, "time to save")
                self.kill_at = self.kill_at or time.monotonic() + self.options.save
                self._signal_tasks(int(getattr(signal, "SIG" + self.options.signal)), to_save=True)
            else:
                self._end_tasks("the job ends", TERMINATED, GRACE)

    def _end_tasks(self, why: str, code: int, grace: float = REST) -> None:
        """Ask all tasks to end, kill them after ``grace`` seconds, and exit with this code."""
        self._finish(code, why)
        self.code = code  # instead of that of an earlier _finish()
        end = time.monotonic() + grace
        self.kill_at = min(self.kill_at or end, end)
        for attempt in [*self.running.values(), *self.ended]:
            attempt.was_asked = True  # Slurm may have signaled one that has just ended
        self._signal_tasks(signal.SIGTERM, to_save=False)

    def _signal_tasks(self, number: int, to_save: bool) -> None:
        """Send a signal to the tasks; to_save: only to processes that handle it."""
        attempts = {attempt.key[0]: attempt for attempt in self.running.values()}  # by task
        if self.options.nodes > 1 and attempts and to_save:  # scancel also reaches the other nodes
            node.ask("scancel", f"--signal={number}", self.this_job)
            for attempt in self.running.values():
                attempt.was_asked = True
            return
        for process in node.list_processes(self.name, number):
            owner = attempts.get(process.task)
            gets_signal = not process.is_srun and (process.catches or not to_save)
            if owner and gets_signal:
                owner.was_asked = True
                node.kill(process.pid, number)

    def _may_start(self) -> bool:
        """Return True if another task may start now."""
        self._patiently(self.supply.check_trial)
        if self._patiently(self.supply.suspects) or self.stop_reason:
            return False

        for name in ("paused", "bad/" + self.node):
            if os.path.exists(f"{self.folder}/{name}"):
                why = files.read(f"{self.folder}/{name}").decode("utf-8", "replace").strip()
                self._finish(1, f"the sweep is paused: {why}")

        if self.has_started_one and self._lacks_time():
            self._ask_slurm()  # the limit may have changed
            if self._lacks_time():
                self._finish(RUN_AGAIN, "too little time is left for another one")

        if not self.stop_reason and time.monotonic() > self.asked_at + BEAT:
            self._ask_slurm()  # a job that is gone starts no task
        return not self.stop_reason and time.monotonic() >= self.rest_until

    def _lacks_time(self) -> bool:
        """Return True if a task that starts now may not end in time."""
        if self.deadline is None:
            return False
        seconds: float = self.options.task_time
        if not seconds and not self.options.until_done:  # which continues the task
            seconds = int(self.supply.results.longest)
        return time.monotonic() + seconds > self.deadline - self.options.margin

    def _claim(self, key: Key) -> bool:
        """Claim an attempt; return False if another worker was first."""
        claim = {"job": self.job, "began": self.began, "node": self.node, "worker": self.name}
        claim.update(pid=os.getpid(), start=int(time.time()))
        path = "{}/claims/{}.{}".format(self.folder, *key)
        return bool(self._patiently(lambda: files.publish(path, files.encode(claim))))

    def _begin(self, key: Key) -> None:
        """Start a claimed task, with its output in a log; if that fails, put it among the ended."""
        task, _ = key
        version = self.options.snapshot or node.read_commit(os.getcwd())
        attempt = Attempt(key, self.free_slots.pop(), version)
        self.has_started_one = True
        words = self.supply.tasks.words(task)
        if self.options.launch:
            words = [b"/bin/bash", b"-c", b'export -nf launch; launch "$@"', b"launch", *words]
        log = self._patiently(lambda: os.open(self._log_path(key), os.O_WRONLY | os.O_CREAT, 0o600))
        variables = attempt.environment(self.variables, os.path.basename(self.folder))
        try:
            attempt.process = start_process(words, variables, log)
            self.running[attempt.process.pid] = attempt
        except OSError as error:  # report it as a shell does
            text = f"{os.fsdecode(words[0])}: {error.strerror}\n"
            os.write(log, text.encode("utf-8", "surrogateescape"))
            # A fault of the node counts as an interruption.
            attempt.was_asked = error.errno in (errno.EAGAIN, errno.ENOMEM)
            attempt.code = 127 if error.errno == errno.ENOENT else 126
            attempt.ended_at = time.monotonic()
            self.ended.append(attempt)
        finally:
            os.close(log)

    def _log_path(self, key: Key) -> str:
        return "{}/logs/{}.{}.log".format(self.folder, *key)

    def _patiently(self, write: Callable[[], Any]) -> Any:
        """Return write(), which writes to the folder; after errors, retry for PATIENCE seconds.

        Raises OSError earlier if a signal came, or the folder was deleted.
        """
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return write()
            except OSError:
                if time.monotonic() > end or self.signals or not os.path.isdir(self.folder):
                    raise
                time.sleep(1)
                self._beat()

    def _reap(self) -> None:
        """Move tasks whose process has ended from ``running`` to ``ended``."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            attempt = self.running.pop(pid, None)
            if attempt and attempt.process:  # otherwise it is a process that a task left behind
                attempt.process.returncode = 0  # so that Popen does not wait for it
                by_signal = os.WIFSIGNALED(status)
                attempt.code = 128 + os.WTERMSIG(status) if by_signal else os.WEXITSTATUS(status)
                attempt.ended_at = time.monotonic()
                self.ended.append(attempt)

    def _record_ends(self) -> None:
        """Record the ended tasks that have no processes left, and free their slots."""
        for attempt in list(self.ended):
            if not attempt.is_clear and self._end_processes(attempt):
                continue
            attempt.is_clear = True
            if attempt.code == 0:  # a failure keeps its slot, because it may stop this worker
                self._free_slot(attempt)
            is_sure = attempt.was_asked or time.monotonic() >= attempt.ended_at + SURE
            if is_sure and self._record(attempt):
                self.ended.remove(attempt)
                self._free_slot(attempt)

    def _free_slot(self, attempt: Attempt) -> None:
        if attempt.holds_slot:
            attempt.holds_slot = False
            self.free_slots.append(attempt.slot)

    def _end_processes(self, attempt: Attempt) -> bool:
        """End the processes that an ended task has left; return False if there are none."""
        pids = node.list_children() - self.running.keys()
        if pids and (self.running or len(self.ended) > 1):  # some may belong to other tasks
            attempts = [*self.running.values(), *self.ended]
            other_tasks = {str(other.key[0]) for other in attempts}
            other_tasks.discard(str(attempt.key[0]))
            pids = {pid for pid in pids if node.read_marks(pid).get("TASK") not in other_tasks}
        if not pids:
            return False
        if not attempt.cleared_at:
            attempt.cleared_at = time.monotonic()
            for pid in pids:
                node.kill(pid, signal.SIGTERM)
        elif time.monotonic() > attempt.cleared_at + 1:  # a second later
            for pid in pids:
                node.kill(pid, signal.SIGKILL)
        return True

    def _record(self, attempt: Attempt) -> bool:
        """Record how a task ended; return False while a step that srun has lost still runs."""
        task, _ = attempt.key
        with files.open_own(self._log_path(attempt.key)) as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - files.TAIL))
            tail = log.read()
        state, code = self._judge(attempt, tail)
        is_lost = state == INTERRUPTED and not attempt.was_asked
        if is_lost and self.options.nodes > 1:
            # Other nodes may still run the task: end the job, and leave the task without a record.
            self._finish(RUN_AGAIN, f"srun lost task {task}")
            return True
        if state == INTERRUPTED and self.options.by_srun and self._kill_lost_step(task):
            return False
        if self.options.until_done and (code == RUN_AGAIN or (self.saves and state == INTERRUPTED)):
            state = CONTINUES

        seconds = attempt.ended_at - attempt.start_monotonic
        self._write_result(attempt, state, code, seconds, tail)
        # tracking/runs.py reads this line.
        print(f"task {task} {state}: exit code {code} after {seconds:.0f} s", flush=True)
        self._react(attempt.key, state, seconds, files.find_last_line(tail))
        return True

    def _write_result(
        self, attempt: Attempt, state: str, code: int, seconds: float, tail: bytes
    ) -> None:
        task, number = attempt.key
        record = {"task": task, "attempt": number, "state": state, "code": code}
        record.update(start=round(attempt.start, 2), end=round(attempt.start + seconds, 2))
        record.update(node=self.node, job=self.job, version=attempt.code_version)
        record.update(metric=files.find_metric(tail, self.options.metric))
        record.update(last_line=files.find_last_line(tail))
        path, data = f"{self.folder}/results/{self.name}", files.encode(record)
        self._patiently(lambda: files.write(path, data, os.O_APPEND))

    def _judge(self, attempt: Attempt, tail: bytes) -> Tuple[str, int]:
        """Return the state and the exit code of a task; INTERRUPTED if its job has ended it."""
        state, code = files.judge(attempt.code, attempt.key, tail, self.options.by_srun)
        may_be_signaled = state != DONE and (self.options.by_srun or code > 128)
        if may_be_signaled and not attempt.was_asked:
            self._ask_slurm()
            attempt.was_asked = self.is_gone
        return (INTERRUPTED if attempt.was_asked else state), code

    def _kill_lost_step(self, task: int) -> bool:
        """Kill the processes of a task that srun has lost; return False if there are none."""
        pids = [process.pid for process in node.list_processes(self.name) if process.task == task]
        for pid in pids:
            node.kill(pid, signal.SIGKILL)
        return bool(pids)

    def _react(self, key: Key, state: str, seconds: float, last_line: str) -> None:
        """Act on the end of a task: failures may make the sweep or this node suspect."""
        if state == DONE:
            self.supply.quick = []
            self.supply.healthy = True
            self.not_started = 0
            self.supply.results.longest = max(self.supply.results.longest, seconds)
        elif state == FAILED:
            self.not_started = 0
            self._patiently(lambda: self.supply.judge_failure(key, seconds))
        elif not self.stop_reason:
            self.supply.look_at = 0.0  # to continue the task at once
            if state == INTERRUPTED:
                self.rest_until = time.monotonic() + REST
                self.not_started += 1
            if self.not_started >= self.options.max_fails:
                self._finish(1, f"the last {self.not_started} tasks have not started: {last_line}")
