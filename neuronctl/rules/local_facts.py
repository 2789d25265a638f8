"""Read what this machine shows of a job; the rules themselves read nothing."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.files import head
from neuronctl.common.paths import defaults_file, working_directory
from neuronctl.common.rule_codes import WARNING
from neuronctl.common.shell import quote
from neuronctl.common.units import expand_log_pattern
from neuronctl.common.users import login_name
from neuronctl.launch.environments import CONDA_PLACES, find_conda
from neuronctl.planning import JobPlan, Launch, software
from neuronctl.records.bad_nodes import bad_nodes
from neuronctl.request.job import JobRequest
from neuronctl.rules.base import Finding, LocalFacts
from neuronctl.rules.quotas import quotas_where_it_writes
from neuronctl.slurm.conf import local_cluster

if TYPE_CHECKING:
    from neuronctl.scripts.bash_grammar import SyntaxProblem


_LONGEST_NAME = 255
"""Bytes of a file's name in Linux."""


def gather_local_facts(
    plan: JobPlan, *, elsewhere: bool = False, quotas: bool = False
) -> LocalFacts:
    """Return what the rules may know of this machine; raise UsageError in a deleted directory.

    elsewhere: the job may be meant for another machine, with file systems that are not here.
    quotas: whether to ask what is left of the user's quotas, for at most 1 s.
    """
    # salloc changes the directory of its command, but the job is submitted from here.
    chdir_option = None if plan.interactive else plan.request.chdir
    chdir = _directory_fault(plan)
    of_launches = tuple(_launch_facts(plan, launch, chdir) for launch in plan.launches)
    return replace(
        LocalFacts(of_steps=of_launches) if plan.steps else of_launches[0],
        user=login_name(),
        directory=os.path.realpath(chdir_option or working_directory()),
        config_file=defaults_file(),
        chdir=chdir,
        image=None if chdir else _image_fault(plan),
        environment=None if chdir else _venv_fault(plan.request) or _conda_fault(plan),
        log=None if chdir or (elsewhere and _logs_elsewhere(plan)) else _log_fault(plan),
        variables=frozenset(filter(_is_inherited, os.environ)),
        broken_texts=tuple(_broken_texts(plan)),
        bad_nodes=bad_nodes(local_cluster()),
        quotas=quotas_where_it_writes(plan, of_launches[0].imports) if quotas else (),
    )


def _launch_facts(plan: JobPlan, launch: Launch, chdir: Optional[Finding]) -> LocalFacts:
    """Return the facts about one launch of the plan. chdir: why its directory cannot be used."""
    request = launch.request
    text = _python_text(request)
    return LocalFacts(
        program=None if chdir else _program_fault(plan, request),
        not_on_path=() if chdir else tuple(_not_on_path(plan, launch)),
        copies=_copies(launch),
        wandb_line=_wandb_line(launch, text),
        has_directives=_has_directives(request),
        stated_sizes=stated_sizes(text),
        imports=_imports(text) if software.is_python(request) else (),
    )


def _wandb_line(launch: Launch, text: str) -> int:
    """Return the line of a program that calls wandb.init in each of several processes, or 0."""
    if launch.processes < 2 or "wandb.init" not in text:
        return 0
    from neuronctl.rules.python_program import wandb_init_line

    return wandb_init_line(text)


def _is_inherited(name: str) -> bool:
    """Return True if a variable of this environment may change the job.

    SBATCH_CLUSTERS and SLURM_CLUSTERS change nothing if they name this cluster.
    """
    return not name.endswith("_CLUSTERS") or os.environ[name].lower() != local_cluster()


def _broken_texts(plan: JobPlan) -> Iterator[Tuple[str, str, SyntaxProblem]]:
    """Yield the user's shell text that bash cannot read, as of LocalFacts."""
    texts = [(launch.prefix, "the shell text", launch.request.body) for launch in plan.launches]
    texts.append(("", "--setup", "\n".join(plan.request.setup)))
    for prefix, name, text in texts:
        if text:
            from neuronctl.scripts.bash_grammar import syntax_problem

            problem = syntax_problem(text)
            if problem is not None:
                yield prefix, name, problem


