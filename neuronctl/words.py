"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """``1 node``, ``2 nodes``, ``2 processes``."""
    if number == 1:
        return f"{number} {thing}"
    return f"{number} {thing}{'es' if thing.endswith('s') else 's'}"


def verb(number: int) -> str:
    """``is`` for one, else ``are``."""
    return "is" if number == 1 else "are"
