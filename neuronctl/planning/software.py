"""What runs in a job and what it runs in: the program's words, environment, variables."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from neuronctl.catalog.model import Cluster
from neuronctl.launch.environments import (
    Conda,
    Step,
    activate_conda,
    activate_venv,
    define_module,
    load_modules,
)
from neuronctl.launch.launchers import Launcher, not_a_macro
from neuronctl.planning.model import Export, is_secret
from neuronctl.request.job import JobRequest
from neuronctl.shell import Shell, Word, expanded
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
    if macros and is_python(request):
        script = not_a_macro(script)
    return (*words, script, *(_argument(arg, bool(request.expand), macros) for arg in args))


def _argument(text: str, expand: bool, macros: bool) -> Word:
    word = expanded(text) if expand else text
    if not macros:
        return word
    return expanded(text, dollar="$$") if isinstance(word, Shell) else not_a_macro(word)


def activation(request: JobRequest, cluster: Cluster, conda: Optional[Conda]) -> Tuple[Step, ...]:
    """The lines that load modules and switch to the environment, the user's own first."""
    # Before the user's own lines, since `module use` may be among them.
    steps = list(define_module(cluster.policy.login_shell) if request.modules else ())
    steps += map(Step, request.setup_first)
    if request.modules:
        steps += load_modules(request.modules, purge=request.purge is not False)
    if request.conda is not None:
        steps += activate_conda(request.conda, conda)
    if request.venv is not None:
        steps += activate_venv(request.venv)
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
        shown = expanded(value) if request.expand else value
        made.append(Export(name, None if is_secret(name, value, request.expand) else shown))
    return tuple(made)
