"""Options of a command that exclude each other."""

from __future__ import annotations

from typing import Mapping

from neuronctl.common.errors import UsageError


def at_most_one(options: Mapping[str, object]) -> None:
    """Raise UsageError where two of these options are given: neither False, None, nor empty."""
    given = [name for name, value in options.items() if value not in (False, None, (), [])]
    if len(given) > 1:
        raise UsageError(f"{given[0]} cannot be combined with {given[1]}", "keep one of them")
