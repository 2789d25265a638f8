"""sbatch itself, with a check and a record beside it.

Whatever goes wrong here, sbatch gets its words, and the user its answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Iterator, Optional, Sequence

from neuronctl.errors import SlurmUnavailableError
from neuronctl.slurm.pass_on import PassedOn, become, claimed_sbatches, die_of, find_sbatch

if TYPE_CHECKING:
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.submission.own_script import OwnScript
    from neuronctl.submission.transaction import Recording


_PATIENCE = 5.0
"""Seconds for which sbatch's answer waits for the findings, which come before it."""


def call(words: Sequence[str]) -> int:
    """Run ``sbatch WORDS``, and record its job; returns sbatch's exit code, or dies as it did."""
    path = find_sbatch()
    attempt = _Attempt()
    try:
        if claimed_sbatches():  # a neuronctl above this process records the job
            become(path, words)
        with _in_spite_of_errors():
            attempt.begin(words)
        running = PassedOn(path, words, attempt.stdin)
    except KeyboardInterrupt:
        die_of(signal.SIGINT)
        raise
    except OSError as error:
        raise SlurmUnavailableError(f"cannot start {path}: {error.strerror}") from None
    # Beside it, so that nothing that takes long holds up sbatch's answer, or Ctrl-C.
    judging = threading.Thread(target=attempt.check, daemon=True)
    judging.start()
    unheard = False
    for part in running.parts():
        judging.join(_PATIENCE)
        with _in_spite_of_errors():
            attempt.heard(part)
        if not unheard:
            unheard = not _print(part)
        if unheard:
            break  # as sbatch would die of writing to nobody
    code = running.wait()
    with _in_spite_of_errors():
        attempt.ended(code)
    if unheard:
        die_of(signal.SIGPIPE)
    if code < 0:
        die_of(-code)
    return code


class _Attempt:
    """What is known of the job beside sbatch. stdin: the script, where it was read from there."""

    def __init__(self) -> None:
        self.stdin: Optional[bytes] = None
        self._own: Optional[OwnScript] = None
        self._recording: Optional[Recording] = None
        self._draft: Optional[RecordDraft] = None
        self._line = b""
        self._taken = False

    def begin(self, words: Sequence[str]) -> None:
        """Read the script, and write the intent to submit it."""
        from neuronctl.batchscript.sbatch_line import read_line
        from neuronctl.submission.own_script import draft_of, read_own

        line = read_line(words)  # an error of sbatch's, which says so itself
        if not line.submits:
            return
        text = None
        if line.reads_stdin:
            with open(0, "rb", closefd=False) as stream:
                self.stdin = stream.read()
            text = self.stdin.decode("utf-8", "surrogateescape")
        own = read_own(words, text)
        if "test-only" in own.header.options:
            return
        self._own = own
        from neuronctl.submission.transaction import Recording

        self._draft = draft_of(own, ["neuronctl", *sys.argv[1:]])
        self._recording = Recording(self._draft, _tell, cluster=own.cluster, ask_slurm=False)

    def check(self) -> None:
        """Judge the script, and say on a terminal what was found."""
        with _in_spite_of_errors():
            self._check()

    def _check(self) -> None:
        own, draft = self._own, self._draft
        if own is None or draft is None:
            return
        from neuronctl.catalog.loader import load
        from neuronctl.request.job_file import configured_cluster
        from neuronctl.submission.own_script import judge_own, judged_draft

        job = judge_own(own, load(), configured_cluster(), ask_slurm=False)
        self._draft = judged_draft(draft, own, job)
        for one in job.findings:
            _tell(f"{one.severity} {one.code}: {one.message}")

    def heard(self, part: bytes) -> None:
        """Take a part of sbatch's output; its line with the job's id completes the record."""
        from neuronctl.slurm.sbatch import parse_submitted

        if self._recording is None or self._taken:
            return
        *lines, self._line = (self._line + part).split(b"\n")
        submitted = parse_submitted(b"\n".join(lines).decode("utf-8", "replace"))
        if submitted is not None:
            self._taken = True
            self._recording.taken(submitted, self._draft)

    def ended(self, code: int) -> None:
        """Note that sbatch has ended without a job; its own words are on the terminal only."""
        if self._recording is not None and not self._taken and code != 0:
            how = f"sbatch ended with exit code {code}"
            if code < 0:
                how = f"sbatch was ended by signal {-code}"
            self._recording.failed(how, certain=False)


@contextlib.contextmanager
def _in_spite_of_errors() -> Iterator[None]:
    with contextlib.suppress(Exception):
        yield


def _tell(text: str) -> None:
    from neuronctl.cli.say import notify

    if sys.stderr.isatty():
        notify(text)


def _print(part: bytes) -> bool:
    """Write to standard output; whether somebody may read it. A full disk is none of sbatch's."""
    try:
        while part:
            part = part[os.write(1, part) :]
    except BrokenPipeError:
        return False
    except OSError:
        pass
    return True
