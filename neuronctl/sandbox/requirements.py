"""What the sandbox requires of the machine, what it can use, and how to report what is missing."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.common.users import name_of
from neuronctl.slurm.sandbox_address import sub_ids

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where to find daemons and their tools; an ordinary user's PATH lacks the sbin directories."""

# Debian package -> the programs that the sandbox starts from it. `neuronctl sandbox packages` lists
# all packages; a missing program is reported by its package.
PACKAGES = {
    "slurm-wlm": ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo"),
    "slurmdbd": ("slurmdbd", "sacctmgr"),
    "munge": ("munged",),
    "mariadb-server": ("mariadbd", "mariadb-install-db"),
    "iproute2": ("ip",),
    "util-linux": ("unshare", "nsenter", "pivot_root"),
    "uidmap": ("newuidmap", "newgidmap"),
}

OPTIONAL_PACKAGES = ("openssh-server", "openssh-client", "environment-modules", "procps")
"""For ssh between the nodes and for `module load`; the sandbox starts without these too."""

# These create the namespaces and therefore run before another root is in place.
_ON_THE_MACHINE = ("util-linux", "uidmap")

OPTIONAL_PROGRAMS = {"ssh": ("sshd", "ssh", "ssh-keygen"), "modules": ("modulecmd",)}

_FEWEST_IDS = 65536  # subordinate ids of the user, for all users of the sandbox


def _missing(root: str, packages: Iterable[str]) -> List[str]:
    """Return the packages of which a program is missing below ``root``."""
    path = ":".join(root.rstrip("/") + directory for directory in SEARCH_PATH.split(":"))
    return [
        package
        for package in packages
        if not all(shutil.which(program, path=path) for program in PACKAGES[package])
    ]


def check(uid: int, root: str = "/") -> None:
    """Raise SlurmUnavailableError if user ``uid`` cannot start a sandbox; it lists all problems."""
    if not sys.platform.startswith("linux"):
        raise SlurmUnavailableError(
            f"the sandbox requires Linux; this machine runs {sys.platform}",
            "run it in a Debian 12 or 13 virtual machine",
        )
    problems, remedies = [], []
    # Root maps no ids.
    on_machine = [name for name in _ON_THE_MACHINE if uid != 0 or name != "uidmap"]
    inside = [name for name in PACKAGES if name not in _ON_THE_MACHINE]
    needed = {"/": [*on_machine, *inside]} if root == "/" else {"/": on_machine, root: inside}
    for place, packages in needed.items():
        missing = " ".join(_missing(place, packages))
        if missing:
            where = "" if place == "/" else f" in {place}"
            problems.append(f"missing Debian packages{where}: {missing}")
            change = "" if place == "/" else f"chroot {shlex.quote(place)} "
            remedies.append(f"{change}apt-get install --no-install-recommends {missing}")
    for file, option in (("/etc/subuid", "--add-subuids"), ("/etc/subgid", "--add-subgids")):
        ids = sub_ids(file, uid)
        if uid != 0 and ids.stop - ids.start < _FEWEST_IDS:
            name = name_of(uid)
            problems.append(f"{file} has no range of {_FEWEST_IDS} ids for {name}")
            remedies.append(f"usermod {option} FIRST-LAST {name}")
    if problems:
        raise SlurmUnavailableError(
            "the sandbox cannot start: " + "; ".join(problems), "as root: " + " && ".join(remedies)
        )


def detected_software() -> Dict[str, Any]:
    """Return the optional features of a Running that the software allows."""
    features = {
        name: all(shutil.which(program, path=SEARCH_PATH) for program in programs)
        for name, programs in OPTIONAL_PROGRAMS.items()
    }
    return {**features, "pmix": _has_pmix()}


def _has_pmix() -> bool:
    """Return True if Slurm's PMIx plugin, needed for MPI programs under srun, can work.

    Debian 12's plugin opens the library by a name that only libpmix-dev provides; without it, every
    srun would fail. Later plugins use the library's real name.
    """
    plugin = _library("slurm-wlm/mpi_pmix.so")
    if plugin is None:
        return False
    name = "libpmix.so.2" if b"libpmix.so.2\0" in plugin.read_bytes() else "libpmix.so"
    return _library(f"pmix2/lib/{name}") is not None


def _library(name: str) -> Optional[Path]:
    """Return the path of a file in an architecture's directory below /usr/lib, or None."""
    return next(Path("/usr/lib").glob(f"*/{name}"), None)


def clean_environment() -> Dict[str, str]:
    """Return the environment of a daemon, independent of the caller's."""
    time_zone = {name: os.environ[name] for name in ("TZ",) if name in os.environ}
    return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "/", **time_zone}
