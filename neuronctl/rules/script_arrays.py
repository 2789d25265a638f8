"""NC653 to NC655: the tasks of an array, their indexes, and their files."""

from __future__ import annotations

import ast
import math
import re
import shlex
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_commands import asks_for
from neuronctl.rules.script_results import OF_THE_NODE
from neuronctl.scripts.launches import CONTAINERS, PYTHON, pairs
from neuronctl.scripts.model import SourceSpan
from neuronctl.scripts.shell_text import Command, ShellWord
from neuronctl.slurm.job_id import JobId

_INDEX = "SLURM_ARRAY_TASK_ID"
_NO_FILE = re.compile(r"/dev/\w+|&?\d|-")


@script_rule(WARNING, "NC653", "one file for several jobs")
def one_file(facts: ScriptFacts) -> Iterator[Violation]:
    """The log of a directive, and what the output of a program goes to."""
    yield from _of_other_jobs(facts)
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
    yield from _begun_anew(facts, appends)
    yield from _same_file(facts, array is not None)
    one_by_one = array is None or (array.value or "").endswith("%1")
    if array is not None:
        yield from _same_of_r(facts)
        yield from _same_results(facts)
        yield from _same_prepared(facts)
    if not (one_by_one or others):
        yield from _same_removed(facts)
    yield from _same_overlay(facts, not one_by_one)


def _begun_anew(facts: ScriptFacts, appends: bool) -> Iterator[Violation]:
    """The log of a job that is requeued, of which the last run alone is left."""
    again = facts.given("requeue")
    calls = [each for each in facts.shell.calls("scontrol") if each.arguments[:1] == ("requeue",)]
    if appends or not (again or calls) or facts.header.value("output") == "/dev/null":
        return
    yield Violation(
        "a job that is requeued begins its log anew, and the one of the run before is lost, unless "
        "the site has set JobFileAppend",
        "write #SBATCH --open-mode=append",
        place=again.place if again else calls[0].place,
        severity=NOTE,
    )


def _of_other_jobs(facts: ScriptFacts) -> Iterator[Violation]:
    """A command that other jobs of the same user feel."""
    for command in facts.shell.calls("git", "killall", "pkill") if facts.header.given else ():
        words = [word.raw for word in command.words[1:]]
        if command.captured or facts.header.value("dependency") == "singleton":
            continue
        if command.name == "git":
            # A copy of the job's own is another matter.
            own = facts.shell.calls("mktemp") or re.search(r"git (clone|worktree)", facts.text)
            if words[:1] in (["checkout"], ["pull"], ["switch"], ["reset"]) and not own:
                yield Violation(
                    f"git {words[0]} changes the files of all jobs that run from this directory, "
                    "and what this one runs depends on when it starts",
                    "do it before you submit",
                    place=command.place,
                    severity=NOTE,
                )
                return
        elif not re.search(
            r"(^| )(-[a-zA-Z]*[PgsG]|--(parent|pgroup|session|ns))\b|\$", " ".join(words)
        ):
            yield Violation(
                f"{command.name} ends every process of this name that is yours on the node, also "
                "those of your other jobs",
                "keep the number, PID=$! behind the program, and write kill $PID",
                place=command.place,
                severity=NOTE,
            )
            return


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
        written = command.writes
        if command.name == "tee" and not {"-a", "--append"} & {*command.arguments}:
            written = tuple(word for word in command.words[1:] if not word.raw.startswith("-"))
        if not (array or at_once or (command.in_loop and _only_the_last(facts, command, written))):
            continue
        for word in written:
            if word.value is None or _NO_FILE.fullmatch(word.value) or moves:
                continue
            who, how = "every program of this loop", "give each of them a name of its own"
            if array:
                who, how = _EVERY_TASK, f"write > {_with_index(word.value, f'${{{_INDEX}}}')}"
            yield _lost(who, word.value, how, word.place)
            return


_FOR = re.compile(r"[ \t]*for[ \t]+(\w+)[ \t]+in\b(.*)")


