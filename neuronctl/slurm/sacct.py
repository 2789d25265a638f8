"""sacct: jobs that slurmctld no longer knows, and how their steps ended."""

from __future__ import annotations

import functools
import re
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import SlurmError
from neuronctl.common.words import clipped
from neuronctl.slurm import fields
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import CANCELLED
from neuronctl.slurm.process import Result, failure, run, unreachable, whole_output

_FIRST = 86400
"""The earliest time to ask for, in epoch seconds: Slurm takes 0 for none, and begins today."""

_LAST = "2100-01-01T00:00:00"
"""The latest time to ask for: by default, sacct omits what began after now, and clocks differ."""

SACCT = ("sacct", "--noheader", "--parsable2", f"--delimiter={fields.SEPARATOR}")
"""How every call of sacct begins."""

# The beginning of a row: the id of a job, and its own job id.
_ROW = rf"\d[^{fields.SEPARATOR}]*{fields.SEPARATOR}\d+{fields.SEPARATOR}"

# sacct's messages if the cluster has no accounting, and if the database does not answer.
_OFF = r"(?i)accounting storage is disabled|not running accounting"
_DATABASE = r"(?i)slurmdbd|talking to the database|persist|dbd"


@dataclass(frozen=True)
class AccountingJob:
    """One allocation in the accounting database (the latest run of a requeued job).

    Times are seconds since the epoch, durations are seconds, None: unknown. state: as printed,
    without the ``by UID`` of CANCELLED, which is ``cancelled_by``. gpus: of the whole job, or what
    it requested if it never began.
    """

    # Free text comes last.
    id: JobId = fields.column("JobID", JobId.read)
    job_id: int = fields.column("JobIDRaw", fields.count)
    user: str = fields.column("User")
    partition: str = fields.column("Partition")
    qos: str = fields.column("QOS")
    state: str = fields.column("State")
    exit: Optional[fields.ExitCode] = fields.column("ExitCode", fields.ExitCode.parse)
    submit: Optional[int] = fields.column("Submit", fields.parse_timestamp)
    start: Optional[int] = fields.column("Start", fields.parse_timestamp)
    end: Optional[int] = fields.column("End", fields.parse_timestamp)
    elapsed: Optional[int] = fields.column("ElapsedRaw", fields.parse_count)
    time_limit: Optional[int] = fields.column("TimelimitRaw", fields.parse_seconds)
    nodes: Optional[int] = fields.column("NNodes", fields.parse_count)
    node_list: str = fields.column("NodeList", lambda text: text.replace("None assigned", ""))
    gpus: Optional[int] = fields.column("AllocTRES", fields.parse_tres_gpus)
    requested: Optional[int] = fields.column("ReqTRES", fields.parse_tres_gpus, default=None)
    work_dir: str = fields.column("WorkDir", default="")
    submit_line: str = fields.column("SubmitLine", default="")
    name: str = fields.column("JobName", default="")
    cancelled_by: Optional[int] = None

    @property
    def mark(self) -> str:
        """Return the mark given to sbatch, or ""."""
        return fields.submission_mark(self.submit_line)


_COLUMNS = fields.columns_of(AccountingJob)


@dataclass(frozen=True)
class Accounting:
    """sacct's answer.

    off: why there is none (accounting is disabled, the database is down), otherwise "". disabled:
    the cluster has no accounting.
    """

    jobs: Tuple[AccountingJob, ...] = ()
    off: str = ""
    disabled: bool = False


def parse_sacct(text: str) -> List[AccountingJob]:
    """Parse sacct's rows; any other line continues the text of the previous row."""
    lines: List[str] = []
    begins_row = re.compile(_ROW).match  # there may be 50,000 lines
    for line in text.split("\n"):
        if begins_row(line):
            lines.append(line)
        elif lines and line:
            lines[-1] += "\n" + line
    rows = (line.split(fields.SEPARATOR, len(_COLUMNS) - 1) for line in lines)
    return [_make_job(row) for row in fields.read_rows(rows, _COLUMNS)]


