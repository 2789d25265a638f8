"""Evidence in, cause out: every kind of end, and the well-known lines of logs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional, Tuple

import pytest
from plan_builders import STRICT, cluster
from slurm_answers import job

from neuronctl.common.units import UNLIMITED
from neuronctl.common.words import moment
from neuronctl.diagnosis import gather, log_search
from neuronctl.diagnosis.ended import diagnose
from neuronctl.diagnosis.evidence import JobEvidence
from neuronctl.diagnosis.log_text import LogTail, read_tail, text_lines
from neuronctl.diagnosis.waiting import earlier_runs
from neuronctl.slurm.fields import ExitCode
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import ENDED
from neuronctl.slurm.sacct import AccountingJob, StepEnd
from neuronctl.slurm.scontrol import Reservation
from neuronctl.tracking.job_status import NOT_RESPONDING, JobStatus
from neuronctl.tracking.runs import Run, Runs, read_runs


def status(state: str, **given: Any) -> JobStatus:
    values = {
        "id": JobId(7), "job_id": 7, "name": "train", "user": "kim", "partition": "gpu",
        "reason": "", "source": "sacct", "elapsed": 62, "time_limit": 600, "node_list": "gpu[1-2]",
    }  # fmt: skip
    values.update(given)
    return JobStatus(state=state, **values)


def evidence(state: str, *lines: str, now: int = 1000, **given: Any) -> JobEvidence:
    logs = (LogTail("/s/7.out", lines),) if lines else ()
    more = {name: given.pop(name) for name in [*given] if name in JobEvidence.__annotations__}
    return JobEvidence(status(state, **given), now, logs=logs, **more)


ONE = "run 1 of at most 2, on n1\n"


def test_a_job_that_goes_on_was_cancelled_between_two_runs() -> None:
    runs = read_runs(ONE.encode())
    made = diagnose(evidence("CANCELLED", runs=runs, canceller="you", elapsed=0, node_list=""))
    assert made.what == "cancelled by you before its next run started"


def test_a_program_that_ended_with_0_as_it_was_told_to_save() -> None:
    log = f"{ONE}run 1: time to save; it ends in 65 s\ndone in 1 run\n"
    runs = read_runs(log.encode())
    made = diagnose(evidence("COMPLETED", runs=runs))
    assert made.what.endswith(", and after it was told to save") and "with 75" in made.remedy
    made = diagnose(evidence("COMPLETED", *TRACE, "ValueError: y", runs=runs))
    assert made.cause.endswith("the script continued: the program raised ValueError: y")


def test_a_job_whose_program_had_ended_with_0_is_done() -> None:
    """slurmctld was down at its end, and takes it for one that met its time limit."""
    made = diagnose(evidence("TIMEOUT", "done", runs=read_runs(f"{ONE}done in 1 run\n".encode())))
    assert (made.what, made.remedy) == ("TIMEOUT for Slurm, but all is done", "")


def test_a_job_that_no_longer_moved() -> None:
    line = "the job no longer moves: for 30 min, this log has not changed"
    made = diagnose(evidence("CANCELLED", line, "slurmstepd: error: *** JOB 7 CANCELLED ***"))
    assert (made.kind, made.line and made.line.text) == ("stalled", line)


BY_SLURM = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-09-18T22:08:20 DUE TO TIME LIMIT"


@pytest.mark.parametrize(
    ("state", "out", "err", "words"),
    [
        ("TIMEOUT", 60, None, "13 of 14 min"),
        ("TIMEOUT", 60, 840, "13 of 14 min"),  # where Slurm alone has written
        ("TIMEOUT", 0, None, "14 of 14 min"),
        ("TIMEOUT", 600, None, ""),
        ("TIMEOUT", 900, None, ""),  # a clock that is ahead
        ("RUNNING", 60, None, "13 of 14 min"),
        ("RUNNING", 540, None, "5 of 14 min"),
        ("RUNNING", 541, None, ""),
    ],
)
def test_a_log_that_had_not_changed(state: str, out: int, err: Optional[int], words: str) -> None:
    """out, err: seconds after the start at which a log was written to last."""
    logs = [LogTail("/s/7.out", ("step 1",), changed=1000 + out)]
    if err is not None:
        logs.append(LogTail("/s/7.err", (BY_SLURM, "Received 15 death signal"), changed=1000 + err))
    made = evidence(state, now=1840, elapsed=840, start=1000, end=1840, time_limit=840)
    diagnosis = diagnose(replace(made, logs=tuple(logs)))
    told = re.findall("its log ha[sd] not changed for ([^,;]+)", diagnosis.what + diagnosis.cause)
    assert told == [words] * bool(words)
    assert ("--stacks" in diagnosis.remedy) == bool(words)
    assert ("request more time" in diagnosis.remedy) == (state == "TIMEOUT" and not words)


def test_a_hang_is_not_given_more_time() -> None:
    log = LogTail("/s/7.out", ("step 1",), changed=1060)
    made = evidence("TIMEOUT", elapsed=840, end=1840, record=SimpleNamespace(rest={}, runs=False))
    assert "'neuronctl resubmit 7 --stall 10m'" in diagnose(replace(made, logs=(log,))).remedy


def test_where_the_cause_is_not_known_is_the_task_that_srun_names_first() -> None:
    srun = "srun: error: n1: task"
    stopped, first = "srun: Job step aborted", f"{srun} 1: Exited with exit code 1"
    lines = (stopped, f"{srun}s 0,2: Killed", first, f"{srun} 3: Terminated")
    made = diagnose(evidence("FAILED", *lines, exit=ExitCode(1, 0)))
    assert (made.cause, made.where) == ("", "task 1 on n1")
    long = (first, *["step"] * 99)
    assert diagnose(evidence("FAILED", *long, exit=ExitCode(1, 0))).where == ""


@pytest.mark.parametrize("state", sorted(ENDED))
def test_every_state_is_explained(state: str) -> None:
    made = diagnose(evidence(state, exit=ExitCode(0, 0)))
    assert made.what and "{" not in made.what + made.cause + made.remedy


def test_facts_of_the_states() -> None:
    assert diagnose(evidence("TIMEOUT")).what == "time limit reached (10 min)"
    made = diagnose(evidence("TIMEOUT", *TRACE, "KeyError: 'x'", "step 9"))
    assert made.kind == "time-limit" and "its log shows an error: a dictionary" in made.cause
    assert diagnose(evidence("TIMEOUT", *TRACE, "KeyError: 'x'", *["step"] * 99)).cause == ""
    said = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-09-18T22:08:20 ***"
    made = diagnose(evidence("CANCELLED", *TRACE, "KeyError: 'x'", said, canceller="you"))
    assert made.kind == "cancelled" and "shows an error: a dictionary" in made.cause
    assert made.remedy and not made.certain
    for after in ((said,), ()):  # what came of being cancelled
        assert diagnose(evidence("CANCELLED", *after, *TRACE, "KeyError: 'x'")).cause == ""
    assert "(gpu[1-2])" in diagnose(evidence("NODE_FAIL")).what
    line = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch"
    made = diagnose(evidence("OUT_OF_MEMORY", line, "the end", exit=ExitCode(0, 125)))
    assert made.certain and made.line is not None and made.line.text == line
    assert made.line.number == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"canceller": "you", "cancelled_by": 5}, "cancelled by you after 1 min 2 s"),
        ({"cancelled_by": 5}, "by the user with uid 5"),
        ({}, "cancelled after"),
        ({"elapsed": 0, "node_list": "", "canceller": "lee"}, "cancelled by lee before it started"),
        ({"elapsed": 0, "reason": "DependencyNeverSatisfied"}, "the job it depends on did not"),
    ],
)
def test_cancelled(given: Any, words: str) -> None:
    assert words in diagnose(evidence("CANCELLED", **given)).what


def test_a_paused_sweep_is_named() -> None:
    line = "no more tasks: the sweep is paused: none of the first 5 tasks succeeded"
    made = diagnose(evidence("FAILED", line, exit=ExitCode(1, 0)))
    assert "'neuronctl sweep retry train --failed'" in made.remedy and "NAME" not in made.remedy


def test_log_directory() -> None:
    made = diagnose(evidence("FAILED", exit=ExitCode(0, 53), log_problem="there is no /x"))
    assert made.kind == "log-directory" and "there is no /x" in made.cause and not made.certain
    record = SimpleNamespace(array=None, log_path=lambda *_, **__: "/s/7.out")
    made = diagnose(evidence("FAILED", exit=ExitCode(0, 53), record=record))
    assert made.cause == "its log /s/7.out could not be opened on the node"
    made = diagnose(evidence("FAILED", exit=ExitCode(0, 53), log_guessed=True))
    assert made.cause.startswith("its log could not be opened: its directory is missing, or")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "its log is empty, so look up what exit code 3 means in the program"),
        (
            {"unread": (LogTail("/s/7.out", problem="No such file or directory", missing=True),)},
            "its log /s/7.out cannot be read: No such file or directory, so look up what",
        ),
        (
            {"unread": (LogTail("/s/7.out", missing=True),), "log_guessed": True},
            "where its log is, is not recorded, so look up what",
        ),
        (
            {"log_problem": "the file system of the log directory '/s' is full", "log_full": True},
            "free some space there",
        ),
    ],
)
def test_an_end_that_no_log_tells_of(given: Any, words: str) -> None:
    made = diagnose(evidence("FAILED", exit=ExitCode(3, 0), **given))
    assert made.remedy.startswith(words) and made.what == "failed with exit code 3"
    assert (made.kind == "no-space") == ("log_problem" in given)
    assert "code 1 means" not in diagnose(evidence("FAILED", exit=ExitCode(1, 0), **given)).remedy


@pytest.mark.parametrize(
    ("exit", "words", "cause"),
    [
        (ExitCode(0, 9), "signal 9, SIGKILL", "neither Slurm nor its log says why"),
        (ExitCode(139, 0), "killed by signal 11, SIGSEGV", "has a bug"),
        (ExitCode(127, 0), "exit code 127", "was not found"),
        (ExitCode(124, 0), "exit code 124", "timeout"),
        (ExitCode(5, 0), "exit code 5", ""),
        (ExitCode(255, 0), "exit code 255", ""),
        (None, "exit code is unknown", ""),
    ],
)
def test_exit_codes(exit: Any, words: str, cause: str) -> None:
    made = diagnose(evidence("FAILED", "last words", exit=exit))
    assert words in made.what and cause in made.cause
    assert made.certain is (made.cause == "")
    assert made.line is not None and made.line.text == "last words"


@pytest.mark.parametrize(("partition", "gpus"), [("gpu", True), ("cpu", False)])
def test_more_memory_in_a_partition_without_gpus(
    monkeypatch: pytest.MonkeyPatch, partition: str, gpus: bool
) -> None:
    monkeypatch.setattr(gather, "_cluster", lambda: cluster(STRICT))
    remedy = gather.gather(status("OUT_OF_MEMORY", partition=partition)).more_memory
    assert remedy.startswith("request more cores with --cpus-per-task")
    assert ("or more GPUs" in remedy) == gpus


def test_unknown_states_and_ends() -> None:
    made = diagnose(evidence("UNKNOWN", "step 9", absent="no longer in the queue"))
    assert "what became of it is unknown: no longer in the queue" in made.what
    silent = diagnose(evidence("UNKNOWN", absent=NOT_RESPONDING, source="record"))
    assert silent.remedy.startswith("try again later") and "ended" not in silent.what
    assert made.line is not None
    made = diagnose(evidence("NEWLY_INVENTED", "step 9"))
    assert made.what.startswith("NEWLY_INVENTED on gpu[1-2]")


def test_completed_in_spite_of_an_exception() -> None:
    lines = ["Traceback (most recent call last):", '  File "x"', "ValueError: y", "saved"]
    made = diagnose(evidence("COMPLETED", *lines, exit=ExitCode(0, 0)))
    assert "the script continued: the program raised ValueError: y" in made.cause
    assert not made.certain
    assert diagnose(evidence("COMPLETED", "fine")).cause == ""


def test_completed_with_an_error_at_the_end_of_the_log() -> None:
    """The program's exit code was lost, as by ``wait``, ``|| true``, or a last ``echo``."""
    error = "OSError: [Errno 28] No space left on device"
    told = diagnose(evidence("COMPLETED", "epoch 1", error, "finished"))
    assert told.kind == "completed" and not told.certain
    assert told.line is not None and told.line.text == error
    assert told.remedy.endswith("; add 'set -e' to a script to end it at the first error")
    assert diagnose(evidence("COMPLETED", error, *map(str, range(9)))).cause == ""


