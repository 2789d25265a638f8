"""NC644 to NC668, where no other module has them: lines that do not do what they seem to."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from difflib import get_close_matches as close_matches
from itertools import accumulate, islice
from typing import Dict, FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple

from neuronctl.batchscript.edits import edited
from neuronctl.batchscript.launches import PROGRAM, PYTHON, SHELL, Launch
from neuronctl.batchscript.model import SCRIPT, Edit, SourceSpan
from neuronctl.batchscript.shell_text import INITIALIZES, Command, read_shell
from neuronctl.frozen import replace
from neuronctl.rule_codes import ERROR, NOTE, WARNING
from neuronctl.rules import script_bash
from neuronctl.rules.base import Violation
from neuronctl.rules.downloads import downloads, has_proxy, without_internet
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_launches import ITS_GPUS
from neuronctl.rules.script_results import SHORT
from neuronctl.rules.script_starts import ONLY_PREPARES
from neuronctl.sbatch_options import SBATCHS_OWN, SRUN
from neuronctl.words import counted, duration

_FOR_PROGRAMS = re.compile(
    r"(MASTER_(ADDR|PORT)|WORLD_SIZE|(LOCAL_|NODE_)?RANK|CUDA_VISIBLE_DEVICES"
    r"|(OMP|MKL|OPENBLAS|NCCL|GLOO|UCX)_[A-Z_]+|(HF|TORCH)_HOME|HF_(TOKEN|HUB_\w+|DATASETS_CACHE)"
    r"|WANDB_(API_KEY|MODE|DIR|PROJECT|ENTITY)|PYTORCH_\w*ALLOC\w*|TRANSFORMERS_(CACHE|OFFLINE)"
    r"|TORCH_(DISTRIBUTED_DEBUG|NCCL\w+)|TOKENIZERS_PARALLELISM)"
)
"""Variables that programs read, and that no shell exports by itself."""
_OF_LAUNCHERS = re.compile(r"MASTER_(ADDR|PORT)|WORLD_SIZE|\w*RANK")


@script_rule(WARNING, "NC644", "variable that is not exported")
def not_exported(facts: ScriptFacts) -> Iterator[Violation]:
    shell = facts.shell
    if any(map(_exports_all, shell.calls("set"))):
        return
    # A launcher sets what its processes meet by.
    own = any(
        start.launch.kind == PYTHON and not start.launched and not start.launch.has("c")
        for start in facts.starts
    )
    awaited = _awaited_names(facts.launches)
    last = max((run.command.place.line for run in facts.every_launch if run.works), default=0)
    used = _used_names(facts)
    needed = _needed_names(facts)
    for assignment in shell.assignments:
        name, line = assignment.name, assignment.place.line
        others = shell.assigned(name)
        if assignment is not others[0] or any(other.exported for other in others):
            continue
        awaits = awaited.get(name, 0) > line
        read = _FOR_PROGRAMS.fullmatch(name) and last > line
        if _OF_LAUNCHERS.fullmatch(name) and not own:
            read = None
        if name == "CUDA_VISIBLE_DEVICES" and facts.plan is not None and facts.plan.gpus_per_node:
            continue  # Slurm has exported it
        line_of_need, where = needed.get(name, (0, ""))
        if line_of_need > line and not _may_be_exported(facts, name):
            yield Violation(
                f"{name} is not exported: {where}, which needs it, does not get it",
                f"write export {name}=…",
                place=assignment.place,
            )
        elif awaits or (read and name not in used):
            who = "the shell that is to expand it does not get" if awaits else "no program gets"
            yield Violation(
                f"{name} is not exported: {who} it",
                f"write export {name}=…",
                place=assignment.place,
            )


def _exports_all(command: Command) -> bool:
    """Whether it is ``set -a``, after which all variables are exported."""
    flags = (word or "" for word in command.arguments)
    return any(re.fullmatch("-[a-z]*a[a-z]*|allexport", flag) for flag in flags)


def _needed_names(facts: ScriptFacts) -> Dict[str, Tuple[int, str]]:
    """The variables that a script or a program beside this one needs.

    With the line that starts it last, and where it needs them.
    """
    found: Dict[str, Tuple[int, str]] = {}
    for run in facts.every_launch:
        words = " ".join(word.raw for word in run.command.words)
        for name, line in _needed_by(facts, run):
            here = run.command.place.line, f"{run.file or run.options.get('script', '')}:{line}"
            if not re.search(rf"\b{name}=|--export\S*\b{name}\b", words):
                found[name] = max(found.get(name, here), here)
    return found


_ENVIRON = re.compile(r"os\.environ\[[\"'](\w+)[\"']\](?! *=[^=])")


def _needed_by(facts: ScriptFacts, run: Launch) -> Iterator[Tuple[str, int]]:
    """The variables that one of them takes from its environment, without a default of its own."""
    if run.script is None:
        own = run.options.get("script", "") if run.kind == PYTHON and not run.place.within else ""
        text = "" if facts.files.moved or not own.endswith(".py") else facts.files.read(own) or ""
        for number, line in enumerate(text.split("\n"), 1):
            for name in _ENVIRON.findall(line.partition("#")[0]):
                if len(re.findall(rf"\b{name}\b", text)) == 1:
                    yield name, number
        return
    if run.name in ("source", ".") or not all(map(_only_sets_up, run.script.calls("source", "."))):
        return  # it is this shell's, or another file may set them
    text = "\n".join(word.raw for command in run.script.commands for word in command.words)
    set_there = {variable.name for variable in run.script.every_assignment}
    set_there.update(name for line in text.split("\n") for name in _set_in(line))
    words = [word for command in run.script.commands for word in command.words]
    words += [variable.word for variable in run.script.every_assignment]
    for word in words:
        for name in sorted(filter(str.isidentifier, {*word.names} - set_there)):
            if re.search(rf"\$(\{{{name}[}}\[]|{name}\b)", word.raw):
                yield name, word.place.line


_PASSED = re.compile(r"(?i)--export|qsub|sbatch|environment|passed|exported|variable|proxy")


def _from_outside(
    facts: ScriptFacts, used: Dict[str, SourceSpan], known: Set[str]
) -> Iterator[Violation]:
    """A variable of a name like those that scripts make, which nothing here makes."""
    rest = (line for line in facts.lines if not re.match("#+ *SBATCH", line))
    if facts.has("export") or any(map(_PASSED.search, rest)):
        return
    for name, place in used.items():
        own = len(name) > 2 and name.islower() and name.isidentifier()
        if own and name not in known and f"{name}=" not in facts.text:
            yield Violation(
                f"nothing here sets ${name}: it is empty, unless the shell that submits has "
                "exported it",
                f"set it, or pass it and say so: sbatch --export=ALL,{name}=…",
                place=place,
                severity=NOTE,
            )
            return


_COMES_WITH_A_SHELL = re.compile(
    r"SLURM_|(LD_\w+_|PYTHON|MAN|C)?PATH$|(IFS|HOME|USER|SHELL|LANG|PWD|TMPDIR|OPT\w+)$"
)


def _may_be_exported(facts: ScriptFacts, name: str) -> bool:
    """Whether a variable may be exported all the same, such as by the shell that submits."""
    read = {run.file for run in facts.launches if run.script is not None}
    for command in facts.shell.calls("source", "."):
        file = command.words[1].text if len(command.words) > 1 else ""
        if not _only_sets_up(command) and re.sub(r"^\./", "", file.strip("\"'")) not in read:
            return True
    exports = facts.header.value("export") or ""
    of_modules = re.search(r"_(HOME|ROOT|DIR)$", name) and facts.shell.calls("module", "ml")
    sourced = (run.script for run in facts.launches if run.script and run.name in ("source", "."))
    return bool(
        _COMES_WITH_A_SHELL.match(name)
        or of_modules
        or re.search(rf"\b{name}\b", exports)
        or any(
            re.search(rf"\b{name}=", word.raw) for each in facts.launches for word in each.own_words
        )
        or any(
            variable.name == name
            for command in facts.shell.commands
            for variable in command.assigned
        )
        or any(variable.exported for script in sourced for variable in script.assigned(name))
    )


def _awaited_names(launches: Sequence[Launch]) -> Dict[str, int]:
    """The variables that another shell is to expand, with the last line that starts one."""
    found: Dict[str, int] = {}
    for run in launches:
        if not any(each.kind == SHELL and each.has("c") for each in (run, *run.below())):
            continue
        words = run.command.words
        exports = [word.raw for word in words if word.raw.startswith("--export")]
        for word in words:
            for name in {*re.findall(r"\$\{?(\w+)", word.raw)}.difference(word.names):
                kept = re.search(rf"(^'.*|\\)\$\{{?{name}\b", word.raw, re.DOTALL)
                own = re.search(rf"\b{name}=|\b(read|for) {name}\b", word.raw)
                if kept and not own and not any(name in given for given in exports):
                    found[name] = max(found.get(name, 0), run.command.place.line)
    return found


def _used_names(facts: ScriptFacts) -> Set[str]:
    """The variables that the batch shell itself uses, but to show them."""
    shown: Dict[str, int] = Counter()
    for command in facts.shell.commands:
        shows = command.name in ("echo", "printf")
        for word in command.words:
            for name in re.findall(r"\$\{?(\w+)", word.raw):
                # Else the program's shell is to expand it, and has it not.
                shown[name] += shows or name not in word.names
    every = Counter(re.findall(r"\$\{?(\w+)", facts.whole_text))
    for within in re.findall(r"\(\(([^()\n]{0,500})", facts.text):
        every.update(re.findall(r"(?<![$\w{])\w+", within))
    used = {name for name, times in every.items() if times > shown[name]}
    for line in facts.lines:
        for listed in re.findall(r"--export[= ](\S+)", line):
            used.update(re.findall(r"\w+", listed))
        given = re.search(r"\benv\b", line)
        used.update(re.findall(r"(\w+)=", line[given.end() :]) if given is not None else ())
    return used


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


_FILTERS = frozenset("tee ts grep sed awk cat gzip pigz xz zstd sort tail".split())  # noqa: SIM905
_SAYS = ("echo", "date", "printf", "deactivate", "exit", "wait")


@script_rule(WARNING, "NC646", "exit code that is hidden")
def hidden_exit_code(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _thrown_away(facts)
    yield from _only_says(facts)
    yield from _forgiven(facts)
    yield from _cancels_itself(facts)
    yield from _ends_well(facts)
    yield from _cut_off(facts)
    yield from _code_of_echo(facts)
    if re.search(r"pipefail|PIPESTATUS", facts.text):
        return
    strict = facts.shell.errexit or re.search(r"\s-[a-z]*e[a-z]*$", facts.header.shebang)
    works = {id(run.command): run.word.raw for run in reversed(facts.launches) if run.works}
    commands = [command for command in facts.shell.commands if not command.captured]
    last_step = max(
        (at for at, each in enumerate(commands) if each.name not in _SAYS and not each.piped),
        default=-1,
    )
    for at, (command, beside) in enumerate(zip(commands, commands[1:])):
        shows = beside.piped and beside.name in _FILTERS
        if not shows or id(command) not in works or command.background:
            continue
        if strict or last_step < at + 2:
            ends = "and the script goes on" if strict else "and the job ends as COMPLETED"
            last = "-o" if strict or at + 2 == len(commands) else "-eo"
            yield Violation(
                f"the exit code here is that of {beside.name}: {works[id(command)]} may fail, "
                f"{ends}",
                f"write set {last} pipefail before it",
                place=beside.place,
            )
            return


def _thrown_away(facts: ScriptFacts) -> Iterator[Violation]:
    """The program's failure, of which ``|| true`` or ``exit 0`` makes a success."""
    commands = [command for command in facts.shell.commands if not command.captured]
    functions = {*re.findall(r"(?m)^[ \t]*(?:function[ \t]+)?([\w-]+)[ \t]*\(\)", facts.text)}
    prepares = ONLY_PREPARES | SHORT | functions
    others = {
        id(run.command)
        for run in facts.launches
        if run.kind == PROGRAM and run.name not in prepares and not _says(run.command)
    }
    works = {
        id(run.command)
        for run in facts.launches
        if (run.works or id(run.command) in others) and run.command.sure
    }
    at = max(
        (at for at, command in enumerate(commands) if id(command) in works), default=len(commands)
    )
    rest = commands[at + 1 :]
    if not rest or commands[at].background:
        return
    command, beside, last = commands[at], rest[0], rest[-1]
    before = facts.lines[beside.place.line - 1][: beside.place.column - 1].rstrip()
    forgives = beside.name in ("true", ":") and before.endswith("||")
    says = all(command.name in _SAYS for command in rest[forgives:])
    code = last.arguments[0] if last.name == "exit" and len(last.words) == 2 else None
    strict = facts.shell.errexit
    exits = code is not None and code.isdigit() and last.sure and not (strict and code == "0")
    text = "".join(facts.lines[command.place.line - 1 : last.place.line])
    looks = re.search(r"\|\||&&|\$\?", text) is not None
    if says and (forgives or (exits and not looks)):
        hides = f"|| {beside.name}" if forgives else f"exit {code}"
        ends = f"COMPLETED, even if {command.words[0].raw} has failed"
        if not forgives and code != "0":
            ends = f"FAILED, however {command.words[0].raw} has ended"
        yield Violation(
            f"the job ends as {ends}: {hides} hides its exit code",
            "remove it: the script ends with the exit code of its last command",
            place=beside.place if forgives else last.place,
            severity=NOTE if id(command) in others else None,
        )


