"""sbatch's command line: its options and the script that it submits."""

from __future__ import annotations

import os
from typing import Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.slurm.sbatch_options import SBATCH, getopt_with_plugins

STDIN = "/dev/stdin"

WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"
"""The script that sbatch makes of what ``--wrap`` gives."""


@dataclass(frozen=True)
class SbatchLine:
    """The words behind ``sbatch``.

    options: those before the script, without a ``--`` behind them. known: of them, those of the
    (first) job that neuronctl knows; a site's plugins may have more. submits: whether a job comes
    of it, and not only an answer. file: the script as typed, "" for standard input and ``--wrap``.
    wrap: what ``--wrap`` gives. components: of a heterogeneous job, how many.
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
        places = [directory]
        if not self.file.startswith((".", "/")):
            places += os.environ.get("PATH", "").split(os.pathsep)
        paths = (os.path.join(place, self.file) for place in places)
        return next((path for path in paths if os.path.isfile(path)), "") if self.file else ""


def read_line(words: Sequence[str]) -> SbatchLine:
    """Read sbatch's command line; raise GetoptError if sbatch refuses it."""
    rest = list(words)
    components = 1
    known: Tuple[str, ...] = ()
    submits = True
    wrap: Optional[str] = None
    while True:
        parsed, end = getopt_with_plugins(rest, SBATCH)
        if components == 1:
            known = tuple(rest[:end])
        submits &= not {"help", "usage", "version", "test-only"}.intersection(
            option.known.name for option in parsed
        )
        wrap = next((each.value for each in reversed(parsed) if each.known.name == "wrap"), wrap)
        rest = rest[end:]
        if rest[:1] != [":"]:
            break
        components += 1
        rest = rest[1:]
    file, args = (rest[0], rest[1:]) if rest else ("", [])
    options = tuple(words[: len(words) - len(rest)])
    if options[-1:] == ("--",):
        options = options[:-1]
    return SbatchLine(options, known, submits, file, tuple(args), wrap, components)
