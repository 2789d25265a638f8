"""The lists of commands, by the names that the rules still use."""

from __future__ import annotations

import re

from neuronctl.scripts import usual_commands

ONLY_PREPARES = SHORT = TELLS = usual_commands.LOOKS_OR_PREPARES
SAYS = usual_commands.SAYS
only_asks = usual_commands.only_asks
only_sets_up = usual_commands.only_sets_up
wraps_up = usual_commands.wraps_up


def asks_for(name: str, line: str) -> bool:
    """Return True if a line sets a variable, gives it a default, or tests whether it is set."""
    forms = (
        rf"(^|[;&|]|\b(do|then|else|export))\s*{name}\+?=",
        rf"\$\{{{name}:?[-=+?]",
        rf"-v {name}\b",
        rf"(\[|\btest) [^\]]*\$\{{?{name}\b",
        rf"(?<!\$)\(\([^)]*\b{name}\b",
    )
    return any(re.search(form, line) for form in forms)
