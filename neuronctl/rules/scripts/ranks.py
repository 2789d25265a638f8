"""Ranks, ports, addresses, and W&B runs that are wrong for some process."""

from __future__ import annotations

import re
from typing import Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.rules.base import Finding
from neuronctl.rules.local_files import RANK_0_ONLY
from neuronctl.rules.python_program import wandb_init_line
from neuronctl.rules.scripts.script_facts import SCRIPT_RULES, ScriptFacts, script_rule
from neuronctl.scripts.header import SourceSpan, digits
from neuronctl.scripts.launches import PYTHON, SHELL, Launch

_OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK_PID", "SLURM_NODEID")


def _expanded(names: Sequence[str], nodes: int) -> str:
    """Return the first of the names that differs between tasks on these nodes, or ""."""
    differ = _OF_A_TASK if nodes > 1 else _OF_A_TASK[:3]
    return next((name for name in names if name in differ), "")


@script_rule(ERROR, "NC631", "rank expanded by the batch shell")
def check_ranks(facts: ScriptFacts) -> Iterator[Finding]:
    if facts.tasks < 2 or facts.plan is None:
        return
    yield from _ranks_in_commands(facts, facts.plan.nodes)
    yield from _ranks_in_variables(facts, facts.plan.nodes)


def _ranks_in_commands(facts: ScriptFacts, nodes: int) -> Iterator[Finding]:
    """Yield ranks in the words of commands that start several processes on a job's nodes."""
    for launch in facts.launches:
        times = facts.count_processes(launch) if launch.is_srun else (nodes, 2)
        runs = launch.is_srun or launch.kind in (PYTHON, SHELL) or launch.is_launcher
        starts_alone = launch.launcher.starts_processes()  # on the first node: NC624
        if not runs or starts_alone or launch.command.captured or times is None:
            continue
        nodes_used, tasks_per_node = times
        if nodes_used * tasks_per_node < 2:
            continue
        # torchrun ignores --node_rank with such an option.
        has_endpoint = any(each.has(*each.launcher.endpoint) for each in (launch, *launch.below()))
        for word in launch.command.words:
            name = _expanded(word.names, nodes_used)
            if name and (not has_endpoint or "is_host=" in word.raw):
                effect = f"expands ${name} here"
                if name not in word.raw:  # another variable supplies it
                    effect = f"has set {word.raw} from ${name}"
                message = f"the batch shell {effect}, and it is 0: every process gets the same "
                message += "value"
                hint = f"let each task expand it: srun bash -c '… ${name} …' in single quotes, or "
                hint += f"\\${name}"
                yield Finding(message, hint, place=word.place)


def _ranks_in_variables(facts: ScriptFacts, nodes: int) -> Iterator[Finding]:
    """Yield exported variables that the batch shell sets from a rank."""
    programs = [run for run in facts.launches if run.name not in ("echo", "printf")]
    used = {name for run in programs for word in run.command.words for name in word.names}
    for variable in facts.shell.assignments:
        name = _expanded(variable.word.names, nodes)
        # The launcher sets RANK and LOCAL_RANK anew.
        is_set_anew = facts.ranks_are_given and re.fullmatch("(LOCAL_)?RANK", variable.name)
        is_exported = variable.exported and variable.sure and variable.name not in used
        if name and is_exported and not is_set_anew:
            yield Finding(
                f"the batch shell expands ${name} here, and it is 0: {variable.name} is the same "
                "in every process",
                f"let each task set it: srun bash -c 'export {variable.name}=${name}; …'",
                place=variable.place,
                severity=WARNING,
            )


@script_rule(WARNING, "NC632", "fixed port")
def check_fixed_port(facts: ScriptFacts) -> Iterator[Finding]:
    for port, place in _ports(facts):
        if digits(port) and _nodes_are_shared(facts):
            message = f"port {port} is the same for every job: where two of them share a node, the "
            message += "second one fails"
            hint = "derive it from the job: MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))"
            yield Finding(message, hint, place=place)
            return


