"""A recorded job submitted again: what has changed, which program runs, which variables it needs.

Rules and paths are looked at from the job's own directory: enter_directory() goes there first.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.errors import NeuronctlError, SlurmUnavailableError, UsageError
from neuronctl.common.files import write_whole
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.shell import join
from neuronctl.records import provenance, recorded
from neuronctl.records.job_record import JobRecord, RecordDraft
from neuronctl.records.provenance import Provenance
from neuronctl.request.job import Layer, Origin, Source
from neuronctl.scripts.sbatch_line import STDIN, read_line
from neuronctl.submission.judged_job import JudgedJob
from neuronctl.submission.planned_job import PlannedJob, check_utf8, plan_job
from neuronctl.submission.transaction import Notify


@dataclass(frozen=True)
class Changes:
    """What has changed in a job's directory since it was submitted.

    now: the directory's present state. notes: the changes in words. program_gone,
    program_changed: of the recorded program. diff: of its text; None where it is not recorded.
    """

    now: Provenance
    notes: Tuple[str, ...]
    program_gone: bool
    program_changed: bool
    diff: Optional[Tuple[str, ...]] = None


def enter_directory(record: JobRecord) -> None:
    """Make the job's directory this process's, or that which sbatch is to be called in again.

    Raises UsageError where that cannot be.
    """
    draft = record.draft
    place = draft.submit_dir if draft.sbatch and draft.submit_dir else record.cwd
    try:
        os.chdir(place)
    except OSError as error:
        raise UsageError(
            f"{record.called} is for {place}, which cannot be entered: {error.strerror}",
            f"'neuronctl show {record.job_id} --script' prints its script" if record.job_id else "",
        ) from None


def changes_since(record: JobRecord) -> Changes:
    """Compare the job's directory with what its record says of it."""
    then = record.draft.surroundings
    now = provenance.read_provenance(record.draft.request.get("script"), record.cwd)
    gone = bool(then.program) and not os.path.exists(then.program)
    changed = bool(then.program) and not gone
    changed = changed and then.program_sha256 not in ("", now.program_sha256)
    diff = None
    if changed and then.program_text is not None and now.program_text is not None:
        name = os.path.relpath(then.program)
        before = f"{name} (job {record.job_id})"
        diff = tuple(recorded.text_diff(then.program_text, now.program_text, before, name))
    return Changes(now, tuple(provenance.drift(then, now)), gone, changed, diff)


def has_snapshot(record: JobRecord, notify: Notify) -> bool:
    """Whether the copy of the code that the job ran from is as it was; it then counts as used."""
    from neuronctl.records.code_snapshot import keep_snapshot  # here, as few jobs have one

    place = record.draft.snapshot
    if not place:
        return False
    wrong = keep_snapshot(place)
    if not wrong:
        return True
    notify(
        f"the snapshot of job {record.job_id} is no longer whole ({wrong}): the code as it is now "
        "runs"
    )
    return False


def runs_recorded(record: JobRecord, changes: Changes, *, as_recorded: bool, as_is: bool) -> bool:
    """Whether the recorded program is to run, and not the one that is there now.

    as_recorded, as_is: which of the two the user asked for. Raises UsageError where it has to be
    asked for and is not, and where the program that is to run is not to be had.
    """
    if not (changes.program_gone or changes.program_changed):
        return False
    then = record.draft.surroundings
    if changes.program_gone and not as_recorded:
        raise UsageError(
            f"the program of job {record.job_id} is gone: there is no {then.program}",
            "restore it, or run the recorded one: --script-as-recorded"
            if then.program_text is not None
            else "restore it; its text is not in the record",
        )
    if not (as_recorded or as_is):
        raise UsageError(
            "the program has changed since: which version should run?",
            "--script-as-recorded runs the recorded one, --script-as-is the present one",
        )
    if as_recorded and then.program_text is None:
        raise UsageError(
            f"the record of job {record.job_id} lacks its program: it was too long, or not text",
            then.git_commit and f"git may have it: git show {then.git_commit[:12]}:…",
        )
    return as_recorded


def program_copy(record: JobRecord) -> str:
    """The name under which the recorded program is to run."""
    then = record.draft.surroundings
    # Beside the program, since that is where it finds what it imports.
    head, tail = os.path.splitext(then.program)
    script = os.path.relpath(f"{head}.as-of-{then.program_sha256[:8]}{tail}")
    return script if script.endswith(".py") else f"./{script}"