def test_running() -> None:
    made = diagnose(evidence("RUNNING", "epoch 3"))
    assert made.what == "RUNNING on gpu[1-2] for 1 min 2 s; 8 min 58 s left"
    made = diagnose(evidence("RUNNING", "NCCL WARN something", time_limit=UNLIMITED))
    assert "with no time limit" in made.what and "already shows an error" in made.cause
    made = diagnose(evidence("RUNNING", "Process 3 exit with status code 137."))
    assert made.cause.endswith("an error: rank 3 failed first, killed by signal 9, SIGKILL")


def test_stopped_and_put_back() -> None:
    assert "goes on when Slurm or an administrator" in diagnose(evidence("SUSPENDED")).what
    log = "slurmstepd: error: Failed to send MESSAGE_TASK_EXIT: Connection refused"
    made = diagnose(evidence("REQUEUED", log))
    assert made.what.startswith("ran on gpu[1-2] for 1 min 2 s; then Slurm put it back")
    assert (made.cause, "left" in made.what) == ("", False)


def test_completed_though_a_step_was_ended() -> None:
    def end(name: str, state: str, signal: int) -> StepEnd:
        return StepEnd(name, state, ExitCode(0, signal), *[None] * 5)

    steps = (end("batch", "COMPLETED", 0), end("0", "CANCELLED", 9), end("1", "CANCELLED", 10))
    cause = diagnose(evidence("COMPLETED", "fine", steps=steps)).cause
    assert cause == "its step '1' was ended by signal 10, SIGUSR1, and the script went on"
    assert diagnose(evidence("COMPLETED", "fine", steps=steps[:2])).cause == "", "of a monitor"
    log = [*TRACE, "ValueError: y", "fine"]
    assert "raised ValueError: y" in diagnose(evidence("COMPLETED", *log, steps=steps)).cause


