"""The job of somebody's own batch script: judged, sampled with --monitor, and recorded.

Its samples need no change of the script: bash reads the file that BASH_ENV names before a script,
and sbatch passes the variable on. If the file is missing, bash says nothing.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.catalog.loader import load, recognise
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import UsageError
from neuronctl.common.shell import join
from neuronctl.planning import plan
from neuronctl.records.job_record import RecordDraft
from neuronctl.request.job import OPTIONS
from neuronctl.request.job_file import configuration
from neuronctl.request.typed_options import options_layer
from neuronctl.scripts.header import Header, interpreter
from neuronctl.scripts.sbatch_line import read_line
from neuronctl.slurm.sbatch import outer_job, parse_submitted
from neuronctl.submission.existing_script import ExistingJob, read_existing
from neuronctl.submission.transaction import Notify, Recording


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
    """Return the job of the script that ``sbatch WORDS`` would submit, with options over it.

    options: long names to values, as in options_layer(). others: further options that were given.
    stdin, text: as for read_existing(). recorded: whether to sample it if the options do not say;
    None: as configured. tell hears why it is not. Raises UsageError for what cannot be applied to a
    script, and where sbatch would not return with a job.
    """
    typed = options_layer(options).values  # raises UsageError for an invalid value
    job = read_existing(words, stdin, text)
    over = _sbatch_options(options, others)
    if over:
        job = job.with_options(*over)
    for name in ("wait", "test-only"):
        if name in job.header.options:
            raise UsageError(
                f"{job.name} is to be submitted with --{name}, which belongs on a command line",
                "leave it out, and use 'neuronctl submit --wait' or --dry-run",
            )

    if outer_job():
        tell(f"this is inside job {outer_job()}, whose SLURM_* variables are kept from the new job")
    if job.line.args and not job.reads_arguments:
        tell(f"warning: {job.name} reads no arguments, and {join(job.line.args)} is lost")

    configured = configuration().values
    otherwise = configured if recorded is None else recorded
    idle = typed.get("idle") or (recorded or {}).get("idle") or ""
    job = sampled(job, typed.get("monitor"), otherwise.get("monitor"), tell, idle=idle)
    catalog = load(catalog_file)
    cluster, _ = recognise(catalog, options.get("cluster") or configured.get("cluster"))
    job = _with_typed(replace(job, catalog=catalog, cluster=cluster), cluster, typed, tell)
    if recorded is not None and job.request.dependency:
        from neuronctl.submission.predecessors import refuse_unmeetable

        refuse_unmeetable(job.request.dependency)
    return job


def _with_typed(
    job: ExistingJob, cluster: Cluster, given: Mapping[str, Any], tell: Notify
) -> ExistingJob:
    """Return the job with the site's comment, the partition of -p auto, and the --after jobs."""
    if "field" in given or "appl" in given:
        # The site requires a comment made of them.
        parts = replace(job.request, comment=None, field=given.get("field"), appl=given.get("appl"))
        comment = plan(parts, cluster).comment
        job = job if comment is None else job.with_options(f"--comment={comment}")
    if given.get("partition") == "auto":
        from neuronctl.judgement.partitions import choose

        anywhere = plan(replace(job.request, partition="auto"), cluster)
        choice = choose(anywhere, job.catalog or load(), ask=True, batch_script=True)
        job = job.with_options(f"--partition={choice.plan.partition.name}")
        job = replace(job, choice=choice)
    if given.get("after") or given.get("after_ok"):
        from neuronctl.submission.predecessors import wait_for_named

        named = {name: given.get(name, ()) for name in ("after", "after_ok")}
        waiting = wait_for_named(replace(job.request, **named), tell).dependency
        job = job.with_options(f"--dependency={waiting}") if waiting else job
    return job


_NOT_SBATCHS = ("cluster", "field", "appl", "monitor", "idle", "after", "after-ok")
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


