"""sbatch's command line: its options and the script that it submits."""

from __future__ import annotations

import os
from typing import Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.slurm.sbatch_options import SBATCH, getopt_with_plugins

STDIN = "/dev/stdin"

WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"
"""The script that sbatch makes of the value of ``--wrap``."""

_SUBMIT_NOTHING = {"help", "usage", "version", "test-only"}


@dataclass(frozen=True)
class SbatchLine:
    """The words behind ``sbatch``.

    options: the words before the script, without a ``--`` at their end. known: the options of the
    first job, without those of a site's plugins at their end. submits: False if sbatch only prints
    something. file: the script as typed, "" for standard input and ``--wrap``. wrap: the value of
    ``--wrap``. components: how many a heterogeneous job has; else 1.
    """

    options: Tuple[str, ...]
    known: Tuple[str, ...]
    submits: bool
    file: str
    args: Tuple[str, ...]
    wrap: Optional[str]
    components: int

    @property
    def reads_stdin(self) -> bool:
        """Return True if the script is on standard input."""
        return self.wrap is None and self.file in ("", STDIN)

    @property
    def script(self) -> Tuple[str, ...]:
        """Return the words after the options."""
        mark = ("--",) if self.file.startswith("-") else ()
        return (*mark, self.file, *self.args) if self.file else ()

    def path(self, directory: str) -> str:
        """Return the script's absolute path, found as sbatch finds it; "" without a file."""
        if not self.file:
            return ""
        directories = [directory]
        if not self.file.startswith((".", "/")):
            directories += os.environ.get("PATH", "").split(os.pathsep)
        paths = [os.path.join(directory, self.file) for directory in directories]
        return next(filter(os.path.isfile, paths), "")


def read_line(words: Sequence[str]) -> SbatchLine:
    """Read sbatch's command line; raise GetoptError if sbatch refuses it."""
    remaining = list(words)
    components = 1
    known: Tuple[str, ...] = ()
    submits = True
    wrap: Optional[str] = None
    while True:
        parsed, end = getopt_with_plugins(remaining, SBATCH)
        if components == 1:  # the options up to the first colon
            known = tuple(remaining[:end])
        for option in parsed:
            if option.spec.name in _SUBMIT_NOTHING:
                submits = False
            elif option.spec.name == "wrap":
                wrap = option.value
        remaining = remaining[end:]
        if remaining[:1] != [":"]:
            break
        components += 1
        remaining = remaining[1:]
    options = tuple(words[: len(words) - len(remaining)])
    if options[-1:] == ("--",):
        options = options[:-1]
    file, *args = remaining or [""]
    return SbatchLine(options, known, submits, file, tuple(args), wrap, components)
