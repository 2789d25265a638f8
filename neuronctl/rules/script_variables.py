"""NC660 and NC661: variables that nothing sets, or that steps see otherwise than the job."""

from __future__ import annotations

import functools
import os
import re
from typing import Dict, Iterator, Mapping, Optional, Tuple

from neuronctl.common.rule_codes import WARNING
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, asks_for, script_rule
from neuronctl.scripts.model import SCRIPT, SourceSpan

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

_SIZES = (
    *(*_ONLY_WITH, "SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    *(f"SLURM_MEM_PER_{unit}" for unit in ("CPU", "GPU", "NODE")),
)
"""Variables with the job's sizes, from which srun and programs take theirs."""

_Used = Mapping[str, SourceSpan]


@script_rule(WARNING, "NC660", "variable that nothing sets", "by_absence")
def not_set(facts: ScriptFacts) -> Iterator[Finding]:
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


def _not_set_by_slurm(facts: ScriptFacts, used: _Used) -> Iterator[Finding]:
    for name, place in used.items():
        near = _misspelled(name)
        if near and not any(asks_for(name, line) for line in facts.lines):
            words = f"${name} is empty here: Slurm has no such variable"
            yield Finding(words, f"did you mean ${near}?", place=place)
        options = _ONLY_WITH.get(name, ())
        instead = "" if facts.header.foreign else _ELSEWHERE.get(name, "")
        if not (options or instead) or any(asks_for(name, line) for line in facts.lines):
            continue
        given = facts.has(*options) or facts.header.unread
        # It may come with the command line, if a remark shows that.
        shown = options and re.search(rf"(?m)^[ \t]*#.*\bsbatch\b.*--{options[0]}\b", facts.text)
        if options and not given and not shown and facts.header.components == 1:
            yield Finding(
                f"${name} is empty here: Slurm sets it only with --{options[0]}",
                f"write #SBATCH --{options[0]}=…, or ${{{name}:-1}}",
                place=place,
            )
        if instead:
            message = f"${name} is empty here: another scheduler sets it, and Slurm does not"
            yield Finding(message, f"write ${instead}", place=place)


def _misspelled(name: str) -> str:
    """Return Slurm's variable that a name is close to, or has the words of; "" if there is none."""
    import difflib

    if not name.startswith("SLURM_") or name in _variables():
        return ""
    parts = sorted(name.split("_"))
    same = [known for known in _variables() if sorted(known.split("_")) == parts]
    return next(iter(same or difflib.get_close_matches(name, _variables(), 1, 0.85)), "")


@functools.cache
def _variables() -> Tuple[str, ...]:
    """Return Slurm's own variables: those in man sbatch and man srun of 22.05 and 24.11."""
    file = os.path.join(os.path.dirname(__file__), "slurm_variables.txt")
    with open(file, encoding="utf-8") as names:
        return tuple(f"SLURM_{name}" for name in names.read().split())


@script_rule(WARNING, "NC661", "environment that steps do not share")
def environment_of_steps(facts: ScriptFacts) -> Iterator[Finding]:
    yield from _not_exported(facts)
    for variable in facts.shell.assignments:
        own = variable.name in _SIZES and variable.name not in variable.word.names
        if own and variable.exported and variable.sure:
            yield Finding(
                f"{variable.name} is Slurm's: srun and programs take the job's size from it, and "
                f"now from {variable.word.raw}",
                "use a variable of another name, or an option of srun",
                place=variable.place,
            )


def _not_exported(facts: ScriptFacts) -> Iterator[Finding]:
    """Yield what keeps PATH and the script's variables from the steps."""
    steps = [launch for launch in facts.every_launch if launch.is_srun]
    for launch in steps:
        value = launch.options.get("export")
        if _leaves_out(value):
            yield Finding(
                f"srun --export={value} gives its tasks neither PATH nor what the script exports: "
                "programs are not found",
                "write --export=ALL" + ("" if value in ("NONE", "NIL") else f",{value}"),
                place=launch.place,
            )
    given = facts.header.options.get("export")
    mended = facts.shell.assigned("SLURM_EXPORT_ENV") or "unset SLURM_EXPORT_ENV" in facts.text
    bare = any(not launch.has("export") for launch in steps)
    if given is not None and _leaves_out(given.value) and bare and not mended:
        yield Finding(
            f"{given.text} holds for each srun, too (SLURM_EXPORT_ENV): tasks get neither PATH nor "
            "what the script exports, and programs are not found",
            "write export SLURM_EXPORT_ENV=ALL above the first srun",
            place=given.place if given.source == SCRIPT else facts.top,
        )


def _leaves_out(value: Optional[str]) -> bool:
    """Return True if a value of --export leaves the rest of the environment out."""
    return bool(value) and "$" not in (value or "") and "ALL" not in (value or "").split(",")
