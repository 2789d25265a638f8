"""NC653 to NC655, and NC661: the tasks of an array, their indexes, and their files."""

from __future__ import annotations

import re
import shlex
from typing import Dict, Iterator, Optional

from neuronctl.batchscript.launches import CONTAINERS, PYTHON, pairs
from neuronctl.batchscript.model import SourceSpan
from neuronctl.batchscript.shell_text import INITIALIZES
from neuronctl.rule_codes import NOTE, WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_results import OF_THE_NODE
from neuronctl.slurm.job_id import JobId
from neuronctl.words import counted

_INDEX = "SLURM_ARRAY_TASK_ID"
_NO_FILE = re.compile(r"/dev/\w+|&?\d|-")


@script_rule(WARNING, "NC653", "one file for several jobs")
def one_file(facts: ScriptFacts) -> Iterator[Violation]:
    """The log of a directive, and what the output of a program goes to."""
    array, output = facts.given("array"), facts.given("output")
    tasks = tasks_of("" if array is None else array.value or "")
    if array is not None and (tasks is None or tasks.count < 2):
        return
    others = [*_others_files(facts)]
    yield from others
    path = "" if output is None else output.value or ""
    appends = facts.header.value("open-mode") in ("a", "append")
    told = re.search(r"%\d*[ajJ]|\\|[$]", path) or path in ("", "/dev/null")
    if array is not None and output is not None and not appends and not told:
        yield _lost(_EVERY_TASK, path, f"write --output={_with_index(path)}", output.place)
    yield from _same_file(facts, array is not None)
    yield from _same_file_of_a_step(facts)
    one_by_one = array is None or (array.value or "").endswith("%1")
    if array is not None:
        yield from _same_of_r(facts)
        yield from _same_results(facts)
    if not (one_by_one or others):
        yield from _same_removed(facts)
    yield from _same_overlay(facts, not one_by_one)


_FOR_ALL_JOBS = re.compile(
    r"(~|\$\{?(HOME|USER|SCRATCH|WORK|SLURM_SUBMIT_DIR|PWD)\}?|\$\((whoami|pwd)\)|[\w./-])*"
    r"/\.?(my_?)?(tmp|temp|tmpdir|tmp_?dir|temporary|cache)\d?",
    re.IGNORECASE,
)
"""A directory for temporary files that is the same for every job of its user."""


def _others_files(facts: ScriptFacts) -> Iterator[Violation]:
    """A directory of several jobs' temporary files, which each deletes."""
    if facts.header.value("dependency") == "singleton":
        return  # one job at a time
    for command in (*facts.shell.calls("rm"), *facts.shell.calls("trap")):
        words = [word.text.strip("\"'") for word in command.words[1:]]
        if command.name == "trap":
            within = re.match(r"rm (.*?) *(;|&|$)", words[0] if words else "")
            words = within[1].replace('"', "").split() if within else []
        if command.captured or not any(re.match("-[a-z]*[rR]|--recursive", word) for word in words):
            continue
        for path in words:
            name = re.fullmatch(r"\$\{?(\w+)\}?", path.rstrip("/*"))
            found = facts.shell.assigned(name[1]) if name else ()
            made = found[0].word.raw.strip("\"'") if len(found) == 1 else path
            made = made.rstrip("/*")
            if (
                not _FOR_ALL_JOBS.fullmatch(made)
                or OF_THE_NODE.match(made)
                or made[:1] not in "/~$"
            ):
                continue
            used = name or any(
                made in assigned.word.raw
                for assigned in facts.shell.assignments
                if re.search("TE?MP|CACHE", assigned.name)
            )
            if used:
                yield Violation(
                    f"{made} is the same for every job of yours: this deletes what the others "
                    "have there while they run",
                    f"give each job its own: {made}/$SLURM_JOB_ID",
                    place=command.place,
                )
                return


_PREPARES = frozenset(
    """
    awk cat conda cut date echo env find grep head hostname jq ls mkdir nvidia-smi pip printenv
    printf ps scontrol sed seq sort squeue tail touch tr wc
    """.split()  # noqa: SIM905
)


def _moves(facts: ScriptFacts) -> bool:
    """Whether it goes to a directory that may be another one for each task."""
    return any(
        value is None and not re.search("SLURM_SUBMIT_DIR|HOME", word.raw)
        for command in facts.shell.calls("cd", "pushd")
        for word, value in zip(command.words[1:], command.arguments)
    )


