"""NC644 to NC650, NC657 to NC660: lines that do something else than they seem to."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Sequence

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
    if any(command.arguments[:1] in (("-a",), ("-o",), ("-ae",)) for command in shell.calls("set")):
        return  # all are
    # A launcher sets what its processes meet by.
    own = any(
        start.launch.kind == PYTHON and not start.launched and not start.launch.has("c")
        for start in facts.starts
    )
    awaited = _awaited_names(facts.launches)
    last = max((run.command.place.line for run in facts.launches if run.works), default=0)
    for assignment in shell.assignments:
        name, line = assignment.name, assignment.place.line
        others = shell.assigned(name)
        if assignment is not others[0] or any(other.exported for other in others):
            continue
        awaits = awaited.get(name, 0) > line
        read = _FOR_PROGRAMS.fullmatch(name) and last > line
        if _OF_LAUNCHERS.fullmatch(name) and not own:
            read = None
        if awaits or (read and not _is_used(facts, assignment)):
            who = "the shell that is to expand it does not get" if awaits else "no program gets"
            yield Violation(
                f"{name} is not exported: {who} it",
                f"write export {name}=…",
                place=assignment.place,
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


def _is_used(facts: ScriptFacts, variable: Assignment) -> bool:
    """Whether the batch shell itself uses a variable, but to show it."""
    shown = 0
    for command in facts.shell.commands:
        for word in command.words:
            mentions = len(re.findall(rf"\$\{{?{variable.name}\b", word.raw))
            kept = (
                variable.name not in word.names
            )  # the program's shell is to expand it, and has it not
            shown += mentions if kept or command.name in ("echo", "printf") else 0
    listed = re.search(
        rf"--export[= ]\S*\b{variable.name}\b|\benv\b.*\b{variable.name}=", facts.text
    )
    every = len(re.findall(rf"\$\{{?{variable.name}\b|\(\([^)\n]*\b{variable.name}\b", facts.text))
    return listed is not None or every > shown


_OWN_PLACE = re.compile(r"\$(0|BASH_SOURCE)\b|\$\{(0|BASH_SOURCE(\[0\])?)[:}]")
_ITS_DIRECTORY = re.compile(r"\$\{(0|BASH_SOURCE(\[0\])?)%/")


@script_rule(WARNING, "NC645", "directory of Slurm's copy")
def own_directory(facts: ScriptFacts) -> Iterator[Violation]:
    # Whoever asks whether this is a job, or where the script came from, knows.
    if not facts.header.given or re.search(r"scontrol show job|Command=", facts.text):
        return
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
    for place in sorted(found, key=lambda place: (place.line, place.column)):
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


@script_rule(WARNING, "NC646", "exit code that is hidden")
def hidden_exit_code(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _thrown_away(facts)
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
        shows = beside.piped and beside.name in ("tee", "ts", "grep", "sed", "awk", "cat")
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
    works = {id(run.command) for run in facts.launches if run.works and run.command.sure}
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
        )


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
    yield from _never_over(facts)


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
    if plan is None or plan.gpus_per_node * plan.nodes < 2:
        return
    for variable in facts.shell.every_assignment:
        between = variable.name == "NCCL_IB_DISABLE"
        concerns = plan.nodes > 1 if between else plan.gpus_per_node > 1
        if variable.name in _SLOW and variable.word.value in ("1", "true") and concerns:
            where = counted(plan.nodes, "node") if between else counted(plan.gpus_per_node, "GPU")
            yield Violation(
                f"{variable.name}={variable.word.value} switches off {_SLOW[variable.name]}, "
                f"in a job of {where}",
                "remove the line, unless NCCL fails without it",
                place=variable.place,
                severity=None if between else NOTE,
            )


@script_rule(ERROR, "NC649", "options without their command")
def lost_options(facts: ScriptFacts) -> Iterator[Violation]:
    """What follows a line whose backslash is missing, or is not the last character."""
    lost = [
        command
        for command in (facts.shell.commands if facts.header.for_bash else ())
        if command.words
        and command.place.line > 1
        and (
            re.match(r"--?[A-Za-z]", command.words[0].raw)
            or re.search(r"\\[ \t]+$", facts.lines[command.place.line - 2])
        )
        and not facts.lines[command.place.line - 1][: command.place.column - 1].strip()
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
    for command in lost:
        number = command.place.line - 1
        edit = mends.get(command.place.line)
        if edit is None and (told or not command.words[0].raw.startswith("-")):
            continue  # all of them follow from the first
        told = told or edit is None
        why = "the line above does not end with a backslash"
        if edit is not None:
            why = f"a blank follows the backslash of line {number}"
        elif facts.lines[number - 1].lstrip().startswith("#"):
            why = f"the comment of line {number} ends the command before it"
        yield Violation(
            f"bash takes {command.words[0].raw} for a command: {why}",
            "remove the blank" if edit else "write the command and its options without a gap",
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
    for run in facts.launches:
        shells = [each for each in run.inside if each.kind == SHELL and not each.has("c")]
        bare = any(len(shell.own_words) == 1 for shell in shells)
        if run.is_srun and run.has("pty") and bare and run.command.sure:
            yield Violation(
                "a batch script has no terminal: this shell ends at once, or waits for nobody",
                "call the program itself: srun python …",
                place=run.place,
            )


@script_rule(WARNING, "NC659", "lines behind exit")
def behind_exit(facts: ScriptFacts) -> Iterator[Violation]:
    for ends in facts.shell.calls("exit"):
        line = ends.place.line
        after = [run for run in facts.launches if run.command.sure and run.place.line > line]
        before = facts.lines[line - 1][: ends.place.column - 1]
        if ends.sure and not before.strip() and any(run.works for run in after):
            yield Violation(
                f"the script ends here: line {after[0].place.line} and what follows it never runs",
                "remove the line, or what stands below it",
                place=ends.place,
            )
            return


_ONLY_WITH = {
    "SLURM_CPUS_PER_TASK": "cpus-per-task",
    "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_GPUS_PER_NODE": "gpus-per-node",
}
"""Variables that Slurm sets only where the option is given (the first two tried on 22.05)."""


@script_rule(WARNING, "NC660", "variable that Slurm does not set", "by_absence")
def not_set(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.plan is None or not facts.header.given or facts.header.components > 1:
        return
    words = [
        word
        for command in facts.shell.commands
        if command.name not in ("echo", "printf")
        for word in command.words[1:]
    ] + [assigned.word for assigned in facts.shell.assignments]
    for name, option in _ONLY_WITH.items():
        knows = rf"{name}:?[-=+?]|(\[|test|-v) .*{name}|(^|\s){name}="
        if facts.has(option) or option in facts.header.unread or name not in facts.text:
            continue
        used = [word for word in words if name in word.names and name in word.raw]
        if used and not re.search(knows, facts.text, re.MULTILINE):
            yield Violation(
                f"${name} is empty here: Slurm sets it only with --{option}",
                f"write #SBATCH --{option}=…, or ${{{name}:-1}}",
                place=used[0].place,
            )
