"""The shell part of a script as units of whole lines, which put together are the text again."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Callable,
    Collection,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Optional,
    Tuple,
)

from neuronctl.common.frozen import dataclass
from neuronctl.scripts.shell_text import (
    ShellText,
    ShellWord,
    below,
    read_shell,
    syntax_tree,
    text_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

NAME_BEGINS, NAME_ENDS = "\x01", "\x02"
"""Around the name of a variable, where a word has its value."""
REFERENCE = f"{NAME_BEGINS}([^{NAME_ENDS}]*){NAME_ENDS}"
MAY_SPLIT = "\x03"
"""Ends a word that is as many words as the variables in it have."""


@dataclass(frozen=True)
class Simple:
    """A simple command, or variables that are set.

    words: what the command gets, with the variables in it between NAME_BEGINS and NAME_ENDS, and
    MAY_SPLIT behind it where no quotes are around them; None for a word that is more than text and
    variables. sets: the same for each variable, of a line such as ``export A=x``; exported: whether
    it begins with ``export``.
    """

    words: Tuple[Optional[str], ...] = ()
    sets: Tuple[Tuple[str, Optional[str]], ...] = ()
    exported: bool = False


@dataclass(frozen=True)
class Unit:
    """Lines that hold one or more whole statements.

    text: the lines as they are, without the last line's end. simple: what they run, one after the
    other, where all of it is simple; else None. remarks: the comments in it. shell: what it runs,
    as ``read_shell`` reads it.
    """

    text: str
    simple: Optional[Tuple[Simple, ...]]
    remarks: Tuple[str, ...]
    shell: ShellText

    @property
    def is_remark(self) -> bool:
        """Whether it does nothing: comments, blank lines."""
        return self.simple == ()


def units(text: str, one_word: Collection[str] = ()) -> List[Unit]:
    """The units of shell text.

    one_word: variables that are one word also where no quotes are around them.
    """
    root = syntax_tree(text)
    # A line that repeats is read once.
    read = lru_cache(None)(read_shell)
    one = lru_cache(None)(lambda text, kind: _one(text, kind, one_word, read))
    lines = text.split("\n")
    spans: List[Tuple[int, int, List[Node]]] = []  # first row, last row, nodes
    for node in root.children:
        last = node.end_point[0] - (node.end_point[1] == 0 and node.end_point > node.start_point)
        last = max(last, node.start_point[0])
        if spans and node.start_point[0] <= spans[-1][1]:
            start, end, nodes = spans[-1]
            nodes.append(node)
            spans[-1] = (start, max(end, last), nodes)
        else:
            spans.append((node.start_point[0], last, [node]))
    found: List[Unit] = []
    row = 0
    for start, last, nodes in [*spans, (len(lines), len(lines), [])]:
        gap = "\n".join(lines[row:start])
        if gap.strip() and found:
            # Such as the text of a here-document: it belongs to what stands before it.
            before = found.pop()
            whole = f"{before.text}\n{gap}"
            found.append(Unit(whole, None, before.remarks, read(whole)))
        elif start > row:
            simple = None if gap.strip() else ()
            found.append(Unit(gap, simple, (), read(gap)))
        if nodes:
            content = "\n".join(lines[start : last + 1])
            remarks = tuple(
                text_of(child)[1:].strip() for child in nodes if child.type == "comment"
            )
            found.append(Unit(content, _simple(nodes, one), remarks, read(content)))
        row = last + 1
    return found


_SIMPLE = ("command", "declaration_command", "variable_assignment", "variable_assignments")


_MOST_ON_A_LINE = 200
"""Statements; more stay shell text, since each is read anew."""


def _simple(
    nodes: List[Node], one: Callable[[str, str], Optional[Simple]]
) -> Optional[Tuple[Simple, ...]]:
    found = []
    if len(nodes) > _MOST_ON_A_LINE:
        return None
    for node in nodes:
        if node.type in ("comment", ";", "\n"):
            continue
        if node.type not in _SIMPLE or node.has_error:
            return None
        kinds = {child.type for child in node.children}
        if any("redirect" in kind for kind in kinds):
            return None
        simple = one(text_of(node), node.type)
        if simple is None:
            return None
        found.append(simple)
    return tuple(found)


def _one(
    text: str, kind: str, one_word: Collection[str], read_alone: Callable[[str], ShellText]
) -> Optional[Simple]:
    """read_alone: reads what has no variables."""
    names = re.findall(r"(?a)\b[A-Za-z_]\w*", text) if "$" in text else []
    whole = {name: f"{NAME_BEGINS}{name}{NAME_ENDS}" for name in names}
    read = read_shell(text, whole, split=False) if names else read_alone(text)
    if kind == "command":
        commands = [command for command in read.commands if not command.captured]
        if len(commands) != 1 or commands[0].assigned:
            return None
        # A value with a blank: where no quotes are around it, it is several words.
        several = {
            name: f"{whole[name]} " if name not in one_word else whole[name] for name in names
        }
        again = read_shell(text, several, split=False).commands if names else commands
        split = next(command for command in again if not command.captured)
        return Simple(tuple(map(_word, commands[0].words, split.words)))
    exported = text.split(None, 1)[0] == "export"
    if (kind == "declaration_command" and not exported) or not re.match(
        r"(?a)(export\s+)?\w+=", text
    ):
        return None
    values: Dict[str, Optional[str]] = {}
    for variable in read.assignments:
        home = "~" in variable.word.raw  # somebody's directory
        values[variable.name] = None if home else variable.word.value
    return Simple((), tuple(values.items()), exported) if values else None


def _word(word: ShellWord, split: ShellWord) -> Optional[str]:
    if word.value is None or word.raw.startswith("~"):
        return None
    return word.value if split.value is not None else word.value + MAY_SPLIT


def functions(text: str) -> FrozenSet[str]:
    """The names of the functions that shell text defines."""
    names = (
        node.child_by_field_name("name")
        for node in below(syntax_tree(text))
        if node.type == "function_definition"
    )
    return frozenset(text_of(name) for name in names if name is not None)


def _outside_functions(text: str) -> Iterator[Node]:
    waiting = [syntax_tree(text)]
    while waiting:
        node = waiting.pop()
        if node.type != "function_definition":
            yield node
            waiting += reversed(node.children)


def returns(text: str) -> bool:
    """Whether shell text has a ``return`` outside of its functions."""
    return any(
        node.type == "command_name" and text_of(node) == "return"
        for node in _outside_functions(text)
    )


def uses_arguments(text: str) -> Optional[int]:
    """The first line, from 1, that refers to the arguments of the script; None where none does."""
    if re.search(r"(?m)^[ \t]*set[ \t]+--", text):
        return None  # it has arguments of its own making
    for node in _outside_functions(text):
        if node.type in ("simple_expansion", "expansion"):
            names = [text_of(child) for child in node.children if child.is_named]
            if names and re.fullmatch("[1-9@*#]", names[0]):
                return node.start_point[0] + 1
    return None
