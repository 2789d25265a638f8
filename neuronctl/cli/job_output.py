"""What generate, submit, resubmit, salloc, and run report about a job."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Set, TextIO, Tuple

from neuronctl.cli.say import drop_output, notify, print_script, say
from neuronctl.common.console import Column, print_json, print_line, print_table, printable
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import PolicyError, SlurmRefusedError, UsageError
from neuronctl.common.files import write_whole
from neuronctl.common.shell import join
from neuronctl.common.words import counted
from neuronctl.judgement.verdict import REFUSED, SLURM, Verdict
from neuronctl.submission.pipeline import Reporter

if TYPE_CHECKING:
    from neuronctl.judgement.partitions import Candidate, Choice
    from neuronctl.planning.job_plan import Launch
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.submission.pipeline import JudgedJob
    from neuronctl.submission.transaction import Submission


@dataclass(frozen=True)
class SubmitMode:
    """How far to go with a job, and what to print. key: the value of --key, "" without it."""

    dry_run: bool = False
    as_json: bool = False
    follow: bool = False
    wait: bool = False
    key: str = ""


class TerminalReporter(Reporter):
    """Reports a submission on the terminal.

    before: the draft of the job that is being resubmitted; changes against it are shown.
    """

    def __init__(
        self,
        mode: Optional[SubmitMode] = None,
        *,
        explain: bool = False,
        before: Optional[RecordDraft] = None,
    ) -> None:
        self.command_line = ("neuronctl", *sys.argv[1:])
        self._mode = mode or SubmitMode()
        self._explain = explain
        self._before = before
        self._shown: Set[str] = set()

    def tell(self, message: str) -> None:
        """Print a message on standard error."""
        notify(message)

    def judged(self, judged: JudgedJob) -> None:
        """Print the findings; with ``--explain`` also the plan's values."""
        show_choice(judged.choice)
        if self._explain:
            # Standard output is for the script, which may go into a file.
            print_decisions(judged.decisions, sys.stderr)
        conda = judged.plan.decision("conda")
        if conda is not None and self._mode.dry_run:
            notify(f"--conda {conda.value}: {conda.reason}")
        show_findings(judged, self._shown)

    def refused(self, draft: RecordDraft, judged: JudgedJob) -> PolicyError:
        """Return the error with the number of findings; with ``--json`` print the data."""
        self._print_data(draft, judged)
        return judged.refusal("use --force to override")

    def slurm_refused(
        self, draft: RecordDraft, judged: Optional[JudgedJob], error: SlurmRefusedError
    ) -> None:
        """With ``--json``, print the data; main prints the message as the error."""
        self._print_data(draft, judged, verdict=Verdict(REFUSED, error.message, judged_by=SLURM))

    def submitting(self, draft: RecordDraft, judged: Optional[JudgedJob]) -> None:
        """Say what is submitted and what would happen; with ``--dry-run`` print the script."""
        if judged is not None:  # a recorded script is submitted again without a judgement
            if self._before is not None:
                from neuronctl.records.found_records import changed_values

                for name, old, new in changed_values(self._before, draft, code=False):
                    notify(f"{name}: {old or 'none'} -> {new or 'none'}")
            action = "would submit" if self._mode.dry_run else "submitting"
            target = f" to {draft.partition}" if draft.partition else ""
            notify(f"{action}{target}: {summary(judged)}")
            show_verdict(judged)
        if not self._mode.dry_run:
            return
        if self._mode.as_json:
            self._print_data(draft, judged)
            return
        print_script(draft.script)
        if draft.sbatch:
            notify(f"the command is: {join(draft.sbatch)}")

    def submitted(self, draft: RecordDraft, judged: Optional[JudgedJob], done: Submission) -> None:
        """Print the job's id and logs; a failure to print does not undo the submission."""
        try:
            if self._mode.as_json:
                self._print_data(draft, judged, done)
            else:
                show_submission(done, following=self._mode.follow)
            sys.stdout.flush()
        except OSError as error:
            drop_output()
            if not isinstance(error, BrokenPipeError):
                problem = f"cannot write standard output: {error.strerror}"
                notify(f"job {done.job_id} is submitted; {problem}")

    def _print_data(
        self,
        draft: RecordDraft,
        judged: Optional[JudgedJob],
        done: Optional[Submission] = None,
        verdict: Optional[Verdict] = None,
    ) -> None:
        """With ``--json``, print the data. verdict: replaces the one of ``judged``."""
        if self._mode.as_json:
            from neuronctl.cli.json_data import submission_data

            judged_verdict = None if judged is None else judged.verdict
            data = submission_data(draft, judged, done, verdict or judged_verdict)
            print_json("neuronctl.submit/2", data)


def show_choice(choice: Optional[Choice]) -> None:
    """Print the partition that ``-p auto`` takes, why, and why not the others."""
    candidates = () if choice is None else choice.candidates  # the best first
    for candidate in candidates:
        if candidate.fits and candidate is candidates[0]:
            notify(f"-p auto takes {_candidate_words(candidate)}")
        elif candidate.fits:
            say(f"  next best: {_candidate_words(candidate)}")
        elif not candidate.is_absent:  # of one that this Slurm lacks, say nothing
            say(f"  excluded: {candidate.name}: {candidate.exclusion}")


def _candidate_words(candidate: Candidate) -> str:
    if not candidate.verdict.by_slurm:
        return f"{candidate.name} (by the catalog alone)"
    return f"{candidate.name}: {candidate.verdict}"