_LOOKS_BACK = re.compile(
    r"\|\||&&|\$\?|PIPESTATUS|\btrap\b|\bwait -n|^[ \t]*(if|while|until|!) ", re.M
)


def _without_what_is_said(lines: Sequence[str]) -> str:
    """The lines without those that only tell the exit code, or keep it for that."""
    says = re.compile(r"[ \t]*(echo|printf)\b[^;&|]*")
    rest = [line for line in lines if "$?" not in line or not says.fullmatch(line)]
    keeps = [re.fullmatch(r"[ \t]*(\w+)=\$\?[ \t]*", line) for line in rest]
    others = (line for line, kept in zip(rest, keeps) if not kept and not says.fullmatch(line))
    used = {*re.findall(r"\w+", "\n".join(others))}
    return "\n".join(line for line, kept in zip(rest, keeps) if kept is None or kept[1] in used)


def _only_says(facts: ScriptFacts) -> Iterator[Violation]:
    """A failure behind which the script only says something, or waits for all at once."""
    commands = [each for each in facts.shell.commands if not each.captured and each.words]
    at = max((at for at, each in enumerate(commands) if not _says(each)), default=-1)
    command, rest = commands[at] if at >= 0 else None, commands[at + 1 :]
    if rest and rest[-1].name == "exit" and not rest[-1].arguments:
        rest = rest[:-1]  # with the code of the one before
    if command is None or not rest or rest[0].piped or rest[-1].name == "kill":
        return
    if not facts.header.given:
        return
    prepares = ONLY_PREPARES | SHORT
    run = next((run for run in facts.launches if run.command is command), None)
    if run is None or not (run.works or (run.kind == PROGRAM and run.name not in prepares)):
        return
    text = _without_what_is_said(facts.lines[command.place.line - 1 : rest[-1].place.line])
    if _LOOKS_BACK.search(text) or any(each.name == "exit" and each.arguments for each in rest):
        return
    name = run.word.basename or run.word.raw
    if facts.shell.traps(""):
        return  # it may know how it ends
    if command.background:
        waits = [each for each in rest if each.name == "wait" and each.sure]
        if waits and not waits[0].arguments:
            yield Violation(
                f"this wait reports success, even if {name} has failed: the job ends as COMPLETED",
                "keep the numbers, PIDS+=($!), and wait for each: for p in ${PIDS[@]}; do wait $p "
                "|| code=1; done; exit $code",
                place=waits[0].place,
                severity=NOTE,
            )
        return
    strict = facts.shell.errexit or re.search(r"\s-[a-z]*e[a-z]*$", facts.header.shebang)
    if (command.sure or command.in_loop) and not strict:
        yield Violation(
            f"the job ends as COMPLETED, even if {name} has failed: the exit code is that of the "
            f"last command, {rest[-1].name}",
            "write set -e above; or code=$? behind it, and exit $code at the end",
            place=rest[-1].place,
            severity=NOTE,
        )


