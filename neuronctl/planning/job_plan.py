"""The plan of a job: frozen values that the scripts, the rules and the records are made from."""

from __future__ import annotations

import os
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Dict, Optional, Tuple, Union

from neuronctl.catalog.cluster import Cluster, Partition
from neuronctl.common.datatypes import dataclass
from neuronctl.common.secrets import is_private
from neuronctl.common.shell import CommandWord, Shell
from neuronctl.common.units import parse_timeout, split_signal
from neuronctl.common.words import counted
from neuronctl.launch.containers import Wrapping
from neuronctl.launch.environments import ShellLine
from neuronctl.launch.launchers import Launcher, option_name
from neuronctl.request.job import JobRequest, Source


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
    value: Optional[CommandWord]
    remark: str = ""


@dataclass(frozen=True)
class Signal:
    """What ``--signal`` asks for: its name without SIG (or its number), and who gets it.

    to_batch_shell: the batch shell alone (``B:``), else the job steps' tasks. of_shell: what the
    batch shell receives; another one if it has to tell its own run's end from scancel. trapped:
    whether that shell's own trap is among the user's lines: in the ``"setup"``, the ``"body"``.
    """

    name: str
    number: int
    to_batch_shell: bool
    of_shell: str
    trapped: str = ""


@dataclass(frozen=True)
class UntilDone:
    """How a job goes on, run after run, until its program ends with 0.

    max_runs: of all. before_end: when the program is to save, in seconds before a run's end.
    resume_with: the program's further words from the second run on. chain: why each run is a job
    of its own; "": Slurm requeues the job.
    """

    max_runs: int
    before_end: int
    resume_with: Tuple[str, ...]
    chain: str = ""


@dataclass(frozen=True)
class AllocationPart:
    """A part of an allocation: its nodes, the cores to use on each, and options of its srun.

    hosts: empty where they are known in the job only. is_share: whether it is smaller than the
    job's allocation, so that srun has to hand it out.
    """

    hosts: Tuple[str, ...]
    cores: int
    step_options: Tuple[str, ...] = ()
    is_share: bool = False


@dataclass(frozen=True)
class Decision:
    """A value of the plan and the reason for it: a row of ``--explain``."""

    name: str
    value: str
    source: Source
    reason: str = ""

    @property
    def row(self) -> Tuple[str, str, str, str]:
        """Return the decision as a record stores it."""
        return self.name, self.value, self.source.value, self.reason


@dataclass(frozen=True)
class CodeSnapshot:
    """The code of a job as it is now (``--snapshot``), and where its copy is, or would be.

    root: of the repository. below: the job's directory in it, "" for the root. tree: git's name of
    the state, "" if the copy is there already. place: the copy's directory, in which ``code`` is
    the tree. purge_days: after which the site deletes what nobody uses. shared: names the directory
    in which all jobs of a sweep run; another job has one of its own.
    """

    root: str
    below: str
    tree: str
    place: str
    purge_days: Optional[int] = None
    shared: str = ""

    @property
    def code(self) -> str:
        """Return the directory of the copied code."""
        return os.path.join(self.place, "code")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a job or of a launch, and values that follow from them."""

    request: JobRequest
    """Of a step: the job's request, with the step's program and sizes."""
    nodes: int
    """Of a range, the fewest: what the job is judged by."""
    most_nodes: int
    ntasks_per_node: int
    cpus_per_task: int
    gpus_per_node: int

    @property
    def signal(self) -> Optional[Signal]:
        """Return the requested signal."""
        return parse_signal(self.request)

    @property
    def gpus(self) -> int:
        """Return the GPUs of all nodes."""
        return self.nodes * self.gpus_per_node

    @property
    def cores_per_node(self) -> int:
        """Return the cores requested per node."""
        return self.ntasks_per_node * self.cpus_per_task

    @property
    def node_count(self) -> Union[int, Shell]:
        """Return the nodes, for a script; only the job knows them if a range was requested."""
        return self._on_all_nodes(1)

    @property
    def task_count(self) -> Union[int, Shell]:
        """Return Slurm's tasks in total, for a script."""
        return self._on_all_nodes(self.ntasks_per_node)

    def _on_all_nodes(self, each: int) -> Union[int, Shell]:
        if self.nodes == self.most_nodes:
            return self.nodes * each
        product = f"$((SLURM_JOB_NUM_NODES * {each}))"
        return Shell('"$SLURM_JOB_NUM_NODES"' if each == 1 else product)


