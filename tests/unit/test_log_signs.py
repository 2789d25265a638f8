"""Which line of a log counts: signs that stand apart, go on below, or are only guesses."""

from __future__ import annotations

from dataclasses import replace
from typing import List

import pytest

from neuronctl.common import yamlfile
from neuronctl.common.console import folded
from neuronctl.common.errors import CatalogError
from neuronctl.diagnosis import log_search, signs
from neuronctl.diagnosis.ended import diagnose
from neuronctl.diagnosis.evidence import Diagnosis, JobEvidence
from neuronctl.diagnosis.knowledge import SHIPPED, Entry, read_entries
from neuronctl.diagnosis.log_text import LogTail, text_lines
from neuronctl.slurm.fields import ExitCode
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.job_status import JobStatus

TRACE = ["Traceback (most recent call last):", '  File "t.py", line 1, in <module>']
STEPS = [f"step {number} loss 0.5" for number in range(9)]
CHDIR = "slurmstepd: error: couldn't chdir to `/scratch/kim': No such file or directory: going to /"


STATUS = JobStatus(
    JobId(7), 7, "train", "kim", "gpu", "FAILED", "", "sacct",
    exit=ExitCode(1, 0), elapsed=62, node_list="gpu1", nodes=1, gpus=1,
)  # fmt: skip


def explain(*lines: str, code: int = 1, state: str = "FAILED") -> Diagnosis:
    """Return the diagnosis of a job on one GPU with this log."""
    status = replace(STATUS, state=state, exit=ExitCode(code, 0))
    return diagnose(JobEvidence(status, 1000, logs=(LogTail("/s/7.out", lines),)))


def test_no_shell_reports_a_real_time_signal() -> None:
    assert explain("forrtl: severe (174): SIGSEGV", code=174).what == "failed with exit code 174"


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: the backend has GPUs but none are requested (main.cpp:204)",
        "error: Could not acquire lock",
        "Fatal error: the box is too small",
        "Error: An error has occurred when calling a function:",
        "assembler failed with 'no reads'.",
        "solver: could not read the mesh",
        "STOP the time step is too small",
    ],
)
def test_an_error_that_is_not_known_is_quoted(line: str) -> None:
    assert explain(*STEPS, line).cause == f"the program's own error: {line}"


ABORTED = "Rank 33 [c9-2c0s1n2] application called MPI_Abort(MPI_COMM_WORLD, 7) - process 33"
NCCL = "[rank1]: NCCL error: remote process exited or there was a network error"
TASK = "srun: error: gpu1: task 0: "
LOST = "srun: error: slurm_receive_msg[10.0.0.1]: Zero Bytes were transmitted or received"


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        (["srun: error: task 0 launch failed: Unspecified error"], 1, "Slurm's own error: srun"),
        # A class of exceptions keeps its message, which may begin below the name.
        ([*TRACE, "KeyError: 'image'"], 1, "'image'"),
        ([*TRACE, "RuntimeError: ", "Fatal Error: too many iterations"], 1,
         "the program raised RuntimeError: Fatal Error: too many iterations"),
        # A warning is no cause.
        (["WARNING: skipping mount of sysfs: no such file or directory",
          "ERROR:   No runscript found in container"], 1, "No runscript"),
        # A message on the next line is quoted.
        (["terminate called after throwing an instance of 'nc::Error'", "  what():  no such grid"],
         134, "no such grid"),
        (["The model stops due to a fatal error.", "  no such grid"], 134, "no such grid"),
        (["[0]PETSC ERROR: ----- Error Message -----", "[0]PETSC ERROR: no such grid"], 134,
         "no such grid"),
        # A lost connection to a node, and a failed assertion, follow from an earlier error.
        (["python: symbol lookup error: undefined symbol: no_such", LOST], 1, "no_such"),
        (["--> FOAM FATAL IO ERROR:", "Essential entry 'value' missing",
          "a.out: /src/a.h:438: T& A::operator(): Assertion 'row <= rows' failed."], 134,
         "Essential entry"),
        # What another program writes below is not of the message.
        ([*TRACE, "ValueError: odd", "",
          "/var/spool/slurmd/job7/slurm_script: line 9: plot: command not found"], 1, "ValueError"),
        # The program's own words come before the exit code that a launcher reports,
        (["EXITING because of FATAL ERROR in input: no pair", f"{TASK}Exited with exit code 104"],
         104, "no pair"),
        (["ERROR: no licence file", f"{TASK}Exited with exit code 127"], 127, "no licence file"),
        # before the processes that the launcher kills, and before how it aborts.
        ([ABORTED, "srun: error: nid1: tasks 12-23: Killed", f"{TASK}Aborted"], 134, "MPI_Abort"),
        (["the parcelport has failed to start", "terminate called without an active exception"],
         255, "parcelport"),
        # What another process lost says more than that this one aborted.
        ([NCCL, "run.sh: line 197: 2985003 Aborted   (core dumped) python a.py"], 134, "NCCL"),
        # A process that reports lack of memory may crash then.
        (["ERROR: out of memory in /src/cuda_mem.h", f"{TASK}Segmentation fault"], 139, "GPU"),
        ([f"{TASK}Aborted", "*** buffer overflow detected ***: terminated"], 134, "damaged"),
        # The batch shell goes on after a failed step; srun kills the other tasks.
        ([f"{NCCL}: collective timed out", f"{TASK}Aborted", "srun: error: gpu2: task 1: Killed",
          "/x/job7/slurm_script: line 9: e97: command not found"], 137, "timed out"),
        # The first in time: a worker that a launcher could not start.
        (["  Exit code:    127", *TRACE, "socket.timeout: timed out"], 1, "not found"),
        (["slurmstepd-gpu1: error: execve(): python a.py: No such file or directory"], 2, "quotes"),
        (["Error, no samtools at /opt/Trinity line 3866.", f"{TASK}Exited with exit code 127"],
         127, "no samtools"),
    ],
)  # fmt: skip
def test_the_program_s_own_words_come_first(lines: List[str], code: int, words: str) -> None:
    assert words in explain(*lines, code=code).cause


