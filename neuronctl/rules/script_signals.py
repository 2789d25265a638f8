"""NC635: a signal before the end of a job that never reaches its program."""

from __future__ import annotations

import re
import signal as signals
from typing import Iterator, List, Tuple

from neuronctl.common.rule_codes import WARNING
from neuronctl.common.units import NEVER_HANDLED, split_signal
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.launches import Launch
from neuronctl.scripts.usual_commands import LOOKS_OR_PREPARES


def _signal(facts: ScriptFacts) -> Tuple[str, bool]:
    """Return the name of --signal without SIG, and whether the batch shell gets it."""
    given = facts.given("signal")
    flags, name, _ = split_signal(given.value or "" if given is not None else "")
    if name.isdigit():
        name = next((each.name[3:] for each in signals.Signals if each == int(name)), "")
    return name.upper(), "B" in flags


_SETS_NO_TRAP = re.compile(
    r"activate|conda|mamba|bashrc|profile|config|env|setup|setting|vars|/bash"
)
"""Names of files that activate software, or set variables."""


@script_rule(WARNING, "NC635", "signal that the program never sees", "by_absence")
def lost_signal(facts: ScriptFacts) -> Iterator[Violation]:
    given, (name, of_shell) = facts.given("signal"), _signal(facts)
    if given is None or not name or facts.shell.placeholders:
        return
    trap = next(iter(facts.shell.traps(name)), None)
    works = [run for run in facts.launches if run.name not in LOOKS_OR_PREPARES]
    if not of_shell and trap is not None:
        yield Violation(
            f"this trap does not run: without B:, --signal={given.value} goes to the processes "
            "that srun started, not to the batch shell",
            f"write --signal=B:{given.value}",
            place=trap.place,
        )
    elif not of_shell and works and not facts.uses_launcher:
        yield Violation(
            f"--signal={given.value} reaches nobody: without B:, it goes to the processes that "
            "srun started, and this script starts none",
            f"write srun before {works[-1].command.words[0].raw}",
            place=given.place,
        )
    elif of_shell and trap is None and not _may_trap(facts, name):
        yield Violation(
            f"--signal={given.value} sends {name} to the batch shell alone, which has no trap for "
            "it: the signal ends the job at once, and the program never sees it",
            f"add trap '…' {name} and start the program in the background, followed by wait; or "
            f"write --signal={name}, which srun's processes get",
            place=given.place,
        )
    elif trap is not None and works and not (facts.shell.calls("wait") or _beside(works)):
        yield Violation(
            f"bash runs this trap only when {works[-1].word.raw} has ended: a command in the "
            "foreground holds it back",
            f"start it in the background: {works[-1].command.words[0].raw} … & wait $!",
            place=trap.place,
        )


def _beside(works: List[Launch]) -> bool:
    return any(run.command.background for run in works)


def _may_trap(facts: ScriptFacts, name: str) -> bool:
    """Return True if the shell ignores a signal, or something that it reads may set a trap."""
    ignored = name in ("CONT", "URG", "CHLD", *NEVER_HANDLED)
    files = [each.words[-1].raw for each in facts.shell.calls("source", ".", "eval") if each.words]
    by_files = not all(map(_SETS_NO_TRAP.search, files))
    return ignored or by_files or bool(facts.shell.calls("exec"))
