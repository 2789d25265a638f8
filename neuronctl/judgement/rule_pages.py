"""Find a rule in docs/reference: its row in rules.md, or its part of script-rules.md."""

from __future__ import annotations

import re
from typing import Mapping

from neuronctl.common.errors import UsageError, did_you_mean
from neuronctl.common.paths import data_path
from neuronctl.rules.base import RULES, Rule


def every_rule() -> Mapping[str, Rule]:
    """Return all rules by code, including those that few commands need."""
    from neuronctl.judgement import forecast  # noqa: F401
    from neuronctl.rules import scripts  # noqa: F401

    return dict(sorted(RULES.items()))


def explanation(code: str) -> str:
    """Return a rule's explanation with its example; raise UsageError for an unknown code."""
    code, rules = code.upper(), every_rule()
    if code not in rules:
        raise UsageError(f"there is no rule '{code}'", did_you_mean(code, rules))
    row = re.search(rf"^\| {code} \| ([a-z, ]+) \| (.*) \|$", _page("rules.md"), re.MULTILINE)
    section = rf"^## {code}\n\n\*([A-Za-z, ]+)\.\* ((?:(?!## ).*\n)+)"
    match = row or re.search(section, _page("script-rules.md"), re.MULTILINE)
    assert match is not None  # a test checks that each has one
    text = f"{code} ({match[1].lower()}): {rules[code].title}\n\n{match[2].strip()}"
    text = text.replace("```diff", "- is wrong, + is right:\n").replace("\n```", "")
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)  # without links


def _page(name: str) -> str:
    with open(data_path(f"docs/reference/{name}"), encoding="utf-8") as file:
        return file.read()
