"""An unexpected error, told to the user: one line, and a file with the traceback."""

from __future__ import annotations

import os
import traceback

from neuronctl.cli.say import say
from neuronctl.error_details import write_error_details
from neuronctl.errors import NeuronctlError
from neuronctl.masking import Masker, secret_values


def report_internal_error(error: Exception) -> int:
    """Write the traceback to a file and name it; returns the exit code."""
    mask = Masker(secret_values((), os.environ)).line
    say(f"neuronctl: internal error: {mask(f'{type(error).__name__}: {error}')}")
    details = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        path = write_error_details(details)
    except (OSError, NeuronctlError) as problem:
        say(f"  details: cannot be written: {problem}")
    else:
        home = os.path.expanduser("~")
        say(f"  details: {'~' + path[len(home) :] if path.startswith(home + '/') else path}")
        say("  please report this error to the maintainers of neuronctl, with that file")
    return NeuronctlError.exit_code