@dataclass(frozen=True)
class Launch(Sizes):
    """A program that a job starts, once or as several processes, in all or a share of the job."""

    processes_per_node: int
    """Training processes per node: ntasks_per_node, or what the launcher starts in its one task."""
    launcher: Launcher
    rendezvous: bool
    """Whether the processes find each other through MASTER_ADDR and MASTER_PORT."""
    srun_options: Tuple[str, ...]
    """What every srun of the launch carries: the cluster's options and those of the place."""
    wrapping: Wrapping
    """What a container adds to the launch; empty without one."""
    program: Tuple[CommandWord, ...]
    """The user's program and its arguments, after what the launcher puts before them."""
    exports: Tuple[Export, ...]
    """The variables of its processes, in order."""
    hosts: Tuple[str, ...] = ()
    """The nodes to launch on, if they are known; empty in a batch script."""
    own_step: bool = False
    """Whether it needs a step of Slurm's even for one process: it has a share of its own."""
    number: int = 0
    """Of the job's step that it is, or is a part of; 0: the job has no steps."""
    step: str = ""
    """The same for messages: ``step 2``, ``step 2, part 1``."""
    allow_failure: bool = False
    """Whether the job continues if this step fails."""

    @property
    def prefix(self) -> str:
        """Return the beginning of messages about it: ``step 2: ``; "" if the job has no steps."""
        return self.step and f"{self.step}: "

    @property
    def inline(self) -> bool:
        """Return True if the batch shell itself runs the launch's shell text."""
        plain = not (self.own_step or self.launcher.takes_all_nodes or self.request.container)
        return self.request.body is not None and plain

    @property
    def starts_several(self) -> bool:
        """Return True if the launcher starts more than one process."""
        return self.launcher.distributed and self.most_nodes * self.processes_per_node > 1

    @property
    def starts(self) -> str:
        """Return what starts how often: ``srun starts 4 tasks of train.py on each of 2 nodes``."""
        launcher, each = self.launcher, self.processes_per_node
        what = "the shell text" if self.request.body is not None else self.request.script or ""
        if not launcher.distributed:
            alone = self.own_step or self.most_nodes * self.ntasks_per_node == 1
            return f"{what} starts once{'' if alone else ', on the first node'}"
        by_slurm = not (launcher.one_task_per_node or launcher.own_variables)
        unit = "task" if by_slurm else "process"
        ranged = f"{self.nodes} to {self.most_nodes}"
        nodes = str(self.nodes) if self.nodes == self.most_nodes else ranged
        where = f" on each of {nodes} nodes" if self.most_nodes > 1 else ""
        return f"{launcher.name} starts {counted(each, unit)} of {what}{where}"

    @property
    def launcher_options(self) -> Tuple[str, ...]:
        """Return the user's options for the launcher."""
        return self.request.launcher_options

    def gives_launcher(self, *options: str) -> bool:
        """Return True if one of these options is among the user's options for the launcher."""
        names = {option_name(word) for word in self.launcher_options}
        return not names.isdisjoint(map(option_name, options))

    @property
    def passes_signal(self) -> bool:
        """Return True if the batch shell passes the signal on to the launch."""
        return self.signal is not None and passes(self.signal, self.launcher, False)

    @property
    def processes(self) -> int:
        """Return the training processes in total."""
        return self.nodes * self.processes_per_node

    @property
    def process_count(self) -> Union[int, Shell]:
        """Return the training processes in total, for a script."""
        return self._on_all_nodes(self.processes_per_node)

    @property
    def overcommit(self) -> bool:
        """Return True if there are fewer cores than processes, as only an allocation allows."""
        return "--overcommit" in self.srun_options


