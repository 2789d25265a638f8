"""Submit a recorded job again from its own directory; report changes since."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence

from neuronctl.common.console import printable
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import UsageError
from neuronctl.common.paths import pipeline_dir, working_directory
from neuronctl.common.shell import join
from neuronctl.records import found_records, provenance
from neuronctl.records.job_record import JobRecord, RecordDraft
from neuronctl.records.provenance import Provenance
from neuronctl.request.job import Layer, Origin, Source, merge
from neuronctl.request.typed_options import check_utf8
from neuronctl.rules.local_facts import log_fault
from neuronctl.scripts.sbatch_line import read_line
from neuronctl.submission.planned_job import plan_job
from neuronctl.submission.predecessors import named_layer
from neuronctl.submission.transaction import Notify

if TYPE_CHECKING:
    from neuronctl.submission.pipeline import Submittable


def plan_resubmission(
    record: JobRecord,
    options: Mapping[str, Any],
    *,
    tell: Notify,
    args: Optional[Sequence[str]] = None,
    same_code: bool = False,
    catalog_file: Optional[str] = None,
) -> Submittable:
    """Return the job to submit again; the current directory becomes that of the recorded job.

    options: by long name, laid over the recorded request. args: the program's; None: the
    recorded ones. same_code: whether to run the job's snapshot even if something changes. tell
    hears what is submitted, and what has changed in the directory. Raises UsageError for a
    job that cannot be submitted again, and PolicyError if it would wait forever for another job.
    """
    if options.get("chdir"):  # begins where the user is, as with sbatch
        options = {**options, "chdir": os.path.join(working_directory(), options["chdir"])}
    changed = args is not None or any(value not in (None, ()) for value in options.values())
    _check_group(record, tell, changed=changed)
    _enter_directory(record)
    snapshot = _whole_snapshot(record, tell, needed=same_code) if same_code or not changed else ""
    if not snapshot:
        _tell_changes(record, tell)
    if args is not None:
        _check_arguments(record)
    draft = record.draft
    what = f"the script of job {record.job_id}"
    if draft.sbatch:
        if not changed:
            tell(f"{what}, from {working_directory()}")
        return _existing_again(record, options, args, tell=tell, catalog_file=catalog_file)
    variables = _exported_variables(record, options)
    # The jobs that the recorded one waited for may have ended.
    waits = any(draft.request.get(name) for name in ("after", "after_ok", "dependency"))
    lost_code = draft.snapshot and not snapshot
    if not (changed or waits or lost_code):
        tell(f"{what}, byte for byte, from {working_directory()}")
        values = {name: os.environ[name] for name in variables}
        return RecordedJob(record, _draft_again(record), values, draft.script)
    options = {**options, "env": (*(options.get("env") or ()), *variables)}
    planned = plan_job(
        options,
        catalog_file=catalog_file,
        recorded=_recorded_layer(record, options, args),
        tell=tell,
        snapshot_place=snapshot,
    )
    if not changed:
        planned = replace(planned, first_job=_draft_again(record).first_job)
    return replace(planned, surroundings=draft.surroundings) if snapshot else planned


def _recorded_layer(
    record: JobRecord, options: Mapping[str, Any], args: Optional[Sequence[str]]
) -> Layer:
    """Return the recorded request with new arguments; its --dependency is looked up anew."""
    layer = found_records.stored_layer(record.draft.request, f"record of job {record.job_id}")
    if args is not None:
        check_utf8(args)
        typed = Layer({"args": tuple(args)}, {"args": Origin(Source.ASKED, "ARGS")})
        layer = merge([layer, typed])
    if layer.values.get("dependency") and not options.get("dependency"):
        layer = merge([layer, named_layer(layer)])
    return layer


def _check_group(record: JobRecord, tell: Notify, *, changed: bool) -> None:
    """Raise UsageError for a job that only its sweep or its pipeline may submit again.

    changed: whether other options are given; then a pipeline's job is submitted alone.
    """
    if record.draft.of_sweep:
        raise UsageError(
            f"job {record.job_id} takes tasks of the sweep {record.job_name}",
            f"'neuronctl sweep retry {record.job_name} --failed' submits jobs for what is left",
        )
    pipeline = record.draft.pipeline
    if not pipeline:
        return
    name = os.path.dirname(pipeline)
    if not changed and os.path.isdir(f"{pipeline_dir()}/{pipeline}/scripts"):
        raise UsageError(
            f"job {record.job_id} belongs to the pipeline {name}",
            f"'neuronctl resubmit {name} --failed' runs again what failed or did not run",
        )
    tell(f"it runs by itself: no job of the pipeline {name} waits for it, or it for them")


def _draft_again(record: JobRecord) -> RecordDraft:
    """Return the draft of an unchanged resubmission: the recorded one without its judgement."""
    draft = record.draft
    return replace(
        draft,
        findings=(),
        forced=False,
        verdict="",
        surroundings=draft.surroundings if draft.snapshot else Provenance(),
        first_job=draft.first_job or record.job_id,
    )


def _enter_directory(record: JobRecord) -> None:
    """Enter the directory that the job was submitted from; raise UsageError if that fails."""
    place = record.draft.submit_dir or record.cwd
    try:
        os.chdir(place)
    except OSError as error:
        raise UsageError(
            f"job {record.job_id} is for {printable(place)}, which cannot be entered: "
            f"{error.strerror}",
            f"'neuronctl show {record.job_id} --script' prints its script",
        ) from None


def _whole_snapshot(record: JobRecord, tell: Notify, *, needed: bool) -> str:
    """Return the place of the job's intact snapshot, or ""; raise UsageError if it is needed."""
    from neuronctl.records.code_snapshot import is_whole

    place = record.draft.snapshot
    if place and is_whole(place):
        return place
    gone = f"the snapshot of job {record.job_id} is no longer intact"
    if needed:
        message = gone if place else f"job {record.job_id} was submitted without --snapshot"
        raise UsageError(f"--same-code: {message}", "leave it out: the code as it is now runs")
    if place:
        tell(f"{gone}: the code as it is now runs")
    return ""