def _make_job(row: Dict[str, Any]) -> AccountingJob:
    """Return the job of a row, with the values that two columns have together."""
    cancelled = re.fullmatch(r"CANCELLED by (?P<uid>[0-9]{1,10})", row["state"])
    if cancelled:
        row.update(state=CANCELLED, cancelled_by=int(cancelled["uid"]))
    if row["gpus"] is None:
        row["gpus"] = row["requested"]
    return AccountingJob(**row)


def sacct(
    job_ids: Sequence[JobId] = (),
    *,
    user: Optional[str] = None,
    since: Optional[int] = None,
    duplicates: bool = False,
) -> Accounting:
    """Query the accounting database; jobs that it does not know (yet) are missing.

    job_ids: only these jobs. user, since (epoch seconds): that user's jobs since then. duplicates:
    include the runs before a requeue, and other jobs that had the same job id. If accounting is
    disabled or its database is down, that is an answer, not an error; if sacct does not exist or
    does not respond, SlurmUnavailableError is raised.
    """
    argv = [*SACCT, "--allocations", f"--format={','.join(fields.names_of(_COLUMNS))}"]
    if duplicates:
        argv.append("--duplicates")
    if job_ids:
        argv.append("--jobs=" + ",".join(dict.fromkeys(job.job_or_task for job in job_ids)))
    if user is not None:
        argv.append("--user=" + user)
    begin = None if since is None else max(_FIRST, since)
    result = run([*argv, *_between(begin, None)])
    if begin is not None and _TOO_WIDE in result.stderr:
        tomorrow = int(time.time()) + 86400  # in case this clock lags
        return Accounting(tuple(_ask_in_parts(argv, begin, tomorrow)))
    return _read_answer(result)


def _read_answer(result: Result) -> Accounting:
    """Return the jobs in sacct's answer, or why there are none; raise SlurmError."""
    if result.returncode == 0:
        jobs = tuple(parse_sacct(whole_output(result)))
        message = "" if jobs else clipped(" ".join(result.stdout.split()), 200)
        return Accounting(jobs, message and f"sacct lists no jobs, and says: {message}")
    if re.search(_OFF, result.stderr):
        return Accounting(off="accounting is disabled on this cluster", disabled=True)
    if re.search(_DATABASE, result.stderr) or unreachable(result.words):
        return Accounting(off="cannot reach the accounting database (slurmdbd)")
    raise failure(result)


_TOO_WIDE = "Too wide of a date range"
"""slurmdbd's message if the period is longer than its MaxQueryTimeRange."""


def _between(begin: Optional[int], end: Optional[int]) -> List[str]:
    """Return the options for a period. begin: None: sacct's default. end: None: no end."""
    time_format = "%Y-%m-%dT%H:%M:%S"
    last = _LAST if end is None else time.strftime(time_format, time.gmtime(end))
    if begin is None:
        return [f"--endtime={last}"]
    return [time.strftime(f"--starttime={time_format}", time.gmtime(begin)), f"--endtime={last}"]


def _ask_in_parts(argv: Sequence[str], begin: int, end: int) -> List[AccountingJob]:
    """Query a period in as many parts as slurmdbd requires."""
    result = run([*argv, *_between(begin, end)])
    if result.returncode == 0:
        return parse_sacct(whole_output(result))
    if _TOO_WIDE not in result.stderr or end - begin < 3600:  # shorter periods do not help
        raise failure(result)
    middle = (begin + end) // 2
    jobs = [*_ask_in_parts(argv, begin, middle), *_ask_in_parts(argv, middle, end)]
    # A job that ran in both parts is in both answers.
    return list({(job.id, job.job_id, job.submit, job.start): job for job in jobs}.values())


def sacct_logs(job: JobId) -> Optional[Tuple[str, str]]:
    """Ask sacct for the files of a job's output and errors; None: it does not show them.

    sacct shows them since Slurm 24.05. A path may be relative to the job's directory. Raises
    SlurmUnavailableError.
    """
    options = ["--allocations", "--expand-patterns", "--format=StdOut,StdErr"]
    result = run([*SACCT, *options, f"--jobs={job.job_or_task}"])
    paths = result.stdout.partition("\n")[0].split(fields.SEPARATOR)
    if result.returncode != 0 or len(paths) != 2 or not paths[0]:
        return None
    return paths[0], paths[1] or paths[0]


