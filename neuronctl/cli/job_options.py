"""A job's options as click options, for the commands that accept them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import click

from neuronctl.common.errors import UsageError
from neuronctl.common.secrets import is_private
from neuronctl.common.shell import quote
from neuronctl.launch import launchers
from neuronctl.request.job import OPTIONS, Body
from neuronctl.request.job_file import read_body
from neuronctl.request.options import Option

if TYPE_CHECKING:
    from neuronctl.submission.planned_job import PlannedJob

BEHIND_DASHES = "neuronctl.behind_dashes"
"""Key of a click context's ``meta``: whether the remaining words follow ``--``."""


_NO_PROGRAMS = ("--dry-run", "--explain", "--follow", "--preflight", "--no-preflight", "--wait")
"""Options that, after a program, are probably meant for neuronctl."""

_SECTIONS = {
    "Partition, size, and time limit": (
        "partition nodes gpus-per-node gpus gres ntasks ntasks-per-node cpus-per-task mem "
        "exclusive constraint nodelist exclude avoid-bad-nodes reservation time"
    ),
    "Account and site fields": "account qos field appl comment cluster",
    "Name, directory, logs, and mail": "job-name chdir output error mail-type mail-user",
    "Software": "module conda venv env setup",
    "Container": "container container-runtime container-option bind",
    "Launch": "launcher launcher-option preflight",
    "Dependencies, arrays, and signals": "after after-ok dependency array requeue signal",
    "Continuing after the time limit": "until-done max-runs resume-with",
    "Stalled and idle jobs": "stall checkpoint idle",
    "Sampling for a report": "monitor",
    "Parameters": "param together table commands",
    "Tasks of the sweep": "side-by-side task-time retries max-fails metric jobs",
}
"""The headings in a command's help, each with its options; all others are ``Other options``."""


