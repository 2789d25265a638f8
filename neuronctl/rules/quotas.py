"""The user's quotas where a job writes, and what is left of them."""

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
"""Seconds for a command; a submission waits at most 1 s, including the time to end it."""
_PAUSE = 3600
"""The least seconds between two starts of a command."""
_MOUNTS = "/proc/self/mounts"
_WITHOUT_QUOTAS = ("", "lustre", "overlay", "ramfs", "tmpfs")
"""File systems without quotas, or with quotas that ``quota`` does not print."""
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
    """A quota on a file system.

    used, limit: in bytes. files, most_files: the used number and the limit. A limit of 0 is none.
    owner: "group lab", or "" for the user's own. source: the command and when it answered. holds:
    what the user has there, such as "home".
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
        """Return how much is left of which limits, and the source."""
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
    # With a copy of the code, the job runs in the copy.
    places = {directory: "working directory (--chdir DIR)"} if plan.code is None else {}
    for pattern in filter(None, (plan.output, plan.error)):
        # The part of the path before the first %, which may be a directory that exists.
        log_directory, _, _ = os.path.dirname(os.path.join(directory, pattern)).partition("%")
        places.setdefault(log_directory, "log (-o DIR/%x_%j.out)")
    if plan.code is not None:
        places.setdefault(plan.code.place, "copy of the code")
    variables = {**os.environ, **dict(plan.request.env)}
    if _HUGGING_FACE & set(imports):
        variables.setdefault("HF_HOME", "~/.cache/huggingface")
    caches = {path: f"{name} (--env {name}=DIR)" for path, name in _caches(variables).items()}
    return quotas_at({**caches, **places}, plan.cluster)


def quotas_of_user(cluster: Cluster) -> Tuple[Quota, ...]:
    """Return the quotas where jobs of this user usually write."""
    scratch = (cluster.scratch or "").replace("{user}", login_name())
    places = {os.path.expanduser("~"): "home", working_directory(): "this directory"}
    places.update({scratch: "scratch"} if scratch else {})
    return quotas_at({**_caches(os.environ), state_dir(): "records", **places}, cluster)


def _caches(variables: Mapping[str, Any]) -> Dict[str, str]:
    """Return the directories for models and W&B's runs, each with the variable that names it."""
    paths = {
        os.path.expanduser(variables.get(name) or ""): name for name in ("HF_HOME", "WANDB_DIR")
    }
    return {path: name for path, name in paths.items() if path.startswith("/")}


@dataclass(frozen=True)
class _Directory:
    """A directory that a job writes to, and the file system that it is on.

    path: without links. content: what is there, such as "home". mount, device, kind: of the file
    system, as in /proc/mounts; "" if unknown.
    """

    path: str
    content: str
    mount: str
    device: str
    kind: str


def quotas_at(places: Mapping[str, str], cluster: Cluster) -> Tuple[Quota, ...]:
    """Return the quotas that apply to directories. places: path -> what is there."""
    directories = _find_directories(places)
    rows: List[Quota] = []
    for command, text, asked_at in _ask(_quota_commands(directories, cluster), cluster.name):
        rows += read_quotas(command, text, asked_at)
    quotas: Dict[Tuple[str, str], Quota] = {}
    for row, directory in itertools.product(rows, directories):
        is_device = row.place == directory.device
        # A row may name the mount point or a folder below it, such as a project's.
        is_above = _is_below(directory.path, row.place) and _is_below(row.place, directory.mount)
        if not is_device and not is_above:
            continue
        place = directory.mount if is_device else row.place
        quota = quotas.get((place, row.owner), replace(row, place=place))
        if directory.content not in quota.holds:
            holds = (*quota.holds, directory.content)
            quotas[place, row.owner] = replace(quota, holds=holds)
    return tuple(quotas.values())


def _find_directories(places: Mapping[str, str]) -> List[_Directory]:
    """Return the directories, each with its file system."""
    mounts = _read_mounts()
    directories = []
    for name, content in places.items():
        path = os.path.realpath(name)
        mount = max((top for top in mounts if _is_below(path, top)), key=len, default="")
        device, kind = mounts.get(mount, ("", ""))
        directories.append(_Directory(path, content, mount, device, kind))
    return directories


