"""NC621, NC624, NC651, and NC665: programs that start too often, once, not at all, or too late."""

from __future__ import annotations

import re
from itertools import dropwhile
from typing import Iterator

from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.launch.launchers import every
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.scripts.script_facts import ScriptFacts, Start, script_rule
from neuronctl.scripts.launches import CONTAINERS, PROGRAM, PYTHON, Launch
from neuronctl.scripts.shell_text import Command
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES, names_python

_MODULES_OF_TOOLS = """
build compileall ensurepip http ipykernel json jupyter mpi4py nltk notebook pip pytest site spacy
timeit unittest venv virtualenv wheel zipfile
""".split()  # noqa: SIM905
"""Modules that ``python -m`` runs and that do none of the job's work."""


def is_own_program(launch: Launch) -> bool:
    """Return True if a launch is the user's Python program and names no other program."""
    script = launch.options.get("script", "script")
    is_variable = re.fullmatch(r"(\$(\w+|\{.*\}))?", script)  # $NAME, ${NAME…}, or nothing
    if launch.kind != PYTHON or is_variable or launch.has("c") or launch.command.captured:
        return False
    # A Python file that gets another as argument may be a launcher: python launch.py train.py
    files = [word for word in launch.own_words[1:] if word.basename.endswith(".py")]
    module = launch.options.get("m", "").partition(".")[0]
    return len(files) < 2 and module not in _MODULES_OF_TOOLS


def is_trifle(launch: Launch) -> bool:
    """Return True if a launch does none of the job's work."""
    return launch.name in LOOKS_OR_PREPARES


@script_rule(ERROR, "NC665", "program that is no program")
def check_no_program(facts: ScriptFacts) -> Iterator[Finding]:
    for launch in facts.every_launch:
        yield from _no_name_of_a_program(launch)
        if launch.kind == PYTHON and not launch.command.captured:
            yield from _python_without_program(facts, launch)


def _no_name_of_a_program(launch: Launch) -> Iterator[Finding]:
    """Yield a launch whose program is an assignment or an option (tried with srun of 22.05)."""
    name, place = launch.word.raw, launch.place
    variable = re.match(r"[A-Za-z_]\w*=", name)
    before = launch.command.words[: -len(launch.own_words)]
    if launch.kind == PROGRAM and variable and launch.word != launch.command.words[0]:
        hint = f"write env {variable[0]}…, or set it before the command"
        yield Finding(f"{name} is taken for the name of a program", hint, place=place)
    elif name.startswith("-") and any(word.basename in CONTAINERS for word in before):
        image = before[-1].raw
        message = f"{name} comes after the image: the container starts it as its program"
        severity = ERROR if re.search("[/.:]", image) else NOTE
        yield Finding(message, f"put it before {image}", place=place, severity=severity)


def _python_without_program(facts: ScriptFacts, launch: Launch) -> Iterator[Finding]:
    """Yield a Python that gets a file as a module, ``python`` as a file, or nothing."""
    word, place = launch.word.raw, launch.place
    module = launch.options.get("m", "")
    has_no_words = len(launch.own_words) == 1 and names_python(launch.word.value or "")
    has_input = launch.command.piped or facts.has("input") or "<" in facts.lines[place.line - 1]
    if module.endswith(".py"):
        hint = f"write python {module}, or python -m {module[:-3]}"
        message = f"python -m takes the name of a module, which {module} is not"
        yield Finding(message, hint, place=place)
    elif launch.options.get("script") in ("python", "python3"):
        message, hint = "the first python runs a file named python", "write python once"
        yield Finding(message, hint, place=place, severity=WARNING)
    elif has_no_words and not has_input:
        message = f"{word} gets no program, and a job has no standard input: it ends at once"
        yield Finding(message, f"name the program: {word} main.py", place=place, severity=WARNING)


