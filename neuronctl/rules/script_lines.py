"""NC644 to NC650: lines of a script that do something else than they seem to."""

from __future__ import annotations

import re
from typing import Iterator

from neuronctl.batchscript.edits import edited
from neuronctl.batchscript.launches import PYTHON, SHELL, Launch
from neuronctl.batchscript.model import Edit, SourceSpan
from neuronctl.batchscript.shell_text import Assignment, read_shell
from neuronctl.rule_codes import ERROR, NOTE, WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.words import counted

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
    if any(one.arguments[:1] in (("-a",), ("-o",), ("-ae",)) for one in shell.calls("set")):
        return  # all are
    # A launcher sets what its processes meet by.
    own = any(
        start.launch.kind == PYTHON and not start.launched and not start.launch.has("c")
        for start in facts.starts
    )
    for one in shell.assignments:
        others = shell.assigned(one.name)
        if one is not others[0] or any(other.exported for other in others):
            continue
        after = [run for run in facts.launches if run.command.place.line > one.place.line]
        awaited = any(_awaits(run, one.name) for run in after)
        read = _FOR_PROGRAMS.fullmatch(one.name) and any(map(_works, after))
        if _OF_LAUNCHERS.fullmatch(one.name) and not own:
            read = None
        if awaited or (read and not _is_used(facts, one)):
            who = "the shell that is to expand it does not get" if awaited else "no program gets"
            yield Violation(
                f"{one.name} is not exported: {who} it",
                f"write export {one.name}=…",
                place=one.place,
            )


def _awaits(run: Launch, name: str) -> bool:
    """Whether another shell that is started is to expand a variable."""
    shells = [one for one in (run, *run.below()) if one.kind == SHELL and one.has("c")]
    if not shells or any(
        word.raw.startswith("--export") and name in word.raw for word in run.command.words
    ):
        return False
    kept = re.compile(rf"(^'.*|\\)\$\{{?{name}\b", re.DOTALL)
    own = re.compile(rf"\b{name}=|\b(read|for) {name}\b")
    return any(
        kept.search(word.raw) and name not in word.names and not own.search(word.raw)
        for word in run.command.words
    )


def _works(one: Launch) -> bool:
    """Whether it is a program of the job's, or starts one."""
    return not one.command.captured and (one.is_launcher or one.kind == PYTHON)


def _is_used(facts: ScriptFacts, one: Assignment) -> bool:
    """Whether the batch shell itself uses a variable, but to show it."""
    shown = 0
    for command in facts.shell.commands:
        for word in command.words:
            mentions = len(re.findall(rf"\$\{{?{one.name}\b", word.raw))
            kept = one.name not in word.names  # the program's shell is to expand it, and has it not
            shown += mentions if kept or command.name in ("echo", "printf") else 0
    listed = re.search(rf"--export[= ]\S*\b{one.name}\b|\benv\b.*\b{one.name}=", facts.text)
    every = len(re.findall(rf"\$\{{?{one.name}\b|\(\([^)\n]*\b{one.name}\b", facts.text))
    return listed is not None or every > shown


_OWN_PLACE = re.compile(r"\$(0|BASH_SOURCE)\b|\$\{(0|BASH_SOURCE(\[0\])?)[:}]")
_ITS_DIRECTORY = re.compile(r"\$\{(0|BASH_SOURCE(\[0\])?)%/")


@script_rule(WARNING, "NC645", "directory of Slurm's copy")
def own_directory(facts: ScriptFacts) -> Iterator[Violation]:
    # Whoever asks whether this is a job, or where the script came from, knows.
    if not facts.header.given or re.search(r"scontrol show job|Command=", facts.text):
        return
    found = [
        one.word.place
        for one in facts.shell.assignments
        if _ITS_DIRECTORY.search(one.word.raw) and "/" not in one.word.raw.partition("%/")[0]
    ]
    for one in facts.shell.commands:
        asks = one.name in ("dirname", "realpath", "readlink")
        for word in one.words[1:]:
            if _ITS_DIRECTORY.search(word.raw) or (asks and _OWN_PLACE.search(word.raw)):
                found.append(one.place)
    for place in sorted(found, key=lambda one: (one.line, one.column)):
        before = "\n".join(facts.lines[: place.line])
        open_ones = len(re.findall(r"^\s*if\b", before, re.MULTILINE))
        open_ones -= len(re.findall(r"^\s*fi\b", before, re.MULTILINE))
        if open_ones > 0 or "SLURM_" in facts.lines[place.line - 1]:
            continue
        yield Violation(
            "in a job, this is the directory of Slurm's copy of the script, which has none of the "
            "other files",
            'write "$SLURM_SUBMIT_DIR", the directory that you submit from, or an absolute path',
            place=place,
        )
        return


_SAYS = ("echo", "date", "printf", "deactivate", "exit", "wait")


