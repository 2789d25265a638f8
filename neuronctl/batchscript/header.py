"""The ``#SBATCH`` lines of a script, as sbatch reads them.

sbatch reads a script's lines from the top to the first one that is neither blank nor a comment,
splits those that begin with ``#SBATCH`` into words by a grammar of its own (neither the shell's
nor getopt's), puts all words of all lines into one list and gives that to getopt_long. After it
come the variables ``SBATCH_*`` and the command line, each over what was before.

``tests/slurm/test_script_header.py`` compares this with what sbatch makes of the same files.
"""

from __future__ import annotations

import os
import re
from functools import cached_property, partial
from typing import Dict, FrozenSet, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.batchscript.find import MAX_BYTES
from neuronctl.batchscript.values import ACCUMULATED, check_value, digits, excluding
from neuronctl.files import open_regular
from neuronctl.frozen import dataclass, replace
from neuronctl.sbatch_options import (
    EARLY,
    NO_VALUE,
    OPTIONAL_VALUE,
    RENAMED,
    SBATCH,
    GetoptError,
    Known,
    Parsed,
    getopt_with_plugins,
    variables,
)
from neuronctl.words import DASHES, other_dash

BLANKS = " \t\n\v\f\r"
"""What C's isspace() takes for a blank: no other characters, such as a no-break space."""

DIRECTIVE = ("#SBATCH", "#SLURM")

SCRIPT, COMMAND_LINE = "script", "command line"

# Why a line or a part of one has no effect.
AFTER_COMMAND = "after the first command"
MISSPELLED = "not spelled #SBATCH"
REMARK = "in a remark"
CUT = "behind what ends the line for sbatch"
OVERRIDDEN = "overridden"
EARLY_ONLY = "read on the command line only"


@dataclass(frozen=True)
class Place:
    """Where a text stands: line and columns, counted from 1, ``end`` one past its last column.

    Line 0: not in the script.
    """

    line: int
    column: int = 1
    end: int = 1


NOWHERE = Place(0)


@dataclass(frozen=True)
class Edit:
    """What belongs into a place of the file instead; into an empty place, what is missing there."""

    place: Place
    text: str


@dataclass(frozen=True)
class Given:
    """One option as it was given.

    name: the long name, whatever the spelling. value: None without one. source: SCRIPT, or the
    variable's name, or COMMAND_LINE. place: from the option's first to its value's last character
    on its line; value_place: of the word with the value.
    """

    name: str
    value: Optional[str]
    source: str = SCRIPT
    place: Place = NOWHERE
    value_place: Place = NOWHERE

    @property
    def text(self) -> str:
        """``--name=value``, as sbatch's command line takes it."""
        return f"--{self.name}" if self.value is None else f"--{self.name}={self.value}"


@dataclass(frozen=True)
class Ignored:
    """What sbatch does not read, or reads without effect, and why: one of the constants above.

    instead: of an option that is overridden, what overrides it.
    """

    why: str
    text: str
    place: Place
    instead: Optional[Given] = None


