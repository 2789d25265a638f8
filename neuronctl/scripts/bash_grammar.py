"""Parse shell text with tree-sitter's grammar of bash, and check it with bash itself."""

from __future__ import annotations

import os
import re
import time
from functools import cache
from typing import TYPE_CHECKING, Iterator, List, Optional, Set, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import SlurmUnavailableError, UsageError
from neuronctl.scripts.header import SourceSpan
from neuronctl.slurm.process import run

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_SECONDS = 1.0
"""CPU time for a text; a script of a thousand lines takes 0.05 s. Over some texts, such as many
redirections without a command, the grammar's time grows with the square of the length."""

_PART = 4096
"""Bytes that the grammar gets at once; a shorter text takes it less than a second."""

LOOPS = ("while_statement", "for_statement", "c_style_for_statement")
_SETTERS = ("read", "mapfile", "readarray", "getopts", "printf")
"""Commands that set the variables whose names they get."""

_VARIABLE = rb"(?<!\\)\$([A-Za-z_][A-Za-z0-9_]*|[0-9])"
_REST_OF_WORD = re.compile(rb"[^\s\"'`();|&<>]*")
# { or {1.. and the character behind it, of two, three, or four bytes.
_BEHIND_BRACE = (
    rb"(\{[0-9]*(?:\.\.[0-9]*)?)"
    rb"([\xc4-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
)
# Number of a character's bytes -> letters of as many bytes that the grammar's scanner can classify.
_LETTERS = {2: "é".encode(), 3: "éa".encode(), 4: "éé".encode()}


def parse(text: str) -> Tuple[Node, bytes, int]:
    """Return the tree of shell text, the bytes parsed, and the first line left out (0: none).

    The bytes have braces around some variables: the grammar (0.25) ends a word at the second
    variable of ``$A/$B/c``, behind its dollar, but not if it is ``${B}``. Lines keep their numbers.
    """
    # bash skips NUL; the grammar would take hours.
    data = text.replace("\0", " ").encode("utf-8", "surrogateescape")
    root, parsed = _tree(data)
    is_cut = len(parsed) < len(data)
    braced = _with_braces(root, parsed)
    if braced != parsed:
        root, parsed = _tree(braced)
        is_cut = is_cut or len(parsed) < len(braced)
    return root, parsed, parsed.count(b"\n") + 1 if is_cut else 0


def _with_braces(root: Node, data: bytes) -> bytes:
    """Return the text with braces around variables at which the grammar ends a word too early."""
    pieces: List[bytes] = []
    done = 0  # how many bytes of the text are in `pieces`
    for match in re.finditer(_VARIABLE, data):
        if match.start() >= done and _ends_a_word(root, match.start()):
            rest = _REST_OF_WORD.match(data, match.start())
            end = match.end() if rest is None else rest.end()
            word = re.sub(_VARIABLE, rb"${\1}", data[match.start() : end])
            pieces += [data[done : match.start()], word]
            done = end
    return b"".join((*pieces, data[done:]))


def _ends_a_word(root: Node, at: int) -> bool:
    """Return True if the grammar takes the dollar at a position for the end of a word."""
    node = root.descendant_for_byte_range(at, at + 1)
    if node is None or node.parent is None:
        return False
    return node.type == "$" and node.parent.type == "concatenation"


@cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:  # neuronctl.pyz on a machine for which it was not built
        hint = "install neuronctl with pip, which brings tree_sitter"
        raise UsageError(f"cannot read batch scripts: {error}", hint) from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _tree(data: bytes) -> Tuple[Node, bytes]:
    """Return the tree of as many first lines as can be read in time, and those lines."""
    harmless = _harmless(data)
    if len(data) < _PART:
        return _parser().parse(harmless).root_node, data
    deadline = time.process_time() + _SECONDS
    is_late = False

    def read_part(at: int, _: object) -> bytes:
        """Return the next bytes for the grammar; b"", the end, after the deadline."""
        nonlocal is_late
        is_late = is_late or time.process_time() > deadline
        return b"" if is_late else harmless[at : at + _PART]

    tree = _parser().parse(read_part)
    if is_late:  # read less: the lines that were in time, and at most half of the text
        end = data.rfind(b"\n", 0, min(tree.root_node.end_byte, len(data) // 2)) + 1
        return _tree(data[:end])
    # Before tree-sitter 0.25, the nodes of a text read in parts lack their texts.
    return _parser().parse(harmless, tree).root_node, data


def _harmless(data: bytes) -> bytes:
    """Return the text with the bytes replaced that may crash this process.

    The grammar's scanner (0.25.1) passes whatever character follows a brace to C's isdigit(), which
    above U+00FF reads memory beyond its table: a segmentation fault may follow.
    """
    return re.sub(_BEHIND_BRACE, lambda match: match[1] + _LETTERS[len(match[2])], data)


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode("utf-8", "surrogateescape")


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += node.children


def variables_set_often(root: Node) -> Set[str]:
    """Return the variables that may be set several times: by a loop, a function, or a command."""
    often: Set[str] = set()
    stack = [(root, False)]
    while stack:
        node, is_repeated = stack.pop()
        kind, children = node.type, node.children
        is_repeated = is_repeated or kind in LOOPS or kind == "function_definition"
        stack += [(child, is_repeated) for child in children]
        if kind == "variable_assignment":
            name = node.child_by_field_name("name")
            # `A=x command` does not change A.
            is_for_command = node.parent is not None and node.parent.type == "command"
            if name is not None and is_repeated and not is_for_command:
                often.add(text_of(name))
        elif kind in ("for_statement", "c_style_for_statement", "unset_command"):
            often.update(text_of(child) for child in children if child.type == "variable_name")
        elif kind == "command":
            command, *words = [text_of(child) for child in children if child.is_named] or [""]
            if command in _SETTERS:
                often.update(filter(str.isidentifier, words))
    return often


@dataclass(frozen=True)
class SyntaxProblem:
    """A message of bash about shell text, and its place. warning: True if bash runs it anyway."""

    place: SourceSpan
    message: str
    warning: bool


@cache
def syntax_problem(text: str) -> Optional[SyntaxProblem]:
    """Return what bash cannot read; None if it can read all, or without bash."""
    # The text may set extglob or source a file that does, so allow its patterns.
    argv = ["bash", "-O", "extglob", "-n"]
    try:
        answer = run(argv, input=text, env={**os.environ, "LC_ALL": "C", "BASH_ENV": ""})
    except SlurmUnavailableError:
        return None
    # Ignore the exit code: it is 0 after a warning and after an error within [[ ]].
    message = re.search(r"(?m)^bash: line (\d+): (warning: )?(.*)$", answer.stderr)
    if message is None:
        return None
    # bash counts the end of the file as a line of its own.
    line = min(int(message[1]), text.rstrip().count("\n") + 1)
    place = SourceSpan(line, 1, len(text.split("\n")[line - 1]) + 1)
    return SyntaxProblem(place, message[3], bool(message[2]))
