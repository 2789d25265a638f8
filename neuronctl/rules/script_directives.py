"""NC601 to NC617: the directives of a script, and what only looks like one."""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Optional, Set, Tuple

from neuronctl.common import units
from neuronctl.common.frozen import dataclass
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted, duration
from neuronctl.request.job import OF_SLURM
from neuronctl.request.sbatch_options import SBATCH, is_of_a_plugin
from neuronctl.request.values import node_count
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.as_request import GPU_OPTIONS
from neuronctl.scripts.directive_words import BLANKS
from neuronctl.scripts.launches import PROGRAM, PYTHON
from neuronctl.scripts.look_alike_characters import (
    FREE_TEXT,
    LIKE_A_SPACE,
    LIKE_NOTHING,
    look_alike,
)
from neuronctl.scripts.model import (
    AFTER_COMMAND,
    COMMAND_LINE,
    CUT,
    MISSPELLED,
    OVERRIDDEN,
    REMARK,
    SCRIPT,
    Edit,
    GivenOption,
    Header,
    Ignored,
    SourceSpan,
)
from neuronctl.scripts.values import digits


@script_rule(ERROR, "NC601", "directive that sbatch refuses")
def refused_directive(facts: ScriptFacts) -> Iterator[Violation]:
    for refusal in facts.header.refusals:
        if not refusal.whole:
            place = refusal.place if refusal.place.line else facts.top
            message = f"sbatch refuses the script: {refusal.message}"
            yield Violation(message, refusal.hint, place=place, edits=refusal.edits)
    yield from _odd_gpus(facts)
    told = {refusal.place.line for refusal in facts.header.refusals}
    array = facts.given("array")
    # NC606 has its say of a variable.
    if array is not None and array.place.line not in told and "$" not in (array.value or ""):
        # Slurm forgives brackets and an empty item, and reads of what follows % what it can.
        items = re.sub(r"%.*|[\[\]]", "", array.value or "").split(",")
        try:
            units.check_array(",".join(filter(None, items)))
        except ValueError as error:
            yield Violation(
                f"Slurm refuses the job: --array: {error}",
                "write 0-9, 0-9:2, or 1,3,5; 0-9%2 runs two at a time",
                place=array.place,
            )
    for name in _OF_NAMES:
        given = facts.given(name)
        odd = re.search("[;|&]", given.value or "") if given is not None else None
        if given is not None and odd and given.place.line not in told:
            yield Violation(
                f"no {name} has '{odd[0]}' in its name: Slurm refuses the job",
                "write one of them" + (", or several with commas" if name == "partition" else ""),
                place=given.value_place,
                severity=WARNING,
            )
    here = facts.known_options
    for given in facts.header.given:
        if not is_of_a_plugin(given.name) or given.source != SCRIPT or given.name in here:
            continue
        if given.name in ("image", "module", "volume") and re.search(r"\bshifter\b", facts.text):
            continue
        without = "" if here else " unless one of the site's plugins adds it"
        yield Violation(
            f"sbatch has no option '--{given.name}' of its own, and refuses the script{without}",
            "'sbatch --help' lists the options of plugins, too",
            place=given.place,
            severity=None if here else WARNING,
        )


_OF_NAMES = ("account", "partition", "qos", "reservation", "gres")
_ODD_GRES = re.compile(
    r"gpu(=[^0-9].*|:|:[^:]+:|:[0-9]+:[^0-9].*|:[^:]+:[0-9]+:.*|[0-9]+|/.*)|(?!gpu\b)gpus?\b.*",
    re.IGNORECASE,
)
_ODD_COUNT = re.compile(r"gpu[:=].*|[0-9]+:.+", re.IGNORECASE)


