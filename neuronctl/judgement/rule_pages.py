"""What docs/reference explains of a rule: its row in rules.md, and its part of script-rules.md."""

from __future__ import annotations

import re
from typing import List, Mapping

from neuronctl.common.errors import UsageError, did_you_mean
from neuronctl.common.paths import data_path
from neuronctl.rules.base import RULES, Rule


def every_rule() -> Mapping[str, Rule]:
    """Return all rules by code, those too that few commands need."""
    from neuronctl.judgement import live_rules  # noqa: F401
    from neuronctl.rules import script  # noqa: F401

    return dict(sorted(RULES.items()))


def explanation(code: str) -> str:
    """Return a rule in words, with its example; raise UsageError for an unknown code."""
    code, rules = code.upper(), every_rule()
    if code not in rules:
        raise UsageError(f"there is no rule '{code}'", did_you_mean(code, rules))
    row = re.search(rf"^\| {code} \| ([a-z, ]+) \| (.*) \|$", _page("rules.md"), re.MULTILINE)
    assert row is not None  # a test holds that each has one
    section = re.search(rf"^## {code}\n((?:(?!## ).*\n)+)", _page("script-rules.md"), re.MULTILINE)
    text = f"{code} ({row[1]}): {rules[code].title}\n\n{_plain(row[2])}"
    return text if section is None else f"{text}\n\n{_plain_section(section[1])}"


def _page(name: str) -> str:
    with open(data_path(f"docs/reference/{name}"), encoding="utf-8") as file:
        return file.read()


def _plain(text: str) -> str:
    """Return a line of Markdown without its links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)


def _plain_section(section: str) -> str:
    """Return a section with its example indented."""
    lines: List[str] = []
    inside = False
    for line in section.split("\n"):
        if line.startswith("```"):
            inside = not inside
            lines += ["- is wrong, + is right:", ""] if inside else []
        else:
            lines.append(f"    {line}".rstrip() if inside else _plain(line))
    return "\n".join(lines).strip()
