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
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.batchscript.values import ACCUMULATED, check_value, excluding
from neuronctl.frozen import dataclass
from neuronctl.sbatch_options import (
    EARLY,
    NO_VALUE,
    OPTIONAL_VALUE,
    SBATCH,
    GetoptError,
    Known,
    Parsed,
    Release,
    getopt,
    variables,
)

BLANKS = " \t\n\v\f\r"
"""What C's isspace() takes for a blank: no other characters, such as a no-break space."""

SCRIPT, ENVIRONMENT, COMMAND_LINE = "script", "environment", "command line"

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
    """Why sbatch refuses the script. whole: not for a directive, but for the file as it is."""

    message: str
    place: Place
    hint: str = ""
    whole: bool = False


@dataclass(frozen=True)
class Header:
    """What sbatch reads of a script.

    given: every option in the order in which sbatch takes it. refusals: empty where sbatch's own
    reading succeeds (slurmctld may still refuse the job). foreign: lines of other schedulers, which
    sbatch translates. components: 1, or how many a heterogeneous job has, of which ``given`` is the
    first. first_command: the line that ends the directives, one past the last where there is none.
    """

    given: Tuple[Given, ...]
    refusals: Tuple[Refusal, ...]
    ignored: Tuple[Ignored, ...]
    foreign: Tuple[Place, ...]
    components: int
    first_command: int
    shebang: str

    @property
    def options(self) -> Mapping[str, Given]:
        """Name -> what holds of it, in the end."""
        found: Dict[str, Given] = {}
        for one in self.given:
            for name in excluding(one.name):
                found.pop(name, None)
            before = found.get(one.name)
            if before is not None and one.name in ACCUMULATED and one.value is not None:
                both = f"{before.value},{one.value}"
                one = Given(one.name, both, one.source, one.place, one.value_place)
            found[one.name] = one
        return found

    def value(self, name: str) -> Optional[str]:
        """The value that holds of an option; None where it is not given, or has none."""
        one = self.options.get(name)
        return None if one is None else one.value


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
    release: Optional[Release] = None,
) -> Header:
    """Read a script as ``sbatch COMMAND_LINE script`` would in that environment.

    text: the file's; bytes that are not UTF-8 as surrogates. release: Slurm's, such as (22, 5);
    None takes every option that any release has.
    """
    refusals: List[Refusal] = []
    given: List[Given] = []
    others: List[List[Given]] = []
    ignored: List[Ignored] = []
    lines = text.split("\n")
    first_command = _first_command(lines)
    whole = _whole_file(text)
    if whole is not None:
        refusals.append(whole)
        text = "" if is_too_long(text) else text.replace("\r\n", "\n").lstrip("\ufeff")
        lines = text.split("\n")
        first_command = _first_command(lines)
    components = 1
    component = 0
    while component < components:
        try:
            words, last, cut = _words(lines[: first_command - 1], component, release)
            if last:
                components += 1
            options = _options(words, release)
            read, early = _given(options, words)
            _check(read, release)
        except _Refused as error:
            refusals.append(error.refusal)
            read, early, cut = [], [], []
        if component == 0:
            given, ignored = read, [*early, *cut]
        else:
            others.append(read)
        component += 1
    added, unset = _from_environment(environment, refusals, release)
    given = [one for one in given if one.name not in unset] + added
    outside: List[Given] = []
    try:
        outside += [
            Given(one.known.name, one.value, COMMAND_LINE)
            for one in getopt(list(command_line), SBATCH, release)[0]
            if one.known.name not in EARLY
        ]
        _check(outside, release)
    except GetoptError as error:
        refusals.append(Refusal(str(error), NOWHERE))
    except _Refused as error:
        refusals.append(error.refusal)
    given += outside
    for component_given in (given, *([*one, *outside] for one in others)):
        refusals += _contradictions(component_given, release)
    chosen = {one.name for one in given if one.source in (SCRIPT, COMMAND_LINE)} & set(_MEMORY)
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
        components,
        first_command,
        lines[0][2:].strip() if lines[0].startswith("#!") else "",
    )


def read_command(
    words: Sequence[Tuple[str, Place]],
    table: Tuple[Known, ...],
    release: Optional[Release] = None,
) -> Tuple[Header, int]:
    """The options at the beginning of a command line, and the index of the word behind them.

    table: the options of the command, SALLOC or another.
    """
    own = [_Word(text, place) for text, place in words]
    refusals: List[Refusal] = []
    given: List[Given] = []
    end = len(own)
    try:
        parsed, end = getopt([word.text for word in own], table, release)
        given, _ = _given(parsed, own)
        _check(given, release)
    except GetoptError as error:
        hint = _near(own[error.index].text) if error.unknown else ""
        refusals.append(Refusal(str(error), own[error.index].place, hint))
    except _Refused as error:
        refusals.append(error.refusal)
    refusals += _contradictions(given, release)
    return Header(tuple(given), tuple(refusals), tuple(_overridden(given)), (), 1, 2, ""), end


