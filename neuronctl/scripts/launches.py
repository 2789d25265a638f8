"""The programs that a command starts, and the counts in their options."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, field, replace
from neuronctl.launch.launchers import Launcher, every, find_call
from neuronctl.scripts.header import SourceSpan, digits
from neuronctl.scripts.shell_reader import read_shell
from neuronctl.scripts.shell_text import Command, ShellWord
from neuronctl.scripts.usual_commands import names_python, program_at, python_runs
from neuronctl.slurm.sbatch_options import SRUN, GetoptError, getopt_with_plugins

PYTHON, SHELL, PROGRAM = "python", "shell", "program"
CONTAINERS = ("singularity", "apptainer")
_SHELLS = ("bash", "sh", "zsh", "dash")

_NONE = Launcher("", "", distributed=False, one_task_per_node=False)
_SRUN = replace(_NONE, name="srun")
"""Used for srun if the launcher files have none for it."""


@dataclass(frozen=True)
class Launch:
    """One program that is started, and what it starts.

    kind: PYTHON, SHELL, PROGRAM, or how a launcher is called. word: its name. options: its own,
    without dashes and with ``_`` for ``-``; for Python, ``script``, ``m``, or ``c``. certain: True
    if every option is known. inside: the programs that it starts, as far as the text shows.
    """

    kind: str
    word: ShellWord
    command: Command
    launcher: Launcher = _NONE
    options: Mapping[str, str] = field(default_factory=dict)
    certain: bool = True
    inside: Tuple[Launch, ...] = ()

    @property
    def place(self) -> SourceSpan:
        """Return the place of the program's name."""
        return self.word.place

    @property
    def name(self) -> str:
        """Return the program's name without its directory; "" if unknown."""
        return self.word.basename

    @property
    def is_work(self) -> bool:
        """Return True for a program of the job, or its launcher; not if its output is a value."""
        if self.command.captured:
            return False
        if self.is_launcher or self.kind == PYTHON:
            return True
        return self.kind == SHELL and self.has("c") and any(run.is_work for run in self.inside)

    @cached_property
    def own_words(self) -> Tuple[ShellWord, ...]:
        """Return the words of its command from the program on."""
        words = self.command.words
        return words[words.index(self.word) :] if self.word in words else ()

    def count(self, *names: str) -> Optional[int]:
        """Return the number that one of these options gives; None if unknown."""
        for name in names:
            number = digits(self.options.get(_key(name), "").strip().lstrip("+"))
            if number is not None:
                return number
        return None

    def has(self, *names: str) -> bool:
        """Return True if one of these options is given."""
        return any(_key(name) in self.options for name in names)

    @property
    def is_launcher(self) -> bool:
        """Return True if the program is one of the launchers."""
        return bool(self.launcher.name)

    @property
    def is_srun(self) -> bool:
        """Return True for srun, which has Slurm's options."""
        return self.launcher.name == "srun"

    def values_of(self, *names: str) -> Iterator[Tuple[str, SourceSpan]]:
        """Yield the values of these options in the command, with the options' places."""
        words = self.command.words
        for index, word in enumerate(words):
            option, equals, value = word.text.partition("=")
            if option.startswith("-") and _key(option) in names:
                next_word = words[index + 1].text if index + 1 < len(words) else ""
                yield value if equals else next_word, word.place

    def below(self) -> Iterator[Launch]:
        """Yield all programs that this one starts, at any depth."""
        for launch in self.inside:
            yield launch
            yield from launch.below()


def launches(commands: Iterable[Command]) -> Tuple[Launch, ...]:
    """Return the programs that commands start; skip shell builtins such as ``cd``."""
    programs: List[Launch] = []
    for command in commands:
        programs += _Starts(command).find(command.words)
    return tuple(programs)


