"""NC653 to NC655: the tasks of an array, their indexes, and their files."""

from __future__ import annotations

import re
import shlex
from typing import Iterator, Optional

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, asks_for, script_rule
from neuronctl.scripts.launches import pairs
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
    tasks = _tasks(facts)
    several = tasks is not None and tasks.count > 1
    path = "" if output is None else output.value or ""
    kept = facts.header.value("open-mode") in ("a", "append") or path == "/dev/null"
    if several and output is not None and not kept and not re.search(r"%\d*[ajJ]|[\\$]|^$", path):
        yield _overwritten("every task of the array", path, _with(path, "%a"), output.place)
    unknown = array is not None and not several
    moves = any(
        word.value is None and not re.search("SLURM_SUBMIT_DIR|HOME|PWD", word.raw)
        for command in facts.shell.calls("cd", "pushd")
        for word in command.words[1:]
    )
    if unknown or moves or facts.shell.placeholders:
        return  # each may have a directory of its own
    for command in facts.shell.uncaptured:
        at_once = command.in_loop and command.background
        for word in _written(command) if several or at_once else ():
            who = "every task of the array" if several else "every program of this loop"
            own = f"${{{_INDEX}}}" if several else "$i"
            yield _overwritten(who, word.text, _with(word.text, own), word.place)
            return
    if several:
        yield from _told_to_write(facts)


def _overwritten(who: str, path: str, other: str, place: SourceSpan) -> Violation:
    return Violation(
        f"{who} writes {path}: each overwrites what the others have written",
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


_WRITES = re.compile(r"--?(\w+[_-])?(out|output|save|results?|dump)([_-]?(file|path|name|to))?")
_A_FILE = re.compile(
    r"[\w./~-]+\.(csv|tsv|jsonl?|nc|txt|npy|npz|pkl|pickle|pth?|ckpt|h5|hdf5|parquet|mat)"
)
_OVERLAY = re.compile(r".*\.(ext3|img)(:rw)?")


def _told_to_write(facts: ScriptFacts) -> Iterator[Violation]:
    """Yield a file that the options of each task's program name, or an overlay of its container."""
    for command in facts.shell.uncaptured:
        varies = any(word.names for word in command.words[1:])
        for pair in pairs(command.words):
            path = pair.value.text.strip("\"'")
            if varies and _WRITES.fullmatch(pair.name) and _A_FILE.fullmatch(path):
                yield Violation(
                    f"every task of the array is told to write {path}: unless the program adds to "
                    "it, only the last one's results stay",
                    f"write {_with(path, f'${{{_INDEX}}}')}",
                    place=pair.word.place,
                    severity=NOTE,
                )
                return
            if pair.name == "--overlay" and _OVERLAY.fullmatch(path) and "SLURM" not in path:
                yield Violation(
                    "only one container at a time can write an overlay image: the other tasks fail",
                    "add :ro behind it, or give each task a copy of its own",
                    place=pair.value.place,
                )
                return


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


@script_rule(WARNING, "NC655", "array index beyond its list")
def beyond_the_list(facts: ScriptFacts) -> Iterator[Violation]:
    array, tasks = facts.given("array"), _tasks(facts)
    if array is None or tasks is None:
        return
    for number, line in facts.plain_lines:
        for match in re.finditer(r"\$\{(\w{1,200})\[([^]]{1,200})\]\}", line):
            count, offset = _elements(facts, match[1]), _offset(facts, match[2])
            if count is None or offset is None:
                continue
            first, last = -offset, count - 1 - offset
            few = tasks.overlaps(_indexes(last + 1, 99_999_999))
            if few or (first > 0 and tasks.overlaps(_indexes(0, first - 1))):
                yield Violation(
                    f"{match[1]} has {counted(count, 'element')}, for the indexes {first} to "
                    f"{last}: the {'highest' if few else 'lowest'} of --array={array.value} finds "
                    "none, or another's",
                    f"write #SBATCH --array={max(first, 0)}-{last}",
                    place=SourceSpan(number, match.start() + 1, match.end() + 1),
                )
                return
    index = rf"\$\{{?{_INDEX}\}}?"
    a_line = re.compile(rf"[\"']?({index}[pq].*|NR\s*==\s*[\"']*{index}.*|-?n?\s*{index}[\"']?)")
    for command in facts.shell.calls("sed", "awk", "head"):
        for word in command.words[1:] if tasks.overlaps(_indexes(0, 0)) else ():
            if a_line.fullmatch(word.raw):
                yield Violation(
                    "index 0 of the array finds no line: lines count from 1",
                    "let --array begin with 1, or add 1 to the index",
                    place=word.place,
                )
                return


def tasks_of(text: str) -> Optional[JobId]:
    """Return the indexes of an array, None if they cannot be read."""
    plain = re.sub(r"%.*|[\[\]]", "", text)
    if not re.fullmatch(r"\d{1,8}(-\d{1,8}(:\d{1,8})?)?(,\d{1,8}(-\d{1,8}(:\d{1,8})?)?)*", plain):
        return None
    return JobId(1, tasks=plain)


def _tasks(facts: ScriptFacts) -> Optional[JobId]:
    array = facts.given("array")
    return None if array is None else tasks_of(array.value or "")


def _indexes(first: int, last: int) -> JobId:
    return JobId(1, tasks=f"{max(0, first)}-{max(0, last)}")


def _elements(facts: ScriptFacts, name: str) -> Optional[int]:
    """Return how many elements a list has that is set once, as a list of plain words."""
    found = facts.shell.assigned(name)
    raw = found[0].word.raw if len(found) == 1 else ""
    if not re.fullmatch(r"\([^$`*?{\[]*\)", raw) or f"{name}+=" in facts.text:
        return None
    try:
        return len(shlex.split(raw[1:-1], comments=True))
    except ValueError:
        return None


def _offset(facts: ScriptFacts, expression: str) -> Optional[int]:
    """Return what is added to the task's index, None if the expression is something else."""
    plain = re.sub(r"[\s${}()\"]", "", expression)
    variables = facts.shell.assigned(plain) if plain != _INDEX and plain.isidentifier() else ()
    if len(variables) == 1:
        plain = re.sub(r"[\s${}()\"]", "", variables[0].word.raw)
    match = re.fullmatch(rf"{_INDEX}([+-]\d{{1,6}})?", plain)
    return None if match is None else int(match[1] or 0)
