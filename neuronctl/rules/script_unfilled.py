"""NC643: what nobody has filled in, and what bash cannot read."""

from __future__ import annotations

import re
from typing import Iterator

from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.model import SCRIPT, GivenOption, SourceSpan

UNFILLED = re.compile(r"<[A-Za-z][\w .@-]*>|\{[A-Za-z][\w .@-]*\}")
"""The value of a directive in a template: ``<partition_name>``."""
_NOBODYS = re.compile(
    r"""(?xi) (?:your|some) [-_ ]? [a-z_-]+ | my [-_ ]? (?:account|project|allocation|group|email)
    | [a-z_-]* \d* x{3,} \d* | (?:account|project|allocation|partition) [-_ ]? (?:name|here|id)
    | def-some(?:user|prof) | \.{2,} | placeholder | (?:change|replace|fill) [-_]? (?:me|in)
    | to[-_]?do | tbd | (?-i: [A-Z]+ (?:_[A-Z]+)* _(?:NAME|HERE) )
    | (?:snic|naiss|eurohpc|prace|sigma2) [-_] (?:project|account)
    | .* (?-i: (?<![A-Za-z]) (?:(?P<one>[XYZN]) (?P=one)+)+ (?![A-Za-z]) ) .*"""
)
"""An account, a partition, or an environment of an example: ``your_project``, ``naiss20YY-XX``."""
_OPEN_PART = re.compile(r"<[A-Za-z][^<>]*>|\[[A-Za-z][^]]*\]?")
"""What is left to fill in within a value: ``j<proj>``, ``e05-[budget code]``."""
_OF_YOURS = r"your[-_]?(?:path|dir|home|project|env|venv|user|name|account|group|scratch|data)\w*"
_PATH_TO = re.compile(
    rf"""(?xi) (?:^|(?<!:[=-])(?<!:[=-]/)(?<=[/=\"':-])) (?: path[-_/]to (?:[-_/]|$) | your/
    | {_OF_YOURS} / | (?-i: USERNAME | NETID | USERID | PROJECT_?NAME ) (?:/|$) )
    | (?<=/) {_OF_YOURS} $ | (?<=home/) username/ | \[(?:your|insert|enter) [^\]/]* \]"""
)
"""A directory of an example: ``/path/to/data``."""
_VALUE_OF_YOURS = re.compile(
    r"""(?xi) (?: --?[\w-]+= )? (?: your[-_] (?:[a-z]+[-_])* (?: name | entity | project | account
    | id | user | username | email | key | token ) (?: [-_]here )?
    | (?-i: (?:CHANGE|REPLACE|FILL|INSERT|FIX) [-_]? (?:ME|THIS|IN|HERE) | __[A-Z][A-Z_]+__ )
    | \.\.\. | x{3,} ) | (?: \S*/ )? your[-_]\w+\.(?:py|sh|R|jl|m)"""
)
"""A word of an example's command: ``--entity your-entity``, ``your_script.py``."""


@script_rule(ERROR, "NC643", "shell text that cannot be read")
def syntax(facts: ScriptFacts) -> Iterator[Finding]:
    for given in facts.header.options.values():  # not those that others override
        if given.source == SCRIPT:
            yield from _unfilled_option(given)
    yield from _unfilled_words(facts)
    yield from _unfilled_for_bash(facts)
    problem = facts.unreadable
    if problem is not None and not facts.shell.placeholders:
        says = "bash says" if problem.warning else "bash cannot read this and stops here"
        yield Finding(
            f"{says}: {problem.message}",
            "look for an open quote, bracket, block, or here-document at or before this line",
            place=problem.place,
            severity=WARNING if problem.warning else "",
        )
    if facts.left_out:
        yield Finding(
            "this script is very long, or very hard to read: neuronctl checks it only up to this "
            "line",
            "put lines that repeat a command into a loop",
            place=SourceSpan(facts.left_out),
            severity=WARNING,
        )


def _unfilled_option(given: GivenOption) -> Iterator[Finding]:
    name, value = given.name, given.value or ""
    needed = name in ("partition", "account", "qos", "nodelist", "dependency")
    path = name in ("output", "error", "chdir")
    open_one = UNFILLED.fullmatch(value) or (needed and _NOBODYS.fullmatch(value))
    part = _OPEN_PART.search(value) if needed else path and re.search("<[A-Za-z][^<>]*>", value)
    if open_one or part or (path and _PATH_TO.search(value)) or (needed and not value):
        yield Finding(
            f"nobody has filled in --{name}={value}",
            "write the value in its place, or remove the option",
            place=given.value_place,
            severity=ERROR if needed or path else WARNING,
        )


def _unfilled_words(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first path, and the first other word, of an example in the commands."""
    words = [
        word
        for command in facts.shell.uncaptured
        if command.name not in ("echo", "printf", "mktemp", "sed", "grep", "awk", "perl")
        for word in command.words
    ] + [each.word for each in facts.shell.assignments if "mktemp" not in each.word.raw]
    words.sort(key=lambda word: (word.place.line, word.place.column))
    environments = [
        command.words[-1]
        for command in facts.shell.calls("conda", "mamba", "micromamba", "source")
        if command.arguments[:1] == ("activate",) and _NOBODYS.fullmatch(command.words[-1].raw)
    ]
    paths = [word for word in words if _PATH_TO.search(word.raw[:1000])]
    values = [word for word in words if _VALUE_OF_YOURS.fullmatch((word.value or word.raw)[:100])]
    for word in (*paths[:1], *values[:1], *environments[:1]):
        yield Finding(
            f"nobody has filled in {word.text[:80]}, which is an example's",
            "write your own in its place",
            place=word.place,
            severity=WARNING,
        )


def _unfilled_for_bash(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first ``<NAME>``, which redirects, and ``{Some Name}``, which is two words."""
    if not facts.header.for_bash:
        return
    for place in facts.shell.placeholders[:1]:
        line = facts.lines[place.line - 1]
        named = line[place.column - 1 : place.end - 1]
        files = re.fullmatch("<[a-z]+>", named) and re.match(" *[a-z.]", line[place.end - 1 :])
        yield Finding(
            f"nobody has filled in {named}: bash reads from a file '{named[1:-1]}' here, or stops",
            f"write the value in the place of {named}",
            place=place,
            severity=WARNING if files else "",  # sort <names> sorted
        )
    for command in facts.shell.commands:
        text = " ".join(word.raw for word in command.words[1:])
        open_one = re.search(r"(?<!\S)\{[A-Za-z][\w.-]*( [\w.-]+)*\}(?!\S)", text)
        if open_one is not None:
            words = f"nobody has filled in {open_one[0]}: {command.name} gets it as it stands"
            hint = f"write the value in the place of {open_one[0]}"
            yield Finding(words, hint, place=command.words[1].place, severity=WARNING)
            return
