"""Asks bash whether it can read shell text, before a job is submitted with it."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from neuronctl.errors import SlurmUnavailableError
from neuronctl.slurm.process import run


def syntax_error(text: str) -> Optional[Tuple[int, str]]:
    """Line and message of what bash cannot read; None where it can, or where there is no bash.

    A here-document without its end counts too: what follows in a script would belong to it.
    """
    # Whether the text itself or what it sources sets extglob cannot be seen: allow its patterns.
    argv = ["bash", "-O", "extglob", "-n"]
    try:
        answer = run(argv, input=text, environment={"BASH_ENV": ""})
    except SlurmUnavailableError:
        return None
    # Not the exit code: it is 0 after a warning and after an error within [[ ]].
    found = re.search(r"(?m)^bash: line (\d+): (?:warning: )?(.*)$", answer.stderr)
    return None if found is None else (int(found[1]), found[2])