@dataclass(frozen=True)
class Refusal:
    """Why sbatch refuses the script. whole: not for a directive, but for the file as it is.

    about: the options whose values are not known for it. edits: what mends it, where there is
    exactly one way; the script is then read as if it were mended.
    """

    message: str
    place: Place
    hint: str = ""
    whole: bool = False
    about: Tuple[str, ...] = ()
    edits: Tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Header:
    """What sbatch reads of a script.

    given: every option in the order in which sbatch takes it; what it refuses is left out.
    refusals: empty where sbatch's own reading succeeds (slurmctld may still refuse the job), else
    at most one for each line. foreign: lines of other schedulers, which
    sbatch translates. components: 1, or how many a heterogeneous job has, of which ``given`` is the
    first. first_command: the line that ends the directives, one past the last where there is none.
    left_out: the first line that is not read, because there is more than any script has; 0: none.
    """

    given: Tuple[Given, ...]
    refusals: Tuple[Refusal, ...]
    ignored: Tuple[Ignored, ...]
    foreign: Tuple[Place, ...]
    components: int
    first_command: int
    shebang: str
    left_out: int = 0

    @cached_property
    def options(self) -> Mapping[str, Given]:
        """Name -> what holds of it, in the end."""
        found: Dict[str, Given] = {}
        for one in self.given:
            for name in excluding(one.name):
                found.pop(name, None)
            before = found.get(one.name)
            if before is not None and one.name in ACCUMULATED and one.value is not None:
                both = f"{before.value},{one.value}"
                one = replace(one, value=both)
            found[one.name] = one
        return found

    @property
    def unread(self) -> FrozenSet[str]:
        """The options that the script may give, with values that are not known."""
        if self.left_out and self.left_out < self.first_command:
            return frozenset(_EVERY)
        return frozenset(name for one in self.refusals for name in one.about)

    def value(self, name: str) -> Optional[str]:
        """The value that holds of an option; None where it is not given, or has none."""
        one = self.options.get(name)
        return None if one is None else one.value

    def count(self, name: str) -> Optional[int]:
        """The number at the end of an option's value: 2 of ``a100:2``; None where there is none."""
        return digits((self.value(name) or "").rpartition(":")[2])


@dataclass(frozen=True)
class _Word:
    text: str
    place: Place


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


def read_header(
    text: str,
    *,
    environment: Mapping[str, str] = {},
    command_line: Sequence[str] = (),
) -> Header:
    """Read a script as ``sbatch COMMAND_LINE script`` would in that environment.

    text: the file's; bytes that are not UTF-8 as surrogates. Every option that any release of Slurm
    has is taken.
    """
    refusals: List[Refusal] = _whole_file(text)
    others: List[List[Given]] = []
    if refusals:
        text = "" if is_too_long(text) else text.replace("\r\n", "\n")
        # As many characters, so that each place is the file's own.
        text = re.sub("\\A\ufeff+", lambda mark: " " * len(mark[0]), text)
    lines = beginning(text).split("\n")
    first_command = _first_command(lines)
    left_out = len(lines) if len(beginning(text)) < len(text) else 0
    read = _first_too_many(lines[: first_command - 1])
    if read < first_command - 1:
        left_out = read + 1
    directives = _Directives(lines[:read])
    given, following, ignored = directives.read(-1, refusals)
    while following is not None:
        component, following, _ = directives.read(following, refusals)
        others.append(component)
    added, unset = _from_environment(environment, refusals)
    given = [one for one in given if one.name not in unset] + added
    outside: List[Given] = []
    try:
        outside += [
            Given(one.known.name, one.value, COMMAND_LINE)
            for one in getopt_with_plugins(command_line, SBATCH)[0]
            if one.known.name not in EARLY
        ]
        _check(outside)
    except GetoptError as error:
        refusals.append(Refusal(str(error), NOWHERE, about=_EVERY))
    except _Refused as error:
        refusals.append(error.refusal)
    given += outside
    for component_given in (given, *([*one, *outside] for one in others)):
        refusals += _contradictions(component_given)
    chosen = _typed(given, _MEMORY)
    if chosen:  # the script's own memory option wins over another one of the environment
        given = [one for one in given if one.name not in _MEMORY or one.name in chosen]
    foreign = tuple(
        Place(number, 1, len(line) + 1)
        for number, line in enumerate(lines, 1)
        if line.startswith(("#PBS", "#BSUB"))
    )
    if any(one.name == "ignore-pbs" for one in given):
        foreign = ()
    ignored += _unread(lines, first_command)
    ignored += _overridden(given)
    return Header(
        tuple(given),
        tuple(refusals),
        tuple(sorted(ignored, key=lambda one: (one.place.line, one.place.column))),
        foreign,
        1 + len(others),
        first_command,
        lines[0][2:].strip() if lines[0].startswith("#!") else "",
        left_out,
    )


