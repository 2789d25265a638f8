"""NC637: more threads or workers than the job has cores."""

from __future__ import annotations

import re
from typing import Iterator

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, Start, script_rule
from neuronctl.scripts.model import digits

# How programs are told their number of threads, as patterns of the options' names.
_THREADS = {
    **dict.fromkeys(("gmx", "gmx_mpi"), "-ntomp|-nt"),
    **dict.fromkeys(("bwa", "bwa-mem2", "minimap2", "fastqc", "spades.py", "megahit"), "-t"),
    **dict.fromkeys(("bowtie2", "hisat2", "stringtie", "salmon", "julia"), "-p|--threads|-t"),
    **dict.fromkeys(("samtools", "bgzip"), "-@|--threads"),
    **dict.fromkeys(("blastn", "blastp", "blastx", "tblastn"), "-num_threads"),
    **dict.fromkeys(("make", "parallel"), "-j|--jobs"),
    "STAR": "--runThreadN",
}
_SUBMIT = ("snakemake", "nextflow")  # jobs of their own
_WORKERS = r"--[\w-]*workers[\w-]*|--(num[_-]?)?(cpus|threads|jobs|procs)"


@script_rule(WARNING, "NC637", "more threads than cores")
def threads(facts: ScriptFacts) -> Iterator[Finding]:
    plan = facts.plan
    whole_nodes = facts.has("exclusive", "cpus-per-gpu", "mincpus")
    if plan is None or whole_nodes or facts.header.value("mem") == "0" or not facts.header.given:
        return
    yield from _omp_threads(facts, plan)
    for start in facts.starts:
        found = next(_told_by_options(facts, start, plan), None)
        if found is not None:
            yield found
            return


def _omp_threads(facts: ScriptFacts, plan: JobPlan) -> Iterator[Finding]:
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


def _told_by_options(facts: ScriptFacts, start: Start, plan: JobPlan) -> Iterator[Finding]:
    """Compare the threads or workers that a program's own words name with its cores."""
    name, told = start.launch.name, facts.has("cpus-per-task")
    of_task = any(outer.is_launcher for outer in start.outer)
    cores = plan.cpus_per_task if of_task else plan.cores_per_node
    options = re.compile(f"(?:{_THREADS.get(name, _WORKERS)})(\\d+)?")
    # A site may give cores with each GPU.
    most = 2 * cores if told else max(2 * cores, 7 * plan.gpus_per_node)
    for pair in start.launch.pairs:
        asked = options.fullmatch(pair.name)
        count = (digits(asked[1] or pair.value.value) if asked else None) or 0
        if most < count < 1000 and name not in _SUBMIT:
            alone = "" if told else ", unless it has the node alone"
            yield Finding(
                f"{counted(count, 'thread')} or workers, and {counted(cores, 'core')}: they take "
                f"turns{alone}",
                f"request #SBATCH --cpus-per-task={count}, or write {cores}",
                place=pair.word.place,
                severity=WARNING if told and name in _THREADS else NOTE,
            )