def test_completed_though_something_in_it_failed() -> None:
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0."
    whole = (StepEnd("", "COMPLETED", ExitCode(137, 0), *[None] * 5),)
    made = diagnose(evidence("COMPLETED", killed, "all done", steps=whole))
    assert made.cause == (
        "a step ended with exit code 137, and the script went on; likely, the job used up its "
        "memory on the node"
    )
    assert "more memory" in made.remedy and made.line is not None and made.line.text == killed
    assert diagnose(evidence("COMPLETED", "all done", steps=whole)).remedy.startswith(
        "add 'set -e'"
    )
    runs = Runs(tuple(Run(number, 10, "gpu1", 0) for number in (1, 2)))
    assert diagnose(evidence("COMPLETED", "all done", steps=whole, runs=runs)).cause == ""
    gone = "/var/spool/slurmd/job00007/slurm_script: line 4: ./x: No such file or directory"
    made = diagnose(evidence("COMPLETED", gone, "all done"))
    assert made.cause.endswith("the script continued: the program './x' does not exist")
    assert diagnose(evidence("COMPLETED", "bash: line 1: x: command not found")).cause == ""


def waiting(*rows: Tuple[int, str, int, int], **given: Any) -> str:
    queue = tuple(
        job(id, 0, state, priority=priority, end=end, dependency=given.pop(f"on{id}", ""))
        for id, state, priority, end in rows
    )
    made = diagnose(evidence("PENDING", queue=queue, elapsed=0, submit=400, **given))
    return f"{made.what}. {made.cause}. {made.remedy}"


