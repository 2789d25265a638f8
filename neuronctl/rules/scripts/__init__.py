"""Find what is wrong with a batch script: the applicable rules of jobs, and its own."""

from __future__ import annotations

import re
from itertools import chain
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.secrets import hide_secrets
from neuronctl.common.words import clipped
from neuronctl.rules.base import Finding, Trait

# These register their rules.
from neuronctl.rules.scripts import (  # noqa: F401
    cores,
    endings,
    environment,
    nested_launchers,
    ranks,
    sbatch_lines,
    shell_lines,
    sizes,
)
from neuronctl.rules.scripts.sbatch_lines import submits_itself
from neuronctl.rules.scripts.script_facts import SCRIPT_RULES, ScriptFacts
from neuronctl.rules.scripts.shell_lines import UNFILLED
from neuronctl.scripts.header import GPU_OPTIONS, NOWHERE, Edit, GivenOption, SourceSpan

_LONGEST = 1_000
"""The most characters of a message."""


def check_script(
    facts: ScriptFacts, of_plan: Iterable[Finding], *, now: bool = False
) -> Tuple[Finding, ...]:
    """Return every finding on a script, the worst first, then in the order of its lines.

    of_plan: the findings on the plan that the directives make. now: True if the script is about to
    be submitted here, perhaps with options of the command line or the environment.
    """
    in_text = _find_in_text(facts)
    findings = [*in_text, *_find_in_plan(facts, tuple(of_plan), in_text, now=now)]
    findings.sort(key=_rank)
    silenced = _silenced(facts)
    # A message may quote a value that is a secret.
    mask = hide_secrets if any(each.has(Trait.SECRET) for each in findings) else str
    return tuple(
        _clipped(finding, mask)
        for finding in findings
        if finding.code not in silenced.get(finding.place.line, ())
        and not (facts.left_out and finding.has(Trait.ABSENCE))
    )


def _find_in_text(facts: ScriptFacts) -> List[Finding]:
    """Return the findings of the script rules, except on lines that bash and sbatch never read."""
    off = () if facts.plan is None else facts.plan.cluster.policy.rules_off
    codes = [code for code in SCRIPT_RULES.judges if code not in off]
    findings = chain.from_iterable(SCRIPT_RULES.judge(code, facts) for code in codes)
    exits = facts.shell.calls("exit") if not facts.shell.broken else ()
    last_line = next((each.place.line for each in exits if each.sure), len(facts.lines))
    placed = (each if each.place.line else replace(each, place=facts.top) for each in findings)
    unique = dict.fromkeys(placed)
    return [each for each in unique if each.place.line <= last_line or each.has(Trait.UNREACHED)]


def _find_in_plan(
    facts: ScriptFacts, of_plan: Sequence[Finding], others: Sequence[Finding], *, now: bool
) -> Iterator[Finding]:
    """Yield the findings on the plan that concern the script's text, each with its place.

    of_plan, now: as for check_script. others: the findings of the script rules.
    """
    # A script for another cluster's partition follows other rules: report it in one line.
    is_elsewhere = any(each.has(Trait.NO_PARTITION) and each.doubtful for each in of_plan)
    for finding in of_plan:
        message = finding.message
        if is_elsewhere and finding.has(Trait.NO_PARTITION):
            message += "; the site's other rules are skipped"
        elif is_elsewhere and finding.source and not finding.by_slurm:
            continue
        excuse = _EXCUSES.get(finding.code)
        is_for_later = finding.has(Trait.ONLY_NOW) and not now
        if is_for_later or (excuse is not None and excuse(facts, finding)):
            continue
        given = facts.given(*finding.about)
        if given is not None and _is_reported(given, finding, others):
            continue
        place = _find_place(facts, finding, given, now=now)
        edits = () if finding.instead is None else _with_option(facts, *finding.instead)
        yield replace(finding, message=message, place=place, edits=edits)


