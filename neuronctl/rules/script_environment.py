"""NC661: an environment in which steps, or programs, see something else than the job."""

from __future__ import annotations

from typing import Iterator, Optional

from neuronctl.common.rule_codes import WARNING
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.model import SCRIPT

_SIZES = """
SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_NNODES SLURM_JOB_NUM_NODES SLURM_GPUS
SLURM_CPUS_PER_TASK SLURM_CPUS_PER_GPU SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_MEM_PER_CPU
SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE
""".split()  # noqa: SIM905
"""Variables with the job's sizes, from which srun and programs take theirs."""


@script_rule(WARNING, "NC661", "environment that steps do not share")
def environment_of_steps(facts: ScriptFacts) -> Iterator[Violation]:
    yield from _not_exported(facts)
    for variable in facts.shell.assignments:
        own = variable.name in _SIZES and variable.name not in variable.word.names
        if own and variable.exported and variable.sure:
            yield Violation(
                f"{variable.name} is Slurm's: srun and programs take the job's size from it, and "
                f"now from {variable.word.raw}",
                "use a variable of another name, or an option of srun",
                place=variable.place,
            )


def _not_exported(facts: ScriptFacts) -> Iterator[Violation]:
    """Yield what keeps PATH and the script's variables from the steps."""
    steps = [launch for launch in facts.every_launch if launch.is_srun]
    for launch in steps:
        value = launch.options.get("export")
        if _leaves_out(value):
            yield Violation(
                f"srun --export={value} gives its tasks neither PATH nor what the script exports: "
                "programs are not found",
                "write --export=ALL" + ("" if value in ("NONE", "NIL") else f",{value}"),
                place=launch.place,
            )
    given = facts.header.options.get("export")
    mended = facts.shell.assigned("SLURM_EXPORT_ENV") or "unset SLURM_EXPORT_ENV" in facts.text
    bare = any(not launch.has("export") for launch in steps)
    if given is not None and _leaves_out(given.value) and bare and not mended:
        yield Violation(
            f"{given.text} holds for each srun, too (SLURM_EXPORT_ENV): tasks get neither PATH nor "
            "what the script exports, and programs are not found",
            "write export SLURM_EXPORT_ENV=ALL above the first srun",
            place=given.place if given.source == SCRIPT else facts.top,
        )


def _leaves_out(value: Optional[str]) -> bool:
    """Return True if a value of --export leaves the rest of the environment out."""
    plain = bool(value) and "$" not in (value or "")
    return plain and "ALL" not in (value or "").split(",")
