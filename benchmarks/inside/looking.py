"""Runs a neuronctl command and looks at what it does. Not for measuring time.

Reads {"argv": […], "what": …, "tty": whether it writes to a terminal} from standard input. what:

    files       how many files below XDG_STATE_HOME it opened
    functions   [[place, calls, milliseconds by itself], …], the longest first
    imports     what -X importtime says

Runs with the measured neuronctl, whose own output is thrown away.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import subprocess
import sys
from typing import Any, List, Set, Tuple

from stopwatch import Screen  # type: ignore[import-not-found]

MOST = 15


def files(argv: List[str]) -> int:
    """How many files of the state directory are opened, directories aside."""
    below = os.environ["XDG_STATE_HOME"] + "/"
    opened: Set[str] = set()

    def hook(event: str, words: Tuple[Any, ...]) -> None:
        if event == "open" and isinstance(words[0], (str, os.PathLike)):
            opened.add(os.fspath(words[0]))

    sys.addaudithook(hook)
    call(argv)
    return sum(name.startswith(below) and not os.path.isdir(name) for name in opened)


def functions(argv: List[str]) -> List[Tuple[str, int, float]]:
    """The functions that take longest by themselves."""
    profile = cProfile.Profile()
    profile.enable()
    call(argv)
    profile.disable()
    rows = []
    for (file, line, name), entry in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        place = name if file == "~" else f"{'/'.join(file.split('/')[-2:])}:{line} {name}"
        rows.append((place, entry[1], 1000 * entry[2]))
    return sorted(rows, key=lambda row: -row[2])[:MOST]


def imports(argv: List[str]) -> str:
    """The lines of ``-X importtime``."""
    python = [sys.executable, "-X", "importtime", "-m", "neuronctl"]
    return subprocess.run([*python, *argv], stderr=subprocess.PIPE, check=True, text=True).stderr


def call(argv: List[str]) -> None:
    """The command, from the import of its program to its exit code, which must be 0."""
    try:
        from neuronctl.cli import main

        sys.argv = ["neuronctl", *argv]
        main()
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise


def run() -> None:
    asked = json.load(sys.stdin)
    answer = os.dup(1)
    os.dup2(Screen().terminal if asked["tty"] else os.open("/dev/null", os.O_WRONLY), 1)
    looks = {"files": files, "functions": functions, "imports": imports}
    told = looks[asked["what"]](asked["argv"])
    with os.fdopen(answer, "w", encoding="utf-8") as file:
        json.dump(told, file)


if __name__ == "__main__":
    run()
