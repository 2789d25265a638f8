"""Read the ``#SBATCH`` lines of a script as sbatch reads them.

sbatch reads a script's lines from the top to the first one that is neither blank nor a comment, and
takes the options of those that begin with ``#SBATCH``. After them come the variables ``SBATCH_*``
and the command line, each over what was before.

``tests/slurm/test_script_header.py`` compares this with what sbatch makes of the same files.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.words import DASHES, other_dash, replace_other_dashes
from neuronctl.request.job import OF_SLURM
from neuronctl.request.values import memory, time, whole_number
from neuronctl.scripts.header import (
    ACCUMULATED,
    COMMAND_LINE,
    NOWHERE,
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
"""Look-alike character -> the plain one, which sbatch understands."""

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


def read_directive(
    line: str, number: int
) -> Tuple[List[GivenOption], List[Ignored], Optional[Refusal]]:
    """Return the options of a directive, what sbatch ignores in it, and its refusal or None.

    If a line is refused only for look-alike characters, return the options that its author meant.
    """
    try:
        return (*_read_options(line, number), None)
    except Refused as error:
        refusal = error.refusal
    plain, odd = spell_plainly(line), find_look_alike(line)
    if odd and odd not in refusal.message:
        refusal = replace(refusal, message=f"{refusal.message}; it has {odd}")
    try:
        options, _ = _read_options(plain, number)
    except Refused:
        return [], [], refusal
    # A comment or a name may contain such characters on purpose.
    is_in_free_text = any(
        option.name in _FREE_TEXT and (option.value or "") not in line for option in options
    )
    may_edit = not is_in_free_text and "#" not in plain[1:]
    edits = (_smallest_edit(number, line, plain),) if may_edit else ()
    place = SourceSpan(number, 1, len(line) + 1)
    meant = [replace(option, place=place, value_place=place) for option in options]
    hint = f"write {plain.strip(BLANKS)}"
    return meant, [], replace(refusal, hint=hint, edits=edits, meant=True)


def _smallest_edit(number: int, line: str, plain: str) -> Edit:
    """Return the edit that makes ``plain`` of a line, and leaves all other characters alone."""
    start = _common_length(line, plain)
    end = _common_length(line[start:][::-1], plain[start:][::-1])  # counted from the line's end
    place = SourceSpan(number, start + 1, len(line) - end + 1)
    return Edit(place, plain[start : len(plain) - end])


def _common_length(line: str, plain: str) -> int:
    """Return the length of the common beginning of two texts."""
    differences = (index for index, (a, b) in enumerate(zip(line, plain)) if a != b)
    return next(differences, min(len(line), len(plain)))


def _read_options(line: str, number: int) -> Tuple[List[GivenOption], List[Ignored]]:
    """Return the options of a directive, and what sbatch ignores; raise Refused."""
    words, ignored = _words(line, number)
    try:
        texts = [text for text, _ in words]
        line_numbers = [number] * len(words)  # the value of a plugin's option is on its line
        parsed, end = getopt_with_plugins(texts, SBATCH, line_numbers)
    except GetoptError as error:
        text, place = words[error.index]
        hint = _hint(text) if error.unknown else ""
        raise Refused(Refusal(str(error), place, hint)) from None
    if end < len(words):
        hint = "write --NAME=VALUE without blanks, or quotes around the value, and a remark as # …"
        text, place = words[end]
        raise Refused(Refusal(f"'{text}' is not an option", place, hint))
    options = [_place_option(option, words) for option in parsed if option.spec.name not in EARLY]
    for option in options:
        _check(option)
    return options, ignored


def _words(line: str, number: int) -> Tuple[List[_Word], List[Ignored]]:
    """Return the words of a directive and the rest of the line, which sbatch does not read."""
    words: List[_Word] = []
    end = next(len(prefix) for prefix in DIRECTIVE if line.startswith(prefix))
    while True:
        start = end
        while start < len(line) and line[start] in BLANKS:
            start += 1
        text, end = _word(line, number, start)
        if not text:
            break
        words.append((text, SourceSpan(number, start + 1, end + 1)))
    remark = line[end:].rstrip(BLANKS)
    if not remark.startswith("#"):
        return words, []
    place = SourceSpan(number, end + 1, end + 1 + len(remark))
    return words, [Ignored(Ignored.REMARK, remark, place)]


_PART = re.compile(
    r""""((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|\\([^ \t\n\v\f\r])|([^"'\\# \t\n\v\f\r]+)|\\"""
)
"""A part of a word: in quotes, with a backslash, or a character; a backslash alone is dropped."""


