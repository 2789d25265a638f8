"""NC622 and NC626: steps that do not fit the job, and steps of one core."""

from __future__ import annotations

from typing import Iterator, Tuple

from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.launch.launchers import ALL
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, Start, script_rule
from neuronctl.rules.script_programs import is_trifle
from neuronctl.scripts.launches import SHELL, Launch
from neuronctl.scripts.model import Edit, SourceSpan


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
    """Yield an srun of more cores, or an mpirun of more processes, than the job has."""
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
    """Yield what is told of other nodes than the job, or its step, has."""
    launch, own = start.launch, start.launch.launcher
    waits = bool({*own.nodes} & {*own.joins})  # else, it takes the nodes that there are
    count = launch.count(*own.nodes) if launch.is_srun or (waits and start.each == 1) else None
    if count is not None and count > plan.nodes and facts.fixed_nodes and not launch.has("jobid"):
        # With a rank and an address of its own, it may be one of several jobs.
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
    if plan is None or facts.given("cpus-per-task") is None or plan.cpus_per_task < 2:
        return
    for launch in facts.launches if not facts.shell.assigned("SRUN_CPUS_PER_TASK") else ():
        told = launch.has(*_ITS_CORES, "overlap", "whole") or "none" in launch.options.get(
            "cpu_bind", ""
        )
        below = [each for each in launch.below() if not (each.kind == SHELL and each.has("c"))]
        if not launch.is_srun or not launch.certain or told or all(map(is_trifle, below)):
            continue
        edits: Tuple[Edit, ...] = ()
        line = facts.lines[launch.place.line - 1]
        # Not in a variable, nor in a text that another shell reads.
        if line[launch.place.column - 1 : launch.place.end - 1].rstrip("'\"").endswith("srun"):
            behind = SourceSpan(launch.place.line, launch.place.end, launch.place.end)
            edits = (Edit(behind, ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'),)
        yield Finding(
            "since Slurm 22.05, srun does not take --cpus-per-task from the job: each task may "
            f"get 1 core instead of {plan.cpus_per_task}",
            'write srun --cpus-per-task="$SLURM_CPUS_PER_TASK"',
            place=launch.place,
            edits=edits,
        )


_ITS_CORES = ("exact", "exclusive", "cpus_per_task", "threads_per_core", "cpus_per_gpu")
