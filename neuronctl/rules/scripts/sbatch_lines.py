"""NC601 to NC606, NC653 to NC655: directives that sbatch ignores or refuses, and arrays."""

from __future__ import annotations

import re
import shlex
from typing import Iterator, Optional, Tuple

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.scripts.script_facts import ScriptFacts, asks_for, script_rule
from neuronctl.scripts.header import (
    COMMAND_LINE,
    GPU_OPTIONS,
    SCRIPT,
    Edit,
    GivenOption,
    Ignored,
    SourceSpan,
)
from neuronctl.scripts.header_reader import BLANKS
from neuronctl.scripts.shell_text import ShellWord
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.sbatch_options import is_of_a_plugin


@script_rule(ERROR, "NC601", "directive that sbatch refuses", Trait.UNREACHED | Trait.SPELLING)
def check_refused_directive(facts: ScriptFacts) -> Iterator[Finding]:
    for refusal in facts.header.refusals:
        is_newer = facts.release and refusal.since and facts.release < refusal.since
        if refusal.whole or is_newer:  # NC602 reports what is wrong with the whole file
            continue
        message, severity = f"sbatch refuses the script: {refusal.message}", ERROR
        if refusal.since and not facts.release:
            message += f" (since Slurm {'.'.join(f'{number:02}' for number in refusal.since)})"
            severity = WARNING
        place, edits = refusal.place if refusal.place.line else facts.top, refusal.edits
        yield Finding(message, refusal.hint, place=place, edits=edits, severity=severity)
    yield from _find_options_of_plugins(facts)


def _find_options_of_plugins(facts: ScriptFacts) -> Iterator[Finding]:
    """Yield each option that only a plugin adds to sbatch, unless the script is for shifter's."""
    refused = {refusal.place.line for refusal in facts.header.refusals}
    for given in facts.header.options.values():
        is_of_shifter = given.name in ("image", "module", "volume") and "shifter" in facts.text
        is_read = given.source == SCRIPT and given.place.line not in refused
        if is_read and is_of_a_plugin(given.name) and not is_of_shifter:
            message = f"sbatch has no option '--{given.name}' of its own, and refuses the script "
            message += "unless one of the site's plugins adds it"
            hint = "'sbatch --help' lists the options of plugins, too"
            yield Finding(message, hint, place=given.place, severity=WARNING)


@script_rule(ERROR, "NC602", "file that sbatch does not take for a batch script", Trait.UNREACHED)
def check_refused_file(facts: ScriptFacts) -> Iterator[Finding]:
    # A text without #! and directives may be a part that other scripts read.
    is_script = facts.text.lstrip("\ufeff").startswith("#!") or facts.header.given
    is_text = facts.text.strip(BLANKS) and "\0" not in facts.text
    severity = WARNING if is_text and not is_script else ERROR
    for refusal in facts.header.refusals:
        if refusal.whole:
            message = f"sbatch refuses the script: {refusal.message}"
            place, edits = refusal.place, refusal.edits
            yield Finding(message, refusal.hint, place=place, severity=severity, edits=edits)


def _ignored(facts: ScriptFacts, *reasons: str) -> Iterator[Ignored]:
    return (ignored for ignored in facts.header.ignored if ignored.reason in reasons)


@script_rule(WARNING, "NC603", "directive after the first command", Trait.UNREACHED)
def check_late_directive(facts: ScriptFacts) -> Iterator[Finding]:
    if any(refusal.whole for refusal in facts.header.refusals):
        return  # NC602 reports it
    places = [ignored.place for ignored in _ignored(facts, Ignored.AFTER_COMMAND)]
    places = [place for place in places if place.line not in facts.shell.documents]
    if not places:
        return
    more = len({place.line for place in places}) - 1
    lines, pronoun = "this line", "it"
    if more:
        lines = f"this line and {counted(more, 'more line')}, up to line {places[-1].line}"
        pronoun = "them"
    first = facts.header.first_command
    message = f"sbatch ignores {lines}: it stops at line {first}, the first one that is neither "
    hint = f"move {pronoun} above line {first}"
    yield Finding(f"{message}blank nor a comment", hint, place=places[0])


@script_rule(WARNING, "NC604", "line that only looks like a directive", Trait.UNREACHED)
def check_like_a_directive(facts: ScriptFacts) -> Iterator[Finding]:
    for ignored in _ignored(facts, Ignored.MISSPELLED):
        # In a script with directives, `# SBATCH --mem=8G` is switched off on purpose.
        is_disabled = facts.header.given and ignored.text.startswith(("# ", "#\t", "#--"))
        # A line with the name of a script shows how to submit it.
        shows_use = re.search(r"\s[\w./-]+\.(sh|bash|sbatch|slurm|job)\b|\\$", ignored.text)
        if shows_use or is_disabled:
            continue
        options = ignored.text.lstrip("# \t")
        if not options.startswith("--"):
            options = options.partition(" ")[2].strip()
        message = "sbatch ignores this line: a directive begins with #SBATCH in the first column"
        yield Finding(message, f"write #SBATCH {options}", place=ignored.place)
    for ignored in _ignored(facts, Ignored.REMARK):
        if ignored.text.startswith("#SBATCH"):
            message = f"sbatch ignores '{ignored.text}': a # ends the line"
            hint = "write every #SBATCH on a line of its own"
            yield Finding(message, hint, place=ignored.place)


