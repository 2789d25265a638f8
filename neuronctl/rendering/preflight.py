"""What the preflight checks on the nodes before a launch."""

from __future__ import annotations

import re
from typing import List, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.shell import CommandWord, Shell, join
from neuronctl.planning import JobPlan
from neuronctl.rendering.launch_command import LaunchParts, launch_parts
from neuronctl.rendering.template_environment import shipped_program


@dataclass(frozen=True)
class Checks:
    """What the preflight looks for on each node.

    srun: the command that runs the preflight once per node; empty where the batch shell does, since
    nothing is launched on other nodes. programs: looked for on PATH. files: must be readable; with
    a container, both are the host's. binds: what is bound into the container and must exist. gpus:
    how many each node must show; 0 where the job chooses itself. enter: the command that enters the
    container. inside: the programs looked for in it; both are empty without a container, and where
    entering it means fetching it. ssh: whether the first node must reach the others without a
    password.
    """

    srun: str
    programs: Tuple[str, ...]
    files: Tuple[str, ...]
    binds: Tuple[str, ...]
    gpus: int
    enter: str
    inside: Tuple[str, ...]
    ssh: bool


def checks(plan: JobPlan, known: LaunchParts) -> Checks:
    """The checks of a job; with steps, of the first, since it may make what the others need.

    known: the launch of ``plan`` itself.
    """
    launches = plan.steps[0].launches if plan.steps else plan.launches
    several = plan.most_nodes > 1 and any(part.launcher.distributed for part in plan.launches)
    srun = once_per_node(plan) if several else ""
    image = plan.request.container
    files: List[str] = []
    outside: List[CommandWord] = [*plan.wrapping.prefix[:1]]
    inside: List[CommandWord] = []
    for launch in launches:
        script = launch.request.script or "bash"
        parts = known if launch is plan else launch_parts(launch)
        # What is not relative may be a path in the image.
        if script.endswith(".py") and (image is None or not script.startswith("/")):
            files.append(script)
        outside += _program(parts.once)
        inside += [*_program(parts.task), *launch.program[:1], script]
    enter = ""
    if image is None:
        outside, inside = outside + inside, []
    elif "://" not in image and not plan.wrapping.srun:
        files.append(image)
        runtime, _, *options = plan.wrapping.prefix
        # To enter it takes time, which only several nodes are worth.
        enter = join([runtime, "exec", *options]) if srun else ""
    programs = _programs(outside, files)
    return Checks(
        srun=srun,
        programs=programs,
        files=tuple(dict.fromkeys(files)),
        binds=_sources(plan),
        gpus=0 if _chooses_gpus(plan) else plan.gpus_per_node,
        enter=enter,
        inside=_programs(inside, files) if enter else (),
        ssh=bool(srun) and any(launch.launcher.ssh for launch in plan.launches),
    )


def once_per_node(plan: JobPlan) -> str:
    """The srun that starts something once on each node of the job, beside its other steps."""
    return once_on_each(plan.node_count, plan.cluster.policy.srun_options)


def once_on_each(nodes: str, options: Sequence[str] = ()) -> str:
    """The same for ``nodes``, which are shell text.

    --overlap: the step holds no resources. On Slurm 22.05, one launch in eight was refused
    ("Invalid generic resource") right after a step that had held the GPUs.
    """
    srun: List[CommandWord] = ["srun", Shell(f"--nodes={nodes}"), Shell(f"--ntasks={nodes}")]
    srun += ["--ntasks-per-node=1", "--cpus-per-task=1", "--overlap"]
    srun.append("--kill-on-bad-exit=0")  # no node's failure is another's
    return join([*srun, *options])


NO_MEMORY = " --mem=0"
"""For a step beside others: it asks for no memory of its own, which others may have taken."""


@dataclass(frozen=True)
class Measures:
    """How ``--preflight deep`` measures the nodes.

    srun: what starts it once on each node, as shell text; empty for one node. enter: the command
    that enters the container, whose Python then counts; empty without one, or where entering it
    means fetching it. gpus: of each node. program: templates/preflight.py.
    """

    srun: str
    enter: str
    gpus: int
    program: str


def measures(plan: JobPlan, checked: Checks) -> Measures:
    """What ``measure_nodes`` of a job's script runs."""
    image, srun, enter = plan.request.container, "", ""
    if plan.most_nodes > 1:
        cores = plan.ntasks_per_node * (plan.cpus_per_task or 1)
        own = join(["--cpu-bind=none", f"--cpus-per-task={cores}"])
        srun = f"{once_per_node(plan)} {own}{NO_MEMORY}"
    if image is not None and "://" not in image and not plan.wrapping.srun:
        runtime, _, *options = plan.wrapping.prefix
        enter = join([runtime, "exec", *options])
    program = shipped_program("preflight.py")
    return Measures(srun=srun, enter=enter, gpus=checked.gpus, program=program)


def _program(words: Sequence[str]) -> List[CommandWord]:
    """The program that a launcher's words start, unless only a shell can tell."""
    return [str(word) for word in words[:1] if re.fullmatch(r"[\w./+-]+", word)]


def _programs(words: List[CommandWord], files: List[str]) -> Tuple[str, ...]:
    """The ``words`` that are names of programs; an option of the launcher may stand first."""
    names = [str(word) for word in words if word not in ("", "srun", "bash", *files)]
    return tuple(
        dict.fromkeys(name for name in names if not name.startswith("-") and name[-3:] != ".py")
    )


def _chooses_gpus(plan: JobPlan) -> bool:
    """Whether the job names some of its GPUs itself."""
    request = plan.request
    texts = (*dict(request.env), *request.setup)
    return any("_VISIBLE_DEVICES" in text for text in texts)


def _sources(plan: JobPlan) -> Tuple[str, ...]:
    """The host's paths in ``--bind``; with Pyxis, a word such as ``tmpfs`` is none."""
    if plan.request.container is None:
        return ()
    binds = [part for bind in plan.request.binds for part in re.split(r"(?<!\\),", bind)]
    sources = [bind.split(":", 1)[0] for bind in binds]
    return tuple(path for path in sources if "/" in path or (path and not plan.wrapping.srun))
