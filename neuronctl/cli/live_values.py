"""What Tab offers: click's own shell completion, with the values of this moment.

Somebody waits for it: what cannot be known, or not within a second, is not offered, and nothing is
said. Only plain words are offered, since the shells put them into the command line as they are.
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
"""Set by the shell's function, which asks for words."""

Known = Iterable[Tuple[str, str]]
"""Words, each with its meaning."""

_PATIENCE = 1.0  # seconds for Slurm to answer
_OLDEST = 5.0  # greatest age of its answer about the queue, in seconds
_RECENT = 50  # recorded jobs that are offered
_PLAIN = r"[\w.@%+:/-]+"


def answer(root: click.Command, instruction: str) -> int:
    """Print what a shell asks for: ``bash_complete``, ``zsh_source``."""
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
    """Return the completions of a word; of a list (``a,b``) or ``afterok:7``, of its last part."""
    metavar = (parameter.metavar or "").strip("[].").split(" ")[0]
    offers = _VALUES.get(parameter.name or "") or _VALUES.get(metavar)
    kind = "file" if metavar in _FILES else "dir" if metavar in _DIRECTORIES else ""
    items = [CompletionItem(incomplete, type=kind)] if kind else []
    head = re.sub(r"[^,:]*\Z", "", incomplete)
    with contextlib.suppress(NeuronctlError, OSError, AttributeError):
        for value, meaning in offers(context.info_name or "") if offers else ():
            if value.startswith(incomplete[len(head) :]) and re.fullmatch(_PLAIN, value):
                help = meaning if meaning.isprintable() else ""
                items.append(CompletionItem(head + value, help=help))
    return items


def _jobs(command: str) -> Known:
    """Return names and ids of jobs in the queue and, for the past, recorded ones; newest first."""
    from neuronctl.slurm.job_states import ACTIVE, RUNNING
    from neuronctl.slurm.squeue import ask_own_queue

    past = command in SECTIONS["Look back"] or command in ("status", "why", "logs")
    wanted = ACTIVE if command in ("cancel", "wait", "submit", "generate") else {RUNNING}
    words: Dict[str, str] = {}
    with contextlib.suppress(SlurmError):
        for row in ask_own_queue(_OLDEST, timeout=_PATIENCE).rows:
            if past or row.state in wanted:
                words.setdefault(row.name, f"{row.id.job} {row.state}")
                words[str(row.id.job)] = f"{row.name} {row.state}"
    if past:
        from neuronctl.records.store import RecordStore
        from neuronctl.slurm.conf import local_cluster

        for record in RecordStore.default().recent(_RECENT, cluster=local_cluster()):
            words.setdefault(record.job_name, str(record.job_id))
            words.setdefault(str(record.job_id), record.job_name)
    return words.items()


def _cluster() -> Cluster:
    from neuronctl.request.job_file import own_cluster

    return own_cluster()


def _partitions(command: str) -> Known:
    open_ones = [each.name for each in _cluster().partitions.values() if each.open]
    return [*((name, "") for name in open_ones), ("auto", "neuronctl chooses")]


def _codes(key: str, command: str) -> Known:
    policy = _cluster().policy.comment
    return [(value, policy.meanings.get(value, "")) for value in policy.values_of(key) or ()]


def _recipes(command: str) -> Known:
    from neuronctl.launch.launchers import names

    return [(name, "") for name in names("recipes", ".yaml")]


def _sweep_words(command: str) -> Known:
    """Return the commands of ``sweep``, and after one of them the names of sweeps."""
    if command == "sweep":
        from neuronctl.cli.sweep import command as sweep

        return [(name, "") for name in getattr(sweep, "commands", ())]
    if not command.startswith("sweep "):
        return ()
    from neuronctl.sweeping.folder import names

    return [(name, "") for name in names()]


_VALUES: Mapping[str, Callable[[str], Known]] = {
    "partition": _partitions,
    "qos": lambda command: [(name, "") for name in _cluster().qos],
    "field": functools.partial(_codes, "field"),
    "appl": functools.partial(_codes, "appl"),
    **dict.fromkeys(("dependency", "after", "after_ok"), _jobs),
    "JOB": _jobs,
    **dict.fromkeys(("SCRIPT", "NAME"), _sweep_words),
    "RECIPE": _recipes,
}
"""By the names of options, and by the names of values in help, as the next ones."""

_FILES = ("FILE", "JOB.YAML", "JOB.yaml", "SCRIPT", "IMAGE", "WORDS")
_DIRECTORIES = ("DIR", "DIR[:PLACE", "SRC[:DST")
