"""NC635 and NC636: signals before a job's end that never reach a program."""

from __future__ import annotations

import re
import signal as signals
from typing import Iterator, Tuple

from neuronctl.common.rule_codes import WARNING
from neuronctl.common.units import NEVER_HANDLED, split_signal
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
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


@script_rule(WARNING, "NC635", "signal without a trap", "by_absence")
def no_trap(facts: ScriptFacts) -> Iterator[Violation]:
    given, (name, of_shell) = facts.given("signal"), _signal(facts)
    if given is None or not name or facts.shell.placeholders:
        return
    trap = next(iter(facts.shell.traps(name)), None)
    if not of_shell:
        works = [run for run in facts.launches if run.name not in LOOKS_OR_PREPARES]
        if trap is not None:
            yield Violation(
                f"this trap does not run: without B:, --signal={given.value} goes to the processes "
                "that srun started, not to the batch shell",
                f"write --signal=B:{given.value}",
                place=trap.place,
            )
        elif works and not facts.uses_launcher:
            yield Violation(
                f"--signal={given.value} reaches nobody: without B:, it goes to the processes that "
                "srun started, and this script starts none",
                f"write srun before {works[-1].command.words[0].raw}",
                place=given.place,
            )
        return
    ignored = name in ("CONT", "URG", "CHLD", *NEVER_HANDLED)
    files = [each.words[-1].raw for each in facts.shell.calls("source", ".", "eval") if each.words]
    may_trap = facts.shell.calls("exec") or not all(map(_SETS_NO_TRAP.search, files))
    if trap is None and not ignored and not may_trap:
        yield Violation(
            f"--signal={given.value} sends {name} to the batch shell alone, which has no trap for "
            "it: the signal ends the job at once, and the program never sees it",
            f"add trap '…' {name} and start the program in the background, followed by wait; or "
            f"write --signal={name}, which srun's processes get",
            place=given.place,
        )


@script_rule(WARNING, "NC636", "trap that waits for the program's end", "by_absence")
def trap_waits(facts: ScriptFacts) -> Iterator[Violation]:
    name, of_shell = _signal(facts)
    if not of_shell and re.search(r"scontrol requeue|\bsbatch\b", facts.text):
        name, of_shell = "TERM", True  # of the time limit, or of preemption
    traps = facts.shell.traps(name) if of_shell else ()
    if not traps or facts.shell.calls("wait"):
        return
    own = [launch for launch in facts.launches if launch.works]
    if own and not any(launch.command.background for launch in own):
        yield Violation(
            f"bash runs this trap only when {own[-1].word.raw} has ended: a command in the "
            "foreground holds it back",
            f"start it in the background: {own[-1].command.words[0].raw} … & wait $!",
            place=traps[0].place,
        )
