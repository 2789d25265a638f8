"""NC640 and NC657: secrets written into a script, and servers that anybody may use."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Iterator, Set

from neuronctl.common.rule_codes import WARNING
from neuronctl.common.secrets import find_secrets
from neuronctl.rules.base import Finding
from neuronctl.rules.script_base import ScriptFacts, script_rule
from neuronctl.scripts.model import SourceSpan


@script_rule(WARNING, "NC640", "secret in the script")
def secrets(facts: ScriptFacts) -> Iterator[Finding]:
    told: Set[int] = set()
    for first, last in find_secrets(facts.text):
        before = facts.text[:first]
        number, column = before.count("\n") + 1, first - before.rfind("\n")
        line = facts.lines[number - 1]
        remark = line.lstrip().startswith("#") and not line.startswith("#SBATCH")
        if not remark and number not in told:
            told.add(number)
            yield Finding(
                "this looks like a secret: anybody who reads the file, the job's record or "
                "'scontrol show job' has it",
                "export it in the shell from which you submit, or read it from a file that is "
                "yours alone",
                place=SourceSpan(number, column, min(column + last - first, len(line) + 1)),
            )


_GUESSED = r"""['"]*(\$\{?(USER|LOGNAME|SLURM_JOB_ID)\}?|\$\(whoami\)|)['"]*(?!\S)"""
_ALL_ADDRESSES = r"--host[= ]['\"]?(0\.0\.0\.0|::)['\"]?(?!\S)"
_SERVERS = (
    (
        *("jupyter", "jupyter"),
        r"--(Notebook|Server|IdentityProvider|Password\w*|Lab)\w*\.(token|password)=" + _GUESSED,
        *("(?!)", "it is empty, or easily guessed"),
    ),
    ("code", "code-server", r"--auth[= ]none(?!\S)", "(?!)", "it asks for no password"),
    ("tensorboard", "tensorboard", rf"--bind_all|{_ALL_ADDRESSES}", "(?!)", "it asks for no token"),
    ("vllm", "vllm", _ALL_ADDRESSES, "--api-key|VLLM_API_KEY", "it asks for no key"),
)
"""A recipe of ``serve``; a word of the command that starts such a server; what opens it; what the
script has if it is closed nevertheless; and why it is open."""


@script_rule(WARNING, "NC657", "server open to everybody")
def open_server(facts: ScriptFacts) -> Iterator[Finding]:
    for launch in facts.every_launch:
        words = launch.command.words
        ends = list(accumulate(len(word.raw) + 1 for word in words))
        line = " ".join(word.raw for word in words)
        for recipe, program, opens, closes, why in _SERVERS:
            found = re.search(rf"(?<!\S)(?:{opens})", line) if program in line else None
            if found is None or re.search(closes, facts.text):
                continue
            yield Finding(
                f"{found[0]} lets everybody in who can reach this node: {why}",
                f"'neuronctl serve {recipe}' runs it with a random token, and says how to reach it",
                place=words[bisect_right(ends, found.start())].place,
            )