_TELLS = frozenset(
    """
    hostname kill killall ls ml module nvidia-smi pkill pwd rm sacct scontrol seff squeue sstat
    """.split()  # noqa: SIM905
)


def _says(command: Command) -> bool:
    """Whether a command only tells something, or puts something away."""
    if command.name in ("conda", "mamba", "micromamba"):
        return command.arguments[:1] == ("deactivate",)
    return command.name in (*_SAYS, *_TELLS) or "stats" in command.name  # a site's own


def _forgiven(facts: ScriptFacts) -> Iterator[Violation]:
    """The program alone between ``set +e`` and ``set -e``, and nothing that looks at its end."""
    commands = [command for command in facts.shell.commands if not command.captured]
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


_THEN = re.compile(r"(\s*\d?>>?\s*[^\s;&|]+)?[ \t]*(#[^\n]*)?[\n;]\s*")
_TESTS_IT = re.compile(r"[ \t]*((?:if[ \t]+)?(?:\[\[?|\(\()[^#;\n]{0,99}?\$\?)")


def _code_of_echo(facts: ScriptFacts) -> Iterator[Violation]:
    """``$?`` behind an echo, whose exit code it is."""
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


def _cut_off(facts: ScriptFacts) -> Iterator[Violation]:
    """A program that ``head`` ends."""
    works = {id(run.command): run.word.raw for run in reversed(facts.launches) if run.works}
    commands = [command for command in facts.shell.commands if not command.captured]
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
        if not command.captured and command.name not in _SAYS
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
_HAS_FAILED = re.compile(r"\bif\b[^;]*(\$#|\$\?[^;]*(-ne|-gt|!=))[^;]*;[\s;]*then[\s;]*$")
_LOOKS_AT = re.compile(r"\$(\?|#)|\$\{?[1-9]\b")


def _ends_well(facts: ScriptFacts) -> Iterator[Violation]:
    """An ``exit`` that reports success behind a message that says what is wrong."""
    if not facts.header.given or not any(run.works or run.inside for run in facts.launches):
        return
    commands = [command for command in facts.shell.commands if not command.captured]
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
        complains = _COMPLAINS.search(said) and not _GOES_ON.search(said)
        usage = asks and re.search(r"(?i)\busage\b", said) and "-h" not in above
        tests = _HAS_FAILED.search(";".join([*facts.lines[: at - 1][-2:], line])[-300:])
        if complains or usage or (bare and tests):
            yield Violation(
                f"exit {'without a number' if bare else '0'} reports success: the job ends as "
                "COMPLETED, though it has done nothing",
                "write exit 1",
                place=command.place,
            )
            return


_ASKS = {"curl", "wget", "nc", "ncat", "grep"}
_PASSES_TIME = {"sleep", "echo", "printf", "date", ":", "true", "break", "timeout"}


@script_rule(WARNING, "NC647", "wait without an end")
def endless_wait(facts: ScriptFacts) -> Iterator[Violation]:
    for loop in facts.shell.loops:
        if loop.counts or not set(loop.does) <= _PASSES_TIME | _ASKS:
            continue
        # until curl …; or while true, and curl … && break
        asks = {*loop.asks} & _ASKS if loop.until else {*loop.does} & _ASKS
        rest = _ASKS | {"timeout"} if loop.until else {"true", ":"}
        if not asks or not set(loop.asks) <= rest or (loop.until and "break" in loop.does):
            continue
        yield Violation(
            f"this waits for {min(asks)} until the time limit: it has no end if the server that it "
            "asks has failed",
            "end with the server, too: until curl …; do kill -0 $PID || exit 1; sleep 5; done",
            place=loop.place,
        )
    yield from _for_a_file(facts)
    yield from _submits_itself(facts)
    yield from _never_over(facts)


