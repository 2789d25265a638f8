"""A catalog mapping while it is being read: typed values, and errors with file and line."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, overload

from neuronctl.catalog.model import Location, Path
from neuronctl.common import units
from neuronctl.common.errors import CatalogError, did_you_mean

T = TypeVar("T")

Error = Tuple[Tuple[int, int], CatalogError]
"""An error, and where it sorts: the rank of its file, and the line."""

EMPTY_HINT = "a key without a value removes what lower files set: give it a value, or omit the key"


class CheckedMapping:
    """One mapping of the merged catalog, and the location of every value in it.

    A wrong value is reported with refuse(), and read as if it were not there, so that all errors
    are found at once.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        path: Path,
        places: Mapping[Path, Location],
        files: Sequence[str],
        errors: Optional[Dict[Path, Error]] = None,
    ):
        self.data = data
        self.path = path
        self.places = places
        self.files = files
        """The merged files, lowest first."""
        self.errors: Dict[Path, Error] = {} if errors is None else errors
        """What is wrong, here and in the mappings around and below: one error for each key."""

    def below(self, data: Mapping[str, Any], *keys: str) -> CheckedMapping:
        return CheckedMapping(data, (*self.path, *keys), self.places, self.files, self.errors)

    def refuse(self, key: str, message: str, hint: str = "", *others: Path) -> None:
        """Report an error about ``key`` of this mapping ("": about the mapping itself).

        others: paths below the mapping that conflict with it. The location in the highest layer is
        blamed, because the lower layers were valid without it. Within one layer, ``key`` or a path
        inside it is blamed.
        """
        path = (*self.path, key) if key else self.path
        reported = path if key else (*path, message)
        place = path
        while place and place not in self.places:
            place = place[:-1]
        own = self.places.get(place)
        blamed = own
        for other in others:
            conflicting = self.places.get((*self.path, *other))
            if conflicting is None:
                continue
            inside = other[0] == key
            if blamed is None or self._rank(conflicting) + inside > self._rank(blamed):
                blamed = conflicting
        if own is not None and blamed != own and place == path:
            message += f" ({path[-1]}: {own})"
        order = (-1, 0) if blamed is None else (self._rank(blamed), blamed.line)
        prefix = "" if blamed is None else f"{blamed}: "
        error = CatalogError(f"{prefix}{'.'.join(path)}: {message}", hint)
        self.errors.setdefault(reported, (order, error))

    def wrong(self, *key: str) -> bool:
        """Whether the value of ``key``, or this mapping itself, was refused."""
        return (*self.path, *key) in self.errors

    def has_errors(self) -> bool:
        """Whether anything in this mapping was refused."""
        return any(path[: len(self.path)] == self.path for path in self.errors)

    def as_high(self, key: str, other: str) -> bool:
        """Whether ``key`` is set in the same layer as ``other`` or in a higher one."""
        places = [self.places.get((*self.path, name)) for name in (key, other)]
        own, its = (-1 if place is None else self._rank(place) for place in places)
        return own >= its

    def _rank(self, place: Location) -> int:
        return max(number for number, file in enumerate(self.files) if file == place.file)

    def check_keys(self, allowed: Sequence[str]) -> None:
        for key in self.data:
            if key not in allowed:
                self.refuse(key, "unknown key", did_you_mean(key, allowed))

    def given(self, key: str) -> bool:
        return self.data.get(key) is not None

    def present(self) -> List[str]:
        """The keys that no higher layer has removed with null."""
        return [key for key in self.data if self.given(key)]

    def typed(self, key: str, kind: type, allowed: str) -> Any:
        """The value, or None if there is none; ``allowed`` says what it may be."""
        value = self.data.get(key)
        # bool is an int to Python, but not to a person who writes `nodes: true`.
        if value is not None and (type(value) is not kind):
            self.refuse(
                key, f"{show(value)} is not allowed", _instead(key, value) or f"write {allowed}"
            )
            return None
        return value

    def mapping(self, key: str, *allowed: str) -> CheckedMapping:
        """The mapping at ``key``. allowed: the keys that it may have, where not any."""
        value = self.below(self.typed(key, dict, "a mapping, 'key: value' lines") or {}, key)
        if allowed:
            value.check_keys(allowed)
        return value

    def text(self, key: str, default: T, *, or_number: bool = False) -> Any:
        """One line of text; with ``or_number``, a whole number is returned as its digits."""
        if or_number and type(self.data.get(key)) is int:
            return str(self.data[key])
        value = self.typed(key, str, "text (quote it if it looks like a number)")
        if value is None:
            return default
        if not value.isprintable():
            self.refuse(key, f"{value!r} is not one line of text", "write one line of text")
            return default
        return value

    def choice(self, key: str, allowed: Sequence[str], default: str) -> str:
        value: str = self.text(key, default)
        if value not in allowed:
            self.refuse(key, f"{value!r} is not allowed", did_you_mean(value, allowed))
            return default
        return value

    @overload
    def boolean(self, key: str, default: bool) -> bool: ...

    @overload
    def boolean(self, key: str, default: Optional[bool]) -> Optional[bool]: ...

    def boolean(self, key: str, default: Optional[bool]) -> Optional[bool]:
        value = self.typed(key, bool, "true or false")
        return default if value is None else bool(value)

    def whole(self, key: str, least: int) -> Optional[int]:
        allowed = f"a whole number of at least {least}"
        value: Optional[int] = self.typed(key, int, allowed)
        if value is not None and value < least:
            self.refuse(key, f"{value} is less than {least}", f"write {allowed}")
            return None
        return value

    def number(self, key: str, default: Optional[float]) -> Optional[float]:
        """A finite number of at least 0."""
        value = self.data.get(key)
        if value is None:
            return default
        if type(value) not in (int, float) or not 0 <= value < 1e15:
            self.refuse(key, f"{show(value)} is not allowed", "write a number of at least 0")
            return default
        return float(value)

    def texts(self, key: str) -> Tuple[str, ...]:
        items = self.typed(key, list, "a list of words: [one, two]") or []
        for number, item in enumerate(items):
            if not isinstance(item, str) or not item or not item.isprintable():
                self.refuse(
                    key,
                    f"entry {number + 1}, {show(item)}, is not allowed",
                    "write a list of words: [one, two]; quote words that look like numbers",
                )
                return ()
            if item in items[:number]:
                self.refuse(key, f"{item!r} is listed twice", "keep only one of them")
        return tuple(items)

    def duration(self, key: str) -> Optional[int]:
        value = self.data.get(key)
        if value is None:
            return None
        hint = f"use {units.TIME_FORMS}; a bare number is minutes"
        if type(value) not in (int, str):
            self.refuse(key, f"{show(value)} is not a time", hint)
            return None
        try:
            seconds = units.parse_duration(str(value))
        except ValueError:
            if str(value).upper() == "UNLIMITED":
                return units.UNLIMITED
            self.refuse(key, f"{show(value)} is not a time", hint)
            return None
        if seconds == 0:
            self.refuse(key, "0 is not a time limit", "write UNLIMITED if there is no limit")
            return None
        return seconds


def _instead(key: str, value: object) -> str:
    """What 192G means where a number of MB is wanted; "" for anything else."""
    match = re.fullmatch(r"([0-9]{1,9})([GT])I?B?", str(value).upper())
    if match is None or "_mb_" not in key:
        return ""
    return f"write it in MB: {int(match[1]) * (1024 if match[2] == 'G' else 1024**2)}"


def show(value: object) -> str:
    """A value as its author wrote it, truncated if long."""
    if isinstance(value, bool):
        return str(value).lower()
    text = "a mapping" if isinstance(value, dict) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
