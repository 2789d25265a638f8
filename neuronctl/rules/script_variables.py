"""NC644 and NC660: variables that a program needs, and does not get."""

from __future__ import annotations

import re
from collections import Counter
from difflib import get_close_matches as close_matches
from itertools import islice
from typing import Dict, Iterator, Sequence, Set, Tuple

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.rules import script_bash
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule, set_in
from neuronctl.rules.script_commands import asks_for, only_sets_up
from neuronctl.rules.script_words import too_late_for_the_line
from neuronctl.scripts.launches import PYTHON, SHELL, Launch
from neuronctl.scripts.model import SourceSpan
from neuronctl.scripts.shell_text import Command

_FOR_PROGRAMS = re.compile(
    r"(MASTER_(ADDR|PORT)|WORLD_SIZE|(LOCAL_|NODE_)?RANK|CUDA_VISIBLE_DEVICES"
    r"|(OMP|MKL|OPENBLAS|NCCL|GLOO|UCX)_[A-Z_]+|(HF|TORCH)_HOME|HF_(TOKEN|HUB_\w+|DATASETS_CACHE)"
    r"|WANDB_(API_KEY|MODE|DIR|PROJECT|ENTITY)|PYTORCH_\w*ALLOC\w*|TRANSFORMERS_(CACHE|OFFLINE)"
    r"|TORCH_(DISTRIBUTED_DEBUG|NCCL\w+)|TOKENIZERS_PARALLELISM|(TF|XLA|JAX|KMP)_[A-Z_]+"
    r"|PYTHON(UNBUFFERED|FAULTHANDLER|HASHSEED|NOUSERSITE))"
)
"""Variables that programs read, and that no shell exports by itself."""
_OF_LAUNCHERS = re.compile(r"MASTER_(ADDR|PORT)|WORLD_SIZE|\w*RANK")


@script_rule(WARNING, "NC644", "variable that is not exported")
def not_exported(facts: ScriptFacts) -> Iterator[Violation]:
    shell = facts.shell
    names = dict.fromkeys(variable.name for variable in shell.assignments)
    kept = [shell.assigned(name) for name in names]
    firsts = [each[0] for each in kept if not any(variable.exported for variable in each)]
    if not firsts or any(map(_exports_all, shell.calls("set"))):
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
    for assignment in firsts:
        name, line = assignment.name, assignment.place.line
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
    if run.name in ("source", ".") or not all(map(only_sets_up, run.script.calls("source", "."))):
        return  # it is this shell's, or another file may set them
    text = "\n".join(word.raw for command in run.script.commands for word in command.words)
    set_there = {variable.name for variable in run.script.every_assignment}
    set_there.update(name for line in text.split("\n") for name in set_in(line))
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
    unset = {
        name: place
        for name, place in used.items()
        if len(name) > 2 and name.islower() and name.isidentifier()
        if name not in known and f"{name}=" not in facts.text
    }
    if len(unset) == 1:  # several are a job's parameters, which its environment has
        for name, place in unset.items():
            yield Violation(
                f"nothing here sets ${name}: it is empty, unless the shell that submits has "
                "exported it",
                f"set it, or pass it and say so: sbatch --export=ALL,{name}=…",
                place=place,
                severity=NOTE,
            )


_COMES_WITH_A_SHELL = re.compile(
    r"SLURM_|(LD_\w+_|PYTHON|MAN|C)?PATH$|(IFS|HOME|USER|SHELL|LANG|PWD|TMPDIR|OPT\w+)$"
)


_OF_THE_GPUS = re.compile("(CUDA|ROCR|HIP)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL")