_EVERY_TASK = "every task of the array"


def _lost(who: str, path: str, how: str, place: SourceSpan) -> Violation:
    words = f"{who} writes {path}: each begins the file anew, and what others have written is lost"
    return Violation(words, how, place=place)


def _same_file(facts: ScriptFacts, array: bool) -> Iterator[Violation]:
    """What the output of several programs at once goes to."""
    moves = _moves(facts)
    for start in () if facts.shell.placeholders else facts.starts:
        command = start.launch.command
        works = start.launch.is_launcher or start.launch.name not in _PREPARES
        if not works or command.captured or (start.outer and not start.outer[0].command.looped):
            continue
        at_once = command.in_loop and command.background
        if not (array or at_once):
            continue
        for word in command.writes:
            if word.value is None or _NO_FILE.fullmatch(word.value) or moves:
                continue
            who, how = "every program of this loop", "give each of them a name of its own"
            if array:
                who, how = _EVERY_TASK, f"write > {_with_index(word.value, f'${{{_INDEX}}}')}"
            yield _lost(who, word.value, how, word.place)
            return


def _same_file_of_a_step(facts: ScriptFacts) -> Iterator[Violation]:
    """What each task of srun opens itself: ``srun bash -c 'python t.py > log'``."""
    for start in facts.starts:
        command, tasks = start.launch.command, (start.nodes or 1) * (start.each or 1)
        if tasks < 2 or not start.outer or command is start.outer[0].command:
            continue
        for word in command.writes:
            alone = start.each == 1 and OF_THE_NODE.match(word.text)
            if word.value and not _NO_FILE.fullmatch(word.value) and not alone:
                how = f"write > {_with_index(word.value, '$SLURM_PROCID')}"
                yield _lost(f"each of {counted(tasks, 'task')}", word.value, how, word.place)
                return


def _same_of_r(facts: ScriptFacts) -> Iterator[Violation]:
    """``R CMD BATCH IN OUT``: without OUT, it is the name of IN with .Rout."""
    moves = _moves(facts)
    for command in facts.shell.calls("R") if not moves else ():
        words = [word for word in command.words[1:] if not word.raw.startswith("-")]
        if [word.raw for word in words[:2]] != ["CMD", "BATCH"] or len(words) < 3:
            continue
        out = words[3] if len(words) > 3 else words[2]
        if out.value is not None:
            name = out.value if len(words) > 3 else f"{re.sub('[.][Rr]$', '', out.value)}.Rout"
            how = f"write {_with_index(name, f'${{{_INDEX}}}')} as the last word"
            yield _lost(_EVERY_TASK, name.rpartition("/")[2], how, out.place)
            return


_A_FILE = re.compile(
    r"[\w./~-]+\.(csv|tsv|jsonl?|nc|txt|npy|npz|pkl|pickle|pth?|ckpt|h5|hdf5|parquet|mat)"
)
_WRITES = re.compile(
    r"--?(\w+[_-])?(out|output|save|result|results|dump)([_-]?(file|path|name|to))?"
)


def _same_results(facts: ScriptFacts) -> Iterator[Violation]:
    """A file that each task's program is told to write."""
    moves = _moves(facts)
    for launch in facts.every_launch if not moves else ():
        own = launch.own_words[1:] if launch.kind == PYTHON else ()
        differs = any(_DIFFER.search(word.raw) for word in own) or any(word.names for word in own)
        for pair in launch.pairs if differs else ():
            path = pair.value.text
            if _WRITES.fullmatch(pair.name) and _A_FILE.fullmatch(path):
                yield Violation(
                    f"every task of the array is told to write {path}: unless the program adds to "
                    "it, the last one to end is in it alone",
                    f"write {_with_index(path, f'${{{_INDEX}}}')}",
                    place=pair.word.place,
                    severity=NOTE,
                )
                return


def _same_removed(facts: ScriptFacts) -> Iterator[Violation]:
    """A directory that each task removes, whichever others are at work in it."""
    moves = _moves(facts)
    for command in facts.shell.calls("rm") if not moves else ():
        recursive = any(re.match("-[a-zA-Z]*[rR]", word.raw) for word in command.words[1:])
        for word in command.words[1:] if recursive and command.sure else ():
            path = re.sub(
                r"\$\{?(HOME|USER|PWD|SLURM_SUBMIT_DIR|SCRATCH|WORK)\}?",
                "x",
                word.text.strip("\"'"),
            )
            same = not re.search(r"[$`]", path) and not word.raw.startswith("-")
            if same and not OF_THE_NODE.match(path):
                yield Violation(
                    f"every task of the array removes {word.raw}, which others may be using",
                    "remove it before you submit; or give each task a directory of its own",
                    place=word.place,
                )
                return


