"""What is left of the user's quotas where a job writes."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.common import cache
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.paths import state_dir, working_directory
from neuronctl.common.users import login_name
from neuronctl.common.words import amount, moment
from neuronctl.planning import JobPlan

TIMEOUT = 0.8
"""Seconds for a command; with what ending it takes, a submission waits at most 1 s."""
_PAUSE = 3600
"""The least seconds between two starts of a command."""
_MOUNTS = "/proc/self/mounts"
_WITHOUT = ("", "lustre", "overlay", "ramfs", "tmpfs")
"""File systems of whose quotas ``quota`` knows nothing."""
_HUGGING_FACE = {"transformers", "datasets", "huggingface_hub", "diffusers", "peft", "trl"}

_NUMBER = r"\[?(\d+(?:\.\d+)?)([kKMGTPE]?)\]?\*?"
_BLANK = r"[ \t]+"
_COLUMNS = (*[_NUMBER] * 3, r"(\S+)", *[_NUMBER] * 3)
_ROW = (
    r"(?m)^Disk quotas for (\w+ \S+)|^[ \t]*(/\S*|[^\s/:]+:/\S*)\s+"
    rf"{_BLANK.join(_COLUMNS)}(?!\S)"
)
"""A heading, or a row of ``lfs quota`` and ``quota -wp``: the file system, KiB used, the soft and
the hard limit, the grace time, and the same of files (lfs-quota(1); quota(1))."""
_OWNERS = {"grp": "group", "prj": "project"}


@dataclass(frozen=True)
class Quota:
    """What a quota leaves: used and limit in bytes, and in files; a limit of 0 is none.

    owner: "group lab", or "" for the user's own. source: the command and when it answered. holds:
    what is there.
    """

    place: str
    used: int
    limit: int
    files: int
    most_files: int
    owner: str = ""
    source: str = ""
    holds: Tuple[str, ...] = ()

    @property
    def is_low(self) -> bool:
        """Return True if less than 2% or 1,000 files are left."""
        files = self.most_files - self.files
        few = self.most_files and (files < 1000 or files < 0.02 * self.most_files)
        return bool(few or (self.limit and self.limit - self.used < 0.02 * self.limit))

    @property
    def words(self) -> str:
        """Return what is left, of which limits, and who says so."""
        parts = []
        if self.limit:
            parts.append(f"{amount(max(0, self.limit - self.used))} of {amount(self.limit)}")
        if self.most_files:
            parts.append(f"{max(0, self.most_files - self.files):,} of {self.most_files:,} files")
        owner = f" of {self.owner}" if self.owner else ""
        return f"{' and '.join(parts)} left in the quota{owner} on {self.place} ({self.source})"


def quotas_where_it_writes(plan: JobPlan, imports: Sequence[str]) -> Tuple[Quota, ...]:
    """Return the quotas on the file systems to which a job writes. imports: of LocalFacts."""
    directory = os.path.join(working_directory(), plan.request.chdir or "")
    places = {directory: "working directory (--chdir DIR)"} if plan.code is None else {}
    for pattern in filter(None, (plan.output, plan.error)):
        above = os.path.dirname(os.path.join(directory, pattern)).partition("%")[0]
        places.setdefault(above, "log (-o DIR/%x_%j.out)")
    if plan.code is not None:
        places.setdefault(plan.code.place, "copy of the code")
    given = {**os.environ, **dict(plan.request.env)}
    if _HUGGING_FACE & set(imports):
        given.setdefault("HF_HOME", "~/.cache/huggingface")
    caches = {path: f"{name} (--env {name}=DIR)" for path, name in _named(given).items()}
    return quotas_at({**caches, **places}, plan.cluster)


def quotas_of_user(cluster: Cluster) -> Tuple[Quota, ...]:
    """Return the quotas where jobs of this user usually write."""
    scratch = (cluster.scratch or "").replace("{user}", login_name())
    places = {os.path.expanduser("~"): "home", working_directory(): "this directory"}
    places.update({scratch: "scratch"} if scratch else {})
    return quotas_at({**_named(os.environ), state_dir(): "records", **places}, cluster)


def _named(variables: Mapping[str, Any]) -> Dict[str, str]:
    """Return the directories that variables name for caches of models and W&B's runs."""
    names = ("HF_HOME", "WANDB_DIR")
    given = {os.path.expanduser(variables.get(name) or ""): name for name in names}
    return {path: name for path, name in given.items() if path.startswith("/")}


