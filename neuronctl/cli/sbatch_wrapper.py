"""Runs sbatch, and checks and records its job alongside.

If anything fails here, sbatch still gets its arguments, and the user sbatch's output.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import List, Mapping, Sequence

from neuronctl.cli.say import notify
from neuronctl.common.errors import SlurmUnavailableError, UsageError
from neuronctl.slurm.sbatch_passthrough import (
    RunningSbatch,
    become,
    die_of,
    find_sbatch,
    started_sbatches,
)
from neuronctl.submission.monitored_script import take_monitor
from neuronctl.submission.sbatch_attempt import Attempt

_PATIENCE = 5.0
"""Seconds for which sbatch's output is held so that findings print first."""

_IN_SPITE_OF_ERRORS = contextlib.suppress(Exception)


def call(words: Sequence[str]) -> int:
    """Run ``sbatch WORDS``, and record its job; returns sbatch's exit code, or dies as it did."""
    path = find_sbatch()
    words, monitor = take_monitor(words)
    variables: Mapping[str, str] = {}
    attempt = Attempt(["neuronctl", *sys.argv[1:]], _tell)
    try:
        if started_sbatches():  # a neuronctl above this process records the job
            become(path, words)
        with contextlib.nullcontext() if monitor else _IN_SPITE_OF_ERRORS:
            variables = attempt.read(words, monitor)
        if attempt.has_no_end:
            raise UsageError(
                "the script on standard input has more than 64 MiB: nothing was submitted",
                "Slurm takes 4 MiB by default; let the script read its data from a file",
            )
        with _IN_SPITE_OF_ERRORS:
            attempt.begin()
        running = RunningSbatch(path, words, attempt.stdin, variables)
    except KeyboardInterrupt:
        die_of(signal.SIGINT)
        raise
    except OSError as error:
        raise SlurmUnavailableError(f"cannot start {path}: {error.strerror}") from None
    # NeighboringScripts it, so that nothing that takes long holds up sbatch's answer, or Ctrl-C.
    judging = threading.Thread(target=_judge, args=(attempt,), daemon=True)
    judging.start()
    unheard = False
    for part in running.parts():
        judging.join(_PATIENCE)
        with _IN_SPITE_OF_ERRORS:
            attempt.heard(part)
        if not unheard:
            unheard = not _print(part)
        if unheard:
            break  # as sbatch would die of writing to nobody
    code = running.wait()
    if code > 0:  # what was found may say why
        judging.join(_PATIENCE)
        for text in _UNTOLD:
            notify(text)
    with _IN_SPITE_OF_ERRORS:
        attempt.ended(code)
    if unheard:
        die_of(signal.SIGPIPE)
    if code < 0:
        die_of(-code)
    return code


def _judge(attempt: Attempt) -> None:
    with _IN_SPITE_OF_ERRORS:
        attempt.judge()


_UNTOLD: List[str] = []
"""Findings for a standard error that is no terminal: printed only if sbatch refuses the job."""


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        notify(text)
    else:
        _UNTOLD.append(text)


def _print(part: bytes) -> bool:
    """Write to standard output; return False if the reader is gone, and ignore a full disk."""
    try:
        while part:
            part = part[os.write(1, part) :]
    except BrokenPipeError:
        return False
    except OSError:
        pass
    return True
