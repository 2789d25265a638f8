"""srun inside a running job, alongside its steps: a shell, or a command on each of its nodes."""

from __future__ import annotations

import re
from typing import Dict, List, Sequence

from neuronctl.common.units import compress_hostlist
from neuronctl.slurm.process import failure, run


def overlap_argv(
    job_id: int, nodes: Sequence[str], program: Sequence[str], *, pty: bool = False
) -> List[str]:
    """Return the command of one task per node in the job's own allocation, alongside its steps."""
    argv = ["srun", f"--jobid={job_id}", "--overlap"]
    argv += [f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--ntasks-per-node=1"]
    argv.append(f"--nodelist={compress_hostlist(nodes)}")
    if pty:
        argv.append("--pty")
    return [*argv, *program]


def on_each_node(job_id: int, nodes: Sequence[str], program: Sequence[str], timeout: float) -> str:
    """Return what a program prints on each node of a running job, with the task before each line.

    Raises SlurmUnavailableError, and SlurmRefusedError with Slurm's message if no node answers.
    """
    argv = overlap_argv(job_id, nodes, program)
    result = run([argv[0], "--label", *argv[1:]], timeout=timeout)
    if result.returncode != 0 and not result.stdout:
        raise failure(result)
    return result.stdout


def split_by_task(text: str) -> Dict[int, List[str]]:
    """Return the lines that srun --label prints, by task, in order; skip other lines."""
    lines: Dict[int, List[str]] = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9]{1,9}): (.*)", line)
        if match:
            lines.setdefault(int(match[1]), []).append(match[2])
    return {task: lines[task] for task in sorted(lines)}
