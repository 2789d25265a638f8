"""What the commands of anybody's script are known to do."""

from __future__ import annotations

import re
from typing import Tuple

from neuronctl.scripts.launches import CONTAINERS
from neuronctl.scripts.shell_text import INITIALIZES, Command

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


_OPENS = re.compile(r" +(! +)?(-[nz] +)?")
_ENDS = re.compile(r"[^\s\]]{0,200}( {0,9}(\]|$|;|&&|\|\|)| +-[ao] )")
_IS_EMPTY = re.compile(r"[^\s\]]{0,200} {0,9}(!=|==?) {0,9}(\"\"|''|x)[ \]]")


def _where(parts: Tuple[str, str, str]) -> int:
    """Behind which character a text was parted, -1 if it was not."""
    return len(parts[0]) if parts[1] else -1


def asks_for(name: str, line: str) -> bool:
    """Whether a line sets a variable, gives it a default, or asks whether there is one."""
    last = line.rfind("]]")
    for found in re.finditer(rf"\b{name}\b", line):
        head, end = line[: found.start()], found.end()
        if line.startswith("=", end) and head.strip() in ("", "export"):
            return True
        if head.endswith("{") and re.compile(":?[-=+?]").match(line, end):
            return True
        if head.endswith("-v "):
            return True
        before, opens, within = head.rpartition("((")
        if opens and ")" not in within and not before.endswith("$"):
            return True
        before, opens, within = max(head.rpartition("["), head.rpartition("test"), key=_where)
        if not opens or not within.startswith(" ") or "]" in within:
            continue
        if before.endswith("[") and opens == "[" and last > end:
            return True
        dollar = re.search(r"[\"']?\$\{?$", within[-3:])
        if not dollar:
            continue
        within = within[: len(within) - len(dollar[0])]
        if _OPENS.fullmatch(within) and _ENDS.match(line, end):
            return True
        if re.search("-[nz] +$", within[-12:]):
            return True
        if not re.search("[;|&]", within) and _IS_EMPTY.match(line, end):
            return True
    return False


SHORT = frozenset(
    """
    : [ [[ cat cd date deactivate df disown du echo env exit export free hostname kill ls mkdir
    module nvidia-smi printenv printf ps pwd set sleep squeue test touch trap true umask unset
    """.split()  # noqa: SIM905
)
"""What does not keep a job alive."""
SAYS = ("echo", "date", "printf", "deactivate", "exit", "wait")


TELLS = frozenset(
    """
    hostname kill killall ls ml module nvidia-smi pkill pwd rm sacct scontrol seff sleep
    squeue sstat
    """.split()  # noqa: SIM905
)


def only_says(command: Command) -> bool:
    """Whether a command only tells something, or puts something away."""
    if command.name in ("conda", "mamba", "micromamba", "source", "."):
        return command.arguments[:1] == ("deactivate",)
    return command.name in (*SAYS, *TELLS) or "stats" in command.name  # a site's own


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


_BESIDE_THE_WORK = frozenset(
    """
    : [ [[ env export false lscpu mail mailx ml nproc sendmail set shopt sync test times true trap
    ulimit umask uname unset uptime
    """.split()  # noqa: SIM905
)
_VERSION = ("--version", "-version", "-v", "-V", "--help", "-h")


def wraps_up(command: Command) -> bool:
    """Whether a command behind the work only tells something, or moves files."""
    name, words = command.name, command.arguments
    sends = name == "wandb" and words[:1] == ("sync",)
    sends = sends or (name == "curl" and not {"-d", "--data", "-F", "-X"}.isdisjoint(words))
    asks = bool(words) and words[-1] in _VERSION and len(words) < 2 + 4 * (name in CONTAINERS)
    beside = name in _BESIDE_THE_WORK or re.search("notif|slack|telegram|mail", name) is not None
    own = only_says(command) or name in _OF_FILES or tells_of_the_job(command)
    return own or sends or asks or beside


_ASKS = frozenset("basename cut dirname head nproc readlink realpath tr uname whoami".split())  # noqa: SIM905


def only_asks(command: Command) -> bool:
    """Whether a command whose output is the value of something starts no program of the job's."""
    return command.name in SHORT | TELLS | _ASKS


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
