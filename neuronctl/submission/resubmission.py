"""A recorded job submitted again, from its own directory: what has changed, and what it needs."""

from __future__ import annotations

import os
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.console import printable
from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.records import found_records, provenance
from neuronctl.records.job_record import JobRecord, RecordDraft
from neuronctl.request.job import Layer, Origin, Source
from neuronctl.request.typed_options import check_utf8
from neuronctl.rules.local_facts import log_fault
from neuronctl.scripts.sbatch_line import read_line
from neuronctl.submission.planned_job import PlannedJob, plan_job
from neuronctl.submission.transaction import Notify


def enter_directory(record: JobRecord) -> None:
    """Make the directory that the job was submitted from this process's.

    Raises UsageError if it cannot be entered.
    """
    place = record.draft.submit_dir or record.cwd
    try:
        os.chdir(place)
    except OSError as error:
        raise UsageError(
            f"job {record.job_id} is for {printable(place)}, which cannot be entered: "
            f"{error.strerror}",
            f"'neuronctl show {record.job_id} --script' prints its script",
        ) from None


def has_snapshot(record: JobRecord, notify: Notify) -> bool:
    """Return True if the job's copy of the code is as it was; it then counts as used."""
    from neuronctl.records.code_snapshot import keep_snapshot  # here, as few jobs have one

    place = record.draft.snapshot
    if not place or keep_snapshot(place):
        return bool(place)
    notify(f"the snapshot of job {record.job_id} is no longer whole: the code as it is now runs")
    return False


def tell_changes(record: JobRecord, notify: Notify) -> None:
    """Tell what has changed since in the job's directory; raise UsageError if its program went."""
    then = record.draft.surroundings
    if then.program and not os.path.exists(then.program):
        raise UsageError(
            f"the program of job {record.job_id} is gone: there is no {then.program}", "restore it"
        )
    now = provenance.read_provenance(record.draft.request.get("script"), record.cwd)
    notify(*provenance.drift(then, now))


def check_arguments(record: JobRecord) -> None:
    """Raise UsageError if the recorded program takes no arguments."""
    line = read_line(record.draft.sbatch[1:]) if record.draft.sbatch else None
    if not (line.file or line.reads_stdin if line else record.draft.request.get("script")):
        raise UsageError(
            f"job {record.job_id} runs shell text or several programs, which take no arguments",
            "options such as --env can be changed",
        )


def sbatch_words(record: JobRecord, args: Optional[Sequence[str]]) -> Tuple[str, ...]:
    """Return sbatch's words for a recorded script. args: in place of the recorded ones."""
    line = read_line(record.draft.sbatch[1:])
    line = line if args is None else replace(line, args=tuple(args))
    # Whether to wait is said anew each time.
    return (*(word for word in line.options if word not in ("-W", "--wait")), *line.script)


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
            f"export it in this shell, or add --env {absent[0]}=…",
        )
    return variables


@dataclass(frozen=True)
class RecordedJob:
    """A script of neuronctl's own that is submitted again, byte for byte.

    exported: as from exported_variables().
    """

    record: JobRecord
    exported: Sequence[str] = ()

    slurm_cluster = None

    def judge(self) -> None:
        """Leave it to sbatch: it was judged when it was planned.

        Raises UsageError where its log cannot be written: Slurm would end it without a word.
        """
        for err in (False, True):
            fault = log_fault(self.record.log_path(0, err=err))
            if fault is not None:
                raise UsageError(fault.words, fault.hint)

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
    if record.draft.of_sweep:
        raise UsageError(
            f"job {record.job_id} takes tasks of the sweep {record.job_name}, as its other jobs do",
            f"'neuronctl sweep retry {record.job_name}' submits more, with the sweep's own options",
        )
    layer = found_records.stored_layer(record.draft.request, f"record of job {record.job_id}")
    if args is not None:
        check_utf8(args)
        origins = {**layer.origins, "args": Origin(Source.ASKED, "ARGS")}
        layer = Layer({**layer.values, "args": tuple(args)}, origins)
    options = {**options, "env": (*(options.get("env") or ()), *variables)}
    return plan_job(options, catalog_file=catalog_file, recorded=layer)
