"""Read the ``#SBATCH`` lines of a script as sbatch reads them.

sbatch reads a script's lines from the top to the first one that is neither blank nor a comment, and
takes the options of those that begin with ``#SBATCH``. After them come the variables ``SBATCH_*``
and the command line, each over what was before.

``tests/slurm/test_script_header.py`` compares this with what sbatch makes of the same files.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.words import DASHES, other_dash, replace_other_dashes
from neuronctl.request.job import OF_SLURM
from neuronctl.request.values import memory, time, whole_number
from neuronctl.scripts.header import (
    ACCUMULATED,
    AFTER_COMMAND,
    COMMAND_LINE,
    MISSPELLED,
    NOWHERE,
    OVERRIDDEN,
    REMARK,
    SCRIPT,
    Edit,
    GivenOption,
    Header,
    Ignored,
    Refusal,
    SourceSpan,
    excluding,
)
from neuronctl.scripts.script_file import MAX_BYTES, beginning, is_too_long
from neuronctl.slurm.sbatch_options import (
    EARLY,
    NO_VALUE,
    RENAMED,
    SBATCH,
    GetoptError,
    Parsed,
    getopt_with_plugins,
    variables,
)

BLANKS = " \t\n\v\f\r"
"""What C's isspace() takes for a blank: no other characters, such as a no-break space."""

DIRECTIVE = ("#SBATCH", "#SLURM")

_LIKE_A_SPACE = "\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LIKE_NOTHING = "\u200b\u200c\u200d\u2060\ufeff"
_PLAIN: Dict[str, str] = {
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys(_LIKE_A_SPACE, " "),
    **dict.fromkeys(_LIKE_NOTHING, ""),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u201c\u201d", '"'),
}
"""Each such character, and what sbatch takes in its place."""

_FREE_TEXT = ("chdir", "comment", "error", "input", "job-name", "output", "wckey", "wrap")
"""Options whose values may have any character but invisible ones."""


class Refused(Exception):
    """Raised for an option that sbatch refuses."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


_Word = Tuple[str, SourceSpan]
"""One word of a directive, and where it stands."""


def separates_components(line: str) -> bool:
    """Return True if a line begins the next component of a heterogeneous job."""
    return re.match(r"#(SBATCH|SLURM)[ \t]*(?i:packjob|hetjob)(?!\S)", line) is not None


def line_options(
    line: str, number: int
) -> Tuple[List[GivenOption], List[Ignored], Optional[Refusal]]:
    """Return the options of a directive, what sbatch ignores in it, and why it refuses it, if so.

    A line that is wrong only in characters that look like others is read as it is meant.
    """
    try:
        return (*_line_options(line, number), None)
    except Refused as error:
        refusal = error.refusal
    plain, odd = plainly_spelled(line), look_alike(line)
    if odd and odd not in refusal.message:
        refusal = replace(refusal, message=f"{refusal.message}; it has {odd}")
    try:
        given, _ = _line_options(plain, number)
    except Refused:
        return [], [], refusal
    whole = SourceSpan(number, 1, len(line) + 1)
    # A comment or a name may contain such characters on purpose.
    free = any(each.name in _FREE_TEXT and (each.value or "") not in line for each in given)
    edits = () if free or "#" in plain[1:] else (_smallest_edit(number, line, plain),)
    meant = [replace(option, place=whole, value_place=whole) for option in given]
    hint = f"write {plain.strip(BLANKS)}"
    return meant, [], replace(refusal, hint=hint, edits=edits, meant=True)


def _smallest_edit(number: int, line: str, plain: str) -> Edit:
    """Return the edit from one text of a line to another that leaves all other characters alone."""
    start = _common_length(line, plain)
    behind = _common_length(line[start:][::-1], plain[start:][::-1])
    changed = SourceSpan(number, start + 1, len(line) - behind + 1)
    return Edit(changed, plain[start : len(plain) - behind])


def _common_length(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    differences = (at for at, (a, b) in enumerate(zip(one, other)) if a != b)
    return next(differences, min(len(one), len(other)))


def _line_options(line: str, number: int) -> Tuple[List[GivenOption], List[Ignored]]:
    """Return what line_options() returns first; raise Refused if sbatch refuses the line."""
    words, ignored = _words(line, number)
    try:
        texts = [text for text, _ in words]
        parsed, end = getopt_with_plugins(texts, SBATCH, [number] * len(words))
    except GetoptError as error:
        text, place = words[error.index]
        hint = _hint(text) if error.unknown else ""
        raise Refused(Refusal(str(error), place, hint)) from None
    if end < len(words):
        hint = "write --NAME=VALUE without blanks, or quotes around the value, and a remark as # …"
        text, place = words[end]
        raise Refused(Refusal(f"'{text}' is not an option", place, hint))
    given = [_given(option, words) for option in parsed if option.known.name not in EARLY]
    for option in given:
        _check(option)
    return given, ignored


def _words(line: str, number: int) -> Tuple[List[_Word], List[Ignored]]:
    """Return the words of a directive and the rest of the line, which sbatch does not read."""
    words: List[_Word] = []
    at = next(len(prefix) for prefix in DIRECTIVE if line.startswith(prefix))
    while True:
        while at < len(line) and line[at] in BLANKS:
            at += 1
        begin = at
        text, at = _word(line, number, begin)
        if not text:
            break
        words.append((text, SourceSpan(number, begin + 1, at + 1)))
    rest = line[at:].rstrip(BLANKS)
    remark = Ignored(REMARK, rest, SourceSpan(number, at + 1, at + 1 + len(rest)))
    return words, [remark] if rest.startswith("#") else []


_PART = re.compile(
    r""""((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|\\([^ \t\n\v\f\r])|([^"'\\# \t\n\v\f\r]+)|\\"""
)
"""A part of a word: in quotes, with a backslash, or a character; a backslash alone is dropped."""


