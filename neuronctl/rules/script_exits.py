"""NC646 and NC659: how a script ends, and what its exit code says."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Dict, Iterator, Optional, Sequence, Tuple

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_arrays import OF_THE_NODE
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_commands import (
    ONLY_PREPARES,
    SAYS,
    SHORT,
    TELLS,
    wraps_up,
)
from neuronctl.rules.script_programs import is_own_program, is_trifle
from neuronctl.scripts.launches import PROGRAM, PYTHON, SHELL, Launch, launches
from neuronctl.scripts.model import SourceSpan
from neuronctl.scripts.shell_text import Command, read_shell

_NEEDS_THEM = frozenset(
    "cat chmod cut gunzip gzip head ln rsync sort tail tar wc wget zip".split()  # noqa: SIM905
)
"""Commands on files that fail, too, without the results."""
_MAY_FAIL = ("[", "[[", "cp", "curl", "mail", "mv", "rmdir", "sendmail", "test")
_FILTERS = frozenset("tee ts grep sed awk cat gzip pigz xz zstd sort tail".split())  # noqa: SIM905


@script_rule(WARNING, "NC646", "exit code that is hidden")
def hidden_exit_code(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.unmerged or (facts.unreadable is not None and not facts.unreadable.warning):
        return  # NC610 has its say, or the job fails there
    # In a loop without an end, and behind it, no exit code is the job's.
    endless = (loop for loop in facts.shell.loops if not (loop.ends or loop.background))
    end = min((loop.place.line for loop in endless), default=len(facts.lines) + 1)
    yield from (one for one in _hidden(facts) if one.place is None or one.place.line < end)


def _hidden(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _thrown_away(facts)
    yield from _only_says(facts)
    yield from _ends_in_a_test(facts)
    yield from _of_the_last_alone(facts)
    yield from _within_the_text(facts)
    yield from _forgiven(facts)
    yield from _cancels_itself(facts)
    yield from _ends_well(facts)
    yield from _cut_off(facts)
    yield from _code_of_echo(facts)
    yield from _of_matlab(facts)
    if re.search(r"pipefail|PIPESTATUS", facts.text):
        return
    strict = facts.strict
    works = {id(run.command): run.word.raw for run in reversed(facts.launches) if run.works}
    commands = facts.shell.uncaptured
    last_step = max(
        (at for at, each in enumerate(commands) if not (wraps_up(each) or each.piped)),
        default=-1,
    )
    for at, (command, beside) in enumerate(zip(commands, commands[1:])):
        shows = beside.piped and beside.name in _FILTERS
        if not shows or id(command) not in works or command.background:
            continue
        needs = len(commands) > at + 2 and _needs_results(commands[-1])
        tested = _is_tested(facts, command, beside)
        if strict or tested or (last_step < at + 2 and not needs):
            ends = "and the script goes on" if strict or tested else "and the job ends as COMPLETED"
            last = "-o" if strict or tested or at + 2 == len(commands) else "-eo"
            yield Violation(
                f"the exit code here is that of {beside.name}: {works[id(command)]} may fail, "
                f"{ends}",
                f"write set {last} pipefail before it",
                place=beside.place,
            )
            return
    yield from _cut_short(facts)


_TESTED = re.compile(
    r"[ \t]*(\|\|[ \t]*(exit|return|\{|\(|\w+=)|([ \t]*\n|;)[ \t]*(if[ \t]+)?"
    r"((\[\[?|\(\()[ \t]*\"?\$\?|\w+=\$\?))"
)


def _is_tested(facts: ScriptFacts, command: Command, beside: Command) -> bool:
    """Whether the script looks at the exit code of a pipe's tee, as if it were the program's."""
    if beside.name not in ("tee", "ts"):
        return False  # it may look for what grep has found
    words = [word.place for word in (*beside.words, *beside.writes)]
    end = max(words, key=lambda place: (place.line, place.end))
    head = facts.lines[command.place.line - 1][: command.place.column - 1]
    text = "\n".join(facts.lines[end.line - 1 : end.line + 2])
    asked = re.search(r"\bif[ \t]+(![ \t]+)?$", head)
    ends = re.compile(r"[^|\n]*(;|\n)") if asked else _TESTED
    return ends.match(text, end.end - 1) is not None


_IN_PIPES = frozenset(
    "bcftools bowtie bowtie2 bwa bwa-mem2 hisat2 minimap2 samtools STAR vcftools".split()  # noqa: SIM905
)


def _cut_short(facts: ScriptFacts) -> Iterator[Violation]:
    """A file that looks whole, where the program before a pipe has failed."""
    commands = facts.shell.uncaptured
    for command, beside in zip(commands, commands[1:]):
        tools = command.name in _IN_PIPES and beside.name in (
            "samtools",
            "bcftools",
            "gzip",
            "bgzip",
        )
        if beside.piped and tools and not command.background:
            yield Violation(
                f"where {command.name} fails, {beside.name} writes what has come so far, and "
                "nothing says so",
                "write set -o pipefail above",
                place=beside.place,
                severity=NOTE,
            )
            return


def _thrown_away(facts: ScriptFacts) -> Iterator[Violation]:
    """The program's failure, of which ``|| true`` or ``exit 0`` makes a success."""
    commands = facts.shell.uncaptured
    sure = {id(run.command) for run in facts.launches if run.works}
    works = {id(command): name for command, name in _works(facts) if not wraps_up(command)}
    at = max(
        (at for at, command in enumerate(commands) if id(command) in works), default=len(commands)
    )
    rest = commands[at + 1 :]
    if not rest or commands[at].background:
        return
    command, beside, last = commands[at], rest[0], rest[-1]
    before = facts.lines[beside.place.line - 1][: beside.place.column - 1].rstrip()
    forgives = beside.name in ("true", ":") and before.endswith("||")
    says = all(map(wraps_up, rest[forgives:]))
    code = last.arguments[0] if last.name == "exit" and len(last.words) == 2 else None
    strict = facts.shell.errexit
    exits = code is not None and code.isdigit() and last.sure and not (strict and code == "0")
    text = "".join(facts.lines[command.place.line - 1 : last.place.line])
    looks = re.search(r"\|\||&&|\$\?", text) is not None
    if says and (forgives or (exits and not looks)):
        hides = f"|| {beside.name}" if forgives else f"exit {code}"
        name = works[id(command)]
        ends = f"COMPLETED, even if {name} has failed"
        if not forgives and code != "0":
            ends = f"FAILED, however {name} has ended"
        yield Violation(
            f"the job ends as {ends}: {hides} hides its exit code",
            "remove it: the script ends with the exit code of its last command",
            place=beside.place if forgives else last.place,
            severity=None if id(command) in sure else NOTE,
        )


