"""What the preflight checks on every node before a launch."""

from __future__ import annotations

import re
from typing import List, Sequence, Tuple

from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan
from neuronctl.rendering.launch_command import LaunchParts
from neuronctl.shell import Shell, Word, join


@dataclass(frozen=True)
class Checks:
    """What the preflight looks for on each node.

    srun: the command that runs the preflight once per node. programs: looked for on PATH. files:
    must be readable; with a container, both are the host's. binds: what is bound into the
    container and must exist. enter: the command that enters the container. inside: the programs
    looked for in it; both are empty without a container, and where entering it means fetching it.
    ssh: whether the first node must reach the others without a password.
    """

    srun: str
    programs: Tuple[str, ...]
    files: Tuple[str, ...]
    binds: Tuple[str, ...]
    enter: str
    inside: Tuple[str, ...]
    ssh: bool


def checks(plan: JobPlan, parts: LaunchParts) -> Checks:
    """The checks of a job whose launch is ``parts``."""
    nodes = plan.node_count
    srun: List[Word] = ["srun", Shell(f"--nodes={nodes}"), Shell(f"--ntasks={nodes}")]
    srun.append("--ntasks-per-node=1")
    # --overlap: the step holds no resources. On Slurm 22.05, one launch in eight was refused
    # ("Invalid generic resource") right after a step that had held the GPUs.
    srun += ["--cpus-per-task=1", "--overlap"]
    srun.append("--kill-on-bad-exit=0")  # every node is to report what it lacks
    script, image = plan.request.script or "", plan.request.container
    files = [script] if "/" in script or script.endswith(".py") else []
    outside: List[Word] = [*_program(parts.once), *plan.wrapping.prefix[:1]]
    inside: List[Word] = [*_program(parts.task), *plan.program[:1], script]
    enter = ""
    if image is None:
        outside, inside = outside + inside, []
    elif "://" not in image and not plan.wrapping.srun:
        files.append(image)
        runtime, _, *options = plan.wrapping.prefix
        enter = join([runtime, "exec", *options])
        # What the image's own script makes of the program's name, only that script knows.
        inside = [] if plan.request.container_run else inside
    programs = _programs(outside, files)
    return Checks(
        srun=join([*srun, *plan.cluster.policy.srun_options]),
        programs=programs,
        files=tuple(files),
        binds=_sources(plan),
        enter=enter,
        inside=_programs(inside, files) if enter else (),
        ssh=plan.launcher.ssh,
    )


def _program(words: Sequence[str]) -> List[Word]:
    """The program that a launcher's words start, unless only a shell can tell."""
    return [str(word) for word in words[:1] if re.fullmatch(r"[\w./+-]+", word)]


def _programs(words: List[Word], files: List[str]) -> Tuple[str, ...]:
    """The ``words`` that are names of programs; an option of the launcher may stand first."""
    names = [str(word) for word in words if word not in ("", "srun", *files)]
    return tuple(dict.fromkeys(name for name in names if not name.startswith("-")))


def _sources(plan: JobPlan) -> Tuple[str, ...]:
    """The host's paths in ``--bind``; with Pyxis, a word such as ``tmpfs`` is none."""
    if plan.request.container is None:
        return ()
    binds = [part for bind in plan.request.binds for part in re.split(r"(?<!\\),", bind)]
    sources = [bind.split(":", 1)[0] for bind in binds]
    return tuple(path for path in sources if "/" in path or (path and not plan.wrapping.srun))