def _word(line: str, number: int, at: int) -> Tuple[str, int]:
    """Return the word at a position, without its quotes, and its end."""
    begin, text = at, ""
    while part := _PART.match(line, at):
        text += re.sub(r"\\(.)", r"\1", part[1] or part[2] or "") + (part[3] or part[4] or "")
        at = part.end()
    if line[at : at + 1] in ("'", '"') and at < len(line):
        place = SourceSpan(number, begin + 1, len(line) + 1)
        raise Refused(Refusal(f"a {line[at]} is not closed", place))
    return text, at


def _given(option: Parsed, words: Sequence[_Word]) -> GivenOption:
    _, name_place = words[option.index]
    _, value_place = words[option.value_index]
    place = replace(name_place, end=value_place.end)
    return GivenOption(option.known.name, option.value, SCRIPT, place, value_place)


_COUNTS = """
ntasks-per-core ntasks-per-socket ntasks-per-gpu ntasks-per-tres cpus-per-gpu cores-per-socket
sockets-per-node threads-per-core thread-spec mincpus
"""

_CHECKS: Dict[str, Callable[[str], object]] = {
    **dict.fromkeys(_COUNTS.split(), whole_number),
    "core-spec": partial(whole_number, least=0),
    "time-min": time,
    **{name: memory for name in ("mem-per-cpu", "mem-per-gpu", "tmp")},
}
"""For options that neuronctl does not have; its own are in request/job.py."""


def check_value(name: str, value: Optional[str]) -> None:
    """Raise ValueError if sbatch itself refuses ``value``; other options are not checked."""
    if name in OF_SLURM:
        OF_SLURM[name].parse_directive(value)
    elif value is not None and name in _CHECKS:
        _CHECKS[name](value)


def _check(option: GivenOption) -> None:
    """Raise Refused for a value that sbatch itself refuses at once."""
    try:
        check_value(option.name, option.value)
    except ValueError as error:
        hint = ""
        if option.value is not None and re.search(r"\$\w|\$\{", option.value):
            hint = "#SBATCH lines do not expand variables: write the value itself"
        message = f"--{option.name}: {error}"
        raise Refused(Refusal(message, option.place, hint)) from None


def _hint(word: str) -> str:
    """Return a hint for an option that sbatch lacks."""
    name = word.partition("=")[0].lstrip("-")
    if name in RENAMED:
        return f"it is called --{RENAMED[name]} now"
    from difflib import get_close_matches

    near = get_close_matches(name, [option.long for option in SBATCH], n=2, cutoff=0.7)
    meant = " or ".join(f"--{each}" for each in near)
    return f"did you mean {meant}?" if near else "'man sbatch' lists the options"