def test_waiting_for_its_turn() -> None:
    rows = [(7, "PENDING", 10, 0), (8, "PENDING", 11, 0), (9, "PENDING", 9, 0)]
    words = waiting(*rows, (5, "RUNNING", 1, 4600), (6, "RUNNING", 1, 1060), reason="Priority")
    assert words.startswith("pending for 10 min: jobs with higher priority are ahead")
    assert "1 other pending job in gpu is ahead of it; 2 jobs are running" in words
    assert "and the first ends in 1 min at the latest" in words
    assert "no other pending jobs in gpu are ahead of it; 1 job is running" in waiting(
        rows[0], (5, "RUNNING", 1, 4600), reason="Resources"
    )
    # Without weights all priorities are 1, and the older job goes first.
    equal = [(6, "PENDING", 1, 0), (7, "PENDING", 1, 0), (8, "PENDING", 1, 0)]
    assert "1 other pending job in gpu is ahead of it" in waiting(*equal, reason="Priority")
    assert "Slurm expects it to start at" in waiting(rows[0], reason="Resources", expected=5000)
    assert "(in 1 h 6 min)" in waiting(rows[0], reason="Resources", expected=5000)


def test_maintenance_that_it_could_run_into() -> None:
    def why(start: int, end: int, *flags: str) -> str:
        planned = Reservation("upkeep", start, end, "n[1-4]", 64, flags)
        return waiting(
            (7, "PENDING", 1, 0),
            reason="ReqNodeNotAvail, Reserved for maintenance",
            reservations=(Reservation("course", 0, 90000, "n1", 8, ()), planned),
        )

    words = why(1000 + 7230, 99000, "MAINT", "IGNORE_JOBS")
    assert "it may still run when maintenance begins. maintenance of n[1-4] (upkeep) lasts" in words
    assert f"from {moment(8230)} until {moment(99000)}" in words
    assert "with a time limit of 01:59:00 or less it can start before that" in words
    assert "'scontrol update jobid=7 timelimit=01:59:00'" in words
    begun = why(500, 99000, "MAINT")
    assert f"lasts until {moment(99000)}" in begun and "time limit" not in begun
    assert "upkeep" not in why(500, 900, "MAINT")
    assert "upkeep" not in why(500, 99000)


