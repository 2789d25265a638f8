"""What the sandbox's own file system has, looked up from within it once its root is in place."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import Tuple

from neuronctl.sandbox import modules, requirements, ssh

# Debian package -> what of the sandbox is not there without it; it comes up all the same.
OPTIONAL_PACKAGES = {
    "openssh-server": "ssh between the nodes",
    "openssh-client": "ssh between the nodes",
    "environment-modules": "module load",
    "procps": "module load",
}


@dataclass(frozen=True)
class Found:
    """``slurm`` is the version as Slurm writes it, such as ``22.05.8``."""

    slurm: str
    pmix: bool
    ssh: bool
    modules: bool

    @property
    def release(self) -> Tuple[int, ...]:
        """The version in numbers, to compare: (22, 5, 8)."""
        return tuple(int(number) for number in re.findall("[0-9]+", self.slurm))


def look(slurmctld_version: str) -> Found:
    """``slurmctld_version`` is what ``slurmctld -V`` prints, such as ``slurm-wlm 22.05.8``."""
    return Found(
        slurm=slurmctld_version.split()[-1],
        pmix=requirements.has_pmix(),
        ssh=all(_program(name) for name in ssh.PROGRAMS),
        modules=_program(modules.PROGRAM),
    )


def _program(name: str) -> bool:
    return shutil.which(name, path=requirements.SEARCH_PATH) is not None
