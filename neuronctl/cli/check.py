"""``neuronctl check``: what is wrong with batch scripts."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import click

from neuronctl.cli.exclusive import at_most_one
from neuronctl.cli.job_options import catalog_option, job_options
from neuronctl.cli.say import notify
from neuronctl.common import slow
from neuronctl.common.console import print_line, print_text, printable
from neuronctl.common.errors import PolicyError, UsageError, did_you_mean
from neuronctl.common.masking import MASK, Masker
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.words import counted
from neuronctl.request.job_file import configured_cluster
from neuronctl.rules.script import ScriptFinding
from neuronctl.scripts.script_file import read_file, shown_name
from neuronctl.submission.judged_script import JudgedScript

if TYPE_CHECKING:
    from neuronctl.catalog.model import Cluster


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1)
@click.option("--line", metavar="COMMAND", help="Check a command line, such as 'salloc -p gpu'.")
@click.option("--cluster", metavar="NAME", help="Catalog cluster to check for.")
@catalog_option
@click.option("--fix", is_flag=True, help="Show unambiguous fixes as a diff.")
@click.option("--write", is_flag=True, help="With --fix, change the files.")
@job_options(["field", "appl"])
@click.option("--starts", is_flag=True, help="Show what the scripts start, where, and how often.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.check/1).")
@click.option("--sarif", is_flag=True, help="Print SARIF 2.1.0, which code hosts and editors read.")
def command(
    files: Tuple[str, ...],
    line: Optional[str],
    cluster: Optional[str],
    catalog: Optional[str],
    fix: bool,
    write: bool,
    field: Optional[str],
    appl: Optional[str],
    starts: bool,
    as_json: bool,
    sarif: bool,
) -> int:
    """Check batch scripts: how sbatch reads them, and what would happen to the jobs.

    FILE - is standard input. Of a folder, all batch scripts in it and below are checked. Nothing is
    submitted, and without --write nothing is changed.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.catalog.local_cluster import recognise
    from neuronctl.judgement.ask import AskedOnce
    from neuronctl.submission.judged_script import judge_line, judge_text

    at_most_one({"--line": line, "FILE": files})
    if not files and line is None:
        raise UsageError("nothing to check", "name batch scripts, or a command with --line")
    shown = starts and not as_json  # which has it beside the findings
    at_most_one({"--json": as_json, "--sarif": sarif, "--fix": fix, "--starts": shown})
    if (write and not fix) or (fix and line is not None) or (write and "-" in files):
        hint = "name the files that are to be changed: neuronctl check --fix --write FILE"
        raise UsageError("--write needs --fix, and both need files", hint)
    loaded = load(catalog)
    chosen, _ = recognise(loaded, cluster or configured_cluster())
    parts = {key: code for key, code in (("field", field), ("appl", appl)) if code is not None}
    _check_parts(parts, chosen)
    asked = AskedOnce()

    def check(name: str, text: str, more: Mapping[str, str] = {}) -> JudgedScript:
        comment = {**parts, **more}
        return judge_text(name, text, loaded, chosen, asked=asked, comment_parts=comment)

    if fix:
        missing = {
            field.key: field.values[0]
            for field in chosen.policy.comment.fields
            if field.key not in parts and field.values
        }
        return _fix(files, check, write, missing)
    texts, unread = _texts(files)
    if len(texts) > _MANY:
        slow.tell(f"the check of {len(texts)} scripts")
    checked = [check(shown_name(name), text) for name, text in texts.items()]
    if line is not None:
        checked.append(judge_line(line, loaded, chosen))
    if sarif:
        import json

        from neuronctl.cli.json_data import sarif_data

        print_text(json.dumps(sarif_data(checked), indent=2))
    elif as_json:
        from neuronctl.cli.json_data import check_data
        from neuronctl.common.console import print_json

        print_json("neuronctl.check/1", check_data(checked, chosen.name, starts=starts))
    elif starts:
        for script in checked:
            _print_starts(script)
        for script in checked:
            if script.has_errors:
                notify(f"{script.name} has errors; without --starts, check shows them")
    elif checked:
        _print(checked)
    return _exit_code(checked, unread)


_MANY = 100
"""So many scripts take about a second."""


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
    """The exit code; raises UsageError where a file could not be read, whatever others have."""
    if unread:
        _raise_last(unread)
    return PolicyError.exit_code if any(script.has_errors for script in checked) else 0


