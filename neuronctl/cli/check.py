"""``neuronctl check`` and ``import``: check batch scripts, and turn them into job files."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import click

from neuronctl.catalog.cluster import Cluster
from neuronctl.catalog.loader import load, recognize_cluster
from neuronctl.cli.job_options import catalog_option, job_options
from neuronctl.cli.korean import in_language
from neuronctl.cli.say import notify, print_script, say
from neuronctl.common.console import cell_width, print_json, print_line, printable
from neuronctl.common.errors import PolicyError, UsageError, at_most_one, did_you_mean
from neuronctl.common.files import rewrite
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.secrets import MASK, hide_secrets
from neuronctl.common.words import clipped, counted
from neuronctl.request.job_file import configured_cluster
from neuronctl.rules import Finding, Trait
from neuronctl.scripts.script_file import read_script, scripts_at, shown_name, unified_diff
from neuronctl.submission.existing_script import JudgedScript, apply_fixes, judge_text

_SEVERITIES = (ERROR, WARNING, NOTE)
_SHOWN = 300  # the most characters of a line that are printed


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
    """Check batch scripts, and say what would go wrong.

    FILE may be - for standard input, or a folder, whose batch scripts are all checked. Nothing is
    submitted, and without --write nothing is changed.
    """
    from neuronctl.judgement.ask import SharedQuestion

    if not files:
        raise UsageError("nothing to check", "name batch scripts or folders")
    at_most_one({"--json": as_json, "--fix": fix})
    if write and (not fix or "-" in files):
        hint = "name the files that are to be changed: neuronctl check --fix --write FILE"
        raise UsageError("--write needs --fix and files", hint)
    all_clusters = load(catalog)
    target, _ = recognize_cluster(all_clusters, cluster or configured_cluster())
    codes = {"field": field, "appl": appl}
    parts = {key: code for key, code in codes.items() if code is not None}
    _check_parts(parts, target)
    question = SharedQuestion()

    def check(name: str, text: str) -> JudgedScript:
        return judge_text(name, text, all_clusters, target, question=question, comment_parts=parts)

    texts = _texts(files)
    if fix:
        checked = _fix(texts, check, write)
    else:
        checked = [check(shown_name(name), text) for name, text in texts.items()]
    if as_json:
        from neuronctl.cli.json_data import check_data

        data = [check_data(script) for script in checked]
        print_json("neuronctl.check/1", {"cluster": target.name, "files": data})
    elif not fix:
        _print(checked)
    refuses = any(finding.refuses for finding in _all_findings(checked))
    return PolicyError.exit_code if refuses else 0


def _all_findings(checked: Sequence[JudgedScript]) -> List[Finding]:
    return [finding for script in checked for finding in script.findings]


def _check_parts(parts: Mapping[str, str], cluster: Cluster) -> None:
    """Raise UsageError for a --field or --appl that no comment on the cluster can have."""
    policy = cluster.policy.comment
    for key, value in parts.items():
        allowed = policy.values_of(key)
        if allowed is None:  # an empty list allows any value
            raise UsageError(f"--{key}: comments on {cluster.name} have no such part")
        if allowed and value not in allowed:
            problem = f"--{key}: '{value}' is not a value that {cluster.name} allows"
            raise UsageError(problem, did_you_mean(value, allowed))


def _texts(files: Sequence[str]) -> Dict[str, str]:
    """Return the text of each script, by name; say which files in a folder are unreadable."""
    texts: Dict[str, str] = {}
    for file in dict.fromkeys(files):
        unreadable: List[OSError] = []
        names = ["-"] if file == "-" else scripts_at(file, unreadable)
        notify(*(f"skipped {error.filename}: {error.strerror}" for error in unreadable))
        if not names:
            hint = "in a folder, files that begin with #! and have #SBATCH lines are checked"
            raise UsageError(f"no batch script at '{file}'", hint)
        for name in names:
            if name not in texts:
                texts[name] = read_script(name)
    return texts


def _fix(
    texts: Mapping[str, str], check: Callable[[str, str], JudgedScript], write: bool
) -> List[JudgedScript]:
    """Show the fixes as a diff, or with ``write`` apply them; return the resulting scripts."""
    # Without ``write``, standard output has only the diff.
    tell: Callable[[str], None] = print_line if write else notify
    fixable_count = 0
    results: List[JudgedScript] = []
    for name, text in texts.items():
        before = check(shown_name(name), text)
        after = apply_fixes(before, partial(check, before.name))
        if after.text == before.text:
            results.append(before)
            tell(f"{before.name}: {_summary(before.findings)}")
            continue
        problem = _rewrite(name, before.text, after.text) if write else ""
        if problem:
            results.append(before)
            tell(f"{before.name}: left as it is: {problem}")
            continue
        results.append(after if write else before)
        fixable_count += 1
        if not write:
            print_script(hide_secrets(unified_diff(before.name, before.text, after.text)))
        codes = ", ".join(sorted({mend.code for mend in before.mends}))
        unfixed = f"left: {_summary(after.findings)}" if after.findings else "nothing left"
        tell(f"{before.name}: {'fixed' if write else 'would fix'} {codes}; {unfixed}")
    hint = "; --write applies the changes" if fixable_count and not write else ""
    total = f"{fixable_count} of {counted(len(texts), 'script')}"
    tell(f"{total} {'changed' if write else 'to change'}{hint}")
    return results


def _rewrite(name: str, old: str, new: str) -> str:
    """Change a file's text; return why it could not be changed, or ""."""
    old_bytes = old.encode("utf-8", "surrogateescape")
    new_bytes = new.encode("utf-8", "surrogateescape")
    try:
        rewrite(name, old_bytes, new_bytes)
    except OSError as error:
        return str(error.strerror)
    return ""