@script_rule(WARNING, "NC651", "nothing waits for the program", Trait.ABSENCE)
def check_nothing_waits(facts: ScriptFacts) -> Iterator[Finding]:
    """Find a background program that Slurm ends together with the batch shell."""
    commands = facts.shell.uncaptured
    background_at = [at for at, command in enumerate(commands) if _runs_on(command)]
    # wait, fg, or a line that begins with exec
    if not background_at or re.search(r"\b(wait|fg)\b|(?m:(^|[;&|{])[ \t]*exec[ \t])", facts.text):
        return
    background = [commands[at] for at in background_at]
    following = commands[background_at[-1] + 1 :]
    # A later loop may ask whether the program still runs; the loop that starts it does not.
    is_in_loop = background[-1].in_loop
    behind_its_loop = dropwhile(lambda each: is_in_loop and each.in_loop, following)
    if any(command.in_loop for command in behind_its_loop):
        return
    foreground = [command for command in following if _keeps_alive(command)]
    if foreground:
        # A client in the foreground is meant to end the job with its server. Another run of the
        # same program is not.
        files = {_python_file(command) for command in foreground} - {""}
        killed = [command for command in background if _python_file(command) in files]
        end = f"when line {foreground[-1].place.line} is done"
    else:
        killed, end = background[-1:], "at once"
    for command in killed[:1]:
        message = f"nothing waits for this: it is killed with the job, which ends {end}"
        hint = "start the program itself, in the foreground"  # tmux, screen
        if command.background:
            hint = "write wait as the last line"
        yield Finding(message, hint, place=command.place)


def _runs_on(command: Command) -> bool:
    """Return True if a program continues while the shell runs the next line."""
    if command.name in ("tmux", "screen"):
        words = " ".join(word.raw for word in command.words[1:])
        return re.search(r"(^| )-d|new.* -d", words) is not None  # screen -dm, tmux new -d
    return command.background and bool(command.words) and command.name not in LOOKS_OR_PREPARES


_LONG_SLEEP = r"inf(inity)?|\d+[dh]|\d{2,}m|\d{4,}s?"
"""Times of ``sleep``: days, hours, 10 minutes and more, 1000 seconds and more, or forever."""


def _keeps_alive(command: Command) -> bool:
    """Return True if the batch shell waits long for a command, and so the job runs on."""
    if command.name == "sleep":
        return any(value is None or re.fullmatch(_LONG_SLEEP, value) for value in command.arguments)
    return not command.background and bool(command.words) and command.name not in LOOKS_OR_PREPARES


def _python_file(command: Command) -> str:
    """Return the Python file that a command runs, or ""."""
    words = [word.value or "" for word in command.words]
    return next((word for word in words if word.endswith(".py")), "")


@script_rule(ERROR, "NC621", "launcher within a launcher")
def check_launcher_in_launcher(facts: ScriptFacts) -> Iterator[Finding]:
    for start in facts.starts:
        outer = next((each for each in reversed(start.outer) if each.is_launcher), None)
        if outer is None or not start.launch.is_launcher:
            continue
        for finding in [*_started_too_often(outer, start)] or _not_joined(facts, start):
            yield replace(finding, place=start.launch.place)


def _started_too_often(outer: Launch, start: Start) -> Iterator[Finding]:
    """Yield a launcher that ``outer`` starts so often that its processes start several times."""
    inner = start.launch
    per_node = start.per_node or 1
    total = (start.nodes or 1) * per_node
    starts = f"{outer.kind} starts {inner.kind}"
    if outer.launcher.starts_processes():
        message = f"{starts} in each of its processes: that many separate trainings"
        yield Finding(message, "let one of the two start the program")
    elif not inner.launcher.starts_processes() or inner.has(*inner.launcher.places):
        if total > 1:  # such as srun and mpirun, which start processes on all nodes
            message = f"{starts} {counted(total, 'time')}, and each starts all processes again"
            yield Finding(message, f"call {inner.kind} in the script itself, without {outer.kind}")
    elif per_node > 1 and inner.count(*inner.launcher.counts) != 1:
        message = f"{starts} {counted(per_node, 'time')} on every node, and each starts the "
        message += "processes of its node: that many separate trainings"
        hint = f"leave {inner.kind} out"
        if outer.launcher.once_per_node:
            hint = f"start one per node: {outer.launcher.once_per_node}, or {hint}"
        yield Finding(message, hint)


