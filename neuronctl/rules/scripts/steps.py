"""NC611, NC612, NC622, NC626, and NC637: the sizes of a job, of its steps, and of its programs."""

from __future__ import annotations

import re
from typing import Iterator, Tuple

from neuronctl.common import units
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted, duration
from neuronctl.launch.launchers import ALL
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.scripts.nested_launchers import is_trifle
from neuronctl.rules.scripts.script_facts import TASKS, ScriptFacts, Start, script_rule
from neuronctl.scripts.header import Edit, SourceSpan, digits
from neuronctl.scripts.launches import SHELL, Launch


@script_rule(WARNING, "NC611", "tasks that contradict nodes", Trait.UNREACHED)
def tasks_and_nodes(facts: ScriptFacts) -> Iterator[Finding]:
    given = facts.given("ntasks")
    tasks, nodes, each = (
        digits(facts.header.value(name)) for name in ("ntasks", "nodes", "ntasks-per-node")
    )
    if given is None or tasks is None or facts.plan is None:
        return
    total = (each or 0) * (nodes or 1)
    if nodes is not None and tasks < nodes:
        message = f"{counted(tasks, 'task')} on {nodes} nodes: sbatch reduces the job to "
        message += f"{counted(tasks, 'node')}, with a warning that few people see"
        yield Finding(message, f"request --nodes={tasks}, or --ntasks={nodes}", place=given.place)
    elif tasks < total:
        message = f"--ntasks={tasks} wins over --ntasks-per-node={each}: "
        message += f"{counted(tasks, 'task')} in all, and not {total}"
        hint = f"remove one of the two, or write --ntasks={total}"
        yield Finding(message, hint, place=given.place)


_AS_HOURS = r"0[0-9]+:00|(12|24|36|48|72|96):00"
"""Half a day, a day, or as a clock shows it: few people mean minutes."""


@script_rule(WARNING, "NC612", "time or memory in another unit", Trait.UNREACHED)
def other_unit(facts: ScriptFacts) -> Iterator[Finding]:
    has_gpus = facts.plan is not None and facts.plan.gpus_per_node > 0
    for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
        given = facts.given(name)
        size = digits(given.value) if given is not None else None
        cores = facts.plan.cores_per_node if facts.plan and name == "mem-per-cpu" else 1
        least = 1000 if has_gpus else 65 if name == "mem" else 32
        if given is not None and size and size * cores < least:
            program = "a program that uses a GPU" if has_gpus else "a program"
            message = f"--{name}={size} is {size} MB: {program} needs more"
            yield Finding(message, f"if GB are meant, write {size}G", place=given.place)
    given = facts.given("time")
    value = given.value or "" if given is not None else ""
    as_hours, seconds = re.fullmatch(_AS_HOURS, value), re.fullmatch("0?0:00:0[1-9]", value)
    if given is not None and (as_hours or seconds):
        message = f"--time={value} is {duration(units.parse_duration(value))}"
        if as_hours:
            message = message.replace(" is ", " is minutes and seconds: ")
        hint = f"if hours are meant, write {value}:00; if not, 0:{value}"
        if seconds:
            hint = "write 5 for minutes, or 5:00:00 for hours"
        yield Finding(message, hint, place=given.place)