def read_command(
    words: Sequence[Tuple[str, Place]], table: Tuple[Known, ...]
) -> Tuple[Header, int]:
    """The options at the beginning of a command line, and the index of the word behind them.

    table: the options of the command, SALLOC or another.
    """
    own = [_Word(text, place) for text, place in words]
    refusals: List[Refusal] = []
    given: List[Given] = []
    end = len(own)
    try:
        parsed, end = _getopt(own, table)
        given, _ = _given(parsed, own)
        _check(given)
    except _Refused as error:
        refusals.append(error.refusal)
    refusals += _contradictions(given)
    return Header(tuple(given), tuple(refusals), tuple(_overridden(given)), (), 1, 2, ""), end


# ------------------------------------------------------------------------ the file


def _whole_file(text: str) -> List[Refusal]:
    """Why sbatch refuses the file whatever its directives say."""
    refusal = partial(Refusal, whole=True)
    if is_too_long(text):
        message = f"it has more than {MAX_BYTES:,} bytes, which is Slurm's limit (max_script_size)"
        hint = "leave the data out: let the script read them from another file"
        return [refusal(message, Place(1), hint, about=_EVERY)]
    if not text.strip(BLANKS):
        what = "contains only blanks" if text else "is empty"
        return [refusal(f"the script {what}", Place(1))]
    found: List[Refusal] = []
    lines = text.split("\n")
    plain = text.lstrip("\ufeff")
    if plain != text:
        mark = Place(1, 1, len(text) - len(plain) + 1)
        found.append(
            refusal(
                "the file begins with a byte order mark (BOM), and so not with #!",
                mark,
                "save it as UTF-8 without BOM: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE",
                edits=(Edit(mark, ""),),
            )
        )
    if not plain.startswith("#!"):
        found.append(
            refusal(
                "the first line is not #! and the path of an interpreter",
                Place(1, 1, len(lines[0].rstrip("\r")) + 1),
                "let the file begin with #!/bin/bash",
            )
        )
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        found.append(refusal("the file contains a NUL character", Place(line)))
    if "\r\n" in text:
        places = (
            Place(number, len(line), len(line) + 1)
            for number, line in enumerate(lines[:-1], 1)
            if line.endswith("\r")
        )
        first = next(places)
        short = beginning(text) == text
        returns = tuple(Edit(place, "") for place in (first, *places)) if short else ()
        hint = "convert the file: sed -i 's/\\r$//' FILE"
        found.append(refusal("the lines end as on Windows (CR LF)", first, hint, edits=returns))
    return found


def _first_command(lines: Sequence[str]) -> int:
    """The number of the line where sbatch stops reading directives."""
    for number, line in enumerate(lines, 1):
        if not line.startswith(DIRECTIVE) and line.strip(BLANKS)[:1] not in ("", "#"):
            return number
    return len(lines) + 1


def _first_too_many(lines: Sequence[str]) -> int:
    """How many of the lines are read, up to the directives that have too many characters."""
    left = _MOST_OF_DIRECTIVES
    for index, line in enumerate(lines):
        if line.startswith(DIRECTIVE):
            left -= len(line)
            if left < 0:
                return index
    return len(lines)


_MOST_OF_DIRECTIVES = 50_000
"""Characters of directives that are read: a list of 5,000 nodes has 40,000."""

# ----------------------------------------------------------------------- the words

_COMPONENT = re.compile(r"(?:packjob|hetjob)(?=[ \t\n\v\f\r]|\Z)", re.IGNORECASE)


def _words(
    lines: Sequence[str],
    begin: int,
    columns: Mapping[int, Sequence[int]],
    first: int = 1,
) -> Tuple[List[_Word], Optional[int], List[Ignored]]:
    """The words of the directives of one component; where another one follows; what is behind a
    remark or otherwise lost. begin: the index of the line that begins the component, -1 for the
    first one. columns: of a line that was mended, those in the file. first: the number of the
    first line."""
    words: List[_Word] = []
    cut: List[Ignored] = []
    for index in range(max(begin, 0), len(lines)):
        number, line = first + index, lines[index]
        start = _directive_start(line)
        if not start:
            continue
        separator = _COMPONENT.match(line, start) is not None
        if separator and index != begin:
            return words, index, cut
        before = len(words)
        end = _line_words(line, number, start, words)
        in_file = columns.get(number)
        if in_file is not None:
            words[before:] = [_Word(one.text, _moved(one.place, in_file)) for one in words[before:]]
        if separator:
            end += len(line[end:].split(None, 1)[0])
        rest = line[end:].strip(BLANKS)
        if rest:
            place = Place(number, end + 1 + line[end:].index(rest), len(line.rstrip(BLANKS)) + 1)
            place = place if in_file is None else _moved(place, in_file)
            cut.append(Ignored(REMARK if rest.startswith("#") else CUT, rest, place))
    return words, None, cut