def _not_joined(facts: ScriptFacts, start: Start) -> Iterator[Finding]:
    """Yield a launcher that starts once on each of several nodes, and does not join the others."""
    launch, launcher = start.launch, start.launch.launcher
    is_one_per_node = (start.nodes or 1) > 1 and start.per_node == 1
    is_known = launch.certain and "PET_" not in facts.text
    if not is_one_per_node or not is_known or not launcher.starts_processes():
        return
    message, hint = f"{launch.kind} starts on {start.nodes} nodes, and ", _how_to_join(launch)
    lacks_nodes = launcher.endpoint and not launch.has(*launcher.nodes)  # torchrun's default is 1
    if lacks_nodes or not launch.has(*launcher.joins):
        yield Finding(f"{message}each is for 1 node: they do not train together", hint)
        return
    nodes = launch.count(*launcher.nodes)
    # These say where they meet, or that they do not; so does --nnodes=1.
    if not launcher.endpoint or nodes == 1 or launch.has("rdzv_conf", "standalone"):
        return
    # torch/distributed/run.py (2.9): without --rdzv-backend, it is "static", where each node has
    # the rank 0 unless --node-rank gives another, and meets at 127.0.0.1 without an address.
    backends = [launch.options[name] for name in launcher.backend if launch.has(name)]
    is_static = backends[:1] in ([], ["static"])
    if not launch.has(*launcher.endpoint, *(launcher.address if is_static else ())):
        severity = WARNING if nodes is None else ""  # it may be 1
        yield Finding(f"{message}nothing tells it where they meet", hint, severity=severity)
    elif is_static and not launch.has(*launcher.node_rank):
        yield Finding(f"{message}each takes itself for the first", hint, severity=WARNING)


def _how_to_join(launch: Launch) -> str:
    """Return the options that join a launcher's nodes, as a hint."""
    launcher = launch.launcher
    if launcher.endpoint:
        hint = 'write --nnodes="$SLURM_NNODES" --rdzv-backend=c10d --rdzv-endpoint="$FIRST", and '
        return hint + "before it export FIRST=$(hostname):$((10000 + SLURM_JOB_ID % 20000))"
    if not launcher.joins:
        return "name the job's nodes (-H or --hostfile)"
    return "write " + " ".join(f"--{name}" for name in launcher.joins[:2] + launcher.address[:1])


@script_rule(WARNING, "NC624", "program that starts once", Trait.ABSENCE)
def check_launch_counts(facts: ScriptFacts) -> Iterator[Finding]:
    if facts.plan is None or facts.tasks < 2:
        return
    if facts.uses_launcher:
        yield from _launcher_once(facts, facts.plan)
    else:
        yield from _program_once(facts, facts.plan)


def _program_once(facts: ScriptFacts, plan: JobPlan) -> Iterator[Finding]:
    """Yield the last program that the batch shell starts once, in a job with several tasks."""
    may_span_nodes = plan.nodes > 1 or not facts.fixed_nodes
    names = {launch.name for launch in facts.launches}
    if re.search(r"(?i)parsl|dask", facts.text) or (may_span_nodes and names & _GO_ELSEWHERE):
        return  # they start their workers themselves
    starts = [start for start in facts.starts if _is_for_tasks(start.launch, may_span_nodes)]
    commands = [launch.command for start in starts for launch in (start.launch, *start.outer)]
    # Programs side by side, or in a function, may be what the tasks are for; so may a loop, but
    # not on other nodes.
    repeated = [each for each in commands if each.looped and not (each.in_loop and may_span_nodes)]
    if not starts or repeated or any(command.background for command in commands):
        return
    words = [word for start in starts for word in start.launch.own_words[1:]]
    starts_processes = any(re.match(_STARTS_PROCESSES, word.raw) for word in words)
    if starts_processes and plan.nodes == 1:
        return  # the program's own processes may use the tasks' cores
    launch = starts[-1].launch
    message = f"this starts once, on the first node: the job has {counted(facts.tasks, 'task')} on "
    message += f"{counted(plan.nodes, 'node')}, which nothing starts"
    hint = "write srun before it, or request --ntasks=1"
    hint += f" --cpus-per-task={facts.tasks} if cores are meant" if plan.nodes == 1 else ""
    may_start_tasks = re.fullmatch(_ON_ONE_NODE, launch.name)  # such as julia's SlurmManager
    severity = NOTE if starts_processes or plan.nodes == 1 or may_start_tasks else WARNING
    yield Finding(message, hint, place=launch.place, severity=severity)