def test_a_reservation_that_it_waits_for_is_named() -> None:
    reason = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority"
    there = (
        Reservation("course", 0, 90000, "n[1-2]", 8, ()),
        Reservation("later", 5000, 9000, "n3", 8, ()),
        Reservation("over", 0, 900, "n4", 8, ()),
        Reservation("last", 0, 99000, "n5", 8, ()),
    )
    words = waiting((7, "PENDING", 1, 0), reason=reason, reservations=there)
    assert f"course reserves n[1-2] until {moment(90000)}" in words
    assert f"later reserves n3 from {moment(5000)} until {moment(9000)}" in words
    assert "over" not in words and "last" not in words and "; and 1 more" in words


def run_of(submit: int, end: int, state: str, **given: Any) -> AccountingJob:
    values = {
        "id": JobId(7), "job_id": 7, "user": "kim", "partition": "gpu", "qos": "q",
        "cancelled_by": None, "exit": None, "start": end - 62, "elapsed": 62, "time_limit": 600,
        "nodes": 1, "node_list": "gpu9", "gpus": 1, "work_dir": "/s", "name": "train", **given,
    }  # fmt: skip
    return AccountingJob(state=state, submit=submit, end=end, **values)


def test_runs_before_a_requeue() -> None:
    job = status("PENDING", submit=900, elapsed=0, reason="BeginTime", expected=1020, node_list="")
    first, second = run_of(100, 300, "REQUEUED"), run_of(301, 900, "NODE_FAIL")
    other = run_of(1, 20, "FAILED")
    now = run_of(900, 0, "PENDING", start=None)
    earlier = earlier_runs(job, [other, first, second, now])
    assert earlier == (second, first)
    assert earlier_runs(job, [now, other]) == ()
    made = diagnose(JobEvidence(job, 1000, earlier=earlier))
    assert made.what.startswith("pending for 1 min 40 s since it was requeued")
    assert made.cause.startswith(
        "its previous run on gpu9 ended after 1 min 2 s: a node failed (NODE_FAIL)"
    )
    assert "Slurm expects it to start" in made.cause
    again = diagnose(JobEvidence(status("RUNNING", submit=300), 1000, earlier=(first,)))
    assert "its previous run on gpu9 ended after 1 min 2 s: requeued by a user" in again.what


