"""Of NC649 and NC660: what bash makes of a line, other than its writer meant."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Tuple

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts
from neuronctl.rules.script_words import joined_words
from neuronctl.scripts.model import SourceSpan
from neuronctl.scripts.shell_text import ShellWord

_EXPORT_APART = re.compile(r"\s*(export|declare|readonly|local)\s+(\$?)([A-Za-z_]\w*)(\s+=|=)")
_RANGE = re.compile(r"\bin\s+(\{[^{}\s]*\.\.[^{}\s]*\$[^\s;]*\}|\{\$[^\s;]*\.\.[^\s;]*\})")
_ONE_WORD = re.compile(
    r"(?:^|[\s;&|!])"
    r"(\[\[?[ \t]+([^\s\[\]=!<>-][^\s\[\]=!<>]*==?[^\s\[\]=~]+)[ \t]+\])"
)
_MOST = 50
"""So many of a kind are looked at."""
_PATTERN = re.compile(r"\[\[[ \t]+!?[ \t]*-[efds][ \t]+(\S*(?<!\\)\*[^\s\"]*)[ \t]+\]\]")
_TO_ONE = re.compile(r"(?<=\s)2&>1(?=\s|$)")


def read_otherwise(facts: ScriptFacts) -> Iterator[Violation]:
    """For NC649: lines of which bash makes something else."""
    if not facts.header.for_bash:
        return
    for number, line in facts.plain_lines:
        found = _in_line(line)
        if found is not None:
            at, end, message, hint = found
            place = SourceSpan(number, at + 1, end + 1)
            yield Violation(message, hint, place=place, severity=WARNING)
    yield from _lists(facts)
    yield from joined_words(facts)
    yield from _aliases(facts)
    yield from _alone(facts)


_REDIRECTS = re.compile(r"[ \t]+(&>>?|2>>?|1>>?|>>)[ \t]*[^\s&|;]+[ \t]*(2>&1)?[ \t]*(#.*)?")


def _alone(facts: ScriptFacts) -> Iterator[Violation]:
    """A line that only says where the output goes, behind one that does not go on."""
    for (above, before), (number, line) in zip(facts.plain_lines, facts.plain_lines[1:]):
        if ">" not in line or not _REDIRECTS.fullmatch(line) or number != above + 1:
            continue
        deeper = len(line) - len(line.lstrip()) > len(before) - len(before.lstrip())
        ends = re.search(r"(\\|[|&;({]|\bdo|\bthen|\belse)[ \t]*$", before)
        if before.strip() and deeper and not ends:
            yield Violation(
                "the program of the line above does not get this: that line does not end with a "
                "backslash",
                "write both in one line",
                place=SourceSpan(number, len(line) - len(line.lstrip()) + 1, len(line) + 1),
                severity=WARNING,
            )
            return


def _in_line(line: str) -> Optional[Tuple[int, int, str, str]]:
    """(begin, end, what is wrong, what to write) of the first thing in a line."""
    if ".." in line:
        match = _RANGE.search(line)
        if match is not None:
            return (
                match.start(1),
                match.end(1),
                f"bash takes {match[1]} for one word: it expands braces before variables",
                "write $(seq 1 $N), or for ((i = 1; i <= N; i++))",
            )
    if "=" in line:
        match = _EXPORT_APART.match(line)
        if match is not None and (match[2] or match[4] != "="):
            blank = "" if match[2] else " without blanks around ="
            return (
                match.start(1),
                match.end(),
                f"this does not set {match[3]}: "
                + ("$ stands for its value" if match[2] else "to bash, = is another name"),
                f"write {match[1]} {match[3]}=…{blank}",
            )
        match = _ONE_WORD.search(line)
        if match is not None:
            left, _, right = match[2].partition("=")
            return (
                match.start(1),
                match.end(1),
                "this is always true: without blanks around =, bash asks whether the word is empty",
                f"write [ {left} = {right.lstrip('=')} ]",
            )
    if "[[" in line and "*" in line:
        match = _PATTERN.search(line)
        if match is not None and '"' not in match[1]:
            return (
                match.start(1),
                match.end(1),
                f"within [[ ]], bash looks for one file with the name {match[1]}",
                f"write: if compgen -G '{match[1]}' > /dev/null",
            )
    if "2&>1" in line:
        match = _TO_ONE.search(line)
        if match is not None:
            return (
                match.start(),
                match.end(),
                "the program gets an argument 2, and its output goes to a file named 1",
                "write 2>&1",
            )
    return None


_PARTS = re.compile(r"\"[^\"]*\",?|'[^']*',?|[^\s\"']+")


def _lists(facts: ScriptFacts) -> Iterator[Violation]:
    """``(1, 2)``, ``$LIST[1]``, and an index into what is no list."""
    lists: Dict[str, bool] = {}
    for variable in facts.shell.assignments:
        raw = variable.word.raw
        is_list = raw.startswith("(") or "[" in variable.name
        name = variable.name.partition("[")[0]
        lists[name] = lists.get(name, False) or is_list
        parts = _PARTS.findall(raw[1:-1]) if raw.startswith("(") and raw.endswith(")") else []
        between = [part for part in parts[:-1] if re.fullmatch(r"[\"']?[\w./-]+[\"']?,", part)]
        if len(parts) > 1 and len(between) == len(parts) - 1:
            yield Violation(
                f"the comma belongs to the element: the first one of {name} is {parts[0]}",
                "divide the elements by blanks alone",
                place=variable.place,
                severity=WARNING,
            )
            break
    words = [word for command in facts.shell.commands for word in command.words]
    words += [variable.word for variable in facts.shell.assignments]
    for word in words:
        match = re.search(r"(?<!\\)\$(\w+)\[", word.raw) if "[" in word.raw else None
        if match is None or word.raw.startswith("'"):
            continue
        if lists.get(match[1]):
            yield Violation(
                f"without braces, this is the first element of {match[1]}, and [ behind it",
                f"write ${{{match[1]}[…]}}",
                place=word.place,
                severity=WARNING,
            )
            return
    for word in (word for word in words if "[" in word.raw):
        match = re.search(r"\$\{(\w+)\[[^]@*]*[A-Za-z$][^]]*\]\}", word.raw)
        name = match[1] if match else ""
        plain = name in lists and not lists.pop(name) and len(facts.shell.assigned(name)) == 1
        if plain and not _may_be_list(facts, name):
            value = facts.shell.assigned(name)[0].word.raw
            if re.search(r"\s", value):
                yield Violation(
                    f"{name} is one text, and no list: behind index 0, there is nothing",
                    f"write {name}=(…)",
                    place=word.place,
                    severity=WARNING,
                )
                return


def _may_be_list(facts: ScriptFacts, name: str) -> bool:
    made = rf"(read\b.*-\w*a|mapfile|readarray|declare|typeset|local)\b[^\n]*\b{name}\b"
    return re.search(rf"{made}|\b{name}\+=\(|\b{name}\[[^]]*\]=", facts.text) is not None


def _aliases(facts: ScriptFacts) -> Iterator[Violation]:
    """A name that is short for another command, which a script's bash takes as it is."""
    made = facts.shell.calls("alias")
    if not made or re.search("expand_aliases|posix", facts.text):
        return
    for command in made:
        names = [word.raw.partition("=")[0] for word in command.words[1:] if "=" in word.raw]
        later = (
            each.place.line
            for each in facts.shell.calls(*names)
            if each.place.line > command.place.line and each.words[0].raw in names
        )
        line = next(later, 0)
        if names:
            what = f"line {line} does not run what this says" if line else "this has no effect"
            yield Violation(
                f"bash expands no alias in a script: {what}",
                "write a function, or shopt -s expand_aliases above it",
                place=command.place,
                severity=WARNING if line else NOTE,
            )
            return


