"""The shell part of a script: its commands with their words and where they stand.

Read with tree-sitter's grammar of bash. A variable is followed where lines that surely run set it,
as far as the text shows its value. What cannot be known is None, and never guessed.
"""

from __future__ import annotations

import re
import signal as signals
import time
from bisect import bisect_left
from collections import Counter
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from neuronctl.common.frozen import dataclass, field, replace
from neuronctl.scripts.model import SourceSpan

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


UNKNOWN = "\0"
"""Stands for a value that cannot be known."""

_ON_PATH = re.compile(
    r"(?:\$\(|`)\s*(?:which|command -v|type -[pP])\s+(\w[\w.+-]*)\s*(?:2>\s*/dev/null\s*)?[)`]"
)

_NAMED_AFTER = re.compile(
    r"\"?\$\{?(?:[A-Z]+_)*(?:(PY|PYTHON3?)|(TORCHRUN|SRUN|MPIRUN|MPIEXEC))(?:_?(?:BIN|EXE|EXEC|CMD))?"
    r"\}?\"?"
)

Piece = Tuple[str, bool]
"""A part of a word, and whether it is the value; else it is as the script has it."""


@dataclass(frozen=True)
class ShellWord:
    """One word of a command.

    raw: as it is written. pieces: of what the command gets. names: the variables that this shell
    expands in it, and in their values.
    """

    raw: str
    pieces: Tuple[Piece, ...]
    names: Tuple[str, ...]
    place: SourceSpan

    @cached_property
    def text(self) -> str:
        """What a shell reads that gets it as ``bash -c TEXT``; what is not known is as written."""
        return "".join(text for text, _ in self.pieces)

    @cached_property
    def value(self) -> Optional[str]:
        """What the command gets, None where that cannot be known."""
        return self.text if all(known for _, known in self.pieces) else None

    @cached_property
    def outline(self) -> str:
        """The value with UNKNOWN for each part that cannot be known: ``--np=`` UNKNOWN."""
        return "".join(text if known else UNKNOWN for text, known in self.pieces)

    @cached_property
    def on_path(self) -> str:
        """The program whose file is looked for: ``$(which python)``; "" where it is none."""
        found = _ON_PATH.fullmatch(self.text) if self.value is None else None
        return found[1] if found is not None else ""

    @cached_property
    def by_name(self) -> str:
        """The program that a variable is named after: ``$PYTHON_BIN``; "" where it is none."""
        name = _NAMED_AFTER.fullmatch(self.raw) if self.value is None else None
        return "" if name is None else "python" if name[1] else name[2].lower()

    @cached_property
    def basename(self) -> str:
        """The name of a file without its directory, which may be unknown; "" where it is not."""
        if self.on_path or self.by_name:
            return self.on_path or self.by_name
        _, slash, name = self.outline.rpartition("/")
        known = UNKNOWN not in name and (slash or self.value is not None)
        return name if known else ""

    @property
    def may_be_several(self) -> bool:
        """Whether it may expand to no word, or to more than one."""
        quoted = self.raw.startswith(('"', "'"))
        return self.value is None and not quoted and not (self.on_path or self.by_name)


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
    its output is the value of something. piped: it reads what the command before it writes.
    in_loop: it is in a loop, and in no function. joined: ``&&`` or ``||`` where it depends on what
    stands before that, behind ``[`` where that begins with a test.
    """

    words: Tuple[ShellWord, ...]
    assigned: Tuple[Assignment, ...]
    place: SourceSpan
    background: bool
    sure: bool
    looped: bool
    captured: bool
    piped: bool = False
    in_loop: bool = False
    writes: Tuple[ShellWord, ...] = ()
    joined: str = ""

    @cached_property
    def name(self) -> str:
        """Without its directory; "" where it is not known."""
        return self.words[0].basename if self.words else ""

    @cached_property
    def arguments(self) -> Tuple[Optional[str], ...]:
        """The values of the words behind the first."""
        return tuple(word.value for word in self.words[1:])


@dataclass(frozen=True)
class Loop:
    """A ``while`` or ``until``. asks, does: the commands of its condition and of its body.

    until: whether it goes on while the condition fails. counts: whether something in it counts.
    ends: whether it may end by itself. background: it ends with ``&``.
    """

    place: SourceSpan
    until: bool
    asks: Tuple[str, ...]
    does: Tuple[str, ...]
    counts: bool
    ends: bool
    background: bool


_ERREXIT = re.compile(r"-[a-zA-Z]*e[a-zA-Z]*|errexit")


@dataclass(frozen=True)
class ShellText:
    """What a shell runs.

    broken: the first place that is not bash, None where all of it is. comments: the lines that
    begin with a comment of the shell's, and not of a here-document's. placeholders: each
    ``<NAME>``, which bash takes for redirections. written: the variables that are expanded in
    here-documents. left_out: the first line that would take the grammar too long; 0: none. ends:
    the ``exit`` behind which nothing runs, or the ``exec``. dead: the commands behind it, which
    are not among the others. functions: the first and the last line of each.
    """

    commands: Tuple[Command, ...]
    assignments: Tuple[Assignment, ...]
    broken: Optional[SourceSpan]
    comments: FrozenSet[int]
    placeholders: Tuple[SourceSpan, ...] = ()
    loops: Tuple[Loop, ...] = ()
    written: Tuple[ShellWord, ...] = ()
    left_out: int = 0
    ends: Optional[Command] = None
    dead: Tuple[Command, ...] = ()
    functions: Mapping[str, Tuple[int, int]] = field(default_factory=dict)

    def assigned(self, name: str) -> Tuple[Assignment, ...]:
        """Every place that sets a variable."""
        return tuple(self._by_name.get(name, ()))

    @cached_property
    def _by_name(self) -> Dict[str, List[Assignment]]:
        found: Dict[str, List[Assignment]] = {}
        for assignment in self.assignments:
            found.setdefault(assignment.name, []).append(assignment)
        return found

    @cached_property
    def uncaptured(self) -> Tuple[Command, ...]:
        """The commands, without those whose output is the value of something."""
        return tuple(command for command in self.commands if not command.captured)

    @cached_property
    def every_assignment(self) -> Tuple[Assignment, ...]:
        """Those of the shell's own variables, and those before a command."""
        before = (variable for command in self.commands for variable in command.assigned)
        return (*self.assignments, *before)

    @cached_property
    def errexit(self) -> Tuple[Command, ...]:
        """The commands that end the shell where a command fails: ``set -e``."""
        return tuple(
            command
            for command in self.calls("set")
            if any(word and _ERREXIT.fullmatch(word) for word in command.arguments)
        )

    @property
    def exported(self) -> Dict[str, Tuple[Piece, ...]]:
        """What the shells that it starts know of the variables that it sets once."""
        return {
            variable.name: variable.word.pieces
            for variable in self.assignments
            if variable.exported and variable.sure and len(self.assigned(variable.name)) == 1
        }

    def calls(self, *names: str) -> Tuple[Command, ...]:
        """The commands of these names."""
        found = [at for name in set(names) for at in self._numbers.get(name, ())]
        return tuple(self.commands[at] for at in sorted(found))

    @cached_property
    def _numbers(self) -> Dict[str, List[int]]:
        """Name -> which of the commands have it."""
        found: Dict[str, List[int]] = {}
        for at, command in enumerate(self.commands):
            found.setdefault(command.name, []).append(at)
        return found

    def traps(self, name: str) -> Tuple[Command, ...]:
        """The traps for a signal; those whose signals are not known count for every one.

        name: "" for any signal, which what the shell itself tells is not, such as its EXIT.
        """
        number = getattr(signals, f"SIG{name}", None) if name else None
        spelled = {name, f"SIG{name}", *([] if number is None else [str(int(number))])}

        def is_meant(word: Optional[str]) -> bool:
            if word is None or name:
                return word is None or word.upper() in spelled
            return word.upper() not in ("EXIT", "0", "ERR", "DEBUG", "RETURN")

        return tuple(
            command for command in self.calls("trap") if any(map(is_meant, command.arguments[1:]))
        )


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


_SUBSTITUTES = re.compile(rb"[`(]")
_HANDED_ON = re.compile(r"\bdeclare -f (\w+(?: \w+)*)")
_DECLARED = re.compile(r"\$\(declare -f (\w+(?: \w+)*) ?\)")
_SETTERS = ("read", "mapfile", "readarray", "getopts", "printf")
_COUNTING = ("variable_assignment", "test_command", "binary_expression", "postfix_expression")
_ENDS_A_LOOP = frozenset(("break", "exit", "return", "exec", "kill"))
_LOOPS = ("while_statement", "for_statement", "c_style_for_statement", "function_definition")
_CHOICES = ("if_statement", "case_statement", "list", "pipeline", "subshell", "ternary_expression")
_DEEPEST = 150
"""Levels of nesting to look into; nobody's script has as many."""
_MOST_ORIGINS = 100
"""Variables that a value may be made of; of a chain of thousands, each would have all before it."""
_LONGEST_VALUE = 1000
"""Characters of a variable's value that is followed."""
INITIALIZES = re.compile(r"activate|(conda|mamba|profile|bashrc|bash|modules|lmod)(\.sh)?")
"""Files that change no variable of the script's: their names, without a leading dot."""

_PLACEHOLDER = re.compile(
    rb"<([A-Za-z][A-Za-z0-9_ -]{0,60}|[^<>\s]{0,60}(path|your|name|here)[^<>\s]{0,60})>"
    rb"(?![A-Za-z0-9(>&])"
)

_parser: Optional[Parser] = None


def read_shell(
    text: str,
    known: Mapping[str, str] = {},
    *,
    partly: Mapping[str, Tuple[Piece, ...]] = {},
    split: bool = True,
    running: bool = False,
) -> ShellText:
    """Read shell text.

    known, partly: variables that are set when it begins, and the pieces of others. split: whether
    ``$NAME`` is as many words as its value has; else it is one, of an unknown value. running:
    whether what stands behind an ``exit`` that surely runs is left out.
    """
    root, data, left_out = _parsed(text)
    values = {**partly, **{name: ((value, True),) for name, value in known.items()}}
    reader = _Reader(text.encode("utf-8", "surrogateescape"), data, values, split)
    return reader.read(root, left_out, running)


def syntax_tree(text: str) -> Node:
    """What the grammar of bash makes of shell text.

    It misreads ``$A/$B/c``, so that the tree is then that of ``$A/${B}/c``.
    """
    return _parsed(text)[0]


_VARIABLE = re.compile(rb"(?<!\\)\$([A-Za-z_][A-Za-z0-9_]*|[0-9])")
_REST_OF_WORD = re.compile(rb"[^\s\"'`();|&<>]*")
_MOST_ROUNDS = 4


def _parsed(text: str) -> Tuple[Node, bytes, int]:
    """The tree of shell text, the text that it is of, and the first line that is left out, or 0.

    The grammar (0.25) ends a word at the second variable of ``$A/$B/c``, behind its dollar. In
    braces it is read as it should be; no line becomes another.
    """
    # Over NUL, which bash leaves out, the grammar would take hours.
    data = text.replace("\0", " ").encode("utf-8", "surrogateescape")
    whole = len(data)
    root, data = _tree(data)
    left_out = 0 if len(data) == whole else data.count(b"\n") + 1
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
        whole = len(data)
        root, data = _tree(data)
        left_out = left_out if len(data) == whole else data.count(b"\n") + 1
    return root, data, left_out


def _is_cut(root: Node, at: int) -> bool:
    node = root.descendant_for_byte_range(at, at + 1)
    parent = None if node is None else node.parent
    within = parent is not None and parent.type == "concatenation"
    return within and node is not None and node.type == "$"


_SECONDS = 1.0
"""CPU time for a text, of which a script of a thousand lines takes 0.05 s: over some, such as many
redirections without a command, the grammar's time is in proportion to the square of the length."""
_PART = 4096
"""Bytes of a text that the grammar gets at once; a shorter one takes it less than a second."""


def _tree(data: bytes) -> Tuple[Node, bytes]:
    """The tree of a text, or of as many of its first lines as the grammar reads in time; those."""
    global _parser
    if _parser is None:
        import tree_sitter
        import tree_sitter_bash

        _parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    harmless = _harmless(data)
    if len(data) < _PART:
        return _or_without_documents(_parser.parse(harmless).root_node, harmless), data
    until, over = time.process_time() + _SECONDS, False

    def part(at: int, _: object) -> bytes:
        nonlocal over
        over = over or time.process_time() > until
        return b"" if over else harmless[at : at + _PART]

    tree = _parser.parse(part)
    if over:
        end = data.rfind(b"\n", 0, min(tree.root_node.end_byte, len(data) // 2)) + 1
        return _tree(data[:end])
    # Before tree-sitter 0.25, the nodes of a text in parts do not have theirs.
    return _or_without_documents(_parser.parse(harmless, tree).root_node, harmless), data


_DOCUMENT = re.compile(rb"""(?<!<)<<(-?)[ \t]*(?:'([^'\n]+)'|"([^"\n]+)"|\\?(\w+))""")


def _or_without_documents(root: Node, data: bytes) -> Node:
    """The tree of a text, or where it has a mistake and that has none: without some documents."""
    plain = _without_documents(data) if root.has_error else data
    if plain == data:
        return root
    other, read = _tree(plain)
    return root if other.has_error or len(read) < len(data) else other


def _without_documents(data: bytes) -> bytes:
    """Blanks in place of the here-documents whose line goes on.

    The grammar (0.25) misreads ``cat <<A || {``, ``if cat <<A; then`` and ``cat <<A - <<B``.
    """
    lines = data.split(b"\n")
    # Where each line stands, as it is and without the tabs that "<<-" passes over.
    stands: Tuple[Dict[bytes, List[int]], Dict[bytes, List[int]]] = ({}, {})
    for number, line in enumerate(lines):
        stands[False].setdefault(line, []).append(number)
        stands[True].setdefault(line.lstrip(b"\t"), []).append(number)
    at = 0
    while at < len(lines):
        first, at = at, at + 1
        found = [*_DOCUMENT.finditer(lines[first])]
        while found and lines[at - 1].endswith(b"\\") and at < len(lines):
            at += 1
        body, ends = at, at
        for document in found:
            numbers = stands[bool(document[1])].get(document[2] or document[3] or document[4], [])
            later = bisect_left(numbers, ends)
            ends = numbers[later] + 1 if later < len(numbers) else len(lines) + 1
        if not found or ends > len(lines):
            continue
        at = ends
        if lines[first][found[-1].end() :].strip() or len(found) > 1:
            lines[first] = _DOCUMENT.sub(lambda match: b" " * len(match[0]), lines[first])
            lines[body:ends] = [b" " * len(line) for line in lines[body:ends]]
    return b"\n".join(lines)


_BEHIND_BRACE = re.compile(
    rb"(\{[0-9]*(?:\.\.[0-9]*)?)"
    rb"([\xc4-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
)


def _harmless(data: bytes) -> bytes:
    """The text with as many bytes in place of what may crash this process, or is misread.

    The grammar's scanner (0.25.1) passes whatever character follows a brace to C's isdigit(), which
    above U+00FF reads memory beyond its table: a segmentation fault may follow. To it, the remark
    in `` `# so` `` goes on to the end of the line; for bash, it ends at the backquote.
    """
    data = _BEHIND_BRACE.sub(lambda match: match[1] + _LETTERS[len(match[2])], data)
    if data.rstrip(b"\n").endswith(b"\\"):  # goes on, and there is no more
        data = data.rstrip(b"\n")[:-1] + b" " * (len(data) - len(data.rstrip(b"\n")) + 1)
    return _REMARK.sub(lambda match: b"`:" + b" " * (len(match[0]) - 3) + b"`", data)


_REMARK = re.compile(rb"(?<![\\`'\"])`#[^`\n]*`")
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
    if line.isascii():
        return min(byte, len(line))
    return len(line[:byte].decode("utf-8", "surrogateescape"))


def _before(line: bytes, parsed: bytes, column: int) -> int:
    """The byte of a line that is at a column of the line with braces."""
    at = 0
    for byte in parsed[:column]:
        at += at < len(line) and line[at] == byte
    return at


class _Reader:
    """Walks one tree; holds the variables that are known so far."""

    def __init__(
        self, text: bytes, data: bytes, values: Mapping[str, Tuple[Piece, ...]], split: bool
    ) -> None:
        """text: the file's; data: what the tree is of."""
        self.data = data
        self.lines = text.split(b"\n")
        self.parsed_lines = self.lines if data == text else data.split(b"\n")
        self.values = dict(values)
        """Of the variables that are known so far, at least in part."""
        self.arrays: Dict[str, Tuple[ShellWord, ...]] = {}
        self.origins: Dict[str, Tuple[str, ...]] = {}
        """Name -> the variables that its value was made of."""
        self.split = split
        self.commands: List[Command] = []
        self.assignments: List[Assignment] = []
        self.loops: List[Loop] = []
        self.written: List[ShellWord] = []
        self.end: Optional[Tuple[int, ...]] = None
        """How many of these there are where the shell surely ends."""
        self.unexported: Dict[str, List[int]] = {}
        """Name -> which of the assignments an ``export`` of that name would export."""
        self.often: Set[str] = set()
        self.changing: Set[str] = set()
        self.comments: Set[int] = set()
        self.root: Node
        self.variables: Optional[List[Tuple[int, str]]] = None
        """Where each variable's name stands in the tree, once that is asked for."""
        self.functions: Dict[str, Node] = {}
        self.called_once: Set[str] = set()
        """Functions that are read where they are called, not where they are defined."""
        self.handed_on: Set[str] = set()
        """Functions whose text another bash gets: ``bash -c "$(declare -f NAME); NAME"``."""

    def read(self, root: Node, left_out: int, running: bool) -> ShellText:
        """What the tree holds."""
        self.root = root
        self.often, self.changing = _set_often(root)
        self.note_functions(root)
        self.visit_all(root.children, root.type, _Where())
        astray = (
            command.place
            for command in self.commands
            if command.words and command.words[0].raw in _CLOSING
        )
        found = [self.place(mistake) for mistake in _mistakes(root)]
        broken = min((*found, *astray), key=lambda place: (place.line, place.column), default=None)
        comments = frozenset(self.comments)
        unfilled = tuple(self.placeholders(root))
        # Where the grammar has lost its way, an exit may be in a branch.
        lists = self.commands, self.assignments, self.loops, self.written
        end = self.end if running and not broken else None
        whole = tuple(len(each) for each in lists) if end is None else end
        commands, assignments, loops, written = map(slice, whole)
        dead = tuple(self.commands[whole[0] :])
        ends = self.commands[whole[0] - 1] if dead else None
        shown = tuple(self.commands[commands]), tuple(self.assignments[assignments])
        others = tuple(self.loops[loops]), tuple(self.written[written])
        own = {
            name: (node.start_point[0] + 1, node.end_point[0] + 1)
            for name, node in self.functions.items()
        }
        return ShellText(*shown, broken, comments, unfilled, *others, left_out, ends, dead, own)

    def placeholders(self, root: Node) -> Iterator[SourceSpan]:
        """Where ``<NAME>`` is two redirections."""
        for match in _PLACEHOLDER.finditer(self.data):
            node = root.descendant_for_byte_range(match.start(), match.start() + 1)
            parent = None if node is None else node.parent
            if node is None or parent is None or node.type != "<":
                continue
            if parent.type in ("file_redirect", "ERROR"):
                place = self.place(node)
                yield replace(place, end=place.column + len(match[0]))

    def note_functions(self, root: Node) -> None:
        """Find the functions, and who calls them."""
        for node in root.children:
            name = node.child_by_field_name("name")
            if node.type == "function_definition" and name is not None:
                self.functions[text_of(name)] = node
        if not self.functions:
            return
        for names in _HANDED_ON.findall(self.data.decode("utf-8", "replace")):
            self.handed_on.update(names.split())
        called = Counter(text_of(node) for node in below(root) if node.type == "command_name")
        self.called_once = {name for name in self.functions if called[name] == 1}

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
        if kind == "while_statement":
            self.loops.append(self.loop(node, where))
        if kind == "heredoc_body":
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
        elif not self.is_read_elsewhere(node):
            before = self.values, self.arrays
            # When it is called, these may have another value.
            self.values = {k: v for k, v in self.values.items() if k not in self.changing}
            self.arrays = {k: v for k, v in self.arrays.items() if k not in self.changing}
            self.visit_all(node.children, kind, where)
            self.values, self.arrays = before

    def loop(self, node: Node, where: _Where) -> Loop:
        """A loop with a condition."""
        body = node.child_by_field_name("body")
        parts = [child for child in node.children if child.is_named]
        within = [child for part in parts if part != body for child in below(part)]
        inner = [] if body is None else [*below(body)]
        negated = any(child.type == "negated_command" for child in within)
        asks = tuple(text_of(child) for child in within if child.type == "command_name")
        does = tuple(text_of(child) for child in inner if child.type == "command_name")
        until = (node.children[0].type == "until") != negated
        always = asks == ("false",) if until else asks in (("true",), (":",))
        return Loop(
            self.place(node),
            until,
            asks,
            does,
            any(child.type in _COUNTING for child in (*within, *inner)),
            not always or not _ENDS_A_LOOP.isdisjoint(does),
            where.background,
        )

    def is_read_elsewhere(self, function: Node) -> bool:
        name = function.child_by_field_name("name")
        text = None if name is None else text_of(name)
        return text in self.called_once or text in self.handed_on

    def visit_all(self, children: Sequence[Node], kind: str, where: _Where) -> None:
        """Collect from the parts of a node of some kind."""
        sure, looped = where.sure, where.looped
        captured = where.captured or kind in ("command_substitution", "process_substitution")
        if kind in _LOOPS:
            sure, looped = False, True
        # The grammar has what follows `<<END` on its line within it: `cat <<END || exit`.
        chosen = kind == "heredoc_redirect" and any(each.type in ("&&", "||") for each in children)
        if kind in _CHOICES or captured or chosen:
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
        if program is not None and program in self.called_once and program not in self.handed_on:
            body = self.functions[program].child_by_field_name("body")
            if body is not None and where.depth <= _DEEPEST:
                self.visit_all(body.children, body.type, replace(where, depth=where.depth + 1))

    def note_end(self, words: Sequence[ShellWord], where: _Where) -> None:
        """See whether the shell surely ends with a command."""
        name = words[0].value if words else None
        ends = name == "exit" or (name == "exec" and len(words) > 1 and words[1].raw[:1] != "{")
        apart = where.background or where.captured or where.piped or where.looped
        if ends and where.sure and not apart and self.end is None:
            before = len(self.commands), len(self.assignments)
            self.end = (*before, len(self.loops), len(self.written))

    def written_by(self, node: Node) -> Iterator[ShellWord]:
        """The files that ``>`` gives a command's output to."""
        parent = node.parent
        around = [] if parent is None or parent.type != "redirected_statement" else parent.children
        for redirect in (*node.children, *around):
            kinds = [child.type for child in redirect.children]
            if redirect.type == "file_redirect" and kinds[0] in (">", "&>", ">|"):
                yield self.word(redirect.children[-1], redirect)

    def forget(self, words: Sequence[ShellWord]) -> None:
        """What a sourced file sets cannot be known; Slurm's variables are no such file's."""
        name = words[0].value if words else None
        if name not in ("eval", "source", "."):
            return
        file = words[1].text.rpartition("/")[2].lstrip(".") if len(words) > 1 else ""
        if name == "eval" or not INITIALIZES.fullmatch(file):
            self.values = {k: v for k, v in self.values.items() if k.startswith("SLURM_")}
            self.arrays, self.origins = {}, {}

    def substitutions(self, node: Node, where: _Where) -> None:
        """The commands within ``$(…)`` of a command's words."""
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
        """``export A=x B``, ``declare``, ``local``, ``readonly``, ``unset``."""
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
        """``NAME=value``."""
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
        """A word of a command, or those of the variable that it is."""
        written = self.word(node, around)
        if "$" not in written.raw:
            return [written]
        array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}|\"\$\{(\w+)\[@\]\}\"", written.raw)
        items = self.arrays.get(array[1] or array[2]) if array is not None else None
        if items is not None and self.split:
            return [replace(item, raw=written.raw, place=written.place) for item in items]
        alone = re.fullmatch(r"\$(\w+)|\$\{(\w+)\}", written.raw)
        pieces = self.values.get(alone[1] or alone[2]) if alone is not None else None
        if pieces is None or not self.split:
            return [written]
        if written.value is not None and not re.search(r"\s", written.value) and written.value:
            return [written]
        return [replace(written, pieces=tuple(word)) for word in _split(pieces)]

    def word(self, node: Optional[Node], around: Node) -> ShellWord:
        """A word, or the empty value of ``A=``."""
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
            result = self.arithmetic(node)
            pieces.append((raw, False) if result is None else (str(result), True))
        else:
            self.expand(node, names, pieces, quoted=quoted)

    def expand(self, node: Node, names: List[str], pieces: List[Piece], *, quoted: bool) -> None:
        """A variable, or what only the job knows."""
        kind, raw = node.type, text_of(node)
        braced = re.fullmatch(r"\$\{(\w+)(:?-[^{}]*)?\}", raw) if kind == "expansion" else None
        name = raw[1:] if kind == "simple_expansion" else braced[1] if braced else ""
        names += [name] if kind == "simple_expansion" else self.names(node)
        declared = _DECLARED.fullmatch(raw)
        if declared is not None:
            bodies = (self.functions.get(each) for each in declared[1].split())
            text = "\n".join(text_of(body) for body in bodies if body is not None)
            pieces.append((text, False))
            return
        found = self.values.get(name) if name else None
        default = braced[2] if braced else None
        if found is None or (default and not any(text for text, _ in found)):
            pieces.append((raw, kind == "$" or (not name and not node.is_named)))
            return
        several = not quoted and any(re.search(r"[\s*?\[]", text) for text, _ in found)
        pieces += [(text, known and not several) for text, known in found]

    def arithmetic(self, node: Node) -> Optional[int]:
        """The result of ``$((A * 2))``, None where it cannot be known."""
        kind, text = node.type, text_of(node)
        parts = [child for child in node.children if child.is_named]
        if kind in ("arithmetic_expansion", "parenthesized_expression") and len(parts) == 1:
            return self.arithmetic(parts[0])
        if kind in ("variable_name", "simple_expansion", "expansion"):
            found = self.values.get(text.strip("${}"), ())
            kind, text = "number", "".join(each if known else "?" for each, known in found)
        if kind == "number":
            return int(text) if re.fullmatch("0|[1-9][0-9]{0,8}", text) else None
        if kind != "binary_expression" or len(parts) != 2:
            return None
        left, right = self.arithmetic(parts[0]), self.arithmetic(parts[1])
        operator = next((text_of(child) for child in node.children if not child.is_named), "")
        if left is None or right is None or (operator in "/%" and not right):
            return None
        results = {"+": left + right, "-": left - right, "*": left * right}
        if operator in ("/", "%"):
            return left // right if operator == "/" else left % right
        return results.get(operator)

    def names(self, node: Node) -> List[str]:
        """The variables in a part of the tree, whose parts may be asked for in turn."""
        if self.variables is None:
            found = (part for part in below(self.root) if part.type == "variable_name")
            self.variables = sorted((part.start_byte, text_of(part)) for part in found)
        first = bisect_left(self.variables, (node.start_byte, ""))
        last = bisect_left(self.variables, (node.end_byte, ""))
        return [name for _, name in self.variables[first:last]]

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
        part = waiting.pop()
        yield part
        waiting += part.children


def _begins_with_a_test(node: Node) -> bool:
    """Whether the first of a list of commands is ``[ … ]``."""
    while node.type == "list":
        node = node.children[0]
    return node.type == "test_command"


def _split(pieces: Iterable[Piece]) -> List[List[Piece]]:
    """The words that an unquoted variable of this value is."""
    words: List[List[Piece]] = []
    joined = False
    for text, known in pieces:
        if not known:
            words[-1:] = [[*words[-1], (text, False)]] if joined else [*words[-1:], [(text, False)]]
            joined = True
            continue
        for part in re.findall(r"\s+|\S+", text):
            if part.isspace():
                joined = False
                continue
            piece = (part, not re.search(r"[*?\[\\]", part))  # else the names of files
            if joined:
                words[-1].append(piece)
            else:
                words.append([piece])
            joined = True
    return words


def _set_often(root: Node) -> Tuple[Set[str], Set[str]]:
    """Variables whose value at another line cannot be told, and those that are set several times.

    The former are set by a loop or a command, or in places that need not run one after the other.
    """
    once: Set[str] = set()
    several: Set[str] = set()
    often: Set[str] = set()
    within: Set[str] = set()
    for node in below(root):
        kind = node.type
        names: List[str] = []
        if kind == "variable_assignment":
            name = node.child_by_field_name("name")
            in_front = node.parent is not None and node.parent.type == "command"
            if name is not None and not in_front:  # `A=x command` leaves A as it is
                names = [text_of(name)]
                within.update(() if _at_top(node) else names)
        elif kind in ("for_statement", "c_style_for_statement", "unset_command"):
            often.update(text_of(child) for child in node.children if child.type == "variable_name")
        elif kind == "command":
            words = [child for child in node.children if child.is_named]
            if words and text_of(words[0]) in _SETTERS:
                often.update(word for word in map(text_of, words[1:]) if word.isidentifier())
        for name_text in names:
            (several if name_text in once else once).add(name_text)
    return often | (several & within), several


def _at_top(node: Node) -> bool:
    """Whether it is a line of its own, and not within a command of several lines."""
    parent = node.parent
    while parent is not None and parent.type in ("declaration_command", "variable_assignments"):
        parent = parent.parent
    return parent is not None and parent.type == "program"
