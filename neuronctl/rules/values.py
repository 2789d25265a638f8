"""NC338 and NC341: secrets and variables in the values of a request."""

from __future__ import annotations

import re
from typing import Iterator, List, Sequence, Tuple

from neuronctl.common.rule_codes import ERROR, WARNING
from neuronctl.common.secrets import find_secrets, hide_in_words
from neuronctl.common.shell import references
from neuronctl.common.words import verb
from neuronctl.rules.base import Finding, RuleContext, Trait, job_rule

_READ_DOLLARS = r"(?:ba|da|z|k|c|tc|fi)?sh|[gmn]?awk|perl|envsubst|sed|make"
"""Programs that replace variables in their arguments, or have a $ of their own."""


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"${name}" for name in names)


@job_rule(WARNING, "NC338", "secret that others can read")
def exposed_secret(context: RuleContext) -> Iterator[Finding]:
    request = context.plan.request
    places: List[Tuple[str, Tuple[str, ...]]] = [
        ("--setup contains", request.setup),
        ("--sbatch contains", request.sbatch),
        ("--container-option contains", request.container_options),
    ]
    for launch in context.plan.launches:
        body = (launch.request.body or "").split("\n")
        places.append((f"{launch.prefix}the shell text contains", tuple(body)))
        args = launch.request.args
        places.append((f"{launch.prefix}the program's arguments contain", args))
        options = launch.launcher_options
        places.append((f"{launch.prefix}--launcher-option contains", options))
    for where, words in places:
        if find_secrets("\n".join(words)) or hide_in_words(words) != words:
            yield Finding(
                f"{where} a secret: it is written into the script, and everybody on the node can "
                "see the command lines of what runs there",
                "export it, pass it on with --env NAME, and let the program read the variable",
            )


@job_rule(WARNING, "NC341", "variable that is not replaced", Trait.LAUNCH)
def stands_literally(context: RuleContext) -> Iterator[Finding]:
    plan = context.plan
    for name, value in plan.request.env:
        linkers = ("ORIGIN", "LIB", "PLATFORM") if name.startswith("LD_") else ()
        names = [one for one in references(value) if one not in linkers]
        if names and name not in plan.secrets:
            to_itself = name in names
            what = f"--env {name} refers to itself, and" if to_itself else f"--env {name}:"
            yield Finding(
                f"{what} {_named(names)} {verb(len(names))} passed on as typed, without the value",
                f"set it in a line of shell: --setup 'export {name}=…'",
                severity=ERROR if to_itself else WARNING,
            )
    for launch in plan.launches:
        words = launch.request.args
        programs = (word.rpartition("/")[2] for word in (launch.request.script or "", *words))
        if any(re.fullmatch(_READ_DOLLARS, program) for program in programs):
            continue
        found = dict.fromkeys(name for word in words for name in references(word))
        known = context.local.variables
        told = [name for name in found if name in known or name.startswith(("SLURM", "MASTER_"))]
        if told:
            yield Finding(
                f"{launch.prefix}{_named(told)} in the program's arguments {verb(len(told))} "
                "passed on as typed, without the value",
                "write the launch as shell text: 'run:' in a job file, or --body FILE",
            )
