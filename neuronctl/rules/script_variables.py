"""NC660: variables that nothing sets."""

from __future__ import annotations

import re
from typing import Dict, Iterator, Mapping

from neuronctl.common.rule_codes import WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, asks_for, script_rule
from neuronctl.scripts.model import SourceSpan

_TASKS = ("ntasks", "ntasks-per-node", "ntasks-per-gpu", "ntasks-per-socket", "ntasks-per-core")
_ONLY_WITH = {
    "SLURM_CPUS_PER_TASK": ("cpus-per-task",),
    "SLURM_NTASKS_PER_NODE": ("ntasks-per-node",),
    "SLURM_NTASKS": _TASKS,
    "SLURM_NPROCS": _TASKS,
    "SLURM_GPUS": ("gpus",),
    "SLURM_GPUS_PER_NODE": ("gpus-per-node",),
    "SLURM_GPUS_PER_TASK": ("gpus-per-task",),
    "SLURM_CPUS_PER_GPU": ("cpus-per-gpu",),
}
"""Variables that Slurm sets only where one of the options is given (tried on 22.05)."""
_ELSEWHERE = {
    **dict.fromkeys(("PBS_O_WORKDIR", "SGE_O_WORKDIR", "LS_SUBCWD"), "SLURM_SUBMIT_DIR"),
    **dict.fromkeys(("PBS_JOBID", "LSB_JOBID"), "SLURM_JOB_ID"),
    **dict.fromkeys(
        ("PBS_ARRAYID", "PBS_ARRAY_INDEX", "SGE_TASK_ID", "LSB_JOBINDEX"), "SLURM_ARRAY_TASK_ID"
    ),
    **dict.fromkeys(("NSLOTS", "PBS_NP", "LSB_DJOB_NUMPROC"), "SLURM_NTASKS"),
    **dict.fromkeys(("PBS_NUM_PPN", "PBS_PPN"), "SLURM_CPUS_PER_TASK"),
    **dict.fromkeys(("PBS_NODEFILE", "PE_HOSTFILE", "LSB_HOSTS"), "SLURM_JOB_NODELIST"),
}
"""Variables of other schedulers, and Slurm's for the same."""

_Used = Mapping[str, SourceSpan]


@script_rule(WARNING, "NC660", "variable that nothing sets", "by_absence")
def not_set(facts: ScriptFacts) -> Iterator[Violation]:
    used: Dict[str, SourceSpan] = {}
    words = [
        word
        for command in facts.shell.commands
        if command.name not in ("echo", "printf")
        for word in (*command.words, *command.writes)
    ] + [variable.word for variable in facts.shell.assignments]
    for word in words:
        for name in word.names:
            if name in word.raw and f"{{{name}:" not in facts.text:
                used.setdefault(name, word.place)
    if facts.header.given and facts.header.for_bash:
        yield from _not_set_by_slurm(facts, used)


def _not_set_by_slurm(facts: ScriptFacts, used: _Used) -> Iterator[Violation]:
    for name, place in used.items():
        options = _ONLY_WITH.get(name, ())
        instead = "" if facts.header.foreign else _ELSEWHERE.get(name, "")
        if not (options or instead) or any(asks_for(name, line) for line in facts.lines):
            continue
        given = facts.has(*options) or facts.header.unread
        # It may come with the command line, if a remark shows that.
        shown = options and re.search(rf"(?m)^[ \t]*#.*\bsbatch\b.*--{options[0]}\b", facts.text)
        if options and not given and not shown and facts.header.components == 1:
            yield Violation(
                f"${name} is empty here: Slurm sets it only with --{options[0]}",
                f"write #SBATCH --{options[0]}=…, or ${{{name}:-1}}",
                place=place,
            )
        if instead:
            message = f"${name} is empty here: another scheduler sets it, and Slurm does not"
            yield Violation(message, f"write ${instead}", place=place)
