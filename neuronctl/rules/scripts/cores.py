"""NC626 and NC637: the cores of a job, and the tasks and threads that share them."""

from __future__ import annotations

from typing import Iterator, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding
from neuronctl.rules.scripts.nested_launchers import is_trifle
from neuronctl.rules.scripts.script_facts import TASKS, ScriptFacts, script_rule
from neuronctl.scripts.header import Edit, SourceSpan, digits
from neuronctl.scripts.launches import SHELL, Launch


@script_rule(NOTE, "NC626", "srun without the cores of its tasks")
def check_cores_of_tasks(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None:
        return
    has_variable = facts.shell.assigned("SRUN_CPUS_PER_TASK")
    has_cores = facts.given("cpus-per-task") and plan.cpus_per_task > 1
    for launch in facts.launches:
        # `bash -c` itself does nothing with its cores; the programs in its text do.
        programs = [each for each in launch.below() if not (each.kind == SHELL and each.has("c"))]
        if not launch.is_srun or not launch.certain or all(map(is_trifle, programs)):
            continue
        is_bound = launch.has(*_CORES_OF_SRUN) or "none" in launch.options.get("cpu_bind", "")
        if has_variable or launch.has("cpus_per_task"):
            yield from _more_tasks_than_meant(facts, plan, launch)
        elif has_cores and not is_bound:
            yield _one_core_per_task(facts, plan, launch)


_CORES_OF_SRUN = ("exact", "exclusive", "overlap", "threads_per_core", "cpus_per_gpu", "whole")
"""Options of srun that say which cores its tasks get."""


def _missing_ntasks(facts: ScriptFacts, launch: Launch) -> str:
    """Return `` --ntasks=N`` for an srun; "" if it, or the job, has a number of tasks."""
    if facts.has(*TASKS) or any(name.startswith("ntasks") for name in launch.options):
        return ""
    nodes, _ = facts.count_processes(launch) or (1, 1)
    return f" --ntasks={nodes}"


def _more_tasks_than_meant(facts: ScriptFacts, plan: JobPlan, launch: Launch) -> Iterator[Finding]:
    """Yield an srun that starts as many tasks as the node's cores hold (tried on 22.05)."""
    ntasks_option = _missing_ntasks(facts, launch)
    # Without the option, $SRUN_CPUS_PER_TASK usually passes on the job's cores, too.
    typed = launch.options.get("cpus_per_task", "SLURM_CPUS_PER_TASK")
    per_task = plan.cpus_per_task if "SLURM_CPUS_PER_TASK" in typed else digits(typed)
    if not ntasks_option or not per_task:
        return
    cores = plan.cores_per_node
    if facts.has("exclusive") and not facts.header.value("exclusive"):  # it has whole nodes
        cores = plan.partition.max_cores_per_node or 0  # 0: the catalog does not know
    if cores and cores // per_task < 2:
        return  # only one task fits
    message = "without a number of tasks, srun starts as many as fit on a node"
    message += f": {cores // per_task}" if cores else ""
    yield Finding(message, f"write srun{ntasks_option}", place=launch.place, severity=WARNING)


def _one_core_per_task(facts: ScriptFacts, plan: JobPlan, launch: Launch) -> Finding:
    """Return the finding for an srun that does not pass the job's --cpus-per-task on."""
    # With -c alone, srun would start as many tasks as fit on the node.
    options = _missing_ntasks(facts, launch) + ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'
    message = "since Slurm 22.05, srun does not take --cpus-per-task from the job: each task may "
    message += f"get 1 core instead of {plan.cpus_per_task}"
    place = launch.place
    edits: Tuple[Edit, ...] = ()
    # A variable's value, or text that another shell reads, cannot be edited at this place.
    if facts.lines[place.line - 1][place.column - 1 : place.end - 1].rstrip("'\"").endswith("srun"):
        edits = (Edit(SourceSpan(place.line, place.end, place.end), options),)
    return Finding(message, f"write srun{options}", place=place, edits=edits)


@script_rule(WARNING, "NC637", "more threads than cores")
def check_threads(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first OMP_NUM_THREADS with which the processes of a node exceed its cores."""
    plan = facts.plan
    # Without directives, the command line of sbatch names the cores.
    if plan is None or not facts.header.given or _may_have_more_cores(facts):
        return
    programs = [start for start in facts.starts if start.outer and not start.launch.is_launcher]
    processes = max((start.per_node or 1 for start in programs), default=1)
    exported = [each for each in facts.shell.assignments if each.exported and each.sure]
    for variable in (*exported, *facts.shell.before_commands):
        threads = digits(variable.word.value) or 0  # 0: not known
        if variable.name == "OMP_NUM_THREADS" and threads * processes > plan.cores_per_node:
            finding = _too_many_threads(plan, processes, threads, facts.has("cpus-per-task"))
            yield replace(finding, place=variable.place)
            return


def _may_have_more_cores(facts: ScriptFacts) -> bool:
    """Return True if a node of the job, or a step, may have more cores than the plan says."""
    # With --mem=0, a job has all memory of its nodes, and so usually the nodes alone.
    if facts.has("exclusive", "cpus-per-gpu", "mincpus") or facts.header.value("mem") == "0":
        return True
    return any(run.is_srun and run.has("cpus_per_task") for run in facts.every_launch)


def _too_many_threads(plan: JobPlan, processes: int, threads: int, names_cores: bool) -> Finding:
    """Return the finding for the processes of a node. names_cores: whether the job has -c."""
    cores = plan.cores_per_node
    subject = "" if processes == 1 else f"{counted(processes, 'process')} on each node, with "
    unless = "" if names_cores else ", unless it has its nodes alone"
    message = f"{subject}{threads} threads each, and the job has {counted(cores, 'core')} there: "
    message += f"they take turns{unless}"
    per_task = -(-threads * processes // plan.ntasks_per_node)  # rounded up
    hint = f"request #SBATCH --cpus-per-task={per_task}, or write "
    hint += f"OMP_NUM_THREADS={max(1, cores // processes)}"
    return Finding(message, hint, severity=WARNING if names_cores else NOTE)
