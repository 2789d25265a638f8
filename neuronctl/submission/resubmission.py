"""A recorded job submitted again: what has changed, and which variables it needs.

Rules and paths are looked at from the job's own directory: enter_directory() goes there first.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.shell import join
from neuronctl.records import provenance, recorded
from neuronctl.records.job_record import JobRecord, RecordDraft
from neuronctl.request.job import Layer, Origin, Source
from neuronctl.scripts.sbatch_line import STDIN, read_line
from neuronctl.submission.judged_job import JudgedJob
from neuronctl.submission.planned_job import PlannedJob, check_utf8, plan_job
from neuronctl.submission.transaction import Notify


@dataclass(frozen=True)
class Changes:
    """What has changed in a job's directory since it was submitted.

    notes: the changes in words. program_gone, program_changed: of the recorded program.
    """

    notes: Tuple[str, ...]
    program_gone: bool
    program_changed: bool


def enter_directory(record: JobRecord) -> None:
    """Make the job's directory, or that which sbatch is called in, this process's.

    Raises UsageError if it cannot be entered.
    """
    draft = record.draft
    place = draft.submit_dir if draft.sbatch and draft.submit_dir else record.cwd
    try:
        os.chdir(place)
    except OSError as error:
        raise UsageError(
            f"job {record.job_id} is for {place}, which cannot be entered: {error.strerror}",
            f"'neuronctl show {record.job_id} --script' prints its script" if record.job_id else "",
        ) from None


def changes_since(record: JobRecord) -> Changes:
    """Compare the job's directory with what its record says of it."""
    then = record.draft.surroundings
    now = provenance.read_provenance(record.draft.request.get("script"), record.cwd)
    gone = bool(then.program) and not os.path.exists(then.program)
    changed = bool(then.program) and not gone
    changed = changed and then.program_sha256 not in ("", now.program_sha256)
    return Changes(tuple(provenance.drift(then, now)), gone, changed)


def has_snapshot(record: JobRecord, notify: Notify) -> bool:
    """Return True if the job's copy of the code is as it was; it then counts as used."""
    from neuronctl.records.code_snapshot import keep_snapshot  # here, as few jobs have one

    place = record.draft.snapshot
    if not place or keep_snapshot(place):
        return bool(place)
    notify(f"the snapshot of job {record.job_id} is no longer whole: the code as it is now runs")
    return False


def runs_recorded(record: JobRecord, changes: Changes, *, as_recorded: bool, as_is: bool) -> bool:
    """Return True if the recorded batch script runs, and not the file that is there now.

    as_recorded, as_is: which of the two the user asked for. Raises UsageError if a changed program
    needs that choice, and if the recorded one cannot run.
    """
    if not (changes.program_gone or changes.program_changed):
        return False
    draft = record.draft
    if draft.sbatch and as_recorded:
        return True
    choice = "--script-as-recorded runs the recorded one, " if draft.sbatch else ""
    if changes.program_gone:
        raise UsageError(
            f"the program of job {record.job_id} is gone: there is no {draft.surroundings.program}",
            "restore it" + (", or run the recorded one: --script-as-recorded" if choice else ""),
        )
    if as_recorded:
        commit = draft.surroundings.git_commit
        raise UsageError(
            "--script-as-recorded is for batch scripts: a program of the past has to be restored",
            commit and f"git may have it: git show {commit[:12]}:…",
        )
    if not as_is:
        raise UsageError(
            "the program has changed since: which version should run?",
            f"{choice}--script-as-is runs the present one",
        )
    return False


def arguments_of(record: JobRecord) -> Sequence[str]:
    """Return the arguments of the recorded program; raise UsageError if it takes none."""
    draft = record.draft
    if draft.sbatch:
        line = read_line(draft.sbatch[1:])
        if line.file or line.reads_stdin:
            return line.args
    elif draft.request.get("script") is not None:
        return tuple(draft.request.get("args", ()))
    raise UsageError(
        f"job {record.job_id} runs shell text or several programs, which take no arguments",
        "options such as --env can be changed",
    )


