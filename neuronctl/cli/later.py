"""Modules that are imported when something of them is used; for a process of neuronctl's own."""

from __future__ import annotations

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SELDOM_USED = ("inspect", "ipaddress", "locale", "tempfile")
"""What click, jinja2 and subprocess import for things that most commands never do."""


def import_later(*names: str) -> None:
    """Put a stand-in for each top-level module where ``import`` looks, until it is used.

    Not importlib.util.LazyLoader: Python before 3.12 looks at ``__spec__`` in a second ``import``,
    and what has been looked at is loaded.
    """
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = _StandIn(name)


class _StandIn(types.ModuleType):
    def __getattr__(self, attribute: str) -> Any:
        import importlib

        name = self.__name__
        if sys.modules.get(name) is self:
            sys.modules.pop(name, None)
        return getattr(importlib.import_module(name), attribute)
