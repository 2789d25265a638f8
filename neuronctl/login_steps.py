"""A job's steps on the login node: before its submission, and once after it has ended well.

Each is shell text of the user's job file (``login:``), run by bash where the job is submitted from.
Whoever sees the job's end first makes a file of its own for the second, which is its lock, on
whichever login node, and in the end its record.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Callable, List, Optional

from neuronctl.common.errors import (
    JobFileError,
    LoginStepError,
    LoginStepInterruptedError,
    RecordError,
    UsageError,
)
from neuronctl.common.files import create_private, read_private, write_private
from neuronctl.common.from_json import NOT_RESTORED, restored
from neuronctl.common.frozen import asdict, dataclass, replace
from neuronctl.common.masking import MASK
from neuronctl.common.paths import state_dir
from neuronctl.common.words import moment
from neuronctl.records.job_record import JobRecord, RecordDraft
from neuronctl.slurm.process import is_alive, run, run_interactive

if TYPE_CHECKING:
    from neuronctl.request.job import JobRequest

BEFORE, AFTER = "login: before", "login: after"
"""What messages call them."""

_INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
"""The exit codes of a step that was interrupted."""


@dataclass(frozen=True)
class AfterStep:
    """The step after a job that has begun. Times are epoch seconds.

    host, pid: who runs it. ended_at, exit_code: None until it has ended, and where that is not
    known.
    """

    begun_at: int
    host: str
    pid: int
    ended_at: Optional[int] = None
    exit_code: Optional[int] = None

    @property
    def goes_on(self) -> bool:
        """Whether it may still run: on another machine, nobody knows."""
        here = self.host == os.uname().nodename
        return self.exit_code is None and here and is_alive(self.pid)


def check_shell(request: JobRequest) -> None:
    """Raise JobFileError where bash cannot read a step, which would else be seen after the job."""
    for name, field in ((BEFORE, "login_before"), (AFTER, "login_after")):
        text = getattr(request, field)
        if text and MASK not in text:
            read = run(["bash", "-n", "/dev/stdin"], input=text)
            if read.returncode:
                where = request.origin(field).where
                said = read.stderr.partition("\n")[0].replace("/dev/stdin: ", "")
                raise JobFileError(f"{where}: {name}: bash says of it: {said}")


def run_before(draft: RecordDraft) -> None:
    """Run what a job's submission waits for; raises LoginStepError where it does not end well."""
    text = draft.request.get("login_before")
    if not text:
        return
    if MASK in text:
        raise UsageError(
            f"{BEFORE} cannot run: a secret in it was masked in the job's record",
            "submit the job file again: neuronctl submit -f FILE",
        )
    code = _run(text, draft)
    if code in _INTERRUPTED:
        raise LoginStepInterruptedError(
            f"{BEFORE} was interrupted; nothing was submitted", exit_code=code
        )
    if code:
        raise LoginStepError(
            f"{BEFORE} failed with exit code {code}; nothing was submitted",
            "see above what it printed; its lines are in the job file",
        )


def run_after(record: JobRecord, tell: Optional[Callable[[str], None]] = None) -> int:
    """Run what follows a job that has ended well; where that has begun already, wait for its end.

    The exit code: 0, or that of LoginStepError where it fails, has failed, or its end is not known.
    tell: is told what is done. Raises LoginStepInterruptedError.
    """
    text = record.login_after
    if not text:
        return 0
    say = tell or (lambda told: None)
    if after_step(record) is not None:
        return _wait_for_after(record, say)
    if MASK in text:
        lines = f"'neuronctl show {record.job_id}' has its lines"
        say(f"{AFTER} is not run: a secret in it was masked in the job's record; {lines}")
        return LoginStepError.exit_code
    begun = AfterStep(int(time.time()), os.uname().nodename, os.getpid())
    try:
        draft = record.draft
        if not create_private(_path(record), _json(begun)):
            return _wait_for_after(record, say)
    except OSError as error:
        say(f"{AFTER} is not run: {_path(record)} cannot be written: {error.strerror}")
        return LoginStepError.exit_code
    except RecordError as error:
        say(f"{AFTER} is not run: {error.message}")
        return LoginStepError.exit_code
    say(f"{AFTER} of job {record.job_id}: {_one_line(text)}")
    try:
        code = _run(text, draft)
    except (LoginStepError, UsageError) as error:
        say(error.message)
        code = 127  # as of a shell that finds no command
    try:
        done = replace(begun, ended_at=int(time.time()), exit_code=code)
        write_private(_path(record), _json(done), sync=True)
    except OSError as error:
        say(f"how {AFTER} ended cannot be recorded: {error.strerror}")
    if code in _INTERRUPTED:
        raise LoginStepInterruptedError(after_words(record), exit_code=code)
    if code:
        say(after_words(record))
        return LoginStepError.exit_code
    return 0


def _wait_for_after(record: JobRecord, say: Callable[[str], None]) -> int:
    """Wait for the step that another process has begun, and say how it ended, if not well."""
    step, tries = after_step(record), 10
    while step is not None and step.begun_at == 0 and tries:  # perhaps just being written
        time.sleep(_PAUSE)
        step, tries = after_step(record), tries - 1
    if step is not None and step.goes_on:
        say(after_words(record))
    while step is not None and step.goes_on:
        time.sleep(_PAUSE)
        step = after_step(record)
    words = after_words(record)
    if words:
        say(words)
    return LoginStepError.exit_code if words else 0


_PAUSE = 0.2
"""Seconds between two looks at a step that another process runs."""


def after_step(record: JobRecord) -> Optional[AfterStep]:
    """What has become of it; None: it has not begun."""
    try:
        content = read_private(_path(record))
    except FileNotFoundError:
        return None
    except OSError:
        return AfterStep(0, "", 0)
    try:
        return restored(AfterStep, json.loads(content))
    except NOT_RESTORED:  # also: the moment between its making and its content
        return AfterStep(0, "", 0)


def after_words(record: JobRecord) -> str:
    """What is still to be done about it once the job has ended well, or ""."""
    step = after_step(record)
    lines = f"neuronctl show {record.job_id}"
    if step is None:
        return f"{AFTER} is still to be done: neuronctl wait {record.job_id}"
    if step.goes_on:
        return f"{AFTER} has been running since {moment(step.begun_at)}"
    if step.exit_code is None:
        where = f" at {moment(step.begun_at)} on {step.host}" if step.begun_at else ""
        return f"{AFTER} has begun{where}, and its end is not known; its lines: {lines}"
    if step.exit_code in _INTERRUPTED:
        return f"{AFTER} was interrupted, and will not run again; its lines: {lines}"
    if step.exit_code:
        return f"{AFTER} failed with exit code {step.exit_code}; its lines: {lines}"
    return ""


def _run(text: str, draft: RecordDraft) -> int:
    """Run shell text where a job is submitted from; what it prints goes to standard error.

    Its exit code; one of _INTERRUPTED after Ctrl-C or SIGTERM, whatever it has made of that.
    """
    place = draft.submit_dir or draft.cwd
    heard: List[int] = []
    argv = ["bash", "-euo", "pipefail"]
    code = run_interactive(argv, cwd=place, output=2, heard=heard, script=text)
    return 128 + heard[0] if heard else code


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def _path(record: JobRecord) -> str:
    return os.path.join(state_dir(), "login", f"{record.key}.json")


def _json(step: AfterStep) -> str:
    return json.dumps(asdict(step))