def _word(line: str, number: int, start: int) -> Tuple[str, int]:
    """Return the word at a position, without its quotes, and its end."""
    end, text = start, ""
    while part := _PART.match(line, end):
        double_quoted, single_quoted, escaped, plain = part.groups("")
        text += re.sub(r"\\(.)", r"\1", double_quoted or single_quoted) + escaped + plain
        end = part.end()
    if line[end : end + 1] in ("'", '"'):
        place = SourceSpan(number, start + 1, len(line) + 1)
        raise Refused(Refusal(f"a {line[end]} is not closed", place))
    return text, end


def _place_option(option: Parsed, words: Sequence[_Word]) -> GivenOption:
    """Return an option of a directive with its place."""
    _, name_place = words[option.index]
    _, value_place = words[option.value_index]
    place = replace(name_place, end=value_place.end)
    return GivenOption(option.spec.name, option.value, SCRIPT, place, value_place)


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
"""How to check values of options that neuronctl does not have; request/job.py checks its own."""


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
    if not near:
        return "'man sbatch' lists the options"
    return f"did you mean {' or '.join(f'--{option}' for option in near)}?"


def read_command_line(words: Sequence[str], refusals: List[Refusal]) -> List[GivenOption]:
    """Return the options of sbatch's command line; append what sbatch refuses to ``refusals``."""
    options: List[GivenOption] = []
    try:
        for parsed in getopt_with_plugins(words, SBATCH)[0]:
            if parsed.spec.name not in EARLY:
                options.append(GivenOption(parsed.spec.name, parsed.value, COMMAND_LINE))
        for option in options:
            _check(option)
    except GetoptError as error:
        refusals.append(Refusal(str(error), NOWHERE))
    except Refused as error:
        refusals.append(error.refusal)
    return options


def read_environment(environment: Mapping[str, str]) -> List[GivenOption]:
    """Return the options set by ``SBATCH_*`` variables; skip those without a value."""
    flags = {option.name for option in SBATCH if option.takes == NO_VALUE}
    return [
        GivenOption(name, environment[variable], variable)
        for variable, name in variables().items()
        if environment.get(variable) and name not in flags
    ]


_EXCLUDING = (("mem", "mem-per-cpu", "mem-per-gpu"), ("exclusive", "oversubscribe"))
"""Options of which sbatch takes only one of each group; of the second group since 23.02."""


def find_contradictions(given: Sequence[GivenOption]) -> List[Refusal]:
    """Return the options that sbatch accepts alone but refuses together."""
    refusals = []
    for group in _EXCLUDING:
        typed = {
            option.name: option.place
            for option in given
            if option.name in group and option.source in (SCRIPT, COMMAND_LINE)
        }
        if len(typed) > 1:
            message = f"{' and '.join(f'--{name}' for name in typed)} exclude each other"
            *_, last_place = typed.values()
            since = (23, 2) if "oversubscribe" in typed else ()
            refusals.append(Refusal(message, last_place, "keep one of them", since=since))
    return refusals


def spell_plainly(line: str) -> str:
    """Return a directive with look-alike characters replaced by plain ones."""
    blank = re.sub(f"[{_LIKE_A_SPACE}]", " ", line)
    words = (
        replace_other_dashes(word) if word[:1] in DASHES else word for word in blank.split(" ")
    )
    return "".join(_PLAIN.get(character, character) for character in " ".join(words))