def _fix(
    files: Sequence[str],
    check: Callable[..., JudgedScript],
    write: bool,
    missing: Mapping[str, str],
) -> int:
    """Show what check's mends change, or change the files; returns the exit code.

    missing: the parts of a comment that no option gives, each with a value that it may have.
    """
    from neuronctl.cli.say import print_script
    from neuronctl.common.files import rewrite
    from neuronctl.scripts.edits import unified_diff
    from neuronctl.submission.judged_script import mended

    tell: Callable[[str], None] = print_line if write else notify
    changed = 0
    more: Counter[str] = Counter()
    left: List[JudgedScript] = []
    texts, unread = _texts(files)
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
            print_script(Masker().text(unified_diff(before.name, before.text, after.text)))
        changed += differs
        if write:
            for finding in after.findings:
                _print_finding(after, finding)
        codes = ", ".join(sorted({mend.finding.code for mend in before.mends}))
        summary = f"{before.name}: {_summary(after.findings)}"
        if differs:
            rest = f"left: {_summary(after.findings)}" if after.findings else "nothing left"
            verb = "mended" if write else "would mend"
            summary = f"{before.name}: {verb} {codes}; {rest}"
        tell(summary)
        left.append(after if write else before)
        wrong = _comments(after)
        if wrong:
            options = [
                name
                for name, value in missing.items()
                if len(_comments(check(after.name, after.text, {name: value}), edits=True))
            ]
            more.update(options[:1])
    how = "changed" if write else "to change; --write does it" if changed else "to change"
    with_more = "".join(f"; {count} more with --{name} NAME" for name, count in more.items())
    tell(f"{changed} of {counted(len(texts), 'script')} {how}{with_more}")
    return _exit_code(left, unread)


def _comments(script: JudgedScript, *, edits: bool = False) -> List[ScriptFinding]:
    """The findings about the comment, those without edits or those with them."""
    found = [finding for finding in script.findings if finding.finding.about == ("comment",)]
    return [finding for finding in found if bool(finding.edits) == edits]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _texts(files: Sequence[str]) -> Tuple[Dict[str, str], List[UsageError]]:
    """The scripts that are meant, each once, with their texts; what cannot be read.

    Raises UsageError where nothing can be read.
    """
    from neuronctl.scripts.find import scripts_at

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
    if not texts and unread:
        _raise_last(unread)
    return texts, unread


def _raise_last(errors: Sequence[UsageError]) -> None:
    from neuronctl.cli.say import notify

    notify(*(f"error: {error.message}" for error in errors[:-1]))
    raise errors[-1]


def _print(checked: Sequence[JudgedScript]) -> None:
    cured = _print_causes(checked) if len(checked) > 1 else set()
    for script in checked:
        for finding, others in _by_cause(script.findings):
            _print_finding(script, finding, cure=finding.finding.code not in cured, others=others)
        mends = f"; 'neuronctl check --fix' mends {len(script.mends)}" if script.mends else ""
        print_line(f"{script.name}: {_summary(script.findings)}{mends}")
    if len(checked) > 1:
        clean = sum(1 for script in checked if not script.findings)
        every = [finding for script in checked for finding in script.findings]
        print_line(f"{len(checked)} scripts, {clean} of them clean: {_summary(every)}")


def _by_cause(findings: Sequence[ScriptFinding]) -> List[Tuple[ScriptFinding, List[int]]]:
    """The findings, those that say the same once, with the lines of the others."""
    found: Dict[Tuple[str, ...], Tuple[ScriptFinding, List[int]]] = {}
    for finding in findings:
        key = finding.finding.row
        if key in found:
            found[key][1].append(finding.place.line)
        else:
            found[key] = (finding, [])
    return list(found.values())


