"""NC621 to NC626: what a script starts, how often, and with which share of the job."""

from __future__ import annotations

import re
from typing import Iterator, Optional, Tuple

from neuronctl.batchscript.launches import PYTHON, SHELL, UNKNOWN, Launch
from neuronctl.batchscript.model import Edit, SourceSpan
from neuronctl.rule_codes import ERROR, NOTE, WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.words import counted


@script_rule(ERROR, "NC621", "launcher within a launcher")
def launcher_in_launcher(facts: ScriptFacts) -> Iterator[Violation]:
    for outer in facts.launches:
        for inner in outer.below():
            message = _nested(facts, outer, inner)
            if message:
                yield Violation(message[0], message[1], place=inner.place)


def _nested(facts: ScriptFacts, outer: Launch, inner: Launch) -> Optional[Tuple[str, str]]:
    """(what happens, what to write) where a launcher starts another one wrongly."""
    if not inner.is_launcher:
        return None
    if outer.launcher.starts_processes():
        return (
            f"{outer.kind} starts {inner.kind} in each of its processes: that many separate "
            "trainings",
            "let one of the two start the program",
        )
    times: Optional[Tuple[int, int]]
    if outer.is_srun:
        times = facts.times(outer)
    else:
        total = outer.count(*outer.launcher.processes)
        if total is None or outer.has(*outer.launcher.places):
            return None
        # Over ssh, it starts processes on the nodes that its options name, or on this one.
        nodes = 1 if facts.plan is None or outer.launcher.ssh else facts.plan.nodes
        times = (nodes, total // nodes) if total > nodes else (total, 1)
    if times is None or times[0] * times[1] < 2:
        return None
    nodes, each = times
    if not inner.launcher.starts_processes():
        if inner.is_srun and inner.has("overlap"):
            return None
        return (
            f"{outer.kind} starts {inner.kind} {counted(nodes * each, 'time')}, and each starts "
            "all processes again",
            f"call {inner.kind} in the script itself, without {outer.kind}",
        )
    one_process = inner.count(*inner.launcher.counts) == 1
    if each > 1 and not (one_process and inner.launcher.endpoint):
        once = outer.launcher.once_per_node
        return (
            f"{outer.kind} starts {inner.kind} {counted(each, 'time')} on every node, and "
            f"{inner.kind} starts the processes of its node itself: that many separate trainings",
            (f"start one per node: {once}, or " if once else "") + f"leave {inner.kind} out",
        )
    if nodes > 1 and each == 1 and not inner.has(*inner.launcher.joins):
        options = [f"--{name}".replace("_", "-") for name in inner.launcher.joins[:2]]
        return (
            f"{inner.kind} is started on {nodes} nodes, and nothing tells it of the others: "
            f"{nodes} separate trainings",
            f"add {' and '.join(options)}" if inner.launcher.endpoint else "name the nodes",
        )
    return None


def _too_many_tasks(facts: ScriptFacts, one: Launch) -> Iterator[Violation]:
    """An srun of more tasks than the job has cores for."""
    count, plan = one.count("ntasks"), facts.plan
    if not one.is_srun or count is None or plan is None or one.has("overcommit", "jobid"):
        return
    told = facts.has("ntasks", "ntasks-per-node") and facts.has("nodes", "ntasks")
    has = facts.tasks * plan.cpus_per_task
    if told and not facts.has("exclusive", "overcommit", "mincpus", "cpus-per-gpu") and count > has:
        yield Violation(
            f"srun starts {counted(count, 'task')}, but the job has {counted(has, 'core')}: where "
            "nodes are shared, srun refuses this",
            f"request #SBATCH --ntasks={count}, or start {facts.tasks} here",
            place=one.place_of("ntasks"),
            severity=WARNING,
        )


@script_rule(ERROR, "NC622", "step larger than the job")
def larger_than_the_job(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or facts.header.components > 1:
        return
    # Where tasks alone are requested, Slurm chooses the number of nodes.
    fixed = facts.has("nodes") or not facts.has("ntasks", "gpus", "nodelist", "gpus-per-task")
    for top in facts.launches:
        yield from _too_many_tasks(facts, top)
        for one in (top, *top.below()):
            # By any other option, it takes the nodes that there are.
            waits = {*one.launcher.nodes} & {*one.launcher.joins}
            count = one.count(*one.launcher.nodes) if one.is_srun or waits else None
            if count is None:
                continue
            if fixed and count > plan.nodes and not one.has("jobid"):
                ends = "srun refuses it" if one.is_srun else "it waits for the others"
                # With a rank and an address of its own, it may be one of several jobs.
                rank = one.count(*one.launcher.node_rank)
                of_several = rank is not None and one.has(*one.launcher.address)
                yield Violation(
                    f"{one.kind} is for {counted(count, 'node')}, and the job has {plan.nodes}: "
                    f"{ends}",
                    f"request #SBATCH --nodes={count}, or use {plan.nodes} here",
                    place=one.place,
                    severity=WARNING if of_several else None,
                )


@script_rule(WARNING, "NC623", "processes and GPUs of a launch differ", "by_absence")
def processes_and_gpus(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or not plan.gpus_per_node:
        return
    starters = [one for one in facts.every_launch if one.launcher.starts_processes()]
    alone = len(starters) == 1 and not starters[0].command.background
    for one in starters:
        has, where = plan.gpus_per_node, "per node"
        if one.launcher.processes:
            has, where = plan.nodes * plan.gpus_per_node, "in all"
        count = one.count(*one.launcher.counts)
        if count is None or count == has or (count < has and not alone):
            continue
        effect = "some of them share a GPU or fail" if count > has else "the other GPUs stay idle"
        yield Violation(
            f"{one.kind} starts {counted(count, 'process')}, and the job has "
            f"{counted(has, 'GPU')} {where}: {effect}",
            f"start {has} here, or request {counted(count, 'GPU')}",
            place=one.place,
        )


_TOOLS = """
build compileall ensurepip http ipykernel json jupyter mpi4py nltk notebook pip pytest site spacy
timeit unittest venv virtualenv wheel zipfile
""".split()  # noqa: SIM905


def _plain(one: Launch) -> bool:
    """Whether it is a program of the user's, started as it is and on purpose alone."""
    known = one.kind == PYTHON and one.options.get("script") != UNKNOWN
    tool = one.options.get("m", "").partition(".")[0] in _TOOLS
    return known and not one.has("c") and not tool and not one.command.captured


@script_rule(WARNING, "NC624", "program that starts once", "by_absence")
def starts_once(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or facts.tasks < 2 or facts.uses_launcher:
        return
    programs = [one for one in facts.launches if _plain(one)]
    # Several side by side, or in a loop, may well be what the tasks are for.
    if programs and not any(one.command.background or one.command.looped for one in programs):
        # On one node, tasks are often asked for where cores are meant.
        cores = plan.nodes == 1 and facts.tasks != plan.gpus_per_node
        meant = f", or, if cores are meant, request --ntasks=1 --cpus-per-task={facts.tasks}"
        where = counted(plan.nodes, "node")
        yield Violation(
            f"this starts once, on the first node: the job has {counted(facts.tasks, 'task')} on "
            f"{where}, which nothing starts",
            "put srun before it to start it in every task"
            + (meant if cores else ", or request --ntasks=1"),
            place=programs[-1].place,
            severity=NOTE if cores else WARNING,
        )


@script_rule(WARNING, "NC625", "GPUs without a process", "by_absence")
def idle_gpus(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or plan.gpus_per_node * plan.nodes < 2:
        return
    gpus = plan.gpus_per_node * plan.nodes
    starts = [one for one in facts.launches if one.is_srun or one.kind == PYTHON]
    # Several side by side, or one after the other with its share each, are another matter; so is
    # the client of a server that has them.
    beside = [one for one in facts.launches if one.command.background and not _is_trifle(one)]
    if beside or any(one.command.looped for one in starts):
        return
    for one in starts:
        if one.is_srun:
            times = facts.times(one)
            own = [inner for inner in one.below() if _plain(inner)]
            shares = one.has("gpus", "gres", "gpus_per_task", "gpus_per_node", "exact")
            if times is None or not own or shares or len(own) < len([*one.below()]):
                continue
            count = times[0] * times[1]
        elif _plain(one) and not facts.uses_launcher and facts.tasks == 1:
            own, count = [one], 1
        else:
            continue
        if count < gpus and not any(_takes_several(program) for program in own):
            # A program may use several GPUs by itself; many processes rarely do.
            idle = gpus - count
            yield Violation(
                f"{counted(count, 'process')} for {counted(gpus, 'GPU')}: unless the program uses "
                f"several GPUs by itself, {counted(idle, 'GPU')} stay{'s' * (idle == 1)} idle",
                f"start one process per GPU (torchrun --nproc_per_node={plan.gpus_per_node}, or "
                f"--ntasks-per-node={plan.gpus_per_node} and srun), or request fewer GPUs",
                place=own[0].place,
            )
            return


_SEVERAL = re.compile(r"--?[\w.-]*(gpus|n_?gpu|num[_-]gpu|devices|parallel|world[_-]size)", re.I)


def _takes_several(program: Launch) -> bool:
    """Whether it is told how many GPUs to use."""
    words = program.command.words
    own = words[words.index(program.word) + 1 :]
    return any(_SEVERAL.match(word.raw) for word in own)


_TRIFLES = ("hostname", "nvidia-smi", "echo", "date", "env", "printenv", "ls", "uname", "which")


def _is_trifle(one: Launch) -> bool:
    """Whether it does no work of the job's."""
    return (one.word.value or "").rpartition("/")[2] in _TRIFLES


@script_rule(NOTE, "NC626", "srun without the cores of its tasks")
def cores_of_tasks(facts: ScriptFacts) -> Iterator[Violation]:
    given = facts.given("cpus-per-task")
    if given is None or facts.plan is None or facts.plan.cpus_per_task < 2:
        return
    if facts.shell.assigned("SRUN_CPUS_PER_TASK"):
        return
    for one in facts.launches:
        if not one.is_srun or not one.certain:
            continue
        if one.has("cpus_per_task", "exact", "exclusive", "whole", "overlap", "cpus_per_gpu"):
            continue
        if "none" in one.options.get("cpu_bind", ""):
            continue
        what = [inner for inner in one.below() if inner.kind != SHELL]
        if what and not _is_trifle(what[0]):
            edits: Tuple[Edit, ...] = ()
            if one.word.raw.strip("'\"").endswith("srun"):  # and is no variable
                behind = SourceSpan(one.place.line, one.place.end, one.place.end)
                edits = (Edit(behind, ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'),)
            yield Violation(
                "since Slurm 22.05, srun does not take --cpus-per-task from the job: each task may "
                f"get 1 core and not {facts.plan.cpus_per_task}",
                'write srun --cpus-per-task="$SLURM_CPUS_PER_TASK"',
                place=one.place,
                edits=edits,
            )
