"""The commands, assignments, and words of a shell text, with their places."""

from __future__ import annotations

import re
import signal as signals
from functools import cached_property
from typing import FrozenSet, List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.scripts.header import SourceSpan

_INITIALIZES = r"activate|\.?(conda|mamba|profile|bashrc|bash|modules|lmod)(\.sh)?"
"""The names of files that change no variable of the script's."""

EXPANSION = r"\$\{[^}]*\}|\$\([^()]*\)|`[^`]*`|\$\w+"

Value = Tuple[str, bool]
"""A text, and whether all of it is known; if not, the text has expansions as they are written."""


@dataclass(frozen=True)
class ShellWord:
    """One word of a command.

    raw: the word as it is written. text: what the command gets, with expansions as they are written
    if their values are unknown. known: True if all values are known. names: the variables that the
    shell expands in the word, and those of which their values were made.
    """

    raw: str
    text: str
    known: bool
    names: Tuple[str, ...]
    place: SourceSpan

    @property
    def value(self) -> Optional[str]:
        """Return what the command gets; None if unknown."""
        return self.text if self.known else None

    @cached_property
    def basename(self) -> str:
        """Return the file's name without its directory; "" if unknown."""
        _, slash, name = self.text.rpartition("/")
        return name if self.known or (slash and not re.search(r"[$`)*?[]", name)) else ""

    @property
    def may_be_several(self) -> bool:
        """Return True if it may expand to no word or to several."""
        return not (self.known or self.raw.startswith(('"', "'")))


def split_words(text: str, known: bool) -> List[Value]:
    """Return the words to which an unquoted variable with this value expands."""
    special = re.compile(r"[*?\[\\]" if known else r"[*?\[\\$`]")
    words = re.findall(rf"(?:{EXPANSION}|\S)+", text)
    return [(word, special.search(word) is None) for word in words]


def reads_more(words: Sequence[ShellWord]) -> bool:
    """Return True if a command evaluates a text or a file that may set any variable."""
    name, file, *_ = (*(word.text for word in words[:2]), "", "")
    if name == "eval":
        return True
    return name in ("source", ".") and not re.fullmatch(_INITIALIZES, file.rpartition("/")[2])


@dataclass(frozen=True)
class Assignment:
    """A variable that is set. sure: True if the line surely runs exactly once."""

    name: str
    word: ShellWord
    exported: bool
    sure: bool
    place: SourceSpan


@dataclass(frozen=True)
class Command:
    """A simple command.

    assigned: the variables set for this command, ``A=x command``. background: it ends with ``&``.
    sure: it runs exactly once, whatever happens. looped: it is in a loop or a function, and may run
    any number of times. in_loop: it is in a loop, and in no function. captured: its output becomes
    a value, as in ``$(command)``. piped: it reads the output of the command before it. joined: the
    ``&&`` or ``||`` before it, or "".
    """

    words: Tuple[ShellWord, ...]
    assigned: Tuple[Assignment, ...]
    place: SourceSpan
    background: bool = False
    sure: bool = False
    looped: bool = False
    captured: bool = False
    piped: bool = False
    in_loop: bool = False
    joined: str = ""

    @cached_property
    def name(self) -> str:
        """Return the program's name without its directory; "" if unknown."""
        return self.words[0].basename if self.words else ""

    @cached_property
    def arguments(self) -> Tuple[Optional[str], ...]:
        """Return the values of the words after the first."""
        return tuple(word.value for word in self.words[1:])


@dataclass(frozen=True)
class ShellText:
    """What a shell runs.

    broken: the grammar cannot read all of the text. placeholders: the places of ``<NAME>``, which
    bash takes for redirections. left_out: the first line that was not read because the grammar took
    too long; 0: none. documents: the lines within here-documents. files: the names behind ``<`` and
    ``>``.
    """

    commands: Tuple[Command, ...]
    assignments: Tuple[Assignment, ...]
    broken: bool
    placeholders: Tuple[SourceSpan, ...]
    left_out: int
    documents: FrozenSet[int]
    files: Tuple[ShellWord, ...]

    def assigned(self, name: str) -> Tuple[Assignment, ...]:
        """Return every place that sets a variable."""
        return tuple(assignment for assignment in self.assignments if assignment.name == name)

    @cached_property
    def before_commands(self) -> Tuple[Assignment, ...]:
        """Return the variables that are set for one command: ``A=x command``."""
        return tuple(variable for command in self.commands for variable in command.assigned)

    @cached_property
    def uncaptured(self) -> Tuple[Command, ...]:
        """Return the commands whose output is not a value."""
        return tuple(command for command in self.commands if not command.captured)

    def calls(self, *names: str) -> Tuple[Command, ...]:
        """Return the commands of these names."""
        return tuple(command for command in self.commands if command.name in names)

    def traps(self, name: str) -> Tuple[Command, ...]:
        """Return the traps for a signal (``USR1``), or with "" for any signal."""
        return tuple(
            command
            for command in self.calls("trap")
            if any(_may_name(word, name) for word in command.arguments[1:])
        )


def _may_name(word: Optional[str], name: str) -> bool:
    """Return True if a word of ``trap`` is or may be a signal, or with "" any signal."""
    if word is None:
        return True
    if not name:
        return word.upper() not in ("EXIT", "0", "ERR", "DEBUG", "RETURN")
    number = getattr(signals, f"SIG{name}", None)
    return word.upper() in (name, f"SIG{name}", "" if number is None else str(int(number)))
