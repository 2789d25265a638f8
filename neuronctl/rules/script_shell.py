"""NC631 to NC643: the shell lines of a script."""

from __future__ import annotations

import os
import re
import signal as signals
from typing import Iterator, List, Optional, Sequence, Set, Tuple

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.secrets import find_secrets, is_secret_name
from neuronctl.common.units import NEVER_HANDLED, split_signal
from neuronctl.common.users import login_name
from neuronctl.common.words import counted
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Violation
from neuronctl.rules.script_arrays import tasks_of
from neuronctl.rules.script_base import ScriptFacts, Start, script_rule
from neuronctl.rules.script_commands import SHORT
from neuronctl.rules.script_starts import replaced_by_srun
from neuronctl.scripts.launches import PROGRAM, PYTHON, SHELL, Launch
from neuronctl.scripts.model import SCRIPT, SourceSpan
from neuronctl.scripts.shell_text import Assignment, Command
from neuronctl.scripts.values import digits

_OF_A_TASK = ("SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID", "SLURM_TASK_PID")


def _expanded(names: Sequence[str], nodes: int) -> Optional[str]:
    """The first of the names that differs between tasks on so many nodes; None without one."""
    differ = [variable for variable in _OF_A_TASK if variable != "SLURM_NODEID" or nodes > 1]
    return next((name for name in names if name in differ), None)


def _expanded_early(facts: ScriptFacts) -> Iterator[Violation]:
    """A variable of the job's that the shell expands which submits it: ``sbatch <<EOF``."""
    if facts.header.given or "#SBATCH" not in facts.text:
        return
    texts: List[List[int]] = []
    end = ""
    for number, line in enumerate(facts.lines, 1):
        if end:
            texts[-1].append(number)
            end = "" if line.strip() == end else end
            continue
        here = re.search(r"(?<!<)<<-?[ \t]*(\w+)", line) if "<<" in line else None
        if here is not None:
            end = here[1]
            texts.append([number])
    jobs = {
        number
        for text in texts
        if any(facts.lines[number - 1].startswith("#SBATCH") for number in text)
        for number in text
    }
    for word in facts.shell.written:
        name = next((name for name in word.names if _OF_THE_JOB.match(name)), None)
        if name and word.place.line in jobs:
            yield Violation(
                f"the shell that submits expands ${name} in this here-document, and has none: it "
                "is empty in the job",
                f"write \\${name}, or quote the word behind <<",
                place=word.place,
                severity=WARNING,
            )
            return


_OF_THE_JOB = re.compile(r"SLURM_(JOB|N|ARRAY|PROCID|LOCALID|CPUS|GPUS|TMPDIR|SUBMIT_DIR|TASK)")