def _directive_start(line: str) -> int:
    """Where the words of a directive begin; 0 in any other line."""
    start = next((len(one) for one in DIRECTIVE if line.startswith(one)), 0)
    while start and line[start : start + 1] and line[start] in BLANKS:
        start += 1
    return start


def _moved(place: Place, columns: Sequence[int]) -> Place:
    return Place(place.line, columns[place.column - 1], columns[place.end - 1])


def _line_words(line: str, number: int, start: int, words: List[_Word]) -> int:
    """Append the words of a line; returns the position where sbatch stops reading it."""
    at = start
    while True:
        while at < len(line) and line[at] in BLANKS:
            at += 1
        begin = at
        if _COMPONENT.match(line, at):
            return at  # a bare hetjob within the line ends it
        if line[at : at + 1] == ":":
            raise _Refused(Refusal("a word cannot begin with ':'", Place(number, at + 1, at + 2)))
        characters: List[str] = []
        quote = ""
        while at < len(line) and (quote or line[at] not in BLANKS):
            character = line[at]
            if character == "\\":
                at += 1
                # Outside of quotes, an escaped blank ends the word; since 24.05 a space does not.
                following = line[at : at + 1]
                if following and (quote or following not in BLANKS):
                    characters.append(following)
                    at += 1
                continue
            if character == quote:
                quote = ""
            elif not quote and character in "\"'":
                quote = character
            elif not quote and character == "#":
                break
            else:
                characters.append(character)
            at += 1
        if quote:
            place = Place(number, begin + 1, len(line) + 1)
            about = _may_be(line[begin:]) + _may_be(words[-1].text if words else "")
            raise _Refused(Refusal(f"a {quote} is not closed", place, about=about))
        if not characters:
            return at
        words.append(_Word("".join(characters), Place(number, begin + 1, at + 1)))


# ----------------------------------------------------------- what sbatch does not take

_DASHES = "".join(DASHES)
_LIKE_A_SPACE = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_LIKE_NOTHING = "\u200b-\u200d\u2060\ufeff"
_NAME = re.compile(rf"(?<![^ \t])([-{_DASHES}]+)([A-Za-z][\w{_DASHES}-]*)")
_CURLY = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
_LOOK_ALIKE = {**_CURLY, **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}
"""Typographic quotes and full-width characters, and what sbatch takes in their place."""
_MOST_REFUSALS = 20
_MOST_CHARACTERS = 100_000
"""So many are read again because of refusals."""
_LINE_COSTS = 30
"""To read one line again takes as long as so many characters, besides its own."""


