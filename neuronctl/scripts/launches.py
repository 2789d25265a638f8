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


@dataclass(frozen=True)
class Launch:
    """One program that is started, and what it starts.

    kind: PYTHON, SHELL, PROGRAM, or how a launcher is called. options: its own, without dashes and
    with ``_`` for ``-``. certain: whether every option is known. inside: what it starts, as far as
    the text shows.
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
    def works(self) -> bool:
        """Return True for a program of the job, or its launcher."""
        by_text = self.kind == SHELL and self.has("c") and any(run.works for run in self.inside)
        own = self.is_launcher or self.kind == PYTHON or by_text
        return own and not self.command.captured

    @cached_property
    def own_words(self) -> Tuple[ShellWord, ...]:
        """Return the words of the command from the program on."""
        words = self.command.words
        return words[next((at for at, word in enumerate(words) if word == self.word), len(words)) :]

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
        """Return True for one of the launchers."""
        return bool(self.launcher.name)

    @property
    def is_srun(self) -> bool:
        """Return True for srun, which has Slurm's options."""
        return self.launcher.name == "srun"

    def written(self, *names: str) -> Iterator[Tuple[str, SourceSpan]]:
        """Yield the known values of these options in the command, with their places."""
        words = self.command.words
        for word, following in zip(words, (*words[1:], None)):
            option, equals, value = word.text.partition("=")
            if option.startswith("-") and _key(option) in names:
                after = "" if following is None else following.text
                yield value if equals else after, word.place

    def below(self) -> Iterator[Launch]:
        """Yield all that it starts, at any depth."""
        for launch in self.inside:
            yield launch
            yield from launch.below()


def launches(commands: Iterable[Command]) -> Tuple[Launch, ...]:
    """Return the programs that commands start; skip shell builtins such as ``cd``."""
    return tuple(launch for each in commands for launch in _Starts(each).of(each.words))


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


class _Starts:
    """Finds the programs that the words of one command start."""

    def __init__(self, command: Command, depth: int = 0) -> None:
        self.command = command
        self.depth = depth

    def of(self, words: Sequence[ShellWord]) -> Tuple[Launch, ...]:
        """Return the program that the words name, or nothing."""
        words = words[program_at([word.text for word in words]) :]
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
        may_be_file = "/" in words[0].raw or words[0] is not self.command.words[0]
        if may_be_file and name.endswith(".py"):
            return (self.found(PYTHON, words),)  # ./train.py, uv run train.py
        launch = self.launcher([name, *[word.text for word in words[1:]]], words)
        return (launch or self.found(PROGRAM, words),)

    def found(
        self,
        kind: str,
        words: Sequence[ShellWord],
        options: Mapping[str, str] = {},
        launcher: Launcher = _NONE,
        behind: Optional[Sequence[ShellWord]] = (),
    ) -> Launch:
        """Return the launch that the first word makes.

        behind: the words of the program that it starts in turn; empty if it starts none, None if
        that is unknown.
        """
        # An unquoted variable before the program may contain options.
        certain = behind is not None and not (behind and behind[0].may_be_several)
        inside = _Starts(self.command, self.depth + 1).of(behind or ()) if certain else ()
        return Launch(kind, words[0], self.command, launcher, options, certain, inside)

    def launcher(self, called_as: Sequence[str], words: Sequence[ShellWord]) -> Optional[Launch]:
        """Return a launcher's launch; None if it is no launcher.

        called_as: the texts of the words, or of the last of them: behind ``python -m``.
        """
        call = find_call(called_as)
        if call is None:
            return None
        options = {option.name: option.value for option in call.options}
        behind = None if call.length is None else words[len(words) - len(called_as) + call.length :]
        launch = self.found(call.launcher.called, words, options, call.launcher, behind)
        if behind and launch.certain and launch.has(*call.launcher.module):
            return replace(launch, inside=(self.found(PYTHON, behind),))
        return launch

    def srun(self, words: Sequence[ShellWord]) -> Launch:
        """Return srun's launch, whose options are Slurm's."""
        known = (each for each in every() if each.name == "srun")
        launcher = next(known, replace(_NONE, name="srun"))
        try:
            parsed, end = getopt_with_plugins([word.text for word in words[1:]], SRUN)
        except GetoptError:
            return self.found("srun", words, {}, launcher, None)
        options = {_key(option.known.name): option.value or "" for option in parsed}
        return self.found("srun", words, options, launcher, words[1 + end :])

    def container(self, words: Sequence[ShellWord]) -> Tuple[Launch, ...]:
        """Return the program inside a container, as if it were started outside."""
        verb = words[1].value if len(words) > 1 else ""
        if verb not in ("exec", "run"):
            return (self.found(PROGRAM, words),)
        inner = words[2 + _container_image_at([word.text for word in words[2:]]) :]
        # An image's name in a variable is usually one word; two variables may be anything.
        if all(word.may_be_several for word in inner[:2]):
            return (self.found(PROGRAM, words, behind=None),)
        started = _Starts(self.command, self.depth + 1).of(inner[1:])
        if verb == "exec":
            return started
        # With `run`, an image may pass the words after it to its own program.
        is_program = started and (started[0].kind in (SHELL, PYTHON) or started[0].is_launcher)
        return started if is_program else (self.found(PROGRAM, words),)

    def python(self, words: Sequence[ShellWord]) -> Launch:
        """Return what a python command starts: a launcher (``-m``) or another program."""
        texts = [word.text for word in words]
        kind, name, first_argument = python_runs(texts)
        launch = None
        if kind == "m":
            launch = self.launcher([name, *texts[first_argument:]], words)
        return launch or self.found(PYTHON, words, {kind: name})

    def shell(self, words: Sequence[ShellWord]) -> Launch:
        """Return a shell's launch, with the programs in the text of ``-c``."""
        for word, text in zip(words[1:], words[2:]):
            if re.fullmatch(r"-[a-z]*c", word.value or ""):
                launch = self.found(SHELL, words, {"c": ""})
                return replace(launch, inside=self.of_text(text))
            if not (word.value or "").startswith("-"):
                break
        return self.found(SHELL, words)

    def of_text(self, text: ShellWord) -> Tuple[Launch, ...]:
        """Return the programs that shell text starts."""
        started: List[Launch] = []
        for inner in read_shell(text.text).commands:
            # Positions within the text mean nothing to the script's reader.
            placed = tuple(replace(word, place=text.place) for word in inner.words)
            command = replace(inner, words=placed, place=text.place)
            started += _Starts(command, self.depth + 1).of(placed)
        return tuple(started)
