"""The known log lines; docs/reference/causes.md describes the files."""

from __future__ import annotations

import bisect
import functools
import itertools
import os
import re
from typing import Any, Dict, List, Mapping, NoReturn, Pattern, Sequence, Set, Tuple

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
    ``*``: all. weak: the entry counts only among the last lines. source: what writes such lines.
    matches, differs: lines that the patterns must match, and must not (a test checks them).
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

    Raises CatalogError for a mistake in the user's file. One in the site's goes to SITE_FAULTS.
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
            SITE_FAULTS[error.message] = None  # the user cannot mend the site's file
            continue
        new_names = {entry.name for entry in new_entries}
        kept_entries = [entry for entry in known_entries if entry.name not in new_names]
        known_entries = new_entries + kept_entries
    return tuple(known_entries)


def read_entries(document: yamlfile.Document, *, shipped: bool = False) -> List[Entry]:
    """Return the entries of a file; raise CatalogError.

    shipped: the file is neuronctl's own, whose entries must have a source and a matching line.
    """
    return [
        _EntryReader(document, name, data).read(shipped=shipped)
        for name, data in document.data.items()
    ]


_KEYS = tuple("do" if field == "remedy" else field for field in Entry.__annotations__)[1:]
"""The keys of an entry in a file; its name is the key that leads to it."""


@dataclass(frozen=True)
class _EntryReader:
    """Reads one entry of a file of causes; raises CatalogError, with the file and the line."""

    document: yamlfile.Document
    name: str
    data: Any

    def read(self, *, shipped: bool) -> Entry:
        """Return the entry. shipped: as for read_entries()."""
        self.check_keys()
        entry = Entry(
            name=self.name,
            role=self.role(),
            kind="".join(self.texts("kind")) or self.name,
            means=" ".join(self.texts("means")),
            remedy=" ".join(self.texts("do")),
            patterns=self.texts("patterns"),
            exceptions=self.texts("exceptions"),
            frame="".join(self.texts("frame")),
            explains=self.texts("explains"),
            weak=self.data.get("weak") is True,
            source="".join(self.texts("source")),
            matches=self.texts("matches"),
            differs=self.texts("differs"),
        )
        if not entry.patterns and not entry.exceptions:
            self.fail("it has neither 'patterns' nor 'exceptions'")
        if entry.role != NOISE and not entry.means:
            self.fail("'means' is missing: what a line of this kind says of the job")
        if not shipped:  # a test compiles the patterns of the shipped file
            self.check_patterns("patterns")
            self.check_patterns("frame")
        elif not entry.source or not entry.matches:
            self.fail("'source' or 'matches' is missing")
        return entry

    def fail(self, problem: str, hint: str = "", key: str = "") -> NoReturn:
        """Raise CatalogError for the entry, or for one of its keys."""
        path = (self.name, key) if key else (self.name,)
        raise CatalogError(f"{self.document.where(path)}: {self.name}: {problem}", hint)

    def check_keys(self) -> None:
        """Refuse an entry without keys, and unknown keys."""
        if not isinstance(self.data, Mapping):
            self.fail("an entry has keys of its own", "see docs/reference/causes.md")
        for key in self.data:
            if key not in _KEYS:
                self.fail(f"unknown key '{key}'", did_you_mean(key, _KEYS), key)

    def role(self) -> str:
        """Return the role, CAUSE if none is given."""
        role = self.data.get("role") or CAUSE
        if role == "advice":
            return NOISE  # its former name
        if role not in ROLES:
            self.fail(f"unknown role '{role}'", did_you_mean(str(role), ROLES), "role")
        return str(role)

    def texts(self, key: str) -> Tuple[str, ...]:
        """Return the text of a key, or the texts of its list; () without the key."""
        value = self.data.get(key) or []
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in values):
            self.fail(f"'{key}' is a text or a list of texts", key=key)
        return tuple(values)

    def check_patterns(self, key: str) -> None:
        """Refuse a text of a key that is no regular expression."""
        for pattern in self.texts(key):
            try:
                compiled(pattern)
            except re.error as error:
                self.fail(f"{pattern!r} is no regular expression: {error}", key=key)


