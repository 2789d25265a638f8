"""What can be seen on this machine of a job: its program, image, environment and log directory.

The rules are pure; this is where the file system is looked at for them, once.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Iterator, List, Optional, Tuple

from neuronctl.files import open_regular
from neuronctl.launch.containers import elf_arch, sif_arch
from neuronctl.launch.environments import CONDA_PLACES, find_conda
from neuronctl.paths import defaults_file, working_directory
from neuronctl.planning import JobPlan
from neuronctl.planning.software import is_python, python_file
from neuronctl.request.job import JobRequest, Source
from neuronctl.request.options import unknown_to_sbatch
from neuronctl.rules import LocalFacts
from neuronctl.shell import quote
from neuronctl.units import expand_log_pattern
from neuronctl.users import login_name


def gather_local_facts(plan: JobPlan) -> LocalFacts:
    """What the rules may know of this machine; raises UsageError where it cannot be looked at."""
    # salloc changes the directory of its command; the job is submitted from here.
    given = None if plan.interactive else plan.request.chdir
    directory = os.path.realpath(given or working_directory())
    text = _python_text(plan)
    problems = {"NC412": _directory_problem(plan)}
    if problems["NC412"] is None:
        problems["NC401"] = _script_problem(plan)
        problems["NC403"] = _image_problem(plan)
        problems["NC406"] = _environment_problem(plan)
        problems["NC411"] = _log_problem(plan)
    return LocalFacts(
        user=login_name(),
        directory=directory,
        config_file=defaults_file(),
        problems={code: problem for code, problem in problems.items() if problem is not None},
        needs_ranks=_needs_ranks(text),
        uses_several_gpus=bool(text) and re.search(_SEVERAL_GPUS, text) is not None,
        has_directives=_has_directives(plan.request),
        imports=_imports(text) if text and is_python(plan.request) else (),
        variables=frozenset(os.environ),
        environment_bytes=sum(len(f"{name}={value} ") for name, value in os.environ.items()),
        built_for=tuple(_architectures(plan)),
        of_steps=tuple(gather_local_facts(launch) for launch in plan.launches)
        if plan.steps
        else (),
        plugin_options=_plugin_options(plan),
        typed_secrets=tuple(_typed_secrets(plan)),
        broken_texts=tuple(_broken_texts(plan)),
    )


def _plugin_options(plan: JobPlan) -> Tuple[str, ...]:
    """sbatch is asked only where an option may be one of the site's own plugins."""
    names = [option.partition("=")[0] for option in plan.request.sbatch]
    unknown = [name for name in names if unknown_to_sbatch(name) is not None]
    if not unknown:
        return ()
    from neuronctl.slurm.sbatch import known_options

    known = known_options()
    return tuple(name for name in unknown if name in known)


def _typed_secrets(plan: JobPlan) -> Iterator[str]:
    if plan.request.origin("env").source is Source.ASKED:
        for name, value in plan.secrets.items():
            if os.environ.get(name) != value:
                yield name


def _broken_texts(plan: JobPlan) -> Iterator[str]:
    """Which shell text bash cannot read, where and why."""
    request = plan.request
    texts = [(launch.prefix, "the shell text", launch.request.body) for launch in plan.launches]
    texts.append(("", "--setup-first", "\n".join(request.setup_first)))
    texts.append(("", "--setup", "\n".join(request.setup)))
    for prefix, what, text in texts:
        if text:
            from neuronctl.batchscript.bash_syntax import syntax_problem  # here: few jobs have any

            found = syntax_problem(text)
            if found is not None:
                where = f"line {found.place.line}, column {found.place.column}"
                yield f"{prefix}bash cannot read {what}, {where}: {found.message}"


def _is_file_name(script: str) -> bool:
    return "/" in script or script.endswith(".py")


def _has_directives(request: JobRequest) -> bool:
    path = request.from_here(request.script or "")
    return _is_file_name(path) and os.path.isfile(path) and b"\n#SBATCH " in _head(path, 20_000)


def _imports(text: str) -> Tuple[str, ...]:
    """The names in a Python file's import lines, without those of Python's own modules."""
    own = getattr(sys, "stdlib_module_names", ("math",))  # since Python 3.10
    lines = re.findall(r"^[ \t]*(?:import|from)[ \t]+([^#;\n]*)", text, re.MULTILINE)
    names = re.findall(r"\w+", " ".join(lines))
    found = dict.fromkeys(name.lower() for name in names if name not in own)
    return tuple(name for name in found if name not in ("import", "as"))


