"""The options of a job as click has them, for the commands that take them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import click

from neuronctl.cli.option import option
from neuronctl.request.options import OPTIONS, Option

BEHIND_DASHES = "neuronctl.behind_dashes"
"""Key of a click context's ``meta``: whether what is left of the line stands behind ``--``."""


class JobCommand(click.Command):
    """A command whose help shows the job's options in groups."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        before = list(args)
        rest = super().parse_args(ctx, args)
        words = len(ctx.params.get("words", ()))
        ctx.meta[BEHIND_DASHES] = before[: len(before) - words][-1:] == ["--"]
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: Dict[str, List[Tuple[str, str]]] = {}
        by_name = {option.long.replace("-", "_"): option.group for option in OPTIONS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            # Some versions of click have a record for arguments too; the usage line has them.
            if record is not None and isinstance(parameter, click.Option):
                group = by_name.get(parameter.name or "", "Command")
                groups.setdefault(group, []).append(record)
        for group in ("Slurm", "Job", "Environment", "Command"):
            if group in groups:
                title = "Options as Slurm spells them" if group == "Slurm" else f"{group} options"
                with formatter.section(title if group != "Command" else "Options"):
                    formatter.write_dl(groups[group])


def job_command(
    name: str, *, batch: bool = True, **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """A click command with all of a job's options (with ``batch``, a batch job's), behind which
    SCRIPT and ARGS may follow.

    Option parsing stops at SCRIPT: what follows it belongs to it, whatever it looks like.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        names = [one.long for one in OPTIONS if batch or not one.batch_only]
        function = job_options(names)(function)
        function = option(
            "-f", "--file", "job_file", metavar="JOB.YAML", help="Read the job from a file."
        )(function)
        function = option("--catalog", metavar="FILE", help="Catalog file laid over the others.")(
            function
        )
        function = option(
            "--template", metavar="FILE", help="Template in place of the shipped one."
        )(function)
        function = option("--explain", is_flag=True, help="Show every value with its reason.")(
            function
        )
        function = option("--force", is_flag=True, help="Go on in spite of what the catalog says.")(
            function
        )
        context = {"allow_interspersed_args": False}
        return click.command(name, cls=JobCommand, context_settings=context, **settings)(function)

    return decorate


def job_options(names: Sequence[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The job options of these names, for a click command."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for one in reversed(OPTIONS):
            if one.long in names:
                function = _click_option(one)(function)
        return function

    return decorate


def program_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """SCRIPT and its ARGS, for the commands that run one."""
    return click.argument("words", metavar="SCRIPT [ARGS]...", nargs=-1, type=click.UNPROCESSED)(
        function
    )


def _click_option(one: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{one.long}"] + ([f"-{one.short}"] if one.short else [])
    if one.kind == "switch":
        return option(f"--{one.long}/--no-{one.long}", default=None, help=one.help)
    if one.kind == "flag":
        return option(*names, is_flag=True, default=None, help=one.help)
    return option(*names, metavar=one.metavar, multiple=one.kind == "list", help=one.help)
