"""NC645 to NC668, where no other module has them: lines that do not do what they seem to."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Iterator, Optional, Tuple

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.rules import script_bash
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_commands import only_asks, only_sets_up
from neuronctl.rules.script_gpus import ITS_GPUS
from neuronctl.scripts.edits import edited
from neuronctl.scripts.launches import SHELL
from neuronctl.scripts.model import Edit, SourceSpan
from neuronctl.scripts.shell_text import Command, read_shell

_OWN_PLACE = re.compile(r"\$(0|BASH_SOURCE)\b|\$\{(0|BASH_SOURCE(\[0\])?)[:}]")
_ITS_DIRECTORY = re.compile(r"\$\{(0|BASH_SOURCE(\[0\])?)%/")


@script_rule(WARNING, "NC645", "directory of Slurm's copy")
def own_directory(facts: ScriptFacts) -> Iterator[Violation]:
    # Whoever asks whether this is a job, or where the script came from, knows.
    if not facts.header.given or re.search(r"scontrol show job|Command=", facts.text):
        return
    if re.search(
        r"(\[|\btest) .{0,200}SLURM_SUBMIT_DIR.{0,200}\n?.{0,200}=.{0,9}SLURM_SUBMIT_DIR",
        facts.text,
    ):
        return  # where it is known, another directory takes its place
    found = [
        assigned.word.place
        for assigned in facts.shell.assignments
        if _ITS_DIRECTORY.search(assigned.word.raw)
        and "/" not in assigned.word.raw.partition("%/")[0]
    ]
    for command in facts.shell.commands:
        asks = command.name in ("dirname", "realpath", "readlink")
        for word in command.words[1:]:
            if _ITS_DIRECTORY.search(word.raw) or (asks and _OWN_PLACE.search(word.raw)):
                found.append(command.place)
    if not found:
        return
    starts = (re.match(r"[ \t]*(if|fi)\b", line) for line in facts.lines)
    open_ones = [*accumulate(0 if word is None else 1 - 2 * (word[1] == "fi") for word in starts)]
    for place in sorted(found, key=lambda place: (place.line, place.column)):
        if open_ones[place.line - 1] > 0 or "SLURM_" in facts.lines[place.line - 1]:
            continue
        yield Violation(
            "in a job, this is the directory of Slurm's copy of the script, which has none of the "
            "other files",
            'write "$SLURM_SUBMIT_DIR", the directory that you submit from, or an absolute path',
            place=place,
        )
        return


_SLOW = {
    "NCCL_IB_DISABLE": "InfiniBand between the nodes",
    "NCCL_P2P_DISABLE": "the direct way from GPU to GPU",
    "NCCL_SHM_DISABLE": "shared memory between the processes of a node",
}


@script_rule(WARNING, "NC648", "fast network switched off")
def slow_network(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None:
        return
    yield from _for_debugging(facts)
    of_steps = any(launch.is_srun and launch.has(*ITS_GPUS) for launch in facts.every_launch)
    if max(plan.gpus_per_node, of_steps) * plan.nodes < 2:
        return
    for variable in facts.shell.every_assignment:
        between = variable.name == "NCCL_IB_DISABLE"
        concerns = plan.nodes > 1 if between else plan.gpus_per_node > 1
        # Whoever says why knows.
        above = "\n".join(facts.lines[max(0, variable.place.line - 4) : variable.place.line])
        if re.search(r"(?i)#.*(infini\w*|\bib\b|ethernet|not? support|n't support)", above):
            continue
        if between and re.search(r"\bFI_(PROVIDER|EFA)|aws-ofi", facts.text):
            continue  # another network takes its place
        if variable.name in _SLOW and variable.word.value in ("1", "true") and concerns:
            where = counted(plan.nodes, "node") if between else counted(plan.gpus_per_node, "GPU")
            yield Violation(
                f"{variable.name}={variable.word.value} switches off {_SLOW[variable.name]}, "
                f"in a job of {where}",
                "remove the line, unless NCCL fails without it",
                place=variable.place,
                severity=None if between else NOTE,
            )


def _for_debugging(facts: ScriptFacts) -> Iterator[Violation]:
    """A variable that makes each kernel of a GPU wait for the one before it."""
    uses = facts.plan is not None and facts.plan.gpus_per_node
    for variable in facts.shell.every_assignment if uses else ():
        waits = variable.name in ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING")
        near = facts.lines[max(0, variable.place.line - 4) : variable.place.line]
        remarks = (text.partition("#")[2] for text in near)
        known = "debug" in "".join([*remarks, facts.header.value("job-name") or ""]).lower()
        if waits and variable.word.value == "1" and not known:
            yield Violation(
                f"{variable.name}=1 is for finding an error: the program waits for each kernel "
                "of the GPU, which is slower",
                "remove the line once the error is found",
                place=variable.place,
                severity=NOTE,
            )


_OF_ITS_OWN = frozenset(("wait", "done", "fi", "exit", "deactivate", "date", "echo", "cd", "sleep"))
_NEXT = frozenset(("python", "python3", "srun", "torchrun", "mpirun", "cp", "mv", "rm"))


def _joined(facts: ScriptFacts) -> Iterator[Violation]:
    """A command that a backslash makes part of the one before it."""
    for run in facts.launches if facts.header.for_bash else ():
        within = False
        for before, word in zip(run.command.words, run.command.words[1:]):
            name = word.value or ""
            first = before.place.line < word.place.line and not re.search(
                r"\S", facts.lines[word.place.line - 1][: word.place.column - 1]
            )
            if first and (name in _OF_ITS_OWN or (within and name in _NEXT)):
                yield Violation(
                    f"this is an argument of {run.word.raw}, and no command: line "
                    f"{word.place.line - 1} ends with a backslash",
                    "remove the backslash",
                    place=word.place,
                    severity=WARNING,
                )
                break
            within = within or name.endswith(".py")


_TEST = re.compile(
    r"(?:^|[;&|]|\b(?:if|elif|while|until)\b)\s*(?:!\s*)?(\[[^\s\[:\]]\S{0,200})(?=\s)"
)
_END_OF_TEST = re.compile(r"\]\s*(?:;|$|&|\|)")


def _grown_together(facts: ScriptFacts) -> Iterator[Violation]:
    """Words without the blank that bash needs between them."""
    for command in facts.shell.commands if facts.header.for_bash else ():
        for before, word in zip(command.words, command.words[1:]):
            first = word.place.column == 1 and word.place.line == before.place.line + 1
            line = facts.lines[before.place.line - 1]
            if first and word.raw.startswith("--") and re.search(r"[^\s\\]\\$", line):
                yield Violation(
                    f"no blank is before the backslash of line {before.place.line}: this belongs "
                    f"to {before.raw}",
                    "write a blank before the backslash",
                    place=word.place,
                    severity=WARNING,
                )
    for number, line in enumerate(facts.lines if facts.header.for_bash else (), 1):
        match = _TEST.search(line) if "[" in line else None
        ends = match is not None and _END_OF_TEST.search(line, match.end()) is not None
        if match is not None and ends and not line.lstrip().startswith("#"):
            yield Violation(
                f"there is no command {match[1]}: bash needs a blank behind [",
                "write [ and ] with blanks around them",
                place=SourceSpan(number, match.start(1) + 1, match.end(1) + 1),
                severity=WARNING,
            )


_ITEM = re.compile(r"(\s+)[A-Za-z]\w*=\S*(\s*\\)?")
_WITHOUT_A_GAP = "write the command and its options without a gap"


def _only_assigned(facts: ScriptFacts) -> Iterator[Violation]:
    """``key=value`` of a program's, which bash takes for variables of its own."""
    lines = facts.lines if facts.header.for_bash else ()
    for number, (above, before, line) in enumerate(zip(lines, lines[1:], lines[2:]), 3):
        items = [_ITEM.fullmatch(each) for each in (before, line)]
        if items[0] is None or items[1] is None or before.endswith("\\") or not items[1][2]:
            continue
        if items[0][1] == items[1][1] and above.rstrip().endswith("\\"):
            name = line.strip().partition("=")[0]
            yield Violation(
                f"bash takes {name}=… for a variable of its own: the line above does not end with "
                "a backslash",
                _WITHOUT_A_GAP,
                place=SourceSpan(number, len(items[1][1]) + 1, len(line) + 1),
            )
            return