_LOOKS_BACK = re.compile(
    r"\|\||&&|\$\?|PIPESTATUS|\btrap\b|\bwait -n|^[ \t]*(if|while|until|!) ", re.M
)


def _puts_away(command: Command) -> bool:
    """Whether it moves files that may well be there, whatever has failed; not a directory."""
    words = command.words[1:]
    whole = any(re.match("-[a-zA-Z]*[rRa]", word.raw) for word in words)
    node = any(OF_THE_NODE.match(word.text.strip("\"'")) for word in words)
    return not node and (command.name == "mv" or (command.name == "cp" and not whole))


_MAKES_FILES = frozenset("awk cat cut join paste sed sort zcat".split())  # noqa: SIM905
_FETCHES = ("rsync", "tar", "unzip", "wget")
_RUNS_TEXT = re.compile(r"(?i).*(cmd|command|run|exe|call|task|job|line|prog|script|launch)")


def _works(facts: ScriptFacts) -> Iterator[Tuple[Command, str]]:
    """The commands that do the job's work, each with its name."""
    for run in facts.launches:
        file = run.kind == SHELL and not run.has("c") and len(run.texts) > 1
        other = _is_other(run) and not run.command.captured and run.name not in facts.functions
        if run.works or file or other:
            yield run.command, run.word.basename or run.word.raw
    own = (run for run in facts.launches if not run.command.captured)
    lines = {run.place.line for run in own if run.works or _is_other(run)}
    lines.update(each.place.line for each in facts.shell.calls("curl", *_FETCHES))
    in_order = sorted(lines)
    for command in facts.shell.uncaptured:
        first, last = facts.shell.functions.get(command.name, (0, 0))
        if command.words and not command.name and command.words[0].raw.startswith(("$", '"$')):
            yield command, command.words[0].raw
        elif command.name == "eval" and len(command.words) > 1:
            named = command.words[1].names if len(command.words) == 2 else ()
            if command.place.line in lines or any(map(_RUNS_TEXT.match, named)):
                yield command, f"eval {command.words[1].raw}"
        elif bisect_left(in_order, first) < bisect_right(in_order, last):  # a function that works
            yield command, command.name