def _quota_commands(directories: Sequence[_Directory], cluster: Cluster) -> List[Tuple[str, ...]]:
    """Return the commands that print the quotas of these directories' file systems."""
    lustres = dict.fromkeys(each.mount for each in directories if each.kind == "lustre")
    commands: List[Tuple[str, ...]] = [("lfs", "quota", mount) for mount in lustres]
    if {each.kind for each in directories}.difference(_WITHOUT_QUOTAS):
        commands.append(("quota", "-w", "-p", "-u", "-g"))
    if cluster.quota:
        commands.append(tuple(cluster.quota.split()))
    return commands


def _read_mounts() -> Dict[str, Tuple[str, str]]:
    """Return the mount points of this machine, with their device and type."""
    mounts: Dict[str, Tuple[str, str]] = {}
    with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            device, mount, kind = line.split()[:3]
            mounts[_unescape(mount)] = _unescape(device), kind
    return mounts


def _unescape(path: str) -> str:
    """Return a path of /proc/mounts with its spaces, which have octal numbers there."""
    return re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), path)


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _ask(commands: Sequence[Tuple[str, ...]], cluster: str) -> Iterator[Tuple[str, str, float]]:
    """Yield each command's name, what it printed, and when (epoch seconds).

    Start each at most once an hour. A command that failed, or that another process has just
    started, has printed "".
    """
    now = time.time()
    due = []
    for words in commands:
        started_at, output = cache.read("quota", " ".join(words), cluster) or (0, "")
        if 0 <= now - started_at < _PAUSE:
            yield words[0], output, started_at
        else:
            cache.write("quota", " ".join(words), [now, ""], cluster)
            due.append(words)
    for words, output in _run(due):
        cache.write("quota", " ".join(words), [now, output], cluster)
        yield words[0], output, now


def _run(commands: Sequence[Tuple[str, ...]]) -> Iterator[Tuple[Tuple[str, ...], str]]:
    """Yield each command that answers in time, and what it printed."""
    if not commands:
        return
    from neuronctl.slurm.process import Queries, Result

    answers: List[object] = []
    queries = Queries([(words, None) for words in commands], timeout=TIMEOUT)
    # A command that waits for a dead file server cannot be killed, so only a thread waits for it.
    thread = threading.Thread(target=lambda: answers.extend(queries.answers()), daemon=True)
    thread.start()
    thread.join(TIMEOUT + 0.2)
    for words, answer in zip(commands, answers):
        if isinstance(answer, Result):  # quota(1) exits with 1 if a quota is exceeded
            yield words, answer.stdout[:100_000]


def read_quotas(command: str, text: str, asked_at: float) -> Iterator[Quota]:
    """Yield the quotas in a command's output that have a limit."""
    owner = ""
    for row in re.finditer(_ROW, text):
        if row[1]:  # a heading: "group lab"
            kind, _, name = row[1].partition(" ")
            owner = "" if kind in ("user", "usr") else f"{_OWNERS.get(kind, kind)} {name}"
            continue
        # _ROW has a place (group 2), six numbers with units, and a grace time (9) after the third.
        used, soft, hard = (_read_number(row, at, base=1024, power=1) for at in (3, 5, 7))
        files, soft_files, hard_files = (
            _read_number(row, at, base=1000, power=0) for at in (10, 12, 14)
        )
        place, grace = row[2], row[9]
        # The time until which the soft limit may be exceeded, in words or as epoch seconds.
        is_past = grace in ("none", "expired") or (grace.isdigit() and 0 < int(grace) < asked_at)
        in_force = soft if is_past else hard
        limit = in_force or hard or soft  # 0: not set
        most_files = hard_files or soft_files
        if limit or most_files:
            source = f"{command}, {moment(asked_at)}"
            yield Quota(place, used, limit, files, most_files, owner, source)


def _read_number(row: re.Match[str], at: int, *, base: int, power: int) -> int:
    """Return the number in a group, such as ``4.5G``. power: of the base if there is no unit."""
    number, unit = row[at], row[at + 1]
    power = "kMGTPE".index(unit.replace("K", "k")) + 1 if unit else power
    return int(float(number) * base**power)
