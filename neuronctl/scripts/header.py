"""What sbatch makes of a script's ``#SBATCH`` lines: options, refusals, and what it ignores."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Dict, Mapping, Optional, Tuple

from neuronctl.common.datatypes import dataclass, replace

GPU_OPTIONS = ("gpus-per-node", "gpus", "gres", "gpus-per-task", "gpus-per-socket")
"""The options of sbatch and srun that request GPUs."""

INSTEAD_OF = {
    "clusters": "log in to that cluster; --cluster NAME plans for it",
    "cpus-per-gpu": "request cores per task: --cpus-per-task",
    **dict.fromkeys(
        ("gpus-per-socket", "gpus-per-task", "tres-per-job", "tres-per-node", "tres-per-task"),
        "request GPUs per node: --gpus-per-node",
    ),
    "no-requeue": "use neuronctl's own --no-requeue",
    "ntasks-per-gpu": "request tasks per node: --ntasks-per-node",
}
"""sbatch's options for which neuronctl has its own, and what to write or type instead."""

SCRIPT, COMMAND_LINE = "script", "command line"

ACCUMULATED = ("mail-type", "verbose")
"""Options that add to their earlier occurrences; of any other option, the last one counts."""

_EXCLUDING = (("exclusive", "oversubscribe"), ("requeue", "no-requeue"))


def excluding(name: str) -> Tuple[str, ...]:
    """Return the options that conflict with ``name``."""
    return next((tuple(set(group) - {name}) for group in _EXCLUDING if name in group), ())


def digits(text: Optional[str]) -> Optional[int]:
    """Return a number in at most nine ASCII digits; None for anything else."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,9}", text) else None


def interpreter(shebang: str) -> str:
    """Return what follows after ``#!``: ``bash`` of ``/bin/bash -l`` or ``/usr/bin/env bash``."""
    names = [word.rpartition("/")[2] for word in shebang.split() if not word.startswith("-")]
    return next((name for name in names if name != "env"), "")


@dataclass(frozen=True)
class SourceSpan:
    """A line (0: not in the script) and columns, from 1; ``end`` is one past the last."""

    line: int
    column: int = 1
    end: int = 1


NOWHERE = SourceSpan(0)


@dataclass(frozen=True)
class Edit:
    """The text to write in a place of the file; if the place is empty, the text to insert."""

    place: SourceSpan
    text: str


@dataclass(frozen=True)
class GivenOption:
    """One option of a directive, a variable, or the command line.

    name: the long name, however it is spelled. value: None without one. source: SCRIPT,
    COMMAND_LINE, or the variable's name. place: of the option with its value; value_place: of the
    word that has the value.
    """

    name: str
    value: Optional[str]
    source: str = SCRIPT
    place: SourceSpan = NOWHERE
    value_place: SourceSpan = NOWHERE

    @property
    def text(self) -> str:
        """Return ``--name=value``, as sbatch's command line takes it."""
        return f"--{self.name}" if self.value is None else f"--{self.name}={self.value}"


@dataclass(frozen=True)
class Ignored:
    """What sbatch does not read, or reads without effect.

    reason: one of these constants. instead: the option that overrides it; None if none does.
    """

    AFTER_COMMAND = "after the first command"
    MISSPELLED = "not spelled #SBATCH"
    REMARK = "in a remark"
    OVERRIDDEN = "overridden"

    reason: str
    text: str
    place: SourceSpan
    instead: Optional[GivenOption] = None


@dataclass(frozen=True)
class Refusal:
    """Why sbatch refuses the script.

    whole: True if sbatch refuses the file, not a directive. meant: True if the line's options were
    read all the same, as its author meant them. edits: what fixes it, if there is exactly one
    way. since: Slurm's first release that refuses it; (): all do.
    """

    message: str
    place: SourceSpan
    hint: str = ""
    whole: bool = False
    meant: bool = False
    edits: Tuple[Edit, ...] = ()
    since: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Header:
    """What sbatch reads of a script.

    given: every option that sbatch accepts, in its order. refusals: at most one for each line; ()
    if sbatch itself accepts the script, which slurmctld may still refuse. foreign: True if it has
    lines of other schedulers, which sbatch translates. components: how many a heterogeneous job
    has, of which ``given`` is the first; else 1. first_command: the line that ends the directives;
    without commands, one past the last line. left_out: the first line that is not read because the
    script is longer than any real one; 0: none.
    """

    given: Tuple[GivenOption, ...]
    refusals: Tuple[Refusal, ...]
    ignored: Tuple[Ignored, ...]
    foreign: bool
    components: int
    first_command: int
    shebang: str
    left_out: int = 0

    @cached_property
    def options(self) -> Mapping[str, GivenOption]:
        """Return the options that hold in the end, by name."""
        options: Dict[str, GivenOption] = {}
        for option in self.given:
            for name in excluding(option.name):
                options.pop(name, None)
            earlier = options.get(option.name)
            options[option.name] = option
            if earlier is not None and option.name in ACCUMULATED and option.value is not None:
                value = f"{earlier.value},{option.value}"
                options[option.name] = replace(option, value=value)
        return options

    @property
    def for_bash(self) -> bool:
        """Return True if the first line names bash, or sh."""
        return interpreter(self.shebang) in ("bash", "sh")

    @property
    def unread(self) -> bool:
        """Return True if the script may have options in a line that is refused, or not read."""
        has_unread_line = any(not refusal.whole and not refusal.meant for refusal in self.refusals)
        return has_unread_line or 0 < self.left_out < self.first_command

    def value(self, name: str) -> Optional[str]:
        """Return an option's value; None if it is not given or has none."""
        option = self.options.get(name)
        return None if option is None else option.value

    def count(self, name: str) -> Optional[int]:
        """Return the number at the end of an option's value (2 of ``a100:2``), or None."""
        return digits((self.value(name) or "").rpartition(":")[2])
