"""Where a job's software lives: small entries, each giving the shell lines that bring it up.

Order in a script, stated here once: modules, then conda or venv, then the address and port where
the processes meet, then the exported variables, then the user's own ``--setup`` lines, then the
launch. Modules come first since a conda or an MPI may come out of one; the user's variables and
lines come last so that they have the last word, over MASTER_PORT too.
"""

from __future__ import annotations

from typing import Callable, Mapping, Tuple

from neuronctl.frozen import dataclass
from neuronctl.shell import quote


@dataclass(frozen=True)
class Step:
    """A line of shell; where ``must_succeed``, a job ends there and then if it fails."""

    text: str
    must_succeed: bool = False


@dataclass(frozen=True)
class Environment:
    """``activate(name)`` gives the script lines that switch to the environment ``name``."""

    name: str
    activate: Callable[[str], Tuple[Step, ...]]


def _conda(name: str) -> Tuple[Step, ...]:
    return (
        Step("# 'conda activate' is a shell function that a batch shell has to load first."),
        Step('. "$(conda info --base)/etc/profile.d/conda.sh"', must_succeed=True),
        Step(f"conda activate {quote(name)}", must_succeed=True),
    )


def _venv(directory: str) -> Tuple[Step, ...]:
    path = directory.rstrip("/") + "/bin/activate"
    # A shell expands ~ on the command line; a job file is read by no shell.
    text = f'"$HOME"/{quote(path[2:])}' if path.startswith("~/") else quote(path)
    return (Step(f". {text}", must_succeed=True),)


ENVIRONMENTS: Mapping[str, Environment] = {
    "conda": Environment("conda", _conda),
    "venv": Environment("venv", _venv),
}


def load_modules(modules: Tuple[str, ...], login_shell: bool) -> Tuple[Step, ...]:
    """Script lines that load ``modules`` after a purge, in a batch shell too.

    A batch job inherits the modules of the submitting shell, hence the purge. Only login shells
    are sure to know ``module``; elsewhere /etc/profile defines it.
    """
    if not modules:
        return ()
    # /etc/profile may set PATH anew (Debian's does), which has what the user put on it.
    profile = "{ path=$PATH; . /etc/profile; PATH=$path:$PATH; }"
    steps = [] if login_shell else [Step(f"type module >/dev/null 2>&1 || {profile}")]
    steps.append(Step("module purge"))
    steps.append(Step("module load " + " ".join(map(quote, modules)), must_succeed=True))
    return tuple(steps)