# ------------------------------------------------------------------------ the file


def _whole_file(text: str) -> Optional[Refusal]:
    """Why sbatch refuses the file whatever its directives say."""
    if is_too_long(text):
        return Refusal(
            f"it has more than {MAX_BYTES:,} bytes, which is Slurm's limit (max_script_size)",
            Place(1),
            "leave the data out: let the script read them from another file",
            whole=True,
        )
    if not text.strip(BLANKS):
        return Refusal("the script is empty", Place(1), whole=True)
    first = text.partition("\n")[0]
    top = Place(1, 1, len(first.rstrip("\r")) + 1)
    if not text.startswith("#!"):
        if text.startswith("\ufeff"):
            return Refusal(
                "the file begins with a byte order mark (BOM), and so not with #!",
                Place(1, 1, 2),
                "save it as UTF-8 without BOM: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE",
                whole=True,
            )
        return Refusal(
            "the first line is not #! and the path of an interpreter",
            top,
            "let the file begin with #!/bin/bash",
            whole=True,
        )
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        return Refusal("the file contains a NUL character", Place(line), whole=True)
    if "\r\n" in text:
        line = text[: text.index("\r\n")].count("\n") + 1
        end = len(text.split("\n")[line - 1])
        return Refusal(
            "the lines end as on Windows (CR LF)",
            Place(line, end, end + 1),
            "convert the file: sed -i 's/\\r$//' FILE",
            whole=True,
        )
    return None


def _first_command(lines: Sequence[str]) -> int:
    """The number of the line where sbatch stops reading directives."""
    for number, line in enumerate(lines, 1):
        if not line.startswith(("#SBATCH", "#SLURM")) and line.strip(BLANKS)[:1] not in ("", "#"):
            return number
    return len(lines) + 1


# ----------------------------------------------------------------------- the words

_COMPONENT = re.compile(r"(?:packjob|hetjob)(?=[ \t\n\v\f\r]|\Z)", re.IGNORECASE)


def _words(
    lines: Sequence[str], component: int, release: Optional[Release]
) -> Tuple[List[_Word], bool, List[Ignored]]:
    """The words of the directives of one component; whether another one follows; what is behind a
    remark or otherwise lost."""
    words: List[_Word] = []
    cut: List[Ignored] = []
    at = 0
    for number, line in enumerate(lines, 1):
        if line.startswith("#SBATCH"):
            start = len("#SBATCH")
        elif line.startswith("#SLURM"):
            start = len("#SLURM")
        else:
            continue
        while line[start : start + 1] and line[start] in BLANKS:
            start += 1
        separator = _COMPONENT.match(line, start) is not None
        at += separator
        if at < component:
            continue
        if at > component:
            return words, True, cut
        end = _line_words(line, number, start, words, release)
        if separator:
            end += len(line[end:].split(None, 1)[0])
        rest = line[end:].strip(BLANKS)
        if rest:
            place = Place(number, end + 1 + line[end:].index(rest), len(line.rstrip(BLANKS)) + 1)
            cut.append(Ignored(REMARK if rest.startswith("#") else CUT, rest, place))
    return words, False, cut


def _line_words(
    line: str, number: int, start: int, words: List[_Word], release: Optional[Release]
) -> int:
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
                kept = following == " " and release is not None and release >= (24, 5)
                if following and (quote or kept or following not in BLANKS):
                    characters.append(following)
                    at += 1
                continue
            if quote:
                if character == quote:
                    quote = ""
                    at += 1
                    continue
            elif character in "\"'":
                quote = character
                at += 1
                continue
            elif character == "#":
                break
            characters.append(character)
            at += 1
        if quote:
            place = Place(number, begin + 1, len(line) + 1)
            raise _Refused(Refusal(f"a {quote} is not closed", place))
        if not characters:
            return at
        words.append(_Word("".join(characters), Place(number, begin + 1, at + 1)))


# --------------------------------------------------------------------- the options

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"


