"""What submit, resubmit, generate, and salloc say of a job; how far submit and resubmit go."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Tuple

import click

from neuronctl.cli import job_output
from neuronctl.cli.say import notify, print_script, said_if_possible
from neuronctl.console import print_json
from neuronctl.errors import PolicyError, SlurmRefusedError, UsageError
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan
from neuronctl.planning.model import gpus_held
from neuronctl.request.job import Source
from neuronctl.shell import join
from neuronctl.words import counted

if TYPE_CHECKING:
    from neuronctl.gate.verdict import Verdict
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.submission.planned_job import JudgedJob
    from neuronctl.submission.transaction import Submission


@dataclass(frozen=True)
class SubmitMode:
    """How far to go with a job, and what to print of it."""

    dry_run: bool = False
    as_json: bool = False
    follow: bool = False
    wait: bool = False


def submission_options(function: Callable[..., int]) -> Callable[..., int]:
    """--dry-run, --json, --follow and --wait, as the argument ``mode``."""

    @functools.wraps(function)
    def call(*, dry_run: bool, as_json: bool, follow: bool, wait: bool, **rest: Any) -> int:
        if follow and (wait or as_json):
            raise UsageError(
                "--follow cannot be combined with --wait or --json", "keep one of them"
            )
        return function(mode=SubmitMode(dry_run, as_json, follow, wait), **rest)

    for name, help in (
        ("--wait", "Wait until the job ends, and say how it ended."),
        ("--follow", "Show states and log until the job ends."),
        ("--json", "Print JSON (schema neuronctl.submit/1)."),
        ("--dry-run", "Stop before sbatch; print the script."),
    ):
        parameter = "as_json" if name == "--json" else name[2:].replace("-", "_")
        call = click.option(name, parameter, is_flag=True, help=help)(call)
    return call


class TerminalReporter:
    """Says on the terminal what becomes of a job.

    before: the decisions of the job that is submitted again, where they may differ.
    """

    def __init__(
        self,
        mode: Optional[SubmitMode] = None,
        *,
        explain: bool = False,
        before: Optional[Sequence[Tuple[str, ...]]] = None,
    ) -> None:
        self.command_line = ("neuronctl", *sys.argv[1:])
        self._mode = mode or SubmitMode()
        self._explain = explain
        self._before = before

    def tell(self, message: str) -> None:
        """Say it on standard error."""
        notify(message)

    def judged(self, judged: JudgedJob) -> None:
        """Say what was found, and with ``--explain`` what was decided."""
        job_output.show_choice(judged.choice)
        if self._explain:
            # On standard error: the script may go into a file.
            job_output.print_decisions(judged.decisions, sys.stderr)
        conda = judged.plan.decision("conda")
        if conda is not None and self._mode.dry_run:
            notify(f"--conda {conda.value}: {conda.reason}")
        job_output.show_findings(judged)

    def refusal(
        self, draft: RecordDraft, judged: JudgedJob, by: Optional[SlurmRefusedError] = None
    ) -> PolicyError:
        """The error with the number of findings; with ``--json`` the data is printed."""
        if by is not None:
            notify(by.message)
            job_output.show_findings(judged)
        self._print_data(draft, judged)
        return judged.refusal("use --force to override")

    def refused(
        self, draft: RecordDraft, judged: Optional[JudgedJob], by: SlurmRefusedError
    ) -> None:
        """With ``--json``, print the data; sbatch's message is printed as the error."""
        from neuronctl.gate.verdict import REFUSED, Verdict

        self._print_data(draft, judged, verdict=Verdict(REFUSED, by.message))

    def ready(self, draft: RecordDraft, judged: Optional[JudgedJob]) -> None:
        """Say what is submitted and what would happen to it; with ``--dry-run`` print it."""
        if judged is not None and self._before is not None:
            from neuronctl.records.recorded import changed_decisions

            for name, before, after in changed_decisions(self._before, draft.decisions):
                notify(f"{name}: {before or 'none'} -> {after or 'none'}")
        if judged is not None:
            would = "would submit" if self._mode.dry_run else "submitting"
            where = f" to {draft.partition}" if draft.partition else ""
            notify(f"{would}{where}: {_summary(judged)}")
            job_output.show_verdict(judged)
        if not self._mode.dry_run:
            return
        if self._mode.as_json:
            self._print_data(draft, judged)
            return
        print_script(draft.script)
        if draft.sbatch:
            notify(f"the command is: {join(draft.sbatch)}")

    def submitted(self, draft: RecordDraft, judged: Optional[JudgedJob], done: Submission) -> None:
        """Print the job's id and its logs."""
        with said_if_possible(f"job {done.job_id} is submitted"):
            if self._mode.as_json:
                self._print_data(draft, judged, done)
            else:
                job_output.show_submission(done)

    def _print_data(
        self,
        draft: RecordDraft,
        judged: Optional[JudgedJob],
        done: Optional[Submission] = None,
        verdict: Optional[Verdict] = None,
    ) -> None:
        if self._mode.as_json:
            from neuronctl.cli.json_data import submission_data

            if verdict is None and judged is not None:
                verdict = judged.verdict
            print_json("neuronctl.submit/1", submission_data(draft, judged, done, verdict))


