"""The known log lines; docs/reference/causes.md describes the files."""

from __future__ import annotations

import bisect
import functools
import itertools
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, NoReturn, Optional, Pattern, Sequence, Tuple

from neuronctl.common import yamlfile
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import SITE_FAULTS, CatalogError, did_you_mean
from neuronctl.common.paths import config_dir, present

ROLES = CAUSE, CONSEQUENCE, WARNING, NOISE = "cause", "consequence", "warning", "noise"

SHIPPED = os.path.join(os.path.dirname(__file__), "causes.yaml")
SITE_FILE = "/etc/neuronctl/causes.yaml"


@dataclass(frozen=True)
class Entry:
    """What lines of one kind mean.

    kind: a keyword for --json. role: ``cause`` ends a job; ``consequence`` is what processes print
    because another one died; a ``warning`` counts only before what it explains; ``noise`` is never
    the reason. means: completes "Likely cause: …". remedy: what to do. In both, ``{0}`` is the text
    that the first group of the pattern matched. patterns: a line matches if one of them does.
    exceptions: the classes of the exceptions that the entry is about; (): any line. frame: a
    pattern for the file that raised the exception. explains: the kinds that follow from the entry;
    ``*``: all. weak: the entry counts only among the last lines.
    """

    name: str = ""
    kind: str = ""
    role: str = CAUSE
    means: str = ""
    remedy: str = ""
    patterns: Tuple[str, ...] = ()
    exceptions: Tuple[str, ...] = ()
    frame: str = ""
    explains: Tuple[str, ...] = ()
    weak: bool = False
    source: str = ""
    matches: Tuple[str, ...] = ()
    differs: Tuple[str, ...] = ()


@functools.cache
def entries() -> Tuple[Entry, ...]:
    """Return the known entries, the user's own first; the first that matches a line counts.

    Raises CatalogError with file and line, but not of the site's.
    """
    files = [(SHIPPED, False)]
    own_file = os.path.join(config_dir(), "causes.yaml")
    files += [(file, True) for file in (SITE_FILE, own_file) if present(file)]
    known_entries: List[Entry] = []
    for file, is_added in files:
        try:
            document = yamlfile.read(file, CatalogError, found=is_added)
            new_entries = read_entries(document, shipped=not is_added)
        except CatalogError as error:
            if file != SITE_FILE:
                raise
            SITE_FAULTS[error.message] = None
            continue
        names = {entry.name for entry in new_entries}
        known_entries = new_entries + [entry for entry in known_entries if entry.name not in names]
    return tuple(known_entries)


def read_entries(document: yamlfile.Document, *, shipped: bool = False) -> List[Entry]:
    """Return the entries of a file; raise CatalogError.

    shipped: the file is neuronctl's own, whose entries must have a source and a matching line.
    """
    return [_entry(document, name, data, shipped) for name, data in document.data.items()]


_KEYS = tuple({"remedy": "do"}.get(field, field) for field in Entry.__annotations__)[1:]


def _entry(document: yamlfile.Document, name: str, data: Any, shipped: bool) -> Entry:
    """Return an entry from its keys in a file; raise CatalogError. shipped: as for read_entries."""

    def fail(problem: str, hint: str = "", key: str = "") -> NoReturn:
        path = (name, key) if key else (name,)
        raise CatalogError(f"{document.where(path)}: {name}: {problem}", hint)

    def texts(key: str) -> Tuple[str, ...]:
        values = _as_texts(data.get(key))
        if values is None:
            fail(f"'{key}' is a text or a list of texts", key=key)
        return values

    if not isinstance(data, Mapping):
        fail("an entry has keys of its own", "see docs/reference/causes.md")
    for key in data:
        if key not in _KEYS:
            fail(f"unknown key '{key}'", did_you_mean(key, _KEYS), key)
    role = data.get("role") or CAUSE
    role = NOISE if role == "advice" else role  # its former name
    if role not in ROLES:
        fail(f"unknown role '{role}'", did_you_mean(str(role), ROLES), "role")
    entry = Entry(
        name,
        "".join(texts("kind")) or name,
        role,
        " ".join(texts("means")),
        " ".join(texts("do")),
        texts("patterns"),
        texts("exceptions"),
        "".join(texts("frame")),
        texts("explains"),
        data.get("weak") is True,
        "".join(texts("source")),
        texts("matches"),
        texts("differs"),
    )

    if not entry.patterns and not entry.exceptions:
        fail("it has neither 'patterns' nor 'exceptions'")
    if role != NOISE and not entry.means:
        fail("'means' is missing: what a line of this kind says of the job")
    if shipped:  # a test compiles its patterns
        if not (entry.source and entry.matches):
            fail("'source' or 'matches' is missing")
        return entry
    for key in ("patterns", "frame"):
        problem = _pattern_problem(texts(key))
        if problem:
            fail(problem, key=key)
    return entry


