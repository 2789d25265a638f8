"""What a server is: one file per recipe, found and trusted as launchers are.

docs/reference/recipes.md describes the keys.
"""

from __future__ import annotations

import os
import re
from typing import Tuple

from neuronctl.common import yamlfile
from neuronctl.common.errors import SITE_FAULTS, TemplateError, UsageError, did_you_mean
from neuronctl.common.frozen import dataclass
from neuronctl.common.paths import present
from neuronctl.common.units import parse_timeout
from neuronctl.launch import launchers

OWN, GATE = "own", "gate"


@dataclass(frozen=True)
class Recipe:
    """One kind of server.

    command, ready: shell text that starts the server, and that succeeds once it has answered a
    real request with the token. alive, used: shell text that succeeds while the server answers
    ("": ready), and if somebody uses it ("": if somebody is connected). open: whether it may answer
    without the token. ready_within: seconds until it must be ready. needs: the program that the
    job's environment must have. words: an example of what a user has to name, ``{port}`` included;
    "" for nothing. files: if the words are files, patterns of those without words; holds: what one
    of them must contain. guard: whether the server itself asks for the token (OWN), or stands
    behind what does (GATE). launcher: the one that starts the command; none if that is not needed.
    setup: shell text that the batch shell runs before. model: if the first word is a model, the
    bytes of a parameter where its name says none. url, print: what the user is told, with
    ``$port``, ``$token``, and the like.
    """

    name: str
    file: str
    title: str
    command: str
    ready: str
    alive: str = ""
    used: str = ""
    open: bool = False
    ready_within: int = 600
    needs: str = ""
    words: str = ""
    files: str = ""
    holds: str = ""
    guard: str = OWN
    launcher: str = ""
    setup: str = ""
    model: str = ""
    url: str = ""
    print: str = ""


_KEYS = tuple(
    key.replace("_", "-") for key in Recipe.__annotations__ if key not in ("name", "file")
)
_REQUIRED = ("title", "command", "ready")


def names() -> Tuple[str, ...]:
    return launchers.names("recipes", ".yaml")


def load(name: str) -> Recipe:
    """Return the recipe ``name``.

    Raises UsageError if there is none, and TemplateError with file and line if its file is wrong
    or may be changed by other users. A site's that is wrong is left out.
    """
    places = launchers.directories("recipes")
    for directory in places if os.sep not in name and name.isprintable() else ():
        file = os.path.join(directory, f"{name}.yaml")
        if not present(file):
            continue
        try:
            return read(name, file, own=directory != places[-1])
        except TemplateError as error:
            if directory != places[1]:
                raise
            SITE_FAULTS[error.message] = None
    raise UsageError(f"no recipe '{name}'", "recipes are: " + ", ".join(names()))


def read(name: str, file: str, *, own: bool) -> Recipe:
    text = launchers.template_text(file, own=own)
    document = yamlfile.parse(text, file, TemplateError)
    for key, value in document.data.items():
        where = document.where((key,))
        if key not in _KEYS:
            raise TemplateError(f"{where}: unknown key '{key}'", did_you_mean(key, _KEYS))
        if key == "open":
            if not isinstance(value, bool):
                raise TemplateError(f"{where}: open: must be true or false, not '{value}'")
            continue
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise TemplateError(f"{where}: '{key}' is not text", "quote it, or begin it with '|'")
        if key == "model" and not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
            raise TemplateError(f"{where}: model: '{value}' is not a number of bytes", "write '2'")
        if key == "guard" and value not in (OWN, GATE):
            raise TemplateError(f"{where}: guard: must be {OWN} or {GATE}, not '{value}'")
    for key in _REQUIRED:
        if key not in document.data:
            raise TemplateError(f"{file}:1: key '{key}' is missing", f"write '{key}: …'")
    values = {key.replace("-", "_"): value for key, value in document.data.items()}
    if "ready_within" in values:
        try:
            values["ready_within"] = parse_timeout(values["ready_within"])
        except ValueError as error:
            where = document.where(("ready-within",))
            raise TemplateError(f"{where}: ready-within: {error}") from None
    return Recipe(name=name, file=file, **values)
