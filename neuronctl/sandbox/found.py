"""Optional software that the sandbox has, detected from inside once its root is in place."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import Tuple

from neuronctl.sandbox import modules, requirements, ssh

# Debian package -> the feature that needs it; the sandbox starts without these packages too.
OPTIONAL_PACKAGES = {
    "openssh-server": "ssh between the nodes",
    "openssh-client": "ssh between the nodes",
    "environment-modules": "module load",
    "procps": "module load",
}


@dataclass(frozen=True)
class Found:
    """The detected software; ``slurm`` is Slurm's version, such as ``22.05.8``."""

    slurm: str
    pmix: bool
    ssh: bool
    modules: bool

    @property
    def release(self) -> Tuple[int, ...]:
        """The version as numbers, for comparisons: (22, 5, 8)."""
        return tuple(int(number) for number in re.findall("[0-9]+", self.slurm))


def look(slurmctld_version: str) -> Found:
    """Detect the software; ``slurmctld_version`` is the output of ``slurmctld -V``."""
    return Found(
        slurm=slurmctld_version.split()[-1],
        pmix=requirements.has_pmix(),
        ssh=all(_program(name) for name in ssh.PROGRAMS),
        modules=_program(modules.PROGRAM),
    )


def _program(name: str) -> bool:
    return shutil.which(name, path=requirements.SEARCH_PATH) is not None
