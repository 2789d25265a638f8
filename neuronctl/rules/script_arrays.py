"""NC653 and NC654: the tasks of an array, and their files."""

from __future__ import annotations

import re
from typing import Iterator, Optional

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, asks_for, script_rule
from neuronctl.slurm.job_id import JobId

_INDEX = "SLURM_ARRAY_TASK_ID"


@script_rule(WARNING, "NC653", "one log for several jobs")
def one_log(facts: ScriptFacts) -> Iterator[Violation]:
    array, output = facts.given("array"), facts.given("output")
    tasks = None if array is None else tasks_of(array.value or "")
    path = "" if output is None else output.value or ""
    kept = facts.header.value("open-mode") in ("a", "append") or path == "/dev/null"
    if tasks is None or tasks.count < 2 or output is None or kept:
        return
    if not re.search(r"%\d*[ajJ]|[\\$]|^$", path):
        head, dot, tail = path.rpartition(".")
        own = f"{head}-%a.{tail}" if dot and head and "/" not in tail else f"{path}-%a"
        yield Violation(
            f"every task of the array writes {path}: each overwrites what the others have written",
            f"write {own}",
            place=output.place,
        )


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
