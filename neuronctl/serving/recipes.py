"""What a server is: one file per recipe, found and trusted as launchers are.

docs/reference/recipes.md describes the keys.
"""

from __future__ import annotations

import os
import re
from typing import Tuple

from neuronctl.common import yamlfile
from neuronctl.common.errors import TemplateError, UsageError, did_you_mean
from neuronctl.common.frozen import dataclass
from neuronctl.common.paths import present
from neuronctl.launch import launchers

OWN, GATE = "own", "gate"


@dataclass(frozen=True)
class Recipe:
    """One kind of server.

    command, ready: shell text that starts the server, and that succeeds once it has answered a
    real request. needs: the program that the job's environment must have. words: an example of
    what a user has to name, ``{port}`` included; "" for nothing. guard: whether the server itself
    asks for the token (OWN), or stands behind what does (GATE). launcher: the one that starts the
    command; none if that is not needed. setup: shell text that the batch shell
    runs before. model: if the first word is a model, the bytes of a parameter where its name says
    none. url, print: what the user is told, with ``$port``, ``$token``, and the like.
    """

    name: str
    file: str
    title: str
    command: str
    ready: str
    needs: str = ""
    words: str = ""
    guard: str = OWN
    launcher: str = ""
    setup: str = ""
    model: str = ""
    url: str = ""
    print: str = ""


_KEYS = tuple(key for key in Recipe.__annotations__ if key not in ("name", "file"))
_REQUIRED = ("title", "command", "ready")


def names() -> Tuple[str, ...]:
    return launchers.names("recipes", ".yaml")


def load(name: str) -> Recipe:
    """Return the recipe ``name``.

    Raises UsageError if there is none, and TemplateError with file and line if its file is wrong
    or may be changed by other users.
    """
    places = launchers.directories("recipes")
    for directory in places if os.sep not in name and name.isprintable() else ():
        file = os.path.join(directory, f"{name}.yaml")
        if present(file):
            return _read(name, file, own=directory != places[-1])
    raise UsageError(f"no recipe '{name}'", "recipes are: " + ", ".join(names()))


def _read(name: str, file: str, *, own: bool) -> Recipe:
    text = launchers.template_text(file, own=own)
    document = yamlfile.parse(text, file, TemplateError)
    for key, value in document.data.items():
        where = document.where((key,))
        if key not in _KEYS:
            raise TemplateError(f"{where}: unknown key '{key}'", did_you_mean(key, _KEYS))
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise TemplateError(f"{where}: '{key}' is not text", "quote it, or begin it with '|'")
        if key == "model" and not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
            raise TemplateError(f"{where}: model: '{value}' is not a number of bytes", "write '2'")
        if key == "guard" and value not in (OWN, GATE):
            raise TemplateError(f"{where}: guard: must be {OWN} or {GATE}, not '{value}'")
    for key in _REQUIRED:
        if key not in document.data:
            raise TemplateError(f"{file}:1: key '{key}' is missing", f"write '{key}: …'")
    return Recipe(name=name, file=file, **document.data)
