"""NC633 and NC648: variables that hide GPUs, or slow them down."""

from __future__ import annotations

import re
from typing import Iterator

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.rules.script_starts import replaced_by_srun
from neuronctl.scripts.shell_text import Assignment


@script_rule(WARNING, "NC633", "GPUs chosen by hand")
def gpus_by_hand(facts: ScriptFacts) -> Iterator[Violation]:
    # Without a request for GPUs, Slurm sets nothing, and a node may have some all the same.
    has = facts.plan.gpus_per_node if facts.plan is not None else 0
    if not has or facts.has("gpus-per-task"):
        return
    every = facts.shell.every_assignment
    found = [each for each in every if each.name == "CUDA_VISIBLE_DEVICES"]
    shares = len({each.word.value for each in found}) > 1
    counts = re.search(r"SLURM_GPUS|SLURM_JOB_GPUS|device_count|nvidia-smi", facts.text)
    for variable in found:
        value = variable.word.value or ""
        if has == 1 and re.fullmatch(r"\"?\$\{?SLURM_ARRAY_TASK_ID\}?\"?", variable.word.raw):
            yield _by_hand(variable, "each task's GPUs are numbered from 0")
        if not re.fullmatch(r"\d{1,4}(,\d{1,4})*", value) or replaced_by_srun(facts, variable):
            continue
        numbers = [int(text) for text in value.split(",")]
        beyond = max(numbers) >= has
        if sorted(numbers) == list(range(has)) or (not beyond and (shares or counts)):
            continue
        effect = "it may name GPUs of other jobs, or hide this one's"
        if beyond:
            effect = f"the job has {counted(has, 'GPU')}, numbered from 0"
        yield _by_hand(variable, effect)


def _by_hand(variable: Assignment, effect: str) -> Violation:
    return Violation(
        f"CUDA_VISIBLE_DEVICES={variable.word.raw} replaces what Slurm has set: {effect}",
        "remove the line: Slurm sets it",
        place=variable.place,
    )


_SLOWER = {
    "NCCL_IB_DISABLE": "switches off InfiniBand between the nodes",
    "NCCL_P2P_DISABLE": "switches off the direct way from GPU to GPU",
    "NCCL_SHM_DISABLE": "switches off shared memory between the processes of a node",
    "CUDA_LAUNCH_BLOCKING": "is for debugging: the program waits for each kernel of the GPU",
}


@script_rule(WARNING, "NC648", "fast network switched off")
def slow_network(facts: ScriptFacts) -> Iterator[Violation]:
    plan = facts.plan
    if plan is None or not plan.gpus_per_node or re.search(r"\bFI_(PROVIDER|EFA)", facts.text):
        return
    for variable in facts.shell.every_assignment:
        name, value = variable.name, variable.word.value
        between = name == "NCCL_IB_DISABLE"
        least = 2 if name.startswith("NCCL") else 1
        many = plan.nodes if between else plan.gpus_per_node
        near = "\n".join(facts.lines[max(0, variable.place.line - 4) : variable.place.line])
        known = re.search(r"(?i)#.*(debug|infini\w*|\bib\b|ethernet|support)", near)
        if name in _SLOWER and value in ("1", "true") and many >= least and not known:
            yield Violation(
                f"{name}={value} {_SLOWER[name]}, in a job of "
                f"{counted(plan.nodes, 'node')} with {counted(plan.gpus_per_node, 'GPU')} each",
                "remove the line, unless the program fails without it",
                place=variable.place,
                severity=None if between else NOTE,
            )