def _odd_gpus(facts: ScriptFacts) -> Iterator[Violation]:
    """``--gres=gpu=2``, and what no release of Slurm takes (tried with 22.05, 24.11, and 26.05)."""
    for name in (*GPU_OPTIONS, "gpus-per-task"):
        given = facts.given(name)
        if given is None or not given.value:
            continue
        value, place = given.value, given.value_place
        count = re.fullmatch("gpu=([0-9]+)", value) if name == "gres" else None
        if count is not None:
            at = facts.lines[place.line - 1].find("gpu=", place.column - 1, place.end)
            yield Violation(
                f"sbatch refuses '{value}' before Slurm 24.11",
                f"write gpu:{count[1]}",
                place=place,
                severity=WARNING,
                edits=(Edit(SourceSpan(place.line, at + 4, at + 5), ":"),) if at >= 0 else (),
            )
        elif name == "gres" and value.startswith("gres:"):
            yield Violation(
                f"Slurm 24.11 refuses '{value}', which 22.05 takes",
                f"write {value[5:]}",
                place=place,
                severity=WARNING,
            )
        elif name == "gres" and any(map(_ODD_GRES.fullmatch, value.split(","))):
            yield Violation(
                f"Slurm refuses --gres={value}", "write gpu:N, or gpu:TYPE:N", place=place
            )
        elif name != "gres" and _ODD_COUNT.fullmatch(value):
            yield Violation(f"Slurm refuses --{name}={value}", "write N, or TYPE:N", place=place)


@script_rule(ERROR, "NC602", "file that sbatch does not take for a batch script")
def refused_file(facts: ScriptFacts) -> Iterator[Violation]:
    # Without any directive, it may be a part of a script that others read.
    shell = facts.text.lstrip("\ufeff").startswith("#!")
    is_text = facts.text.strip(BLANKS) and "\0" not in facts.text
    unsure = is_text and not shell and not facts.header.given
    for refusal in facts.header.refusals:
        if refusal.whole:
            message = f"sbatch refuses the script: {refusal.message}"
            severity = WARNING if unsure else ERROR
            yield Violation(
                message, refusal.hint, place=refusal.place, severity=severity, edits=refusal.edits
            )


def _ignored(facts: ScriptFacts, reason: str) -> Iterator[Ignored]:
    return (ignored for ignored in facts.header.ignored if ignored.reason == reason)


@script_rule(WARNING, "NC603", "directive after the first command")
def late_directive(facts: ScriptFacts) -> Iterator[Violation]:
    if any(refusal.whole for refusal in facts.header.refusals):
        return  # NC602 says why
    # Others are text of a here-document.
    late = [
        ignored
        for ignored in _ignored(facts, AFTER_COMMAND)
        if ignored.place.line in facts.shell.comments
    ]
    lines = list(dict.fromkeys(ignored.place.line for ignored in late))
    for ignored in late[:1]:
        which = "this line"
        if len(lines) > 1:
            which += f" and {counted(len(lines) - 1, 'more line')}, up to line {lines[-1]}"
        yield Violation(
            f"sbatch ignores {which}: it stops at line {facts.header.first_command}, the first one "
            "that is neither blank nor a comment",
            f"move {'it' if len(lines) == 1 else 'them'} above line {facts.header.first_command}",
            place=ignored.place,
        )


@script_rule(WARNING, "NC604", "line or remark that only looks like a directive")
def like_a_directive(facts: ScriptFacts) -> Iterator[Violation]:
    remarks = 0
    for ignored in _ignored(facts, MISSPELLED):
        name, _, options = ignored.text.lstrip("# \t").partition(" ")
        if name == "sbatch" and re.search(
            r"\s[\w./-]+\.(sh|bash|sbatch|slurm|job)\b|\\$", options.rstrip()
        ):
            continue  # how this script is submitted
        severity = WARNING
        if ignored.text.startswith("#--"):
            remarks += 1
            if (
                remarks == 1
                and facts.header.given
                and not _has_option(facts, re.split("[= ]", ignored.text[1:])[0])
            ):
                yield Violation(
                    "sbatch ignores this line: it is a remark",
                    _instead(ignored.text[1:], "; or remove it"),
                    place=ignored.place,
                    severity=NOTE,
                )
            continue
        if ignored.text.startswith("SBATCH"):
            yield Violation(
                "bash takes this for a command, and sbatch reads no directive behind it",
                _instead(options),
                place=ignored.place,
            )
            continue
        if ignored.text.startswith(("# ", "#\t")):
            # Many switch a directive off in this way, and give another one.
            given = re.match("-(-[a-z-]+|[A-Za-z])", options.strip())
            remarks += 1
            if remarks > 1 or (given and _has_option(facts, given[0])):
                continue
            severity = NOTE if facts.header.given else WARNING
        yield Violation(
            "sbatch ignores this line: a directive begins with #SBATCH in the first column",
            _instead(options, f"; or ##{name} to switch it off"),
            place=ignored.place,
            severity=severity,
        )
    for ignored in _ignored(facts, REMARK):
        if ignored.text.startswith("#SBATCH"):  # of ##SBATCH, the writer knows it
            yield Violation(
                f"sbatch ignores '{ignored.text}': for it, a # ends the line",
                "write every #SBATCH on a line of its own",
                place=ignored.place,
            )
    for ignored in _ignored(facts, CUT):
        yield Violation(
            f"sbatch ignores '{ignored.text}': the empty word before it ends the line",
            "remove the empty quotes or the backslash",
            place=ignored.place,
        )


