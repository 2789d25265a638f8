"""How a program is started on the nodes: one template per launcher, its traits in the header.

A launcher is a file ``NAME.j2``. It begins with a Jinja comment of ``key: value`` lines, its
traits: all that planning, the rules, the preflight, ``check``, and ``import`` need to know about
it. Its blocks are the text of the launch, which neuronctl.rendering fills in. A user's file
precedes the site's, which precedes the one that ships with neuronctl.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
from string import Template
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import SITE_FAULTS, TemplateError, UsageError, did_you_mean
from neuronctl.common.files import open_regular, read_trusted
from neuronctl.common.paths import config_dir, data_path, present

SITE_DIRECTORY = "/etc/neuronctl/templates"

ALWAYS, NEVER = "always", "never"
SEVERAL_NODES, SEVERAL_PROCESSES = "several nodes", "several processes"
TRAINING = "several processes or a Python program"
ONE, ALL = "one", "all"
LAUNCHER, PROGRAM = "launcher", "program"

Options = Tuple[str, ...]
"""Names of options, as option_name() returns them."""


def option_name(word: str) -> str:
    """Return the name of an option without dashes, with ``_`` for ``-``; "" for another word."""
    if not word.startswith("-"):
        return ""
    name = word.partition("=")[0]
    attached = re.fullmatch(r"(-[A-Za-z])[0-9]+", name)
    return (attached[1] if attached else name).lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Launcher:
    """The traits of one way to start a program, which docs/reference/templates.md describes."""

    name: str
    file: str
    distributed: bool  # it can start more than one process
    one_task_per_node: bool  # Slurm's task is a node's launcher, which starts the processes
    whole_allocation: bool = False  # its single process may use more than one task's share
    every_node: bool = False  # it runs on every node, and starts the program once
    rendezvous: str = NEVER  # when the processes meet through MASTER_ADDR and MASTER_PORT
    macros: str = NEVER  # when it replaces ${local_rank} in the program's words
    own_variables: bool = False  # it passes the ranks in variables, from outside a container
    ssh: bool = False  # it needs ssh without a password from the first node to the others
    python: Tuple[str, ...] = ("python",)  # before a Python file; (): it starts the interpreter
    executable: Tuple[str, ...] = ()  # before a program that is not a Python file
    signals: Tuple[str, ...] = ()  # the only ones that it passes on to its processes; (): any
    marks: str = ""  # what NEURONCTL_LAUNCH marks, if a signal is for its processes only
    programs: Tuple[Tuple[str, ...], ...] = ()  # its commands, or Python modules
    akin: Tuple[Tuple[str, ...], ...] = ()  # similar commands, which it may not replace
    chosen_by: Options = ()  # options that choose this one if several launchers have a command
    # Options by meaning.
    flags: Options = ()
    values: Options = ()
    pairs: Options = ()
    nodes: Options = ()
    processes: Options = ()
    processes_per_node: Options = ()
    node_rank: Options = ()
    address: Options = ()
    port: Options = ()
    endpoint: Options = ()
    backend: Options = ()
    joins: Options = ()
    places: Options = ()
    module: Options = ()
    sets: Options = ()
    # How many processes it starts if no number is given: ONE, ALL of the allocation; "": unknown.
    uncounted: str = ""
    once_per_node: str = ""  # the words that start a program once on each node
    takes_options: bool = False  # its template has a place for the user's words for the launcher
    counts_nodes: bool = False  # its template writes the number of nodes, which must be known then

    @property
    def called(self) -> str:
        """Return the name that users type."""
        return " ".join(self.programs[0]) if self.programs else self.name

    @property
    def counts(self) -> Options:
        """Return the options for the number of processes, per node or in total."""
        return self.processes_per_node + self.processes

    @property
    def own_options(self) -> Options:
        """Return the options that its template sets from the plan."""
        rendezvous = self.node_rank + self.address + self.port + self.endpoint + self.backend
        program = self.module + tuple(map(option_name, self.executable))
        return self.nodes + self.counts + rendezvous + program + self.sets

    def starts_processes(self) -> bool:
        """Return True if it starts several processes in one task."""
        return self.distributed and self.one_task_per_node

    @property
    def takes_all_nodes(self) -> bool:
        """Return True if it runs on all nodes of the launch, not only on the first."""
        return self.distributed or self.every_node

    @property
    def by_srun(self) -> bool:
        """Return True if srun starts its processes, as a Slurm step."""
        return self.distributed and not self.own_variables


def holds(when: str, *, nodes: int, processes: int, python: bool) -> bool:
    """Return True if a trait that depends on the job applies.

    when: ALWAYS, NEVER, and the like. processes: of the whole job. python: the processes run
    Python, or it is not known yet what they run.
    """
    by_size = {SEVERAL_NODES: nodes > 1, SEVERAL_PROCESSES: processes > 1}
    return {ALWAYS: True, TRAINING: processes > 1 or python, **by_size}.get(when, False)


def not_a_macro(word: str) -> str:
    """Return ``word`` escaped, so that a launcher with ``macros`` passes it on unchanged."""
    substituted = Template(word).safe_substitute(local_rank="0")
    return word if substituted == word else word.replace("$", "$$")


def directories(kind: str = "launchers") -> Tuple[str, ...]:
    """Return the directories of templates of a kind: the user's, the site's, the shipped one."""
    templates = os.path.join(config_dir(), "templates"), SITE_DIRECTORY, data_path("templates")
    return tuple(os.path.join(directory, kind) for directory in templates)


def names(kind: str = "launchers", ending: str = ".j2") -> Tuple[str, ...]:
    """Return the names of all templates of a kind, the user's own included."""
    stems = set()
    for directory in directories(kind):
        with contextlib.suppress(OSError):
            files = [file for file in os.listdir(directory) if file.endswith(ending)]
            stems |= {file[: -len(ending)] for file in files}
    return tuple(sorted(stems))


