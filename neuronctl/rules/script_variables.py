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

_OF_SLURM = """
ACCOUNT ACCTG_FREQ ARRAY_JOB_ID ARRAY_TASK_COUNT ARRAY_TASK_ID ARRAY_TASK_MAX ARRAY_TASK_MIN
ARRAY_TASK_STEP CLUSTERS CLUSTER_NAME CONF CONSTRAINT CONTAINER CORE_SPEC CPUS_ON_NODE CPUS_PER_GPU
CPUS_PER_TASK CPU_BIND CPU_BIND_LIST CPU_BIND_TYPE CPU_BIND_VERBOSE CPU_FREQ_REQ DEBUG DEPENDENCY
DISTRIBUTION DIST_PLANESIZE EXACT EXCLUSIVE EXPORT_ENV GPUS GPUS_ON_NODE GPUS_PER_NODE
GPUS_PER_SOCKET GPUS_PER_TASK GPU_BIND GPU_FREQ GRES GTIDS HET_SIZE HINT HOSTFILE JOBID JOB_ACCOUNT
JOB_CPUS_PER_NODE JOB_DEPENDENCY JOB_END_TIME JOB_GID JOB_GPUS JOB_ID JOB_NAME JOB_NODELIST
JOB_NODES JOB_NUM_NODES JOB_PARTITION JOB_QOS JOB_RESERVATION JOB_START_TIME JOB_UID JOB_USER JWT
KILL_BAD_EXIT LAUNCH_NODE_IPADDR LOCALID MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE MPI_TYPE
NETWORK NNODES NODEID NODELIST NODE_ALIASES NPROCS NTASKS NTASKS_PER_CORE NTASKS_PER_GPU
NTASKS_PER_NODE NTASKS_PER_SOCKET OPEN_MODE OVERCOMMIT OVERLAP PARTITION PRIO_PROCESS PROCID
PROFILE QOS RESERVATION RESTART_COUNT RESV_PORTS SHARDS_ON_NODE SIGNAL SRUN_COMM_HOST
SRUN_COMM_PORT STEPID STEP_GPUS STEP_ID STEP_NODELIST STEP_NUM_NODES STEP_NUM_TASKS
STEP_TASKS_PER_NODE SUBMIT_DIR SUBMIT_HOST TASKS_PER_NODE TASK_PID THREADS_PER_CORE TIMELIMIT
TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN TRES_PER_TASK UMASK WAIT WORKING_DIR
""".split()  # noqa: SIM905
"""What follows SLURM_ in Slurm's own variables: man sbatch and man srun of 22.05 and 24.11."""

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
        near = _misspelled(name)
        if near and not any(asks_for(name, line) for line in facts.lines):
            words = f"${name} is empty here: Slurm has no such variable"
            yield Violation(words, f"did you mean ${near}?", place=place)
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


def _misspelled(name: str) -> str:
    """Return Slurm's variable that a name is close to, or has the words of; "" if there is none."""
    import difflib

    prefix, own, asked = name.partition("SLURM_")
    if prefix or not own or asked in _OF_SLURM:
        return ""
    same = (known for known in _OF_SLURM if sorted(known.split("_")) == sorted(asked.split("_")))
    every = [f"SLURM_{known}" for known in _OF_SLURM]
    found = [f"SLURM_{known}" for known in same] or difflib.get_close_matches(name, every, 1, 0.85)
    return found[0] if found else ""