def test_waiting_for_another_job() -> None:
    row = (7, "PENDING", 1, 0)
    words = waiting(row, reason="Dependency", on7="afterok:5(unfulfilled),afterany:6(unfulfilled)")
    assert "job 5 must complete successfully first; job 6 must end first" in words
    words = waiting(row, reason="DependencyNeverSatisfied", on7="afterok:5(failed)")
    assert "job 5 must complete successfully first but did not" in words
    assert "'neuronctl cancel 7'" in words
    assert "same name" in waiting(row, reason="Dependency", on7="singleton(unfulfilled)")


# ------------------------------------------------------------------------------ signs

TRACE = ["Traceback (most recent call last):", '  File "t.py", line 1, in <module>']

# lines of real programs -> kind of the sign, and a word of its cause; test_causes has many more
LINES = [
    ([*TRACE, "torch.distributed.DistBackendError: NCCL error in: x.cpp:1691, unhandled cuda error",
      "Last error: Cuda failure 'uncorrectable NVLink error detected during the execution'"],
     "lost-gpu", "GPU"),
    (["ModuleNotFoundError: No module named 'einops.layers'"], "missing-module", "einops.layers"),
    (["FileNotFoundError: [Errno 2] No such file or directory: '/data/x y.pt'"],
     "missing-file", "/data/x y.pt"),
    (["slurmstepd: error: Detected 1 oom_kill event in StepId=7.0."], "out-of-memory", "memory"),
    (["preflight: gpu36: no program on PATH: torchrun"], "command-not-found",
     "'torchrun' is not on the job's PATH"),
    (["preflight: gpu36: cannot reach 10.0.0.1 port 12345, the first node"],
     "preflight", "gpu36: cannot reach"),
    (["srun: error: Unable to create step for job 7: More processors requested than permitted"],
     "step", "could not start its processes: More processors"),
    (["/var/spool/job7/slurm_script: line 18: unexpected EOF while looking for matching `\"'"],
     "syntax", "cannot read the job's shell text: unexpected EOF"),
    (['  File "/s/train.py", line 3', "    def (", "        ^", "SyntaxError: invalid syntax"],
     "syntax", "read the program: SyntaxError: invalid syntax"),
    (["[rank1]: IndentationError: unexpected indent"], "syntax",
     "read the program: IndentationError"),
    ([*TRACE, "KeyError: 'model'"], "missing-key", "no such key"),
    ([*TRACE, "KeyError: 'LOCAL_RANK'"], "no-ranks", "needs LOCAL_RANK"),
    (["[rank3]: " + TRACE[0], "[rank3]:   File", "[rank3]: my.pkg.BadThing: x"],
     "exception", "raised BadThing"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "kind", "word"), LINES, ids=lambda value: str(value)[:40])
def test_well_known_lines(lines: Any, kind: str, word: str) -> None:
    found = log_search.search(
        ["step 1", *lines, "srun: error: gpu35: task 0: Exited with exit code 1"]
    )
    assert found is not None and found.kind == kind and word in found.cause
    assert found.number == 2 and "{" not in diagnose(evidence("FAILED", *lines)).remedy


HARMLESS = """preflight: all is well
preflight: gpu[35-36], 8 GPUs per node
preflight: gpu35, 1 GPU per node
epoch 3 loss 0.25
Error rate: 0.2
0 errors, 98 steps
KeyError is not raised here
pipeline: [Errno 28] No space left on device
"""


def test_harmless_lines() -> None:
    assert [line for line in HARMLESS.split("\n") if log_search.search([line, "done"])] == []