def load(name: str) -> Launcher:
    """Return the launcher ``name``, whose file is read only once.

    Raises UsageError if there is none, and TemplateError with file and line if its file is wrong or
    may be changed by other users. In place of a site's file that is wrong, the shipped one is read.
    """
    return _loaded(name, directories())


@functools.cache
def _loaded(name: str, places: Sequence[str]) -> Launcher:
    try:
        return read(name, places)
    except TemplateError as error:
        if SITE_DIRECTORY not in error.message:
            raise
        SITE_FAULTS[error.message] = None
        return read(name, places[-1:])


def read(name: str, places: Sequence[str]) -> Launcher:
    """Read a launcher from the first place that has it; raise UsageError, or TemplateError."""
    file, text = _read(name, places)
    own_traits = _traits(file, text)
    like = own_traits.pop("like", "")
    traits = {**_base_traits(like, name, file, places), **own_traits} if like else own_traits
    for key in ("distributed", "one_task_per_node"):
        if key not in traits:
            raise TemplateError(f"{file}:1: trait '{key}' is missing", f"write '{key}: yes' or no")
    return Launcher(
        name=name,
        file=file,
        takes_options="plan.launcher_options" in text,
        counts_nodes=re.search(r"\bplan\.(nodes|processes)\b", text) is not None,
        **traits,
    )


def _base_traits(like: str, name: str, file: str, places: Sequence[str]) -> Dict[str, Any]:
    """Return the traits of the launcher that ``name`` is like: the next one, if like itself."""
    # A file that is like its own name means the file that it overrides.
    begin = places.index(os.path.dirname(file)) + 1 if like == name else 0
    try:
        traits = _traits(*_read(like, places[begin:]))
    except UsageError as error:
        raise TemplateError(f"{file}:1: like: no launcher '{like}'", error.hint) from None
    if "like" in traits:
        raise TemplateError(f"{file}:1: like: {like}, which is like another one itself")
    return traits


def every() -> Tuple[Launcher, ...]:
    """Return all launchers; skip files with errors."""
    return every_in(directories())


@functools.lru_cache(maxsize=1)
def every_in(places: Sequence[str]) -> Tuple[Launcher, ...]:
    """Return all launchers in these directories."""
    launchers = []
    for name in names():
        with contextlib.suppress(TemplateError):
            launchers.append(_loaded(name, places))
    return tuple(launchers)


def forget() -> None:
    """Read the launchers again when next needed, because a file has changed."""
    every_in.cache_clear()
    _loaded.cache_clear()


@dataclass(frozen=True)
class LauncherOption:
    """An option of a launcher. name: as option_name() returns it. words: all of its words."""

    name: str
    value: str
    words: Tuple[str, ...]


@dataclass(frozen=True)
class LauncherCall:
    """A launcher as a command line calls it."""

    launcher: Launcher
    options: Tuple[LauncherOption, ...]
    length: Optional[int]  # how many words precede the program; None if an option is not known


def find_call(
    words: Sequence[Optional[str]], launchers: Optional[Sequence[Launcher]] = None
) -> Optional[LauncherCall]:
    """Find the launcher that the first of these words call; None if they call none.

    words: a command line, or what follows ``python -m``; None for a word that is not known.
    launchers: those to choose from, by default all. A similar program, such as mpiexec.hydra,
    counts as the launcher.
    """
    call: Optional[LauncherCall] = None
    for launcher in every() if launchers is None else launchers:
        for command in (*launcher.programs, *launcher.akin):
            if tuple(words[: len(command)]) != command:
                continue
            options, length = _read_options(launcher, words, len(command))
            names = {option.name for option in options}
            # A launcher with chosen_by counts only if one of those options is there.
            is_chosen = not names.isdisjoint(launcher.chosen_by)
            if is_chosen or (call is None and not launcher.chosen_by):
                call = LauncherCall(launcher, options, length)
    return call