class JobCommand(click.Command):
    """A command whose help shows the job's options in groups."""

    def hint_at_option(self, option: str, usual_hint: str) -> str:
        """Return ``usual_hint`` about an unknown option, or how to pass the option to sbatch."""
        takes_sbatch_options = any(parameter.name == "sbatch" for parameter in self.params)
        return _hint_at_sbatch(option, usual_hint) if takes_sbatch_options else usual_hint

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Note whether the words follow ``--``; refuse secrets among the options."""
        typed = list(args)  # click removes what it parses
        unparsed = super().parse_args(ctx, args)
        _refuse_typed_secrets(ctx.params.get("env") or ())
        word_count = len(ctx.params.get("words", ()))
        before_words = typed[: len(typed) - word_count]
        ctx.meta[BEHIND_DASHES] = bool(before_words) and before_words[-1] == "--"
        return unparsed

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections."""
        title_by_name: Dict[str, str] = {}
        for title, names in _SECTIONS.items():
            title_by_name.update(dict.fromkeys(names.split(), title))
        sections: Dict[str, List[Tuple[str, str]]] = {title: [] for title in _SECTIONS}
        others: List[Tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            # Some versions of click also list arguments here; the usage line has them.
            if row is not None and isinstance(parameter, click.Option):
                title = title_by_name.get((parameter.name or "").replace("_", "-"), "")
                sections.get(title, others).append(row)
        sections["Other options" if any(sections.values()) else "Options"] = others
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _hint_at_sbatch(option: str, usual_hint: str) -> str:
    """Return how to pass an option to sbatch if sbatch has or may have it, else ``usual_hint``."""
    from neuronctl.slurm.sbatch_options import SBATCH, VALUE

    name = option.lstrip("-")
    for sbatch_option in SBATCH:
        if name in (sbatch_option.long, sbatch_option.short):
            value = "=VALUE" if sbatch_option.takes == VALUE else ""
            return f"sbatch has it: --sbatch {sbatch_option.long}{value}"
    if not option.startswith("--"):
        return usual_hint
    similar = usual_hint if usual_hint.startswith("did you mean") else ""
    return f"{similar} For one that only sbatch has: --sbatch {name}=VALUE".strip()


def _refuse_typed_secrets(texts: Sequence[str]) -> None:
    """Raise UsageError for ``--env NAME=SECRET``, unless the shell exports that value already."""
    for text in texts:
        name, _, value = text.partition("=")
        if value and value != os.environ.get(name) and is_private(name, value):
            raise UsageError(
                f"--env {name}=… is a secret: everybody on this machine can read your command line",
                f"type 'read -rs {name}; export {name}', then give '--env {name}' without a value",
            )


class BatchCommand(JobCommand):
    """A command whose words are a program and its arguments."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Parse the words; raise UsageError for an option of this command after the program."""
        unparsed = super().parse_args(ctx, args)
        words = ctx.params.get("words", ())
        if ctx.meta[BEHIND_DASHES]:  # the user has said that all words are the program's
            return unparsed
        options: Set[str] = set()
        for parameter in self.params:
            options.update(parameter.opts, parameter.secondary_opts)
        for word in words[1:]:
            if word in _NO_PROGRAMS and word in options:
                harm = ": the job would be submitted" if word == "--dry-run" else ""
                problem = f"{word} comes after {words[0]}, which would receive it{harm}"
                hint = f"to pass it to the program, put -- before {words[0]}"
                raise UsageError(problem, f"put it before {words[0]}; {hint}")
        return unparsed


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def job_command(
    name: str, *, batch: bool = True, cls: Optional[type] = None
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a click command with a job's options.

    batch: also add the options that only a batch job has. cls: replaces the command's usual class.
    Option parsing stops at SCRIPT: the words after it are its arguments.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        for add_option in (  # help shows them from the last to the first
            force_option,
            click.option("--explain", is_flag=True, help="Show where every value comes from."),
            file_option("--template", help="Template for the script: a name or a file."),
            catalog_option,
            file_option(
                *("-f", "--file", "job_file"), metavar="JOB.YAML", help="Read the job from a file."
            ),
            job_options([option.long for option in OPTIONS if batch or not option.batch_only]),
        ):
            function = add_option(function)
        context = {"allow_interspersed_args": False}
        command_class = cls or (BatchCommand if batch else JobCommand)
        return click.command(name, cls=command_class, context_settings=context)(function)

    return decorate


def plan_given(given: Mapping[str, Any], words: Sequence[str] = (), **how: Any) -> PlannedJob:
    """Plan the job of a ``job_command``.

    given: the values of its options, by name. words: SCRIPT and ARGS. how: arguments of plan_job().
    """
    from neuronctl.cli.say import notify
    from neuronctl.submission.planned_job import plan_job

    file = words[0] if words else ""
    if file.endswith((".yaml", ".yml")) and os.path.isfile(file) and not os.access(file, os.X_OK):
        raise UsageError(f"'{file}' is not a program", f"if it is a job file: -f {quote(file)}")
    options = dict(given)
    files = {name: options.pop(name, None) for name in ("job_file", "body", "template")}
    catalog = options.pop("catalog")
    return plan_job(options, words=words, catalog_file=catalog, tell=notify, **files, **how)


def file_option(*names: str, metavar: str = "FILE", **settings: Any) -> Decorator:
    """Return an option that takes a file name. settings: those of click.option()."""
    return click.option(*names, metavar=metavar, **settings)


catalog_option = file_option("--catalog", help="Catalog file that overrides the others.")
cluster_option = click.option(
    "--cluster", metavar="NAME", help="Cluster of the catalog (default: the one here)."
)
force_option = click.option("--force", is_flag=True, help="Override errors found by the rules.")


def _words(metavar: str) -> Decorator:
    return click.argument("words", metavar=metavar, nargs=-1, type=click.UNPROCESSED)


program_arguments = _words("SCRIPT [ARGS]...")
optional_program = _words("[SCRIPT [ARGS]...]")
"""For commands that also take the program from a job file."""


def _read_body(
    context: click.Context, parameter: click.Parameter, file: Optional[str]
) -> Optional[Body]:
    return None if file is None else read_body(file)


body_option = file_option(
    "--body",
    callback=_read_body,
    help="Run the shell text in FILE (- for standard input) once, in place of SCRIPT.",
)


def job_options(names: Sequence[str]) -> Decorator:
    """Return a decorator that adds the job options of these names to a click command."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(OPTIONS):
            if option.long in names:
                function = _click_option(option)(function)
        return function

    return decorate


def _click_option(option: Option) -> Decorator:
    if option.kind == "switch":
        pair = f"--{option.long}/--no-{option.long}"
        return click.option(pair, default=None, help=option.help)
    names = [f"--{option.long}", *([f"-{option.short}"] if option.short else [])]
    if option.kind == "flag":
        return click.option(*names, is_flag=True, default=None, help=option.help)
    choices = f" Known: {', '.join(launchers.names())}." if option.long == "launcher" else ""
    help = option.help + choices
    return click.option(*names, metavar=option.metavar, multiple=option.kind == "list", help=help)
