"""The cluster's modules, with the names from its catalog entry, for a real ``module load``.

Each module sets a variable that says it is loaded, and puts its own directory first on PATH. That
directory links to the machine's programs of that kind, if there are any: the module is real, but
the version in its name is the cluster's, not the machine's. Pure.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Dict, Iterable, List

from neuronctl.sandbox.layout import RUN

PROGRAM = "modulecmd"
DIRECTORY = f"{RUN}/modulefiles"
SOFTWARE = f"{RUN}/software"
INITRC = "environment-modules/initrc"
"""The file below /etc that `module` reads first in every shell."""

_NAME = re.compile(r"\w[\w.+:-]*(/\w[\w.+:-]*)*", re.ASCII)

# The programs of a module whose name contains the word.
_PROGRAMS = {
    "gcc": ("gcc", "g++", "gfortran"),
    "openmpi": ("mpirun", "mpiexec", "mpicc", "mpicxx", "ompi_info"),
    "cmake": ("cmake", "ctest"),
    "singularity": ("singularity", "apptainer"),
    "apptainer": ("apptainer", "singularity"),
}


def initrc() -> str:
    """The module command's startup file, with only the cluster's modules."""
    return f"#%Module5.0\nmodule use --append {{{DIRECTORY}}}\n"


def files(names: Iterable[str]) -> Dict[str, str]:
    """A modulefile for each of the catalog's modules, by its name, which becomes its path.

    A name that is not a path of plain words is omitted, and so is a name that stands for all
    versions (``gcc`` beside ``gcc/11.5.0``), because `module` finds the latest by itself.
    """
    plain = [name for name in names if _NAME.fullmatch(name)]
    families = {parent for name in plain for parent in map(str, PurePosixPath(name).parents)}
    return {name: _modulefile(name) for name in plain if name not in families}


def programs(name: str) -> List[str]:
    """The programs of a module; its ``bin`` directory links to those that the machine has."""
    return [program for word, them in _PROGRAMS.items() if word in name for program in them]


def bin_directory(name: str) -> str:
    return f"{SOFTWARE}/{name}/bin"


def variable(name: str) -> str:
    """The environment variable that a module sets to its full name."""
    product = re.split("[/:]", name)[:-1] or [name]
    return "MODULE_" + re.sub("[^A-Z0-9]+", "_", "_".join(product).upper())


def _modulefile(name: str) -> str:
    lines = [
        "#%Module1.0",
        f"module-whatis {{{name}, as named on the cluster}}",
        f"setenv {variable(name)} {{{name}}}",
        f"prepend-path PATH {{{bin_directory(name)}}}",
    ]
    return "\n".join(lines) + "\n"
