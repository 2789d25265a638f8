"""NC645 and NC649: lines that do something else than they seem to."""

from __future__ import annotations

import re
from typing import Iterator

from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.model import SourceSpan

_ITS_DIRECTORY = re.compile(
    r"\$\{(0|BASH_SOURCE(\[0\])?)%/"
    r"|\b(dirname|realpath|readlink)\b[^)`;]*\$(0|BASH_SOURCE|\{(0|BASH_SOURCE(\[0\])?)[:}])"
)
# Who asks whether this is a job, or where the script came from, knows.
_KNOWS = re.compile(r"scontrol show job|Command=|(\[|\btest) .{0,200}SLURM_|\$\{SLURM_SUBMIT_DIR:")


@script_rule(WARNING, "NC645", "directory of Slurm's copy")
def own_directory(facts: ScriptFacts) -> Iterator[Finding]:
    header = facts.header
    if not (header.given or header.ignored) or _KNOWS.search(facts.text):
        return
    for number, line in facts.plain_lines:
        match = _ITS_DIRECTORY.search(line)
        if match is not None:
            yield Finding(
                "in a job, this is the directory of Slurm's copy of the script, which has none of "
                "the other files",
                'write "$SLURM_SUBMIT_DIR", the directory that you submit from, or an absolute '
                "path",
                place=SourceSpan(number, match.start() + 1, match.end() + 1),
            )
            return


# Text of which bash makes something else: a pattern, whose last group it is about; why; what to
# write.
_READ_OTHERWISE = (
    (
        r"\bin[ \t]+(\{[^{}\s]*\.\.[^{}\s]*\$[^\s;]*\}|\{\$[^\s;]*\.\.[^\s;]*\})",
        "bash takes this for one word: it expands braces before variables",
        "write $(seq 1 $N), or for ((i = 1; i <= N; i++))",
    ),
    (
        r"^[ \t]*(?:export|declare|readonly|local)[ \t]+(\$[A-Za-z_]\w*=|[A-Za-z_]\w*[ \t]+=)",
        "this sets no variable: to bash, it is another name",
        "write export NAME=… without blanks and $",
    ),
    (
        r"(?:^|[ \t;&|!])(\[\[?[ \t]+[^\s\[\]=!<>-][^\s\[\]=!<>]*==?[^\s\[\]=~]+[ \t]+\])",
        "this is always true: without blanks around =, bash asks whether the word is empty",
        "write [ A = B ]",
    ),
    (
        r"(?:^|[;&|]|\b(?:if|elif|while)\b)[ \t]*(?:![ \t]*)?(\[[^\s\[:\]]\S*)[ \t].*\]"
        r"[ \t]*(?:;|$)",
        "there is no such command: bash needs a blank behind [",
        "write [ and ] with blanks around them",
    ),
    (
        r"[ \t](2&>1)(?=\s|$)",
        "the program gets an argument 2, and its output goes to a file named 1",
        "write 2>&1",
    ),
)
_PATTERNS = [
    (re.compile(pattern, re.MULTILINE), why, hint) for pattern, why, hint in _READ_OTHERWISE
]


@script_rule(ERROR, "NC649", "line that bash divides otherwise")
def divided_otherwise(facts: ScriptFacts) -> Iterator[Finding]:
    if not facts.header.for_bash:
        return
    yield from _lost_options(facts)
    plain = {number for number, _ in facts.plain_lines}
    for pattern, why, hint in _PATTERNS:
        for match in pattern.finditer(facts.text):
            begin = match.start(match.lastindex or 0)
            number = facts.text.count("\n", 0, begin) + 1
            column = begin - facts.text.rfind("\n", 0, begin)
            if number in plain:
                end = column + len(match[match.lastindex or 0])
                place = SourceSpan(number, column, end)
                yield Finding(why, hint, place=place, severity=WARNING)
                break


def _lost_options(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first option that begins a command, since the line above does not go on."""
    firsts = [(each.place, each.words[0].raw) for each in facts.shell.commands if each.words]
    # The grammar takes --run=1 alone on its line for a variable.
    firsts += [
        (each.place, f"{each.name}=")
        for each in facts.shell.assignments
        if each.name[:1] == "-" and not facts.lines[each.place.line - 2].startswith("#")
    ]
    for place, raw in sorted(firsts, key=lambda one: one[0].line):
        before = place.line - 1
        above = facts.lines[before - 1] if before else ""
        if facts.lines[before][: place.column - 1].strip() or not above.strip():
            continue
        comment = above.lstrip().startswith("#")
        blank = re.search(r"^[^#]*[^#&|;({\s]\s*\\[ \t]+$", above)
        option = re.match(r"--?[A-Za-z][\w-]*(=|$)|[+~]{0,2}[A-Za-z_]\w*\.[\w.]*=", raw)
        if not blank and (not option or (above.endswith("\\") and not comment)):
            continue
        why, hint = "the line above does not end with a backslash", "remove the gap before it"
        if blank:
            why, hint = f"a blank follows the backslash of line {before}", "remove the blank"
        elif comment:
            why = f"the comment of line {before} ends the command before it"
        yield Finding(f"bash takes {raw} for a command: {why}", hint, place=place)
        return