def _ports(facts: ScriptFacts) -> List[Tuple[Optional[str], SourceSpan]]:
    """Return the ports where processes meet, with their places; None for an unknown value."""
    ports: List[Tuple[Optional[str], SourceSpan]] = []
    variables = facts.shell.assigned("MASTER_PORT")
    lines = (line for _, line in facts.plain_lines if "$" in line and "echo" not in line)
    is_read = variables and variables[0].exported and not facts.ranks_are_given
    is_read = is_read or any(re.search(r"\$\{?MASTER_PORT\b", line) for line in lines)
    if is_read and len(variables) == 1 and "{MASTER_PORT:" not in facts.text:
        ports += [(variables[0].word.value, variables[0].place)]
    for launch in facts.every_launch:
        if launch.has("standalone"):
            continue
        before = launch.command.assigned
        ports += [(each.word.value, each.place) for each in before if each.name == "MASTER_PORT"]
        ports += launch.values_of(*launch.launcher.port)
        for value, place in launch.values_of(*launch.launcher.endpoint):
            port = re.search(r":\"?([0-9]+)\"?$", value)  # HOST:PORT
            ports += [(port[1], place)] if port is not None else []
    return ports


def _nodes_are_shared(facts: ScriptFacts) -> bool:
    """Return True if other jobs may run on the job's nodes."""
    plan = facts.plan
    if plan is None or facts.has("exclusive") or facts.header.value("mem") == "0":
        return False
    cores = plan.partition.max_cores_per_node
    if cores and plan.cores_per_node >= cores:
        return False
    # A job of several nodes usually has whole ones, with four or eight GPUs.
    gpus_of_node = plan.partition.gpus_per_node or (4 if plan.nodes > 1 else 8)
    return plan.gpus_per_node < gpus_of_node


def _every_rank_logs(facts: ScriptFacts) -> Iterator[Finding]:
    """Find wandb.init in the programs that start several times."""
    for start in facts.starts:
        script = start.launch.options.get("script") or start.launch.word.text
        if start.launch.kind == PYTHON and (start.nodes or 1) * (start.per_node or 1) > 1:
            line = wandb_init_line(facts.read_program(script))
            message = f"{script}:{line} calls wandb.init in each process that this starts"
            yield from [Finding(message, RANK_0_ONLY, place=start.launch.place)] if line else []


SCRIPT_RULES.judges["NC314"] = _every_rank_logs

_LOOPBACK = r"(localhost|127\.0\.0\.1|::1|0\.0\.0\.0)"
_IS_LOOPBACK = re.compile(rf"[\"']?(\$\{{\w+:-)?{_LOOPBACK}(\}}|:\S+)?[\"']?")
"""An address of the machine itself, also with a port or as a default: ``${ADDR:-localhost}``."""
_OWN_NAME = r"(\\?\$\(hostname[^)]*\)|`hostname[^`]*`|\\?\$\{?(HOSTNAME|SLURMD_NODENAME)\b)"
_SET_BY_EACH_TASK = (
    rf"MASTER_ADDR=[\"']?({_OWN_NAME}|{_LOOPBACK})|MASTER_PORT=[^;&\n]{{0,99}}?(RANDOM|\bshuf\b)"
)


_FIRST_NODE = 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'


@script_rule(ERROR, "NC642", "address that is not the first node's")
def check_first_node(facts: ScriptFacts) -> Iterator[Finding]:
    if facts.plan is None:
        return
    several_nodes = facts.plan.nodes > 1
    addresses = [*_set_by_each_task(facts), *(_loopback(facts) if several_nodes else ())]
    for address, place in addresses:
        message = f"{address} differs between the processes of the job: they never find each other"
        yield Finding(message, f"set it once, before srun: export {_FIRST_NODE}", place=place)
    if several_nodes:
        yield from _one_element(facts)
        yield from _doubtful(facts)


def _one_element(facts: ScriptFacts) -> Iterator[Finding]:
    """Find quoted arrays of the job's nodes: all names become one element."""
    lists = {each.name for each in facts.shell.assignments if "show hostname" in each.word.raw}
    for array in facts.shell.assignments:
        name = array.word.raw.strip('()"${} ')
        if array.word.raw.startswith('("$') and name in lists and f"{array.name}[" in facts.text:
            message = f"in quotes, ${name} is one word: {array.name} has one element with all names"
            yield Finding(message, f"write {array.name}=(${name})", place=array.place)


_OF_A_STEP = ("SLURM_STEP_NODELIST", "SLURM_LAUNCH_NODE_IPADDR")
"""What srun sets for its tasks; the batch shell does not have them (tried with Slurm 22.05)."""


