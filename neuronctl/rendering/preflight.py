"""The preflight's checks on the nodes before a launch."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Sequence, Tuple

from neuronctl.common.shell import CommandWord, Shell, join
from neuronctl.planning import JobPlan, Launch
from neuronctl.rendering.launch_command import launch_parts


def list_checks(plan: JobPlan) -> Dict[str, Any]:
    """Return what the preflight checks on each node.

    srun: the command that runs the preflight once per node; "" if only the batch shell's node needs
    it. programs: names or paths that must exist, on the node or on PATH. files: must be readable.
    gpus: how many each node must show; 1 if the job itself selects some of its GPUs. ssh: whether
    the first node must reach the others without a password.
    """
    launchers = [launch.launcher for launch in plan.launches]
    on_all_nodes = plan.most_nodes > 1 and any(launcher.takes_all_nodes for launcher in launchers)
    image, wrapping = plan.request.container, plan.launches[0].wrapping
    files: List[str] = []
    programs: List[CommandWord] = [*wrapping.prefix[:1]]
    for launch in _launches_before_shell_text(plan):
        script = launch.request.script or "bash"
        parts = launch_parts(plan, launch)
        may_be_in_image = image is not None and script.startswith("/")
        if script.endswith(".py") and not may_be_in_image:
            files.append(script)
        programs += _program(parts.once)
        if image is None:
            programs += [*_program(parts.task), *launch.program[:1], script]
    # An image with :// is no file, and Pyxis finds its images itself.
    if image is not None and "://" not in image and not wrapping.srun:
        files.append(image)
    return {
        "srun": once_per_node(plan) if on_all_nodes else "",
        "programs": _names_of_programs(programs, files),
        "files": list(dict.fromkeys(files)),
        "gpus": min(plan.gpus_per_node, 1) if _selects_gpus(plan) else plan.gpus_per_node,
        "ssh": on_all_nodes and any(launcher.ssh for launcher in launchers),
    }


def _launches_before_shell_text(plan: JobPlan) -> Sequence[Launch]:
    """Return the launches up to the first step with shell text, which may make what others need."""
    launches: List[Launch] = []
    for step in plan.steps:
        launches += step
        if any(launch.inline for launch in step):
            break
    return launches or plan.launches


def once_per_node(plan: JobPlan) -> str:
    """Return the srun that starts a command once per node of the job, beside other steps."""
    return once_on_each(str(plan.node_count), plan.cluster.policy.srun_options)


def once_on_each(nodes: str, options: Sequence[str] = ()) -> str:
    """Return the srun that starts a command once on each of ``nodes``, which are shell text.

    Its step holds no resources (--overlap): on Slurm 22.05, one launch in eight was refused
    ("Invalid generic resource") right after a step that had held the GPUs.
    """
    srun: List[CommandWord] = ["srun", Shell(f"--nodes={nodes}"), Shell(f"--ntasks={nodes}")]
    srun += ["--ntasks-per-node=1", "--cpus-per-task=1", "--overlap"]
    srun.append("--kill-on-bad-exit=0")  # all nodes report, even if one fails
    return join([*srun, *options])


NO_MEMORY = " --mem=0"
"""Option of a step beside others: it needs no memory of its own, which they may have taken."""


def _program(words: Sequence[str]) -> List[CommandWord]:
    """Return the first of a launcher's words if it is a program's name; none for shell text."""
    return [str(word) for word in words[:1] if re.fullmatch(r"[\w./+-]+", word)]


def _names_of_programs(words: List[CommandWord], files: List[str]) -> Tuple[str, ...]:
    """Return the ``words`` that name programs to look for: no options, no files, no shell."""
    names = [str(word) for word in words if word not in ("", "srun", "bash", *files)]
    return tuple(
        dict.fromkeys(name for name in names if not name.startswith("-") and name[-3:] != ".py")
    )


def _selects_gpus(plan: JobPlan) -> bool:
    """Return True if the job itself selects some of its GPUs, and no launcher needs them all."""
    if plan.launches[0].launcher.starts_processes() and not plan.steps:
        return False
    texts = (*dict(plan.request.env), *plan.request.setup)
    return any("_VISIBLE_DEVICES" in text for text in texts)
