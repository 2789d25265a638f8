"""Sizes: what a job has, and what its steps, launchers, and programs take of it.

NC611, NC612, NC622, NC623, NC625, NC627, NC633, and NC663.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Iterator, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted, duration
from neuronctl.launch.launchers import ALL, ONE, Launcher
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.consistency import contradictions
from neuronctl.rules.local_facts import stated_sizes
from neuronctl.rules.scripts.nested_launchers import is_own_program, is_trifle
from neuronctl.rules.scripts.script_facts import SCRIPT_RULES, ScriptFacts, Start, script_rule
from neuronctl.scripts.header import GPU_OPTIONS, digits
from neuronctl.scripts.launches import CONTAINERS, PYTHON, Launch
from neuronctl.scripts.shell_text import ShellWord


@script_rule(WARNING, "NC611", "tasks that contradict nodes", Trait.UNREACHED)
def check_tasks_and_nodes(facts: ScriptFacts) -> Iterator[Finding]:
    given = facts.given("ntasks")
    tasks, nodes, per_node = (
        digits(facts.header.value(name)) for name in ("ntasks", "nodes", "ntasks-per-node")
    )
    if given is None or tasks is None or facts.plan is None:
        return
    total = (per_node or 0) * (nodes or 1)  # 0 without --ntasks-per-node
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
"""Values such as 12:00, 24:00, and 08:00: few people mean minutes."""


@script_rule(WARNING, "NC612", "time or memory in another unit", Trait.UNREACHED)
def check_units(facts: ScriptFacts) -> Iterator[Finding]:
    yield from _find_little_memory(facts)
    given = facts.given("time")
    value = "" if given is None else given.value or ""
    if given is not None and re.fullmatch(_AS_HOURS, value):
        message = f"--time={value} is minutes and seconds: {duration(units.parse_duration(value))}"
        hint = f"if hours are meant, write {value}:00; if not, 0:{value}"
        yield Finding(message, hint, place=given.place)
    elif given is not None and re.fullmatch("0?0:00:0[1-9]", value):
        message = f"--time={value} is {duration(units.parse_duration(value))}"
        yield Finding(message, "write 5 for minutes, or 5:00:00 for hours", place=given.place)


def _find_little_memory(facts: ScriptFacts) -> Iterator[Finding]:
    """Yield each option for memory with a plain number, so in MB, that is too small for a job."""
    has_gpus = facts.plan is not None and facts.plan.gpus_per_node > 0
    for name, least in (("mem", 65), ("mem-per-cpu", 32), ("mem-per-gpu", 32)):  # in MB
        given = facts.given(name)
        size = digits(given.value) if given is not None else None
        cores = facts.plan.cores_per_node if facts.plan and name == "mem-per-cpu" else 1
        if given is not None and size and size * cores < (1000 if has_gpus else least):
            program = "a program that uses a GPU" if has_gpus else "a program"
            message = f"--{name}={size} is {size} MB: {program} needs more"
            yield Finding(message, f"if GB are meant, write {size}G", place=given.place)


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
    has_tasks_by_node = facts.has("nodes") and facts.has("ntasks-per-node")
    has_size = facts.has("ntasks") or has_tasks_by_node
    may_have_more = facts.has("exclusive", "overcommit", "mincpus", "cpus-per-gpu")
    if not has_size or may_have_more or not launch.certain:
        return
    # A command in a loop or a function may never run.
    if launch.command.looped or launch.has(*_MORE_TASKS):
        return
    if launch.has(*launch.launcher.places):  # such as mpirun's -H NODE:8, which sets the slots
        return
    if launch.is_srun:
        available, unit = facts.tasks * plan.cpus_per_task, "core"
        has_own_size = launch.has("ntasks", "nodes", "ntasks_per_node", "ntasks_per_gpu")
        tasks = launch.count("ntasks") if has_own_size else facts.tasks  # from SLURM_NTASKS
        per_task = launch.count("cpus_per_task") or 1
    elif launch.launcher.uncounted == ALL:  # mpirun has one slot for each task of the job
        available, unit = facts.tasks, "task"
        tasks, per_task = launch.count(*launch.launcher.processes), 1
    else:
        return
    if tasks and tasks * per_task > available:
        yield _does_not_fit(launch, tasks, per_task, counted(available, unit))


def _does_not_fit(launch: Launch, tasks: int, per_task: int, size: str) -> Finding:
    """Return the finding for a launch of more tasks, or cores for them, than the job's size."""
    processes, option = counted(tasks, "process"), f"--ntasks={tasks}"
    if per_task > 1:
        processes += f" of {per_task} cores"
        option += f" --cpus-per-task={per_task}"
    message = f"{launch.kind} starts {processes}, and the job has {size}: "
    message += "it fails if nodes are shared"
    hint = f"request #SBATCH {option}, or start fewer"
    return Finding(message, hint, place=launch.place, severity=WARNING)


