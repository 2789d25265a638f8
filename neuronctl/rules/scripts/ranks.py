"""Ranks, ports, addresses, and W&B runs that are wrong for some process."""

from __future__ import annotations

import re
from itertools import chain
from typing import Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.rules.base import Finding
from neuronctl.rules.local_files import RANK_0_ONLY
from neuronctl.rules.python_program import wandb_init_line
from neuronctl.rules.scripts.script_facts import SCRIPT_RULES, ScriptFacts, script_rule
from neuronctl.scripts.header import SourceSpan, digits
from neuronctl.scripts.launches import PYTHON, SHELL, Launch
from neuronctl.scripts.shell_text import Assignment

_OF_A_TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK_PID", "SLURM_NODEID")
"""Variables that differ between tasks; the last one only between nodes."""


def _find_rank(names: Sequence[str], nodes: int) -> str:
    """Return the first variable that differs between tasks on this number of nodes, or ""."""
    ranks = _OF_A_TASK if nodes > 1 else _OF_A_TASK[:3]
    return next((name for name in names if name in ranks), "")


@script_rule(ERROR, "NC631", "rank expanded by the batch shell")
def check_ranks(facts: ScriptFacts) -> Iterator[Finding]:
    if facts.tasks < 2 or facts.plan is None:
        return
    yield from _ranks_in_commands(facts, facts.plan.nodes)
    yield from _ranks_in_variables(facts, facts.plan.nodes)


def _ranks_in_commands(facts: ScriptFacts, nodes: int) -> Iterator[Finding]:
    """Yield ranks in the words of commands that start several processes on a job's nodes."""
    for launch in facts.launches:
        is_program = launch.is_srun or launch.kind in (PYTHON, SHELL) or launch.is_launcher
        is_torchrun = launch.launcher.starts_processes()  # NC624 reports it on the first node
        if not is_program or is_torchrun or launch.command.captured:
            continue
        # Without srun, several processes are certain, and their number does not matter.
        counts = facts.count_processes(launch) if launch.is_srun else (nodes, 2)
        nodes_used, per_node = counts or (0, 0)  # 0: not known
        if nodes_used * per_node < 2:
            continue
        # torchrun ignores --node_rank with such an option.
        has_endpoint = any(each.has(*each.launcher.endpoint) for each in (launch, *launch.below()))
        for word in launch.command.words:
            name = _find_rank(word.names, nodes_used)
            if name and (not has_endpoint or "is_host=" in word.raw):
                is_here = name in word.raw  # and not in the value of the word's variable
                effect = f"expands ${name} here" if is_here else f"has set {word.raw} from ${name}"
                message = f"the batch shell {effect}, and it is 0: every process gets the same "
                message += "value"
                hint = f"let each task expand it: srun bash -c '… ${name} …' in single quotes, or "
                yield Finding(message, f"{hint}\\${name}", place=word.place)


def _ranks_in_variables(facts: ScriptFacts, nodes: int) -> Iterator[Finding]:
    """Yield exported variables that the batch shell sets from a rank."""
    programs = [run for run in facts.launches if run.name not in ("echo", "printf")]
    words = chain.from_iterable(run.command.words for run in programs)
    used = {*chain.from_iterable(word.names for word in words)}
    for variable in facts.shell.assignments:
        name = _find_rank(variable.word.names, nodes)
        # The launcher sets RANK and LOCAL_RANK anew.
        is_set_anew = facts.ranks_are_given and re.fullmatch("(LOCAL_)?RANK", variable.name)
        # In a command's words, _ranks_in_commands() reports the value.
        is_exported = variable.exported and variable.sure and variable.name not in used
        if name and is_exported and not is_set_anew:
            message = f"the batch shell expands ${name} here, and it is 0: {variable.name} is the "
            message += "same in every process"
            hint = f"let each task set it: srun bash -c 'export {variable.name}=${name}; …'"
            yield Finding(message, hint, place=variable.place, severity=WARNING)


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
    variables = facts.shell.assigned("MASTER_PORT")
    ports: List[Tuple[Optional[str], SourceSpan]] = []
    is_set_once = len(variables) == 1 and "{MASTER_PORT:" not in facts.text
    if is_set_once and _is_port_read(facts, variables):
        ports.append((variables[0].word.value, variables[0].place))
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


def _is_port_read(facts: ScriptFacts, variables: Sequence[Assignment]) -> bool:
    """Return True if a program, or a line of the script, reads MASTER_PORT."""
    if variables and variables[0].exported and not facts.ranks_are_given:
        return True
    lines = [line for _, line in facts.plain_lines if "$" in line and "echo" not in line]
    return any(re.search(r"\$\{?MASTER_PORT\b", line) for line in lines)


def _nodes_are_shared(facts: ScriptFacts) -> bool:
    """Return True if other jobs may run on the job's nodes."""
    plan = facts.plan
    if plan is None or facts.has("exclusive") or facts.header.value("mem") == "0":
        return False
    cores = plan.partition.max_cores_per_node
    if cores and plan.cores_per_node >= cores:
        return False
    # If the catalog knows no GPUs, several nodes are usually whole ones, with four or eight.
    gpus_of_node = plan.partition.gpus_per_node or (4 if plan.nodes > 1 else 8)
    return plan.gpus_per_node < gpus_of_node