# The options of singularity and apptainer without a value.
_CONTAINER_FLAGS = """
nv rocm c contain cleanenv e writable_tmpfs no_home fakeroot f containall C userns u pid p ipc i
writable w nvccli compat net no_eval no_privs keep_privs no_init no_umask disable_cache oci unsquash
uts no_nv no_rocm
""".split()  # noqa: SIM905


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _container_image_at(words: Sequence[str]) -> int:
    """Return the index of the image among the words of ``singularity exec``."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, _ = words[at].partition("=")
        at += 1 if equals or _key(name) in _CONTAINER_FLAGS else 2
    return at


_DEEPEST = 8
"""How many programs that start another one are followed."""


class _Starts:
    """Finds the programs that the words of one command start."""

    def __init__(self, command: Command, depth: int = 0) -> None:
        self.command = command
        self.depth = depth

    def find(self, command_words: Sequence[ShellWord]) -> Tuple[Launch, ...]:
        """Return the program that the words name; () if there is none, or it is unknown."""
        words = command_words[program_at([word.text for word in command_words]) :]
        name = words[0].basename if words else ""
        if not name or self.depth > _DEEPEST:
            return ()
        if name in CONTAINERS:
            return self.container(words)
        if name == "srun":
            return (self.srun(words),)
        if names_python(name):
            return (self.python(words),)
        if name in _SHELLS:
            return (self.shell(words),)
        # ./train.py, uv run train.py; the shell itself would not find a plain train.py
        may_be_file = "/" in words[0].raw or words[0] is not self.command.words[0]
        if may_be_file and name.endswith(".py"):
            return (self.launch(PYTHON, words),)
        launch = self.launcher([name, *[word.text for word in words[1:]]], words)
        return (launch or self.launch(PROGRAM, words),)

    def launch(
        self,
        kind: str,
        words: Sequence[ShellWord],
        options: Mapping[str, str] = {},
        launcher: Launcher = _NONE,
        inner: Optional[Sequence[ShellWord]] = (),
    ) -> Launch:
        """Return the launch of the program that the first word names.

        inner: the words of the program that it starts in turn; () if it starts none, None if they
        are unknown.
        """
        # An unquoted variable before the program may contain options.
        if inner is None or (inner and inner[0].may_be_several):
            return Launch(kind, words[0], self.command, launcher, options, certain=False)
        inside = _Starts(self.command, self.depth + 1).find(inner)
        return Launch(kind, words[0], self.command, launcher, options, inside=inside)

    def launcher(self, called_as: Sequence[str], words: Sequence[ShellWord]) -> Optional[Launch]:
        """Return the launch of a command; None if the command is no launcher.

        called_as: the command's words as texts; after ``python -m``, only those from the module on.
        """
        call = find_call(called_as)
        if call is None:
            return None
        options = {option.name: option.value for option in call.options}
        inner = None if call.length is None else words[len(words) - len(called_as) + call.length :]
        launch = self.launch(call.launcher.called, words, options, call.launcher, inner)
        if inner and launch.certain and launch.has(*call.launcher.module):
            return replace(launch, inside=(self.launch(PYTHON, inner),))
        return launch

    def srun(self, words: Sequence[ShellWord]) -> Launch:
        """Return srun's launch, whose options are Slurm's."""
        launcher = next((launcher for launcher in every() if launcher.name == "srun"), _SRUN)
        try:
            parsed, end = getopt_with_plugins([word.text for word in words[1:]], SRUN)
        except GetoptError:
            return self.launch("srun", words, {}, launcher, None)
        options = {_key(option.spec.name): option.value or "" for option in parsed}
        return self.launch("srun", words, options, launcher, words[1 + end :])

    def container(self, words: Sequence[ShellWord]) -> Tuple[Launch, ...]:
        """Return the program inside a container, as if it were started outside."""
        verb = words[1].value if len(words) > 1 else ""
        if verb not in ("exec", "run"):
            return (self.launch(PROGRAM, words),)
        from_image = words[2 + _container_image_at([word.text for word in words[2:]]) :]
        # An image's name in a variable is usually one word; two variables may be anything.
        if all(word.may_be_several for word in from_image[:2]):
            return (self.launch(PROGRAM, words, inner=None),)
        programs = _Starts(self.command, self.depth + 1).find(from_image[1:])
        if verb == "exec":
            return programs
        # With `run`, an image may pass the words after it to its own program.
        if programs and (programs[0].kind in (SHELL, PYTHON) or programs[0].is_launcher):
            return programs
        return (self.launch(PROGRAM, words),)

    def python(self, words: Sequence[ShellWord]) -> Launch:
        """Return what a python command starts: a launcher (``-m``) or another program."""
        texts = [word.text for word in words]
        kind, name, first_argument = python_runs(texts)
        launch = None
        if kind == "m":
            launch = self.launcher([name, *texts[first_argument:]], words)
        return launch or self.launch(PYTHON, words, {kind: name})

    def shell(self, words: Sequence[ShellWord]) -> Launch:
        """Return a shell's launch, with the programs in the text of ``-c``."""
        for option, text in zip(words[1:], words[2:]):
            if re.fullmatch(r"-[a-z]*c", option.value or ""):
                launch = self.launch(SHELL, words, {"c": ""})
                return replace(launch, inside=self.find_in_text(text))
            if not (option.value or "").startswith("-"):
                break  # it is the shell's script
        return self.launch(SHELL, words)

    def find_in_text(self, text: ShellWord) -> Tuple[Launch, ...]:
        """Return the programs that shell text starts."""
        programs: List[Launch] = []
        for inner in read_shell(text.text).commands:
            # Positions within the text mean nothing to the script's reader.
            words = tuple(replace(word, place=text.place) for word in inner.words)
            command = replace(inner, words=words, place=text.place)
            programs += _Starts(command, self.depth + 1).find(words)
        return tuple(programs)
