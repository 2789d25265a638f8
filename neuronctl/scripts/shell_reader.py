"""Read shell text: walk the tree of tree-sitter's grammar once, in the shell's order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.scripts.bash_grammar import LOOPS, parse, text_of, variables_set_often, walk
from neuronctl.scripts.header import NOWHERE, SourceSpan
from neuronctl.scripts.shell_text import (
    EXPANSION,
    Assignment,
    Command,
    ShellText,
    ShellWord,
    Value,
    reads_more,
    split_words,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_LITERALS = ("word", "string_content", "extglob_pattern", "number", "test_operator")
_SUBSTITUTIONS = ("command_substitution", "process_substitution")
_CHOICES = ("if_statement", "case_statement", "list", "pipeline", "subshell", "ternary_expression")
_DEEPEST = 150
"""Levels of nesting to look into; nobody's script has as many."""
_MOST_ORIGINS = 100
"""Variables that a value may be made of; of a chain of thousands, each would have all before it."""
_LONGEST_VALUE = 1000
"""Characters of a variable's value that is followed."""

# <NAME>, <Some Name>, or <…> with "path", "your", "name", or "here".
_PLACEHOLDER = (
    rb"<([A-Za-z][A-Za-z0-9_ -]{0,60}|[^<>\s]{0,60}(path|your|name|here)[^<>\s]{0,60})>"
    rb"(?![A-Za-z0-9(>&])"
)


def _before(line: bytes, parsed_line: bytes, column: int) -> int:
    """Return the column in the original line for a column in the line with braces."""
    at = 0
    for byte in parsed_line[:column]:
        at += at < len(line) and line[at] == byte
    return at


_AT_THE_TOP = Command((), (), NOWHERE, sure=True)
"""A command as far as it is known by what stands around it."""


def _literal_value(raw: str, *, quoted: bool) -> Value:
    """Return the value of a text without expansions; unknown if it may match file names."""
    # Each backslash that quotes the character after it; in double quotes, few need one.
    escape = r'\\([$`"\\])' if quoted else r"\\(.)"
    plain = re.sub(escape, r"\1", raw.replace("\\\n", ""), flags=re.DOTALL)
    # A * ? [ or { without a backslash: bash makes file names or several words of it.
    return plain, quoted or not re.search(r"(?<!\\)[*?\[{]", raw)


def read_shell(text: str, known: Mapping[str, str] = {}) -> ShellText:
    """Read shell text. known: variables that are set when it starts."""
    return _Reader(text, known).read()


