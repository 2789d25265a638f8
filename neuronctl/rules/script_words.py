"""For NC649 and NC660: words that quotes join, and values that come too late for their line."""

from __future__ import annotations

import re
from typing import Iterator, Optional, Sequence

from neuronctl.common.rule_codes import WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts
from neuronctl.scripts.launches import SHELL, Launch
from neuronctl.scripts.shell_text import Assignment, ShellWord

_OPTION = r"--?[A-Za-z][\w.-]*"
_SEVERAL = re.compile(rf"\s*{_OPTION}([ =]\S.*)?\s{_OPTION}([ =].*)?|--[a-z][\w-]+ +\S+")
_COMMAND = re.compile(
    r"(srun|mpirun|mpiexec|torchrun|deepspeed|accelerate|(\S*/)?python[\d.]*|bash|sh|Rscript|julia"
    r"|singularity|apptainer|sbatch)\s+\S.*",
    re.DOTALL,
)
_LIST_OF_ARGUMENTS = re.compile(
    r"\"\$\((?:<|cat)\s+[^|;()]*(?i:arg|opt|flag|cmd|command)[^|;()]*\)\""
)
_HANDS_ON = re.compile(r"(?i).*(launch|submit|sbatch|slurm|sched|wrap|sweep|grid|agent|dispatch)")
_READERS = ("Rscript", "julia", "perl", "java")


def joined_words(facts: ScriptFacts) -> Iterator[Violation]:
    """``python t.py "$ARGS"``: what is several words for the program's author is one."""
    for run in facts.launches:
        last = [run, *run.below()][-1]
        reads = run.works or run.is_srun or run.name in _READERS
        hands_on = _HANDS_ON.match(last.options.get("script") or last.options.get("m") or "")
        if reads and run.kind != SHELL and last.kind != SHELL and not hands_on:
            yield from _of_a_launch(facts, run)
    for command in facts.shell.uncaptured:
        first = command.words[0] if command.words else None
        if first is not None and first.raw[:1] in "\"'" and _COMMAND.fullmatch(first.text):
            yield _no_program(first)


def _no_program(word: ShellWord) -> Violation:
    return Violation(
        f"quotes make one word of {word.raw}: the whole text is taken for the name of a program",
        'remove the quotes, or keep the command in a list: CMD=(python train.py); "${CMD[@]}"',
        place=word.place,
        severity=WARNING,
    )


def _of_a_launch(facts: ScriptFacts, run: Launch) -> Iterator[Violation]:
    words = run.command.words
    for at, word in enumerate(words[1:], 1):
        before = words[at - 1].text
        shell = re.fullmatch("-[a-z]*c", before)
        quoted = word.raw[:1] in ('"', "'")
        if quoted and run.is_srun and _COMMAND.fullmatch(word.text) and not shell:
            yield _no_program(word)
            return
        name = re.fullmatch(r"\"?\$\{?(\w+)(\[\*\])?\}?\"?", word.raw)
        items = _items(facts, name[1]) if name else None
        if name and items and ((quoted and name[2]) or not name[2]):
            one = "one word of all elements" if name[2] else f"the first element, {items[0]}, alone"
            yield Violation(
                f"{word.raw} is {one}",
                f'write "${{{name[1]}[@]}}" for all elements of the list',
                place=word.place,
                severity=WARNING,
            )
            return
        if name and not quoted and word.text[:1] in "\"'" and word.text[-1:] not in "\"'":
            yield Violation(
                f"quotes within a variable are characters as any other: the program gets "
                f"{word.text} of ${name[1]}, up to the blank",
                f'write a list, {name[1]}=(--name "my run"), and "${{{name[1]}[@]}}"',
                place=word.place,
                severity=WARNING,
            )
            return
        # The word behind an option may well be its value.
        if not quoted or (before.startswith("-") and "=" not in before):
            continue
        if _SEVERAL.fullmatch(word.text) or _LIST_OF_ARGUMENTS.fullmatch(word.raw):
            yield Violation(
                f"quotes make one word of {word.raw[:40]}: the program gets one argument, and no "
                "options",
                "remove the quotes",
                place=word.place,
                severity=WARNING,
            )
            return


def _items(facts: ScriptFacts, name: str) -> Optional[Sequence[str]]:
    """The elements of a list of options; None where a variable is, or may be, something else."""
    found = facts.shell.assigned(name)
    lists = [each.word.raw for each in found]
    if not lists or not all(raw.startswith("(") for raw in lists) or name not in facts.text:
        return None
    items = lists[0][1:-1].split()
    return items if len(items) > 1 and items[0].startswith("-") else None


_FROM_OUTSIDE = frozenset("PATH LD_LIBRARY_PATH PYTHONPATH HOME USER PWD SHELL".split())  # noqa: SIM905
_DECLARES = re.compile(r"[ \t]*(export|local|declare|readonly|typeset)[ \t]")


def too_late_for_the_line(facts: ScriptFacts) -> Iterator[Violation]:
    """``export A=/x B=$A/y``, ``A=1 prog $A``: bash expands the words before it sets any."""
    every = facts.shell.assignments
    first: Optional[Assignment] = None
    for before, variable in zip(every, every[1:]):
        line = facts.lines[variable.place.line - 1]
        between = line[before.place.end - 1 : variable.place.column - 1]
        beside = before.place.line == variable.place.line and not between.strip(" \t")
        first = (first or before) if beside and _DECLARES.match(line) else None
        if first is None:
            continue
        own = [each for each in every if first.place.line == each.place.line]
        for other in own[: own.index(variable)]:
            yield from _still_old(facts, other, variable.word, "the others of its line")
    for command in facts.shell.commands:
        for other in command.assigned:
            for word in command.words[1:]:
                yield from _still_old(facts, other, word, "the command's words")


def _still_old(
    facts: ScriptFacts, variable: Assignment, word: ShellWord, what: str
) -> Iterator[Violation]:
    name = variable.name
    before = facts.lines[variable.place.line - 1]
    apart = word.place.line != variable.place.line and not before.endswith("\\")
    used = not apart and re.search(rf"\$(\{{{name}\}}|{name}\b)", word.raw)
    own = name not in _FROM_OUTSIDE and not name.startswith("SLURM_") and word.raw[:1] != "'"
    earlier = any(name in names for names in facts.set_by_line[: variable.place.line - 1])
    if used and own and not earlier and f"${name}" not in variable.word.raw:
        yield Violation(
            f"${name} has its old value here, or none: bash expands {what} before it sets {name}",
            f"set {name} on a line of its own, above this one",
            place=word.place,
        )
