"""NC640, NC643, NC645, NC649, and NC657: lines that are unfinished or mean something else."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, chain, islice
from typing import Iterator, Set, Tuple

from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.common.secrets import find_secrets
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.scripts.script_facts import ScriptFacts, script_rule
from neuronctl.scripts.header import SCRIPT, GivenOption, SourceSpan

_ITS_DIRECTORY = (
    r"\$\{(0|BASH_SOURCE(\[0\])?)%/"
    r"|\b(dirname|realpath|readlink)\b[^)`;]*\$(0|BASH_SOURCE|\{(0|BASH_SOURCE(\[0\])?)[:}])"
)
# A script that tests whether it is a job, or where it came from, handles this.
_KNOWS = r"scontrol show job|Command=|(\[|\btest) .{0,200}SLURM_|\$\{SLURM_SUBMIT_DIR:"


@script_rule(WARNING, "NC645", "directory of Slurm's copy")
def check_own_directory(facts: ScriptFacts) -> Iterator[Finding]:
    header = facts.header
    if not (header.given or header.ignored) or re.search(_KNOWS, facts.text):
        return
    for number, line in facts.plain_lines:
        match = re.search(_ITS_DIRECTORY, line)
        if match is not None:
            message = "in a job, this is the directory of Slurm's copy of the script, which has "
            hint = 'write "$SLURM_SUBMIT_DIR", the directory that you submit from, or an absolute '
            place = SourceSpan(number, match.start() + 1, match.end() + 1)
            yield Finding(f"{message}none of the other files", f"{hint}path", place=place)
            return


# Text that means something else to bash: a pattern, whose group is underlined; the problem; what
# to write instead.
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
        r"(\$\([A-Z][A-Z0-9]*_[A-Z0-9_]+\))",
        "this runs a command of that name, and takes what it prints",
        "write ${NAME} for a variable",
    ),
    (
        r"[ \t](2&>1)(?=\s|$)",
        "the program gets an argument 2, and its output goes to a file named 1",
        "write 2>&1",
    ),
)


@script_rule(ERROR, "NC649", "line that bash divides otherwise")
def check_divided_otherwise(facts: ScriptFacts) -> Iterator[Finding]:
    if not facts.header.for_bash:
        return
    yield from _lost_options(facts)
    plain_numbers = {number for number, _ in facts.plain_lines}
    for pattern, message, hint in _READ_OTHERWISE:
        for match in re.finditer(pattern, facts.text, re.MULTILINE):
            begin, end = match.span(1)
            number = facts.text.count("\n", 0, begin) + 1
            if number in plain_numbers:
                column = begin - facts.text.rfind("\n", 0, begin)
                place = SourceSpan(number, column, column + end - begin)
                yield Finding(message, hint, place=place, severity=WARNING)
                break


def _lost_options(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first option that begins a command because the line above does not continue."""
    first_words = [(each.place, each.words[0].raw) for each in facts.shell.commands if each.words]
    # The grammar takes --run=1, alone on its line, for a variable. Leave out one below a comment.
    first_words += [
        (each.place, f"{each.name}=")
        for each in facts.shell.assignments
        if each.name[:1] == "-" and not facts.lines[each.place.line - 2].startswith("#")
    ]
    for place, word in sorted(first_words, key=lambda first: first[0].line):
        numbers_above = [at for at in range(1, place.line) if facts.lines[at - 1].strip()]
        begins_line = not facts.lines[place.line - 1][: place.column - 1].strip()
        if not numbers_above or not begins_line:
            continue
        number = numbers_above[-1]  # of the last line above that is not blank
        reason, hint = _end_of_command(facts, number, place.line, word)
        if reason:
            message = f"bash takes {word} for a command: line {number} {reason}"
            yield Finding(message, hint, place=place)
            return


def _end_of_command(facts: ScriptFacts, number: int, below: int, word: str) -> Tuple[str, str]:
    """Return why a line ends a command that the word below would continue, and a hint.

    Return "" as the reason if no command is meant to continue. number: of the line. below: the
    number of the word's line; only blank lines are between the two.
    """
    above = facts.lines[number - 1]
    is_apart = number < below - 1
    # A line with text, no comment, whose backslash is followed by blanks.
    if not is_apart and re.search(r"^[^#]*[^#&|;({\s]\s*\\[ \t]+$", above):
        return "has a blank behind its backslash", "remove the blank"
    # --lr=1, -v, or an override of Hydra's: trainer.devices=4, +model.size=2
    if not re.match(r"--?[A-Za-z][\w-]*(=|$)|[+~]{0,2}[A-Za-z_]\w*\.[\w.]*=", word):
        return "", ""
    has_backslash = above.endswith("\\")
    if is_apart:
        reason = "has a blank line below, which ends the command" if has_backslash else ""
        return reason, "remove the blank line"
    if above.lstrip().startswith("#"):
        return "is a comment, which ends the command", "move it above the command"
    reason = "" if has_backslash else "does not end with a backslash"
    return reason, f"end line {number} with ' \\'"


