"""The plan of a job: frozen values that the scripts, the rules and the records are made from."""

from __future__ import annotations

import re
from typing import Dict, Optional, Tuple

from neuronctl.catalog.model import Cluster, Partition
from neuronctl.frozen import dataclass
from neuronctl.launch.containers import Wrapping
from neuronctl.launch.environments import Step
from neuronctl.launch.launchers import Launcher
from neuronctl.masking import is_secret_name, is_secret_value
from neuronctl.request.job import JobRequest, Source
from neuronctl.shell import Shell, Word


@dataclass(frozen=True)
class Directive:
    """One ``#SBATCH --option=value`` line; ``value`` None for a flag.

    ``remark`` says where a value came from that the user did not ask for.
    """

    option: str
    value: Optional[str] = None
    remark: str = ""


@dataclass(frozen=True)
class Export:
    """One variable of the job; ``value`` None where it comes from the submitting shell alone.

    A secret is never written into a script: the script only demands that it is there.
    """

    name: str
    value: Optional[str]
    remark: str = ""


@dataclass(frozen=True)
class Signal:
    """What ``--signal`` asks for: its name without SIG (or its number), and who gets it.

    to_batch_shell: the batch shell alone (``B:``), else the job steps' tasks. trapped_by_setup:
    that shell's own trap is among the user's setup lines.
    """

    name: str
    to_batch_shell: bool
    trapped_by_setup: bool


@dataclass(frozen=True)
class Place:
    """A part of an allocation: its nodes, the cores to use on each, and options of its srun."""

    hosts: Tuple[str, ...]
    cores: int
    step_options: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """One value of the plan and why it is that: the rows of ``--explain``."""

    name: str
    value: str
    source: Source
    why: str = ""


@dataclass(frozen=True)
class JobPlan:
    """A job whose every value is settled; what render(), the rules and the records work from."""

    request: JobRequest
    cluster: Cluster
    partition: Partition
    """A bare ``Partition(name)`` where the catalog does not know it; its name may be empty."""
    alternatives: Tuple[Partition, ...]
    """With ``-p A,B``, the others in which Slurm may start the job as well."""
    interactive: bool
    job_name: str
    nodes: int
    """Of a range, the fewest: what the job is judged by."""
    most_nodes: int
    ntasks_per_node: int
    cpus_per_task: int
    gpus_per_node: int
    processes_per_node: int
    """Training processes per node: ntasks_per_node, or what the launcher starts in its one task."""
    time_limit: Optional[int]
    """Seconds, units.UNLIMITED, or None where neither the user nor the catalog says."""
    comment: Optional[str]
    output: Optional[str]
    """Log file pattern as sbatch takes it; None for an interactive allocation."""
    error: Optional[str]
    """The same for standard error; None also where it goes into ``output``."""
    launcher: Launcher
    rendezvous: bool
    """Whether the processes find each other through MASTER_ADDR and MASTER_PORT."""
    srun_options: Tuple[str, ...]
    """What every srun of the launch carries: the cluster's options and those of the place."""
    wrapping: Wrapping
    """What a container adds to the launch; empty without one."""
    program: Tuple[Word, ...]
    """The user's program and its arguments, after what the launcher puts before them."""
    preflight: bool
    """Whether every node is checked before the launch."""
    hosts: Tuple[str, ...]
    """The nodes to launch on, if they are known; empty in a batch script."""
    activation: Tuple[Step, ...]
    """The script lines that activate the software: modules, then conda or venv."""
    exports: Tuple[Export, ...]
    """The variables the script exports, in order."""
    directives: Tuple[Directive, ...]
    decisions: Tuple[Decision, ...]

    @property
    def secrets(self) -> Dict[str, str]:
        """Variables of the request that go into the job's environment and never into a script."""
        return {name: value for name, value in self.request.env if is_secret(name, value)}

    @property
    def partition_list(self) -> str:
        """The partitions as sbatch has them: ``A,B``."""
        return ",".join(one.name for one in (self.partition, *self.alternatives))

    @property
    def launcher_options(self) -> Tuple[str, ...]:
        """The user's words for the launcher."""
        return self.request.launcher_options

    def gives_launcher(self, *options: str) -> bool:
        """Whether one of these options is among the user's words for the launcher."""
        names = {option_name(word) for word in self.launcher_options}
        return not names.isdisjoint(map(option_name, options))

    @property
    def signal(self) -> Optional[Signal]:
        """The request's ``--signal``, taken apart."""
        match = re.fullmatch(r"(?:([BR]+):)?(?:SIG)?([^@]+)(?:@.*)?", self.request.signal or "")
        if match is None:
            return None
        to_shell, name = "B" in (match[1] or ""), match[2]
        trap = rf"\btrap\b.*\b(SIG)?{re.escape(name)}\b"
        own = to_shell and any(re.search(trap, line) for line in self.request.setup)
        return Signal(name, to_shell, own)

    @property
    def salloc_options(self) -> Tuple[str, ...]:
        """The directives as arguments of salloc, without their dashes."""
        return tuple(
            one.option if one.value is None else f"{one.option}={one.value}"
            for one in self.directives
        )

    @property
    def gpus(self) -> int:
        """GPUs in total."""
        return self.nodes * self.gpus_per_node

    @property
    def processes(self) -> int:
        """Training processes in total."""
        return self.nodes * self.processes_per_node

    @property
    def node_count(self) -> Word:
        """The nodes for a script, which only the job knows where a range was requested."""
        return self._of_nodes(1)

    @property
    def task_count(self) -> Word:
        """Slurm's tasks in total, for a script."""
        return self._of_nodes(self.ntasks_per_node)

    @property
    def process_count(self) -> Word:
        """Training processes in total, for a script."""
        return self._of_nodes(self.processes_per_node)

    def _of_nodes(self, each: int) -> Word:
        if self.nodes == self.most_nodes:
            return str(self.nodes * each)
        counted = f"$((SLURM_JOB_NUM_NODES * {each}))"
        return Shell('"$SLURM_JOB_NUM_NODES"' if each == 1 else counted)

    @property
    def overcommit(self) -> bool:
        """Whether there are fewer cores than processes, which only an allocation may have."""
        return "--overcommit" in self.srun_options

    @property
    def cores_per_node(self) -> int:
        """Cores requested per node."""
        return self.ntasks_per_node * self.cpus_per_task

    def decision(self, name: str) -> Optional[Decision]:
        """The decision on the value ``name`` (sbatch's long option name)."""
        return next((one for one in self.decisions if one.name == name), None)


def is_secret(name: str, value: str) -> bool:
    """Whether this variable must not stand in a script; an empty value gives nothing away."""
    return bool(value) and (is_secret_name(name) or is_secret_value(value))


def gpus_held(plan: JobPlan) -> int:
    """The GPUs that count as the user's while it runs: with --exclusive, all of its nodes."""
    each = max(plan.gpus_per_node, plan.partition.gpus_per_node if plan.request.exclusive else 0)
    return plan.nodes * each


def option_name(word: str) -> str:
    """The name of a launcher's option, in which ``_`` and ``-`` are the same to most of them."""
    name = word.partition("=")[0]
    attached = re.fullmatch(r"(-[A-Za-z])[0-9]+", name)
    return attached[1] if attached else name.replace("_", "-")
