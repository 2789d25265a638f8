"""``neuronctl sbatch``: sbatch itself, with a check and a record beside it."""

from __future__ import annotations

from typing import Tuple

import click

from neuronctl.cli.sbatch_wrapper import call


@click.command(
    "sbatch",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument(
    "words",
    metavar="[WORDS]...",
    nargs=-1,
    type=click.UNPROCESSED,
)
def command(words: Tuple[str, ...]) -> int:
    """Call sbatch with these words, and check and record what it submits.

    Output, exit code, and job are sbatch's own, so that alias sbatch='neuronctl sbatch' is
    harmless. Findings are printed on standard error if it is a terminal. They refuse nothing, and
    neither does a record that cannot be written. The components of a heterogeneous job are not
    judged.

    With --monitor among the options, or in your configuration, the job is sampled for 'neuronctl
    report'. sbatch gets the script unchanged; BASH_ENV starts the sampler, so the script must be
    one for bash.
    """
    return call(words)
