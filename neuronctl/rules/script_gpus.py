"""NC625: GPUs that the programs of a script do not use."""

from __future__ import annotations

import re
from typing import Iterator, List, Mapping, Tuple

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.launch.launchers import ALL, ONE
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, Start, script_rule
from neuronctl.rules.script_commands import ONLY_PREPARES, SHORT
from neuronctl.rules.script_launches import ITS_GPUS, is_own_program, is_trifle, takes_several
from neuronctl.rules.script_starts import replaced_by_srun
from neuronctl.scripts.launches import PYTHON, Launch

_WITHOUT_GPUS = frozenset(
    """
    bcftools bedtools blastn blastp blastx blockMesh bowtie2 bwa cutadapt decomposePar diamond fastp
    fastqc featureCounts hisat2 hmmsearch interFoam kallisto mafft makeblastdb megahit
    minimap2 mothur multiqc orca pimpleFoam pisoFoam pmemd pmemd.MPI potentialFoam quast.py raxmlHPC
    reconstructPar rsem-calculate-expression salmon samtools sander sander.MPI simpleFoam
    snappyHexMesh spades.py STAR stringtie subread-align trim_galore vcftools velveth
    """.split()  # noqa: SIM905
)
"""Programs that have no code for GPUs."""

_FOR_ONE: Mapping[str, str] = {
    **dict.fromkeys(("pmemd.cuda", "pmemd.cuda_SPFP", "pmemd.cuda_DPFP", "pmemd.hip"), ""),
    **dict.fromkeys(("colabfold_batch", "nnUNet_train", "whisper"), ""),
    **dict.fromkeys(("run_alphafold.py", "run_alphafold.sh"), ""),
    "nnUNetv2_train": "-num_gpus",
    "boltz": "--devices",
    "yolo": "device=",
    "lm_eval": r".*(parallel|data_parallel_size)|-m\b.*",
    "vllm": r"-tp|-pp|-dp|--(tensor|pipeline|data)-parallel-size|--config",
    "sglang": r"--(tp|dp|pp)(-size)?|--(tensor|data|pipeline)-parallel-size|--config",
}
"""Programs that use one GPU, and the options by which they use several; "" for none."""
_OF_MODULES = {
    "sglang.launch_server": "sglang",
    **dict.fromkeys(("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"), "vllm"),
}
_ON_THE_CPU = re.compile(
    r"(^|\s)(--(no[_-]cuda|use[_-]cpu)|--(device|accelerator|platform)[= ]cpu|-nb[= ]cpu)(\s|$)",
    re.IGNORECASE,
)
_ONE_DEVICE = re.compile(
    r"(^|\s)((--?(device|gpu|gpus?[_-]?ids?|cuda|gpu_?device)[= ](cuda:)?|-x[= ]cuda:)\d(?! ?[\d,])"
    r"|--?(\w+\.)?(num_?|n_?)?(gpus|devices)[= ]1\b|-pk gpu 1\b|on g(pus)? 1\b|-ntmpi 1\b)",
    re.IGNORECASE,
)
_MORE = re.compile(r"\$[@*]|\$\{?\w*(arg|opt|flag|extra|param)", re.IGNORECASE)
"""A variable that may hold options."""
_HIDES_ALL: Mapping[str, Tuple[str, ...]] = {
    "CUDA_VISIBLE_DEVICES": ("", "-1"),
    **dict.fromkeys(("JAX_PLATFORMS", "JAX_PLATFORM_NAME"), ("cpu",)),
}