def changed_plan(first: JobRecord, second: JobRecord) -> List[recorded.Change]:
    """Return what differs between the plans of two jobs, and between their programs' arguments."""
    values = recorded.changed_decisions(first.draft.decisions, second.draft.decisions)
    args = []
    for record in (first, second):
        args.append("")
        with contextlib.suppress(UsageError):
            args[-1] = join(arguments_of(record))
    return values + [("arguments", args[0], args[1])] * (args[0] != args[1])


def existing_again(
    record: JobRecord, args: Optional[Sequence[str]] = None, *, from_record: bool
) -> Tuple[Tuple[str, ...], Optional[str]]:
    """Return sbatch's words for a recorded script, and the text that goes to its standard input.

    args: other arguments than the recorded ones. from_record: the recorded text, in place of the
    file.
    """
    words = record.draft.sbatch[1:]
    if args is not None:
        old = len(arguments_of(record))
        words = (*words[: len(words) - old], *args)
    line = read_line(words)
    # Whether to wait is said anew each time.
    options = tuple(word for word in line.options if word not in ("-W", "--wait"))
    if not from_record and not line.reads_stdin:
        return (*options, *line.script), None
    if not line.reads_stdin:
        options = (*options, f"--job-name={record.job_name}")  # and not that of standard input
    return (*options, STDIN, *line.args), record.draft.script


def exported_variables(record: JobRecord, options: Mapping[str, Any]) -> List[str]:
    """Return the secret variables that this process's environment has to supply, by name.

    Raises UsageError if it lacks one that ``options`` do not give.
    """
    given = {text.partition("=")[0] for text in options.get("env") or ()}
    variables = [name for name in record.draft.exported if name not in given]
    absent = [name for name in variables if name not in os.environ]
    if absent:
        raise UsageError(
            f"job {record.job_id} was given {', '.join(absent)}, which its record does not hold",
            f"export it in this shell{f', or add --env {absent[0]}=…' if record.job_id else ''}",
        )
    return variables


@dataclass(frozen=True)
class RecordedJob:
    """A script of neuronctl's own that is submitted again, byte for byte.

    exported: as from exported_variables().
    """

    record: JobRecord
    exported: Sequence[str] = ()

    existing = slurm_cluster = None

    def judge(self, *, anew: bool = False) -> Optional[JudgedJob]:
        """Judge its request, but not before sbatch refuses it."""
        if not anew:
            return None
        return plan_again(self.record, {"env": self.exported}).judge(anew=True)

    @property
    def variables(self) -> Mapping[str, str]:
        return {name: os.environ[name] for name in self.exported}

    @property
    def draft(self) -> RecordDraft:
        """The recorded draft, without what was found then."""
        return replace(self.record.draft, findings=(), forced=False, verdict="")

    def script(self) -> str:
        """Return the recorded script."""
        return self.record.draft.script


def plan_again(
    record: JobRecord,
    options: Mapping[str, Any],
    *,
    args: Optional[Sequence[str]] = None,
    variables: Sequence[str] = (),
    catalog_file: Optional[str] = None,
) -> PlannedJob:
    """Plan the recorded request anew, with ``options`` laid over it.

    args: the program's, in place of the recorded ones. variables: from exported_variables().
    """
    layer = recorded.request_layer(record)
    if args is not None:
        arguments_of(record)
        check_utf8(args)
        origins = {**layer.origins, "args": Origin(Source.ASKED, "ARGS")}
        layer = Layer({**layer.values, "args": tuple(args)}, origins)
    options = {**options, "env": (*(options.get("env") or ()), *variables)}
    submit_dir = record.draft.submit_dir or record.cwd
    return plan_job(options, catalog_file=catalog_file, recorded=layer, submit_dir=submit_dir)