def _around(facts: ScriptFacts, command: Command) -> Optional[Tuple[int, int]]:
    """The first and the last line of the innermost loop that a command is in."""
    return facts.innermost_loop.get(command.place.line) if command.in_loop else None


def _only_the_last(facts: ScriptFacts, command: Command, written: Sequence[ShellWord]) -> bool:
    """Whether each turn of a loop does other work, and none uses what one has written."""
    loop = _around(facts, command)
    variable = _FOR.match(facts.lines[loop[0] - 1]) if loop is not None else None
    if loop is None or variable is None or not written:
        return False
    text = "\n".join(facts.lines[loop[0] - 1 : loop[1]])
    differs = any(variable[1] in word.names for word in command.words)
    name = written[0].raw.strip("\"'").rpartition("/")[2]
    if (
        not name
        or re.search(r"(?i)log|err|te?mp|null", name)
        or text.count(name) > 1
        or re.search(r"\b(break|cd|pushd)\b", text)
    ):
        return False
    return differs and _works(command)


def _works(command: Command) -> bool:
    return command.name not in _PREPARES or command.name == "tee"


_CONTENT = frozenset("awk cat echo envsubst printf sed".split())  # noqa: SIM905


def _same_prepared(facts: ScriptFacts) -> Iterator[Violation]:
    """A file that each task fills for its program, in the place of the others'."""
    moves = _moves(facts)
    for command in facts.shell.commands if not moves else ():
        if command.name not in _CONTENT or command.captured:
            continue
        inserted = any(_INDEX in word.names for word in command.words)
        in_place = command.name == "sed" and any(
            re.match("-i|--in-place", word.raw) for word in command.words[1:]
        )
        written = command.words[-1:] if in_place else command.writes
        for word in written if inserted else ():
            path = word.value or ""
            if not path or _NO_FILE.fullmatch(path) or OF_THE_NODE.match(path):
                continue
            name = path.rpartition("/")[2]
            later = facts.lines[command.place.line :]
            read = any(name in line and not line.lstrip().startswith("#") for line in later)
            if read:
                yield Violation(
                    f"every task of the array fills {path} for itself: which of them wrote it "
                    "last, before a program reads it, is by chance",
                    f"write {_with_index(path, f'${{{_INDEX}}}')}",
                    place=word.place,
                )
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


_A_DIRECTORY = re.compile(
    r"--?(\w+[_-])?(out|output|save|results?|ckpt|checkpoint|checkpoints)[_-]?(dir|path|folder|root)"
)
_PARAMETERS = re.compile(
    r"--?(\w+[_.-])?(seed|lr|learning[_-]rate|dropout|batch[_-]?size|weight[_-]decay|alpha|beta|gamma"
    r"|lambda|temperature)"
)
"""Options by which tasks do the same otherwise; shards and ranks may well share a directory."""


def _same_results(facts: ScriptFacts) -> Iterator[Violation]:
    """A file that each task's program is told to write."""
    moves = _moves(facts)
    for launch in facts.every_launch if not moves else ():
        own = launch.own_words[1:] if launch.kind == PYTHON else ()
        differs = any(_DIFFER.search(word.raw) for word in own) or any(word.names for word in own)
        for pair in launch.pairs if differs else ():
            path = pair.value.text
            if _A_DIRECTORY.fullmatch(pair.name) and re.fullmatch(r"[\w./~-]*\w/?", path):
                varied = [other.name for other in launch.pairs if _INDEX in other.value.names]
                alike = varied and all(map(_PARAMETERS.fullmatch, varied))
                if alike and not OF_THE_NODE.match(path):
                    yield Violation(
                        f"every task of the array is told to write to {path}: unless the program "
                        "makes a directory of its own there, they overwrite what others write",
                        f"write {path.rstrip('/')}/${{{_INDEX}}}",
                        place=pair.word.place,
                        severity=NOTE,
                    )
                    return
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


def _with_index(path: str, index: str = "%a") -> str:
    head, dot, tail = path.rpartition(".")
    return f"{head}-{index}.{tail}" if dot and head and "/" not in tail else f"{path}-{index}"


