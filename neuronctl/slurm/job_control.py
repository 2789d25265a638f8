"""scancel and scontrol: cancel jobs, and what only slurmctld knows of a job."""

from __future__ import annotations

import re
from typing import Dict, Optional, Sequence, Tuple

from neuronctl.common.units import first_host, hosts
from neuronctl.slurm.fields import parse_gres_gpus
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import failure, run
from neuronctl.slurm.scontrol import Reservation, parse_reservations
from neuronctl.slurm.squeue import forget


def parse_logs(text: str) -> Optional[Tuple[str, str]]:
    """Return the logs in ``scontrol show job``, "" if there is none; None for several jobs.

    Slurm resolves the patterns; ``%N`` stays until the job has nodes.
    """
    if len(re.findall(r"(?m)^JobId=\d", text)) != 1:
        return None
    values = dict(re.findall(r"(?m)^ +(StdOut|StdErr|NodeList)=(.*?) *$", text))
    node = first_host(values.get("NodeList", "").replace("(null)", "")) or "%N"
    out, err = (values.get(name, "").replace("%N", node) for name in ("StdOut", "StdErr"))
    return out, err or out  # StdErr is empty if it is the same, since 26.05


def scontrol_logs(job: JobId) -> Optional[Tuple[str, str]]:
    """Return the logs of a job that slurmctld knows; None for several tasks. Raise SlurmError."""
    result = run(["scontrol", "show", "job", str(job) if job.tasks is None else str(job.job)])
    if result.returncode != 0:
        raise failure(result)
    return parse_logs(result.stdout)


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