_LIST_GOES_ON = re.compile(r"^\s*(?:export\s+)?(\w*PATH\w*)=(\"?)[^\s\"'#;]*:(\\?)$")


def _broken_list(facts: ScriptFacts) -> Iterator[Violation]:
    """A list of directories over two lines, which bash divides."""
    for number, line in enumerate(facts.lines[:-1] if facts.header.for_bash else (), 1):
        match = _LIST_GOES_ON.match(line) if line.endswith((":", ":\\")) else None
        if match is None or match[2]:
            continue
        after = facts.lines[number]
        if not re.match(r"\s+[/$~]" if match[3] else r"\s*[/$~][^\s=(]*$", after):
            continue
        yield Violation(
            f"this is no part of {match[1]}: bash ends a word at "
            + ("the blanks that begin the line" if match[3] else f"the end of line {number}"),
            f"write the whole of {match[1]} in one line",
            place=SourceSpan(number + 1, len(after) - len(after.lstrip()) + 1, len(after) + 1),
            severity=WARNING,
        )


def _with_blanks(facts: ScriptFacts) -> Iterator[Violation]:
    """An assignment that bash takes for a command: ``LR = 0.1``, ``$LR=0.1``."""
    if facts.unreadable is not None and not facts.unreadable.warning:
        return  # it may well be another language
    for command in facts.shell.commands if facts.header.for_bash else ():
        raws = [word.raw for word in command.words[:2]]
        if command.sure and (command.name == "exit" or (command.name, len(raws)) == ("exec", 2)):
            return
        for word in command.writes:
            if word.raw.startswith("=") and command.name in ("pip", "pip3", "conda", "mamba", "uv"):
                yield Violation(
                    f"bash writes what this says into a file '{word.raw}'",
                    "write the requirement in quotes: 'NAME>=1.0'",
                    place=word.place,
                    severity=WARNING,
                )
        blank = len(raws) > 1 and re.fullmatch("[A-Za-z_]\\w*", raws[0]) and raws[1] == "="
        apart = len(raws) > 1 and raws[1] == "="
        name = re.match(r"\$(\w+)" + ("$" if apart else "="), raws[0]) if raws else None
        number = command.assigned and raws and re.fullmatch(r"[\d.]+(e-?\d+)?", raws[0])
        of_csh = raws[:1] == ["set"] and re.match(r"([A-Za-z_]\w*)=", raws[-1])
        if of_csh:
            yield Violation(
                f"this sets no variable {of_csh[1]}, but the script's first argument",
                f"write export {raws[1]}",
                place=command.place,
                severity=WARNING,
            )
        if blank or name or number:
            without = ("blanks and $" if apart else "the $") if name else "blanks"
            which = name[1] if name else command.assigned[0].name if number else raws[0]
            yield Violation(
                f"this sets no variable: bash takes {raws[0]} for a command",
                f"write {which}=… without {without}",
                place=command.place,
                severity=WARNING,
            )
            return