def _same_overlay(facts: ScriptFacts, array: bool) -> Iterator[Violation]:
    """An image of a container's overlay that several jobs or tasks are to write."""
    for start in facts.starts:
        words = start.launch.command.words
        tasks = (start.nodes or 1) * (start.each or 1)
        at_once = array or tasks > 1 or (words and start.launch.command.background)
        if not at_once or not any(word.basename in CONTAINERS for word in words):
            continue
        for pair in pairs(words):
            image = pair.value
            own = re.search(
                r"SLURM_(ARRAY|JOB|PROC|LOCAL)|\$\$|RANDOM|mktemp", image.raw + image.text
            )
            if pair.name not in ("--overlay", "-o") or own or {*image.names} & {"i", "seed"}:
                continue
            if re.search(r"\.(ext3|img)(:rw)?$", image.text.strip("\"'")):
                yield Violation(
                    "an overlay image can be open for writing once: of several containers at once, "
                    "all but the first fail",
                    "add :ro behind it, or give each a copy of its own",
                    place=image.place,
                )
                return


_DIFFER = re.compile(
    rf"{_INDEX[:-3]}|SLURM_JOB_?ID|RANDOM|\b(date|mktemp|shuf|uuidgen|eval)\b|agent|sweep|worker"
    r"|optuna|tune|queue|lock|resum|restart|requeue|%[jJ]",
    re.IGNORECASE,
)
"""What may make the tasks of an array differ, or why they need not."""


@script_rule(NOTE, "NC661", "array whose tasks are alike", "by_absence")
def alike(facts: ScriptFacts) -> Iterator[Violation]:
    array = facts.given("array")
    tasks = tasks_of("" if array is None else array.value or "")
    if array is None or tasks is None or tasks.count < 2 or (array.value or "").endswith("%1"):
        return
    works = [start.launch for start in facts.starts if start.launch.options.get("script")]
    lines = facts.whole_text.split("\n")
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    unknown = any(command.words and not command.name for command in facts.shell.commands) or any(
        not INITIALIZES.fullmatch(command.words[-1].text.rpartition("/")[2].lstrip("."))
        for command in facts.shell.calls("source", ".")
    )
    made_here = "preflight: $(hostname -s)" in facts.text  # its user has chosen
    if works and not unknown and not made_here and not _DIFFER.search(text):
        yield Violation(
            f"nothing here uses ${_INDEX}: unless {works[-1].options['script']} reads it itself, "
            f"{tasks.count} tasks do the same work",
            f'pass it on: "${_INDEX}"',
            place=array.place,
        )


def _with_index(path: str, index: str = "%a") -> str:
    head, dot, tail = path.rpartition(".")
    return f"{head}-{index}.{tail}" if dot and head and "/" not in tail else f"{path}-{index}"


def _knows_index(line: str) -> bool:
    """Whether a line gives the index a default, or asks whether there is one."""
    _, name, behind = line.partition(_INDEX)
    asks = rf"{_INDEX}:?[-=+?]|(\[|test) -[nz] \S*{_INDEX}|-v {_INDEX}"
    return bool(name) and ("]]" in behind or re.search(asks, line) is not None)