def _instead(options: str, otherwise: str = "") -> str:
    """What to type for options that stand behind another word than #SBATCH."""
    first = re.match(r"--([a-z-]+)|-([A-Za-z])", options.strip())
    known = first is None or any(
        option.long.startswith(first[1]) if first[1] else option.short == first[2]
        for option in SBATCH
    )
    if first is not None and not known:
        return f"remove it, or say it with an option of sbatch's, which has no {first[0]}"
    return f"write #SBATCH {options.strip()}{otherwise}"


def _has_option(facts: ScriptFacts, spelled: str) -> bool:
    """Whether a directive gives an option of this name: ``--nodes``, ``-N``."""
    names = (
        option.name for option in SBATCH if spelled in (f"--{option.long}", f"-{option.short}")
    )
    return facts.has(*names)


@script_rule(WARNING, "NC605", "directive that is overridden")
def overridden(facts: ScriptFacts) -> Iterator[Violation]:
    for ignored in _ignored(facts, OVERRIDDEN):
        later = ignored.instead
        if later is None or later.text == ignored.text:
            continue
        if later.place.line:
            by = f"line {later.place.line} overrides it with {later.text}"
            hint = "keep one of the two"
        elif later.source != COMMAND_LINE:
            by = f"{later.source} in your environment overrides it with {later.text}"
            hint = f"unset {later.source}"
        else:
            continue  # the command line, on purpose
        yield Violation(f"{ignored.text} has no effect: {by}", hint, place=ignored.place)


_VARIABLE = re.compile(r"\$(?:\{\w+|\w+|\()")
_PATTERNS = {"USER": "%u", "LOGNAME": "%u", "SLURM_JOB_ID": "%j", "SLURM_JOBID": "%j",
             "SLURM_JOB_NAME": "%x", "SLURM_ARRAY_TASK_ID": "%a",
             "SLURM_ARRAY_JOB_ID": "%A"}  # fmt: skip


def _with_patterns(facts: ScriptFacts, given: GivenOption) -> Tuple[Edit, ...]:
    """Slurm's patterns for the variables in a log's name that have one."""
    place = given.value_place
    found = []
    # A backslash switches the patterns off.
    raw = "" if "\\" in (given.value or "") else facts.lines[place.line - 1][: place.end - 1]
    for match in re.compile(r"\\?\$(?:(\w+)|\{(\w+)\})").finditer(raw, place.column - 1):
        name = match[1] or match[2]
        if name in _PATTERNS and ("ARRAY" not in name or facts.has("array")):
            where = SourceSpan(place.line, match.start() + 1, match.end() + 1)
            found.append(Edit(where, _PATTERNS[name]))
    return tuple(found)


_REFUSED_WITH_A_VARIABLE = ("partition", "qos", "gres", *GPU_OPTIONS)