def find_look_alike(text: str) -> str:
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

    text: of the file; bytes that are not UTF-8 are surrogates. An option counts if any release of
    Slurm has it. Of a heterogeneous job, the options of the first component are kept.
    """
    refusals = [*_refuse_file(text)]
    readable = _readable(text)
    lines = beginning(readable).split("\n")
    first_command = _first_command(lines)
    ignored: List[Ignored] = []
    components: List[List[GivenOption]] = [[]]
    for number, line in enumerate(lines[: first_command - 1], 1):
        if separates_components(line):
            components.append([])
        elif line.startswith(DIRECTIVE):
            options, remarks, refusal = read_directive(line, number)
            components[-1] += options
            ignored += remarks
            if refusal is not None:
                refusals.append(refusal)
    outside = read_environment(environment) + read_command_line(command_line, refusals)
    for component in components:
        component += outside
        refusals += find_contradictions(component)
    given = components[0]
    ignored += [*_find_unread(lines, first_command), *_find_overridden(given)]
    has_foreign_lines = any(line.startswith(("#PBS", "#BSUB")) for line in lines)
    return Header(
        given=tuple(given),
        refusals=tuple(refusals),
        ignored=tuple(sorted(ignored, key=lambda part: (part.place.line, part.place.column))),
        foreign=has_foreign_lines and all(option.name != "ignore-pbs" for option in given),
        components=len(components),
        first_command=first_command,
        shebang=lines[0][2:].strip() if lines[0].startswith("#!") else "",
        left_out=len(lines) if len(beginning(readable)) < len(readable) else 0,
    )


def _readable(text: str) -> str:
    """Return a script without what makes sbatch refuse the file; "" if it is too long."""
    if is_too_long(text):
        return ""
    # Blanks keep the number of characters, so that places match the file.
    return re.sub("\\A\ufeff+", lambda mark: " " * len(mark[0]), text.replace("\r\n", "\n"))


def _refuse_file(text: str) -> Iterator[Refusal]:
    """Yield why sbatch refuses the file, whatever its directives say."""
    lines = text.split("\n")
    first = SourceSpan(1, 1, len(lines[0].rstrip("\r")) + 1)
    if is_too_long(text):
        message = f"it has more than {MAX_BYTES:,} bytes, which is Slurm's limit (max_script_size)"
        hint = "leave the data out: let the script read them from another file"
        yield Refusal(message, first, hint, whole=True)
        return
    if not text.strip(BLANKS):
        message = f"the script {'contains only blanks' if text else 'is empty'}"
        yield Refusal(message, first, whole=True)
        return
    plain = text.lstrip("\ufeff")
    if plain != text:
        mark = SourceSpan(1, 1, len(text) - len(plain) + 1)
        message = "the file begins with a byte order mark (BOM), and so not with #!"
        hint = "save it as UTF-8 without BOM: sed -i '1s/^\\xEF\\xBB\\xBF//' FILE"
        yield Refusal(message, mark, hint, whole=True, edits=(Edit(mark, ""),))
    if not plain.startswith("#!"):
        message = "the first line is not #! and the path of an interpreter"
        yield Refusal(message, first, "let the file begin with #!/bin/bash", whole=True)
    if "\0" in text:
        place = SourceSpan(text[: text.index("\0")].count("\n") + 1)
        yield Refusal("the file contains a NUL character", place, whole=True)
    carriage_returns = [
        SourceSpan(number, len(line), len(line) + 1)
        for number, line in enumerate(lines[:-1], 1)
        if line.endswith("\r")
    ]
    if carriage_returns:
        is_whole = beginning(text) == text  # otherwise, the rest would keep its own
        edits = tuple(Edit(place, "") for place in carriage_returns) if is_whole else ()
        message = "the lines end as on Windows (CR LF)"
        hint = "convert the file: sed -i 's/\\r$//' FILE"
        yield Refusal(message, carriage_returns[0], hint, whole=True, edits=edits)


def _first_command(lines: Sequence[str]) -> int:
    """Return the number of the line at which sbatch stops reading directives."""
    for number, line in enumerate(lines, 1):
        if not line.startswith(DIRECTIVE) and line.strip(BLANKS)[:1] not in ("", "#"):
            return number
    return len(lines) + 1


_MEANT = r"[ \t]+#SBATCH\b|#[ \t]*(?i:sbatch)[ \t]+-"
"""A comment that is meant as a directive, but is none."""


def _is_meant(line: str) -> bool:
    """Return True if a comment seems meant as a directive."""
    if re.match(_MEANT, line):
        return True
    name = re.match(r"#([A-Z]{5,7})[ \t]+-", line)
    if name is None:
        return False
    from difflib import get_close_matches

    return bool(get_close_matches(name[1], ["SBATCH"], cutoff=0.8))


def _find_unread(lines: Sequence[str], first_command: int) -> List[Ignored]:
    """Return the lines that look like directives but that sbatch does not read."""
    ignored = []
    for number, line in enumerate(lines, 1):
        text, reason = line.rstrip(BLANKS), ""
        if line.startswith("#SBATCH"):
            reason = Ignored.AFTER_COMMAND if number > first_command else ""
        elif number == first_command and re.match("SBATCH[ \t]+-", line):
            reason = Ignored.MISSPELLED
        elif number < first_command and _is_meant(line):
            reason = Ignored.MISSPELLED  # but not `##SBATCH`, which is disabled on purpose
        if reason:
            place = SourceSpan(number, 1, len(text) + 1)
            ignored.append(Ignored(reason, text.lstrip(BLANKS), place))
    return ignored


def _find_overridden(given: Sequence[GivenOption]) -> List[Ignored]:
    """Return the options overridden by a later one, the environment, or the command line."""
    overridden = []
    later_options: Dict[str, GivenOption] = {}
    for option in reversed(given):
        later = later_options.get(option.name)
        if later is not None and option.source == SCRIPT and option.name not in ACCUMULATED:
            overridden.append(Ignored(Ignored.OVERRIDDEN, option.text, option.place, later))
        names = (option.name, *excluding(option.name))
        later_options.update(dict.fromkeys(names, option))
    return overridden