def _is_other(run: Launch) -> bool:
    """Whether it is a program that may be the job's."""
    return run.kind == PROGRAM and run.name not in ONLY_PREPARES | SHORT


def _behind(commands: Sequence[Command], at: int) -> Sequence[Command]:
    """What runs behind a command, whatever has become of it."""
    rest = commands[at + 1 :]
    while rest and rest[0].joined == "&&":
        rest = rest[1:]
    if rest and rest[-1].name == "exit" and not rest[-1].arguments:
        rest = rest[:-1]  # with the code of the one before
    return rest


def _needs_results(command: Command) -> bool:
    """Whether a command fails, too, where the program has failed."""
    copies = command.name in ("cp", "mv") and not _puts_away(command)
    return copies or command.name in _NEEDS_THEM


def _adds_to_it(facts: ScriptFacts, command: Command, last: Command) -> bool:
    """Whether the last command adds to the file of the one before, and so fails where it does."""
    behind = facts.lines[last.place.line - 1][last.place.end - 1 :]
    return any(re.search(rf">>?\s*{re.escape(word.raw)}\s*$", behind) for word in command.writes)


def _only_says(facts: ScriptFacts) -> Iterator[Violation]:
    """A failure behind which the script only says something, or waits for all at once."""
    if not facts.header.given:
        return
    commands = [each for each in facts.shell.uncaptured if each.words]
    works = {id(command): name for command, name in _works(facts)}
    tells = {name for name in facts.functions if _only_tells(facts, name)}
    asks = {id(run.command) for run in facts.launches if run.is_srun and _only_asks(run)}

    def harmless(command: Command) -> bool:
        tell = wraps_up(command) or command.name in tells or id(command) in asks
        return tell or command.name == "sbatch"

    at = max((at for at, each in enumerate(commands) if not harmless(each)), default=-1)
    if not works:
        at, works = _files(facts, commands)
    name = works.get(id(commands[at]), "") if at >= 0 else ""
    rest = _behind(commands, at)
    if not name or not rest or rest[0].piped:
        return
    command = commands[at]
    head = facts.lines[command.place.line - 1][: command.place.column - 1]
    behind = commands[at + 1]
    if re.search(r"\b(while|until)\b[^;]*$", head) or (behind.joined and behind.name == "break"):
        return  # until it succeeds
    last = rest[-1]
    if not command.background and (_needs_results(last) or _adds_to_it(facts, command, last)):
        return
    how = f"the exit code is that of the last command, {last.name}"
    perhaps = last.name in _MAY_FAIL
    first, end = facts.shell.functions.get(command.name, (1, 0))
    heeds = any(
        each.name in ("exit", "return", "false") and each.arguments
        for number, each in enumerate(commands)
        if number > at or first <= each.place.line <= end
    )
    text = "\n".join(facts.lines[command.place.line - 1 : last.place.line])
    looks = r"\[+ [^\n]*\]\s*$" if last.name in ("[", "[[", "test") else r"PIPESTATUS|\bwait -n"
    if heeds or re.search(looks, text) or _traps_its_end(facts):
        return
    if command.background:
        if facts.shell.traps(""):
            return  # it may know how it ends
        waits = [each for each in rest if each.name == "wait" and (each.sure or each.arguments)]
        if not waits or re.search(r"\|\||&&|\$\?", text):
            return
        if not waits[0].arguments:
            yield Violation(
                f"this wait reports success, even if {name} has failed: the job ends as COMPLETED",
                "keep the numbers, PIDS+=($!), and wait for each: for p in ${PIDS[@]}; do wait $p "
                "|| code=1; done; exit $code",
                place=waits[0].place,
                severity=NOTE,
            )
            return
        if last.name == "wait":
            return
    if not facts.strict:
        yield Violation(
            f"the job {'may end' if perhaps else 'ends'} as COMPLETED, even if {name} has failed: "
            f"{how}",
            "write set -e above; or code=$? behind it, and exit $code at the end",
            place=last.place,
            severity=NOTE,
        )