def test_the_cause_before_its_consequences() -> None:
    lines = [
        "[rank1]: Traceback (most recent call last):",
        "[rank1]:   File",
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[rank0]: Traceback (most recent call last):",
        "[rank0]:   File",
        "[rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited",
        "Traceback (most recent call last):",
        "  File",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "=====",
    ]
    found = log_search.search(lines)
    assert found is not None and found.kind == "cuda-out-of-memory" and found.number == 8
    found = log_search.search(lines[3:])
    assert found is not None and (found.kind, found.consequence) == ("nccl", True)


def test_an_error_that_was_survived() -> None:
    found = log_search.search(["CUDA out of memory: halving the batch", *TRACE, "ValueError: nan"])
    assert found is not None and found.line == "ValueError: nan"


NCCL = [
    "Traceback (most recent call last):",
    '  File "t.py", line 9, in step',
    "    dist.all_reduce(x)  # NCCL error here is no sign: a line of source",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970",
]
TORCHRUN = "E1124 19:13:32 592 torch/api.py:1002] failed (exitcode: {}) local_rank: 1 (pid: 9) of x"
PROGRESS = [f"step {number} loss 0.5" for number in range(100)]

# lines of a log of several processes, the job's exit code; kind, words of the answer
FIRST = [
    ([*TRACE, "ValueError: nan", *TRACE, "RuntimeError: rank 0 misses 3"], 1, "exception", "nan"),
    ([*TRACE, *TRACE, "ValueError: nan", "KeyError: 3"], 1, "exception", "nan"),
    ([*NCCL, TORCHRUN.format(-9), *NCCL], 1, "signal", "SIGKILL"),
    (["0: step 1", "srun: error: gpu36: task 3: Killed", "srun: launch/slurm: _step_signal: x"],
     143, "signal", "exit code 143: task 3 failed first, killed by signal 9, SIGKILL"),
    ([*NCCL, TORCHRUN.format(-9), "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0."],
     1, "out-of-memory", "memory"),
    ([*TRACE, "torch.OutOfMemoryError: CUDA out of memory.", TORCHRUN.format(1), *NCCL],
     1, "cuda-out-of-memory", "GPU"),
    (["cat: conf: No such file or directory", "step 1", TORCHRUN.format(-11), *NCCL],
     1, "signal", "SIGSEGV"),
    (["CUDA out of memory: halving the batch", *PROGRESS, *NCCL], 1, "nccl", "NCCL"),
    ([*TRACE, "ValueError: nan", *PROGRESS, *NCCL], 1, "exception", "nan"),
    ([*TRACE, "ValueError: nan", *PROGRESS, *TRACE, "KeyError: 'x'"], 1, "missing-key", "'x'"),
    ([*TRACE, "ValueError: nan", "srun: error: gpu36: task 3: Exited with exit code 3"],
     3, "exception", "nan"),
    (["srun: error: gpu36: task 3: Exited with exit code 17", *TRACE, "RuntimeError: no rank 3",
      "srun: error: gpu35: tasks 0-1: Exited with exit code 1"], 17, "exit-code", "code 17"),
    (["srun: error: gpu36: task 3: Exited with exit code 3", "srun: launch/slurm: _step_signal: x",
      "srun: error: gpu35: tasks 0-2: Killed"], 3, "exit-code", "code 3"),
    (["job.sh: line 30:  6383 Killed                  python a.py", "no checkpoint"], 1, "signal",
     "SIGKILL"),
    ([*TRACE, "ValueError: nan", "job.sh: line 30:  6383 Killed                  ./server"], 1,
     "exception", "nan"),
    (["[1,3]<stderr>:" + line for line in [*TRACE, "ValueError: nan"]]
     + ["[1,0]<stderr>:" + line for line in NCCL], 1, "exception", "nan"),
    (["preflight: all is well", "preflight: the model: is read", *TRACE, "ValueError: nan"],
     1, "exception", "nan"),
    (["preflight: gpu36: cannot read t.py", "preflight: gpu[35-36], 1 GPU per node",
      "preflight: all is well", "loss is not finite"], 5, "exit-code", "not finite"),
    ([*TRACE, "torch.OutOfMemoryError: CUDA out of memory.", "",
      "During handling of the above exception, another exception occurred:", "", *TRACE,
      "RuntimeError: step failed"], 1, "cuda-out-of-memory", "GPU"),
    (["=   RANK 3 PID 9 RUNNING AT gpu36", "=   KILLED BY SIGNAL: 9 (Killed)"], 9, "signal",
     "SIGKILL"),
    (["[0]PETSC ERROR: Caught signal number 11 SEGV: Segmentation Violation, probably memory",
      "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD"], 59, "signal", "SIGSEGV"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "code", "kind", "words"), FIRST)
