"""Slurm's commands as typed functions; the only package that starts processes.

Pure ``…_argv`` and ``parse_…`` functions stand around one ``run``. What the rest of neuronctl uses:

``sbatch(script, *, options=(), timeout=30.0, cwd=None) -> Submitted(job_id, cluster, warnings)``
``squeue(job_ids=(), *, user=None, timeout=10.0) -> Tuple[QueueJob, ...]``
``Queue(job_ids, user)``: the same under way, while its caller does something else
``sacct(job_ids=(), *, user=None, since=None, timeout=10.0) -> Accounting(jobs, off)``
``scancel(job_ids, *, signal=None, timeout=30.0) -> Cancelled(refused, words)``
``scontrol_show_job(job, *, timeout=10.0) -> Tuple[ControlJob, ...]``
``job_gpus(job_id, *, timeout=10.0) -> Dict[str, int]``: what a running job has on each node
``ask_now(*, nodes="", limits_of=None, job_ids=(), timeout) -> Now``: my jobs, nodes, limits at once
``predict_start(options, *, timeout) -> Optional[int]``: sbatch --test-only
``run_interactive(argv) -> int``: salloc on the user's own terminal
``local_cluster() -> Optional[str]``: ClusterName as far as a file here tells it; no process
``installed() -> bool``: whether there is a squeue on PATH
``JobId.parse("4711_3")``

All raise SlurmUnavailableError (exit 6: no command, no controller, no answer in time) or
SlurmRefusedError (exit 7: Slurm's own words). Times are seconds since the epoch, durations
seconds (units.UNLIMITED: no limit), and None is "not known". A job that is absent from an answer
is absent, nothing more.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.slurm.accounting import Accounting, AccountingJob, sacct
    from neuronctl.slurm.cluster import local_cluster
    from neuronctl.slurm.control import Cancelled, ControlJob, job_gpus, scancel, scontrol_show_job
    from neuronctl.slurm.limits import Association, GroupLimit, Qos, Shared
    from neuronctl.slurm.mine import Limits, MyJob, Now, ask_now
    from neuronctl.slurm.process import installed, run_interactive
    from neuronctl.slurm.queue import Queue, QueueJob, squeue
    from neuronctl.slurm.site import Reservation, SiteConfig, SiteNode, SitePartition
    from neuronctl.slurm.submit import Submitted, predict_start, sbatch
    from neuronctl.slurm.values import ExitCode, JobId

__all__ = [
    "Accounting",
    "AccountingJob",
    "Association",
    "Cancelled",
    "ControlJob",
    "ExitCode",
    "GroupLimit",
    "JobId",
    "Limits",
    "MyJob",
    "Now",
    "Qos",
    "Queue",
    "QueueJob",
    "Reservation",
    "Shared",
    "SiteConfig",
    "SiteNode",
    "SitePartition",
    "Submitted",
    "ask_now",
    "installed",
    "job_gpus",
    "local_cluster",
    "predict_start",
    "run_interactive",
    "sacct",
    "sbatch",
    "scancel",
    "scontrol_show_job",
    "squeue",
]

# Most commands need one of these: each module is imported when one of its names is asked for.
_HOME = {
    "Accounting": "accounting",
    "AccountingJob": "accounting",
    "Association": "limits",
    "Cancelled": "control",
    "ControlJob": "control",
    "ExitCode": "values",
    "GroupLimit": "limits",
    "JobId": "values",
    "Limits": "mine",
    "MyJob": "mine",
    "Now": "mine",
    "Qos": "limits",
    "Queue": "queue",
    "QueueJob": "queue",
    "Reservation": "site",
    "Shared": "limits",
    "SiteConfig": "site",
    "SiteNode": "site",
    "SitePartition": "site",
    "Submitted": "submit",
    "ask_now": "mine",
    "installed": "process",
    "job_gpus": "control",
    "local_cluster": "cluster",
    "predict_start": "submit",
    "run_interactive": "process",
    "sacct": "accounting",
    "sbatch": "submit",
    "scancel": "control",
    "scontrol_show_job": "control",
    "squeue": "queue",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
