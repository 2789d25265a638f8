"""What the shell is offered for the word at the cursor, when Tab is pressed.

Somebody waits for it. So nothing imports click here: which options a command has stands in a table
in the cache, made of the commands once; and each kind of value imports what it needs. What cannot
be known, or not within a second, is not offered; nothing is said.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from neuronctl.cli import COMMANDS, SECTIONS
from neuronctl.common import cache
from neuronctl.common.errors import NeuronctlError, SlurmError
from neuronctl.common.paths import config_files

Offer = Tuple[str, str, str]
"""A kind, the word, its meaning.

A "part" is a value that goes on, so that no blank follows; a "file" or "dir" is completed by the
shell itself.
"""

_PATIENCE = 1.0  # seconds for Slurm to answer
_OLDEST = 5.0  # seconds for which its answer about the queue will do


def answer(shell: str, words: List[str]) -> int:
    """Print what to offer, a line each.

    words: those of the command line up to the cursor, without the first. bash: the line itself,
    and what bash takes for the word, of which it splits off what stands before ``=`` and ``:``.
    """
    cut = 0
    if shell == "bash":
        line, last = [*words, "", ""][:2]
        words = _split(line)[1:] or [""]
        if last and last not in "=:" and words[-1].endswith(last):
            cut = len(words[-1]) - len(last)
        elif words[-1][-1:] in ("=", ":"):
            cut = len(words[-1])
    with contextlib.suppress(NeuronctlError, OSError):
        for kind, word, meaning in offers(words or [""]):
            if word[cut:] and word.isprintable() and meaning.isprintable():
                sys.stdout.write(f"{kind}\t{word[cut:]}\t{meaning}\n")
    return 0


def offers(words: List[str]) -> Iterator[Offer]:
    """What the last of the words may become; it may be empty."""
    word = words[-1]
    command, option, place = _position(words[:-1])
    if command is None:
        return
    options: Mapping[str, Any] = command["options"]
    if option is None and place is not None and word.startswith("--") and "=" in word:
        name, _, value = word.partition("=")
        yield from _values(options.get(name), value, command, before=f"{name}=")
    elif option is not None:
        yield from _values(options[option], word, command)
    elif word.startswith("-") and place is not None:
        for name, (_, meaning) in options.items():
            if name.startswith(word):
                yield "value", name, meaning
    elif command["commands"]:
        for name, meaning in command["commands"].items():
            if name.startswith(word):
                yield "value", name, meaning
    else:
        arguments = command["arguments"] or [""]
        here = arguments[min(place, len(arguments) - 1)] if place is not None else "FILE"
        before = options.get(words[-2]) if place == 0 and words[:-1] else None
        if before is not None and before[0].startswith(_MAY):
            yield from _values(before, word, command)
        yield from _values((here, ""), word, command)


def _position(words: List[str]) -> Tuple[Optional[Mapping[str, Any]], Optional[str], Optional[int]]:
    """Where the next word stands: of which command, the option whose value it is, and its place.

    The place among the command's words is None where no option can follow.
    """
    known = table()
    path, place, option, rest = "", 0, None, False
    for word in words:
        command = known.get(path)
        if command is None:
            return None, None, None
        if option is not None:
            option = None
        elif rest:
            place += 1
        elif word == "--":
            rest = True
        elif word.startswith("-") and word != "-":
            name, equals, _ = word.partition("=")
            found = command["options"].get(name)
            takes = found is not None and found[0] and not found[0].startswith(_MAY)
            option = name if takes and not equals else None
        elif command["commands"]:
            path = f"{path} {word}".lstrip()
        else:
            place += 1
            rest = command["stops"]
    return known.get(path), option, None if rest else place


# ------------------------------------------------------------------- the table of commands


def table() -> Mapping[str, Any]:
    """Command -> its options with the name of their value and meaning, its arguments, and so on."""
    package = os.path.dirname(os.path.dirname(__file__))
    made_of = [f"{package}/request/job.py"]
    with os.scandir(f"{package}/cli") as files:
        made_of += [file.path for file in files if file.name.endswith(".py")]
    source = " ".join(str(os.stat(file).st_mtime_ns) for file in sorted(made_of))
    made = cache.read("completion", package, source)
    if not isinstance(made, dict):
        from neuronctl.cli.root import root

        made = dict(_described("", root, None))
        cache.write("completion", package, made, source)
    return made


def _described(path: str, command: Any, above: Any) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """The entries of a command, and of those below it. above: the context of its group."""
    import click

    context = click.Context(command, above, info_name=path, **command.context_settings)
    commands: Dict[str, str] = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            commands[name] = COMMANDS[name] if not path else below.get_short_help_str(80)
            yield from _described(f"{path} {name}".lstrip(), below, context)
    options: Dict[str, Tuple[str, str]] = {}
    arguments: List[str] = []
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option):
            word = getattr(parameter, "word", "")
            flag = f"{_MAY}{word}" if word else ""
            takes = flag if parameter.is_flag else (parameter.metavar or "TEXT")
            names = [*parameter.opts, *parameter.secondary_opts]
            kind = max(names, key=len)[2:] if takes else ""
            kind = kind if kind in _OF_OPTIONS or kind == "dependency" else takes
            for name in sorted(names, key=len, reverse=True):
                options[name] = (kind, (parameter.help or "").partition(". ")[0])
        else:
            arguments.append(parameter.metavar or parameter.name or "")
    yield (
        path,
        {
            "name": path,
            "options": options,
            "arguments": arguments,
            "commands": commands,
            "stops": not context.allow_interspersed_args,
        },
    )


# ------------------------------------------------------------------------------ values

Known = Iterable[Tuple[str, str]]

_MAY = "?"
"""Before the one value of an option that may be left out."""


def _values(kind: Any, word: str, command: Mapping[str, Any], before: str = "") -> Iterator[Offer]:
    """The values that begin with ``word``. kind: of an option or argument, as in the table."""
    if not kind:
        return
    name = kind[0].strip("[].").partition(" ")[0]
    if kind[0].startswith(_MAY) and kind[0][1:].startswith(word):
        yield "value", before + kind[0][1:], kind[1]
    several = ""
    if name in _LISTS:  # a,b: of the last one
        several = word[: word.rfind(",") + 1]
        word = word[len(several) :]
    if name == "dependency":
        yield from _dependencies(word, before)
    known = _OF_OPTIONS.get(name) or _OF_WORDS.get(name)
    for value, meaning in known(str(command["name"])) if known is not None else ():
        if value.startswith(word):
            yield "value", f"{before}{several}{value}", meaning
    if name in _FILES:
        yield "file", word or ".", ""
    elif name in _DIRECTORIES:
        yield "dir", word or ".", ""


def _dependencies(word: str, before: str) -> Iterator[Offer]:
    """Of ``afterok:41:pr``, the kind, or a job that has not ended, by name or id."""
    from neuronctl.common.units import DEPENDENCIES

    _, begun, rest = re.split(r"^(.*[,?])?", word, maxsplit=1)
    head, colon, last = rest.rpartition(":")
    before += begun or ""
    if not colon:
        for kind in DEPENDENCIES:
            if kind.startswith(rest):
                yield (
                    ("value", before + kind, "")
                    if kind == "singleton"
                    else (*("part", f"{before}{kind}:"), "")
                )
    elif head.partition(":")[0] in DEPENDENCIES:
        for job, meaning in _jobs("wait"):
            if job.startswith(last):
                yield "value", f"{before}{head}:{job}", meaning


def _jobs(command: str) -> Known:
    """Names and ids: in the queue, and where the past counts, recorded ones; newest first."""
    from neuronctl.slurm.job_states import ACTIVE, RUNNING
    from neuronctl.slurm.own_queue import ask_own_queue

    if command in SECTIONS["Look back"] or command in ("status", "why", "logs"):
        states = None
    else:
        states = ACTIVE if command in ("cancel", "wait") else {RUNNING}
    names: Dict[str, List[str]] = {}
    ids: Dict[str, str] = {}
    with contextlib.suppress(SlurmError):
        for job, name, state in ask_own_queue(_OLDEST, timeout=_PATIENCE).names:
            if states is None or state in states:
                ids[job] = f"{name} {state}"
                names.setdefault(name, []).append(f"{job} {state}")
    if states is None:
        from neuronctl.catalog.local_cluster import local_cluster
        from neuronctl.records.store import RecordStore

        store = RecordStore.default(heads_only=True)
        for record in store.recent(_RECENT, cluster=local_cluster()):
            seen = record.states[-1].state if record.states else ""
            ids.setdefault(str(record.job_id), f"{record.job_name} {seen}")
            names.setdefault(record.job_name, [f"{record.job_id} {seen}"])
    for name, jobs in names.items():
        yield name, jobs[0] if len(jobs) == 1 else f"{len(jobs)} jobs"
    yield from sorted(ids.items(), key=lambda job: -int(job[0]))


_RECENT = 50
"""So many recorded jobs are offered."""


def _cluster() -> Any:
    from neuronctl.catalog.loader import load
    from neuronctl.catalog.local_cluster import recognise

    asked = None
    if config_files():  # few users have one
        from neuronctl.request.job_file import configured_cluster

        asked = configured_cluster()
    return recognise(load(), asked)[0]


def _partitions(command: str) -> Known:
    from neuronctl.common.units import UNLIMITED, format_time

    here, named = _cluster(), _of_slurm()
    known = dict.fromkeys(named or here.partitions, "")
    for name, partition in here.partitions.items():
        if name in known and partition.open:
            count, model = partition.gpus_per_node, partition.gpu or "GPU"
            gpus = f"{count} x {model}" if count else ""
            longest = partition.wall_time.maximum
            time = "" if longest in (None, UNLIMITED) else f"at most {format_time(longest)}"
            known[name] = ", ".join(filter(None, (gpus, time)))
        elif name in known and not partition.open:
            del known[name]
    yield from known.items()
    if command in ("submit", "generate", "salloc"):
        yield "auto", "neuronctl chooses"


def _of_slurm() -> Tuple[str, ...]:
    """The controller's partitions, as far as they are kept."""
    figures = _figures(ask=False)
    return () if figures is None else tuple(partition.name for partition in figures.partitions)


