"""Regular expressions that are compiled when they are first used.

Compiling one takes up to 2 ms, and most of those that a module has are not needed by a command.
"""

from __future__ import annotations

import re
from typing import Any, Pattern, cast


def lazy(text: str, flags: int = 0) -> Pattern[str]:
    """As ``re.compile``; a mistake in ``text`` shows at the first use."""
    return cast("Pattern[str]", _Lazy(text, flags))


class _Lazy:
    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)  # so that this is not called again
        return found
