"""What generate, submit, resubmit, salloc and run tell of a job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Sequence, TextIO, Tuple

from neuronctl.cli.say import notify, say
from neuronctl.console import Column, print_line, print_table
from neuronctl.errors import UsageError
from neuronctl.files import write_whole
from neuronctl.words import moment

if TYPE_CHECKING:
    from neuronctl.gate.partition_choice import Candidate, Choice
    from neuronctl.submission.planned_job import JudgedJob
    from neuronctl.submission.transaction import Submission


def show_choice(choice: Optional[Choice]) -> None:
    """Say which partition ``-p auto`` takes and why, and why not the others."""
    for number, candidate in enumerate(() if choice is None else choice.candidates):
        if not candidate.fits:
            say(f"  excluded: {candidate.name}: {candidate.exclusion}")
        elif number:
            say(f"  next best: {_candidate(candidate)}")
        else:
            notify(f"-p auto takes {_candidate(candidate)}")


def _candidate(candidate: Candidate) -> str:
    if not candidate.verdict.by_slurm:
        return f"{candidate.name} (by the catalog alone)"
    words = f"{candidate.name}: {candidate.verdict}"
    if candidate.start is not None:
        words += f"; Slurm expects it to start at {moment(candidate.start, seconds=True)}"
    return words


def show_findings(job: JudgedJob) -> None:
    """Say what the rules found, and what else was noticed."""
    for warning in job.warnings:
        notify(warning)
    for finding in job.findings:
        if finding.rule.waits:
            continue  # the verdict says it
        notify(f"{finding.severity} {finding.code}: {finding.message}")
        if finding.hint:
            say(f"  hint: {finding.hint}")
        if finding.source:
            say(f"  from: {finding.source}")
    if job.errors and job.verdict is not None and not job.verdict.by_slurm:
        notify(f"judged by {job.verdict.judged_by}")


def print_decisions(decisions: Sequence[Tuple[str, ...]], file: TextIO) -> None:
    """A table of values, each with its source and the reason for it."""
    columns = [Column("VALUE", no_wrap=True), Column("IS"), Column("BECAUSE")]
    rows = [[name, value, ": ".join(filter(None, because))] for name, value, *because in decisions]
    print_table(columns, rows, file=file)


def show_verdict(job: Optional[JudgedJob]) -> None:
    """Say what would happen to the job if it were submitted now."""
    if job is None or job.verdict is None:
        return
    if job.errors:  # told already, and forced
        notify("forced: Slurm may refuse the job, or accept it and never start it")
        return
    notify(str(job.verdict))
    from neuronctl.gate.verdict import WILL_WAIT

    if job.verdict.kind == WILL_WAIT:
        waits = (finding for finding in job.findings if finding.rule.waits)
        for source in dict.fromkeys(finding.source for finding in waits if finding.source):
            say(f"  from: {source}")


def show_submission(submission: Submission) -> None:
    where = submission.partition and f" to {submission.partition}"
    print_line(f"Submitted batch job {submission.job_id}{where}")
    print_line(f"  log     {submission.output}")
    if submission.error != submission.output:
        print_line(f"  errors  {submission.error}")
    # Each task of an array has a log of its own.
    follow = "status --watch" if submission.is_array else "logs -f"
    print_line(f"  follow  neuronctl {follow} {submission.job_id}")


def write_text(path: str, text: str, *, force: bool, mode: int = 0o700) -> None:
    """Write a script, executable and private to its user; over a file only with ``force``.

    A full disk leaves the old file whole.
    """
    if not path:
        raise UsageError("the file name is empty", "name a file, or omit --write")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UsageError(f"'{path}' exists and is not a regular file", "name another file")
    if os.path.isfile(path) and not force:
        raise UsageError(f"'{path}' already exists", "use --force to overwrite it")
    try:
        write_whole(path, text, mode=mode)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be written: {error.strerror}") from None
