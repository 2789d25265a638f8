"""The preflight's checks on the nodes before a launch."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Sequence, Tuple

from neuronctl.common.shell import CommandWord, Shell, join
from neuronctl.planning import JobPlan, Launch
from neuronctl.rendering.launch_command import launch_parts


def checks(plan: JobPlan) -> Dict[str, Any]:
    """Return what the preflight looks for on each node; with steps, up to the first shell text.

    Shell text may make what later steps need. In a container, nothing is looked for.

    srun: the command that runs it once per node; empty if the batch shell does, because nothing
    is launched on other nodes. programs: looked for on PATH. files: must be readable. gpus: how
    many each node must show; one if the job chooses itself. ssh: whether the first node must reach
    the others without a password.
    """
    launches: List[Launch] = []
    for step in plan.steps or (plan.launches,):
        launches += step
        if plan.steps and any(launch.inline for launch in step):
            break
    several = plan.most_nodes > 1 and any(part.launcher.takes_all_nodes for part in plan.launches)
    image, wrapping = plan.request.container, plan.launches[0].wrapping
    files: List[str] = []
    programs: List[CommandWord] = [*wrapping.prefix[:1]]
    for launch in launches:
        script = launch.request.script or "bash"
        parts = launch_parts(plan, launch)
        # An absolute path may be one in the image.
        if script.endswith(".py") and (image is None or not script.startswith("/")):
            files.append(script)
        programs += _program(parts.once)
        if image is None:
            programs += [*_program(parts.task), *launch.program[:1], script]
    if image is not None and "://" not in image and not wrapping.srun:
        files.append(image)
    return {
        "srun": once_per_node(plan) if several else "",
        "programs": _programs(programs, files),
        "files": list(dict.fromkeys(files)),
        "gpus": min(plan.gpus_per_node, 1) if _chooses_gpus(plan) else plan.gpus_per_node,
        "ssh": several and any(launch.launcher.ssh for launch in plan.launches),
    }


def once_per_node(plan: JobPlan) -> str:
    """Return the srun that starts a command once per node of the job, beside other steps."""
    return once_on_each(str(plan.node_count), plan.cluster.policy.srun_options)


def once_on_each(nodes: str, options: Sequence[str] = ()) -> str:
    """Return the same for ``nodes``, which are shell text.

    --overlap: the step holds no resources. On Slurm 22.05, one launch in eight was refused
    ("Invalid generic resource") right after a step that had held the GPUs.
    """
    srun: List[CommandWord] = ["srun", Shell(f"--nodes={nodes}"), Shell(f"--ntasks={nodes}")]
    srun += ["--ntasks-per-node=1", "--cpus-per-task=1", "--overlap"]
    srun.append("--kill-on-bad-exit=0")  # no node's failure affects another
    return join([*srun, *options])


NO_MEMORY = " --mem=0"
"""For a step beside others: it asks for no memory of its own, which others may have taken."""


def _program(words: Sequence[str]) -> List[CommandWord]:
    """Return the program that a launcher's words start, unless only a shell can know it."""
    return [str(word) for word in words[:1] if re.fullmatch(r"[\w./+-]+", word)]


def _programs(words: List[CommandWord], files: List[str]) -> Tuple[str, ...]:
    """Return the ``words`` that name programs; a launcher's option may come first."""
    names = [str(word) for word in words if word not in ("", "srun", "bash", *files)]
    return tuple(
        dict.fromkeys(name for name in names if not name.startswith("-") and name[-3:] != ".py")
    )


def _chooses_gpus(plan: JobPlan) -> bool:
    """Return True if the job selects some of its GPUs itself and no launcher needs them all."""
    if plan.launches[0].launcher.starts_processes() and not plan.steps:
        return False
    texts = (*dict(plan.request.env), *plan.request.setup)
    return any("_VISIBLE_DEVICES" in text for text in texts)