def _is_file_name(script: str) -> bool:
    return "/" in script or script.endswith(".py")


def _has_directives(request: JobRequest) -> bool:
    path = request.resolve_path(request.script or "")
    return _is_file_name(path) and os.path.isfile(path) and b"\n#SBATCH " in head(path, 20_000)


def _imports(text: str) -> Tuple[str, ...]:
    """Return the names in a Python file's import lines, except Python's own modules."""
    others = {*software.own_modules(), "import", "as"}
    lines = re.findall(r"^[ \t]*(?:import|from)[ \t]+([^#;\n]*)", text, re.MULTILINE)
    names = re.findall(r"\w+", " ".join(lines))
    return tuple(dict.fromkeys(name.lower() for name in names if name not in others))


def stated_sizes(text: str) -> Tuple[Tuple[str, int], ...]:
    """Return the sizes in a program's calls of Lightning, Ray Train, and torch's spawn."""
    sizes: List[Tuple[str, int]] = []
    calls = r"\b(?:Trainer|Fabric|ScalingConfig|mp\.spawn|multiprocessing\.spawn)\("
    size = r"\b(devices|gpus|num_nodes|num_workers|nprocs)\s*=\s*([1-9]\d{0,5})\s*(?:,|$)"
    for call in re.finditer(calls + r"((?:[^()]|\([^()]*\))*)\)", text):
        arguments = re.sub(r"\([^()]*\)", "", call[1])
        sizes += [(name, int(count)) for name, count in re.findall(size, arguments)]
    return tuple(sizes)


def _directory_fault(plan: JobPlan) -> Optional[Finding]:
    directory = plan.request.chdir
    if directory is None or os.access(os.path.join(directory, ""), os.X_OK):
        return None
    hint = f"create it first: mkdir -p {quote(directory)}; or name another"
    if os.path.isdir(directory):
        return Finding(f"you cannot enter the directory '{directory}': permission denied", hint)
    if "~" in directory.split("/"):
        hint = "Slurm does not expand ~: write out the home directory"
    return Finding(f"there is no directory '{directory}': Slurm would run the job in /tmp", hint)


def _program_fault(plan: JobPlan, request: JobRequest) -> Optional[Finding]:
    """Return why the program cannot run; None if it can, or if the job itself may provide it."""
    script = request.script
    if script is None:
        return None
    path = request.resolve_path(script)
    if not _is_file_name(script):
        is_found = not os.path.isdir(path) and _on_path(script, request)
        if is_found or _brings_programs(plan):
            return None
    hint = "give a path that is valid on the nodes, relative to the job's directory"
    if not os.path.exists(path):
        directory = os.path.realpath(request.chdir or working_directory())
        message = f"no program '{script}' in {directory} or on PATH"
        if _is_file_name(script):
            message = f"no file '{script}' in {directory}"
        return Finding(message, _similar(path) or hint)
    if os.path.isdir(path):
        return Finding(f"'{script}' is a directory, not a program", hint)
    if not os.path.isfile(path):
        return Finding(f"'{script}' is not a file", hint)
    if not os.access(path, os.R_OK):
        return Finding(f"cannot read '{script}': permission denied", hint)
    # NC402 reports a batch script.
    if script.endswith(".py") or os.access(path, os.X_OK) or _has_directives(request):
        return None
    hint = f"chmod +x {quote(script)}, or run it with bash: bash {quote(script)}"
    return Finding(f"'{script}' is not executable", hint)


def _similar(path: str) -> str:
    """Return a hint with the file whose name is most like that of a missing one, or ""."""
    import difflib

    names: Sequence[str] = ()
    with contextlib.suppress(OSError):
        names = os.listdir(os.path.dirname(path) or ".")
    similar = difflib.get_close_matches(os.path.basename(path), names, n=1, cutoff=0.7)
    return "".join(f"did you mean {name}?" for name in similar)


