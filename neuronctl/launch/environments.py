"""Find a job's software on this machine, and write the shell lines that activate it.

The order in a script is modules, conda or venv, the address and port where the processes meet, the
exported variables, the user's ``--setup`` lines, the launch. A module may provide conda or an MPI,
so modules come first. The user's variables and lines come last, to override the others.
"""

from __future__ import annotations

import os
from typing import Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.shell import quote

CONDA_PLACES = (
    *("~/miniconda3", "~/miniforge3", "~/anaconda3", "~/mambaforge"),
    *("/opt/conda", "/opt/miniconda3", "/opt/miniforge3", "/opt/anaconda3"),
)
"""The usual places of a conda installation."""

_CONDA_SH = "etc/profile.d/conda.sh"


@dataclass(frozen=True)
class ShellLine:
    """A line of shell. If it has a ``defect`` and fails, the job reports that and ends."""

    text: str
    defect: str = ""

    @property
    def must_succeed(self) -> bool:
        """Return True if the job must stop when activation fails."""
        return bool(self.defect)


@dataclass(frozen=True)
class Conda:
    """A conda on this machine."""

    how: str  # how it was found, as users read it
    base: str = ""  # its installation; "": PATH leads to it
    given: bool = False  # the environment is named by a path in ``base``: try no other


def find_conda(environment: str, here: str = "") -> Optional[Conda]:
    """Find the conda for an environment, a name or path; None if this machine has no conda.

    here: the job's directory, if it is not this process's.
    """
    if "/" in environment:
        path = os.path.abspath(os.path.join(here, os.path.expanduser(environment)))
        for base in (path, os.path.dirname(os.path.dirname(path))):
            if _is_installation(base):
                return Conda(f"by the path given: {base}", base, given=True)
    # shutil imports bz2 and lzma, which few submissions need.
    from shutil import which

    on_path = which("conda")
    if on_path is not None:
        return Conda(f"on PATH: {on_path}")
    program = os.environ.get("CONDA_EXE", "")
    program_base = os.path.dirname(os.path.dirname(program))
    if _is_installation(program_base):
        return Conda(f"by CONDA_EXE: {program}", program_base)
    places = [place for place in CONDA_PLACES if _is_installation(os.path.expanduser(place))]
    for place in places:
        if os.path.isdir(os.path.join(os.path.expanduser(place), "envs", environment)):
            return Conda(f"in a usual place: {place}", place)
    return Conda(f"in a usual place: {places[0]}", places[0]) if places else None


def _is_installation(directory: str) -> bool:
    """Return True for the absolute path of a conda installation."""
    return os.path.isabs(directory) and os.path.isfile(f"{directory}/{_CONDA_SH}")


def activate_conda(name: str, conda: Optional[Conda]) -> Tuple[ShellLine, ...]:
    """Return the lines that activate a conda environment. conda: this machine's."""
    if conda is None or not conda.base:
        file = f'"$(conda info --base)/{_CONDA_SH}"'
    elif conda.given:
        file = quote(f"{conda.base}/{_CONDA_SH}")
    else:
        base = conda.base if conda.base.startswith("~/") else quote(conda.base)
        file = f'"$(conda info --base 2>/dev/null || echo {base})/{_CONDA_SH}"'
    return (
        ShellLine("# 'conda activate' is a shell function, which a batch shell must load first."),
        ShellLine(f". {file}", "conda not found"),
        ShellLine(f"conda activate {quote(name)}", f"cannot activate the environment {name}"),
    )


def activate_venv(directory: str) -> Tuple[ShellLine, ...]:
    """Return the script lines that activate a virtual environment."""
    path = directory.rstrip("/") + "/bin/activate"
    # A shell expands ~ on the command line, but not in a job file.
    text = f'"$HOME"/{quote(path[2:])}' if path.startswith("~/") else quote(path)
    return (ShellLine(f". {text}", f"cannot activate the environment {directory}"),)


def find_venv(program: str, directory: str, names: Sequence[str] = (".venv",)) -> Tuple[str, str]:
    """Return (the environment beside a program, ""), else ("", the uv.lock), else ("", "").

    Both are searched for from the program up to the job's directory, and are relative to it. An
    environment of somebody who owns neither the job nor the program does not count.
    """
    file = os.path.abspath(os.path.join(directory, program))
    owners = {0, os.getuid()}  # root and the user
    if os.path.isfile(file):
        owners.add(os.stat(file).st_uid)
    top = os.path.abspath(directory)
    place = os.path.dirname(file) if program else file
    while True:
        is_inside = f"{place}/".startswith(f"{top}/")
        shown_place = os.path.relpath(place, top) if is_inside else place
        for venv in names:
            path = os.path.join(place, venv)
            if os.path.isfile(f"{path}/bin/activate") and os.lstat(path).st_uid in owners:
                return os.path.normpath(os.path.join(shown_place, venv)), ""
        if os.path.isfile(f"{place}/uv.lock"):
            return "", os.path.normpath(os.path.join(shown_place, "uv.lock"))
        if place == top or not is_inside:  # outside, only the program's own directory counts
            return "", ""
        place = os.path.dirname(place)


def load_modules(modules: Tuple[str, ...], *, login_shell: bool) -> Tuple[ShellLine, ...]:
    """Return the script lines that load ``modules`` in place of those that the job inherits."""
    lines = []
    if not login_shell:  # which would define 'module'
        comment = "# /etc/profile defines 'module'. Your own PATH entries stay in front."
        # /etc/profile may replace PATH; Debian's does.
        profile = "{ path=$PATH; . /etc/profile; PATH=$path:$PATH; }"
        lines = [ShellLine(comment), ShellLine(f"type module >/dev/null 2>&1 || {profile}")]
    names = " ".join(map(quote, modules))
    defect = f"cannot load the modules {' '.join(modules)}"
    return (*lines, ShellLine("module purge"), ShellLine(f"module load {names}", defect))