def command_line_options(words: Sequence[str], refusals: List[Refusal]) -> List[GivenOption]:
    """Return the options of sbatch's command line; append what sbatch refuses to ``refusals``."""
    given: List[GivenOption] = []
    try:
        given += [
            GivenOption(parsed.known.name, parsed.value, COMMAND_LINE)
            for parsed in getopt_with_plugins(words, SBATCH)[0]
            if parsed.known.name not in EARLY
        ]
        for option in given:
            _check(option)
    except GetoptError as error:
        refusals.append(Refusal(str(error), NOWHERE))
    except Refused as error:
        refusals.append(error.refusal)
    return given


def environment_options(environment: Mapping[str, str]) -> List[GivenOption]:
    """Return the options set by ``SBATCH_*`` variables; skip those without a value."""
    flags = {option.name for option in SBATCH if option.takes == NO_VALUE}
    return [
        GivenOption(name, environment[variable], variable)
        for variable, name in variables().items()
        if environment.get(variable) and name not in flags
    ]


_EXCLUDING = (("mem", "mem-per-cpu", "mem-per-gpu"), ("exclusive", "oversubscribe"))
"""Options of which sbatch takes only one; the latter since 23.02."""


def contradictions(given: Sequence[GivenOption]) -> List[Refusal]:
    """Return the options that sbatch accepts alone but refuses together."""
    refusals = []
    for group in _EXCLUDING:
        typed = {
            option.name: option.place
            for option in given
            if option.name in group and option.source in (SCRIPT, COMMAND_LINE)
        }
        if len(typed) > 1:
            names = " and ".join(f"--{name}" for name in typed)
            place = list(typed.values())[-1]
            since = (23, 2) if "oversubscribe" in typed else ()
            words, hint = f"{names} exclude each other", "keep one of them"
            refusals.append(Refusal(words, place, hint, since=since))
    return refusals


def plainly_spelled(line: str) -> str:
    """Return a directive with look-alike characters replaced by plain ones."""
    blank = re.sub(f"[{_LIKE_A_SPACE}]", " ", line)
    words = (
        replace_other_dashes(word) if word[:1] in DASHES else word for word in blank.split(" ")
    )
    return "".join(_PLAIN.get(character, character) for character in " ".join(words))


def look_alike(text: str) -> str:
    """Return the first look-alike character in a directive, or ""."""
    odd = next((character for character in text if character in _PLAIN), "")
    if odd in DASHES or not odd:
        return other_dash(odd)
    instead = _PLAIN[odd]
    what = f"a character that only looks like {instead!r}" if instead else "an invisible character"
    return f"{what} (U+{ord(odd):04X})"


def read_header(
    text: str, *, environment: Mapping[str, str] = {}, command_line: Sequence[str] = ()
) -> Header:
    """Read a script as ``sbatch COMMAND_LINE script`` would in that environment.

    text: the file's; bytes that are not UTF-8 as surrogates. Every option that any release of Slurm
    has is taken. Of a heterogeneous job, the options of the first component are kept.
    """
    refusals: List[Refusal] = _whole_file(text)
    if refusals:
        text = "" if is_too_long(text) else text.replace("\r\n", "\n")
        # Keep the number of characters, so that places match the file.
        text = re.sub("\\A\ufeff+", lambda mark: " " * len(mark[0]), text)
    lines = beginning(text).split("\n")
    first_command = _first_command(lines)
    ignored: List[Ignored] = []
    components: List[List[GivenOption]] = [[]]
    for number, line in enumerate(lines[: first_command - 1], 1):
        if separates_components(line):
            components.append([])
        elif line.startswith(DIRECTIVE):
            options, rest, refusal = line_options(line, number)
            components[-1] += options
            ignored += rest
            refusals += [] if refusal is None else [refusal]
    outside = environment_options(environment) + command_line_options(command_line, refusals)
    for component in components:
        component += outside
        refusals += contradictions(component)
    given = components[0]
    foreign = any(line.startswith(("#PBS", "#BSUB")) for line in lines)
    ignored += [*_unread(lines, first_command), *_overridden(given)]
    return Header(
        tuple(given),
        tuple(refusals),
        tuple(sorted(ignored, key=lambda part: (part.place.line, part.place.column))),
        foreign and not any(option.name == "ignore-pbs" for option in given),
        len(components),
        first_command,
        lines[0][2:].strip() if lines[0].startswith("#!") else "",
        len(lines) if len(beginning(text)) < len(text) else 0,
    )