def _find_place(
    facts: ScriptFacts, finding: Finding, given: Optional[GivenOption], *, now: bool
) -> SourceSpan:
    """Return the place in the script of a finding on the plan, whose option is ``given`` there."""
    argument = facts.argument_place(finding.word) if finding.word else None
    if argument is not None:
        return argument
    if given is not None:
        return given.place
    lacks_option = not finding.has(Trait.ONLY_NOW) and not facts.has(*finding.about)
    # Otherwise, what is submitted now has the option from outside the script.
    return facts.top if lacks_option or not now else NOWHERE


def _is_reported(given: GivenOption, finding: Finding, others: Sequence[Finding]) -> bool:
    """Return True if another finding is about the spelling of the same option."""
    if re.fullmatch(UNFILLED, given.value or ""):
        return True  # by NC643
    for other in others:
        is_there = other.place.line == given.place.line and (
            given.place.column < other.place.end and other.place.column < given.place.end
        )
        if other.has(Trait.SPELLING) and (is_there or {*other.about} & {*finding.about}):
            return True
    return False


def _asks_otherwise(facts: ScriptFacts, finding: Finding) -> bool:
    """Return True if the script requests GPUs in an ignored line, or none on purpose."""
    ignored = any("gpu" in each.text for each in facts.header.ignored)
    values = [facts.header.value(name) or "" for name in GPU_OPTIONS]
    return ignored or any(re.search("(^|:)0$", value) for value in values)


_EXCUSES: Mapping[str, Callable[[ScriptFacts, Finding], bool]] = {
    "NC122": _asks_otherwise,
    # The tasks decide, too, how many GPUs a node gives.
    "NC132": lambda facts, finding: facts.tasks > 1 and not facts.has("nodes"),
    # The plan always names cores and tasks, even if the script does not.
    "NC211": lambda facts, finding: not facts.has(*finding.about),
    # The script makes the directory, then submits itself.
    "NC411": lambda facts, finding: submits_itself(facts),
}
"""Code -> returns True if the plan breaks the rule, but the script does not."""


def _rank(finding: Finding) -> Tuple[int, int, int, str]:
    severity = (ERROR, WARNING, NOTE).index(finding.severity)
    return severity, finding.place.line, finding.place.column, finding.code


def _clipped(finding: Finding, mask: Callable[[str], str]) -> Finding:
    """Return a finding with long values shortened and secrets hidden."""
    message, hint = (clipped(mask(text), _LONGEST) for text in (finding.message, finding.hint))
    return replace(finding, message=message, hint=hint)


def _with_option(facts: ScriptFacts, name: str, value: str) -> Tuple[Edit, ...]:
    """Return the edit that changes an option in the directives or adds it; () if none can."""
    text = '"' + re.sub(r'([\\"])', r"\\\1", value) + '"'
    given = facts.given(name)
    if given is None and facts.has(name):
        return ()  # from the environment or the command line
    if given is None:
        # Below the last directive, or the first line; an option from outside has the line 0.
        last = max((option.place.line for option in facts.header.given), default=0) or 1
        end = len(facts.lines[last - 1]) + 1
        return (Edit(SourceSpan(last, end, end), f"\n#SBATCH --{name}={text}"),)
    place = given.value_place
    is_one_word = (place.line, place.column) == (given.place.line, given.place.column)
    if is_one_word:  # --name=value
        word = facts.lines[place.line - 1][place.column - 1 : place.end - 1]
        before = re.match(r"--[\w-]+=", word)
        if before is None:
            return ()  # a short option, such as -Jname
        place = SourceSpan(place.line, place.column + before.end(), place.end)
    return (Edit(place, text),)


_IGNORE = r"#\s*neuronctl:\s*ignore=(NC\d{3}(?:\s*,\s*NC\d{3})*)"


def _silenced(facts: ScriptFacts) -> Dict[int, Set[str]]:
    """Return the codes silenced on each line, by a remark at its end or on the line above."""
    codes: Dict[int, Set[str]] = {}
    for number, line in enumerate(facts.lines, 1):
        match = re.search(_IGNORE, line) if "neuronctl:" in line else None
        if match is not None:
            is_above = line.lstrip().startswith("#") and not line.startswith("#SBATCH")
            silenced = codes.setdefault(number + 1 if is_above else number, set())
            silenced.update(re.findall(r"NC\d{3}", match[1]))
    return codes
