"""Environments and variables: not activated, never set, misspelled, or not shared by steps."""

from __future__ import annotations

import functools
import os
import re
from itertools import chain
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.rules.base import Finding, Trait
from neuronctl.rules.local_files import SYNC_ONCE, uv_changes
from neuronctl.rules.scripts.script_facts import (
    SCRIPT_RULES,
    TASKS,
    ScriptFacts,
    asks_for,
    script_rule,
)
from neuronctl.scripts.header import SCRIPT, SourceSpan
from neuronctl.scripts.shell_text import Command
from neuronctl.slurm.sbatch_options import SBATCH, variables

_CONDA = ("conda", "mamba", "micromamba")
_READ_BEFORE = ("source", ".", "eval", "module", "ml", "spack", "uenv")
"""Commands that read files, which may define conda."""
_HOOK = 'put eval "$(conda shell.bash hook)" before it'
_NO_CONDA = re.compile(
    r"(?i)(\S*/)?(cuda|cudnn|nccl|gcc|gnu|openmpi|intel|cmake|git|singularity|apptainer|ffmpeg)"
    r"([-/.]?[\d.]\S*)?|load|add|purge"
)
"""Modules that have nothing to do with Python."""


def _is_first(facts: ScriptFacts, command: Command, *readers: str) -> bool:
    """Return True if no command above, of the names in ``readers``, may define this command."""
    position = (command.place.line, command.place.column)
    for reader in facts.shell.calls(*readers):
        words = [word.raw for word in reader.words[1:]]
        is_unrelated = reader.name in ("module", "ml") and all(map(_NO_CONDA.fullmatch, words))
        is_above = (reader.place.line, reader.place.column) < position
        if is_above and not is_unrelated:
            return False
    return True


@script_rule(WARNING, "NC638", "environment that is not activated")
def check_not_activated(facts: ScriptFacts) -> Iterator[Finding]:
    yield from _out_of_order(facts)
    yield from _init_for_the_next_login(facts)
    # bash -l, bash -i, and bash --login read the files that define conda and module.
    reads_profile = re.search(r"\s(-\w*[li]\w*|--login)\b", facts.header.shebang)
    if not reads_profile and not facts.has("get-user-env"):
        yield from _module_is_missing(facts)
        yield from _conda_is_missing(facts)


def _init_for_the_next_login(facts: ScriptFacts) -> Iterator[Finding]:
    """Find each ``conda init``, unless the script reads the file that it changes."""
    if "bashrc" in facts.text:
        return
    for command in facts.shell.calls(*_CONDA):
        if command.arguments[:1] == ("init",) and not command.captured:
            message = f"'{command.name} init' changes a file for the next login, not this shell"
            yield Finding(message, _HOOK, place=command.place, severity=NOTE)