def arguments_of(record: JobRecord) -> Sequence[str]:
    """The arguments of the recorded program; raises UsageError where it takes none."""
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
    """The values that differ between the plans of two jobs, and the arguments of their programs."""
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
    """sbatch's words for a recorded script, and its text where sbatch gets it by standard input.

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
            f"{record.called} was given {', '.join(absent)}, which its record does not hold",
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

    def judge(self, *, fresh: bool = False, anew: bool = False) -> Optional[JudgedJob]:
        """Judge its request, but not before sbatch refuses it."""
        if not anew:
            return None
        return plan_again(self.record, {"env": self.exported}).judge(anew=True)

    @property
    def variables(self) -> Mapping[str, str]:
        from neuronctl.submission.batch_shell import batch_shell_variables

        return {**batch_shell_variables(), **{name: os.environ[name] for name in self.exported}}

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
    program: Optional[str] = None,
    catalog_file: Optional[str] = None,
    submit_dir: str = "",
    derived: Mapping[str, str] = {},
) -> PlannedJob:
    """Plan the recorded request anew, with ``options`` laid over it.

    args: the program's, in place of the recorded ones. variables: from exported_variables().
    program: from program_copy(). submit_dir: as in PlannedJob. derived: fields that neuronctl had
    chosen, and how.
    """
    layer = recorded.request_layer(record)
    chosen = {name: Origin(Source.DERIVED, how) for name, how in derived.items()}
    layer = Layer(layer.values, {**layer.origins, **chosen})
    if args is not None:
        arguments_of(record)
        check_utf8(args)
        origins = {**layer.origins, "args": Origin(Source.ASKED, "ARGS")}
        layer = Layer({**layer.values, "args": tuple(args)}, origins)
    if program is not None:
        # The job keeps the program's name, not the copy's.
        values = {"job_name": record.job_name, **layer.values, "script": program}
        layer = Layer(values, dict.fromkeys(values, layer.origins["script"]))
    options = {**options, "env": (*(options.get("env") or ()), *variables)}
    return plan_job(options, catalog_file=catalog_file, recorded=layer, submit_dir=submit_dir)


def as_today(record: JobRecord) -> Tuple[Sequence[Tuple[str, ...]], str]:
    """The decisions and the script that the recorded request gives today.

    Of somebody's own script: what its directives mean today, and what it is today.
    """
    draft = record.draft
    with contextlib.suppress(UsageError):  # what is gone, or closed, says little of the plan
        enter_directory(record)
    if draft.sbatch:
        from neuronctl.catalog.loader import load
        from neuronctl.request.job_file import configured_cluster
        from neuronctl.submission.existing_job import job_of
        from neuronctl.submission.existing_script import read_existing

        script = read_existing(draft.sbatch[1:], draft.script)
        judged = job_of(script, load(), configured_cluster(), ask_slurm=False).judge()
        return judged.decisions, script.text
    planned = plan_job({}, recorded=recorded.request_layer(record), ask_slurm=False)
    decisions = [(decision.name, decision.value) for decision in planned.plan.decisions]
    return decisions, planned.script()


@contextlib.contextmanager
def program_as_recorded(
    record: JobRecord, program: Optional[str], notify: Notify, *, keep: bool
) -> Iterator[None]:
    """The recorded program as the file ``program``, where that is not None, for the rules to see.

    keep: whether the file stays afterwards. It is removed where it is certain that no job needs it.
    """
    text = record.draft.surroundings.program_text
    if program is None or text is None:
        yield
        return
    path = os.path.abspath(program)
    was_there = os.path.exists(path)
    try:
        mode = os.stat(record.draft.surroundings.program).st_mode & 0o755
    except OSError:
        mode = 0o700
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        write_whole(path, text, mode=mode)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be written: {error.strerror}") from None
    stays = True  # also where it is not known whether Slurm has the job
    try:
        yield
        stays = keep
    except SlurmUnavailableError:
        raise
    except NeuronctlError:
        stays = False
        raise
    finally:
        if stays:
            notify(f"wrote {path}, the recorded program")
        elif not was_there:
            os.unlink(path)
