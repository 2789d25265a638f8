"""The job of a user's own batch script, which neuronctl or sbatch itself submits.

Sampling needs no change of the script: bash reads the file that BASH_ENV names before a script, and
sbatch passes the variable on. If the file is missing, bash says nothing.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import UsageError
from neuronctl.common.shell import join
from neuronctl.planning import plan
from neuronctl.request.job import OPTIONS
from neuronctl.request.job_file import configuration
from neuronctl.request.typed_options import options_layer
from neuronctl.scripts.header import Header, interpreter
from neuronctl.scripts.sbatch_line import read_line
from neuronctl.slurm.sbatch import outer_job, parse_submitted
from neuronctl.submission.existing_script import ExistingJob, read_existing
from neuronctl.submission.pipeline import JudgedJob
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
    """Return the job of the script that ``sbatch WORDS`` would submit, with further options.

    options: by long name; they override the script's. others: options that no script can have, for
    the message. stdin: the text of standard input. text: the script's, if it was read before.
    recorded: the request of a job that is submitted again; its --monitor and --idle then replace
    the configuration's.
    tell hears why the job is not sampled. Raises UsageError for options that do not apply to a
    script, and if sbatch would not return with a job.
    """
    typed = options_layer(options).values  # raises UsageError for an invalid value
    job = read_existing(words, stdin, text)
    sbatch_options = _sbatch_options(options, others)
    if sbatch_options:
        job = job.with_options(*sbatch_options)
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
    monitor = (configured if recorded is None else recorded).get("monitor")
    idle = typed.get("idle") or (recorded or {}).get("idle") or ""
    job = add_sampling(job, typed.get("monitor"), monitor, tell, idle=idle)
    catalog = load(catalog_file)
    cluster, _ = recognize_cluster(catalog, options.get("cluster") or configured.get("cluster"))
    job = _with_typed(replace(job, catalog=catalog, cluster=cluster), cluster, typed, tell)
    if recorded is not None and job.request.dependency:
        from neuronctl.submission.predecessors import refuse_unmeetable

        refuse_unmeetable(job.request.dependency)
    return job


def _with_typed(
    job: ExistingJob, cluster: Cluster, typed: Mapping[str, Any], tell: Notify
) -> ExistingJob:
    """Return the job with the options that sbatch lacks: a comment's parts, -p auto, --after."""
    if "field" in typed or "appl" in typed:
        request = replace(job.request, comment=None)
        parts = replace(request, field=typed.get("field"), appl=typed.get("appl"))
        comment = plan(parts, cluster).comment
        job = job if comment is None else job.with_options(f"--comment={comment}")
    if typed.get("partition") == "auto":
        from neuronctl.judgement.partitions import choose

        anywhere = plan(replace(job.request, partition="auto"), cluster)
        choice = choose(anywhere, job.catalog or load(), ask=True, batch_script=True)
        job = replace(job.with_options(f"--partition={choice.plan.partition.name}"), choice=choice)
    if typed.get("after") or typed.get("after_ok"):
        from neuronctl.submission.predecessors import wait_for_named

        predecessors = {name: typed.get(name, ()) for name in ("after", "after_ok")}
        dependency = wait_for_named(replace(job.request, **predecessors), tell).dependency
        job = job.with_options(f"--dependency={dependency}") if dependency else job
    return job


_NOT_SBATCHS = ("cluster", "field", "appl", "monitor", "idle", "after", "after-ok")
"""Options that sbatch lacks, and that apply to a batch script nevertheless."""