def _print_causes(checked: Sequence[JudgedScript]) -> Set[str]:
    """What is wrong in several scripts, the worst first; returns the codes whose cure is told."""
    every: Dict[Tuple[str, str, str], List[Tuple[str, ScriptFinding]]] = {}
    for script in checked:
        for finding in script.findings:
            key = (finding.finding.severity, finding.finding.code, finding.finding.title)
            every.setdefault(key, []).append((script.name, finding))
    several = {key: found for key, found in every.items() if len({name for name, _ in found}) > 1}
    severities = (ERROR, WARNING, NOTE)
    cured: Set[str] = set()
    for key in sorted(several, key=lambda key: (severities.index(key[0]), -len(several[key]))):
        severity, code, title = key
        where = counted(len({name for name, _ in several[key]}), "script")
        times = counted(len(several[key]), "finding")
        print_line(f"{severity} {code} in {where} ({times}): {title}")
        hints = {found.finding.hint for _, found in several[key]}
        mends = sum(bool(found.edits) for _, found in several[key])
        if len(hints) == 1 and hints != {""}:
            print_line(f"  hint: {hints.pop()}")
            cured.add(code)
        if mends:
            print_line(f"  'neuronctl check --fix' mends {mends} of them")
    if several:
        print_line()
    return cured


def _print_starts(script: JudgedScript) -> None:
    """The table of what a script starts."""
    from neuronctl.common.console import Column, print_table
    from neuronctl.rules.script_starts import started

    rows = () if script.facts is None else started(script.facts)
    plan = script.plan
    job = "its directives cannot be read as a job"
    if plan is not None:
        tasks, gpus = counted(plan.ntasks_per_node, "task"), counted(plan.gpus_per_node, "GPU")
        job = f"{counted(plan.nodes, 'node')}, each with {tasks} and {gpus}"
    print_line(f"{script.name}: {job}")
    if not rows:
        print_line("  starts nothing that neuronctl can see")
        return
    of_nodes = "" if plan is None else f" of {plan.nodes}"
    of_tasks = "" if plan is None else f" of {plan.nodes * plan.ntasks_per_node}"
    remarks = ((" (in a loop)", "looped"), (" &", "background"))
    cells = [
        [
            str(row.line),
            row.what + "".join(text for text, name in remarks if getattr(row, name)),
            "?" if row.nodes is None else f"{row.nodes}{of_nodes}",
            "?" if row.tasks is None else f"{row.tasks}{of_tasks}",
            "?" if row.processes is None else str(row.processes),
            row.gpus_each,
        ]
        for row in rows
    ]
    headers = ["LINE", "STARTS", "NODES", "TASKS", "PROCESSES", "GPUS EACH"]
    print_table([Column(name) for name in headers], cells)


def _summary(findings: Sequence[ScriptFinding]) -> str:
    of = [finding.finding.severity for finding in findings]
    counts = [(of.count(severity), severity) for severity in (ERROR, WARNING, NOTE)]
    return ", ".join(counted(number, what) for number, what in counts if number) or "nothing found"


_SHOWN, _BEFORE = 300, 100
"""Characters shown of a longer line, and how many of them precede the finding."""


def _print_finding(
    script: JudgedScript, one: ScriptFinding, *, cure: bool = True, others: Sequence[int] = ()
) -> None:
    """cure: whether to say what to do. others: the lines where the same is found again."""
    from neuronctl.common.console import cell_width

    finding, place = one.finding, one.place
    where = f"{script.name}:{place.line}:{place.column}"
    print_line(f"{where}: {finding.severity} {finding.code}: {finding.message}")
    line = script.line(place.line)
    shown = Masker().text(line)
    if finding.code == "NC640" and shown == line:  # its name is on the line before
        shown = line[: place.column - 1] + MASK + line[place.end - 1 :]
    masked, line = shown != line, shown
    start = max(0, place.column - 1 - _BEFORE)
    stop = start + _SHOWN
    if len(line) <= _SHOWN:
        start, stop = 0, len(line)
    left, right = "…" if start else "", "…" if stop < len(line) else ""
    # A tab is one column, as for bash.
    head_text, marked_text, tail = (
        printable(part.replace("\t", " "))
        for part in (
            line[start : place.column - 1],
            line[place.column - 1 : min(place.end - 1, stop)],
            line[max(place.end, place.column) - 1 : stop],
        )
    )
    text = f"{left}{head_text}{marked_text}{tail}{right}"
    if text.strip():
        number = str(place.line)
        before = cell_width(left + head_text)
        marked = max(1, cell_width(marked_text))
        print_line(f"  {number} | {text}")
        if not masked:  # the columns would be others
            print_line(f"  {' ' * len(number)} | {' ' * before}{'^' * marked}")
    if finding.hint and cure:
        print_line(f"  hint: {finding.hint}")
    if finding.source and cure:
        print_line(f"  from: {finding.source}")
    if others:
        print_line(f"  the same in line{'s' * (len(others) > 1)} {', '.join(map(str, others))}")
