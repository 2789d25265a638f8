"""How a program is started on the nodes: one small entry a launcher.

A launch has an outer part that the batch shell evaluates once (srun and its options), variables
and an inner part that each task evaluates on its own node (torchrun: ``$SLURM_NODEID`` differs
there), and the user's program, whose words are passed on untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping, Tuple

from neuronctl.shell import Shell, Word


@dataclass(frozen=True)
class Shape:
    """The counts a launcher composes its line from; all are per node but ``nodes``."""

    nodes: int
    ntasks_per_node: int
    cpus_per_task: int
    gpus_per_node: int
    processes_per_node: int


@dataclass(frozen=True)
class Launch:
    """A launch line in three parts; see the module's text.

    ``exports`` are NAME -> shell text, set in each task. ``rendezvous`` says whether the
    processes find each other through MASTER_ADDR and MASTER_PORT.
    """

    outer: Tuple[Word, ...] = ()
    exports: Tuple[Tuple[str, Shell], ...] = ()
    inner: Tuple[Word, ...] = ()
    rendezvous: bool = False


@dataclass(frozen=True)
class Launcher:
    """One way of starting a program.

    one_task_per_node
        Slurm starts one task a node and the launcher starts the processes (torchrun); else
        Slurm starts every process itself.
    distributed
        Whether it can start more than one process.
    """

    name: str
    summary: str
    one_task_per_node: bool
    distributed: bool
    launch: Callable[[Shape], Launch]
    python: Tuple[Word, ...] = ("python",)
    """What stands before a Python file; torchrun starts the interpreter itself."""
    executable: Tuple[Word, ...] = ()
    """What stands before a program that is not a Python file."""


def srun_words(shape: Shape) -> Tuple[Word, ...]:
    """srun over the whole allocation.

    ``--cpus-per-task`` stands here since srun does not take it over from sbatch (Slurm 22.05
    and later); ``--kill-on-bad-exit`` ends the step when one task fails.
    """
    return (
        "srun",
        f"--nodes={shape.nodes}",
        f"--ntasks-per-node={shape.ntasks_per_node}",
        f"--cpus-per-task={shape.cpus_per_task}",
        "--kill-on-bad-exit=1",
    )


def _python(shape: Shape) -> Launch:
    return Launch()


def _srun(shape: Shape) -> Launch:
    return Launch(
        outer=srun_words(shape),
        exports=(
            ("RANK", Shell("$SLURM_PROCID")),
            ("LOCAL_RANK", Shell("$SLURM_LOCALID")),
            ("WORLD_SIZE", Shell("$SLURM_NTASKS")),
            ("LOCAL_WORLD_SIZE", Shell(str(shape.ntasks_per_node))),
        ),
        rendezvous=True,
    )


def _torchrun(shape: Shape) -> Launch:
    if shape.nodes == 1:
        rendezvous: Tuple[Word, ...] = ("--standalone",)
    else:
        rendezvous = (
            f"--nnodes={shape.nodes}",
            "--rdzv-backend=c10d",
            Shell('--rdzv-id="$SLURM_JOB_ID"'),
            Shell('--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"'),
            # By node id, since a node's name and its name on the fast network may differ.
            Shell("--rdzv-conf=is_host=$((SLURM_NODEID == 0))"),
        )
    return Launch(
        outer=srun_words(shape),
        inner=("torchrun", *rendezvous, f"--nproc-per-node={shape.processes_per_node}"),
        rendezvous=shape.nodes > 1,
    )


LAUNCHERS: Mapping[str, Launcher] = {
    launcher.name: launcher
    for launcher in (
        Launcher("python", "one process, on the first node", True, False, _python),
        Launcher("srun", "Slurm starts every process", False, True, _srun),
        Launcher(
            "torchrun",
            "PyTorch's launcher, one task a node, c10d rendezvous",
            True,
            True,
            _torchrun,
            python=(),
            executable=("--no-python",),
        ),
    )
}