_Problem = Optional[Tuple[str, str]]
"""Why something cannot be used and what to do; None: nothing is known against it."""


def _directory_problem(plan: JobPlan) -> _Problem:
    directory = plan.request.chdir
    if directory is None or os.access(os.path.join(directory, ""), os.X_OK):
        return None
    hint = f"create it first: mkdir -p {quote(directory)}; or name another"
    if os.path.isdir(directory):
        return f"you cannot enter the directory '{directory}': permission denied", hint
    if "~" in directory.split("/"):
        hint = "Slurm takes ~ as a name: write the home directory out"
    return f"there is no directory '{directory}': Slurm would run the job in /tmp", hint


def _script_problem(plan: JobPlan) -> _Problem:
    request, script = plan.request, plan.request.script
    hint = "give a path that is valid on the nodes, relative to the job's directory"
    # A bare name may be one of the image's, or of what the job itself brings to PATH.
    brought = request.container or request.setup or request.conda or "PATH" in dict(request.env)
    if script is None or ((brought or _may_bring(plan)) and not _is_file_name(script)):
        return None
    path = request.from_here(script)
    if os.path.isdir(path):
        return f"'{script}' is a directory, not a program", hint
    if not _is_file_name(script):
        places = []
        if request.venv is not None:
            places.append(request.from_here(os.path.expanduser(f"{request.venv}/bin")))
        places.append(os.environ.get("PATH", os.defpath))
        from shutil import which  # with bz2 and lzma, which few submissions need

        if which(script, path=os.pathsep.join(places)) is None:
            where = request.chdir or "this directory"
            return f"no program '{script}' in {where} or on PATH", hint
        return None
    if not os.path.exists(path):
        return f"no file '{script}' in {request.chdir or os.getcwd()}{_like(path)}", hint
    if not os.path.isfile(path):
        return f"'{script}' is not a file", hint
    try:
        open(path, "rb").close()
    except OSError as error:
        return f"cannot read '{script}': {error.strerror}", hint
    executable = script.endswith(".py") or os.access(path, os.X_OK)
    if not executable and not _has_directives(request):  # those are a rule of their own
        hint = f"chmod +x {quote(script)}, or run it with bash: bash {quote(script)}"
        return f"'{script}' is not executable", hint
    return None


_RANK = r"['\"](?:LOCAL_)?(?:RANK|WORLD_SIZE)['\"]"
_NEEDS = (
    rf"environ\[\s*({_RANK})\s*\](?!\s*=[^=])"
    r"|\b(init_process_group)\((?![^)]*\b(?:rank|init_method|store)\s*=)"
)
# Where one of these stands, the program may know what to do without a launcher.
_SUPPLIES = (
    rf"{_RANK}\s*(?:not\s+)?in\b|environ\[\s*{_RANK}\s*\]\s*=[^=]|setdefault\(\s*{_RANK}"
    r"|(?:get|getenv)\(\s*['\"](?:RANK|WORLD_SIZE)|is_torchelastic_launched|SLURM_PROCID|\bspawn\b"
    r"|except\b.*KeyError|\bif\b.*(?:(?i:world_?size|distributed|\bddp)|local_rank\s*(?:[!><]|==\s*-))"
)
_SEVERAL_GPUS = (
    r"\bDataParallel\b|\bdevice_map\b|tensor_parallel|\bvllm\b|\bjax\b|MirroredStrategy|\bray\b"
    r"|\bspawn\b|cuda:1"
)


def _python_text(plan: JobPlan) -> str:
    """The text of the Python file that the job runs; "" where there is none, or it is not here."""
    file = python_file(plan.request)
    path = plan.request.from_here(file or "")
    if file is None or not os.path.isfile(path):
        return ""
    text = _head(path, 500_000).decode("utf-8", "replace")
    return re.sub(r"(?m)^\s*#.*", "", text)


def _needs_ranks(text: str) -> str:
    if "environ" not in text and "init_process_group" not in text:
        return ""
    found = re.search(_NEEDS, text)
    if found is None or re.search(_SUPPLIES, text):
        return ""
    return f"reads {found[1][1:-1]}" if found[1] else f"calls {found[2]}"


def _like(script: str) -> str:
    """``; did you mean train.py?``: the file nearest in name, or ""."""
    import difflib

    directory, name = os.path.split(script)
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return ""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return f"; did you mean {os.path.join(directory, near[0])}?" if near else ""


