"""The shell part of a script: its commands with their words and where they stand.

Read with tree-sitter's grammar of bash. A variable is followed where it is set once, by a line that
surely runs, to a value that the text shows. What cannot be known is None, and never guessed.
"""

from __future__ import annotations

import re
from typing import (
    TYPE_CHECKING,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from neuronctl.batchscript.model import SourceSpan
from neuronctl.frozen import dataclass, replace

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@dataclass(frozen=True)
class ShellWord:
    """One word of a command.

    raw: as it is written. value: what the command gets, None where that cannot be known. names: the
    variables that this shell expands in it. text: what a shell that gets it as ``bash -c TEXT``
    reads, with the variables that this shell does not know left as they are.
    """

    raw: str
    value: Optional[str]
    names: Tuple[str, ...]
    text: str
    place: SourceSpan

    @property
    def may_be_several(self) -> bool:
        """Whether it may expand to no word, or to more than one."""
        return self.value is None and not self.raw.startswith(('"', "'"))


@dataclass(frozen=True)
class Assignment:
    """A variable that is set. sure: by a line that runs once, whatever happens."""

    name: str
    word: ShellWord
    exported: bool
    sure: bool
    place: SourceSpan


@dataclass(frozen=True)
class Command:
    """A simple command.

    assigned: the variables before it. background: it ends with ``&``. sure: it runs once, whatever
    happens. looped: it is in a loop or in a function, which may run any number of times. captured:
    its output is the value of something.
    """

    words: Tuple[ShellWord, ...]
    assigned: Tuple[Assignment, ...]
    place: SourceSpan
    background: bool
    sure: bool
    looped: bool
    captured: bool

    @property
    def name(self) -> str:
        """Without its directory; "" where it is not known."""
        if not self.words or self.words[0].value is None:
            return ""
        return self.words[0].value.rpartition("/")[2]

    @property
    def arguments(self) -> Tuple[Optional[str], ...]:
        """The values of the words behind the first."""
        return tuple(word.value for word in self.words[1:])


@dataclass(frozen=True)
class ShellText:
    """What a shell runs.

    broken: the first place that is not bash, None where all of it is. comments: the lines that
    begin with a comment of the shell's, and not of a here-document's.
    """

    commands: Tuple[Command, ...]
    assignments: Tuple[Assignment, ...]
    broken: Optional[SourceSpan]
    comments: FrozenSet[int]

    def assigned(self, name: str) -> Tuple[Assignment, ...]:
        """Every place that sets a variable."""
        return tuple(one for one in self.assignments if one.name == name)

    def calls(self, *names: str) -> Tuple[Command, ...]:
        """The commands of these names."""
        return tuple(one for one in self.commands if one.name in names)


@dataclass(frozen=True)
class _Where:
    """In what a node stands."""

    sure: bool = True
    looped: bool = False
    captured: bool = False
    background: bool = False
    depth: int = 0


_DECLARED = re.compile(r"\$\(declare -f ((?:\w+ ?)+)\)")
_LOOPS = ("while_statement", "for_statement", "c_style_for_statement", "function_definition")
_CHOICES = ("if_statement", "case_statement", "list", "pipeline", "subshell", "ternary_expression")
_DEEPEST = 150
"""Levels of nesting to look into; nobody's script has as many."""
_LONGEST_VALUE = 300
"""Characters of a variable's value that is followed."""

_parser: Optional[Parser] = None


def read_shell(text: str, known: Mapping[str, str] = {}, *, split: bool = True) -> ShellText:
    """Read shell text.

    known: variables that are set when it begins. split: whether ``$NAME`` is as many words as its
    value has; else it is one, of an unknown value.
    """
    root, data = _parsed(text)
    return _Reader(text.encode("utf-8", "surrogateescape"), data, known, split).read(root)


def syntax_tree(text: str) -> Node:
    """What the grammar of bash makes of shell text.

    It misreads ``$A/$B/c``, so that the tree is then that of ``$A/${B}/c``.
    """
    return _parsed(text)[0]


_VARIABLE = re.compile(rb"(?<!\\)\$([A-Za-z_][A-Za-z0-9_]*)")
_REST_OF_WORD = re.compile(rb"[^\s\"'`();|&<>]*")
_MOST_ROUNDS = 4


def _parsed(text: str) -> Tuple[Node, bytes]:
    """The tree of shell text, and the text that it is of.

    The grammar (0.25) ends a word at the second variable of ``$A/$B/c``, behind its dollar. In
    braces it is read as it should be; no line becomes another.
    """
    # Over NUL, which bash leaves out, the grammar would take hours.
    data = text.replace("\0", " ").encode("utf-8", "surrogateescape")
    root = _tree(data)
    for _ in range(_MOST_ROUNDS):
        pieces, at = [], 0
        for match in _VARIABLE.finditer(data):
            if match.start() >= at and _is_cut(root, match.start()):
                rest = _REST_OF_WORD.match(data, match.start())
                end = match.end() if rest is None else rest.end()
                word = _VARIABLE.sub(rb"${\1}", data[match.start() : end])
                pieces += [data[at : match.start()], word]
                at = end
        if not pieces:
            break
        data = b"".join((*pieces, data[at:]))
        root = _tree(data)
    return root, data


def _is_cut(root: Node, at: int) -> bool:
    node = root.descendant_for_byte_range(at, at + 1)
    parent = None if node is None else node.parent
    within = parent is not None and parent.type == "concatenation"
    return within and node is not None and node.type == "$"


def _tree(data: bytes) -> Node:
    global _parser
    if _parser is None:
        import tree_sitter
        import tree_sitter_bash

        _parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    return _parser.parse(_harmless(data)).root_node


_BEHIND_BRACE = re.compile(
    rb"(\{[0-9]*(?:\.\.[0-9]*)?)"
    rb"([\xc4-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
)


def _harmless(data: bytes) -> bytes:
    """The text with letters of as many bytes in place of what may crash this process.

    The grammar's scanner (0.25.1) passes whatever character follows a brace to C's isdigit(), which
    above U+00FF reads memory beyond its table: a segmentation fault may follow.
    """
    return _BEHIND_BRACE.sub(lambda match: match[1] + _LETTERS[len(match[2])], data)


_LETTERS = {2: "é".encode(), 3: "éa".encode(), 4: "éé".encode()}


_CLOSING = frozenset(("then", "else", "elif", "fi", "do", "done", "esac", "}"))
"""Words that are no command: for the grammar they are, where nothing is open that they close."""


def _mistakes(root: Node) -> Iterator[Node]:
    """What is not bash for the grammar, or is missing, in no order."""
    left = [root] if root.has_error else []
    while left:
        node = left.pop()
        if node.type == "ERROR" or node.is_missing:
            yield node
        left += [child for child in node.children if child.has_error]


def _characters(line: bytes, byte: int) -> int:
    """How many characters of a line are before a byte."""
    return len(line[:byte].decode("utf-8", "surrogateescape"))


def _before(line: bytes, parsed: bytes, column: int) -> int:
    """The byte of a line that is at a column of the line with braces."""
    at = 0
    for byte in parsed[:column]:
        at += at < len(line) and line[at] == byte
    return at


class _Reader:
    """Walks one tree; holds the variables that are known so far."""

    def __init__(self, text: bytes, data: bytes, known: Mapping[str, str], split: bool) -> None:
        """text: the file's; data: what the tree is of."""
        self.data = data
        self.lines = text.split(b"\n")
        self.parsed_lines = self.lines if data == text else data.split(b"\n")
        self.known: Dict[str, str] = dict(known)
        self.split = split
        self.commands: List[Command] = []
        self.assignments: List[Assignment] = []
        self.unexported: Dict[str, List[int]] = {}
        """Name -> which of the assignments an ``export`` of that name would export."""
        self.often: Set[str] = set()
        self.comments: Set[int] = set()
        self.functions: Dict[str, Node] = {}
        self.called_once: Set[str] = set()
        """Functions that are read where they are called, not where they are defined."""
        self.handed_on: Set[str] = set()
        """Functions whose text another bash gets: ``bash -c "$(declare -f NAME); NAME"``."""

    def read(self, root: Node) -> ShellText:
        """What the tree holds."""
        self.often = _set_often(root)
        self.note_functions(root)
        self.visit_all(root.children, root.type, _Where())
        astray = (one.place for one in self.commands if one.words and one.words[0].raw in _CLOSING)
        found = [self.place(mistake) for mistake in _mistakes(root)]
        broken = min((*found, *astray), key=lambda one: (one.line, one.column), default=None)
        comments = frozenset(self.comments)
        return ShellText(tuple(self.commands), tuple(self.assignments), broken, comments)

    def note_functions(self, root: Node) -> None:
        """Find the functions, and who calls them."""
        for node in root.children:
            name = node.child_by_field_name("name")
            if node.type == "function_definition" and name is not None:
                self.functions[text_of(name)] = node
        if not self.functions:
            return
        for names in _DECLARED.findall(self.data.decode("utf-8", "replace")):
            self.handed_on.update(names.split())
        called = [text_of(node) for node in below(root) if node.type == "command_name"]
        self.called_once = {name for name in self.functions if called.count(name) == 1}

    def place(self, node: Node) -> SourceSpan:
        """Where a node begins, and its end on that line."""
        row, column = node.start_point
        end_row, end_column = node.end_point
        line, parsed = self.lines[row], self.parsed_lines[row]
        end_column = end_column if end_row == row else len(parsed)
        if parsed is not line and parsed != line:
            column, end_column = _before(line, parsed, column), _before(line, parsed, end_column)
        return SourceSpan(row + 1, _characters(line, column) + 1, _characters(line, end_column) + 1)

    def visit(self, node: Node, where: _Where) -> None:
        """Collect the commands and assignments below a node."""
        if where.depth > _DEEPEST:
            return
        kind = node.type
        if kind == "comment":
            self.comments.add(node.start_point[0] + 1)
        elif kind == "command":
            self.command(node, where)
        elif kind in ("declaration_command", "unset_command"):
            self.declaration(node, where)
        elif kind == "variable_assignment":
            self.assignment(node, where, exported=False)
        elif kind != "function_definition" or not self.is_read_elsewhere(node):
            self.visit_all(node.children, kind, where)

    def is_read_elsewhere(self, function: Node) -> bool:
        name = function.child_by_field_name("name")
        return name is not None and text_of(name) in self.called_once | self.handed_on

    def visit_all(self, children: Sequence[Node], kind: str, where: _Where) -> None:
        """Collect from the parts of a node of some kind."""
        sure, looped = where.sure, where.looped
        captured = where.captured or kind in ("command_substitution", "process_substitution")
        if kind in _LOOPS:
            sure, looped = False, True
        if kind in _CHOICES or captured:
            sure = False
        for number, child in enumerate(children):
            after = children[number + 1].type if number + 1 < len(children) else ""
            below = _Where(
                # `a && b`, `a | b`: the first one surely runs, but for a subshell's variables.
                sure=sure or (where.sure and kind == "list" and number == 0),
                looped=looped,
                captured=captured,
                background=after == "&" or (where.background and kind != "program"),
                depth=where.depth + 1,
            )
            if child.is_named:
                self.visit(child, below)

    def command(self, node: Node, where: _Where) -> None:
        """A simple command: its words, and what is expanded in them."""
        words, assigned = [], []
        for child in node.children:
            if child.type == "variable_assignment":
                name = child.child_by_field_name("name")
                word = self.word(child.child_by_field_name("value"), child)
                if name is not None:
                    place = self.place(child)
                    assigned.append(Assignment(text_of(name), word, True, False, place))
            elif child.type == "command_name":
                words += self.words(child.children[0] if child.children else child, child)
            elif child.is_named and not child.type.endswith("_redirect"):
                words += self.words(child, child)
        self.commands.append(
            Command(
                tuple(words),
                tuple(assigned),
                self.place(node),
                where.background,
                where.sure,
                where.looped,
                where.captured,
            )
        )
        self.substitutions(node, where)
        # What a sourced file sets cannot be known.
        if words and words[0].value in ("source", ".", "eval"):
            self.known.clear()
        if words and words[0].value in self.called_once - self.handed_on:
            body = self.functions[words[0].value or ""].child_by_field_name("body")
            if body is not None and where.depth <= _DEEPEST:
                self.visit_all(body.children, body.type, replace(where, depth=where.depth + 1))

    def substitutions(self, node: Node, where: _Where) -> None:
        """The commands within ``$(…)`` of a command's words."""
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                below = _Where(False, where.looped, True, False, where.depth + 1)
                self.visit(child, below)
            elif child.children and where.depth < _DEEPEST:
                deeper = _Where(where.sure, where.looped, where.captured, False, where.depth + 1)
                self.substitutions(child, deeper)

    def declaration(self, node: Node, where: _Where) -> None:
        """``export A=x B``, ``declare``, ``local``, ``readonly``, ``unset``."""
        exported = bool(node.children) and node.children[0].type == "export"
        for child in node.children:
            if child.type == "variable_assignment":
                self.assignment(child, where, exported)
            elif child.type == "variable_name" and exported:
                for number in self.unexported.pop(text_of(child), ()):
                    self.assignments[number] = replace(self.assignments[number], exported=True)
        self.substitutions(node, where)

    def assignment(self, node: Node, where: _Where, exported: bool) -> None:
        """``NAME=value``."""
        name_node = node.child_by_field_name("name")
        if name_node is None:
            return
        name, word = text_of(name_node), self.word(node.child_by_field_name("value"), node)
        plain = name_node.type == "variable_name" and "+=" not in text_of(node)[: len(name) + 2]
        if not exported:
            self.unexported.setdefault(name, []).append(len(self.assignments))
        self.assignments.append(Assignment(name, word, exported, where.sure, self.place(node)))
        value = word.value
        short = value is not None and len(value) <= _LONGEST_VALUE
        if plain and where.sure and short and name not in self.often:
            self.known[name] = value or ""
        else:
            self.known.pop(name, None)
        if node.type == "variable_assignment":
            self.substitutions(node, where)

    def words(self, node: Node, around: Node) -> List[ShellWord]:
        """A word of a command, or those of the variable that it is."""
        one = self.word(node, around)
        value = self.known.get(one.names[0]) if len(one.names) == 1 else None
        alone = re.fullmatch(r"\$(\w+|\{\w+\})", one.raw) is not None
        if value is None or one.value is not None or not alone or not self.split:
            return [one]
        if re.search(r"[*?\[\\]", value):
            return [one]  # the names of files
        return [ShellWord(one.raw, part, one.names, part, one.place) for part in value.split()]

    def word(self, node: Optional[Node], around: Node) -> ShellWord:
        """A word, or the empty value of ``A=``."""
        if node is None:
            return ShellWord("", "", (), "", self.place(around))
        names: List[str] = []
        text: List[str] = []
        value = self.value(node, names, text, quoted=False)
        return ShellWord(text_of(node), value, tuple(names), "".join(text), self.place(node))

    def value(
        self, node: Node, names: List[str], text: List[str], *, quoted: bool
    ) -> Optional[str]:
        """What a part of a word stands for; its variables and its text are added to the lists."""
        kind, raw = node.type, text_of(node)
        if kind == "raw_string":
            text.append(raw[1:-1])
            return raw[1:-1]
        if kind in ("word", "string_content", "extglob_pattern", "number", "test_operator"):
            pattern = r'\\([$`"\\])' if quoted else r"\\(.)"
            plain = re.sub(r"\\\n", "", raw)
            plain = re.sub(pattern, r"\1", plain, flags=re.DOTALL)
            text.append(plain)
            if not quoted and re.search(r"(?<!\\)[*?\[{]", raw):
                return None  # the names of files, or several words
            return plain
        if kind in ("string", "concatenation", "translated_string"):
            parts: List[Optional[str]] = []
            inside = kind == "string" or quoted
            at = node.start_byte + (1 if kind == "string" else 0)
            for child in node.children:
                if child.type == '"':
                    continue
                gap = self.between(at, child.start_byte)
                if gap:  # blanks at the edge of a string belong to no child
                    parts.append(gap)
                    text.append(gap)
                parts.append(self.value(child, names, text, quoted=inside))
                at = child.end_byte
            gap = self.between(at, node.end_byte - 1) if kind == "string" else ""
            if gap:
                parts.append(gap)
                text.append(gap)
            if any(part is None for part in parts):
                return None
            return "".join(part for part in parts if part is not None)
        braced = re.fullmatch(r"\$\{(\w+)\}", raw) if kind == "expansion" else None
        name = raw[1:] if kind == "simple_expansion" else braced[1] if braced else ""
        names += [name] if kind == "simple_expansion" else _names(node)
        declared = _DECLARED.fullmatch(raw)
        if declared is not None:
            bodies = (self.functions.get(each) for each in declared[1].split())
            text.append("\n".join(text_of(body) for body in bodies if body is not None))
            return None
        if not name:
            text.append(raw)
            return raw if kind == "$" or not node.is_named else None
        known = self.known.get(name)
        text.append(raw if known is None else known)
        several = known is not None and not quoted and re.search(r"[\s*?\[]", known)
        return None if several else known

    def between(self, start: int, end: int) -> str:
        """The text between two bytes."""
        return self.data[start:end].decode("utf-8", "replace")


def text_of(node: Node) -> str:
    """The text of a part of the tree."""
    return (node.text or b"").decode("utf-8", "surrogateescape")


def below(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += one.children


def _names(node: Node) -> List[str]:
    return [text_of(one) for one in below(node) if one.type == "variable_name"]


def _set_often(root: Node) -> Set[str]:
    """The variables that are set in several places, or by a loop or a command."""
    once: Set[str] = set()
    often: Set[str] = set()
    for node in below(root):
        names: List[str] = []
        if node.type == "variable_assignment":
            name = node.child_by_field_name("name")
            in_front = node.parent is not None and node.parent.type == "command"
            if name is not None and not in_front:  # `A=x command` leaves A as it is
                names = [text_of(name)]
        elif node.type in ("for_statement", "c_style_for_statement"):
            names = [text_of(one) for one in node.children if one.type == "variable_name"] * 2
        elif node.type == "command":
            words = [text_of(one) for one in node.children if one.is_named]
            if words and words[0] in ("read", "mapfile", "readarray", "getopts", "printf"):
                names = [word for word in words[1:] if word.isidentifier()] * 2
        elif node.type == "unset_command":
            names = [text_of(one) for one in node.children if one.type == "variable_name"] * 2
        for name_text in names:
            (often if name_text in once else once).add(name_text)
    return often