def _other_nodes(facts: ScriptFacts, plan: JobPlan, start: Start) -> Iterator[Finding]:
    """Yield a launch for another number of nodes than the job, or the srun that starts it, has."""
    launch, launcher = start.launch, start.launch.launcher
    # A launcher that joins no others takes the nodes that exist.
    joins_others = bool({*launcher.nodes} & {*launcher.joins})
    count = launch.count(*launcher.nodes)
    if count is None or not (launch.is_srun or (joins_others and start.per_node == 1)):
        return
    if count > plan.nodes and facts.fixed_nodes and not launch.has("jobid"):
        effect = "srun refuses it" if launch.is_srun else "it waits for the others"
        message = f"{launch.kind} is for {counted(count, 'node')}, and the job has {plan.nodes}: "
        hint = f"request #SBATCH --nodes={count}, or use {plan.nodes} here"
        # With its own rank and address, it may be one of several jobs.
        is_part = launch.count(*launcher.node_rank) is not None and launch.has(*launcher.address)
        severity = WARNING if is_part else ERROR
        yield Finding(message + effect, hint, place=launch.place, severity=severity)
    elif joins_others and count < (start.nodes or 0):
        effect = "each trains alone" if count == 1 else "the others wait in vain, or fail"
        message = f"{start.outer[-1].kind} starts {launch.kind} on {start.nodes} nodes, and each "
        message += f"is for {counted(count, 'node')}: {effect}"
        hint = f'write --{launcher.nodes[0]}="$SLURM_NNODES"'.replace("_", "-")
        severity = WARNING if count == 1 or launch.command.looped else ERROR
        yield Finding(message, hint, place=launch.place, severity=severity)


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
    launchers = [start for start in facts.starts if _starts_its_processes(start.launch.launcher)]
    for start in launchers:
        launch = start.launch
        gpus, scope = _gpus_for(start, plan)
        processes = launch.count(*launch.launcher.counts)
        if processes == 1:  # its starts count; with several processes in each, NC621 reports them
            processes = start.per_node
        # Several launches may each take a share of the GPUs.
        is_alone = len(launchers) == 1 and not launch.command.background
        if processes is not None and (processes > gpus or (processes < gpus and is_alone)):
            yield _differ(launch, processes, gpus, scope)


def _starts_its_processes(launcher: Launcher) -> bool:
    return launcher.starts_processes() or launcher.ssh


def _gpus_for(start: Start, plan: JobPlan) -> Tuple[int, str]:
    """Return the number of GPUs for a launcher's processes, and "per node" or "in all".

    A launcher that is given the total of its processes uses the GPUs of all nodes, unless it
    stays on one node.
    """
    launch, launcher = start.launch, start.launch.launcher
    hosts = [launch.options[name] for name in launcher.places if launch.has(name)]
    names_others = launcher.ssh and hosts and not hosts[0].startswith("localhost")
    is_for_one_node = launch.count(*launcher.nodes) in (None, 1) and not names_others
    if not launcher.processes or (start.nodes == 1 and is_for_one_node):
        return plan.gpus_per_node, "per node"
    return plan.nodes * plan.gpus_per_node, "in all"