class _Reader:
    """Walks one tree and tracks the known variables."""

    def __init__(self, text: str, known: Mapping[str, str]) -> None:
        self.root, self.data, self.left_out = parse(text)
        written = text.encode("utf-8", "surrogateescape")
        self.lines = written.split(b"\n")
        self.parsed_lines = self.lines if self.data == written else self.data.split(b"\n")
        self.values: Dict[str, Value] = {name: (value, True) for name, value in known.items()}
        """Of the variables that are known so far, at least in part."""
        self.arrays: Dict[str, Tuple[ShellWord, ...]] = {}
        self.origins: Dict[str, Tuple[str, ...]] = {}
        """Name -> the variables that its value was made of."""
        self.commands: List[Command] = []
        self.assignments: List[Assignment] = []
        self.often = variables_set_often(self.root)
        self.files: List[ShellWord] = []
        self.documents: Set[int] = set()
        self.depth = 0

    def read(self) -> ShellText:
        """Return what the tree contains."""
        self.visit_all(self.root, _AT_THE_TOP)
        return ShellText(
            tuple(self.commands),
            tuple(self.assignments),
            self.root.has_error,
            tuple(self.placeholders()),
            self.left_out,
            frozenset(self.documents),
            tuple(self.files),
        )

    def placeholders(self) -> Iterator[SourceSpan]:
        """Yield the places where ``<NAME>`` is two redirections."""
        for match in re.finditer(_PLACEHOLDER, self.data):
            node = self.root.descendant_for_byte_range(match.start(), match.start() + 1)
            parent = None if node is None else node.parent
            if node is None or parent is None or node.type != "<":
                continue
            if parent.type in ("file_redirect", "ERROR"):
                place = self.place(node)
                yield replace(place, end=place.column + len(match[0]))

    def place(self, node: Node) -> SourceSpan:
        """Return the place of a node's beginning, and its end on that line."""
        row, column = node.start_point
        end_row, end_column = node.end_point
        line, parsed = self.lines[row], self.parsed_lines[row]
        end_column = end_column if end_row == row else len(parsed)
        if parsed is not line and parsed != line:
            column, end_column = _before(line, parsed, column), _before(line, parsed, end_column)
        before, until = (
            line[:at].decode("utf-8", "surrogateescape") for at in (column, end_column)
        )
        return SourceSpan(row + 1, len(before) + 1, len(until) + 1)

    def visit(self, node: Node, where: Command) -> None:
        """Collect the commands and assignments below a node. where: its surroundings."""
        kind = node.type
        if self.depth > _DEEPEST:
            return
        self.depth += 1
        if kind == "command":
            self.command(node, where)
        elif kind in ("declaration_command", "unset_command"):
            self.declaration(node, where)
        elif kind == "variable_assignment":
            self.assignment(node, where, exported=False)
        elif kind == "function_definition":
            before = self.values, self.arrays, self.origins
            self.forget()  # they may have another value when it is called
            self.visit_all(node, replace(where, sure=False, looped=True, in_loop=False))
            self.values, self.arrays, self.origins = before
        else:
            if kind == "heredoc_body":
                self.documents.update(range(node.start_point[0] + 1, node.end_point[0] + 2))
            self.visit_all(node, where)
        self.depth -= 1

    def visit_all(self, node: Node, where: Command) -> None:
        """Collect the commands and assignments below a node's children. where: as for visit."""
        kind, children = node.type, node.children
        surely = where.sure
        if kind == "file_redirect":
            self.files.append(self.word(children[-1], node))
        if kind in LOOPS:
            where = replace(where, sure=False, looped=True, in_loop=True)
        elif kind in _SUBSTITUTIONS:
            where = replace(_AT_THE_TOP, sure=False, looped=where.looped, captured=True)
        elif kind in _CHOICES:
            where = replace(where, sure=False, piped=where.piped and kind != "pipeline")
        for number, child in enumerate(children):
            changes: Dict[str, Any] = {}  # to what `where` says of the other children
            if kind == "list" and number == 0:
                changes["sure"] = surely  # of `a && b`, the first one
            elif kind == "list":
                changes["joined"] = children[number - 1].type
            elif kind == "pipeline" and number:
                changes["piped"] = True
            if number + 1 < len(children) and children[number + 1].type == "&":
                changes["background"] = True
            if child.is_named:
                self.visit(child, replace(where, **changes) if changes else where)

    def command(self, node: Node, where: Command) -> None:
        """Add a simple command: its words and the variables expanded in them."""
        words: List[ShellWord] = []
        assigned: List[Assignment] = []
        for child in node.children:
            name = child.child_by_field_name("name")
            if child.type == "variable_assignment" and name is not None:
                word = self.word(child.child_by_field_name("value"), child)
                place = self.place(child)
                assigned.append(
                    Assignment(text_of(name), word, exported=True, sure=False, place=place)
                )
            elif child.type == "command_name":
                words += self.words(child.children[0] if child.children else child, child)
            elif child.is_named and not child.type.endswith("_redirect"):
                words += self.words(child, child)
        self.commands.append(
            replace(
                where,
                words=tuple(words),
                assigned=tuple(assigned),
                place=self.place(node),
            )
        )
        for child in node.children:
            self.visit_all(child, where)
        if reads_more(words):
            self.forget()

    def forget(self) -> None:
        """Forget all variables but Slurm's, which cannot have changed."""
        self.values = {
            name: value for name, value in self.values.items() if name.startswith("SLURM_")
        }
        self.arrays, self.origins = {}, {}

    def declaration(self, node: Node, where: Command) -> None:
        """Add the variables that ``export A=x B``, ``declare``, ``local``, and ``readonly`` set."""
        first = node.children[0].type if node.children else ""
        flags = [text_of(child) for child in node.children if child.type == "word"]
        exported = first == "export" or any(re.match("-[a-zA-Z]*x", flag) for flag in flags)
        for child in node.children:
            if child.type == "variable_assignment":
                self.assignment(child, where, exported)
            elif child.type == "variable_name" and exported:
                for number, each in enumerate(self.assignments):
                    if each.name == text_of(child):
                        self.assignments[number] = replace(each, exported=True)
            else:
                self.visit(child, where)

    def assignment(self, node: Node, where: Command, exported: bool) -> None:
        """Add a ``NAME=value``."""
        name_node = node.child_by_field_name("name")
        if name_node is None:
            return
        name, word = text_of(name_node), self.word(node.child_by_field_name("value"), node)
        self.assignments.append(Assignment(name, word, exported, where.sure, self.place(node)))
        self.origins[name] = word.names[:_MOST_ORIGINS]
        follows = where.sure and name_node.type == "variable_name" and name not in self.often
        self.follow(name, node, word, follows)
        self.visit_all(node, where)

    def follow(self, name: str, node: Node, word: ShellWord, follows: bool) -> None:
        """Track a variable's value from here on; forget it if ``follows`` is False.

        follows: the line surely runs once, and nothing else sets the variable.
        """
        value = node.child_by_field_name("value")
        adds = any(child.type == "+=" for child in node.children)
        before, before_known = "", True
        if adds:
            before, before_known = self.values.get(name, (f"${name}", False))
        text, known = before + word.text, before_known and word.known
        items = self.arrays.get(name, ()) if adds else ()
        known_array = not adds or name in self.arrays
        self.values.pop(name, None)
        self.arrays.pop(name, None)
        if not follows or len(text) > _LONGEST_VALUE:
            return
        if value is not None and value.type == "array":
            for child in value.children:
                if child.is_named and child.type != "comment":
                    items += tuple(self.words(child, child))
            if known_array:
                self.arrays[name] = items
        elif known or re.sub(EXPANSION, "", text):
            self.values[name] = text, known

    def words(self, node: Node, around: Node) -> List[ShellWord]:
        """Return a word of a command, or the words of the variable that it consists of."""
        written = self.word(node, around)
        if "$" not in written.raw:
            return [written]
        # ${NAME[@]}, ${NAME[*]}, or "${NAME[@]}"
        array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}|\"\$\{(\w+)\[@\]\}\"", written.raw)
        items = self.arrays.get(array[1] or array[2]) if array is not None else None
        if items is not None:
            return [replace(item, raw=written.raw, place=written.place) for item in items]
        alone = re.fullmatch(r"\$(\w+)|\$\{(\w+)\}", written.raw)
        value = self.values.get(alone[1] or alone[2]) if alone is not None else None
        if value is None or (written.known and re.fullmatch(r"\S+", written.text)):
            return [written]
        return [replace(written, text=text, known=known) for text, known in split_words(*value)]

    def word(self, node: Optional[Node], around: Node) -> ShellWord:
        """Return a word, or the empty value of ``A=``."""
        if node is None:
            return ShellWord("", "", True, (), self.place(around))
        names: List[str] = []
        text, known = self.value_of(node, names)
        origins = [origin for name in names for origin in self.origins.get(name, ())]
        every = tuple(dict.fromkeys((*names, *origins)))
        return ShellWord(text_of(node), text, known, every, self.place(node))

    def value_of(self, node: Node, names: List[str], *, quoted: bool = False) -> Value:
        """Return the value of a part of a word; add its variables to ``names``.

        quoted: the part is in double quotes.
        """
        kind, raw = node.type, text_of(node)
        if kind == "raw_string":  # in single quotes
            return raw[1:-1], True
        if kind in _LITERALS:
            return _literal_value(raw, quoted=quoted)
        if kind in ("string", "concatenation", "translated_string"):
            return self.joined_value(node, names, quoted=quoted)
        if kind == "arithmetic_expansion":
            names += self.names(node)
            return raw, False
        return self.expanded_value(node, names, quoted=quoted)

    def joined_value(self, node: Node, names: List[str], *, quoted: bool) -> Value:
        """Return the value of a string or of parts without blanks between them: ``a"$B"c``."""
        is_string = node.type == "string"
        text = ""
        known = True
        end = node.start_byte + is_string  # of what is read: the opening quote
        for child in node.children:
            if child.type == '"':
                continue
            part, part_known = self.value_of(child, names, quoted=is_string or quoted)
            # Blanks at the edge of a string belong to no child.
            text += self.between(end, child.start_byte) + part
            known = known and part_known
            end = child.end_byte
        if is_string:
            text += self.between(end, node.end_byte - 1)
        return text, known

    def expanded_value(self, node: Node, names: List[str], *, quoted: bool) -> Value:
        """Return the value of ``$A``, ``${A}``, or ``${A:-default}``; for others, their text."""
        kind, raw = node.type, text_of(node)
        name = default = ""
        if kind == "simple_expansion":
            name = raw[1:]
            names.append(name)
        else:
            names += self.names(node)
            # ${NAME}, ${NAME-default}, and ${NAME:-default}
            braced = re.fullmatch(r"\$\{(\w+)(:?-[^{}]*)?\}", raw) if kind == "expansion" else None
            if braced is not None:
                name, default = braced[1], braced[2] or ""
        value = self.values.get(name) if name else None
        if value is None:
            # A dollar, or another sign that the grammar has no name for, is itself.
            known = kind == "$" or (not name and not node.is_named)
            return raw, known
        text, known = value
        if default and not text:
            return raw, False
        may_be_several = not quoted and re.search(r"[\s*?\[]", text)
        return text, known and not may_be_several

    def names(self, node: Node) -> List[str]:
        """Return the variables in a node."""
        return [text_of(part) for part in walk(node) if part.type == "variable_name"][::-1]

    def between(self, start: int, end: int) -> str:
        """Return the text between two bytes."""
        return self.data[start:end].decode("utf-8", "replace")
