"""The record and the judgement of a job that sbatch itself submits at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

if TYPE_CHECKING:
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.submission.existing_script import ExistingScript
    from neuronctl.submission.transaction import Notify, Recording


class Attempt:
    """What is known of the job beside sbatch. stdin: the script, where it was read from there."""

    def __init__(self, command_line: Sequence[str], tell: Notify) -> None:
        """command_line: what the user called. tell: is told of the findings, and of the record."""
        self.stdin: Optional[bytes] = None
        self._command_line = command_line
        self._tell = tell
        self._own: Optional[ExistingScript] = None
        self._recording: Optional[Recording] = None
        self._draft: Optional[RecordDraft] = None
        self._line = b""

    def begin(self, words: Sequence[str]) -> None:
        """Read the script, and write the intent to submit it."""
        from neuronctl.batchscript.sbatch_line import read_line
        from neuronctl.submission.existing_script import read_existing, record_draft

        line = read_line(words)  # an error of sbatch's, which says so itself
        if not line.submits:
            return
        text = None
        if line.reads_stdin:
            with open(0, "rb", closefd=False) as stream:
                self.stdin = stream.read()
            text = self.stdin.decode("utf-8", "surrogateescape")
        own = read_existing(words, text)
        if "test-only" in own.header.options:
            return
        self._own = own
        from neuronctl.submission.transaction import Recording

        self._draft = record_draft(own, self._command_line)
        self._recording = Recording(self._draft, self._tell, cluster=own.cluster, ask_slurm=False)

    def judge(self) -> None:
        """Judge the script, and tell what was found."""
        own, draft = self._own, self._draft
        if own is None or draft is None:
            return
        from neuronctl.catalog.loader import load
        from neuronctl.request.job_file import configured_cluster
        from neuronctl.submission.existing_script import judge_script, with_judgement

        job = judge_script(own, load(), configured_cluster(), ask_slurm=False)
        self._draft = with_judgement(draft, own, job)
        for one in job.findings:
            self._tell(f"{one.severity} {one.code}: {one.message}")

    def heard(self, part: bytes) -> None:
        """Take a part of sbatch's output; its line with the job's id completes the record."""
        from neuronctl.slurm.sbatch import parse_submitted

        if self._recording is None:
            return
        *lines, self._line = (self._line + part).split(b"\n")
        submitted = parse_submitted(b"\n".join(lines).decode("utf-8", "replace"))
        if submitted is not None:
            recording, self._recording = self._recording, None  # what follows is not about it
            recording.taken(submitted, self._draft)

    def ended(self, code: int) -> None:
        """Note that sbatch has ended without a job; its own words are on the terminal only."""
        if self._recording is not None and code != 0:
            by_signal = f"sbatch was ended by signal {-code}"
            how = by_signal if code < 0 else f"sbatch ended with exit code {code}"
            self._recording.failed(how, certain=False)
