"""The shell part of a script as units of whole lines, which put together are the text again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.scripts.bash_grammar import syntax_tree, text_of
from neuronctl.scripts.shell_text import Assignment, Command, ShellText

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Unit:
    """Lines that hold one or more whole statements.

    text: the lines without the last line's end. comments: the comments in it. commands,
    assignments: what it runs and sets. simple: it is one simple command, or variables that are
    set, with no redirection.
    """

    text: str
    comments: Tuple[str, ...]
    commands: Tuple[Command, ...] = ()
    assignments: Tuple[Assignment, ...] = ()
    simple: bool = False
    statements: int = 0

    @property
    def does_nothing(self) -> bool:
        """Return True for comments and blank lines."""
        return not self.statements


_SIMPLE = ("command", "declaration_command", "variable_assignment", "variable_assignments")


def units(text: str, shell: ShellText) -> List[Unit]:
    """Return the units of shell text; shell: the text as read_shell reads it."""
    lines = text.split("\n")
    starts = _first_rows(text)
    found: List[Unit] = []
    commands: Dict[int, List[Command]] = {}
    assignments: Dict[int, List[Assignment]] = {}
    for command in shell.commands:
        commands.setdefault(command.place.line, []).append(command)
    for assignment in shell.assignments:
        assignments.setdefault(assignment.place.line, []).append(assignment)
    ends = [first for first, _ in starts[1:]] + [len(lines)]
    for (first, nodes), end in zip(starts, ends):
        statements = [node for node in nodes if node.type not in ("comment", ";", "\n", "&")]
        found.append(
            Unit(
                "\n".join(lines[first:end]),
                tuple(text_of(node)[1:].strip() for node in nodes if _is_comment(node)),
                tuple(each for n in range(first + 1, end + 1) for each in commands.get(n, ())),
                tuple(each for n in range(first + 1, end + 1) for each in assignments.get(n, ())),
                len(statements) == 1
                and statements[0].type in _SIMPLE
                and not any("redirect" in child.type for child in statements[0].children)
                and not any(node.type == "&" for node in nodes),
                len(statements),
            )
        )
    return found


def _is_comment(node: Node) -> bool:
    """Return True for a comment that is no directive which came too late."""
    return node.type == "comment" and not text_of(node).startswith("#SBATCH")


def _first_rows(text: str) -> List[Tuple[int, List[Node]]]:
    """Return the row where each unit begins, and its nodes; blank lines end a unit's lines."""
    found: List[Tuple[int, List[Node]]] = [(0, [])]
    last = -1
    for node in syntax_tree(text).children:
        if node.start_point[0] <= last or not found[-1][1]:
            found[-1][1].append(node)
        else:
            found.append((node.start_point[0], [node]))
        last = max(last, node.end_point[0] - (node.end_point[1] == 0))
    return found


def _outside_functions(text: str) -> Iterator[Node]:
    waiting = [syntax_tree(text)]
    while waiting:
        node = waiting.pop()
        if node.type != "function_definition":
            yield node
            waiting += reversed(node.children)


def returns(text: str) -> bool:
    """Return True if shell text has a ``return`` outside of its functions."""
    return any(
        node.type == "command_name" and text_of(node) == "return"
        for node in _outside_functions(text)
    )


def uses_arguments(text: str) -> Optional[int]:
    """Return the first line, from 1, that refers to the script's arguments; None if none does."""
    if re.search(r"(?m)^[ \t]*set[ \t]+--", text):
        return None  # it has arguments of its own making
    for node in _outside_functions(text):
        if node.type in ("simple_expansion", "expansion"):
            names = [text_of(child) for child in node.children if child.is_named]
            if names and re.fullmatch("[1-9@*#]", names[0]):
                return node.start_point[0] + 1
    return None
