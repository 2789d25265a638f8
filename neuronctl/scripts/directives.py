"""The options of ``#SBATCH`` lines, of variables, and of sbatch's command line."""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from functools import partial
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.words import DASHES, other_dash, replace_other_dashes
from neuronctl.request.job import OF_SLURM
from neuronctl.request.values import memory, time, whole_number
from neuronctl.scripts import model
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

    def __init__(self, refusal: model.Refusal) -> None:
        self.refusal = refusal


_Word = Tuple[str, model.SourceSpan]
"""One word of a directive, and where it stands."""


def separates_components(line: str) -> bool:
    """Return True if a line begins the next component of a heterogeneous job."""
    return re.match(r"#(SBATCH|SLURM)[ \t]*(?i:packjob|hetjob)(?!\S)", line) is not None


def line_options(
    line: str, number: int
) -> Tuple[List[model.GivenOption], List[model.Ignored], Optional[model.Refusal]]:
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
    whole = model.SourceSpan(number, 1, len(line) + 1)
    # A comment or a name may contain such characters on purpose.
    free = any(each.name in _FREE_TEXT and (each.value or "") not in line for each in given)
    start = _same(line, plain)
    behind = _same(line[start:][::-1], plain[start:][::-1])
    changed = model.SourceSpan(number, start + 1, len(line) - behind + 1)
    edit = model.Edit(changed, plain[start : len(plain) - behind])
    edits = () if free or "#" in plain[1:] else (edit,)
    meant = [replace(option, place=whole, value_place=whole) for option in given]
    hint = f"write {plain.strip(BLANKS)}"
    return meant, [], replace(refusal, hint=hint, edits=edits, meant=True)


def _same(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    differ = (at for at, (a, b) in enumerate(zip(one, other)) if a != b)
    return next(differ, min(len(one), len(other)))


def _line_options(line: str, number: int) -> Tuple[List[model.GivenOption], List[model.Ignored]]:
    words, ignored = _words(line, number)
    try:
        texts = [text for text, _ in words]
        parsed, end = getopt_with_plugins(texts, SBATCH, [number] * len(words))
    except GetoptError as error:
        text, place = words[error.index]
        hint = _hint(text) if error.unknown else ""
        raise Refused(model.Refusal(str(error), place, hint)) from None
    if end < len(words):
        hint = "write --NAME=VALUE without blanks, or quotes around the value, and a remark as # …"
        text, place = words[end]
        raise Refused(model.Refusal(f"'{text}' is not an option", place, hint))
    given = [_given(option, words) for option in parsed if option.known.name not in EARLY]
    for option in given:
        _check(option)
    return given, ignored


def _words(line: str, number: int) -> Tuple[List[_Word], List[model.Ignored]]:
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
        words.append((text, model.SourceSpan(number, begin + 1, at + 1)))
    rest = line[at:].rstrip(BLANKS)
    remark = model.Ignored(model.REMARK, rest, model.SourceSpan(number, at + 1, at + 1 + len(rest)))
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
        place = model.SourceSpan(number, begin + 1, len(line) + 1)
        raise Refused(model.Refusal(f"a {line[at]} is not closed", place))
    return text, at


def _given(option: Parsed, words: Sequence[_Word]) -> model.GivenOption:
    (_, first), (_, last) = words[option.index], words[option.value_index]
    place = replace(first, end=last.end)
    return model.GivenOption(option.known.name, option.value, model.SCRIPT, place, last)


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


def _check(option: model.GivenOption) -> None:
    """Raise Refused for a value that sbatch itself refuses at once."""
    try:
        check_value(option.name, option.value)
    except ValueError as error:
        hint = ""
        if option.value is not None and re.search(r"\$\w|\$\{", option.value):
            hint = "#SBATCH lines do not expand variables: write the value itself"
        message = f"--{option.name}: {error}"
        raise Refused(model.Refusal(message, option.place, hint)) from None


def _hint(word: str) -> str:
    """Return a hint for an option that sbatch lacks."""
    name = word.partition("=")[0].lstrip("-")
    if name in RENAMED:
        return f"it is called --{RENAMED[name]} now"
    near = difflib.get_close_matches(name, [option.long for option in SBATCH], n=2, cutoff=0.7)
    meant = " or ".join(f"--{each}" for each in near)
    return f"did you mean {meant}?" if near else "'man sbatch' lists the options"


def command_line_options(
    words: Sequence[str], refusals: List[model.Refusal]
) -> List[model.GivenOption]:
    """Return the options of sbatch's command line; append what sbatch refuses to ``refusals``."""
    given: List[model.GivenOption] = []
    try:
        given += [
            model.GivenOption(parsed.known.name, parsed.value, model.COMMAND_LINE)
            for parsed in getopt_with_plugins(words, SBATCH)[0]
            if parsed.known.name not in EARLY
        ]
        for option in given:
            _check(option)
    except GetoptError as error:
        refusals.append(model.Refusal(str(error), model.NOWHERE))
    except Refused as error:
        refusals.append(error.refusal)
    return given


def environment_options(environment: Mapping[str, str]) -> List[model.GivenOption]:
    """Return the options set by ``SBATCH_*`` variables; skip those without a value."""
    flags = {option.name for option in SBATCH if option.takes == NO_VALUE}
    return [
        model.GivenOption(name, environment[variable], variable)
        for variable, name in variables().items()
        if environment.get(variable) and name not in flags
    ]


_EXCLUDING = (("mem", "mem-per-cpu", "mem-per-gpu"), ("exclusive", "oversubscribe"))
"""Options of which sbatch takes only one; the latter since 23.02."""


def contradictions(given: Sequence[model.GivenOption]) -> List[model.Refusal]:
    """Return the options that sbatch accepts alone but refuses together."""
    found = []
    for group in _EXCLUDING:
        typed = {
            option.name: option.place
            for option in given
            if option.name in group and option.source in (model.SCRIPT, model.COMMAND_LINE)
        }
        if len(typed) > 1:
            names = " and ".join(f"--{name}" for name in typed)
            place = list(typed.values())[-1]
            since = (23, 2) if "oversubscribe" in typed else ()
            words, hint = f"{names} exclude each other", "keep one of them"
            found.append(model.Refusal(words, place, hint, since=since))
    return found


def plainly_spelled(line: str) -> str:
    """Return a directive with look-alike characters replaced by plain ones."""
    blank = re.sub(f"[{_LIKE_A_SPACE}]", " ", line)
    words = (
        replace_other_dashes(word) if word[:1] in DASHES else word for word in blank.split(" ")
    )
    return "".join(_PLAIN.get(character, character) for character in " ".join(words))


def look_alike(text: str) -> str:
    """Return the first look-alike character in a directive, or ""."""
    found = next((character for character in text if character in _PLAIN), "")
    if found in DASHES or not found:
        return other_dash(found)
    instead = _PLAIN[found]
    what = f"a character that only looks like {instead!r}" if instead else "an invisible character"
    return f"{what} (U+{ord(found):04X})"
