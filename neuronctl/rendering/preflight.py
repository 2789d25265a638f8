"""What is looked for on every node before a launch."""

from __future__ import annotations

import re
from typing import List, Tuple

from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan
from neuronctl.rendering.launch_command import LaunchParts
from neuronctl.shell import Word, join


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
    srun = ["srun", f"--nodes={plan.nodes}", f"--ntasks={plan.nodes}", "--ntasks-per-node=1"]
    # --overlap: a step that takes nothing; seen on Slurm 22.05, one launch in eight was refused
    # ("Invalid generic resource") right behind a step that had held the GPUs.
    srun += ["--cpus-per-task=1", "--overlap"]
    srun.append("--kill-on-bad-exit=0")  # every node is to report what it lacks
    script, image = plan.request.script or "", plan.request.container
    files = [script] if "/" in script or script.endswith(".py") else []
    outside: List[Word] = [*parts.once[:1], *plan.wrapping.prefix[:1]]
    inside: List[Word] = [*parts.task[:1], *plan.program[:1], script]
    enter = ""
    if image is None:
        outside, inside = outside + inside, []
    elif "://" not in image and not plan.wrapping.srun:
        files.append(image)
        enter = join(plan.wrapping.prefix)
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


def _programs(words: List[Word], files: List[str]) -> Tuple[str, ...]:
    """Those of ``words`` that are names of programs; a launcher's option may stand first."""
    found = [str(word) for word in words if word not in ("", "srun", *files)]
    return tuple(dict.fromkeys(one for one in found if not one.startswith("-")))


def _sources(plan: JobPlan) -> Tuple[str, ...]:
    """The paths of the host that ``--bind`` names; Pyxis knows ``tmpfs`` there too."""
    if plan.request.container is None:
        return ()
    specs = [one for bind in plan.request.binds for one in re.split(r"(?<!\\),", bind)]
    sources = [one.split(":", 1)[0] for one in specs]
    return tuple(one for one in sources if "/" in one or (one and not plan.wrapping.srun))