@script_rule(WARNING, "NC605", "directive that is overridden", Trait.UNREACHED)
def check_overridden(facts: ScriptFacts) -> Iterator[Finding]:
    for ignored in _ignored(facts, Ignored.OVERRIDDEN):
        later = ignored.instead
        if later is None or later.text == ignored.text or later.source == COMMAND_LINE:
            continue
        winner, hint = f"line {later.place.line}", "keep one of the two"
        if not later.place.line:
            winner, hint = f"{later.source} in your environment", f"unset {later.source}"
        message = f"{ignored.text} has no effect: {winner} overrides it with {later.text}"
        yield Finding(message, hint, place=ignored.place)


_VARIABLE = re.compile(r"\$(?:\{(\w+)\}?|(\w+)|\()")
_PATTERNS = {"USER": "%u", "LOGNAME": "%u", "SLURM_JOB_ID": "%j", "SLURM_JOBID": "%j",
             "SLURM_JOB_NAME": "%x", "SLURM_ARRAY_TASK_ID": "%a",
             "SLURM_ARRAY_JOB_ID": "%A"}  # fmt: skip
_REFUSED_WITH_A_VARIABLE = ("partition", "qos", *GPU_OPTIONS)


def _with_patterns(facts: ScriptFacts, given: GivenOption) -> Tuple[Edit, ...]:
    """Return edits that replace the variables in a log's name by Slurm's patterns."""
    if "\\" in (given.value or ""):  # a backslash disables the patterns
        return ()
    place, edits = given.value_place, []
    line = facts.lines[place.line - 1][: place.end - 1]
    for match in _VARIABLE.finditer(line, place.column - 1):
        name = match[1] or match[2]
        if name in _PATTERNS and ("ARRAY" not in name or facts.has("array")):
            span = SourceSpan(place.line, match.start() + 1, match.end() + 1)
            edits.append(Edit(span, _PATTERNS[name]))
    return tuple(edits)


@script_rule(WARNING, "NC606", "text that sbatch takes as it is", Trait.UNREACHED | Trait.SPELLING)
def check_unexpanded(facts: ScriptFacts) -> Iterator[Finding]:
    for option in facts.header.options.values():
        # A shell expands --wrap, and a value of --export may be meant as it is.
        if not option.place.line or option.name in ("wrap", "export"):
            continue
        value = option.value or ""
        is_log = option.name in ("output", "error")
        variable = _VARIABLE.search(value)
        if is_log and (value.startswith("~") or value.endswith("/")):
            yield _no_log_file(option.name, value, option.value_place)
        elif variable is not None:
            yield _unexpanded_variable(facts, option, variable)


def _no_log_file(name: str, value: str, place: SourceSpan) -> Finding:
    """Return the finding for a log that begins with ~, or is a directory."""
    reason, hint = "a directory, and no file", f"write {value}%x-%j.log"
    if value.startswith("~"):
        reason = "no path, as sbatch does not expand ~"
        hint = "write the path of a file, such as /home/NAME/logs/%x-%j.log"
    message = f"--{name}={value} is {reason}; the job fails at its start, without a log"
    return Finding(message, hint, about=(name,), place=place, severity=ERROR)


def _unexpanded_variable(
    facts: ScriptFacts, option: GivenOption, variable: re.Match[str]
) -> Finding:
    """Return the finding for an option whose value has a variable."""
    name, value = option.name, option.value or ""
    effect, hint = "", "write the value itself"  # no effect: only the text is wrong
    edits: Tuple[Edit, ...] = ()
    # After % in --array, Slurm takes as much as it can read, and refuses nothing.
    is_index = name == "array" and variable.start() < len(value.partition("%")[0])
    if name in _REFUSED_WITH_A_VARIABLE or is_index:
        effect = ", and Slurm refuses the job"
    if name in ("output", "error"):
        if "/" in value[variable.start() :]:
            effect = ", and there is no such directory: the job fails, without a log"
        pattern = _PATTERNS.get(variable[1] or variable[2] or "")
        hint = f"write {pattern} for it" if pattern else hint
        edits = _with_patterns(facts, option)
    message = f"sbatch does not expand variables: {variable[0]} stays as it is in --{name}{effect}"
    severity = ERROR if effect else WARNING
    place = option.value_place
    return Finding(message, hint, about=(name,), place=place, severity=severity, edits=edits)


def submits_itself(facts: ScriptFacts) -> bool:
    """Return True if a line calls sbatch."""
    words = (word for command in facts.shell.commands for word in command.words[:2])
    return any(word.value == "sbatch" for word in words)


_INDEX = "SLURM_ARRAY_TASK_ID"