@script_rule(WARNING, "NC606", "text that sbatch takes as it is")
def variable(facts: ScriptFacts) -> Iterator[Violation]:
    for option in facts.header.options.values():
        value = option.value or ""
        log = option.name in ("output", "error") and option.place.line
        if log and (value.startswith("~") or value.endswith("/")):
            why = "a directory, and no file" if value.endswith("/") else "no path: ~ stays as it is"
            yield Violation(
                f"--{option.name}={value} is {why}; the job fails at its start, without a log",
                f"write {value}%x-%j.log" if value.endswith("/") else "write the path itself",
                place=option.value_place,
                severity=ERROR,
            )
            continue
        found = _VARIABLE.search(value)
        if found is None or not option.place.line or option.name in ("wrap", "export"):
            continue
        name = re.sub(r"\W", "", found[0])
        shown = found[0] + "}" * found[0].startswith("${")
        message = f"sbatch does not expand variables: {shown} stays as it is in --{option.name}"
        severity, hint = WARNING, "write the value itself"
        # Of what follows %, Slurm reads what it can.
        index = option.name == "array" and found.start() < len(value.partition("%")[0])
        if option.name in _REFUSED_WITH_A_VARIABLE or index:
            severity, message = ERROR, f"{message}, and Slurm refuses the job"
        elif option.name == "gpus-per-task":
            message += ", and Slurm 22.05 refuses the job"
        edits: Tuple[Edit, ...] = ()
        if option.name in ("output", "error"):
            pattern = _PATTERNS.get(name)
            hint = f"write {pattern} for it" if pattern else "write the path itself"
            edits = _with_patterns(facts, option)
            if "/" in value[found.start() :]:
                severity = ERROR
                message += ", and a directory of that name does not exist: the job fails at its "
                message += "start, without a log"
        yield Violation(message, hint, place=option.value_place, severity=severity, edits=edits)


@script_rule(WARNING, "NC608", "directives of another scheduler")
def foreign(facts: ScriptFacts) -> Iterator[Violation]:
    for place in facts.header.foreign[:1]:
        count = len(facts.header.foreign)
        kind = facts.lines[place.line - 1].split()[0]
        yield Violation(
            f"sbatch translates {kind} lines ({count} here), also those after the first command, "
            "and they override #SBATCH; this job's resources are not judged",
            "write them as #SBATCH lines, or add #SBATCH --ignore-pbs",
            place=place,
        )


@script_rule(WARNING, "NC611", "tasks that contradict nodes")
def tasks_and_nodes(facts: ScriptFacts) -> Iterator[Violation]:
    tasks, nodes = facts.header.value("ntasks"), facts.header.value("nodes")
    each, given = facts.header.value("ntasks-per-node"), facts.given("ntasks")
    count, width, most = digits(tasks), digits(nodes), digits(each)
    if given is None or count is None or facts.plan is None:
        return
    if width is not None and count < width:
        yield Violation(
            f"{counted(count, 'task')} on {nodes} nodes: sbatch reduces the job to "
            f"{counted(count, 'node')}, with a warning that few people see",
            f"request --nodes={count}, or --ntasks={nodes}",
            place=given.place,
        )
    elif most is not None:
        most *= 1 if width is None else width
        own = [run.kind for run in facts.every_launch if run.launcher.starts_processes()]
        if count < most:
            yield Violation(
                f"--ntasks={count} wins over --ntasks-per-node={each}: "
                f"{counted(count, 'task')} in all, and not {most}",
                f"remove --ntasks-per-node: {own[0]} starts its processes itself"
                if own
                else f"remove one of the two, or write --ntasks={most}",
                place=given.place,
            )


_LEAST_MB = 32
"""Of memory, in which hardly a program starts."""


_HEAVY = ("Rscript", "R", "matlab", "julia", "java", "singularity", "apptainer", "conda")
"""Programs that need more than 100 MB to begin with."""


def _heavy(facts: ScriptFacts) -> Optional[str]:
    """A program of the script's that surely needs more memory than a small one."""
    for run in facts.every_launch:
        if run.kind == PYTHON and not run.command.captured:
            return "Python with its packages"
        if run.name in _HEAVY:
            return run.name
    return None


