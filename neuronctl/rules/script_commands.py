"""What the commands of anybody's script are known to do."""

from __future__ import annotations

import re

from neuronctl.batchscript.shell_text import INITIALIZES, Command

ONLY_PREPARES = frozenset(
    """
    : . [ [[ alias awk basename break cat cd chmod conda continue cp curl cut date deactivate
    declare df dirname du echo eval exec exit export false find free grep head hostname id kill let
    ln local
    ls mamba micromamba mkdir mktemp ml module mv nvidia-smi popd printenv printf ps pushd pwd read
    readlink realpath return rm rocm-smi rsync sbatch scancel scontrol sed seq set shift shopt sleep
    sort source squeue tail tar tee test touch tr trap true type ulimit umask unset wait wc wget
    which
    """.split()  # noqa: SIM905
)
"""Commands that only prepare, or look."""


def asks_for(name: str, line: str) -> bool:
    """Whether a line sets a variable, gives it a default, or asks whether there is one."""
    if name not in line:
        return False
    used = rf"[\"']?\$\{{?{name}\b[^\s\]]*"
    pattern = (
        rf"\{{{name}:?[-=+?]|^\s*(export )?{name}=|-v {name}\b"
        rf"|(\[|\btest) +(! +)?(-[nz] +)?{used}( *\]| *$| *;| *&&| *\|\|| +-[ao] )"
        rf"|(\[|\btest) +[^\]]*-[nz] +{used}"
        rf"|(\[|\btest) +[^\];|&]*{used} *(!=|==?) *(\"\"|''|x)[ \]]"
        rf"|\[\[ [^]]*\b{name}\b.*\]\]|(?<!\$)\(\([^)]*\b{name}\b"
    )
    return re.search(pattern, line) is not None


SHORT = frozenset(
    """
    : [ [[ cat cd date deactivate df disown du echo env exit export free hostname kill ls mkdir
    module nvidia-smi printenv printf ps pwd set sleep squeue test touch trap true umask unset
    """.split()  # noqa: SIM905
)
"""What does not keep a job alive."""
SAYS = ("echo", "date", "printf", "deactivate", "exit", "wait")


_TELLS = frozenset(
    """
    hostname kill killall ls ml module nvidia-smi pkill pwd rm sacct scontrol seff sleep
    squeue sstat
    """.split()  # noqa: SIM905
)


def only_says(command: Command) -> bool:
    """Whether a command only tells something, or puts something away."""
    if command.name in ("conda", "mamba", "micromamba"):
        return command.arguments[:1] == ("deactivate",)
    return command.name in (*SAYS, *_TELLS) or "stats" in command.name  # a site's own


_OF_FILES = frozenset(
    """
    basename cd chmod cp cut du find gunzip gzip head ln mkdir mv rm rmdir rsync sed sort tail tar
    touch unset wc zip
    """.split()  # noqa: SIM905
)
_OF_A_JOB = {"SLURM_JOB_ID", "SLURM_JOBID"}


def tells_of_the_job(command: Command) -> bool:
    """Whether it is a site's own command that gets nothing but the job's number."""
    words = [word for word in command.words[1:] if not word.raw.startswith("-")]
    return bool(words) and all(word.names and {*word.names} <= _OF_A_JOB for word in words)


def wraps_up(command: Command) -> bool:
    """Whether a command behind the work only tells something, or moves files."""
    sends = command.name == "wandb" and command.arguments[:1] == ("sync",)
    return only_says(command) or command.name in _OF_FILES or sends or tells_of_the_job(command)


_SETS_UP = frozenset(
    """
    : [ [[ alias cd date deactivate declare echo exit export mkdir ml module printf set shopt test
    true type ulimit umask unset which
    """.split()  # noqa: SIM905
)


def only_sets_up(command: Command) -> bool:
    """Whether a command starts no program of the job's, whatever its variables are."""
    words = [word.raw for word in command.words[1:]]
    if command.name in ("source", "."):
        file = command.words[1].text.rpartition("/")[2] if words else ""
        return INITIALIZES.fullmatch(file.lstrip(".")) is not None
    if command.name in ("conda", "mamba", "micromamba"):
        return words[:1] in (["activate"], ["deactivate"], ["info"], ["list"], ["config"])
    if command.name == "eval":
        return any("hook" in word for word in words)
    return command.words[0].raw in _SETS_UP if command.words else True