@script_rule(WARNING, "NC646", "exit code that a pipe hides")
def hidden_exit_code(facts: ScriptFacts) -> Iterator[Violation]:
    if re.search(r"pipefail|PIPESTATUS", facts.text):
        return
    strict = any(
        word and re.fullmatch(r"-[a-zA-Z]*e[a-zA-Z]*", word)
        for one in facts.shell.calls("set")
        for word in one.arguments
    ) or re.search(r"\s-[a-z]*e[a-z]*$", facts.header.shebang)
    commands = [one for one in facts.shell.commands if not one.captured]
    for at, (one, beside) in enumerate(zip(commands, commands[1:])):
        shows = beside.piped and beside.name in ("tee", "ts", "grep", "sed", "awk", "cat")
        own = [run for run in facts.launches if run.command is one]
        if not shows or not any(map(_works, own)) or one.background:
            continue
        rest = [one for one in commands[at + 2 :] if one.name not in _SAYS and not one.piped]
        if strict or not rest:
            ends = "and the script goes on" if strict else "and the job ends as COMPLETED"
            last = "-o" if strict or at + 2 == len(commands) else "-eo"
            yield Violation(
                f"the exit code here is that of {beside.name}: {own[0].word.raw} may fail, {ends}",
                f"write set {last} pipefail before it",
                place=beside.place,
            )
            return


_ASKS = {"curl", "wget", "nc", "ncat"}
_PASSES_TIME = {"sleep", "echo", "printf", "date", ":", "true", "break", "timeout"}


@script_rule(WARNING, "NC647", "wait without an end")
def endless_wait(facts: ScriptFacts) -> Iterator[Violation]:
    for loop in facts.shell.loops:
        if loop.counts or not set(loop.does) <= _PASSES_TIME | _ASKS:
            continue
        # until curl …; or while true, and curl … && break
        asks = {*loop.asks} & _ASKS if loop.until else {*loop.does} & _ASKS
        rest = _ASKS | {"grep", "timeout"} if loop.until else {"true", ":"}
        if not asks or not set(loop.asks) <= rest or (loop.until and "break" in loop.does):
            continue
        yield Violation(
            f"this waits for {min(asks)} until the time limit: it has no end if the server that it "
            "asks has failed",
            "end with the server, too: until curl …; do kill -0 $PID || exit 1; sleep 5; done",
            place=loop.place,
        )


_SLOW = {
    "NCCL_IB_DISABLE": "InfiniBand between the nodes",
    "NCCL_P2P_DISABLE": "the direct way from GPU to GPU",
    "NCCL_SHM_DISABLE": "shared memory between the processes of a node",
}


@script_rule(WARNING, "NC648", "fast network switched off")
def slow_network(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or plan.gpus_per_node * plan.nodes < 2:
        return
    before = (one for command in facts.shell.commands for one in command.assigned)
    for one in (*facts.shell.assignments, *before):
        between = one.name == "NCCL_IB_DISABLE"
        concerns = plan.nodes > 1 if between else plan.gpus_per_node > 1
        if one.name in _SLOW and one.word.value in ("1", "true") and concerns:
            where = counted(plan.nodes, "node") if between else counted(plan.gpus_per_node, "GPU")
            yield Violation(
                f"{one.name}={one.word.value} switches off {_SLOW[one.name]}, in a job of {where}",
                "remove the line, unless NCCL fails without it",
                place=one.place,
                severity=None if between else NOTE,
            )


@script_rule(ERROR, "NC649", "options without their command")
def lost_options(facts: ScriptFacts) -> Iterator[Violation]:
    """What follows a line whose backslash is missing, or is not the last character."""
    told = False
    for one in facts.shell.commands if facts.header.for_bash else ():
        first = one.words[0] if one.words else None
        if first is None or not re.match(r"--?[A-Za-z]", first.raw) or one.place.line < 2:
            continue
        before, number = facts.lines[one.place.line - 2], one.place.line - 1
        if facts.lines[one.place.line - 1][: one.place.column - 1].strip():
            continue
        blanks = re.search(r"\\([ \t]+)$", before)
        edits = (
            [Edit(SourceSpan(number, blanks.start(1) + 1, len(before) + 1), "")] if blanks else []
        )
        after = read_shell(edited(facts.text, edits)) if edits else facts.shell
        if any(each.place.line == one.place.line for each in after.commands):
            edits = []  # such as that of a comment, which goes on in no other line
        if not edits and told:
            continue  # all of them follow from the first
        told = told or not edits
        why = "the line above does not end with a backslash"
        if edits:
            why = f"a blank follows the backslash of line {number}"
        elif before.lstrip().startswith("#"):
            why = f"the comment of line {number} ends the command before it"
        yield Violation(
            f"bash takes {first.raw} for a command: {why}",
            "remove the blank" if edits else "write the command and its options without a gap",
            place=one.place,
            edits=tuple(edits),
        )


@script_rule(WARNING, "NC650", "list of nodes in one word")
def one_word(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.plan is not None and facts.fixed_nodes and facts.plan.nodes < 2:
        return
    for one in facts.shell.assignments:
        name = re.fullmatch(r'\(\s*"(\$\{?(\w+)\}?|\$\(.*\))"\s*\)', one.word.raw)
        if name is None:
            continue
        made = [name[1], *(other.word.raw for other in facts.shell.assigned(name[2] or ""))]
        if any("show hostname" in text for text in made):
            yield Violation(
                f"{one.name} has a single element, which contains the names of all nodes: the "
                "quotes keep them together",
                f"write {one.name}=({name[1]}), or mapfile -t {one.name} < <(scontrol show "
                "hostnames)",
                place=one.place,
            )
