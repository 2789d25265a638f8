"""NC651 and NC652: what is lost when a job ends."""

from __future__ import annotations

import re
from typing import Iterator, List, Optional, Set, Tuple

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_commands import SHORT
from neuronctl.scripts.launches import PYTHON, SHELL, Launch
from neuronctl.scripts.shell_text import Command, ShellWord

_LONG_SLEEP = re.compile(r"inf(inity)?|\d+[dh]|\d{2,}m|\d{4,}s?")


@script_rule(WARNING, "NC651", "nothing waits for the program", "by_absence")
def nothing_waits(facts: ScriptFacts) -> Iterator[Violation]:
    """As Slurm does it: with the batch shell, it ends everything that the shell started."""
    commands = facts.shell.uncaptured
    beside = [at for at, command in enumerate(commands) if _goes_on(facts, command)]
    if not beside or re.search(r"\b(wait|fg)\b|(?m:(^|[;&|{])[ \t]*exec[ \t])", facts.text):
        return
    last = commands[beside[-1]]
    if any(loop.place.line > last.place.line for loop in facts.shell.loops):
        return
    after = [command for command in commands[beside[-1] + 1 :] if _keeps_alive(command)]
    found: Optional[Command] = last
    if after:
        # Of a server and its client, the client ends the job; of two of a kind, the last one.
        started = [(_program(command), command) for command in map(commands.__getitem__, beside)]
        names = {_program(command) for command in after} - {""}
        found = next((command for name, command in started if name in names), None)
    if found is not None:
        what = "this ends when the job does, which is at once: nothing waits for it"
        if after:
            what = f"this ends when line {after[-1].place.line} has: nothing waits for it"
        hint = "write wait as the last line; wait %1 && wait %2 fails where one of two has"
        if not found.background:
            hint = "start the program itself, in the foreground"
        yield Violation(what, hint, place=found.place)


def _goes_on(facts: ScriptFacts, command: Command) -> bool:
    """Whether a program goes on when the shell has gone to the next line."""
    if command.name in ("tmux", "screen"):
        words = " ".join(word.raw for word in command.words[1:])
        return re.search(r"(^| )-d|new.* -d", words) is not None
    return command.background and bool(command.words) and command.name not in SHORT


def _keeps_alive(command: Command) -> bool:
    if command.background or not command.words:
        return False
    if command.name == "sleep":
        return any(value is None or _LONG_SLEEP.fullmatch(value) for value in command.arguments)
    return command.name not in SHORT


def _program(command: Command) -> str:
    """The script that a command of Python's runs."""
    words = [word.value or "" for word in command.words]
    return next((word for word in words if word.endswith(".py")), "")


_RESULTS = re.compile(
    r"--?(\w+[_.-])*(out(put)?s?|save|ckpts?|checkpoints?|results?|run|serialization|default_root|log|work)"
    r"([_-]?(dir|path|folder|to|root))?",
    re.IGNORECASE,
)
OF_THE_NODE = re.compile(
    r"(/tmp|/var/tmp|/dev/shm|/local(_?scratch)?|\$\{?(SLURM_)?TMPDIR\b\}?"
    r"|\$\{?LOCAL_?SCRATCH\b\}?)(/|$)"
)
"""Directories of a node, or of a job on it: other nodes have none of their files."""
_COPIES = re.compile(r"\b(cp|mv|rsync|tar|scp|rclone|zip|install|gsutil|aws|find|sgather)\b")


_IS_TO_GO = re.compile(
    r"(?im)^[^#\n]*#.*(auto-?(matically)?[ -]?(clean|delet|remov)|per-job scratch|throw-?away"
    r"|discard|not (kept|saved|needed)|clean(s|ed)? up (at|after|when|by))"
)
"""A remark that what is on the node is to go with the job."""


