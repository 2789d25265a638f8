"""Read what this machine shows of a job, once; the rules are pure."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

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


def gather_local_facts(
    plan: JobPlan, *, elsewhere: bool = False, quotas: bool = False
) -> LocalFacts:
    """Return what the rules may know of this machine; raise UsageError if it cannot be read.

    elsewhere: the job may be meant for another machine, with file systems that are not here.
    quotas: whether to ask what is left of the user's quotas, for at most 1 s.
    """
    # salloc changes the directory of its command, but the job is submitted from here.
    given = None if plan.interactive else plan.request.chdir
    directory = os.path.realpath(given or working_directory())
    chdir = _directory_fault(plan)
    launches = [_launch_facts(plan, launch, chdir) for launch in plan.launches]
    return LocalFacts(
        user=login_name(),
        directory=directory,
        config_file=defaults_file(),
        chdir=chdir,
        image=None if chdir else _image_fault(plan),
        environment=None if chdir else _environment_fault(plan),
        log=None if chdir or (elsewhere and _logs_elsewhere(plan)) else _log_fault(plan),
        variables=frozenset(filter(_is_inherited, os.environ)),
        of_steps=tuple(LocalFacts(**facts) for facts in launches) if plan.steps else (),
        broken_texts=tuple(_broken_texts(plan)),
        bad_nodes=bad_nodes(local_cluster()),
        quotas=quotas_where_it_writes(plan, launches[0]["imports"]) if quotas else (),
        **({} if plan.steps else launches[0]),
    )


def _launch_facts(plan: JobPlan, launch: Launch, chdir: Optional[Finding]) -> Dict[str, Any]:
    """Return the fields of LocalFacts for one launch of the plan."""
    request = launch.request
    text = _python_text(request)
    return {
        "program": None if chdir else _program_fault(plan, request),
        "not_on_path": () if chdir else tuple(_not_on_path(plan, launch)),
        "copies": _copies(launch),
        "wandb_line": _wandb_line(launch, text),
        "has_directives": _has_directives(request),
        "stated_sizes": stated_sizes(text),
        "imports": _imports(text) if text and software.is_python(request) else (),
    }


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
    texts = [(launch.prefix, "the shell text", launch.request.body) for launch in plan.launches]
    texts.append(("", "--setup", "\n".join(plan.request.setup)))
    for prefix, what, text in texts:
        if text:
            from neuronctl.scripts.bash_grammar import syntax_problem

            problem = syntax_problem(text)
            if problem is not None:
                yield prefix, what, problem


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
    script = request.script
    if script is None or (_brings_programs(plan) and not _is_file_name(script)):
        return None
    path = request.resolve_path(script)
    message = ""
    hint = "give a path that is valid on the nodes, relative to the job's directory"
    if not (_is_file_name(script) or os.path.isdir(path)) and _on_path(script, request):
        return None
    if not os.path.exists(path):
        place = os.path.realpath(request.chdir or working_directory())
        message = f"no program '{script}' in {place} or on PATH"
        if _is_file_name(script):
            message = f"no file '{script}' in {place}"
        hint = _similar(path) or hint
    elif os.path.isdir(path):
        message = f"'{script}' is a directory, not a program"
    elif not os.path.isfile(path):
        message = f"'{script}' is not a file"
    elif not os.access(path, os.R_OK):
        message = f"cannot read '{script}': permission denied"
    elif not (script.endswith(".py") or os.access(path, os.X_OK) or _has_directives(request)):
        message = f"'{script}' is not executable"  # another rule reports directives
        hint = f"chmod +x {quote(script)}, or run it with bash: bash {quote(script)}"
    return Finding(message, hint) if message else None


def _similar(path: str) -> str:
    """Return, as a hint, a file beside a missing one with nearly the same name."""
    import difflib

    names: Sequence[str] = ()
    with contextlib.suppress(OSError):
        names = os.listdir(os.path.dirname(path) or ".")
    near = difflib.get_close_matches(os.path.basename(path), names, n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else ""


def _brings_programs(plan: JobPlan) -> bool:
    """Return True if the image or the job's PATH may contain a bare name."""
    request = plan.request
    brought = request.container or request.setup or request.conda or "PATH" in dict(request.env)
    return bool(brought) or _may_bring(plan)


def _on_path(name: str, request: JobRequest) -> bool:
    places = [os.environ.get("PATH", os.defpath)]
    if request.venv is not None:
        places.insert(0, request.resolve_path(os.path.expanduser(f"{request.venv}/bin")))
    from shutil import which

    return which(name, path=os.pathsep.join(places)) is not None


