"""scancel and scontrol: cancel jobs, and show slurmctld's details of a job."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.units import first_host, hosts
from neuronctl.slurm.fields import ExitCode, count, parse_gres_gpus
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import failure, run
from neuronctl.slurm.scontrol import Reservation, parse_reservations
from neuronctl.slurm.squeue import forget

# Fields that may contain anything, up to the end of the line.
_FREE_TEXT = r"(?m)\b(?:JobName|Comment|Command|WorkDir|StdIn|StdOut|StdErr)=.*$"


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
    pages = map(_parse_page, re.split(r"\n\s*\n", text))
    return [page for page in pages if page is not None]


def _parse_page(text: str) -> Optional[ControlJob]:
    plain = re.sub(_FREE_TEXT, "", text)
    texts = dict(re.findall(r"(\w+)=(\S*)", plain))
    paths = dict(re.findall(r"(?m)^ *(StdOut|StdErr)=(.*?) *$", text))
    reason = re.search(r"(?m) Reason=(.*?)(?: Dependency=.*)?$", plain)
    number, array, het = (count(texts.get(key, "")) for key in ("JobId", "ArrayJobId", "HetJobId"))
    if number is None:
        return None
    id: Optional[JobId] = JobId(number)
    if array is not None:
        task = texts.get("ArrayTaskId", "")
        id = JobId.read(f"{array}_{task}") or JobId.read(f"{array}_[{task}]")
    elif het is not None:
        id = JobId.read(f"{het}+{texts.get('HetJobOffset')}")
    node_list = texts.get("NodeList", "").replace("(null)", "")
    # Slurm resolves the whole pattern except the first node's name.
    out, err = (
        paths.get(name, "").replace("%N", first_host(node_list) or "%N")
        for name in ("StdOut", "StdErr")
    )
    return ControlJob(
        id=id or JobId(number),
        job_id=number,
        state=texts.get("JobState", ""),
        reason="" if reason is None or reason[1] == "None" else reason[1],
        exit=ExitCode.parse(texts.get("ExitCode", "")),
        node_list=node_list,
        stdout=out,
        stderr=err or out,  # empty if it is the same, since 26.05
    )


def scontrol_show_job(job: JobId) -> Tuple[ControlJob, ...]:
    """Return slurmctld's details of a job or its tasks; empty if it has none. Raise SlurmError."""
    argv = ["scontrol", "show", "job", str(job) if job.tasks is None else str(job.job)]
    result = run(argv)
    if result.returncode != 0:
        # The second form is for a task that a known array does not have (any longer).
        if re.search(r"invalid job id|^job \S+ not found", result.words.lower()):
            return ()
        raise failure(result)
    return tuple(parse_show_job(result.stdout))


def parse_job_gpus(text: str) -> Dict[str, int]:
    """Return the GPUs by node, from ``Nodes=gpu[35-36] … GRES=gpu:a100:4(IDX:0-3)``."""
    by_node: Dict[str, int] = {}
    for match in re.finditer(r"^ *Nodes=(\S+) CPU_IDs=.* GRES=(\S*)", text, re.MULTILINE):
        gpus = parse_gres_gpus(match[2]) or 0
        by_node.update((node, by_node.get(node, 0) + gpus) for node in hosts(match[1]))
    return by_node


def job_gpus(job_id: int) -> Dict[str, int]:
    """Return the GPUs that a running job has on each of its nodes; raise SlurmError."""
    result = run(["scontrol", "show", "job", "-d", str(job_id)])
    if result.returncode != 0:
        raise failure(result)
    return parse_job_gpus(result.stdout)


def show_reservations() -> Tuple[Reservation, ...]:
    """Return the cluster's reservations; raise SlurmError."""
    result = run(["scontrol", "--oneliner", "show", "reservation"])
    if result.returncode != 0:
        raise failure(result)
    return parse_reservations(result.stdout)


def parse_scancel(stderr: str) -> Dict[str, str]:
    """Parse ``Kill job error on job id 4711: Access/…`` into ``{"4711": "Access/…"}``."""
    return {
        match[1]: match[2].strip()
        for match in re.finditer(
            r"(?:Kill|Signal) job error (?:on )?job ?id (\S+?): (.*)", stderr, re.IGNORECASE
        )
    }


def scancel(job_ids: Sequence[JobId]) -> Dict[str, str]:
    """Cancel jobs with one scancel: what Slurm refused, its message by job id.

    That a job has ended meanwhile is no refusal. Raises SlurmUnavailableError, and
    SlurmRefusedError if Slurm's message names no job.
    """
    # scancel does not accept "%2" (how many may run at once) after the tasks.
    argv = ["scancel", *(re.sub(r"%\d+\]$", "]", str(job)) for job in job_ids)]
    try:
        result = run(argv, timeout=30)
    finally:
        forget()
    refused = parse_scancel(result.stderr)
    if result.returncode != 0 and not refused:
        raise failure(result)
    return {
        job: message for job, message in refused.items() if "already complet" not in message.lower()
    }
