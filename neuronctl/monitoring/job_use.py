"""Sum up how a job used its GPUs, cores, and memory, and advise its owner.

The figures come from its samples, or else from accounting.
"""

from __future__ import annotations

import math
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Cluster, Price
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.units import UNLIMITED, format_time, hosts
from neuronctl.common.words import duration, percent, verb
from neuronctl.monitoring.samples import (
    GpuUse,
    NodeUse,
    folder_of,
    read_samples,
    without_series,
)
from neuronctl.request.job_file import own_cluster
from neuronctl.slurm.job_states import COMPLETED
from neuronctl.slurm.sacct import StepEnd, ask_steps, usage_by_job
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import log_paths
from neuronctl.tracking.runs import read_chain

# Thresholds of advice. The shares for GPUs and time are those of Princeton's jobstats
# (config.py, 2026).
LEAST_SAMPLES = 10
_HEADROOM = 0.15  # share of the time that a GPU must be free to be called too large
_GPU_MEMORY = 0.15  # share of a GPU's memory up to which it is called too large
_GPU_IDLE = 0.3  # share of the time from which idle GPUs are reported
_APART = 0.3  # share of the time by which one GPU lags behind the others
_CORES_BUSY = 0.25  # share of the cores above which GPUs probably wait for them
_TIME_USED = 0.1  # share of the time limit up to which a shorter one is advised
_LEAST_LIMIT = 3600  # seconds of the time limit from which it is advised


@dataclass(frozen=True)
class JobUse:
    """A job and the figures that its nodes wrote, in each of its runs."""

    status: JobStatus
    nodes: Tuple[NodeUse, ...] = ()
    accounted: Optional[StepEnd] = None  # sacct's figures of a job without samples
    price: Price = Price()
    unread: str = ""  # why its samples cannot be read

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
        # If Slurm does not know how long the last run took, its samples count, too.
        last_start = (self.status.start or 0) if elapsed else math.inf
        earlier = (run for run in self.runs if max(node.last for node in run.nodes) < last_start)
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
    def use(self) -> Optional[float]:
        """Return the percent of use, over all GPUs and the sampled time."""
        return _over_time((gpu.use or 0.0, gpu.samples) for gpu in self.measured)

    @property
    def idle(self) -> Optional[float]:
        """Return the mean share of time that the measured GPUs were idle, from 0 to 1."""
        return _over_time((gpu.idle or 0.0, gpu.samples) for gpu in self.measured)

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


def _over_time(figures: Iterable[Tuple[float, int]]) -> Optional[float]:
    """Return the mean of (figure, number of samples), weighted by samples; None without any."""
    pairs = list(figures)
    samples = sum(count for _, count in pairs)
    return sum(figure * count for figure, count in pairs) / samples if samples else None


def read_use(statuses: Sequence[JobStatus]) -> List[JobUse]:
    """Return the use of each job, in order; ask sacct once for all jobs without samples."""
    cluster = own_cluster()
    # To ask Slurm for the logs of many jobs takes too long.
    sampled = [read_sampled_use(status, cluster, ask=len(statuses) == 1) for status in statuses]
    if len(sampled) > 1:
        sampled = [replace(job, nodes=tuple(map(without_series, job.nodes))) for job in sampled]
    silent = [job.status for job in sampled if not job.nodes]
    steps = ask_steps([status.id for status in silent]) if silent else {}
    accounted = usage_by_job(steps)
    return [replace(job, accounted=accounted.get(job.status.id)) for job in sampled]


def read_sampled_use(status: JobStatus, cluster: Cluster, *, ask: bool) -> JobUse:
    """Return the use of a job by its samples. ask: ask Slurm for a log that is not recorded."""
    log = log_paths(status)[0] if ask else status.stdout
    use = JobUse(status, price=cluster.price_in(status.partition))
    if log is None:
        return use
    folder = folder_of(log)
    since = 0 if status.record is None else status.record.earliest
    chain = read_chain(status.record)
    earlier = [] if chain is None else sorted(id for id in chain.jobs if id < status.job_id)
    try:
        return replace(use, nodes=read_samples(folder, status.job_id, since, earlier))
    except OSError as error:  # an error of one job: still report the others and what Slurm knows
        problem = f"cannot read the samples of job {status.id} in {folder}: {error.strerror}"
        return replace(use, unread=problem)


