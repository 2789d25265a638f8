"""What somebody may have meant who typed an option that sbatch does not have."""

from __future__ import annotations

import difflib
from typing import Tuple

from neuronctl.request.sbatch_options import RENAMED, SBATCH


def meant_options(word: str) -> Tuple[str, ...]:
    """The options that a word may have been meant for."""
    typed = word.partition("=")[0]
    name = typed.lstrip("-")
    if not name or name == typed:
        return ()
    if not typed.startswith("--"):
        return tuple(option.name for option in SBATCH if option.short and option.short in name)
    longer = tuple(option.name for option in SBATCH if option.long.startswith(name))
    near = difflib.get_close_matches(name, [option.long for option in SBATCH], n=4, cutoff=0.6)
    return longer or tuple(option.name for option in SBATCH if option.long in near)


def hint(word: str) -> str:
    """What a word may have been meant for, as a hint."""
    typed = word.partition("=")[0]
    if typed[2:] in RENAMED:
        return f"it is called --{RENAMED[typed[2:]]} now"
    if typed.startswith("-") and not typed.startswith("--") and len(typed) > 2:
        typed = "-" + typed
    near = difflib.get_close_matches(
        typed, [f"--{option.long}" for option in SBATCH], n=2, cutoff=0.7
    )
    return f"did you mean {' or '.join(near)}?" if near else "'man sbatch' lists the options"
