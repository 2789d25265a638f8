"""NC623, NC625, NC627, NC633, and NC663: GPUs that are too few, idle, or out of sight."""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import Iterator, List

from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.launch.launchers import ALL, ONE
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.consistency import contradictions
from neuronctl.rules.local_facts import stated_sizes
from neuronctl.rules.scripts.nested_launchers import is_own_program, is_trifle
from neuronctl.rules.scripts.script_facts import SCRIPT_RULES, ScriptFacts, Start, script_rule
from neuronctl.scripts.header import GPU_OPTIONS
from neuronctl.scripts.launches import CONTAINERS, PYTHON, Launch

_SEVERAL = re.compile(r"(?i)--?[\w.-]*(gpus|n_?gpu|num[_-]gpu|parallel|world[_-]size)")
_WITHOUT_GPUS = (
    r"R|Rscript|pip3?|bcftools|bedtools|blast[npx]|bowtie2|bwa|cutadapt|fastp|fastqc|featureCounts"
    r"|hisat2|kallisto|mafft|megahit|picard|salmon|samtools|STAR|trim_galore|vcftools|simpleFoam"
)
"""Programs that have no code for GPUs."""
_LAUNCHES = r"(?i)launcher\b|nproc|torchrun|strategy"


@script_rule(WARNING, "NC623", "processes and GPUs of a launch differ", Trait.ABSENCE)
def processes_and_gpus(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None or not plan.gpus_per_node:
        return
    for start in facts.starts:
        yield from _too_many_tasks(start, plan)
    starters = [
        start
        for start in facts.starts
        if start.launch.launcher.starts_processes() or start.launch.launcher.ssh
    ]
    for start in starters:
        launch, has, where = start.launch, plan.gpus_per_node, "per node"
        hosts = [launch.options[name] for name in launch.launcher.places if launch.has(name)]
        elsewhere = launch.launcher.ssh and hosts and not hosts[0].startswith("localhost")
        on_one = start.nodes == 1 and launch.count(*launch.launcher.nodes) in (None, 1)
        on_one = on_one and not elsewhere
        if launch.launcher.processes and not on_one:
            has, where = plan.nodes * plan.gpus_per_node, "in all"
        count = launch.count(*launch.launcher.counts)
        if count == 1:
            count = start.each  # more would be NC621
        # Several launches may each take a share of the GPUs.
        alone = len(starters) == 1 and not launch.command.background
        if count is not None and (count > has or (count < has and alone)):
            yield _differ(launch, count, has, where)


def _too_many_tasks(start: Start, plan: JobPlan) -> Iterator[Finding]:
    """Yield an srun or mpirun of more Python processes than the GPUs of its nodes.

    Several that share a single GPU may be intentional.
    """
    run = start.outer[0] if len(start.outer) == 1 else None
    by_task = run is not None and (run.is_srun or run.launcher.uncounted == ALL)
    if run is None or not by_task or start.launch.kind != PYTHON or run.has(*GPU_OPTIONS):
        return
    each, has = start.each or 0, plan.gpus_per_node
    if each > has:
        finding = _differ(run, each, has, "per node")
        yield replace(finding, severity=NOTE if has == 1 else "")


def _differ(launch: Launch, count: int, has: int, where: str) -> Finding:
    short = "some share a GPU or fail" if count > has else "the other GPUs stay idle"
    return Finding(
        f"{launch.kind} starts {counted(count, 'process')}, and the job has "
        f"{counted(has, 'GPU')} {where}: {short}",
        f"start {has} here, or request {counted(count, 'GPU')}",
        place=launch.place,
    )


@script_rule(NOTE, "NC625", "GPUs without a process", Trait.ABSENCE)
def idle_gpus(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None or not plan.gpus_per_node:
        return
    works = [start for start in facts.starts if not is_trifle(start.launch)]
    # Several launches side by side may have a share each.
    if any(start.launch.command.background or start.launch.command.captured for start in works):
        return
    yield from islice(chain(_uncounted(facts, plan, works), _too_few(facts, plan, works)), 1)


def _uncounted(facts: ScriptFacts, plan: JobPlan, works: List[Start]) -> Iterator[Finding]:
    """Yield a launcher that starts one process because no option gives a number."""
    alone = [start for start in works if start.launch.launcher.starts_processes()]
    told = re.search("CUDA_VISIBLE_DEVICES=|PET_|NPROC_PER_NODE=", facts.text)
    if plan.gpus_per_node < 2 or told or not alone or not all(map(_starts_one, alone)):
        return
    launch = alone[0].launch
    option = f"--{launch.launcher.processes_per_node[0]}".replace("_", "-")
    yield Finding(
        f"without {option}, {launch.kind} starts 1 process for the {plan.gpus_per_node} GPUs of "
        "its node",
        f"write {option}={plan.gpus_per_node}",
        place=launch.place,
        severity=WARNING,
    )


def _too_few(facts: ScriptFacts, plan: JobPlan, works: List[Start]) -> Iterator[Finding]:
    """Yield a program that starts fewer times than the job has GPUs."""
    gpus = plan.gpus_per_node * plan.nodes
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
    whole = len(start.outer) == 1 and run.is_launcher and not run.launcher.starts_processes()
    shares = run.has(*GPU_OPTIONS, "exact") or run.launcher.ssh
    return (start.nodes or 0) * (start.each or 0) if whole and not shares else 0


def _starts_one(start: Start) -> bool:
    """Return True if a launcher without a number starts a single process on its node."""
    launch, own = start.launch, start.launch.launcher
    one = own.starts_processes() and own.uncounted == ONE and start.each == 1
    known = launch.certain and not launch.has(*own.counts, "help", "h")
    words = (word.text for each in launch.below() for word in each.own_words)
    return one and known and not any(map(_SEVERAL.match, words))


def _stated_sizes(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the only Python program of a job if it states another size than the job's."""
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
def one_visible_gpu(facts: ScriptFacts) -> Iterator[Finding]:
    """Find --gpus-per-task with several ranks per node: each sees one GPU (tried on 22.05)."""
    given, plan = facts.given("gpus-per-task"), facts.plan
    single = facts.header.count("gpus-per-task") == 1
    steps = [launch for launch in facts.every_launch if launch.is_srun]
    bound = facts.has("gpu-bind") or any(launch.has("gpu_bind") for launch in steps)
    if given is None or plan is None or plan.ntasks_per_node < 2:
        return
    if single and steps and not bound and re.search(_BY_RANK, facts.text):
        yield Finding(
            f"{given.text} shows each task its own GPU only, as number 0: a program that "
            "takes the GPU with the number of its LOCAL_RANK finds none",
            f"write --gpus-per-node={plan.gpus_per_node} instead",
            place=given.place,
        )


_OF_ARRAY = r"\"?\$\{?SLURM_ARRAY_TASK_ID\}?\"?"


@script_rule(WARNING, "NC633", "GPUs that the job does not have")
def gpus_by_hand(facts: ScriptFacts) -> Iterator[Finding]:
    """Find CUDA_VISIBLE_DEVICES beyond the job's GPUs; Slurm numbers them from 0 in each job."""
    has = 0 if facts.plan is None else facts.plan.gpus_per_node
    before = (variable for command in facts.shell.commands for variable in command.assigned)
    for variable in (*facts.shell.assignments, *before) if has else ():
        word = variable.word
        # CUDA reads the list up to the first number that does not exist.
        first = re.match(r"\d{1,3}(?=,|$)", word.value or "")
        beyond = int(first[0]) >= has if first else has == 1 and re.fullmatch(_OF_ARRAY, word.raw)
        if variable.name == "CUDA_VISIBLE_DEVICES" and beyond:
            yield Finding(
                f"CUDA_VISIBLE_DEVICES={word.raw} hides the job's GPUs: it has "
                f"{counted(has, 'GPU')}, numbered from 0",
                "remove it: Slurm sets it",
                place=variable.place,
            )


_DRIVER = r"--nv|(SINGULARITY|APPTAINER)_NV|libcuda\.so|libnvidia|/dev/nvidia|(?i:rocm)"


@script_rule(WARNING, "NC663", "container that sees no GPU", Trait.ABSENCE)
def blind_container(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    if plan is None or not plan.gpus_per_node or re.search(_DRIVER, facts.text):
        return
    if plan.partition.has_amd_gpus:
        return  # their containers only need the devices
    for launch in facts.every_launch:
        words = launch.command.words
        behind = len(words) - len(launch.own_words)
        at = next((at for at, word in enumerate(words) if word.basename in CONTAINERS), len(words))
        # A variable between them may contain the option.
        between = words[at + 2 : behind if at < behind else at + 3]
        hidden = any("$" in word.raw and "/" not in word.raw for word in between)
        if at > behind or hidden or not launch.certain or not _may_use_gpus(launch):
            continue
        if [word.value for word in words[at + 1 : at + 2]] in (["exec"], ["run"]):
            yield Finding(
                "without --nv, the container has no GPU driver: the program fails or uses the "
                "CPU, unless the site has set 'always use nv'",
                f"write {words[at].raw} {words[at + 1].raw} --nv",
                place=words[at].place,
            )
            return


def _may_use_gpus(launch: Launch) -> bool:
    """Return True unless a program only prepares, or has no code for GPUs."""
    without = (
        is_trifle(launch) or launch.command.captured or re.fullmatch(_WITHOUT_GPUS, launch.name)
    )
    within = launch.has("c") and launch.inside and not any(map(_may_use_gpus, launch.inside))
    return not (without or launch.is_launcher or within)
