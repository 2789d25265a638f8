"""Find what is wrong with a batch script: the applicable rules of jobs, and its own."""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Set, Tuple

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
from neuronctl.scripts.header import GPU_OPTIONS, NOWHERE, Edit, SourceSpan

_LONGEST = 1_000
"""Characters of a message."""


def check_script(
    facts: ScriptFacts, of_plan: Iterable[Finding], *, now: bool = False
) -> Tuple[Finding, ...]:
    """Return every finding on a script, the worst first, then in the order of its lines.

    of_plan: what the rules have against the plan that its directives make. now: True if the script
    is about to be submitted here; what the command line or the environment gives then has no line.
    """
    findings = _own_findings(facts)
    findings += _plan_findings(facts, tuple(of_plan), findings, now=now)
    silenced = _silenced(facts)
    kept = [
        finding
        for finding in findings
        if finding.code not in silenced.get(finding.place.line, ())
        and not (facts.left_out and finding.has(Trait.ABSENCE))
    ]
    kept.sort(key=_rank)
    # A message cites values.
    mask = hide_secrets if any(each.has(Trait.SECRET) for each in findings) else str
    return tuple(_clipped(finding, mask) for finding in kept)


def _own_findings(facts: ScriptFacts) -> List[Finding]:
    """Return the findings of the script rules, except on lines that nobody reads."""
    off = () if facts.plan is None else facts.plan.cluster.policy.rules_off
    codes = [code for code in SCRIPT_RULES.judges if code not in off]
    findings = dict.fromkeys(each for code in codes for each in SCRIPT_RULES.judge(code, facts))
    exits = facts.shell.calls("exit") if not facts.shell.broken else ()
    end = next((each.place.line for each in exits if each.sure), len(facts.lines))
    placed = [each if each.place.line else replace(each, place=facts.top) for each in findings]
    return [each for each in placed if each.place.line <= end or each.has(Trait.UNREACHED)]


def _plan_findings(
    facts: ScriptFacts, of_plan: Sequence[Finding], others: Sequence[Finding], *, now: bool
) -> Iterator[Finding]:
    """Yield the findings on the plan that concern the script's text, each with its place.

    of_plan, now: as for check_script. others: the findings of the script rules.
    """
    # A script for another cluster's partition follows other rules: report it in one line.
    elsewhere = any(each.has(Trait.NO_PARTITION) and each.doubtful for each in of_plan)
    for finding in of_plan:
        if elsewhere and finding.has(Trait.NO_PARTITION):
            message = f"{finding.message}; the site's other rules are skipped"
            finding = replace(finding, message=message)
        elif elsewhere and finding.source and not finding.by_slurm:
            continue
        given = facts.given(*finding.about)
        only_now = finding.has(Trait.ONLY_NOW)
        # NC643 reports a value that nobody has filled in.
        is_open = given is not None and re.fullmatch(UNFILLED, given.value or "")
        excuse = _EXCUSES.get(finding.code)
        if is_open or (only_now and not now) or (excuse is not None and excuse(facts, finding)):
            continue
        if given is not None and any(_covers(each, finding, given.place) for each in others):
            continue
        is_missing = not only_now and not facts.has(*finding.about)
        place = facts.top if is_missing or not now else NOWHERE
        if given is not None:
            place = given.place
        if finding.word:
            place = facts.argument_place(finding.word) or place
        edits = () if finding.instead is None else _with_option(facts, *finding.instead)
        yield replace(finding, place=place, edits=edits)


def _covers(other: Finding, finding: Finding, place: SourceSpan) -> bool:
    """Return True if another finding is on how the same option, at ``place``, is spelled."""
    if not other.has(Trait.SPELLING):
        return False
    overlaps = place.column < other.place.end and other.place.column < place.end
    is_there = other.place.line == place.line and overlaps
    return is_there or bool(set(other.about) & set(finding.about))


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
"""When a plan breaks a rule, but not its script."""


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
        last = max((option.place.line for option in facts.header.given), default=0) or 1
        end = len(facts.lines[last - 1]) + 1
        return (Edit(SourceSpan(last, end, end), f"\n#SBATCH --{name}={text}"),)
    place = given.value_place
    if place.line == given.place.line and place.column == given.place.column:
        word = facts.lines[place.line - 1][place.column - 1 : place.end - 1]
        before = re.match(r"--[\w-]+=", word)
        if before is None:
            return ()
        place = SourceSpan(place.line, place.column + before.end(), place.end)
    return (Edit(place, text),)


_IGNORE = r"#\s*neuronctl:\s*ignore=(NC\d{3}(?:\s*,\s*NC\d{3})*)"


def _silenced(facts: ScriptFacts) -> Dict[int, Set[str]]:
    """Return the codes silenced by a remark on each line or the one before it."""
    codes: Dict[int, Set[str]] = {}
    remarks = "neuronctl:" in facts.text
    for number, line in enumerate(facts.lines if remarks else (), 1):
        match = re.search(_IGNORE, line)
        if match is not None:
            is_remark = line.lstrip().startswith("#") and not line.startswith("#SBATCH")
            codes.setdefault(number + is_remark, set()).update(re.findall(r"NC\d{3}", match[1]))
    return codes
