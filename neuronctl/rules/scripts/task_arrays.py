"""NC653 to NC655: the tasks of an array, their files, and their indexes."""

from __future__ import annotations

import re
import shlex
from typing import Iterator, Optional

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.scripts.script_facts import ScriptFacts, asks_for, script_rule
from neuronctl.scripts.shell_text import ShellWord
from neuronctl.slurm.job_id import JobId

_INDEX = "SLURM_ARRAY_TASK_ID"


@script_rule(WARNING, "NC653", "one log for several jobs")
def one_log(facts: ScriptFacts) -> Iterator[Finding]:
    array, output = facts.given("array"), facts.given("output")
    tasks = None if array is None else tasks_of(array.value or "")
    path = "" if output is None else output.value or ""
    kept = facts.header.value("open-mode") in ("a", "append") or path == "/dev/null"
    if tasks is None or tasks.count < 2 or output is None or kept:
        return
    if not re.search(r"%\d*[ajJ]|[\\$]|^$", path):
        head, dot, tail = path.rpartition(".")
        own = f"{head}-%a.{tail}" if dot and head and "/" not in tail else f"{path}-%a"
        yield Finding(
            f"every task of the array writes {path}: each overwrites what the others have written",
            f"write {own}",
            place=output.place,
        )


_SHOWS = r"(?m)^[ \t]*#.*\bsbatch\b.* (--array|-a)[= ]"


@script_rule(NOTE, "NC654", "array without its index, or the index alone", Trait.ABSENCE)
def no_array(facts: ScriptFacts) -> Iterator[Finding]:
    array = facts.given("array")
    if array is not None and "ARRAY" not in facts.text and not facts.reads_more:
        words = f"nothing here uses ${_INDEX}: the tasks differ only if the program reads it itself"
        hint = f'give it to the program: "${_INDEX}"'
        yield Finding(words, hint, place=array.place)
    if facts.has("array") or not facts.header.given or _INDEX not in facts.text:
        return
    # A comment that shows how to submit it tells the reader.
    if re.search(_SHOWS, facts.text) or any(asks_for(_INDEX, line) for line in facts.lines):
        return
    places = [word.place for word in _words(facts) if _INDEX in word.names]
    if places:
        yield Finding(
            f"${_INDEX} is empty unless sbatch gets --array: nothing here makes an array",
            "write #SBATCH --array=0-9",
            place=min(places, key=lambda place: (place.line, place.column)),
        )


def _words(facts: ScriptFacts) -> Iterator[ShellWord]:
    """Yield the words that a program or a variable gets, except those that are only shown."""
    for command in facts.shell.commands:
        if command.name not in ("echo", "printf", "export"):
            yield from command.words[1:]
    yield from (assigned.word for assigned in facts.shell.assignments)


@script_rule(WARNING, "NC655", "array index beyond its list")
def beyond_the_list(facts: ScriptFacts) -> Iterator[Finding]:
    array = facts.given("array")
    tasks = None if array is None else tasks_of(array.value or "")
    if array is None or tasks is None or any(asks_for(_INDEX, line) for line in facts.lines):
        return
    for word in _words(facts):
        for match in re.finditer(r"\$\{(\w{1,200})\[([^]]{1,200})\]\}", word.raw):
            count, offset = _elements(facts, match[1]), _offset(facts, match[2])
            if count is None or offset is None:
                continue
            first, last = max(0, -offset), count - 1 - offset
            few = max(tasks.indexes, default=last) > last
            if few or min(tasks.indexes, default=first) < first:
                yield Finding(
                    f"{match[1]} has {counted(count, 'element')}, for the indexes {first} to "
                    f"{last}: the {'highest' if few else 'lowest'} of --array={array.value} finds "
                    "none, or another's",
                    f"write #SBATCH --array={first}-{last}",
                    place=word.place,
                )
                return


def _elements(facts: ScriptFacts, name: str) -> Optional[int]:
    """Return the number of elements in a list that is set once, with plain words."""
    found = facts.shell.assigned(name)
    raw = found[0].word.raw if len(found) == 1 else ""
    if not re.fullmatch(r"\([^$`*?{\[]*\)", raw) or f"{name}+=" in facts.text:
        return None
    try:
        return len(shlex.split(raw[1:-1], comments=True))
    except ValueError:
        return None


def _offset(facts: ScriptFacts, expression: str) -> Optional[int]:
    """Return what is added to the task's index; None for another expression."""
    plain = re.sub(r"[\s${}()\"]", "", expression)
    variables = facts.shell.assigned(plain)
    if len(variables) == 1:
        plain = re.sub(r"[\s${}()\"]", "", variables[0].word.raw)
    match = re.fullmatch(rf"{_INDEX}([+-]\d{{1,6}})?", plain)
    return None if match is None else int(match[1] or 0)


def tasks_of(text: str) -> Optional[JobId]:
    """Return the indexes of an array, or None if they are unreadable."""
    plain = re.sub(r"%.*|[\[\]]", "", text)
    if not re.fullmatch(r"\d{1,8}(-\d{1,8}(:\d{1,8})?)?(,\d{1,8}(-\d{1,8}(:\d{1,8})?)?)*", plain):
        return None
    return JobId(1, tasks=plain)
