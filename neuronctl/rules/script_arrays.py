"""NC653 and NC654: the tasks of an array, and their files."""

from __future__ import annotations

import re
from typing import Iterator, Optional

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, asks_for, script_rule
from neuronctl.scripts.model import SourceSpan
from neuronctl.scripts.shell_text import Command, ShellWord
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES
from neuronctl.slurm.job_id import JobId

_INDEX = "SLURM_ARRAY_TASK_ID"
OF_THE_NODE = re.compile(
    r"(/tmp|/var/tmp|/dev/shm|/local(_?scratch)?|\$\{?(SLURM_)?TMPDIR\b\}?"
    r"|\$\{?LOCAL_?SCRATCH\b\}?)(/|$)"
)
"""Directories of a node, or of a job on it: other nodes have none of their files."""


@script_rule(WARNING, "NC653", "one file for several jobs")
def one_file(facts: ScriptFacts) -> Iterator[Violation]:
    array, output = facts.given("array"), facts.given("output")
    tasks = None if array is None else tasks_of(array.value or "")
    several = tasks is not None and tasks.count > 1
    path = "" if output is None else output.value or ""
    kept = facts.header.value("open-mode") in ("a", "append") or path == "/dev/null"
    if several and output is not None and not kept and not re.search(r"%\d*[ajJ]|[\\$]|^$", path):
        yield _overwritten(path, _with(path, "%a"), output.place)
    moves = any(
        word.value is None and not re.search("SLURM_SUBMIT_DIR|HOME|PWD", word.raw)
        for command in facts.shell.calls("cd", "pushd")
        for word in command.words[1:]
    )
    if not several or moves or facts.shell.placeholders:
        return  # each may have a directory of its own
    for command in facts.shell.uncaptured:
        for word in _written(command):
            yield _overwritten(word.text, _with(word.text, f"${{{_INDEX}}}"), word.place)
            return


def _overwritten(path: str, other: str, place: SourceSpan) -> Violation:
    return Violation(
        f"every task of the array writes {path}: each overwrites what the others have written",
        f"write {other}",
        place=place,
    )


def _with(path: str, index: str) -> str:
    """Return a path with an index before its ending."""
    head, dot, tail = path.rpartition(".")
    return f"{head}-{index}.{tail}" if dot and head and "/" not in tail else f"{path}-{index}"


def _written(command: Command) -> Iterator[ShellWord]:
    """Yield the files of a fixed name that a command of the job's work writes anew."""
    words = [word for word in command.words[1:] if not word.raw.startswith("-")]
    appends = {"-a", "--append"} & {*command.arguments}
    tee = command.name == "tee" and not appends
    fills = any(_INDEX in word.names for word in command.words)
    works = tee or fills or command.name not in LOOKS_OR_PREPARES
    for word in words if tee else command.writes if works else ():
        path = word.value or ""
        if path and not re.fullmatch(r"/dev/\w+|&?\d|-", path) and not OF_THE_NODE.match(path):
            yield word


_SHOWS = re.compile(r"(?m)^[ \t]*#.*\bsbatch\b.* (--array|-a)[= ]")


@script_rule(NOTE, "NC654", "array index without an array", "by_absence")
def no_array(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.has("array") or not facts.header.given or _INDEX not in facts.text:
        return
    # A remark that shows how to submit it tells whoever does.
    if _SHOWS.search(facts.text) or any(asks_for(_INDEX, line) for line in facts.lines):
        return
    words = [
        word
        for command in facts.shell.commands
        if command.name not in ("echo", "printf", "export")
        for word in command.words[1:]
    ]
    words += [assigned.word for assigned in facts.shell.assignments]
    places = [word.place for word in words if _INDEX in word.names]
    if places:
        yield Violation(
            f"${_INDEX} is empty unless sbatch gets --array: nothing here makes an array",
            "write #SBATCH --array=0-9",
            place=min(places, key=lambda place: (place.line, place.column)),
        )


def tasks_of(text: str) -> Optional[JobId]:
    """Return the indexes of an array, None if they cannot be read."""
    plain = re.sub(r"%.*|[\[\]]", "", text)
    if not re.fullmatch(r"\d{1,8}(-\d{1,8}(:\d{1,8})?)?(,\d{1,8}(-\d{1,8}(:\d{1,8})?)?)*", plain):
        return None
    return JobId(1, tasks=plain)
