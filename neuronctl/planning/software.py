"""What runs in a job and what it runs in: the program's words, environment, variables."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from neuronctl.catalog.model import Cluster
from neuronctl.launch.environments import ENVIRONMENTS, Step, load_modules
from neuronctl.launch.launchers import Launcher, not_a_macro
from neuronctl.planning.model import Export, is_secret
from neuronctl.request.job import JobRequest
from neuronctl.shell import Word
from neuronctl.words import counted


def is_python(request: JobRequest) -> bool:
    """Whether the program is a Python file."""
    return (request.script or "").endswith(".py")


def python_file(request: JobRequest) -> Optional[str]:
    """The Python file that the job runs, alone or behind ``python``; None where it runs none."""
    words = [request.script or "", *request.args]
    if re.fullmatch(r"python[0-9.]*", words[0].rpartition("/")[2]):
        options = re.compile(r"-[bBdEiIOqsSuvx]+")
        words = [word for word in words[1:] if not options.fullmatch(word)] or [""]
    return words[0] if words[0].endswith(".py") else None


def program(request: JobRequest, launcher: Launcher, *, macros: bool) -> Tuple[Word, ...]:
    """The words that start the program and its arguments; none in an interactive allocation.

    macros: whether the launcher replaces ``${local_rank}`` in them.
    """
    script, args = request.script, request.args
    if script is None:
        return ()
    words = launcher.python if is_python(request) else launcher.executable
    # Launchers that start the interpreter parse the script's name with argparse, which drops a
    # "--" right after it unless there is one before it.
    if not launcher.python and args[:1] == ("--",):
        words += ("--",)
    if macros:
        script = not_a_macro(script) if is_python(request) else script
        args = tuple(map(not_a_macro, args))
    return (*words, script, *args)


def activation(request: JobRequest, cluster: Cluster) -> Tuple[Step, ...]:
    """The lines that load modules and switch to the environment."""
    steps: List[Step] = []
    if any(one.startswith("export=") for one in request.sbatch):
        steps.append(Step("# Otherwise sbatch's --export would hold for each srun in here, too."))
        steps.append(Step("export PATH SLURM_EXPORT_ENV=ALL"))
    steps += load_modules(request.modules, cluster.policy.login_shell)
    for kind, activate in ENVIRONMENTS.items():
        name = getattr(request, kind)
        if name is not None:
            steps += activate(name)
    return tuple(steps)


def exports(
    request: JobRequest, cluster: Cluster, *, cores: int, processes: int
) -> Tuple[Export, ...]:
    """The job's variables, the user's last; cores and processes are those of one node."""
    given = dict(request.env)
    made: List[Export] = []
    if request.script is not None and "PYTHONUNBUFFERED" not in given:
        made.append(Export("PYTHONUNBUFFERED", "1", "lines reach the log as printed"))
    if "OMP_NUM_THREADS" not in given and "OMP_NUM_THREADS" not in cluster.environment:
        threads = max(1, cores // processes)
        why = counted(cores, "core") + (f" / {processes} processes" if processes > 1 else "")
        made.append(Export("OMP_NUM_THREADS", str(threads), why))
    for name, value in cluster.environment.items():
        if name not in given:
            made.append(Export(name, value, f"{cluster.name} wants it"))
    for name, value in given.items():
        made.append(Export(name, None if is_secret(name, value) else value))
    return tuple(made)
