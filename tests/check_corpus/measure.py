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

import yaml

from neuronctl.catalog.loader import load
from neuronctl.common.console import print_line
from neuronctl.rules import Finding
from neuronctl.submission.existing_script import judge_text

HERE = Path(__file__).parent
DEFAULT = "neuron"

KINDS: Dict[str, str] = {
    kind: codes or "" for kind, codes in yaml.safe_load((HERE / "kinds.yaml").read_text()).items()
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
