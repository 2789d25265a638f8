"""Asks bash whether it can read shell text, before a job is submitted with it."""

from __future__ import annotations

import re
from typing import Optional

from neuronctl.errors import SlurmUnavailableError
from neuronctl.frozen import dataclass
from neuronctl.slurm.process import run


@dataclass(frozen=True)
class SyntaxProblem:
    """What bash says of shell text.

    line: from 1. warning: whether bash runs it all the same, as it does a here-document that
    nothing ends. token, quote: what bash did not expect, and the quotation mark that nothing
    closes; "" where it names none. at_end: whether the text ends too early.
    """

    line: int
    message: str
    warning: bool
    token: str = ""
    quote: str = ""
    at_end: bool = False


def syntax_problem(text: str) -> Optional[SyntaxProblem]:
    """What bash cannot read; None where it can read all, or where there is no bash."""
    # Whether the text itself or what it sources sets extglob cannot be seen: allow its patterns.
    argv = ["bash", "-O", "extglob", "-n"]
    try:
        answer = run(argv, input=text, environment={"BASH_ENV": ""})
    except SlurmUnavailableError:
        return None
    # Not the exit code: it is 0 after a warning and after an error within [[ ]].
    found = re.search(r"(?m)^bash: line (\d+): (warning: )?(.*)$", answer.stderr)
    if found is None:
        return None
    # To bash, the end of the file is on a line of its own.
    line = min(int(found[1]), text.rstrip().count("\n") + 1)
    message = found[3]
    token = re.search(r"near unexpected token `(.*)'", message)
    quote = re.search(r"matching `(['\"`])'", message)
    return SyntaxProblem(
        line,
        message,
        warning=bool(found[2]),
        token="" if token is None else token[1],
        quote="" if quote is None else quote[1],
        at_end=re.search("end of file|EOF|end-of-file", message) is not None,
    )
