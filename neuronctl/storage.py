"""Where space runs out: quotas, caches that fill a home directory, and files about to expire."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Iterator, List, Mapping, Optional, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.words import amount

_SECONDS = 1.5
"""How long a directory is looked through; what is not seen by then is not counted."""


@dataclass(frozen=True)
class Quota:
    """What a user holds on a file system, in KiB and files. 0: no limit.

    A limit is the lower one that is set, the soft or the hard one.
    """

    place: str
    kib: int
    most_kib: int
    files: int
    most_files: int

    @property
    def share(self) -> float:
        """Of the limit that is closest; from 1 on, it is reached."""
        pairs = ((self.kib, self.most_kib), (self.files, self.most_files))
        return max((used / most for used, most in pairs if most), default=0.0)

    def __str__(self) -> str:
        parts = []
        if self.most_kib:
            parts.append(f"{amount(self.kib * 1024)} of {amount(self.most_kib * 1024)}")
        if self.most_files:
            parts.append(f"{self.files:,} of {self.most_files:,} files")
        return f"{', '.join(parts)} on {self.place}"


_NUMBER = r"\s+\[?(\d+)\*?\]?"
_ROW = re.compile(
    rf"^\s*(\S+){_NUMBER}{_NUMBER}{_NUMBER}\s+(?:\S*[a-z:-]\S*\s+)?"
    r"(\d+)\*?\s+(\d+)\s+(\d+)",
    re.MULTILINE,
)


def parse_quotas(text: str) -> Tuple[Quota, ...]:
    """The rows with a limit in what ``quota --no-wrap`` or ``lfs quota -q`` prints."""
    found = []
    # lfs puts the figures on a line of their own behind a long name.
    for row in _ROW.finditer(re.sub(r"^(\s*/\S+)\s*\n\s+", r"\1 ", text, flags=re.MULTILINE)):
        kib, soft, hard, files, soft_files, hard_files = map(int, row.groups()[1:])
        one = Quota(row[1], kib, _lower(soft, hard), files, _lower(soft_files, hard_files))
        if one.most_kib or one.most_files:
            found.append(one)
    return tuple(found)


def _lower(*limits: int) -> int:
    return min((limit for limit in limits if limit), default=0)


@dataclass(frozen=True)
class Cache:
    """A program's cache, of at least so many bytes. variable: names its place. command: for it."""

    name: str
    place: str
    bytes: int
    variable: str
    command: str


_CACHES = (
    # name, the variable that names the directory, where it is without it, a command
    ("Hugging Face", "HF_HOME", (".cache/huggingface",), "hf cache ls"),
    ("pip", "PIP_CACHE_DIR", (".cache/pip",), "pip cache purge"),
    (
        "conda",
        "CONDA_PKGS_DIRS",
        (".conda/pkgs", "miniconda3/pkgs", "anaconda3/pkgs", "miniforge3/pkgs"),
        "conda clean --all --yes",
    ),
    ("Apptainer", "APPTAINER_CACHEDIR", (".apptainer/cache",), "apptainer cache clean"),
    ("Singularity", "SINGULARITY_CACHEDIR", (".singularity/cache",), "singularity cache clean"),
)


def caches_in(home: str, environ: Mapping[str, str]) -> Tuple[Cache, ...]:
    """The caches below the home directory, the largest first."""
    found = []
    real_home = os.path.realpath(home)
    for name, variable, usual, command in _CACHES:
        named = environ.get(variable)
        for place in [named] if named else [os.path.join(home, part) for part in usual]:
            real = os.path.realpath(place)
            if os.path.isdir(real) and real.startswith(real_home + os.sep):
                total = sum(status.st_blocks * 512 for _, status in _files(real))
                found.append(Cache(name, place, total, variable, command))
    return tuple(sorted(found, key=lambda cache: -cache.bytes))


@dataclass(frozen=True)
class Expiring:
    """Files of a directory that nobody has read or written for long. first: one of them."""

    files: int
    first: str


def expiring(place: str, days: int) -> Optional[Expiring]:
    """The files that nobody has read or written for so many days; None if there are none."""
    last = time.time() - days * 86400
    old = [path for path, status in _files(place) if max(status.st_atime, status.st_mtime) < last]
    return Expiring(len(old), min(old)) if old else None


def _files(place: str) -> Iterator[Tuple[str, os.stat_result]]:
    """The files below a directory that can be seen in time; no link is followed."""
    until = time.monotonic() + _SECONDS
    left: List[str] = [place]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if time.monotonic() > until:
                    return
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.path, entry.stat(follow_symlinks=False)