@script_rule(NOTE, "NC625", "GPUs without a process", "by_absence")
def idle_gpus(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or not plan.gpus_per_node:
        return
    known = [*_unused(facts, plan.gpus_per_node), *_one_of_several(facts, plan.gpus_per_node)]
    known = known or [*_alone_on_the_node(facts, plan)]
    yield from known
    if known or plan.gpus_per_node * plan.nodes < 2:
        return
    alone = [*_uncounted(facts, plan)]
    yield from alone
    if alone:
        return
    gpus = plan.gpus_per_node * plan.nodes
    starts = [launch for launch in facts.launches if launch.is_launcher or launch.kind == PYTHON]
    # Several side by side, or one after the other with its share each, are another matter; so is
    # the client of a server that has them.
    beside = [
        launch for launch in facts.launches if launch.command.background and not is_trifle(launch)
    ]
    if beside or any(run.command.looped and not run.command.in_loop for run in starts):
        return
    for launch in starts:
        if launch.is_srun:
            times = facts.times(launch)
            own = [inner for inner in launch.below() if is_own_program(inner)]
            shares = launch.has("gpus", "gres", "gpus_per_task", "gpus_per_node", "exact")
            if times is None or not own or shares or len(own) < len([*launch.below()]):
                continue
            count = times[0] * times[1]
        elif launch.launcher.uncounted == ALL and facts.times(launch) is not None:
            own = [inner for inner in launch.below() if is_own_program(inner)]
            count = launch.count(*launch.launcher.processes) or gpus
            if not own:
                continue
        elif is_own_program(launch) and not facts.uses_launcher and facts.tasks == 1:
            own, count = [launch], 1
        else:
            continue
        told = any(_LAUNCHES.search(_words(program)) for program in own)
        if count < gpus and not told and not any(takes_several(program) for program in own):
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


def _alone_on_the_node(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """A job of one GPU that keeps all others from its node."""
    given = facts.given("exclusive")
    has = plan.partition.gpus_per_node if facts.has("partition") else None
    whole = given is not None and not given.value and plan.partition.gpus_per_node != 1
    if given is not None and whole and plan.gpus_per_node == 1:
        yield Violation(
            "--exclusive takes the whole node, and the job gets 1 GPU of it: "
            + (f"the other {has - 1} stay idle" if has else "all others stay idle"),
            "remove it, or request all GPUs of the node",
            place=given.place,
        )


_LAUNCHES = re.compile(r"(?i)launcher\b|nproc|torchrun")
"""Words by which a program starts others itself."""
_OWN_CHOICE = re.compile("CUDA_VISIBLE_DEVICES=|PET_|NPROC_PER_NODE=")


def _uncounted(facts: ScriptFacts, plan: JobPlan) -> Iterator[Violation]:
    """A launcher without a number of processes, which then starts one, in a job of several GPUs."""
    gpus = plan.gpus_per_node
    if gpus < 2 or not facts.fixed_nodes or _OWN_CHOICE.search(facts.whole_text):
        return
    several = [run for run in facts.every_launch if run.is_launcher and not run.is_srun]
    if any(run.has(*run.launcher.counts) or not run.certain for run in several):
        return
    for start in facts.starts:
        launch = start.launch
        one = launch.launcher.uncounted == ONE and launch.launcher.starts_processes()
        if not one or (start.nodes, start.each) != (plan.nodes, 1) or launch.has("help", "h"):
            continue
        if launch.command.background or launch.command.captured:
            return
        if any(run.has(*ITS_GPUS) or not run.certain for run in start.outer):
            return
        if any(map(takes_several, launch.below())):
            return
        option = launch.launcher.processes_per_node[0]
        option = "--" + option.lstrip("-").replace("_", "-")
        idle = gpus - 1
        yield Violation(
            f"without {option}, {launch.kind} starts 1 process"
            f"{' on each node' if plan.nodes > 1 else ''}: {idle} of {counted(gpus, 'GPU')} "
            f"stay{'s' * (idle == 1)} idle",
            f"write {option}={gpus}",
            place=launch.place,
            severity=WARNING,
        )
        return


def _programs(facts: ScriptFacts) -> List[Start]:
    """The programs that do the work of a script; none where some are not known."""
    unknown = any(command.words and not command.name for command in facts.shell.commands)
    others = ONLY_PREPARES | SHORT | facts.functions
    found = [
        start
        for start in facts.starts
        if not start.launch.inside
        and not start.launch.command.captured
        and start.launch.name not in others
        and not is_trifle(start.launch)
    ]
    return [] if unknown or not all(start.launch.certain for start in found) else found


def _unused(facts: ScriptFacts, gpus: int) -> Iterator[Violation]:
    """GPUs that no program uses, or may see."""
    told = f"the job has {counted(gpus, 'GPU')} per node"
    for assigned in facts.shell.assignments:
        hides = assigned.word.value in _HIDES_ALL.get(assigned.name, ())
        again = len(facts.shell.assigned(assigned.name)) > 1
        if assigned.name == "CUDA_VISIBLE_DEVICES" and hides and not again:
            hides = not replaced_by_srun(facts, assigned)
        if hides and assigned.exported and assigned.sure and not again:
            yield Violation(
                f"{told}, and {assigned.name}={assigned.word.raw} hides them from every program",
                "remove the line, or request no GPU",
                place=assigned.place,
                severity=WARNING,
            )
            return
    programs = [start.launch for start in _programs(facts)]
    installs = [
        command
        for command in facts.shell.calls("pip", "pip3", "conda", "mamba", "uv")
        if {"install", "create"} & {*command.arguments}
    ]
    hidden = [
        command
        for command in facts.shell.calls("eval")
        if not any(re.search("hook|init|ssh-agent", word.raw) for word in command.words[1:])
    ]
    only = all(launch.name in ("pip", "pip3", "uv") for launch in programs)
    if installs and only and not hidden:
        yield Violation(
            f"{told}, and this script only installs software",
            "request no GPU, unless the software is compiled for it here",
            place=installs[-1].place,
        )
    elif not programs and _only_submits(facts):
        yield Violation(
            f"{told}, and this script only submits other jobs",
            "request no GPU",
            place=facts.shell.calls("sbatch")[-1].place,
        )
    elif programs and all(launch.name in ("Rscript", "R") for launch in programs):
        yield Violation(
            f"{told}, and R uses none without a package for them, such as torch",
            "if it has no such package, request no GPU",
            place=programs[-1].place,
        )
    elif programs and all(map(_on_the_cpu, programs)):
        yield Violation(
            f"{told}, and no program of this script uses one: {_name(programs[-1])} runs on the "
            "cores",
            "request no GPU, and a partition without them",
            place=programs[-1].place,
            severity=WARNING,
        )


def _only_submits(facts: ScriptFacts) -> bool:
    """Whether a script starts nothing but other jobs."""
    names = {command.name for command in facts.shell.commands if command.words}
    return "sbatch" in names and not names - ONLY_PREPARES - SHORT - {"source", "eval", "exec"}


def _on_the_cpu(launch: Launch) -> bool:
    """Whether a program has no use for GPUs, or is told not to use them."""
    return launch.name in _WITHOUT_GPUS or _ON_THE_CPU.search(_words(launch)) is not None


def _words(launch: Launch) -> str:
    return " ".join(launch.texts[1:])


def _one_of_several(facts: ScriptFacts, gpus: int) -> Iterator[Violation]:
    """Programs that use one GPU of a node, or are told to, one after the other."""
    programs = [start for start in _programs(facts) if not _on_the_cpu(start.launch)]
    if gpus < 2 or not programs or facts.shell.assigned("CUDA_VISIBLE_DEVICES"):
        return
    for start in programs:
        command = start.launch.command
        alone = start.nodes is not None and start.each == 1 and not command.background
        if not alone or any(_MORE.match(word.raw) for word in start.launch.own_words[1:]):
            return
        if not (_for_one(start.launch) or _told_of_one(start.launch)):
            return
    last = programs[-1].launch
    certain = _for_one(last) or last.kind != PYTHON
    here = "" if _for_one(last) else " here"
    yield Violation(
        f"{_name(last)} uses 1 GPU{here}, and the job has {counted(gpus, 'GPU')} per node: "
        f"{counted(gpus - 1, 'GPU')} stay{'s' * (gpus == 2)} idle",
        f"request 1 GPU{_by_option(last)}",
        place=last.place,
        severity=WARNING if certain else NOTE,
    )


def _name(launch: Launch) -> str:
    """What a person calls a program: the script or the module of Python's."""
    named = launch.options.get("script") or launch.options.get("m")
    return (named or launch.name).rpartition("/")[2]


def _for_one(launch: Launch) -> bool:
    """Whether a program uses one GPU unless an option says more, which is not given."""
    name, words = _known_as(launch), launch.texts[1:]
    if name not in _FOR_ONE or (launch.name == "vllm" and words[:1] != ("serve",)):
        return False
    several = _FOR_ONE[name]
    return not (several and any(re.match(several, word) for word in words))


def _told_of_one(launch: Launch) -> bool:
    return _ONE_DEVICE.search(_words(launch)) is not None


def _known_as(launch: Launch) -> str:
    return _OF_MODULES.get(_name(launch), _name(launch))


def _by_option(launch: Launch) -> str:
    """How a program would use more of them."""
    option = {"vllm": "--tensor-parallel-size", "sglang": "--tp", "nnUNetv2_train": "-num_gpus"}
    name = _known_as(launch)
    return f", or give the others to it: {option[name]} N" if name in option else ""
