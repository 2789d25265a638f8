"""Sizes: what a job has, and what its steps, launchers, and programs take of it.

NC611, NC612, NC622, NC623, NC625, NC627, NC633, and NC663.
"""

from __future__ import annotations

import re
from typing import Iterator, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted, duration
from neuronctl.launch.launchers import ALL, ONE
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.consistency import contradictions
from neuronctl.rules.local_facts import stated_sizes
from neuronctl.rules.scripts.nested_launchers import is_own_program, is_trifle
from neuronctl.rules.scripts.script_facts import (
    SCRIPT_RULES,
    ScriptFacts,
    Start,
    script_rule,
)
from neuronctl.scripts.header import GPU_OPTIONS, digits
from neuronctl.scripts.launches import CONTAINERS, PYTHON, Launch


@script_rule(WARNING, "NC611", "tasks that contradict nodes", Trait.UNREACHED)
def check_tasks_and_nodes(facts: ScriptFacts) -> Iterator[Finding]:
    given = facts.given("ntasks")
    tasks, nodes, per_node = (
        digits(facts.header.value(name)) for name in ("ntasks", "nodes", "ntasks-per-node")
    )
    if given is None or tasks is None or facts.plan is None:
        return
    total = (per_node or 0) * (nodes or 1)
    if nodes is not None and tasks < nodes:
        message = f"{counted(tasks, 'task')} on {nodes} nodes: sbatch reduces the job to "
        message += f"{counted(tasks, 'node')}, with a warning that few people see"
        yield Finding(message, f"request --nodes={tasks}, or --ntasks={nodes}", place=given.place)
    elif tasks < total:
        message = f"--ntasks={tasks} wins over --ntasks-per-node={per_node}: "
        message += f"{counted(tasks, 'task')} in all, and not {total}"
        hint = f"remove one of the two, or write --ntasks={total}"
        yield Finding(message, hint, place=given.place)


_AS_HOURS = r"0[0-9]+:00|(12|24|36|48|72|96):00"
"""Half a day, a day, or as a clock shows it: few people mean minutes."""


@script_rule(WARNING, "NC612", "time or memory in another unit", Trait.UNREACHED)
def check_other_unit(facts: ScriptFacts) -> Iterator[Finding]:
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
    as_hours = re.fullmatch(_AS_HOURS, value)
    in_seconds = re.fullmatch("0?0:00:0[1-9]", value)  # 1 to 9 s
    if given is None or not (as_hours or in_seconds):
        return
    time = duration(units.parse_duration(value))
    message = f"--time={value} is {time}"
    hint = "write 5 for minutes, or 5:00:00 for hours"
    if as_hours:
        message = f"--time={value} is minutes and seconds: {time}"
        hint = f"if hours are meant, write {value}:00; if not, 0:{value}"
    yield Finding(message, hint, place=given.place)


