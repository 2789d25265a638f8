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
"""How many levels of nesting are read; no real script has as many."""
_MOST_ORIGINS = 100
"""How many origins of a value are kept; in a chain of thousands, each has all earlier ones."""
_LONGEST_VALUE = 1000
"""The longest value of a variable that is tracked, in characters."""

# <NAME>, <Some Name>, or <…> with "path", "your", "name", or "here".
_PLACEHOLDER = (
    rb"<([A-Za-z][A-Za-z0-9_ -]{0,60}|[^<>\s]{0,60}(path|your|name|here)[^<>\s]{0,60})>"
    rb"(?![A-Za-z0-9(>&])"
)


def _original_column(line: bytes, parsed_line: bytes, column: int) -> int:
    """Return the column in the original line for a column in the line with braces."""
    original = 0
    for byte in parsed_line[:column]:
        if original < len(line) and line[original] == byte:
            original += 1
    return original


def _count_characters(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogateescape"))


_AT_THE_TOP = Command((), (), NOWHERE, sure=True)
"""A command without words, which carries what its surroundings, here the top level, say of it."""


def _literal_value(raw: str, *, quoted: bool) -> Value:
    """Return the value of a text without expansions; unknown if it may match file names."""
    # A backslash that quotes the next character; in double quotes, only these characters.
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
        # Name -> the value so far; a variable without any known part is left out.
        self.values: Dict[str, Value] = {name: (value, True) for name, value in known.items()}
        self.arrays: Dict[str, Tuple[ShellWord, ...]] = {}
        # Name of a variable -> the variables that its value was made of.
        self.origins: Dict[str, Tuple[str, ...]] = {}
        self.commands: List[Command] = []
        self.assignments: List[Assignment] = []
        self.set_often = variables_set_often(self.root)
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
        line, parsed_line = self.lines[row], self.parsed_lines[row]
        if end_row != row:
            end_column = len(parsed_line)
        if parsed_line != line:
            column = _original_column(line, parsed_line, column)
            end_column = _original_column(line, parsed_line, end_column)
        before, until = line[:column], line[:end_column]
        return SourceSpan(row + 1, _count_characters(before) + 1, _count_characters(until) + 1)

    def visit(self, node: Node, where: Command) -> None:
        """Collect the commands and assignments below a node. where: see _AT_THE_TOP."""
        kind = node.type
        if self.depth > _DEEPEST:
            return  # Python's own stack is limited
        self.depth += 1
        if kind == "command":
            self.add_command(node, where)
        elif kind in ("declaration_command", "unset_command"):
            self.add_declaration(node, where)
        elif kind == "variable_assignment":
            self.add_assignment(node, where, exported=False)
        elif kind == "function_definition":
            outside = self.values, self.arrays, self.origins
            self.forget()  # variables may have other values when the function is called
            self.visit_all(node, replace(where, sure=False, looped=True, in_loop=False))
            self.values, self.arrays, self.origins = outside
        else:
            if kind == "heredoc_body":
                self.documents.update(range(node.start_point[0] + 1, node.end_point[0] + 2))
            self.visit_all(node, where)
        self.depth -= 1

    def visit_all(self, node: Node, where: Command) -> None:
        """Collect the commands and assignments below a node's children. where: as for visit()."""
        kind, children = node.type, node.children
        is_node_sure = where.sure
        if kind == "file_redirect":
            self.files.append(self.read_word(children[-1], node))
        if kind in LOOPS:
            where = replace(where, sure=False, looped=True, in_loop=True)
        elif kind in _SUBSTITUTIONS:
            where = replace(_AT_THE_TOP, sure=False, looped=where.looped, captured=True)
        elif kind in _CHOICES:
            where = replace(where, sure=False, piped=where.piped and kind != "pipeline")
        for number, child in enumerate(children):
            changes: Dict[str, Any] = {}  # what differs from `where` for this child
            if kind == "list" and number == 0:
                changes["sure"] = is_node_sure  # of `a && b`, a runs surely
            elif kind == "list":
                changes["joined"] = children[number - 1].type
            elif kind == "pipeline" and number:
                changes["piped"] = True
            if number + 1 < len(children) and children[number + 1].type == "&":
                changes["background"] = True
            if child.is_named:
                self.visit(child, replace(where, **changes) if changes else where)

    def add_command(self, node: Node, where: Command) -> None:
        """Add a simple command: its words and the variables set before it."""
        words: List[ShellWord] = []
        assigned: List[Assignment] = []
        for child in node.children:
            name = child.child_by_field_name("name")
            if child.type == "variable_assignment" and name is not None:
                value = self.read_word(child.child_by_field_name("value"), child)
                place = self.place(child)
                assigned.append(
                    Assignment(text_of(name), value, exported=True, sure=False, place=place)
                )
            elif child.type == "command_name":
                words += self.read_words(child.children[0] if child.children else child, child)
            elif child.is_named and not child.type.endswith("_redirect"):
                words += self.read_words(child, child)
        place = self.place(node)
        command = replace(where, words=tuple(words), assigned=tuple(assigned), place=place)
        self.commands.append(command)
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

    def add_declaration(self, node: Node, where: Command) -> None:
        """Add the variables that ``export A=x B``, ``declare``, ``local``, and ``readonly`` set."""
        keyword = node.children[0].type if node.children else ""
        flags = [text_of(child) for child in node.children if child.type == "word"]
        exported = keyword == "export" or any(re.match("-[a-zA-Z]*x", flag) for flag in flags)
        for child in node.children:
            if child.type == "variable_assignment":
                self.add_assignment(child, where, exported)
            elif child.type == "variable_name" and exported:
                for index, assignment in enumerate(self.assignments):
                    if assignment.name == text_of(child):
                        self.assignments[index] = replace(assignment, exported=True)
            else:
                self.visit(child, where)

    def add_assignment(self, node: Node, where: Command, exported: bool) -> None:
        """Add a ``NAME=value``."""
        name_node = node.child_by_field_name("name")
        if name_node is None:
            return
        name, value = text_of(name_node), self.read_word(node.child_by_field_name("value"), node)
        self.assignments.append(Assignment(name, value, exported, where.sure, self.place(node)))
        self.origins[name] = value.names[:_MOST_ORIGINS]
        is_certain = where.sure and name_node.type == "variable_name" and name not in self.set_often
        self.follow(name, node, value, is_certain=is_certain)
        self.visit_all(node, where)

    def follow(self, name: str, node: Node, value: ShellWord, *, is_certain: bool) -> None:
        """Track a variable's value from its assignment on, or forget it.

        is_certain: True if the line surely runs once, and nothing else sets the variable.
        """
        appends = any(child.type == "+=" for child in node.children)
        before, before_known = self.values.pop(name, (f"${name}", False))
        items = self.arrays.pop(name, None)
        if not appends:
            before, before_known, items = "", True, ()
        text, known = before + value.text, before_known and value.known
        if not is_certain or len(text) > _LONGEST_VALUE:
            return
        value_node = node.child_by_field_name("value")
        if value_node is not None and value_node.type == "array":
            if items is None:
                return  # what precedes += is unknown
            for child in value_node.children:
                if child.is_named and child.type != "comment":
                    items += tuple(self.read_words(child, child))
            self.arrays[name] = items
        elif known or re.sub(EXPANSION, "", text):  # expansions alone say nothing
            self.values[name] = text, known

    def read_words(self, node: Node, around: Node) -> List[ShellWord]:
        """Return a word of a command, or the words of the variable that it consists of."""
        word = self.read_word(node, around)
        if "$" not in word.raw:
            return [word]
        # ${NAME[@]}, ${NAME[*]}, or "${NAME[@]}"
        array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}|\"\$\{(\w+)\[@\]\}\"", word.raw)
        items = self.arrays.get(array[1] or array[2]) if array is not None else None
        if items is not None:
            return [replace(item, raw=word.raw, place=word.place) for item in items]
        variable = re.fullmatch(r"\$(\w+)|\$\{(\w+)\}", word.raw)
        value = self.values.get(variable[1] or variable[2]) if variable is not None else None
        is_one_word = word.known and re.fullmatch(r"\S+", word.text) is not None
        if value is None or is_one_word:
            return [word]
        return [replace(word, text=text, known=known) for text, known in split_words(*value)]

    def read_word(self, node: Optional[Node], around: Node) -> ShellWord:
        """Return a word, or the empty value of ``A=``."""
        if node is None:
            return ShellWord("", "", True, (), self.place(around))
        names: List[str] = []
        text, known = self.value_of(node, names)
        all_names = dict.fromkeys(names)
        for name in names:
            all_names.update(dict.fromkeys(self.origins.get(name, ())))
        return ShellWord(text_of(node), text, known, tuple(all_names), self.place(node))

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
        end = node.start_byte + is_string  # of the text read so far: behind the opening quote
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
        if kind == "expansion":
            # ${NAME}, ${NAME-default}, and ${NAME:-default}
            braced = re.fullmatch(r"\$\{(\w+)(:?-[^{}]*)?\}", raw)
            name, default = braced.groups("") if braced is not None else ("", "")
        value = self.values.get(name) if name else None
        if value is None:
            # A dollar, or another sign that the grammar has no name for, is itself.
            return raw, kind == "$" or (not name and not node.is_named)
        text, known = value
        if default and not text:
            return raw, False
        may_be_several = not quoted and re.search(r"[\s*?\[]", text) is not None
        return text, known and not may_be_several

    def names(self, node: Node) -> List[str]:
        """Return the variables in a node."""
        return [text_of(part) for part in walk(node) if part.type == "variable_name"][::-1]

    def between(self, start: int, end: int) -> str:
        """Return the text between two bytes."""
        return self.data[start:end].decode("utf-8", "replace")
