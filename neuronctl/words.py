"""Counts in sentences and timestamps in JSON."""

from __future__ import annotations

from typing import Optional


def counted(number: int, thing: str) -> str:
    """``1 node``, ``2 nodes``, ``2 processes``."""
    if number == 1:
        return f"{number} {thing}"
    return f"{number} {thing}{'es' if thing.endswith('s') else 's'}"


def verb(number: int) -> str:
    """``is`` for 1, otherwise ``are``."""
    return "is" if number == 1 else "are"


def utc(moment: Optional[int]) -> Optional[str]:
    """Format seconds since the epoch the way all JSON output does: ISO 8601, UTC."""
    if moment is None:
        return None
    from datetime import datetime, timezone

    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
