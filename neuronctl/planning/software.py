"""The program of a job: its words, its environment, and its variables."""

from __future__ import annotations

import os
import re
import sys
from typing import FrozenSet, List, Optional, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.common.files import head
from neuronctl.common.secrets import is_private
from neuronctl.common.shell import CommandWord, Shell
from neuronctl.common.words import counted
from neuronctl.launch import environments
from neuronctl.launch.launchers import Launcher, find_call, not_a_macro
from neuronctl.planning.job_plan import Export
from neuronctl.request.job import JobRequest
from neuronctl.scripts.header import interpreter
from neuronctl.scripts.usual_commands import names_python, program_at, python_runs

LONGEST_PROGRAM = 500_000
"""The most bytes of a program's text that are read."""


def own_modules() -> FrozenSet[str]:
    """Return the names of Python's own modules."""
    names = getattr(sys, "stdlib_module_names", None)  # Python 3.9 lacks them
    if names is None:
        files = os.listdir(os.path.dirname(os.__file__))
        names = {*sys.builtin_module_names, *(name.partition(".")[0] for name in files)}
    return frozenset(names)


def is_python(request: JobRequest) -> bool:
    """Return True if the request's script is a Python file."""
    return (request.script or "").endswith(".py")


def _command(request: JobRequest) -> List[str]:
    """Return the program and its arguments, without ``env A=1``, ``uv run``, and the like."""
    words = [request.script or "", *request.args]
    return words[program_at(words) :] or words


def python_file(request: JobRequest) -> Optional[str]:
    """Return the Python file that the job runs, with or without ``python``; otherwise None."""
    kind, name, _ = _run_by_python(request)
    return name if kind == "script" and name.endswith(".py") else None


def python_module(request: JobRequest) -> Optional[str]:
    """Return the module that the job runs with ``python -m``; otherwise None."""
    kind, name, _ = _run_by_python(request)
    return name if kind == "m" and name else None


def _run_by_python(request: JobRequest) -> Tuple[str, str, List[str]]:
    """Return the kind (see python_runs()), the name, and the arguments of what Python runs."""
    words = _command(request)
    if not names_python(words[0]):  # a Python file may be called without python
        return "script", words[0], words[1:]
    kind, name, first_argument = python_runs(words)
    return kind, name, words[first_argument:]


_SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "fish")
_STARTS_OTHERS = (
    *("ray", "jupyter", "jupyter-lab", "jupyter-notebook", "jupyterlab", "notebook"),
    *("vllm", "sglang", "streamlit", "tensorboard"),
)
"""Programs and Python packages that are started once: they start the other processes themselves."""


def runs_python(request: JobRequest) -> bool:
    """Return True if the program is a Python file or module, with or without ``python``."""
    return python_module(request) is not None or python_file(request) is not None


def _program_words(request: JobRequest) -> Tuple[str, List[str]]:
    """Return the name of the program, or of the module behind ``python -m``, and its arguments."""
    if python_module(request) is not None:
        _, name, args = _run_by_python(request)
        return name, args
    program, *args = _command(request)
    return program.rpartition("/")[2], args


def called_launcher(request: JobRequest) -> Optional[Tuple[Launcher, str, List[str]]]:
    """Return the launcher that the program is, its typed name, and its arguments; or None."""
    name, args = _program_words(request)
    if name.endswith(".py"):
        return None
    call = find_call((name, *args))
    return None if call is None else (call.launcher, name, args)


def named_after(request: JobRequest) -> str:
    """Return the program, the module, or the file that Python, a shell, or a launcher runs."""
    name, args = _program_words(request)
    if names_python(name) or name in _SHELLS or called_launcher(request) is not None:
        for word in args:
            if word.endswith((".py", ".sh")):
                return word
    is_module = name != _command(request)[0].rpartition("/")[2]
    return name.rpartition(".")[2] if is_module else name


def starts_once(request: JobRequest) -> str:
    """Return why the program must start only once, by its name or first line; "": it need not."""
    name, _ = _program_words(request)
    if request.steps:
        return "the steps have launchers of their own"
    if request.body is not None:
        return "shell text"
    if runs_shell(request):
        return "a shell script"
    if name.partition(".")[0] in _STARTS_OTHERS or called_launcher(request) is not None:
        return f"{name} starts the processes itself"
    return ""


def runs_shell(request: JobRequest) -> bool:
    """Return True if the program is a shell script, by its name or its first line."""
    name, _ = _program_words(request)
    if name in _SHELLS or name.endswith((".sh", ".bash")):
        return True
    script = _command(request)[0]
    path = request.resolve_path(script)
    return "/" in script and os.path.isfile(path) and _interpreter(path) in _SHELLS


def _interpreter(path: str) -> str:
    """Return the name of the program that a script's first line calls, or ""."""
    line = head(path, 200).partition(b"\n")[0].decode("utf-8", "replace")
    return interpreter(line[2:]) if line.startswith("#!") else ""


def program(request: JobRequest, launcher: Launcher, *, macros: bool) -> Tuple[CommandWord, ...]:
    """Return the words that start the program and its arguments; none in an interactive allocation.

    macros: whether the launcher replaces ``${local_rank}`` in them.
    """
    script, args = request.script, request.args
    if request.body is not None:
        script, args = "bash", ("-c", request.body.strip("\n"))
    if script is None:
        return ()
    words = launcher.python if is_python(request) else launcher.executable
    # Launchers that start Python parse the script's name with argparse, which drops a "--" right
    # after the name, unless another "--" precedes the name.
    dashes = ("--",) if not launcher.python and args[:1] == ("--",) else ()
    name = not_a_macro(script) if macros and is_python(request) else script
    arguments = map(not_a_macro, args) if macros else args
    resume = (Shell('"${resume_with[@]}"'),) if request.resume_with else ()
    return (*words, *dashes, name, *arguments, *resume)


