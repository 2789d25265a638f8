"""What a job did with what it held, and what its owner could do about it.

The figures are those of its samples, or else what accounting has.
"""

from __future__ import annotations

import math
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from neuronctl.catalog.model import Cluster, Price
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.units import UNLIMITED, format_time, hosts
from neuronctl.common.words import duration, percent, verb
from neuronctl.monitoring.samples import (
    GpuUse,
    NodeUse,
    folder_of,
    mean,
    read_samples,
    without_series,
)
from neuronctl.request.job_file import own_cluster
from neuronctl.slurm.job_states import COMPLETED
from neuronctl.slurm.job_steps import StepEnd, read_usage
from neuronctl.tracking.chains import read_chain
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import log_paths

# Thresholds of advice. The shares for GPUs and time are those of Princeton's jobstats
# (config.py, 2026).
LEAST_SAMPLES = 10
LONG_IDLE = 600  # seconds
_GPU_USE, _GPU_MEMORY, _GPU_IDLE, _APART = 0.15, 0.15, 0.3, 0.3
_CORES_BUSY = 0.25
_TIME_USED, _LEAST_LIMIT = 0.1, 3600


@dataclass(frozen=True)
class JobUse:
    """A job and what its nodes wrote of it, in each of its runs."""

    status: JobStatus
    nodes: Tuple[NodeUse, ...] = ()
    accounted: Optional[StepEnd] = None  # what Slurm has of one that wrote nothing
    price: Price = Price()
    unread: str = ""  # why what it wrote cannot be read

    @property
    def runs(self) -> Tuple[JobUse, ...]:
        """Return each sampled run, the last one with the job's status; a requeue begins one."""
        by_restart: Dict[int, List[NodeUse]] = {}
        for node in self.nodes:
            by_restart.setdefault(node.restart, []).append(node)
        return tuple(replace(self, nodes=tuple(nodes)) for _, nodes in sorted(by_restart.items()))

    @property
    def last_nodes(self) -> Tuple[NodeUse, ...]:
        """Return the nodes of the last sampled run."""
        return self.runs[-1].nodes if self.nodes else ()

    @property
    def last_gpus(self) -> Tuple[GpuUse, ...]:
        """Return the GPUs of the last run's nodes."""
        return tuple(gpu for node in self.last_nodes for gpu in node.gpus)

    @property
    def seconds(self) -> float:
        """Return how long it ran: the last run by Slurm, earlier ones by their samples."""
        elapsed = self.status.elapsed or 0
        begun = (self.status.start or 0) if elapsed else math.inf
        earlier = (run for run in self.runs if max(node.last for node in run.nodes) < begun)
        return elapsed + sum(run.sampled_seconds for run in earlier)

    @property
    def sampled_seconds(self) -> float:
        """Return the seconds from the first to the last sample, summed over all runs."""
        return sum(
            max(node.last for node in run.nodes) - min(node.first for node in run.nodes)
            for run in self.runs
        )

    @property
    def gpu_hours(self) -> float:
        """Return the GPU hours used so far."""
        return self.seconds * (self.status.gpus or 0) / 3600

    @property
    def node_hours(self) -> float:
        """Return the node hours used so far."""
        return self.seconds * (self.status.nodes or 0) / 3600

    @property
    def cost(self) -> Optional[float]:
        """Return the cost; None without prices in the catalog."""
        return self.price.of(self.gpu_hours, self.node_hours)

    @property
    def measured(self) -> Tuple[GpuUse, ...]:
        """Return the GPUs with known use."""
        gpus = (gpu for node in self.nodes for gpu in node.gpus)
        return tuple(gpu for gpu in gpus if gpu.use is not None)

    @property
    def used(self) -> Tuple[GpuUse, ...]:
        """Return the GPUs that ran a kernel at least once."""
        return tuple(gpu for gpu in self.measured if not gpu.never_used)

    @property
    def use(self) -> Optional[float]:
        """Return the percent of use, over all GPUs and the sampled time."""
        return _weighted_mean((gpu.use, gpu.samples) for gpu in self.measured)

    @property
    def idle(self) -> Optional[float]:
        """Return the mean share of time that the measured GPUs were idle, from 0 to 1."""
        return _weighted_mean((gpu.idle, gpu.samples) for gpu in self.measured)

    @property
    def gpu_energy(self) -> float:
        """Return the joules of the GPUs that reported power, over the sampled time."""
        pairs = ((gpu.power or 0, node.seconds) for node in self.nodes for gpu in node.gpus)
        return sum(power * seconds for power, seconds in pairs)

    @property
    def cores(self) -> int:
        """Return the cores held in the last run; 0 if unknown."""
        if self.accounted is not None:
            return self.accounted.cores or 0
        return sum(node.cores or 0 for node in self.last_nodes)

    @property
    def cores_busy(self) -> Optional[float]:
        """Return the average number of cores in use, on all nodes together."""
        if self.accounted is not None:
            return self.accounted.cores_busy
        spent = [node.cpu for node in self.nodes if node.seconds]
        return sum(spent) / self.sampled_seconds if spent else None

    @property
    def silent(self) -> int:
        """Return how many of the job's nodes wrote no sample."""
        held = len(hosts(self.status.node_list)) or self.status.nodes or 0
        return max(0, held - len(self.last_nodes))

    def place(self, gpu: GpuUse) -> str:
        """Return ``GPU 3``, or ``GPU 3 of gpu30`` if there are several nodes."""
        several = len({node.node for node in self.nodes}) > 1
        return f"GPU {gpu.index}" + (f" of {gpu.node}" if several else "")