def _whole_file(text: str) -> List[Refusal]:
    """Return why sbatch refuses the file, whatever its directives say."""
    refusals: List[Refusal] = []

    def refuse(message: str, place: SourceSpan, hint: str = "", edits: Sequence[Edit] = ()) -> None:
        refusals.append(Refusal(message, place, hint, whole=True, edits=tuple(edits)))

    lines, plain = text.split("\n"), text.lstrip("\ufeff")
    first = SourceSpan(1, 1, len(lines[0].rstrip("\r")) + 1)
    if is_too_long(text):
        message = f"it has more than {MAX_BYTES:,} bytes, which is Slurm's limit (max_script_size)"
        refuse(message, first, "leave the data out: let the script read them from another file")
        return refusals
    if not text.strip(BLANKS):
        refuse(f"the script {'contains only blanks' if text else 'is empty'}", first)
        return refusals
    if plain != text:
        mark = SourceSpan(1, 1, len(text) - len(plain) + 1)
        message = "the file begins with a byte order mark (BOM), and so not with #!"
        hint = "save it as UTF-8 without BOM: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE"
        refuse(message, mark, hint, [Edit(mark, "")])
    if not plain.startswith("#!"):
        message = "the first line is not #! and the path of an interpreter"
        refuse(message, first, "let the file begin with #!/bin/bash")
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        refuse("the file contains a NUL character", SourceSpan(line))
    ends = [
        SourceSpan(number, len(line), len(line) + 1)
        for number, line in enumerate(lines[:-1], 1)
        if line.endswith("\r")
    ]
    if ends:
        is_whole = beginning(text) == text
        returns = [Edit(place, "") for place in ends] if is_whole else []
        hint = "convert the file: sed -i 's/\\r$//' FILE"
        refuse("the lines end as on Windows (CR LF)", ends[0], hint, returns)
    return refusals


def _first_command(lines: Sequence[str]) -> int:
    """Return the number of the line at which sbatch stops reading directives."""
    for number, line in enumerate(lines, 1):
        if not line.startswith(DIRECTIVE) and line.strip(BLANKS)[:1] not in ("", "#"):
            return number
    return len(lines) + 1


_MEANT = r"[ \t]+#SBATCH\b|#[ \t]*(?i:sbatch)[ \t]+-"
"""What is meant for a directive, and is none."""


def _is_meant(line: str) -> bool:
    """Return True if a comment seems meant as a directive."""
    if re.match(_MEANT, line):
        return True
    name = re.match(r"#([A-Z]{5,7})[ \t]+-", line)
    if name is None:
        return False
    from difflib import get_close_matches

    return bool(get_close_matches(name[1], ["SBATCH"], cutoff=0.8))


def _unread(lines: Sequence[str], first_command: int) -> List[Ignored]:
    """Return the lines that look like directives but that sbatch does not read."""
    ignored = []
    for number, line in enumerate(lines, 1):
        text, reason = line.rstrip(BLANKS), ""
        if line.startswith("#SBATCH"):
            reason = AFTER_COMMAND if number > first_command else ""
        elif number == first_command and re.match("SBATCH[ \t]+-", line):
            reason = MISSPELLED
        elif number < first_command and _is_meant(line):
            reason = MISSPELLED  # the writer of `##SBATCH` knows it
        if reason:
            place = SourceSpan(number, 1, len(text) + 1)
            ignored.append(Ignored(reason, text.lstrip(BLANKS), place))
    return ignored


def _overridden(given: Sequence[GivenOption]) -> List[Ignored]:
    """Return the options overridden by a later one, the environment, or the command line."""
    found = []
    following: Dict[str, GivenOption] = {}
    for option in reversed(given):
        later = following.get(option.name)
        if later is not None and option.source == SCRIPT and option.name not in ACCUMULATED:
            found.append(Ignored(OVERRIDDEN, option.text, option.place, later))
        following.update(dict.fromkeys((option.name, *excluding(option.name)), option))
    return found
