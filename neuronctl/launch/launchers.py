"""How a program is started on the nodes: one small entry a launcher.

A launch has lines the batch shell runs before it, an outer part that the batch shell evaluates
once (srun and its options), variables and an inner part that each task evaluates on its own node
(torchrun: ``$SLURM_NODEID`` differs there), and the user's program, whose words are passed on
untouched. A container stands between the inner part's ``exec`` and its first word: it wraps what
runs on each node.
"""

from __future__ import annotations

import dataclasses
from string import Template
from typing import Callable, Mapping, Optional, Tuple

from neuronctl.frozen import dataclass
from neuronctl.shell import Shell, Word


@dataclass(frozen=True)
class Shape:
    """What a launcher composes its line from; counts are per node but ``nodes``.

    hosts: the nodes' names where they are known (inside an allocation); else they are expanded
    from the allocation when the script runs. interface: the fast network's name, or None.
    srun_options: what every srun of this cluster carries.
    """

    nodes: int
    ntasks_per_node: int
    cpus_per_task: int
    gpus_per_node: int
    processes_per_node: int
    hosts: Tuple[str, ...] = ()
    interface: Optional[str] = None
    srun_options: Tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """Training processes in all."""
        return self.nodes * self.processes_per_node

    @property
    def crowded(self) -> bool:
        """Whether there are fewer cores than processes, which only an allocation may have."""
        return "--overcommit" in self.srun_options


@dataclass(frozen=True)
class Launch:
    """A launch in its parts; see the module's text.

    ``exports`` are NAME -> shell text, set in each task. ``per_task`` says that the inner part
    has to be evaluated on each node. ``rendezvous`` says whether the processes find each other
    through MASTER_ADDR and MASTER_PORT. ``own_variables`` says that the launcher tells each
    process its rank through the environment from outside a container. ``macros`` says that it
    fills ``${local_rank}`` into the program's words, as a string.Template.
    """

    before: Tuple[str, ...] = ()
    outer: Tuple[Word, ...] = ()
    exports: Tuple[Tuple[str, Shell], ...] = ()
    inner: Tuple[Word, ...] = ()
    per_task: bool = False
    rendezvous: bool = False
    own_variables: bool = False
    macros: bool = False


@dataclass(frozen=True)
class Launcher:
    """One way of starting a program.

    one_task_per_node
        Slurm starts one task a node and the launcher starts the processes (torchrun); else
        the processes are the tasks.
    distributed
        Whether it can start more than one process.
    """

    name: str
    one_task_per_node: bool
    distributed: bool
    launch: Callable[[Shape], Launch]
    python: Tuple[Word, ...] = ("python",)
    """What stands before a Python file; torchrun starts the interpreter itself."""
    executable: Tuple[Word, ...] = ()
    """What stands before a program that is not a Python file."""


def not_a_macro(word: str) -> str:
    """``word`` as it has to be for a launcher with ``macros`` to hand it on as it was."""
    as_read = Template(word).safe_substitute(local_rank="0")
    return word if as_read == word else word.replace("$", "$$")


def srun_words(shape: Shape) -> Tuple[Word, ...]:
    """srun over the whole allocation, or over the hosts of ``shape``.

    ``--ntasks`` stands here since $SLURM_NTASKS of the allocation would overrule a smaller
    ``--ntasks-per-node``; ``--cpus-per-task`` stands here since srun does not take it over from
    sbatch (Slurm 22.05 and later); ``--kill-on-bad-exit`` ends the step when one task fails.
    """
    where = (f"--nodelist={','.join(shape.hosts)}",) if shape.hosts else ()
    return (
        "srun",
        f"--nodes={shape.nodes}",
        *where,
        f"--ntasks={shape.nodes * shape.ntasks_per_node}",
        f"--ntasks-per-node={shape.ntasks_per_node}",
        f"--cpus-per-task={shape.cpus_per_task}",
        *shape.srun_options,
        "--kill-on-bad-exit=1",
    )


def _python(shape: Shape) -> Launch:
    if not shape.hosts:
        return Launch()  # the batch shell is on the first node, and the whole job is its own
    one = dataclasses.replace(shape, nodes=1, hosts=shape.hosts[:1], ntasks_per_node=1)
    return Launch(outer=srun_words(one))


def _srun(shape: Shape) -> Launch:
    return Launch(
        outer=srun_words(shape),
        exports=(
            ("RANK", Shell("$SLURM_PROCID")),
            ("LOCAL_RANK", Shell("$SLURM_LOCALID")),
            ("WORLD_SIZE", Shell("$SLURM_NTASKS")),
            ("LOCAL_WORLD_SIZE", Shell(str(shape.ntasks_per_node))),
        ),
        per_task=True,
        rendezvous=True,
    )