_FOR_A_FILE = re.compile(
    r"\s*(?:until\s+(?:\[\[?|test)\s+-[efs]|while\s+(?:!\s*(?:\[\[?|test)|(?:\[\[?|test)\s+!)\s+-[efs])\s"
)


_WAITED_FOR = re.compile(r"[\s;\]].*")


def _for_a_file(facts: ScriptFacts) -> Iterator[Violation]:
    """A loop that waits for a file, in a job that starts nothing which may write it."""
    beside = any(command.background for command in facts.shell.commands)
    if re.search(r"\bsbatch +[^#\s]", "\n".join(facts.lines[facts.header.first_command - 1 :])):
        return  # another job may write it
    for loop in facts.shell.loops:
        waits = _FOR_A_FILE.match(facts.lines[loop.place.line - 1])
        below = facts.lines[loop.place.line - 1 : loop.place.line + 20]
        ends = next((at for at, line in enumerate(below) if re.search(r"\bdone\b", line)), 0)
        counts = re.search(
            r"[+-]=|\+\+|--|\+ *1|-g[te]|-l[te]|SECONDS", " ".join(below[: ends + 1])
        )
        if not waits or counts or beside or not {*loop.does} <= _PASSES_TIME - {"break", "["}:
            continue
        # Such as another task of the array, which has come first.
        path = re.escape(_WAITED_FOR.sub("", below[0][waits.end() :]).strip("\"'"))
        if any(
            re.search(rf"(\btouch|\bmv|\bcp|\btee|>).{{0,200}}{path}", line) for line in facts.lines
        ):
            continue
        yield Violation(
            "this waits for a file until the time limit: nothing that this job has started writes "
            "it",
            "wait before the job: sbatch --dependency=afterok:JOB; or count, and end with exit 1",
            place=loop.place,
        )


def _submits_itself(facts: ScriptFacts) -> Iterator[Violation]:
    """A job that submits itself whatever happens."""
    ends = any(
        command.name == "exit" and not command.sure and not command.captured
        for command in facts.shell.commands
    )
    for command in facts.shell.calls("sbatch") if facts.header.given and not ends else ():
        own = [
            word
            for word in command.words[1:]
            if re.fullmatch(r"\W*(0|BASH_SOURCE\W*0?\W*)\W*", word.raw)
        ]
        before = facts.lines[command.place.line - 1][: command.place.column - 1]
        if own and command.sure and not command.looped and not re.search(r"&&|\|\|", before):
            yield Violation(
                "this job submits itself again whatever happens: the chain has no end",
                "ask first whether there is more to do: [ -f done ] || sbatch …",
                place=command.place,
            )


_WATCHES = re.compile(r"(-l|-lms|--loop|--loop-ms)(=.*|\d+)?|dmon|pmon")
_SERVERS = re.compile(
    r"(vllm (serve|.*entrypoints)|.*(vllm\.entrypoints|sglang\.launch_server|http\.server)"
    r"|ollama serve|ray start .*--block|(redis|mlflow|code)-?server|mongod|tensorboard"
    r"|jupyter[- ](lab|notebook|server)|text-generation-launcher)\b.*"
)


def _never_over(facts: ScriptFacts) -> Iterator[Violation]:
    """A loop without an end, or a ``wait`` for what has none."""
    shell = facts.shell
    beside = [command.place.line for command in shell.commands if command.background]
    for loop in shell.loops:
        works = any(name.rpartition("/")[2] not in _PASSES_TIME | _LOOKS for name in loop.does)
        alone = not any(line < loop.place.line for line in beside)
        if not loop.ends and not loop.background and works and alone:
            yield Violation(
                "this loop has no end: the job runs until its time limit, and nothing below is "
                "reached",
                "end it with break, or count: for i in $(seq 10); do",
                place=loop.place,
            )
    runs = [run for run in facts.launches if not run.command.captured]
    yield from _behind_a_server(runs)
    waits = [
        command.place.line
        for command in shell.calls("wait")
        if not command.arguments and command.sure
    ]
    if not waits or shell.calls("kill", "pkill", "scancel"):
        return
    clients = [run.place.line for run in runs if run.works and not run.command.background]
    endless = [loop.place for loop in shell.loops if loop.background and not loop.ends]
    for run in runs:
        for each in (run, *run.below()) if run.command.background else ():
            own = _words_of(each)
            watches = (each.word.value or "").endswith("nvidia-smi") and any(
                _WATCHES.fullmatch(word) for word in own
            )
            asked = any(run.place.line < line < waits[-1] for line in clients)
            if (watches and "-c" not in own) or (asked and _SERVERS.match(" ".join(own))):
                endless.append(each.place)
    for place in sorted(endless, key=lambda place: place.line)[:1]:
        if place.line < waits[-1]:
            yield Violation(
                f"the wait of line {waits[-1]} waits for this, too, which does not end: the job "
                "runs until its time limit",
                "end it before: PID=$! behind it, and kill $PID in the place of wait; or wait for "
                "the others by their numbers",
                place=place,
            )


def _words_of(launch: Launch) -> List[str]:
    return [word.text for word in launch.own_words]


def _behind_a_server(runs: List[Launch]) -> Iterator[Violation]:
    """What comes after a server that the script waits for."""
    for run, following in zip(runs, runs[1:]):
        if run.command.background or not run.command.sure or not following.works:
            continue
        for each in (run, *run.below()):
            if each.command.background:
                break
            if _SERVERS.match(" ".join(_words_of(each))) and not each.has("help", "version"):
                yield Violation(
                    f"this server does not end: line {following.place.line} is not reached before "
                    "the time limit",
                    "start it in the background, with & behind it, and end it with kill",
                    place=each.place,
                )
                return


_LOOKS = frozenset(
    ("nvidia-smi", "ps", "squeue", "free", "top", "tail", "ls", "df", "cat", "[", "tee")
)


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
        known = "debug" in "".join([*near, facts.header.value("job-name") or ""]).lower()
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
            line = facts.lines[before.place.line - 1]
            next_line = word.place.line == before.place.line + 1 and word.place.column == 1
            if next_line and word.raw.startswith("--") and re.search(r"[^\s\\]\\$", line):
                yield Violation(
                    f"no blank is before the backslash of line {before.place.line}: this belongs "
                    f"to {before.raw}",
                    "write a blank before the backslash",
                    place=word.place,
                    severity=WARNING,
                )
    for number, line in enumerate(facts.lines if facts.header.for_bash else (), 1):
        match = _TEST.search(line)
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
        if items[0] is None or items[1] is None or items[0][2] or not items[1][2]:
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
        after = facts.lines[number]
        goes_on = re.match(r"\s+[/$~]" if match and match[3] else r"\s*[/$~][^\s=(]*$", after)
        if match is None or match[2] or not goes_on:
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
        name = re.match(r"\$(\w+)=", raws[0]) if raws else None
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
            which = name[1] if name else command.assigned[0].name if number else raws[0]
            yield Violation(
                f"this sets no variable: bash takes {raws[0]} for a command",
                f"write {which}=… without {'the $' if name else 'blanks'}",
                place=command.place,
                severity=WARNING,
            )
            return


