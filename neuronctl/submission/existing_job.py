"""The job of somebody's own batch script: planned and judged as it is submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.loader import load
from neuronctl.catalog.local_cluster import local_cluster, recognise
from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.shell import join
from neuronctl.judgement.judgement import JudgeBy
from neuronctl.judgement.verdict import NOT_KNOWN, REFUSED, Verdict
from neuronctl.planning import plan
from neuronctl.request.job import OPTIONS, JobRequest, Origin, Source
from neuronctl.request.job_file import configuration
from neuronctl.request.typed_options import options_layer
from neuronctl.scripts.script_request import request_of_script
from neuronctl.slurm.sbatch import outer_job
from neuronctl.submission.existing_script import ExistingScript, read_existing
from neuronctl.submission.judged_job import JudgedJob
from neuronctl.submission.judged_script import judge_script
from neuronctl.submission.monitored_script import batch_shell_variables, monitored

if TYPE_CHECKING:
    from neuronctl.catalog.model import Catalog, Cluster
    from neuronctl.judgement.partition_choice import Choice
    from neuronctl.records.job_record import RecordDraft
    from neuronctl.submission.transaction import Notify


@dataclass(frozen=True)
class ExistingJob:
    """The job of an existing script, which sbatch gets by its own command line, without a key.

    choice: of its partition. ask_slurm: as of PlannedJob.
    """

    existing: ExistingScript
    catalog: Catalog
    cluster: Cluster
    choice: Optional[Choice] = None
    ask_slurm: bool = True

    @property
    def variables(self) -> Mapping[str, str]:
        return batch_shell_variables(self.existing)

    @property
    def slurm_cluster(self) -> Optional[str]:
        return self.existing.slurm_cluster

    @property
    def draft(self) -> RecordDraft:
        return self.existing.draft

    def script(self) -> str:
        """Return the script as it is."""
        return self.existing.text

    @property
    def request(self) -> JobRequest:
        """What the script asks for, sbatch's defaults included, each with its line or option."""
        script, default = self.existing, Origin(Source.DERIVED, "Slurm's default")
        request = request_of_script(script.header, script.name, self.cluster)
        return replace(
            request,
            job_name=script.job_name,
            output=script.output,
            chdir=script.chdir if script.header.value("chdir") else None,
            cluster=None,
            origins={**dict.fromkeys(JobRequest.__annotations__, default), **request.origins},
        )

    def judge(self) -> JudgedJob:
        """Judge it as it is submitted here and now; findings name their lines.

        Of a job for another Slurm cluster than this machine's, the script alone is judged.
        """
        script = self.existing
        here = self.slurm_cluster in (None, local_cluster())
        by = JudgeBy(
            self.catalog,
            ask_slurm=self.ask_slurm and here,
            snapshot=None if self.choice is None else self.choice.snapshot,
            of_script=True,
        )
        judged = judge_script(
            *(script.name, script.text, script.header, self.request if here else None),
            *(self.cluster, by),
            now=by.ask_slurm,
        )
        findings = []
        for found in judged.findings:
            line = f"{script.name}:{found.place.line}: " if found.place.line else ""
            findings.append(replace(found, message=line + found.message))
        verdict = judged.verdict
        if verdict is None and self.ask_slurm:
            why = "no plan could be made of its directives"
            why = why if here else f"the Slurm of {self.slurm_cluster} was not asked"
            refused = (Verdict(REFUSED, one.message, one.code) for one in findings if one.refuses)
            verdict = next(refused, Verdict(NOT_KNOWN, why))
        made = judged.plan
        if made is None:
            first = script.header.value("partition")  # of a heterogeneous job's first component
            request = JobRequest(script=script.name, launcher="srun", partition=first)
            made = plan(request, self.cluster)
        return JudgedJob(made, tuple(findings), verdict, self.choice, existing_script=True)

    def with_options(self, *options: str) -> ExistingJob:
        """Return the job with more of sbatch's options, over those that it has."""
        return replace(self, existing=self.existing.add_options(*options))