def _read_options(
    launcher: Launcher, words: Sequence[Optional[str]], begin: int
) -> Tuple[Tuple[LauncherOption, ...], Optional[int]]:
    """Return the options in the words from ``begin`` on, and the index of the word after them.

    None in place of the index: an option is not known, nor whether it has a value.
    """
    options: List[LauncherOption] = []
    index = begin
    while index < len(words):
        word = words[index]
        if word is None or not word.startswith("-") or word == "--":
            return tuple(options), index
        typed, equals, inline_value = word.partition("=")
        name = typed.lstrip("-").replace("-", "_")
        if equals or name in launcher.flags:
            length = 1
        elif name in launcher.pairs:
            length = 3
        elif name in launcher.values or (launcher.flags and not launcher.values):
            length = 2  # without a list of options with a value, all but the flags have one
        else:
            return tuple(options), None
        option_words = tuple(word or "" for word in words[index : index + length])
        value = inline_value if length == 1 else "".join(option_words[1:2])  # "": it is missing
        if length == 2 and not launcher.values:  # argparse takes both in one word
            option_words = (f"{typed}={value}",)
        options.append(LauncherOption(name, value, option_words))
        index += length
    return tuple(options), len(words)


def _read(name: str, places: Sequence[str]) -> Tuple[str, str]:
    """Return the file of a launcher, and its text."""
    for directory in places if os.sep not in name else ():
        file = os.path.join(directory, f"{name}.j2")
        if present(file):
            return file, template_text(file, own=directory != directories()[-1])
    raise UsageError(f"--launcher: unknown launcher '{name}'", did_you_mean(name, names()))


_LONGEST = 1024 * 1024  # bytes of a template


def template_text(file: str, *, own: bool) -> str:
    """Read a template; raises TemplateError. own: refuse a file that other users can change."""
    try:
        if own:
            content = read_trusted(file)
        else:
            with open_regular(file) as stream:
                content = stream.read(_LONGEST)
        # Universal newlines, as in a file that is opened as text.
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        problem = f"{file}: byte {error.start + 1} is not UTF-8, as a template must be"
        raise TemplateError(problem, "name a text file, or save it as UTF-8") from None
    except OSError as error:
        hint = getattr(error, "hint", "")
        raise TemplateError(f"cannot read {file}: {error.strerror}", hint) from None


def _traits(file: str, text: str) -> Dict[str, Any]:
    """Parse a launcher's header into values by field; raise TemplateError."""
    values: Dict[str, Any] = {}
    for number, entry in _header_entries(file, text).items():
        key, colon, value = (part.strip() for part in entry.partition(":"))
        if not colon or key not in _TRAITS:
            hint = did_you_mean(key, _TRAITS)
            raise TemplateError(f"{file}:{number}: unknown trait '{key}'", hint)
        if key in values:
            raise TemplateError(f"{file}:{number}: trait '{key}' is given twice")
        try:
            values[key] = _read_trait(key, value)
        except ValueError as error:
            raise TemplateError(f"{file}:{number}: {key}: {error}, not '{value}'") from None
    return values


def _header_entries(file: str, text: str) -> Dict[int, str]:
    """Return the entries of a header by their line; an indented line continues the entry above."""
    lines = text.split("\n")
    if lines[0] != "{#" or "#}" not in lines:
        raise TemplateError(
            f"{file}:1: no header: the file must begin with lines '{{#', 'distributed: yes' … '#}}'"
        )
    entries: Dict[int, str] = {}
    last_entry = 0
    for number, line in enumerate(lines[1 : lines.index("#}")], 2):  # from the file's line 2 on
        if line.startswith(" ") and entries:
            entries[last_entry] += f" {line.strip()}"
        elif line.strip():
            entries[number] = line
            last_entry = number
    return entries


def _read_trait(trait: str, text: str) -> object:
    """Return a trait's value for the text in the header; raise ValueError."""
    kind = Launcher.__annotations__.get(trait, "str")  # "like" is no field
    choices = _CHOICES.get("bool" if kind == "bool" else trait)
    if choices is not None:
        if text not in choices:
            raise ValueError("must be " + " or ".join(choices))
        return choices[text]
    if trait in ("programs", "akin"):
        return tuple(tuple(command.split()) for command in text.split(",") if command.strip())
    words = text.split()
    if trait == "signals" and not all(f"SIG{word}" in signal.Signals.__members__ for word in words):
        raise ValueError("must be names of signals, such as TERM")
    if kind == "Options":
        return tuple(map(option_name, words))
    return text if kind == "str" else tuple(words)


_WHEN = (ALWAYS, NEVER, SEVERAL_NODES, SEVERAL_PROCESSES, TRAINING)
_CHOICES: Mapping[str, Mapping[str, object]] = {
    "bool": {"yes": True, "no": False},
    "rendezvous": dict(zip(_WHEN, _WHEN)),
    "macros": dict(zip(_WHEN, _WHEN)),
    "marks": {LAUNCHER: LAUNCHER, PROGRAM: PROGRAM, "nothing": ""},
    "uncounted": {ONE: ONE, ALL: ALL},
}
"""Trait, or ``bool`` -> the texts that it may have in the header, with their values."""

_NO_TRAITS = ("name", "file", "takes_options", "counts_nodes")
_TRAITS = ("like", *(trait for trait in Launcher.__annotations__ if trait not in _NO_TRAITS))
"""The keys of a header; ``like`` names another launcher, which supplies the missing traits."""
