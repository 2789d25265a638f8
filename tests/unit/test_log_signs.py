"""Which line of a log counts: signs that stand apart, go on below, or are only guesses."""

from __future__ import annotations

from dataclasses import replace
from typing import List, Sequence

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


def test_srun_reports_an_error_of_its_own() -> None:
    line = "srun: error: task 0 launch failed: Unspecified error"
    assert explain(*STEPS, line).cause == f"Slurm's own error: {line}"


def test_a_class_of_exceptions_keeps_its_message() -> None:
    assert "'image'" in explain(*TRACE, "KeyError: 'image'").cause


def test_a_warning_is_no_cause() -> None:
    warning = "WARNING: skipping mount of sysfs: stat sysfs: no such file or directory"
    assert "No runscript" in explain(warning, "ERROR:   No runscript found in container").cause


@pytest.mark.parametrize(
    "lines",
    [
        ["terminate called after throwing an instance of 'nc::Error'", "  what():  no such grid"],
        ["The model stops due to a fatal error.", "  no such grid"],
        ["[0]PETSC ERROR: ----- Error Message -----", "[0]PETSC ERROR: no such grid"],
    ],
)
def test_a_message_on_the_next_line_is_quoted(lines: List[str]) -> None:
    assert "no such grid" in explain(*lines, code=134).cause


def test_a_lost_connection_to_a_node_follows_from_an_earlier_error() -> None:
    lost = "srun: error: slurm_receive_msg[10.0.0.1]: Zero Bytes were transmitted or received"
    assert (
        "no_such" in explain("python: symbol lookup error: undefined symbol: no_such", lost).cause
    )


def test_an_error_before_a_failed_assertion_is_the_cause() -> None:
    message = ["--> FOAM FATAL IO ERROR:", "Essential entry 'value' missing"]
    later = "a.out: /src/a.h:438: T& A::operator(): Assertion 'row <= rows' failed."
    assert "Essential entry" in explain(*message, later, code=134).cause


ABORTED = "Rank 33 [c9-2c0s1n2] application called MPI_Abort(MPI_COMM_WORLD, 7) - process 33"
NCCL = "[rank1]: NCCL error: remote process exited or there was a network error"
TASK = "srun: error: gpu1: task 0: "


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
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


def kind_of(lines: Sequence[str]) -> str:
    return explain(*lines).kind


WEAK = "stat: cannot stat '/buffer': No such file or directory"
FATAL = "FATAL:   container creation failed: mount /buffer->/buffer error: no source"
FULL = "No space left on device"


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([f"OSError: [Errno 28] {FULL}", *STEPS, "error: the run was not successful"], "no-space"),
        (["CUDA out of memory: halving the batch", *STEPS, "ERROR: retry", *STEPS, f"cp: {FULL}"],
         "no-space"),
        ([WEAK, FATAL], "container"),
    ],
)  # fmt: skip
def test_a_known_cause_counts_more(lines: List[str], kind: str) -> None:
    """Than an unknown error below it or above it, and than what counts only at the end."""
    assert kind_of(lines) == kind


def test_a_cause_far_above_an_error_was_survived() -> None:
    assert explain("No space left on device", *STEPS * 9, "ERROR: no such atom").kind == "message"


@pytest.mark.parametrize("header", ["graph.InternalError: failed:", "RuntimeError: it failed"])
def test_a_message_continues_below_a_blank_line(header: str) -> None:
    message = [header, "", "Node: 'x'", "", "libdevice not found at ./libdevice.10.bc"]
    assert kind_of([*TRACE, *message]) == "cuda-libraries"


def test_what_another_program_writes_below_is_not_of_the_message() -> None:
    script = "/var/spool/slurmd/job7/slurm_script: line 9: plot: command not found"
    assert "ValueError" in explain(*TRACE, "ValueError: odd", "", script).cause


def test_a_directory_that_is_missing_explains_only_missing_files() -> None:
    no_file = "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'"
    assert kind_of([CHDIR, *STEPS, *TRACE, no_file]) == "no-directory"
    assert kind_of([CHDIR, *STEPS, *TRACE, "ValueError: odd"]) == "exception"
    assert explain(CHDIR, *STEPS, "ERROR: no such atom").kind == "message"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/scratch/kim/a.csv", "no-directory"), ("/home/kim/a.csv", "missing-file")],
)
def test_a_missing_directory_explains_no_absolute_path_elsewhere(path: str, kind: str) -> None:
    no_file = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
    assert kind_of([CHDIR, *STEPS, *TRACE, no_file]) == kind


def test_an_exception_that_python_ignored_is_no_cause() -> None:
    lines = [*TRACE, "RuntimeError: Error building extension 'cpu_adam'"]
    ignored = ["Exception ignored in: <function Adam.__del__ at 0x5>", *TRACE, "AttributeError: x"]
    assert kind_of([*lines, *ignored]) == "compiler"


def test_a_shell_without_module_explains_wrong_arguments() -> None:
    usage = "glm.py: error: argument --path: expected one argument"
    assert kind_of(["slurm_script: line 2: module: command not found", usage]) == (
        "environment-module"
    )


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


@pytest.mark.parametrize("entry", read_entries(yamlfile.read(SHIPPED, CatalogError), whole=True))
def test_a_cause_takes_at_most_three_lines(entry: Entry) -> None:
    told = signs._explain(signs.Sign("message", "", "", 0), entry, "x y " * 500)
    assert len(folded(f"Likely cause: {told.cause}.").splitlines()) <= 3


def test_nul_and_binary_lines_of_a_log() -> None:
    """NUL: what a file system puts where a node's writes were lost."""
    assert text_lines(b"\0\0\0Segmentation fault\n") == ("Segmentation fault",)
    assert text_lines(b"done\n\x89\xfe\xff\x01\x02ab\x8f\n") == ("done", "")
    assert text_lines("오류: 파일 없음\n".encode()) == ("오류: 파일 없음",)


def test_julia_failed_after_another_program_had_raised() -> None:
    site = [*TRACE, "AttributeError: module 'platform' has no attribute 'linux_distribution'"]
    lines = [*site, "cp: cannot stat 'x.jld2': No such file", "ERROR: LoadError: DomainError: -1"]
    assert kind_of([*lines, "srun: error: gpu1: task 0: Exited with exit code 1"]) == "julia"


def test_a_message_begins_below_the_name() -> None:
    diagnosis = explain(*TRACE, "RuntimeError: ", "Fatal Error: too many iterations")
    assert diagnosis.cause == "the program raised RuntimeError: Fatal Error: too many iterations"


def test_characters_that_a_backspace_deletes() -> None:
    (line,) = text_lines(b'{\bOutput argument "dt" (and maybe others) not assigned}\b')
    assert line == 'Output argument "dt" (and maybe others) not assigned'


def test_a_library_in_cython_is_not_the_user_s_code() -> None:
    frames = ['  File "/s/run.py", line 3, in save', '  File "h5py/h5f.pyx", line 122, in create']
    diagnosis = explain(TRACE[0], *frames, "ValueError: too long")
    assert diagnosis.where == "/s/run.py:3, in save (gpu1)"
    assert diagnosis.remedy.startswith("see what that line of the program expects")
