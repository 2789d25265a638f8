"""The command line without asking Slurm, checked by the catalog only: shows what asking costs."""

from __future__ import annotations

import os
import sys
from typing import List, NoReturn

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.judgement import ask

refused: List[object] = []


def ask_nobody(*words: object, **settings: object) -> NoReturn:
    """In place of ask_slurm: fails as if Slurm did not answer, but at once."""
    refused.append(words)
    raise SlurmUnavailableError("Slurm was not asked")


ask.ask_slurm = ask_nobody


def program() -> None:
    """In place of cli.program, which ends the process in the same way."""
    from neuronctl.cli import main

    try:
        main()
    except SystemExit as stop:
        if not refused:
            sys.exit("benchmarks: the gate no longer calls ask_slurm")
        sys.stdout.flush()
        os._exit(stop.code if isinstance(stop.code, int) else 1)


if __name__ == "__main__":
    program()
