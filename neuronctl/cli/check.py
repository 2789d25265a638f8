"""``neuronctl check``: what is wrong with batch scripts."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.batchscript.header import read_file, shown_name
from neuronctl.cli.job_options import catalog_option, complete_files
from neuronctl.console import print_line, print_text, printable
from neuronctl.errors import PolicyError, UsageError
from neuronctl.request.job_file import configured_cluster
from neuronctl.rule_codes import ERROR
from neuronctl.rules.script import ScriptFinding
from neuronctl.submission.script_check import CheckedScript
from neuronctl.words import counted


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, shell_complete=complete_files)
@click.option("--line", metavar="COMMAND", help="Check a command line, such as 'salloc -p gpu'.")
@click.option("--cluster", metavar="NAME", help="Catalog cluster to check for.")
@catalog_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.check/1).")
@click.option("--sarif", is_flag=True, help="Print SARIF 2.1.0, which code hosts and editors read.")
def command(
    files: Tuple[str, ...],
    line: Optional[str],
    cluster: Optional[str],
    catalog: Optional[str],
    as_json: bool,
    sarif: bool,
) -> int:
    """Check batch scripts: how sbatch reads them, and what would happen to the jobs.

    FILE - is standard input. Of a folder, all batch scripts in it and below are checked. Nothing is
    submitted or changed.
    """
    from neuronctl.catalog.loader import load
    from neuronctl.gate.ask import AskedOnce
    from neuronctl.slurm.cluster import recognise
    from neuronctl.submission.script_check import check_line, check_text

    if bool(files) == (line is not None):
        raise UsageError("nothing to check", "name batch scripts, or a command with --line")
    loaded = load(catalog)
    chosen, _ = recognise(loaded, cluster or configured_cluster())
    checked = []
    asked = AskedOnce()
    for name in _named(files):
        checked.append(check_text(shown_name(name), _text(name), loaded, chosen, asked=asked))
    if line is not None:
        checked.append(check_line(line, loaded, chosen))
    if as_json and sarif:
        raise UsageError("--json and --sarif exclude each other", "leave one of them out")
    if sarif:
        _print_sarif(checked)
    elif as_json:
        _print_json(checked, chosen.name)
    else:
        _print(checked)
    return PolicyError.exit_code if any(one.has_errors for one in checked) else 0


def _named(files: Sequence[str]) -> List[str]:
    """The scripts that are meant, each once."""
    from neuronctl.batchscript.find import scripts_at

    found: Dict[str, None] = {}
    for name in files:
        scripts = ["-"] if name == "-" else scripts_at(name)
        if not scripts:
            raise UsageError(
                f"no batch script at '{name}'",
                "in a folder, files that begin with #! and have #SBATCH lines are checked",
            )
        found.update(dict.fromkeys(scripts))
    return list(found)


def _text(name: str) -> str:
    try:
        return read_file(name)
    except OSError as error:
        raise UsageError(f"cannot read '{name}': {error.strerror}") from None


def _print(checked: Sequence[CheckedScript]) -> None:
    for script in checked:
        for one in script.findings:
            _print_finding(script, one)
        print_line(f"{script.name}: {_summary(script.findings)}")
    if len(checked) > 1:
        clean = sum(1 for script in checked if not script.findings)
        every = [one for script in checked for one in script.findings]
        print_line(f"{len(checked)} scripts, {clean} of them clean: {_summary(every)}")


def _summary(findings: Sequence[ScriptFinding]) -> str:
    errors = sum(1 for one in findings if one.finding.severity == ERROR)
    counts = ((errors, "error"), (len(findings) - errors, "warning"))
    return ", ".join(counted(number, what) for number, what in counts if number) or "nothing found"


def _print_finding(script: CheckedScript, one: ScriptFinding) -> None:
    from neuronctl.console import cell_width

    finding, place = one.finding, one.place
    where = f"{script.name}:{place.line}:{place.column}"
    head = f"{where}: {finding.severity} {finding.code}: {finding.message}"
    lines = [head]
    text = printable(script.line(place.line).replace("\t", " "))  # one column, as for bash
    if text.strip():
        number = str(place.line)
        before = cell_width(text[: place.column - 1])
        marked = max(1, cell_width(text[place.column - 1 : place.end - 1]))
        lines.append(f"  {number} | {text}")
        lines.append(f"  {' ' * len(number)} | {' ' * before}{'^' * marked}")
    if finding.hint:
        lines.append(f"  hint: {finding.hint}")
    if finding.source:
        lines.append(f"  from: {finding.source}")
    for line in lines:
        print_line(line)


def _print_json(checked: Sequence[CheckedScript], cluster: str) -> None:
    from neuronctl.console import print_json

    files: List[Dict[str, Any]] = [
        {
            "file": script.name,
            "findings": [
                {
                    "code": one.finding.code,
                    "severity": one.finding.severity,
                    "title": one.finding.title,
                    "message": one.finding.message,
                    "hint": one.finding.hint,
                    "source": one.finding.source,
                    "line": one.place.line,
                    "column": one.place.column,
                    "end_column": one.place.end,
                }
                for one in script.findings
            ],
        }
        for script in checked
    ]
    print_json("neuronctl.check/1", {"cluster": cluster, "files": files})


def _print_sarif(checked: Sequence[CheckedScript]) -> None:
    import json
    from urllib.parse import quote

    from neuronctl import __version__
    from neuronctl.rule_codes import CODES

    results: List[Dict[str, Any]] = []
    for script in checked:
        for one in script.findings:
            finding, place = one.finding, one.place
            region = {"startLine": place.line, "startColumn": place.column}
            if place.end > place.column:
                region["endColumn"] = place.end
            hint = f"\nhint: {finding.hint}" if finding.hint else ""
            location = {
                "artifactLocation": {"uri": quote(script.name, errors="surrogateescape")},
                "region": region,
            }
            results.append(
                {
                    "ruleId": finding.code,
                    "level": finding.severity,
                    "message": {"text": finding.message + hint},
                    "locations": [{"physicalLocation": location}],
                }
            )
    rules = [
        {"id": code, "shortDescription": {"text": CODES[code].title}}
        for code in sorted({result["ruleId"] for result in results})
    ]
    driver = {"name": "neuronctl", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    log = {"$schema": schema, "version": "2.1.0", "runs": [run]}
    print_text(json.dumps(log, indent=2))
