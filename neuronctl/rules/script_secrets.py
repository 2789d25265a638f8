"""NC640 and NC657: secrets written into a script, and servers that anybody may use."""

from __future__ import annotations

import re
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


_TOKEN = re.compile(
    r"""(?x) --(?:Notebook|Server|IdentityProvider|Password\w*|Lab)\w*\.(?:token|password)
    = (?P<value> .*)"""
)
_GUESSED = re.compile(r"""['"]*(\$\{?(USER|LOGNAME|SLURM_JOB_ID)\}?|\$\(whoami\)|)['"]*""")


@script_rule(WARNING, "NC657", "server open to everybody")
def open_server(facts: ScriptFacts) -> Iterator[Violation]:
    for launch in facts.every_launch:
        words = launch.command.words
        for word in words if any("jupyter" in each.raw for each in words) else ():
            given = _TOKEN.fullmatch(word.raw)
            if given is not None and _GUESSED.fullmatch(given["value"]):
                yield Violation(
                    f"{word.raw} lets everybody in who can reach this node, and they then are you: "
                    "it is empty, or easily guessed",
                    "leave it out: Jupyter makes a token of its own, and writes it into the log",
                    place=word.place,
                )
