"""Offer values when the user presses Tab, through click's own shell completion.

The user waits: a value that is unknown, or that needs more than a second, is not offered, and no
error is printed. Only plain words are offered, since the shells insert them unquoted.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Mapping, Tuple

import click
from click.shell_completion import CompletionItem, shell_complete

from neuronctl.cli import SECTIONS
from neuronctl.common.errors import NeuronctlError, SlurmError

if TYPE_CHECKING:
    from neuronctl.catalog.cluster import Cluster

VARIABLE = "_NEURONCTL_COMPLETE"
"""The environment variable by which the shell's function asks for words to offer."""

Values = Iterable[Tuple[str, str]]
"""Words to offer, each with its meaning; "" if it explains itself."""

_PATIENCE = 1.0  # seconds for Slurm to answer
_OLDEST = 5.0  # greatest age of its answer about the queue, in seconds
_RECENT = 50  # recorded jobs that are offered
_PLAIN = r"[\w.@%+:/-]+"


def answer(root: click.Command, instruction: str) -> int:
    """Print what the shell asks for, such as ``bash_complete``; return the exit code."""
    with contextlib.suppress(NeuronctlError, OSError):
        return shell_complete(root, {}, "neuronctl", VARIABLE, instruction)
    return 1


def add_values(command: click.Command) -> None:
    """Let the options and arguments of a command offer their values."""
    for parameter in command.params:
        offer = functools.partial(_offer, parameter)
        parameter.shell_complete = offer  # type: ignore[method-assign]


def _offer(
    parameter: click.Parameter, context: click.Context, incomplete: str
) -> List[CompletionItem]:
    """Complete the word that the user has begun; of ``a,b`` or ``afterok:7``, the last part."""
    metavar = (parameter.metavar or "").strip("[].").split(" ")[0]
    items = [CompletionItem(incomplete, type=_PATHS[metavar])] if metavar in _PATHS else []
    if isinstance(parameter, click.Option):
        values = _OPTION_VALUES.get(parameter.name or "")
    else:
        values = _ARGUMENT_VALUES.get(metavar)
    if values is None:
        return items

    head = re.sub(r"[^,:]*\Z", "", incomplete)
    last_part = incomplete[len(head) :]
    with contextlib.suppress(NeuronctlError, OSError, AttributeError):
        for value, meaning in values(context.info_name or ""):
            if value.startswith(last_part) and re.fullmatch(_PLAIN, value):
                help = meaning if meaning.isprintable() else ""
                items.append(CompletionItem(head + value, help=help))
    return items


def _jobs(command: str) -> Values:
    """Return the names and ids of jobs that a command accepts, newest first.

    Some commands accept any job, even one that is only recorded; some one that has not ended, and
    the others only a running one.
    """
    from neuronctl.slurm.job_states import ACTIVE, RUNNING
    from neuronctl.slurm.squeue import ask_own_queue

    takes_any = command in SECTIONS["Look back"] or command in ("status", "why", "logs")
    takes_waiting = command in ("cancel", "wait", "submit", "generate", "sweep", "serve")
    states = ACTIVE if takes_waiting else {RUNNING}
    meanings: Dict[str, str] = {}
    with contextlib.suppress(SlurmError):
        for row in ask_own_queue(_OLDEST, timeout=_PATIENCE).rows:
            if takes_any or row.state in states:
                meanings.setdefault(row.name, f"{row.id.job} {row.state}")
                meanings[str(row.id.job)] = f"{row.name} {row.state}"
    if takes_any:
        from neuronctl.records.store import RecordStore
        from neuronctl.slurm.conf import local_cluster

        for record in RecordStore.default().recent(_RECENT, cluster=local_cluster()):
            meanings.setdefault(record.job_name, str(record.job_id))
            meanings.setdefault(str(record.job_id), record.job_name)
    return meanings.items()


def _cluster() -> Cluster:
    from neuronctl.request.job_file import own_cluster

    return own_cluster()


def _partitions(command: str) -> Values:
    partitions = _cluster().partitions.values()
    names = [partition.name for partition in partitions if partition.open]
    return [*((name, "") for name in names), ("auto", "neuronctl chooses")]


def _codes(key: str, command: str) -> Values:
    policy = _cluster().policy.comment
    return [(value, policy.meanings.get(value, "")) for value in policy.values_of(key) or ()]


def _template_names(kind: str, ending: str, command: str) -> Values:
    from neuronctl.launch.launchers import names

    return [(name, "") for name in names(kind, ending)]


def _rule_codes(command: str) -> Values:
    from neuronctl.judgement.rule_pages import every_rule

    return [(code, rule.title) for code, rule in every_rule().items()]


def _sweep_words(command: str) -> Values:
    """Return the commands of ``sweep``; after one of them, the names of sweeps."""
    if command == "sweep":
        from neuronctl.cli.sweep import command as sweep

        return [(name, "") for name in getattr(sweep, "commands", ())]
    if not command.startswith("sweep "):
        return ()
    from neuronctl.sweeping.folder import names

    return [(name, "") for name in names()]


_OPTION_VALUES: Mapping[str, Callable[[str], Values]] = {
    "partition": _partitions,
    "qos": lambda command: [(name, "") for name in _cluster().qos],
    "field": functools.partial(_codes, "field"),
    "appl": functools.partial(_codes, "appl"),
    "launcher": functools.partial(_template_names, "launchers", ".j2"),
    **dict.fromkeys(("dependency", "after", "after_ok"), _jobs),
}
"""The values of options. Each function takes the command's name, such as ``sweep status``."""

_ARGUMENT_VALUES: Mapping[str, Callable[[str], Values]] = {
    "JOB": _jobs,
    "CODE": _rule_codes,
    **dict.fromkeys(("SCRIPT", "NAME"), _sweep_words),
    "RECIPE": functools.partial(_template_names, "recipes", ".yaml"),
}
"""The values of arguments, by their names in the help text."""

_PATHS = {
    **dict.fromkeys(("FILE", "JOB.YAML", "JOB.yaml", "SCRIPT", "IMAGE", "WORDS"), "file"),
    **dict.fromkeys(("DIR", "DIR[:PLACE", "SRC[:DST"), "dir"),
}
"""Names of values that are paths; click's words for what the shell then offers."""
