"""The words of ``#SBATCH`` lines, by sbatch's own grammar: neither the shell's nor getopt's."""

from __future__ import annotations

import re
from typing import AbstractSet, List, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.scripts.misspelled_options import meant_options
from neuronctl.scripts.model import CUT, REMARK, Ignored, Refusal, SourceSpan

BLANKS = " \t\n\v\f\r"
"""What C's isspace() takes for a blank: no other characters, such as a no-break space."""

DIRECTIVE = ("#SBATCH", "#SLURM")


@dataclass(frozen=True)
class DirectiveWord:
    text: str
    place: SourceSpan


class Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


_COMPONENT = re.compile(r"(?:packjob|hetjob)(?=[ \t\n\v\f\r]|\Z)", re.IGNORECASE)


def words_of(
    lines: Sequence[str],
    begin: int,
    mended: AbstractSet[int],
    first: int = 1,
) -> Tuple[List[DirectiveWord], Optional[int], List[Ignored]]:
    """Return the words of one component, the line where the next begins, and what is lost.

    begin: the index of the line that begins the component, -1 for the first one. mended: the lines
    whose columns are not the file's; their words stand anywhere on them. first: the number of the
    first line.
    """
    words: List[DirectiveWord] = []
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
        end = _linewords_of(line, number, start, words)
        whole = SourceSpan(number, 1, len(line) + 1)
        if number in mended:
            words[before:] = [DirectiveWord(word.text, whole) for word in words[before:]]
        if separator:
            end += len(line[end:].split(None, 1)[0])
        rest = line[end:].strip(BLANKS)
        if rest:
            place = SourceSpan(
                number, end + 1 + line[end:].index(rest), len(line.rstrip(BLANKS)) + 1
            )
            place = whole if number in mended else place
            cut.append(Ignored(REMARK if rest.startswith("#") else CUT, rest, place))
    return words, None, cut


def _directive_start(line: str) -> int:
    """Where the words of a directive begin; 0 in any other line."""
    start = next((len(prefix) for prefix in DIRECTIVE if line.startswith(prefix)), 0)
    while start and line[start : start + 1] and line[start] in BLANKS:
        start += 1
    return start


def _linewords_of(line: str, number: int, start: int, words: List[DirectiveWord]) -> int:
    """Append the words of a line; returns the position where sbatch stops reading it."""
    at = start
    while True:
        while at < len(line) and line[at] in BLANKS:
            at += 1
        begin = at
        if _COMPONENT.match(line, at):
            return at  # a bare hetjob within the line ends it
        if line[at : at + 1] == ":":
            raise Refused(
                Refusal("a word cannot begin with ':'", SourceSpan(number, at + 1, at + 2))
            )
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
            place = SourceSpan(number, begin + 1, len(line) + 1)
            about = meant_options(line[begin:]) + meant_options(words[-1].text if words else "")
            raise Refused(Refusal(f"a {quote} is not closed", place, about=about))
        if not characters:
            return at
        words.append(DirectiveWord("".join(characters), SourceSpan(number, begin + 1, at + 1)))
