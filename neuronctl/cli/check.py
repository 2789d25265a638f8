"""``neuronctl check``: what is wrong with batch scripts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import click

from neuronctl.cli.exclusive import at_most_one
from neuronctl.cli.job_options import catalog_option, job_options
from neuronctl.cli.say import notify
from neuronctl.common.console import print_line, printable
from neuronctl.common.errors import PolicyError, UsageError, did_you_mean
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.secrets import MASK, hide_secrets
from neuronctl.common.words import counted
from neuronctl.request.job_file import configured_cluster
from neuronctl.rules.script import ScriptFinding
from neuronctl.scripts.script_file import read_file, shown_name
from neuronctl.submission.judged_script import JudgedScript

if TYPE_CHECKING:
    from neuronctl.catalog.model import Cluster


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1)
@click.option("--cluster", metavar="NAME", help="Catalog cluster to check for.")
@catalog_option
@click.option("--fix", is_flag=True, help="Show unambiguous fixes as a diff.")
@click.option("--write", is_flag=True, help="With --fix, change the files.")
@job_options(["field", "appl"])
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.check/1).")
def command(
    files: Tuple[str, ...],
    cluster: Optional[str],
    catalog: Optional[str],
    fix: bool,
    write: bool,
    field: Optional[str],
    appl: Optional[str],
    as_json: bool,
) -> int:
    """Check batch scripts: how sbatch reads them, and what would happen to the jobs.

    FILE - is standard input. Of a folder, all batch scripts in it and below are checked. Nothing is
    submitted, and without --write nothing is changed.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.catalog.local_cluster import recognise
    from neuronctl.judgement.ask import AskedOnce
    from neuronctl.submission.judged_script import judge_text

    if not files:
        raise UsageError("nothing to check", "name batch scripts or folders")
    at_most_one({"--json": as_json, "--fix": fix})
    if write and (not fix or "-" in files):
        hint = "name the files that are to be changed: neuronctl check --fix --write FILE"
        raise UsageError("--write needs --fix and files", hint)
    loaded = load(catalog)
    chosen, _ = recognise(loaded, cluster or configured_cluster())
    parts = {key: code for key, code in (("field", field), ("appl", appl)) if code is not None}
    _check_parts(parts, chosen)
    asked = AskedOnce()

    def check(name: str, text: str) -> JudgedScript:
        return judge_text(name, text, loaded, chosen, asked=asked, comment_parts=parts)

    texts, unread = _texts(files)
    if fix:
        return _exit_code(_fix(texts, check, write), unread)
    checked = [check(shown_name(name), text) for name, text in texts.items()]
    if as_json:
        from neuronctl.cli.json_data import check_data
        from neuronctl.common.console import print_json

        print_json("neuronctl.check/1", check_data(checked, chosen.name))
    else:
        _print(checked)
    return _exit_code(checked, unread)


def _check_parts(parts: Mapping[str, str], cluster: Cluster) -> None:
    """Raise UsageError for a --field or --appl that no comment on the cluster can have."""
    policy = cluster.policy.comment
    for key, value in parts.items():
        allowed = policy.values_of(key)
        if allowed is None:
            raise UsageError(f"--{key}: comments on {cluster.name} have no such part")
        if allowed and value not in allowed:
            problem = f"--{key}: '{value}' is not a value that {cluster.name} allows"
            raise UsageError(problem, did_you_mean(value, allowed))


def _exit_code(checked: Sequence[JudgedScript], unread: Sequence[UsageError]) -> int:
    """Return the exit code; raise UsageError if a file could not be read."""
    if unread:
        notify(*(f"error: {error.message}" for error in unread[:-1]))
        raise unread[-1]
    return PolicyError.exit_code if any(script.has_errors for script in checked) else 0


def _texts(files: Sequence[str]) -> Tuple[Dict[str, str], List[UsageError]]:
    """Return the text of each script once, by name, and the errors for what cannot be read."""
    from neuronctl.scripts.script_search import scripts_at

    texts: Dict[str, str] = {}
    unread: List[UsageError] = []
    for file in dict.fromkeys(files):
        names = ["-"] if file == "-" else scripts_at(file)
        if not names:
            hint = "in a folder, files that begin with #! and have #SBATCH lines are checked"
            unread.append(UsageError(f"no batch script at '{file}'", hint))
        for name in names:
            try:
                texts[name] = texts[name] if name in texts else read_file(name)
            except UsageError as error:
                unread.append(error)
    return texts, unread


