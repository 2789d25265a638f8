"""The cluster's modules, with the names from its catalog entry, for a real ``module load``. Pure.

They load and are listed, and change nothing else: the machine's own programs are on PATH already.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Dict, Iterable

from neuronctl.sandbox.layout import RUN

DIRECTORY = f"{RUN}/modulefiles"

ETC = {"environment-modules/initrc": f"#%Module5.0\nmodule use --append {DIRECTORY}\n"}
"""The file below /etc that `module` reads first in every shell: only the cluster's modules."""

_NAME = re.compile(r"\w[\w.+:-]*(/\w[\w.+:-]*)*", re.ASCII)


def files(names: Iterable[str]) -> Dict[str, str]:
    """A modulefile for each of the catalog's modules, by its name, which becomes its path.

    A name that is not a path of plain words is omitted, and so is a name that stands for all
    versions (``gcc`` beside ``gcc/11.5.0``), because `module` finds the latest by itself.
    """
    plain = [name for name in names if _NAME.fullmatch(name)]
    families = {str(parent) for name in plain for parent in PurePosixPath(name).parents}
    return {name: "#%Module1.0\n" for name in plain if name not in families}
