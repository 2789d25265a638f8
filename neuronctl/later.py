"""A module that is imported when something of it is used."""

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def import_later(name: str) -> None:
    """Put a stand-in for a top-level module where ``import`` looks, until it is used.

    Not importlib.util.LazyLoader: Python before 3.12 looks at ``__spec__`` in a second ``import``,
    and what has been looked at is loaded.
    """
    if name in sys.modules:
        return
    stand_in = types.ModuleType(name)

    def of_the_module(attribute: str) -> Any:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        import importlib

        return getattr(importlib.import_module(name), attribute)

    stand_in.__getattr__ = of_the_module  # type: ignore[method-assign]
    sys.modules[name] = stand_in
