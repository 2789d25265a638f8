"""The commands of anybody's script that only look, prepare, or put away: one list of them."""

from __future__ import annotations

import re
from typing import FrozenSet

from neuronctl.scripts.shell_text import Command

LOOKS_OR_PREPARES: FrozenSet[str] = frozenset(
    """
    : . [ [[ alias awk basename break cat cd chmod conda continue cp curl cut date deactivate
    declare df dirname disown du echo env eval exec exit export false find free grep gunzip gzip
    head hostname id kill killall let ln local ls lscpu mail mailx mamba micromamba mkdir mktemp ml
    module mv nproc nvidia-smi pkill popd printenv printf ps pushd pwd read readlink realpath return
    rm rmdir rocm-smi rsync sacct sbatch scancel scontrol sed seff sendmail seq set shift shopt
    sleep sort source squeue sstat sync tail tar tee test times touch tr trap true type ulimit umask
    unalias uname unset uptime wait wc wget which whoami zip
    """.split()  # noqa: SIM905
)
"""None of them is the work that a job was submitted for."""

_TELLS = re.compile(r"notif|slack|telegram|mail|stats")
_ASKS = ("--version", "-version", "-V", "--help", "-h")


def wraps_up(command: Command) -> bool:
    """Return True if a command behind the work only reports, or moves files."""
    name, words = command.name, command.arguments
    if name in ("conda", "mamba", "micromamba", "source", "."):
        return words[:1] == ("deactivate",)
    if name in ("eval", "exec", "sbatch"):
        return False
    sends = name == "wandb" and words[:1] == ("sync",)
    asks = bool(words) and words[-1] in _ASKS
    return name in LOOKS_OR_PREPARES or sends or asks or _TELLS.search(name) is not None