def _brings_programs(plan: JobPlan) -> bool:
    """Return True if the job itself may provide a program that this machine lacks."""
    request = plan.request
    has_own = request.container or request.setup or request.conda or "PATH" in dict(request.env)
    return bool(has_own) or _may_change_path(plan)


def _on_path(name: str, request: JobRequest) -> bool:
    places = [os.environ.get("PATH", os.defpath)]
    if request.venv is not None:
        places.insert(0, request.resolve_path(os.path.expanduser(f"{request.venv}/bin")))
    from shutil import which

    return which(name, path=os.pathsep.join(places)) is not None


def _not_on_path(plan: JobPlan, launch: Launch) -> Iterator[str]:
    """Yield the launcher and the interpreter if they are missing; the preflight checks srun."""
    if plan.interactive or _brings_programs(plan):
        return
    launcher = launch.launcher
    program = launcher.programs[0][0] if launcher.programs else "srun"
    names = [program] if program != "srun" else []
    names += launcher.python if software.is_python(launch.request) else ()
    yield from (name for name in names if not _on_path(name, plan.request))


def program_imports(request: JobRequest) -> Tuple[str, ...]:
    """Return the names that the job's Python program imports, as LocalFacts has them."""
    return _imports(_python_text(request)) if software.is_python(request) else ()


def _python_text(request: JobRequest) -> str:
    """Return the text of the job's Python file without comments, or ""."""
    file = software.python_file(request)
    return "" if file is None else program_text("", request.resolve_path(file))


def program_text(directory: str, name: str) -> str:
    """Return the text of a program in a directory without comments, or ""."""
    path = os.path.join(directory, name)
    if not os.path.isfile(path):
        return ""
    text = head(path, software.LONGEST_PROGRAM).decode("utf-8", "replace")
    return re.sub(r"(?m)^[ \t]*#.*", "", text)


def _copies(launch: Launch) -> str:
    """Return what a program's copies do (ALONE, NO_SIGN); "" if they share the work, or unknown.

    Only a launcher that starts several processes by default makes copies that nobody asked for.
    """
    request = launch.request
    file, module = software.python_file(request), software.python_module(request)
    if request.launcher is not None or not launch.starts_several or not (file or module):
        return ""
    if request.container is not None and (file is None or file.startswith("/")):
        return ""  # the image has it
    from neuronctl.rules.python_program import judge_copies

    # Python searches the working directory for a module, and the folder of a program's file.
    name, directory = module or "", request.resolve_path("") or "."
    if file is not None:
        name = request.resolve_path(file)
        directory = os.path.dirname(os.path.realpath(name))
    python_path = dict(request.env).get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    entries = [entry for entry in python_path.split(os.pathsep) if entry]
    search = [directory, *map(request.resolve_path, entries)]
    return judge_copies(name, search, module=module is not None)


def _image_fault(plan: JobPlan) -> Optional[Finding]:
    """Return why an image, or the directory that it gets, cannot be used."""
    image, image_dirs = plan.request.container, plan.cluster.containers.image_dirs
    if image is None:
        return None
    wrapping = plan.launches[0].wrapping
    is_pyxis = wrapping.srun
    separator = re.search("[,:]", plan.request.chdir or working_directory())
    if separator is not None:
        runtime = "Pyxis" if is_pyxis else wrapping.prefix[0]
        message = f"{runtime} cannot bind this directory: its path has '{separator[0]}'"
        return Finding(message, "rename the directory: ',' and ':' separate what --bind names")
    # Pyxis takes any other name for an image in a registry.
    is_file = not is_pyxis or image.startswith((".", "/")) or image.endswith(".sqsh")
    path = plan.request.resolve_path(image)
    if "://" in image or not is_file or os.access(path, os.R_OK):
        return None
    hint = f"the site's images are in {', '.join(image_dirs)}" if image_dirs else ""
    if not os.path.exists(path):
        return Finding(f"no container image '{image}'", hint)
    return Finding(f"cannot read the container image '{image}': permission denied", hint)


