"""The errors shown to users: a message, a hint, and an exit code.

The exit codes are part of the command-line contract; docs/reference/exit-codes.md lists them, and
a test compares that page with this module. Nothing here depends on click or Slurm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

INTERRUPTED = 130
"""The exit code after Ctrl-C, unless the command has its own."""

TIMED_OUT = 75
"""The exit code of a wait that timed out; 124 is that of a job that reached its time limit."""


SITE_FAULTS: dict[str, None] = {}
"""Why files of the site are not used, as keys; each command prints them as warnings."""


class NeuronctlError(Exception):
    """An error that the user sees as a message and a hint, never as a traceback.

    ``message`` says what is wrong, where, and which figure exceeds which limit. ``hint`` says what
    to type instead; it is empty when there is nothing useful to suggest. ``others``: errors that
    were found together with it, in a catalog.

    >>> try:
    ...     neuronctl.plan("train.py", gpu_per_node=1)
    ... except neuronctl.NeuronctlError as error:
    ...     error.message, error.exit_code
    ('no such option: gpu_per_node', 2)
    """

    exit_code = 1
    others: tuple[NeuronctlError, ...] = ()

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(NeuronctlError):
    """The command line is wrong: an unknown option or an invalid value."""

    exit_code = 2


class CatalogError(NeuronctlError):
    """A catalog file is missing, unreadable, or invalid; the message names file:line."""

    exit_code = 3


class JobFileError(NeuronctlError):
    """A job file or the user's configuration file is invalid; the message names file:line."""

    exit_code = 3


class PolicyError(NeuronctlError):
    """The cluster's limits or the site's policy do not allow the job."""

    exit_code = 4


class TemplateError(NeuronctlError):
    """A template cannot be found, parsed, or rendered; the message names file:line."""

    exit_code = 5


class SlurmError(NeuronctlError):
    """Slurm could not, or would not, do what neuronctl requested; the subclasses say which.

    said: what Slurm itself printed; the message ends with it. short: the message with only the last
    printed line, which has the cause; the lines above it say what Slurm's command tried. certain:
    whether Slurm surely did nothing.
    """

    certain = False

    def __init__(self, message: str, hint: str = "", said: str = "") -> None:
        super().__init__(f"{message}: {said}" if said else message, hint)
        cause = said.splitlines()[-1].strip() if said else ""
        self.short = f"{message}: {cause}" if cause else message


class SlurmUnavailableError(SlurmError):
    """Slurm is not installed, cannot be reached, or did not respond in time.

    The sandbox raises it too when its Slurm cannot be started.
    """

    exit_code = 6


class SlurmRefusedError(SlurmError):
    """Slurm rejected the request; the message quotes Slurm."""

    exit_code = 7
    certain = True


class NoSuchJobError(NeuronctlError):
    """Neither Slurm nor the job records know the job."""

    exit_code = 8


class RecordError(NeuronctlError):
    """The job records cannot be read or written."""

    exit_code = 9


class NotConnectedError(NeuronctlError):
    """There is no connection to the cluster; nothing was done there."""

    exit_code = 10


class ConnectionLostError(NeuronctlError):
    """The connection to the cluster was lost; what was done there is not known."""

    exit_code = 11


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the closest matches; all valid names if none is close."""
    import difflib

    names = sorted(known)
    matches = difflib.get_close_matches(word, names, n=2, cutoff=0.6)
    if matches:
        return f"did you mean {' or '.join(matches)}?"
    return f"valid: {', '.join(names) or 'none'}"


def at_most_one(options: Mapping[str, object]) -> None:
    """Raise UsageError if two of these options are given (not False, None, or empty)."""
    given = [name for name, value in options.items() if value not in (False, None, (), [])]
    if len(given) > 1:
        raise UsageError(f"{given[0]} cannot be combined with {given[1]}", "keep one of them")