def _weighted_mean(pairs: Iterable[Tuple[Optional[float], float]]) -> Optional[float]:
    """Return the mean of (value, weight); None if no value is known."""
    known = [(value, weight) for value, weight in pairs if value is not None]
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole else None


def read_use(statuses: Sequence[JobStatus]) -> List[JobUse]:
    """Return each job's use; ask sacct once for all jobs without samples."""
    cluster = own_cluster()
    sampled = [read_sampled_use(status, cluster, ask=len(statuses) == 1) for status in statuses]
    if len(sampled) > 1:
        sampled = [replace(job, nodes=tuple(map(without_series, job.nodes))) for job in sampled]
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
    chain = read_chain(status.record)
    before = [] if chain is None else sorted(id for id in chain.jobs if id < status.job_id)
    try:
        return replace(use, nodes=read_samples(folder, status.job_id, since, before))
    except OSError as error:  # an error of one job: still report the others and what Slurm knows
        problem = f"cannot read the samples of job {status.id} in {folder}: {error.strerror}"
        return replace(use, unread=problem)


def _unused(job: JobUse) -> Optional[str]:
    unused, known = [gpu for gpu in job.measured if gpu.never_used], len(job.measured)
    if not 0 < len(unused) < known:
        return None
    names = ", ".join(job.place(gpu) for gpu in unused[:4]) + (", …" if len(unused) > 4 else "")
    return (
        f"{len(unused)} of {known} GPUs {verb(len(unused), 'was', 'were')} never used "
        f"({names}): let the program use all, or request {known - len(unused)}"
    )


def _no_gpu(job: JobUse) -> Optional[str]:
    if job.used or not job.measured:
        return None
    return (
        "no GPU was ever used: the program runs on the CPU (for PyTorch, look at "
        "torch.cuda.is_available() in the job), or needs no GPU"
    )


def _data_loading(job: JobUse) -> Optional[str]:
    idle = mean([gpu.idle for gpu in job.used if gpu.idle is not None])
    busy = job.cores_busy
    if idle is None or idle < _GPU_IDLE or busy is None or not job.cores:
        return None
    waits = (
        "if the program was not resting, they waited for data; give the data loader more workers, "
        "or read from a faster disk"
    )
    if busy > _CORES_BUSY * job.cores:
        waits = "they probably waited for the CPU; prepare the data beforehand"
    return (
        f"the GPUs in use were idle {percent(idle)} of the time while {busy:.1f} of {job.cores} "
        f"cores were busy: {waits}"
    )


def _idle_stretch(job: JobUse) -> Optional[str]:
    longest = max(job.used, key=lambda gpu: gpu.longest_idle, default=None)
    if longest is None or longest.longest_idle < LONG_IDLE or longest.idle_since is None:
        return None
    begun = longest.idle_since - min(node.first for node in job.nodes)
    when = "at the start" if begun < 60 else f"from {duration(begun)} after the start on"
    return (
        f"{job.place(longest)} was idle for {duration(longest.longest_idle)} at a stretch, {when}"
    )


def _apart(job: JobUse) -> Optional[str]:
    used = sorted((gpu.use or 0.0, job.place(gpu)) for gpu in job.used)
    if not used:
        return None
    (worst, place), (middle, _) = used[0], used[len(used) // 2]
    if middle - worst < 100 * _APART:
        return None
    return (
        f"{place} was used {worst:.0f} % of the time, the others about {middle:.0f} %: "
        "the work is not shared evenly"
    )


def _small(job: JobUse) -> Optional[str]:
    used = [gpu for gpu in job.used if gpu.memory and gpu.memory_peak]
    share = max([(gpu.memory_peak or 0) / (gpu.memory or 1) for gpu in used], default=1.0)
    use = mean([gpu.use or 0.0 for gpu in used])
    if use is None or share > _GPU_MEMORY or use > 100 * (1 - _GPU_USE):
        return None
    return (
        f"at most {percent(share)} of the GPUs' memory was used, and the GPUs "
        f"{use:.0f} % of the time: a larger batch, or a smaller GPU"
    )


def _early(job: JobUse) -> Optional[str]:
    status = job.status
    used, limit = status.elapsed, status.time_limit
    if status.state != COMPLETED or not used or not limit or limit == UNLIMITED:
        return None
    if limit < _LEAST_LIMIT or used > _TIME_USED * limit:
        return None
    enough = max(600, -(-used * 2 // 600) * 600)
    return (
        f"it ended after {duration(used)} of {duration(limit)}: with --time {format_time(enough)} "
        "such a job may start sooner"
    )


_ADVICE = (_no_gpu, _unused, _data_loading, _idle_stretch, _apart, _small, _early)


def advise(job: JobUse) -> List[str]:
    """Return all that there is to say of a job; of its samples only where there are enough.

    Of several runs, it is about the last one that has enough.
    """
    runs = [run for run in job.runs if max(node.samples for node in run.nodes) >= LEAST_SAMPLES]
    known = _ADVICE if runs else (_early,)
    job = runs[-1] if runs else job
    # nvidia-smi may have ended long before the job.
    job = replace(
        job,
        nodes=tuple(
            replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.samples >= LEAST_SAMPLES))
            for node in job.nodes
        ),
    )
    return [text for advice in known if (text := advice(job))]