def _print(checked: Sequence[JudgedScript]) -> None:
    """Print the findings that several scripts share, then those of each script."""
    has_several = len(checked) > 1
    _print_causes(checked)
    printed_hints: Set[str] = set()
    for script in checked:
        by_row: Dict[Tuple[str, ...], List[Finding]] = {}  # findings that differ only in place
        for finding in script.findings:
            by_row.setdefault(finding.row, []).append(finding)
        for findings in by_row.values():
            # Of several scripts, each hint is printed once; of a single one, with every finding.
            _print_finding(script, findings, printed_hints if has_several else set())
        mends = f"; 'neuronctl check --fix' fixes {len(script.mends)}" if script.mends else ""
        print_line(f"{script.name}: {_summary(script.findings)}{mends}")
    if has_several:
        clean_count = sum(1 for script in checked if not script.findings)
        summary = _summary(_all_findings(checked))
        print_line(f"{len(checked)} scripts, {clean_count} of them clean: {summary}")


def _print_causes(checked: Sequence[JudgedScript]) -> None:
    """Print what is wrong in several scripts, worst and most frequent first."""
    script_counts: Counter[Tuple[str, str, str]] = Counter()
    for script in checked:
        causes = {
            (finding.severity, finding.code, in_language(finding, sys.stdout).title)
            for finding in script.findings
        }
        script_counts.update(sorted(causes))  # in the same order at every call
    shared = [(cause, count) for cause, count in script_counts.most_common() if count > 1]
    for printed_severity in _SEVERITIES:  # the worst first
        for (severity, code, title), count in shared:
            if severity == printed_severity:
                print_line(f"{severity} {code} in {count} scripts: {title}")
    if shared:
        print_line()


def _summary(findings: Sequence[Finding]) -> str:
    """Return ``1 error, 2 warnings``, or ``nothing found``."""
    severities = [finding.severity for finding in findings]
    counts = [(severities.count(severity), severity) for severity in _SEVERITIES]
    words = [counted(count, severity) for count, severity in counts if count]
    return ", ".join(words) or "nothing found"


def _print_finding(script: JudgedScript, findings: Sequence[Finding], hints: Set[str]) -> None:
    """Print the first of findings that differ only in their place, and the others' line numbers.

    hints: those already printed, to which the finding's is added.
    """
    first, *others = findings
    finding = in_language(first, sys.stdout)
    place = first.place
    where = f"{script.name}:{place.line}:{place.column}"
    print_line(f"{where}: {finding.severity} {finding.code}: {finding.message}")
    for text in _marked_line(script.line(place.line), first):
        print_line(text)
    if finding.hint not in hints:
        if finding.hint:
            print_line(f"  hint: {finding.hint}")
        if finding.source:
            print_line(f"  from: {finding.source}")
    hints.add(finding.hint)
    if others:
        numbers = ", ".join(str(other.place.line) for other in others)
        print_line(f"  the same in line{'s' if len(others) > 1 else ''} {numbers}")


def _marked_line(line: str, finding: Finding) -> List[str]:
    """Return the finding's line and the mark below it; a line with a secret gets no mark."""
    place = finding.place
    text = line.replace("\t", " ")
    hidden = hide_secrets(text)
    masked = text[: place.column - 1] + MASK + text[place.end - 1 :]
    # hide_secrets() misses a secret whose name is on the line before.
    is_missed = finding.has(Trait.SECRET) and hidden == text
    shown = masked if is_missed else hidden
    if not shown.strip():
        return []
    lines = [f"  {place.line} | {clipped(printable(shown), _SHOWN)}"]
    if shown == text and len(text) <= _SHOWN:  # masking and clipping move the columns
        indent = cell_width(printable(text[: place.column - 1]))
        width = cell_width(printable(text[place.column - 1 : place.end - 1]))
        lines.append(f"  {' ' * len(str(place.line))} | {' ' * indent}{'^' * max(1, width)}")
    return lines


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option("--write", "-o", metavar="JOB.yaml", help="Write it to a file.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option(
    "--cluster", metavar="NAME", help="Catalog cluster to plan for; the job file names it."
)
@catalog_option
def import_(
    file: str, write: Optional[str], force: bool, cluster: Optional[str], catalog: Optional[str]
) -> None:
    """Turn a batch script into a job file that does the same.

    FILE may be - for standard input. Directives become keys of the job file; the rest stays shell
    text. Standard error lists, with file and line, what a job file cannot express.
    """
    from neuronctl.cli.job_output import write_text
    from neuronctl.request.job_file import own_cluster
    from neuronctl.scripts.job_file_draft import draft_job_file

    text = read_script(file)
    target = own_cluster(catalog, cluster)
    name = shown_name(file)
    draft = draft_job_file(text, name, target, name_cluster=cluster is not None)
    if write is None:
        print_script(draft.text)
    else:
        write_text(write, draft.text, force=force)
        say(f"wrote {write}; review it with 'neuronctl generate -f {write}'")
    say(
        "neuronctl's script adds to it: a check of the nodes (none with 'preflight: false'), and "
        "lines that set PYTHONUNBUFFERED and set or unset what training programs read, such as "
        "MASTER_ADDR"
    )
    for remark in draft.remarks:
        place = f"{name}:{remark.line}" if remark.line else name  # 0: about the whole script
        say(f"{place}: {remark.message}")
        if remark.hint:
            say(f"  hint: {remark.hint}")