def _advise_on_gpus(job: JobUse) -> Iterator[str]:
    """Yield what the samples of a job's GPUs show."""
    measured = job.measured
    used = [gpu for gpu in measured if not gpu.never_used]
    if measured and not used:
        yield (
            "no GPU was ever used: the program runs on the CPU (for PyTorch, look at "
            "torch.cuda.is_available() in the job), or needs no GPU"
        )
    if not used:
        return
    unused = [gpu for gpu in measured if gpu.never_used]
    if unused:
        names = ", ".join(map(job.place, unused[:4])) + (", …" if len(unused) > 4 else "")
        yield (
            f"{len(unused)} of {len(measured)} GPUs {verb(len(unused), 'was', 'were')} never used "
            f"({names}): let the program use all, or request {len(used)}"
        )
    idle = sum(gpu.idle or 0.0 for gpu in used) / len(used)
    busy = job.cores_busy
    if idle >= _GPU_IDLE and busy is not None and job.cores:
        if busy > _CORES_BUSY * job.cores:
            cause = "they probably waited for the CPU; prepare the data beforehand"
        else:
            cause = (
                "if the program was not resting, they waited for data; give the data loader more "
                "workers, or read from a faster disk"
            )
        yield (
            f"the GPUs in use were idle {percent(idle)} of the time while {busy:.1f} of "
            f"{job.cores} cores were busy: {cause}"
        )
    yield from _advise_on_sizes(job, used)


def _advise_on_sizes(job: JobUse, used: Sequence[GpuUse]) -> Iterator[str]:
    """Yield advice on work that the GPUs in use share unevenly, or that does not fill them."""
    uses = sorted((gpu.use or 0.0, job.place(gpu)) for gpu in used)  # in percent
    worst, place = uses[0]
    middle, _ = uses[len(uses) // 2]
    if middle - worst >= 100 * _APART:
        yield (
            f"{place} was used {worst:.0f}% of the time, the others about {middle:.0f}%: "
            "the work is not shared evenly"
        )
    memory_shares = [(gpu.memory_peak or 0) / gpu.memory for gpu in used if gpu.memory]
    mean_use = sum(use for use, _ in uses) / len(uses)  # in percent
    has_headroom = mean_use <= 100 * (1 - _HEADROOM)
    if 0 < max(memory_shares, default=0.0) <= _GPU_MEMORY and has_headroom:
        yield (
            f"at most {percent(max(memory_shares))} of the GPUs' memory was used, and the GPUs "
            f"{mean_use:.0f}% of the time: a larger batch, or a smaller GPU"
        )


def _advise_on_time(status: JobStatus) -> Iterator[str]:
    """Yield a shorter time limit for a completed job that used little of its own."""
    used, limit = status.elapsed, status.time_limit
    if status.state != COMPLETED or not used or not limit or limit == UNLIMITED:
        return
    if limit >= _LEAST_LIMIT and used <= _TIME_USED * limit:
        enough = max(600, -(-used * 2 // 600) * 600)  # twice as long, rounded up to 10 minutes
        yield (
            f"it ended after {duration(used)} of {duration(limit)}: with --time "
            f"{format_time(enough)} such a job may start sooner"
        )


def advise(job: JobUse) -> List[str]:
    """Return the advice on a job; on its GPUs, only with LEAST_SAMPLES samples or more.

    Advice on GPUs is about the last run that has so many samples.
    """
    runs = [run for run in job.runs if max(node.samples for node in run.nodes) >= LEAST_SAMPLES]
    advice: List[str] = []
    if runs:
        run = runs[-1]
        # nvidia-smi may have ended long before the job.
        nodes = (
            replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.samples >= LEAST_SAMPLES))
            for node in run.nodes
        )
        advice += _advise_on_gpus(replace(run, nodes=tuple(nodes)))
    return [*advice, *_advise_on_time(job.status)]
