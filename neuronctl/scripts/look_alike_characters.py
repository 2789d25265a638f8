"""Characters that only look like those that sbatch reads, and what to write in their place."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.words import DASHES, other_dash
from neuronctl.request.sbatch_options import SBATCH
from neuronctl.scripts.directive_options import line_options
from neuronctl.scripts.directive_words import Refused
from neuronctl.scripts.edits import edited
from neuronctl.scripts.model import Edit, GivenOption, SourceSpan

LIKE_A_SPACE = "\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
LIKE_NOTHING = "\u200b\u200c\u200d\u2060\ufeff"
_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
_PLAIN: Dict[str, str] = {
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(DASHES, "-"),
    **dict.fromkeys(LIKE_A_SPACE, " "),
    **dict.fromkeys(LIKE_NOTHING, ""),
    **_QUOTES,
}
"""Each such character, and what sbatch takes in its place."""

_OPTION = re.compile(rf"(?<![^ \t{LIKE_A_SPACE}])([-{''.join(DASHES)}]+)([A-Za-z][\w-]*)")

FREE_TEXT = frozenset(
    """
    bb bbf chdir comment container error export extra input job-name mail-user nodefile output
    wckey wrap
    """.split()  # noqa: SIM905
)
"""Options whose values may have any character."""

_FREE_VALUE = re.compile(rf"(?<=[ \t])(?:-[JoeDi] ?|--(?:{'|'.join(FREE_TEXT)})[= ])[^ \t]*")


def respelled(line: str, number: int) -> List[Edit]:
    """Return the edits that give a directive the characters it should have; [] if they are unsure.

    Only the dashes of options and the blanks between them are replaced if that is enough.
    """
    free = set(_unquoted(line))
    least: Dict[Tuple[int, int], str] = {}
    for match in _OPTION.finditer(line):
        name = match[2]
        is_long = len(name) > 1 and any(option.long.startswith(name) for option in SBATCH)
        dashes = "--" if is_long else "-"
        if match.start() in free and match[1] != dashes:
            least[match.span(1)] = dashes
    for at in free:
        if line[at] in LIKE_A_SPACE + LIKE_NOTHING:
            least[at, at + 1] = _PLAIN[line[at]]
    for match in _FREE_VALUE.finditer(line):
        free -= {at for at in range(*match.span()) if line[at] not in _QUOTES}
    every = {(at, at + 1): _PLAIN[line[at]] for at in free if line[at] in _PLAIN}
    for chosen in (least, {**every, **least}):
        changes = [(start + 1, end + 1, text) for (start, end), text in sorted(chosen.items())]
        edits = [Edit(SourceSpan(1, start, end), text) for start, end, text in changes]
        try:
            line_options(edited(line, edits), number)
        except Refused:
            continue
        return [Edit(SourceSpan(number, start, end), text) for start, end, text in changes]
    return []


def explained(message: str, line: str, edits: Sequence[Edit]) -> str:
    """Return why sbatch refuses a line, with what only looks like another character."""
    text = "".join(line[edit.place.column - 1 : edit.place.end - 1] for edit in edits)
    dash = other_dash(text)
    if dash:
        return message if dash in message else f"{message}; it has {dash}, which is not '-'"
    return f"{message}; it has {_named(text[0])}"


def look_alike(
    given: GivenOption, line: str, mend: bool
) -> Optional[Tuple[str, SourceSpan, Tuple[Edit, ...]]]:
    """Return the first character in a value that only looks like another, its place, and edits.

    line: the one with the value. mend: look for the edits, if exactly one text is right.
    """
    place = given.value_place
    free = given.name in FREE_TEXT
    odd = LIKE_A_SPACE + LIKE_NOTHING if free else "".join(_PLAIN)
    span = range(place.column - 1, min(place.end - 1, len(line)))
    found = None if line.isascii() else next((at for at in span if line[at] in odd), None)
    if found is None:
        return None
    at = SourceSpan(place.line, found + 1, found + 2)
    edits = [
        Edit(SourceSpan(place.line, each + 1, each + 2), _PLAIN[line[each]])
        for each in span
        if mend and not free and line[each] in _PLAIN
    ]
    return _named(line[found]), at, tuple(edits)


def _named(character: str) -> str:
    """Return what a character is that only looks like another, or like none."""
    if character in DASHES:
        return other_dash(character)
    what = "a full-width character"
    if character in _QUOTES:
        what = "a typographic quote"
    elif character in LIKE_NOTHING:
        what = "an invisible character"
    elif character in LIKE_A_SPACE:
        what = "a space that sbatch does not take for one"
    return f"{what} (U+{ord(character):04X})"


def _unquoted(line: str) -> Iterator[int]:
    """Yield the positions of a directive's characters outside of quotes, up to its remark."""
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