def _options(words: Sequence[_Word], release: Optional[Release]) -> Tuple[Parsed, ...]:
    """Parse the words with getopt; raises _Refused."""
    texts = [word.text for word in words]
    try:
        parsed, end = getopt(texts, SBATCH, release)
    except GetoptError as error:
        hint = _near(texts[error.index]) if error.unknown else ""
        raise _Refused(Refusal(str(error), words[error.index].place, hint)) from None
    if end < len(words):
        word = words[end]
        message, hint = f"'{word.text}' is not an option", ""
        if word.text.lstrip()[:1] in tuple(_DASHES):
            plain = word.text.lstrip(_DASHES + "-")
            name = re.split("[= ]", plain)[0]
            dashes = "-" if len(name) == 1 else "--"
            message = f"'{word.text}' begins with a typographic dash, which is not '-'"
            hint = f"write {dashes}{plain}"
        elif end and words[end - 1].place.line == word.place.line:
            hint = f"a value with a blank needs quotes, and a remark a #: {_quoted(words, end)}"
        raise _Refused(Refusal(message, word.place, hint))
    return parsed


def _quoted(words: Sequence[_Word], end: int) -> str:
    before = words[end - 1].text
    name, equals, value = before.partition("=")
    if equals:
        return f'{name}="{value} {words[end].text}"'
    return f'"{before} {words[end].text}"'


def _near(word: str) -> str:
    """What a word may have been meant for."""
    import difflib

    typed = word.partition("=")[0]
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


def _check(given: Sequence[Given], release: Optional[Release]) -> None:
    """Raise _Refused for the first value that sbatch itself refuses."""
    for one in given:
        try:
            check_value(one.name, one.value, release)
        except ValueError as error:
            hint = ""
            if one.value is not None and re.search(r"\$\w|\$\{", one.value):
                hint = "#SBATCH lines do not expand variables: write the value itself"
            raise _Refused(Refusal(f"--{one.name}: {error}", one.place, hint)) from None


def _from_environment(
    environment: Mapping[str, str], refusals: List[Refusal], release: Optional[Release]
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
            check_value(name, value, release)
        except ValueError as error:
            refusals.append(Refusal(f"{variable}: {error}", NOWHERE, f"unset {variable}"))
        given.append(Given(name, value, variable))
    return given, unset


_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_SHARING = ("exclusive", "oversubscribe")


def _contradictions(given: Sequence[Given], release: Optional[Release]) -> List[Refusal]:
    """Options that sbatch takes alone, but not together."""
    found = []
    both = [_MEMORY] if release is not None and release < (23, 2) else [_MEMORY, _SHARING]
    for group in both:
        typed = {
            one.name: one
            for one in given
            if one.name in group and one.source in (SCRIPT, COMMAND_LINE)
        }
        if len(typed) > 1:
            names = " and ".join(f"--{name}" for name in typed)
            last = list(typed.values())[-1]
            found.append(Refusal(f"{names} exclude each other", last.place, "keep one of them"))
    return found


# ------------------------------------------------------------------ what is not read


def _unread(lines: Sequence[str], first_command: int) -> List[Ignored]:
    """Lines that look like directives, and that sbatch does not read."""
    found = []
    for number, line in enumerate(lines, 1):
        place = Place(number, 1, len(line.rstrip(BLANKS)) + 1)
        if line.startswith("#SBATCH"):
            if number > first_command:
                found.append(Ignored(AFTER_COMMAND, line.rstrip(BLANKS), place))
        elif number < first_command and re.match(r"[ \t]+#SBATCH\b|#(?i:sbatch)[ \t]+-", line):
            # Of `##SBATCH` and `# SBATCH` the writer knows it.
            found.append(Ignored(MISSPELLED, line.strip(BLANKS), place))
    return found


def _overridden(given: Sequence[Given]) -> List[Ignored]:
    """What a later option, or one of the environment or the command line, takes the place of."""
    found = []
    for number, one in enumerate(given):
        if one.source != SCRIPT or one.name in ACCUMULATED:
            continue
        later = next(
            (
                other
                for other in given[number + 1 :]
                if other.name == one.name or one.name in excluding(other.name)
            ),
            None,
        )
        if later is not None:
            found.append(Ignored(OVERRIDDEN, one.text, one.place, later))
    return found


MAX_BYTES = 4 * 1024 * 1024
"""The longest script that slurmctld takes where the site does not say otherwise."""


def is_too_long(text: str) -> bool:
    """Whether a script has more than MAX_BYTES."""
    # No character has more than four bytes.
    return len(text) * 4 > MAX_BYTES and len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES


def read_file(path: str) -> str:
    """The text of a script, ``-`` for standard input; of one that is too long, only the beginning.

    Bytes that are not UTF-8 become surrogates. Raises OSError.
    """
    with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
        return file.read(MAX_BYTES + 1).decode("utf-8", "surrogateescape")


def shown_name(path: str) -> str:
    """The name by which messages call a file."""
    return "<stdin>" if path == "-" else os.path.normpath(path)
