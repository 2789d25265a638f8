"""Characters that only look like those that sbatch reads, and what to write in their place."""

from __future__ import annotations

import contextlib
import re
from typing import Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.words import DASHES, other_dash
from neuronctl.request.sbatch_options import SBATCH
from neuronctl.scripts.directive_options import line_options
from neuronctl.scripts.directive_words import Refused
from neuronctl.scripts.model import Edit, GivenOption, SourceSpan, in_force

_DASHES = "".join(DASHES)
LIKE_A_SPACE = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
LIKE_NOTHING = "\u200b-\u200d\u2060\ufeff"
_NAME = re.compile(rf"(?<![^ \t])([-{_DASHES}]+)([A-Za-z][\w{_DASHES}-]*)")
_CURLY = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
_LOOK_ALIKE = {**_CURLY, **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}
"""Typographic quotes and full-width characters, and what sbatch takes in their place."""


def respelled(line: str, number: int) -> List[Edit]:
    """What gives a line the characters that only look so; the name of a job, say, keeps its own."""

    def edit(start: int, end: int, text: str) -> Edit:
        return Edit(SourceSpan(number, columns[start], columns[start] + end - start), text)

    columns: Sequence[int] = range(1, len(line) + 2)
    blanks = [
        edit(at, at + 1, " " if re.match(f"[{LIKE_A_SPACE}]", line[at]) else "")
        for at in _unquoted(line)
        if re.match(f"[{LIKE_A_SPACE}{LIKE_NOTHING}]", line[at])
    ]
    plain, columns = applied(line, blanks)
    free = set(_unquoted(plain))
    names: List[Edit] = []
    for match in _NAME.finditer(plain):
        if match.start() not in free or not re.search(f"[{_DASHES}]", match[0]):
            continue
        name = re.sub(f"[{_DASHES}]", "-", match[2])
        is_long = len(name) > 1 and any(option.long.startswith(name) for option in SBATCH)
        if match[1] != ("--" if is_long else "-"):
            names.append(edit(match.start(1), match.end(1), "--" if is_long else "-"))
        names += [
            edit(at, at + 1, "-")
            for at in range(match.start(2), match.end(2))
            if plain[at] in _DASHES
        ]
    least = sorted([*blanks, *names], key=lambda change: change.place.column)
    plain, columns = applied(line, least)
    odd = {at for at in _unquoted(plain) if plain[at] in _DASHES or plain[at] in _LOOK_ALIKE}
    with contextlib.suppress(Refused):
        given = line_options(plain, number, check=False)
        words = [option.value_place for option in given if option.name not in FREE_TEXT]
        odd &= {at for word in words for at in range(word.column - 1, word.end - 1)}
    values = [edit(at, at + 1, _LOOK_ALIKE.get(plain[at], "-")) for at in odd]
    return sorted([*least, *values], key=lambda change: change.place.column)


def explained(message: str, line: str, edits: Sequence[Edit]) -> str:
    """Why sbatch refuses a line, with what only looks like another character."""
    text = "".join(line[edit.place.column - 1 : edit.place.end - 1] for edit in edits)
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
    elif re.match(f"[{LIKE_NOTHING}]", character):
        what = "an invisible character"
    elif re.match(f"[{LIKE_A_SPACE}]", character):
        what = "a space that sbatch does not take for one"
    return f"{what} (U+{ord(character):04X})"


FREE_TEXT = frozenset(
    """
    bb bbf chdir comment container error export extra input job-name mail-user nodefile output
    wckey wrap
    """.split()  # noqa: SIM905
)


def look_alike(
    given: GivenOption, line: str, mend: bool
) -> Optional[Tuple[str, SourceSpan, Tuple[Edit, ...]]]:
    """The first character in a value that only looks like another, or like none.

    Returns its name, its place, and the edits where exactly one text is right. line: the one with
    the value. mend: whether to look for the edits, which are those of the whole line.
    """
    place = given.value_place
    others = "" if given.name in FREE_TEXT else _DASHES + "".join(_LOOK_ALIKE)
    odd = re.compile(f"[{LIKE_A_SPACE}{LIKE_NOTHING}{others}]")
    found = None if line.isascii() else odd.search(line, place.column - 1, place.end - 1)
    if found is None:
        return None
    at = SourceSpan(place.line, found.start() + 1, found.end() + 1)
    if not mend or given.name in FREE_TEXT:
        return _named(found[0]), at, ()
    edits = respelled(line, place.line)
    try:
        mended = in_force(line_options(applied(line, edits)[0], place.line)).get(given.name)
    except Refused:
        mended = None
    right = mended is not None and not odd.search(mended.value or "")
    return _named(found[0]), at, tuple(edits) if right else ()


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


def applied(line: str, edits: Sequence[Edit]) -> Tuple[str, Sequence[int]]:
    """A line with its edits, and for each of its characters, and its end, the column before."""
    text, columns, at = "", [], 0
    for edit in edits:
        start, end = edit.place.column - 1, edit.place.end - 1
        text += line[at:start] + edit.text
        columns += [*range(at + 1, start + 1), *[start + 1] * len(edit.text)]
        at = end
    return text + line[at:], [*columns, *range(at + 1, len(line) + 2)]