@script_rule(ERROR, "NC649", "line that bash divides otherwise")
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


@script_rule(WARNING, "NC650", "list of nodes in one word")
def one_word(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.plan is not None and facts.fixed_nodes and facts.plan.nodes < 2:
        return
    for assigned in facts.shell.assignments:
        name = re.fullmatch(r'\(\s*"(\$\{?(\w+)\}?|\$\(.*\))"\s*\)', assigned.word.raw)
        if name is None:
            continue
        made = [name[1], *(other.word.raw for other in facts.shell.assigned(name[2] or ""))]
        if any("show hostname" in text for text in made):
            yield Violation(
                f"{assigned.name} has a single element, which contains the names of all nodes: the "
                "quotes keep them together",
                f"write {assigned.name}=({name[1]}), or mapfile -t {assigned.name} "
                "< <(scontrol show hostnames)",
                place=assigned.place,
            )


_NO_SECRET = re.compile(
    r"--\w+(App|Provider)\.(?P<what>token|password|hashed_password)=(?P<value>.*)"
)


@script_rule(WARNING, "NC657", "notebook that is open to all")
def open_notebook(facts: ScriptFacts) -> Iterator[Violation]:
    for launch in facts.every_launch:
        own = _words_of(launch)
        given = [match for match in map(_NO_SECRET.fullmatch, own) if match is not None]
        open_token = any(match["what"] == "token" and not match["value"] for match in given)
        guarded = any(match["what"] != "token" and match["value"] for match in given)
        none = "code-server" in own[0] and re.search(r"--auth[= ]none", " ".join(own))
        if (open_token and not guarded) or none:
            yield Violation(
                "whoever reaches the port of this server, such as every user of the cluster, runs "
                "commands as you: it asks for no password",
                "remove the option: the server writes a token into its log",
                place=launch.place,
            )
            return


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


@script_rule(WARNING, "NC659", "lines behind the end")
def behind_exit(facts: ScriptFacts) -> Iterator[Violation]:
    yield from script_bash.reads_the_list(facts)
    sure = [run for run in facts.launches if run.command.sure]
    last = max(
        (
            run.place.line
            for run in sure
            if run.works or run.kind == SHELL or run.word.raw.startswith("./")
        ),
        default=0,
    )
    for ends in facts.shell.calls("exit", "exec"):
        line = ends.place.line
        if ends.name == "exec" and len(ends.words) < 2:
            continue  # it opens a file
        if not ends.sure or line >= last:
            continue
        before = facts.lines[line - 1][: ends.place.column - 1]
        if not before.strip():
            after = [run for run in sure if run.place.line > line]
            yield Violation(
                f"the script ends here: line {after[0].place.line} and what follows it never runs",
                "remove the line, or the lines below it"
                if ends.name == "exit"
                else "remove exec: it puts the program in the place of the shell",
                place=ends.place,
            )
            return


_SETS_UP = frozenset(
    """
    : [ [[ alias cd date deactivate declare echo exit export mkdir ml module printf set shopt test
    true type ulimit umask unset which
    """.split()  # noqa: SIM905
)
_SWITCHED_OFF_RUN = re.compile(
    r"#+ ?(?:time )?(?:srun|mpirun|mpiexec|torchrun|(?:\S*/)?python[\d.]*|bash|sh|\./\S+) +"
    r"[-\w./$\"]"
)


def _only_sets_up(command: Command) -> bool:
    """Whether a command starts no program of the job's, whatever its variables are."""
    words = [word.raw for word in command.words[1:]]
    if command.name in ("source", "."):
        file = command.words[1].text.rpartition("/")[2] if words else ""
        return INITIALIZES.fullmatch(file.lstrip(".")) is not None
    if command.name in ("conda", "mamba", "micromamba"):
        return words[:1] in (["activate"], ["deactivate"], ["info"], ["list"], ["config"])
    if command.name == "eval":
        return any("hook" in word for word in words)
    return command.words[0].raw in _SETS_UP if command.words else True


@script_rule(WARNING, "NC666", "script that starts nothing", "by_absence")
def starts_nothing(facts: ScriptFacts) -> Iterator[Violation]:
    commands = facts.shell.commands
    whole = facts.header.given and facts.header.for_bash and not facts.left_out
    if facts.plan is None or not whole or facts.unreadable or not commands:
        return
    if facts.shell.placeholders:
        return  # what stands behind one is not read
    if not all(map(_only_sets_up, commands)):
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


@script_rule(WARNING, "NC667", "download where nodes have no internet")
def fetched_on_a_node(facts: ScriptFacts) -> Iterator[Violation]:
    found = [] if has_proxy(facts.text) else downloads(facts.launches)
    words = [" ".join(word.raw for word in each.own_words) for each in found]
    for violation in without_internet(words, facts.plan):
        yield replace(violation, place=found[0].place)


_TILDE = re.compile(r"(--?[\w-]+=)?[\"']~(/.*)?[\"']?", re.DOTALL)
_OF_FILES = frozenset("cd pushd mkdir rm cp mv source . cat ls touch tar ln chmod".split())  # noqa: SIM905
_READ_TILDES = frozenset("echo printf alias eval export grep sed awk ssh scp rsync".split())  # noqa: SIM905


@script_rule(WARNING, "NC668", "home directory in quotes")
def quoted_home(facts: ScriptFacts) -> Iterator[Violation]:
    """``"~/data"``: bash expands ~ outside of quotes alone."""
    if (
        not facts.header.for_bash
        or "eval" in facts.text
        or re.search(r"/#\\?~|expanduser", facts.text)
    ):
        return
    variables = [each for each in facts.shell.assignments if _TILDE.fullmatch(each.word.raw)]
    found = []
    for command in facts.shell.commands:
        if command.name in _READ_TILDES:
            continue
        for word in (*command.words[1:], *command.writes):
            by = next((each for each in variables if each.name in word.names), None)
            if _TILDE.fullmatch(word.raw) or by is not None:
                files = command.name in _OF_FILES or word in command.writes
                found.append((not files, (by or word).place))
    for unsure, place in sorted(found, key=lambda one: (one[0], one[1].line))[:1]:
        yield Violation(
            "the quotes keep ~ from bash: this is a directory '~' below the current one",
            'write "$HOME/…"',
            place=place,
            severity=NOTE if unsure else None,  # a program may expand it itself
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


_TASKS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-core")
_ONLY_WITH = {
    "SLURM_CPUS_PER_TASK": ("cpus-per-task",),
    "SLURM_NTASKS_PER_NODE": ("ntasks-per-node",),
    "SLURM_NTASKS": _TASKS,
    "SLURM_NPROCS": _TASKS,
    "SLURM_GPUS": ("gpus",),
    "SLURM_GPUS_PER_NODE": ("gpus-per-node",),
    "SLURM_GPUS_PER_TASK": ("gpus-per-task",),
    "SLURM_CPUS_PER_GPU": ("cpus-per-gpu",),
}
"""Variables that Slurm sets only where one of the options is given (tried on 22.05)."""
_OF_SLURM = tuple(
    f"SLURM_{name}"
    for name in """
    ARRAY_JOB_ID ARRAY_TASK_COUNT ARRAY_TASK_ID ARRAY_TASK_MAX ARRAY_TASK_MIN ARRAY_TASK_STEP
    CLUSTER_NAME CPUS_ON_NODE GPUS_ON_NODE JOBID JOB_ACCOUNT JOB_CPUS_PER_NODE JOB_GID JOB_GPUS
    JOB_ID JOB_NAME JOB_NODELIST JOB_NUM_NODES JOB_PARTITION JOB_QOS JOB_UID JOB_USER LOCALID
    MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE NNODES NODEID NODELIST PROCID STEPID STEP_GPUS STEP_ID
    STEP_NODELIST STEP_NUM_TASKS SUBMIT_DIR SUBMIT_HOST TASKS_PER_NODE TASK_PID TMPDIR
    """.split()  # noqa: SIM905
) + tuple(_ONLY_WITH)


@script_rule(WARNING, "NC660", "variable that nothing sets", "by_absence")
def not_set(facts: ScriptFacts) -> Iterator[Violation]:
    words = [
        word
        for command in facts.shell.commands
        if command.name not in ("echo", "printf")
        for word in command.words[1:]
    ] + [assigned.word for assigned in facts.shell.assignments]
    used: Dict[str, SourceSpan] = {}
    for word in words:
        for name in word.names:
            if name in word.raw:
                used.setdefault(name, word.place)
    yield from _not_set_by_slurm(facts, used)
    yield from _misspelled(facts, used)
    yield from _other_beginning(facts)
    yield from _set_in_a_comment(facts, used)
    yield from _arguments(facts)
    yield from _set_too_late(facts)
    yield from _of_a_launcher(facts)
    yield from _kept_by_quotes(facts)
    yield from script_bash.of_other_schedulers(facts, used)
    yield from script_bash.for_sbatch(facts)
    yield from script_bash.lost_in_a_pipe(facts)


def _known_to(line: str) -> Iterator[str]:
    """The variables of Slurm's that a line sets, gives a default, or asks about."""
    asks = re.search(r"(\[|test|-v) ", line) if "SLURM_" in line else None
    for match in re.finditer(r"(SLURM_\w*)(:?[-=+?])?", line):
        if match[2] or (asks is not None and asks.end() <= match.start()):
            yield match[1]


def _not_set_by_slurm(facts: ScriptFacts, used: Dict[str, SourceSpan]) -> Iterator[Violation]:
    if facts.plan is None or not facts.header.given or facts.header.components > 1:
        return
    known = frozenset(name for line in facts.lines for name in _known_to(line))
    for name in known.intersection(_ONLY_WITH):
        if not facts.has(*_ONLY_WITH[name]):
            yield from _ends_without(facts, name, _ONLY_WITH[name][0])
    for name, place in used.items():
        options = _ONLY_WITH.get(name)
        if not name.startswith("SLURM_") or name in known:
            continue
        if options and not facts.has(*options) and not facts.header.unread.intersection(options):
            # It may come with the command line; a remark that shows it says so.
            shown = re.search(rf"(?m)^[ \t]*#.*\bsbatch\b.*--{options[0]}\b", facts.text)
            yield Violation(
                f"${name} is empty here: Slurm sets it only with --{options[0]}",
                f"write #SBATCH --{options[0]}=…, or ${{{name}:-1}}",
                place=place,
                severity=NOTE if shown else None,
            )
        near = close_matches(name, _OF_SLURM, n=1, cutoff=0.88)
        if near and name not in _OF_SLURM:
            yield Violation(
                f"${name} is empty here: Slurm sets no such variable",
                f"write ${near[0]}",
                place=place,
            )


def _ends_without(facts: ScriptFacts, name: str, option: str) -> Iterator[Violation]:
    """An exit where a variable is empty, which it always is."""
    if facts.header.unread or not facts.header.for_bash or facts.shell.assigned(name):
        return
    asks = re.compile(rf"\s*(if )?\s*\[\[? +-z +\"?\$\{{?{name}\b(:-)?\}}?\"? *\]")
    for number, line in enumerate(facts.lines, 1):
        asked = asks.match(line)
        below = "\n".join(facts.lines[number - 1 : number + 5])
        branch = re.split(r"\b(?:fi|else|elif)\b", below)[0] if asked and asked[1] else line
        if asked and re.search(r"(?m)(^|;|then|&&)[ \t]*exit\b", branch):
            gpus = ", or ask for $SLURM_GPUS_ON_NODE" if "GPU" in name else ""
            yield Violation(
                f"${name} is empty here, and the job ends: Slurm sets it only with --{option}",
                f"write #SBATCH --{option}=…{gpus}",
                place=SourceSpan(number, len(line) - len(line.lstrip()) + 1, len(line) + 1),
            )
            return


_OF_MPI = re.compile(
    r"\$\{?((?:OMPI_COMM_WORLD|MV2_COMM_WORLD|PMI|PMIX)_(?:LOCAL_)?(?:RANK|SIZE))\b(?!\}?:)"
)


def _of_a_launcher(facts: ScriptFacts) -> Iterator[Violation]:
    """A rank of mpirun's that the batch shell asks for, which mpirun has not started."""
    if facts.plan is None or not facts.header.given or not facts.header.for_bash:
        return
    if re.search(
        r"\$0|BASH_SOURCE|<<|^[ \t]*(function[ \t]+\w|\w+[ \t]*\(\))", facts.text, re.MULTILINE
    ):
        return  # another shell may read it
    for number, line in enumerate(facts.lines, 1):
        test = re.match(r"\s*(?:(?:(?:el)?if|while|until)\b\s*)?(\[\[? .*)", line)
        match = _OF_MPI.search(test[1]) if test else None
        if match and "'" not in line and f"{match[1]}=" not in facts.text:
            yield Violation(
                f"${match[1]} is empty here: mpirun sets it for what it starts, and not for the "
                "batch shell",
                "ask for it in a script that mpirun starts",
                place=SourceSpan(number, len(line) - len(line.lstrip()) + 1, len(line) + 1),
            )
            return


_SETTERS = re.compile(r"\b(for|read|mapfile|readarray|local|declare|getopts)\b")
_SET = re.compile(r"\b(\w+)(\+?=|\[|:?[-?+])")
_MOST_NAMES = 100
"""So many are compared with each other."""


def _set_in(line: str) -> Iterator[str]:
    """The variables that a line may set."""
    setter = _SETTERS.search(line)
    yield from re.findall(r"\w+", line[setter.end() :]) if setter is not None else ()
    last = line.rfind("]=")
    for match in _SET.finditer(line):
        if match[2] != "[" or match.end() <= last:
            yield match[1]


_EXPAND_THEMSELVES = frozenset(
    """
    alias awk bash csh dash echo emacs enroot env envsubst eval find gawk grep jq ksh mawk parallel
    pdsh perl php printf ruby sbatch screen sed sh srun ssh su sudo tcsh tmux trap watch xargs zsh
    """.split()  # noqa: SIM905
)
"""Programs with a use for a dollar sign, or that hand text to another shell."""


def _kept_by_quotes(facts: ScriptFacts) -> Iterator[Violation]:
    """A variable of Slurm's that single quotes keep from being expanded."""
    for run in facts.launches:
        every = (run, *run.below())
        shells = any(each.kind == SHELL or each.name in _EXPAND_THEMSELVES for each in every)
        plain = run.is_srun or run.name not in _EXPAND_THEMSELVES
        if run.command.captured or not plain or (shells and not run.is_srun):
            continue
        if every[-1].place.within:
            continue
        for word in every[-1].own_words[1:] if every[-1].kind != SHELL else ():
            name = re.search(r"'[^'\"$]*\$\{?(SLURM_\w+)", word.raw[:500])
            own = script_bash.kept_by_quotes(facts, word) if word.raw[:1] == "'" else ""
            kept = name[1] if name else own
            if (
                kept
                and word.raw.startswith(("'", "-"))
                and every[-1].name not in _EXPAND_THEMSELVES
            ):
                yield Violation(
                    f"the program gets ${kept} as it stands: single quotes keep it from bash",
                    "write double quotes around it",
                    place=word.place,
                )
                return


_READS_ARGUMENTS = re.compile(r"\$\{?[1-9@*#]|\b(shift|getopts?|BASH_ARGV)\b|\bset --")
_ARGUMENT = re.compile(r" +(<\w[^>]*>|\[\w[^]]*\]|[A-Z][A-Z_]+|[\w./-]+\.\w+)\s*$")


def _arguments(facts: ScriptFacts) -> Iterator[Violation]:
    """An argument of the remark on how to submit this script, which nothing reads."""
    name = re.escape(facts.name.rpartition("/")[2])
    if not facts.header.for_bash or not name or _READS_ARGUMENTS.search(facts.text):
        return
    if not all(map(_only_sets_up, facts.shell.calls("source", "."))):
        return
    for number, line in enumerate(facts.lines, 1):
        how = "sbatch" in line and re.match(rf"\s*#.*?\bsbatch +([^#]*/| |.* )?{name}(?= )", line)
        given = _ARGUMENT.match(line, how.end()) if how else None
        if given is not None:
            yield Violation(
                f"nothing here reads the argument {given[1]}, which this remark says to give: the "
                "job is the same without it",
                'pass "$1" on to the program, or correct the remark',
                place=SourceSpan(number, 1, len(line) + 1),
            )
            return


_MADE_HERE = re.compile(r"[\"']?\$\{?([a-z]\w*)\}?(?=[^\w}:\[]|$)")
_SWITCHED_OFF = re.compile(r"(?:export )?(\w+)=|for (\w+) in ")


def _set_in_a_comment(facts: ScriptFacts, used: Dict[str, SourceSpan]) -> Iterator[Violation]:
    """A variable that only a line sets which somebody has switched off, or a command of none."""
    reads_more = any(
        command.name == "eval"
        or not INITIALIZES.fullmatch(command.words[-1].text.rpartition("/")[2].lstrip("."))
        for command in facts.shell.calls("source", ".", "eval")
    )
    if reads_more or not facts.header.for_bash:
        return
    lines = [line.lstrip(" \t") for line in facts.lines]
    known = {name for line in lines if not line.startswith("#") for name in _set_in(line)}
    exported = facts.header.value("export") or ""
    off: Dict[str, int] = {}
    passed: Set[str] = set()
    for number, line in enumerate(lines, 1):
        usage = re.match(r"#[ #]*((?:\w+=\S* +)+)sbatch\b", line)
        if usage is not None:
            passed.update(re.findall(r"(\w+)=", usage[1]))
            continue  # how this script is submitted
        match = _SWITCHED_OFF.match(line.lstrip(" \t#")) if line.startswith("#") else None
        if match is not None and not line.startswith("#SBATCH"):
            off[match[1] or match[2]] = number
    known |= passed
    for name, place in used.items():
        if name.startswith("SLURM_") or name in known or name in exported:
            continue
        if passed and not name.isupper() and len(name) > 2 and name not in off:
            yield Violation(
                f"${name} is empty here: nothing sets it, and the remark on how to submit this "
                f"script passes {min(passed)} alone",
                f"set it, or pass it too: {name}=… sbatch …",
                place=place,
            )
            return
        if name in off:
            yield Violation(
                f"${name} is empty here, unless the shell that submits has exported it: line "
                f"{off[name]}, which sets it, is a comment",
                f"set {name}, or remove it here",
                place=place,
                severity=WARNING if name.islower() else NOTE,
            )
            return
    yield from _from_outside(facts, used, known)
    for command in facts.shell.commands:
        word = command.words[0].raw if command.words else ""
        match = _MADE_HERE.match(word)
        if match and f"{match[1]}=" not in facts.text and word[match.end() :].startswith("+"):
            known.discard(match[1])  # $starccm+
        if match and not command.captured and match[1] not in known and match[1] not in exported:
            yield Violation(
                f"nothing here sets ${match[1]}: {word} is no command, unless the shell that "
                "submits has exported it",
                "write the name of the program, or set the variable",
                place=command.place,
                severity=WARNING if match.end() < len(word) else NOTE,
            )
            return


_FUNCTION = re.compile(r"\s*(function\s+\w|[\w-]+\s*\(\))")


def _set_too_late(facts: ScriptFacts) -> Iterator[Violation]:
    """A variable of the script's own that a line uses before another one sets it."""
    shell = facts.shell
    uses = [
        (assigned.word, assigned.place.line) for assigned in shell.assignments if assigned.sure
    ] + [
        (word, command.place.line)
        for command in shell.commands
        if command.sure and not command.looped and command.name not in ("echo", "printf")
        for word in command.words
    ]
    for word, line in uses:
        for name in word.names:
            if name not in word.raw:
                continue
            later = shell.assigned(name)
            # Others may come with the shell that submits: PATH, or what a site sets.
            own = later and all(each.sure and each.place.line > line for each in later)
            if not own or name.startswith("SLURM_") or f"${{{name}:" in word.raw:
                continue
            if any(f"${name}" in each.word.raw or f"{{{name}" in each.word.raw for each in later):
                continue
            before = facts.lines[: line - 1]
            # What stands in a function runs where it is called.
            begun = [at for at, text in enumerate(before) if _FUNCTION.match(text)]
            inside = begun and not any(text.rstrip().endswith("}") for text in before[begun[-1] :])
            if inside or any(name in _set_in(text) for text in before):
                continue
            yield Violation(
                f"${name} is empty here, unless the shell that submits has exported it: line "
                f"{later[0].place.line} sets it, which is too late",
                f"move line {later[0].place.line} above this one",
                place=word.place,
                severity=WARNING if name.islower() else NOTE,
            )
            return


def _misspelled(facts: ScriptFacts, used: Dict[str, SourceSpan]) -> Iterator[Violation]:
    """A variable that nothing sets, beside one that is almost the same and that nothing uses."""
    times = Counter(re.findall(r"\w+", facts.text))
    idle = {
        variable.name: variable
        for variable in facts.shell.assignments
        if not variable.exported and times[variable.name] == 1
    }
    known = frozenset(name for line in facts.lines for name in _set_in(line)) if idle else ()
    unknown = [name for name in used if not facts.shell.assigned(name)]
    like = {name.rstrip("S"): name for name in unknown if name.endswith("S")}
    like.update(("".join(sorted(name)), name) for name in unknown if len(name) > 4)
    sourced = any(
        not INITIALIZES.fullmatch(command.words[-1].text.rpartition("/")[2].lstrip("."))
        for command in facts.shell.calls("source", ".", "eval")
    )
    for variable in facts.shell.assignments if not sourced else ():
        name = like.get(variable.name) or like.get("".join(sorted(variable.name)), "")
        shown = re.findall(rf"\b{name}\b", facts.text) if name else ()
        if len(shown) == 1 and variable.place.line < used[name].line and len(name) > 3:
            yield Violation(
                f"${name} is set nowhere here, and {variable.name} is (line {variable.place.line})",
                f"write ${variable.name}",
                place=used[name],
            )
            return
    unset = ((name, place) for name, place in used.items() if len(name) > 3 and name not in known)
    for name, place in islice(unset, _MOST_NAMES) if idle else ():
        for other, assigned in islice(idle.items(), _MOST_NAMES):
            plain = _plain_name(name), _plain_name(other)
            # With other letters, capitals or not: project1_ROOT for PROJECT_ROOT.
            mixed = name.isupper() != other.isupper() and close_matches(
                plain[0], [plain[1]], cutoff=0.9
            )
            same = plain[0] == plain[1] or mixed
            if assigned.place.line < place.line and (
                same or close_matches(name, [other], cutoff=0.87)
            ):
                yield Violation(
                    f"${name} is set nowhere here, and nothing uses {other} (line "
                    f"{assigned.place.line})",
                    f"write ${other}",
                    place=place,
                )
                break


def _other_beginning(facts: ScriptFacts) -> Iterator[Violation]:
    """A variable whose name begins almost as those of many others do, and as no other."""
    names = {variable.name: variable for variable in facts.shell.assignments}
    for parts in (1, 2):
        begins = {name: "_".join(name.split("_")[:parts]) for name in names if "_" in name}
        times = Counter(begins.values())
        usual = [begin for begin, count in times.items() if count > 3]
        for name, begin in begins.items() if len(times) < _MOST_NAMES else ():
            near = close_matches(begin, usual, n=1, cutoff=0.9) if times[begin] == 1 else []
            plain = [re.sub(r"\d|S$", "", text) for text in (begin, *near)]
            if not near or begin == name or len(set(plain)) < 2 or len(begin) < 7:
                continue
            if len(re.findall(rf"\b{begin}", facts.text)) == 1:
                yield Violation(
                    f"{name} begins otherwise than the {times[near[0]]} with {near[0]}_",
                    f"write {near[0]}{name[len(begin) :]}, if it is one of them",
                    place=names[name].place,
                )
                return


def _plain_name(name: str) -> str:
    return name.lower().replace("_", "").rstrip("s")


_SRUN_LONG = frozenset(option.long for option in SRUN)


@script_rule(WARNING, "NC662", "option with a dash too few")
def one_dash(facts: ScriptFacts) -> Iterator[Violation]:
    refused = {refusal.place.line for refusal in facts.header.refusals}
    for given in facts.header.given:
        if given.source != SCRIPT or given.place.line in refused:
            continue
        raw = facts.lines[given.place.line - 1][given.place.column - 1 : given.place.end - 1]
        if _dashless(raw, SBATCHS_OWN):
            dash = SourceSpan(given.place.line, given.place.column, given.place.column)
            yield Violation(
                f"sbatch takes {raw} for {given.text}",
                f"write -{raw}",
                place=given.place,
                edits=(Edit(dash, "-"),),
            )
    for run in facts.every_launch:
        inner = run.inside[0].word if run.inside else None
        own = run.own_words[1:] if run.is_srun else ()
        end = next((at for at, word in enumerate(own) if word == inner), 0)
        for word in own[:end]:
            mpi = re.fullmatch(r"-(pmi[12x]\w*)(=.*)?", word.raw)
            if mpi or _dashless(word.raw, _SRUN_LONG):
                yield Violation(
                    f"srun takes {word.raw} for -{word.raw[1]} {word.raw[2:]}",
                    f"write --mpi={mpi[1]}" if mpi else f"write -{word.raw}",
                    place=word.place,
                )


def _dashless(raw: str, options: FrozenSet[str]) -> bool:
    """Whether a word is a long option, but for its first dash."""
    match = re.match(r"-([a-z][a-z-]{2,})(=|$)", raw)
    return match is not None and match[1] in options


@script_rule(WARNING, "NC664", "longer than the job")
def longer(facts: ScriptFacts) -> Iterator[Violation]:
    limit = None if facts.plan is None else facts.plan.time_limit
    if limit is None or not facts.has("time"):
        return
    commands = [other for other in facts.shell.commands if not other.captured]
    last = max((at for at, command in enumerate(commands) if command.name not in _SAYS), default=0)
    for at, command in enumerate(commands[:last]):
        if command.name not in ("timeout", "sleep"):
            continue
        given = next((value for value in command.arguments if value and value[0].isdigit()), "")
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", given)
        if match is None:
            continue
        seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
        if seconds > limit and not command.background:
            behind = next(each for each in commands[at + 1 :] if each.name not in _SAYS)
            yield Violation(
                f"{command.name} {given} is longer than the job, which ends after "
                f"{duration(limit)}: line {behind.place.line} is not reached",
                "write less than --time, such that the rest has time, too",
                place=command.place,
            )
            return
