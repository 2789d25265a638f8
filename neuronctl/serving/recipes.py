"""Recipes of servers: one file each, in the same places as launchers, and trusted like them."""

from __future__ import annotations

import os
from typing import Any, Dict, Tuple

from neuronctl.common import yamlfile
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import SITE_FAULTS, TemplateError, UsageError, did_you_mean
from neuronctl.common.paths import present
from neuronctl.common.units import parse_timeout
from neuronctl.launch import launchers

OWN, GATE = "own", "gate"


@dataclass(frozen=True)
class Recipe:
    """One kind of server; docs/reference/recipes.md describes the keys."""

    name: str
    file: str
    title: str
    command: str  # shell text that starts the server
    ready: str  # shell text that succeeds once the server has answered a request with the token
    alive: str = ""  # shell text that succeeds while it answers; "": as ready
    used: str = ""  # shell text that succeeds if it is in use; "": connections count as use
    open: bool = False  # whether it may answer without the token
    ready_within: int = 600  # seconds within which it must be ready
    needs: str = ""  # the program that the job's environment must have; "": none
    words: str = ""  # an example of the words that a user must type, with {port}; "": none
    files: str = ""  # glob patterns of the files to serve if the user names none; "": no files
    holds: str = ""  # a regular expression that one of the files must match
    guard: str = OWN  # OWN: the server asks for the token; GATE: the gate before it does
    launcher: str = ""  # the launcher of the command; "": the default one
    setup: str = ""  # shell text that the batch shell runs first
    model: str = ""  # not empty: the user's first word is a model; "": there is none
    url: str = ""  # the address for the user, with $port, $token, and the like; "": none
    print: str = ""  # the instructions for the user


_KEYS = tuple(
    key.replace("_", "-") for key in Recipe.__annotations__ if key not in ("name", "file")
)
_REQUIRED = ("title", "command", "ready")


def names() -> Tuple[str, ...]:
    """Return the names of all recipes, the user's own included."""
    return launchers.names("recipes", ".yaml")


def load(name: str) -> Recipe:
    """Return the recipe ``name``: the user's own, the site's, or the shipped one.

    Raises UsageError if there is none, and TemplateError with file and line if its file is wrong
    or may be changed by other users. A wrong file of the site is noted and skipped.
    """
    own_place, site_place, shipped_place = launchers.directories("recipes")
    is_name = os.sep not in name and name.isprintable()
    for place in (own_place, site_place, shipped_place):
        file = os.path.join(place, f"{name}.yaml")
        if not is_name or not present(file):
            continue
        try:
            return read(name, file, own=place != shipped_place)
        except TemplateError as error:
            if place != site_place:
                raise
            SITE_FAULTS[error.message] = None
    raise UsageError(f"no recipe '{name}'", did_you_mean(name, names()))


def read(name: str, file: str, *, own: bool) -> Recipe:
    """Read a recipe from a file; raise TemplateError with file:line.

    own: whether the file is the user's or the site's, not shipped with neuronctl.
    """
    text = launchers.template_text(file, own=own)
    document = yamlfile.parse(text, file, TemplateError)
    values: Dict[str, Any] = {}
    for key, value in document.data.items():
        where = document.where((key,))
        if key not in _KEYS:
            raise TemplateError(f"{where}: unknown key '{key}'", did_you_mean(key, _KEYS))
        values[key.replace("-", "_")] = _read_value(key, value, where)
    for key in _REQUIRED:
        if key not in values:
            raise TemplateError(f"{file}:1: key '{key}' is missing", f"write '{key}: …'")
    return Recipe(name=name, file=file, **values)


def _read_value(key: str, value: Any, where: str) -> Any:
    """Return the value of a recipe's key; raise TemplateError if it is impossible."""
    if key == "open":
        if not isinstance(value, bool):
            raise TemplateError(f"{where}: open: must be true or false, not '{value}'")
        return value
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise TemplateError(f"{where}: '{key}' is not text", "quote it, or begin it with '|'")
    if key == "guard" and value not in (OWN, GATE):
        raise TemplateError(f"{where}: guard: must be {OWN} or {GATE}, not '{value}'")
    if key != "ready-within":
        return value
    try:
        return parse_timeout(value)
    except ValueError as error:
        raise TemplateError(f"{where}: ready-within: {error}") from None
