"""Where a job's software lives: small entries, each with the shell lines that activate it.

The order in a script is modules, conda or venv, the address and port where the processes meet,
the exported variables, the user's ``--setup`` lines, the launch. Modules come first because conda
or an MPI may come from one. The user's variables and lines come last and so override the others,
MASTER_PORT included.
"""

from __future__ import annotations

from typing import Callable, Mapping, Tuple

from neuronctl.frozen import dataclass
from neuronctl.shell import quote


@dataclass(frozen=True)
class Step:
    """A line of shell. If it has a ``defect`` and fails, the job reports that and ends."""

    text: str
    defect: str = ""

    @property
    def must_succeed(self) -> bool:
        """Whether the job ends if this line fails."""
        return bool(self.defect)


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


ENVIRONMENTS: Mapping[str, Callable[[str], Tuple[Step, ...]]] = {"conda": _conda, "venv": _venv}
"""Kind of environment -> the script lines that activate the one of that name."""


def load_modules(modules: Tuple[str, ...], login_shell: bool) -> Tuple[Step, ...]:
    """The script lines that load ``modules`` after a purge.

    A batch job inherits the modules of the submitting shell, hence the purge. Only a login shell
    is certain to know ``module``; in others, /etc/profile defines it.
    """
    if not modules:
        return ()
    steps = []
    if not login_shell:
        # /etc/profile may replace PATH; Debian's does.
        profile = "{ path=$PATH; . /etc/profile; PATH=$path:$PATH; }"
        steps = [
            Step("# /etc/profile defines 'module'. Your own PATH entries stay in front."),
            Step(f"type module >/dev/null 2>&1 || {profile}"),
        ]
    steps.append(Step("module purge"))
    names = " ".join(map(quote, modules))
    steps.append(Step(f"module load {names}", f"cannot load the modules {' '.join(modules)}"))
    return tuple(steps)
