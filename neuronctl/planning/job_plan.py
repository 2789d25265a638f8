"""The plan of a job: frozen values from which scripts, findings, and records are made."""

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
    """One ``#SBATCH --option=value`` line. value: None for a flag. remark: the value's reason."""

    option: str
    value: Optional[str] = None
    remark: str = ""


@dataclass(frozen=True)
class Export:
    """One variable of the job.

    value: None for a secret, which only the submitting shell has: the script does not contain it,
    and ends if it is missing. remark: why the variable is set.
    """

    name: str
    value: Optional[CommandWord]
    remark: str = ""


@dataclass(frozen=True)
class Signal:
    """The signal that ``--signal`` requests.

    name: without SIG; the number if it has no name. to_batch_shell: whether only the batch shell
    gets it (``B:``), not the tasks of the job's steps. of_shell: the signal that the batch shell
    gets; with --until-done another one, by which it tells the end of a run from scancel. trapped:
    which of the user's lines have a trap for it: ``"setup"`` or ``"body"``; "": none.
    """

    name: str
    number: int
    to_batch_shell: bool
    of_shell: str
    trapped: str = ""


@dataclass(frozen=True)
class UntilDone:
    """How a job continues in further runs until its program exits with 0.

    max_runs: all runs, the first included. before_end: seconds before the end of a run at which the
    program gets its signal to save. resume_with: arguments added from the second run on. chain: why
    each run is a job of its own; "": Slurm requeues the job.
    """

    max_runs: int
    before_end: int
    resume_with: Tuple[str, ...]
    chain: str = ""


@dataclass(frozen=True)
class AllocationPart:
    """A part of an allocation: its nodes, the cores to use on each, and options of its srun.

    hosts: empty if they are known only once the job runs. is_share: whether srun must set this part
    apart from the rest of the allocation.
    """

    hosts: Tuple[str, ...]
    cores: int
    step_options: Tuple[str, ...] = ()
    is_share: bool = False


@dataclass(frozen=True)
class Decision:
    """A value of the plan, where it comes from, and the reason for it: a row of ``--explain``."""

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

    root: the repository's directory. below: the job's directory in it, "" for the root. tree: git's
    name of the tree to copy, "" if the copy exists. place: the directory of the copy. purge_days:
    days after which the site deletes unused files; None: it deletes none. shared: the name of the
    directory in which all jobs of a sweep run; "": the job has one of its own.
    """

    root: str
    below: str
    tree: str
    place: str
    purge_days: Optional[int] = None
    shared: str = ""

    @property
    def code(self) -> str:
        """Return the directory of the copied files."""
        return os.path.join(self.place, "code")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a job or of a launch, and values that follow from them."""

    request: JobRequest
    """For a step: the job's request with the step's program and sizes."""
    nodes: int
    """The fewest nodes if a range was requested: the job is judged by them."""
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

    def _on_all_nodes(self, per_node: int) -> Union[int, Shell]:
        """Return the sum over all nodes, which a script computes if a range was requested."""
        if self.nodes == self.most_nodes:
            return self.nodes * per_node
        if per_node == 1:
            return Shell('"$SLURM_JOB_NUM_NODES"')
        return Shell(f"$((SLURM_JOB_NUM_NODES * {per_node}))")


@dataclass(frozen=True)
class Launch(Sizes):
    """A program that a job starts, once or as several processes, in all or a share of the job."""

    processes_per_node: int
    """Training processes per node: Slurm's tasks, or those that the launcher starts in one task."""
    launcher: Launcher
    rendezvous: bool
    """Whether the processes find each other through MASTER_ADDR and MASTER_PORT."""
    srun_options: Tuple[str, ...]
    """Options of each srun of the launch: the cluster's, and those of its allocation part."""
    wrapping: Wrapping
    """What a container adds to the launch; empty without one."""
    program: Tuple[CommandWord, ...]
    """The user's program and its arguments, after what the launcher puts before them."""
    exports: Tuple[Export, ...]
    """The variables of the launch's processes, in order."""
    hosts: Tuple[str, ...] = ()
    """The nodes to launch on, if they are known; empty in a batch script."""
    own_step: bool = False
    """Whether srun must start it even as one process, because it has a share of the job."""
    number: int = 0
    """The number of its step in the job file; 0: the job has no steps."""
    step: str = ""
    """What messages call it: ``step 2``, ``step 2, part 1``; "": the job has no steps."""
    allow_failure: bool = False
    """Whether the job continues if this step fails."""

    @property
    def prefix(self) -> str:
        """Return the beginning of messages about the launch: ``step 2: ``, or ""."""
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
        launcher = self.launcher
        program = "the shell text" if self.request.body is not None else self.request.script or ""
        if not launcher.distributed:
            only_one = self.own_step or self.most_nodes * self.ntasks_per_node == 1
            return f"{program} starts once{'' if only_one else ', on the first node'}"
        are_tasks = not (launcher.one_task_per_node or launcher.own_variables)
        processes = counted(self.processes_per_node, "task" if are_tasks else "process")
        nodes = str(self.nodes)
        if self.most_nodes > self.nodes:
            nodes = f"{self.nodes} to {self.most_nodes}"
        places = f" on each of {nodes} nodes" if self.most_nodes > 1 else ""
        return f"{launcher.name} starts {processes} of {program}{places}"

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
        return self.signal is not None and passes(self.signal, self.launcher, has_steps=False)

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
        """Return True if the launch has fewer cores than processes, as only `run` allows."""
        return "--overcommit" in self.srun_options