def activation(
    request: JobRequest, cluster: Cluster, conda: Optional[environments.Conda]
) -> Tuple[environments.ShellLine, ...]:
    """Return the lines that load modules and switch to the environment."""
    steps: List[environments.ShellLine] = []
    if request.sbatch_value("export") is not None:
        remark = "# Otherwise sbatch's --export would hold for each srun in here, too."
        steps.append(environments.ShellLine(remark))
        steps.append(environments.ShellLine("export PATH SLURM_EXPORT_ENV=ALL"))
    if request.modules:
        login_shell = cluster.policy.login_shell
        steps += environments.load_modules(request.modules, login_shell=login_shell)
    if request.conda is not None:
        steps += environments.activate_conda(request.conda, conda)
    if request.venv is not None:
        steps += environments.activate_venv(request.venv)
    return tuple(steps)


WANDB_RUN = "WANDB_RUN_ID"
_WANDB = (
    r"(?mi)^[ \t]*(?:import|from)[ \t][^#\n]*\bwandb|\bWandb(?:Logger|Callback)\b"
    r"|^[^#\n]*(?:report_to|log_with)\b[^\n]*wandb"
)
_SEVERAL_RUNS = r"\bwandb\.(?:agent|sweep)\(|\breinit\s*="
"""Calls with which one process makes several W&B runs."""


def imports_wandb(request: JobRequest) -> bool:
    """Return True if the program, or a module beside it, logs one run to W&B."""
    file = python_file(request)
    if file is None or {WANDB_RUN, "WANDB_SWEEP_ID"}.intersection(dict(request.env)):
        return False
    path = request.resolve_path(file)
    text = _text_of(path)
    if not re.search(_WANDB, text):
        modules = set(re.findall(r"(?m)^[ \t]*(?:import|from)[ \t]+([\w.]+)", text))
        for module in sorted(modules):
            beside = os.path.join(os.path.dirname(path), *module.split("."))
            text += f"\n{_text_of(f'{beside}.py')}\n{_text_of(f'{beside}/__init__.py')}"
    return bool(re.search(_WANDB, text)) and not re.search(_SEVERAL_RUNS, text)


def _text_of(path: str) -> str:
    """Return the text of a program, or "" if there is none."""
    return head(path, LONGEST_PROGRAM).decode("utf-8", "replace")


def wandb_run(request: JobRequest, cluster: Cluster, step: str = "") -> Export:
    """Return the variable that lets all runs of a job or step continue one W&B run."""
    if step:
        part = "-".join(re.findall("[0-9]+", step))
        return Export(WANDB_RUN, Shell(f"${WANDB_RUN}-{part}"), f"of {step}")
    # The script's fourth argument is the first job of a chain, or of unchanged resubmissions.
    job = "${4:-$SLURM_JOB_ID}"
    if request.array:
        job = "${4:-$SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
    words = Shell(f"nc-{cluster.name}-{job} WANDB_RESUME=allow")
    return Export(WANDB_RUN, words, "all runs of this job continue it")


def exports(
    request: JobRequest,
    cluster: Cluster,
    *,
    cores: int,
    processes: int,
    wandb: Optional[Export] = None,
) -> Tuple[Export, ...]:
    """Return the variables of a job or launch, the user's last. cores, processes: per node.

    The user's replace others of their name. wandb: from wandb_run(); None: no W&B run.
    """
    defaults: List[Export] = []
    runs_program = request.script is not None or request.body is not None or request.steps
    if runs_program:
        defaults.append(Export("PYTHONUNBUFFERED", "1", "lines reach the log as printed"))
    if runs_program and request.container is not None:
        defaults.append(Export("PYTHONNOUSERSITE", "1", "~/.local is not the image's"))
    texts = [request.body or "", *(step.body or "" for step in request.steps)]
    has_srun = any(re.search(r"\bsrun\b", text) for text in texts)
    leaves_cores_to_slurm = request.cpus_per_task == 0  # then $SLURM_CPUS_PER_TASK is not set
    if has_srun and not leaves_cores_to_slurm:
        why = "else each srun below gives its tasks one core"
        defaults.append(Export("SRUN_CPUS_PER_TASK", Shell("$SLURM_CPUS_PER_TASK"), why))
    if processes > 1 and request.script is not None and _THREADS not in cluster.environment:
        defaults.append(_export_threads(cores, processes))
    for name, value in cluster.environment.items():
        defaults.append(Export(name, value, f"{cluster.name} wants it"))
    if wandb is not None:
        defaults.append(wandb)
    users = dict(request.env)
    variables = [variable for variable in defaults if variable.name not in users]
    for name, value in users.items():
        # Without a value, the script takes a secret from its environment and does not contain it.
        variables.append(Export(name, None if is_private(name, value) else value))
    return tuple(variables)


_THREADS = "OMP_NUM_THREADS"


def _export_threads(cores: int, processes: int) -> Export:
    """Return the variable that gives each of several processes on a node its share of the cores.

    Otherwise each would start as many threads as there are cores, or under torchrun a single one.
    A process that is alone may use all cores that Slurm gave it.
    """
    threads = Shell(f"${{{_THREADS}:-{max(1, cores // processes)}}}")
    reason = f"{counted(cores, 'core')} / {processes} processes, unless you exported it"
    return Export(_THREADS, threads, reason)