def _as_texts(value: Any) -> Optional[Tuple[str, ...]]:
    """Return a text, or the texts of a list; () for nothing, None for anything else."""
    if not value:
        return ()
    values = value if isinstance(value, list) else [value]
    return tuple(values) if all(isinstance(one, str) for one in values) else None


def _pattern_problem(patterns: Iterable[str]) -> str:
    """Return what is wrong with the first pattern that is no regular expression; or ""."""
    for pattern in patterns:
        try:
            compiled(pattern)
        except re.error as error:
            return f"{pattern!r} is no regular expression: {error}"
    return ""


@functools.cache
def compiled(pattern: str) -> Pattern[str]:
    """Return a pattern that ignores case."""
    return re.compile(pattern, re.IGNORECASE)


# One part of a pattern: an escaped character, a set, a count ({2,3}), the beginning of a group with
# a meaning of its own ((?: and the like), or any other character.
_PARTS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[\d,]+\}|\(\?(?:[:=!]|<[=!]|P<\w+>|[a-z-]+:)|.", re.DOTALL
)
_Needs = Tuple[str, ...]


@functools.cache
def needed_texts(pattern: str) -> _Needs:
    """Return lower-case texts of which each matching line contains one; ``("",)``: any line."""
    return tuple(text.lower() for text in _needs(_PARTS.findall(pattern)[::-1]))


def _needs(parts: List[str]) -> _Needs:
    r"""Return texts of which each match of a group contains at least one; ("",): any text matches.

    parts: the group's parts, reversed, and what follows it; they are consumed up to its ``)``.

    >>> _needs(_PARTS.findall(r"GPU \d+ is lost|no device")[::-1])
    (' is lost', 'no device')
    """
    alternatives: _Needs = ()  # the texts of the finished alternatives
    best: _Needs = ("",)  # for this alternative, the texts whose shortest one is longest
    literal = ""  # the characters that surely stand before the next part
    while parts and parts[-1] != ")":
        part = parts.pop()
        if part in ("^", "$", r"\b"):
            continue
        inner = _group_needs(part, parts) if part[0] == "(" else ("",)
        is_optional = bool(parts) and parts[-1][0] in "?*{"
        character = _literal(part)
        if character and not is_optional:
            literal += character
            best = max(best, (literal,), key=_least)
            continue
        literal = ""
        if part == "|":
            alternatives += best
            best = ("",)
        elif not is_optional:
            best = max(best, inner, key=_least)
    return alternatives + best


def _group_needs(opening: str, parts: List[str]) -> _Needs:
    """Return the texts that the group after ``opening`` needs; ("",) if it looks ahead or back."""
    needs = _needs(parts)
    if parts:
        parts.pop()  # the group's closing parenthesis
    return ("",) if opening[1:2] == "?" and opening[-1] in "=!" else needs


def _literal(part: str) -> str:
    """Return the character that a part of a pattern matches; "" if it may match several."""
    if part[0] == "\\":
        return "" if part[1].isalnum() else part[1]
    return "" if part[0] in "[(.?*+{|" else part


def _least(needs: _Needs) -> int:
    """Return the length of the shortest text."""
    return min(len(text) for text in needs)


def likely(all_entries: Sequence[Entry], lines: Sequence[str]) -> List[List[Entry]]:
    """Return, for each line, the entries with a pattern that may match it, in order."""
    lowered = [line.lower() for line in lines]
    text = "\n".join(lowered)
    starts = [0, *itertools.accumulate(len(line) + 1 for line in lowered)]
    places: Dict[str, List[int]] = {}
    orders_by_line: List[Dict[int, None]] = [{} for _ in lines]
    for order, entry in enumerate(all_entries):
        for need in (need for pattern in entry.patterns for need in needed_texts(pattern)):
            if need not in places:
                places[need] = _lines_with(need, text, starts)
            for line in places[need]:
                orders_by_line[line][order] = None
    return [[all_entries[order] for order in sorted(orders)] for orders in orders_by_line]


def _lines_with(need: str, text: str, starts: Sequence[int]) -> List[int]:
    indices = []
    place = text.find(need)
    while 0 <= place < starts[-1]:
        indices.append(bisect.bisect_right(starts, place) - 1)
        place = text.find(need, starts[indices[-1] + 1])
    return indices
