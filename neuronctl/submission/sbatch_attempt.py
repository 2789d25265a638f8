"""The judgement and the record of a job that sbatch itself submits."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Mapping, Optional, Sequence

from neuronctl.common.frozen import replace

if TYPE_CHECKING:
    from neuronctl.submission.transaction import Notify, Recording

_ANSWERED = 5.0
"""Seconds within which an error is slurmctld's answer, or it was never reached.

A request that it received and did not answer takes Slurm's MessageTimeout, 10 s by default.
"""


class Attempt:
    """What is known of the job beside sbatch. stdin: the script, where it was read from there."""

    def __init__(self, command_line: Sequence[str], tell: Notify, warn: Notify) -> None:
        """command_line: what the user called. tell hears of the findings, warn of the record."""
        self.stdin: Optional[bytes] = None
        self._command_line = command_line
        self._tell = tell
        self._warn = warn
        self._recording: Optional[Recording] = None
        self._began = time.monotonic()

    def begin(self, words: Sequence[str]) -> Mapping[str, str]:
        """Judge the script, tell what was found, and write the intent to submit it.

        Returns what sbatch's environment needs for what starts before the script.
        """
        from neuronctl.catalog.loader import load
        from neuronctl.catalog.local_cluster import recognise
        from neuronctl.request.job_file import configuration
        from neuronctl.scripts.sbatch_line import read_line
        from neuronctl.slurm.sbatch import outer_job
        from neuronctl.submission.existing_job import ExistingJob
        from neuronctl.submission.existing_script import read_existing
        from neuronctl.submission.monitored_script import batch_shell_variables, monitored
        from neuronctl.submission.transaction import Recording

        line, text = read_line(words), None
        if not line.submits:
            return {}
        if line.reads_stdin:
            with open(0, "rb", closefd=False) as stream:
                self.stdin = stream.read()
            text = self.stdin.decode("utf-8", "surrogateescape")
        script = read_existing(words, text)
        if "test-only" in script.header.options:
            return {}
        if outer_job():
            self._tell(
                f"this is inside job {outer_job()}, whose SLURM_* variables reach the new job, "
                "where srun may refuse them; 'neuronctl submit' keeps them from it"
            )
        variables: Mapping[str, str] = {}
        draft = script.draft
        with contextlib.suppress(Exception):  # the job has a record, whatever breaks
            configured = configuration().values
            script = monitored(script, None, configured.get("monitor"), self._tell)
            variables, draft = batch_shell_variables(script), script.draft
            catalog = load()
            cluster, _ = recognise(catalog, configured.get("cluster"))
            judged = ExistingJob(script, catalog, cluster, ask_slurm=False).judge()
            draft = judged.recorded(draft)
            for finding in judged.findings:
                self._tell(f"{finding.severity} {finding.code}: {finding.message}")
        draft = replace(draft, command_line=tuple(self._command_line))
        where = script.slurm_cluster
        self._recording = Recording(draft, self._warn, cluster=where)
        self._began = time.monotonic()
        return variables

    def heard(self, line: bytes) -> None:
        """Take a line of sbatch's output; the one with the job's id completes the record."""
        from neuronctl.slurm.sbatch import parse_submitted

        submitted = parse_submitted(line.decode("utf-8", "replace"))
        if submitted is not None and self._recording is not None:
            recording, self._recording = self._recording, None  # what follows is not about it
            recording.taken(submitted)

    def ended(self, code: int) -> None:
        """Note that sbatch has ended without a job; its own words are on the terminal only."""
        if self._recording is not None and code != 0:
            by_signal = f"sbatch was ended by signal {-code}"
            how = by_signal if code < 0 else f"sbatch ended with exit code {code}"
            certain = code > 0 and time.monotonic() - self._began < _ANSWERED
            self._recording.failed(how, certain=certain)