@script_rule(ERROR, "NC631", "rank expanded by the batch shell")
def ranks(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _expanded_early(facts)
    if facts.tasks < 2:
        return
    for launch in facts.launches:
        if launch.command.captured or not (launch.is_launcher or launch.kind in (PYTHON, SHELL)):
            continue
        nodes = 1 if facts.plan is None else facts.plan.nodes
        if launch.launcher.starts_processes():
            continue  # it starts on the first node alone (NC624)
        times = facts.times(launch) if launch.is_srun else (nodes, 2)
        if times is None or times[0] * times[1] < 2:
            continue
        # With such an option, torchrun takes no notice of --node_rank.
        meets = any(inner.has(*inner.launcher.endpoint) for inner in (launch, *launch.below()))
        told: Set[SourceSpan] = set()  # a variable may be many words
        for word in launch.command.words:
            if meets and "is_host=" not in word.raw:
                continue
            name = _expanded(word.names, times[0])
            if name is not None and word.place not in told:
                told.add(word.place)
                # It may come by another variable, which was set from it.
                known = name in word.raw
                where = f"expands ${name} here" if known else f"has set {word.raw} from ${name}"
                yield Violation(
                    f"the batch shell {where}, and it is 0: every process gets the same value",
                    f"let each task expand it: srun bash -c '… ${name} …' in single quotes, or "
                    f"\\${name}",
                    place=word.place,
                )
    nodes = 1 if facts.plan is None else facts.plan.nodes
    launched = any(launch.is_launcher for launch in facts.launches)
    for word in facts.shell.written if launched else ():
        name = _expanded(word.names, nodes)
        if name is not None:
            yield Violation(
                f"the batch shell expands ${name} in this here-document, and it is 0",
                f"write \\${name}, or quote the word behind <<",
                place=word.place,
                severity=WARNING,
            )
    for assigned in facts.shell.assignments:
        name = _expanded(assigned.word.names, 1 if facts.plan is None else facts.plan.nodes)
        # Whether the program reads it cannot be seen.
        if (
            name is not None
            and assigned.exported
            and assigned.sure
            and not _handed(facts, assigned)
            and not (facts.ranks_are_given and re.fullmatch("(LOCAL_)?RANK", assigned.name))
        ):
            yield Violation(
                f"the batch shell expands ${name} here, and it is 0: {assigned.name} is the same "
                "in every process",
                f"let each task set it: srun bash -c 'export {assigned.name}=${name}; …'",
                place=assigned.place,
                severity=WARNING,
            )


def _handed(facts: ScriptFacts, variable: Assignment) -> bool:
    """Whether the batch shell uses a variable in a command, where its value is judged."""
    return any(
        variable.name in word.names for each in facts.launches for word in each.command.words
    )


def _shared(facts: ScriptFacts) -> bool:
    """Whether other jobs may run on the job's nodes."""
    plan = facts.plan
    if plan is None or facts.has("exclusive"):
        return False
    cores = plan.partition.max_cores_per_node
    if facts.header.value("mem") == "0" or (cores and plan.cores_per_node >= cores):
        return False  # all memory, or all cores: there is room for nobody else
    # Whoever asks for several nodes has whole ones, as a rule: four GPUs, or eight.
    whole = plan.partition.gpus_per_node or (4 if plan.nodes > 1 else 8)
    return not 0 < whole <= plan.gpus_per_node


def _ports(launch: Launch) -> Iterator[Tuple[str, SourceSpan]]:
    """The port where its processes meet, also where the address is a variable."""
    for name in launch.launcher.port:
        if launch.count(name):
            yield str(launch.count(name)), launch.place_of(name)
    endpoint = launch.launcher.endpoint
    for value, place in launch.written(*endpoint) if launch.has(*endpoint) else ():
        port = re.search(r":([1-9][0-9]{0,4})[\"']?$", value)
        if port is not None:
            yield port[1], place


@script_rule(WARNING, "NC632", "fixed port")
def fixed_port(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _port_of_a_loop(facts)
    if not _shared(facts):
        return
    # Such as in both branches of a choice, or if nothing else has given one.
    chosen = len(facts.shell.assigned("MASTER_PORT")) > 1 or "{MASTER_PORT:" in facts.text
    found: List[Tuple[str, SourceSpan]] = [
        (variable.word.value, variable.place)
        for variable in facts.shell.every_assignment
        if variable.name == "MASTER_PORT" and variable.word.value is not None and not chosen
    ]
    own = facts.shell.assigned("MASTER_PORT")
    used = re.search(r"(?m)^(?![ \t]*(?:echo\b|printf\b|#)).*\$\{?MASTER_PORT\b", facts.text)
    exported = any(variable.exported for variable in own) and not facts.ranks_are_given
    if own and not used and not exported:
        found = []  # no program reads it
    for launch in facts.every_launch:
        if not launch.has("standalone"):  # it meets on a port of its own
            found += _ports(launch)
    for port, place in found[:1]:
        if digits(port):
            yield Violation(
                f"port {port} is the same for every job: where two of them share a node, the "
                "second one fails",
                "derive it from the job: MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))",
                place=place,
            )
            return
    yield from _port_of_a_server(facts)


def _port_of_a_loop(facts: ScriptFacts) -> Iterator[Violation]:
    """A port that a loop gives to several launchers at once."""
    if any(command.in_loop for command in facts.shell.calls("wait")):
        return
    for launch in facts.launches:
        names = launch.launcher.port
        at_once = launch.command.in_loop and launch.command.background
        given = next(launch.written(*names), None) if names and at_once else None
        if given is None or launch.is_srun:
            continue
        variable = re.fullmatch(r"\W*(\w+)\W*", given[0])
        found = facts.shell.assigned(variable[1]) if variable else ()
        if given[0].isdigit() or (len(found) == 1 and found[0].sure):
            yield Violation(
                f"every {launch.kind} of this loop meets at port {given[0]}: all but one fail",
                "give each a port of its own, or wait for each",
                place=given[1],
            )
            return


_LISTENS = re.compile(
    r"(?P<jupyter>.*jupyter(-| )?(lab|notebook|server)?)|vllm|ollama|ray|tensorboard|streamlit"
    r"|mlflow|(redis|code|llama)-server|vllm\.entrypoints.*|sglang\.launch_server|http\.server"
)
_PORT = re.compile(r"--(?:[\w.]*[._-])?port|-p")


def _only_port(facts: ScriptFacts, raw: str) -> str:
    """The number of ``"$PORT"``, where PORT is set once, to it or to a default."""
    name = re.fullmatch(r"\"?\$\{?(\w+)\}?\"?", raw)
    given = facts.shell.assigned(name[1]) if name else ()
    number = re.fullmatch(r"\"?(?:\$\{\w+:-(\d+)\}|(\d+))\"?", given[0].word.raw) if given else None
    return (number[1] or number[2]) if number and len(given) == 1 else ""


def _port_of_a_server(facts: ScriptFacts) -> Iterator[Violation]:
    """A server with a port of its own on a node where another job's may have it."""
    for run in facts.every_launch:
        name = run.options.get("m") or run.name
        known = _LISTENS.fullmatch(name)
        own = run.own_words[1:]
        if known is None or run.command.captured or run.has("c"):
            continue
        for pair in run.pairs:
            value = pair.value.value or _only_port(facts, pair.value.raw)
            if not (_PORT.fullmatch(pair.name) and re.fullmatch(r"[1-9]\d{2,4}", value)):
                continue
            tries = known["jupyter"] and not re.search(
                r"port_retries[= ]0", " ".join(word.text for word in own)
            )
            ends = "the second server takes the next one" if tries else "the second server ends"
            yield _of_every_job(value, ends, pair.word.place)
            return
        default = _DEFAULT_PORTS.get(known[0])
        tasks = tasks_of(facts.header.value("array") or "")
        several = tasks is not None and tasks.count > 1
        if name == "vllm" and run.texts[1:2] != ("serve",):
            continue
        if default and several and not run.has("port") and "--port" not in " ".join(run.texts):
            yield _of_every_job(default, "the second server ends", run.place, "--port ")
            return


_DEFAULT_PORTS = {
    **dict.fromkeys(("vllm", "vllm.entrypoints.openai.api_server"), "8000"),
    "sglang.launch_server": "30000",
}


def _of_every_job(port: str, ends: str, place: SourceSpan, by: str = "PORT=") -> Violation:
    return Violation(
        f"port {port} is the same for every job: where two of them share a node, {ends}",
        f"derive it from the job: {by}$((10000 + SLURM_JOB_ID % 20000))",
        place=place,
        severity=NOTE,
    )


def _highest(facts: ScriptFacts, variable: Assignment) -> int:
    """Up to what a variable counts that is an array's index, or a loop's; -1 where not known."""
    name = re.fullmatch(r"[\"']?\$\{?(\w+)\}?[\"']?", variable.word.raw)
    if name is None:
        return -1
    array = facts.given("array")
    if name[1] == "SLURM_ARRAY_TASK_ID" and array is not None:
        tasks = tasks_of(array.value or "")
        return (
            -1
            if tasks is None
            else max(map(int, re.findall(r"\d+", tasks.tasks or "")), default=-1)
        )
    above = "\n".join(facts.lines[: variable.place.line])
    loops = re.findall(rf"\bfor {name[1]} in ([^;\n]+)", above)
    words = loops[-1].replace("; do", "").strip() if loops else ""
    span = re.fullmatch(r"\{0\.\.(\d{1,9})\}|\$\(seq (?:0 )?(\d{1,9})\)", words)
    if span is not None:
        return int(span[1] or span[2])
    return max(map(int, words.split())) if re.fullmatch(r"\d{1,2}( \d{1,2})*", words) else -1


@script_rule(WARNING, "NC633", "GPUs chosen by hand")
def gpus_by_hand(facts: ScriptFacts) -> Iterator[Violation]:
    # Without a request for GPUs, Slurm sets nothing; a node may have some all the same.
    if facts.plan is None or not facts.plan.gpus_per_node:
        return
    if facts.has("gpus-per-task") and not facts.has("ntasks", "ntasks-per-node", "gpus"):
        return  # how many tasks there are may be said on the command line
    has = facts.plan.gpus_per_node
    every = facts.shell.every_assignment
    found = [variable for variable in every if variable.name == "CUDA_VISIBLE_DEVICES"]
    # Slurm has exported it, so that a line of its own sets it for the program that follows, too.
    beside = any(command.background for command in facts.shell.commands)
    before = [
        variable.word.value
        for variable in found
        if beside or (variable.exported and not variable.sure)
    ]
    several = len({*before}) > 1  # each has its share
    asks = [command for command in facts.shell.calls("nvidia-smi", "rocm-smi") if command.captured]
    counted_here = bool(asks or re.search(r"SLURM_GPUS|SLURM_JOB_GPUS|device_count", facts.text))
    for variable in found[:50]:
        if replaced_by_srun(facts, variable):
            continue
        highest = _highest(facts, variable)
        if highest >= has:
            yield Violation(
                f"{variable.word.raw} goes up to {highest}, and the job has {counted(has, 'GPU')}, "
                "numbered from 0: the others find none",
                "remove the line: Slurm sets it",
                place=variable.place,
            )
        if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", variable.word.value or ""):
            continue
        numbers = [int(text) for text in (variable.word.value or "").split(",")]
        if counted_here and max(numbers) < has and not variable.sure:
            continue
        if sorted(numbers) == list(range(has)) or (several and max(numbers) < has):
            continue
        effect = "it may name GPUs of other jobs, or hide this one's"
        if max(numbers) >= has:
            effect = f"the job has {counted(has, 'GPU')}, numbered from 0"
        yield Violation(
            f"CUDA_VISIBLE_DEVICES={variable.word.value} replaces what Slurm has set: {effect}",
            "remove the line: Slurm sets it",
            place=variable.place,
        )


_SAME_PATH = (
    (r"^\"?\$\{\w+:-(\$\{?(SLURM_SUBMIT_DIR|PWD)\}?|\$\(pwd\))\}\"?/+", ""),
    (r"^(\$\{?(SLURM_SUBMIT_DIR|PWD)\}?|\$\(pwd\)|\.)/+", ""),
    (r"\$\{?(USER|LOGNAME)\}?|\$\(whoami\)|%u", "<user>"),
    (r"\$\{?SLURM_JOB_?ID\}?|%[jA]|\$\{?SLURM_ARRAY_JOB_ID\}?", "<job>"),
    (r"\$\{?SLURM_ARRAY_TASK_ID\}?|%a", "<index>"),
    (r"\$\{?SLURM_JOB_NAME\}?|%x", "<name>"),
)


def _path(text: str) -> str:
    """A path in the shell or in a directive, with the same words for what is the same."""
    for pattern, name in _SAME_PATH:
        text = re.sub(pattern, name, text)
    return os.path.normpath(text)


def submits_itself(facts: ScriptFacts, behind: int = 0) -> bool:
    """Whether a line behind that one calls sbatch."""
    return any(
        command.place.line > behind and any(word.value == "sbatch" for word in command.words[:2])
        for command in facts.shell.commands
    )


@script_rule(WARNING, "NC634", "log directory made too late")
def late_directory(facts: ScriptFacts) -> Iterator[Violation]:
    for name in ("output", "error"):
        given = facts.given(name)
        directory = os.path.dirname(given.value or "") if given is not None else ""
        here = directory.replace("%u", login_name())
        if given is None or not directory or os.path.isdir(here):
            continue
        for command in facts.shell.calls("mkdir"):
            gone = [
                each.words[1].value or ""
                for each in facts.shell.calls("cd")
                if len(each.words) == 2 and each.place.line < command.place.line
            ][-1:]
            above = gone[0] if gone and gone[0].startswith("/") and command.sure else ""
            words = [_by_default(facts, word.text) for word in command.words[1:]]
            inside = [os.path.join(above, text) for text in words] if above else []
            made = [_path(text) for text in (*words, *inside)]
            # Outside of a job, such a script makes the directory and submits itself.
            if not command.sure and submits_itself(facts, command.place.line):
                continue
            wanted = _path(directory)
            # /scratch/me is there, where somebody makes /scratch/me/tmp.
            below = () if wanted.startswith("/") else made
            deep = "/" in wanted and re.compile(rf"\$\{{?\w+\}}?/{re.escape(wanted)}")
            raws = (_path(word.raw.strip('"')) for word in command.words[1:])
            by_variable = deep and any(map(deep.fullmatch, raws))
            known = wanted in made or any(path.startswith(f"{wanted}/") for path in below)
            if known or by_variable:
                yield Violation(
                    f"this comes too late for --{name}={given.value}: Slurm opens the log before "
                    "the script starts, and without the directory the job fails without a log",
                    _made_before(directory),
                    place=command.place,
                    severity=None if known else NOTE,
                )
                return


_DEFAULT = re.compile(r"\"?\$\{\w+:?-([^${}]+)\}\"?")


def _by_default(facts: ScriptFacts, path: str) -> str:
    """A path that begins with a variable for which the script has a default alone."""
    name = re.match(r"\$\{?(\w+)\}?(?=/|$)", path)
    own = facts.shell.assigned(name[1]) if name else ()
    found = _DEFAULT.fullmatch(own[0].word.raw) if len(own) == 1 else None
    if name and found:
        return found[1] + path[name.end() :]
    given = _DEFAULT.match(path)
    return path if given is None else given[1] + path[given.end() :]


def _made_before(directory: str) -> str:
    """How the directory of a log is there in time; the shell that submits knows no %u."""
    directory = directory.replace("%u", "$USER")
    above, number, _ = directory.partition("%")
    if number:
        above = above.rpartition("/")[0] or "."
        return f"put the number into the name of the file: {above}/%j.log, and make {above} before"
    return f"make it before you submit: mkdir -p {directory} && sbatch …"


def _signal(facts: ScriptFacts) -> Optional[str]:
    """The name of the signal that --signal sends to the batch shell, without SIG."""
    given = facts.given("signal")
    flags, name, _ = split_signal("" if given is None else given.value or "")
    if "B" not in flags:
        return None
    number = digits(name)
    if number is None:
        return name.upper()
    return next((known.name[3:] for known in signals.Signals if known == number), None)


def _not_for_the_shell(facts: ScriptFacts) -> Iterator[Violation]:
    """A trap of the batch shell's for a signal that goes to srun's processes alone."""
    given = facts.given("signal")
    value = "" if given is None else given.value or ""
    flags, name, seconds = split_signal(value)
    if "B" in flags or not name[:1].isalpha():
        return
    programs = [
        run
        for run in facts.launches
        if run.name not in SHORT and (run.kind != SHELL or run.works) and not run.command.captured
    ]
    if given is not None and programs and not facts.uses_launcher and not facts.shell.traps(name):
        yield Violation(
            f"--signal={value} reaches nobody: without B:, it goes to the processes that srun "
            "started, and this script starts none",
            f"write srun before {programs[-1].command.words[0].raw}",
            place=given.place,
        )
    for trap in facts.shell.traps(name.upper())[:1]:
        yield Violation(
            f"this trap does not run: without B:, --signal={value} goes to the processes "
            "that srun started, not to the batch shell",
            f"write --signal=B:{name}{seconds and f'@{seconds}'}",
            place=trap.place,
        )


_SETS_NO_TRAP = re.compile(
    r".*(\bactivate|conda\.sh|/(mamba|micromamba)\.sh|bashrc|profile|/bash)"
    r"|.*\b(config|env|settings|variables|vars)\w*(\.(sh|bash|env|conf))?|.*\.env"
)
"""Files that activate software, or set variables."""


def _may_trap(facts: ScriptFacts) -> bool:
    """Whether exec puts the program in the shell's place, or a file that is read may set a trap."""
    if facts.shell.calls("exec"):
        return True
    for command in facts.shell.calls("source", ".", "eval"):
        text = command.words[1].raw.strip("\"'") if len(command.words) > 1 else ""
        if not _SETS_NO_TRAP.fullmatch(text) and not re.match(r"\$\((conda|mamba|micro)", text):
            return True
    return False


@script_rule(WARNING, "NC635", "signal without a trap", "by_absence")
def no_trap(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.shell.placeholders:
        return  # it is not known what stands behind one
    yield from _not_for_the_shell(facts)
    name, given = _signal(facts), facts.given("signal")
    if name is None or given is None or name in ("CONT", "URG", "CHLD", *NEVER_HANDLED):
        return
    if not facts.shell.traps(name) and not _may_trap(facts):
        yield Violation(
            f"--signal={given.value} sends {name} to the batch shell alone, which has no trap for "
            "it: the signal ends the job at once, and the program never sees it",
            f"add trap '…' {name} and start the program in the background, followed by wait; or "
            f"write --signal={name}, which srun's processes get",
            place=given.place,
        )


@script_rule(WARNING, "NC636", "trap that waits for the program's end", "by_absence")
def trap_waits(facts: ScriptFacts) -> Iterator[Violation]:
    name = _signal(facts)
    if name is None and re.search(r"scontrol requeue|\bsbatch\b", facts.text):
        name = "TERM"  # of the time limit, or of preemption
    traps = () if name is None else facts.shell.traps(name)
    if not traps or facts.shell.calls("wait"):
        return
    own = [launch for launch in facts.launches if launch.works]
    if own and not any(launch.command.background for launch in own):
        yield Violation(
            f"bash runs this trap only when {own[-1].word.raw} has ended: a command in the "
            "foreground holds it back",
            f"start it in the background: {own[-1].command.words[0].raw} … & wait $!",
            place=traps[0].place,
        )


@script_rule(WARNING, "NC637", "more threads than cores")
def threads(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or facts.has("exclusive", "cpus-per-gpu", "mincpus"):
        return
    yield from _told_of_threads(facts)
    yield from _processes_and_cores(facts, plan)
    yield from _copies_of_threads(facts, plan)
    programs = [start for start in facts.starts if start.outer and not start.launch.is_launcher]
    each = max((start.each or 1 for start in programs), default=1)
    # A step that says how many cores a task has gets these, or does not start.
    steps = [run for run in facts.every_launch if run.is_srun and run.has("cpus_per_task")]
    of_steps = [
        (run.count("cpus_per_task") or 0) * (times[1] if times else 0)
        for run, times in ((run, facts.times(run)) for run in steps)
    ]
    cores = max(of_steps, default=plan.cores_per_node)
    in_shell = {id(assignment) for assignment in facts.shell.assignments}
    for assignment in facts.shell.every_assignment:
        if assignment.name != "OMP_NUM_THREADS" or 0 in of_steps:
            continue
        highest = _highest(facts, assignment) if not digits(assignment.word.value) else 0
        count = digits(assignment.word.value) or highest
        # One task may use all cores of its node.
        runs = assignment.sure or highest > 0
        unsure = id(assignment) in in_shell and not (runs and assignment.exported)
        if count * each <= cores or unsure:
            continue
        # Where nobody says how many cores, the site may give whole nodes.
        told = facts.has("cpus-per-task")
        alone = "" if told else ", unless the job has its nodes alone"
        several = f"{counted(each, 'process')} on each node, with {count} threads each, and"
        yield Violation(
            (several if each > 1 else f"{count} threads, and")
            + f" the job has {counted(cores, 'core')} there: they take turns{alone}",
            f"request #SBATCH --cpus-per-task={-(-count * each // plan.ntasks_per_node)}, or write "
            f"OMP_NUM_THREADS={max(1, cores // each)}",
            place=assignment.place,
            severity=WARNING if told else NOTE,
        )


_THREADS = {
    "gmx": ("-ntomp", "-nt"),
    "gmx_mpi": ("-ntomp",),
    **dict.fromkeys(("namd2", "namd3"), (r"\+p",)),
    "julia": ("-t", "--threads", "-p", "--procs"),
    "make": ("-j", "--jobs"),
    "xargs": ("-P", "--max-procs"),
    "parallel": ("-j", "--jobs"),
    "bwa": ("-t",),
    **dict.fromkeys(
        ("bwa-mem2", "minimap2", "fastqc", "sambamba", "prodigal"), ("-t", "--threads")
    ),
    **dict.fromkeys(("bowtie", "bowtie2", "hisat2", "stringtie", "salmon"), ("-p", "--threads")),
    "STAR": ("--runThreadN",),
    **dict.fromkeys(("samtools", "bgzip"), ("-@", "--threads")),
    **dict.fromkeys(("bcftools", "kraken2", "diamond", "kallisto", "pigz"), ("--threads", "-p")),
    **dict.fromkeys(("blastn", "blastp", "blastx", "tblastn"), ("-num_threads",)),
    **dict.fromkeys(("iqtree", "iqtree2"), ("-nt", "-T")),
    **dict.fromkeys(("raxmlHPC-PTHREADS", "featureCounts"), ("-T",)),
    **dict.fromkeys(("spades.py", "megahit", "quast.py"), ("-t", "--threads")),
    **dict.fromkeys(("prokka", "busco", "Trinity"), ("--cpus?", "--CPU", "-c")),
    "hmmsearch": ("--cpu",),
    "snakemake": ("--cores", "-c", "-j", "--jobs"),
    **dict.fromkeys(("cutadapt", "trim_galore"), ("-j", "--cores")),
    "fastp": ("-w", "--thread"),
    "mafft": ("--thread",),
}
_WORKERS = re.compile(
    r"--(?:[a-z]+[_-](?=num))?(?:num|n)?[_-]?(?:dataloader_|data_)?(?:workers|cpus?|threads|jobs|procs?)(?:_dataloader)?"
)
_SUBMITS = re.compile(r"--(cluster|slurm|profile|executor)\b")
_OF_LOADERS = re.compile(r".*workers.*")


def _told_of_threads(facts: ScriptFacts) -> Iterator[Violation]:
    """A program whose own words name more threads or workers than its task has cores."""
    plan, told_of_cores = facts.plan, facts.has("cpus-per-task")
    if plan is None or not facts.header.given or facts.header.value("mem") == "0":
        return
    for start in facts.starts:
        name = (start.launch.word.value or "").rpartition("/")[2]
        of_task = any(outer.is_launcher for outer in start.outer)
        cores = plan.cpus_per_task if of_task else plan.cores_per_node
        named = re.compile(f"(?:{'|'.join(_THREADS.get(name, ('--',)))})(\\d+)?")
        ranks = 1
        for pair in start.launch.pairs:
            joined = named.fullmatch(pair.name)
            text = (joined and joined[1]) or pair.value.value or ""
            if pair.name == "-ntmpi":
                ranks = digits(text) or 1
            asks = joined or _WORKERS.fullmatch(pair.name)
            if not asks or not re.fullmatch(r"[1-9]\d{0,2}", text):
                continue
            told, total = name in _THREADS, int(text) * ranks
            several = _processes_of_a_task(facts, start) if _OF_LOADERS.fullmatch(pair.name) else 1
            if total <= cores and total * several <= 2 * cores:
                continue
            if name == "snakemake" and _SUBMITS.search(facts.text):
                continue
            # A site may give cores with a GPU.
            least = 2 * cores if not plan.gpus_per_node else max(2 * cores, 7 * plan.gpus_per_node)
            if not told_of_cores and total <= least:
                continue
            what = "threads" if told else pair.name.lstrip("-")
            times = f" in each of {several} processes" if several > 1 else ""
            alone = "" if told_of_cores else ", unless it has the node alone"
            if not told_of_cores and plan.gpus_per_node:
                alone += ", or the site gives cores with a GPU"
            yield Violation(
                f"{what} {total}{times}, and {'the task' if of_task else 'the job'} has "
                f"{counted(cores, 'core')}: they take turns{alone}",
                f"request #SBATCH --cpus-per-task={total * several}, or write "
                f"{cores // ranks // several or 1}",
                place=pair.word.place,
                severity=WARNING if told and told_of_cores and total > 2 * cores else NOTE,
            )
            return


def _processes_and_cores(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """Processes of a launcher in a task of one core, where nobody says how many cores."""
    whole = plan.gpus_per_node >= (plan.partition.gpus_per_node or 8)
    if facts.has("cpus-per-task") or facts.header.value("mem") == "0" or whole:
        return
    for start in facts.starts:
        launch = start.launch
        count = launch.count(*launch.launcher.processes_per_node)
        if count is None and launch.launcher.joins:  # accelerate counts those of all nodes
            count = (launch.count(*launch.launcher.processes) or 0) // plan.nodes
        of_task = any(outer.is_launcher for outer in start.outer)
        cores = plan.cpus_per_task if of_task else plan.cores_per_node
        if not launch.launcher.starts_processes() or not count or count <= cores:
            continue
        who = "the task" if of_task else "the job"
        yield Violation(
            f"{launch.kind} starts {counted(count, 'process')}, and {who} has "
            f"{counted(cores, 'core')}: they take turns, unless the site gives cores with a GPU",
            f"request #SBATCH --cpus-per-task={4 * count}, or more",
            place=launch.place,
            severity=NOTE,
        )
        return


_HAS_THREADS = re.compile(r"(?i)(?!.*(mpi|hybrid|lmp)).*[_-](omp|openmp)(\.(exe|x|out))?")


_COMPILES = re.compile(
    r"gcc|g\+\+|cc|clang(\+\+)?|nvcc|hipcc|i(cc|cpc|fort|cx|cpx|fx)|gfortran|mpi\w+"
)


def _copies_of_threads(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """A program of threads, by its name or as it is built, that srun starts several times."""
    if facts.has("cpus-per-task") or not facts.uses_launcher:
        return
    built: Set[str] = set()
    for command in facts.shell.commands:
        words = [word.text for word in command.words]
        if re.match("mpi|cc$", command.name):
            continue  # for MPI, Cray's cc too
        if _COMPILES.fullmatch(command.name) and {"-fopenmp", "-qopenmp"} & {*words}:
            made = words[words.index("-o") + 1 :][:1] if "-o" in words else ["a.out"]
            built.update(name.rpartition("/")[2] for name in made if "-lmpi" not in words)
    for start in facts.starts:
        name, times = start.launch.name, (start.nodes or 0) * (start.each or 0)
        srun = start.outer[-1] if start.outer else None
        if srun is None or not srun.is_srun or srun.has("cpus_per_task") or times < 2:
            continue
        if start.launch.kind == PROGRAM and (name in built or _HAS_THREADS.fullmatch(name)):
            by = "as it is built here" if name in built else "by its name"
            yield Violation(
                f"srun starts {name} {counted(times, 'time')}, each with a core of its own: {by}, "
                "it has threads (OpenMP), and all do the same work",
                f"request #SBATCH --ntasks=1 --cpus-per-task={times}",
                place=start.launch.place,
                severity=None if name in built else NOTE,
            )
            return


def _processes_of_a_task(facts: ScriptFacts, start: Start) -> int:
    """How many of a program's processes share the cores of a task, such as torchrun's."""
    launchers = [outer for outer in start.outer if outer.launcher.starts_processes()]
    plan = facts.plan
    if not launchers or plan is None:
        return 1
    return max(1, (start.each or 1) // (1 if len(start.outer) < 2 else plan.ntasks_per_node))


def _reads_profile(facts: ScriptFacts) -> bool:
    """Whether the script's own shell reads the profile, or .bashrc as an interactive one does."""
    words = facts.header.shebang.split()[1:]
    return any(re.fullmatch(r"[-–—][a-z]*[li][a-z]*|--login", word) for word in words)


def _loads_spack(command: Command) -> bool:
    return any("spack" in word.raw for word in command.words[1:])


_NO_CONDA = re.compile(
    r"(?i)(\S*/)?(cuda|cudnn|nccl|gcc|gnu|openmpi|intel|cmake|git|singularity|apptainer|tmux|ffmpeg"
    r"|hdf5|java|matlab|nvidia|nvhpc|ucx|mpi\w*|cuda-?toolkit)([-/.]?[\d.]\S*|/\S*)?|load|add|purge"
)


def _without_conda(command: Command) -> bool:
    """Whether it loads modules that have nothing to do with Python."""
    words = [word.raw for word in command.words[1:]]
    return command.name in ("module", "ml") and all(map(_NO_CONDA.fullmatch, words))


@script_rule(WARNING, "NC638", "environment that is not activated", "of_lines")
def conda_hook(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _in_order(facts)
    # Whatever is sourced, evaluated or loaded before it may define conda.
    reads = [
        each.place.line
        for each in facts.shell.calls("source", ".")
        if re.search(r"bashrc|profile", each.words[-1].raw)
    ]
    for command in facts.shell.calls("conda", "mamba", "micromamba"):
        again = any(line > command.place.line for line in reads)
        if command.arguments[:1] == ("init",) and not (command.captured or again):
            yield Violation(
                f"'{command.name} init' changes {_changed_by_init(command)} for the next login, "
                "and not this shell",
                'write eval "$(conda shell.bash hook)" in its place',
                place=command.place,
                severity=NOTE,
            )
    for command in facts.shell.calls("activate", "bash", "sh"):
        path = [word.text for word in command.words if word.text.endswith("bin/activate")]
        if path[:1] and command.words[0].raw != "activate":
            yield Violation(
                f"{path[0]} is for this shell: a process of its own changes nothing here",
                f"write source {path[0]}",
                place=command.place,
            )
    yield from _words_of_another(facts)
    if _reads_profile(facts) or facts.has("get-user-env"):
        return
    for command in facts.shell.calls("conda", "mamba", "micromamba", "source", "spack"):
        spack = command.name == "spack"
        if command.arguments[:1] != ("load" if spack else "activate",):
            continue
        readers = ["source", ".", "eval", "module", "ml"]
        if command.name == "source":  # which conda has beside itself
            readers.append("conda")
        before = [
            other
            for other in facts.shell.calls(*readers)
            if (other.place.line, other.place.column) < (command.place.line, command.place.column)
            # A module has spack's functions if it is one of spack.
            and not (spack and other.name in ("module", "ml") and not _loads_spack(other))
            and not _without_conda(other)
        ]
        if not before and not (command.name == "source" and facts.shell.assigned("PATH")):
            perhaps = command.name == "source"  # activate is a file there
            if perhaps and facts.within:
                return  # where another shell runs, such as in a container, PATH may be another
            yield Violation(
                "'source activate' works only if the shell that submits has conda's bin in PATH"
                if perhaps
                else "'spack load' works only if the shell that submits has read spack's "
                "setup-env.sh, and passes on its environment"
                if spack
                else f"'{command.name} {command.arguments[0]}' fails in a batch shell, which has "
                f"not read {command.name}'s shell functions",
                "put . DIRECTORY/share/spack/setup-env.sh before it"
                if spack
                else 'put eval "$(conda shell.bash hook)" before it',
                place=command.place,
                severity=NOTE if perhaps or spack else None,
            )
        return


def _words_of_another(facts: ScriptFacts) -> Iterator[Violation]:
    """``source x/conda.sh conda activate e``, and ``source env create``: a word that is missing."""
    for command in facts.shell.calls("source", "."):
        words = command.arguments
        if words[1:3] in (("conda", "activate"), ("mamba", "activate")):
            yield Violation(
                f"{words[1]} activate does not run: to source, the words are arguments of its file",
                f"write && before {words[1]}",
                place=command.words[2].place,
            )
        elif words[:2] in (("env", "create"), ("env", "update")) or words[:1] == ("create",):
            yield Violation(
                f"source reads a file {words[0]}, and creates no environment",
                f"write conda {' '.join(word or '' for word in words[:2])}",
                place=command.words[1].place,
            )


def _changed_by_init(command: Command) -> str:
    shells = [word for word in command.arguments[1:] if word and not word.startswith("-")]
    shell = shells[0] if shells else "bash"
    return f"~/.{shell}rc" if shell in ("bash", "zsh", "tcsh", "xonsh") else f"the files of {shell}"


_ENVIRONMENT = re.compile(r"(.*/)?(bin/)?activate")
_MOST_STEPS = 100
"""So many are looked at."""
_BRINGS_PYTHON = re.compile(
    r"(?i)(.*/)?(python3?|(ana|mini)conda[23]?|miniforge3?|mambaforge)(/.*)?"
)


def _in_order(facts: ScriptFacts) -> Iterator[Violation]:
    """An environment that is gone, or another one, when the program starts."""
    works = [run.command.place.line for run in facts.launches if run.works]
    other = [each for each in facts.shell.calls("source", ".", "eval", "spack", "use", "conda")]
    inside: Optional[Command] = None
    loads: List[Command] = []
    if not works:
        return
    names = ("conda", "mamba", "micromamba", "source", ".", "deactivate", "module", "ml")
    for command in facts.shell.calls(*names)[:_MOST_STEPS]:
        words = [word.raw.strip("\"'") for word in command.words[1:]]
        line = command.place.line
        if command.captured or not command.sure or not (words or command.name == "deactivate"):
            continue
        active = words[:1] == ["activate"] or _ENVIRONMENT.fullmatch(words[0] if words else "")
        if command.name in ("module", "ml"):
            added = words[1:] if words[0] in ("load", "add", "swap") else words
            if words[0] == "purge" and loads and any(work > line for work in works):
                later = any(
                    each.place.line > line for each in facts.shell.calls("module", "ml", "spack")
                )
                if not later and not other:
                    yield Violation(
                        f"this unloads what line {loads[0].place.line} has loaded",
                        "write module purge above it",
                        place=command.place,
                    )
                    return
            elif words[0] in ("load", "add"):
                loads.append(command)
                brings = next((name for name in added if _BRINGS_PYTHON.fullmatch(name)), None)
                if brings and inside and any(work > line for work in works):
                    again = any(
                        _ENVIRONMENT.fullmatch(each.words[-1].raw)
                        or "activate" in each.words[1].raw
                        for each in other
                        if each.place.line > line and len(each.words) > 1
                    )
                    python = any(
                        run.kind == PYTHON and run.word.raw == "python" and run.place.line > line
                        for run in facts.every_launch
                    )
                    if python and not again:
                        yield Violation(
                            f"python is that of {brings} from here on, and not of the environment "
                            f"of line {inside.place.line}",
                            "load modules first, and activate the environment behind them",
                            place=command.place,
                        )
                        return
        elif active:
            inside = command
            if (
                line > max(works)
                and len(works)
                and not any(
                    run.place.line > line and run.name not in SHORT for run in facts.launches
                )
            ):
                yield Violation(
                    f"this comes too late: line {max(works)} has run without it",
                    f"move it above line {min(works)}",
                    place=command.place,
                )
                return
        elif command.name == "deactivate" or words[:1] == ["deactivate"]:
            before = inside is not None and any(inside.place.line < work < line for work in works)
            if inside is not None and not before and any(work > line for work in works):
                again = any(
                    each.place.line > line and "activate" in each.words[-1].raw for each in other
                )
                again = again or any("activate" in text for text in facts.lines[line:])
                if not again:
                    yield Violation(
                        f"this leaves the environment of line {inside.place.line} before a program "
                        "has used it",
                        "remove the line, or move it to the end",
                        place=command.place,
                    )
                    return


@script_rule(WARNING, "NC640", "secret in the script")
def secrets(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _traced(facts)
    told = "anybody who reads the file, the job's record or 'scontrol show job' has it"
    hint = (
        "export it in the shell from which you submit, or read it from a file that is yours alone"
    )
    seen = set()
    for first, last in find_secrets(facts.text):
        before = facts.text[:first]
        number, column = before.count("\n") + 1, first - before.rfind("\n")
        line = facts.lines[number - 1]
        remark = line.lstrip().startswith("#") and not line.startswith("#SBATCH")
        if not (remark or number in seen):
            seen.add(number)
            end = min(column + last - first, len(line) + 1)
            place = SourceSpan(number, column, end)
            yield Violation(f"this looks like a secret: {told}", hint, place=place)


_ENV = re.compile(r"[\"']?(.*/)?\.env(\.\w+)?[\"']?")


def _traced(facts: ScriptFacts) -> Iterator[Violation]:
    """A file of secrets that bash reads while it writes all that it does into the log."""
    since = 1 if re.search(r"\s-[a-z]*x", facts.header.shebang) else 0
    told = "writes each variable of .env, with its value, into the job's log"
    filled = [
        variable
        for variable in facts.shell.assignments
        if re.match(r"[\"']?(\$\(|`)\s*(cat\b|<)", variable.word.raw)
        and is_secret_name(variable.name)
    ]
    for command in facts.shell.commands:
        passed = [each for each in filled if since < each.place.line < command.place.line]
        if since and passed:
            yield _in_the_log(since, f"writes {passed[0].name} into the job's log", passed[0].place)
            return
        words = [word.raw for word in command.words[1:]]
        line = facts.lines[command.place.line - 1]
        reads = command.name in ("source", ".") and any(map(_ENV.fullmatch, words[:1]))
        if command.name == "set":
            switches = " ".join(words)
            if re.search(r"\+[a-z]*x|\+o xtrace", switches):
                since = 0
            elif command.sure and re.search(r"(^| )-[a-z]*x|-[a-z]*o xtrace", switches):
                since = command.place.line
        elif command.captured and re.match(r"\s*(export|eval|declare)\b", line):
            reads = any(map(_ENV.fullmatch, words))
        if since and reads:
            yield _in_the_log(since, told, command.place)
            return


def _in_the_log(since: int, what: str, place: SourceSpan) -> Violation:
    hint = "write set +x before it, and set -x behind it"
    return Violation(f"set -x (line {since}) {what}", hint, place=place)


_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_OWN_NAME = re.compile(r"\$\(hostname[^)]*\)|`hostname[^`]*`|\$\{?(HOSTNAME|SLURMD_NODENAME)\}?")


def _quoted(start: Start) -> bool:
    """Whether it is in text that the batch shell leaves as it is: bash -c '…', or a script."""
    if start.launch.place.within:
        return True
    shells = [launch for launch in start.outer if launch.kind == SHELL]
    words = (word for launch in start.outer[:1] for word in launch.command.words)
    return bool(shells) and any(word.raw.startswith("'") for word in words)


_BY_CHANCE = re.compile(r"MASTER_PORT=[^;&\n]{0,200}?(RANDOM|\bshuf\b|free_?port)")


def _own_port(facts: ScriptFacts) -> Iterator[Violation]:
    """A port by chance, which each task of srun draws for itself."""
    for launch in facts.launches:
        times = facts.times(launch) if launch.is_srun else None
        if times is None or times[0] * times[1] < 2:
            continue
        for word in launch.command.words:
            drawn = _BY_CHANCE.search(word.raw)
            each = drawn and (word.raw.startswith("'") or re.search(r"\\\$[({ ]*\w", drawn[0]))
            if each:
                yield Violation(
                    "each task draws a port of its own for MASTER_PORT: they never find each other",
                    "draw it once, before srun: export MASTER_PORT=$((20000 + RANDOM % 10000))",
                    place=word.place,
                )
                return


_MEETS = re.compile(
    r"--?((master|head|dist|init|server|coordinator)[_-]?(addr(ess)?|ip|url|method|node)"
    r"|coordinator|rendezvous([_-]endpoint)?)"
)


def _meeting_places(run: Launch) -> Iterator[Tuple[str, SourceSpan]]:
    """Where the words of a program of Python's say that its processes meet."""
    for pair in run.pairs if run.kind == PYTHON else ():
        if _MEETS.fullmatch(pair.name):
            yield pair.value.outline.rpartition("//")[2], pair.word.place


@script_rule(ERROR, "NC642", "address that is not the first node's")
def first_node(facts: ScriptFacts) -> Iterator[Violation]:
    if facts.plan is None or facts.plan.nodes < 2:
        if facts.plan is not None:
            yield from _own_port(facts)
        return
    hint = 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    spread = {id(run.command) for run in facts.launches if (facts.times(run) or (1, 1))[0] > 1}
    before = (
        each
        for command in facts.shell.commands
        if id(command) in spread
        for each in command.assigned
        if each.name == "MASTER_ADDR"
    )
    found = [
        (assigned.word.value, assigned.place, f"write {hint}")
        for assigned in (*facts.shell.assigned("MASTER_ADDR"), *before)
        if assigned.word.value in _LOOPBACK
    ]
    for start in facts.starts:
        launch = start.launch
        for option in launch.launcher.address + launch.launcher.endpoint:
            named = launch.options.get(option, "").partition(":")[0]
            # What the batch shell starts is on one node (NC624).
            several = launch.count(*launch.launcher.nodes) != 1 and start.nodes != 1
            # What each task asks for its own name; the batch shell would ask on the first node.
            given, _ = next(launch.written(option), ("", None))
            own = _OWN_NAME.match(given.strip('"')) if _quoted(start) else None
            if several and (named in _LOOPBACK or own):
                what = own[0] if own else named
                found.append((what, launch.place, f'write {hint}, and "$MASTER_ADDR" here'))
        for address, place in _meeting_places(launch) if (start.nodes or 1) > 1 else ():
            named = address.partition(":")[0]
            if named in _LOOPBACK:
                found.append((named, place, f'write {hint}, and "$MASTER_ADDR" here'))
    for assigned in facts.shell.assignments:
        listed = re.match(r"\"?\$\{?SLURM_(JOB_)?NODELIST\b(\}\"?$|\"?$|:|%|/)", assigned.word.raw)
        about = re.search(r"(?i)addr|host|master|head|url|ip$", assigned.name)
        if (
            listed
            and about
            and not re.search(rf"hostnames? .{{0,500}}{assigned.name}\b", facts.text)
        ):
            cut = listed[2][:1] in (":", "%", "/")
            yield Violation(
                "the list of nodes is written as node[01-02], or otherwise, and "
                + ("a part of it need not be a node's name" if cut else "is no node's name"),
                f"write {hint}".replace("MASTER_ADDR", assigned.name),
                place=assigned.place,
                severity=WARNING,
            )
    yield from _own_port(facts)
    for named, place, what in found:
        yield Violation(
            f"{named} is a different machine on each of the {facts.plan.nodes} nodes: they never "
            "find each other",
            what,
            place=place,
        )


_OF_YOURS = (
    "your[-_]?(path|dir|home|project|env|venv|install|user|name|account|group|netid|id|scratch|data"
    r"|repo|code)\w*"
)
_PATH_TO = re.compile(
    r"(?i)(^|(?<!:[-=])(?<!:[-=]/)(?<=[/=\"':[-]))(path[-_/]to([-_/]|$)|your/"
    rf"|{_OF_YOURS}/|(?<=/){_OF_YOURS}$|(?-i:USERNAME|NETID|USERID|PROJECT_?NAME|[XYZ]{{3,}}[A-Z]*)(/|$)"
    r"|(?<=home/)username/|\[(your|insert|enter)[^\]/]*\])"
)
"""A directory of an example: ``/path/to/data``."""
_TO_FILL_IN = re.compile(
    r"(?i)[\"']?(please )?(input|enter|fill in|insert|put|add|specify) (your|the) [\w /-]+[\"']?"
)
"""``cd "please input your path here"``."""
UNFILLED = re.compile(r"<[A-Za-z][\w .@-]*>|\{[A-Za-z][\w .@-]*\}")
"""The value of a directive in a template: ``<partition_name>``."""


_IN_CAPITALS = re.compile(r"(YOUR|MY)_[A-Z_]+|[A-Z]+(_[A-Z]+)*_(NAME|HERE)")
"""The same in other templates: ``ACCOUNT_NAME``."""
_NOBODYS = re.compile(
    r"(?i)(your|some)[-_ ]?[a-z_-]+|my[-_ ]?(account|project|allocation|group)|[a-z_-]*\d*x{3,}\d*"
    r"|(account|project|allocation|partition)[-_ ]?(name|here|id)|def-some(user|prof)"
    r"|\.{2,}|placeholder|(change|replace|fill)[-_]?(me|in)|to[-_]?do|tbd|\[[a-z][^]]*\]?"
)
"""An account, a partition, or a QOS of an example: ``your_project``."""


_NO_NODE = re.compile(r"(?i)(your|some|my)?[-_ ]?(node|host)(s|[-_ ]?(x+|name|list|here|id))")
"""A node of an example: ``nodeX``, ``node_name``."""
_BRACES = re.compile(r"(?<=\s)\{[A-Za-z][\w.-]*(?: [\w.-]+)*\}(?=\s|$)")


def _path_to(facts: ScriptFacts) -> Iterator[Violation]:
    """The first directory of an example that a command or a variable has."""
    words = [
        word
        for command in facts.shell.commands
        if command.name not in ("echo", "printf", "mktemp", "sed", "grep") and not command.captured
        for word in command.words
    ]
    words += [
        assigned.word for assigned in facts.shell.assignments if "mktemp" not in assigned.word.raw
    ]
    found = [
        word.place
        for word in words
        if _PATH_TO.search(word.raw[:1000]) or _TO_FILL_IN.fullmatch(word.raw[:200])
    ]
    for place in sorted(found, key=lambda place: (place.line, place.column))[:1]:
        yield Violation(
            "nobody has filled in this path, which is an example's",
            "write the path itself",
            place=place,
            severity=WARNING,
        )


_YOUR_NAME = re.compile(
    r"(?i)(--?[\w-]+=)?your[-_]([a-z]+[-_])*(name|entity|project|account|id|user|username|email|key|token)"
    r"|(\S*/)?your[-_]\w+\.(py|sh|R|jl|m)"
    r"|(--?[\w-]+=)?(?-i:(CHANGE|REPLACE|FILL|INSERT|FIX)[-_]?(ME|THIS|IN|HERE)|TO_?DO|__[A-Z][A-Z_]+__"
    r"|\[(your|insert|enter)[^]]*\])|\.\.\.|x{3,}"
)


def _your_name(facts: ScriptFacts) -> Iterator[Violation]:
    """The first value of an example that a program gets: ``--entity your-entity``."""
    words = [
        word
        for launch in facts.launches
        if launch.name not in ("echo", "printf", "sed", "grep", "awk", "perl")
        for word in launch.command.words
    ] + [assigned.word for assigned in facts.shell.assignments]
    found = [
        word
        for word in words
        if len(word.raw) <= 100  # nobody writes a longer one
        and (_YOUR_NAME.fullmatch(word.value or "") or _YOUR_NAME.fullmatch(word.raw))
    ]
    for word in sorted(found, key=lambda word: word.place.line)[:1]:
        yield Violation(
            f"nobody has filled in {word.text}",
            "write the value in its place",
            place=word.place,
            severity=WARNING,
        )


_NAME_IN_BRACES = re.compile(r"(?<![$\\%{])\{([A-Za-z_]\w*)\}")
_READ_BRACES = frozenset("awk envsubst find jq parallel perl sed xargs".split())  # noqa: SIM905


def _without_dollar(facts: ScriptFacts) -> Iterator[Violation]:
    """``{NAME}`` in a word, where the script sets NAME."""
    words = [
        word
        for command in facts.shell.uncaptured
        if command.name not in _READ_BRACES
        for word in command.words[1:]
    ] + [assigned.word for assigned in facts.shell.assignments]
    for word in words if facts.header.for_bash else ():
        plain = "{" in word.raw and not re.search(r"[\s']", word.raw)
        names = _NAME_IN_BRACES.findall(word.raw) if plain else ()
        name = next(filter(facts.shell.assigned, names), None)
        if name is not None and word.raw != f"{{{name}}}":
            yield Violation(
                f"without $, {{{name}}} stands as it is: the value of {name} is not put here",
                f"write ${{{name}}}",
                place=word.place,
                severity=WARNING,
            )
            return


@script_rule(ERROR, "NC643", "shell text that cannot be read")
def syntax(facts: ScriptFacts) -> Iterator[Violation]:
    for given in facts.header.given:
        open_ones = re.findall(UNFILLED, given.value or "")
        log = given.name in ("output", "error", "chdir") and "<" in str(open_ones)
        by_name = given.name in ("partition", "account", "qos")
        if given.name in ("nodelist", "exclude") and _NO_NODE.fullmatch(given.value or ""):
            open_ones, by_name = [given.value], True
        value = given.value or ""
        if (
            by_name
            and not open_ones
            and (_IN_CAPITALS.fullmatch(value) or _NOBODYS.fullmatch(value))
        ):
            open_ones = [value]
        if given.source == SCRIPT and not value and by_name:  # tried with Slurm 22.05
            yield Violation(
                f"nobody has filled in --{given.name}=: Slurm refuses the job"
                + (", where it keeps accounts" if given.name != "partition" else ""),
                "write the value behind it, or remove the line",
                place=given.place,
                severity=ERROR if given.name == "partition" else WARNING,
            )
        most = value.partition("%")[2] if given.name == "array" else ""
        if given.source == SCRIPT and re.fullmatch(r"[A-Za-z_]\w*", most):
            yield Violation(
                f"nobody has filled in %{most} of --array={value}: Slurm takes it for no limit",
                "write how many tasks may run at once, as in %4, or remove it",
                place=given.value_place,
                severity=WARNING,
            )
        waits = given.name == "dependency" and bool(open_ones)
        if given.source == SCRIPT and open_ones and (log or waits or open_ones[0] == given.value):
            fails = log or by_name or waits
            yield Violation(
                f"nobody has filled in {open_ones[0]} of --{given.name}={given.value}"
                if log
                else f"nobody has filled in --{given.name}={given.value}",
                "write the value in its place, or remove the option",
                place=given.value_place,
                severity=ERROR if fails else WARNING,
            )
        paths = given.source == SCRIPT and given.name in ("output", "error", "chdir")
        if paths and not log and _PATH_TO.search(value):
            yield Violation(
                f"nobody has filled in the directory of --{given.name}={given.value}",
                "write the path itself",
                place=given.value_place,
            )
    yield from _path_to(facts)
    yield from _your_name(facts)
    yield from _without_dollar(facts)
    for place in facts.shell.placeholders[:1] if facts.header.for_bash else ():
        named = facts.lines[place.line - 1][place.column - 1 : place.end - 1]
        line = facts.lines[place.line - 1]
        # Two redirections, perhaps: sort <names> sorted
        alone = line[place.column - 2 : place.column - 1].isspace()
        ends = re.match(r"\s*($|[;|&#)])", line[place.end - 1 :])
        effect = (
            "bash cannot read this and stops here"
            if ends
            else f"bash reads from a file '{named[1:-1]}' here, and this command does not run"
        )
        plain = re.fullmatch("<[a-z]+>", named) and re.match(" *[a-z.]", line[place.end - 1 :])
        yield Violation(
            f"nobody has filled in {named}: {effect}",
            f"write the value in the place of {named}",
            place=place,
            severity=WARNING if alone and plain else None,
        )
    for command in facts.shell.calls("conda", "mamba", "micromamba", "source"):
        words = [word.raw for word in command.words[1:]]
        if words[-2:-1] == ["activate"] and _IN_CAPITALS.fullmatch(words[-1]):
            yield Violation(
                f"nobody has filled in {words[-1]}",
                "write the name of your environment",
                place=command.words[-1].place,
                severity=WARNING,
            )
    # To bash, braces without a comma are letters: {Environment Name} is two words.
    lines = enumerate(facts.lines, 1)
    unfilled = {number: _BRACES.findall(line)[:20] for number, line in lines if "{" in line}
    for command in facts.shell.commands if facts.header.for_bash else ():
        for braces in unfilled.get(command.place.line, ()):
            first = braces.split()[0]
            word = next((word for word in command.words[1:] if word.raw == first), None)
            if word is not None:
                yield Violation(
                    f"nobody has filled in {braces}: this command gets it as it stands",
                    f"write the value in the place of {braces}",
                    place=word.place,
                    severity=WARNING,
                )
    if facts.unreadable is not None and not (facts.unmerged or facts.shell.placeholders):
        problem = facts.unreadable
        says = "bash says" if problem.warning else "bash cannot read this and stops here"
        yield Violation(
            f"{says}: {problem.message}",
            "look for an open quote, bracket, block, or here-document at or before this line",
            place=problem.place,
            severity=WARNING if problem.warning else None,
        )
    if facts.left_out:
        yield Violation(
            "this script is very long, or very hard to read: neuronctl checks it only up to this "
            "line",
            "put lines that repeat a command into a loop",
            place=SourceSpan(facts.left_out),
            severity=WARNING,
        )