@script_rule(ERROR, "NC649", "line that bash divides otherwise", "of_lines")
def lost_options(facts: ScriptFacts) -> Iterator[Violation]:
    """What follows a line whose backslash is missing, or is not the last character."""
    yield from _joined(facts)
    yield from _with_blanks(facts)
    yield from _grown_together(facts)
    yield from _broken_list(facts)
    yield from _only_assigned(facts)
    yield from script_bash.read_otherwise(facts)
    lost = [
        command
        for command in (facts.shell.commands if facts.header.for_bash else ())
        if command.words
        and command.place.line > 1
        and not facts.lines[command.place.line - 1][: command.place.column - 1].strip()
        and (
            re.match(r"--?[A-Za-z]|[+~]{0,2}[A-Za-z_]\w*[./][\w./]*=", command.words[0].raw)
            or re.search(r"\\[ \t]+$", facts.lines[command.place.line - 2])
        )
        # Where bash joins the two lines, it is the first word all the same.
        and not re.search(
            r"^\s*[^#\s].*(?<!\\)(?:\\\\)*\\$|^\s*\\$", facts.lines[command.place.line - 2]
        )
    ]
    mends = {}
    for command in lost:
        number, before = command.place.line - 1, facts.lines[command.place.line - 2]
        blanks = re.search(r"\\([ \t]+)$", before)
        if blanks is not None:
            mends[command.place.line] = Edit(
                SourceSpan(number, blanks.start(1) + 1, len(before) + 1), ""
            )
    # Behind a comment, say, the line goes on no more than before.
    after = read_shell(edited(facts.text, mends.values())).commands if mends else ()
    for command in after:
        mends.pop(command.place.line, None)
    told = False
    for assigned in facts.shell.assignments if facts.header.for_bash and not lost else ():
        number = assigned.place.line - 1
        # The grammar takes --run=1 alone on its line for a variable.
        before = facts.lines[number - 1].strip() if number else "#"
        if assigned.name.startswith("-") and not before.startswith("#") and before[-1:] != "\\":
            yield Violation(
                f"bash takes {assigned.name}=… for a command: the line above does not end with a "
                "backslash",
                _WITHOUT_A_GAP,
                place=assigned.place,
            )
            return
    for command in lost:
        number = command.place.line - 1
        edit = mends.get(command.place.line)
        if edit is None and (told or not re.match(r"-|[^\s/]+=", command.words[0].raw)):
            continue  # all of them follow from the first
        told = told or edit is None
        why = "the line above does not end with a backslash"
        if edit is not None:
            why = f"a blank follows the backslash of line {number}"
        elif facts.lines[number - 1].lstrip().startswith("#"):
            why = f"the comment of line {number} ends the command before it"
        yield Violation(
            f"bash takes {command.words[0].raw} for a command: {why}",
            "remove the blank" if edit else _WITHOUT_A_GAP,
            place=command.place,
            edits=(edit,) if edit else (),
        )


