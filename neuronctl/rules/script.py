"""Finds what is wrong with a batch script: the rules of a plan that hold for it, and its own."""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterable, Iterator, Set, Tuple

from neuronctl.common.frozen import replace
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.secrets import hide_secrets
from neuronctl.common.words import clipped

# These register their rules.
from neuronctl.rules import (  # noqa: F401
    script_arrays,
    script_directives,
    script_ends,
    script_exits,
    script_gpus,
    script_launchers,
    script_lines,
    script_logs,
    script_programs,
    script_ranks,
    script_secrets,
    script_sizes,
    script_software,
    script_steps,
    script_threads,
    script_unfilled,
    script_variables,
)
from neuronctl.rules.base import Finding, findings
from neuronctl.rules.script_base import ScriptFacts
from neuronctl.rules.script_logs import submits_itself
from neuronctl.rules.script_unfilled import UNFILLED
from neuronctl.scripts.model import GPU_OPTIONS, NOWHERE, Edit, SourceSpan

_LONGEST = 1_000
"""Characters of a message."""


def check_script(
    facts: ScriptFacts, of_plan: Iterable[Finding], *, now: bool = False
) -> Tuple[Finding, ...]:
    """Return every finding on a script, the worst first, then in the order of its lines.

    of_plan: what the rules have against the plan that its directives make. now: True if the script
    is about to be submitted here; what the command line or the environment gives then has no line.
    """
    found = [
        finding if finding.place.line else replace(finding, place=facts.top)
        for finding in dict.fromkeys(findings(facts))
    ]
    exits = facts.shell.calls("exit") if not facts.shell.broken else ()
    end = next((each.place.line for each in exits if each.sure), None)
    if end is not None:
        found = [known for known in found if known.place.line <= end or _read(known)]
    told = {known.code for known in found}
    refused = {known.place.line for known in found if known.code in ("NC601", "NC606")}
    for finding in _that_hold(facts, of_plan, now=now):
        better = told & {"NC606", "NC634", "NC643"}
        if finding.code == "NC411" and (better or submits_itself(facts)):
            continue  # said already, or it makes the directory before
        given = facts.given(*finding.about)
        is_refused = given is not None and given.place.line in refused
        if is_refused and finding.code in ("NC101", "NC122", "NC123"):
            continue  # said already
        missing = not finding.rule.only_now and not facts.has(*finding.about)
        place = facts.top if missing or not now else NOWHERE
        place = place if given is None else given.place
        place = facts.place_of(finding.word) or place if finding.word else place
        edits = () if finding.instead is None else _with_option(facts, *finding.instead)
        found.append(replace(finding, place=place, edits=edits))
    silenced = _silenced(facts)
    kept = [
        known
        for known in found
        if known.code not in silenced.get(known.place.line, ())
        and not (facts.left_out and known.rule.by_absence)
    ]
    kept.sort(key=_rank)
    mask = hide_secrets if "NC640" in told else str  # a message cites values
    return tuple(_clipped(known, mask) for known in kept)


def _rank(known: Finding) -> Tuple[int, int, int, str]:
    severity = (ERROR, WARNING, NOTE).index(known.severity)
    return severity, known.place.line, known.place.column, known.code


def _read(known: Finding) -> bool:
    """Whether somebody reads a line that bash never comes to: sbatch, or whoever finds a secret."""
    return known.code < "NC620" or known.code == "NC640"


def _clipped(finding: Finding, mask: Callable[[str], str]) -> Finding:
    """A finding with as much of a value as anybody reads, or may read."""
    message, hint = (clipped(mask(text), _LONGEST) for text in (finding.message, finding.hint))
    return replace(finding, message=message, hint=hint)


def _with_option(facts: ScriptFacts, name: str, value: str) -> Tuple[Edit, ...]:
    """The edit that gives an option of the directives another value, or adds it to them."""
    text = '"' + re.sub(r'([\\"])', r"\\\1", value) + '"'
    given = facts.given(name)
    if given is None and facts.has(name):
        return ()  # of the environment, or of the command line
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


def _that_hold(facts: ScriptFacts, of_plan: Iterable[Finding], *, now: bool) -> Iterator[Finding]:
    """The findings on the plan that are about what the script says."""
    of_plan = tuple(of_plan)
    ignored = [one.text for one in facts.header.ignored]
    # A script that names another cluster's partition follows another cluster's rules: one line.
    elsewhere = any(finding.code == "NC101" and finding.doubtful for finding in of_plan)
    for finding in of_plan:
        of_site = finding.source and not finding.by_slurm
        if elsewhere and finding.code == "NC101":
            message = f"{finding.message}; the site's other rules are skipped"
            finding = replace(finding, message=message)
        elif elsewhere and of_site:
            continue
        if finding.rule.only_now and not now:
            continue
        given = facts.given(*finding.about)
        if given is not None and UNFILLED.fullmatch(given.value or ""):
            continue  # NC643 has its say
        # They are asked for in a line that sbatch ignores, which is a finding itself.
        if finding.code == "NC122" and any("gpu" in text for text in ignored):
            continue
        # None on purpose: --gres=gpu:0.
        gpus = (facts.header.value(name) or "" for name in GPU_OPTIONS)
        if finding.code == "NC122" and any(re.search("(^|:)0$", value) for value in gpus):
            continue
        # The plan names cores and tasks, whether the script does or not.
        if finding.code == "NC211" and not facts.has(*finding.about):
            continue
        # How many GPUs a node gives, Slurm decides with how many tasks it takes there.
        if finding.code == "NC132" and facts.tasks > 1 and not facts.has("nodes"):
            continue
        yield finding


_IGNORE = re.compile(r"#\s*neuronctl:\s*ignore=(NC\d{3}(?:\s*,\s*NC\d{3})*)")


def _silenced(facts: ScriptFacts) -> Dict[int, Set[str]]:
    """Line -> the codes that a remark on it, or on the line before it, silences there."""
    found: Dict[int, Set[str]] = {}
    remarks = "neuronctl:" in facts.text
    for number, line in enumerate(facts.lines if remarks else (), 1):
        match = _IGNORE.search(line)
        if match is not None:
            codes = set(re.findall(r"NC\d{3}", match[1]))
            own_line = line.lstrip().startswith("#") and not line.startswith("#SBATCH")
            found.setdefault(number + own_line, set()).update(codes)
    return found