class _Directives:
    """The lines with the directives; what sbatch refuses in them is mended or emptied meanwhile."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        self.spelled = False
        self.told: Set[int] = set()
        """The lines of the refusals."""
        self.columns: Dict[int, Sequence[int]] = {}
        """Of each line that was mended: the column in the file of each of its characters."""
        length = sum(len(line) for line in lines if line.startswith("#S"))
        self.left = 1 + max(1, min(_MOST_REFUSALS, _MOST_CHARACTERS // max(1, length)))
        """So many refusals are looked for yet, in all components together."""

    def read(
        self, begin: int, refusals: List[Refusal]
    ) -> Tuple[List[Given], Optional[int], List[Ignored]]:
        """The options of one component; where another one follows; what has no effect.

        begin: as of _words(). Appends what sbatch refuses to ``refusals``.
        """
        while self.left:
            try:
                words, following, cut = _words(self.lines, begin, self.columns)
                given, early = _given(_options(words), words)
                _check(given)
                return given, following, [*early, *cut]
            except _Refused as error:
                refusal = error.refusal
            self.left -= 1
            mended = [] if self.spelled else list(self.spell())
            self.spelled = True
            refusals += mended
            self.told.update(one.place.line for one in mended)
            if not mended:
                if refusal.place.line not in self.told:
                    refusals.append(refusal)
                self.told.add(refusal.place.line)
                self.empty(refusal.place)
        refusals.append(Refusal("of more lines than are listed here", refusal.place, about=_EVERY))
        return [], None, []

    def spell(self) -> Iterator[Refusal]:
        """Mend the lines that are refused for characters which only look like the right ones.

        Those behind what there is time for stay as they are.
        """
        left = _MOST_CHARACTERS
        for number, line in enumerate(self.lines, 1):
            if line.isascii() or not line.startswith(DIRECTIVE):
                continue
            cost = _LINE_COSTS + len(line)
            left -= cost
            if left < 0:
                return
            refusal = _refused(line, number)
            for edits in () if refusal is None else _spelled(line, number):
                left -= cost
                if left < 0:
                    return
                plain, columns = _applied(line, edits)
                if refusal is None or plain == line or _refused(plain, number):
                    continue
                self.lines[number - 1], self.columns[number] = plain, columns
                yield Refusal(
                    _explained(refusal.message, line, edits),
                    refusal.place,
                    f"write {plain.strip(BLANKS)}",
                    edits=tuple(edits),
                )
                break

    def empty(self, place: Place) -> None:
        """Take out what sbatch refuses, and leave everything else in its column."""
        line = self.lines[place.line - 1]
        blanks = " " * (place.end - place.column)
        emptied = line[: place.column - 1] + blanks + line[place.end - 1 :]
        self.lines[place.line - 1] = "#SBATCH" if place.line in self.columns else emptied


def _spelled(line: str, number: int) -> Iterator[List[Edit]]:
    """What would give a line the characters that only look so, the least first."""

    def edit(start: int, end: int, text: str) -> Edit:
        return Edit(Place(number, columns[start], columns[start] + end - start), text)

    columns: Sequence[int] = range(1, len(line) + 2)
    blanks = [
        edit(at, at + 1, " " if re.match(f"[{_LIKE_A_SPACE}]", line[at]) else "")
        for at in _unquoted(line)
        if re.match(f"[{_LIKE_A_SPACE}{_LIKE_NOTHING}]", line[at])
    ]
    plain, columns = _applied(line, blanks)
    free = set(_unquoted(plain))
    names: List[Edit] = []
    for match in _NAME.finditer(plain):
        if match.start() not in free or not re.search(f"[{_DASHES}]", match[0]):
            continue
        name = re.sub(f"[{_DASHES}]", "-", match[2])
        is_long = len(name) > 1 and any(one.long.startswith(name) for one in SBATCH)
        if match[1] != ("--" if is_long else "-"):
            names.append(edit(match.start(1), match.end(1), "--" if is_long else "-"))
        names += [
            edit(at, at + 1, "-")
            for at in range(match.start(2), match.end(2))
            if plain[at] in _DASHES
        ]
    least = sorted([*blanks, *names], key=lambda one: one.place.column)
    yield least
    told = {column for one in least for column in range(one.place.column, one.place.end)}
    values = [
        edit(at, at + 1, _LOOK_ALIKE.get(plain[at], "-"))
        for at in sorted(free)
        if (plain[at] in _DASHES or plain[at] in _LOOK_ALIKE) and columns[at] not in told
    ]
    of_words: Dict[int, List[Edit]] = {}
    blank = before = -1
    for one in values:
        blank = max(blank, line.rfind(" ", max(before, 0), one.place.column))
        before = one.place.column
        of_words.setdefault(blank, []).append(one)
    # A dash in the name of the job, say, is left where another word is what is refused.
    for some in (*list(of_words.values())[:_MOST_REFUSALS], values):
        yield sorted([*least, *some], key=lambda one: one.place.column)


def _explained(message: str, line: str, edits: Sequence[Edit]) -> str:
    """Why sbatch refuses a line, with what only looks like another character."""
    text = "".join(line[one.place.column - 1 : one.place.end - 1] for one in edits)
    dash = other_dash(text)
    if dash:
        return message if dash in message else f"{message}; it has {dash}, which is not '-'"
    return f"{message}; it has {_named(text[0])}"


def _named(character: str) -> str:
    """What a character is that only looks like another, or like none."""
    if character in _DASHES:
        return other_dash(character)
    what = "a full-width character"
    if character in _CURLY:
        what = "a typographic quote"
    elif re.match(f"[{_LIKE_NOTHING}]", character):
        what = "an invisible character"
    elif re.match(f"[{_LIKE_A_SPACE}]", character):
        what = "a blank that is none to sbatch"
    return f"{what} (U+{ord(character):04X})"


FREE_TEXT = frozenset(
    """
    bb bbf chdir comment container error export extra input job-name mail-user nodefile output
    wckey wrap
    """.split()  # noqa: SIM905
)


_LONGEST_LINE = 1_000
"""Characters of a directive in whose values characters are mended."""


def look_alike(
    given: Given, line: str, mend: bool
) -> Optional[Tuple[str, Place, Tuple[Edit, ...]]]:
    """What in a value that sbatch takes only looks like another character, or like none: its name,
    its place, and the edits where exactly one text is right. line: the one with the value. mend:
    whether to look for the edits, which are those of the whole line.
    """
    place = given.value_place
    others = "" if given.name in FREE_TEXT else _DASHES + "".join(_LOOK_ALIKE)
    odd = re.compile(f"[{_LIKE_A_SPACE}{_LIKE_NOTHING}{others}]")
    found = None if line.isascii() else odd.search(line, place.column - 1, place.end - 1)
    if found is None:
        return None
    at = Place(place.line, found.start() + 1, found.end() + 1)
    left = given.name in FREE_TEXT or len(line) > _LONGEST_LINE
    for edits in _spelled(line, place.line) if mend and not left else ():
        plain, _ = _applied(line, edits)
        mended = read_header(f"#!\n{plain}").value(given.name)
        if mended and not odd.search(mended) and not _refused(plain, place.line):
            return _named(found[0]), at, tuple(edits)
    return _named(found[0]), at, ()


def _unquoted(line: str) -> Iterator[int]:
    """The positions of a directive's characters outside of quotes, up to its remark."""
    quote, at = "", len("#SBATCH")
    while at < len(line):
        character = line[at]
        if character == "\\":
            at += 1
        elif character == quote:
            quote = ""
        elif not quote and character in "\"'":
            quote = character
        elif not quote and character == "#":
            return
        elif not quote:
            yield at
        at += 1