@functools.cache
def compiled(pattern: str) -> Pattern[str]:
    """Return a pattern that ignores case."""
    return re.compile(pattern, re.IGNORECASE)


# One part of a pattern: an escaped character, a set, a count such as {2,3}, the beginning of a
# special group such as (?:, or any other character.
_PARTS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[\d,]+\}|\(\?(?:[:=!]|<[=!]|P<\w+>|[a-z-]+:)|.", re.DOTALL
)
_Needs = Tuple[str, ...]


@functools.cache
def needed_texts(pattern: str) -> _Needs:
    """Return lower-case texts of which each matching line contains at least one; "": any line."""
    return tuple(text.lower() for text in _needs(_PARTS.findall(pattern)[::-1]))


def _needs(parts: List[str]) -> _Needs:
    r"""Return texts of which each match of a group contains at least one; "": any text may match.

    parts: the parts of the group and of what follows it, in reverse, so that pop() takes the next
    one. The group's own parts are removed from the list; its ``)`` is left there.

    >>> _needs(_PARTS.findall(r"GPU \d+ is lost|no device")[::-1])
    (' is lost', 'no device')
    """
    alternatives: _Needs = ()  # the texts of the alternatives before the current one
    best: _Needs = ("",)  # the most selective texts that the current alternative needs
    literal = ""  # the characters that surely stand directly before the next part
    while parts and parts[-1] != ")":
        part = parts.pop()
        if part == "|":
            alternatives += best
            best, literal = ("",), ""
            continue
        if part in ("^", "$", r"\b"):
            continue  # it matches a position, not a character
        inner = _group_needs(part, parts) if part[0] == "(" else ("",)
        is_optional = bool(parts) and parts[-1][0] in "?*{"  # by the part behind it
        character = "" if is_optional else _literal(part)
        literal = literal + character if character else ""
        if not is_optional:
            best = max(best, (literal,) if character else inner, key=_selectivity)
    return alternatives + best


def _group_needs(opening: str, parts: List[str]) -> _Needs:
    """Return the texts that the group after ``opening`` needs; ("",) if it looks ahead or back."""
    needs = _needs(parts)
    if parts:
        parts.pop()  # the group's closing parenthesis
    only_looks = opening in ("(?=", "(?!", "(?<=", "(?<!")
    return ("",) if only_looks else needs


def _literal(part: str) -> str:
    """Return the character that a part of a pattern matches; "" if it may match several."""
    if part[0] == "\\":
        return "" if part[1].isalnum() else part[1]
    return "" if part[0] in "[(.?*+{|" else part


def _selectivity(needs: _Needs) -> int:
    """Return how selective the texts are: the length of the shortest."""
    return min(len(text) for text in needs)


def find_likely(all_entries: Sequence[Entry], lines: Sequence[str]) -> List[List[Entry]]:
    """Return, for each line, the entries with a pattern that may match it, in order."""
    lowered = [line.lower() for line in lines]
    text = "\n".join(lowered)
    starts = [0, *itertools.accumulate(len(line) + 1 for line in lowered)]
    indices_by_need: Dict[str, List[int]] = {}
    entries_by_line: List[List[Entry]] = [[] for _ in lines]
    for entry in all_entries:
        indices: Set[int] = set()
        for pattern in entry.patterns:
            for need in needed_texts(pattern):
                if need not in indices_by_need:
                    indices_by_need[need] = _lines_with(need, text, starts)
                indices.update(indices_by_need[need])
        for index in indices:
            entries_by_line[index].append(entry)
    return entries_by_line


def _lines_with(need: str, text: str, starts: Sequence[int]) -> List[int]:
    """Return the indices of the lines that contain a text.

    text: all lines. starts: where each line begins in it, and where the next one would begin.
    """
    indices = []
    place = text.find(need)
    while 0 <= place < starts[-1]:
        index = bisect.bisect_right(starts, place) - 1
        indices.append(index)
        place = text.find(need, starts[index + 1])
    return indices