@script_rule(WARNING, "NC654", "array index without an array", "by_absence")
def no_array(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.has("array") or not facts.header.given or any(map(_knows_index, facts.lines)):
        return
    words = (
        word
        for command in facts.shell.commands
        if command.name not in ("echo", "printf", "export")
        for word in command.words[1:]
    )
    set_from = [assigned.word for assigned in facts.shell.assignments]
    places = [word.place for word in (*words, *set_from) if _INDEX in word.names]
    if places:
        # It may come with the command line; a remark that shows it says so.
        shown = re.search(
            r"--array|sbatch\b.{0,500} -a|^#SBATCH.*%[0-9]*[aA]", facts.text, re.MULTILINE
        )
        # So it says if it takes words of the command line.
        takes = any(re.fullmatch("[1-9@*]", name) for word in set_from for name in word.names)
        yield Violation(
            f"nothing here makes an array of the job: ${_INDEX} is empty, unless sbatch gets "
            "--array on its command line",
            "write #SBATCH --array=0-9",
            place=min(places, key=lambda place: (place.line, place.column)),
            severity=NOTE if shown or takes else None,
        )


@script_rule(WARNING, "NC655", "array index beyond its list")
def beyond_the_list(facts: ScriptFacts) -> Iterator[Violation]:
    array = facts.given("array")
    tasks = tasks_of(array.value or "") if array is not None else None
    if array is None or tasks is None:
        return
    counts: Dict[str, Optional[int]] = {}
    for number, line in enumerate(facts.lines, 1):
        if line.lstrip().startswith("#"):
            continue
        for match in re.finditer(r"\$\{(\w{1,200})\[([^]]{1,200})\]\}", line):
            if match[1] not in counts:
                counts[match[1]] = _elements(facts, match[1])
            count, offset = counts[match[1]], _offset(facts, match[2])
            if count is None or offset is None:
                continue
            first, last = -offset, count - 1 - offset
            few = tasks.overlaps(span(last + 1, HIGHEST))
            low = first > 0 and tasks.overlaps(span(0, first - 1))
            if few or low:
                which = "the highest" if few else "the lowest"
                yield Violation(
                    f"{match[1]} has {counted(count, 'element')}, for indexes from {first} to "
                    f"{last}: {which} of --array={array.value} finds nothing there"
                    + ("" if few else ", or the last one"),
                    f"write #SBATCH --array={max(first, 0)}-{last}",
                    place=SourceSpan(number, match.start() + 1, match.end() + 1),
                )
                return
    yield from _line_zero(facts, tasks)


def _line_zero(facts: ScriptFacts, tasks: JobId) -> Iterator[Violation]:
    """``sed -n "${SLURM_ARRAY_TASK_ID}p"``: the first line of a file is line 1."""
    if not tasks.overlaps(span(0, 0)):
        return
    plain = rf"\$\{{?{_INDEX}\}}?"
    for command in facts.shell.calls("sed", "awk", "head"):
        for word in command.words[1:]:
            line = rf"[\"']?({plain}[pq].*|NR\s*==\s*[\"']*{plain}.*|-?n?\s*{plain}[\"']?)"
            if re.fullmatch(line, word.raw):
                yield Violation(
                    "index 0 of the array finds nothing there: lines count from 1",
                    "let --array begin with 1, or add 1 to the index",
                    place=word.place,
                )
                return


HIGHEST = 99_999_999


def span(first: int, last: int) -> JobId:
    return JobId(1, tasks=f"{max(0, first)}-{max(0, last)}")


def tasks_of(text: str) -> Optional[JobId]:
    """The indexes of an array; None where they cannot be read."""
    plain = re.sub(r"%.*|[\[\]]", "", text)
    if not re.fullmatch(r"\d{1,8}(-\d{1,8}(:\d{1,8})?)?(,\d{1,8}(-\d{1,8}(:\d{1,8})?)?)*", plain):
        return None
    return JobId(1, tasks=plain)


def _elements(facts: ScriptFacts, name: str) -> Optional[int]:
    """How many elements a list has that is set once, and as a list of plain words."""
    found = facts.shell.assigned(name)
    raw = found[0].word.raw if len(found) == 1 else ""
    if not raw.startswith("(") or not raw.endswith(")") or f"{name}+=" in facts.text:
        return None
    lexer = shlex.shlex(raw[1:-1], posix=False, punctuation_chars=False)
    lexer.whitespace_split = True
    try:
        words = [*lexer]
    except ValueError:
        return None
    several = re.compile(r"""[^"'].*[$*?{`]|[$*?{`\[].*|"(.*[`]|.*\$\(|.*@\]).*""")
    return None if any(several.match(word) for word in words) else len(words)


def _offset(facts: ScriptFacts, expression: str) -> Optional[int]:
    """What is added to the task's index; None where it is something else."""
    plain = re.sub(r"[\s${}()\"]", "", expression)
    variables = facts.shell.assigned(plain) if plain != _INDEX and plain.isidentifier() else ()
    if len(variables) == 1:
        plain = re.sub(r"[\s${}()\"]", "", variables[0].word.raw)
    match = re.fullmatch(rf"{_INDEX}([+-]\d{{1,6}})?", plain)
    return None if match is None else int(match[1] or 0)