def _tell_changes(record: JobRecord, tell: Notify) -> None:
    """Report changes in the job's directory; raise UsageError if its program is gone."""
    recorded = record.draft.surroundings
    program = recorded.program
    if program and not os.path.exists(program):
        raise UsageError(
            f"the program of job {record.job_id} is gone: there is no {program}", "restore it"
        )
    now = provenance.read_provenance(record.draft.request.get("script"), record.cwd)
    for change in provenance.drift(recorded, now):
        tell(change)


def _check_arguments(record: JobRecord) -> None:
    """Raise UsageError if the recorded program takes no arguments."""
    if record.draft.sbatch:
        line = read_line(record.draft.sbatch[1:])
        has_program = bool(line.file) or line.reads_stdin
    else:
        has_program = bool(record.draft.request.get("script"))
    if not has_program:
        raise UsageError(
            f"job {record.job_id} runs shell text or several programs, which take no arguments",
            "options such as --env can be changed",
        )


def _existing_again(
    record: JobRecord,
    options: Mapping[str, Any],
    args: Optional[Sequence[str]],
    *,
    tell: Notify,
    catalog_file: Optional[str],
) -> Submittable:
    """Return the job of a user's own script. args: None: the recorded ones."""
    from neuronctl.submission.existing_job import existing_job

    line = read_line(record.draft.sbatch[1:])
    if args is not None:
        line = replace(line, args=tuple(args))
    # Each submission decides anew whether to wait.
    words = (*(word for word in line.options if word not in ("-W", "--wait")), *line.script)
    job = existing_job(
        words,
        options,
        tell=tell,
        stdin=record.draft.script,
        catalog_file=catalog_file,
        recorded=record.draft.request,
    )
    if args and not job.reads_arguments:
        raise UsageError(
            f"{job.name} reads no arguments, so that {join(args)} would be lost",
            'write "$@" behind the program in the script',
        )
    return job


def _exported_variables(record: JobRecord, options: Mapping[str, Any]) -> List[str]:
    """Return the job's secrets that ``options`` do not set; raise UsageError if one is missing."""
    typed = {text.partition("=")[0] for text in options.get("env") or ()}
    variables = [name for name in record.draft.exported if name not in typed]
    absent = [name for name in variables if name not in os.environ]
    if absent:
        raise UsageError(
            f"job {record.job_id} was given {', '.join(absent)}, which its record does not hold",
            f"export it in this shell, or add --env {absent[0]}=…",
        )
    return variables


@dataclass(frozen=True)
class RecordedJob:
    """A script of neuronctl's own that is submitted again, byte for byte; a Submittable."""

    record: JobRecord
    draft: RecordDraft
    variables: Mapping[str, str]
    script: str
    slurm_cluster: Optional[str] = None

    def judge(self) -> None:
        """Raise UsageError if the log cannot be written: Slurm would end the job without a word."""
        for err in (False, True):
            fault = log_fault(self.record.log_path(0, err=err))
            if fault is not None:
                raise UsageError(fault.message, fault.hint)
