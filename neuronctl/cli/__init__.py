"""The command line: one thin file a command, loaded when it is called.

``main`` is the one place where errors become messages and exit codes.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any, List, Optional

import click

from neuronctl import __version__
from neuronctl.errors import NeuronctlError, UsageError

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


class ReaderGone(Exception):
    """Nobody reads standard output any more; click would end with exit code 1 by itself."""


class LazyGroup(click.Group):
    """A group whose commands are imported only when they run or show their own help."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"neuronctl.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: List[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean '{close[0]}'?" if close else "See 'neuronctl --help'."
            raise click.UsageError(f"No such command '{args[0]}'. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="neuronctl")
def cli() -> None:
    """Right Slurm scripts for GPU training: checked before submission, tracked after it."""


def report(error: NeuronctlError) -> None:
    """Print an error's message and hint to standard error, as plain text."""
    click.echo(f"neuronctl: {error.message}", err=True)
    if error.hint:
        click.echo(f"  hint: {error.hint}", err=True)


def _flush_output() -> None:
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def _drop_output() -> None:
    """What could not be written is not tried again as the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Optional[List[str]] = None) -> None:
    """Run the command line and end the process with one of the documented exit codes."""
    try:
        result = cli.main(args=argv, prog_name="neuronctl", standalone_mode=False)
        # What is still in the buffer: later the interpreter would end with a code of its own.
        _flush_output()
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        click.echo("neuronctl: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        # click's own words, in our form; its exit code for wrong usage is ours too.
        ctx = getattr(error, "ctx", None)
        command = ctx.command_path if ctx is not None else "neuronctl"
        hint = f"see '{command} --help'"
        if getattr(error, "option_name", None) in ("--gpus", "-G"):
            hint = "GPUs are asked for by node: --gpus-per-node N"
        report(NeuronctlError(error.format_message(), hint))
        sys.exit(2)
    except NeuronctlError as error:
        report(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        click.echo("neuronctl: interrupted", err=True)
        sys.exit(130)
    except ReaderGone:
        # `neuronctl status | head`: the reader has seen enough.
        _drop_output()
        sys.exit(0)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and not error.filename:
            _drop_output()
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
        sys.exit(1)
    # A command returns an exit code where it is not 0 (click hands it back to us).
    sys.exit(result if isinstance(result, int) else 0)