def _image_problem(plan: JobPlan) -> _Problem:
    """Nothing is said of docker:// and other addresses.

    Pyxis takes for a registry's whatever does not begin with ``.`` or ``/``.
    """
    image, directories = plan.request.container, plan.cluster.containers.image_dirs
    if image is None or "://" in image:
        return None
    if plan.wrapping.srun and not image.startswith((".", "/")) and not image.endswith(".sqsh"):
        return None
    hint = f"the site's images are in {', '.join(directories)}" if directories else ""
    path = plan.request.from_here(image)
    if not os.path.exists(path):
        return f"no container image '{image}'", hint
    if not os.access(path, os.R_OK):
        return f"cannot read the container image '{image}': permission denied", hint
    return None


def _environment_problem(plan: JobPlan) -> _Problem:
    """Nothing is said of what modules, setup lines or a login shell may bring on the node."""
    request = plan.request
    if request.venv is not None:
        directory = request.from_here(os.path.expanduser(request.venv)).rstrip("/")
        if not os.path.isdir(directory):
            hint = f"create it first: python3 -m venv {quote(directory)}; or name another"
            return f"no virtual environment '{directory}'", hint
        if not os.path.isfile(f"{directory}/bin/activate"):
            words = f"'{directory}' is not a virtual environment: it has no bin/activate"
            return words, "name the directory that 'python3 -m venv' created"
    if request.conda is not None:
        path = request.from_here(os.path.expanduser(request.conda))
        if "/" in request.conda and not os.path.isdir(path):
            hint = "name another; 'conda env list' lists yours"
            return f"no conda environment '{request.conda}'", hint
        if not _may_bring(plan) and find_conda(request.conda, request.from_here("")) is None:
            return (
                "--conda needs 'conda', which is neither on PATH (the job inherits it) nor in "
                f"{', '.join(CONDA_PLACES)}",
                "load the module that provides it (--module NAME), or name its file: --setup-first "
                "'. /PATH/etc/profile.d/conda.sh'",
            )
    return None


def _may_bring(plan: JobPlan) -> bool:
    """Whether lines of the script that come before the environment may change PATH."""
    request = plan.request
    return bool(request.modules or request.setup_first or plan.cluster.policy.login_shell)


def _architectures(plan: JobPlan) -> List[Tuple[str, str]]:
    """(what, architecture) of the image and of the environment's interpreter, where known."""
    request = plan.request
    found = []
    if request.container is not None:
        image = request.from_here(request.container)
        found.append((f"the image {request.container}", sif_arch(_head(image))))
    environment = request.venv or request.conda
    if environment is not None:
        # A conda environment is a path or a name; of a name nothing is known here.
        python = request.from_here(os.path.join(os.path.expanduser(environment), "bin/python"))
        found.append((f"the environment {environment}", elf_arch(_head(python))))
    return [(what, arch) for what, arch in found if arch is not None]


def _head(path: str, size: int = 64) -> bytes:
    """The first bytes of a file; none where it cannot be read, or is a pipe, which has no end."""
    try:
        with open_regular(path) as file:
            return file.read(size)
    except OSError:
        return b""


def _log_problem(plan: JobPlan) -> _Problem:
    fails = "the job would fail at start (exit code 0:53), without a log"
    for pattern in (plan.output, plan.error):
        if pattern is None:
            continue
        name = expand_log_pattern(
            pattern,
            job_id=1,
            array_job_id=1,
            array_task_id=0,
            job_name=plan.job_name,
            user=login_name(),
        )
        name = plan.request.from_here(name)
        made = os.path.dirname(pattern)
        varies = "%" in made and re.search(r"%[0-9]*[AjJ]", made.replace("%%", ""))
        if varies and "\\" not in pattern:
            return (
                f"the log directory '{made}' cannot exist yet: it is named after the job id; "
                f"{fails}",
                "put the id into the file name, as in -o %x_%j.out",
            )
        if os.path.isdir(name):
            return f"the log file '{name}' is a directory; {fails}", "choose another with -o"
        if os.path.exists(name) and os.access(name, os.W_OK):
            continue  # /dev/null, or a log that is written again
        directory = os.path.dirname(name) or "."
        if not os.path.isdir(directory):
            hint = f"create it first: mkdir -p {quote(directory)}; or choose another with -o"
            return f"the log directory '{directory}' does not exist; {fails}", hint
        if not os.access(directory, os.W_OK | os.X_OK):
            return (
                f"you cannot write to the log directory '{os.path.abspath(directory)}'; {fails}",
                "choose another with -o",
            )
    return None
