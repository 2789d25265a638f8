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
    """A line of shell; a job ends there and then if one with a ``defect`` fails, and says that."""

    text: str
    defect: str = ""

    @property
    def must_succeed(self) -> bool:
        """Whether a job cannot go on where this fails."""
        return bool(self.defect)


@dataclass(frozen=True)
class Environment:
    """``activate(name)`` gives the script lines that switch to the environment ``name``."""

    name: str
    activate: Callable[[str], Tuple[Step, ...]]


def _conda(name: str) -> Tuple[Step, ...]:
    return (
        Step("# 'conda activate' is a shell function, which a batch shell must load first."),
        Step('. "$(conda info --base)/etc/profile.d/conda.sh"', "conda not found"),
        Step(f"conda activate {quote(name)}", f"cannot activate the environment {name}"),
    )


def _venv(directory: str) -> Tuple[Step, ...]:
    path = directory.rstrip("/") + "/bin/activate"
    # A shell expands ~ on the command line; a job file is read by no shell.
    text = f'"$HOME"/{quote(path[2:])}' if path.startswith("~/") else quote(path)
    return (Step(f". {text}", f"cannot activate the environment {directory}"),)


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
    steps = []
    if not login_shell:
        # Debian's /etc/profile, for one, sets PATH anew.
        profile = "{ path=$PATH; . /etc/profile; PATH=$path:$PATH; }"
        steps = [
            Step("# /etc/profile defines 'module'. Your own PATH entries stay in front."),
            Step(f"type module >/dev/null 2>&1 || {profile}"),
        ]
    steps.append(Step("module purge"))
    names = " ".join(map(quote, modules))
    steps.append(Step(f"module load {names}", f"cannot load the modules {' '.join(modules)}"))
    return tuple(steps)