_SHOWS = re.compile(r"(?m)^[ \t]*#.*\bsbatch\b.* (--array|-a)[= ]")
_OF_LINES = re.compile(
    rf"(sed\b[^|\n]*|head\b[^|\n]*|NR *== *\W*|tail -n *\+){_INDEX}"
    rf"|(?P<v>\w+)=\W*{_INDEX}\}}?\"?\n(?s:.{{0,2000}})(sed -n|NR *==)\W*(?P=v)"
)
"""Where an index is the number of a line, which counts from 1."""


@script_rule(WARNING, "NC654", "array index without an array", "by_absence")
def no_array(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.has("array") or not facts.header.given or _INDEX not in facts.text:
        return
    # A remark that shows how to submit it tells whoever does.
    if _SHOWS.search(facts.text) or any(asks_for(_INDEX, line) for line in facts.lines):
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
            r"--array(?:[= ](\d[\d,:%-]*))?|sbatch\b.{0,500} -a|^#SBATCH.*%[0-9]*[aA]",
            facts.text,
            re.MULTILINE,
        )
        of_lines = _OF_LINES.search(facts.text)
        indexes = (shown and shown[1]) or ("1-N" if of_lines else "0-9")
        # So it says if it takes words of the command line.
        takes = any(re.fullmatch("[1-9@*]", name) for word in set_from for name in word.names)
        yield Violation(
            f"nothing here makes an array of the job: ${_INDEX} is empty, unless sbatch gets "
            "--array on its command line",
            f"write #SBATCH --array={indexes}"
            + (", N being the number of lines" if indexes == "1-N" else ""),
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
    yield from _first_left_out(facts, tasks)
    yield from _combined(facts, tasks)


_MADE = re.compile(r"\(\s*(\$\(\s*ls\b|`\s*ls\b|[^\s\"'$`]*[*?])")


def _first_left_out(facts: ScriptFacts, tasks: JobId) -> Iterator[Violation]:
    """A list of files, whose first has index 0, for an array that begins with 1."""
    if tasks.overlaps(span(0, 0)) or not tasks.overlaps(span(1, 1)):
        return
    made = [each for each in facts.shell.assignments if _MADE.match(each.word.raw)]
    for variable in made[:_MOST_USES]:
        use = re.compile(rf"\$\{{{re.escape(variable.name)}\[([^]@*]+)\]\}}")
        uses = [(n, match[1]) for n, line in facts.plain_lines for match in use.finditer(line)]
        if uses and all(_offset(facts, index) == 0 for _, index in uses):
            at = uses[0][0]
            yield Violation(
                f"the first element of {variable.name} has index 0, and no task takes it",
                "let --array begin with 0, or subtract 1 from the index",
                place=SourceSpan(at, 1, len(facts.lines[at - 1]) + 1),
            )
            return


_ARITHMETIC = re.compile(
    r"\s*(?:\$\(\((.*)\)\)|`expr (.*)`|\$\(expr (.*)\)|\"?\$\{?(\w+)\}?\"?|(\d+)"
    r"|(\$\{#\w+\[[@*]\]\}))\s*"
)
_LEN = re.compile(r"\$\{#(\w+)\[[@*]\]\}")
_MOST_TASKS, _MOST_USES = 2000, 50


class _Indexes:
    """What the variables are that are reckoned from an array's index, in each of its tasks."""

    def __init__(self, facts: ScriptFacts) -> None:
        self.facts = facts
        self.counts: Dict[str, Optional[int]] = {}
        self.trees: Dict[str, Optional[ast.expr]] = {}
        self.reckoned: Set[str] = set()
        """The variables that were."""

    def count(self, name: str) -> Optional[int]:
        if name not in self.counts:
            self.counts[name] = _elements(self.facts, name)
        return self.counts[name]

    def tree(self, text: str) -> Optional[ast.expr]:
        """An arithmetic expression of bash's, as one of Python's."""
        plain = _LEN.sub(lambda match: str(self.count(match[1]) or "?"), text)
        plain = re.sub(r"\$\{?(\w+)\}?", r"\1", plain).replace("/", "//").replace("\\*", "*")
        if not re.fullmatch(r"[\w\s()+*/%-]{1,200}", plain):
            return None
        try:
            return ast.parse(plain.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    def of_variable(self, name: str) -> Optional[ast.expr]:
        if name not in self.trees:
            found = self.facts.shell.assigned(name)
            self.trees[name] = None
            match = _ARITHMETIC.fullmatch(found[0].word.raw) if len(found) == 1 else None
            if match is not None and found[0].sure:
                text = next(group for group in match.groups() if group is not None)
                self.trees[name] = self.tree(text)
        return self.trees[name]

    def value(self, tree: Optional[ast.expr], index: int, depth: int = 0) -> Optional[int]:
        """What an expression is in the task of an index; None where it is not known."""
        if tree is None or depth > 20:
            return None
        if isinstance(tree, ast.Constant):
            return tree.value if isinstance(tree.value, int) else None
        if isinstance(tree, ast.Name):
            if tree.id == _INDEX:
                return index
            self.reckoned.add(tree.id)
            return self.value(self.of_variable(tree.id), index, depth + 1)
        if not isinstance(tree, ast.BinOp):
            return None
        left = self.value(tree.left, index, depth + 1)
        right = self.value(tree.right, index, depth + 1)
        if left is None or right is None:
            return None
        if isinstance(tree.op, (ast.FloorDiv, ast.Mod)):
            if right <= 0 or left < 0:
                return None
            return left // right if isinstance(tree.op, ast.FloorDiv) else left % right
        if isinstance(tree.op, (ast.Add, ast.Sub)):
            return left + right if isinstance(tree.op, ast.Add) else left - right
        return left * right if isinstance(tree.op, ast.Mult) else None


_USE = re.compile(r"\$\{(\w{1,100})\[([^]]{1,200})\]\}")
_BY_CHANCE = re.compile(r"RANDOM|SLURM_JOB_?ID|\$\$|\b(date|mktemp|shuf|uuidgen)\b")


def _combined(facts: ScriptFacts, tasks: JobId) -> Iterator[Violation]:
    """Several lists, or one with a remainder: whether the indexes choose each combination once."""
    lines = [(n, line) for n, line in facts.plain_lines if not line.startswith("#")]
    uses = [(n, match) for n, line in lines for match in _USE.finditer(line)]
    uses = [(n, match) for n, match in uses if match[2] not in ("@", "*", "0")]
    if not 0 < len(uses) < _MOST_USES or tasks.count > _MOST_TASKS:
        return
    known = _Indexes(facts)
    trees = {match[0]: (match[1], known.tree(match[2])) for _, match in uses}
    indexes = [n for n in range(_highest_index(tasks) + 1) if tasks.overlaps(span(n, n))]
    counts = {name: known.count(name) or 0 for name, _ in trees.values()}
    if 0 in counts.values() or len(indexes) < 2:
        return
    rows: List[Tuple[int, ...]] = []
    for index in indexes:
        found = [known.value(tree, index) for _, tree in trees.values()]
        row = tuple(number for number in found if number is not None)
        if len(row) < len(found):
            return
        rows.append(row)
    place = {match[0]: SourceSpan(n, match.start() + 1, match.end() + 1) for n, match in uses}
    for at, (text, (name, _)) in enumerate(trees.items()):
        values = [row[at] for row in rows]
        beyond = [index for index, value in zip(indexes, values) if value >= counts[name]]
        if beyond:
            yield Violation(
                f"{name} has {counted(counts[name], 'element')}, and task {beyond[0]} of the array "
                f"asks for the one with index {max(values)}: there is none",
                "let --array end before it, or add what is missing",
                place=place[text],
            )
            return
    used = "\n".join(
        _USE.sub("", line) for _, line in lines if not re.match(r"\s*(echo|printf)\b", line)
    )
    for name in known.reckoned:
        used = re.sub(rf"(?m)^\s*(export )?{name}=.*$", "", used)
    others = [name for name in known.reckoned if re.search(rf"\b{name}\b", used)]
    differ = _INDEX in used or _BY_CHANCE.search(used + " ".join(map(str, trees)))
    each = [
        (*row, *(known.value(ast.Name(name), index) for name in others))
        for index, row in zip(indexes, rows)
    ]
    distinct = len(rows) if differ else len({*each})
    chosen = {*rows}
    first = next(iter(place.values()))
    if distinct < len(rows):
        repeat = len(rows) - distinct
        yield Violation(
            f"{counted(len(rows), 'task')} choose {counted(distinct, 'combination')} of "
            f"{', '.join(counts)}: {counted(repeat, 'task')} repeat{'s' * (repeat == 1)} what "
            "others do",
            f"let --array have {distinct} tasks",
            place=first,
        )
        return
    whole = math.prod(counts.values())
    if len(chosen) < whole and not differ and not (others and len(counts) == 1):
        yield Violation(
            f"{', '.join(counts)} ha{'ve' if len(counts) > 1 else 's'} "
            f"{whole} {'combinations' if len(counts) > 1 else 'elements'}, and the array takes "
            f"{len(chosen)} of them",
            f"let --array have {whole} tasks, or check how the index is reckoned",
            place=first,
            severity=NOTE,
        )


def _highest_index(tasks: JobId) -> int:
    return max(map(int, re.findall(r"\d+", tasks.tasks or "0")))


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
    if not found:
        return _read_at_once(facts, name)
    only = re.fullmatch(r"\(\s*(\$\{?\w+\}?)\s*\)", raw)
    if only is not None:
        text = _plain_text(facts, only[1])
        return None if re.search(r"[*?\[]", text) else len(text.split()) or None
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


_READS_ALL = re.compile(
    r"(?:IFS=(?:\$?'([^']*)'|\"([^\"]*)\"|(\S))?[ \t]+)?"
    r"(?:(mapfile|readarray)([ \t]+-t)?|read[ \t]+(?:-r[ \t]+)?-r?a)[ \t]+(\w+)[ \t]*"
    r"<<<[ \t]*(\"?\$\{?\w+\}?\"?|\"[^\"$`\\]*\"|'[^']*')"
)


def _read_at_once(facts: ScriptFacts, name: str) -> Optional[int]:
    """How many elements ``read -a NAME <<< "$TEXT"`` makes, where the text is known."""
    lines = [line for _, line in facts.plain_lines if re.search(rf"\b{name}\b", line)]
    made = [match for line in lines for match in _READS_ALL.finditer(line) if match[6] == name]
    setters = re.compile(r"\b(read|mapfile|readarray|declare|local)\b")
    if len(made) != 1 or sum(bool(setters.search(line)) for line in lines) != 1:
        return None
    match = made[0]
    text = _plain_text(facts, match[7])
    if match[4]:
        return len(text.strip("\n").split("\n")) if text else None
    first, marks = text.partition("\n")[0], match[1] or match[2] or match[3] or ""
    if not marks:
        return len(first.split()) or None
    if len(marks) > 1 or not first:
        return None
    return len(first.split(marks)) - first.endswith(marks)


def _plain_text(facts: ScriptFacts, raw: str) -> str:
    """The text of a word; of a variable, that which one line gives it; "" where not known."""
    plain = raw.strip("\"'")
    if not plain.startswith("$"):
        return plain
    variables = facts.shell.assigned(plain.strip("${}"))
    known = len(variables) == 1 and variables[0].sure
    return (variables[0].word.value or "") if known else ""


def _offset(facts: ScriptFacts, expression: str) -> Optional[int]:
    """What is added to the task's index; None where it is something else."""
    plain = re.sub(r"[\s${}()\"]", "", expression)
    variables = facts.shell.assigned(plain) if plain != _INDEX and plain.isidentifier() else ()
    if len(variables) == 1:
        plain = re.sub(r"[\s${}()\"]", "", variables[0].word.raw)
    match = re.fullmatch(rf"{_INDEX}([+-]\d{{1,6}})?", plain)
    return None if match is None else int(match[1] or 0)
