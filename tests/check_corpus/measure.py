"""What check finds of the defects that a reader named in the scripts of this folder.

In the ``.txt`` files, a script follows ``=== its name [its cluster]``. Below a line that has a
defect stands what a reader said of it before check saw it: ``@severe KIND words``, or ``@moderate``
or ``@minor``. ``@later CODE`` is what check found there and the reader had not seen, but agreed to.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from neuronctl.catalog.loader import load
from neuronctl.common.console import print_line
from neuronctl.rules import Finding
from neuronctl.submission.existing_script import judge_text

HERE = Path(__file__).parent
DEFAULT = "neuron"

NOT_LOOKED_FOR = """
cores-few export hidden no-ib step-waits unexported fixed-address never-reached one-file csh-set
waits-for-user het-group quotes nothing overlay path-cut shared-tmp
"""
KINDS: Dict[str, str] = {
    **dict.fromkeys(NOT_LOOKED_FOR.split(), ""),
    "account": "NC231",
    "alone": "NC621 NC624",
    "arm": "NC405",
    "array-index": "NC655",
    "by-hand": "NC633",
    "comment": "NC202",
    "cores": "NC132",
    "cores-lost": "NC626",
    "count": "NC623",
    "count-nodes": "NC622 NC624",
    "cut": "NC649",
    "dash": "NC601",
    "exit-code": "NC646",
    "hook": "NC638",
    "idle": "NC625",
    "late": "NC603",
    "limit": "NC111 NC112 NC121 NC141",
    "literal": "NC606 NC601",
    "logs": "NC634",
    "loopback": "NC642",
    "lost": "NC652",
    "mem": "NC211",
    "minutes": "NC612",
    "misspelled": "NC604",
    "no-array": "NC654",
    "no-gpu": "NC122",
    "no-trap": "NC635",
    "no-wait": "NC651",
    "nodes": "NC111",
    "nodes-tasks": "NC611",
    "once": "NC624",
    "one-log": "NC653",
    "overridden": "NC605",
    "own-dir": "NC645",
    "pipe": "NC646",
    "placeholder": "NC643",
    "port": "NC632",
    "rank": "NC631",
    "refused": "NC601 NC602 NC606",
    "secret": "NC640",
    "slots": "NC622",
    "syntax": "NC643",
    "threads": "NC637",
    "too-big": "NC622 NC131",
    "trap-waits": "NC636",
    "twice": "NC621",
    "no-command": "NC660 NC665",
    "no-gpu-asked": "NC122",
    "unfilled": "NC643",
    "conda-init": "NC638",
    "no-step": "NC635",
    "no-gpu-there": "NC121 NC122 NC112 NC123",
    "empty-variable": "NC660",
    "export": "NC661",
    "too-short": "NC612",
    "blind": "NC663",
    "python-m": "NC665",
    "env-as-program": "NC665",
    "joined": "NC649",
    "test-blank": "NC649",
    "no-nv": "NC663",
    "python-twice": "NC665",
    "unfilled-account": "NC643",
    "spread": "NC624",
    "no-program": "NC665",
    "mem-unit": "NC612",
    "own-port": "NC642",
    "quotes-kept": "NC665",
    "gone": "NC638",
}
"""What a reader calls a defect, and the codes that report it; "" if check does not look for it."""


@dataclass(frozen=True)
class Named:
    """A defect that a reader named: on which line, how bad, and of which of KINDS."""

    line: int
    degree: str
    kind: str
    words: str


@dataclass(frozen=True)
class Script:
    name: str
    cluster: str
    text: str
    named: Tuple[Named, ...]
    agreed: Tuple[Tuple[int, str], ...]
    """(line, code) of what the reader agreed to later."""


@dataclass(frozen=True)
class Outcome:
    """One script: its findings, those of them that are wrong, and the defects that were missed."""

    script: Script
    findings: Tuple[Finding, ...]
    wrong: Tuple[Finding, ...]
    missed: Tuple[Named, ...]


def scripts(folder: Path = HERE) -> List[Script]:
    """Every script of the files in a folder."""
    found = []
    for file in sorted(folder.glob("*.txt")):
        head, *parts = re.split(r"(?m)^=== (.+)\n", file.read_text(encoding="utf-8"))
        assert not head, file
        found += [_script(*pair) for pair in zip(parts[::2], parts[1::2])]
    return found


def _script(title: str, body: str) -> Script:
    name, _, cluster = title.partition(" [")
    lines: List[str] = []
    named, agreed = [], []
    for line in body.splitlines():
        match = re.match(r"@(severe|moderate|minor|later) ([\w-]+) ?(.*)", line)
        if match is None:
            lines.append(line)
        elif match[1] == "later":
            agreed.append((len(lines), match[2]))
        else:
            assert match[2] in KINDS, line
            named.append(Named(len(lines), match[1], match[2], match[3]))
    text = "\n".join([*lines, ""])
    return Script(name, cluster.rstrip("]") or DEFAULT, text, tuple(named), tuple(agreed))


def outcomes(every: List[Script], catalog: Path = HERE / "catalog.yaml") -> Iterator[Outcome]:
    """What check makes of scripts."""
    loaded = load(str(catalog))
    for script in every:
        cluster = loaded.cluster(script.cluster)
        found = judge_text(f"{script.name}.sh", script.text, loaded, cluster).findings
        codes = {one.code for one in found}
        said = {code for one in script.named for code in KINDS[one.kind].split()}
        agreed = {code for _, code in script.agreed}
        wrong = [one for one in found if one.code not in said | agreed]
        missed = [one for one in script.named if codes.isdisjoint(KINDS[one.kind].split())]
        yield Outcome(script, found, tuple(wrong), tuple(missed))


def main() -> None:
    """Print recall by degree and by kind, and precision by code."""
    found = list(outcomes(scripts()))
    named = [one for outcome in found for one in outcome.script.named if KINDS[one.kind]]
    missed = [one for outcome in found for one in outcome.missed if KINDS[one.kind]]
    others = Counter(
        one.degree for outcome in found for one in outcome.missed if not KINDS[one.kind]
    )
    print_line(
        f"{len(found)} scripts, {sum(not one.script.named for one in found)} without defects"
    )
    print_line("not looked for: " + ", ".join(f"{count} {name}" for name, count in others.items()))
    for degree in ("severe", "moderate", "minor"):
        total = sum(one.degree == degree for one in named)
        hits = total - sum(one.degree == degree for one in missed)
        print_line(f"{degree:9}{hits:4} of {total:3} found, {100 * hits / max(1, total):.0f} %")
    every = Counter((one.severity, one.code) for two in found for one in two.findings)
    wrong = Counter((one.severity, one.code) for two in found for one in two.wrong)
    for severity in ("error", "warning", "note"):
        total = sum(n for (of, _), n in every.items() if of == severity)
        bad = sum(n for (of, _), n in wrong.items() if of == severity)
        print_line(f"{severity:9}{bad:4} of {total:3} wrong, {100 * bad / max(1, total):.0f} %")
    print_line("")
    print_line("code   said  wrong  named  found")
    for code in sorted({code for _, code in every}):
        said = sum(n for (_, of), n in every.items() if of == code)
        bad = sum(n for (_, of), n in wrong.items() if of == code)
        about = sum(code in KINDS[one.kind].split() for one in named)
        left = sum(code in KINDS[one.kind].split() for one in missed)
        print_line(f"{code}{said:6}{bad:7}{about:7}{about - left:7}")
    print_line("")
    for outcome in found:
        for one in outcome.missed:
            where = f"{outcome.script.name}:{one.line}"
            print_line(f"missed  {where}: {one.degree} {one.kind}: {one.words}")
        for finding in outcome.wrong:
            what, where = finding, f"{outcome.script.name}:{finding.place.line}"
            print_line(f"wrong   {where}: {what.severity} {what.code}: {what.message}")


if __name__ == "__main__":
    main()
