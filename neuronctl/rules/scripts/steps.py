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
    count, nodes, each = (
        digits(facts.header.value(name)) for name in ("ntasks", "nodes", "ntasks-per-node")
    )
    if given is None or count is None or facts.plan is None:
        return
    if nodes is not None and count < nodes:
        yield Finding(
            f"{counted(count, 'task')} on {nodes} nodes: sbatch reduces the job to "
            f"{counted(count, 'node')}, with a warning that few people see",
            f"request --nodes={count}, or --ntasks={nodes}",
            place=given.place,
        )
    elif each is not None and count < each * (nodes or 1):
        most = each * (nodes or 1)
        message = f"--ntasks={count} wins over --ntasks-per-node={each}: "
        message += f"{counted(count, 'task')} in all, and not {most}"
        hint = f"remove one of the two, or write --ntasks={most}"
        yield Finding(message, hint, place=given.place)


_AS_HOURS = r"0[0-9]+:00|(12|24|36|48|72|96):00"
"""Half a day, a day, or as a clock shows it: few people mean minutes."""


@script_rule(WARNING, "NC612", "time or memory in another unit", Trait.UNREACHED)
def other_unit(facts: ScriptFacts) -> Iterator[Finding]:
    gpus = facts.plan is not None and facts.plan.gpus_per_node > 0
    for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
        given = facts.given(name)
        count = digits(given.value) if given is not None else None
        cores = facts.plan.cores_per_node if facts.plan and name == "mem-per-cpu" else 1
        least = 1000 if gpus else 65 if name == "mem" else 32
        if given is not None and count and count * cores < least:
            who = "a program that uses a GPU" if gpus else "a program"
            message = f"--{name}={count} is {count} MB: {who} needs more"
            yield Finding(message, f"if GB are meant, write {count}G", place=given.place)
    given = facts.given("time")
    value = given.value or "" if given is not None else ""
    if given is not None and re.fullmatch(_AS_HOURS, value):
        words = f"--time={value} is minutes and seconds: {duration(units.parse_duration(value))}"
        hint = f"if hours are meant, write {value}:00; if not, 0:{value}"
        yield Finding(words, hint, place=given.place)
    elif given is not None and re.fullmatch("0?0:00:0[1-9]", value):
        yield Finding(
            f"--time={value} is {duration(units.parse_duration(value))}, which Slurm takes for 1 "
            "minute",
            "write 5 for minutes, or 5:00:00 for hours",
            place=given.place,
        )