@dataclass(frozen=True)
class JobPlan(Sizes):
    """A job whose every value is settled; what render(), the rules and the records work from.

    >>> plan.decision("nodes").value
    '2'
    """

    cluster: Cluster
    partition: Partition
    """A bare ``Partition(name)`` if the catalog does not know it; its name may be empty."""
    alternatives: Tuple[Partition, ...]
    """With ``-p A,B``, the others in which Slurm may start the job as well."""
    interactive: bool
    job_name: str
    time_limit: Optional[int]
    """Seconds, units.UNLIMITED, or None if neither the user nor the catalog says."""
    comment: Optional[str]
    output: Optional[str]
    """Log file pattern as sbatch takes it; None for an interactive allocation."""
    error: Optional[str]
    """The same for standard error; None also if it goes into ``output``."""
    preflight: bool
    """Whether the nodes are checked before the first launch."""
    activation: Tuple[ShellLine, ...]
    """The script lines that activate the software: modules, then conda or venv."""
    exports: Tuple[Export, ...]
    """The variables the script exports, in order."""
    directives: Tuple[Directive, ...]
    decisions: Tuple[Decision, ...]
    launches: Tuple[Launch, ...]
    """What the job starts, in order, at least one; those with the same number run side by side."""
    until_done: Optional[UntilDone] = None
    """How it goes on after its time limit; None: it does not."""
    code: Optional[CodeSnapshot] = None
    """The copy of the code that it runs from; None: it runs from the code itself."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return a value of the first launch: templates and programs of 0.2.0 ask the plan."""
            if name == "launches":
                raise AttributeError(name)
            return getattr(self.launches[0], name)

    @property
    def steps(self) -> Tuple[Tuple[Launch, ...], ...]:
        """The launches by step, of which those of one run side by side; empty without steps."""
        numbered = (launch for launch in self.launches if launch.number)
        return tuple(tuple(step) for _, step in groupby(numbered, lambda launch: launch.number))

    @property
    def rendezvous(self) -> bool:
        """Return True if the script sets MASTER_ADDR and MASTER_PORT."""
        return any(launch.rendezvous for launch in self.launches)

    @property
    def secrets(self) -> Dict[str, str]:
        """Return the secret variables: they go into the job's environment, never into a script."""
        return {name: value for name, value in self.request.env if is_private(name, value)}

    @property
    def partition_list(self) -> str:
        """Return the partitions as sbatch takes them: ``A,B``."""
        return ",".join(each.name for each in (self.partition, *self.alternatives))

    @property
    def this_job(self) -> str:
        """Return the job's id for Slurm's commands; an array task's SLURM_JOB_ID is the array's."""
        task = "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
        return task if self.request.array else "$SLURM_JOB_ID"

    @property
    def stall(self) -> Optional[int]:
        """Return the seconds without a change after which the job is ended, or None."""
        return None if self.request.stall is None else parse_timeout(self.request.stall)

    @property
    def idle(self) -> Optional[int]:
        """Return the seconds without use of GPUs and cores after which it is ended, or None."""
        idle = self.request.idle if self.gpus_per_node else None
        return None if idle is None else parse_timeout(idle)

    @property
    def passes_signal(self) -> bool:
        """Return True if the batch shell passes the signal on to the processes it started."""
        launcher = self.launches[0].launcher
        return self.signal is not None and passes(self.signal, launcher, bool(self.steps))

    @property
    def salloc_options(self) -> Tuple[str, ...]:
        """Return the directives as arguments of salloc, without their dashes."""
        return tuple(
            line.option if line.value is None else f"{line.option}={line.value}"
            for line in self.directives
        )

    def decision(self, name: str) -> Optional[Decision]:
        """Return the decision on the value ``name`` (sbatch's long option name)."""
        return next((decision for decision in self.decisions if decision.name == name), None)


SAVE = "USR2"
"""What Slurm sends to the batch shell before the end of a run that another one follows."""


def parse_signal(request: JobRequest) -> Optional[Signal]:
    """Return the request's ``--signal``, taken apart; None without one."""
    if request.signal is None:
        return None
    import signal as signals

    flags, typed, _ = split_signal(request.signal)
    to_shell = "B" in flags
    if typed.isdigit():
        number = int(typed)
        name = next((each.name[3:] for each in signals.Signals if each == number), typed)
    else:
        name = typed.upper()
        number = int(getattr(signals, f"SIG{name}"))
    if request.until_done:
        return Signal(name, number, to_batch_shell=True, of_shell=SAVE)
    texts = (("body", request.body or ""), ("setup", "\n".join(request.setup)))
    trapped = (where for where, text in texts if to_shell and has_trap(text, name))
    return Signal(name, number, to_shell, name, next(trapped, ""))


@lru_cache(maxsize=64)
def has_trap(text: str, signal: str = "") -> bool:
    """Return True if shell text has a trap for a signal, or for any but EXIT and the like."""
    if "trap" not in text:
        return False
    from neuronctl.scripts.shell_reader import read_shell

    shell = read_shell(text)
    # The words of eval are not read; if they contain "trap", there may be one.
    hidden = any("trap" in word.raw for call in shell.calls("eval") for word in call.words)
    return hidden or bool(shell.traps(signal))


def passes(signal: Signal, launcher: Launcher, has_steps: bool) -> bool:
    """Return True if the batch shell must pass a signal on, as Slurm sends it to steps only."""
    if signal.trapped:
        return False
    return signal.to_batch_shell or has_steps or not launcher.by_srun or bool(launcher.marks)


def gpus_held(plan: JobPlan) -> int:
    """Return the GPUs that count as the user's: with --exclusive, all of the job's nodes."""
    each = max(plan.gpus_per_node, plan.partition.gpus_per_node if plan.request.exclusive else 0)
    return plan.nodes * each