@script_rule(WARNING, "NC612", "time or memory in another unit")
def minutes(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    gpus = plan is not None and plan.gpus_per_node > 0
    for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
        least, who = (1000, "a program that uses a GPU") if gpus else (_LEAST_MB, "a program")
        heavy = None if gpus or name != "mem" else _heavy(facts)
        if heavy is not None:
            least, who = 100, heavy
        given, cores = facts.given(name), 1
        count = digits(given.value) if given is not None else None
        if plan is not None and name == "mem-per-cpu":
            cores = plan.cpus_per_task if gpus else plan.cores_per_node
        few = name == "mem" and not gpus and _LEAST_MB <= (count or 0) <= 64
        if given is not None and count and (count * cores < least or few):
            yield Violation(
                f"--{name}={count} is {count} MB: {who} needs more",
                f"if GB are meant, write {count}G",
                place=given.place,
                severity=NOTE if count * cores >= least else None,
            )
    given = facts.given("time")
    if given is None:
        return
    if re.fullmatch(r"0*:0*:0*[1-5]?[0-9]", given.value or "") and re.search(
        "[1-9]", given.value or ""
    ):
        yield Violation(
            f"--time={given.value} is {duration(units.parse_duration(given.value or ''))}, which "
            "Slurm takes for 1 minute",
            "write 5 for minutes, or 5:00:00 for hours",
            place=given.place,
        )
    elif re.fullmatch(r"0+(-0+)?(:0+)*", given.value or ""):
        if plan is not None and plan.partition.wall_time.maximum is not None:
            return  # NC141 has its say
        yield Violation(
            f"--time={given.value} asks for no limit: where the partition has one, Slurm refuses "
            "the job, or never starts it",
            "write how long it may take, or remove the line",
            place=given.place,
            severity=NOTE,
        )
    else:
        yield from _too_short(facts, given)
    if not re.fullmatch(r"[0-9]+:[0-9]+", given.value or ""):
        return
    seconds = units.parse_duration(given.value or "")
    if re.fullmatch("(10|15|20|30|45):00", given.value or ""):
        return  # as people count minutes
    # Half a day, a day, or as a clock shows it: few people mean minutes.
    like_hours = (seconds % (12 * 60) == 0 and seconds < 4 * 3600) or (
        given.value or ""
    ).startswith("0")
    yield Violation(
        f"--time={given.value} is minutes and seconds: {duration(seconds)}",
        f"if hours are meant, write {given.value}:00; if not, 0:{given.value}",
        place=given.place,
        severity=WARNING if like_hours else NOTE,
    )


_TRAINS = re.compile(
    r"(?i)(.*[_\W])?(pre_?|fine_?)?(train|tun|fit)(ing|e|er)?([_\d\W].*)?|nnUNet.*"
)
_TRIES = re.compile(
    r"(?i).*(test|hello|check|debug|dry|info|version|help|bench|smoke|tiny|sanity|profil|example|demo)"
)


def _too_short(facts: ScriptFacts, given: GivenOption) -> Iterator[Violation]:
    """A limit of a minute for a training or a build, which takes as long to start."""
    try:
        seconds = units.parse_duration(given.value or "")
    except ValueError:
        return
    tries = [facts.header.value(name) or "" for name in ("job-name", "partition", "qos")]
    # As days and nights have hours, and few people count minutes.
    hours = re.fullmatch("24|36|48|72|96|168", given.value or "")
    alone = re.fullmatch("[1-4]", given.value or "")
    if not (0 < seconds <= 120 or alone or hours) or any(map(_TRIES.match, tries)):
        return
    builds = [
        command
        for command in facts.shell.calls("make", "cmake", "pip", "conda", "mamba")
        if command.sure and command.arguments[:1] not in (("activate",), ("list",), ("info",))
    ]
    for command in builds[:1] if seconds == 60 else ():
        yield Violation(
            f"--time={given.value} is {duration(seconds)}: {command.name} hardly ends in it",
            "write what it needs: 5:00:00 for hours",
            place=given.place,
        )
        return
    for run in facts.every_launch:
        words = [word.text for word in run.own_words if not run.is_launcher]
        name = (run.options.get("script") or run.options.get("m") or run.name).rpartition("/")[2][
            -99:
        ]
        if run.command.captured or not _TRAINS.fullmatch(name) or any(map(_TRIES.match, words)):
            continue
        unit = f"{given.value}:00:00" if hours or alone else "5:00:00"
        yield Violation(
            f"--time={given.value} is minutes, {duration(seconds)} for {name}"
            if hours
            else f"--time={given.value} is {duration(seconds)}: {name} hardly starts in it",
            f"if hours are meant, write {unit}"
            if hours or alone
            else f"write what it needs: {unit} for hours",
            place=given.place,
            severity=NOTE if seconds > 60 and not (hours or alone) else None,
        )
        return


@script_rule(WARNING, "NC613", "--export that loses variables")
def export(facts: ScriptFacts) -> Iterator[Violation]:
    given = facts.given("export")
    if given is None:
        return
    items = (given.value or "").split(",")
    for before, item in zip(items, items[1:]):
        if "=" in before and not re.fullmatch(r"[A-Z_][A-Z0-9_]*(=.*)?|\w+=.*", item):
            yield Violation(
                f"--export ends the value of {before.partition('=')[0]} at its comma, before "
                f"'{item}'",
                f"set it within the script: export {before},{item}",
                place=given.value_place,
            )
    words = {item.upper() for item in items}
    if "ALL" in words:
        return
    cleared = not words.isdisjoint(("NONE", "NIL"))
    # SLURM_EXPORT_ENV, which sbatch sets then, holds for each srun.
    bare = [launch for launch in facts.launches if launch.is_srun and not launch.has("export")]
    if bare and "SLURM_EXPORT_ENV" not in facts.text:
        path = "" if "PATH" in {item.partition("=")[0] for item in items} else ", not even PATH"
        yield Violation(
            f"--export={given.value} also applies to every srun: its program gets none of the "
            f"{'' if cleared else 'other '}variables that this script sets{path}",
            "write unset SLURM_EXPORT_ENV before the first srun, or srun --export=ALL"
            if cleared
            else f"write --export=ALL,{given.value}, or set them within the script",
            place=given.value_place,
        )
    elif not cleared:
        yield Violation(
            f"without ALL, --export={given.value} keeps all other variables of the shell that you "
            "submit from out of the job, which starts with those of a new login",
            f"write --export=ALL,{given.value}, or set them within the script",
            place=given.value_place,
        )


@script_rule(WARNING, "NC614", "GPUs hidden from the other tasks")
def hidden_gpus(facts: ScriptFacts) -> Iterator[Violation]:
    given = facts.given("gpus-per-task")
    plan = facts.plan
    # NCCL is what Python's programs use; whoever binds tasks to GPUs has chosen.
    # Only srun binds tasks to GPUs.
    programs = [
        start.launch
        for start in facts.starts
        if any(outer.is_srun for outer in start.outer)
        and start.each != 1  # several tasks of a node
        and (not start.launch.is_launcher or start.launch.launcher.starts_processes())
    ]
    if facts.has("gpu-bind") or all(
        program.kind == PROGRAM and program.certain for program in programs
    ):
        return
    some = facts.header.count("gpus-per-task") != 0
    if given is not None and some and plan is not None and plan.ntasks_per_node > 1:
        yield Violation(
            "--gpus-per-task hides the other GPUs of the node from each task, and NCCL then copies "
            "through the host's memory, or fails",
            "request GPUs per node: --gpus-per-node=N",
            place=given.place,
        )


@script_rule(WARNING, "NC615", "character that only looks like another")
def character(facts: ScriptFacts) -> Iterator[Violation]:
    refused = {refusal.place.line for refusal in facts.header.refusals}
    looked_at: Set[int] = set()
    for option in facts.header.given:
        if option.source != SCRIPT or option.place.line in refused:
            continue
        number = option.value_place.line
        found = look_alike(option, facts.lines[number - 1], mend=number not in looked_at)
        if found is not None:
            what, place, edits = found
            looked_at.update(() if option.name in FREE_TEXT else (number,))
            yield Violation(
                f"the value of --{option.name} has {what}, which sbatch takes as it is",
                "retype the value",
                place=place,
                edits=edits,
            )
    yield from _in_commands(facts)


def _in_commands(facts: ScriptFacts) -> Iterator[Violation]:
    """What a word processor, or a web page, has made of a command."""
    if facts.text.isascii() or not facts.header.for_bash:
        return
    for command in facts.shell.commands:
        for word in command.words if command.name not in ("echo", "printf") else ():
            raw = "" if word.raw[:1] in ("'", '"') else word.raw
            odd = re.search(
                rf"[{LIKE_A_SPACE}{LIKE_NOTHING}]", word.raw if "${" in word.raw else raw
            )
            dash = re.match("(?=-*[–—−])[-–—−]+[A-Za-z]", raw)
            curly = re.match("[“”‘’]", raw)
            if odd or dash or curly:
                sign = (odd or curly or re.search("[–—−]", raw) or [" "])[0]
                yield Violation(
                    f"{command.words[0].raw if word is not command.words[0] else 'this command'} "
                    f"has U+{ord(sign):04X}, which only looks like another character",
                    "retype the word",
                    place=word.place,
                )
                return
    for number, line in enumerate(facts.lines, 1):
        odd = re.search(rf"\$\{{[^}}]{{0,200}}[{LIKE_A_SPACE}{LIKE_NOTHING}]", line)
        if odd and not line.lstrip().startswith("#"):
            yield Violation(
                f"bash stops at this: U+{ord(odd[0][-1]):04X} within braces is no part of a name",
                "retype the line",
                place=SourceSpan(number, odd.start() + 1, odd.end() + 1),
            )
            return


@dataclass(frozen=True)
class _Gpus:
    """What one option says of GPUs. typed: whether it names their type."""

    given: GivenOption
    typed: bool
    count: int

    @property
    def text(self) -> str:
        return self.given.text


def _gpus_of(facts: ScriptFacts, name: str) -> Optional[_Gpus]:
    """None where it asks for none, or neuronctl has no words for what it asks for."""
    given = facts.header.options.get(name)
    if given is None or given.value is None:
        return None
    option = OF_SLURM[name if name in GPU_OPTIONS else "gpus-per-node"]
    read = option.parse_directive(given.value) or {}
    count = read.get("gpus") or read.get("gpus_per_node")
    return _Gpus(given, "gpu_type" in read, count) if count else None


@script_rule(WARNING, "NC616", "GPUs said twice")
def gpus_said_twice(facts: ScriptFacts) -> Iterator[Violation]:
    """As Slurm 22.05 and 26.05 judge jobs with several of these options (tried there)."""
    names = ("gres", "gpus-per-node", "gpus", "gpus-per-task")
    said = {name: found for name in names for found in [_gpus_of(facts, name)] if found is not None}
    if len(said) < 2 or facts.header.unread & {"nodes", "ntasks", *names}:
        return

    def told(message: str, hint: str, *about: str, severity: str = ERROR) -> Violation:
        places = (said[name].given.place for name in about or said)
        last = max(places, key=lambda place: place.line)
        return Violation(message, hint, place=last if last.line else facts.top, severity=severity)

    keep = "keep one of them, such as --gpus-per-node=N"
    if len({request.typed for request in said.values()}) > 1:
        texts = " and ".join(request.text for request in said.values())
        message = f"{texts}: Slurm refuses GPUs with a type beside GPUs without one"
        hint = "write the type in each of them, or keep one of them"
        yield told(message, hint)
        return
    total, against = said.get("gpus"), _against_total(facts.header, said)
    if total is not None and against:
        message = f"{total.text} contradicts {against}: Slurm refuses the job"
        yield told(message, keep)
    elif "gres" in said and "gpus-per-node" in said:
        gres, other = said["gres"].text, said["gpus-per-node"].text
        message = f"{gres} wins over {other}; sbatch 26.05 refuses the two together"
        yield told(message, keep, "gres", "gpus-per-node", severity=WARNING)


def _against_total(header: Header, said: Mapping[str, _Gpus]) -> str:
    """What --gpus contradicts, for how many nodes or tasks; "" where it contradicts nothing."""
    total, per_task = said.get("gpus"), said.get("gpus-per-task")
    per_node = said.get("gres") or said.get("gpus-per-node")
    nodes, ntasks = header.value("nodes"), digits(header.value("ntasks"))
    if total is None:
        return ""
    if per_node is not None:
        least, most = node_count(nodes) if nodes else (0, 0)
        if most:
            most = min(most, ntasks or most)  # sbatch leaves no node without a task
        else:  # also with -N 0, the two say the number, which may be larger than that of the tasks
            least, most = 1, total.count
        needed, rest = divmod(total.count, per_node.count)
        if rest == 0 and min(least, most) <= needed <= most:
            return ""
        several = counted(most, "node") if least >= most else f"{least} to {most} nodes"
        return per_node.text + (f" on {several}" if nodes or ntasks else "")
    if per_task is not None and ntasks and total.count != per_task.count * ntasks:
        return f"{per_task.text} for {counted(ntasks, 'task')}"
    return ""