def _applied(line: str, edits: Sequence[Edit]) -> Tuple[str, Sequence[int]]:
    """A line with its edits, and for each of its characters, and its end, the column before."""
    text, columns, at = "", [], 0
    for one in edits:
        start, end = one.place.column - 1, one.place.end - 1
        text += line[at:start] + one.text
        columns += [*range(at + 1, start + 1), *[start + 1] * len(one.text)]
        at = end
    return text + line[at:], [*columns, *range(at + 1, len(line) + 2)]


def _refused(line: str, number: int) -> Optional[Refusal]:
    """What sbatch has against a directive that stands alone."""
    try:
        words, _, _ = _words([line], -1, {}, number)
        _check(_given(_options(words), words)[0])
    except _Refused as error:
        return error.refusal
    return None


# --------------------------------------------------------------------- the options


def _getopt(words: Sequence[_Word], table: Tuple[Known, ...]) -> Tuple[Tuple[Parsed, ...], int]:
    """The options, and the index of the word behind them; raises _Refused."""
    try:
        lines = [word.place.line for word in words]
        return getopt_with_plugins([word.text for word in words], table, lines)
    except GetoptError as error:
        word = words[error.index]
        hint = _near(word.text) if error.unknown else ""
        refusal = Refusal(str(error), word.place, hint, about=_may_be(word.text))
        raise _Refused(refusal) from None


