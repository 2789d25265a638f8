"""What is known of jobs' use: their samples, and else what accounting has."""

from __future__ import annotations

from typing import List, Sequence

from neuronctl.catalog.model import Cluster
from neuronctl.common.frozen import replace
from neuronctl.monitoring.advice import JobUse
from neuronctl.monitoring.samples import folder_of, read_samples
from neuronctl.request.job_file import own_cluster
from neuronctl.slurm.job_steps import read_usage
from neuronctl.tracking.chains import chain_of
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import log_paths


def read_use(statuses: Sequence[JobStatus]) -> List[JobUse]:
    """Return what is known of each job; sacct is asked once for all without samples."""
    cluster = own_cluster()
    sampled = [read_sampled_use(status, cluster, ask=len(statuses) == 1) for status in statuses]
    silent = [job.status for job in sampled if not job.nodes]
    accounted = read_usage([status.id for status in silent])
    return [replace(job, accounted=accounted.get(job.status.id)) for job in sampled]


def read_sampled_use(status: JobStatus, cluster: Cluster, *, ask: bool) -> JobUse:
    """Return what a job's samples say. ask: ask Slurm where a log is that is not recorded."""
    log = log_paths(status)[0] if ask else status.stdout
    use = JobUse(status, price=cluster.price_in(status.partition))
    if log is None:
        return use
    folder = folder_of(log)
    since = 0 if status.record is None else status.record.earliest
    chain = chain_of(status.record)
    before = [] if chain is None else sorted(id for id in chain.jobs if id < status.job_id)
    try:
        return replace(use, nodes=read_samples(folder, status.job_id, since, before))
    except OSError as error:  # of one job: what Slurm knows of it, and the others, are told
        problem = f"cannot read the samples of job {status.id} in {folder}: {error.strerror}"
        return replace(use, unread=problem)
