"""causes.yaml: each entry is held to its own examples, and its patterns are fast on any line."""

from __future__ import annotations

import os
import re
import time
from typing import List

import pytest

from neuronctl.common import yamlfile
from neuronctl.common.errors import CatalogError
from neuronctl.diagnosis import knowledge, log_search
from neuronctl.slurm.job_states import ENDED

ENTRIES = knowledge.read_entries(yamlfile.read(knowledge.SHIPPED, CatalogError), shipped=True)
FILE = os.path.join(os.path.dirname(__file__), "causes_examples.yaml")
EXAMPLES = yamlfile.read(FILE, CatalogError).data
TRACE = ["Traceback (most recent call last):", '  File "t.py", line 1, in <module>']


def lines_of(entry: knowledge.Entry, key: str) -> List[str]:
    """Return the lines that match an entry, or differ from it, here and in causes.yaml."""
    return [*getattr(entry, key), *EXAMPLES.get(entry.name, {}).get(key, ())]


def is_matched(entry: knowledge.Entry, line: str) -> bool:
    if not entry.patterns:
        return line.partition(":")[0].rpartition(".")[2] in entry.exceptions
    lowered = line.lower()
    return any(
        knowledge.compiled(pattern).search(line)
        and any(need in lowered for need in knowledge.needed_texts(pattern))
        for pattern in entry.patterns
    )


def assert_answer(entry: knowledge.Entry, line: str) -> None:
    """Another entry of the same kind may come first; of warnings and noise, there is no answer."""
    lines = [*TRACE, line] if entry.exceptions and not entry.frame else [line]
    match = log_search.search(lines)
    if entry.role in (knowledge.NOISE, knowledge.WARNING) or entry.frame:
        assert match is None or match.entry.name != entry.name
        return
    assert match is not None and match.kind == entry.kind, (line, match)
    assert "{0}" not in match.cause + match.remedy


def assert_fast(pattern: str, much: float) -> None:
    """Assert that the longest lines that repeat what a pattern asks for take it no time."""
    need = knowledge.needed_texts(pattern)[0]
    assert len(need) >= 3, pattern
    begun = time.process_time()
    for part in (need, f"{need} ", "a", "/a.b ", ": '"):
        knowledge.compiled(pattern).search((need + part * 2000)[:2000])
    assert time.process_time() - begun < much, pattern


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_a_cause_by_its_own_lines(entry: knowledge.Entry) -> None:
    matches, differs = lines_of(entry, "matches"), lines_of(entry, "differs")
    assert differs, "a line that must not match"
    assert not any(is_matched(entry, line) for line in differs)
    assert all(is_matched(entry, line) for line in matches)
    for line in matches:
        assert_answer(entry, line)
    begun = time.process_time()
    sum(range(1_000_000))
    much = 50 * (time.process_time() - begun)
    for pattern in entry.patterns:
        assert any(knowledge.compiled(pattern).search(line) for line in matches), pattern
        assert_fast(pattern, much)


def test_examples_are_of_causes() -> None:
    assert not EXAMPLES.keys() - {entry.name for entry in ENTRIES}


def test_kinds_that_entries_explain_exist() -> None:
    kinds = {entry.kind for entry in ENTRIES} | {"exception", "message", "exit-code", "*"}
    assert {kind for entry in ENTRIES for kind in entry.explains} <= kinds
    assert not kinds & ENDED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x: 3", "an entry has keys of its own"),
        ("x:\n  patterns: a\n", "'means' is missing"),
        ("x:\n  means: a\n", "neither 'patterns' nor 'exceptions'"),
        ("x:\n  means: a\n  patterns: '('\n", "is no regular expression"),
        ("x:\n  means: a\n  patterns: [1]\n", "a text or a list of texts"),
        ("x:\n  role: causes\n  patterns: a\n", "unknown role 'causes'"),
    ],
)
def test_a_wrong_entry_is_named(text: str, words: str) -> None:
    with pytest.raises(CatalogError, match=re.escape(words)) as raised:
        knowledge.read_entries(yamlfile.parse(text, "causes.yaml", CatalogError))
    assert raised.value.message.startswith("causes.yaml:")
