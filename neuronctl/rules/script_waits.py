"""NC647 and NC664: what waits without an end, or longer than the job may run."""

from __future__ import annotations

import re
from typing import Iterator, List

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted, duration
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_commands import ONLY_PREPARES, SAYS, SHORT
from neuronctl.scripts.launches import Launch
from neuronctl.scripts.model import SourceSpan

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
    yield from _for_nothing(facts)
    yield from _gives_up(facts)


def _for_nothing(facts: ScriptFacts) -> Iterator[Violation]:
    """A sleep of a day or more that holds GPUs, in a job that starts nothing."""
    gpus = 0 if facts.plan is None else facts.plan.gpus_per_node
    idle = ONLY_PREPARES | SHORT | facts.functions
    if not gpus or any(run.works or run.name not in idle for run in facts.launches):
        return
    for command in facts.shell.calls("sleep"):
        word = "".join(command.arguments[0] or "" for _ in command.arguments[:1])
        if re.fullmatch(r"inf(inity)?|[0-9]{5,}s?|[0-9]+d|[0-9]{2,}h", word):
            yield Violation(
                f"sleep holds {counted(gpus, 'GPU')} on each node until the time limit, and "
                "nothing uses them",
                "write salloc for a session, which ends with your shell",
                place=command.place,
                severity=NOTE,
            )
            return


_TRIES = re.compile(r"[ \t]*(for|while)\b")
_ASKS_A_SERVER = re.compile(r"\b(curl|wget|nc)\b[^\n]*?(http|localhost|127\.0\.0\.1|-z)")


def _gives_up(facts: ScriptFacts) -> Iterator[Violation]:
    """A counted wait for a server, behind which nothing asks whether it is there."""
    for first, last in facts.loops:
        lines = facts.lines[first - 1 : last]
        text = "\n".join(lines)
        tries = _TRIES.match(lines[0]) and "break" in text and "sleep" in text and last - first < 12
        endless = re.match(r"[ \t]*while (true|:)", lines[0])
        if not tries or endless or not _ASKS_A_SERVER.search(text) or "exit" in text:
            continue
        behind = [line for number, line in facts.plain_lines if number > last and line.strip()][:5]
        if behind and not re.search(r"\b(if|exit|return|kill)\b|\[|\(\(", "\n".join(behind)):
            yield Violation(
                "this wait ends, too, where the server has not come up: what follows runs without "
                "it",
                "ask once more behind it: curl … || exit 1",
                place=SourceSpan(first, 1, len(lines[0]) + 1),
                severity=NOTE,
            )
            return


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
        if not waits or counts or not {*loop.does} <= _PASSES_TIME - {"break", "["}:
            continue
        # Such as another task of the array, which has come first.
        path = re.escape(_WAITED_FOR.sub("", below[0][waits.end() :]).strip("\"'"))
        if any(
            re.search(rf"(\btouch|\bmv|\bcp|\btee|>).{{0,200}}{path}", line) for line in facts.lines
        ):
            continue
        why, cure = (
            "nothing that this job has started writes it",
            "wait before the job: sbatch --dependency=afterok:JOB; or count, and end with exit 1",
        )
        if beside:
            why = "it has no end if the program that is to write it has failed"
            cure = "end with the program, too: kill -0 $PID || exit 1 in the loop; or count"
        yield Violation(
            f"this waits for a file until the time limit: {why}",
            cure,
            place=loop.place,
            severity=NOTE if beside else None,
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
    others = [
        run.place.line
        for run in runs
        if not run.command.background and run.name not in ONLY_PREPARES | SHORT
    ]
    endless = [loop.place for loop in shell.loops if loop.background and not loop.ends]
    for run in runs:
        for each in (run, *run.below()) if run.command.background else ():
            own = each.texts
            watches = (each.word.value or "").endswith("nvidia-smi") and any(
                _WATCHES.fullmatch(word) for word in own
            )
            server = _SERVERS.match(" ".join([each.name, *own[1:]]))
            lines = others if each.name == "ray" else clients
            asked = any(run.place.line < line < waits[-1] for line in lines)
            if (watches and "-c" not in own) or (asked and server):
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


def _behind_a_server(runs: List[Launch]) -> Iterator[Violation]:
    """What comes after a server that the script waits for."""
    for run, following in zip(runs, runs[1:]):
        if run.command.background or not run.command.sure or not following.works:
            continue
        for each in (run, *run.below()):
            if each.command.background:
                break
            if _SERVERS.match(" ".join(each.texts)) and not each.has("help", "version"):
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


@script_rule(WARNING, "NC664", "longer than the job")
def longer(facts: ScriptFacts) -> Iterator[Violation]:
    limit = None if facts.plan is None else facts.plan.time_limit
    if limit is None or not facts.has("time"):
        return
    commands = facts.shell.uncaptured
    last = max((at for at, command in enumerate(commands) if command.name not in SAYS), default=0)
    for at, command in enumerate(commands[:last]):
        if command.name not in ("timeout", "sleep"):
            continue
        given = next((value for value in command.arguments if value and value[0].isdigit()), "")
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", given)
        if match is None:
            continue
        seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
        if seconds > limit and not command.background:
            behind = next(each for each in commands[at + 1 :] if each.name not in SAYS)
            yield Violation(
                f"{command.name} {given} is longer than the job, which ends after "
                f"{duration(limit)}: line {behind.place.line} is not reached",
                "write less than --time, such that the rest has time, too",
                place=command.place,
            )
            return