UNFILLED = r"<[A-Za-z][\w .@-]*>|\{[A-Za-z][\w .@-]*\}"
"""The value of a directive in a template: ``<partition_name>``."""
_NOBODYS = r"""(?xi)
    (?:your|some) [-_ ]? [a-z_-]+ | my [-_ ]? (?:account|project|allocation|group|email)
    | [a-z_-]* \d* x{3,} \d* | (?:account|project|allocation|partition) [-_ ]? (?:name|here|id)
    | def-some(?:user|prof) | \.{2,} | placeholder | (?:change|replace|fill) [-_]? (?:me|in)
    | to[-_]?do | tbd | (?-i: [A-Z]+ (?:_[A-Z]+)* _(?:NAME|HERE) )
    | (?:snic|naiss|eurohpc|prace|sigma2) [-_] (?:project|account)
    | .* (?-i: (?<![A-Za-z]) (?:(?P<one>[XYZN]) (?P=one)+)+ (?![A-Za-z]) ) .*"""
"""An account, a partition, or an environment of an example: ``your_project``, ``naiss20YY-XX``."""
_OPEN_PART = r"<[A-Za-z][^<>]*>|\[[A-Za-z][^]]*\]?"
"""A part of a value that is left to fill in: ``j<proj>``, ``e05-[budget code]``."""
_OF_YOURS = r"your[-_]?(?:path|dir|home|project|env|venv|user|name|account|group|scratch|data)\w*"
_PATH_TO = rf"""(?xi) (?:^|(?<!:[=-])(?<!:[=-]/)(?<=[/=\"':-])) (?: path[-_/]to (?:[-_/]|$) | your/
    | {_OF_YOURS} / | (?-i: USERNAME | NETID | USERID | PROJECT_?NAME ) (?:/|$) )
    | (?<=/) {_OF_YOURS} $ | (?<=home/) username/ | \[(?:your|insert|enter) [^\]/]* \]"""
"""A directory of an example: ``/path/to/data``."""
_VALUE_OF_YOURS = r"""(?xi)
    (?: --?[\w-]+= )? (?: your[-_] (?:[a-z]+[-_])* (?: name | entity | project | account
    | id | user | username | email | key | token ) (?: [-_]here )?
    | (?-i: (?:CHANGE|REPLACE|FILL|INSERT|FIX) [-_]? (?:ME|THIS|IN|HERE) | __[A-Z][A-Z_]+__ )
    | \.\.\. | x{3,} ) | (?: \S*/ )? your[-_]\w+\.(?:py|sh|R|jl|m)"""
"""A word of an example's command: ``--entity your-entity``, ``your_script.py``."""


@script_rule(ERROR, "NC643", "shell text that cannot be read, or is not filled in", Trait.SPELLING)
def check_syntax(facts: ScriptFacts) -> Iterator[Finding]:
    for given in facts.header.options.values():  # these lack overridden ones
        if given.source == SCRIPT:
            yield from _unfilled_option(given)
    yield from _unfilled_words(facts)
    yield from _unfilled_for_bash(facts)
    problem = facts.unreadable
    if problem is not None and not facts.shell.placeholders:
        effect = "bash says" if problem.warning else "bash cannot read this and stops here"
        hint = "look for an open quote, bracket, block, or here-document at or before this line"
        severity = WARNING if problem.warning else ""
        yield Finding(f"{effect}: {problem.message}", hint, place=problem.place, severity=severity)
    if facts.left_out:
        message = "this script is very long, or very hard to read: neuronctl checks it only up to "
        hint, place = "put lines that repeat a command into a loop", SourceSpan(facts.left_out)
        yield Finding(f"{message}this line", hint, place=place, severity=WARNING)


def _unfilled_option(given: GivenOption) -> Iterator[Finding]:
    """Yield a directive whose value is an example's."""
    name, value, severity = given.name, given.value or "", WARNING
    is_unfilled = bool(re.fullmatch(UNFILLED, value))
    if name in ("partition", "account", "qos", "nodelist", "dependency"):
        severity = ERROR
        is_example = re.fullmatch(_NOBODYS, value) or re.search(_OPEN_PART, value)
        is_unfilled = is_unfilled or not value or bool(is_example)
    elif name in ("output", "error", "chdir"):
        severity = ERROR
        is_example = re.search("<[A-Za-z][^<>]*>", value) or re.search(_PATH_TO, value)
        is_unfilled = is_unfilled or bool(is_example)
    if is_unfilled:
        message = f"nobody has filled in --{name}={value}"
        hint = "write the value in its place, or remove the option"
        yield Finding(message, hint, place=given.value_place, severity=severity)


_SHOWN_ONLY = ("echo", "printf", "mktemp", "sed", "grep", "awk", "perl")