_STARTS_PROCESSES = (
    r"(?i)--?([\w.-]*[_-])?(n_?jobs|n?procs?|n?processes|spawn\w*|multi-?process\w*|n?gpus?|n?cores"
    r"|n?cpus|n?tasks?|n?ranks?|mpi)([_-]?\w*)?(=|$)"
)
"""Options by which a program may start processes itself."""
_OF_MPI = (
    r"\w+[_.-]mpi|lmp|vasp_(std|gam|ncl)|(pw|ph|cp|neb)\.x|cp2k\.p(opt|smp)|siesta|nwchem|abinit"
    r"|xhpl|(wrf|real)\.exe|pmemd\.MPI|sander\.MPI"
)
"""Programs that MPI distributes: each task runs one."""
_ON_ONE_NODE = (
    "Rscript|matlab|snakemake|ray|yolo|gmx|julia|jupyter(-lab|-notebook)?|rserver|code-server"
)
"""Programs that use one node, whatever the job has."""
_GO_ELSEWHERE = frozenset("ssh pdsh pssh clush parallel flux".split())  # noqa: SIM905


def _is_for_tasks(launch: Launch, may_span_nodes: bool) -> bool:
    """Return True if srun would start the program in each task."""
    if launch.kind != PROGRAM or launch.command.captured:
        return is_own_program(launch)
    uses_one_node = may_span_nodes and re.fullmatch(_ON_ONE_NODE, launch.name)
    return bool(uses_one_node or re.fullmatch(_OF_MPI, launch.name))


def _launcher_once(facts: ScriptFacts, plan: JobPlan) -> Iterator[Finding]:
    """Yield the last launcher for one node, if nothing starts on a job's other nodes."""
    starts = [start for start in facts.starts if _is_for_one_node(start)]
    if plan.nodes < 2 or not starts or not facts.fixed_nodes:
        return
    has_unknown_command = any(each.words and not each.name for each in facts.shell.commands)
    outermost = {id(start.outer[0] if start.outer else start.launch) for start in starts}
    others = [run for run in facts.launches if id(run) not in outermost]
    if has_unknown_command or any(map(_reaches_others, others)):
        return
    launch = starts[-1].launch
    launcher = launch.launcher
    nodes, rank = launch.count(*launcher.nodes), launch.count(*launcher.node_rank)
    if rank and launch.has(*launcher.address):
        return  # another process is the first
    effect, severity = "the others do nothing", WARNING
    joins_others = {*launcher.nodes} & {*launcher.joins}
    if joins_others and nodes is not None and 1 < nodes <= plan.nodes:
        effect = f"it waits for {counted(nodes - 1, 'more node')}, on which nothing starts"
        severity = ERROR if rank is None and launch.command.sure else WARNING
    srun = next((each.once_per_node for each in every() if each.name == "srun"), "srun")
    message = f"{launch.kind} starts once, on the first node of {plan.nodes}: {effect}"
    hint = f"start it on each node, {srun} {launch.kind} …, and {_how_to_join(launch)}; or request "
    yield Finding(message, f"{hint}1 node", place=launch.place, severity=severity)


def _is_for_one_node(start: Start) -> bool:
    """Return True if the batch shell starts a launcher for one node."""
    launch, launcher = start.launch, start.launch.launcher
    # horovodrun starts processes over ssh on the nodes that it gets.
    starts_here = launcher.starts_processes() or (launcher.ssh and not launch.has(*launcher.places))
    # torchrun never uses another node, whatever options a variable contains.
    is_known = launch.certain or launcher.endpoint
    if not starts_here or not is_known or any(outer.is_launcher for outer in start.outer):
        return False
    # With a file of hosts or settings, it may use the other nodes.
    names_hosts = any("host" in name or "config" in name for name in launch.options)
    return not names_hosts and not launch.command.captured and not launch.has("help", "h")


def _reaches_others(launch: Launch) -> bool:
    """Return True if a launch may start work on other nodes."""
    if launch.name in _GO_ELSEWHERE | {"ray", "dask"} or not launch.certain:
        return True
    if launch.is_launcher and not launch.launcher.starts_processes():
        return not launch.inside or not all(map(is_trifle, launch.below()))
    return any(map(_reaches_others, launch.inside))
