"""scancel and scontrol: cancel jobs, and show slurmctld's details of a job."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.units import first_host, hosts
from neuronctl.slurm.fields import ExitCode, count, parse_gres_gpus
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.own_queue import forget
from neuronctl.slurm.process import answer, failure, run

# Keys whose value is the rest of the line, including spaces.
_WHOLE_LINE = ("StdErr", "StdIn", "StdOut", "WorkDir", "Command", "Comment", "JobName", "Reason")


@dataclass(frozen=True)
class ControlJob:
    """What ``scontrol show job`` reports about one job.

    Paths are resolved, "" if there is none; ``%N`` stays until the job has nodes. ``exit`` is 0:0
    until the job has ended.
    """

    id: JobId
    job_id: int
    state: str
    reason: str
    exit: Optional[ExitCode]
    node_list: str
    stdout: str
    stderr: str


def parse_show_job(text: str) -> List[ControlJob]:
    """Parse the blocks of ``scontrol show job`` (an array has several)."""
    return [
        job
        for block in re.split(r"\n\s*\n", text)
        if (job := _block(_attributes(block))) is not None
    ]


def _attributes(block: str) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for line in block.splitlines():
        line = line.strip()
        while line:
            match = re.match(r"([A-Za-z][\w/:]*)=", line)
            if match is None:
                break
            key, rest = match[1], line[match.end() :]
            if key in _WHOLE_LINE:
                reason = re.match(r"(.*?) (Dependency=.*)$", rest) if key == "Reason" else None
                value, line = (reason[1], reason[2]) if reason else (rest, "")
            else:
                value, _, line = rest.partition(" ")
            found.setdefault(key, value)
            line = line.strip()
    return found


def _block(found: Dict[str, str]) -> Optional[ControlJob]:
    own, array, task = (count(found.get(key, "")) for key in ("JobId", "ArrayJobId", "ArrayTaskId"))
    het, offset = (count(found.get(key, "")) for key in ("HetJobId", "HetJobOffset"))
    if own is None:
        return None
    id = JobId(own)
    if array is not None and task is not None:
        id = JobId(array, task=task)
    elif array is not None:
        id = JobId.read(f"{array}_[{found.get('ArrayTaskId')}]") or id
    elif het is not None and offset is not None:
        id = JobId(het, het=offset)
    reason = found.get("Reason", "")
    node_list = found.get("NodeList", "").replace("(null)", "")

    def path(name: str) -> str:
        # Slurm resolves the whole pattern except the first node's name.
        return found.get(name, "").replace("%N", first_host(node_list) or "%N")

    return ControlJob(
        id=id,
        job_id=own,
        state=found.get("JobState", ""),
        reason="" if reason == "None" else reason,
        exit=ExitCode.parse(found.get("ExitCode", "")),
        node_list=node_list,
        stdout=path("StdOut"),
        stderr=path("StdErr") or path("StdOut"),  # empty where it is the same, since 26.05
    )


def scontrol_show_job(job: JobId) -> Tuple[ControlJob, ...]:
    """slurmctld's details of a job (of each task of an array); empty if it does not know the job.

    Raises SlurmError.
    """
    argv = ["scontrol", "show", "job", str(job) if job.tasks is None else str(job.job)]
    result = run(argv)
    if result.returncode != 0:
        # The second form is for a task that a known array does not have (any longer).
        if re.search(r"invalid job id|^job \S+ not found", result.words.lower()):
            return ()
        raise failure(result)
    return tuple(parse_show_job(result.stdout))


def parse_job_gpus(text: str) -> Dict[str, int]:
    """GPUs by node, from ``scontrol show job -d``; empty if it lists none.

    A line looks like ``Nodes=gpu[35-36] … GRES=gpu:a100:4(IDX:0-3)``.
    """
    found: Dict[str, int] = {}
    for match in re.finditer(r"^ *Nodes=(\S+) CPU_IDs=.* GRES=(\S*)", text, re.MULTILINE):
        gpus = parse_gres_gpus(match[2]) or 0
        found.update((node, found.get(node, 0) + gpus) for node in hosts(match[1]))
    return found


def job_gpus(job_id: int) -> Dict[str, int]:
    """The GPUs that a running job has on each of its nodes.

    Raises SlurmError.
    """
    return parse_job_gpus(answer(["scontrol", "show", "job", "-d", str(job_id)]))


def scancel_argv(
    job_ids: Sequence[JobId], signal: Optional[str] = None, batch: bool = False
) -> List[str]:
    """One scancel for all jobs; with ``signal`` (``USR1``), it only sends them that signal.

    batch: send the signal to the batch shell instead of the job steps.
    """
    argv = ["scancel"]
    if signal is not None:
        argv.append("--signal=" + signal)
    if batch:
        argv.append("--batch")
    # scancel does not accept "%2" (how many may run at once) after the tasks.
    return argv + [re.sub(r"%\d+\]$", "]", str(job)) for job in job_ids]


def parse_scancel(stderr: str) -> Dict[str, str]:
    """Parse ``Kill job error on job id 4711: Access/…`` into ``{"4711": "Access/…"}``."""
    return {
        match[1]: match[2].strip()
        for match in re.finditer(
            r"(?:Kill|Signal) job error (?:on )?job ?id (\S+?): (.*)", stderr, re.IGNORECASE
        )
    }


def scancel(
    job_ids: Sequence[JobId], *, signal: Optional[str] = None, batch: bool = False
) -> Dict[str, str]:
    """Cancel (or signal) jobs with one scancel: what Slurm refused, its message by job id.

    That a job has ended meanwhile is no refusal. batch: send the signal to the batch shell instead
    of the job steps. Raises SlurmUnavailableError, and SlurmRefusedError if Slurm's message names
    no job.
    """
    try:
        result = run(scancel_argv(job_ids, signal, batch), timeout=30)
    finally:
        forget()
    refused = parse_scancel(result.stderr)
    if result.returncode != 0 and not refused:
        raise failure(result)
    return {
        job: message for job, message in refused.items() if "already complet" not in message.lower()
    }