def _too_many_tasks(start: Start, plan: JobPlan) -> Iterator[Finding]:
    """Yield an srun or mpirun of more Python processes than the GPUs of its nodes.

    Several processes on a single GPU are only a note: they may be intentional.
    """
    if len(start.outer) != 1 or start.launch.kind != PYTHON:
        return
    (run,) = start.outer
    starts_tasks = run.is_srun or run.launcher.uncounted == ALL
    processes, gpus = start.per_node or 0, plan.gpus_per_node
    if starts_tasks and not run.has(*GPU_OPTIONS) and processes > gpus:
        finding = _differ(run, processes, gpus, "per node")
        yield replace(finding, severity=NOTE if gpus == 1 else "")


def _differ(launch: Launch, count: int, gpus: int, scope: str) -> Finding:
    """Return the finding for a launch of ``count`` processes. scope: "per node" or "in all"."""
    effect = "some share a GPU or fail" if count > gpus else "the other GPUs stay idle"
    message = f"{launch.kind} starts {counted(count, 'process')}, and the job has "
    message += f"{counted(gpus, 'GPU')} {scope}: {effect}"
    hint = f"start {gpus} here, or request {counted(count, 'GPU')}"
    return Finding(message, hint, place=launch.place)


@script_rule(NOTE, "NC625", "GPUs without a process", Trait.ABSENCE)
def check_idle_gpus(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first program that starts fewer processes than the job has GPUs."""
    plan = facts.plan
    starts = [start for start in facts.starts if not is_trifle(start.launch)]
    # Programs side by side may have a share each.
    commands = [start.launch.command for start in starts]
    are_beside = any(command.background or command.captured for command in commands)
    if plan is None or not plan.gpus_per_node or are_beside:
        return
    per_node = plan.gpus_per_node
    launchers = [start for start in starts if start.launch.launcher.starts_processes()]
    # Variables may give a launcher its number of processes, or a program its GPU.
    has_variable = re.search("CUDA_VISIBLE_DEVICES=|PET_|NPROC_PER_NODE=", facts.text)
    if per_node > 1 and launchers and not has_variable and all(map(_starts_one, launchers)):
        yield _without_number(launchers[0].launch, per_node)
        return
    gpus = per_node * plan.nodes
    for start in starts:
        processes = _count_one_gpu_processes(facts, start)
        if 0 < processes < gpus:
            message = f"{counted(processes, 'process')} for {counted(gpus, 'GPU')}: the others "
            message += "stay idle unless the program uses several by itself"
            hint = f"start one process per GPU (torchrun --nproc_per_node={per_node}, or "
            hint += f"--ntasks-per-node={per_node} and srun), or request fewer GPUs"
            yield Finding(message, hint, place=start.launch.place)
            return


def _without_number(launch: Launch, gpus: int) -> Finding:
    """Return the finding for a launcher whose number of processes, by default 1, is not given."""
    option = f"--{launch.launcher.processes_per_node[0]}".replace("_", "-")
    message = f"without {option}, {launch.kind} starts 1 process for the {gpus} GPUs of its node"
    return Finding(message, f"write {option}={gpus}", place=launch.place, severity=WARNING)


def _count_one_gpu_processes(facts: ScriptFacts, start: Start) -> int:
    """Return how many processes of a program start, 0 if unknown, or if it may use several GPUs."""
    launch = start.launch
    words = " ".join(word.text for word in launch.own_words[1:])
    if not is_own_program(launch) or _SEVERAL.search(words) or re.search(_LAUNCHES, words):
        return 0
    is_in_function = launch.command.looped and not launch.command.in_loop
    if is_in_function:  # which may run any number of times
        return 0
    if not start.outer:
        return 1 if facts.tasks == 1 and not facts.uses_launcher else 0
    outermost = start.outer[0]
    is_srun_or_mpirun = outermost.is_launcher and not outermost.launcher.starts_processes()
    has_share = outermost.has(*GPU_OPTIONS, "exact") or outermost.launcher.ssh
    if len(start.outer) > 1 or not is_srun_or_mpirun or has_share:
        return 0
    return (start.nodes or 0) * (start.per_node or 0)


def _starts_one(start: Start) -> bool:
    """Return True if a launcher without a number starts a single process on its node."""
    launch, launcher = start.launch, start.launch.launcher
    if launcher.uncounted != ONE or start.per_node != 1 or not launch.certain:
        return False
    if launch.has(*launcher.counts, "help", "h"):
        return False
    words = chain.from_iterable(each.own_words for each in launch.below())
    return not any(_SEVERAL.match(word.text) for word in words)


def _stated_sizes(facts: ScriptFacts) -> Iterator[Finding]:
    """Find sizes that a job's only Python program states, and that are not the job's."""
    runs = [run for run in facts.every_launch if run.kind == PYTHON and not run.command.captured]
    if facts.plan is None or len(runs) != 1 or not facts.fixed_nodes or facts.shell.calls("cd"):
        return
    (run,) = runs
    program = run.options.get("script") or run.word.value or ""
    stated = stated_sizes(facts.read_program(program))
    sizes = [size for size in stated if size != ("devices", 1)]  # NC625 reports that one
    for finding in contradictions(program, sizes, facts.plan):
        yield replace(finding, place=run.place)


SCRIPT_RULES.judges["NC306"] = _stated_sizes

_BY_RANK = r"(?i)torch|local_?(rank|id)|--\w*dist|\bddp\b|nccl|lightning"
"""Text of a script whose program usually takes the GPU with the number of its local rank."""


@script_rule(NOTE, "NC627", "each task sees one GPU only")
def check_one_visible_gpu(facts: ScriptFacts) -> Iterator[Finding]:
    """Find --gpus-per-task with several ranks per node: each sees one GPU (tried on 22.05)."""
    given, plan = facts.given("gpus-per-task"), facts.plan
    sruns = [launch for launch in facts.every_launch if launch.is_srun]
    has_binding = facts.has("gpu-bind") or any(srun.has("gpu_bind") for srun in sruns)
    if given is None or plan is None or plan.ntasks_per_node < 2 or not sruns or has_binding:
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
    gpus = 0 if facts.plan is None else facts.plan.gpus_per_node
    for variable in (*facts.shell.assignments, *facts.shell.before_commands):
        if gpus and variable.name == "CUDA_VISIBLE_DEVICES" and _is_beyond(variable.word, gpus):
            message = f"CUDA_VISIBLE_DEVICES={variable.word.raw} hides the job's GPUs: it has "
            message += f"{counted(gpus, 'GPU')}, numbered from 0"
            yield Finding(message, "remove it: Slurm sets it", place=variable.place)


def _is_beyond(word: ShellWord, gpus: int) -> bool:
    """Return True if a list of GPUs begins with one that does not exist; CUDA ends the list there.

    An array's index does not exist in most tasks of a job with one GPU.
    """
    first = re.match(r"\d{1,3}(?=,|$)", word.value or "")
    if first is None:
        return gpus == 1 and re.fullmatch(_OF_ARRAY, word.raw) is not None
    return int(first[0]) >= gpus


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
        program_at = len(words) - len(launch.own_words)
        up_to_program = enumerate(words[: program_at + 1])
        runtimes_at = [at for at, word in up_to_program if word.basename in CONTAINERS]
        if not runtimes_at or not launch.certain or not _may_use_gpus(launch):
            continue
        runtime_at = runtimes_at[0]
        runtime, arguments = words[runtime_at], words[runtime_at + 1 :]
        verb = arguments[0].value if arguments else ""
        # The image is right before the program, or, if the image's own runs, right after the verb.
        options = arguments[1:2]
        if runtime_at < program_at:
            options = arguments[1 : program_at - runtime_at - 1]
        # A variable before the image may contain the option.
        may_have_option = any("$" in word.raw and "/" not in word.raw for word in options)
        if verb in ("exec", "run") and not may_have_option:
            message = "without --nv, the container has no GPU driver: the program fails or uses "
            message += "the CPU, unless the site has set 'always use nv'"
            hint = f"write {runtime.raw} {arguments[0].raw} --nv"
            yield Finding(message, hint, place=runtime.place)
            return


def _may_use_gpus(launch: Launch) -> bool:
    """Return True unless a program only prepares, or has no code for GPUs."""
    if is_trifle(launch) or launch.is_launcher or launch.command.captured:
        return False
    if launch.has("c") and launch.inside and not any(map(_may_use_gpus, launch.inside)):
        return False
    return not re.fullmatch(_WITHOUT_GPUS, launch.name)
