"""NC638: an environment that is not active when the program starts."""

from __future__ import annotations

import re
from typing import Iterator, Optional

from neuronctl.common.rule_codes import NOTE, WARNING
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.shell_text import Command

_CONDA = ("conda", "mamba", "micromamba")
_READ_BEFORE = ("source", ".", "eval", "module", "ml", "spack", "uenv")
"""Whatever one of these reads may define conda."""
_HOOK = 'put eval "$(conda shell.bash hook)" before it'
_NO_CONDA = re.compile(
    r"(?i)(\S*/)?(cuda|cudnn|nccl|gcc|gnu|openmpi|intel|cmake|git|singularity|apptainer|ffmpeg)"
    r"([-/.]?[\d.]\S*)?|load|add|purge"
)
"""Modules that have nothing to do with Python."""


def _is_first(facts: ScriptFacts, command: Command, *readers: str) -> bool:
    """Return True if no command above reads what may define the one."""
    for other in facts.shell.calls(*readers):
        words = [word.raw for word in other.words[1:]]
        modules = other.name in ("module", "ml") and all(map(_NO_CONDA.fullmatch, words))
        above = (other.place.line, other.place.column) < (command.place.line, command.place.column)
        if above and not modules:
            return False
    return True


@script_rule(WARNING, "NC638", "environment that is not activated")
def not_activated(facts: ScriptFacts) -> Iterator[Finding]:
    yield from _out_of_order(facts)
    for command in facts.shell.calls(*_CONDA):
        init = command.arguments[:1] == ("init",) and not command.captured
        if init and "bashrc" not in facts.text:
            message = f"'{command.name} init' changes a file for the next login, not this shell"
            yield Finding(message, _HOOK, place=command.place, severity=NOTE)
    login = re.search(r"\s(-\w*[li]\w*|--login)\b", facts.header.shebang)
    if login or facts.has("get-user-env"):
        return
    yield from _module_is_missing(facts)
    for command in facts.shell.calls(*_CONDA, "source"):
        if command.arguments[:1] != ("activate",):
            continue
        if command.name != "source" and _is_first(facts, command, *_READ_BEFORE):
            yield Finding(
                f"'{command.name} activate' fails in a batch shell, which has not read "
                f"{command.name}'s shell functions",
                _HOOK,
                place=command.place,
            )
            return
        first = _is_first(facts, command, *_READ_BEFORE, *_CONDA)
        if command.name == "source" and first and not facts.shell.assigned("PATH"):
            words = "'source activate' works only if the shell that submits has conda's bin in PATH"
            yield Finding(words, _HOOK, place=command.place, severity=NOTE)
            return


def _module_is_missing(facts: ScriptFacts) -> Iterator[Finding]:
    """Find ``module`` in a shell that may not have it, as it has read no profile."""
    command = next(iter(facts.shell.calls("module", "ml")), None)
    if command is None or not _is_first(facts, command, "source", ".", "eval"):
        return
    where = "is there only in login shells"
    if facts.plan is not None and facts.plan.cluster.policy.login_shell:
        message = f"on {facts.plan.cluster.name}, {command.name} {where}"
        yield Finding(message, "begin with #!/bin/bash -l", place=command.place)
    elif re.search(r"[/ ](da)?sh$", facts.header.shebang.strip()):
        message = f"where sh is not bash, {command.name} {where}"
        yield Finding(message, "begin with #!/bin/bash -l", place=command.place, severity=NOTE)


def _out_of_order(facts: ScriptFacts) -> Iterator[Finding]:
    """Find an environment that a module hides."""
    works = [run.command.place.line for run in facts.launches if run.works]
    active: Optional[Command] = None
    for command in facts.shell.calls(*_CONDA, "source", ".", "module", "ml"):
        line, words = command.place.line, [word.raw for word in command.words[1:]]
        later = any(work > line for work in works)
        below = "\n".join(facts.lines[line:])
        if command.captured or not command.sure or not works:
            continue
        if words[:1] == ["activate"] or (words and re.search("bin/activate$", words[0])):
            active = command
        elif words[:1] in (["load"], ["add"]):
            other = re.search(r"(?i)(^| |/)(python3?|\w*conda\d?)(/| |$)", " ".join(words))
            if active and other and later and "activate" not in below and "python " in below:
                message = f"python is that of {other[2]} from here on, and not of the environment "
                message += f"of line {active.place.line}"
                yield Finding(message, "load modules before that line", place=command.place)
                return