def test_the_first_failure_is_the_cause(lines: Any, code: int, kind: str, words: str) -> None:
    made = diagnose(evidence("FAILED", *lines, exit=ExitCode(code, 0)))
    line = "" if made.line is None else made.line.text
    assert made.kind == kind and words in f"{made.what} {made.cause} {line}", made


@pytest.mark.parametrize(("code", "name"), [(247, "SIGKILL"), (245, "SIGSEGV"), (250, "SIGABRT")])
def test_the_code_of_a_signal_as_python_has_it(code: int, name: str) -> None:
    """As DeepSpeed's launcher ends; accounting takes 128 from it."""
    line = f"[2026-11-24] [ERROR] [launch.py:1:x] ['t.py'] exits with return code = {code - 256}"
    made = diagnose(evidence("FAILED", line, exit=ExitCode(code, 0)))
    assert made.kind == "signal" and name in made.what
    assert f"exit code {code}, which is {code - 256} as an exit code" in made.what
    made = diagnose(evidence("FAILED", line, exit=ExitCode(code - 128, 0), exit_low=True))
    assert made.kind == "signal" and name in made.what
    assert diagnose(evidence("FAILED", "x", exit=ExitCode(247, 0))).kind == "signal"
    assert (
        diagnose(evidence("FAILED", "x", exit=ExitCode(119, 0), exit_low=True)).kind == "exit-code"
    )


# ------------------------------------------------------------------------------- logs


def test_lines_as_a_terminal_left_them() -> None:
    assert text_lines(b"\x1b[31mred\x1b[0m\n 10%\r 50%\r100%\r\na\xffb\nend") == (
        "red", "100%", "a\ufffdb", "end",
    )  # fmt: skip
    assert text_lines(b"") == ()


def test_only_what_the_last_run_has_written(tmp_path: Path) -> None:
    log = tmp_path / "7.err"
    log.write_text("Killed\nstep 9\n")
    assert read_tail(str(log), begin=7).lines == ("step 9",)
    assert read_tail(str(log), begin=14).lines == ()
    assert read_tail(str(log), most=8, begin=2).lines == ("step 9",)
    assert read_tail(str(log), begin=15).lines == ("Killed", "step 9"), "it has been emptied since"


@pytest.mark.parametrize(
    ("code", "report"),
    [
        (75, "srun: error: gpu36: task 0: Exited with exit code 75"),
        (121, "srun: error: Unable to create step for job 7: Invalid generic resource (gres)"),
    ],
)
def test_an_error_log_begins_where_srun_reports_the_end_of_the_run_before(
    tmp_path: Path, code: int, report: str
) -> None:
    output, errors = tmp_path / "7.out", tmp_path / "7.err"
    output.write_text(
        f"run 1 of at most 9, on gpu36\nrun 1 saved (exit code {code})\n"
        "run 2 of at most 9, on gpu35\n"
        "the program failed with exit code 1: no other run follows\n"
    )
    last_report = "srun: error: gpu35: task 0: Exited with exit code 1"
    errors.write_text(f"{report}\n{last_report}\n")
    paths = [str(output), str(errors)]
    runs = read_runs(output.read_bytes())
    logs = gather._read_logs(status("FAILED"), paths, runs)
    assert [log.lines[0] for log in logs] == ["run 2 of at most 9, on gpu35", last_report]
    logs = gather._read_logs(status("FAILED"), paths, Runs(runs.runs[:1]))
    assert len(logs[1].lines) == 2, "there is no run before"