@script_rule(WARNING, "NC658", "interactive command in a batch script")
def interactive(facts: ScriptFacts) -> Iterator[Violation]:
    for command in facts.shell.calls("salloc") if facts.header.given else ():
        if command.sure and not command.captured:
            yield Violation(
                "salloc asks for a second allocation, and waits for it within this job",
                "write what the job needs as #SBATCH lines, and start the program with srun",
                place=command.place,
            )
    for command in facts.shell.commands:
        what = _asks_somebody(command)
        if what and not command.captured:
            yield Violation(
                f"{what[0]}: a batch script has no terminal, and nobody to answer",
                what[1],
                place=command.place,
            )
            break
    for run in facts.launches:
        shells = [each for each in run.inside if each.kind == SHELL and not each.has("c")]
        bare = any(len(shell.own_words) == 1 for shell in shells)
        if run.is_srun and run.has("pty") and bare and run.command.sure:
            yield Violation(
                "a batch script has no terminal: this shell ends at once",
                "call the program itself: srun python …",
                place=run.place,
            )


_SWITCHED_OFF_RUN = re.compile(
    r"#+ ?(?:time )?(?:srun|mpirun|mpiexec|torchrun|(?:\S*/)?python[\d.]*|bash|sh|\./\S+) +"
    r"[-\w./$\"]"
)


@script_rule(WARNING, "NC666", "script that starts nothing", "by_absence")
def starts_nothing(facts: ScriptFacts) -> Iterator[Violation]:
    commands = facts.shell.commands
    whole = facts.header.given and facts.header.for_bash and not facts.left_out
    if facts.plan is None or not whole or facts.unreadable or facts.shell.dead:
        return
    if not (commands or facts.shell.assignments or facts.shell.placeholders):
        yield Violation(
            "nothing here starts a program: the script has directives alone, and the job ends at "
            "once",
            "write the command that is to run",
            place=facts.top,
        )
    if not commands:
        return
    if facts.shell.placeholders:
        return  # what stands behind one is not read
    if not all(only_sets_up(each) or (each.captured and only_asks(each)) for each in commands):
        return
    loads = any(
        command.name in ("module", "ml", "conda", "mamba", "source", ".") for command in commands
    )
    off = [
        number
        for number in sorted(facts.shell.comments)
        if number > facts.header.given[-1].place.line
        and _SWITCHED_OFF_RUN.match(facts.lines[number - 1].lstrip())
    ]
    if loads or off:
        why = f": line {off[-1]} is a comment" if off else ""
        yield Violation(
            f"nothing here starts a program{why}; the job ends at once",
            "write the command that is to run"
            if not off
            else f"remove the # from line {off[-1]}, or write another command",
            place=commands[-1].place,
        )


def _asks_somebody(command: Command) -> Optional[Tuple[str, str]]:
    """(what it does, what to write) of a command that asks before it does anything."""
    words = [word.text for word in command.words[1:]]
    plain = [word for word in words if not word.startswith("-")]
    if command.name in ("conda", "mamba") and plain[:1] in (["install"], ["create"], ["update"]):
        if command.piped or "CONDA_ALWAYS_YES" in words or {"-y", "--yes", "-yq", "-qy"} & {*words}:
            return None
        return (
            f"'{command.name} {plain[0]}' asks whether to proceed",
            "add -y, or prepare it before",
        )
    flags = [word for word in words if re.fullmatch("-[a-z]+|--\\w+", word)]
    letters = {letter for word in flags if not word.startswith("--") for letter in word}
    runs = command.name in ("docker", "podman") and plain[:1] == ["run"]
    if runs and {"i", "t"} <= letters and "d" not in letters and "--detach" not in flags:
        return f"'{command.name} run -it' fails without a terminal", "remove -it"
    return None
