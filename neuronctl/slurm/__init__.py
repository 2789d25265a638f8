"""Slurm's commands as typed functions; besides the sandbox, the only package that starts processes.

Pure ``…_argv`` and ``parse_…`` functions stand around one ``run``. What the rest of neuronctl uses:

``sbatch``: Submitted, the id of the new job and sbatch's warnings
``squeue``: a QueueJob for each job that the controller knows
``Queue``: the same under way, while its caller does something else
``sacct``: Accounting, an AccountingJob for each job the database knows, or why there is none
``scancel``: Cancelled, which jobs Slurm refused to cancel or to signal
``scontrol_show_job``: a ControlJob, with the paths of the logs, for each part of a job
``job_gpus``: how many GPUs a running job has on each node
``ask_now``: Now, the user's own jobs, the nodes and the site's limits, asked at once
``predict_start``: when a job would start, by sbatch --test-only
``run_interactive``: the exit code of salloc on the user's own terminal
``local_cluster``: ClusterName as far as a file here tells it; no process
``installed``: whether there is a squeue on PATH
``JobId.parse``: the id that a text like ``4711_3`` names

What asks Slurm raises SlurmUnavailableError (exit 6: no command, no controller, no answer in
time) or SlurmRefusedError (exit 7: Slurm's own words). Times are seconds since the epoch,
durations seconds (units.UNLIMITED: no limit), and None is "not known". A job that is absent from
an answer is absent, nothing more.
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