def _fix(
    texts: Mapping[str, str], check: Callable[[str, str], JudgedScript], write: bool
) -> List[JudgedScript]:
    """Show what the fixes change, or change the files; return the scripts as they are then."""
    from neuronctl.cli.say import print_script
    from neuronctl.common.files import rewrite
    from neuronctl.scripts.edits import unified_diff
    from neuronctl.submission.judged_script import mended

    tell: Callable[[str], None] = print_line if write else notify
    changed = 0
    left: List[JudgedScript] = []
    for name, text in texts.items():
        before = check(shown_name(name), text)
        after = mended(before, partial(check, before.name))
        differs = after.text != before.text
        if differs and write:
            try:
                rewrite(name, _bytes(before.text), _bytes(after.text))
            except OSError as error:
                notify(f"{before.name} is left as it is: {error.strerror}")
                after, differs = before, False
        elif differs:
            print_script(hide_secrets(unified_diff(before.name, before.text, after.text)))
        changed += differs
        if write:
            for finding in after.findings:
                _print_finding(after, finding)
        summary = _summary(after.findings)
        if differs:
            codes = ", ".join(sorted({mend.finding.code for mend in before.mends}))
            rest = f"left: {summary}" if after.findings else "nothing left"
            summary = f"{'mended' if write else 'would mend'} {codes}; {rest}"
        tell(f"{before.name}: {summary}")
        left.append(after if write else before)
    how = "changed" if write else "to change; --write does it" if changed else "to change"
    tell(f"{changed} of {counted(len(texts), 'script')} {how}")
    return left


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _print(checked: Sequence[JudgedScript]) -> None:
    """Print the findings of each script, and first what several scripts have."""
    _print_causes(checked)
    cures: Set[str] = set()
    for script in checked:
        for finding, others in _same_once(script.findings):
            cure = finding.finding.hint not in cures or len(checked) == 1
            _print_finding(script, finding, cure=cure, others=others)
            cures.add(finding.finding.hint)
        mends = f"; 'neuronctl check --fix' mends {len(script.mends)}" if script.mends else ""
        print_line(f"{script.name}: {_summary(script.findings)}{mends}")
    if len(checked) > 1:
        clean = sum(1 for script in checked if not script.findings)
        every = [finding for script in checked for finding in script.findings]
        print_line(f"{len(checked)} scripts, {clean} of them clean: {_summary(every)}")


def _same_once(findings: Sequence[ScriptFinding]) -> List[Tuple[ScriptFinding, List[int]]]:
    """Return each different finding once, with the lines where it is found again."""
    found: Dict[Tuple[str, ...], Tuple[ScriptFinding, List[int]]] = {}
    for finding in findings:
        if finding.finding.row in found:
            found[finding.finding.row][1].append(finding.place.line)
        else:
            found[finding.finding.row] = (finding, [])
    return list(found.values())


def _print_causes(checked: Sequence[JudgedScript]) -> None:
    """Print what is wrong in several scripts, worst and most frequent first."""
    scripts: Dict[Tuple[str, str, str], Set[str]] = {}
    for script in checked:
        for one in script.findings:
            key = (one.finding.severity, one.finding.code, one.finding.title)
            scripts.setdefault(key, set()).add(script.name)
    severities = (ERROR, WARNING, NOTE)
    several = [key for key, names in scripts.items() if len(names) > 1]
    for key in sorted(several, key=lambda key: (severities.index(key[0]), -len(scripts[key]))):
        severity, code, title = key
        print_line(f"{severity} {code} in {len(scripts[key])} scripts: {title}")
    if several:
        print_line()


def _summary(findings: Sequence[ScriptFinding]) -> str:
    severities = [finding.finding.severity for finding in findings]
    counts = [(severities.count(severity), severity) for severity in (ERROR, WARNING, NOTE)]
    return ", ".join(counted(number, what) for number, what in counts if number) or "nothing found"


_SHOWN, _BEFORE = 300, 100
"""Characters shown of a longer line, and how many of them precede the finding."""


def _print_finding(
    script: JudgedScript, one: ScriptFinding, *, cure: bool = True, others: Sequence[int] = ()
) -> None:
    """Print a finding with its line; cure: with its hint; others: lines with the same finding."""
    finding, place = one.finding, one.place
    where = f"{script.name}:{place.line}:{place.column}"
    print_line(f"{where}: {finding.severity} {finding.code}: {finding.message}")
    for text in _marked_line(script.line(place.line), one):
        print_line(text)
    if finding.hint and cure:
        print_line(f"  hint: {finding.hint}")
    if finding.source and cure:
        print_line(f"  from: {finding.source}")
    if others:
        print_line(f"  the same in line{'s' * (len(others) > 1)} {', '.join(map(str, others))}")


def _marked_line(line: str, one: ScriptFinding) -> List[str]:
    """Return the finding's line and the mark below it; a line with a secret has no mark."""
    from neuronctl.common.console import cell_width

    place = one.place
    masked = hide_secrets(line)
    if one.finding.code == "NC640" and masked == line:  # the secret's name is on the line before
        masked = line[: place.column - 1] + MASK + line[place.end - 1 :]
    start = max(0, place.column - 1 - _BEFORE) if len(line) > _SHOWN else 0
    left, right = "…" * (start > 0), "…" * (start + _SHOWN < len(masked))
    stop = min(place.end - 1, start + _SHOWN)
    # A tab is one column, as for bash.
    shown = left + printable(masked[start : start + _SHOWN].replace("\t", " ")) + right
    if not shown.strip():
        return []
    found = [f"  {place.line} | {shown}"]
    if masked == line:  # else the columns are others
        before = cell_width(left + printable(line[start : place.column - 1].replace("\t", " ")))
        width = cell_width(printable(line[place.column - 1 : stop].replace("\t", " ")))
        found.append(f"  {' ' * len(str(place.line))} | {' ' * before}{'^' * max(1, width)}")
    return found