def existing_job(
    words: Sequence[str],
    options: Mapping[str, Any],
    *,
    tell: Notify,
    stdin: Optional[str] = None,
    text: Optional[str] = None,
    others: Sequence[str] = (),
    catalog_file: Optional[str] = None,
    recorded: Optional[Mapping[str, Any]] = None,
) -> ExistingJob:
    """The job of the script that ``sbatch WORDS`` would submit from here, with options over it.

    options: long names to values, as in options_layer(). others: further options that were given.
    stdin, text: as for read_existing(). recorded: whether to sample it if the options do not say;
    None: as configured. tell hears why it is not. Raises UsageError for what cannot be applied to a
    script, and where sbatch would not return with a job.
    """
    said = options_layer(options).values  # raises UsageError for a value that is none
    script, over = read_existing(words, stdin, text), _sbatch_options(options, others)
    script = script.add_options(*over) if over else script
    for name in ("wait", "test-only"):
        if name in script.header.options:
            raise UsageError(
                f"{script.name} is to be submitted with --{name}, which belongs on a command line",
                "leave it out, and use 'neuronctl submit --wait' or --dry-run",
            )
    if outer_job():
        tell(f"this is inside job {outer_job()}, whose SLURM_* variables are kept from the new job")
    if script.line.args and not script.reads_arguments:
        tell(f"warning: {script.name} reads no arguments, and {join(script.line.args)} is lost")
    configured = configuration().values
    otherwise = configured if recorded is None else recorded
    script = monitored(script, said.get("monitor"), otherwise.get("monitor"), tell)
    catalog = load(catalog_file)
    cluster, _ = recognise(catalog, options["cluster"] or configured.get("cluster"))
    job = ExistingJob(script, catalog, cluster)
    if options["field"] is not None or options["appl"] is not None:
        # The comment that the site wants made of them.
        parts = replace(job.request, comment=None, field=options["field"], appl=options["appl"])
        comment = plan(parts, cluster).comment
        job = job if comment is None else job.with_options(f"--comment={comment}")
    if options["partition"] == "auto":
        from neuronctl.judgement.partition_choice import choose

        made = plan(replace(job.request, partition="auto"), cluster)
        choice = choose(made, catalog, ask=True, of_script=True)
        job = job.with_options(f"--partition={choice.plan.partition.name}")
        job = replace(job, choice=choice)
    if said.get("after") or said.get("after_ok"):
        from neuronctl.submission.predecessors import wait_for_named  # here, as few jobs have one

        named = {name: said.get(name, ()) for name in ("after", "after_ok")}
        waiting = wait_for_named(replace(job.request, **named), tell).dependency
        job = job.with_options(f"--dependency={waiting}") if waiting else job
    if recorded is not None and job.request.dependency:
        from neuronctl.submission.predecessors import refuse_unmeetable

        refuse_unmeetable(job.request.dependency)
    return job


_NOT_SBATCHS = ("cluster", "field", "appl", "monitor", "after", "after-ok")
"""Options that are not sbatch's and mean something for a script all the same."""


def _sbatch_options(options: Mapping[str, Any], others: Sequence[str]) -> Tuple[str, ...]:
    """Return the options as words of sbatch's; ``-p auto`` is not among them.

    Raises UsageError for those that shape a script of neuronctl's own.
    """
    words: List[str] = []
    shaping = list(others)
    for option in OPTIONS:
        value = options.get(option.long.replace("-", "_"))
        if value in (None, ()) or option.long in _NOT_SBATCHS:
            continue
        if option.group != "Slurm":
            shaping.append(f"--{option.long}")
        elif option.kind == "list":
            words += [f"--{text.lstrip('-')}" for text in value]
        elif option.is_flag:
            words.append(f"--{'' if value else 'no-'}{option.long}")
        elif (option.long, value) != ("partition", "auto"):
            words.append(f"--{option.long}={value}")
    if shaping:
        raise UsageError(
            f"{' and '.join(shaping)} cannot be applied to a batch script",
            "make it a job file first: neuronctl import SCRIPT -o job.yaml",
        )
    return tuple(words)