def _only_asks(run: Launch) -> bool:
    """Whether an srun starts what only says something, or ends others."""
    below = [*run.below()]
    return bool(below) and below[-1].kind == PROGRAM and below[-1].name in TELLS


def _files(facts: ScriptFacts, commands: Sequence[Command]) -> Tuple[int, Dict[int, str]]:
    """The last command that makes a file, or gets what a program prints, where nothing else works.

    The index of it, or of the command before it.
    """
    found = {
        at: each.name
        for at, each in enumerate(commands)
        if each.name in _FETCHES or (each.writes and each.name in _MAKES_FILES)
    }
    asked = [
        run
        for run in facts.launches
        if run.command.captured
        and re.match(r"\s*\w+=", facts.lines[run.place.line - 1])
        and (_is_other(run) or (run.kind == PYTHON and run.has("script")))
    ]
    for run in asked[-1:] if not found else ():
        at = sum(each.place.line <= run.place.line for each in commands) - 1
        found = {at: run.name} if at >= 0 else {}
    at = max(found, default=-1)
    return at, {id(commands[at]): name for at, name in found.items()}


def _only_tells(facts: ScriptFacts, function: str) -> bool:
    """Whether a function of the script's ends nothing and starts nothing."""
    first, last = facts.shell.functions.get(function, (1, 0))
    inner = [each for each in facts.shell.commands if first <= each.place.line <= last]
    return bool(inner) and all(wraps_up(each) and each.name != "exit" for each in inner)


def _traps_its_end(facts: ScriptFacts) -> bool:
    """Whether a trap may change the exit code."""
    for trap in facts.shell.calls("trap"):
        signals = {(word or "?").upper() for word in trap.arguments[1:]}
        if "ERR" in signals or "?" in signals:
            return True
        if signals & {"EXIT", "0"}:
            action = trap.arguments[0] or "exit"
            first, last = facts.shell.functions.get(action.split(" ")[0], (1, 0))
            if "exit" in "\n".join([action, *facts.lines[first - 1 : last]]):
                return True
    return False


def _ends_in_a_test(facts: ScriptFacts) -> Iterator[Violation]:
    """``[ -f x ] && rm x`` as the last line, whose exit code is that of the test."""
    commands = facts.shell.uncaptured
    last = commands[-1] if commands else None
    if last is None or last.joined != "[&&" or last.looped or not facts.header.given:
        return
    line = last.place.line
    rest = "\n".join(facts.lines[line:]).split("\n<", 1)[0]
    if re.match(r"\[", facts.lines[line - 1]) and not re.search(r"^\s*[^#\s]", rest, re.M):
        yield Violation(
            "the job ends as FAILED where the test fails: its exit code is that of this line, "
            "whatever became of the program",
            f"write if [ … ]; then {last.name} …; fi",
            place=last.place,
            severity=NOTE,
        )


def _what(run: Launch) -> Tuple[str, ...]:
    """What a launch runs in the end: the launcher, and the program."""
    last = [run, *run.below()][-1]
    named = last.options.get("script") or last.options.get("m") or last.word.raw
    return run.name, named


_LOOKS_IN_LOOP = re.compile(_LOOKS_BACK.pattern.replace("if|", ""), re.M)
_ONE_TURN = re.compile(r"\s*for \w+ in [\w./-]+\s*($|;)")


