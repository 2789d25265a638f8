"""``neuronctl sbatch``: sbatch itself, with a check before it and a record beside it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import List, Mapping, Sequence, Tuple

import click

from neuronctl.cli.say import notify
from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.slurm.sbatch_passthrough import (
    find_sbatch,
    start_sbatch,
    started_sbatches,
)
from neuronctl.submission.sbatch_attempt import Attempt

_WHATEVER_BREAKS = contextlib.suppress(Exception)
"""sbatch still gets its arguments, and the user sbatch's output."""


@click.command(
    "sbatch",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", metavar="[WORDS]...", nargs=-1, type=click.UNPROCESSED)
def command(words: Tuple[str, ...]) -> int:
    """Call sbatch with these words, and check and record what it submits.

    Output, exit code, and job are sbatch's own, so that alias sbatch='neuronctl sbatch' is
    harmless. Findings are printed on standard error if it is a terminal. They refuse nothing, and
    neither does a record that cannot be written. The components of a heterogeneous job are not
    judged.

    With 'monitor: true' in your configuration, the job is sampled for 'neuronctl report'. sbatch
    gets the script unchanged; BASH_ENV starts the sampler, so the script must be one for bash.
    """
    return call(words)


def call(words: Sequence[str]) -> int:
    """Run ``sbatch WORDS``, and record its job; return its exit code, 128 + N for signal N."""
    path = find_sbatch()
    untold: List[str] = []  # findings, printed only if sbatch refuses the job
    tell = notify if sys.stderr.isatty() else untold.append
    attempt = Attempt(["neuronctl", *sys.argv[1:]], tell)
    variables: Mapping[str, str] = {}
    if not started_sbatches():  # else a neuronctl above this process records the job
        with _WHATEVER_BREAKS:
            variables = attempt.begin(words)
    code = _run(path, words, attempt, {**os.environ, **variables})
    if code > 0:
        notify(*untold)
    with _WHATEVER_BREAKS:
        attempt.ended(code)
    return code if code >= 0 else 128 - code


def _run(path: str, words: Sequence[str], attempt: Attempt, environment: Mapping[str, str]) -> int:
    """Run sbatch with this process's files; return its exit code, or minus its signal."""
    try:
        process = start_sbatch(path, words, attempt.stdin, environment)
    except OSError as error:
        raise SlurmUnavailableError(f"cannot start {path}: {error.strerror}") from None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda given, frame: process.send_signal(given))
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            with _WHATEVER_BREAKS:
                attempt.heard(line)
            try:
                os.write(1, line)
            except BrokenPipeError:  # sbatch would die of it
                process.send_signal(signal.SIGPIPE)
            except OSError:
                pass  # a full disk, which sbatch takes no notice of
    return process.wait()