def _every_rank_logs(facts: ScriptFacts) -> Iterator[Finding]:
    """Find wandb.init in the programs that start several times."""
    for start in facts.starts:
        starts_several = (start.nodes or 1) * (start.per_node or 1) > 1
        if start.launch.kind != PYTHON or not starts_several:
            continue
        script = start.launch.options.get("script") or start.launch.word.text
        line = wandb_init_line(facts.read_program(script))
        if line:
            message = f"{script}:{line} calls wandb.init in each process that this starts"
            yield Finding(message, RANK_0_ONLY, place=start.launch.place)


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
    addresses = [*_set_by_each_task(facts)]
    if facts.plan.nodes > 1:
        addresses += _loopback(facts)
        yield from _one_element(facts)
        yield from _empty_in_batch_shell(facts)
        yield from _loopback_of_debian(facts)
    for address, place in addresses:
        message = f"{address} differs between the processes of the job: they never find each other"
        yield Finding(message, f"set it once, before srun: export {_FIRST_NODE}", place=place)


def _one_element(facts: ScriptFacts) -> Iterator[Finding]:
    """Find quoted arrays of the job's nodes: all names become one element."""
    lists = {each.name for each in facts.shell.assignments if "show hostname" in each.word.raw}
    for array in facts.shell.assignments:
        name = array.word.raw.strip('()"${} ')
        if array.word.raw.startswith('("$') and name in lists and f"{array.name}[" in facts.text:
            message = f"in quotes, ${name} is one word: {array.name} has one element with all names"
            yield Finding(message, f"write {array.name}=(${name})", place=array.place)


_OF_A_STEP = ("SLURM_STEP_NODELIST", "SLURM_LAUNCH_NODE_IPADDR")
"""Variables that srun sets for its tasks; the batch shell lacks them (tried with Slurm 22.05)."""


def _empty_in_batch_shell(facts: ScriptFacts) -> Iterator[Finding]:
    """Find variables with addresses that only the tasks of an srun have."""
    for word in chain.from_iterable(command.words for command in facts.shell.commands):
        for name in [name for name in word.names if name in _OF_A_STEP][:1]:
            message = f"only srun sets ${name}, for its tasks: it is empty here"
            hint = f"write {_FIRST_NODE}"
            yield Finding(message, hint, place=word.place, severity=WARNING)


def _loopback_of_debian(facts: ScriptFacts) -> Iterator[Finding]:
    """Find each ``$(hostname -i)``."""
    for launch in facts.every_launch:
        is_used = launch.name == "hostname" and launch.command.captured
        if is_used and any(word.raw in ("-i", "--ip-address") for word in launch.own_words):
            message = "where /etc/hosts maps a node's name to 127.0.1.1 (Debian, Ubuntu), this "
            message += "prints that, and no other node reaches it"
            hint = f"use the name: {_FIRST_NODE}"
            yield Finding(message, hint, place=launch.place, severity=NOTE)


_Address = Tuple[str, SourceSpan]
"""An address that is wrong, as the script writes it, and its place."""


def _set_by_each_task(facts: ScriptFacts) -> Iterator[_Address]:
    """Yield the ports and addresses that each of several tasks chooses for itself."""
    for launch in facts.launches:
        nodes, per_node = (facts.count_processes(launch) if launch.is_srun else None) or (1, 1)
        if nodes * per_node < 2:
            continue
        for word in launch.command.words:
            setting = re.search(_SET_BY_EACH_TASK, word.raw)
            if setting is None or (nodes == 1 and setting[0].startswith("MASTER_ADDR")):
                continue
            # Within double quotes, the batch shell expands it once for all tasks.
            is_expanded_by_task = word.raw.startswith("'") or "\\$" in setting[0]
            if is_expanded_by_task or re.search(_LOOPBACK, setting[0]):
                yield setting[0].replace("\\", ""), word.place


def _loopback(facts: ScriptFacts) -> Iterator[_Address]:
    """Yield addresses that differ on each node, in a job of several nodes."""
    sruns = [run for run in facts.launches if run.is_srun]
    yield from _loopback_in_variables(facts, sruns)
    for srun in sruns:
        nodes, _ = facts.count_processes(srun) or (1, 1)
        if nodes < 2:
            continue
        words = srun.command.words
        for option, word in zip(words, words[1:]):
            is_for_address = re.match(r"--?\w*(addr|coordinator|host|master|init)", option.raw)
            if is_for_address and _IS_LOOPBACK.fullmatch(word.raw):
                yield word.raw, word.place
    yield from _loopback_in_launchers(facts)


def _loopback_in_variables(facts: ScriptFacts, sruns: Sequence[Launch]) -> Iterator[_Address]:
    """Yield each MASTER_ADDR of this machine, unless the next srun uses one node."""
    before = chain.from_iterable(srun.command.assigned for srun in sruns)
    for variable in (*facts.shell.assignments, *before):
        following = [srun for srun in sruns if srun.place.line >= variable.place.line]
        counts = facts.count_processes(following[0]) if following else None
        nodes, _ = counts or (0, 0)  # 0: unknown
        is_address = variable.name == "MASTER_ADDR" and _IS_LOOPBACK.fullmatch(variable.word.raw)
        if is_address and nodes != 1:
            yield variable.word.raw, variable.place


def _loopback_in_launchers(facts: ScriptFacts) -> Iterator[_Address]:
    """Yield addresses of launchers on several nodes that are another machine on each of them."""
    for start in facts.starts:
        launch, launcher = start.launch, start.launch.launcher
        if start.nodes == 1 or launch.count(*launcher.nodes) == 1:
            continue
        # Within single quotes, each task expands the name of its own node.
        words = start.outer[0].command.words if start.outer else ()
        is_quoted = any(word.raw.startswith("'") for word in words)
        for value, place in launch.values_of(*launcher.address, *launcher.endpoint):
            is_own_name = is_quoted and re.match(_OWN_NAME, value.strip("\"'"))
            if is_own_name or _IS_LOOPBACK.fullmatch(value):
                yield value, place