def _options(words: Sequence[_Word]) -> Tuple[Parsed, ...]:
    """Parse the words of a component, which are all options; raises _Refused."""
    parsed, end = _getopt(words, SBATCH)
    if end < len(words):
        word, hint = words[end], ""
        if end and words[end - 1].place.line == word.place.line:
            hint = _joined(parsed[-1], words, end) if parsed else ""
            name, equals, value = words[end - 1].text.partition("=")
            quoted = f'{name}="{value} {word.text}"' if equals else f'"{name} {word.text}"'
            hint = hint or f"a value with a blank needs quotes, and a remark a #: {quoted}"
        raise _Refused(Refusal(f"'{word.text}' is not an option", word.place, hint))
    return parsed


def _joined(last: Parsed, words: Sequence[_Word], end: int) -> str:
    """What to write for ``--nodes = 2``, ``--nodes= 2`` or ``--mem 64 GB``; "": it is no such."""
    value, more = last.value or "", words[end].text
    if value in ("", "="):
        return f"write --{last.known.long}={more}" if last.known.takes != NO_VALUE else ""
    if more[:1].isdigit():
        return ""  # two numbers, which are hardly one
    right = _takes(last.known.name, value + more) and not _takes(last.known.name, f"{value} {more}")
    return f"write --{last.known.long}={value}{more}" if right else ""


def _takes(name: str, value: str) -> bool:
    try:
        check_value(name, value)
    except ValueError:
        return False
    return True


_EVERY = tuple(one.name for one in SBATCH)


def _may_be(word: str) -> Tuple[str, ...]:
    """The options that a word may have been meant for."""
    import difflib

    typed = word.partition("=")[0]
    name = typed.lstrip("-")
    if not name or name == typed:
        return ()
    if not typed.startswith("--"):
        return tuple(one.name for one in SBATCH if one.short and one.short in name)
    longer = tuple(one.name for one in SBATCH if one.long.startswith(name))
    near = difflib.get_close_matches(name, [one.long for one in SBATCH], n=4, cutoff=0.6)
    return longer or tuple(one.name for one in SBATCH if one.long in near)