def _unfilled_words(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first path, the first word, and the first environment that are an example's."""
    commands = [each for each in facts.shell.uncaptured if each.name not in _SHOWN_ONLY]
    words = [*chain.from_iterable(command.words for command in commands)]
    words += [each.word for each in facts.shell.assignments if "mktemp" not in each.word.raw]
    words.sort(key=lambda word: (word.place.line, word.place.column))
    activations = facts.shell.calls("conda", "mamba", "micromamba", "source")
    environments = [each.words[-1] for each in activations if each.arguments[:1] == ("activate",)]
    paths = (word for word in words if re.search(_PATH_TO, word.raw[:1000]))
    texts = ((word, word.value or word.raw) for word in words)
    values = (word for word, text in texts if re.fullmatch(_VALUE_OF_YOURS, text[:100]))
    names = (word for word in environments if re.fullmatch(_NOBODYS, word.raw))
    for word in (*islice(paths, 1), *islice(values, 1), *islice(names, 1)):
        message = f"nobody has filled in {word.text[:80]}, which is an example's"
        yield Finding(message, "write your own in its place", place=word.place, severity=WARNING)


def _unfilled_for_bash(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first ``<NAME>``, which redirects, and ``{Some Name}``, which is two words."""
    if not facts.header.for_bash:
        return
    for place in facts.shell.placeholders[:1]:
        line = facts.lines[place.line - 1]
        name = line[place.column - 1 : place.end - 1]
        file = name[1:-1]
        message = f"nobody has filled in {name}: bash reads from a file '{file}' here, or stops"
        # Two redirections may be intended: sort <names> sorted
        are_files = re.fullmatch("[a-z]+", file) and re.match(" *[a-z.]", line[place.end - 1 :])
        hint, severity = f"write the value in the place of {name}", WARNING if are_files else ERROR
        yield Finding(message, hint, place=place, severity=severity)
    for command in facts.shell.commands:
        text = " ".join(word.raw for word in command.words[1:])
        # A word {Name}, or words {Some Name}
        example = re.search(r"(?<!\S)\{[A-Za-z][\w.-]*( [\w.-]+)*\}(?!\S)", text)
        if example is not None:
            message = f"nobody has filled in {example[0]}: {command.name} gets it as it stands"
            hint, place = f"write the value in the place of {example[0]}", command.words[1].place
            yield Finding(message, hint, place=place, severity=WARNING)
            return


@script_rule(WARNING, "NC640", "secret in the script", Trait.UNREACHED | Trait.SECRET)
def check_secrets(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first secret of each line that is no comment."""
    numbers: Set[int] = set()
    for first, last in find_secrets(facts.text):
        number = facts.text.count("\n", 0, first) + 1
        line = facts.lines[number - 1]
        is_comment = line.lstrip().startswith("#") and not line.startswith("#SBATCH")
        if is_comment or number in numbers:
            continue
        numbers.add(number)
        column = first - facts.text.rfind("\n", 0, first)
        place = SourceSpan(number, column, min(column + last - first, len(line) + 1))
        message = "this looks like a secret: anybody who reads the file, the job's record or "
        hint = "export it in the shell from which you submit, or read it from a file that is "
        yield Finding(f"{message}'scontrol show job' has it", f"{hint}yours alone", place=place)


_GUESSED = r"""['"]*(\$\{?(USER|LOGNAME|SLURM_JOB_ID)\}?|\$\(whoami\)|)['"]*(?!\S)"""
_ALL_ADDRESSES = r"--host[= ]['\"]?(0\.0\.0\.0|::)['\"]?(?!\S)"
_SERVERS = (
    (
        *("jupyter", "jupyter"),
        r"--(Notebook|Server|IdentityProvider|Password\w*|Lab)\w*\.(token|password)=" + _GUESSED,
        *("(?!)", "it is empty, or easily guessed"),
    ),
    ("code", "code-server", r"--auth[= ]none(?!\S)", "(?!)", "it asks for no password"),
    ("tensorboard", "tensorboard", rf"--bind_all|{_ALL_ADDRESSES}", "(?!)", "it asks for no token"),
    ("vllm", "vllm", _ALL_ADDRESSES, "--api-key|VLLM_API_KEY", "it asks for no key"),
)
"""A recipe of ``serve``, a word of the command that starts such a server, the option that opens it,
the text that closes it nevertheless, and why it is open."""


@script_rule(WARNING, "NC657", "server open to everybody")
def check_open_server(facts: ScriptFacts) -> Iterator[Finding]:
    for launch in facts.every_launch:
        words = launch.command.words
        ends = list(accumulate(len(word.raw) + 1 for word in words))  # of the words in the line
        line = " ".join(word.raw for word in words)
        for recipe, program, opens, closes, reason in _SERVERS:
            opening = re.search(rf"(?<!\S)(?:{opens})", line) if program in line else None
            if opening is not None and not re.search(closes, facts.text):
                message = f"{opening[0]} lets everybody in who can reach this node: {reason}"
                hint = f"'neuronctl serve {recipe}' runs it with a random token, and says how to "
                place = words[bisect_right(ends, opening.start())].place
                yield Finding(message, f"{hint}reach it", place=place)