def _parse_cpu_time(text: str) -> Optional[int]:
    return fields.parse_seconds(text.partition(".")[0])  # 01:02:03.456


@dataclass(frozen=True)
class StepEnd:
    """How one step ended, or the job itself; None: unknown.

    name: ``batch``, ``0``, …; "" for the job itself. exit: the job itself has the worst exit code
    of its steps. memory: of its largest task, as sampled, in bytes. requested: memory of the job,
    in bytes. cpu: CPU time, in seconds. elapsed: in seconds.
    """

    name: str = fields.column("JobID", lambda text: text.partition(".")[2])
    state: str = fields.column("State", lambda text: text.split(" ")[0])
    exit: Optional[fields.ExitCode] = fields.column("ExitCode", fields.ExitCode.parse)
    memory: Optional[float] = fields.column("MaxRSS", fields.parse_size)
    requested: Optional[float] = fields.column("ReqMem", fields.parse_size)
    cpu: Optional[int] = fields.column("TotalCPU", _parse_cpu_time)
    cores: Optional[int] = fields.column("NCPUS", fields.count)
    elapsed: Optional[int] = fields.column("ElapsedRaw", fields.count)

    @property
    def cores_busy(self) -> Optional[float]:
        """Return the average number of cores in use."""
        return self.cpu / self.elapsed if self.cpu and self.elapsed else None


_STEP_COLUMNS = fields.columns_of(StepEnd)
_STEP_NAMES = (*fields.names_of(_STEP_COLUMNS), "DerivedExitCode")


def ask_steps(jobs: Sequence[JobId]) -> Dict[str, Tuple[StepEnd, ...]]:
    """Ask sacct about jobs; return their steps by id, or nothing without an answer."""
    ids = ",".join(dict.fromkeys(job.job_or_task for job in jobs))
    try:
        result = run([*SACCT, f"--format={','.join(_STEP_NAMES)}", f"--jobs={ids}"])
    except SlurmError:
        return {}
    return parse_steps(result.stdout) if result.returncode == 0 else {}


def parse_steps(text: str) -> Dict[str, Tuple[StepEnd, ...]]:
    """Return sacct's rows by job id; the first row of a job is its own."""
    by_job: Dict[str, List[StepEnd]] = {}
    for line in text.splitlines():
        row = line.split(fields.SEPARATOR)
        if len(row) == len(_STEP_NAMES):
            texts = dict(zip(_STEP_NAMES, row))
            step = StepEnd(**fields.read_columns(_STEP_COLUMNS, texts))
            if not step.name:
                step = replace(step, exit=fields.ExitCode.parse(texts["DerivedExitCode"]))
            by_job.setdefault(row[0].partition(".")[0], []).append(step)
    return {job: tuple(steps) for job, steps in by_job.items()}


@functools.cache
def _steps_by_task(job: int) -> Dict[str, Tuple[StepEnd, ...]]:
    """Ask sacct once about the steps of a job, or of all tasks of an array."""
    return ask_steps([JobId(job)])


def read_steps(job: JobId) -> Tuple[StepEnd, ...]:
    """Return the steps of a job or an array task; () without an answer from sacct."""
    return _steps_by_task(job.job).get(str(job), ())


def usage_by_job(steps: Mapping[str, Sequence[StepEnd]]) -> Dict[JobId, StepEnd]:
    """Return each job's own row, with the memory of the largest task of all its steps.

    Accounting does not record the total of all tasks.
    """
    usage = {}
    for name, rows in steps.items():
        job = JobId.read(name)
        if job is not None:
            sizes = [row.memory for row in rows if row.memory is not None]
            usage[job] = replace(rows[0], memory=max(sizes, default=None))  # its own row
    return usage