@script_rule(WARNING, "NC652", "results on the node alone", "by_absence")
def left_on_the_node(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _left_out(facts)
    yield from _on_the_first_node(facts)
    yield from _nowhere_filled(facts)
    yield from _still_empty(facts)
    yield from _redirected(facts)
    yield from _written_here(facts)
    removed = [*_removed(facts)]
    yield from removed or _removed_unchecked(facts)
    yield from _made_on_the_first_node(facts)
    yield from _environment_of_one(facts)
    for launch in facts.launches:
        own = launch.is_launcher or launch.kind in (PYTHON, SHELL) or launch.name in _BY_LETTER
        if launch.command.captured or not own:
            continue
        for word, path in _written(launch):
            head = OF_THE_NODE.match(path)
            if head is None or _copied(facts, launch, path, head[1]):
                continue
            # It may be set to a directory elsewhere; or somebody says that nothing is to stay.
            if facts.shell.assigned(head[1].strip("${}")) or _IS_TO_GO.search(facts.text):
                continue
            yield Violation(
                f"{path} is on the node alone, and nothing copies it from there: when the job has "
                "ended, what the program wrote is out of reach, or deleted",
                "write to a directory that all nodes share, or copy the results at the end: cp -r "
                f'{path} "$SLURM_SUBMIT_DIR"/',
                place=word.place,
            )
            return


def _recursive(command: Command) -> bool:
    """Whether rm removes directories."""
    return any(re.match(r"-[a-zA-Z]*[rR]|--recursive", word.raw) for word in command.words[1:])


def _removed(facts: ScriptFacts) -> Iterator[Violation]:
    """What a program was told to write, and the script removes behind it."""
    removals = [each for each in facts.shell.calls("rm") if _recursive(each) and not each.captured]
    for launch in facts.launches if removals else ():
        for word, path in _written(launch):
            kept = path.strip("\"'").rstrip("/")
            if not re.search(r"(?i)out|save|ckpt|checkpoint|result", word.text) or len(kept) < 3:
                continue
            if OF_THE_NODE.match(kept) or re.search(r"(?i)te?mp|scratch|cache|dummy|test", kept):
                continue
            for command in removals:
                last, end = launch.command.words[-1].place.line, command.place.line
                same = any(each.text.strip("\"'").rstrip("/") == kept for each in command.words[1:])
                between = "\n".join(facts.lines[last:end])
                between = (
                    between[: len(between) - len(facts.lines[end - 1])]
                    + (facts.lines[end - 1][: command.place.column - 1])
                )
                used = _COPIES.search(between) or re.search(re.escape(kept.strip("${}")), between)
                if same and last < end and not used and command.looped == launch.command.looped:
                    sends = re.search(r"(?i)\bHF_|hub|upload|push|s3:|gs:|wandb", facts.text)
                    yield Violation(
                        f"this removes {kept}, which line {launch.place.line} has written, and "
                        "nothing has copied",
                        "remove it only where its files are elsewhere: cp -r … && rm -r …",
                        place=command.place,
                        severity=NOTE if sends else None,
                    )
                    return


def _removed_unchecked(facts: ScriptFacts) -> Iterator[Violation]:
    """``cp -r DIR …``, and ``rm -r DIR`` whatever has become of it."""
    if facts.strict:
        return
    copies = [each for each in facts.shell.calls("cp", "scp", "rsync") if each.sure]
    for command in facts.shell.calls("rm") if copies else ():
        gone = {word.raw.strip("\"'").rstrip("/*") for word in command.words[1:]}
        if not _recursive(command) or not command.sure:
            continue
        for copy in copies:
            first, last = copy.words[-1].place.line, command.place.line
            saved = {word.raw.strip("\"'").rstrip("/*.") for word in copy.words[1:-1]}
            lines = "\n".join(facts.lines[copy.place.line - 1 : last])
            if (
                first < last
                and (saved & gone) - {""}
                and not re.search(r"\$\?|&&|\|\||trap", lines)
            ):
                yield Violation(
                    f"this removes what line {copy.place.line} copies, also where that has failed "
                    f"(a full disk, another host): then the results are lost",
                    f"write {copy.name} … && rm -r …",
                    place=command.place,
                    severity=NOTE,
                )
                return


def _made_on_the_first_node(facts: ScriptFacts) -> Iterator[Violation]:
    """A directory of the node that the batch shell makes, and a step on several is told of."""
    if facts.plan is None or facts.plan.nodes < 2:
        return
    last = max((one.launch.place.line for one in facts.starts if (one.nodes or 1) > 1), default=0)
    for variable in facts.shell.assignments:
        path = variable.word.text.strip("\"'")
        own = OF_THE_NODE.match(path) and path.startswith("/") and path.strip("/").count("/")
        if not own or not variable.exported:
            continue
        for command in facts.shell.calls("mkdir"):
            names = any(
                variable.name in word.names or word.text.strip("\"'") == path
                for word in command.words[1:]
            )
            inside = re.search(
                rf"(?m)^(?![ \t]*mkdir)(?!.*export).*mkdir.*\b{variable.name}", facts.text
            )
            if names and not inside and variable.place.line <= command.place.line < last:
                yield Violation(
                    f"this makes the directory of {variable.name} on the first node alone, and "
                    f"line {last} starts on {facts.plan.nodes}",
                    'make it on each: srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 mkdir -p …',
                    place=command.place,
                    severity=NOTE,
                )
                return


_BY_LETTER = {"allennlp": "-s"}
"""Programs, and the options of one letter that say where they write."""
_MAKES_ONE = re.compile(r"virtualenv|(\S*/)?python[\d.]* -m (venv|virtualenv)|uv venv")


def _environment_of_one(facts: ScriptFacts) -> Iterator[Violation]:
    """An environment on the first node's disk, for a program on several."""
    if facts.plan is None or facts.plan.nodes < 2 or facts.shell.calls("sbcast"):
        return
    for command in facts.shell.commands:
        words = [word.raw for word in command.words]
        made = _MAKES_ONE.match(" ".join(words[:3]))
        path = _value(facts, command.words[-1].text).strip("\"'") if made else ""
        if not made or command.captured or not command.sure or not OF_THE_NODE.match(path):
            continue
        behind = [run for run in facts.launches if run.place.line > command.place.line]
        steps = [run for run in behind if run.is_launcher and not run.command.captured]
        on_all = [
            start
            for start in facts.starts
            if (start.nodes or 1) > 1 and start.outer and start.outer[0] in steps[:1]
        ]
        if on_all and on_all[0].launch.kind == PYTHON and len(on_all[0].outer) == 1:
            yield Violation(
                f"this makes the environment on the first node alone, and line "
                f"{on_all[0].launch.place.line} starts on {facts.plan.nodes}: the others have no "
                "such directory",
                'make it on each: srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 bash -c …',
                place=command.place,
            )
            return


_MOST_PATHS = 50
"""Of so many, the uses are looked for."""


def _on_the_first_node(facts: ScriptFacts) -> Iterator[Violation]:
    """Data that the batch shell puts on its own node, for a step on several."""
    if facts.plan is None or facts.plan.nodes < 2 or facts.shell.calls("sbcast"):
        return
    if re.search(r"srun[^\n]{0,500}\b(cp|rsync|tar|unzip)\b", facts.text):
        return  # each node is filled
    told: Set[str] = set()
    for command in facts.shell.calls("cp", "rsync", "tar", "unzip"):
        copies = command.name in ("cp", "rsync")
        words = command.words[-1:] if copies else command.words[1:]
        paths = [_value(facts, word.text).strip("\"'").rstrip("/") for word in words]
        for path in paths if not command.captured and len(told) < _MOST_PATHS else ():
            if path in told:
                continue
            told.add(path)
            for start in facts.starts if OF_THE_NODE.match(path) and len(path) > 5 else ():
                line, launch = start.launch.place.line, start.launch
                reads = any(word.text.strip("\"'").startswith(path) for word in launch.own_words)
                several = (start.nodes or 1) > 1 and line > command.place.line
                if reads and several and launch.kind in (PYTHON, SHELL):
                    yield Violation(
                        f"this fills {path} on the first node alone, and line {line} reads it on "
                        f"{start.nodes} nodes",
                        f"{_ON_EACH} {command.name} …",
                        place=command.place,
                    )
                    return


_DATA = re.compile(
    r"--?(\w+[_.-])?(data|dataset|dataroot|input|train|images?)([_.-]?(dir|root|path))?"
)


_ON_EACH = 'fill it on each: srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1'


def _nowhere_filled(facts: ScriptFacts) -> Iterator[Violation]:
    """Data of a directory of the node, which a step on several nodes reads and none has filled."""
    if facts.plan is None or facts.plan.nodes < 2 or facts.shell.calls("sbcast"):
        return
    for start in facts.starts:
        launch = start.launch
        if launch.kind != PYTHON or (start.nodes or 1) < 2 or not start.outer:
            continue
        before = [
            other
            for other in facts.launches
            if other.command.place.line < start.outer[0].command.place.line
        ]
        # What an earlier step does, or a program that goes to the nodes itself, is not known.
        if any(other.is_launcher and not other.command.captured for other in before):
            return
        if any(other.kind == SHELL for other in start.outer):
            return  # it may fill it first
        # Whatever fills it here does so on the first node.
        fills = [other for other in before if other.kind != PYTHON and other.word.raw[:1] in "./"]
        for pair in launch.pairs if fills else ():
            path = _value(facts, pair.value.text).strip("\"'")
            if _DATA.fullmatch(pair.name) and OF_THE_NODE.match(path) and len(path) > 5:
                yield Violation(
                    f"{path} is on each node by itself, and what line "
                    f"{fills[-1].place.line} puts there is on the first of {start.nodes}",
                    f"{_ON_EACH} {fills[-1].word.raw} …",
                    place=pair.word.place,
                )
                return


_OF_THE_JOB = re.compile(r"\$\{?(SLURM_TMPDIR)\b\}?/")


def _still_empty(facts: ScriptFacts) -> Iterator[Violation]:
    """Data of the job's own directory on the node, into which nothing puts any."""
    for start in facts.starts:
        launch = start.launch
        for pair in launch.pairs if launch.kind == PYTHON else ():
            path = pair.value.raw.strip("\"'")
            own = _OF_THE_JOB.match(path)
            if own is None or not _DATA.fullmatch(pair.name) or facts.shell.assigned(own[1]):
                continue
            above = facts.lines[
                : start.outer[0].place.line - 1 if start.outer else launch.place.line - 1
            ]
            if not any(own[1] in line and not line.lstrip().startswith("#") for line in above):
                yield Violation(
                    f"nothing has put data into {path}: ${own[1]} is empty when a job begins",
                    f"copy it there first: cp -r data ${own[1]}/, unless the program fetches it",
                    place=pair.word.place,
                    severity=NOTE,
                )
                return


def _redirected(facts: ScriptFacts) -> Iterator[Violation]:
    """The output of a program that goes to a file of the node, which nothing uses later."""
    for launch in facts.launches:
        command = launch.command
        if command.captured or not (launch.is_launcher or launch.kind == PYTHON):
            continue
        for word in command.writes:
            path = word.text.strip("\"'")
            head = OF_THE_NODE.match(path)
            name = path.rpartition("/")[2]
            if head is None or not name or re.search(r"(?i)log|err|^\W", name):
                continue
            used = sum(name in line or head[1] in line for line in facts.lines) > 1
            if not used and not launch.command.looped:
                yield Violation(
                    f"{path} is on the node alone, and nothing copies it from there: when the job "
                    "has ended, it is out of reach, or deleted",
                    "write to a directory that all nodes share",
                    place=word.place,
                )
                return


def _left_out(facts: ScriptFacts) -> Iterator[Violation]:
    """A directory that ``cp`` leaves out, since it has no ``-r``."""
    for command in facts.shell.calls("cp"):
        flags = [word.raw for word in command.words[1:] if word.raw.startswith("-")]
        if any(re.match("-[a-zA-Z]*[rRa]|--(recursive|archive)", flag) for flag in flags):
            continue
        for word in command.words[1:-1]:
            name = word.raw.strip("\"'")
            if re.fullmatch(r"\$\{?(SLURM_|LOCAL_?)?(TMPDIR|SCRATCH)\}?/?|[^*?\-].*/", name):
                yield Violation(
                    f"cp leaves {word.raw} out, which is a directory: nothing of it is copied",
                    "write cp -r",
                    place=word.place,
                )


def _written_here(facts: ScriptFacts) -> Iterator[Violation]:
    """What a program writes beside itself, where ``cd`` has gone to a directory of the node."""
    gone: Optional[Command] = None
    runs = {
        id(run.command): run
        for run in facts.launches
        if run.kind == PYTHON or run.name in ("R", "julia", "matlab", "octave", "Rscript")
    }
    for command in facts.shell.commands:
        if command.name in ("cd", "pushd") and len(command.words) > 1 and not command.captured:
            path = _value(facts, command.words[1].text)
            stays = gone is not None and not path.startswith(("/", "~", "$"))
            node = OF_THE_NODE.match(path) is not None
            gone = command if node and command.sure else gone if stays else None
            continue
        run = None if gone is None else runs.get(id(command))
        if gone is None or run is None or command.captured or run.has("c", "m"):
            continue
        elsewhere = re.compile(
            r"(^|=)(/(?!tmp|dev/shm|local)|~|\.\./\.\.|\$\{?(HOME|SLURM_SUBMIT|SCRATCH))"
        )
        said = any(
            elsewhere.search(word.raw.strip("\"'"))
            for word in command.words[1:]
            if word.text != run.options.get("script")
        )
        later = facts.lines[command.place.line :]
        trapped = facts.shell.calls("trap", "source", ".", "eval") and "trap" in facts.text
        if said or trapped or any(_COPIES.search(line) for line in later):
            return
        yield Violation(
            f"this runs in {gone.words[1].raw}, on the node alone (line {gone.place.line}), and "
            "nothing copies what it writes there: when the job has ended, it is out of reach, or "
            "deleted",
            'copy the results at the end: cp -r results "$SLURM_SUBMIT_DIR"/',
            place=command.place,
        )
        return


def _value(facts: ScriptFacts, path: str) -> str:
    """What a path is that is a variable alone, which one line sets."""
    name = re.fullmatch(r"\$\{?(\w+)\}?/?", path)
    found = facts.shell.assigned(name[1]) if name else ()
    return found[0].word.raw.strip("\"'") if len(found) == 1 else path


def _written(launch: Launch) -> Iterator[Tuple[ShellWord, str]]:
    """The words that name where a program writes, with the paths."""
    for pair in launch.pairs:
        own = _BY_LETTER.get(launch.name) == pair.name
        if pair.value.text and (own or _RESULTS.fullmatch(pair.name)):
            yield pair.word, pair.value.text


def _copied(facts: ScriptFacts, launch: Launch, path: str, head: str) -> bool:
    """Whether a later command, a trap, or a function seems to copy what is below a directory."""
    name = head.strip("${}")
    lines: List[str] = list(facts.lines)
    if any("trap" in line and (name in line or _COPIES.search(line)) for line in lines):
        return True
    for number, line in enumerate(lines, 1):
        if _COPIES.search(line) and (path in line or (number > launch.place.line and name in line)):
            return True
    # A program of the script's own may do it.
    later = [run for run in facts.launches if run.place.line > launch.place.line]
    return any(name in word.text for run in later for word in run.command.words)
