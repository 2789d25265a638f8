"""The record and the judgement of a job that sbatch itself submits at the same time."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Mapping, Optional, Sequence

from neuronctl.common.frozen import replace

if TYPE_CHECKING:
    from neuronctl.submission.existing_script import ExistingScript
    from neuronctl.submission.transaction import Notify, Recording

_ANSWERED = 5.0
"""Seconds within which an error is slurmctld's answer, or it was never reached.

A request that it received and did not answer takes Slurm's MessageTimeout, 10 s by default.
"""


_LONGEST = 64 * 1024 * 1024
"""Bytes of a script on standard input; Slurm takes 4 MiB, or the site's max_script_size."""

_LONGEST_LINE = 4096
"""Bytes of a line of sbatch's output of which more are not looked at."""


class Attempt:
    """What is known of the job beside sbatch. stdin: the script, where it was read from there."""

    def __init__(self, command_line: Sequence[str], tell: Notify) -> None:
        """command_line: what the user called. tell: is told of the findings, and of the record."""
        self.stdin: Optional[bytes] = None
        self._command_line = command_line
        self._tell = tell
        self._script: Optional[ExistingScript] = None
        self._recording: Optional[Recording] = None
        self._line = b""
        self._began = time.monotonic()
        self._waits = False  # whether its exit code is the job's

    @property
    def has_no_end(self) -> bool:
        """Whether standard input has more than any script; ``stdin`` is only its beginning."""
        return self.stdin is not None and len(self.stdin) > _LONGEST

    def read(self, words: Sequence[str], monitor: Optional[bool]) -> Mapping[str, str]:
        """Read the script; returns what sbatch's environment needs for what starts before it.

        Raises UsageError where the job is to be sampled and cannot be.
        """
        from neuronctl.request.job_file import configuration
        from neuronctl.request.sbatch_options import GetoptError
        from neuronctl.scripts.sbatch_line import read_line
        from neuronctl.submission import monitored_script
        from neuronctl.submission.batch_shell import batch_shell_variables
        from neuronctl.submission.existing_script import read_existing

        try:
            line = read_line(words)
        except GetoptError:  # sbatch says so itself
            return {}
        if not line.submits:
            return {}
        text = None
        if line.reads_stdin:
            with open(0, "rb", closefd=False) as stream:
                self.stdin = stream.read(_LONGEST + 1)
            if self.has_no_end:
                return {}
            text = self.stdin.decode("utf-8", "surrogateescape")
        script = read_existing(words, text)
        if "test-only" in script.header.options:
            return {}
        self._script = script
        otherwise = configuration().values.get("monitor")
        script = monitored_script.monitored(script, monitor, otherwise, self._tell)
        variables = batch_shell_variables(script)
        self._script = script
        return variables

    def begin(self) -> None:
        """Write the intent to submit it."""
        script = self._script
        if script is None:
            return
        named = (*script.line.names, *script.header.options)
        self._waits = "wait" in named or "SBATCH_WAIT" in os.environ
        self._began = time.monotonic()
        from neuronctl.submission.transaction import Recording

        draft = replace(script.draft, command_line=tuple(self._command_line))
        cluster = script.slurm_cluster
        self._recording = Recording(draft, self._tell, cluster=cluster, ask_slurm=False)

    def judge(self) -> None:
        """Judge the script, and tell what was found."""
        script, recording = self._script, self._recording
        if script is None or recording is None:
            return
        from neuronctl.catalog.loader import load
        from neuronctl.request.job_file import configured_cluster
        from neuronctl.submission.existing_job import job_of

        judged = job_of(script, load(), configured_cluster(), ask_slurm=False).judge()
        recording.draft = judged.recorded(recording.draft)
        for finding in judged.findings:
            self._tell(f"{finding.severity} {finding.code}: {finding.message}")

    def heard(self, part: bytes) -> None:
        """Take a part of sbatch's output; its line with the job's id completes the record."""
        from neuronctl.slurm.sbatch import parse_submitted

        if self._recording is None:
            return
        *lines, self._line = (self._line + part).split(b"\n")
        self._line = self._line[:_LONGEST_LINE]  # the one with the id is short
        submitted = parse_submitted(b"\n".join(lines).decode("utf-8", "replace"))
        if submitted is not None:
            recording, self._recording = self._recording, None  # what follows is not about it
            recording.taken(submitted)

    def ended(self, code: int) -> None:
        """Note that sbatch has ended without a job; its own words are on the terminal only."""
        if self._recording is not None and code != 0:
            by_signal = f"sbatch was ended by signal {-code}"
            how = by_signal if code < 0 else f"sbatch ended with exit code {code}"
            answered = code > 0 and time.monotonic() - self._began < _ANSWERED
            self._recording.failed(how, certain=answered and not self._waits)
