"""NC601 to NC616: the directives of a script, and what only looks like one."""

from __future__ import annotations

import re
from functools import partial
from typing import Iterator, Mapping, Optional, Set, Tuple

from neuronctl import units
from neuronctl.batchscript.as_request import GPU_OPTIONS, gpu_fields
from neuronctl.batchscript.directive_words import BLANKS
from neuronctl.batchscript.launches import MPIRUN, PROGRAM, SRUN_KIND
from neuronctl.batchscript.look_alikes import FREE_TEXT, look_alike
from neuronctl.batchscript.model import (
    AFTER_COMMAND,
    COMMAND_LINE,
    CUT,
    EARLY_ONLY,
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
from neuronctl.batchscript.values import digits, node_count
from neuronctl.frozen import dataclass
from neuronctl.rule_codes import ERROR, NOTE, WARNING
from neuronctl.rules.script_base import ScriptFacts, ScriptViolation, script_rule
from neuronctl.sbatch_options import is_of_a_plugin
from neuronctl.words import counted, duration


@script_rule("NC601")
def refused_directive(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    for one in facts.header.refusals:
        if not one.whole:
            place = one.place if one.place.line else facts.top
            message = f"sbatch refuses the script: {one.message}"
            yield ScriptViolation(message, place, one.hint, edits=one.edits)
    told = {one.place.line for one in facts.header.refusals}
    array = facts.given("array")
    if array is not None and array.place.line not in told:
        # Slurm forgives brackets and an empty item, and reads of what follows % what it can.
        items = re.sub(r"%.*|[\[\]]", "", array.value or "").split(",")
        try:
            units.check_array(",".join(filter(None, items)))
        except ValueError as error:
            yield ScriptViolation(
                f"Slurm refuses the job: --array: {error}",
                array.place,
                "write 0-9, 0-9:2, or 1,3,5; 0-9%2 runs two at a time",
            )
    here = facts.known_options
    for given in facts.header.given:
        if not is_of_a_plugin(given.name) or given.source != SCRIPT or given.name in here:
            continue
        without = "" if here else " unless one of the site's plugins adds it"
        yield ScriptViolation(
            f"sbatch has no option '--{given.name}' of its own, and refuses the script{without}",
            given.place,
            "'sbatch --help' lists the options of plugins, too",
            None if here else WARNING,
        )


@script_rule("NC602")
def refused_file(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    # Without any directive, it may be a part of a script that others read.
    shell = facts.text.lstrip("\ufeff").startswith("#!")
    is_text = facts.text.strip(BLANKS) and "\0" not in facts.text
    unsure = is_text and not shell and not facts.header.given
    for one in facts.header.refusals:
        if one.whole:
            message = f"sbatch refuses the script: {one.message}"
            severity = WARNING if unsure else ERROR
            yield ScriptViolation(message, one.place, one.hint, severity, one.edits)


def _ignored(facts: ScriptFacts, reason: str) -> Iterator[Ignored]:
    return (one for one in facts.header.ignored if one.reason == reason)


@script_rule("NC603")
def late_directive(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    for one in _ignored(facts, AFTER_COMMAND):
        if one.place.line in facts.shell.comments:  # else it is text of a here-document
            yield ScriptViolation(
                f"sbatch ignores this line: it stops at line {facts.header.first_command}, the "
                "first one that is neither blank nor a comment",
                one.place,
                f"move it above line {facts.header.first_command}",
            )


@script_rule("NC604")
def like_a_directive(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    for one in _ignored(facts, MISSPELLED):
        yield ScriptViolation(
            "sbatch ignores this line: a directive begins with #SBATCH in the first column",
            one.place,
            f"write {re.sub('(?i)#sbatch', '#SBATCH', one.text, count=1)}; or ##SBATCH to switch "
            "it off",
        )
    for one in _ignored(facts, REMARK):
        if one.text.startswith("#SBATCH"):  # of ##SBATCH, the writer knows it
            yield ScriptViolation(
                f"sbatch ignores '{one.text}': for it, a # ends the line",
                one.place,
                "write every #SBATCH on a line of its own",
            )
    for one in _ignored(facts, CUT):
        yield ScriptViolation(
            f"sbatch ignores '{one.text}': the empty word before it ends the line",
            one.place,
            "remove the empty quotes or the backslash",
        )


@script_rule("NC605")
def overridden(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    for one in _ignored(facts, OVERRIDDEN):
        later = one.instead
        if later is None or later.text == one.text:
            continue
        if later.place.line:
            by = f"line {later.place.line} overrides it with {later.text}"
            hint = "keep one of the two"
        elif later.source != COMMAND_LINE:
            by = f"{later.source} in your environment overrides it with {later.text}"
            hint = f"unset {later.source}"
        else:
            continue  # the command line, on purpose
        yield ScriptViolation(f"{one.text} has no effect: {by}", one.place, hint)


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


@script_rule("NC606")
def variable(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    for one in facts.header.options.values():
        value = one.value or ""
        found = _VARIABLE.search(value)
        if found is None or not one.place.line or one.name in ("wrap", "export"):
            continue
        name = re.sub(r"\W", "", found[0])
        shown = found[0] + "}" * found[0].startswith("${")
        message = f"sbatch does not expand variables: {shown} stays as it is in --{one.name}"
        severity, hint = WARNING, "write the value itself"
        edits: Tuple[Edit, ...] = ()
        if one.name in ("output", "error"):
            pattern = _PATTERNS.get(name)
            hint = f"write {pattern} for it" if pattern else "write the path itself"
            edits = _with_patterns(facts, one)
            if "/" in value[found.start() :]:
                severity = ERROR
                message += ", and a directory of that name does not exist: the job fails at its "
                message += "start, without a log"
        yield ScriptViolation(message, one.value_place, hint, severity, edits)


@script_rule("NC607")
def early(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    for one in _ignored(facts, EARLY_ONLY):
        yield ScriptViolation(
            f"{one.text} has no effect here: sbatch reads it on its command line only",
            one.place,
            "remove it, or give it to sbatch",
        )


@script_rule("NC608")
def foreign(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    for place in facts.header.foreign[:1]:
        count = len(facts.header.foreign)
        kind = facts.lines[place.line - 1].split()[0]
        yield ScriptViolation(
            f"sbatch translates {kind} lines ({count} here), also those after the first command, "
            "and they override #SBATCH; this job's resources are not judged",
            place,
            "write them as #SBATCH lines, or add #SBATCH --ignore-pbs",
        )


@script_rule("NC609")
def components(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    if facts.header.components > 1:
        separators = (
            SourceSpan(number, 1, len(line) + 1)
            for number, line in enumerate(facts.lines, 1)
            if re.match("(?i)#SBATCH.*(het|pack)job", line)
        )
        yield ScriptViolation(
            f"a heterogeneous job of {facts.header.components} components, which are not judged as "
            "a job",
            next(separators, facts.top),  # they may be on the command line
        )


@script_rule("NC610")
def merge(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    if facts.unmerged:
        number, last = facts.unmerged
        effect = ""
        if number == facts.header.first_command:
            effect = "; sbatch reads no directive after this line"
        yield ScriptViolation(
            f"the file has an unresolved merge, which bash does not read{effect}",
            SourceSpan(number, 1, len(facts.lines[number - 1]) + 1),
            f"choose one of the two sides, from here to line {last}",
        )


@script_rule("NC611")
def tasks_and_nodes(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    tasks, nodes = facts.header.value("ntasks"), facts.header.value("nodes")
    each, given = facts.header.value("ntasks-per-node"), facts.given("ntasks")
    count, width, most = digits(tasks), digits(nodes), digits(each)
    if given is None or count is None or facts.plan is None:
        return
    if width is not None and count < width:
        yield ScriptViolation(
            f"{counted(count, 'task')} on {nodes} nodes: sbatch reduces the job to "
            f"{counted(count, 'node')}, with a warning that few people see",
            given.place,
            f"request --nodes={count}, or --ntasks={nodes}",
        )
    elif most is not None:
        most *= 1 if width is None else width
        if count < most:
            yield ScriptViolation(
                f"--ntasks={count} wins over --ntasks-per-node={each}: "
                f"{counted(count, 'task')} in all, and not {most}",
                given.place,
                f"remove one of the two, or write --ntasks={most}",
            )


@script_rule("NC612")
def minutes(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    given = facts.given("time")
    if given is None or not re.fullmatch(r"[0-9]+:[0-9]+", given.value or ""):
        return
    seconds = units.parse_duration(given.value or "")
    # Half a day, a day, or as a clock shows it: few people mean minutes.
    like_hours = seconds % (12 * 60) == 0 or (given.value or "").startswith("0")
    yield ScriptViolation(
        f"--time={given.value} is minutes and seconds: {duration(seconds)}",
        given.place,
        f"if hours are meant, write {given.value}:00; if not, 0:{given.value}",
        WARNING if like_hours else NOTE,
    )


@script_rule("NC613")
def export(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    given = facts.given("export")
    if given is None:
        return
    items = (given.value or "").split(",")
    for before, item in zip(items, items[1:]):
        if "=" in before and not re.fullmatch(r"[A-Z_][A-Z0-9_]*(=.*)?|\w+=.*", item):
            yield ScriptViolation(
                f"--export ends the value of {before.partition('=')[0]} at its comma, before "
                f"'{item}'",
                given.value_place,
                f"set it within the script: export {before},{item}",
            )
    words = {one.upper() for one in items}
    if "ALL" in words:
        return
    cleared = not words.isdisjoint(("NONE", "NIL"))
    # SLURM_EXPORT_ENV, which sbatch sets then, holds for each srun.
    bare = [one for one in facts.launches if one.kind == SRUN_KIND and not one.has("export")]
    if bare and "SLURM_EXPORT_ENV" not in facts.text:
        path = "" if "PATH" in {one.partition("=")[0] for one in items} else ", not even PATH"
        yield ScriptViolation(
            f"--export={given.value} also applies to every srun: its program gets none of the "
            f"{'' if cleared else 'other '}variables that this script sets{path}",
            given.value_place,
            "write unset SLURM_EXPORT_ENV before the first srun, or srun --export=ALL"
            if cleared
            else f"write --export=ALL,{given.value}, or set them within the script",
        )
    elif not cleared:
        yield ScriptViolation(
            f"without ALL, --export={given.value} keeps all other variables of the shell that you "
            "submit from out of the job, which starts with those of a new login",
            given.value_place,
            f"write --export=ALL,{given.value}, or set them within the script",
        )


@script_rule("NC614")
def hidden_gpus(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    given = facts.given("gpus-per-task")
    plan = facts.plan
    # NCCL is what Python's programs use; whoever binds tasks to GPUs has chosen.
    programs = [one for one in facts.every_launch if one.kind not in (SRUN_KIND, MPIRUN)]
    if facts.has("gpu-bind") or all(one.kind == PROGRAM and one.certain for one in programs):
        return
    some = facts.header.count("gpus-per-task") != 0
    if given is not None and some and plan is not None and plan.ntasks_per_node > 1:
        yield ScriptViolation(
            "--gpus-per-task hides the other GPUs of the node from each task, and NCCL then copies "
            "through the host's memory, or fails",
            given.place,
            "request GPUs per node: --gpus-per-node=N",
        )


@script_rule("NC615")
def character(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    refused = {one.place.line for one in facts.header.refusals}
    looked_at: Set[int] = set()
    for one in facts.header.given:
        if one.source != SCRIPT or one.place.line in refused:
            continue
        number = one.value_place.line
        found = look_alike(one, facts.lines[number - 1], mend=number not in looked_at)
        if found is not None:
            what, place, edits = found
            looked_at.update(() if one.name in FREE_TEXT else (number,))
            yield ScriptViolation(
                f"the value of --{one.name} has {what}, which sbatch takes as it is",
                place,
                "retype the value",
                edits=edits,
            )


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
    try:
        read = gpu_fields(name if name in GPU_OPTIONS else "gpus-per-node", given.value)
    except ValueError:
        return None
    count = read.get("gpus") or read.get("gpus_per_node")
    return _Gpus(given, "gpu_type" in read, count) if count else None


@script_rule("NC616")
def gpus_said_twice(facts: ScriptFacts) -> Iterator[ScriptViolation]:
    """As Slurm 22.05 and 26.05 judge jobs with several of these options (tried there)."""
    names = ("gres", "gpus-per-node", "gpus", "gpus-per-task")
    said = {name: found for name in names for found in [_gpus_of(facts, name)] if found is not None}
    if len(said) < 2 or facts.header.unread & {"nodes", "ntasks", *names}:
        return
    last = max((one.given.place for one in said.values()), key=lambda place: place.line)
    told = partial(ScriptViolation, place=last if last.line else facts.top)
    keep = "keep one of them, such as --gpus-per-node=N"
    if len({one.typed for one in said.values()}) > 1:
        texts = " and ".join(one.text for one in said.values())
        message = f"{texts}: Slurm refuses GPUs with a type beside GPUs without one"
        hint = "write the type in each of them, or keep one of them"
        yield told(message, hint=hint, severity=ERROR)
        return
    total, against = said.get("gpus"), _against_total(facts.header, said)
    if total is not None and against:
        message = f"{total.text} contradicts {against}: Slurm refuses the job"
        yield told(message, hint=keep, severity=ERROR)
    elif "gres" in said and "gpus-per-node" in said:
        gres, other = said["gres"].text, said["gpus-per-node"].text
        message = f"{gres} wins over {other}; sbatch 26.05 refuses the two together"
        yield told(message, hint=keep)


def _against_total(header: Header, said: Mapping[str, _Gpus]) -> str:
    """What --gpus contradicts, for how many nodes or tasks; "" where it contradicts nothing."""
    total, per_task = said.get("gpus"), said.get("gpus-per-task")
    per_node = said.get("gres") or said.get("gpus-per-node")
    nodes, ntasks = header.value("nodes"), digits(header.value("ntasks"))
    if total is None:
        return ""
    if per_node is not None:
        least, most = node_count(nodes) if nodes else (1, ntasks or total.count)
        most = min(most, ntasks or most)  # sbatch leaves no node without a task
        needed, rest = divmod(total.count, per_node.count)
        if rest == 0 and min(least, most) <= needed <= most:
            return ""
        several = counted(most, "node") if least >= most else f"{least} to {most} nodes"
        return per_node.text + (f" on {several}" if nodes or ntasks else "")
    if per_task is not None and ntasks and total.count != per_task.count * ntasks:
        return f"{per_task.text} for {counted(ntasks, 'task')}"
    return ""