@script_rule(ERROR, "NC622", "step that does not fit the job")
def larger_than_the_job(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None or facts.header.components > 1:
        return
    for launch in facts.launches:
        yield from _too_many_tasks(facts, plan, launch)
    for start in facts.starts:
        yield from _other_nodes(facts, plan, start)


def _too_many_tasks(facts: ScriptFacts, plan: JobPlan, launch: Launch) -> Iterator[Finding]:
    """Yield an srun with more cores, or an mpirun with more processes, than the job has."""
    told = facts.has("ntasks", "ntasks-per-node") and facts.has("nodes", "ntasks")
    shared = facts.has("exclusive", "overcommit", "mincpus", "cpus-per-gpu")
    others = launch.has("overcommit", "jobid", "hint", "map_by", "oversubscribe")
    by_others = others or launch.has("use_hwthread_cpus", *launch.launcher.places)
    tasks, each = launch.count(*launch.launcher.processes), 1
    has, what = facts.tasks, "task"
    if launch.is_srun:
        tasks, each = launch.count("ntasks"), launch.count("cpus_per_task") or 1
        if not launch.has("ntasks", "nodes", "ntasks_per_node", "ntasks_per_gpu"):
            tasks = facts.tasks  # the job's (SLURM_NTASKS)
        has, what = facts.tasks * plan.cpus_per_task, "core"
    elif launch.launcher.uncounted != ALL:
        return
    certain = launch.certain and not launch.command.looped
    if told and certain and tasks and tasks * each > has and not (shared or by_others):
        cores = f" --cpus-per-task={each}" if each > 1 else ""
        yield Finding(
            f"{launch.kind} starts {counted(tasks, 'process')}{f' of {each} cores' * bool(cores)}, "
            f"and the job has {counted(has, what)}: it fails if nodes are shared",
            f"request #SBATCH --ntasks={tasks}{cores}, or start fewer",
            place=launch.place,
            severity=WARNING,
        )


def _other_nodes(facts: ScriptFacts, plan: JobPlan, start: Start) -> Iterator[Finding]:
    """Yield launches with another number of nodes than the job or step has."""
    launch, own = start.launch, start.launch.launcher
    waits = bool({*own.nodes} & {*own.joins})  # otherwise it takes the nodes that exist
    count = launch.count(*own.nodes) if launch.is_srun or (waits and start.each == 1) else None
    if count is not None and count > plan.nodes and facts.fixed_nodes and not launch.has("jobid"):
        # With its own rank and address, it may be one of several jobs.
        of_several = launch.count(*own.node_rank) is not None and launch.has(*own.address)
        yield Finding(
            f"{launch.kind} is for {counted(count, 'node')}, and the job has {plan.nodes}: "
            + ("srun refuses it" if launch.is_srun else "it waits for the others"),
            f"request #SBATCH --nodes={count}, or use {plan.nodes} here",
            place=launch.place,
            severity=WARNING if of_several else ERROR,
        )
    elif count is not None and waits and count < (start.nodes or 0):
        alone = count == 1
        yield Finding(
            f"{start.outer[-1].kind} starts {launch.kind} on {start.nodes} nodes, and each is for "
            f"{counted(count, 'node')}: "
            + ("each trains alone" if alone else "the others wait in vain, or fail"),
            f'write --{own.nodes[0]}="$SLURM_NNODES"'.replace("_", "-"),
            place=launch.place,
            severity=WARNING if alone or launch.command.looped else ERROR,
        )


@script_rule(NOTE, "NC626", "srun without the cores of its tasks")
def cores_of_tasks(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None:
        return
    exported = facts.shell.assigned("SRUN_CPUS_PER_TASK")
    lost = facts.given("cpus-per-task") and plan.cpus_per_task > 1 and not exported
    for launch in facts.launches:
        told = launch.has(*_ITS_CORES, "overlap", "whole") or "none" in launch.options.get(
            "cpu_bind", ""
        )
        below = [each for each in launch.below() if not (each.kind == SHELL and each.has("c"))]
        if not launch.is_srun or not launch.certain or all(map(is_trifle, below)):
            continue
        tasks = ""
        if not facts.has(*TASKS) and not any(name.startswith("ntasks") for name in launch.options):
            tasks = f" --ntasks={(facts.times(launch) or (1, 1))[0]}"
        if tasks and (exported or launch.has("cpus_per_task")):
            yield from _fills_the_node(facts, plan, launch, tasks)
        if told or not lost:
            continue
        edits: Tuple[Edit, ...] = ()
        line = facts.lines[launch.place.line - 1]
        # Skip variables and texts that another shell reads.
        if line[launch.place.column - 1 : launch.place.end - 1].rstrip("'\"").endswith("srun"):
            behind = SourceSpan(launch.place.line, launch.place.end, launch.place.end)
            edits = (Edit(behind, f'{tasks} --cpus-per-task="$SLURM_CPUS_PER_TASK"'),)
        yield Finding(
            "since Slurm 22.05, srun does not take --cpus-per-task from the job: each task may "
            f"get 1 core instead of {plan.cpus_per_task}",
            f'write srun{tasks} --cpus-per-task="$SLURM_CPUS_PER_TASK"',
            place=launch.place,
            edits=edits,
        )


def _fills_the_node(
    facts: ScriptFacts, plan: JobPlan, launch: Launch, tasks: str
) -> Iterator[Finding]:
    """Yield an srun that starts as many tasks as the job's cores hold (tried on 22.05)."""
    text = launch.options.get("cpus_per_task", "SLURM_CPUS_PER_TASK")
    each = plan.cpus_per_task if "SLURM_CPUS_PER_TASK" in text else digits(text)
    whole = facts.has("exclusive") and not facts.header.value("exclusive")
    cores = plan.partition.max_cores_per_node if whole else plan.cores_per_node
    if each and (cores or 2 * each) // each > 1:
        count = f": {cores // each} here" if cores else ""
        yield Finding(
            f"without a number of tasks, srun starts one for every {each} cores of the node{count}",
            f"write srun{tasks}",
            place=launch.place,
            severity=WARNING,
        )


_ITS_CORES = ("exact", "exclusive", "cpus_per_task", "threads_per_core", "cpus_per_gpu")


@script_rule(WARNING, "NC637", "more threads than cores")
def threads(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    whole_nodes = facts.has("exclusive", "cpus-per-gpu", "mincpus")
    if plan is None or whole_nodes or facts.header.value("mem") == "0" or not facts.header.given:
        return
    programs = [start for start in facts.starts if start.outer and not start.launch.is_launcher]
    each = max((start.each or 1 for start in programs), default=1)
    steps = any(run.is_srun and run.has("cpus_per_task") for run in facts.every_launch)
    told, cores = facts.has("cpus-per-task"), plan.cores_per_node
    exported = [known for known in facts.shell.assignments if known.exported and known.sure]
    before = [known for run in facts.launches for known in run.command.assigned]
    for variable in (*exported, *before) if not steps else ():
        count = digits(variable.word.value) or 0
        if variable.name == "OMP_NUM_THREADS" and count * each > cores:
            several = f"{counted(each, 'process')} on each node, with " if each > 1 else ""
            yield Finding(
                f"{several}{count} threads each, and the job has {counted(cores, 'core')} there: "
                f"they take turns{'' if told else ', unless it has its nodes alone'}",
                f"request #SBATCH --cpus-per-task={-(-count * each // plan.ntasks_per_node)}, or "
                f"write OMP_NUM_THREADS={max(1, cores // each)}",
                place=variable.place,
                severity=WARNING if told else NOTE,
            )
            return