def test_a_task_that_ended_before_others_failed_first() -> None:
    later = [*[f"Loss: {step}" for step in range(40)], "Failed to create the report of the run"]
    lines = [*TRACE, "FileExistsError: [Errno 17] File exists: a", f"{TASK}Exited with exit code 1"]
    status = replace(STATUS, node_list="gpu[1-2]", nodes=2, gpus=8)
    logs = (LogTail("/s/7.out", tuple(lines + later)),)
    assert diagnose(JobEvidence(status, 1000, logs=logs)).entry == "class-exists"


WEAK = "stat: cannot stat '/buffer': No such file or directory"
FATAL = "FATAL:   container creation failed: mount /buffer->/buffer error: no source"
FULL = "No space left on device"
BELOW = ["", "Node: 'x'", "", "libdevice not found at ./libdevice.10.bc"]
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory"


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([f"OSError: [Errno 28] {FULL}", *STEPS, "error: the run was not successful"], "no-space"),
        (["CUDA out of memory: halving the batch", *STEPS, "ERROR: retry", *STEPS, f"cp: {FULL}"],
         "no-space"),
        ([WEAK, FATAL], "container"),
        # A cause far above an error was survived.
        (["No space left on device", *STEPS * 9, "ERROR: no such atom"], "message"),
        # A message continues below a blank line.
        ([*TRACE, "graph.InternalError: failed:", *BELOW], "cuda-libraries"),
        ([*TRACE, "RuntimeError: it failed", *BELOW], "cuda-libraries"),
        # A directory that is missing explains only missing files, and no absolute path elsewhere.
        ([CHDIR, *STEPS, *TRACE, f"{NO_FILE}: 'data/train.csv'"], "no-directory"),
        ([CHDIR, *STEPS, *TRACE, f"{NO_FILE}: '/scratch/kim/a.csv'"], "no-directory"),
        ([CHDIR, *STEPS, *TRACE, f"{NO_FILE}: '/home/kim/a.csv'"], "missing-file"),
        ([CHDIR, *STEPS, *TRACE, "ValueError: odd"], "exception"),
        ([CHDIR, *STEPS, "ERROR: no such atom"], "message"),
        # An exception that Python ignored is no cause.
        ([*TRACE, "RuntimeError: Error building extension 'cpu_adam'",
          "Exception ignored in: <function Adam.__del__ at 0x5>", *TRACE, "AttributeError: x"],
         "compiler"),
        # A shell without `module` explains wrong arguments.
        (["slurm_script: line 2: module: command not found",
          "glm.py: error: argument --path: expected one argument"], "environment-module"),
        # Julia failed after another program had raised.
        ([*TRACE, "AttributeError: module 'platform' has no attribute 'linux_distribution'",
          "cp: cannot stat 'x.jld2': No such file", "ERROR: LoadError: DomainError: -1",
          f"{TASK}Exited with exit code 1"], "julia"),
    ],
)  # fmt: skip
def test_which_line_is_the_cause(lines: List[str], kind: str) -> None:
    assert explain(*lines).kind == kind