def _c10d(command: str, shape: Shape) -> Launch:
    return Launch(
        outer=srun_words(shape),
        inner=(
            command,
            f"--nnodes={shape.nodes}",
            f"--nproc-per-node={shape.processes_per_node}",
            "--rdzv-backend=c10d",
            Shell('--rdzv-id="$SLURM_JOB_ID"'),
            Shell('--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"'),
            # By node id, since a node's name and its name on the fast network may differ.
            Shell("--rdzv-conf=is_host=$((SLURM_NODEID == 0))"),
        ),
        per_task=True,
        rendezvous=True,
        macros=True,
    )


def _torchrun(shape: Shape) -> Launch:
    if shape.nodes > 1:
        return _c10d("torchrun", shape)
    return Launch(
        outer=srun_words(shape),
        inner=("torchrun", "--standalone", f"--nproc-per-node={shape.processes_per_node}"),
        macros=True,
    )


def _torchrun_jsc(shape: Shape) -> Launch:
    return _c10d("torchrun_jsc", shape)


def _accelerate(shape: Shape) -> Launch:
    inner: Tuple[Word, ...] = ("accelerate", "launch", f"--num_processes={shape.processes}")
    if shape.processes > 1:
        inner += ("--multi_gpu",)
    if shape.nodes == 1:
        # Port 0 lets torch choose a free one.
        alone: Tuple[Word, ...] = ("--num_machines=1", "--main_process_port=0")
        # A single process it starts itself, several through torchrun.
        return Launch(outer=srun_words(shape), inner=inner + alone, macros=shape.processes > 1)
    return Launch(
        outer=srun_words(shape),
        inner=(
            *inner,
            f"--num_machines={shape.nodes}",
            Shell('--machine_rank="$SLURM_NODEID"'),
            Shell('--main_process_ip="$MASTER_ADDR"'),
            Shell('--main_process_port="$MASTER_PORT"'),
        ),
        per_task=True,
        rendezvous=True,
        macros=True,
    )


def _host_slots(shape: Shape) -> Tuple[Tuple[str, ...], Word]:
    """(lines before the launch, the word) of ``gpu32:4,gpu33:4``."""
    slots = shape.processes_per_node
    if shape.hosts:
        return (), ",".join(f"{host}:{slots}" for host in shape.hosts)
    line = (
        f'hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/\\$/:{slots}/" '
        "| paste -sd,)"
    )
    return (line,), Shell('"$hosts"')


# Open MPI counts a core as a place for one process, whatever -H says.
_OVERSUBSCRIBE = "--oversubscribe"


def _horovodrun(controller: str) -> Callable[[Shape], Launch]:
    def launch(shape: Shape) -> Launch:
        before, hosts = _host_slots(shape)
        mpi = (f"--mpi-args={_OVERSUBSCRIBE}",) if shape.crowded and controller == "--mpi" else ()
        network = ("--network-interface", shape.interface) if shape.interface else ()
        # Horovod may choose lo where it is not told, and a named node be another than this one.
        several = network if shape.nodes > 1 or shape.hosts else ()
        many = ("-np", str(shape.processes), "-H", hosts)
        words = ("horovodrun", controller, *many, *several, *mpi)
        return Launch(before=before, outer=words, own_variables=True)

    return launch


def _mpirun(shape: Shape) -> Launch:
    # Open MPI takes nodes and slots from the allocation; -H is for a part of one.
    where: Tuple[Word, ...] = ("-H", _host_slots(shape)[1]) if shape.hosts else ()
    # Its own binding, one core a process, would starve data loaders and OpenMP threads.
    words = ("mpirun", "-np", str(shape.processes), *where, "--bind-to", "none")
    crowd = (_OVERSUBSCRIBE,) if shape.crowded else ()
    return Launch(outer=(*words, *crowd), own_variables=True)


LAUNCHERS: Mapping[str, Launcher] = {
    launcher.name: launcher
    for launcher in (
        Launcher("python", True, False, _python),
        Launcher("srun", False, True, _srun),
        Launcher(
            "torchrun",
            True,
            True,
            _torchrun,
            python=(),
            executable=("--no-python",),
        ),
        Launcher(
            "torchrun_jsc",
            True,
            True,
            _torchrun_jsc,
            python=(),
            executable=("--no-python",),
        ),
        Launcher(
            "accelerate",
            True,
            True,
            _accelerate,
            python=(),
            executable=("--no_python",),
        ),
        Launcher("horovodrun", False, True, _horovodrun("--gloo")),
        Launcher("horovodrun-mpi", False, True, _horovodrun("--mpi")),
        Launcher("mpirun", False, True, _mpirun),
    )
}
