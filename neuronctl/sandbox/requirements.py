"""What the sandbox requires of the machine, what it can use, and how to report what is missing."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.common.users import name_of
from neuronctl.sandbox import modules, ssh
from neuronctl.slurm.sandbox_address import SubIds, sub_id_ranges, sub_ids

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where to find daemons and their tools; an ordinary user's PATH lacks the sbin directories."""

# Debian package -> the programs that the sandbox starts from it. `neuronctl sandbox packages` lists
# all packages; a missing program is reported by its package.
PACKAGES = {
    "slurm-wlm": ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo"),
    "slurm-wlm-basic-plugins": (),
    "slurmdbd": ("slurmdbd", "sacctmgr"),
    "munge": ("munged",),
    "mariadb-server": ("mariadbd", "mariadb-install-db"),
    "iproute2": ("ip",),
    "util-linux": ("pivot_root",),
    "uidmap": ("newuidmap", "newgidmap"),
}

# Debian package -> the feature that needs it; the sandbox starts without these packages too.
OPTIONAL_PACKAGES = {
    "openssh-server": "ssh between the nodes",
    "openssh-client": "ssh between the nodes",
    "environment-modules": "module load",
    "procps": "module load",
}

# These create the namespaces and therefore run before another root is in place.
_ON_THE_MACHINE = ("util-linux", "uidmap")

# Packages without programs are detected by a file.
_FILES = {"slurm-wlm-basic-plugins": "slurm-wlm/job_submit_lua.so"}


def missing_packages(*, as_root: bool, root: str = "/") -> List[str]:
    """The packages with a missing program or file, in the order of PACKAGES.

    For a ``root`` other than the machine's, the packages that are needed inside it.
    """
    missing = []
    path = ":".join(root.rstrip("/") + directory for directory in SEARCH_PATH.split(":"))
    for package, programs in PACKAGES.items():
        if (package == "uidmap" and as_root) or (package in _ON_THE_MACHINE and root != "/"):
            continue
        file = _FILES.get(package)
        found = all(shutil.which(program, path=path) for program in programs)
        if not found or (file and not _library(file, root)):
            missing.append(package)
    return missing


def has_pmix() -> bool:
    """Whether Slurm's PMIx plugin, which MPI programs started by srun need, can work.

    Debian 12's plugin opens the library by a name that only libpmix-dev provides; without it, every
    srun would fail. Later plugins use the library's real name.
    """
    plugin = _library("slurm-wlm/mpi_pmix.so")
    if plugin is None:
        return False
    name = "libpmix.so.2" if b"libpmix.so.2\0" in plugin.read_bytes() else "libpmix.so"
    return _library(f"pmix2/lib/{name}") is not None


@dataclass(frozen=True)
class DetectedSoftware:
    """The detected software; ``slurm`` is Slurm's version, such as ``22.05.8``."""

    slurm: str
    pmix: bool
    ssh: bool
    modules: bool

    @property
    def release(self) -> Tuple[int, ...]:
        """The version as numbers, for comparisons: (22, 5, 8)."""
        return tuple(int(number) for number in re.findall("[0-9]+", self.slurm))


def find_requirements(slurmctld_version: str) -> DetectedSoftware:
    """Detect the software; ``slurmctld_version`` is the output of ``slurmctld -V``."""
    return DetectedSoftware(
        slurm=slurmctld_version.split()[-1],
        pmix=has_pmix(),
        ssh=all(shutil.which(name, path=SEARCH_PATH) for name in ssh.PROGRAMS),
        modules=shutil.which(modules.PROGRAM, path=SEARCH_PATH) is not None,
    )


def _library(name: str, root: str = "/") -> Optional[Path]:
    """The path of a file in an architecture's directory below /usr/lib, or None."""
    return next((path for path in Path(root, "usr/lib").glob(f"*/{name}")), None)


def free_range(*files: str) -> str:
    """An unassigned range of ids, in the form that usermod expects."""
    ends = [ids.first + ids.count for file in files for _, ids in sub_id_ranges(file)]
    first = max([100_000, *ends])
    return f"{first}-{first + _LOT - 1}"


_FEWEST_IDS = 1000  # the ids of the system users
_LOT = 65536


def check(uid: int, root: str = "/") -> Tuple[Optional[SubIds], Optional[SubIds]]:
    """The user's subordinate ids (None, None for root); one error lists all that is missing."""
    problems, remedies = [], []
    if not sys.platform.startswith("linux"):
        raise SlurmUnavailableError(
            f"the sandbox requires Linux; this machine runs {sys.platform}",
            "run it in a Debian 12 or 13 virtual machine",
        )
    missing = missing_packages(as_root=uid == 0)
    if root != "/":
        missing = [package for package in missing if package in _ON_THE_MACHINE]
    if missing:
        problems.append(f"missing Debian packages: {' '.join(missing)}")
        remedies.append(f"apt-get install --no-install-recommends {' '.join(missing)}")
    inside = missing_packages(as_root=uid == 0, root=root) if root != "/" else []
    if inside:
        problems.append(f"missing Debian packages in {root}: {' '.join(inside)}")
        remedies.append(f"chroot {shlex.quote(root)} apt-get install {' '.join(inside)}")
    users = groups = None
    if uid != 0:
        users, groups = sub_ids("/etc/subuid", uid), sub_ids("/etc/subgid", uid)
        name = name_of(uid)
        for file, found, option in (
            ("/etc/subuid", users, "--add-subuids"),
            ("/etc/subgid", groups, "--add-subgids"),
        ):
            if found is None or found.count < _FEWEST_IDS:
                problems.append(f"{file} has no range of at least {_FEWEST_IDS} ids for {name}")
                free = free_range("/etc/subuid", "/etc/subgid")
                remedies.append(f"usermod {option} {free} {name}")
        forbidden = _user_namespaces_forbidden()
        if forbidden:
            problems.append(f"user namespaces are disabled ({forbidden[0]})")
            remedies.append(forbidden[1])
    if problems:
        raise SlurmUnavailableError(
            "the sandbox cannot start: " + "; ".join(problems), "as root: " + " && ".join(remedies)
        )
    return users, groups


def _user_namespaces_forbidden() -> Optional[Tuple[str, str]]:
    """The kernel setting that disables user namespaces for ordinary users, and the remedy."""
    settings = (
        ("user/max_user_namespaces", "0", "15000"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    )
    for setting, bad, good in settings:
        try:
            value = Path("/proc/sys", setting).read_text().strip()
        except OSError:
            continue
        if value == bad:
            key = setting.replace("/", ".")
            return f"{key} is {value}", f"sysctl -w {key}={good}"
    return None


def clean_environment() -> Dict[str, str]:
    """The environment of a daemon, independent of the caller's."""
    kept = {name: os.environ[name] for name in ("TZ",) if name in os.environ}
    return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "/", **kept}