def _of_the_last_alone(facts: ScriptFacts) -> Iterator[Violation]:
    """Runs of a program, of which the last one alone says how the job ends."""
    commands = [each for each in facts.shell.commands if not each.captured and each.words]
    runs = [
        run
        for run in facts.launches
        if (run.works or (run.kind == SHELL and not run.has("c") and len(run.texts) > 1))
        and not (run.command.background or run.command.captured)
    ]
    if not runs or not facts.header.given or facts.strict or facts.unmerged:
        return
    if facts.shell.traps(""):
        return
    last = runs[-1]
    ends = ("exit", "break", "continue")  # with the code of the one before, or with 0
    while len(commands) > 1 and commands[-1].name in ends and not commands[-1].arguments:
        commands = commands[:-1]
    if commands[-1] is not last.command or not (last.command.sure or last.command.in_loop):
        return
    line = last.command.place.line
    loop = facts.innermost_loop.get(line)
    if loop is not None and _ONE_TURN.match(facts.lines[loop[0] - 1]):
        return
    if loop is not None and last.command.in_loop:
        own = facts.lines[line - 1].lstrip()
        if own.startswith(("if ", "elif ")) or _LOOKS_IN_LOOP.search(
            "\n".join(facts.lines[loop[0] : loop[1]])
        ):
            return
        behind = [each for each in facts.shell.assignments if line < each.place.line <= loop[1]]
        how = "the exit code is that of the last turn"
        if behind and "$(" not in behind[-1].word.raw:
            how = f"the exit code is that of {behind[-1].name}=…, which never fails"
        yield Violation(
            f"the job may end as COMPLETED, even if {last.name or last.word.raw} has failed: {how}",
            "write || code=1 behind it, and exit $code at the end",
            place=last.place,
            severity=NOTE,
        )
        return
    same = [run for run in runs if run.command.sure and _what(run) == _what(last)]
    text = "\n".join(facts.lines[same[0].command.place.line - 1 : line]) if same else ""
    if len(same) > 1 and not _LOOKS_BACK.search(text):
        yield Violation(
            f"the job ends as COMPLETED, even if this {same[0].name or same[0].word.raw} has "
            f"failed: the exit code is that of line {line}",
            "write set -e above; or || code=1 behind each, and exit $code at the end",
            place=same[0].place,
            severity=NOTE,
        )
    elif last.command.sure:
        yield from _of_another(facts, last)


_LOOKS_AT_RESULTS = re.compile(
    r"(?i)(^|[_-])(eval|test|report|metric|plot|summar|stat|post|log|notify|collect|score|visual"
    r"|generate_log|result)\w*[\w-]*\.(py|sh|R|jl)$"
)


def _of_another(facts: ScriptFacts, last: Launch) -> Iterator[Violation]:
    """A program before the last one, which runs whatever has become of it."""
    line = last.command.place.line
    works = [
        run
        for run in facts.launches
        if run.place.line < line and run.command.sure and _is_work(facts, run)
    ]
    first: Optional[Launch] = works[-1] if works else None
    # Without what a preparation makes, the last one fails, too.
    named = [word.basename for word in last.command.words[:4]]
    if first is None or first.command.background or not any(map(_LOOKS_AT_RESULTS.search, named)):
        return
    if _LOOKS_BACK.search("\n".join(facts.lines[first.command.place.line - 1 : line])):
        return
    yield Violation(
        f"line {line} runs even if this {first.name or first.word.raw} has failed, and the job's "
        "exit code is that of line " + str(line),
        "write set -e above",
        place=first.place,
        severity=NOTE,
    )


def _is_work(facts: ScriptFacts, run: Launch) -> bool:
    """Whether it is a program of the job's own, alone or started by a launcher."""
    inner = [run, *run.below()][-1]
    return is_own_program(inner) or (
        inner.kind == PROGRAM
        and (run.is_launcher or inner.word.raw.startswith(("./", "/", "$")))
        and "/dev/null" not in (word.raw for word in inner.command.writes)
        and not (inner.command.captured or is_trifle(inner) or wraps_up(inner.command))
        and inner.name not in ONLY_PREPARES | SHORT | facts.functions
    )


def _within_the_text(facts: ScriptFacts) -> Iterator[Violation]:
    """``bash -c "a; b"``: the failure of a, of which b makes a success."""
    for run in facts.every_launch:
        if run.kind != SHELL or not run.works or not run.has("c") or run.place.within:
            continue
        flag = next((at for at, text in enumerate(run.texts) if re.fullmatch("-[a-z]*c", text)), 0)
        text = "".join(run.texts[flag + 1 : flag + 2])
        shell = read_shell(text) if flag else None
        if shell is None:
            continue
        commands = [each for each in shell.uncaptured if each.words]
        works = {id(inner.command) for inner in launches(commands) if inner.works}
        before, last = commands[-2:] if len(commands) > 1 else (None, None)
        shown = last and last.piped and last.name in _FILTERS and id(before) in works
        if last and before and shown and not re.search(r"pipefail|PIPESTATUS", facts.text):
            yield Violation(
                f"the exit code of this text is that of {last.name}, even if {before.name} has "
                "failed",
                "write set -o pipefail at its beginning",
                place=run.place,
                severity=NOTE,
            )
            return
        if _LOOKS_BACK.search(text) or shell.errexit or "-e" in run.texts[:flag]:
            continue
        at = max((at for at, each in enumerate(commands) if id(each) in works), default=-1)
        rest = commands[at + 1 :]
        plain = at >= 0 and rest and not rest[0].piped and not commands[at].background
        if plain and all(map(wraps_up, rest)):
            yield Violation(
                f"the exit code of this text is that of its last command, {rest[-1].name}, even if "
                f"{commands[at].name} has failed",
                "write && between them, or set -e at its beginning",
                place=run.place,
                severity=NOTE,
            )
            return