def _venv_fault(request: JobRequest) -> Optional[Finding]:
    """Return why the virtual environment cannot be activated."""
    if request.venv is None:
        return None
    directory = request.resolve_path(os.path.expanduser(request.venv)).rstrip("/")
    if not os.path.isdir(directory):
        hint = f"create it first: python3 -m venv {quote(directory)}; or name another"
        return Finding(f"no virtual environment '{directory}'", hint)
    if not os.path.isfile(f"{directory}/bin/activate"):
        message = f"'{directory}' is not a virtual environment: it has no bin/activate"
        return Finding(message, "name the directory that 'python3 -m venv' created")
    return None


def _conda_fault(plan: JobPlan) -> Optional[Finding]:
    """Return why the conda environment cannot be activated."""
    request = plan.request
    if request.conda is None:
        return None
    path = request.resolve_path(os.path.expanduser(request.conda))
    if "/" in request.conda and not os.path.isdir(path):
        message = f"no conda environment '{request.conda}'"
        return Finding(message, "name another; 'conda env list' lists yours")
    if _may_change_path(plan) or find_conda(request.conda, request.resolve_path("")) is not None:
        return None
    message = "--conda needs 'conda', which is neither on PATH (the job inherits it) nor in "
    hint = "load the module that provides it (--module NAME), or name the environment by its path"
    return Finding(message + ", ".join(CONDA_PLACES), hint)


def _may_change_path(plan: JobPlan) -> bool:
    """Return True if lines of the script before the environment may change PATH."""
    request = plan.request
    return bool(request.modules or plan.cluster.policy.login_shell)


def _logs_elsewhere(plan: JobPlan) -> bool:
    """Return True if a log is on a file system that this machine lacks."""
    paths = [path for path in (plan.output, plan.error) if path and path.startswith("/")]
    return any(not os.path.isdir(os.path.join("/", path.split("/")[1])) for path in paths)


def _log_fault(plan: JobPlan) -> Optional[Finding]:
    for pattern in (plan.output, plan.error):
        if pattern is None:
            continue
        directory = os.path.dirname(pattern)
        has_job_id = re.search(r"%[0-9]*[AjJ]", directory.replace("%%", ""))
        if has_job_id and "\\" not in pattern:  # a backslash disables the patterns
            message = f"the log directory '{directory}' cannot exist yet: it is named after the "
            return Finding(message + "job id", "put the id into the file name, as in -o %x_%j.out")
        user, name = login_name(), plan.job_name
        file = expand_log_pattern(pattern, job_id=1, array_task_id=0, job_name=name, user=user)
        fault = log_fault(plan.request.resolve_path(file))
        if fault is not None:
            return fault
    return None


def log_fault(path: str) -> Optional[Finding]:
    """Return why a log cannot be written here; a warning if only the file system is full."""
    hint = "choose another with -o"
    if os.path.isdir(path):
        return Finding(f"the log file '{path}' is a directory", hint)
    if os.path.exists(path) and not os.path.isfile(path) and os.access(path, os.W_OK):
        return None  # a device, such as /dev/null
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        hint = f"create it first: mkdir -p {quote(directory)}; or {hint}"
        return Finding(f"the log directory '{directory}' does not exist", hint)
    length = len(os.fsencode(os.path.basename(path)))
    if length > _LONGEST_NAME:
        limit = f"{length} bytes, and at most {_LONGEST_NAME} are possible"
        return Finding(f"the name of the log file is too long: {limit}", hint)
    directory = os.path.abspath(directory)
    may_overwrite = os.path.isfile(path) and os.access(path, os.W_OK)
    if not may_overwrite and not os.access(directory, os.W_OK | os.X_OK):
        return Finding(f"you cannot write to the log directory '{directory}'", hint)
    space = os.statvfs(directory)
    # Some file systems have no number of blocks, or of files: 0.
    has_no_bytes = space.f_blocks and not space.f_bavail
    has_no_files = space.f_files and not space.f_favail
    if has_no_bytes or has_no_files:
        message = f"the file system of the log directory '{directory}' is full"
        return Finding(message, f"free some space there, or {hint}", severity=WARNING)
    return None