@dataclass(frozen=True)
class JobPlan(Sizes):
    """A job whose values are all settled.

    >>> plan.decision("nodes").value
    '2'
    """

    cluster: Cluster
    partition: Partition
    """A bare ``Partition(name)`` if the catalog does not know it; its name may be empty."""
    alternatives: Tuple[Partition, ...]
    """With ``-p A,B``, the other partitions in which Slurm may start the job."""
    interactive: bool
    job_name: str
    time_limit: Optional[int]
    """In seconds, or units.UNLIMITED; None if neither the user nor the catalog sets it."""
    comment: Optional[str]
    output: Optional[str]
    """The log file pattern, as sbatch takes it; None for an interactive allocation."""
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
    """What the job starts, in order: at least one launch. Those of one step run side by side."""
    until_done: Optional[UntilDone] = None
    """How the job continues after its time limit; None: it does not."""
    code: Optional[CodeSnapshot] = None
    """The copy of the code that the job runs from; None: it runs from the code itself."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return a value of the first launch: templates and programs for 0.2.0 ask the plan."""
            if name == "launches":
                raise AttributeError(name)
            return getattr(self.launches[0], name)

    @property
    def steps(self) -> Tuple[Tuple[Launch, ...], ...]:
        """Return the launches by step; those of one step run side by side. () without steps."""
        numbered = (launch for launch in self.launches if launch.number)
        return tuple(tuple(step) for _, step in groupby(numbered, lambda launch: launch.number))

    @property
    def rendezvous(self) -> bool:
        """Return True if the script sets MASTER_ADDR and MASTER_PORT."""
        return any(launch.rendezvous for launch in self.launches)

    @property
    def secrets(self) -> Dict[str, str]:
        """Return the secret variables: the job's environment has them, a script never does."""
        return {name: value for name, value in self.request.env if is_private(name, value)}

    @property
    def partition_list(self) -> str:
        """Return the partitions as sbatch takes them: ``A,B``."""
        return ",".join(partition.name for partition in (self.partition, *self.alternatives))

    @property
    def this_job(self) -> str:
        """Return the job's id for Slurm's commands, as shell text; for an array, that of a task."""
        task = "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
        return task if self.request.array else "$SLURM_JOB_ID"

    @property
    def stall(self) -> Optional[int]:
        """Return the seconds after which --stall ends the job; None without --stall."""
        return None if self.request.stall is None else parse_timeout(self.request.stall)

    @property
    def idle(self) -> Optional[int]:
        """Return the seconds after which --idle ends the job; None without --idle or GPUs."""
        idle = self.request.idle if self.gpus_per_node else None
        return None if idle is None else parse_timeout(idle)

    @property
    def passes_signal(self) -> bool:
        """Return True if the batch shell passes the signal on to the processes it started."""
        launcher = self.launches[0].launcher
        return self.signal is not None and passes(self.signal, launcher, has_steps=bool(self.steps))

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
"""The signal that Slurm sends to the batch shell before the end of a run (--until-done)."""


def parse_signal(request: JobRequest) -> Optional[Signal]:
    """Return the request's ``--signal``, taken apart; None without one."""
    if request.signal is None:
        return None
    import signal as signals

    flags, typed, _ = split_signal(request.signal)
    if typed.isdigit():
        number = int(typed)
        names = {int(signal): signal.name[len("SIG") :] for signal in signals.Signals}
        name = names.get(number, typed)
    else:
        name = typed.upper()
        number = int(getattr(signals, f"SIG{name}"))
    if request.until_done:
        return Signal(name, number, to_batch_shell=True, of_shell=SAVE)
    to_shell = "B" in flags
    trapped = ""
    if to_shell and has_trap(request.body or "", name):
        trapped = "body"
    elif to_shell and has_trap("\n".join(request.setup), name):
        trapped = "setup"
    return Signal(name, number, to_shell, of_shell=name, trapped=trapped)


@lru_cache(maxsize=64)
def has_trap(text: str, signal: str = "") -> bool:
    """Return True if shell text has a trap for a signal ("": any, but not EXIT or ERR)."""
    if "trap" not in text:
        return False
    from neuronctl.scripts.shell_reader import read_shell

    shell = read_shell(text)
    # The words of eval are not parsed; if they contain "trap", there may be one.
    evaluated = [word.raw for call in shell.calls("eval") for word in call.words]
    return any("trap" in text for text in evaluated) or bool(shell.traps(signal))


def passes(signal: Signal, launcher: Launcher, *, has_steps: bool) -> bool:
    """Return True if the batch shell must pass a signal on: Slurm sends it to srun's tasks only."""
    if signal.trapped:
        return False
    return signal.to_batch_shell or has_steps or not launcher.by_srun or bool(launcher.marks)


def gpus_held(plan: JobPlan) -> int:
    """Return the GPUs that count as the user's: with --exclusive, all GPUs of the nodes."""
    gpus = plan.gpus_per_node
    if plan.request.exclusive:
        gpus = max(gpus, plan.partition.gpus_per_node)
    return plan.nodes * gpus
