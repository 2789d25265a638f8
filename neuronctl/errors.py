"""Every error a user can meet: a message, a hint and an exit code.

The exit codes are part of the command line's contract; docs/reference/exit-codes.md lists
them and a test compares that page with this module. Nothing here knows click or Slurm.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable


class NeuronctlError(Exception):
    """An error to be shown to the user as a message and a hint, never as a traceback.

    ``message`` says what is wrong, where, and which figure met which limit; ``hint`` says what
    to type instead (empty where there is nothing useful to say).
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(NeuronctlError):
    """The command line is wrong: an unknown option, a value that its grammar does not know."""

    exit_code = 2


class CatalogError(NeuronctlError):
    """A catalog file is missing, unreadable, or says something it may not; names file:line."""

    exit_code = 3


class JobFileError(NeuronctlError):
    """A job file or the user's configuration file is wrong; names file:line."""

    exit_code = 3


class PolicyError(NeuronctlError):
    """The cluster's limits or the site's policy say no."""

    exit_code = 4


class TemplateError(NeuronctlError):
    """A template cannot be found, parsed or filled in; names file:line."""

    exit_code = 5


class SlurmUnavailableError(NeuronctlError):
    """Slurm is not installed here, does not answer, or did not answer in time.

    Also raised by the sandbox when its Slurm cannot be brought up.
    """

    exit_code = 6


class SlurmRefusedError(NeuronctlError):
    """Slurm answered and said no; the message carries Slurm's own words."""

    exit_code = 7


class NoSuchJobError(NeuronctlError):
    """Neither Slurm nor the record store knows the job."""

    exit_code = 8


class RecordError(NeuronctlError):
    """The record store cannot be read or written."""

    exit_code = 9


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for a name that is not known: the nearest ones, then all of them."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{guess}known: {', '.join(names) or 'none'}"
