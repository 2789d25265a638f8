"""What takes more than a second is named, once, to a person who waits at a terminal."""

from __future__ import annotations

from typing import Callable, Optional

SECONDS = 1.0

_listener: Optional[Callable[[str], None]] = None


def listen(listener: Optional[Callable[[str], None]]) -> None:
    """Have ``listener`` hear what is waited for; None: nobody does."""
    global _listener
    _listener = listener


def tell(what: str) -> None:
    """Say what is waited for, if nothing has been said yet."""
    listener = _listener
    listen(None)
    if listener is not None:
        listener(what)