def watch(mode: SubmitMode, done: Optional[Submission]) -> int:
    """With --follow or --wait, wait for the job's end; returns the exit code."""
    if done is None or not (mode.follow or mode.wait):
        return 0
    from neuronctl.slurm.job_id import JobId

    job = JobId(done.job_id)
    if mode.follow:
        from neuronctl.cli.follow import follow

        return follow(job, done.record)
    from neuronctl.tracking.follow import wait

    return wait(job, done.record, notify)


def _summary(judged: JudgedJob) -> str:
    """``2 nodes x 2 GPUs, 1 task x 16 cores per node, at most 00:10:00``, and what starts."""
    plan = judged.plan
    launches = () if judged.existing_script else plan.launches
    gpus = f" x {counted(plan.gpus_per_node, 'GPU')}" if plan.gpus_per_node else ""
    held = gpus_held(plan) // plan.nodes
    if held > plan.gpus_per_node:
        gpus += f" ({held} allocated: --exclusive)"
    ranged = f"{plan.nodes} to {plan.most_nodes} nodes"
    parts = [(ranged if plan.most_nodes > plan.nodes else counted(plan.nodes, "node")) + gpus]
    tasks, cores = counted(plan.ntasks_per_node, "task"), counted(plan.cpus_per_task, "core")
    cores = "the cores that Slurm gives" if plan.request.cpus_per_task == 0 else cores
    each = plan.cluster.cores_per_gpu(plan.partition)
    # With --force there may be more GPUs than a node has, and cores for those it has only.
    by_gpu = each is not None and 0 < plan.gpus_per_node * each == plan.cores_per_node
    ratio = f" ({each} per GPU)" if by_gpu and _derived(plan, "cpus-per-task") else ""
    parts.append(f"{tasks} x {cores} per node{ratio}")
    memory = plan.decision("memory per node")
    if memory is not None:
        fraction = plan.cluster.policy.memory_fraction
        parts.append(f"{memory.value} per node ({fraction} x node memory / cores)")
    time = next((directive for directive in plan.directives if directive.option == "time"), None)
    if time is not None:
        remark = f" ({time.remark})" if time.remark and _derived(plan, "time") else ""
        parts.append(f"at most {time.value}{remark}")
    # What starts several times is always named.
    several = [launch.starts for launch in launches if launch.starts_several]
    once = [launch.starts for launch in launches if not launch.starts_several]
    if len(once) > 2:
        once[1:] = [f"and {len(once) - 1} more start once"]
    return "; ".join([", ".join(parts), *dict.fromkeys(several), *once])


def _derived(plan: JobPlan, name: str) -> bool:
    decision = plan.decision(name)
    return decision is not None and decision.source is Source.DERIVED
