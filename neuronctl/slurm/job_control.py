"""Cancel jobs with scancel, and ask scontrol what only slurmctld knows about a job."""

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
    """Return the files of a job's output and errors, from ``scontrol show job``; "" for no file.

    ``%N`` stays until the job has nodes. None: the text is about several jobs, or about none.
    """
    if len(re.findall(r"(?m)^JobId=\d", text)) != 1:
        return None
    values = dict(re.findall(r"(?m)^ +(StdOut|StdErr|NodeList)=(.*?) *$", text))
    node_list = values.get("NodeList", "").replace("(null)", "")
    first_node = first_host(node_list) or "%N"
    out = values.get("StdOut", "").replace("%N", first_node)
    err = values.get("StdErr", "").replace("%N", first_node)
    return out, err or out  # StdErr is empty if it is the same, since 26.05


def scontrol_logs(job: JobId) -> Optional[Tuple[str, str]]:
    """Ask slurmctld for a job's logs, as parse_logs() returns them. Raises SlurmError."""
    return parse_logs(_ask_scontrol("show", "job", str(job if job.tasks is None else job.job)))


def parse_job_gpus(text: str) -> Dict[str, int]:
    """Return the GPUs by node, from ``Nodes=gpu[35-36] … GRES=gpu:a100:4(IDX:0-3)``."""
    by_node: Dict[str, int] = {}
    for node_list, gres in re.findall(r"(?m)^ *Nodes=(\S+) CPU_IDs=.* GRES=(\S*)", text):
        for node in hosts(node_list):
            by_node[node] = by_node.get(node, 0) + (parse_gres_gpus(gres) or 0)
    return by_node


def job_gpus(job_id: int) -> Dict[str, int]:
    """Return the GPUs that a running job has on each of its nodes; raise SlurmError."""
    return parse_job_gpus(_ask_scontrol("show", "job", "-d", str(job_id)))


def show_reservations() -> Tuple[Reservation, ...]:
    """Return the cluster's reservations; raise SlurmError."""
    return parse_reservations(_ask_scontrol("--oneliner", "show", "reservation"))


def _ask_scontrol(*words: str) -> str:
    """Return what scontrol prints; raise SlurmError."""
    result = run(["scontrol", *words])
    if result.returncode != 0:
        raise failure(result)
    return result.stdout


def parse_scancel(stderr: str) -> Dict[str, str]:
    """Parse ``Kill job error on job id 4711: Access/…`` into ``{"4711": "Access/…"}``."""
    return {
        match[1]: match[2].strip()
        for match in re.finditer(
            r"(?:Kill|Signal) job error (?:on )?job ?id (\S+?): (.*)", stderr, re.IGNORECASE
        )
    }


def scancel(job_ids: Sequence[JobId]) -> Dict[str, str]:
    """Cancel jobs with one scancel; return Slurm's message for each job that it refused.

    A job that has already ended is not refused. Raises SlurmUnavailableError, and SlurmRefusedError
    if Slurm's message names no job.
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