def _conda_is_missing(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first ``activate`` in a shell that reads no profile and so may lack conda."""
    for command in facts.shell.calls(*_CONDA, "source"):
        if command.arguments[:1] != ("activate",):
            continue
        if command.name == "source":
            readers = (*_READ_BEFORE, *_CONDA)
            is_missing = not facts.shell.assigned("PATH") and _is_first(facts, command, *readers)
            severity, message = NOTE, "'source activate' works only if the shell that submits has "
            message += "conda's bin in PATH"
        else:
            is_missing = _is_first(facts, command, *_READ_BEFORE)
            severity, message = WARNING, f"'{command.name} activate' fails in a batch shell, which "
            message += f"has not read {command.name}'s shell functions"
        if is_missing:
            yield Finding(message, _HOOK, place=command.place, severity=severity)
            return


def _module_is_missing(facts: ScriptFacts) -> Iterator[Finding]:
    """Find ``module`` in a shell that reads no profile and so may lack it."""
    command = next(iter(facts.shell.calls("module", "ml")), None)
    if command is None or not _is_first(facts, command, "source", ".", "eval"):
        return
    site = None if facts.plan is None else facts.plan.cluster
    message = f"{command.name} exists only in login shells"
    hint = "begin with #!/bin/bash -l"
    if site is not None and site.policy.login_shell:
        yield Finding(f"on {site.name}, {message}", hint, place=command.place)
    elif re.search(r"[/ ](da)?sh$", facts.header.shebang.strip()):
        message = f"where sh is not bash, {message}"
        yield Finding(message, hint, place=command.place, severity=NOTE)


def _out_of_order(facts: ScriptFacts) -> Iterator[Finding]:
    """Find the first module of a Python that hides the environment activated before it."""
    work_lines = [run.command.place.line for run in facts.launches if run.is_work]
    activated_at = 0  # the line that activated the environment; 0: none yet
    for command in facts.shell.calls(*_CONDA, "source", ".", "module", "ml"):
        if command.captured or not command.sure:
            continue
        line, words = command.place.line, " ".join(word.raw for word in command.words[1:])
        # python, python3/3.11, or anaconda3/2024
        module = re.match(r"(?i)(?:load|add) (?:.*[ /])?(python3?|\w*conda\d?)(?:/| |$)", words)
        if re.match(r"activate( |$)|\S*bin/activate( |$)", words):
            activated_at = line
        elif module is not None and activated_at and any(work > line for work in work_lines):
            below = "\n".join(facts.lines[line:])
            is_used = "python " in below and "activate" not in below
            if is_used:
                message = f"from here on, python is that of {module[1]}, not of the environment "
                message += f"of line {activated_at}"
                yield Finding(message, "load modules before that line", place=command.place)
                return


_ONLY_WITH = {
    "SLURM_CPUS_PER_TASK": ("cpus-per-task",),
    "SLURM_NTASKS_PER_NODE": ("ntasks-per-node",),
    "SLURM_NTASKS": TASKS,
    "SLURM_NPROCS": TASKS,
    "SLURM_GPUS": ("gpus",),
    "SLURM_GPUS_PER_NODE": ("gpus-per-node",),
    "SLURM_GPUS_PER_TASK": ("gpus-per-task",),
    "SLURM_CPUS_PER_GPU": ("cpus-per-gpu",),
}
"""Variables that Slurm sets only if one of the options is given (tried on 22.05)."""
_ELSEWHERE = {
    **dict.fromkeys(("PBS_O_WORKDIR", "SGE_O_WORKDIR", "LS_SUBCWD"), "SLURM_SUBMIT_DIR"),
    **dict.fromkeys(("PBS_JOBID", "LSB_JOBID"), "SLURM_JOB_ID"),
    **dict.fromkeys(("SGE_TASK_ID", "LSB_JOBINDEX"), "SLURM_ARRAY_TASK_ID"),
    **dict.fromkeys(("PBS_ARRAYID", "PBS_ARRAY_INDEX"), "SLURM_ARRAY_TASK_ID"),
    **dict.fromkeys(("PBS_NUM_PPN", "PBS_PPN"), "SLURM_CPUS_PER_TASK"),
    **dict.fromkeys(("PBS_NP", "NSLOTS", "LSB_DJOB_NUMPROC"), "SLURM_NTASKS"),
    **dict.fromkeys(("PBS_NODEFILE", "PE_HOSTFILE", "LSB_HOSTS"), "SLURM_JOB_NODELIST"),
}
"""Variable of another scheduler -> Slurm's with the same meaning."""

_SIZES = (
    *(*_ONLY_WITH, "SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    *(f"SLURM_MEM_PER_{unit}" for unit in ("CPU", "GPU", "NODE")),
)
"""Variables with the job's sizes, from which srun and programs take theirs."""

_SET_OR_TESTED = (
    r"-v ",  # [ -v NAME ], test -v NAME
    r"\bread\b.*",  # read -r NAME
    r"\bfor ",  # for NAME in …
    r"\(\(.*",  # ((NAME = 1))
    r"(\[|\btest) [^]]*\$\{?",  # [ "$NAME" … ], test -n "${NAME}"
)
"""Text before the name of a variable that a script tests, or sets without NAME=value."""

_Used = Mapping[str, SourceSpan]
"""The variables that a script reads, each with the first place."""


@script_rule(WARNING, "NC660", "variable that nothing sets", Trait.ABSENCE)
def check_not_set(facts: ScriptFacts) -> Iterator[Finding]:
    if not facts.header.for_bash:
        return
    used: Dict[str, SourceSpan] = {}
    commands = [each for each in facts.shell.commands if each.name not in ("echo", "printf")]
    words = [*chain.from_iterable(command.words for command in commands)]
    words += [variable.word for variable in facts.shell.assignments]
    for word in (*words, *facts.shell.files):
        for name in word.names:
            if name in word.raw:  # the others made the values of the word's variables
                used.setdefault(name, word.place)
    yield from _misspelled_names(facts, used)
    if facts.header.given:
        yield from _not_set_by_slurm(facts, used)


def _misspelled_names(facts: ScriptFacts, used: _Used) -> Iterator[Finding]:
    """Yield names close to Slurm's: used but never set, or exported but never used."""
    before = facts.shell.before_commands
    assigned = {each.name: each for each in (*facts.shell.assignments, *before)}
    for name, place in used.items():
        meant = "" if name in assigned else _correct_name(name)
        set_or_tested = rf"({'|'.join(_SET_OR_TESTED)}){name}\b"
        if meant and not re.search(set_or_tested, facts.text):
            message = f"${name} is empty here: Slurm has no such variable"
            sign = "" if meant.startswith("-") else "$"  # no $ before an option
            yield Finding(message, f"did you mean {sign}{meant}?", place=place)
    for name, variable in assigned.items():
        meant = "" if name in used else _correct_name(name)
        if meant and (variable.exported or variable in before):
            message = f"nothing here reads {name}, and Slurm has no such variable"
            yield Finding(message, f"did you mean {meant}?", place=variable.place)


def _not_set_by_slurm(facts: ScriptFacts, used: _Used) -> Iterator[Finding]:
    """Yield variables that Slurm sets only with a missing option, and those of other schedulers."""
    has_all_options = not facts.header.unread and facts.header.components <= 1
    for name, place in used.items():
        options = _ONLY_WITH.get(name, ())
        instead = "" if facts.header.foreign else _ELSEWHERE.get(name, "")
        if not (options or instead) or any(asks_for(name, line) for line in facts.lines):
            continue
        if instead:
            message = f"${name} is empty here: another scheduler sets it, and Slurm does not"
            yield Finding(message, f"write ${instead}", place=place)
        elif has_all_options and not facts.has(*options):
            option = options[0]
            # A comment may show that the option is given on the command line.
            if not re.search(rf"(?m)^[ \t]*#.*\bsbatch\b.*--{option}\b", facts.text):
                message = f"${name} is empty here: Slurm sets it only with --{option}"
                hint = f"write #SBATCH --{option}=…, or ${{{name}:-1}}"
                yield Finding(message, hint, place=place)


def _correct_name(name: str) -> str:
    """Return Slurm's variable that a name misspells, or sbatch's option; "" if there is none.

    A misspelling is close to the variable, or has the same words in another order.
    """
    import difflib

    if not name.startswith(("SLURM_", "SBATCH_")) or name in _variables() or name in variables():
        return ""
    if name.startswith("SBATCH_"):
        option = name[len("SBATCH_") :].lower().replace("_", "-")  # SBATCH_NODES: --nodes
        names = [variable for variable, sets in variables().items() if sets == option]
        names += [f"--{each.long}" for each in SBATCH if each.long == option]
    else:
        parts = sorted(name.split("_"))
        names = [variable for variable in _variables() if sorted(variable.split("_")) == parts]
        names += difflib.get_close_matches(name, _variables(), 1, 0.85)
    return next(iter(names), "")


@functools.cache
def _variables() -> Tuple[str, ...]:
    """Return the variables in man sbatch and man srun of Slurm 22.05 and 24.11."""
    file = os.path.join(os.path.dirname(__file__), "slurm_variables.txt")
    with open(file, encoding="utf-8") as names:
        return tuple(f"SLURM_{name}" for name in names.read().split())


@script_rule(WARNING, "NC661", "environment that steps do not share")
def check_environment_of_steps(facts: ScriptFacts) -> Iterator[Finding]:
    yield from _not_exported(facts)
    for variable in facts.shell.assignments:
        is_size = variable.name in _SIZES and variable.name not in variable.word.names
        if is_size and variable.exported and variable.sure:
            message = f"{variable.name} is Slurm's: srun and programs take the job's size from it, "
            message += f"and now from {variable.word.raw}"
            hint = "use a variable of another name, or an option of srun"
            yield Finding(message, hint, place=variable.place)


def _not_exported(facts: ScriptFacts) -> Iterator[Finding]:
    """Yield each --export that keeps PATH and the script's variables from the steps."""
    sruns = [launch for launch in facts.every_launch if launch.is_srun]
    for srun in sruns:
        value = srun.options.get("export")
        if _leaves_out(value):
            message = f"srun --export={value} gives its tasks neither PATH nor what the script "
            hint = "write --export=ALL" + ("" if value in ("NONE", "NIL") else f",{value}")
            yield Finding(f"{message}exports: programs are not found", hint, place=srun.place)
    given = facts.header.options.get("export")
    is_reset = facts.shell.assigned("SLURM_EXPORT_ENV") or "unset SLURM_EXPORT_ENV" in facts.text
    inherits = any(not srun.has("export") for srun in sruns)
    if given is not None and _leaves_out(given.value) and inherits and not is_reset:
        message = f"{given.text} also applies to each srun (SLURM_EXPORT_ENV): tasks get neither "
        message += "PATH nor what the script exports, and programs are not found"
        hint = "write export SLURM_EXPORT_ENV=ALL above the first srun"
        place = given.place if given.source == SCRIPT else facts.top
        yield Finding(message, hint, place=place)


def _leaves_out(value: Optional[str]) -> bool:
    """Return True if a value of --export omits the rest of the environment."""
    return bool(value) and "$" not in (value or "") and "ALL" not in (value or "").split(",")


def _uv_in_tasks(facts: ScriptFacts) -> Iterator[Finding]:
    """Find uv calls that change one environment in several tasks."""
    if re.search("UV_NO_SYNC|UV_PROJECT_ENVIRONMENT", facts.text):
        return
    judged: List[Command] = []
    for start in facts.starts:
        command = start.launch.command
        words = [word.text for word in command.words]
        before = words[: len(words) - len(start.launch.own_words)]
        is_uv = start.launch.name == "uv" or "uv" in before  # or is started by it
        call = uv_changes(words) if is_uv else ""
        if not call or command in judged:
            continue
        judged.append(command)
        starts_several = (start.nodes or 1) * (start.per_node or 1) > 1
        if starts_several or facts.has("array"):
            task = "each task that this starts" if starts_several else "each task of the array"
            message = f"'{call}' in {task} changes .venv while the others use it, and can break it"
            yield Finding(message, SYNC_ONCE, place=command.place)


SCRIPT_RULES.judges["NC315"] = _uv_in_tasks