@script_rule(WARNING, "NC653", "one log for several jobs")
def check_one_log(facts: ScriptFacts) -> Iterator[Finding]:
    output, path = facts.given("output"), facts.header.value("output") or ""
    tasks = tasks_of(facts.header.value("array") or "")
    if output is None or tasks is None or tasks.count < 2:
        return
    if path == "/dev/null" or facts.header.value("open-mode") in ("a", "append"):
        return
    # A pattern that differs between tasks, characters that sbatch treats specially, or no path.
    if re.search(r"%\d*[ajJ]|[\\$]|^$", path):
        return
    stem, dot, suffix = path.rpartition(".")
    separate = f"{stem}-%a.{suffix}" if dot and stem and "/" not in suffix else f"{path}-%a"
    message = f"every task of the array writes {path}: each overwrites what the others have written"
    yield Finding(message, f"write {separate}", place=output.place)


_SHOWN_IN_COMMENT = r"(?m)^[ \t]*#.*\bsbatch\b.* (--array|-a)[= ]"
"""A comment that shows how to submit the script: ``# sbatch --array=0-9 job.sh``."""


@script_rule(NOTE, "NC654", "array without its index, or the index alone", Trait.ABSENCE)
def check_no_array(facts: ScriptFacts) -> Iterator[Finding]:
    yield from _unused_index(facts)
    yield from _index_without_array(facts)


def _unused_index(facts: ScriptFacts) -> Iterator[Finding]:
    """Yield an array whose index nothing uses."""
    array = facts.given("array")
    if array is not None and "ARRAY" not in facts.text and not facts.reads_more:
        message = f"nothing here uses ${_INDEX}: the tasks differ only if the program reads it "
        message += "itself"
        yield Finding(message, f'give it to the program: "${_INDEX}"', place=array.place)


def _index_without_array(facts: ScriptFacts) -> Iterator[Finding]:
    """Yield the first use of an array's index in a script that makes no array."""
    if facts.has("array") or not facts.header.given or re.search(_SHOWN_IN_COMMENT, facts.text):
        return
    if any(asks_for(_INDEX, line) for line in facts.lines):
        return
    places = [word.place for word in _words(facts) if _INDEX in word.names]
    places.sort(key=lambda place: (place.line, place.column))
    for place in places[:1]:
        message = f"${_INDEX} is empty unless sbatch gets --array: nothing here makes an array"
        yield Finding(message, "write #SBATCH --array=0-9", place=place)


def _words(facts: ScriptFacts) -> Iterator[ShellWord]:
    """Yield the words that a program or a variable gets, except those that are only shown."""
    for command in facts.shell.commands:
        if command.name not in ("echo", "printf", "export"):
            yield from command.words[1:]
    yield from (assigned.word for assigned in facts.shell.assignments)


@script_rule(WARNING, "NC655", "array index beyond its list")
def check_beyond_the_list(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first element ``${LIST[INDEX]}`` that is not there for some task of the array."""
    array = facts.given("array")
    tasks = tasks_of(facts.header.value("array") or "")
    if array is None or tasks is None or any(asks_for(_INDEX, line) for line in facts.lines):
        return
    for word in _words(facts):
        for name, index in re.findall(r"\$\{(\w{1,200})\[([^]]{1,200})\]\}", word.raw):
            count, offset = _count_elements(facts, name), _find_offset(facts, index)
            if count is None or offset is None:
                continue
            first, last = max(0, -offset), count - 1 - offset  # the indexes with an element
            is_above = max(tasks.indexes, default=last) > last
            is_below = min(tasks.indexes, default=first) < first
            if is_above or is_below:
                message = f"{name} has {counted(count, 'element')}, for the indexes {first} to "
                message += f"{last}: the {'highest' if is_above else 'lowest'} of "
                message += f"--array={array.value} finds none, or another's"
                yield Finding(message, f"write #SBATCH --array={first}-{last}", place=word.place)
                return


def _count_elements(facts: ScriptFacts, name: str) -> Optional[int]:
    """Return the number of elements in a list that is set once, with plain words, else None."""
    variables = facts.shell.assigned(name)
    raw = variables[0].word.raw if len(variables) == 1 else ""
    if not re.fullmatch(r"\([^$`*?{\[]*\)", raw) or f"{name}+=" in facts.text:
        return None
    try:
        return len(shlex.split(raw[1:-1], comments=True))
    except ValueError:
        return None


def _find_offset(facts: ScriptFacts, expression: str) -> Optional[int]:
    """Return what is added to the task's index; None for another expression."""
    marks = r"[\s${}()\"]"
    variables = facts.shell.assigned(re.sub(marks, "", expression))
    value = variables[0].word.raw if len(variables) == 1 else expression
    match = re.fullmatch(rf"{_INDEX}([+-]\d{{1,6}})?", re.sub(marks, "", value))
    return None if match is None else int(match[1] or 0)


def tasks_of(text: str) -> Optional[JobId]:
    """Return the tasks of an array with these indexes, or None if they are unreadable."""
    plain = re.sub(r"%.*|[\[\]]", "", text)
    indexes = r"\d{1,8}(-\d{1,8}(:\d{1,8})?)?"
    return JobId(1, tasks=plain) if re.fullmatch(rf"{indexes}(,{indexes})*", plain) else None
