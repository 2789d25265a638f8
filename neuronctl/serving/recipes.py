"""What a server is: one file per recipe, read as launchers are.

docs/reference/recipes.md describes the keys. A user's file comes before the site's, and that before
the one that ships with neuronctl.
"""

from __future__ import annotations

import contextlib
import os
from string import Template
from typing import Tuple

from neuronctl.common import yamlfile
from neuronctl.common.errors import TemplateError, UsageError, did_you_mean
from neuronctl.common.frozen import dataclass
from neuronctl.common.paths import config_dir, data_path, present
from neuronctl.launch.launchers import template_text

SITE_DIRECTORY = "/etc/neuronctl/templates/recipes"

OWN, GATE = "own", "gate"


@dataclass(frozen=True)
class Recipe:
    """One kind of server.

    needs: the program that the job's environment must have. command, ready: shell text that starts
    the server, and that succeeds once it has answered a real request. guard: whether the server
    itself asks for the token (OWN), or stands behind one that does (GATE). url, print: what the
    user is told, with ``$port``, ``$token``, and the like.
    """

    name: str
    file: str
    title: str
    command: str
    ready: str
    needs: str = ""
    guard: str = OWN
    url: str = ""
    print: str = ""


_KEYS = ("title", "needs", "command", "ready", "guard", "url", "print")
_REQUIRED = ("title", "command", "ready")


def directories() -> Tuple[str, ...]:
    """Return where recipes are looked for: the user's directory, the site's, the shipped one."""
    own = os.path.join(config_dir(), "templates", "recipes")
    return own, SITE_DIRECTORY, os.path.join(data_path("templates"), "recipes")


def names() -> Tuple[str, ...]:
    found = set()
    for directory in directories():
        with contextlib.suppress(OSError):
            found |= {file[:-5] for file in os.listdir(directory) if file.endswith(".yaml")}
    return tuple(sorted(found))


def load(name: str) -> Recipe:
    """Return the recipe ``name``.

    Raises UsageError if there is none, and TemplateError with file and line if its file is wrong
    or may be changed by other users.
    """
    for directory in directories() if os.sep not in name else ():
        file = os.path.join(directory, f"{name}.yaml")
        if present(file):
            return _read(name, file, own=directory != directories()[-1])
    known = names()
    hint = did_you_mean(name, known) or "recipes are: " + ", ".join(known)
    raise UsageError(f"no recipe '{name}'", hint)


def _read(name: str, file: str, *, own: bool) -> Recipe:
    document = yamlfile.parse(template_text(file, own=own), file, TemplateError)
    for key, value in document.data.items():
        where = document.where((key,))
        if key not in _KEYS:
            raise TemplateError(f"{where}: unknown key '{key}'", did_you_mean(key, _KEYS))
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise TemplateError(f"{where}: '{key}' is not text", "quote it, or begin it with '|'")
        if key in ("url", "print") and not _is_template(value):
            raise TemplateError(f"{where}: '{key}' has a $ without a name", "write $$ for a $")
    missing = [key for key in _REQUIRED if key not in document.data]
    if missing:
        raise TemplateError(f"{file}:1: key '{missing[0]}' is missing", f"add '{missing[0]}: …'")
    recipe = Recipe(name=name, file=file, **document.data)
    if recipe.guard not in (OWN, GATE):
        where = document.where(("guard",))
        raise TemplateError(f"{where}: guard: must be {OWN} or {GATE}, not '{recipe.guard}'")
    return recipe


def _is_template(text: str) -> bool:
    try:
        Template(text).safe_substitute()
        return all(match["invalid"] is None for match in Template.pattern.finditer(text))
    except ValueError:
        return False