def _sbatch_options(options: Mapping[str, Any], others: Sequence[str]) -> Tuple[str, ...]:
    """Return the options that sbatch has too, as its arguments; raise UsageError for others."""
    words: List[str] = []
    inapplicable = list(others)
    for option in OPTIONS:
        value = options.get(option.long.replace("-", "_"))
        if value in (None, ()) or option.long in _NOT_SBATCHS:
            continue
        if option.group != "Slurm":
            inapplicable.append(f"--{option.long}")
        elif option.kind == "list":
            words += [f"--{text.lstrip('-')}" for text in value]
        elif option.is_flag:
            words.append(f"--{'' if value else 'no-'}{option.long}")
        elif (option.long, value) != ("partition", "auto"):  # not sbatch's: see _with_typed()
            words.append(f"--{option.long}={value}")
    if inapplicable:
        raise UsageError(
            f"{' and '.join(inapplicable)} cannot be applied to a batch script",
            "make it a job file first: neuronctl import SCRIPT -o job.yaml",
        )
    return tuple(words)


def add_sampling(
    job: ExistingJob,
    typed: Optional[bool],
    default: Optional[bool],
    tell: Notify,
    *,
    idle: str = "",
) -> ExistingJob:
    """Return the job with --monitor and --idle.

    typed: --monitor (True) or --no-monitor on the command line; None: neither, and ``default``
    decides. If the job cannot be sampled, raises UsageError for --idle or a typed --monitor;
    otherwise tells why.
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
    first_export = (header.value("export") or "ALL").split(",")[0]
    if "export-file" in header.options or first_export.upper() != "ALL":
        return "the sampler needs BASH_ENV, and --export does not pass it on; --export=ALL does"
    return ""


_ANSWERED = 5.0
"""Seconds within which a failed sbatch has surely submitted nothing.

If slurmctld has the request but does not answer, sbatch waits for MessageTimeout, by default 10 s.
"""


class Attempt:
    """The judgement and the record of a job that sbatch itself submits.

    command_line: the user's. tell: hears the findings. warn: hears about faults of the record.
    """

    def __init__(self, command_line: Sequence[str], tell: Notify, warn: Notify) -> None:
        self.stdin: Optional[bytes] = None  # the script, if it came from standard input
        self._command_line = command_line
        self._tell = tell
        self._warn = warn
        self._recording: Optional[Recording] = None
        self._began = time.monotonic()

    def begin(self, words: Sequence[str]) -> Mapping[str, str]:
        """Judge the script and write the intent; return variables that start a sampler, or {}."""
        line = read_line(words)
        if not line.submits:  # such as --help
            return {}
        text = self._read_stdin() if line.reads_stdin else None
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
            monitored = add_sampling(job, None, configuration().values.get("monitor"), self._tell)
            variables, job = monitored.variables, monitored
        draft = job.draft
        with contextlib.suppress(Exception):
            judged = self._judge(job)
            draft = judged.add_to_draft(draft)
            for finding in judged.findings:
                self._tell(f"{finding.severity} {finding.code}: {finding.message}")
        draft = replace(draft, command_line=tuple(self._command_line))
        self._recording = Recording(draft, self._warn, cluster=job.slurm_cluster)
        self._began = time.monotonic()
        return variables

    def _read_stdin(self) -> str:
        with open(0, "rb", closefd=False) as stream:
            self.stdin = stream.read()
        return self.stdin.decode("utf-8", "surrogateescape")

    def _judge(self, job: ExistingJob) -> JudgedJob:
        """Judge the job by the catalog's rules, without Slurm."""
        catalog = load()
        cluster, _ = recognize_cluster(catalog, configuration().values.get("cluster"))
        return replace(job, catalog=catalog, cluster=cluster, ask_slurm=False).judge()

    def heard(self, line: bytes) -> None:
        """Read a line of sbatch's output; the one with the job's id completes the record."""
        submitted = parse_submitted(line.decode("utf-8", "replace"))
        if submitted is not None and self._recording is not None:
            recording, self._recording = self._recording, None  # later lines are not about it
            recording.accepted(submitted)

    def ended(self, code: int) -> None:
        """Note that sbatch ended without a job; its message is only on the terminal."""
        if self._recording is not None and code != 0:
            how = f"sbatch ended with exit code {code}"
            if code < 0:
                how = f"sbatch was ended by signal {-code}"
            certain = code > 0 and time.monotonic() - self._began < _ANSWERED
            self._recording.failed(how, certain=certain)