def show_findings(job: JudgedJob, shown: Set[str]) -> None:
    """Print the warnings and findings, without the findings that the verdict reports.

    shown: the messages about the user or the hour that were printed for other jobs. They are not
    repeated, and new ones are added.
    """
    notify(*job.warnings)
    for finding in job.findings:
        is_in_verdict = finding.waits
        if is_in_verdict or finding.message in shown:
            continue
        from neuronctl.cli.korean import in_language
        from neuronctl.rules.base import Trait

        if finding.has(Trait.ONLY_NOW):
            shown.add(finding.message)
        translated = in_language(finding, sys.stderr)
        lines = [f"{translated.severity} {translated.code}: {printable(translated.message)}"]
        if translated.hint:
            lines.append(f"hint: {translated.hint}")
        if translated.source:
            lines.append(f"from: {translated.source}")
        notify("\n  ".join(lines))
    # Of a job with errors, no verdict is printed, which would say who judged it.
    if job.errors and job.verdict is not None and not job.verdict.by_slurm:
        notify(f"judged by {job.verdict.judged_by}")


def print_decisions(decisions: Sequence[Tuple[str, ...]], file: TextIO) -> None:
    """Print a table of values, each with its source and the reason for it."""
    columns = [Column("VALUE", no_wrap=True), Column("IS"), Column("BECAUSE")]
    rows = [
        [name, value, ": ".join(filter(None, (source, why)))]
        for name, value, source, why in decisions
    ]
    print_table(columns, rows, file=file)


def show_verdict(job: Optional[JudgedJob]) -> None:
    """Print what would happen to the job if it were submitted now."""
    if job is None or job.verdict is None:
        return
    if job.errors:  # submitted with --force; the findings have said why Slurm may refuse it
        notify("forced: Slurm may refuse the job, or accept it and never start it")
        return
    notify(str(job.verdict))
    sources = (finding.source for finding in job.findings if finding.waits and finding.source)
    for source in dict.fromkeys(sources):
        say(f"  from: {source}")


def show_submission(submission: Submission, *, following: bool = False) -> None:
    """Print the job's id and logs. following: whether --follow shows its log next."""
    target = f" to {submission.partition}" if submission.partition else ""
    print_line(f"Submitted batch job {submission.job_id}{target}")
    print_line(f"  log     {submission.output}")
    if submission.error != submission.output:
        print_line(f"  errors  {submission.error}")
    if following:
        commands = f"neuronctl why {submission.job_id}, neuronctl cancel {submission.job_id}"
        print_line(f"  Ctrl-C stops following, not the job; elsewhere: {commands}")
        return
    # An array has no single log: each task has its own.
    command = "status --watch" if submission.is_array else "logs -f"
    print_line(f"  follow  neuronctl {command} {submission.job_id}")


def summary(judged: JudgedJob) -> str:
    """Return ``2 nodes x 2 GPUs, 1 task x 16 cores per node, at most 00:10:00`` and what starts."""
    plan = judged.plan
    is_range = plan.most_nodes > plan.nodes
    nodes = f"{plan.nodes} to {plan.most_nodes} nodes" if is_range else counted(plan.nodes, "node")
    gpus = f" x {counted(plan.gpus_per_node, 'GPU')}" if plan.gpus_per_node else ""
    slurm_decides = plan.request.cpus_per_task == 0
    cores = "the cores that Slurm gives" if slurm_decides else counted(plan.cpus_per_task, "core")
    tasks = counted(plan.ntasks_per_node, "task")
    parts = [f"{nodes}{gpus}", f"{tasks} x {cores} per node"]
    memory = plan.decision("memory per node")
    if memory is not None:
        parts.append(f"{memory.value} per node")
    time = next((directive for directive in plan.directives if directive.option == "time"), None)
    if time is not None:
        remark = f" ({time.remark})" if time.remark else ""
        parts.append(f"at most {time.value}{remark}")
    runs = plan.decision("until-done")
    if runs is not None:
        parts.append(runs.value)
    # Of somebody's own script, the plan does not know what it starts.
    launches = () if judged.existing_script else plan.launches
    return "; ".join([", ".join(parts), *_start_words(launches)])


_MOST_STARTS = 4
"""The most lines about the programs of a job with steps."""


def _start_words(launches: Sequence[Launch]) -> List[str]:
    """Return what starts, those that start several processes first: ``2 times: python a.py``."""
    by_importance = sorted(launches, key=lambda launch: not launch.starts_several)
    counts = Counter(launch.starts for launch in by_importance)
    words = [text if count == 1 else f"{count} times: {text}" for text, count in counts.items()]
    if len(words) <= _MOST_STARTS:
        return words
    named = words[: _MOST_STARTS - 1]
    return [*named, f"and {len(words) - len(named)} more"]


def write_page(file: str, template: str, **values: Any) -> None:
    """Write a page from a shipped template, readable only by its user, and print its name."""
    from neuronctl.rendering.template_environment import render_page

    write_text(file, render_page(template, **values), force=True)
    notify(f"wrote {file}: open it in a browser")


def write_text(path: str, text: str, *, force: bool) -> None:
    """Write a text to a file that only its user can read; replace one only with ``force``.

    A full disk leaves the old file unchanged.
    """
    if not path:
        raise UsageError("the file name is empty", "name a file, or omit --write")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UsageError(f"'{path}' exists and is not a regular file", "name another file")
    if os.path.isfile(path) and not force:
        raise UsageError(f"'{path}' already exists", "use --force to overwrite it")
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be written: {error.strerror}") from None