def test_pyxis_has_no_more_to_tell_than_that_the_import_failed() -> None:
    failed = "slurmstepd: error: pyxis: failed to import docker image"
    refused = "slurmstepd: error: pyxis:     [ERROR] Could not process JSON input"
    assert "path with a slash" in explain(failed).remedy
    assert "needs a login" in explain(failed, refused).cause


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        (["Error in fit(x, y) :", "  object 'y' not found"], "r", "object 'y' not found"),
        (["ERROR: LoadError:", "BoundsError: attempt to access"], "julia", "BoundsError"),
        (["Error using load", "Not a binary MAT-file."], "matlab", "Not a binary"),
        (["--> FOAM FATAL IO ERROR:", "", "cannot find file \"/x/system/controlDict\""],
         "openfoam", "controlDict"),
    ],
)  # fmt: skip
def test_a_cause_on_the_next_line(lines: List[str], kind: str, words: str) -> None:
    found = log_search.search(lines)
    assert found is not None and (found.kind, words in found.cause) == (kind, True), found


@pytest.mark.parametrize(
    ("code", "words"), [(9, "SIGKILL"), (11, "SIGSEGV"), (139, "SIGSEGV"), (3, "exit code 3")]
)
def test_what_the_exit_code_of_mpich_means(code: int, words: str) -> None:
    lines = ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", f"=   EXIT CODE: {code}")
    assert words in explain(*lines, code=code).what


def test_what_ray_lists_as_possible_is_no_fact() -> None:
    lines = [
        "The actor died unexpectedly before finishing this task.",
        "There are some potential root causes. (1) The process is killed by the OOM-killer.",
    ]
    made = explain(*lines)
    assert made.kind == "child" and "may" not in made.cause and "OOM" not in made.cause


def test_advice_about_data_loaders_is_for_those_who_have_them() -> None:
    for line in (
        "forrtl: severe (41): insufficient virtual memory",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.",
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred",
    ):
        assert "DataLoader" not in explain(line).remedy
    assert "DataLoader" not in explain(state="OUT_OF_MEMORY", code=0).remedy


@pytest.mark.parametrize("entry", read_entries(yamlfile.read(SHIPPED, CatalogError), shipped=True))
def test_a_cause_takes_at_most_three_lines(entry: Entry) -> None:
    told = signs._explain(signs.Sign("message", "", "", 0), entry, "x y " * 500)
    assert len(folded(f"Likely cause: {told.cause}.").splitlines()) <= 3


def test_nul_and_binary_lines_of_a_log() -> None:
    """NUL: what a file system puts where a node's writes were lost."""
    assert text_lines(b"\0\0\0Segmentation fault\n") == ("Segmentation fault",)
    assert text_lines(b"done\n\x89\xfe\xff\x01\x02ab\x8f\n") == ("done", "")
    assert text_lines("오류: 파일 없음\n".encode()) == ("오류: 파일 없음",)


def test_characters_that_a_backspace_deletes() -> None:
    (line,) = text_lines(b'{\bOutput argument "dt" (and maybe others) not assigned}\b')
    assert line == 'Output argument "dt" (and maybe others) not assigned'


def test_a_library_in_cython_is_not_the_user_s_code() -> None:
    frames = ['  File "/s/run.py", line 3, in save', '  File "h5py/h5f.pyx", line 122, in create']
    diagnosis = explain(TRACE[0], *frames, "ValueError: too long")
    assert diagnosis.where == "/s/run.py:3, in save (gpu1)"
    assert diagnosis.remedy.startswith("see what that line of the program expects")
