"""NC670: directories that are not the ones that a script means, where it goes or removes."""

from __future__ import annotations

import re
from typing import Iterator, Optional

from neuronctl.batchscript.shell_text import Command
from neuronctl.rule_codes import WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule


@script_rule(WARNING, "NC670", "directory that is another one", "by_absence")
def astray(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.header.for_bash:
        yield from _never_back(facts)
        yield from _removed_elsewhere(facts)


_FOR = re.compile(r"[ \t]*for[ \t]+(\w+)[ \t]+in[ \t]+(.*?)[ \t]*(;|$)")
_OWN_SHELL = re.compile(r"^\s*\(|\(\s*cd\b|[|&]\s*$|\$\(")


def _never_back(facts: ScriptFacts) -> Iterator[Violation]:
    """``for d in a b; do cd $d; …``: the second one is looked for within the first."""
    moves = facts.shell.calls("cd", "pushd", "popd")
    for first, last in facts.loops[:50] if moves else ():
        loop = _FOR.match(facts.lines[first - 1])
        lines = facts.lines[first:last] or (facts.lines[first - 1].partition("do ")[2],)
        goes = [
            command
            for command in moves
            if first <= command.place.line <= last and not command.captured
        ]
        if loop is None or len(goes) != 1 or len(goes[0].words) != 2:
            continue
        command = goes[0]
        path = command.words[1].raw.strip("\"'")
        inner = facts.innermost_loop.get(command.place.line) != (first, last)
        if command.name != "cd" or inner or any(map(_OWN_SHELL.search, lines)):
            continue
        if command.sure or not command.in_loop or _is_relative(loop[1], loop[2], path) is None:
            continue
        rest = "\n".join(facts.lines[command.place.line : last])
        if re.search(r"\b(break|exit|continue)\b", rest):
            continue
        yield Violation(
            f"nothing in this loop goes back: the next turn looks for {path} within the "
            "directory of the one before",
            "write ( cd … && … ) in brackets, or cd - at the end of the loop",
            place=command.place,
        )
        return


def _is_relative(variable: str, values: str, path: str) -> Optional[bool]:
    """Whether a path is surely one below the current directory, and another in each turn."""
    names = re.findall(r"\$\{?(\w+)\}?", path)
    if names != [variable] or re.search(r"[`~]|\$\(|%|#|^/", path):
        return None
    if not path.startswith(f"${variable}") and not path.startswith(f"${{{variable}}}"):
        return True if re.match(r"[\w.-]", path) else None
    known = re.fullmatch(r"([\w.*?/-]+|\{\d+\.\.\d+\}|\$\(seq [\d ]+\)|[ \t])+", values)
    return True if known and not re.search(r"(^|\s)[/~.]", values) else None


_ALL = re.compile(r"\"?(\.?/?\*|\./\*?|\*\.\*)\"?")


def _removed_elsewhere(facts: ScriptFacts) -> Iterator[Violation]:
    """``cd X; rm -rf *``: where X is not there, that is another directory's files."""
    if facts.strict:
        return
    gone: Optional[Command] = None
    for command in facts.shell.commands:
        if command.captured or not command.words:
            continue
        line = facts.lines[command.place.line - 1]
        if command.name in ("cd", "pushd", "popd"):
            checked = re.search(r"\|\||&&|\bif\b", line) or not command.sure
            near = facts.lines[command.place.line : command.place.line + 2]
            checked = checked or any("pwd" in text or "$?" in text for text in near)
            gone = None if checked or len(command.words) < 2 else command
            continue
        if command.name == "mkdir" and gone is not None:
            continue
        if command.name == "rm" and gone is not None:
            words = [word.raw for word in command.words[1:]]
            recursive = any(re.match("-[a-zA-Z]*r", word) for word in words)
            path = gone.words[1].raw
            made = [word.raw for each in facts.shell.calls("mkdir") for word in each.words[1:]]
            if recursive and any(map(_ALL.fullmatch, words)) and path not in made:
                yield Violation(
                    f"where {path} is not there (line {gone.place.line}), this removes all of the "
                    "directory that the job began in",
                    f"write cd {path} || exit 1",
                    place=command.place,
                )
                return