def _near(word: str) -> str:
    """What a word may have been meant for, as a hint."""
    import difflib

    typed = word.partition("=")[0]
    if typed[2:] in RENAMED:
        return f"it is called --{RENAMED[typed[2:]]} now"
    if typed.startswith("-") and not typed.startswith("--") and len(typed) > 2:
        typed = "-" + typed
    near = difflib.get_close_matches(typed, [f"--{one.long}" for one in SBATCH], n=2, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else "'man sbatch' lists the options"


def _given(options: Sequence[Parsed], words: Sequence[_Word]) -> Tuple[List[Given], List[Ignored]]:
    given: List[Given] = []
    early: List[Ignored] = []
    for one in options:
        first, last = words[one.index].place, words[one.value_index].place
        end = last.end if last.line == first.line else first.end
        place = Place(first.line, first.column, end)
        if one.known.name in EARLY:
            early.append(Ignored(EARLY_ONLY, f"--{one.known.name}", place))
        else:
            given.append(Given(one.known.name, one.value, SCRIPT, place, last))
    return given, early


def _check(given: Sequence[Given]) -> None:
    """Raise _Refused for the first value that sbatch itself refuses."""
    for one in given:
        try:
            check_value(one.name, one.value)
        except ValueError as error:
            hint = ""
            if one.value is not None and re.search(r"\$\w|\$\{", one.value):
                hint = "#SBATCH lines do not expand variables: write the value itself"
            message = f"--{one.name}: {error}"
            raise _Refused(Refusal(message, one.place, hint, about=(one.name,))) from None


def _from_environment(
    environment: Mapping[str, str], refusals: List[Refusal]
) -> Tuple[List[Given], Set[str]]:
    """The options that variables set, and those that they take back."""
    known: Dict[str, Known] = {one.name: one for one in SBATCH}
    given = []
    unset: Set[str] = set()
    for variable, name in variables().items():
        value: Optional[str] = environment.get(variable)
        if value is None:
            continue
        if known[name].takes == NO_VALUE:
            number = re.fullmatch(r"[ \t]*[+-]?[0-9]+", value)
            if value and value.lower() != "yes" and not (number and int(value)):
                unset |= {name, *excluding(name)}
                continue
            value = None
        elif known[name].takes == OPTIONAL_VALUE:
            value = value or None
        try:
            check_value(name, value)
        except ValueError as error:
            hint = f"unset {variable}"
            refusals.append(Refusal(f"{variable}: {error}", NOWHERE, hint, about=(name,)))
        given.append(Given(name, value, variable))
    return given, unset


_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_SHARING = ("exclusive", "oversubscribe")


def _typed(given: Sequence[Given], names: Sequence[str]) -> Dict[str, Given]:
    """Those of the options that sbatch counts as typed: not what the environment sets, too."""
    last = {one.name: one for one in given if one.name in names}
    return {name: one for name, one in last.items() if one.source in (SCRIPT, COMMAND_LINE)}


def _contradictions(given: Sequence[Given]) -> List[Refusal]:
    """Options that sbatch takes alone, but not together."""
    found = []
    for group in (_MEMORY, _SHARING):  # the latter since 23.02
        typed = _typed(given, group)
        if len(typed) > 1:
            names = " and ".join(f"--{name}" for name in typed)
            last = list(typed.values())[-1]
            message, hint = f"{names} exclude each other", "keep one of them"
            found.append(Refusal(message, last.place, hint, about=tuple(typed)))
    return found


# ------------------------------------------------------------------ what is not read


def _unread(lines: Sequence[str], first_command: int) -> List[Ignored]:
    """Lines that look like directives, and that sbatch does not read."""
    found = []
    for number, line in enumerate(lines, 1):
        text, why = line.rstrip(BLANKS), ""
        if line.startswith("#SBATCH"):
            why = AFTER_COMMAND if number > first_command else ""
        elif number < first_command and re.match(r"[ \t]+#SBATCH\b|#(?i:sbatch)[ \t]+-", line):
            why = MISSPELLED  # of `##SBATCH` and `# SBATCH` the writer knows it
        if why:
            found.append(Ignored(why, text.lstrip(BLANKS), Place(number, 1, len(text) + 1)))
    return found


def _overridden(given: Sequence[Given]) -> List[Ignored]:
    """What a later option, or one of the environment or the command line, takes the place of."""
    found = []
    following: Dict[str, Given] = {}
    for one in reversed(given):
        later = following.get(one.name)
        if later is not None and one.source == SCRIPT and one.name not in ACCUMULATED:
            found.append(Ignored(OVERRIDDEN, one.text, one.place, later))
        following.update(dict.fromkeys((one.name, *excluding(one.name)), one))
    return found


MOST_CHARACTERS = 250_000
"""So much of a script is read: that of a thousand lines has about 40,000."""


def beginning(text: str) -> str:
    """The whole lines at the beginning of a script that are read; all of any usual script."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return text[: text.rfind("\n", 0, MOST_CHARACTERS) + 1]


def is_too_long(text: str) -> bool:
    """Whether a script has more than MAX_BYTES."""
    # No character has more than four bytes.
    return len(text) * 4 > MAX_BYTES and len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES


def read_file(path: str) -> str:
    """The text of a script, ``-`` for standard input; of one that is too long, only the beginning.

    Bytes that are not UTF-8 become surrogates. Raises OSError, also for what is no regular file but
    for what the shell has opened: ``/dev/fd/63`` of ``<(…)``.
    """
    opened = re.fullmatch(r"-|/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]+", path) is not None
    with (
        open(0 if path == "-" else path, "rb", closefd=path != "-")
        if opened
        else open_regular(path) as file
    ):
        return file.read(MAX_BYTES + 1).decode("utf-8", "surrogateescape")


def shown_name(path: str) -> str:
    """The name by which messages call a file."""
    return "<stdin>" if path == "-" else os.path.normpath(path)
