"""What a job really ran with, as the job itself has seen it (templates/environment.py)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from typing import Dict, List, Optional, Tuple

from neuronctl.catalog.local_cluster import local_cluster
from neuronctl.common.files import read_private
from neuronctl.common.from_json import NOT_RESTORED, restored
from neuronctl.common.frozen import dataclass
from neuronctl.common.paths import state_dir
from neuronctl.records.job_record import JobRecord
from neuronctl.records.recorded import Change, differences
from neuronctl.records.store import file_word

_LONGEST = 200  # characters of a value


@dataclass(frozen=True)
class Environment:
    """Versions, "" where unknown. at: when it was looked at (epoch seconds). node: where.

    gpus: the model of each of the job's GPUs on that node. manager: "conda" or "pip". packages: the
    SHA-256 of the list of packages, which packages_of() reads.
    """

    at: int
    node: str
    python: str = ""
    torch: str = ""
    cuda: str = ""
    rocm: str = ""
    driver: str = ""
    gpus: Tuple[str, ...] = ()
    manager: str = ""
    packages: str = ""
    git_commit: str = ""

    @property
    def rows(self) -> List[Tuple[str, str]]:
        """Each known value with its name, as displayed."""
        models = dict.fromkeys(self.gpus)
        rows = [
            ("Python", self.python),
            ("torch", self.torch),
            ("CUDA", self.cuda),
            ("ROCm", self.rocm),
            ("driver", self.driver),
            ("GPUs", ", ".join(f"{self.gpus.count(model)} x {model}" for model in models)),
            ("git", self.git_commit),
            ("packages", self.packages and f"{self.manager} list, sha256 {self.packages[:12]}"),
        ]
        return [(name, value) for name, value in rows if value]


def folder() -> str:
    """Return where jobs write; private to the user."""
    return os.path.join(state_dir(), "environments")


def environment_of(record: JobRecord) -> Optional[Environment]:
    """What a job ran with; of one that was requeued, the last time, of an array, its first task.

    None where the job has not said so.
    """
    name = f"{record.job_id}.{file_word(record.cluster or local_cluster())}.json"
    with contextlib.suppress(OSError, RecursionError, *NOT_RESTORED):
        data = json.loads(read_private(os.path.join(folder(), name)).decode("utf-8"))
        known = {name: data[name] for name in Environment.__annotations__ if name in data}
        found = restored(Environment, known)
        texts = (*(value for value in vars(found).values() if isinstance(value, str)), *found.gpus)
        # A reinstalled controller uses the ids of jobs again.
        if found.at >= record.earliest and max(map(len, texts)) <= _LONGEST:
            return found
    return None


def packages_of(environment: Environment) -> Dict[str, str]:
    """Name to version; empty where the list is not there, or is not the one that was seen."""
    if not re.fullmatch(r"[0-9a-f]{64}", environment.packages):
        return {}
    with contextlib.suppress(OSError, ValueError):
        content = read_private(os.path.join(folder(), f"{environment.packages}.txt"))
        if hashlib.sha256(content).hexdigest() == environment.packages:
            lines = content.decode("utf-8").splitlines()
            return dict((line.partition("==")[0], line.partition("==")[2]) for line in lines)
    return {}


def changed_environment(
    first: Optional[Environment], second: Optional[Environment]
) -> List[Change]:
    """Return what differs between two, their packages by name; nothing where one is unknown."""
    if first is None or second is None:
        return []
    before, after = dict(first.rows), dict(second.rows)
    listed = packages_of(first), packages_of(second)
    if all(listed):
        for rows, packages in zip((before, after), listed):
            del rows["packages"]
            rows.update((name, found) for name, found in packages.items() if name != "torch")
    # First what both have, in another version.
    return sorted(differences(before, after), key=lambda change: not all(change))
