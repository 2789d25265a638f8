"""NC640: secrets written into a script."""

from __future__ import annotations

from typing import Iterator, Set

from neuronctl.common.rule_codes import WARNING
from neuronctl.common.secrets import find_secrets
from neuronctl.rules.base import Violation
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.model import SourceSpan


@script_rule(WARNING, "NC640", "secret in the script")
def secrets(facts: ScriptFacts) -> Iterator[Violation]:
    told: Set[int] = set()
    for first, last in find_secrets(facts.text):
        before = facts.text[:first]
        number, column = before.count("\n") + 1, first - before.rfind("\n")
        line = facts.lines[number - 1]
        remark = line.lstrip().startswith("#") and not line.startswith("#SBATCH")
        if not remark and number not in told:
            told.add(number)
            yield Violation(
                "this looks like a secret: anybody who reads the file, the job's record or "
                "'scontrol show job' has it",
                "export it in the shell from which you submit, or read it from a file that is "
                "yours alone",
                place=SourceSpan(number, column, min(column + last - first, len(line) + 1)),
            )
