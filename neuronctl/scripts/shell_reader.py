"""Reads shell text: walks the tree of tree-sitter's grammar once, in the shell's order."""

from __future__ import annotations

import re
from collections import Counter
from typing import (
    TYPE_CHECKING,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from neuronctl.common.frozen import dataclass, replace
from neuronctl.scripts.bash_grammar import below, defined_functions, parsed, set_often, text_of
from neuronctl.scripts.model import SourceSpan
from neuronctl.scripts.shell_text import (
    INITIALIZES,
    Assignment,
    Command,
    Piece,
    ShellText,
    ShellWord,
    split_words,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_SUBSTITUTES = re.compile(rb"[`(]")
_LOOPS = ("while_statement", "for_statement", "c_style_for_statement", "function_definition")
_CHOICES = ("if_statement", "case_statement", "list", "pipeline", "subshell", "ternary_expression")
_DEEPEST = 150
"""Levels of nesting to look into; nobody's script has as many."""
_MOST_ORIGINS = 100
"""Variables that a value may be made of; of a chain of thousands, each would have all before it."""
_LONGEST_VALUE = 1000
"""Characters of a variable's value that is followed."""

_PLACEHOLDER = re.compile(
    rb"<([A-Za-z][A-Za-z0-9_ -]{0,60}|[^<>\s]{0,60}(path|your|name|here)[^<>\s]{0,60})>"
    rb"(?![A-Za-z0-9(>&])"
)


def _characters(line: bytes, byte: int) -> int:
    """Return how many characters of a line are before a byte."""
    if line.isascii():
        return min(byte, len(line))
    return len(line[:byte].decode("utf-8", "surrogateescape"))


def _before(line: bytes, parsed_line: bytes, column: int) -> int:
    """Return the byte of a line that is at a column of the line with braces."""
    at = 0
    for byte in parsed_line[:column]:
        at += at < len(line) and line[at] == byte
    return at


@dataclass(frozen=True)
class _Where:
    """In what a node stands."""

    sure: bool = True
    looped: bool = False
    captured: bool = False
    background: bool = False
    depth: int = 0
    piped: bool = False
    in_loop: bool = False
    joined: str = ""


def read_shell(
    text: str,
    known: Mapping[str, str] = {},
    *,
    partly: Mapping[str, Tuple[Piece, ...]] = {},
    running: bool = False,
) -> ShellText:
    """Read shell text.

    known, partly: variables that are set when it begins, and the pieces of others. running: leave
    out what stands behind an ``exit`` that surely runs.
    """
    values = {**partly, **{name: ((value, True),) for name, value in known.items()}}
    return _Reader(text, values).read(running)


class _Reader:
    """Walks one tree; holds the variables that are known so far."""

    def __init__(self, text: str, values: Mapping[str, Tuple[Piece, ...]]) -> None:
        """values: the variables that are set when the text begins."""
        self.root, self.data, self.left_out = parsed(text)
        data = text.encode("utf-8", "surrogateescape")
        self.lines = data.split(b"\n")
        self.parsed_lines = self.lines if self.data == data else self.data.split(b"\n")
        self.values = dict(values)
        """Of the variables that are known so far, at least in part."""
        self.arrays: Dict[str, Tuple[ShellWord, ...]] = {}
        self.origins: Dict[str, Tuple[str, ...]] = {}
        """Name -> the variables that its value was made of."""
        self.commands: List[Command] = []
        self.assignments: List[Assignment] = []
        self.loops: List[SourceSpan] = []
        self.written: List[ShellWord] = []
        self.end: Optional[Tuple[int, ...]] = None
        """How many of these there are where the shell surely ends."""
        self.unexported: Dict[str, List[int]] = {}
        """Name -> which of the assignments an ``export`` of that name would export."""
        self.often, self.changing = set_often(self.root)
        self.comments: Set[int] = set()
        self.documents: Set[int] = set()
        self.functions = defined_functions(self.root)
        called = Counter(
            text_of(node)
            for node in (below(self.root) if self.functions else ())
            if node.type == "command_name"
        )
        self.called_once = {name for name in self.functions if called[name] == 1}
        """Functions that are read where they are called, not where they are defined."""

    def read(self, running: bool) -> ShellText:
        """Return what the tree holds; running: without what stands behind a sure ``exit``."""
        self.visit_all(self.root.children, self.root.type, _Where())
        broken = self.root.has_error
        lists = self.commands, self.assignments, self.loops, self.written
        # If the grammar has lost its way, an exit may be in a branch.
        end = self.end if running and not broken else None
        commands, assignments, loops, written = end or tuple(len(each) for each in lists)
        return ShellText(
            tuple(self.commands[:commands]),
            tuple(self.assignments[:assignments]),
            broken,
            frozenset(self.comments),
            tuple(self.placeholders()),
            tuple(self.loops[:loops]),
            tuple(self.written[:written]),
            self.left_out,
            self.commands[commands - 1] if commands < len(self.commands) else None,
            {
                name: (node.start_point[0] + 1, node.end_point[0] + 1)
                for name, node in self.functions.items()
            },
            frozenset(self.documents),
        )

    def placeholders(self) -> Iterator[SourceSpan]:
        """Yield the places where ``<NAME>`` is two redirections."""
        for match in _PLACEHOLDER.finditer(self.data):
            node = self.root.descendant_for_byte_range(match.start(), match.start() + 1)
            parent = None if node is None else node.parent
            if node is None or parent is None or node.type != "<":
                continue
            if parent.type in ("file_redirect", "ERROR"):
                place = self.place(node)
                yield replace(place, end=place.column + len(match[0]))

    def place(self, node: Node) -> SourceSpan:
        """Return where a node begins, and its end on that line."""
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
        if kind == "while_statement":
            self.loops.append(self.place(node))
        if kind == "heredoc_body":
            self.documents.update(range(node.start_point[0] + 1, node.end_point[0] + 2))
            expanded = (child for child in node.children if "expansion" in child.type)
            self.written += [self.word(child, node) for child in expanded]
        if kind == "comment":
            self.comments.add(node.start_point[0] + 1)
        elif kind == "command":
            self.command(node, where)
        elif kind in ("declaration_command", "unset_command"):
            self.declaration(node, where)
        elif kind == "variable_assignment":
            self.assignment(node, where, exported=False)
        elif kind != "function_definition":
            self.visit_all(node.children, kind, where)
        elif self.name_of(node) not in self.called_once:
            before = self.values, self.arrays
            # When it is called, these may have another value.
            self.values = {k: v for k, v in self.values.items() if k not in self.changing}
            self.arrays = {k: v for k, v in self.arrays.items() if k not in self.changing}
            self.visit_all(node.children, kind, where)
            self.values, self.arrays = before

    def name_of(self, function: Node) -> str:
        """Return the name of a function."""
        name = function.child_by_field_name("name")
        return "" if name is None else text_of(name)

    def visit_all(self, children: Sequence[Node], kind: str, where: _Where) -> None:
        """Collect from the parts of a node of some kind."""
        sure, looped = where.sure, where.looped
        captured = where.captured or kind in ("command_substitution", "process_substitution")
        if kind in _LOOPS:
            sure, looped = False, True
        if kind in _CHOICES or captured:
            sure = False
        within = _Where(
            sure=sure,
            looped=looped,
            captured=captured,
            background=where.background and kind != "program",
            depth=where.depth + 1,
            piped=where.piped and kind != "pipeline",
            in_loop=(where.in_loop or kind in _LOOPS) and kind != "function_definition",
            joined=where.joined,
        )
        for number, child in enumerate(children):
            if not child.is_named:
                continue
            below = within
            if number == 0 and kind == "list" and where.sure:
                # `a && b`, `a | b`: the first one surely runs, but for a subshell's variables.
                below = replace(below, sure=True)
            if number > 0 and kind == "pipeline":
                below = replace(below, piped=True)
            if number > 0 and kind == "list":
                test = "[" * _begins_with_a_test(children[0])
                below = replace(below, joined=test + children[number - 1].type)
            if number + 1 < len(children) and children[number + 1].type == "&":
                below = replace(below, background=True)
            self.visit(child, below)

    def command(self, node: Node, where: _Where) -> None:
        """Add a simple command: its words, and what is expanded in them."""
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
                where.piped,
                where.in_loop,
                tuple(self.written_by(node)),
                where.joined,
            )
        )
        self.substitutions(node, where)
        self.forget(words)
        self.note_end(words, where)
        program = words[0].value if words else None
        if program is not None and program in self.called_once:
            body = self.functions[program].child_by_field_name("body")
            if body is not None and where.depth <= _DEEPEST:
                self.visit_all(body.children, body.type, replace(where, depth=where.depth + 1))

    def note_end(self, words: Sequence[ShellWord], where: _Where) -> None:
        """Note that the shell surely ends with a command."""
        name = words[0].value if words else None
        ends = name == "exit" or (name == "exec" and len(words) > 1 and words[1].raw[:1] != "{")
        apart = where.background or where.captured or where.piped or where.looped
        if ends and where.sure and not apart and self.end is None:
            before = len(self.commands), len(self.assignments)
            self.end = (*before, len(self.loops), len(self.written))

    def written_by(self, node: Node) -> Iterator[ShellWord]:
        """Yield the files that ``>`` writes a command's output to."""
        parent = node.parent
        around = [] if parent is None or parent.type != "redirected_statement" else parent.children
        for redirect in (*node.children, *around):
            kinds = [child.type for child in redirect.children]
            if redirect.type == "file_redirect" and kinds[0] in (">", "&>", ">|"):
                yield self.word(redirect.children[-1], redirect)

    def forget(self, words: Sequence[ShellWord]) -> None:
        """Forget the variables that a sourced file may set, which Slurm's are not."""
        name = words[0].value if words else None
        if name not in ("eval", "source", "."):
            return
        file = words[1].text.rpartition("/")[2].lstrip(".") if len(words) > 1 else ""
        if name == "eval" or not INITIALIZES.fullmatch(file):
            self.values = {k: v for k, v in self.values.items() if k.startswith("SLURM_")}
            self.arrays, self.origins = {}, {}

    def substitutions(self, node: Node, where: _Where) -> None:
        """Add the commands within ``$(…)`` of a command's words."""
        if _SUBSTITUTES.search(self.data, node.start_byte, node.end_byte) is None:
            return
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                below = _Where(False, where.looped, True, False, where.depth + 1)
                self.visit(child, below)
            elif where.depth < _DEEPEST:
                deeper = _Where(where.sure, where.looped, where.captured, False, where.depth + 1)
                self.substitutions(child, deeper)

    def declaration(self, node: Node, where: _Where) -> None:
        """Add what ``export A=x B``, ``declare``, ``local``, ``readonly`` set."""
        first = node.children[0].type if node.children else ""
        flags = [text_of(child) for child in node.children if child.type == "word"]
        exported = first == "export" or any(re.match("-[a-zA-Z]*x", flag) for flag in flags)
        for child in node.children:
            if child.type == "variable_assignment":
                self.assignment(child, where, exported)
            elif child.type == "variable_name" and exported:
                for number in self.unexported.pop(text_of(child), ()):
                    self.assignments[number] = replace(self.assignments[number], exported=True)
        self.substitutions(node, where)

    def assignment(self, node: Node, where: _Where, exported: bool) -> None:
        """Add a ``NAME=value``."""
        name_node = node.child_by_field_name("name")
        if name_node is None:
            return
        name, word = text_of(name_node), self.word(node.child_by_field_name("value"), node)
        if not exported:
            self.unexported.setdefault(name, []).append(len(self.assignments))
        self.assignments.append(Assignment(name, word, exported, where.sure, self.place(node)))
        self.origins[name] = word.names[:_MOST_ORIGINS]
        follows = where.sure and name_node.type == "variable_name" and name not in self.often
        self.follow(name, node, word, follows)
        if node.type == "variable_assignment":
            self.substitutions(node, where)

    def follow(self, name: str, node: Node, word: ShellWord, follows: bool) -> None:
        """Note what a variable is from here on."""
        value = node.child_by_field_name("value")
        adds = any(child.type == "+=" for child in node.children)
        pieces = ((self.values.get(name) or ((f"${name}", False),)) if adds else ()) + word.pieces
        items = self.arrays.get(name, ()) if adds else ()
        known_array = not adds or name in self.arrays
        self.values.pop(name, None)
        self.arrays.pop(name, None)
        if not follows or sum(len(text) for text, _ in pieces) > _LONGEST_VALUE:
            return
        if value is not None and value.type == "array":
            for child in value.children:
                if child.is_named and child.type != "comment":
                    items += tuple(self.words(child, child))
            if known_array:
                self.arrays[name] = items
        elif any(known for _, known in pieces) or not pieces:
            self.values[name] = pieces

    def words(self, node: Node, around: Node) -> List[ShellWord]:
        """Return a word of a command, or the words of the variable that it is."""
        written = self.word(node, around)
        if "$" not in written.raw:
            return [written]
        array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}|\"\$\{(\w+)\[@\]\}\"", written.raw)
        items = self.arrays.get(array[1] or array[2]) if array is not None else None
        if items is not None:
            return [replace(item, raw=written.raw, place=written.place) for item in items]
        alone = re.fullmatch(r"\$(\w+)|\$\{(\w+)\}", written.raw)
        pieces = self.values.get(alone[1] or alone[2]) if alone is not None else None
        if pieces is None:
            return [written]
        if written.value is not None and not re.search(r"\s", written.value) and written.value:
            return [written]
        return [replace(written, pieces=tuple(word)) for word in split_words(pieces)]

    def word(self, node: Optional[Node], around: Node) -> ShellWord:
        """Return a word, or the empty value of ``A=``."""
        if node is None:
            return ShellWord("", (), (), self.place(around))
        names: List[str] = []
        pieces: List[Piece] = []
        self.take(node, names, pieces, quoted=False)
        origins = [origin for name in names for origin in self.origins.get(name, ())]
        every = tuple(dict.fromkeys((*names, *origins)))
        return ShellWord(text_of(node), tuple(pieces), every, self.place(node))

    def take(self, node: Node, names: List[str], pieces: List[Piece], *, quoted: bool) -> None:
        """Add the variables and the pieces of a part of a word to the lists."""
        kind, raw = node.type, text_of(node)
        if kind == "raw_string":
            pieces.append((raw[1:-1], True))
        elif kind in ("word", "string_content", "extglob_pattern", "number", "test_operator"):
            pattern = r'\\([$`"\\])' if quoted else r"\\(.)"
            plain = raw
            if "\\" in raw:
                plain = re.sub(pattern, r"\1", raw.replace("\\\n", ""), flags=re.DOTALL)
            # The names of files, or several words.
            pieces.append((plain, quoted or not re.search(r"(?<!\\)[*?\[{]", raw)))
        elif kind in ("string", "concatenation", "translated_string"):
            inside = kind == "string" or quoted
            at = node.start_byte + (1 if kind == "string" else 0)
            for child in node.children:
                if child.type == '"':
                    continue
                # Blanks at the edge of a string belong to no child.
                pieces.append((self.between(at, child.start_byte), True))
                self.take(child, names, pieces, quoted=inside)
                at = child.end_byte
            if kind == "string":
                pieces.append((self.between(at, node.end_byte - 1), True))
        elif kind == "arithmetic_expansion":
            names += self.names(node)
            pieces.append((raw, False))
        else:
            self.expand(node, names, pieces, quoted=quoted)

    def expand(self, node: Node, names: List[str], pieces: List[Piece], *, quoted: bool) -> None:
        """Add a variable, or what only the job knows."""
        kind, raw = node.type, text_of(node)
        braced = re.fullmatch(r"\$\{(\w+)(:?-[^{}]*)?\}", raw) if kind == "expansion" else None
        name = raw[1:] if kind == "simple_expansion" else braced[1] if braced else ""
        names += [name] if kind == "simple_expansion" else self.names(node)
        found = self.values.get(name) if name else None
        default = braced[2] if braced else None
        if found is None or (default and not any(text for text, _ in found)):
            pieces.append((raw, kind == "$" or (not name and not node.is_named)))
            return
        several = not quoted and any(re.search(r"[\s*?\[]", text) for text, _ in found)
        pieces += [(text, known and not several) for text, known in found]

    def names(self, node: Node) -> List[str]:
        """Return the variables in a part of the tree."""
        return [text_of(part) for part in below(node) if part.type == "variable_name"][::-1]

    def between(self, start: int, end: int) -> str:
        """Return the text between two bytes."""
        return self.data[start:end].decode("utf-8", "replace")


def _begins_with_a_test(node: Node) -> bool:
    """Return True if the first of a list of commands is ``[ … ]``."""
    while node.type == "list":
        node = node.children[0]
    return node.type == "test_command"