def quotas_at(places: Mapping[str, str], cluster: Cluster) -> Tuple[Quota, ...]:
    """Return the quotas that hold for directories, each with what is there."""
    mounts, spots = _mounts(), []
    for path, content in places.items():
        real = os.path.realpath(path)
        mount = max((one for one in mounts if _is_below(real, one)), key=len, default="")
        device, kind = mounts.get(mount, ("", ""))
        spots.append((real, content, mount, device, kind))
    lustres = dict.fromkeys(mount for _, _, mount, _, kind in spots if kind == "lustre")
    commands: List[Tuple[str, ...]] = [("lfs", "quota", mount) for mount in lustres]
    if {kind for *_, kind in spots}.difference(_WITHOUT):
        commands.append(("quota", "-w", "-p", "-u", "-g"))
    commands += [tuple(cluster.quota.split())] if cluster.quota else []
    rows = [row for answer in _answers(commands, cluster.name) for row in read_quotas(*answer)]
    quotas: Dict[Tuple[str, str], Quota] = {}
    for row, (real, content, mount, device, _) in itertools.product(rows, spots):
        place = mount if row.place == device else row.place
        if row.place == device or (_is_below(real, row.place) and _is_below(row.place, mount)):
            quota = quotas.get((place, row.owner), replace(row, place=place))
            if content not in quota.holds:
                quotas[place, row.owner] = replace(quota, holds=(*quota.holds, content))
    return tuple(quotas.values())


def _mounts() -> Dict[str, Tuple[str, str]]:
    """Return the mount points of this machine, with their device and type."""
    mounts: Dict[str, Tuple[str, str]] = {}
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            device, mount, kind = line.split()[:3]
            mounts[_unescaped(mount)] = _unescaped(device), kind
    return mounts


def _unescaped(path: str) -> str:
    """Return a path of /proc/mounts, where a space is an octal number."""
    return re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), path)


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _answers(commands: Sequence[Tuple[str, ...]], cluster: str) -> Iterator[Tuple[str, str, float]]:
    """Yield each command, what it printed, and when; each is started at most once an hour.

    One that failed, or is still at work for another process, has printed nothing.
    """
    now, due = time.time(), []
    for words in commands:
        cached = cache.read("quota", " ".join(words), cluster)
        if cached is not None and 0 <= now - cached[0] < _PAUSE:
            yield words[0], cached[1], cached[0]
            continue
        cache.write("quota", " ".join(words), [now, ""], cluster)
        due.append(words)
    if not due:
        return
    from neuronctl.slurm.process import Queries, Result

    answers: List[object] = []
    queries = Queries([(words, None) for words in due], timeout=TIMEOUT)
    # Nobody waits longer for one that cannot be killed because its file server is dead.
    waiting = threading.Thread(target=lambda: answers.extend(queries.answers()), daemon=True)
    waiting.start()
    waiting.join(TIMEOUT + 0.2)
    for words, answer in zip(due, answers):
        if isinstance(answer, Result):  # whoever exceeds a quota gets 1 from quota(1)
            text = answer.stdout[:100_000]
            cache.write("quota", " ".join(words), [now, text], cluster)
            yield words[0], text, now


def read_quotas(command: str, text: str, asked_at: float) -> Iterator[Quota]:
    """Yield the quotas in a command's output that have a limit."""
    owner = ""
    for row in re.finditer(_ROW, text):
        if row[1]:
            kind, _, name = row[1].partition(" ")
            owner = "" if kind in ("user", "usr") else f"{_OWNERS.get(kind, kind)} {name}"
            continue
        sizes = [_count(row[n], row[n + 1], 1024, 1) for n in (3, 5, 7)]
        files = [_count(row[n], row[n + 1], 1000, 0) for n in (10, 12, 14)]
        grace = row[9]
        is_over = grace in ("none", "expired") or (grace.isdigit() and 0 < int(grace) < asked_at)
        limit = sizes[1] if is_over and sizes[1] else sizes[2] or sizes[1]
        most_files = files[2] or files[1]
        if limit or most_files:
            source = f"{command}, {moment(asked_at)}"
            yield Quota(row[2], sizes[0], limit, files[0], most_files, owner, source)


def _count(number: str, unit: str, base: int, power: int) -> int:
    """Return a number with a unit, or with the power of the base that it has without one."""
    power = "kMGTPE".index(unit.replace("K", "k")) + 1 if unit else power
    return int(float(number) * base**power)