def _not_on_path(plan: JobPlan, launch: Launch) -> Iterator[str]:
    """Yield missing programs that start the user's; the gate checks srun."""
    if plan.interactive or _brings_programs(plan):
        return
    launcher = launch.launcher
    called = launcher.programs[0][0] if launcher.programs else "srun"
    names = [called] if called != "srun" else []
    names += launcher.python if software.is_python(launch.request) else ()
    yield from (name for name in names if not _on_path(name, plan.request))


def program_imports(request: JobRequest) -> Tuple[str, ...]:
    """Return what the job's Python program imports, as of LocalFacts."""
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
    name, module = software.python_file(request), software.python_module(request)
    if request.launcher is not None or not launch.starts_several or not (name or module):
        return ""
    if request.container is not None and (name is None or name.startswith("/")):
        return ""  # the image has it
    from neuronctl.rules.python_program import python_program

    # As Python searches: the program's folder, or for a module the working directory; PYTHONPATH.
    directory = request.resolve_path("") or "."
    if name is not None:
        directory = os.path.dirname(os.path.realpath(request.resolve_path(name)))
    python_path = dict(request.env).get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    entries = [entry for entry in python_path.split(os.pathsep) if entry]
    search = [directory, *map(request.resolve_path, entries)]
    return python_program(
        module or request.resolve_path(name or ""), search, module=module is not None
    )


def _image_fault(plan: JobPlan) -> Optional[Finding]:
    """Return why an image cannot be used; an address such as docker:// is not checked.

    Pyxis takes a name that does not begin with ``.`` or ``/`` for a registry's.
    """
    image, places = plan.request.container, plan.cluster.containers.image_dirs
    if image is None:
        return None
    by_pyxis = plan.launches[0].wrapping.srun
    separator = re.search("[,:]", plan.request.chdir or working_directory())
    if separator is not None:
        runtime = "Pyxis" if by_pyxis else plan.launches[0].wrapping.prefix[0]
        message = f"{runtime} cannot bind this directory: its path has '{separator[0]}'"
        return Finding(message, "rename the directory: ',' and ':' separate what --bind names")
    in_registry = by_pyxis and not image.startswith((".", "/")) and not image.endswith(".sqsh")
    path = plan.request.resolve_path(image)
    if "://" in image or in_registry or os.access(path, os.R_OK):
        return None
    hint = f"the site's images are in {', '.join(places)}" if places else ""
    if not os.path.exists(path):
        return Finding(f"no container image '{image}'", hint)
    return Finding(f"cannot read the container image '{image}': permission denied", hint)


def _environment_fault(plan: JobPlan) -> Optional[Finding]:
    """Return why an environment cannot be used; the modules on the node are unknown here."""
    request = plan.request
    if request.venv is not None:
        directory = request.resolve_path(os.path.expanduser(request.venv)).rstrip("/")
        if not os.path.isdir(directory):
            hint = f"create it first: python3 -m venv {quote(directory)}; or name another"
            return Finding(f"no virtual environment '{directory}'", hint)
        if not os.path.isfile(f"{directory}/bin/activate"):
            message = f"'{directory}' is not a virtual environment: it has no bin/activate"
            return Finding(message, "name the directory that 'python3 -m venv' created")
    if request.conda is None:
        return None
    path = request.resolve_path(os.path.expanduser(request.conda))
    if "/" in request.conda and not os.path.isdir(path):
        message = f"no conda environment '{request.conda}'"
        return Finding(message, "name another; 'conda env list' lists yours")
    if _may_bring(plan) or find_conda(request.conda, request.resolve_path("")) is not None:
        return None
    message = "--conda needs 'conda', which is neither on PATH (the job inherits it) nor in "
    hint = "load the module that provides it (--module NAME), or name the environment by its path"
    return Finding(message + ", ".join(CONDA_PLACES), hint)


def _may_bring(plan: JobPlan) -> bool:
    """Return True if script lines before the environment may change PATH."""
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
        if re.search(r"%[0-9]*[AjJ]", directory.replace("%%", "")) and "\\" not in pattern:
            return Finding(
                f"the log directory '{directory}' cannot exist yet: it is named after the job id",
                "put the id into the file name, as in -o %x_%j.out",
            )
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
        return None  # /dev/null
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        hint = f"create it first: mkdir -p {quote(directory)}; or {hint}"
        return Finding(f"the log directory '{directory}' does not exist", hint)
    is_writable = os.path.isfile(path) and os.access(path, os.W_OK)  # it is overwritten
    directory = os.path.abspath(directory)
    if not is_writable and not os.access(directory, os.W_OK | os.X_OK):
        return Finding(f"you cannot write to the log directory '{directory}'", hint)
    space = os.statvfs(directory)
    if (space.f_blocks and not space.f_bavail) or (space.f_files and not space.f_favail):
        words = f"the file system of the log directory '{directory}' is full"
        return Finding(words, f"free some space there, or {hint}", severity=WARNING)
    return None