def _figures(*, ask: bool = True) -> Any:
    """The cluster's figures for this user, of the last hour or else of now."""
    from neuronctl.judgement import limits_cache

    kept = limits_cache.read(limits_cache.key())
    if kept is not None or not ask:
        return kept and kept[0]
    from neuronctl.common.users import login_name
    from neuronctl.judgement.ask import ask_limits

    return ask_limits(login_name(), timeout=_PATIENCE)[0]


def _qos(command: str) -> Known:
    figures = _figures()
    own = {name for of_account in figures.associations for name in of_account.qos}
    for qos in figures.qos or ():
        if not own or qos.name in own:
            yield qos.name, ""


def _accounts(command: str) -> Known:
    for association in _figures().associations:
        if association.account:
            yield association.account, ""


def _of_comment(key: str) -> Callable[[str], Known]:
    def codes(command: str) -> Known:
        policy = _cluster().policy.comment
        return [(value, policy.meanings.get(value, "")) for value in policy.values_of(key) or ()]

    return codes


def _launchers(command: str) -> Known:
    from neuronctl.launch.launchers import names

    return [(name, "") for name in names()]


def _modules(command: str) -> Known:
    """What lies in the directories of $MODULEPATH, without starting a shell."""
    left = 5000  # entries of directories that are looked at
    for top in filter(None, os.environ.get("MODULEPATH", "").split(":")):
        places = [""]
        while places and left > 0:
            place = places.pop(0)
            try:
                with os.scandir(os.path.join(top, place)) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            left -= len(found)
            for entry in found:
                name = os.path.join(place, entry.name)
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    if name.count("/") < 3:
                        places.append(name)
                else:
                    yield name.removesuffix(".lua"), ""