@script_rule(ERROR, "NC622", "step that does not fit the job")
def check_larger_than_the_job(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None or facts.header.components > 1:
        return
    for launch in facts.launches:
        yield from _more_than_the_job(facts, plan, launch)
    for start in facts.starts:
        yield from _other_nodes(facts, plan, start)


_MORE_TASKS = ("overcommit", "jobid", "hint", "map_by", "oversubscribe", "use_hwthread_cpus")
"""Options of srun and mpirun with which more tasks fit than the job has cores."""


def _more_than_the_job(facts: ScriptFacts, plan: JobPlan, launch: Launch) -> Iterator[Finding]:
    """Yield an srun with more cores, or an mpirun with more processes, than the job has."""
    sized = facts.has("ntasks", "ntasks-per-node") and facts.has("nodes", "ntasks")
    shared = facts.has("exclusive", "overcommit", "mincpus", "cpus-per-gpu")
    unknown = not launch.certain or launch.command.looped
    if not sized or shared or unknown or launch.has(*_MORE_TASKS, *launch.launcher.places):
        return
    if launch.is_srun:
        tasks, cores_each = launch.count("ntasks"), launch.count("cpus_per_task") or 1
        if not launch.has("ntasks", "nodes", "ntasks_per_node", "ntasks_per_gpu"):
            tasks = facts.tasks  # the job's (SLURM_NTASKS)
        available, unit = facts.tasks * plan.cpus_per_task, "core"
    elif launch.launcher.uncounted == ALL:
        tasks, cores_each = launch.count(*launch.launcher.processes), 1
        available, unit = facts.tasks, "task"
    else:
        return
    if tasks and tasks * cores_each > available:
        of_cores = f" of {cores_each} cores" if cores_each > 1 else ""
        cores = f" --cpus-per-task={cores_each}" if cores_each > 1 else ""
        message = f"{launch.kind} starts {counted(tasks, 'process')}{of_cores}, and the job has "
        message += f"{counted(available, unit)}: it fails if nodes are shared"
        hint = f"request #SBATCH --ntasks={tasks}{cores}, or start fewer"
        yield Finding(message, hint, place=launch.place, severity=WARNING)


def _other_nodes(facts: ScriptFacts, plan: JobPlan, start: Start) -> Iterator[Finding]:
    """Yield launches with another number of nodes than the job or step has."""
    launch, launcher = start.launch, start.launch.launcher
    # A launcher that joins no others takes the nodes that exist.
    waits = bool({*launcher.nodes} & {*launcher.joins})
    if not launch.is_srun and not (waits and start.per_node == 1):
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


_SEVERAL = re.compile(r"(?i)--?[\w.-]*(gpus|n_?gpu|num[_-]gpu|parallel|world[_-]size)")
"""Options by which a program may use several GPUs: ``--n_gpu``, ``--tensor-parallel-size``."""
_WITHOUT_GPUS = (
    r"R|Rscript|pip3?|bcftools|bedtools|blast[npx]|bowtie2|bwa|cutadapt|fastp|fastqc|featureCounts"
    r"|hisat2|kallisto|mafft|megahit|picard|salmon|samtools|STAR|trim_galore|vcftools|simpleFoam"
)
"""Programs that have no code for GPUs."""
_LAUNCHES = r"(?i)launcher\b|nproc|torchrun|strategy"


@script_rule(WARNING, "NC623", "processes and GPUs of a launch differ", Trait.ABSENCE)
def check_processes_and_gpus(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None or not plan.gpus_per_node:
        return
    for start in facts.starts:
        yield from _too_many_tasks(start, plan)
    launchers = [
        start
        for start in facts.starts
        if start.launch.launcher.starts_processes() or start.launch.launcher.ssh
    ]
    for start in launchers:
        launch = start.launch
        gpus, scope = _gpus_for(start, plan)
        processes = launch.count(*launch.launcher.counts)
        if processes == 1:  # one process per start; NC621 reports several starts
            processes = start.per_node
        # Several launches may each take a share of the GPUs.
        alone = len(launchers) == 1 and not launch.command.background
        if processes is not None and (processes > gpus or (processes < gpus and alone)):
            yield _differ(launch, processes, gpus, scope)


def _gpus_for(start: Start, plan: JobPlan) -> Tuple[int, str]:
    """Return the number of GPUs for a launcher's processes, and "per node" or "in all".

    A launcher that is given the total of its processes uses the GPUs of all nodes, unless it
    stays on one node.
    """
    launch, launcher = start.launch, start.launch.launcher
    hosts = [launch.options[name] for name in launcher.places if launch.has(name)]
    names_others = launcher.ssh and hosts and not hosts[0].startswith("localhost")
    asks_for_one = launch.count(*launcher.nodes) in (None, 1)
    stays_on_one_node = start.nodes == 1 and asks_for_one and not names_others
    if not launcher.processes or stays_on_one_node:
        return plan.gpus_per_node, "per node"
    return plan.nodes * plan.gpus_per_node, "in all"


def _too_many_tasks(start: Start, plan: JobPlan) -> Iterator[Finding]:
    """Yield an srun or mpirun of more Python processes than the GPUs of its nodes.

    Several that share a single GPU may be intentional.
    """
    run = start.outer[0] if len(start.outer) == 1 else None
    by_task = run is not None and (run.is_srun or run.launcher.uncounted == ALL)
    if run is None or not by_task or start.launch.kind != PYTHON or run.has(*GPU_OPTIONS):
        return
    each, gpus = start.per_node or 0, plan.gpus_per_node
    if each > gpus:
        finding = _differ(run, each, gpus, "per node")
        yield replace(finding, severity=NOTE if gpus == 1 else "")


def _differ(launch: Launch, count: int, gpus: int, scope: str) -> Finding:
    """Return the finding for a number of processes. scope: of the GPUs: "per node", "in all"."""
    effect = "some share a GPU or fail" if count > gpus else "the other GPUs stay idle"
    message = f"{launch.kind} starts {counted(count, 'process')}, and the job has "
    message += f"{counted(gpus, 'GPU')} {scope}: {effect}"
    hint = f"start {gpus} here, or request {counted(count, 'GPU')}"
    return Finding(message, hint, place=launch.place)


@script_rule(NOTE, "NC625", "GPUs without a process", Trait.ABSENCE)
def check_idle_gpus(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first program that starts fewer processes than the job has GPUs."""
    plan = facts.plan
    works = [start for start in facts.starts if not is_trifle(start.launch)]
    # Several launches side by side may have a share each.
    beside = any(run.launch.command.background or run.launch.command.captured for run in works)
    if plan is None or not plan.gpus_per_node or beside:
        return
    gpus = plan.gpus_per_node * plan.nodes
    launchers = [start for start in works if start.launch.launcher.starts_processes()]
    sized = re.search("CUDA_VISIBLE_DEVICES=|PET_|NPROC_PER_NODE=", facts.text)
    if plan.gpus_per_node > 1 and launchers and not sized and all(map(_starts_one, launchers)):
        launch = launchers[0].launch
        option = f"--{launch.launcher.processes_per_node[0]}".replace("_", "-")
        message = f"without {option}, {launch.kind} starts 1 process for the {plan.gpus_per_node} "
        hint = f"write {option}={plan.gpus_per_node}"
        yield Finding(message + "GPUs of its node", hint, place=launch.place, severity=WARNING)
        return
    for start in works:
        count = _processes(facts, start)
        if 0 < count < gpus:
            yield Finding(
                f"{counted(count, 'process')} for {counted(gpus, 'GPU')}: the others stay idle "
                "unless the program uses several by itself",
                f"start one process per GPU (torchrun --nproc_per_node={plan.gpus_per_node}, or "
                f"--ntasks-per-node={plan.gpus_per_node} and srun), or request fewer GPUs",
                place=start.launch.place,
            )
            return


def _processes(facts: ScriptFacts, start: Start) -> int:
    """Return how many one-GPU processes of a program start, or 0 if unknown."""
    launch = start.launch
    words = " ".join(word.text for word in launch.own_words[1:])
    if not is_own_program(launch) or _SEVERAL.search(words) or re.search(_LAUNCHES, words):
        return 0
    if launch.command.looped and not launch.command.in_loop:
        return 0
    if not start.outer:
        return 1 if facts.tasks == 1 and not facts.uses_launcher else 0
    run = start.outer[0]
    by_task = len(start.outer) == 1 and run.is_launcher and not run.launcher.starts_processes()
    has_share = run.has(*GPU_OPTIONS, "exact") or run.launcher.ssh
    return (start.nodes or 0) * (start.per_node or 0) if by_task and not has_share else 0


def _starts_one(start: Start) -> bool:
    """Return True if a launcher without a number starts a single process on its node."""
    launch, launcher = start.launch, start.launch.launcher
    if launcher.uncounted != ONE or start.per_node != 1 or not launch.certain:
        return False
    words = (word.text for each in launch.below() for word in each.own_words)
    sized = launch.has(*launcher.counts, "help", "h") or any(map(_SEVERAL.match, words))
    return not sized


def _stated_sizes(facts: ScriptFacts) -> Iterator[Finding]:
    """Find sizes that a job's only Python program states, and that are not the job's."""
    works = [run for run in facts.every_launch if run.kind == PYTHON and not run.command.captured]
    if facts.plan is None or len(works) != 1 or not facts.fixed_nodes or facts.shell.calls("cd"):
        return
    (run,) = works
    program = run.options.get("script") or run.word.value or ""
    sizes = stated_sizes(facts.read_program(program))
    several = [each for each in sizes if each != ("devices", 1)]  # NC625 reports that one
    for finding in contradictions(program, several, facts.plan):
        yield replace(finding, place=run.place)


SCRIPT_RULES.judges["NC306"] = _stated_sizes

_BY_RANK = r"(?i)torch|local_?(rank|id)|--\w*dist|\bddp\b|nccl|lightning"
"""A script of a program that usually takes the GPU with the number of its local rank."""


@script_rule(NOTE, "NC627", "each task sees one GPU only")
def check_one_visible_gpu(facts: ScriptFacts) -> Iterator[Finding]:
    """Find --gpus-per-task with several ranks per node: each sees one GPU (tried on 22.05)."""
    given, plan = facts.given("gpus-per-task"), facts.plan
    steps = [launch for launch in facts.every_launch if launch.is_srun]
    bound = facts.has("gpu-bind") or any(launch.has("gpu_bind") for launch in steps)
    if given is None or plan is None or plan.ntasks_per_node < 2 or not steps or bound:
        return
    if facts.header.count("gpus-per-task") == 1 and re.search(_BY_RANK, facts.text):
        message = f"{given.text} shows each task its own GPU only, as number 0: a program that "
        message += "takes the GPU with the number of its LOCAL_RANK finds none"
        hint = f"write --gpus-per-node={plan.gpus_per_node} instead"
        yield Finding(message, hint, place=given.place)


_OF_ARRAY = r"\"?\$\{?SLURM_ARRAY_TASK_ID\}?\"?"


@script_rule(WARNING, "NC633", "GPUs that the job does not have")
def check_gpus_by_hand(facts: ScriptFacts) -> Iterator[Finding]:
    """Find CUDA_VISIBLE_DEVICES beyond the job's GPUs; Slurm numbers them from 0 in each job."""
    has = 0 if facts.plan is None else facts.plan.gpus_per_node
    for variable in (*facts.shell.assignments, *facts.shell.before_commands) if has else ():
        word = variable.word
        # CUDA reads the list up to the first number that does not exist.
        first = re.match(r"\d{1,3}(?=,|$)", word.value or "")
        beyond = int(first[0]) >= has if first else has == 1 and re.fullmatch(_OF_ARRAY, word.raw)
        if variable.name == "CUDA_VISIBLE_DEVICES" and beyond:
            message = f"CUDA_VISIBLE_DEVICES={word.raw} hides the job's GPUs: it has "
            message += f"{counted(has, 'GPU')}, numbered from 0"
            yield Finding(message, "remove it: Slurm sets it", place=variable.place)


_DRIVER = r"--nv|(SINGULARITY|APPTAINER)_NV|libcuda\.so|libnvidia|/dev/nvidia|(?i:rocm)"


@script_rule(WARNING, "NC663", "container that sees no GPU", Trait.ABSENCE)
def check_blind_container(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first program with GPUs in a container that is started without --nv."""
    plan = facts.plan
    if plan is None or not plan.gpus_per_node or re.search(_DRIVER, facts.text):
        return
    if plan.partition.has_amd_gpus:
        return  # their containers only need the devices
    for launch in facts.every_launch:
        words = launch.command.words
        program = len(words) - len(launch.own_words)
        names = [word.basename for word in words[: program + 1]]
        runtime = next((at for at, name in enumerate(names) if name in CONTAINERS), None)
        if runtime is None:
            continue
        verbs = words[runtime + 1 : runtime + 2]
        if [verb.value for verb in verbs] not in (["exec"], ["run"]):
            continue
        # A variable before the image may contain the option.
        options = words[runtime + 2 : program if runtime < program else runtime + 3]
        hidden = any("$" in word.raw and "/" not in word.raw for word in options)
        if launch.certain and not hidden and _may_use_gpus(launch):
            yield Finding(
                "without --nv, the container has no GPU driver: the program fails or uses the "
                "CPU, unless the site has set 'always use nv'",
                f"write {words[runtime].raw} {verbs[0].raw} --nv",
                place=words[runtime].place,
            )
            return


def _may_use_gpus(launch: Launch) -> bool:
    """Return True unless a program only prepares, or has no code for GPUs."""
    without = (
        is_trifle(launch) or launch.command.captured or re.fullmatch(_WITHOUT_GPUS, launch.name)
    )
    within = launch.has("c") and launch.inside and not any(map(_may_use_gpus, launch.inside))
    return not (without or launch.is_launcher or within)