_ELSEWHERE = {
    **dict.fromkeys(("PBS_O_WORKDIR", "SGE_O_WORKDIR", "LS_SUBCWD"), "SLURM_SUBMIT_DIR"),
    **dict.fromkeys(("PBS_JOBID", "LSB_JOBID"), "SLURM_JOB_ID"),
    **dict.fromkeys(
        ("PBS_ARRAYID", "PBS_ARRAY_INDEX", "PBS_ARRAY_ID", "SGE_TASK_ID", "LSB_JOBINDEX"),
        "SLURM_ARRAY_TASK_ID",
    ),
    **dict.fromkeys(("NSLOTS", "PBS_NP", "LSB_DJOB_NUMPROC"), "SLURM_NTASKS"),
    **dict.fromkeys(("PBS_NUM_PPN", "PBS_PPN"), "SLURM_CPUS_PER_TASK"),
    "PBS_NUM_NODES": "SLURM_NNODES",
    "PBS_JOBNAME": "SLURM_JOB_NAME",
    **dict.fromkeys(("PBS_NODEFILE", "PE_HOSTFILE", "LSB_HOSTS"), "SLURM_JOB_NODELIST"),
}
"""Variables of other schedulers, and Slurm's for the same."""


def of_other_schedulers(facts: ScriptFacts, used: Dict[str, SourceSpan]) -> Iterator[Violation]:
    """For NC660: a variable that another scheduler sets."""
    if facts.header.foreign or not facts.header.given:
        return  # it may run there, too
    for name, place in used.items():
        instead = _ELSEWHERE.get(name)
        if instead is None or re.search(rf"\b{name}(:?[-=+?]|=)|-[nzv] \S*{name}", facts.text):
            continue
        yield Violation(
            f"${name} is empty here: another scheduler sets it, and Slurm does not",
            f"write ${instead}",
            place=place,
        )
        return


def kept_by_quotes(facts: ScriptFacts, word: ShellWord) -> str:
    """The variable of the script's own that single quotes keep from a program."""
    names: List[str] = re.findall(r"\$\{?([A-Za-z_]\w*)", word.raw[:500])
    return next(filter(facts.shell.assigned, names), "")


def lost_in_a_pipe(facts: ScriptFacts) -> Iterator[Violation]:
    """For NC660: what a loop behind ``|`` sets, which its shell takes away with it."""
    if not facts.header.for_bash or "lastpipe" in facts.text:
        return
    for first, last in facts.loops[:_MOST]:
        line = facts.lines[first - 1]
        piped = re.search(r"(?<!\|)\|[ \t]*while\b", line) or (
            re.match(r"[ \t]*while\b", line)
            and re.search(r"(?<!\|)\|[ \t]*\\?$", facts.lines[first - 2])
        )
        if not piped or first == last or "{" in line.partition("while")[0][-3:]:
            continue
        own = [each for each in facts.shell.assignments if first < each.place.line <= last]
        for variable in own[:_MOST]:
            name = variable.name
            before = any(each.place.line < first for each in facts.shell.assigned(name))
            after = next(
                (
                    (number, line)
                    for number, line in facts.plain_lines
                    if number > last and re.search(rf"\b{name}\b", line)
                ),
                (0, ""),
            )
            uses = re.search(rf"\$\{{?{name}\b", after[1])
            if before and uses and not re.match(rf"\s*(export )?{name}=(?!.*\${name})", after[1]):
                yield Violation(
                    f"line {after[0]} does not see this: behind |, the loop runs in a shell of its "
                    f"own, and {name} is there as before",
                    "write while read …; do …; done < <(…)",
                    place=variable.place,
                )
                return
