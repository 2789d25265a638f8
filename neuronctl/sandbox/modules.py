"""The cluster's modules, by the names its catalog entry gives them, for a real ``module load``.

A module sets a variable that says it is loaded, and puts a directory of its own first on PATH.
That directory leads to the machine's own programs of that kind, where there are any: the module
is real, the version in its name is the cluster's and not the machine's. Pure.
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
"""Below /etc: what `module` reads first in every shell."""

_NAME = re.compile(r"\w[\w.+:-]*(/\w[\w.+:-]*)*", re.ASCII)

# What a module whose name holds the word brings.
_PROGRAMS = {
    "gcc": ("gcc", "g++", "gfortran"),
    "openmpi": ("mpirun", "mpiexec", "mpicc", "mpicxx", "ompi_info"),
    "cmake": ("cmake", "ctest"),
    "singularity": ("singularity", "apptainer"),
    "apptainer": ("apptainer", "singularity"),
}


def initrc() -> str:
    """The module command's own start-up file, with the cluster's modules for all there are."""
    return f"#%Module5.0\nmodule use --append {{{DIRECTORY}}}\n"


def files(names: Iterable[str]) -> Dict[str, str]:
    """A modulefile for each of the catalog's modules, by its name, which becomes its path.

    A name that is no path of plain words is left out, and so is one that stands for all its
    versions (``gcc`` beside ``gcc/11.5.0``), as `module` finds the latest by itself.
    """
    plain = [name for name in names if _NAME.fullmatch(name)]
    families = {parent for name in plain for parent in map(str, PurePosixPath(name).parents)}
    return {name: _modulefile(name) for name in plain if name not in families}


def programs(name: str) -> List[str]:
    """The programs of a module, which its ``bin`` directory links to where the machine has them."""
    return [program for word, them in _PROGRAMS.items() if word in name for program in them]


def bin_directory(name: str) -> str:
    """The directory a module puts on PATH."""
    return f"{SOFTWARE}/{name}/bin"


def variable(name: str) -> str:
    """The environment variable a module sets to its own full name."""
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