def _doubtful(facts: ScriptFacts) -> Iterator[Finding]:
    """Find addresses that are empty or that only some machines have."""
    words = [word for command in facts.shell.commands for word in command.words]
    for word in words:
        name = next((name for name in word.names if name in _OF_A_STEP), "")
        if name:
            message = f"only srun sets ${name}, for its tasks: it is empty here"
            hint = f"write {_FIRST_NODE}"
            yield Finding(message, hint, place=word.place, severity=WARNING)
    for launch in facts.every_launch:
        asks = launch.name == "hostname" and launch.command.captured
        if asks and any(word.raw in ("-i", "--ip-address") for word in launch.own_words):
            message = "where /etc/hosts maps a node's name to 127.0.1.1 (Debian, Ubuntu), this "
            message += "prints that, and no other node reaches it"
            hint = f"use the name: {_FIRST_NODE}"
            yield Finding(message, hint, place=launch.place, severity=NOTE)


def _count_srun_tasks(facts: ScriptFacts, launch: Launch) -> Tuple[int, int]:
    """Return (nodes, tasks per node) of an srun; (1, 1) for another program, or if not known."""
    return (facts.count_processes(launch) if launch.is_srun else None) or (1, 1)


def _set_by_each_task(facts: ScriptFacts) -> Iterator[Tuple[str, SourceSpan]]:
    """Yield the ports and addresses that each of several tasks chooses for itself."""
    for launch in facts.launches:
        nodes, each = _count_srun_tasks(facts, launch)
        for word in launch.command.words if nodes * each > 1 else ():
            chosen = re.search(_SET_BY_EACH_TASK, word.raw)
            if chosen is None or not (nodes > 1 or chosen[0].startswith("MASTER_PORT")):
                continue
            # Within double quotes, the batch shell expands it once for all.
            by_task = word.raw.startswith("'") or "\\$" in chosen[0]
            if by_task or re.search(_LOOPBACK, chosen[0]):
                yield chosen[0].replace("\\", ""), word.place


def _loopback(facts: ScriptFacts) -> Iterator[Tuple[str, SourceSpan]]:
    """Yield addresses that differ on each node, in a job of several nodes."""
    sruns = [run for run in facts.launches if run.is_srun]
    yield from _loopback_in_variables(facts, sruns)
    for run in sruns:
        words = run.command.words if _count_srun_tasks(facts, run)[0] > 1 else ()
        for option, word in zip(words, words[1:]):
            is_about_address = re.match(r"--?\w*(addr|coordinator|host|master|init)", option.raw)
            if is_about_address and _IS_LOOPBACK.fullmatch(word.raw):
                yield word.raw, word.place
    yield from _loopback_in_launchers(facts)


def _loopback_in_variables(
    facts: ScriptFacts, sruns: Sequence[Launch]
) -> Iterator[Tuple[str, SourceSpan]]:
    """Yield each MASTER_ADDR of this machine, unless the next srun uses one node."""
    before = [variable for run in sruns for variable in run.command.assigned]
    for variable in (*facts.shell.assignments, *before):
        follows = next((run for run in sruns if run.place.line >= variable.place.line), None)
        nodes = 0  # unknown
        if follows is not None:
            nodes, _ = facts.count_processes(follows) or (0, 0)
        is_address = variable.name == "MASTER_ADDR" and _IS_LOOPBACK.fullmatch(variable.word.raw)
        if is_address and nodes != 1:
            yield variable.word.raw, variable.place


def _loopback_in_launchers(facts: ScriptFacts) -> Iterator[Tuple[str, SourceSpan]]:
    """Yield the addresses of each node itself in the options of launchers on several nodes."""
    for start in facts.starts:
        launch, launcher = start.launch, start.launch.launcher
        if start.nodes == 1 or launch.count(*launcher.nodes) == 1:
            continue
        # Within single quotes, each task expands the name of its own node.
        outer = start.outer[0].command.words if start.outer else ()
        quoted = any(word.raw.startswith("'") for word in outer)
        for value, place in launch.values_of(*launcher.address, *launcher.endpoint):
            own_name = quoted and re.match(_OWN_NAME, value.strip("\"'"))
            if own_name or _IS_LOOPBACK.fullmatch(value):
                yield value, place