def _forgiven(facts: ScriptFacts) -> Iterator[Violation]:
    """The program alone between ``set +e`` and ``set -e``, and nothing that looks at its end."""
    commands = facts.shell.uncaptured
    works = {
        id(run.command)
        for run in facts.launches
        if run.works or re.search(r"\.(sh|bash)$", run.word.raw)
    }
    for before, command, after in zip(commands, commands[1:], commands[2:]):
        off, on = (
            each.name == "set" and [word.raw for word in each.words[1:]] for each in (before, after)
        )
        if off != ["+e"] or not on or not re.match("-[a-z]*e", on[0]) or id(command) not in works:
            continue
        text = "\n".join(facts.lines[command.place.line - 1 :])
        later = any(id(each) in works for each in commands[commands.index(after) :])
        if not later and not re.search(r"\$\?|PIPESTATUS|\|\||\bif\b|\bexit\b", text):
            yield Violation(
                f"the job ends as COMPLETED, even if {command.words[0].raw} has failed: set +e "
                "hides its exit code",
                "remove set +e; or keep the code: code=$?, and exit $code at the end",
                place=command.place,
            )
            return


_THEN = re.compile(r"(\s*\d?>>?\s*[^\s;&|]+)?[ \t]*((#[^\n]*)?[\n;]\s*)+")
_TESTS_IT = re.compile(r"[ \t]*((?:if[ \t]+)?(?:\[\[?|\(\()[^#;\n]{0,99}?\$\?)")


_BEHIND_ANOTHER = re.compile(r"[^'`(]*(?:\$\(|`)[ \t]*([\w./-]+)[^()`]*[)`].*\$\?", re.DOTALL)


def _code_of_echo(facts: ScriptFacts) -> Iterator[Violation]:
    """``$?`` behind an echo, whose exit code it is, or behind ``$(…)`` of the same word."""
    for command in facts.shell.commands if "$?" in facts.text else ():
        for word in command.words[1:]:
            inner = _BEHIND_ANOTHER.match(word.raw) if "$?" in word.raw else None
            if inner is not None:
                yield Violation(
                    f"$? is the exit code of {inner[1]} before it, and not of the program",
                    f"keep it first: code=$? before the {command.name}",
                    place=word.place,
                )
                return
    offsets = [0, *accumulate(len(line) + 1 for line in facts.lines)]
    asks = [
        each.place
        for each in facts.shell.commands
        if any("$?" in word.raw and not word.raw.startswith("'") for word in each.words)
    ]
    asks += [each.place for each in facts.shell.assignments if "$?" in each.word.raw]
    tests = ((number, _TESTS_IT.match(line)) for number, line in enumerate(facts.lines, 1))
    asks += [SourceSpan(at, test.start(1) + 1, test.end() + 1) for at, test in tests if test]
    asked = sorted((offsets[place.line - 1] + place.column - 1, place) for place in asks)
    begins = [begin for begin, _ in asked]
    for command in facts.shell.calls("echo", "printf") if asked else ():
        end = max(offsets[word.place.line - 1] + word.place.end - 1 for word in command.words)
        at = bisect_left(begins, end)
        begin, place = asked[at] if at < len(asked) else (0, None)
        if place and begin - end < 300 and _THEN.fullmatch(facts.text, end, begin):
            yield Violation(
                f"$? is the exit code of the {command.name} before it, and not of the program",
                f"keep it first: code=$? before the {command.name}",
                place=place,
            )
            return