def _conda(command: str) -> Known:
    """Environments that conda knows of, and those in its usual directories."""
    home = os.path.expanduser("~")
    places = os.environ.get("CONDA_ENVS_PATH", "").split(":") + [f"{home}/.conda/envs"]
    if os.environ.get("CONDA_EXE"):
        places.append(os.path.join(os.path.dirname(os.environ["CONDA_EXE"]), "..", "envs"))
    environments = []
    for place in filter(None, places):
        try:
            environments += [os.path.join(place, name) for name in os.listdir(place)]
        except OSError:
            continue
    try:
        with open(f"{home}/.conda/environments.txt", encoding="utf-8", errors="replace") as file:
            environments += file.read(65536).split("\n")
    except OSError:
        pass
    for path in environments:
        if os.path.isdir(os.path.join(path, "conda-meta")):
            parent, name = os.path.split(os.path.normpath(path))
            yield (name, "") if os.path.basename(parent) == "envs" else (path, "")


def _clusters(command: str) -> Known:
    from neuronctl.catalog.loader import load

    return [(cluster.name, cluster.title) for cluster in load().clusters.values()]


def _states(command: str) -> Known:
    from neuronctl.slurm.job_states import STATES

    return [(state.name.lower(), "") for state in STATES.values()]


def _rules(command: str) -> Known:
    from neuronctl.judgement.rule_pages import every_rule

    return [(code, rule.title) for code, rule in every_rule().items()]


def _topics(command: str) -> Known:
    from neuronctl.cli.topics import topics

    yield from ((topic, "") for topic in topics())
    yield from COMMANDS.items()


_OF_OPTIONS: Mapping[str, Callable[[str], Known]] = {
    "partition": _partitions,
    "account": _accounts,
    "qos": _qos,
    "field": _of_comment("field"),
    "appl": _of_comment("appl"),
    "launcher": _launchers,
    "module": _modules,
    "conda": _conda,
    "cluster": _clusters,
    "state": _states,
    "color": lambda command: [(word, "") for word in ("always", "never", "auto")],
}
"""By the long names of options."""

_OF_WORDS: Mapping[str, Callable[[str], Known]] = {
    "TOPIC": _topics,
    "JOB": _jobs,
    "JOB|FILE": _jobs,
    "CODE": _rules,
}
"""By the names of values in help, as the next ones."""

_LISTS = ("partition",)
_FILES = ("FILE", "JOB.YAML", "JOB.yaml", "SCRIPT", "IMAGE", "WORDS", "JOB|FILE")
_DIRECTORIES = ("DIR", "DIR[:PLACE", "SRC[:DST")


def _split(line: str) -> List[str]:
    """The words of a shell's line up to the cursor; a quotation may still be open."""
    import shlex

    for end in ("", '"', "'", "\\ "):
        lexer = shlex.shlex(line + end, posix=True, punctuation_chars=False)
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:
            continue
        ended = not end and line[-1:].isspace() and line[-2:-1] != "\\"
        return [*words, ""] if ended or len(words) < 2 else words
    return ["", ""]
