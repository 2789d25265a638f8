"""What the documentation says of a rule: its row in rules.md, and its part of script-rules.md."""

from __future__ import annotations

import re
from typing import List

from neuronctl.errors import UsageError, did_you_mean
from neuronctl.frozen import dataclass
from neuronctl.paths import data_path
from neuronctl.rules import every_rule
from neuronctl.rules.base import Rule

_ROWS = "docs/reference/rules.md"
_PAGES = "docs/reference/script-rules.md"


@dataclass(frozen=True)
class RulePage:
    """A rule in words. severity: ``"error"``, ``"warning"``, or both where it depends.

    finds: what it finds. page: more of it with examples, as plain text; "" where there is no more.
    """

    rule: Rule
    severity: str
    finds: str
    page: str


def rule_page(code: str) -> RulePage:
    """What is known of a rule; raises UsageError for an unknown code."""
    code = code.upper()
    rules = every_rule()
    if code not in rules:
        raise UsageError(f"there is no rule '{code}'", did_you_mean(code, rules))
    rows = re.findall(rf"^\| {code} \| ([a-z, ]+) \| (.*) \|$", _read(_ROWS), re.MULTILINE)
    severity, finds = rows[0] if rows else (rules[code].severity, "")
    sections = re.split(r"^## ", _read(_PAGES), flags=re.MULTILINE)
    page = next((one for one in sections if one.startswith(f"{code}\n")), "")
    return RulePage(rules[code], severity, _plain(finds), _plain_page(page))


def _read(name: str) -> str:
    with open(data_path(name), encoding="utf-8") as file:
        return file.read()


def _plain(text: str) -> str:
    """A line of Markdown without its links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def _plain_page(section: str) -> str:
    """A section without its title; its examples are indented."""
    lines: List[str] = []
    inside = False
    for line in section.split("\n")[1:]:
        fence = re.match(r"```(?:bash (bad|good))?", line)
        if fence is not None:
            inside = not inside
            if inside:
                lines += [f"{'Wrong' if fence[1] == 'bad' else 'Right'}:", ""]
        elif inside:
            lines.append(f"    {line}".rstrip())
        else:
            lines.append(_plain(line))
    return "\n".join(lines).strip()