def _of_matlab(facts: ScriptFacts) -> Iterator[Violation]:
    """``matlab -r``, which goes on at its prompt where the script has failed."""
    for run in facts.every_launch if facts.header.given else ():
        words = run.texts[1:]
        plain = run.name == "matlab" and "-r" in words and not run.command.captured
        if plain and not re.search(r"\b(catch|exit\(\d|quit\([^)]*\d)", " ".join(words)):
            yield Violation(
                "matlab -r reports success, even if its script has failed",
                "write matlab -batch, which ends with 1 then",
                place=run.place,
                severity=NOTE,
            )
            return


def _cut_off(facts: ScriptFacts) -> Iterator[Violation]:
    """A program that ``head`` ends."""
    works = {id(run.command): run.word.raw for run in reversed(facts.launches) if run.works}
    commands = facts.shell.uncaptured
    for command, beside in zip(commands, commands[1:]):
        if beside.piped and beside.name == "head" and id(command) in works:
            yield Violation(
                f"head ends after its lines, and {works[id(command)]} with it, at the next line "
                "that it writes",
                "write | tail, which reads all, or > FILE",
                place=beside.place,
            )
            return


def _cancels_itself(facts: ScriptFacts) -> Iterator[Violation]:
    """A job that ends by scancel, which nothing can depend on."""
    commands = [
        command
        for command in facts.shell.commands
        if not command.captured and command.name not in SAYS
    ]
    last = commands[-1] if commands else None
    if last is None or last.name != "scancel" or not last.sure or len(last.words) != 2:
        return
    if last.words[1].names in (("SLURM_JOB_ID",), ("SLURM_JOBID",)) and facts.header.given:
        yield Violation(
            "the job ends as CANCELLED, however its program has ended: what depends on it never "
            "starts",
            "remove it: a job ends with its script",
            place=last.place,
        )


_COMPLAINS = re.compile(
    r"(?i)\b(error|fail(ed|s|ure)?|missing|cannot|can't|could not|couldn't|invalid|illegal|wrong"
    r"|(not|n't|no) (find|found|exist|such|set|specified|given|supported|recogni[sz]ed|a directory)"
    r"|unknown|unsupported|required?|need|expected|must|please|provide|specify|abort\w*)\b|\?$"
)
_GOES_ON = re.compile(r"(?i)already|skip|exists|nothing|finished|complete|done|array|task")
_ASKS_FOR = re.compile(r"(?i)\b(needs?|must|please|required?|provide|specify)\b")
_HAS_FAILED = re.compile(r"\bif\b[^;]*(\$#|\$\?[^;]*(-ne|-gt|!=))[^;]*;[\s;]*then[\s;]*$")
_LACKS = re.compile(
    r"\bif[ \t]+(?:!|\[\[?[ \t]+(?:!|-z)[ \t])(?!.*\b(?:fi|else|elif)\b)", re.DOTALL
)
"""The branch for what is missing."""
_LOOKS_AT = re.compile(r"\$(\?|#)|\$\{?[1-9]\b")


def _ends_well(facts: ScriptFacts) -> Iterator[Violation]:
    """An ``exit`` that reports success behind a message that says what is wrong."""
    works = any(run.works or run.inside or _is_other(run) for run in facts.launches)
    if not facts.header.given or not works:
        return
    commands = facts.shell.uncaptured
    for before, command in zip([None, *commands], commands):
        if command.name != "exit" or command.sure or command.arguments not in ((), ("0",)):
            continue
        at, bare = command.place.line, not command.arguments
        line = facts.lines[at - 1][: command.place.column - 1]
        above = "\n".join(facts.lines[max(0, at - 6) : at])
        said = ""
        if before and before.name in ("echo", "printf") and at - before.place.line < 3:
            said = " ".join(word.text for word in before.words)[:300]
        asks = re.search(r"(^|\s)(el)?if ", above) and _LOOKS_AT.search(above)
        complains = _ASKS_FOR.search(said) or (
            _COMPLAINS.search(said) and not _GOES_ON.search(said)
        )
        usage = asks and re.search(r"(?i)\busage\b", said) and "-h" not in above
        tests = _HAS_FAILED.search(";".join([*facts.lines[: at - 1][-2:], line])[-300:])
        lacks = bare and said and _LACKS.search(above) and not _GOES_ON.search(said)
        if complains or usage or lacks or (bare and tests):
            yield Violation(
                f"exit {'without a number' if bare else '0'} reports success: the job ends as "
                "COMPLETED, though it has done nothing",
                "write exit 1",
                place=command.place,
            )
            return
