"""Runs a neuronctl command and prints how many files below XDG_STATE_HOME it opened.

Runs with the measured neuronctl, whose own output is thrown away.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Set, Tuple


def main() -> None:
    below = os.environ["XDG_STATE_HOME"] + "/"
    opened: Set[str] = set()

    def hook(event: str, words: Tuple[Any, ...]) -> None:
        if event == "open" and isinstance(words[0], (str, os.PathLike)):
            opened.add(os.fspath(words[0]))

    sys.addaudithook(hook)
    from neuronctl.cli import main as neuronctl

    sys.argv = ["neuronctl", *sys.argv[1:]]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            neuronctl()
        except SystemExit as stop:
            if stop.code not in (None, 0):
                raise
    print(sum(name.startswith(below) and not os.path.isdir(name) for name in opened))


if __name__ == "__main__":
    main()
