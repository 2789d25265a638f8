"""The command line: one thin file a command, loaded when it is called.

``main`` is the one place where errors become messages and exit codes. Nothing here imports click,
which costs more than twice the start of Python itself: only a command needs it (invoke.py).
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys

from neuronctl import __version__
from neuronctl.errors import NeuronctlError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional

# name -> one-line help; the module neuronctl.cli.NAME holds the command. The help stands here so
# that `neuronctl --help` need not import every command.
COMMANDS = {
    "submit": "Check a job, submit it with sbatch and record it.",
    "generate": "Print the script of a job for review.",
    "salloc": "Work interactively with the same wiring a job would get.",
    "run": "Launch a program from the allocation this shell stands in.",
    "status": "Show what became of your jobs.",
    "why": "Say why a job waits, or how it ended and why.",
    "logs": "Show or follow a job's log.",
    "cancel": "Cancel jobs.",
    "history": "List recorded submissions and what became of them.",
    "show": "Show all that is known about one job, with its script.",
    "diff": "Compare the plans and scripts of two jobs.",
    "resubmit": "Submit a recorded job again.",
    "attach": "Open a shell inside a running job.",
    "top": "Show what a running job does with its GPUs, CPUs and memory.",
    "partitions": "Show the partition catalog.",
    "catalog": "Check a catalog, draft one from Slurm, compare the two.",
    "doctor": "Say what works here and what does not.",
    "sandbox": "Run a real Slurm on this machine, built from the catalog.",
}

_WIDTH = max(map(len, COMMANDS))

HELP = """\
Usage: neuronctl [OPTIONS] COMMAND [ARGS]...

  Right Slurm scripts for GPU training: checked before submission, tracked
  after it.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
""" + "".join(f"  {name:{_WIDTH}}  {words}\n" for name, words in COMMANDS.items())


def run_command_line(words: List[str]) -> int:
    """Do what a command line (without the program's own name) says; the exit code."""
    name = words[0] if words else ""
    if name in COMMANDS:
        from neuronctl.cli.later import SELDOM_USED, import_later

        import_later(*SELDOM_USED)
        from neuronctl.cli.invoke import invoke

        return invoke(name, words[1:])
    if name in ("-h", "--help"):
        sys.stdout.write(HELP)
        return 0
    if name == "--version":
        sys.stdout.write(f"neuronctl, version {__version__}\n")
        return 0
    if not words:
        sys.stderr.write(HELP)
        return UsageError.exit_code
    hint = "see 'neuronctl --help'"
    if name.startswith("-"):
        raise UsageError(f"No such option '{name}'.", hint)
    import difflib

    close = difflib.get_close_matches(name, COMMANDS, n=1)
    guess = f" Did you mean '{close[0]}'?" if close else ""
    raise UsageError(f"No such command '{name}'.{guess}", hint)


def report(error: NeuronctlError) -> None:
    """Print an error's message and hint to standard error."""
    from neuronctl.cli.say import say

    say(f"neuronctl: {error.message}")
    if error.hint:
        say(f"  hint: {error.hint}")


class _LossyStderr(io.FileIO):
    """Standard error: what cannot be said there, as nobody reads it or its disk is full, is not."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _standard_streams() -> None:
    """All three are there, and standard error never fails."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False))
    raw = io.BufferedWriter(_LossyStderr(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(
        raw,
        encoding="utf-8" if sys.stderr is None else sys.stderr.encoding,
        errors="backslashreplace",
        line_buffering=True,
    )


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line and end the process with one of the documented exit codes."""
    # Nothing that an import makes is garbage: to look through all of it again and again takes a
    # tenth of the time of a short command.
    gc.set_threshold(100_000)
    try:
        code = run_command_line(sys.argv[1:] if argv is None else argv)
        # What is still in the buffer: later the interpreter would end with a code of its own.
        sys.stdout.flush()
    except NeuronctlError as error:
        report(error)
        code = error.exit_code
    except (KeyboardInterrupt, EOFError):
        from neuronctl.cli.say import say

        say("\nneuronctl: interrupted")  # behind the terminal's ^C
        code = 130
    except BrokenPipeError:
        from neuronctl.cli.say import drop_output

        # `neuronctl status | head`: the reader has seen enough.
        drop_output()
        code = 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and not error.filename:
            from neuronctl.cli.say import drop_output

            drop_output()
            report(UsageError("standard output cannot be written: no space is left"))
            sys.exit(UsageError.exit_code)
        if os.environ.get("NEURONCTL_DEBUG"):
            raise
        kind = type(error).__name__
        report(
            NeuronctlError(
                f"a defect of neuronctl itself: {kind}: {error}",
                "run again with NEURONCTL_DEBUG=1 for the traceback, and report it",
            )
        )
        code = 1
    sys.exit(code)


def program() -> None:
    """``main`` as a process of its own, which ends at once.

    To take apart all that was imported, as the interpreter does at its end, takes another tenth.
    """
    _standard_streams()
    try:
        main()
    except SystemExit as stop:
        try:
            sys.stdout.flush()
        except OSError:
            stop.code = stop.code or UsageError.exit_code
        os._exit(stop.code if isinstance(stop.code, int) else 0)
