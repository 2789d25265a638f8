"""NC634: a directory for the job's log that is made only when the log is open already."""

from __future__ import annotations

import os
import re
from typing import Iterator

from neuronctl.common.rule_codes import WARNING
from neuronctl.common.users import login_name
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.shell_text import Command

_SAME_PATH = (
    (r"^(\$\{?(SLURM_SUBMIT_DIR|PWD)\}?|\$\(pwd\)|\.)/+", ""),
    (r"\$\{?(USER|LOGNAME)\}?|\$\(whoami\)|%u", "<user>"),
    (r"\$\{?SLURM_(ARRAY_)?JOB_?ID\}?|%[jA]", "<job>"),
    (r"\$\{?SLURM_ARRAY_TASK_ID\}?|%a", "<index>"),
    (r"\$\{?SLURM_JOB_NAME\}?|%x", "<name>"),
)


def _plain_path(text: str) -> str:
    """Return a path of the shell's or of a directive's with the same words for the same parts."""
    for pattern, name in _SAME_PATH:
        text = re.sub(pattern, name, text)
    return os.path.normpath(text)


def submits_itself(facts: ScriptFacts, behind: int = 0) -> bool:
    """Return True if a line behind that one calls sbatch."""
    return any(
        command.place.line > behind and any(word.value == "sbatch" for word in command.words[:2])
        for command in facts.shell.commands
    )


@script_rule(WARNING, "NC634", "log directory made too late")
def late_directory(facts: ScriptFacts) -> Iterator[Finding]:
    for name in ("output", "error"):
        given = facts.given(name)
        directory = os.path.dirname(given.value or "") if given is not None else ""
        if given is None or not directory or os.path.isdir(directory.replace("%u", login_name())):
            continue
        if re.search("%[0-9]*[jAJ]", directory):
            yield Finding(
                f"the directory of --{name}={given.value} is named after the job's id, so that it "
                "cannot be there before: the job fails without a log",
                _made_before(directory),
                place=given.place,
            )
            return
        wanted = _plain_path(directory)
        for command in facts.shell.calls("mkdir"):
            # Such a script makes the directory and submits itself.
            if not command.sure and submits_itself(facts, command.place.line):
                continue
            made = [_plain_path(text) for text in _directories(facts, command)]
            deeper = not wanted.startswith("/") and any(p.startswith(f"{wanted}/") for p in made)
            if wanted in made or deeper:
                yield Finding(
                    f"this comes too late for --{name}={given.value}: Slurm opens the log before "
                    "the script starts, and without the directory the job fails without a log",
                    _made_before(directory),
                    place=command.place,
                )
                return


def _directories(facts: ScriptFacts, mkdir: Command) -> Iterator[str]:
    """Yield what a mkdir makes, also as seen from the directory that a cd above has gone to."""
    gone = [
        each.words[1].value or ""
        for each in facts.shell.calls("cd")
        if len(each.words) == 2 and each.place.line < mkdir.place.line
    ]
    for word in mkdir.words[1:]:
        yield word.text
        if gone and gone[-1].startswith("/"):
            yield os.path.join(gone[-1], word.text)


def _made_before(directory: str) -> str:
    """Return how the directory is there in time."""
    directory = directory.replace("%u", "$USER")  # which the shell that submits knows
    above, number, _ = directory.partition("%")
    if number:
        above = above.rpartition("/")[0] or "."
        return f"put the number into the name of the file: {above}/%j.log, and make {above} before"
    return f"make it before you submit: mkdir -p {directory} && sbatch …"