def sampled(
    job: ExistingJob,
    typed: Optional[bool],
    default: Optional[bool],
    tell: Notify,
    *,
    idle: str = "",
) -> ExistingJob:
    """Return the job as --monitor samples it, and as --idle ends it.

    typed: --monitor or --no-monitor on the command line; default: what holds without either. If
    nothing can be sampled, raises UsageError for a typed option; otherwise tells why.
    """
    monitor = bool(default if typed is None else typed)
    why = _why_unsampled(job.header) if monitor or idle else ""
    if why and typed:
        raise UsageError(
            f"--monitor cannot sample this job: {why}",
            "leave out --monitor; 'neuronctl report' then has what accounting knows",
        )
    if why and idle:
        raise UsageError(f"--idle cannot watch this job: {why}", "leave out --idle")
    if why:
        tell(f"the job is not sampled: {why}")
    return replace(job, monitor=monitor and not why, idle=idle)


def _why_unsampled(header: Header) -> str:
    """Return why nothing can start in the batch shell before the script, or ""."""
    if interpreter(header.shebang) != "bash" or re.search(r"\s-\S*p", header.shebang):
        # --posix and -p ignore BASH_ENV.
        return f"only bash can start the sampler, and not as '{header.shebang}'"
    if header.components > 1:
        return "a heterogeneous job is not sampled"
    passed = (header.value("export") or "ALL").split(",")[0].upper() == "ALL"
    if "export-file" in header.options or not passed:
        return "the sampler needs BASH_ENV, and --export does not pass it on; --export=ALL does"
    return ""


_ANSWERED = 5.0
"""Seconds within which an error is slurmctld's answer, or it was never reached.

A request that it received and did not answer takes Slurm's MessageTimeout, 10 s by default.
"""


class Attempt:
    """The judgement and the record of a job that sbatch itself submits.

    stdin: the script, if it was read from standard input.
    """

    def __init__(self, command_line: Sequence[str], tell: Notify, warn: Notify) -> None:
        """command_line: what the user called. tell hears of the findings, warn of the record."""
        self.stdin: Optional[bytes] = None
        self._command_line = command_line
        self._tell = tell
        self._warn = warn
        self._recording: Optional[Recording] = None
        self._began = time.monotonic()

    def begin(self, words: Sequence[str]) -> Mapping[str, str]:
        """Judge the script, tell the findings, and write the intent to submit it.

        Returns the variables with which sbatch passes the sampler on.
        """
        line = read_line(words)
        if not line.submits:
            return {}
        text = None
        if line.reads_stdin:
            with open(0, "rb", closefd=False) as stream:
                self.stdin = stream.read()
            text = self.stdin.decode("utf-8", "surrogateescape")
        job = read_existing(words, text)
        if "test-only" in job.header.options:
            return {}
        if outer_job():
            self._tell(
                f"this is inside job {outer_job()}, whose SLURM_* variables reach the new job, "
                "where srun may refuse them; 'neuronctl submit' keeps them from it"
            )

        # The job has a record, whatever fails here.
        variables: Mapping[str, str] = {}
        with contextlib.suppress(Exception):
            monitored = sampled(job, None, configuration().values.get("monitor"), self._tell)
            variables, job = monitored.variables, monitored
        draft = job.draft
        with contextlib.suppress(Exception):
            draft = self._judge(job)
        draft = replace(draft, command_line=tuple(self._command_line))
        self._recording = Recording(draft, self._warn, cluster=job.slurm_cluster)
        self._began = time.monotonic()
        return variables

    def _judge(self, job: ExistingJob) -> RecordDraft:
        """Tell the findings of the catalog's rules, and return the job's record with them."""
        catalog = load()
        cluster, _ = recognise(catalog, configuration().values.get("cluster"))
        judged = replace(job, catalog=catalog, cluster=cluster, ask_slurm=False).judge()
        for finding in judged.findings:
            self._tell(f"{finding.severity} {finding.code}: {finding.message}")
        return judged.recorded(job.draft)

    def heard(self, line: bytes) -> None:
        """Read a line of sbatch's output; the one with the job's id completes the record."""
        submitted = parse_submitted(line.decode("utf-8", "replace"))
        if submitted is not None and self._recording is not None:
            recording, self._recording = self._recording, None  # later lines are not about it
            recording.accepted(submitted)

    def ended(self, code: int) -> None:
        """Note that sbatch ended without a job; its message is only on the terminal."""
        if self._recording is not None and code != 0:
            by_signal = f"sbatch was ended by signal {-code}"
            how = by_signal if code < 0 else f"sbatch ended with exit code {code}"
            certain = code > 0 and time.monotonic() - self._began < _ANSWERED
            self._recording.failed(how, certain=certain)
