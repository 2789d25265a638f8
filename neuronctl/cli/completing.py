"""What Tab offers: click's own shell completion, with the values of this moment.

Somebody waits for it: what cannot be known, or not within a second, is not offered, and nothing is
said. Only plain words are offered, since the shells put them into the command line as they are.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Tuple

import click
from click.shell_completion import CompletionItem, shell_complete

from neuronctl.cli import COMMANDS, SECTIONS
from neuronctl.common.errors import NeuronctlError, SlurmError

VARIABLE = "_NEURONCTL_COMPLETE"
"""Set by the shell's function, which asks for words."""

Known = Iterable[Tuple[str, str]]
"""Words, each with its meaning."""

_PATIENCE = 1.0  # seconds for Slurm to answer
_OLDEST = 5.0  # seconds for which its answer about the queue will do
_RECENT = 50  # recorded jobs that are offered


def answer(root: click.Command, instruction: str) -> int:
    """Print what a shell asks for: ``bash_complete``, ``zsh_source``."""
    with contextlib.suppress(NeuronctlError, OSError):
        return shell_complete(root, {}, "neuronctl", VARIABLE, instruction)
    return 1


def add_values(command: click.Command) -> None:
    """Let the options and arguments of a command offer their values."""
    for parameter in command.params:
        words = (parameter.metavar or "").strip("[].").split(" ")[0]
        known = _BY_OPTION.get((parameter.name or "").replace("_", "-")) or _BY_WORD.get(words)
        if words in _FILES or words in _DIRECTORIES:
            known = known or _nothing
        if known is not None:
            kind = "file" if words in _FILES else "dir" if words in _DIRECTORIES else ""
            offer = functools.partial(_offer, known, kind, parameter)
            parameter.shell_complete = offer  # type: ignore[method-assign]


def _offer(
    known: Callable[[str], Known],
    kind: str,
    parameter: click.Parameter,
    context: click.Context,
    incomplete: str,
) -> List[CompletionItem]:
    """Return what begins with a word; of a list such as ``a,b``, or of ``afterok:7``, its end."""
    head = ""
    if parameter.name in ("partition", "dependency"):
        head = re.sub(r"[^,:]*\Z", "", incomplete)
    found = [CompletionItem(incomplete, type=kind)] if kind else []
    with contextlib.suppress(NeuronctlError, OSError, AttributeError):
        for value, meaning in known(context.info_name or ""):
            if value.startswith(incomplete[len(head) :]) and re.fullmatch(_PLAIN, value):
                found.append(
                    CompletionItem(head + value, help=meaning if meaning.isprintable() else "")
                )
    return found


_PLAIN = r"[\w.@%+:/-]+"


def _nothing(command: str) -> Known:
    return ()


def _jobs(command: str) -> Known:
    """Names and ids: in the queue, and where the past counts, recorded ones; newest first."""
    from neuronctl.slurm.job_states import ACTIVE, RUNNING
    from neuronctl.slurm.own_queue import ask_own_queue

    past = command in SECTIONS["Look back"] or command in ("status", "why", "logs")
    wanted = ACTIVE if command in ("cancel", "wait", "submit", "generate") else {RUNNING}
    found: Dict[str, str] = {}
    with contextlib.suppress(SlurmError):
        for job, name, state in ask_own_queue(_OLDEST, timeout=_PATIENCE).names:
            if past or state in wanted:
                found.setdefault(name, f"{job} {state}")
                found[job] = f"{name} {state}"
    if past:
        from neuronctl.catalog.local_cluster import local_cluster
        from neuronctl.records.store import RecordStore

        for record in RecordStore.default().recent(_RECENT, cluster=local_cluster()):
            found.setdefault(record.job_name, str(record.job_id))
            found.setdefault(str(record.job_id), record.job_name)
    return found.items()


def _cluster() -> Any:
    from neuronctl.catalog.loader import load
    from neuronctl.catalog.local_cluster import recognise
    from neuronctl.request.job_file import configured_cluster

    return recognise(load(), configured_cluster())[0]


def _partitions(command: str) -> Known:
    for name, known in _cluster().partitions.items():
        if known.open:
            gpus = f"{known.gpus_per_node} x {known.gpu or 'GPU'}" if known.gpus_per_node else ""
            yield name, gpus
    if command in ("submit", "generate", "salloc"):
        yield "auto", "neuronctl chooses"


def _comment_values(key: str) -> Callable[[str], Known]:
    def codes(command: str) -> Known:
        policy = _cluster().policy.comment
        return [(value, policy.meanings.get(value, "")) for value in policy.values_of(key) or ()]

    return codes


def _clusters(command: str) -> Known:
    from neuronctl.catalog.loader import load

    return [(cluster.name, cluster.title) for cluster in load().clusters.values()]


def _rules(command: str) -> Known:
    from neuronctl.judgement.rule_pages import every_rule

    return [(code, rule.title) for code, rule in every_rule().items()]


def _names(command: str) -> Known:
    """Return the launchers, or for ``help`` the topics and commands."""
    if command == "help":
        from neuronctl.cli.topics import topics

        return [*((topic, "") for topic in topics()), *COMMANDS.items()]
    from neuronctl.launch.launchers import names

    return [(name, "") for name in names()]


_BY_OPTION: Mapping[str, Callable[[str], Known]] = {
    "partition": _partitions,
    "qos": lambda command: [(name, "") for name in _cluster().qos],
    "field": _comment_values("field"),
    "appl": _comment_values("appl"),
    "launcher": _names,
    "cluster": _clusters,
    "dependency": _jobs,
}

_BY_WORD: Mapping[str, Callable[[str], Known]] = {
    "TOPIC": _names,
    "JOB": _jobs,
    "JOB|FILE": _jobs,
    "CODE": _rules,
}
"""By the names of values in help, as the next ones."""

_FILES = ("FILE", "JOB.YAML", "JOB.yaml", "SCRIPT", "IMAGE", "WORDS", "JOB|FILE")
_DIRECTORIES = ("DIR", "DIR[:PLACE", "SRC[:DST")
