"""Asks bash whether it can read shell text, before a job is submitted with it."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Optional

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.common.frozen import dataclass
from neuronctl.scripts.model import SourceSpan
from neuronctl.slurm.process import run


@dataclass(frozen=True)
class SyntaxProblem:
    """What bash says of shell text, and where; warning: whether bash runs it all the same."""

    place: SourceSpan
    message: str
    warning: bool


@cache
def syntax_problem(text: str) -> Optional[SyntaxProblem]:
    """What bash cannot read; None where it can read all, or where there is no bash."""
    # Whether the text itself or what it sources sets extglob cannot be seen: allow its patterns.
    argv = ["bash", "-O", "extglob", "-n"]
    try:
        answer = run(argv, input=text, env={**os.environ, "LC_ALL": "C", "BASH_ENV": ""})
    except SlurmUnavailableError:
        return None
    # Not the exit code: it is 0 after a warning and after an error within [[ ]].
    found = re.search(r"(?m)^bash: line (\d+): (warning: )?(.*)$", answer.stderr)
    if found is None:
        return None
    # To bash, the end of the file is on a line of its own.
    line = min(int(found[1]), text.rstrip().count("\n") + 1)
    place = SourceSpan(line, 1, len(text.split("\n")[line - 1]) + 1)
    return SyntaxProblem(place, found[3], bool(found[2]))