@script_rule(ERROR, "NC622", "step that does not fit the job")
def larger_than_the_job(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None or facts.header.components > 1:
        return
    for launch in facts.launches:
        yield from _too_many_tasks(facts, plan, launch)
    for start in facts.starts:
        yield from _other_nodes(facts, plan, start)


_MORE_TASKS = ("overcommit", "jobid", "hint", "map_by", "oversubscribe", "use_hwthread_cpus")
"""Options of srun and mpirun with which more tasks fit than the job has cores."""


def _too_many_tasks(facts: ScriptFacts, plan: JobPlan, launch: Launch) -> Iterator[Finding]:
    """Yield an srun with more cores, or an mpirun with more processes, than the job has."""
    sized = facts.has("ntasks", "ntasks-per-node") and facts.has("nodes", "ntasks")
    shared = facts.has("exclusive", "overcommit", "mincpus", "cpus-per-gpu")
    unknown = not launch.certain or launch.command.looped
    if not sized or shared or unknown or launch.has(*_MORE_TASKS, *launch.launcher.places):
        return
    tasks, each = launch.count(*launch.launcher.processes), 1
    has, what = facts.tasks, "task"
    if launch.is_srun:
        tasks, each = launch.count("ntasks"), launch.count("cpus_per_task") or 1
        if not launch.has("ntasks", "nodes", "ntasks_per_node", "ntasks_per_gpu"):
            tasks = facts.tasks  # the job's (SLURM_NTASKS)
        has, what = facts.tasks * plan.cpus_per_task, "core"
    elif launch.launcher.uncounted != ALL:
        return
    if tasks and tasks * each > has:
        of_cores = f" of {each} cores" if each > 1 else ""
        cores = f" --cpus-per-task={each}" if each > 1 else ""
        message = f"{launch.kind} starts {counted(tasks, 'process')}{of_cores}, and the job has "
        message += f"{counted(has, what)}: it fails if nodes are shared"
        hint = f"request #SBATCH --ntasks={tasks}{cores}, or start fewer"
        yield Finding(message, hint, place=launch.place, severity=WARNING)


def _other_nodes(facts: ScriptFacts, plan: JobPlan, start: Start) -> Iterator[Finding]:
    """Yield launches with another number of nodes than the job or step has."""
    launch, launcher = start.launch, start.launch.launcher
    waits = bool({*launcher.nodes} & {*launcher.joins})  # otherwise it takes the nodes that exist
    if not launch.is_srun and not (waits and start.each == 1):
        return
    count = launch.count(*launcher.nodes)
    if count is None:
        return
    if count > plan.nodes and facts.fixed_nodes and not launch.has("jobid"):
        # With its own rank and address, it may be one of several jobs.
        is_part = launch.count(*launcher.node_rank) is not None and launch.has(*launcher.address)
        effect = "srun refuses it" if launch.is_srun else "it waits for the others"
        message = f"{launch.kind} is for {counted(count, 'node')}, and the job has {plan.nodes}"
        yield Finding(
            f"{message}: {effect}",
            f"request #SBATCH --nodes={count}, or use {plan.nodes} here",
            place=launch.place,
            severity=WARNING if is_part else ERROR,
        )
    elif waits and count < (start.nodes or 0):
        effect = "each trains alone" if count == 1 else "the others wait in vain, or fail"
        yield Finding(
            f"{start.outer[-1].kind} starts {launch.kind} on {start.nodes} nodes, and each is for "
            f"{counted(count, 'node')}: {effect}",
            f'write --{launcher.nodes[0]}="$SLURM_NNODES"'.replace("_", "-"),
            place=launch.place,
            severity=WARNING if count == 1 or launch.command.looped else ERROR,
        )


_ITS_CORES = ("exact", "exclusive", "cpus_per_task", "threads_per_core", "cpus_per_gpu")
"""Options of srun that say which cores its tasks get."""


@script_rule(NOTE, "NC626", "srun without the cores of its tasks")
def cores_of_tasks(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None or not facts.given("cpus-per-task") or plan.cpus_per_task < 2:
        return
    if facts.shell.assigned("SRUN_CPUS_PER_TASK"):
        return
    for launch in facts.launches:
        sized = launch.has(*_ITS_CORES, "overlap", "whole")
        sized = sized or "none" in launch.options.get("cpu_bind", "")
        below = [each for each in launch.below() if not (each.kind == SHELL and each.has("c"))]
        if not launch.is_srun or not launch.certain or sized or all(map(is_trifle, below)):
            continue
        tasks = ""  # with -c alone, srun starts as many tasks as fit on the node
        if not facts.has(*TASKS) and not any(name.startswith("ntasks") for name in launch.options):
            tasks = f" --ntasks={(facts.times(launch) or (1, 1))[0]}"
        options = f'{tasks} --cpus-per-task="$SLURM_CPUS_PER_TASK"'
        edits: Tuple[Edit, ...] = ()
        line = facts.lines[launch.place.line - 1]
        # Skip variables and texts that another shell reads.
        if line[launch.place.column - 1 : launch.place.end - 1].rstrip("'\"").endswith("srun"):
            behind = SourceSpan(launch.place.line, launch.place.end, launch.place.end)
            edits = (Edit(behind, options),)
        yield Finding(
            "since Slurm 22.05, srun does not take --cpus-per-task from the job: each task may "
            f"get 1 core instead of {plan.cpus_per_task}",
            f"write srun{options}",
            place=launch.place,
            edits=edits,
        )


@script_rule(WARNING, "NC637", "more threads than cores")
def threads(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    whole_nodes = facts.has("exclusive", "cpus-per-gpu", "mincpus")
    if plan is None or whole_nodes or facts.header.value("mem") == "0" or not facts.header.given:
        return
    if any(run.is_srun and run.has("cpus_per_task") for run in facts.every_launch):
        return
    programs = [start for start in facts.starts if start.outer and not start.launch.is_launcher]
    processes = max((start.each or 1 for start in programs), default=1)
    cores = plan.cores_per_node
    exported = [each for each in facts.shell.assignments if each.exported and each.sure]
    for variable in (*exported, *facts.shell.before_commands):
        count = digits(variable.word.value) or 0
        if variable.name == "OMP_NUM_THREADS" and count * processes > cores:
            sized = facts.has("cpus-per-task")
            several = f"{counted(processes, 'process')} on each node, with "
            several = several if processes > 1 else ""
            needed = -(-count * processes // plan.ntasks_per_node)
            yield Finding(
                f"{several}{count} threads each, and the job has {counted(cores, 'core')} there: "
                f"they take turns{'' if sized else ', unless it has its nodes alone'}",
                f"request #SBATCH --cpus-per-task={needed}, or write "
                f"OMP_NUM_THREADS={max(1, cores // processes)}",
                place=variable.place,
                severity=WARNING if sized else NOTE,
            )
            return