def _may_be_exported(facts: ScriptFacts, name: str) -> bool:
    """Whether a variable may be exported all the same, such as by the shell that submits."""
    read = {run.file for run in facts.launches if run.script is not None}
    for command in facts.shell.calls("source", "."):
        file = command.words[1].text if len(command.words) > 1 else ""
        if not only_sets_up(command) and re.sub(r"^\./", "", file.strip("\"'")) not in read:
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
            for name in re.findall(r"\$\{?(\w+)", word.raw) if "$" in word.raw else ():
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
_MADE_BY = {
    **_ONLY_WITH,
    "SLURM_MEM_PER_CPU": ("mem-per-cpu",),
    "SLURM_MEM_PER_NODE": ("mem",),
}
_OF_SLURM = tuple(
    f"SLURM_{name}"
    for name in """
    ARRAY_JOB_ID ARRAY_TASK_COUNT ARRAY_TASK_ID ARRAY_TASK_MAX ARRAY_TASK_MIN ARRAY_TASK_STEP
    CLUSTER_NAME CPUS_ON_NODE DISTRIBUTION GPUS_ON_NODE GTIDS JOBID JOB_ACCOUNT
    JOB_CPUS_PER_NODE JOB_DEPENDENCY JOB_END_TIME JOB_GID JOB_GPUS JOB_GROUP JOB_ID JOB_LICENSES
    JOB_NAME JOB_NODELIST JOB_NUM_NODES JOB_PARTITION JOB_QOS JOB_RESERVATION JOB_START_TIME
    JOB_UID JOB_USER LAUNCH_NODE_IPADDR LOCALID MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE NNODES
    NODEID NODELIST NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_SOCKET PROCID RESTART_COUNT STEPID
    STEP_GPUS STEP_ID STEP_NODELIST STEP_NUM_NODES STEP_NUM_TASKS STEP_TASKS_PER_NODE SUBMIT_DIR
    SUBMIT_HOST TASKS_PER_NODE TASK_PID THREADS_PER_CORE TMPDIR TRES_PER_TASK
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
    yield from _never_slurms(facts)
    yield from _other_underscores(facts, used)
    yield from _written_to_nothing(facts)
    yield from _ends_unset(facts)
    yield from _removes_what_is_above(facts)
    yield from _option_of_nothing(facts)
    compared = ((n, test) for n, line in facts.plain_lines for test in _COMPARED.finditer(line))
    for number, test in compared:
        place = SourceSpan(number, test.start() + 1, test.end() + 1)
        used.setdefault(test[1], place)
    for word in (word for command in facts.shell.commands for word in command.writes):
        for name in word.names:
            if name in word.raw:
                used.setdefault(name, word.place)
    yield from _misspelled(facts, used)
    yield from _like_a_known_one(facts)
    yield from _other_beginning(facts)
    yield from _used_by_nothing(facts)
    yield from _set_in_a_comment(facts, used)
    yield from _arguments(facts)
    yield from _set_too_late(facts)
    yield from too_late_for_the_line(facts)
    yield from _of_a_launcher(facts)
    yield from _kept_by_quotes(facts)
    yield from script_bash.of_other_schedulers(facts, used)
    yield from script_bash.lost_in_a_pipe(facts)


_COMPARED = re.compile(r"(?<=\[ )\"?\$\{?([A-Za-z_]\w*)\}?\"? -(?:eq|ne|lt|le|gt|ge) ")
_EMPTY_WITH_DEFAULT = re.compile(r"\$\{(SLURM_\w+):?-")


def _never_slurms(facts: ScriptFacts) -> Iterator[Violation]:
    """A variable like one of Slurm's, of which only the default is ever taken."""
    for number, line in facts.plain_lines:
        for match in _EMPTY_WITH_DEFAULT.finditer(line) if "{SLURM_" in line else ():
            name = match[1]
            shorter = name.replace("SLURM_JOB_", "SLURM_")
            near = [shorter] if shorter in _OF_SLURM else close_matches(name, _OF_SLURM, 1, 0.9)
            if name in _OF_SLURM or not near or re.search(rf"\b{name}=", facts.whole_text):
                continue
            yield Violation(
                f"Slurm sets no ${name}: this is always the default",
                f"write ${{{near[0]}:-…}}",
                place=SourceSpan(number, match.start() + 1, match.end() + 1),
                severity=NOTE,
            )
            return


def _other_underscores(facts: ScriptFacts, used: Dict[str, SourceSpan]) -> Iterator[Violation]:
    """``$JOB_DIR``, which nothing sets, where the script sets JOBDIR."""
    set_here = {each.name for each in facts.shell.assignments}
    plain = {name.lower().replace("_", ""): name for name in sorted(set_here) if len(name) > 5}
    for name, place in used.items():
        other = plain.get(name.lower().replace("_", ""))
        alike = other and other != name and other.isupper() == name.isupper()
        if (
            not other
            or not alike
            or not name.isidentifier()
            or name in set_here
            or _COMES_WITH_A_SHELL.match(name)
        ):
            continue
        shown = facts.whole_text.replace(f"{{{other}", "")
        if facts.reads_more or re.search(rf"\b{name}(=|\b.*--export)", shown):
            continue
        if name in facts.set_names:
            continue
        yield Violation(
            f"nothing here sets ${name}: it is empty, and the script sets {other}",
            f"write ${other}",
            place=place,
        )
        return


_REDIRECTED = re.compile(r"(?<![<>&\w'\"$=-])>>?[ \t]*(\$\{?([A-Za-z_]\w*)\}?)(?=[\s;&|)]|$)")


def _written_to_nothing(facts: ScriptFacts) -> Iterator[Violation]:
    """``> $LOG`` where LOG is empty: bash starts no program."""
    if not facts.header.for_bash or facts.reads_more:
        return
    for number, line in facts.plain_lines:
        for match in _REDIRECTED.finditer(line) if ">" in line and "$" in line else ():
            given = facts.shell.assigned(match[2])
            if len(given) != 1 or given[0].place.line >= number:
                continue
            source = re.fullmatch(r"\"?\$\{?([a-z]\w*)\}?\"?|", given[0].word.raw)
            if source is None:
                continue
            name = source[1]
            if name and name in facts.set_names:
                continue
            why = f": nothing here sets ${name}" if name else ""
            yield Violation(
                f"${match[2]} is empty{why}, and bash starts no program: ambiguous redirect",
                f"give {match[2]} the name of a file",
                place=SourceSpan(number, match.start() + 1, match.end() + 1),
            )
            return


_ENDS_WITH_ONE = re.compile(r"(.+)/\$\{?([A-Za-z_]\w*)\}?")


def _removes_what_is_above(facts: ScriptFacts) -> Iterator[Violation]:
    """``rm -rf $DIR/$NAME`` where nothing sets NAME: all of DIR."""
    for command in facts.shell.calls("rm") if not facts.reads_more else ():
        recursive = any(re.match("-[a-zA-Z]*[rR]|--recursive", each.raw) for each in command.words)
        for word in command.words[1:] if recursive and not command.captured else ():
            path = _ENDS_WITH_ONE.fullmatch(word.text.strip("\"'").rstrip("/*"))
            name = path[2] if path else ""
            if not name or name not in word.names or name in facts.set_names:
                continue
            if _OF_SHELLS.fullmatch(name) or _COMES_WITH_A_SHELL.match(name) or "#" in word.raw:
                continue
            if facts.has("export") or f"{name}=" in facts.text:
                continue
            yield Violation(
                f"nothing here sets ${name}: where it is empty, this removes all of "
                f"{path[1] if path else ''}",
                f"write ${{{name}:?}}, which ends the script then",
                place=word.place,
                severity=NOTE,
            )
            return


_OPTION_OF = re.compile(r"(?<=\s)--([A-Za-z][\w-]*) \$\{?([A-Za-z_]\w*)\}?(?=\s|$)")


def _option_of_nothing(facts: ScriptFacts) -> Iterator[Violation]:
    """``--resume $resume`` where resume is empty: the option has no value."""
    empty = {
        each.name
        for each in facts.shell.assignments
        if each.sure and each.word.raw in ("", '""', "''") and each.place.line > facts.last_read
    }
    empty = {name for name in empty if len(facts.shell.assigned(name)) == 1}
    for number, line in facts.plain_lines if empty else ():
        for match in _OPTION_OF.finditer(line) if "--" in line else ():
            name = match[2]
            if name not in empty or match[1].replace("-", "_").lower() != name.lower():
                continue
            told = re.search(rf"\b(for|read|local|declare|getopts)\b[^;\n]*\b{name}\b", facts.text)
            if told or "echo" in line[: match.start()]:
                continue
            line_of_it = facts.shell.assigned(name)[0].place.line
            yield Violation(
                f"--{match[1]} has no value: {name} is empty (line {line_of_it}), and unless the "
                "program does without one, it refuses this",
                f'leave the option out, or write "${name}", which is an empty value',
                place=SourceSpan(number, match.start() + 1, match.end() + 1),
                severity=NOTE,
            )
            return


_UNSET_ENDS = re.compile(r"-[a-zA-Z]*u[a-zA-Z]*|nounset")
_OF_SHELLS = re.compile(
    r"_|[A-Z]|BASH\w*|EUID|UID|PPID|RANDOM|SECONDS|LINENO|HOSTNAME|HOSTTYPE|OSTYPE|PIPESTATUS|REPLY"
    r"|FUNCNAME|DIRSTACK|SHLVL|TERM|EDITOR|LOGNAME|OLDPWD|COLUMNS|PS\d|LC_\w+|XDG_\w+|SLURM\w*"
)


def _ends_unset(facts: ScriptFacts) -> Iterator[Violation]:
    """A variable under ``set -u`` that nothing sets."""
    starts = [
        command.place.line
        for command in facts.shell.calls("set")
        if any(map(_UNSET_ENDS.fullmatch, (word.raw for word in command.words[1:])))
    ]
    if not starts or not facts.header.for_bash or facts.reads_more or facts.has("export"):
        return
    if re.search(r"set \+\w*u|\+o nounset", facts.text):
        return
    known = facts.set_names
    words = [(word, each) for each in facts.shell.uncaptured for word in each.words]
    slurms = {name[6:].replace("_", ""): name for name in _OF_SLURM}
    for word, command in words:
        for name in filter(str.isidentifier, word.names):
            if command.place.line <= starts[0] or name in known or f"{name}=" in facts.text:
                continue
            if _OF_SHELLS.fullmatch(name) or _COMES_WITH_A_SHELL.match(name):
                continue
            meant = slurms.get(name.replace("_", ""), "")
            if not meant and not (name.islower() and len(name) > 2):
                continue  # a site may set it
            raw = re.search(rf"(?<!\\)\$(\{{{name}\}}|{name}\b)", word.raw)
            if not raw or re.search("--export|qsub", facts.text):
                continue
            yield Violation(
                f"nothing here sets ${name}, and set -u ends the job here, unless the shell that "
                "submits has exported it",
                f"write ${meant}" if meant else f"set {name}, or write ${{{name}:-}}",
                place=word.place,
            )
            return


def _known_to(line: str) -> Iterator[str]:
    """The variables of Slurm's that a line sets, gives a default, or asks about."""
    if "SLURM_" not in line:
        return
    asks = re.search(r"(\[|test|-v) ", line)
    for match in re.finditer(r"(SLURM_\w*)(:?[-=+?])?", line):
        behind = asks is not None and asks.end() <= match.start()
        if match[2] or behind or ("((" in line and asks_for(match[1], line)):
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
        if name == "SLURM_MEM_PER_CPU" and facts.has("mem"):
            options = ("mem-per-cpu",)
        elif name == "SLURM_MEM_PER_NODE" and facts.has("mem-per-cpu", "mem-per-gpu"):
            options = ("mem",)
        if not name.startswith("SLURM_") or name in known:
            continue
        if options and _of_another_case(facts, place.line):
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
        near = name not in _OF_SLURM and close_matches(name, _OF_SLURM, n=1, cutoff=0.88)
        if near:
            yield Violation(
                f"${name} is empty here: Slurm sets no such variable",
                f"write ${near[0]}",
                place=place,
            )


_BRANCHES = re.compile(r"\s*(if|elif|else|fi)\b(.*)")


def _of_another_case(facts: ScriptFacts, number: int) -> bool:
    """Whether a line is in a branch that asks for a variable which the directives make Slurm set.

    Such as behind the ``else`` of ``[ $SLURM_MEM_PER_CPU -gt 0 ]``, which is never reached.
    """
    depth = 0
    for line in reversed(facts.lines[: number - 1]):
        found = _BRANCHES.match(line)
        if found is None or (found[1] == "if" and re.search(r"\bfi\b", found[2])):
            continue
        if found[1] in ("if", "fi"):
            depth += 1 if found[1] == "fi" else -1
        if depth < 0 or (depth == 0 and found[1] == "elif"):
            asked = re.findall(r"SLURM_\w+", found[2])
            if any(facts.has(*_MADE_BY.get(name, ())) for name in asked):
                return True
        depth = max(depth, 0)
    return False


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
    if not _OF_MPI.search(facts.text) or re.search(
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


_MOST_NAMES = 100
"""So many are compared with each other."""


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
    own = facts.name.rpartition("/")[2]
    name = re.escape(own)
    if not own or f"{own} " not in facts.text:
        return
    if not facts.header.for_bash or _READS_ARGUMENTS.search(facts.text):
        return
    if not all(map(only_sets_up, facts.shell.calls("source", "."))):
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
    if facts.reads_more or not facts.header.for_bash:
        return
    lines = [line.lstrip(" \t") for line in facts.lines]
    by_line = zip(lines, facts.set_by_line)
    known = {name for line, names in by_line if not line.startswith("#") for name in names}
    exported = facts.header.value("export") or ""
    off: Dict[str, int] = {}
    passed: Set[str] = set()
    remarks = ((number, line) for number, line in enumerate(lines, 1) if line.startswith("#"))
    for number, line in remarks:
        usage = re.match(r"#[ #]*((?:\w+=\S* +)+)sbatch\b", line)
        if usage is not None:
            passed.update(re.findall(r"(\w+)=", usage[1]))
            continue  # how this script is submitted
        match = _SWITCHED_OFF.match(line.lstrip(" \t#"))
        # Without an option that stands there, a program does what it does as a rule.
        option = match is not None and re.match("[\"']?-", line.lstrip(" \t#")[match.end() :])
        if match is not None and not option and not line.startswith("#SBATCH"):
            off[match[1] or match[2]] = number
    known |= passed
    for name, place in used.items():
        if _COMES_WITH_A_SHELL.match(name) or name in known or name in exported:
            continue
        if _OF_THE_GPUS.fullmatch(name) and facts.plan and facts.plan.gpus_per_node:
            continue  # Slurm sets it
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
            if inside or any(name in names for names in facts.set_by_line[: line - 1]):
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
    known = facts.set_names if idle else ()
    unknown = [name for name in used if not facts.shell.assigned(name)]
    like = {}
    for name in unknown[:_MOST_NAMES]:
        like.update(dict.fromkeys(_letter_left_out(name), name))
    like.update(("".join(sorted(name)), name) for name in unknown if len(name) > 4)
    for variable in facts.shell.assignments if not facts.reads_more else ():
        name = like.get(variable.name) or like.get("".join(sorted(variable.name)), "")
        if not name and unknown:
            name = next((one for one in _letter_left_out(variable.name) if one in unknown), "")
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


def _letter_left_out(name: str) -> Iterator[str]:
    """The name without one of its letters: of a short one, without an S at its end."""
    for at in range(1, len(name)):
        if (name[at].isalpha() and len(name) > 6) or (at + 1 == len(name) and name[at] in "sS"):
            yield name[:at] + name[at + 1 :]


_READ_BY_PROGRAMS = (
    *("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PYTHONPATH", "LD_LIBRARY_PATH"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "PYTORCH_CUDA_ALLOC_CONF"),
    *("NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SOCKET_IFNAME"),
    *("TOKENIZERS_PARALLELISM", "TRANSFORMERS_CACHE", "TRANSFORMERS_OFFLINE"),
    *("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "WANDB_API_KEY", "TORCH_DISTRIBUTED_DEBUG"),
)


def _like_a_known_one(facts: ScriptFacts) -> Iterator[Violation]:
    """``PYTHONBUFFERED``: almost the name of a variable that programs read."""
    for variable in facts.shell.assignments[:_MOST_NAMES]:
        name = variable.name
        if not variable.exported or name in _READ_BY_PROGRAMS or len(name) < 9:
            continue
        letters = {*name}
        alike = [each for each in _READ_BY_PROGRAMS if len(letters ^ {*each}) < 3]
        near = close_matches(name, alike, n=1, cutoff=0.92) if alike else ()
        if near and len(re.findall(rf"\b{name}\b", facts.text)) == 1:
            yield Violation(
                f"almost no program reads {name}, and many read {near[0]}",
                f"write {near[0]}, if it is meant",
                place=variable.place,
                severity=NOTE,
            )
            return


_OF_OPTIONS = re.compile(r"(?i)(.*_)?(args|flags|opts|options|params)")


def _used_by_nothing(facts: ScriptFacts) -> Iterator[Violation]:
    """Options, or an argument of the script, that are set and that no line uses."""
    times: Dict[str, int] = Counter()
    for line in facts.lines:
        if "$" in line or not line.lstrip().startswith("#"):
            times.update(re.findall(r"(?<![-\w])\w+", line))
    for variable in facts.shell.assignments:
        raw = variable.word.raw.strip("\"'( ")
        options = _OF_OPTIONS.fullmatch(variable.name) and raw.startswith("-")
        given = re.fullmatch(r"\$\{?[1-9]\}?", raw)
        alone = (
            times[variable.name] == 1
            and not variable.exported
            and variable.place.line > facts.last_read
        )
        if alone and (options or given) and variable.name not in "".join(facts.files.texts):
            yield Violation(
                f"nothing uses {variable.name}: no program gets it",
                f"pass ${variable.name} on, or remove the line",
                place=variable.place,
                severity=NOTE,
            )
            return


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
